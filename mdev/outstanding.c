// SPDX-License-Identifier: GPL-2.0
/*
 * Outstanding commands of a disk's controller: see outstanding.h.
 *
 * A controller that is off, or has stopped because of an error, completes no command.  It counts as
 * not busy: commands that its registers still show wait for its driver, which finds them on the
 * host that the VM moves to.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/nvme.h>
#include <linux/string.h>
#include <dlend/alloc.h>
#include "outstanding.h"

/* All ones beyond the BAR, which may end before the registers of the highest port. */
static u32 dlend_register(const struct dlend_registers *r, u32 offset)
{
	return offset + sizeof(u32) <= r->size ? r->read(r, offset) : ~0u;
}

/* AHCI: up to 32 ports, each with a bit for each of 32 commands */
#define DLEND_AHCI_CTL		0x04
#define DLEND_AHCI_PORTS	0x0c	/* implemented ports */
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
/* Errors (task file, host bus fatal and data, interface fatal): the port stops until restarted */
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

/* UFS: doorbell registers with a bit for each transfer request, and each task management request */
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

static const struct dlend_controller_type dlend_controller_types[] = {
	{ 0x010601, 5, dlend_ahci_busy },
	{ 0x010901, 0, dlend_ufs_busy },
};

const struct dlend_controller_type *dlend_controller_type_of(u32 class)
{
	for (u32 i = 0; i < ARRAY_SIZE(dlend_controller_types); i++)
		if (dlend_controller_types[i].class == class)
			return &dlend_controller_types[i];
	return NULL;
}

/*
 * NVMe.  A controller that does no DMA may be in the midst of a command: a flush or a trim takes
 * seconds.  No register shows that, and doorbells cannot be read.  But the queues are in the
 * guest's memory, and while the guest stands still only the controller writes there:
 *
 * - The driver has made each I/O queue by a Create I/O Queue command in the admin submission queue.
 *   That command has the address of the I/O queue.  The newest entries of the admin submission
 *   queue, 32 with Linux, have not been overwritten.
 * - The controller writes a completion entry for each command to the next place of a completion
 *   queue.  The phase bit of the entries changes each time the queue wraps.  So the place of the
 *   next completion is known.
 * - Each completion entry has the head of the submission queue: how many commands the controller
 *   had fetched when it wrote the entry.  With all known drivers both queues of a pair have the
 *   same size, and begin with entry 0.  So if the head differs from the place of the next
 *   completion, the difference is the number of outstanding commands.  The controller may have
 *   fetched more commands since, but not fewer.
 * - If the driver has sent another command since the last completion, the command is in the
 *   submission entry at the head.  Before the queue wraps for the first time, that entry is zero
 *   if no command was sent.  Later it may hold the oldest command of the previous round.  Linux
 *   gives each command a tag (12 bits) and counts the uses of the tag (4 bits).  So of two
 *   entries with the same tag it is known which one is newer.
 *
 * A command that is found in this way is certainly outstanding.  Some outstanding commands are not
 * found: if the Create I/O Queue commands were overwritten, or if a driver forms its command ids in
 * another way.  Then only the lender can tell, which sees whether the controller is silent.
 */

/* The most entries that an admin queue can have; I/O queues with more are not examined */
#define DLEND_NVME_ENTRIES	4096u

/* I/O queues with this number or a higher one are not examined */
#define DLEND_NVME_PAIRS	256u

/*
 * A submission queue and the completion queue with the same number.
 * @sq, @cq: guest-physical addresses of the two; 0: not known
 * @sq_entries, @cq_entries: how many entries they have
 * @cq_of: number of the completion queue that @sq uses
 */
struct dlend_nvme_pair {
	u64 sq, cq;
	u32 sq_entries, cq_entries, cq_of;
};

/*
 * What a completion queue shows.
 * @pos: index of the entry that the next completion goes to
 * @round: the entry at @pos was written before: the queue has wrapped
 * @head: head of the submission queue, as the last completion entry has it
 */
struct dlend_nvme_ends {
	u32 pos, head;
	bool round;
};

/* Read guest memory.  Return: a buffer for kvfree(); NULL, with an errno in @ret. */
static void *dlend_nvme_read(const struct dlend_nvme *n, u64 gpa, size_t size, int *ret)
{
	void *buf = kvmalloc(size, GFP_KERNEL);

	*ret = buf ? n->read(n->arg, gpa, buf, size) : -ENOMEM;
	if (!*ret)
		return buf;
	kvfree(buf);
	return NULL;
}

static bool dlend_nvme_phase(const struct nvme_completion *cqe)
{
	return le16_to_cpu(cqe->status) & 1;
}

/* Find the last completion.  Return: true if some command has completed; else @ends is of no use */
static bool dlend_nvme_find_end(const struct nvme_completion *cq, u32 entries,
				struct dlend_nvme_ends *ends)
{
	const struct nvme_completion *last;
	u32 i = 1;

	while (i < entries && dlend_nvme_phase(&cq[i]) == dlend_nvme_phase(&cq[0]))
		i++;
	ends->pos = i % entries;
	/* A completion entry is never zero: it has the number of a submission queue. */
	ends->round = memchr_inv(&cq[ends->pos], 0, sizeof(*cq));
	last = &cq[ends->pos ? ends->pos - 1 : entries - 1];
	ends->head = le16_to_cpu(last->sq_head);
	return ends->pos || memchr_inv(last, 0, sizeof(*last));
}

/*
 * Command ids @a and @b have the same tag.  Return: how often the tag was used from @a to @b,
 * modulo 16.  1 to 7: @b is newer than @a.
 */
static u32 dlend_nvme_uses(u16 a, u16 b)
{
	return ((b >> 12) - (a >> 12)) & 15;
}

