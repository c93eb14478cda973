// SPDX-License-Identifier: GPL-2.0
/*
 * Prober of a guest's memory layout.
 *
 * VFIO has no call that says where a guest's RAM is: the only way to know is to pin.  This walks
 * guest-physical space upwards, pins what pins, and finds every edge to the page.  Where the ranges
 * in which RAM may be are known (a VM's memory slots), a hole in one of them is looked through in
 * steps of STEP, which is the smallest block that virtio-mem plugs.  Where they are not, it goes
 * from landmark to landmark (where PCs have RAM begin), and in steps of STEP only NEAR memory.
 * Wherever it comes upon memory after a hole it looks back for the page where that memory begins: a
 * hole that ends between two steps costs nothing but a few calls, and no RAM behind it is lost.
 *
 * Pure logic: knows nothing of VFIO, IOMMUs, locks or time; the world is struct dlend_layout_ops.
 */
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <dlend/alloc.h>
#include <dlend/layout.h>

#define GUEST_PAGE	4096ULL
#define CHUNK		(DLEND_CHUNK_PAGES * GUEST_PAGE)
#define KIB(n)		((u64)(n) << 10)
#define MIB(n)		((u64)(n) << 20)
#define GIB(n)		((u64)(n) << 30)

/* Smallest piece of RAM that is never missed (QEMU's virtio-mem has blocks of 1 MiB and more). */
#define STEP		MIB(1)
/* Without ranges: so far from memory there may be more of it that is on no landmark. */
#define NEAR		MIB(512)

/* A page that is RAM and cannot be pinned: not an edge.  Inside of this file only. */
#define ERR_UNPINNABLE	(-EDOM)

/* How often the same edge may read differently twice before the layout counts as changing. */
#define MAX_FLAPS	16

#define PROT_RW		(DLEND_PROT_READ | DLEND_PROT_WRITE)

/* One successful pin call. */
struct journal_entry {
	u64 gpa;
	u32 npages;
};

/* What this probe has pinned, for an abort: a page's worth of entries at a time. */
struct journal {
	struct journal *prev;
	u32 count;
	struct journal_entry entry[254];
};

/**
 * struct probe - one walk
 * @ops: the world
 * @ctx: its argument
 * @max: end of guest-physical space
 * @near: end of what is looked through in steps of STEP, without ranges
 * @journal: newest block, NULL if nothing is pinned
 * @flaps: edges that read differently the second time
 */
struct probe {
	const struct dlend_layout_ops *ops;
	void *ctx;
	u64 max, near;
	struct journal *journal;
	unsigned int flaps;
};

/* -EFAULT is one of many pages only: see single(). */
static bool is_hole(int err)
{
	return err == -EINVAL || err == -ENOENT || err == -EFAULT;
}

/* The pin failed because of what is (not) there, and the probe goes on. */
static bool is_edge(int err)
{
	return is_hole(err) || err == -EPERM;
}

/* Where PCs have RAM begin, above @gpa. */
static u64 next_landmark(u64 gpa)
{
	if (gpa < KIB(640))			/* VGA's hole, RAM without VGA */
		return KIB(640);
	if (gpa < KIB(768))			/* option ROMs */
		return KIB(768);
	if (gpa < MIB(1))			/* a PAM register covers 16 KiB at least */
		return ALIGN(gpa + 1, KIB(16));
	if (gpa < GIB(4))
		return ALIGN(gpa + 1, MIB(1));
	if (gpa < GIB(2048))			/* high RAM, DIMMs; 1 TiB with AMD's HT hole */
		return ALIGN(gpa + 1, MIB(128));
	return ALIGN(gpa + 1, GIB(1));
}

/* Where to look next for memory; @gpa is in a hole. */
static u64 next_look(const struct probe *p, u64 gpa)
{
	if (gpa < MIB(1))
		return p->ops->range ? ALIGN(gpa + 1, KIB(16)) : next_landmark(gpa);
	if (p->ops->range || gpa < p->near)
		return ALIGN(gpa + 1, STEP);
	return next_landmark(gpa);
}

