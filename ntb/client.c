// SPDX-License-Identifier: GPL-2.0
/*
 * dlend_ntb: client of the kernel's NTB API, the hardware under a link.  It also sets which
 * requesters a Switchtec switch lets pass: the NTB API has no call for that.
 *
 * The only file that includes linux/ntb.h and linux/switchtec.h.  Knows scratchpads, doorbells,
 * memory windows and the table of requesters; nothing of sessions and messages.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/ntb.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/switchtec.h>
#include <dlend/compat.h>
#include <dlend/link.h>
#include <dlend/link_hw.h>
#include <dlend/version.h>
#include "fit.h"

/* Switchtec */

/* An operation takes some milliseconds; LOCK waits until the other side has given the lock up. */
#define DLEND_SWITCHTEC_POLL_MS	10
#define DLEND_SWITCHTEC_POLLS	50

/* The first entries are the kernel driver's: for the root complex and this host's bridge. */
#define DLEND_SWITCHTEC_OWN	2

/* One thread changes the table at a time: the switch's lock does not keep out this host itself. */
static DEFINE_MUTEX(dlend_switchtec_lock);

/* The driver data of a Switchtec switch. NULL: not one, or its driver is being unbound. */
static struct switchtec_dev *dlend_switchtec_of(struct pci_dev *pdev)
{
	return pdev && !strcmp(dev_driver_string(&pdev->dev), "switchtec") ?
	       pci_get_drvdata(pdev) : NULL;
}

/* Registers of this host's own partition. */
static struct ntb_ctrl_regs __iomem *dlend_switchtec_control(struct switchtec_dev *stdev)
{
	struct ntb_ctrl_regs __iomem *all = (void __iomem *)stdev->mmio_ntb +
					    SWITCHTEC_NTB_REG_CTRL_OFFSET;

	return &all[stdev->partition];
}

/* Start operation @op, and wait. Return: status at its end; @busy if it takes too long. */
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

/* As the kernel's driver does: undo writes and give the lock up, without waiting for the end. */
static void dlend_switchtec_give_up(struct ntb_ctrl_regs __iomem *ctl)
{
	iowrite32(NTB_CTRL_PART_OP_RESET, &ctl->partition_op);
}

/* Return: how many entries the table has; -ENODEV: the switch does not answer. */
static int dlend_switchtec_places(struct ntb_ctrl_regs __iomem *ctl)
{
	u16 size = ioread16(&ctl->req_id_table_size);

	return size == U16_MAX ? -ENODEV : min_t(int, size, ARRAY_SIZE(ctl->req_id_table));
}

/* Return: the requester ID in an entry; -1: the entry is free. */
static int dlend_switchtec_entry(struct ntb_ctrl_regs __iomem *ctl, unsigned int i)
{
	u32 entry = ioread32(&ctl->req_id_table[i]);

	return entry & NTB_CTRL_REQ_ID_EN ? entry >> 16 : -1;
}

/* Is requester ID @rid in the table? */
static bool dlend_switchtec_has(struct ntb_ctrl_regs __iomem *ctl, int rid)
{
	int i, places = dlend_switchtec_places(ctl);

	for (i = 0; i < places; i++)
		if (dlend_switchtec_entry(ctl, i) == rid)
			return true;
	return false;
}

/* Does the table's entry @rid (-1: free) have to be removed? */
static bool dlend_switchtec_stale(const struct dlend_requesters *these, int rid)
{
	return rid >= 0 && !test_bit(rid, these->keep) && !test_bit(rid, these->add);
}

/* Fill in places, free and needed of @these.  Return: must the table change? */
static bool dlend_switchtec_compare(struct ntb_ctrl_regs __iomem *ctl,
				    struct dlend_requesters *these)
{
	bool stale = false;
	unsigned int i;
	int rid;

