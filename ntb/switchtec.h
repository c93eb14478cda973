/* SPDX-License-Identifier: GPL-2.0 */
/* What a Switchtec switch needs besides what the kernel's NTB API knows. */
#ifndef DLEND_NTB_SWITCHTEC_H
#define DLEND_NTB_SWITCHTEC_H

#include <linux/types.h>

struct pci_dev;

/**
 * dlend_switchtec_is - is it such a switch, driven by the kernel's driver?
 * @pdev: (in) function of an NTB, or NULL
 *
 * Context: any; the driver stays bound.
 */
bool dlend_switchtec_is(struct pci_dev *pdev);

/**
 * dlend_switchtec_admit - let requests of a PCI function pass to the other side, or no longer
 * @pdev: (in) NTB function of a switch
 * @rid: (in) PCI id of the requester, as pci_dev_id()
 * @on: (in) let pass
 *
 * The switch passes requests of those only that are in its table, and the kernel's driver has put
 * the host's own there.  What is there already, or is not, is fine.
 * Context: process, may sleep: up to half a second if the other side is at work on the table.
 * Return: 0; -ENOSPC the table is full; -EAGAIN the other side has it; -EIO the switch refuses.
 */
int dlend_switchtec_admit(struct pci_dev *pdev, u16 rid, bool on);

#endif
