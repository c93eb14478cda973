/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of dlend metrics: each prints the families of one kind of thing. */
#ifndef DLEND_TOOL_METRICS_H
#define DLEND_TOOL_METRICS_H

#include "metric.h"

/* metrics_link.c */
void metrics_links(void);
/* metrics_lent.c: devices that this host lends */
void metrics_lent(void);
/* metrics_used.c: offers of all nodes, mediated devices, attached devices */
void metrics_offers(void);
void metrics_mdevs(void);
void metrics_attached(void);

/* metrics_lent.c */
/** metrics_kind - of a device, by the attribute "type" in @dir: "nvme". Return: @kind */
const char *metrics_kind(char kind[TEXT_MAX], const char *dir);

#endif