/*
 * What a failed pin of one page says.  -EFAULT: it is mapped, but cannot be pinned for long.  That
 * is a BAR: the VMM maps those of all its devices, also of the borrowed one, whose fault handler
 * refuses anybody but the guest.  Or it is RAM of a kind that cannot be pinned, which is no hole.
 */
static int single(struct probe *p, u64 gpa, int err)
{
	if (err != -EFAULT)
		return err;
	/* Every PC has RAM at 0. */
	if (gpa && !(p->ops->is_ram && p->ops->is_ram(p->ctx, gpa)))
		return -EINVAL;
	return ERR_UNPINNABLE;
}

/* Room for one more entry, before the pin that it will describe. */
static int journal_reserve(struct probe *p)
{
	struct journal *block = p->journal;

	if (block && block->count < ARRAY_SIZE(block->entry))
		return 0;
	block = kmalloc_obj(*block);
	if (!block)
		return -ENOMEM;
	block->prev = p->journal;
	block->count = 0;
	p->journal = block;
	return 0;
}

/* Newest first; @undo: unpin what the journal says, else only forget it. */
static void journal_end(struct probe *p, bool undo)
{
	while (p->journal) {
		struct journal *block = p->journal;

		while (undo && block->count) {
			const struct journal_entry *e = &block->entry[--block->count];

			p->ops->unpin(p->ctx, e->gpa, e->npages);
		}
		p->journal = block->prev;
		kfree(block);
	}
}

static int pin(struct probe *p, u64 gpa, u32 npages, u32 prot)
{
	struct journal_entry *e;
	int err;

	if (p->ops->stop(p->ctx))
		return -EINTR;
	err = journal_reserve(p);
	if (err)
		return err;
	err = p->ops->pin(p->ctx, gpa, npages, prot);
	if (err)
		return npages == 1 ? single(p, gpa, err) : err;
	e = &p->journal->entry[p->journal->count++];
	e->gpa = gpa;
	e->npages = npages;
	return 0;
}

/* Would it pin?  Nothing stays pinned.  0 or the error of the pin. */
static int test(struct probe *p, u64 gpa, u32 npages, u32 prot)
{
	int err;

	if (p->ops->stop(p->ctx))
		return -EINTR;
	err = p->ops->pin(p->ctx, gpa, npages, prot);
	if (!err)
		p->ops->unpin(p->ctx, gpa, npages);
	else if (npages == 1)
		err = single(p, gpa, err);
	return err;
}

/*
 * Pin the longest run from @gpa on, @npages at most: the whole, or piece by piece by bisection.
 * @done: pages pinned.  Return: 0, also if @done < @npages; an aborting error.
 */
static int pin_prefix(struct probe *p, u64 gpa, u32 npages, u32 prot, u32 *done)
{
	u32 lo = 0, hi = npages;	/* [0, lo) is pinned; the edge is before hi */
	int err = pin(p, gpa, npages, prot);

	*done = npages;
	if (!err)
		return 0;
	while (is_edge(err) && hi - lo > 1) {
		u32 half = (hi - lo) / 2;

		err = pin(p, gpa + lo * GUEST_PAGE, half, prot);
		if (!err)
			lo += half;
		else
			hi = lo + half;
		if (!err)
			err = -EINVAL;	/* the edge is still ahead */
	}
	*done = lo;
	return is_edge(err) ? 0 : err;
}

/*
 * @at is memory (or the end of a known run's hole): move it down to where that memory begins, not
 * below @floor.  Everything is only tested: the walk pins it on its way up.
 */
