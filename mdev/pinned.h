/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pin table of a VM's memory: which chunks are pinned, which extents they form, and how much
 * memory was taken away and may come back.
 *
 * A chunk is a run of pages that were pinned together.  The pages are unpinned together, too; or in
 * parts, if VFIO takes away a mapping that ends within the chunk (dlend_pinned_split()).  An extent
 * is a run of guest-physical addresses that has one slot in the aperture and one mapping at each
 * lender.  An extent never crosses a multiple of 1 GiB.  So a DIMM has extents that nothing else is
 * in, and IOMMU pages of 1 GiB are possible.  A chunk that is in no extent (yet) is loose.
 *
 * An extent keeps its slot.  Memory that goes and comes back (firmware does that) is mapped in the
 * same slot again, and the lenders have nothing to do.  An extent that has left the pin table is
 * dead: it exists until no lender can have it mapped any more, so that its slot is not used for
 * other memory before.
 *
 * The VMM does not say whether memory that it takes away will come back, nor when.  Below 4 GiB a
 * chipset has registers that remap RAM (PAM, SMRAM, TSEG): the VMM unmaps the RAM and maps it again
 * at once.  So for memory below 4 GiB the pin table remembers how much there was.  If a scan finds
 * less, the scan came too early, or the memory is really gone.  Above 4 GiB there are no such
 * registers: memory that goes there was unplugged, and a guest stops using memory before it is
 * unplugged.
 *
 * Pure logic: takes no locks, reads no clock, and knows nothing of VFIO or IOMMUs.  The caller
 * serialises all calls about one object (in mdev/: by ram->lock).
 */
#ifndef DLEND_MDEV_PINNED_H
#define DLEND_MDEV_PINNED_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/rbtree.h>

#include "ranges.h"

/*
 * Acknowledgments: which members' lenders have mapped an extent, or may have.
 *
 * A member is the part that one lease (one borrowed device) has in the memory of its VM.  Members
 * have numbers, 0 to DLEND_ACKS_MAX - 1.  For each member there is a separate IOMMU domain at its
 * lender, and there are separate messages about each extent.
 */

/* The most members; bit DLEND_ACKS_MAX of struct dlend_acks.members has another meaning. */
#define DLEND_ACKS_MAX	31u

/* A member has left, and its lender never said that it unmapped the extent. */
#define DLEND_ACKS_LOST	BIT(DLEND_ACKS_MAX)

/* Why a message about an extent is sent to a lender */
enum dlend_change {
	DLEND_CHANGE_GONE,	/* DMA_UNMAP: the extent has left the pin table */
	DLEND_CHANGE_UNSURE,	/* DMA_UNMAP: it is not known whether the last NEW was done */
	DLEND_CHANGE_NEW	/* DMA_MAP: the lender has not mapped the extent */
};

/**
 * struct dlend_acks - acknowledgments for one extent; all zero: no lender has it mapped
 * @members: a bit for each member whose lender has mapped the extent, or may have; DLEND_ACKS_LOST
 * @unsure: a bit for each of these members for which it is not known whether its lender has mapped
 *	the extent: the reply to NEW did not come, or was an error
 * @asked: the extent is in the message that is under way; there is one at a time
 */
struct dlend_acks {
	u32 members, unsure;
	bool asked;
};

/**
 * dlend_acks_any - may any lender have the extent mapped?
 * @acks: (in) acknowledgments
 *
 * Lenders of members that have left without an acknowledgment (DLEND_ACKS_LOST) count.
 *
 * Context: any.
 */
static inline bool dlend_acks_any(const struct dlend_acks *acks)
{
	return acks->members;
}

/** dlend_acks_member - may the lender of member @id have the extent mapped? Context: any. */
static inline bool dlend_acks_member(const struct dlend_acks *acks, u32 id)
{
	return acks->members & BIT(id);
}

/** dlend_acks_lost - has a member left whose lender never acknowledged an unmap? Context: any. */
static inline bool dlend_acks_lost(const struct dlend_acks *acks)
{
	return acks->members & DLEND_ACKS_LOST;
}

