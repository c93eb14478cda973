/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sets: groups that belong together, and that one node alone may have at a time.  Who has the first
 * one keeps the others from all other nodes.
 */
#ifndef DLEND_LENDER_SET_H
#define DLEND_LENDER_SET_H

#include <dlend/link.h>

#include "lender/group.h"

/**
 * lend_set_put - put a group into a set
 * @group: (in, out) group; who has it now keeps it
 * @name: (in) name of the set, as of dlend_name_read(); "": none
 *
 * Context: process, group lock; takes lend_set_lock.
 * Return: what nodes are told of the group, and of the others of both sets (lend_set_heard()), has
 * changed.
 */
bool lend_set_put(struct lend_group *group, const char *name);

/**
 * lend_set_name - the set that a group is in
 * @group: (in) group
 * @name: (out) DLEND_NODE_NAME_LEN bytes; "": none
 *
 * Context: process; takes lend_set_lock.
 */
void lend_set_name(const struct lend_group *group, char *name);

/**
 * lend_set_step - give the lease of a group an event, with regard to its set
 * @group: (in, out) group
 * @ev: (in) event, without lend_event.keeper
 * @todo: (out) as of lend_lease_step()
 * @others: (out) what nodes are told of other members has changed (lend_set_heard())
 *
 * Nobody else borrows a member of the set meanwhile: so no two nodes get one each.
 * Context: process, group lock; takes lend_set_lock.
 * Return: as lend_lease_step().
 */
int lend_set_step(struct lend_group *group, const struct lend_event *ev, u32 *todo, bool *others);

/**
 * lend_set_reserve - lend_lease_reserve() for a group
 * @group: (in, out) group
 * @whom: (in) as there
 *
 * Context: process, group lock; takes lend_set_lock. Return: as there.
 */
bool lend_set_reserve(struct lend_group *group, const struct lend_for *whom);

/**
 * lend_group_lease - copy the lease of a group
 * @group: (in) group
 * @lease: (out) its lease as it is now
 *
 * Context: process; takes lend_set_lock, and waits for nobody who has the group lock.
 */
void lend_group_lease(const struct lend_group *group, struct lend_lease *lease);

/**
 * lend_set_told - what a node is told of a group, with regard to its set
 * @group: (in) group
 * @lease: (in) its lease, or a copy of it
 * @whom: (in) that node, and the VM that it asks for; NULL: this host's administrator
 * @holder: (out) who has the group, or may have it alone; 0: nobody, or only a VM may
 *
 * Context: process; takes lend_set_lock.
 */
enum dlend_offer_state lend_set_told(const struct lend_group *group, const struct lend_lease *lease,
				     const struct lend_for *whom, u16 *holder);

/**
 * lend_set_heard - is there news of other members, so that nodes have to be told of this one?
 * @group: (in, out) group; when this is asked again, only later news count
 *
 * Context: process; takes lend_set_lock.
 */
bool lend_set_heard(struct lend_group *group);

/**
 * lend_set_message - say in which set a function is
 * @fn: (in) function
 * @msg: (out) SET message, to be posted after the function's offer
 *
 * Context: process; takes lend_set_lock.
 */
void lend_set_message(const struct lend_fn *fn, struct dlend_msg *msg);

#endif