static int look_back(struct probe *p, u64 floor, u64 *at)
{
	while (*at > floor) {
		u64 base = max(floor, ALIGN_DOWN(*at - 1, CHUNK));
		u32 lo = 0, hi = (*at - base) / GUEST_PAGE;
		int err;

		/* One page first: it nearly always fails, and then at once. */
		err = test(p, *at - GUEST_PAGE, 1, DLEND_PROT_READ);
		if (err)
			return is_edge(err) ? 0 : err;
		hi--;
		err = hi ? test(p, base, hi, DLEND_PROT_READ) : 0;
		if (!err) {
			*at = base;
			continue;
		}
		/* Pages from hi on are memory; the last that is not lies in [lo, hi). */
		while (is_edge(err) && hi - lo > 1) {
			u32 half = (hi - lo) / 2;

			err = test(p, base + (hi - half) * GUEST_PAGE, half, DLEND_PROT_READ);
			if (!err)
				hi -= half;
			else
				lo = hi - half;
			if (!err)
				err = -EINVAL;
		}
		*at = base + hi * GUEST_PAGE;
		return is_edge(err) ? 0 : err;
	}
	return 0;
}

/*
 * @gpa does not pin for writing.  Pin read-only what is read-only from there on, up to @end.
 * Writable pages would pin for reading as well, hence the test of each.
 * @done: pages pinned; 0 and *hole: it is a hole.
 */
static int pin_readonly(struct probe *p, u64 gpa, u64 end, u32 *done, bool *hole)
{
	u32 npages = (end - gpa) / GUEST_PAGE, count = 0;
	int err = 0;

	*done = 0;
	while (count < npages) {
		err = test(p, gpa + count * GUEST_PAGE, 1, PROT_RW);
		if (err != -EPERM)
			break;
		count++;
	}
	if (err && !is_edge(err))
		return err;
	*hole = is_hole(err);
	if (!count)
		return 0;
	err = pin_prefix(p, gpa, count, DLEND_PROT_READ, done);
	if (*done < count)		/* not even readable */
		*hole = true;
	return err;
}

/* @pos is memory up to an edge: pin to the end of its chunk, or to the edge (then @hole). */
static int walk_memory(struct probe *p, u64 *pos, u64 limit, bool *hole)
{
	u64 end = min(limit, ALIGN_DOWN(*pos, CHUNK) + CHUNK);
	u32 npages = (end - *pos) / GUEST_PAGE, done;
	int err;

	*hole = false;
	err = pin_prefix(p, *pos, npages, PROT_RW, &done);
	*pos += done * GUEST_PAGE;
	if (err || done == npages)
		return err;
	err = pin_readonly(p, *pos, end, &done, hole);
	*pos += done * GUEST_PAGE;
	if (!err && !done && !*hole && ++p->flaps > MAX_FLAPS)
		return -EINTR;
	return err;
}

/*
 * Was space before @pos, which is memory, passed too fast to be sure of?  Then once more, in small
 * steps, from @pos on.  @begin: of the hole; @floor: nothing from there to @pos was looked at.
 */
static bool step_back(struct probe *p, u64 begin, u64 *floor, u64 *pos)
{
	if (p->ops->range || *pos < MIB(1) || *pos < p->near || *pos - *floor < STEP)
		return false;
	p->near = *pos;
	*pos = max(begin, ALIGN_DOWN(*pos - min(NEAR, *pos), STEP));
	*floor = *pos;
	return true;
}

/* @pos may be in a hole: go to where the next memory begins, or to @limit, where it is known to. */
static int walk_hole(struct probe *p, u64 *pos, u64 limit, bool known)
{
	u64 begin = *pos, floor = *pos;	/* nothing from here on has been looked at */
	int err;

	for (;;) {
		if (*pos >= limit) {
			*pos = limit;
			if (!known || !step_back(p, begin, &floor, pos))
				break;
		}
		err = test(p, *pos, 1, DLEND_PROT_READ);
		if (err && !is_edge(err))
			return err;
		if (err) {
			floor = *pos + GUEST_PAGE;
			*pos = next_look(p, *pos);
		} else if (!step_back(p, begin, &floor, pos)) {
			break;
		}
	}
	return look_back(p, floor, pos);
}

