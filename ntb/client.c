// SPDX-License-Identifier: GPL-2.0
/*
 * dlend_ntb: client of the kernel's NTB API, the hardware under a link.
 *
 * The only file that includes linux/ntb.h.  Knows scratchpads, doorbells and memory windows as
 * the API gives them; nothing of sessions and messages.
 */
#include <linux/module.h>
#include <linux/ntb.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/link_hw.h>
#include <dlend/proto.h>

#define PEER	NTB_DEF_PEER_IDX

/*
 * struct client - one NTB device
 * @in: index of the inbound window, -1 while unknown
 */
struct client {
	struct ntb_dev *ntb;
	struct dlend_link *link;
	int in;
	phys_addr_t window;
	u64 window_size;
};

static u32 spad_read_peer(void *hw, unsigned int index)
{
	struct client *c = hw;

	return ntb_peer_spad_read(c->ntb, PEER, index);
}

static void spad_write_own(void *hw, unsigned int index, u32 value)
{
	struct client *c = hw;

	ntb_spad_write(c->ntb, index, value);
}

static void db_ring(void *hw, u64 bits)
{
	struct client *c = hw;

	ntb_peer_db_set(c->ntb, bits);
}

static u64 db_read(void *hw)
{
	struct client *c = hw;

	return ntb_db_read(c->ntb);
}

static void db_clear(void *hw, u64 bits)
{
	struct client *c = hw;

	ntb_db_clear(c->ntb, bits);
}

static void db_mask(void *hw, u64 bits, bool masked)
{
	struct client *c = hw;

	if (masked)
		ntb_db_set_mask(c->ntb, bits);
	else
		ntb_db_clear_mask(c->ntb, bits);
}

/* The largest window is ours; a tie goes to the first, as on the peer. */
static int inbound(void *hw, u64 *size, u64 *align)
{
	struct client *c = hw;
	resource_size_t addr_align, size_align, size_max;
	int i, err, count = ntb_mw_count(c->ntb, PEER);

	*size = 0;
	for (i = 0; i < count; i++) {
		err = ntb_mw_get_align(c->ntb, PEER, i, &addr_align, &size_align, &size_max);
		if (err)
			return err;
		if (size_max <= *size)
			continue;
		c->in = i;
		*size = round_down(size_max, max_t(resource_size_t, size_align, 1));
		*align = addr_align;
	}
	return *size ? 0 : -ENODEV;
}

static int set_trans(void *hw, dma_addr_t base, u64 size)
{
	struct client *c = hw;

	return ntb_mw_set_trans(c->ntb, PEER, c->in, base, size);
}

/* Where a driver has no way to clear, a window of size 0 onto address 0 reaches nothing of ours. */
static void clear_trans(void *hw)
{
	struct client *c = hw;

	if (c->in < 0)
		return;
	if (c->ntb->ops->mw_clear_trans)
		ntb_mw_clear_trans(c->ntb, PEER, c->in);
	else
		ntb_mw_set_trans(c->ntb, PEER, c->in, 0, 0);
}

static int window(void *hw, phys_addr_t *base, u64 *size)
{
	struct client *c = hw;

	*base = c->window;
	*size = c->window_size;
	return 0;
}

static struct device *dma_dev(void *hw)
{
	struct client *c = hw;

	return dlend_ntb_dma_dev(c->ntb);
}

static bool link_is_up(void *hw)
{
	struct client *c = hw;

	return ntb_link_is_up(c->ntb, NULL, NULL) & BIT_ULL(PEER);
}

static void link_enable(void *hw, bool on)
{
	struct client *c = hw;

	/* The secondary side has no say in this and answers -EINVAL. */
	if (on)
		ntb_link_enable(c->ntb, NTB_SPEED_AUTO, NTB_WIDTH_AUTO);
	else
		ntb_link_disable(c->ntb);
}

static const struct dlend_link_hw_ops hw_ops = {
	.type = "ntb",
	.spad_read_peer = spad_read_peer,
	.spad_write_own = spad_write_own,
	.db_ring = db_ring,
	.db_read = db_read,
	.db_clear = db_clear,
	.db_mask = db_mask,
	.inbound = inbound,
	.set_trans = set_trans,
	.clear_trans = clear_trans,
	.window = window,
	.dma_dev = dma_dev,
	.link_is_up = link_is_up,
	.link_enable = link_enable,
};

