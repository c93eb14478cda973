/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What both sides call the states of an offer, the interrupt modes of a device, nodes, and sets of
 * devices, in sysfs, debugfs and logs.
 */
#ifndef DLEND_NAMES_H
#define DLEND_NAMES_H

#include <dlend/types.h>

/**
 * dlend_offer_state_name - name of a state of an offer: "free", "held" and so on
 * @state: (in) enum dlend_offer_state, or any other number
 *
 * Context: any.
 * Return: a word of a-z, never NULL; "unknown" for a number that is no state.
 */
const char *dlend_offer_state_name(u16 state);

/**
 * dlend_irq_mode_name - name of an interrupt mode: "none", "intx", "msi", "msix"
 * @mode: (in) enum dlend_irq_mode, or any other number
 *
 * Context: any.
 * Return: a word of a-z, never NULL; "unknown" for a number that is no mode.
 */
const char *dlend_irq_mode_name(u32 mode);

/**
 * dlend_name_read - the name of a node or of a set, as far as it can be shown to people
 * @name: (out) DLEND_NODE_NAME_LEN bytes: letters, digits, ".", "_" and "-", and "?" for all else
 * @from: (in) as many bytes, not trusted; the name ends with the first 0
 *
 * Context: any.
 */
void dlend_name_read(char *name, const char *from);

#endif
