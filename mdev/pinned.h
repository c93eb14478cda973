/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Books of pinned guest memory: which chunks are pinned, which extents they make up, and how much
 * memory was taken away and may come back.
 *
 * A chunk is a run of pages that were pinned together.  They are unpinned together, too; or in
 * parts, if VFIO takes away a mapping that ends within the chunk (dlend_pinned_split()).  An extent
 * is a run of guest-physical addresses that has one slot in the aperture and one mapping at each
 * lender.  It never crosses a multiple of 1 GiB.  So a DIMM has extents that nothing else is in,
 * and IOMMU pages of 1 GiB are possible.  A chunk that is in no extent (yet) is loose.
 *
 * An extent keeps its slot.  Memory that goes and comes back (firmware does that) is mapped in the
 * same slot again, and the lender need not be told.
 *
 * The VMM does not say whether memory that it takes away will come back, nor when.  Below 4 GiB a
 * chipset has registers that remap RAM (PAM, SMRAM, TSEG): the VMM unmaps the RAM and maps it again
 * at once.  So for memory below 4 GiB the pin table remembers how much there was.  If a scan finds
 * less, it came too early, or the memory is really gone.  Above 4 GiB there are no such registers:
 * memory that goes there was unplugged, and a guest stops using memory before it is unplugged.
 *
 * Pure logic: takes no locks, reads no clock, and knows nothing of VFIO or IOMMUs.  The caller
 * serialises all calls about one object.
 */
#ifndef DLEND_MDEV_PINNED_H
#define DLEND_MDEV_PINNED_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/rbtree.h>

#include "ranges.h"

/*
 * Who was told of an extent: which members' lenders have mapped it, or may have.
 *
 * A member is the part that one lease (one borrowed device) has in the memory of its VM.  Members
 * have numbers, 0 to DLEND_ACKS_MAX - 1.  Each member's lender has a separate IOMMU domain, and
 * gets separate messages about each extent.
 */

/* The most members; bit DLEND_ACKS_MAX of struct dlend_acks.members has another meaning. */
#define DLEND_ACKS_MAX	31u

/* A member has left, and its lender never said that it unmapped the extent. */
#define DLEND_ACKS_LOST	BIT(DLEND_ACKS_MAX)

/* What a message tells a lender about an extent */
enum dlend_change {
	DLEND_CHANGE_GONE,	/* unmap it: it has left the pin table */
	DLEND_CHANGE_UNSURE,	/* unmap it: the lender may or may not have got the last NEW */
	DLEND_CHANGE_NEW		/* map it */
};

/**
 * struct dlend_acks - who was told of one extent; all zero: no member
 * @members: a bit for each member whose lender maps the extent, or may map it; DLEND_ACKS_LOST
 * @unsure: a bit for each of these members whose lender may have it or not: the answer to NEW did
 *	not come, or was an error
 * @asked: the extent is in the message that is under way
 */
struct dlend_acks {
	u32 members, unsure;
	bool asked;
};

/**
 * dlend_acks_any - may any lender have it, or have had it when its member left? Context: any.
 */
static inline bool dlend_acks_any(const struct dlend_acks *acks)
{
	return acks->members;
}

/** dlend_acks_member - may the lender of member @id have it? Context: any. */
static inline bool dlend_acks_member(const struct dlend_acks *acks, u32 id)
{
	return acks->members & BIT(id);
}

/** dlend_acks_lost - has a member left whose lender never gave it up? Context: any. */
static inline bool dlend_acks_lost(const struct dlend_acks *acks)
{
	return acks->members & DLEND_ACKS_LOST;
}

/**
 * dlend_acks_due - must a lender hear some news?
 * @acks: (in) who was told so far
 * @change: (in) what; DLEND_CHANGE_GONE is asked only of an extent that has left the pin table
 * @id: (in) member whose lender is to be told
 *
 * Context: any. Return: true if it must.
 */
bool dlend_acks_due(const struct dlend_acks *acks, enum dlend_change change, u32 id);

/**
 * dlend_acks_ask - the extent goes into a message; from now on the lender may have heard of it
 * @acks: (in, out) who was told so far
 * @change: (in) what the message says
 * @id: (in) member whose lender it goes to
 *
 * Context: any.
 */
