// SPDX-License-Identifier: GPL-2.0
/*
 * Requesters that a Switchtec switch lets pass.
 *
 * The only file that knows the registers of a switch, as linux/switchtec.h has them.  Knows nothing
 * of links.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/string.h>
#include <linux/switchtec.h>
#include "switchtec.h"

/* An operation takes some milliseconds, and a lock for as long as the other side has it. */
#define DLEND_SWITCHTEC_POLL_MS	10
#define DLEND_SWITCHTEC_POLLS	50

/* One function at a time: a second lock by this host would succeed, too. */
static DEFINE_MUTEX(dlend_switchtec_lock);

bool dlend_switchtec_is(struct pci_dev *pdev)
{
	return pdev && !strcmp(dev_driver_string(&pdev->dev), "switchtec");
}

/* This host's own partition: what its requests may do. */
static struct ntb_ctrl_regs __iomem *dlend_switchtec_control(struct pci_dev *pdev)
{
	struct switchtec_dev *stdev = pci_get_drvdata(pdev);
	struct ntb_ctrl_regs __iomem *all = (void __iomem *)stdev->mmio_ntb +
					    SWITCHTEC_NTB_REG_CTRL_OFFSET;

	return &all[stdev->partition];
}

/* Return: its status when it is over; @busy if it takes too long. */
static u32 dlend_switchtec_operate(struct ntb_ctrl_regs __iomem *ctl, u32 op, u32 busy)
{
	unsigned int polls;
	u32 status = busy;

	iowrite32(op, &ctl->partition_op);
	for (polls = 0; polls < DLEND_SWITCHTEC_POLLS && status == busy; polls++) {
		msleep(DLEND_SWITCHTEC_POLL_MS);
		status = ioread32(&ctl->partition_status) & 0xffff;
	}
	return status;
}

static void dlend_switchtec_unlock(struct ntb_ctrl_regs __iomem *ctl)
{
	iowrite32(NTB_CTRL_PART_OP_RESET, &ctl->partition_op);
}

/* The entry of @rid, or (@rid < 0) a free one. Return: index, or -ENOSPC. */
static int dlend_switchtec_find(struct ntb_ctrl_regs __iomem *ctl, int rid)
{
	unsigned int i, size = ioread16(&ctl->req_id_table_size);
	u32 entry;

	for (i = 0; i < min_t(unsigned int, size, ARRAY_SIZE(ctl->req_id_table)); i++) {
		entry = ioread32(&ctl->req_id_table[i]);
		if (rid < 0 ? !(entry & NTB_CTRL_REQ_ID_EN) :
			      entry & NTB_CTRL_REQ_ID_EN && entry >> 16 == rid)
			return i;
	}
	return -ENOSPC;
}

static int dlend_switchtec_configure(struct pci_dev *pdev, struct ntb_ctrl_regs __iomem *ctl)
{
	if (dlend_switchtec_operate(ctl, NTB_CTRL_PART_OP_CFG,
				    NTB_CTRL_PART_STATUS_CONFIGURING) ==
	    NTB_CTRL_PART_STATUS_NORMAL)
		return 0;
	pci_err(pdev, "the switch refuses a change of its table of requesters: error %08x\n",
		ioread32(&ctl->req_id_error));
	dlend_switchtec_unlock(ctl);
	return -EIO;
}

/* The partition is locked. */
static int dlend_switchtec_change(struct pci_dev *pdev, struct ntb_ctrl_regs __iomem *ctl, u16 rid,
				  bool on)
{
	int at = dlend_switchtec_find(ctl, on ? -1 : rid);

	if (at < 0) {
		dlend_switchtec_unlock(ctl);
		return on ? at : 0;
	}
	iowrite32(on ? (u32)rid << 16 | NTB_CTRL_REQ_ID_EN : 0, &ctl->req_id_table[at]);
	return dlend_switchtec_configure(pdev, ctl);
}

int dlend_switchtec_admit(struct pci_dev *pdev, u16 rid, bool on)
{
	struct ntb_ctrl_regs __iomem *ctl = dlend_switchtec_control(pdev);

	guard(mutex)(&dlend_switchtec_lock);
	if ((dlend_switchtec_find(ctl, rid) >= 0) == on)
		return 0;
	if (dlend_switchtec_operate(ctl, NTB_CTRL_PART_OP_LOCK, NTB_CTRL_PART_STATUS_LOCKING) !=
	    NTB_CTRL_PART_STATUS_LOCKED)
		return -EAGAIN;
	return dlend_switchtec_change(pdev, ctl, rid, on);
}