/**
 * dlend_acks_due - has a message about the extent to be sent to a lender?
 * @acks: (in) acknowledgments
 * @change: (in) kind of message.  For DLEND_CHANGE_GONE the caller guarantees that the extent has
 *	left the pin table
 * @id: (in) member whose lender the message would go to
 *
 * Context: any. Return: true if so.
 */
bool dlend_acks_due(const struct dlend_acks *acks, enum dlend_change change, u32 id);

/**
 * dlend_acks_ask - note that the extent goes into a message
 * @acks: (in, out) acknowledgments; after NEW the lender counts as one that may have the extent
 *	mapped
 * @change: (in) kind of message
 * @id: (in) member whose lender the message goes to
 *
 * Context: any.
 */
void dlend_acks_ask(struct dlend_acks *acks, enum dlend_change change, u32 id);

/**
 * dlend_acks_answer - note the reply to the message that the extent is in
 * @acks: (in, out) acknowledgments; unchanged if the extent is in no message
 * @change: (in) kind of message
 * @id: (in) member whose lender the message went to
 * @ok: (in) true: the lender has done it; false: an error, or no reply
 *
 * Context: any. Return: true if the extent was in the message, and now no member's lender can have
 * it mapped (DLEND_ACKS_LOST does not count).
 */
bool dlend_acks_answer(struct dlend_acks *acks, enum dlend_change change, u32 id, bool ok);

/**
 * dlend_acks_leave - take a member out, as its lease is over
 * @acks: (in, out) acknowledgments
 * @id: (in) member
 * @fenced: (in) true: the lender has said that it has the device back.  False: the device may reach
 *	the extent's slot until the session ends: sets DLEND_ACKS_LOST
 *
 * Context: any. Return: true if no other member's lender can have the extent mapped.
 */
bool dlend_acks_leave(struct dlend_acks *acks, u32 id, bool fenced);

/* Bytes of the largest extent; no extent crosses a multiple of this. */
#define DLEND_EXTENT_MAX	BIT_ULL(30)

/*
 * Memory that was lost comes back when the VMM has made all changes of one group.  That may take a
 * while, because the VMM waits for other unmaps in between, and the end is not announced.  Memory
 * that has not come back so long after the last loss counts as gone.
 */
#define DLEND_RETURN_MS		250u
/* If a GiB loses memory for so long, and gets none back, then firmware is not the reason. */
#define DLEND_RETURN_LIMIT_MS	2000u

/**
 * struct dlend_chunk - pages that were pinned together, or a part of them
 * @rb: in &dlend_pinned.by_gpa
 * @node: in a list of chunks that have left the pin table
 * @subtree_last: private to the interval tree
 * @extent: extent that has the chunk, NULL: the chunk is loose.  Still set in a chunk that has left
 *	the pin table
 * @gpa: guest-physical address of the first byte
 * @npages: number of pages, 1 to DLEND_CHUNK_PAGES
 * @prot: DLEND_PROT_* that the pages were pinned for
 * @pfn: page frame number of the first page, if @pages is NULL
 * @pages: array of all pages (struct page **); NULL: they are contiguous, from @pfn on
 * @owner: member through which the pages were pinned, and must be unpinned
 * @build: number of the build that pinned the pages
 * @mapped: the chunk is mapped in the aperture
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
 * struct dlend_extent - a range with one slot in the aperture, and one mapping at each lender
 * @rb: in &dlend_pinned.extent_by_gpa
 * @node: in a list of dead extents
 * @subtree_last: private to the interval tree
 * @gpa: guest-physical address of the first byte
 * @size: size of the range in bytes
 * @prot: DLEND_PROT_*, the same as of all chunks in the extent
 * @acks: which lenders may have the extent mapped; while there are any, @slot stays reserved
 * @build: number of the build that made the extent
 * @pinned: bytes of chunks in the extent; less than @size where memory has gone
 * @slot: slot in the aperture, NULL: none; set by the caller
 * @offset: offset of @slot in the aperture; set by the caller
 * @cookie: number by which the slot of a dead extent leaves the quarantine; set by the caller
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
 * @pinned: bytes of chunks in the block
 * @expected: bytes of chunks before some were lost; 0: none were lost
 * @first_ms: time of the first loss since a chunk was last added
 * @last_ms: time of the last loss
 * @used: a chunk was in the block once
 * @came: a chunk was added since @first_ms
 * @leaves: the block has lost memory for DLEND_RETURN_LIMIT_MS, and got none: memory that is lost
 *	now does not come back
 */
