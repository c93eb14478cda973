/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Books of pinned guest memory: which chunks are pinned, which extents they make up, and which
 * of these the lender maps.  Pure logic: no locks, no VFIO, no IOMMU; mdev/memory.c does what
 * these books say.
 *
 * A chunk is what was pinned together and must be unpinned together.  An extent is a run of
 * guest-physical addresses with one slot in the aperture and one mapping at the lender; it never
 * crosses a 1 GiB boundary, so that a DIMM's extents are its own and 1 GiB IOMMU pages stay
 * possible.  Between an extent and its slot the translation is fixed: memory that goes away and
 * comes back (firmware) is only mapped in the slot again, and the lender need not hear of it.
 *
 * Several devices of one VM may have these extents mapped, each by a domain of its own at the
 * lender (members, by number).  An extent knows which of them were told of it, and its slot is not
 * free before each of these was told that it is gone, or its lease is over.
 *
 * Memory that is taken away comes back at once if it was firmware that remapped it, and does not
 * if it was unplugged; nobody says which, nor when.  Below 4 GiB a chipset has registers that remap
 * RAM (PAM, SMRAM, TSEG), so the books remember how much there was: a probe that finds less of it
 * than was lost came too early, or the memory is really gone.  Above 4 GiB there is nothing of the
 * kind: what goes there was unplugged, and a guest has stopped using that before.
 */
#ifndef DLEND_MDEV_EXTENT_H
#define DLEND_MDEV_EXTENT_H

#include <linux/bits.h>
#include <linux/list.h>
#include <dlend/types.h>

#define DLEND_EXTENT_MAX	BIT_ULL(30)

#define DLEND_TOLD_MAX	31u		/* members */
#define DLEND_TOLD_LOST	BIT(31)		/* one of them is gone and has never acknowledged */

/*
 * Memory that went away comes back when the VMM is through with all that it changes at once,
 * which is no short time if it waits for other unmaps in between; and nobody tells.  What is
 * not back by then is gone.
 */
#define DLEND_RETURN_MS		250u
/* In a GiB that loses more again and again, and gets nothing back, nothing is expected any more. */
#define DLEND_RETURN_LIMIT_MS	2000u

struct dlend_extent;

/**
 * struct dlend_chunk - pinned together
 * @node: in its block, by address; or in a list of chunks that were taken
 * @extent: that it belongs to, NULL: loose
 * @gpa: guest-physical address
 * @npages: 1..DLEND_CHUNK_PAGES
 * @prot: DLEND_PROT_*
 * @pfn: of the first page
 * @pages: the owner's list of pages, NULL if they are contiguous from @pfn on
 * @owner: the owner's, through what it was pinned
 * @build: number of the build that pinned it
 * @mapped: is in the aperture
 */
struct dlend_chunk {
	struct list_head node;
	struct dlend_extent *extent;
	u64 gpa;
	u32 npages;
	u32 prot;
	u64 pfn;
	void *pages;
	const void *owner;
	u32 build;
	bool mapped;
};

/* What a message to the lender says of extents. */
enum dlend_tale {
	DLEND_TALE_GONE,	/* unmap it: it left the books */
	DLEND_TALE_UNSURE,	/* unmap it: nobody knows whether the last NEW was heard */
	DLEND_TALE_NEW		/* map it */
};

/**
 * struct dlend_extent - one slot, one mapping at the lender
 * @node: in its block, by address; or in a list of dead ones
 * @gpa: guest-physical address
 * @size: bytes
 * @prot: DLEND_PROT_*; its chunks' or more
 * @told: a bit for every member for which the lender maps it, or may; DLEND_TOLD_LOST
 * @unsure: for which of these it may not
 * @asked: is in the message under way
 * @build: number of the build that made it
 * @pinned: bytes of chunks in it; less than @size where memory has gone
 * @slot: the owner's, NULL while there is none
 * @offset: of @slot in the aperture
 * @cookie: the owner's, of @slot in quarantine
 */
struct dlend_extent {
	struct list_head node;
	u64 gpa;
	u64 size;
	u32 prot;
	u32 told, unsure;
	bool asked;
	u32 build;
	u64 pinned;
	void *slot;
	u64 offset;
	u64 cookie;
};

struct dlend_extent_block;

/**
 * struct dlend_extents - the books of one guest
 * @blocks: of 1 GiB each, by address
 * @cursor: block used last: walks go upwards
 * @chunks: how many
 * @extents: how many, dead ones left out
 * @pinned_bytes: in chunks
 * @readonly_bytes: of these not writable
 * @scattered_bytes: of these in chunks that are not contiguous
 */
struct dlend_extents {
	struct list_head blocks;
	struct dlend_extent_block *cursor;
	u64 chunks, extents;
	u64 pinned_bytes, readonly_bytes, scattered_bytes;
};

void dlend_extents_init(struct dlend_extents *x);
/** dlend_extents_destroy - frees what is left of blocks; no chunk or extent may be */
void dlend_extents_destroy(struct dlend_extents *x);

/**
 * dlend_extents_add - enter a chunk that was pinned
 * @chunk: gpa, npages, prot, pfn, pages, build filled in; becomes loose.  It must not cross a
 *	   512-page boundary of guest-physical space.
 *
 * Return: 0; -EEXIST overlaps another; -EINVAL crosses a boundary, or is empty; -ENOMEM.
 */
int dlend_extents_add(struct dlend_extents *x, struct dlend_chunk *chunk);

