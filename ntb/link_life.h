/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a link comes and goes: dlend_link_add(), dlend_link_remove() (dlend/link_hw.h), and the class
 * of their devices.
 */
#ifndef DLEND_NTB_LINK_LIFE_H
#define DLEND_NTB_LINK_LIFE_H

#include <linux/device/class.h>

/* /sys/class/dlend_link; registered while the module is there. */
extern const struct class dlend_link_class;

#endif
