// SPDX-License-Identifier: GPL-2.0
/*
 * Whether a borrowed disk's controller still has commands to end: see ending.h.
 *
 * Its lender sees that it is silent; this host reaches its registers, and the guest's memory.  Must
 * not know what these mean: that is outstanding.c and nvme_queues.c.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/ktime.h>
#include <linux/vfio.h>
#include "ending.h"
#include "nvme_queues.h"
#include "outstanding.h"
#include "vdev.h"

/* A VMM waits for that with its big lock held: as long as a lender waits for silence. */
#define DLEND_ENDING_WAIT_MS	1000
#define DLEND_ENDING_LOOK_MS	5

/* @kind: NULL: NVMe */
struct dlend_ending {
	struct dlend_registers r;
	struct dlend_vdev *v;
	const struct dlend_outstanding *kind;
	void __iomem *regs;
};

static int dlend_ending_dma_read(void *arg, u64 gpa, void *buf, size_t size)
{
	struct dlend_vdev *v = arg;

	return vfio_dma_rw(&v->vfio, gpa, buf, size, false);
}

static bool dlend_ending_nvme_busy(const struct dlend_ending *e)
{
	struct dlend_nvme n = {
		.cc = readl(e->regs + DLEND_NVME_CC),
		.csts = readl(e->regs + DLEND_NVME_CSTS),
		.aqa = readl(e->regs + DLEND_NVME_AQA),
		.asq = lo_hi_readq(e->regs + DLEND_NVME_ASQ),
		.acq = lo_hi_readq(e->regs + DLEND_NVME_ACQ),
		.read = dlend_ending_dma_read,
		.arg = e->v,
	};

	return dlend_nvme_busy(&n) > 0;
}

static u32 dlend_ending_register(const struct dlend_registers *r, u32 offset)
{
	return readl(container_of_const(r, struct dlend_ending, r)->regs + offset);
}

/* Return: it is certain that something has not ended. */
static bool dlend_ending_busy(const struct dlend_ending *e)
{
	return e->kind ? e->kind->busy(&e->r) : dlend_ending_nvme_busy(e);
}

/* Return: it ended what it had to do, or nobody can tell. */
static bool dlend_ending_look(struct dlend_ending *e, phys_addr_t phys)
{
	ktime_t end = ktime_add_ms(ktime_get(), DLEND_ENDING_WAIT_MS);
	bool busy;

	e->regs = phys ? ioremap(phys, e->r.size) : NULL;
	if (!e->regs)
		return true;
	while ((busy = dlend_ending_busy(e)) && ktime_before(ktime_get(), end))
		msleep(DLEND_ENDING_LOOK_MS);
	iounmap(e->regs);
	return !busy;
}

bool dlend_ending_await(struct dlend_vdev *v)
{
	const struct dlend_outstanding *kind = dlend_outstanding_of(v->info.class);
	unsigned int bar = kind ? kind->bar : 0;
	struct dlend_ending e = {
		.r = { min_t(u64, v->info.bar[bar].size, DLEND_OUTSTANDING_SIZE),
		       dlend_ending_register },
		.v = v,
		.kind = kind,
	};
	struct dlend_lease *lease;
	bool idle;

	if ((!kind && v->info.class != DLEND_NVME_CLASS) || e.r.size < DLEND_NVME_ACQ + 8)
		return true;
	lease = dlend_vdev_lease(v);
	if (!lease)
		return true;
	idle = dlend_ending_look(&e, READ_ONCE(lease->bar[bar].phys));
	dlend_lease_put(lease);
	return idle;
}
