// SPDX-License-Identifier: GPL-2.0
/*
 * Messages to the lenders about guest memory: see tell.h, and ram.h for the locks.
 *
 * Must not know VFIO, nor how extents came about.
 */
#include <linux/device.h>

#include "members.h"
#include "ram_map.h"
#include "tell.h"

/* Put @extent into the message. */
static void dlend_tell_fill(struct dlend_p_dma *dma, const struct dlend_extent *extent)
{
	u32 i = le32_to_cpu(dma->count);

	dma->entry[i].gpa = cpu_to_le64(extent->gpa);
	dma->entry[i].size = cpu_to_le64(extent->size);
	dma->entry[i].offset = cpu_to_le64(extent->offset);
	dma->entry[i].prot = cpu_to_le32(extent->prot);
	dma->count = cpu_to_le32(i + 1);
}

/* Put @extent into the message, if member @id's lender must hear @news of it.  Return: 1 or 0. */
static u32 dlend_tell_ask_one(struct dlend_extent *extent, u32 id, enum dlend_news news,
			      struct dlend_p_dma *dma)
{
	if (!dlend_told_due(&extent->told, news, id))
		return 0;
	dlend_told_ask(&extent->told, news, id);
	dlend_tell_fill(dma, extent);
	return 1;
}

/* Put what there is to tell, @max extents at most, into a message.  Return: how many. */
static u32 dlend_tell_ask(struct dlend_memory *mem, enum dlend_news news, struct dlend_p_dma *dma,
			  u32 max)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent;
	u32 count = 0;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	if (news == DLEND_NEWS_GONE) {
		list_for_each_entry(extent, &ram->dead, node) {
			if (count == max)
				break;
			count += dlend_tell_ask_one(extent, mem->id, news, dma);
		}
		return count;
	}
	while (count < max && (extent = dlend_books_next_extent(&ram->books, gpa))) {
		gpa = dlend_extent_end(extent);
		count += dlend_tell_ask_one(extent, mem->id, news, dma);
	}
	return count;
}

/* The message is over.  Extents that have left the books meanwhile are in no message any more. */
static void dlend_tell_answer(struct dlend_ram *ram, u32 id, enum dlend_news news, bool ok)
{
	struct dlend_extent *extent, *tmp;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	if (news == DLEND_NEWS_GONE) {
		list_for_each_entry_safe(extent, tmp, &ram->dead, node)
			if (dlend_told_answer(&extent->told, news, id, ok))
				dlend_ram_map_bury(ram, extent);
		return;
	}
	while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
		gpa = dlend_extent_end(extent);
		dlend_told_answer(&extent->told, news, id, ok);
	}
}

/* May this be said for @mem now?  -ENOENT: no need to, a closed lease is being returned. */
static int dlend_tell_allowed(const struct dlend_memory *mem, enum dlend_news news)
{
	if (!mem || mem->closed)
		return -ENOENT;
	if (!mem->ram->ap)
		return -ENOTCONN;
	return news == DLEND_NEWS_NEW && dlend_memory_disturbed(mem) ? -EAGAIN : 0;
}

/*
 * Send one message to the lender of member @id, if there is something to say.
 * Return: how many extents it was about, or an error.
 */
static int dlend_tell_some(struct dlend_ram *ram, u32 id, enum dlend_news news, u32 max)
{
	struct dlend_memory *mem;
	struct dlend_p_dma *dma;
	struct dlend_msg req;
	int err, count = 0;

	lockdep_assert_held(&ram->build_lock);
	mutex_lock(&ram->lock);
	mem = ram->member[id];
	err = dlend_tell_allowed(mem, news);
	if (!err) {
		dma = dlend_msg_init(&req, news == DLEND_NEWS_NEW ? DLEND_MSG_DMA_MAP :
				     DLEND_MSG_DMA_UNMAP, &mem->addr, mem->epoch, sizeof(*dma));
		count = dlend_tell_ask(mem, news, dma, max);
		mem->stat.messages += !!count;
	}
	mutex_unlock(&ram->lock);
	if (err || !count)
		return err == -ENOENT ? 0 : err;

	err = dlend_link_call_in(&ram->session, &req, NULL, 0);
	mutex_lock(&ram->lock);
	if (!err)
		dlend_members_progress(ram);
	/*
	 * The lender does not have it: perhaps it never got the DMA_MAP.  If the message was about
	 * one extent only, that extent is unmapped, and no more was asked for.
	 */
	if (err == -ENOENT && count == 1 && news != DLEND_NEWS_NEW)
		err = 0;
	dlend_tell_answer(ram, id, news, !err);
	mutex_unlock(&ram->lock);
	return err ?: count;
}

/* Tell the lender of member @id all there is of this kind. */
static int dlend_tell_all(struct dlend_ram *ram, u32 id, enum dlend_news news)
{
	int ret;

	do {
		ret = dlend_tell_some(ram, id, news, DLEND_DMA_PER_MSG);
		/* The lender does not have one of them: ask for each by itself to see which. */
		if (ret == -ENOENT && news != DLEND_NEWS_NEW)
			ret = dlend_tell_some(ram, id, news, 1);
	} while (ret > 0);
	return ret;
}

int dlend_tell_gone(struct dlend_ram *ram, const struct dlend_memory *mem)
{
	int err = 0, ret;
	u32 id;

	for (id = 0; id < DLEND_TOLD_MAX; id++) {
		ret = dlend_tell_all(ram, id, DLEND_NEWS_GONE);
		if (ret && (!mem || mem->id == id))
			err = ret;
	}
	return err;
}

int dlend_tell_new(struct dlend_memory *mem)
{
	return dlend_tell_all(mem->ram, mem->id, DLEND_NEWS_UNSURE) ?:
	       dlend_tell_all(mem->ram, mem->id, DLEND_NEWS_NEW);
}

bool dlend_tell_others_due(const struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent;
	u32 users = 0, i;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i] && ram->member[i] != mem && ram->member[i]->user)
			users |= BIT(i);
	while (users && (extent = dlend_books_next_extent(&ram->books, gpa))) {
		if (users & ~extent->told.members)
			return true;
		gpa = dlend_extent_end(extent);
	}
	return false;
}

static void dlend_tell_work(struct work_struct *work)
{
	struct dlend_ram *ram = container_of(work, struct dlend_ram, tell_work);
	int err;

	mutex_lock(&ram->build_lock);
	err = dlend_tell_gone(ram, NULL);
	mutex_unlock(&ram->build_lock);
	/* No harm is done: the slots stay in quarantine, and the next build tells again. */
	if (err && err != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(ram->session.link),
				     "lender did not unmap guest memory (%d): window space stays reserved until it does\n",
				     err);
	dlend_ram_put(ram);
}

void dlend_tell_init(struct dlend_ram *ram)
{
	INIT_WORK(&ram->tell_work, dlend_tell_work);
}
