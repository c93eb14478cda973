// SPDX-License-Identifier: GPL-2.0
/*
 * Whether a borrowed NVMe controller still has commands to end: see nvme.h.
 *
 * Its lender sees that it is silent, this host that it has something to do: the guest's memory is
 * here.  Must not know what the queues mean: that is nvme_queues.c.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/ktime.h>
#include <linux/vfio.h>
#include "nvme.h"
#include "nvme_queues.h"
#include "vdev.h"

/* A VMM waits for that with its big lock held: as long as a lender waits for silence. */
#define DLEND_NVME_WAIT_MS	1000
#define DLEND_NVME_LOOK_MS	5

static int dlend_nvme_dma_read(void *arg, u64 gpa, void *buf, size_t size)
{
	struct dlend_vdev *v = arg;

	return vfio_dma_rw(&v->vfio, gpa, buf, size, false);
}

static int dlend_nvme_look(struct dlend_vdev *v, void __iomem *regs)
{
	struct dlend_nvme n = {
		.cc = readl(regs + DLEND_NVME_CC),
		.csts = readl(regs + DLEND_NVME_CSTS),
		.aqa = readl(regs + DLEND_NVME_AQA),
		.asq = lo_hi_readq(regs + DLEND_NVME_ASQ),
		.acq = lo_hi_readq(regs + DLEND_NVME_ACQ),
		.read = dlend_nvme_dma_read,
		.arg = v,
	};

	return dlend_nvme_busy(&n);
}

/* Return: it ended what it had to do, or nobody can tell. */
static bool dlend_nvme_await(struct dlend_vdev *v, phys_addr_t phys)
{
	ktime_t end = ktime_add_ms(ktime_get(), DLEND_NVME_WAIT_MS);
	void __iomem *regs = phys ? ioremap(phys, PAGE_SIZE) : NULL;
	int busy;

	if (!regs)
		return true;
	while ((busy = dlend_nvme_look(v, regs)) > 0 && ktime_before(ktime_get(), end))
		msleep(DLEND_NVME_LOOK_MS);
	iounmap(regs);
	return busy <= 0;
}

bool dlend_nvme_await_idle(struct dlend_vdev *v)
{
	struct dlend_lease *lease;
	bool idle;

	if (v->info.class != DLEND_NVME_CLASS)
		return true;
	lease = dlend_vdev_lease(v);
	if (!lease)
		return true;
	idle = dlend_nvme_await(v, READ_ONCE(lease->bar[0].phys));
	dlend_lease_put(lease);
	return idle;
}