void dlend_acks_ask(struct dlend_acks *acks, enum dlend_change change, u32 id);

/**
 * dlend_acks_answer - the message is over
 * @acks: (in, out) who was told so far; left alone if the extent was in no message
 * @change: (in) what the message said
 * @id: (in) member whose lender it went to
 * @ok: (in) the lender has acknowledged it
 *
 * Context: any. Return: true if no member's lender can have the extent any more.
 */
bool dlend_acks_answer(struct dlend_acks *acks, enum dlend_change change, u32 id, bool ok);

/**
 * dlend_acks_leave - a member's lease is over
 * @acks: (in, out) who was told so far
 * @id: (in) member
 * @fenced: (in) its lender has said that the device is returned.  If not, the device may reach the
 *	extent's slot until the session ends: DLEND_ACKS_LOST
 *
 * Context: any. Return: true if no other member's lender can have the extent.
 */
bool dlend_acks_leave(struct dlend_acks *acks, u32 id, bool fenced);

#define DLEND_EXTENT_MAX	BIT_ULL(30)

/*
 * Memory that was lost comes back when the VMM is through with all that it changes in one go.  That
 * may take a while, because the VMM waits for other unmaps in between, and the end is not
 * announced.  Memory that is not back so long after the last loss counts as gone.
 */
#define DLEND_RETURN_MS		250u
/* If a GiB loses memory for so long, and gets none back, then this is not firmware at work. */
#define DLEND_RETURN_LIMIT_MS	2000u

/**
 * struct dlend_chunk - pages that were pinned together, or a part of them
 * @rb: among the chunks of the pin table
 * @node: in a list of chunks that left the pin table
 * @subtree_last: the interval tree's
 * @extent: extent that it is in, NULL: loose
 * @gpa: guest-physical address
 * @npages: 1 to DLEND_CHUNK_PAGES
 * @prot: DLEND_PROT_*
 * @pfn: of the first page, if @pages is NULL
 * @pages: list of all pages (struct page **); NULL: they are contiguous, from @pfn on
 * @owner: the member through which it was pinned, and must be unpinned
 * @build: number of the build that pinned it
 * @mapped: it is in the aperture
 */