/*
 * The entry at @at is either the oldest one or a new command.  It is new if other entries have its
 * tag and all of these are older.  If one of them is newer, the entry at @at is the oldest one, or
 * the driver does not form command ids as Linux does.
 */
static bool dlend_nvme_is_new(const struct nvme_command *sq, u32 entries, u32 at)
{
	u16 mine = sq[at].common.command_id;
	u32 newer = 0;

	for (u32 i = 1; i < entries; i++) {
		u16 id = sq[(at + i) % entries].common.command_id;
		u32 uses = dlend_nvme_uses(id, mine);

		if ((id ^ mine) & 0xfff)
			continue;
		if (!uses || uses >= 8)
			return false;
		newer++;
	}
	return newer;
}

/* Was the entry ever written? */
static bool dlend_nvme_used(const struct nvme_command *sqe)
{
	return memchr_inv(sqe, 0, sizeof(*sqe));
}

/* Return: 1: a command of the pair is outstanding; 0: none is known; -ENOMEM, or of @n->read() */
static int dlend_nvme_pair_busy(const struct dlend_nvme *n, const struct dlend_nvme_pair *q)
{
	struct dlend_nvme_ends ends;
	struct nvme_completion *cq;
	struct nvme_command *sq;
	u32 entries = q->sq_entries;
	bool ended, busy;
	int ret;

	cq = dlend_nvme_read(n, q->cq, entries * sizeof(*cq), &ret);
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
	sq = dlend_nvme_read(n, q->sq, entries * sizeof(*sq), &ret);
	if (!sq)
		return ret;
	/*
	 * Only an entry with a zero entry behind it is a new command.  If the driver did not clear
	 * the memory of the queue, as after a reset of the controller, nothing can be said.
	 */
	if (ends.round)
		busy = dlend_nvme_is_new(sq, entries, ends.pos);
	else
		busy = dlend_nvme_used(&sq[ends.pos]) &&
		       !dlend_nvme_used(&sq[(ends.pos + 1) % entries]);
	kvfree(sq);
	return busy;
}

/*
 * Note what an admin command does to the I/O queues, if it creates or deletes one.  All four
 * commands have the fields that are read here at the same places.
 */
static void dlend_nvme_learn(struct dlend_nvme_pair *pair, const struct nvme_create_sq *command)
{
	/* A queue that is not physically contiguous is not examined. */
	u64 at = le16_to_cpu(command->sq_flags) & NVME_QUEUE_PHYS_CONTIG ?
		 le64_to_cpu(command->prp1) : 0;
	u32 number = le16_to_cpu(command->sqid), entries = le16_to_cpu(command->qsize) + 1;
	struct dlend_nvme_pair *q = &pair[number];

	if (!number || number >= DLEND_NVME_PAIRS)
		return;
	switch (command->opcode) {
	case nvme_admin_create_sq:
		q->sq = at;
		q->sq_entries = entries;
		q->cq_of = le16_to_cpu(command->cqid);
		break;
	case nvme_admin_create_cq:
		q->cq = at;
		q->cq_entries = entries;
		break;
	case nvme_admin_delete_sq:
		q->sq = 0;
		break;
	case nvme_admin_delete_cq:
		q->cq = 0;
		break;
	}
}

/*
 * Find the I/O queues: go through the admin submission queue, from the oldest command that is still
 * there to the newest.  Return: 0, -ENOMEM, or an error of @n->read().
 */
static int dlend_nvme_learn_all(const struct dlend_nvme *n, struct dlend_nvme_pair *pair)
{
	u32 sq_entries = (n->aqa & 0xfff) + 1, cq_entries = (n->aqa >> 16 & 0xfff) + 1;
	struct dlend_nvme_ends ends;
	struct nvme_completion *cq;
	struct nvme_command *sq;
	int ret;

	cq = dlend_nvme_read(n, n->acq, cq_entries * sizeof(*cq), &ret);
	if (!cq)
		return ret;
	if (!dlend_nvme_find_end(cq, cq_entries, &ends))
		ends.head = 0;
	kvfree(cq);
	sq = dlend_nvme_read(n, n->asq, sq_entries * sizeof(*sq), &ret);
	if (!sq)
		return ret;
	for (u32 i = 0; i < sq_entries; i++)
		dlend_nvme_learn(pair, &sq[(ends.head + i) % sq_entries].create_sq);
	kvfree(sq);
	return 0;
}

int dlend_nvme_busy(const struct dlend_nvme *n)
{
	struct dlend_nvme_pair *pair, *q;
	int ret;

	/* Off or failed (so are all ones, when it does not answer): it completes no command. */
	if (!(n->cc & NVME_CC_ENABLE) || !(n->csts & NVME_CSTS_RDY) || (n->csts & NVME_CSTS_CFS))
		return 0;
	pair = kvcalloc(DLEND_NVME_PAIRS, sizeof(*pair), GFP_KERNEL);
	if (!pair)
		return -ENOMEM;
	ret = dlend_nvme_learn_all(n, pair);
	for (u32 i = 1; i < DLEND_NVME_PAIRS && !ret; i++) {
		q = &pair[i];
		/* Only a pair of queues of the same size, which no third one shares, counts. */
		if (q->sq && q->cq && q->cq_of == i && q->sq_entries == q->cq_entries &&
		    q->sq_entries > 1 && q->sq_entries <= DLEND_NVME_ENTRIES)
			/*
			 * A queue that cannot be read is skipped: it may be in the controller's own
			 * memory.
			 */
			ret = dlend_nvme_pair_busy(n, q) > 0;
	}
	kvfree(pair);
	return ret;
}
