/* SPDX-License-Identifier: GPL-2.0 */
/* Can this NTB carry a link? */
#ifndef DLEND_NTB_FIT_H
#define DLEND_NTB_FIT_H

#include <linux/types.h>

#define DLEND_FIT_WHY	192

/**
 * struct dlend_fit - description of an NTB by its driver
 * @crosslink: it joins two switches
 * @peers: how many peers the NTB has
 * @spads: how many scratchpads the peer can write; 0: the peer cannot write any
 * @doorbells: doorbells that the NTB has, a bit for each
 * @translates: this side can set where the windows lead by which the peer reaches this node
 * @db_unsafe: use of its doorbells can lock up the host
 * @spad_unsafe: use of its scratchpads can lock up the host
 * @allow_unsafe: the administrator wants it to be used all the same (dlend_ntb.allow_unsafe)
 */
struct dlend_fit {
	bool crosslink;
	int peers;
	unsigned int spads;
	u64 doorbells;
	bool translates;
	bool db_unsafe, spad_unsafe, allow_unsafe;
};

/**
 * dlend_fit_check - can this NTB carry a link?
 * @fit: (in) description of the NTB
 * @doorbells: (in) bits of those that a link needs
 * @why: (out) the problem, for the log; "" if there is none
 *
 * Context: any.
 * Return: 0: it can; @why is a warning if @allow_unsafe was needed. -EOPNOTSUPP, -EINVAL: it
 * cannot.
 */
int dlend_fit_check(const struct dlend_fit *fit, u64 doorbells, char why[DLEND_FIT_WHY]);

#endif
