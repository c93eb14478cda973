/* SPDX-License-Identifier: GPL-2.0 */
/* What a Switchtec switch needs besides what the kernel's NTB API knows. */
#ifndef DLEND_NTB_SWITCHTEC_H
#define DLEND_NTB_SWITCHTEC_H

#include <linux/types.h>

struct dlend_requesters;
struct pci_dev;
struct switchtec_dev;

/**
 * dlend_switchtec_of - what the kernel's driver has of such a switch
 * @pdev: (in) function of an NTB, or NULL
 *
 * Context: any, but not while that driver is being unbound: it forgets this first.
 * Return: as below, valid until the NTB's client has been removed; NULL: it is no such switch.
 */
struct switchtec_dev *dlend_switchtec_of(struct pci_dev *pdev);

/**
 * dlend_switchtec_admit - say which PCI functions may send requests to the other side
 * @stdev: (in) the switch
 * @these: (in, out) their ids
 *
 * The switch passes requests of those only that are in its table.  The kernel's driver has put the
 * host's own there, which stay; all else in the table is of this function.
 * Context: process, may sleep: up to a second if the other side is at work on the table.
 * Return: 0; or the table is as before: -ENOSPC it is full; -EAGAIN the other side has it; -EIO the
 * switch refuses; -ENODEV it does not answer.
 */
int dlend_switchtec_admit(struct switchtec_dev *stdev, struct dlend_requesters *these);

/**
 * dlend_switchtec_free - for how many PCI functions more there is room in the table
 * @stdev: (in) the switch
 *
 * Context: process, may sleep as dlend_switchtec_admit().
 * Return: their number; -ENODEV the switch does not answer.
 */
int dlend_switchtec_free(struct switchtec_dev *stdev);

#endif
