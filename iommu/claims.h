/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Range claims: which range owner (struct dlend_owner) maps which range in the IOMMU domain of a
 * lent group.  (The claim of an offer, struct dlend_claim, is something else.)
 *
 * Functions of one IOMMU group share a domain, and a guest that has two of them maps its memory for
 * each.  So a range can have several claims, one for each owner.  One claim is *live*: its range is
 * mapped in the domain.  The others *wait* in the queue of the live claim.  When that claim ends,
 * the first claim of the queue becomes live.  The call that ends the last claim on a range unmaps
 * the range before it returns, unless the domain was blocked (dlend_claims_block()).
 *
 * A new claim waits only if its range equals that of the live claim, both owners are of the same
 * kind, and both name the same target (dlend_dma_range.thing and .part).  If it overlaps a live
 * claim in any other way, it is refused (-EEXIST).
 *
 * A *mirror* is a range that always has the mappings that a part of an aperture of this node has
 * (dlend_dma_range.ap).
 *
 * Pure: no device, no lock of its own.  The caller is domain.c.  It holds dlend_domain.lock during
 * each call, so the functions of struct dlend_claims_ops run under that lock, too.  Mappings are
 * made by the functions of paging.h, mirrors by struct dlend_claims_ops.
 */
#ifndef DLEND_IOMMU_CLAIMS_H
#define DLEND_IOMMU_CLAIMS_H

#include <linux/idr.h>
#include <linux/rbtree.h>
#include <linux/types.h>
#include <dlend/aperture.h>
#include "maps.h"

struct dlend_claims;

/*
 * Quota of page tables: a count, with a limit, of the page tables that can stay allocated in a
 * domain after everything in it was unmapped.
 *
 * The kernel frees a page table only if one call unmaps the whole range of that table (Linux 7.2,
 * generic_pt/iommu_pt.h, __unmap_range()).  So if a borrower maps and unmaps single pages at ever
 * new addresses, there are more and more tables for as long as the domain exists.  Therefore each
 * table that can stay is counted before a range is mapped, and is never taken off the count again.
 */

/**
 * struct dlend_pt_quota - the page tables that were counted
 * @of: numbers (address / bytes that one table maps) of these tables: first of those that map 2 MiB
 *	each, then of those that map 1 GiB each, then of those that map 512 GiB each
 * @tables: how many these are in all; each takes 4 KiB
 */
struct dlend_pt_quota {
	struct ida of[3];
	u64 tables;
};

/**
 * dlend_pt_quota_init - begin a count, in which no table is counted yet
 * @t: (out) quota
 *
 * Context: any.
 */
void dlend_pt_quota_init(struct dlend_pt_quota *t);

/**
 * dlend_pt_quota_free - forget all counted tables, and free the memory of the count
 * @t: quota, which can be used again, or freed again, after this
 *
 * Context: any.
 */
void dlend_pt_quota_free(struct dlend_pt_quota *t);

/**
 * dlend_pt_quota_add - count the tables that can stay when a range is mapped, and unmapped later
 * @t: quota
 * @first: (in) first address of the range
 * @last: (in) last address of the range, inclusive
 * @pieces: (in) false: one call will unmap the whole range, so only tables at its edges can stay.
 *	true: several calls will unmap it in pieces, or this kernel may free no tables
 *	(dlend_paging.tables_stay): all tables of the range can stay
 * @most: (in) limit for @t->tables, number of tables
 *
 * A table that was counted before is not counted again. If this fails, some tables of the range may
 * have been counted, and stay counted.
 * Context: process, may sleep. Return: 0; -ENOSPC there would be more than @most tables; -ERANGE
 * @last is beyond 4 PiB; -ENOMEM.
 */
int dlend_pt_quota_add(struct dlend_pt_quota *t, u64 first, u64 last, bool pieces, u64 most);

/*
 * Limit for the claims of a domain, live and waiting ones together; a further one gets -ENOSPC.  A
 * guest's memory has some hundred ranges.  Without a limit a borrower could use up this host's
 * memory: every range costs a page table, however small it is.
 */
#define DLEND_CLAIMS_MAX	16384
/*
 * Limit for the page tables that are counted in a domain's quota; a claim that needs more gets
 * -ENOSPC.  The limit is DLEND_CLAIMS_TABLES_MAX, plus DLEND_CLAIMS_TABLES_OF for each 2 MiB of
 * dlend_claims.most.  The first number is for ranges that one call unmaps: each of them can leave a
 * page table at either end.  The second number is for mirrors, and for kernels that free no tables:
 * there a table can stay for each 2 MiB that was ever mapped.
 */
#define DLEND_CLAIMS_TABLES_MAX	(2 * DLEND_CLAIMS_MAX)
#define DLEND_CLAIMS_TABLES_OF	2

