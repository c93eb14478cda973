// SPDX-License-Identifier: GPL-2.0
/*
 * Commands that a controller has not ended yet: see outstanding.h.
 *
 * A controller that is off, or has stopped because of an error, ends nothing: what it shows then
 * waits for its driver, who finds it on the other host.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <dlend/alloc.h>
#include "outstanding.h"

/* A BAR may end before the last ports that could be there. */
static u32 dlend_register(const struct dlend_registers *r, u32 offset)
{
	return offset + sizeof(u32) <= r->size ? r->read(r, offset) : ~0u;
}

/* AHCI: up to 32 ports, each with a bit for each of 32 commands */
#define DLEND_AHCI_CTL		0x04
#define DLEND_AHCI_PORTS	0x0c	/* those that there are */
#define DLEND_AHCI_PORT(i)	(0x100 + (i) * 0x80)
#define DLEND_AHCI_IS		0x10
#define DLEND_AHCI_CMD		0x18
#define DLEND_AHCI_SSTS		0x28
#define DLEND_AHCI_SACT		0x34
#define DLEND_AHCI_CI		0x38

#define DLEND_AHCI_CTL_ON	BIT(31)
#define DLEND_AHCI_CMD_START	BIT(0)
#define DLEND_AHCI_SSTS_DET	0xfu
#define DLEND_AHCI_DET_THERE	0x3u
/* Of a command, or of the host or the link under it: the port stops until its driver starts it */
#define DLEND_AHCI_IS_STOPPED	(BIT(30) | BIT(29) | BIT(28) | BIT(27))

static bool dlend_ahci_port_busy(const struct dlend_registers *r, u32 port)
{
	u32 link = dlend_register(r, port + DLEND_AHCI_SSTS) & DLEND_AHCI_SSTS_DET;

	if (!(dlend_register(r, port + DLEND_AHCI_CMD) & DLEND_AHCI_CMD_START) ||
	    dlend_register(r, port + DLEND_AHCI_IS) & DLEND_AHCI_IS_STOPPED ||
	    link != DLEND_AHCI_DET_THERE)
		return false;
	return dlend_register(r, port + DLEND_AHCI_CI) | dlend_register(r, port + DLEND_AHCI_SACT);
}

static bool dlend_ahci_busy(const struct dlend_registers *r)
{
	u32 ctl = dlend_register(r, DLEND_AHCI_CTL), ports = dlend_register(r, DLEND_AHCI_PORTS);

	if (ctl == ~0u || !(ctl & DLEND_AHCI_CTL_ON))
		return false;
	for (u32 i = 0; i < 32; i++)
		if (ports & BIT(i) && dlend_ahci_port_busy(r, DLEND_AHCI_PORT(i)))
			return true;
	return false;
}

/* UFS: a bit for each transfer, and for each task about one */
#define DLEND_UFS_ENABLE	0x34
#define DLEND_UFS_TRANSFERS	0x58
#define DLEND_UFS_TRANSFERS_RUN	0x60
#define DLEND_UFS_TASKS		0x78
#define DLEND_UFS_TASKS_RUN	0x80

static bool dlend_ufs_busy(const struct dlend_registers *r)
{
	u32 enable = dlend_register(r, DLEND_UFS_ENABLE);

	if (enable == ~0u || !(enable & 1))
		return false;
	return (dlend_register(r, DLEND_UFS_TRANSFERS_RUN) & 1 &&
		dlend_register(r, DLEND_UFS_TRANSFERS)) ||
	       (dlend_register(r, DLEND_UFS_TASKS_RUN) & 1 && dlend_register(r, DLEND_UFS_TASKS));
}

static const struct dlend_outstanding dlend_outstanding_kinds[] = {
	{ 0x010601, 5, dlend_ahci_busy },
	{ 0x010901, 0, dlend_ufs_busy },
};

const struct dlend_outstanding *dlend_outstanding_of(u32 class)
{
	for (u32 i = 0; i < ARRAY_SIZE(dlend_outstanding_kinds); i++)
		if (dlend_outstanding_kinds[i].class == class)
			return &dlend_outstanding_kinds[i];
	return NULL;
}

