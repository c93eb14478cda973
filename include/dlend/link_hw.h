/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hardware that joins two nodes, for the link core.  ntb/client.c implements this for the
 * kernel's NTB API, and ntb/loop.c for a node that is its own peer.
 */
#ifndef DLEND_LINK_HW_H
#define DLEND_LINK_HW_H

#include <linux/bits.h>
#include <linux/types.h>
#include <dlend/proto.h>

struct device;
struct dlend_link;
struct dlend_link_hw;
struct dlend_requesters;

/**
 * struct dlend_link_hw_ops - hardware of a link
 * @type: one word for sysfs
 * @spad_read: read one of this node's scratchpads, which the peer writes. Not an access across the
 *	link. Process context
 * @spad_write: write one of the peer's scratchpads. Lost while the hardware's link is down. Process
 *	context
 * @db_ring: set doorbell bits at the peer. Any context, after all writes through the window
 * @db_read: get this node's doorbell bits that are set. Any context
 * @db_clear: clear doorbell bits of this node. Any context
 * @db_mask: mask (@masked) or unmask doorbell interrupts of this node. Any context
 * @inbound: get the size of the window by which the peer reaches this node, and the alignment that
 *	its translation needs, in bytes. -ENOTCONN while the hardware's link is down. Process
 *	context
 * @set_trans: set the translation of that window to @base to @base + @size - 1, IOVAs of dma_dev.
 *	0; -ENOTCONN, -EAGAIN: not yet; or -errno. Process context. NULL: there is no window
 * @clear_trans: clear that translation: when this returns, the peer's window reaches nothing of
 *	this node any more. Process context. NULL, as @set_trans
 * @spare_set: set the translation of a second window to @size bytes from @base on, IOVAs of
 *	dma_dev;
 *	@offset: (out) where they begin in the window. NULL or -ENODEV: there is no second window;
 *	-ENOSPC it is too small for its alignment. Process context
 * @spare_clear: clear the translation of the second window. Process context
 * @set_requesters: let requests with these requester IDs, and of this host's processors, pass to
 *	the peer, and no others. The caller calls this again after a reset of the hardware. NULL:
 *	the hardware lets all requests pass. On an error nothing has changed: -ENOSPC its table is
 *	too small; -EIO it refuses; -EAGAIN try again; -ENODEV it does not answer. Process context
 * @requesters_free: get how many more requester IDs the table has room for; -ENODATA there is no
 *	table, all requests pass; -ENODEV the hardware does not answer. NULL, as @set_requesters.
 *	Process context
 * @link_is_up: is the hardware's own link up? NULL: it always is. Process context
 * @link_enable: let the hardware's own link come up, or (@on false) take it down. Process context.
 *	NULL: nothing has to be done
 */
struct dlend_link_hw_ops {
	const char *type;
	u32 (*spad_read)(struct dlend_link_hw *hw, unsigned int index);
	void (*spad_write)(struct dlend_link_hw *hw, unsigned int index, u32 value);
	void (*db_ring)(struct dlend_link_hw *hw, u64 bits);
	u64 (*db_read)(struct dlend_link_hw *hw);
	void (*db_clear)(struct dlend_link_hw *hw, u64 bits);
	void (*db_mask)(struct dlend_link_hw *hw, u64 bits, bool masked);
	int (*inbound)(struct dlend_link_hw *hw, u64 *size, u64 *align);
	int (*set_trans)(struct dlend_link_hw *hw, dma_addr_t base, u64 size);
	void (*clear_trans)(struct dlend_link_hw *hw);
	int (*spare_set)(struct dlend_link_hw *hw, u64 base, u64 size, u64 *offset);
	void (*spare_clear)(struct dlend_link_hw *hw);
	int (*set_requesters)(struct dlend_link_hw *hw, struct dlend_requesters *these);
	int (*requesters_free)(struct dlend_link_hw *hw);
	bool (*link_is_up)(struct dlend_link_hw *hw);
	void (*link_enable)(struct dlend_link_hw *hw, bool on);
};

/**
 * struct dlend_link_hw - the hardware of one link; does not change until dlend_link_remove()
 * returns
 * @ops: see above
 * @window, @window_size: window by which this node reaches the peer: physical address, bytes. Size
 *	0: the peer is this node, and there is one aperture for both
 * @spare, @spare_size: the second such window, for direct interrupts; size 0: there is none
 * @dma_dev: device whose IOMMU domain translates the peer's accesses; NULL: the peer is this node
 * @shares_domain: the driver of @dma_dev does DMA itself, so its DMA API domain stays attached, and
 *	the aperture is made in that domain
 */
struct dlend_link_hw {
	const struct dlend_link_hw_ops *ops;
	phys_addr_t window;
	u64 window_size;
	phys_addr_t spare;
	u64 spare_size;
	struct device *dma_dev;
	bool shares_domain;
};

/* Bits of the doorbells that a link uses. */
#define DLEND_LINK_DOORBELLS	(BIT_ULL(DLEND_DB_MSG) | BIT_ULL(DLEND_DB_IRQ))

/**
 * dlend_link_add - make a new link, and start its bring-up
 * @parent: device of the hardware: the link has its name in /sys/class/dlend_link; NULL: the link
 *	has the name @hw->ops->type
 * @hw: (in) hardware; kept until dlend_link_remove()
 *
 * Ops may be called before this returns.
 * Context: process, may sleep. Return: link, until dlend_link_remove(); or ERR_PTR.
 */
struct dlend_link *dlend_link_add(struct device *parent, struct dlend_link_hw *hw);

/**
 * dlend_link_remove - end a link, because its hardware goes away
 * @link: from dlend_link_add(). The caller guarantees that neither dlend_link_queue_step() nor
 *	dlend_link_doorbell() is called for it any more
 *
 * When this returns, link_down() of every user has returned, and no op is called any more. The link
 * itself stays until its last reference is dropped.
 * Context: process, may sleep; waits for message handlers that run.
 */
void dlend_link_remove(struct dlend_link *link);

/**
 * dlend_link_queue_step - queue a step of the bring-up (state_work), as something has changed
 * @link: link; if its hardware is gone, nothing happens
 *
 * Context: any, hard interrupt too.
 */
void dlend_link_queue_step(struct dlend_link *link);

/**
 * dlend_link_doorbell - handle a doorbell interrupt: look at this node's doorbell bits
 * @link: link
 *
 * Context: any, hard interrupt too; calls fire() of interrupt sinks.
 */
void dlend_link_doorbell(struct dlend_link *link);

#endif