/**
 * struct dlend_claims_ops - functions of the caller that claims.c calls
 * @mirror: begin a mirror: map in the domain, from @r->iova on, what @r->ap has mapped from
 *	@r->offset on; until @unmirror, all changes there are made here, too. Return: the mirror,
 *	for @unmirror; or ERR_PTR, and nothing is mapped
 * @unmirror: end a mirror: nothing of it is mapped when this returns
 * @unmapped: for the trace: a live claim has ended, and its range @r was unmapped. Not called if a
 *	waiting claim that leads to the same place has taken the mapping over
 * @lost: report to @owner: its claim on @r waited, and would be live now, but @r could not be
 *	mapped (@err: -errno). The claim ends when this returns
 *
 * All are called in process context, and may sleep. They must not call functions of claims.h for
 * the same domain.
 */
struct dlend_claims_ops {
	void *(*mirror)(struct dlend_claims *c, const struct dlend_dma_range *r);
	void (*unmirror)(struct dlend_claims *c, void *mirror);
	void (*unmapped)(struct dlend_claims *c, const struct dlend_dma_range *r);
	void (*lost)(struct dlend_claims *c, struct dlend_owner *owner,
		     const struct dlend_dma_range *r, int err);
};

/**
 * struct dlend_claims - all claims in one domain; under dlend_domain.lock
 * @pg: the domain in which ranges are mapped; it is the caller's
 * @ops: functions of the caller
 * @maps: mappings of live claims, without mirrors (a mirror has records of its own)
 * @live: tree of the live claims (struct dlend_dma_claim of claims.c), by IOVA; no two overlap
 * @nr: number of claims in all, live or waiting
 * @bytes: bytes of live claims that have an owner, mirrors included, by &enum dlend_owner_kind
 * @most: largest sum of @bytes over all kinds so far, counting a range that is about to be mapped
 * @pt_quota: page tables that can stay allocated
 * @blocked: dlend_claims_block() or dlend_claims_end() was called: no claim is added any more, and
 *	no waiting one becomes live
 */
struct dlend_claims {
	struct dlend_paging *pg;
	const struct dlend_claims_ops *ops;
	struct dlend_maps maps;
	struct rb_root_cached live;
	unsigned int nr;
	u64 bytes[DLEND_OWNER_KINDS];
	u64 most;
	struct dlend_pt_quota pt_quota;
	bool blocked;
};

/**
 * dlend_claims_init - set up the claims of a new domain: there are none
 * @c: (out) claims
 * @pg: (in) domain, empty; the caller keeps it until dlend_claims_end() has returned
 * @ops: (in) functions of the caller
 *
 * Context: any; no lock is needed, as nobody else knows @c yet.
 */
void dlend_claims_init(struct dlend_claims *c, struct dlend_paging *pg,
		       const struct dlend_claims_ops *ops);

/**
 * dlend_claims_add - add an owner's claim on a range: map the range, or let the claim wait
 * @c: claims
 * @owner: owner; the caller keeps it until all its claims have ended
 * @r: (in) range, copied. The caller has checked that it is on no reserved region
 *
 * Context: process, may sleep; under dlend_domain.lock.
 * Return: 0: the claim is live, or waits; else as dlend_domain_map().
 */
int dlend_claims_add(struct dlend_claims *c, struct dlend_owner *owner,
		     const struct dlend_dma_range *r);

/**
 * dlend_claims_del - end an owner's claims that lie inside a range
 * @c: claims
 * @owner: owner
 * @iova: (in) first address of the range
 * @size: (in) bytes, not 0. The caller has checked that the range does not wrap around
 *
 * Context: process, may sleep; under dlend_domain.lock. If a claim of another owner waited and
 * cannot be mapped now, dlend_claims_ops.lost() is called for that owner.
 * Return: how many claims @owner gave up, live or waiting; -EINVAL a claim of @owner straddles an
 * edge of the range: then it gave up none.
 */
int dlend_claims_del(struct dlend_claims *c, struct dlend_owner *owner, u64 iova, u64 size);

/**
 * dlend_claims_drop - end all claims of an owner
 * @c: claims
 * @owner: owner
 *
 * Context: process, may sleep; under dlend_domain.lock. Calls dlend_claims_ops.lost() as
 * dlend_claims_del() does.
 */
void dlend_claims_drop(struct dlend_claims *c, struct dlend_owner *owner);

/**
 * dlend_claims_block - detach the domain from its group, for good: the group's DMA is blocked when
 *	this returns
 * @c: claims of the domain, which may be attached or not
 *
 * From now on dlend_claims_add() fails with -ESHUTDOWN. Live claims stay mapped in the domain until
 * dlend_claims_end(), also when their owners give them up: no device reaches them, so a fence does
 * not have to wait for the unmapping.
 *
 * If the kernel does not detach the domain (see dlend_paging_detach()), this does what
 * dlend_claims_end() does, so that nothing is mapped in the domain any more.
 * Context: process, may sleep; under dlend_domain.lock.
 */
void dlend_claims_block(struct dlend_claims *c);

/**
 * dlend_claims_end - end all claims of all owners, unmap everything, and free all memory of @c
 * @c: claims; dlend_claims_add() fails with -ESHUTDOWN from now on. A second call does nothing
 *
 * Does not call dlend_claims_ops.lost(): on each range, waiting claims end before the live one.
 * Context: process, may sleep; under dlend_domain.lock.
 */
void dlend_claims_end(struct dlend_claims *c);

#endif
