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
#include <dlend/requesters.h>
#include "switchtec.h"

/* An operation takes some milliseconds, and a lock for as long as the other side has it. */
#define DLEND_SWITCHTEC_POLL_MS	10
#define DLEND_SWITCHTEC_POLLS	50

/* The kernel's driver has the first entries for the root complex and this host's bridge. */
#define DLEND_SWITCHTEC_OWN	2

/* One change at a time: a second lock by this host would succeed, too. */
static DEFINE_MUTEX(dlend_switchtec_lock);

struct switchtec_dev *dlend_switchtec_of(struct pci_dev *pdev)
{
	return pdev && !strcmp(dev_driver_string(&pdev->dev), "switchtec") ?
	       pci_get_drvdata(pdev) : NULL;
}

/* This host's own partition: what its requests may do. */
static struct ntb_ctrl_regs __iomem *dlend_switchtec_control(struct switchtec_dev *stdev)
{
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

/* As the kernel's driver does it: undo what was written, hold no lock, and wait for none. */
static void dlend_switchtec_give_up(struct ntb_ctrl_regs __iomem *ctl)
{
	iowrite32(NTB_CTRL_PART_OP_RESET, &ctl->partition_op);
}

static bool dlend_switchtec_answers(struct ntb_ctrl_regs __iomem *ctl)
{
	return ioread16(&ctl->req_id_table_size) != U16_MAX;
}

static unsigned int dlend_switchtec_places(struct ntb_ctrl_regs __iomem *ctl)
{
	return min_t(unsigned int, ioread16(&ctl->req_id_table_size),
		     ARRAY_SIZE(ctl->req_id_table));
}

/* Return: the id in an entry, or -1: it is free. */
static int dlend_switchtec_entry(struct ntb_ctrl_regs __iomem *ctl, unsigned int i)
{
	u32 entry = ioread32(&ctl->req_id_table[i]);

	return entry & NTB_CTRL_REQ_ID_EN ? entry >> 16 : -1;
}

static bool dlend_switchtec_has(struct ntb_ctrl_regs __iomem *ctl, int rid)
{
	unsigned int i, places = dlend_switchtec_places(ctl);

	for (i = 0; i < places; i++)
		if (dlend_switchtec_entry(ctl, i) == rid)
			return true;
	return false;
}

static bool dlend_switchtec_stale(const struct dlend_requesters *these, int rid)
{
	return rid >= 0 && !test_bit(rid, these->keep) && !test_bit(rid, these->add);
}

/* Does the table have to change?  How much room there is, and how much is needed. */
static bool dlend_switchtec_compare(struct ntb_ctrl_regs __iomem *ctl,
				    struct dlend_requesters *these)
{
	bool stale = false;
	unsigned int i;
	int rid;

	these->places = dlend_switchtec_places(ctl);
	these->needed = bitmap_weight(these->add, DLEND_REQUESTER_IDS);
	these->free = 0;
	for (i = 0; i < these->places; i++) {
		rid = dlend_switchtec_entry(ctl, i);
		if (rid >= 0 && test_bit(rid, these->add)) {
			these->needed--;
		} else if (i >= DLEND_SWITCHTEC_OWN) {
			these->free += rid < 0 || dlend_switchtec_stale(these, rid);
			stale |= dlend_switchtec_stale(these, rid);
		}
	}
	return stale || these->needed;
}

/* The partition is locked. */
static void dlend_switchtec_write(struct ntb_ctrl_regs __iomem *ctl,
				  const struct dlend_requesters *these)
{
	unsigned int i, places = dlend_switchtec_places(ctl);
	unsigned long rid;

	for (i = DLEND_SWITCHTEC_OWN; i < places; i++)
		if (dlend_switchtec_stale(these, dlend_switchtec_entry(ctl, i)))
			iowrite32(0, &ctl->req_id_table[i]);
	i = DLEND_SWITCHTEC_OWN;
	for_each_set_bit(rid, these->add, DLEND_REQUESTER_IDS) {
		if (dlend_switchtec_has(ctl, rid))
			continue;
		while (i < places && dlend_switchtec_entry(ctl, i) >= 0)
			i++;
		if (i < places)
			iowrite32(rid << 16 | NTB_CTRL_REQ_ID_EN, &ctl->req_id_table[i]);
	}
}

static int dlend_switchtec_begin(struct ntb_ctrl_regs __iomem *ctl)
{
	u32 status = dlend_switchtec_operate(ctl, NTB_CTRL_PART_OP_LOCK,
					     NTB_CTRL_PART_STATUS_LOCKING);

	if (status == NTB_CTRL_PART_STATUS_LOCKED)
		return 0;
	/* Else it would be locked later, when nobody waits for that any more. */
	if (status == NTB_CTRL_PART_STATUS_LOCKING)
		dlend_switchtec_give_up(ctl);
	return -EAGAIN;
}

/* The partition is locked.  What the switch has made of it is read back. */
static int dlend_switchtec_configure(struct switchtec_dev *stdev,
				     struct ntb_ctrl_regs __iomem *ctl,
				     struct dlend_requesters *these)
{
	u32 status = dlend_switchtec_operate(ctl, NTB_CTRL_PART_OP_CFG,
					     NTB_CTRL_PART_STATUS_CONFIGURING);

	if (status == NTB_CTRL_PART_STATUS_NORMAL && !dlend_switchtec_compare(ctl, these))
		return 0;
	pci_err(stdev->pdev, "the switch refuses a change of its table of requesters: error %08x\n",
		ioread32(&ctl->req_id_error));
	if (status != NTB_CTRL_PART_STATUS_NORMAL)
		dlend_switchtec_give_up(ctl);
	return -EIO;
}

int dlend_switchtec_admit(struct switchtec_dev *stdev, struct dlend_requesters *these)
{
	struct ntb_ctrl_regs __iomem *ctl = dlend_switchtec_control(stdev);
	int err;

	guard(mutex)(&dlend_switchtec_lock);
	if (!dlend_switchtec_answers(ctl))
		return -ENODEV;
	if (!dlend_switchtec_compare(ctl, these))
		return 0;
	if (these->needed > these->free)
		return -ENOSPC;
	err = dlend_switchtec_begin(ctl);
	if (err)
		return err;
	dlend_switchtec_write(ctl, these);
	return dlend_switchtec_configure(stdev, ctl, these);
}

int dlend_switchtec_free(struct switchtec_dev *stdev)
{
	struct ntb_ctrl_regs __iomem *ctl = dlend_switchtec_control(stdev);
	unsigned int i, places;
	int count = 0;

	guard(mutex)(&dlend_switchtec_lock);
	if (!dlend_switchtec_answers(ctl))
		return -ENODEV;
	places = dlend_switchtec_places(ctl);
	for (i = DLEND_SWITCHTEC_OWN; i < places; i++)
		count += dlend_switchtec_entry(ctl, i) < 0;
	return count;
}