/*
 * NVMe.  A silent controller may be in the midst of a command: a flush or a trim takes seconds.
 * Nothing in it can be asked; its doorbells cannot be read.  But what a controller and its driver
 * know of each other is in the guest's memory, and while the guest stands still only the controller
 * writes there:
 *
 * - Where an I/O queue is, its driver has said by an administrator's command.  The last of those,
 *   32 with Linux, are still in the administrator's queue.
 * - How many commands have ended: the controller writes each end to the next entry of a completion
 *   queue, whose phase bit changes with each round.
 * - How many it had fetched by then: each end has the head of the submission queue.  Both queues of
 *   a pair have the same size with all drivers that are known, and begin with entry 0; so what was
 *   fetched and has not ended is the difference.  It may have fetched more since, and no less.
 * - Whether it was told of another command since: that would be in the entry at the head.  In the
 *   first round, that one is empty otherwise.  Later it may hold the oldest command of the last
 *   round.  Linux tells: it gives each command a tag (12 bits), and counts how often it has used
 *   that (4 bits).  So the other entry with the same tag is known to be older, or newer.
 *
 * So what is found is certain, and not everything is found: not if the commands that made the
 * queues were overwritten, nor if a driver's numbers tell nothing.  Then only silence tells.
 */

#define DLEND_NVME_CC_ENABLE	0x1u
#define DLEND_NVME_CSTS_READY	0x1u
#define DLEND_NVME_CSTS_FATAL	0x2u

/* Bytes of an entry: of submission queues, and of completion queues */
#define DLEND_NVME_SQE		64u
#define DLEND_NVME_CQE		16u

/* An administrator's queue has no more entries; others that have are not looked at */
#define DLEND_NVME_ENTRIES	4096u

/* An administrator's commands */
#define DLEND_NVME_DELETE_SQ	0x00
#define DLEND_NVME_CREATE_SQ	0x01
#define DLEND_NVME_DELETE_CQ	0x04
#define DLEND_NVME_CREATE_CQ	0x05

/* Pairs that are looked at, by their numbers */
#define DLEND_NVME_PAIRS	256u

/* @sq, @cq: where they are, 0: not known; their entries; @cq_of: number of the completion queue */
struct dlend_nvme_pair {
	u64 sq, cq;
	u32 sq_entries, cq_entries, cq_of;
};

/* @pos: entry of the next end; @round: it is not the first; @head: as the last end has it */
struct dlend_nvme_ends {
	u32 pos, head;
	bool round;
};

static void *dlend_nvme_read(const struct dlend_nvme *n, u64 gpa, size_t size, int *ret)
{
	void *buf = kvmalloc(size, GFP_KERNEL);

	*ret = buf ? n->read(n->arg, gpa, buf, size) : -ENOMEM;
	if (!*ret)
		return buf;
	kvfree(buf);
	return NULL;
}

static bool dlend_nvme_phase(const u8 *cq, u32 i)
{
	return cq[i * DLEND_NVME_CQE + 14] & 1;
}

/* Return: some command has ended. */
static bool dlend_nvme_find_end(const u8 *cq, u32 entries, struct dlend_nvme_ends *ends)
{
	bool first = dlend_nvme_phase(cq, 0);
	const u8 *last;
	u32 i;

	for (i = 1; i < entries && dlend_nvme_phase(cq, i) == first; i++)
		;
	ends->pos = i % entries;
	/* Nothing was written there before: what is has the number of a submission queue. */
	ends->round = memchr_inv(cq + ends->pos * DLEND_NVME_CQE, 0, DLEND_NVME_CQE);
	last = cq + (ends->pos ? ends->pos - 1 : entries - 1) * DLEND_NVME_CQE;
	ends->head = get_unaligned_le16(last + 8);
	return ends->pos || memchr_inv(last, 0, DLEND_NVME_CQE);
}

static u16 dlend_nvme_id(const u8 *sq, u32 i)
{
	return get_unaligned_le16(sq + i * DLEND_NVME_SQE + 2);
}

/* How often was the tag of @b used after @a? Below 8: @b is newer. Tags are equal. */
static u32 dlend_nvme_uses(u16 a, u16 b)
{
	return ((b >> 12) - (a >> 12)) & 15;
}

/*
 * Is the entry at @at, where the oldest one or a new one is, newer than one with the same tag?  All
 * others with equal tags have to be in order, or these are no numbers of Linux'.
 */
static bool dlend_nvme_is_new(const u8 *sq, u32 entries, u32 at)
{
	u16 mine = dlend_nvme_id(sq, at);
	u32 newer = 0;

	for (u32 i = 1; i < entries; i++) {
		u16 id = dlend_nvme_id(sq, (at + i) % entries);
		u32 uses = dlend_nvme_uses(id, mine);

		if ((id ^ mine) & 0xfff)
			continue;
		if (!uses || uses >= 8)
			return false;
		newer++;
	}
	return newer;
}

static bool dlend_nvme_used(const u8 *sq, u32 i)
{
	return memchr_inv(sq + i * DLEND_NVME_SQE, 0, DLEND_NVME_SQE);
}