	these->places = max(dlend_switchtec_places(ctl), 0);
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

/* The partition is locked.  Remove stale entries, and write the new ones. */
static void dlend_switchtec_write(struct ntb_ctrl_regs __iomem *ctl,
				  const struct dlend_requesters *these)
{
	int i, places = dlend_switchtec_places(ctl);
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

/* Lock the partition.  Return: 0; -EAGAIN the other side has the lock */
static int dlend_switchtec_begin(struct ntb_ctrl_regs __iomem *ctl)
{
	u32 status = dlend_switchtec_operate(ctl, NTB_CTRL_PART_OP_LOCK,
					     NTB_CTRL_PART_STATUS_LOCKING);

	if (status == NTB_CTRL_PART_STATUS_LOCKED)
		return 0;
	/* Without this the switch would give the lock to this host later. */
	if (status == NTB_CTRL_PART_STATUS_LOCKING)
		dlend_switchtec_give_up(ctl);
	return -EAGAIN;
}

/* The partition is locked.  The table is read back to see whether the switch has taken it. */
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

/*
 * The switch passes only requests whose requester IDs are in its table.  The kernel's driver has
 * entered those of the host itself, which stay; this function writes all other entries.  Return: 0;
 * with the table as before: -ENOSPC it is too small, -EAGAIN the other side has the lock, -ENODEV
 * the switch does not answer; -EIO the switch refuses, or has taken only a part
 */
static int dlend_switchtec_set_requesters(struct switchtec_dev *stdev,
					  struct dlend_requesters *these)
{
	struct ntb_ctrl_regs __iomem *ctl = dlend_switchtec_control(stdev);
	int err;

	guard(mutex)(&dlend_switchtec_lock);
	if (dlend_switchtec_places(ctl) < 0)
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

/* Return: how many entries of the table are free; -ENODEV: the switch does not answer. */
static int dlend_switchtec_free(struct switchtec_dev *stdev)
{
	struct ntb_ctrl_regs __iomem *ctl = dlend_switchtec_control(stdev);
	int i, places, count = 0;

	guard(mutex)(&dlend_switchtec_lock);
	places = dlend_switchtec_places(ctl);
	if (places < 0)
		return places;
	for (i = DLEND_SWITCHTEC_OWN; i < places; i++)
		count += dlend_switchtec_entry(ctl, i) < 0;
	return count;
}

/* The NTB API */

static bool dlend_client_allow_unsafe;
module_param_named(allow_unsafe, dlend_client_allow_unsafe, bool, 0444);
MODULE_PARM_DESC(allow_unsafe, "use NTBs whose driver says that their doorbells or scratchpads can lock up the host");

/* A link has one peer. */
#define DLEND_CLIENT_PEER	NTB_DEF_PEER_IDX
/* Bytes, above any real size: a driver that reads the size from the peer may report all ones. */
#define DLEND_CLIENT_WINDOW_MAX	BIT_ULL(44)

/*
 * struct dlend_client - one NTB device
 * @hw: for the link core; hw.window is the largest of the windows by which this node reaches the
 *	peer, hw.spare the next largest
 * @ntb: the device
 * @stdev: its Switchtec switch; NULL: the NTB is of another family
 * @link: the link over this device
 * @in: index of the window by which the peer reaches this node, -1 while unknown
 * @spare_in: index of the second such window, while its translation is set; else -1
 */
struct dlend_client {
	struct dlend_link_hw hw;
	struct ntb_dev *ntb;
	struct switchtec_dev *stdev;
	struct dlend_link *link;
	int in;
	int spare_in;
};

static struct dlend_client *dlend_client(struct dlend_link_hw *hw)
{
	return container_of(hw, struct dlend_client, hw);
}

static u32 dlend_client_spad_read(struct dlend_link_hw *hw, unsigned int index)
{
	return ntb_spad_read(dlend_client(hw)->ntb, index);
}

static void dlend_client_spad_write(struct dlend_link_hw *hw, unsigned int index, u32 value)
{
	ntb_peer_spad_write(dlend_client(hw)->ntb, DLEND_CLIENT_PEER, index, value);
}

static void dlend_client_db_ring(struct dlend_link_hw *hw, u64 bits)
{
	ntb_peer_db_set(dlend_client(hw)->ntb, bits);
}

static u64 dlend_client_db_read(struct dlend_link_hw *hw)
{
	return ntb_db_read(dlend_client(hw)->ntb);
}

static void dlend_client_db_clear(struct dlend_link_hw *hw, u64 bits)
{
	ntb_db_clear(dlend_client(hw)->ntb, bits);
}

static void dlend_client_db_mask(struct dlend_link_hw *hw, u64 bits, bool masked)
{
	struct dlend_client *c = dlend_client(hw);

	if (masked)
		ntb_db_set_mask(c->ntb, bits);
	else
		ntb_db_clear_mask(c->ntb, bits);
}

/* Alignment of a window's translation and of its size, and the window's largest size; bytes. */
struct dlend_client_limits {
	resource_size_t addr_align, size_align, size_max;
};

/*
 * Find the largest window by which the peer reaches this node, except window @but (-1: none); of
 * several of that size, the first.  The peer chooses in the same way.  @l: (out) its limits.
 * Return: its index, or -1
 */
static int dlend_client_largest(struct dlend_client *c, int but, struct dlend_client_limits *l)
{
	int i, best = -1, count = ntb_mw_count(c->ntb, DLEND_CLIENT_PEER);
	struct dlend_client_limits now;

	*l = (struct dlend_client_limits){};
	for (i = 0; i < count; i++) {
		if (i == but || ntb_mw_get_align(c->ntb, DLEND_CLIENT_PEER, i, &now.addr_align,
						 &now.size_align, &now.size_max))
			continue;
		now.size_align = max_t(resource_size_t, now.size_align, 1);
		now.size_max = round_down(now.size_max, now.size_align);
		if (now.size_max <= l->size_max || now.size_max > DLEND_CLIENT_WINDOW_MAX)
			continue;
		best = i;
		*l = now;
	}
	return best;
}

static int dlend_client_inbound(struct dlend_link_hw *hw, u64 *size, u64 *align)
{
	struct dlend_client *c = dlend_client(hw);
	struct dlend_client_limits l;
	int i = dlend_client_largest(c, -1, &l);

	if (i < 0)
		return -ENODEV;
	c->in = i;
	*size = l.size_max;
	*align = l.addr_align;
	return 0;
}

static int dlend_client_set_trans(struct dlend_link_hw *hw, dma_addr_t base, u64 size)
{
	struct dlend_client *c = dlend_client(hw);

	return ntb_mw_set_trans(c->ntb, DLEND_CLIENT_PEER, c->in, base, size);
}

/*
 * Clear the translation of an inbound window (-1: none).  If the driver cannot do that, a window of
 * size 0 at address 0 reaches nothing of this node, either.
 */
static void dlend_client_close_window(struct dlend_client *c, int index)
{
	if (index < 0)
		return;
	if (c->ntb->ops->mw_clear_trans)
		ntb_mw_clear_trans(c->ntb, DLEND_CLIENT_PEER, index);
	else
		ntb_mw_set_trans(c->ntb, DLEND_CLIENT_PEER, index, 0, 0);
}

static void dlend_client_clear_trans(struct dlend_link_hw *hw)
{
	struct dlend_client *c = dlend_client(hw);

	dlend_client_close_window(c, c->in);
}

static int dlend_client_spare_set(struct dlend_link_hw *hw, u64 base, u64 size, u64 *offset)
{
	struct dlend_client *c = dlend_client(hw);
	struct dlend_client_limits l;
	int err, i = dlend_client_largest(c, c->in, &l);
	u64 from, bytes;

	if (i < 0)
		return -ENODEV;
	from = base - base % max_t(u64, l.addr_align, 1);
	/* Sizes of Ice Lake's windows are powers of two: its driver would round down. */
	bytes = roundup(roundup_pow_of_two(base + size - from), l.size_align);
	if (bytes > l.size_max)
		return -ENOSPC;
	err = ntb_mw_set_trans(c->ntb, DLEND_CLIENT_PEER, i, from, bytes);
	if (err)
		return err;
	c->spare_in = i;
	*offset = base - from;
	return 0;
}

static void dlend_client_spare_clear(struct dlend_link_hw *hw)
{
	struct dlend_client *c = dlend_client(hw);

	dlend_client_close_window(c, c->spare_in);
	c->spare_in = -1;
}

static int dlend_client_set_requesters(struct dlend_link_hw *hw, struct dlend_requesters *these)
{
	struct dlend_client *c = dlend_client(hw);

	return c->stdev ? dlend_switchtec_set_requesters(c->stdev, these) : 0;
}

static int dlend_client_requesters_free(struct dlend_link_hw *hw)
{
	struct dlend_client *c = dlend_client(hw);

	return c->stdev ? dlend_switchtec_free(c->stdev) : -ENODATA;
}

/* The link is gone: remove all entries from the switch's table that were made for it. */
static void dlend_client_clear_requesters(struct dlend_client *c)
{
	struct dlend_requesters *none = kvzalloc_obj(*none);
	int err = none ? dlend_client_set_requesters(&c->hw, none) : -ENOMEM;

	if (err && err != -ENODEV)
		dev_warn(&c->ntb->dev, "its switch goes on to let requests of lent devices pass (%d), until a device is lent over it again\n",
			 err);
	kvfree(none);
}

static bool dlend_client_link_is_up(struct dlend_link_hw *hw)
{
	return ntb_link_is_up(dlend_client(hw)->ntb, NULL, NULL) & BIT_ULL(DLEND_CLIENT_PEER);
}

static void dlend_client_link_enable(struct dlend_link_hw *hw, bool on)
{
	struct dlend_client *c = dlend_client(hw);

	/* On the secondary side of an NTB this has no effect and returns -EINVAL, which is fine. */
	if (on)
		ntb_link_enable(c->ntb, NTB_SPEED_AUTO, NTB_WIDTH_AUTO);
	else
		ntb_link_disable(c->ntb);
}

static const struct dlend_link_hw_ops dlend_client_hw_ops = {
	.type = "ntb",
	.spad_read = dlend_client_spad_read,
	.spad_write = dlend_client_spad_write,
	.db_ring = dlend_client_db_ring,
	.db_read = dlend_client_db_read,
	.db_clear = dlend_client_db_clear,
	.db_mask = dlend_client_db_mask,
	.inbound = dlend_client_inbound,
	.set_trans = dlend_client_set_trans,
	.clear_trans = dlend_client_clear_trans,
	.spare_set = dlend_client_spare_set,
	.spare_clear = dlend_client_spare_clear,
	.set_requesters = dlend_client_set_requesters,
	.requesters_free = dlend_client_requesters_free,
	.link_is_up = dlend_client_link_is_up,
	.link_enable = dlend_client_link_enable,
};

static void dlend_client_link_event(void *ctx)
{
	struct dlend_client *c = ctx;

	dlend_link_queue_step(c->link);
}

static void dlend_client_db_event(void *ctx, int vector)
{
	struct dlend_client *c = ctx;

	dlend_link_doorbell(c->link);
}

static const struct ntb_ctx_ops dlend_client_ctx_ops = {
	.link_event = dlend_client_link_event,
	.db_event = dlend_client_db_event,
};

static int dlend_client_check(struct ntb_dev *ntb)
{
	const struct dlend_fit fit = {
		.crosslink = ntb->topo == NTB_TOPO_CROSSLINK,
		.peers = ntb_peer_port_count(ntb),
		.spads = ntb->ops->spad_count && ntb->ops->peer_spad_write ?
			 ntb_spad_count(ntb) : 0,
		.doorbells = ntb_db_valid_mask(ntb),
		.translates = ntb->ops->mw_set_trans,
		.db_unsafe = ntb_db_is_unsafe(ntb),
		.spad_unsafe = ntb_spad_is_unsafe(ntb),
		.allow_unsafe = dlend_client_allow_unsafe,
	};
	char why[DLEND_FIT_WHY];
	int err = dlend_fit_check(&fit, DLEND_LINK_DOORBELLS, why);

	if (err)
		dev_err(&ntb->dev, "%s\n", why);
	else if (*why)
		dev_warn(&ntb->dev, "%s\n", why);
	return err;
}

/* Switchtec's driver makes 2 MiB of a window usable by default: too little for a guest. */
static int dlend_client_check_window(struct dlend_client *c)
{
	struct pci_dev *pdev = c->ntb->pdev;
	unsigned int bar;

	for (bar = 0; c->stdev && bar < PCI_STD_NUM_BARS; bar++) {
		if (pci_resource_start(pdev, bar) != c->hw.window ||
		    pci_resource_len(pdev, bar) <= c->hw.window_size)
			continue;
		dev_err(&c->ntb->dev, "its driver shows %llu MiB of a window of %llu MiB: put \"options ntb_hw_switchtec max_mw_size=%llu\" in a file in /etc/modprobe.d, and load it anew\n",
			c->hw.window_size >> 20, (u64)pci_resource_len(pdev, bar) >> 20,
			(u64)pci_resource_len(pdev, bar));
		return -EINVAL;
	}
	return 0;
}

/* Find the two largest outbound windows, for hw: the largest so far may become the second. */
static int dlend_client_find_window(struct dlend_client *c)
{
	resource_size_t size;
	phys_addr_t base;
	int i, count = ntb_peer_mw_count(c->ntb);
	struct dlend_link_hw *hw = &c->hw;

	for (i = 0; i < count; i++) {
		if (ntb_peer_mw_get_addr(c->ntb, i, &base, &size))
			continue;
		if (size > hw->window_size) {
			swap(hw->window, base);
			swap(hw->window_size, size);
		}
		if (size > hw->spare_size) {
			hw->spare = base;
			hw->spare_size = size;
		}
	}
	if (hw->window_size)
		return dlend_client_check_window(c);
	dev_err(&c->ntb->dev, "has no memory window: give the NTB a BAR in the firmware\n");
	return -ENODEV;
}

static int dlend_client_probe(struct ntb_client *self, struct ntb_dev *ntb)
{
	struct dlend_client *c;
	int err;

	err = dlend_client_check(ntb);
	if (err)
		return err;
	c = kzalloc_obj(*c);
	if (!c)
		return -ENOMEM;
	c->ntb = ntb;
	c->stdev = dlend_switchtec_of(ntb->pdev);
	c->hw.ops = &dlend_client_hw_ops;
	c->hw.dma_dev = dlend_ntb_dma_dev(ntb);
	c->hw.shares_domain = c->stdev;		/* Switchtec's driver does DMA itself */
	c->in = -1;
	c->spare_in = -1;
	err = dlend_client_find_window(c);
	if (err)
		goto free_client;
	c->link = dlend_link_add(&ntb->dev, &c->hw);
	if (IS_ERR(c->link)) {
		err = PTR_ERR(c->link);
		goto free_client;
	}
	err = ntb_set_ctx(ntb, c, &dlend_client_ctx_ops);
	if (err)
		goto remove_link;
	/* An event of the hardware may have come before ntb_set_ctx(). */
	dlend_link_queue_step(c->link);
	dev_set_drvdata(&ntb->dev, c);
	return 0;

remove_link:
	dlend_link_remove(c->link);
free_client:
	kfree(c);
	return err;
}

static void dlend_client_remove(struct ntb_client *self, struct ntb_dev *ntb)
{
	struct dlend_client *c = dev_get_drvdata(&ntb->dev);

	ntb_clear_ctx(ntb);
	dlend_link_remove(c->link);
	dlend_client_clear_requesters(c);
	kfree(c);
}

static struct ntb_client dlend_client_driver = {
	.ops = {
		.probe = dlend_client_probe,
		.remove = dlend_client_remove,
	},
};
module_ntb_client(dlend_client_driver);

MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
MODULE_DESCRIPTION("dlend: links over the kernel's NTB API");
DLEND_IMPORT();
