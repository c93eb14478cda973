/* SPDX-License-Identifier: GPL-2.0 */
/* The dlend bus, and what an admin sees of offers on it (docs/ABI/sysfs-bus-dlend). */
#ifndef DLEND_BORROWER_BUS_H
#define DLEND_BORROWER_BUS_H

#include <linux/device/bus.h>

extern const struct bus_type dlend_bus_type;
extern const struct attribute_group *dlend_bus_offer_groups[];

#endif
