/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Claims: which owner maps which range in the domain of a lent group.
 *
 * Functions of one IOMMU group share a domain, and a guest that has two of them maps its memory for
 * each.  So a range can have several claims, one for each owner.  One claim is live: its mapping is
 * in the domain.  The others wait; when the live one goes, the next one takes over.  The call that
 * ends the last claim on a range unmaps the range before it returns.
 *
 * Pure: numbers, mappings behind the functions of paging.h, mirrors behind an ops table.
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
 * Touched: the page tables that a domain may have by now.
 *
 * The kernel frees a page table only if one call unmaps the whole range of that table (Linux 7.2,
 * generic_pt/iommu_pt.h, __unmap_range()).  So if a borrower maps and unmaps single pages at ever
 * new addresses, the tables grow for as long as the domain exists.
 */

/**
 * struct dlend_pt_quota - tables that may stay
 * @of: numbers of the tables that map 2 MiB each, 1 GiB, 512 GiB
 * @tables: how many these are in all, of 4 KiB
 */
struct dlend_pt_quota {
	struct ida of[3];
	u64 tables;
};

/** dlend_pt_quota_init - no table. Context: any. */
void dlend_pt_quota_init(struct dlend_pt_quota *t);

/** dlend_pt_quota_free - forget all of them. Context: process. */
void dlend_pt_quota_free(struct dlend_pt_quota *t);

/**
 * dlend_pt_quota_add - a range is going to be mapped, and to be unmapped by one call
 * @t: tables
 * @first: (in) first address
 * @last: (in) last address
 * @pieces: (in) it is unmapped in pieces, by several calls; or this kernel frees no tables
 * @most: (in) no more tables than this
 *
 * An address that was touched before costs nothing. If this fails, some of the range counts as
 * touched. Context: process, may sleep. Return: 0; -ENOSPC; -ERANGE beyond 4 PiB; -ENOMEM.
 */
int dlend_pt_quota_add(struct dlend_pt_quota *t, u64 first, u64 last, bool pieces, u64 most);

/*
 * A guest's memory is some hundred ranges.  Without a limit a borrower could use up this host's
 * memory: every range costs a page table, however small it is.
 */
#define DLEND_CLAIMS_MAX	16384
/*
 * Each mapping may have left a page table at either end: the first number limits these.  Mirrors
 * may have left a table for each 2 MiB that they ever mapped: for these there are so many tables
 * more, for each 2 MiB of the largest amount of memory that was mapped at once.
 */
#define DLEND_CLAIMS_TABLES_MAX	(2 * DLEND_CLAIMS_MAX)
#define DLEND_CLAIMS_TABLES_OF	2

/**
 * struct dlend_claims_ops - functions of the claims' user
 * @mirror: make and keep the same mappings as @r->ap has at @r->offset. Return: mirror or ERR_PTR
 * @unmirror: end a mirror: nothing of it is mapped when this returns
 * @unmapped: the range @r is not mapped any more
 * @lost: @owner was to take over with @r, but @r could not be mapped (@err): the claim is gone
 */
struct dlend_claims_ops {
	void *(*mirror)(struct dlend_claims *c, const struct dlend_dma_range *r);
	void (*unmirror)(struct dlend_claims *c, void *mirror);
	void (*unmapped)(struct dlend_claims *c, const struct dlend_dma_range *r);
	void (*lost)(struct dlend_claims *c, struct dlend_owner *owner,
		     const struct dlend_dma_range *r, int err);
};

/**
 * struct dlend_claims - all claims in one domain; the caller serialises
 * @pg: the domain
 * @ops: functions of the user
 * @maps: mappings, without those of mirrors
 * @live: live claims; no two overlap
 * @nr: claims in all
 * @bytes: of live claims, by kind of owner
 * @most: most bytes of live claims that there were at once
 * @pt_quota: page tables that may have been left
 * @blocked: dlend_claims_block() was called
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
 * dlend_claims_init - there is no claim
 * @c: (out) claims
 * @pg: (in) domain, empty
 * @ops: (in) functions of the user
 *
 * Context: any.
 */
void dlend_claims_init(struct dlend_claims *c, struct dlend_paging *pg,
		       const struct dlend_claims_ops *ops);

/**
 * dlend_claims_add - an owner claims a range, all of it or nothing
 * @c: claims
 * @owner: owner
 * @r: (in) range, copied
 *
 * Context: process, may sleep. Return: as dlend_domain_map().
 */
int dlend_claims_add(struct dlend_claims *c, struct dlend_owner *owner,
		     const struct dlend_dma_range *r);

/**
 * dlend_claims_del - an owner gives up its claims inside a range
 * @c: claims
 * @owner: owner
 * @iova: (in) first address
 * @size: (in) bytes, not 0
 *
 * Context: process, may sleep. May call dlend_owner.lost() of other owners.
 * Return: how many claims went; -EINVAL a claim of @owner straddles an edge, none went.
 */
int dlend_claims_del(struct dlend_claims *c, struct dlend_owner *owner, u64 iova, u64 size);

/**
 * dlend_claims_drop - an owner gives up all its claims
 * @c: claims
 * @owner: owner
 *
 * Context: process, may sleep. May call dlend_owner.lost() of other owners.
 */
void dlend_claims_drop(struct dlend_claims *c, struct dlend_owner *owner);

/**
 * dlend_claims_block - no device reaches anything when this returns; for good
 * @c: claims
 *
 * The group is detached. If the kernel does not let go of the domain, all claims end and nothing is
 * mapped in it any more.
 * Context: process, may sleep.
 */
void dlend_claims_block(struct dlend_claims *c);

/**
 * dlend_claims_end - all claims end, nothing is mapped; owners have none left
 * @c: claims; blocked from now on
 *
 * Context: process, may sleep.
 */
void dlend_claims_end(struct dlend_claims *c);

#endif