struct dlend_block {
	u64 pinned, expected;
	u64 first_ms, last_ms;
	bool used, came, leaves;
};

/*
 * Flags of allocations that are charged to the VMM's memory cgroup.  They fail instead of invoking
 * the OOM killer: it would kill the VMM, whose pinned memory stays until the thread that allocates
 * has unpinned it.
 */
#define DLEND_PINNED_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL)

/**
 * struct dlend_pinned - pin table of one VM's memory
 * @by_gpa: interval tree of the chunks
 * @extent_by_gpa: interval tree of the extents, without dead ones
 * @low: memory that firmware may take away and give back, GiB by GiB
 * @chunks: number of chunks
 * @extents: number of extents, without dead ones
 * @most: limit of @pinned_bytes and of @window_bytes; set by the caller; U64_MAX at first
 * @window_bytes: bytes of all extents, with dead ones until dlend_pinned_bury()
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
 * @chunk: (in, out) allocated chunk; the caller has set gpa, npages, prot, pfn, pages, owner and
 *	build.  On success the pin table has the chunk, which is loose
 *
 * Context: any. Return: 0; -EEXIST it overlaps another chunk; -EINVAL it is empty, or crosses a
 * multiple of DLEND_CHUNK_BYTES; -EDQUOT more than @x->most would be pinned.
 */
int dlend_pinned_add(struct dlend_pinned *x, struct dlend_chunk *chunk);

/** dlend_pinned_find - find the first chunk that ends above @gpa, or NULL. Context: any. */
struct dlend_chunk *dlend_pinned_find(struct dlend_pinned *x, u64 gpa);

/** dlend_pinned_next - find the chunk that follows @chunk, or NULL. Context: any. */
struct dlend_chunk *dlend_pinned_next(struct dlend_pinned *x, struct dlend_chunk *chunk);

/**
 * dlend_pinned_find_owned - find the next chunk of an owner
 * @x: (in) pin table
 * @gpa: (in) address
 * @owner: (in) owner
 *
 * Context: any. Return: the first chunk of @owner that ends above @gpa, or NULL.
 */
struct dlend_chunk *dlend_pinned_find_owned(struct dlend_pinned *x, u64 gpa, const void *owner);

/**
 * dlend_pinned_next_extent - find the next extent
 * @x: (in) pin table
 * @gpa: (in) address
 *
 * Context: any. Return: the first extent that begins at @gpa or above, or NULL.
 */
struct dlend_extent *dlend_pinned_next_extent(struct dlend_pinned *x, u64 gpa);

/* Find the first extent that begins at *@gpa or above, or NULL.  Move *@gpa to its end. */
static inline struct dlend_extent *dlend_pinned_walk(struct dlend_pinned *x, u64 *gpa)
{
	struct dlend_extent *extent = dlend_pinned_next_extent(x, *gpa);

	if (extent)
		*gpa = dlend_extent_end(extent);
	return extent;
}

/** dlend_pinned_owned - bytes in chunks of @owner. Context: any. */
u64 dlend_pinned_owned(struct dlend_pinned *x, const void *owner);

/** dlend_pinned_table_bytes - bytes of kernel memory that the pin table takes. Context: any. */
u64 dlend_pinned_table_bytes(const struct dlend_pinned *x);

/**
 * dlend_pinned_known - is an address pinned?
 * @x: (in) pin table
 * @gpa: (in) address
 * @next: (out) the next pinned address above the pinned run that @gpa is in, or above @gpa if that
 *	is not pinned; U64_MAX if there is none
 *
 * Context: any. Return: the end (exclusive) of the pinned run that @gpa is in, or 0.
 */
u64 dlend_pinned_known(struct dlend_pinned *x, u64 gpa, u64 *next);