static int walk_range(struct probe *p, u64 pos, u64 range_end)
{
	bool hole = true;	/* perhaps: one call tells */
	u64 found = U64_MAX;
	int err = 0;

	while (!err && pos < range_end) {
		u64 next = U64_MAX, end = p->ops->known(p->ctx, pos, &next);
		u64 limit = min(next, range_end);

		if (p->ops->stop(p->ctx))
			return -EINTR;
		if (end > pos) {
			pos = end;
			hole = true;
		} else if (hole) {
			err = walk_hole(p, &pos, limit, next < range_end);
			hole = false;
			found = pos;
			continue;
		} else {
			err = walk_memory(p, &pos, limit, &hole);
			/* It read as memory just now, and nothing of it pins. */
			if (!err && hole && pos == found && ++p->flaps > MAX_FLAPS)
				return -EINTR;
		}
		p->near = pos + NEAR;
	}
	return err;
}

static int walk(struct probe *p)
{
	struct dlend_range range = { 0, p->max };
	u64 pos = 0;
	int err = 0;

	if (!p->ops->range)
		return walk_range(p, 0, p->max);
	while (!err && pos < p->max && p->ops->range(p->ctx, pos, &range)) {
		pos = max(pos, range.start);
		range.end = min(range.end, p->max);
		err = walk_range(p, pos, range.end);
		pos = range.end;
	}
	return err;
}

int dlend_layout_probe(const struct dlend_layout_ops *ops, void *ctx, u64 max_gpa)
{
	struct probe p = {
		.ops = ops,
		.ctx = ctx,
		.max = ALIGN_DOWN(max_gpa, GUEST_PAGE),
	};
	int err = walk(&p);

	journal_end(&p, err && !(err == -EINTR && ops->keep_on_stop));
	return err == ERR_UNPINNABLE ? -EFAULT : err;
}

/* The first hole from @pos on, where RAM may be. */
static bool next_hole(struct probe *p, u64 pos, struct dlend_range *hole)
{
	struct dlend_range range = { 0, p->max };
	u64 next, end;

	while (pos < p->max) {
		if (p->ops->range && !p->ops->range(p->ctx, pos, &range))
			return false;
		pos = max(pos, range.start);
		next = U64_MAX;
		end = p->ops->known(p->ctx, pos, &next);
		if (end <= pos) {
			*hole = (struct dlend_range){ pos, min3(next, range.end, p->max) };
			return pos < hole->end;
		}
		pos = end;
	}
	return false;
}

/* @calls of them, from *@at on and round: at where holes begin, or (@inside) step by step. */
static int look_at(struct probe *p, u64 *at, bool inside, u32 calls, u64 *found)
{
	u64 pos = *at, first = *at;
	struct dlend_range hole;
	bool round = false;
	int err = -EINVAL;

	while (is_edge(err) && calls && !(round && pos >= first)) {
		if (!next_hole(p, pos, &hole)) {
			if (round)
				break;
			round = true;
			pos = 0;
			continue;
		}
		*found = hole.start;
		pos = inside ? next_look(p, hole.start) : hole.end;
		err = test(p, *found, 1, DLEND_PROT_READ);
		/* That was said when it was found. */
		if (err == ERR_UNPINNABLE)
			err = -EINVAL;
		calls--;
	}
	*at = pos;
	if (!err)
		return 1;
	return is_edge(err) ? 0 : err;
}

int dlend_layout_look(const struct dlend_layout_ops *ops, void *ctx, u64 max_gpa,
		      struct dlend_layout_look *look, u64 *found)
{
	struct probe p = {
		.ops = ops,
		.ctx = ctx,
		.max = ALIGN_DOWN(max_gpa, GUEST_PAGE),
	};
	int ret = look_at(&p, &look->edge, false, DLEND_LOOK_CALLS / 2, found);

	if (!ret)
		ret = look_at(&p, &look->inside, true, DLEND_LOOK_CALLS / 2, found);
	return ret;
}
