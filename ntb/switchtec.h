/* SPDX-License-Identifier: GPL-2.0 */
/* What a Switchtec switch needs besides what the kernel's NTB API knows. */
#ifndef DLEND_NTB_SWITCHTEC_H
#define DLEND_NTB_SWITCHTEC_H

#include <linux/types.h>

struct dlend_requesters;
struct pci_dev;

/**
 * dlend_switchtec_is - is it such a switch, driven by the kernel's driver?
 * @pdev: (in) function of an NTB, or NULL
 *
 * Context: any; the driver stays bound.
 */
bool dlend_switchtec_is(struct pci_dev *pdev);

/**
 * dlend_switchtec_admit - say which PCI functions may send requests to the other side
 * @pdev: (in) NTB function of a switch
 * @these: (in, out) their ids
 *
 * The switch passes requests of those only that are in its table.  The kernel's driver has put the
 * host's own there, which stay; all else in the table is of this function.
 * Context: process, may sleep: up to a second if the other side is at work on the table.
 * Return: 0; or the table is as before: -ENOSPC it is full; -EAGAIN the other side has it; -EIO the
 * switch refuses; -ENODEV it does not answer.
 */
int dlend_switchtec_admit(struct pci_dev *pdev, struct dlend_requesters *these);

/**
 * dlend_switchtec_free - for how many PCI functions more there is room in the table
 * @pdev: (in) NTB function of a switch
 *
 * Context: process, may sleep as dlend_switchtec_admit().
 * Return: their number; -ENODEV the switch does not answer.
 */
int dlend_switchtec_free(struct pci_dev *pdev);

#endif