/** dlend_extents_find_owned - first chunk of @owner that ends above @gpa, NULL if none */
struct dlend_chunk *dlend_extents_find_owned(struct dlend_extents *x, u64 gpa, const void *owner);
/** dlend_extents_owned - bytes in chunks of @owner */
u64 dlend_extents_owned(struct dlend_extents *x, const void *owner);
/** dlend_extents_book_bytes - kernel memory that the books take, but for one block for each GiB */
u64 dlend_extents_book_bytes(const struct dlend_extents *x);

/** dlend_extents_known - for dlend_layout_ops.known */
u64 dlend_extents_known(struct dlend_extents *x, u64 gpa, u64 *next);

/** dlend_extents_find - first chunk that ends above @gpa, NULL if none */
struct dlend_chunk *dlend_extents_find(struct dlend_extents *x, u64 gpa);
/** dlend_extents_next - the chunk after, NULL if it is the last */
struct dlend_chunk *dlend_extents_next(struct dlend_extents *x, struct dlend_chunk *chunk);
/** dlend_extents_next_extent - first extent at or above @gpa that is not dead, NULL if none */
struct dlend_extent *dlend_extents_next_extent(struct dlend_extents *x, u64 gpa);

/**
 * dlend_extents_take - move a chunk out of the books to the end of @out
 *
 * It still points to its extent, which has that much less.
 */
void dlend_extents_take(struct dlend_extents *x, struct dlend_chunk *chunk,
			struct list_head *out);
/** dlend_extents_take_range - every chunk that touches @gpa..@last. Return: how many */
u64 dlend_extents_take_range(struct dlend_extents *x, u64 gpa, u64 last, struct list_head *out);
/**
 * dlend_extents_returns - if it is taken away, may some of @gpa..@last come back at once?
 *
 * If not, it was unplugged: nobody needs to wait for anything, and what is left stands as it did.
 */
bool dlend_extents_returns(struct dlend_extents *x, u64 gpa, u64 last);
/**
 * dlend_extents_lose - dlend_extents_take_range() for memory that was taken away by others
 * @now_ms: any clock's
 *
 * It is expected back, if dlend_extents_returns() says so: dlend_extents_missing().
 */
u64 dlend_extents_lose(struct dlend_extents *x, u64 gpa, u64 last, u64 now_ms,
		       struct list_head *out);
/**
 * dlend_extents_missing - bytes that were lost, have not come back, and may do so yet
 *
 * By how much is there in each GiB: what came back a little otherwise (read-only, other edges)
 * counts as well.
 */
u64 dlend_extents_missing(const struct dlend_extents *x, u64 now_ms);
/** dlend_extents_accept - what is missing is not expected back any more */
void dlend_extents_accept(struct dlend_extents *x, u64 now_ms);
/** dlend_extents_prune - extents in @gpa..@last that have no chunk left, out of the books */
void dlend_extents_prune(struct dlend_extents *x, u64 gpa, u64 last, struct list_head *dead);
/** dlend_extents_take_build - every chunk that build @build pinned. Return: how many */
u64 dlend_extents_take_build(struct dlend_extents *x, u32 build, struct list_head *out);

/**
 * dlend_extents_edge - where an extent begins or ends
 *
 * A chunk that lies across such an edge fits into no extent: pin in pieces that end there.
 * Return: the first such address above @gpa and below @end, or @end.
 */
u64 dlend_extents_edge(struct dlend_extents *x, u64 gpa, u64 end);

/**
 * dlend_extents_torn - would dlend_extents_settle() take what stands out of its extent?
 *
 * What stands leaves a window only while nobody may use it: gates are to be shut before.
 */
bool dlend_extents_torn(struct dlend_extents *x);

/**
 * dlend_extents_settle - after a probe: which extents stay as they are?
 * @dead: receives those that do not, removed from the books
 *
 * A loose chunk that lies in an extent which allows its @prot joins it.  An extent that a loose
 * chunk overlaps otherwise, or that has no chunk left, is dead; its other chunks become loose
 * (and unmapped: the caller must take away the slot before anything else).
 */
void dlend_extents_settle(struct dlend_extents *x, struct list_head *dead);

/**
 * dlend_extents_form - make extents of the loose chunks
 * @build: number of this build
 *
 * Return: 0; -ENOMEM: some are still loose.
 */
int dlend_extents_form(struct dlend_extents *x, u32 build);

/** dlend_extents_kill - one extent out of the books, onto @dead; its chunks become loose */
void dlend_extents_kill(struct dlend_extents *x, struct dlend_extent *extent,
			struct list_head *dead);
/** dlend_extents_kill_all - every extent for which @match (NULL: any) holds */
void dlend_extents_kill_all(struct dlend_extents *x,
			    bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg,
			    struct list_head *dead);

/** dlend_extent_due - is there this to tell member @id of the extent? */
bool dlend_extent_due(const struct dlend_extent *extent, enum dlend_tale what, u32 id);
/** dlend_extent_ask - it goes into a message, from when on the lender may have heard of it */
void dlend_extent_ask(struct dlend_extent *extent, enum dlend_tale what, u32 id);
/**
 * dlend_extent_answer - end of the message that dlend_extent_ask() put it in
 * @ok: it was acknowledged
 *
 * An extent that is in no message is left alone. Return: true if no member may have it any more.
 */
bool dlend_extent_answer(struct dlend_extent *extent, enum dlend_tale what, u32 id, bool ok);
/**
 * dlend_extent_leave - the lease of member @id is over
 * @fenced: its lender says so; if not, its device may reach the slot until the link goes
 *
 * Return: true if no other member may have it.
 */
bool dlend_extent_leave(struct dlend_extent *extent, u32 id, bool fenced);
/** dlend_extents_leave - dlend_extent_leave() for all in the books, of a lease that is fenced */
void dlend_extents_leave(struct dlend_extents *x, u32 id);

#endif