/**
 * dlend_pinned_take - move a chunk out of the pin table
 * @x: (in, out) pin table
 * @chunk: (in, out) chunk; it still points to its extent, whose pinned bytes become less
 * @out: (in, out) list that the chunk is appended to; the caller unpins and frees what is there
 *
 * Context: any.
 */
void dlend_pinned_take(struct dlend_pinned *x, struct dlend_chunk *chunk, struct list_head *out);

/**
 * dlend_pinned_take_range - move every chunk that touches a range out of the pin table
 * @x: (in, out) pin table
 * @gpa: (in) first address
 * @last: (in) last address
 * @out: (in, out) list that the chunks are appended to, by address
 *
 * Context: any. Return: number of chunks.
 */
u64 dlend_pinned_take_range(struct dlend_pinned *x, u64 gpa, u64 last, struct list_head *out);

/**
 * dlend_pinned_take_build - move every chunk that a build has pinned out of the pin table
 * @x: (in, out) pin table
 * @build: (in) number of the build
 * @out: (in, out) list that the chunks are appended to, by address
 *
 * Context: any. Return: number of chunks.
 */
u64 dlend_pinned_take_build(struct dlend_pinned *x, u32 build, struct list_head *out);

/**
 * dlend_pinned_split - cut the chunk that lies across an address in two, if there is one
 * @x: (in, out) pin table
 * @gpa: (in) address of a page; the caller guarantees that VFIO can unpin the two parts one by one
 *
 * Both parts are pinned, mapped and in an extent as the whole chunk was.  If memory is short,
 * nothing is done.
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
 * Context: any. Return: true if some of the range is below 4 GiB, in a GiB that has had chunks and
 * does not just shrink; or if a chunk still lies across an edge of the range, because that chunk
 * goes as a whole, and its part outside of the range has to come back.  False: the memory was
 * unplugged: no device has to wait, and all other memory stays as it is.
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
 * Notes how much of that may come back, for dlend_pinned_missing().
 *
 * Context: any. Return: how many chunks.
 */
u64 dlend_pinned_lose(struct dlend_pinned *x, u64 gpa, u64 last, u64 now_ms, struct list_head *out);

/**
 * dlend_pinned_missing - how much was lost, has not come back, and may still do so?
 * @x: (in) pin table
 * @now_ms: (in) time, of the same clock
 *
 * Only amounts are compared, GiB by GiB: memory that came back in another form (read-only, with
 * other edges) counts as well.
 *
 * Context: any. Return: bytes.
 */
u64 dlend_pinned_missing(const struct dlend_pinned *x, u64 now_ms);

/**
 * dlend_pinned_accept - expect no lost memory back any more
 * @x: (in, out) pin table
 * @now_ms: (in) time, of the same clock
 *
 * A GiB that just shrinks is noted as such (&dlend_block.leaves). Context: any.
 */
void dlend_pinned_accept(struct dlend_pinned *x, u64 now_ms);

/**
 * dlend_pinned_edge - find where the next extent begins or ends
 * @x: (in) pin table
 * @gpa: (in) address
 * @end: (in) address above @gpa
 *
 * A chunk that lies across such an edge fits into no extent.  So the caller pins in pieces that end
 * there.
 *
 * Context: any. Return: the first edge above @gpa and below @end, or @end.
 */
u64 dlend_pinned_edge(struct dlend_pinned *x, u64 gpa, u64 end);

/**
 * dlend_pinned_torn - would dlend_pinned_settle() end an extent that has chunks?
 * @x: (in) pin table
 *
 * If so, the caller shuts the gates before, as the mappings of these chunks go and a guest could
 * start DMA to them.
 *
 * Context: any.
 */
bool dlend_pinned_torn(struct dlend_pinned *x);

/**
 * dlend_pinned_settle - fit loose chunks into extents after a scan; end extents that cannot stay
 * @x: (in, out) pin table
 * @dead: (in, out) list that extents that end are moved to
 *
 * A loose chunk that lies within an extent of the same @prot joins the extent.  An extent ends if a
 * loose chunk overlaps it in another way, or if it has no chunk.  The chunks of an extent that ends
 * become loose and count as not mapped: so the caller frees the extent's slot, which unmaps them,
 * before it does anything else.
 *
 * Context: any.
 */