static int dlend_nvme_pair_busy(const struct dlend_nvme *n, const struct dlend_nvme_pair *q)
{
	struct dlend_nvme_ends ends;
	u32 entries = q->sq_entries;
	bool ended, busy;
	u8 *sq, *cq;
	int ret;

	cq = dlend_nvme_read(n, q->cq, entries * DLEND_NVME_CQE, &ret);
	if (!cq)
		return ret;
	ended = dlend_nvme_find_end(cq, entries, &ends);
	kvfree(cq);
	if (!ended)
		ends = (struct dlend_nvme_ends){ };
	if (ends.head >= entries)
		return 0;
	if (ends.head != ends.pos)
		return 1;
	sq = dlend_nvme_read(n, q->sq, entries * DLEND_NVME_SQE, &ret);
	if (!sq)
		return ret;
	/* Memory that was not empty at first, as after a reset of the controller, tells nothing. */
	if (ends.round)
		busy = dlend_nvme_is_new(sq, entries, ends.pos);
	else
		busy = dlend_nvme_used(sq, ends.pos) &&
		       !dlend_nvme_used(sq, (ends.pos + 1) % entries);
	kvfree(sq);
	return busy;
}

/* A queue is made or ended. */
static void dlend_nvme_learn(struct dlend_nvme_pair *pair, const u8 *command)
{
	u32 dw10 = get_unaligned_le32(command + 40), dw11 = get_unaligned_le32(command + 44);
	u32 number = dw10 & 0xffff, entries = (dw10 >> 16) + 1;
	u64 at = get_unaligned_le64(command + 24);
	struct dlend_nvme_pair *q = &pair[number];

	if (!number || number >= DLEND_NVME_PAIRS)
		return;
	/* Not in one piece: such are not looked at. */
	if (!(dw11 & 1))
		at = 0;
	switch (command[0]) {
	case DLEND_NVME_CREATE_SQ:
		q->sq = at;
		q->sq_entries = entries;
		q->cq_of = dw11 >> 16;
		break;
	case DLEND_NVME_CREATE_CQ:
		q->cq = at;
		q->cq_entries = entries;
		break;
	case DLEND_NVME_DELETE_SQ:
		q->sq = 0;
		break;
	case DLEND_NVME_DELETE_CQ:
		q->cq = 0;
		break;
	}
}

/* From the oldest command that is still there to the last one. */
static int dlend_nvme_learn_all(const struct dlend_nvme *n, struct dlend_nvme_pair *pair)
{
	u32 sq_entries = (n->aqa & 0xfff) + 1, cq_entries = (n->aqa >> 16 & 0xfff) + 1;
	struct dlend_nvme_ends ends;
	u8 *sq, *cq;
	int ret;

	cq = dlend_nvme_read(n, n->acq, cq_entries * DLEND_NVME_CQE, &ret);
	if (!cq)
		return ret;
	if (!dlend_nvme_find_end(cq, cq_entries, &ends))
		ends.head = 0;
	kvfree(cq);
	sq = dlend_nvme_read(n, n->asq, sq_entries * DLEND_NVME_SQE, &ret);
	if (!sq)
		return ret;
	for (u32 i = 0; i < sq_entries; i++)
		dlend_nvme_learn(pair, sq + (ends.head + i) % sq_entries * DLEND_NVME_SQE);
	kvfree(sq);
	return 0;
}

/* Are these two alone with each other, and of one size? */
static bool dlend_nvme_is_pair(const struct dlend_nvme_pair *q, u32 number)
{
	return q->sq && q->cq && q->cq_of == number && q->sq_entries == q->cq_entries &&
	       q->sq_entries > 1 && q->sq_entries <= DLEND_NVME_ENTRIES;
}

int dlend_nvme_busy(const struct dlend_nvme *n)
{
	struct dlend_nvme_pair *pair;
	int ret;

	/* One that is off, or broken, ends nothing any more.  All ones: it does not answer. */
	if (!(n->cc & DLEND_NVME_CC_ENABLE) || !(n->csts & DLEND_NVME_CSTS_READY) ||
	    (n->csts & DLEND_NVME_CSTS_FATAL))
		return 0;
	pair = kvcalloc(DLEND_NVME_PAIRS, sizeof(*pair), GFP_KERNEL);
	if (!pair)
		return -ENOMEM;
	ret = dlend_nvme_learn_all(n, pair);
	for (u32 i = 1; i < DLEND_NVME_PAIRS && !ret; i++)
		if (dlend_nvme_is_pair(&pair[i], i))
			/* One that cannot be read, as in the controller's memory, tells nothing. */
			ret = dlend_nvme_pair_busy(n, &pair[i]) > 0;
	kvfree(pair);
	return ret;
}