static void link_event(void *ctx)
{
	struct client *c = ctx;

	dlend_link_event(c->link);
}

static void db_event(void *ctx, int vector)
{
	struct client *c = ctx;

	dlend_link_doorbell(c->link);
}

static const struct ntb_ctx_ops ctx_ops = {
	.link_event = link_event,
	.db_event = db_event,
};

/*
 * An aperture takes the place of the domain in which a driver has its own DMA memory: Switchtec's
 * has its scratchpads and the answers to its commands there, and would go on without them.
 */
static bool does_dma(struct ntb_dev *ntb)
{
	return ntb->pdev && !strcmp(dev_driver_string(&ntb->pdev->dev), "switchtec");
}

/* Can this hardware carry a link? */
static int check(struct ntb_dev *ntb)
{
	if (does_dma(ntb)) {
		dev_err(&ntb->dev, "is a Switchtec NTB, whose driver does DMA of its own, which dlend's IOMMU domain would stop: not supported, see docs/hardware.md\n");
		return -EOPNOTSUPP;
	}
	if (ntb_peer_port_count(ntb) != 1) {
		dev_err(&ntb->dev, "has %d peers, dlend wants exactly one: partition the switch into pairs\n",
			ntb_peer_port_count(ntb));
		return -EINVAL;
	}
	if (!ntb->ops->spad_count || !ntb->ops->peer_spad_read ||
	    ntb_spad_count(ntb) < DLEND_SPAD_COUNT) {
		dev_err(&ntb->dev, "has fewer than %d scratchpads that the peer can read\n",
			DLEND_SPAD_COUNT);
		return -EINVAL;
	}
	if (~ntb_db_valid_mask(ntb) & dlend_link_doorbells()) {
		dev_err(&ntb->dev, "has no doorbells 0 and 1 (valid: %llx)\n",
			ntb_db_valid_mask(ntb));
		return -EINVAL;
	}
	if (!ntb->ops->mw_set_trans) {
		dev_err(&ntb->dev, "cannot set where its own windows lead\n");
		return -EINVAL;
	}
	return 0;
}

static int find_window(struct client *c)
{
	resource_size_t size;
	phys_addr_t base;
	int i, count = ntb_peer_mw_count(c->ntb);

	for (i = 0; i < count; i++) {
		if (ntb_peer_mw_get_addr(c->ntb, i, &base, &size) || size <= c->window_size)
			continue;
		c->window = base;
		c->window_size = size;
	}
	if (c->window_size)
		return 0;
	dev_err(&c->ntb->dev, "has no memory window: give the NTB a BAR in the firmware\n");
	return -ENODEV;
}

static int client_probe(struct ntb_client *self, struct ntb_dev *ntb)
{
	struct client *c;
	int err;

	err = check(ntb);
	if (err)
		return err;
	c = kzalloc_obj(*c);
	if (!c)
		return -ENOMEM;
	c->ntb = ntb;
	c->in = -1;
	err = find_window(c);
	if (err)
		goto free_client;
	c->link = dlend_link_add(&ntb->dev, &hw_ops, c);
	if (IS_ERR(c->link)) {
		err = PTR_ERR(c->link);
		goto free_client;
	}
	err = ntb_set_ctx(ntb, c, &ctx_ops);
	if (err)
		goto remove_link;
	/* What happened before there was anybody to tell. */
	dlend_link_event(c->link);
	dev_set_drvdata(&ntb->dev, c);
	return 0;

remove_link:
	dlend_link_remove(c->link);
free_client:
	kfree(c);
	return err;
}

static void client_remove(struct ntb_client *self, struct ntb_dev *ntb)
{
	struct client *c = dev_get_drvdata(&ntb->dev);

	ntb_clear_ctx(ntb);
	dlend_link_remove(c->link);
	kfree(c);
}

static struct ntb_client client = {
	.ops = {
		.probe = client_probe,
		.remove = client_remove,
	},
};
module_ntb_client(client);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("dlend: links over the kernel's NTB API");
DLEND_IMPORT();
