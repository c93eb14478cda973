/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Range claims: which range owner (struct dlend_owner) maps which range in the IOMMU domain of a
 * lent group.  (The claim of an offer, struct dlend_claim, is something else.)
 *
 * Functions of one IOMMU group share a domain, and a guest that has two of them maps its memory for
 * each.  So a range can have several claims, one for each owner.  One claim is *live*: its mapping
 * is in the domain.  The others wait in its queue; when the live claim ends, the next one takes its
 * place.  The call that ends the last claim on a range unmaps the range before it returns.
 *
 * Pure: no device, no lock.  Mappings are made by the functions of paging.h, mirrors by an ops
 * table.
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
 * Quota of page tables: a count of the page tables that a domain may have by now.
 *
 * The kernel frees a page table only if one call unmaps the whole range of that table (Linux 7.2,
 * generic_pt/iommu_pt.h, __unmap_range()).  So if a borrower maps and unmaps single pages at ever
 * new addresses, there are more and more tables for as long as the domain exists.
 */

/**
 * struct dlend_pt_quota - page tables that may have stayed allocated
 * @of: numbers (address / size) of the tables that map 2 MiB each, 1 GiB each, 512 GiB each
 * @tables: how many these are in all; each takes 4 KiB
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
 * dlend_pt_quota_add - count the tables that may stay when a range is mapped, and unmapped later
 * @t: tables
 * @first: (in) first address
 * @last: (in) last address
 * @pieces: (in) false: one call unmaps the whole range, so only tables at its edges can stay. true:
 *	several calls unmap it in pieces, or this kernel frees no tables: all can stay
 * @most: (in) limit for @t->tables
 *
 * A table that was counted before is not counted again. If this fails, some tables of the range
 * have been counted. Context: process, may sleep. Return: 0; -ENOSPC there would be more than
 * @most; -ERANGE beyond 4 PiB; -ENOMEM.
 */
int dlend_pt_quota_add(struct dlend_pt_quota *t, u64 first, u64 last, bool pieces, u64 most);

/*
 * Limit for the claims of a domain.  A guest's memory has some hundred ranges.  Without a limit a
 * borrower could use up this host's memory: every range costs a page table, however small it is.
 */
#define DLEND_CLAIMS_MAX	16384
/*
 * Limit for page tables.  Each mapping may have left a page table at either end: the first number
 * is for these.  Mirrors may have left a table for each 2 MiB that they ever mapped: for these, the
 * second number is added to the limit for each 2 MiB of the largest amount of memory that was
 * mapped at once.
 */
#define DLEND_CLAIMS_TABLES_MAX	(2 * DLEND_CLAIMS_MAX)
#define DLEND_CLAIMS_TABLES_OF	2

/**
 * struct dlend_claims_ops - functions that domain.c has for claims.c
 * @mirror: begin a mirror: map in the domain at @r->iova what @r->ap has mapped at @r->offset, now
 *	and later. Return: mirror or ERR_PTR
 * @unmirror: end a mirror: nothing of it is mapped when this returns
 * @unmapped: for the trace: the range @r was unmapped
 * @lost: report to @owner: its claim on @r was the next one, but could not be mapped (@err), and
 *	has been ended
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
 * @ops: functions of the caller
 * @maps: mappings, without those of mirrors
 * @live: live claims; no two overlap
 * @nr: number of claims in all, live or waiting
 * @bytes: bytes of live claims, by kind of owner
 * @most: largest sum of @bytes that there was so far
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
 * dlend_claims_init - set up the claims of a new domain: there are none
 * @c: (out) claims
 * @pg: (in) domain, empty
 * @ops: (in) functions of the caller
 *
 * Context: any.
 */
void dlend_claims_init(struct dlend_claims *c, struct dlend_paging *pg,
		       const struct dlend_claims_ops *ops);

/**
 * dlend_claims_add - add an owner's claim on a range: map it, or let it wait
 * @c: claims
 * @owner: owner
 * @r: (in) range, copied
 *
 * Context: process, may sleep. Return: as dlend_domain_map().
 */
int dlend_claims_add(struct dlend_claims *c, struct dlend_owner *owner,
		     const struct dlend_dma_range *r);

/**
 * dlend_claims_del - end an owner's claims inside a range
 * @c: claims
 * @owner: owner
 * @iova: (in) first address
 * @size: (in) bytes, not 0
 *
 * Context: process, may sleep. May call dlend_owner.lost() of other owners.
 * Return: how many claims ended; -EINVAL a claim of @owner straddles an edge of the range: then
 * none ended.
 */
int dlend_claims_del(struct dlend_claims *c, struct dlend_owner *owner, u64 iova, u64 size);

/**
 * dlend_claims_drop - end all claims of an owner
 * @c: claims
 * @owner: owner
 *
 * Context: process, may sleep. May call dlend_owner.lost() of other owners.
 */
void dlend_claims_drop(struct dlend_claims *c, struct dlend_owner *owner);

/**
 * dlend_claims_block - detach the group, for good: its DMA is blocked when this returns
 * @c: claims; those that are live stay mapped in the domain, until dlend_claims_end()
 *
 * If the kernel does not detach the domain, all claims are ended, so that nothing is mapped in it
 * any more.
 * Context: process, may sleep.
 */
void dlend_claims_block(struct dlend_claims *c);

/**
 * dlend_claims_end - end all claims of all owners, and unmap everything
 * @c: claims; dlend_claims_add() fails from now on
 *
 * Context: process, may sleep.
 */
void dlend_claims_end(struct dlend_claims *c);

#endif