struct dlend_chunk {
	union {
		struct rb_node rb;
		struct list_head node;
	};
	u64 subtree_last;
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

/** dlend_chunk_bytes - size of @chunk. Context: any. */
static inline u64 dlend_chunk_bytes(const struct dlend_chunk *chunk)
{
	return chunk->npages * DLEND_GUEST_PAGE;
}

/** dlend_chunk_end - first address behind @chunk. Context: any. */
static inline u64 dlend_chunk_end(const struct dlend_chunk *chunk)
{
	return dlend_gpa_end(chunk->gpa, chunk->npages);
}

/**
 * struct dlend_extent - one slot, one mapping at each lender
 * @rb: among the extents of the pin table
 * @node: in a list of dead ones (which have left the pin table)
 * @subtree_last: the interval tree's
 * @gpa: guest-physical address
 * @size: bytes
 * @prot: DLEND_PROT_*, as all its chunks have
 * @acks: members whose lenders were told of it; while there are any, @slot stays reserved
 * @build: number of the build that made it
 * @pinned: bytes of chunks in it; less than @size where memory has gone
 * @slot: slot in the aperture, NULL while it has none; for the user of the pin table
 * @offset: offset of @slot
 * @cookie: for @slot in quarantine; for the user of the pin table
 */
struct dlend_extent {
	union {
		struct rb_node rb;
		struct list_head node;
	};
	u64 subtree_last;
	u64 gpa;
	u64 size;
	u32 prot;
	struct dlend_acks acks;
	u32 build;
	u64 pinned;
	void *slot;
	u64 offset;
	u64 cookie;
};

/** dlend_extent_end - first address behind @extent. Context: any. */
static inline u64 dlend_extent_end(const struct dlend_extent *extent)
{
	return extent->gpa + extent->size;
}

/* Chipsets of PCs remap RAM below this address only. */
#define DLEND_REMAP_END		BIT_ULL(32)
#define DLEND_REMAP_BLOCKS	((u32)(DLEND_REMAP_END / DLEND_EXTENT_MAX))

/**
 * struct dlend_block - a GiB below DLEND_REMAP_END
 * @pinned: bytes of its chunks
 * @expected: bytes of its chunks before some were lost; 0: none were lost
 * @first_ms: time of the first loss since a chunk was last added
 * @last_ms: time of the last loss
 * @used: a chunk was there once
 * @came: a chunk was added since @first_ms
 * @leaves: it lost more and more, and nothing came: memory that is lost now does not come back
 */
struct dlend_block {
	u64 pinned, expected;
	u64 first_ms, last_ms;
	bool used, came, leaves;
};

/*
 * For allocations that are charged to the VMM.  They never wait for the OOM killer to make room in
 * the VMM's control group: it would end the VMM, whose pinned memory stays until the thread that
 * waits has unpinned it.
 */
#define DLEND_PINNED_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL)

/**
 * struct dlend_pinned - books of one guest
 * @by_gpa: chunks
 * @extent_by_gpa: extents, without dead ones
 * @low: memory that firmware may take away and give back, GiB by GiB
 * @chunks: number of chunks
 * @extents: number of extents, without dead ones
 * @most: most bytes of chunks, and most bytes of extents; U64_MAX at first
 * @window_bytes: bytes of all extents, with dead ones until they are buried
 * @pinned_bytes: bytes of all chunks
 * @scattered_bytes: bytes of the chunks whose pages are not contiguous
 */
struct dlend_pinned {
	struct rb_root_cached by_gpa, extent_by_gpa;
	struct dlend_block low[DLEND_REMAP_BLOCKS];
	u64 chunks, extents, most, window_bytes;
	u64 pinned_bytes, scattered_bytes;
};

/** dlend_pinned_init - make @x an empty pin table. Context: any. */
void dlend_pinned_init(struct dlend_pinned *x);

/**
 * dlend_pinned_add - enter a chunk that was pinned
 * @x: (in, out) pin table
 * @chunk: (in, out) its gpa, npages, prot, pfn, pages, owner and build are filled in; becomes loose
 *
 * Context: any. Return: 0; -EEXIST it overlaps another chunk; -EINVAL it is empty, or crosses a
 * multiple of DLEND_CHUNK_BYTES; -EDQUOT more than @x->most would be pinned.
 */
int dlend_pinned_add(struct dlend_pinned *x, struct dlend_chunk *chunk);

/** dlend_pinned_find - the first chunk that ends above @gpa, or NULL. Context: any. */
struct dlend_chunk *dlend_pinned_find(struct dlend_pinned *x, u64 gpa);

/** dlend_pinned_next - the chunk that follows @chunk, or NULL. Context: any. */
struct dlend_chunk *dlend_pinned_next(struct dlend_pinned *x, struct dlend_chunk *chunk);

/**
 * dlend_pinned_find_owned - the first chunk of @owner that ends above @gpa, or NULL. Context: any.
 */
struct dlend_chunk *dlend_pinned_find_owned(struct dlend_pinned *x, u64 gpa, const void *owner);

/**
 * dlend_pinned_next_extent - the first extent that begins at @gpa or above, or NULL. Context: any.
 */
struct dlend_extent *dlend_pinned_next_extent(struct dlend_pinned *x, u64 gpa);

/* The next extent from *@gpa on, which moves to its end; or NULL. */
static inline struct dlend_extent *dlend_pinned_walk(struct dlend_pinned *x, u64 *gpa)
{
	struct dlend_extent *extent = dlend_pinned_next_extent(x, *gpa);

	if (extent)
		*gpa = dlend_extent_end(extent);
	return extent;
}

/** dlend_pinned_owned - bytes in chunks of @owner. Context: any. */
u64 dlend_pinned_owned(struct dlend_pinned *x, const void *owner);

/** dlend_pinned_table_bytes - kernel memory that @x needs for what is in it. Context: any. */
u64 dlend_pinned_table_bytes(const struct dlend_pinned *x);

/**
 * dlend_pinned_known - is an address pinned?
 * @x: (in) pin table
 * @gpa: (in) address
 * @next: (out) the next pinned address above the run, or above @gpa if it is not pinned; U64_MAX if
 *	there is none
 *
 * Context: any. Return: the end (exclusive) of the pinned run that @gpa is in, or 0.
 */
u64 dlend_pinned_known(struct dlend_pinned *x, u64 gpa, u64 *next);

/**
 * dlend_pinned_take - move a chunk out of the pin table
 * @x: (in, out) pin table
 * @chunk: (in, out) chunk; it still points to its extent, which has that much less pinned
 * @out: (in, out) list that it is appended to
 *
 * Context: any.
 */
void dlend_pinned_take(struct dlend_pinned *x, struct dlend_chunk *chunk, struct list_head *out);

/**
 * dlend_pinned_take_range - move every chunk that touches a range out of the pin table
 * @x: (in, out) pin table
 * @gpa: (in) first address
 * @last: (in) last address
 * @out: (in, out) list that they are appended to, by address
 *
 * Context: any. Return: how many.
 */
u64 dlend_pinned_take_range(struct dlend_pinned *x, u64 gpa, u64 last, struct list_head *out);

/** dlend_pinned_take_build - as dlend_pinned_take_range(), every chunk of @build. Context: any. */
u64 dlend_pinned_take_build(struct dlend_pinned *x, u32 build, struct list_head *out);

/**
 * dlend_pinned_split - let no chunk lie across an address
 * @x: (in, out) pin table
 * @gpa: (in) address, of a page; VFIO can unpin up to there, and from there on
 *
 * Both parts are pinned, mapped and in an extent as the whole was.  Without memory nothing is done.
 *
 * Context: may sleep.
 */
void dlend_pinned_split(struct dlend_pinned *x, u64 gpa);

/**
 * dlend_pinned_returns - if a range is taken away, may some of it come back at once?
 * @x: (in) pin table
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: any. Return: true if some of it is below 4 GiB, in a GiB that does not just shrink; or
 * if a chunk lies across an edge of the range still, because then it goes as a whole.  False: it
 * was unplugged: no device has to wait, and all other memory stands as before.
 */
bool dlend_pinned_returns(struct dlend_pinned *x, u64 gpa, u64 last);

/**
 * dlend_pinned_lose - as dlend_pinned_take_range(), for memory that was taken away by the VMM
 * @x: (in, out) pin table
 * @gpa: (in) first address
 * @last: (in) last address
 * @now_ms: (in) time, of any clock
 * @out: (in, out) list that the chunks are appended to, by address
 *
 * The pin table expects back what may come back.
 *
 * Context: any. Return: how many chunks.
 */
u64 dlend_pinned_lose(struct dlend_pinned *x, u64 gpa, u64 last, u64 now_ms, struct list_head *out);

/**
 * dlend_pinned_missing - how much was lost, has not come back, and may still do so?
 * @x: (in) pin table
 * @now_ms: (in) time, of the same clock
 *
 * Only amounts are compared, GiB by GiB: memory that came back otherwise (read-only, with other
 * edges) counts as well.
 *
 * Context: any. Return: bytes.
 */
u64 dlend_pinned_missing(const struct dlend_pinned *x, u64 now_ms);

/** dlend_pinned_accept - from now on nothing is expected back; @now_ms: time. Context: any. */
void dlend_pinned_accept(struct dlend_pinned *x, u64 now_ms);

/**
 * dlend_pinned_edge - where does the next extent begin or end?
 * @x: (in) pin table
 * @gpa: (in) address
 * @end: (in) address above it
 *
 * A chunk that lies across such an edge fits into no extent.  So pin in pieces that end there.
 *
 * Context: any. Return: the first edge above @gpa and below @end, or @end.
 */
u64 dlend_pinned_edge(struct dlend_pinned *x, u64 gpa, u64 end);

/**
 * dlend_pinned_torn - would dlend_pinned_settle() take chunks that stand out of their extent?
 * @x: (in) pin table
 *
 * Chunks that stand may leave a window only while no guest can use it: shut the gates before.
 *
 * Context: any.
 */
bool dlend_pinned_torn(struct dlend_pinned *x);

/**
 * dlend_pinned_settle - after a scan: which extents stay as they are?
 * @x: (in, out) pin table
 * @dead: (in, out) list that the others are moved to
 *
 * A loose chunk that lies within an extent of the same @prot joins the extent.  An extent is dead
 * if a loose chunk overlaps it otherwise, or if it has no chunk left.  Its other chunks become
 * loose and count as not mapped: the caller takes away the slot before anything else.
 *
 * Context: any.
 */
void dlend_pinned_settle(struct dlend_pinned *x, struct list_head *dead);

/**
 * dlend_pinned_form - make extents of the loose chunks
 * @x: (in, out) pin table
 * @build: (in) number of this build
 *
 * Context: may sleep. Return: 0; -EDQUOT extents have more than @x->most; -ENOMEM. After an error
 * some chunks are still loose.
 */
int dlend_pinned_form(struct dlend_pinned *x, u32 build);

/**
 * dlend_pinned_prune - extents without a chunk leave the pin table
 * @x: (in, out) pin table
 * @gpa: (in) first address
 * @last: (in) last address: only extents that touch this range
 * @dead: (in, out) list that they are moved to
 *
 * Context: any.
 */
void dlend_pinned_prune(struct dlend_pinned *x, u64 gpa, u64 last, struct list_head *dead);

/**
 * dlend_pinned_kill_all - all extents of some kind leave the pin table; their chunks become loose
 * @x: (in, out) pin table
 * @match: (in) which ones, NULL: all
 * @arg: (in) for @match
 * @dead: (in, out) list that they are moved to
 *
 * Context: any.
 */
void dlend_pinned_kill_all(struct dlend_pinned *x,
			   bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg,
			   struct list_head *dead);

/** dlend_pinned_bury - free a dead extent, whose part of the window is free. Context: any. */
void dlend_pinned_bury(struct dlend_pinned *x, struct dlend_extent *extent);

/** dlend_pinned_leave - dlend_acks_leave() of all extents, for member @id, fenced. Context: any. */
void dlend_pinned_leave(struct dlend_pinned *x, u32 id);

/*
 * The dma_unmap calls that are under way in one VM: nothing may be pinned in their ranges.
 *
 * Before VFIO unmaps memory it calls dma_unmap of every device of the address space, one after the
 * other.  If it still finds a pin afterwards, it begins again; type1 (the legacy container) does so
 * ten times and then stops the kernel with BUG().  So a device that has been called must not pin
 * there again before all other devices have been called, too, on all links.  Otherwise the first
 * device would pin while the second unpins gigabytes, then the second while the first unpins them,
 * and so on until the tenth time.
 */

/*
 * Nothing is pinned in a range for so long after the end of a call: VFIO gets from one device to
 * the next in less time, unless the scheduler takes the CPU from it.
 */
#define DLEND_SETTLE_MS	20u

/*
 * How many ranges are told apart.  A VM that shrinks fast (virtio-mem) makes call after call, each
 * for another block.  A block whose call has ended long ago must not count as busy because there
 * are calls for other blocks.  Calls share the last entry if no other entry is left.
 */
#define DLEND_UNMAP_CALLS_MAX	32u

/**
 * struct dlend_unmap_call - calls about one range
 * @in_flight: how many have begun and not ended
 * @gpa: first address of the range
 * @last: last address of the range
 * @ended_ms: when a call about it ended last
 */
struct dlend_unmap_call {
	unsigned int in_flight;
	u64 gpa, last;
	u64 ended_ms;
};

/** struct dlend_unmap_calls - of one VM; begins as zeroes */
struct dlend_unmap_calls {
	struct dlend_unmap_call range[DLEND_UNMAP_CALLS_MAX];
};

/**
 * dlend_unmap_calls_begin - a call begins, whether or not anything is pinned in its range
 * @u: (in, out) calls
 * @gpa: (in) first address
 * @last: (in) last address
 * @now_ms: (in) time, of a clock that has run for more than DLEND_SETTLE_MS
 *
 * Context: any.
 */
void dlend_unmap_calls_begin(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms);

/**
 * dlend_unmap_calls_end - a call ends
 * @u: (in, out) calls
 * @gpa: (in) as when the call began
 * @last: (in) as when the call began
 * @now_ms: (in) time, of the same clock
 *
 * Context: any.
 */
void dlend_unmap_calls_end(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms);

/**
 * dlend_unmap_calls_busy - may a part of a range still be under unmap?
 * @u: (in) calls
 * @gpa: (in) first address
 * @last: (in) last address
 * @now_ms: (in) time, of the same clock
 *
 * Context: any. Return: true if a call about some of it is under way, or ended DLEND_SETTLE_MS ago
 * or less.
 */
bool dlend_unmap_calls_busy(const struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms);

#endif
