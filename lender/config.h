/* SPDX-License-Identifier: GPL-2.0 */
/* A lent function's configuration space, for its borrower. */
#ifndef DLEND_LENDER_CONFIG_H
#define DLEND_LENDER_CONFIG_H

#include "lender/fn.h"

/**
 * lend_config_read - read a register for the borrower
 * @fn: (in) function
 * @want: (in) which one; not trusted
 * @got: (out) what it holds, without addresses of this host
 *
 * Context: process, group lock; waits for nobody.
 * Return: 0; -EINVAL no such access; -EAGAIN the function is being reset.
 */
int lend_config_read(struct lend_fn *fn, const struct dlend_p_cfg *want, struct dlend_p_cfg *got);

/**
 * lend_config_write - write a register for the borrower
 * @fn: (in, out) function
 * @link: (in) to the borrower
 * @epoch: (in) of the lease, as the borrower says
 * @want: (in) which one, and what; not trusted
 *
 * A write of VPD's address is answered when the word was moved: the kernel gives the device 125 ms
 * for one, and the first one also waits until the kernel knows how many there are.  No fence waits
 * for that; a reset waits for the one word.
 *
 * Context: process, message handler; takes reset_lock (VPD) and the group lock.
 * Return: 0; -EINVAL no such access; -EPERM the filter has no bit there; -EAGAIN the function is
 * being reset; as lend_lease_enter(); for VPD as pci_read_vpd(), pci_write_vpd(), or -EIO.
 */
int lend_config_write(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
		      const struct dlend_p_cfg *want);

#endif
