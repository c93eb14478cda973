/* SPDX-License-Identifier: GPL-2.0 */
/* What lent functions here reach by peer-to-peer: BARs of other devices. */
#ifndef DLEND_LENDER_P2P_MAPS_H
#define DLEND_LENDER_P2P_MAPS_H

#include <dlend/link.h>

#include "lender/fn.h"

struct seq_file;

/* Where a map leads. */
enum lend_way {
	LEND_WAY_HERE,		/* to a BAR in this host */
	LEND_WAY_FOREIGN,	/* to a BAR that another lender has granted */
	LEND_WAY_BORROWER	/* to an offset in the borrower's aperture */
};

/**
 * struct lend_map - a BAR that a source reaches
 * @node: in the source's list
 * @of_target: in the list of the function, or of the grant, that it leads to; else empty
 * @source: function that does the DMA
 * @domain: of @source
 * @lease: link to the borrower, who has the source and the target
 * @target: name of the function that it leads to
 * @epoch: of the lease of @target
 * @bar: number of the BAR of @target
 * @gpa: guest-physical address at which @source reaches it
 * @size: in bytes
 * @prot: DLEND_PROT_*
 * @way: where it leads
 * @phys: LEND_WAY_HERE: physical address of the BAR
 * @hole: LEND_WAY_HERE: first byte of the part of the BAR that is left out
 * @hole_end: LEND_WAY_HERE: first byte behind that part
 * @link: other ways: to the node whose aperture it leads to, referenced
 * @offset: other ways: in that aperture
 * @missed: another function of the group has ended the same mapping.  This map was to take its
 *	place, but could not be mapped: the domain does not have it
 */
struct lend_map {
	struct list_head node, of_target;
	struct lend_fn *source;
	struct dlend_domain *domain;
	struct dlend_link *lease;
	struct dlend_addr target;
	u32 epoch, bar;
	u64 gpa, size;
	u32 prot;
	enum lend_way way;
	phys_addr_t phys;
	u64 hole, hole_end;
	struct dlend_link *link;
	u64 offset;
	bool missed;
};

/** lend_maps_init - a new function @fn (out) reaches nothing. Context: any. */
void lend_maps_init(struct lend_fn *fn);

/**
 * lend_map_new - make a map for a borrower's request; the map leads nowhere yet
 * @fn: (in) source
 * @link: (in) to the borrower
 * @p: (in) the borrower's request; not trusted
 *
 * Context: process, group lock of @fn.
 * Return: the map, for lend_map_add() or lend_map_free(); NULL: no memory.
 */
struct lend_map *lend_map_new(struct lend_fn *fn, struct dlend_link *link,
			      const struct dlend_p_p2p *p);

/**
 * lend_map_free - free a map that is not in the source's list
 * @map: (in) map
 *
 * Context: process, p2p lock.
 */
void lend_map_free(struct lend_map *map);

/**
 * lend_map_admit - may a source have a map, beside those that it has?
 * @want: (in) map from lend_map_new()
 *
 * Context: process, p2p lock.
 * Return: 0; -ENOSPC it has as many as a VM has BARs; -EEXIST another BAR is at that address;
 * -EBUSY it has that BAR at another address.
 */
int lend_map_admit(const struct lend_map *want);

/**
 * lend_map_fits_window - does the window have room for a map and the source's others over its link?
 * @want: (in) map that leads somewhere
 *
 * Context: process, p2p lock.
 * Return: 0; -ENOSPC.
 */
int lend_map_fits_window(const struct lend_map *want);

/**
 * lend_map_add - enter a map in its source's domain: the source reaches the BAR from now on
 * @map: (in, out) map that leads somewhere; the source owns it on success
 *
 * Context: process, group lock of the source, p2p lock.
 * Return: 0; as dlend_domain_map() or dlend_link_dma_map().
 */
int lend_map_add(struct lend_map *map);

/**
 * lend_maps_end - undo one map, by its exact range
 * @fn: (in, out) source
 * @gpa: (in) guest-physical address
 * @size: (in) in bytes
 *
 * The source does not reach the BAR any more when this returns, unless another function of its
 * group has the same map.
 *
 * Context: process, group lock of @fn, p2p lock.
 * Return: 0; -ENOENT there is no such map.
 */
int lend_maps_end(struct lend_fn *fn, u64 gpa, u64 size);

/**
 * lend_maps_end_all - a source reaches nothing any more when this returns
 * @fn: (in, out) source
 *
 * Context: process, group lock of @fn, p2p lock; waits for no peer.
 */
void lend_maps_end_all(struct lend_fn *fn);

/**
 * lend_maps_forget_missed - forget the maps that could not take another map's place
 * @fn: (in, out) source
 *
 * Context: process, group lock of @fn, p2p lock.
 */
void lend_maps_forget_missed(struct lend_fn *fn);

/**
 * lend_maps_lose - end all maps that lead to one target, and tell the borrowers
 * @maps: (in, out) list of lend_map.of_target
 * @why: (in) for the trace
 *
 * Context: process, p2p lock; waits for no peer.
 */
void lend_maps_lose(struct list_head *maps, const char *why);

/**
 * lend_maps_yield - end all maps of a source in a range, and tell the borrower
 * @fn: (in, out) source
 * @gpa: (in) guest-physical address
 * @size: (in) in bytes
 *
 * Context: process, group lock of @fn, p2p lock.
 */
void lend_maps_yield(struct lend_fn *fn, u64 gpa, u64 size);

/**
 * lend_maps_show - print what a function reaches, for debugfs
 * @fn: (in) source
 * @m: (out) file
 *
 * Context: process, p2p lock.
 */
void lend_maps_show(struct lend_fn *fn, struct seq_file *m);

#endif
