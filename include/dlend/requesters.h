/* SPDX-License-Identifier: GPL-2.0 */
/* Whose requests pass over a link, where the hardware has to be told. */
#ifndef DLEND_REQUESTERS_H
#define DLEND_REQUESTERS_H

#include <linux/bitmap.h>
#include <linux/types.h>

/* PCI ids, as pci_dev_id(). */
#define DLEND_REQUESTER_IDS	65536

/**
 * struct dlend_requesters - which of this node's PCI functions are to pass over a link
 * @keep: (in) a bit for each id: those that pass already go on to, others do not any more
 * @add: (in) a bit for each id that is to pass besides
 * @places: (out) on -ENOSPC: how many the hardware has
 * @free: (out) on -ENOSPC: how many of these are free
 * @needed: (out) on -ENOSPC: how many @add needs
 */
struct dlend_requesters {
	DECLARE_BITMAP(keep, DLEND_REQUESTER_IDS);
	DECLARE_BITMAP(add, DLEND_REQUESTER_IDS);
	unsigned int places, free, needed;
};

#endif
