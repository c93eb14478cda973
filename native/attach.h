/* SPDX-License-Identifier: GPL-2.0 */
/* From an offer to a device in this host's PCI tree, and back. */
#ifndef DLEND_NATIVE_ATTACH_H
#define DLEND_NATIVE_ATTACH_H

#include <linux/types.h>

/**
 * dlend_native_attach_start - know all offers from now on
 *
 * Context: process, may sleep. Return: 0; -ENOMEM.
 */
int dlend_native_attach_start(void);

/** dlend_native_attach_stop - detach everything, forget all offers. Context: process, may sleep. */
void dlend_native_attach_stop(void);

#endif
