/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts that need no processor of the lender, the borrower's side. */
#ifndef DLEND_NTB_IRQ_DIRECT_H
#define DLEND_NTB_IRQ_DIRECT_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>

struct device;
struct dlend_link;
struct fwnode_handle;
struct irq_domain;

/**
 * struct dlend_directs - direct interrupts of a link
 * @lock: guards the rest; the aperture's lock is taken inside it
 * @allowed: the administrator allows them; no lock
 * @domain, @fwnode: where vectors come from; NULL: not needed so far
 * @dev: as whose interrupts the peer's writes arrive; a reference
 * @ready: the peer's second window leads to this host's interrupts; under link->state_lock
 * @page: where in that window
 * @party: whose they are, while @users
 * @users: how many sets of vectors there are
 * @old: sets that may still be written to, until the next session
 */
struct dlend_directs {
	struct mutex lock;		/* guards the rest */
	bool allowed;
	struct irq_domain *domain;
	struct fwnode_handle *fwnode;
	struct device *dev;
	bool ready;
	u64 page;
	struct dlend_party party;
	unsigned int users;
	struct list_head old;
};

/** dlend_directs_init - none yet, and none allowed. Context: any. */
void dlend_directs_init(struct dlend_link *link);

/**
 * dlend_directs_recall - allow them if the admin did so before, for a link of this name
 * @link: link; it has its name
 *
 * If nothing was said of it, the module's parameter counts. Context: process.
 */
void dlend_directs_recall(struct dlend_link *link);

/** dlend_directs_begin - a session begins: what the last one used is free. Context: process. */
void dlend_directs_begin(struct dlend_link *link);

/** dlend_directs_rest - the peer reaches no interrupts any more. Context: process, state_lock. */
void dlend_directs_rest(struct dlend_link *link);

/** dlend_directs_free - the link goes, and nobody has vectors of it. Context: process. */
void dlend_directs_free(struct dlend_link *link);

/**
 * dlend_directs_allow - may devices of this link's peer have them?
 * @link: link
 * @allowed: (in) no: those that are in use stay until their users set up interrupts again
 *
 * Remembered by the link's name. Context: process, may sleep. Return: 0; -ENOMEM.
 */
int dlend_directs_allow(struct dlend_link *link, bool allowed);

/** dlend_directs_allowed - what dlend_directs_allow() has set. Context: any. */
bool dlend_directs_allowed(struct dlend_link *link);

#endif