void dlend_pinned_settle(struct dlend_pinned *x, struct list_head *dead);

/**
 * dlend_pinned_form - make extents of all loose chunks
 * @x: (in, out) pin table
 * @build: (in) number of this build
 *
 * Context: may sleep. Return: 0; -EDQUOT extents have more bytes than @x->most; -ENOMEM. After an
 * error some chunks may still be loose.
 */
int dlend_pinned_form(struct dlend_pinned *x, u32 build);

/**
 * dlend_pinned_prune - move extents without a chunk out of the pin table
 * @x: (in, out) pin table
 * @gpa: (in) first address
 * @last: (in) last address: only extents that touch this range are moved
 * @dead: (in, out) list that the extents are moved to
 *
 * Context: any.
 */
void dlend_pinned_prune(struct dlend_pinned *x, u64 gpa, u64 last, struct list_head *dead);

/**
 * dlend_pinned_kill_all - move extents out of the pin table; their chunks become loose
 * @x: (in, out) pin table
 * @match: (in) returns true for an extent that is to be moved; NULL: all are
 * @arg: (in) passed to @match
 * @dead: (in, out) list that the extents are moved to
 *
 * The chunks count as not mapped then, as after dlend_pinned_settle().
 *
 * Context: any.
 */
void dlend_pinned_kill_all(struct dlend_pinned *x,
			   bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg,
			   struct list_head *dead);

/**
 * dlend_pinned_bury - free a dead extent
 * @x: (in, out) pin table
 * @extent: (in) extent, in a list; the caller has freed its slot, or the session is over
 *
 * Context: any.
 */
void dlend_pinned_bury(struct dlend_pinned *x, struct dlend_extent *extent);

/**
 * dlend_pinned_leave - take a member out of the acknowledgments of all extents that are not dead
 * @x: (in, out) pin table
 * @id: (in) member; the caller guarantees that its lender has the device back
 *
 * Context: any.
 */
void dlend_pinned_leave(struct dlend_pinned *x, u32 id);

/*
 * The dma_unmap calls that are under way in one VM: nothing may be pinned in their ranges.
 *
 * Before VFIO unmaps memory it calls dma_unmap for every device of the address space, one after the
 * other.  If VFIO still finds a pin afterwards, it begins again; and when type1 (the legacy
 * container) finds pins there for the 12th time, it stops the kernel with BUG().  So after the call
 * for one device nothing may be pinned there through that device before the calls for all other
 * devices are over, too, on all links.  Otherwise pages would be pinned through the first device
 * while gigabytes are unpinned through the second, then the other way round, and so on.
 */

/*
 * Nothing is pinned in a range for so long after the end of a call: from the end of one call to the
 * begin of the next, VFIO needs less time, unless the scheduler takes the CPU from the thread.
 */
#define DLEND_SETTLE_MS	20u

/*
 * How many ranges have an entry of their own, plus one.  A VM that shrinks fast (virtio-mem) makes
 * call after call, each for another block.  A block whose call has ended long ago must not count as
 * busy because there are calls for other blocks.  Calls for which no entry is left share the last
 * one.
 */
#define DLEND_UNMAP_CALLS_MAX	32u

/**
 * struct dlend_unmap_call - calls about one range
 * @in_flight: number of calls that have begun and not ended
 * @gpa: first address of the range
 * @last: last address of the range
 * @ended_ms: time when a call about the range ended last
 */
struct dlend_unmap_call {
	unsigned int in_flight;
	u64 gpa, last;
	u64 ended_ms;
};

/** struct dlend_unmap_calls - dma_unmap calls of one VM; all zero at first; under vm->lock */
struct dlend_unmap_calls {
	struct dlend_unmap_call range[DLEND_UNMAP_CALLS_MAX];
};

/**
 * dlend_unmap_calls_begin - note that a call begins, whether or not anything is pinned in its range
 * @u: (in, out) calls
 * @gpa: (in) first address
 * @last: (in) last address
 * @now_ms: (in) time, of a clock that has run for more than DLEND_SETTLE_MS
 *
 * Context: any.
 */
void dlend_unmap_calls_begin(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms);

/**
 * dlend_unmap_calls_end - note that a call ends
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
