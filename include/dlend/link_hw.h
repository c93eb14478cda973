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
 * @spad_read: one of this node's scratchpads, which the peer writes. Not an access across the link.
 *	Process context
 * @spad_write: one of the peer's. Lost while the hardware's link is down. Process context
 * @db_ring: ring the peer's doorbell bits. Any context, after all writes through the window
 * @db_read: own doorbell bits that are set. Any context
 * @db_clear: clear own doorbell bits. Any context
 * @db_mask: hold back (@masked) or let through own doorbell interrupts. Any context
 * @inbound: size of the window by which the peer reaches this node, and the alignment that its
 *	translation needs, in bytes. -ENOTCONN while the hardware's link is down. Process context
 * @set_trans: let that window reach @base to @base + @size - 1, as dma_dev sees addresses. NULL:
 *	there is no window
 * @clear_trans: the peer reaches nothing of this node any more when this returns. NULL as
 *	@set_trans
 * @spare_set: let the peer reach @size bytes from @base on, addresses as dma_dev's, by a second
 *	window; @offset is where they begin in it. NULL or -ENODEV: there is none; -ENOSPC it is too
 *	small for its alignment. Process context
 * @spare_clear: undo that
 * @set_requesters: let requests of these requesters, and of this host's processors, pass to the
 *	peer, but no others. To be called again after a reset of the hardware. NULL: it lets all
 *	pass. On an error nothing has changed: -ENOSPC it has no room; -EIO it refuses; -EAGAIN try
 *	again; -ENODEV it does not answer. Process context
 * @requesters_free: for how many requesters more it has room; -ENODATA it lets all pass; -ENODEV it
 *	does not answer. NULL: it lets all pass. Process context
 * @link_is_up: does the hardware see its peer? NULL: it always does. Process context
 * @link_enable: let the hardware connect, or (@on false) disconnect. NULL: nothing is to be done
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
 * struct dlend_link_hw - the hardware of one link; does not change while the link is there
 * @ops: see above
 * @window, @window_size: window by which this node reaches the peer: physical address, bytes. Size
 *	0: the peer is this node, and there is one aperture for both
 * @spare, @spare_size: the second such window; size 0: there is none
 * @dma_dev: device as whose DMA the peer's accesses arrive; NULL: there is none
 * @shares_domain: the driver of @dma_dev does DMA of its own, so the domain stays that driver's
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
 * dlend_link_add - make a new link; its bring-up begins by itself
 * @parent: device of the hardware: the link has its name in /sys/class/dlend_link; NULL: the link
 *	has the name @hw->ops->type
 * @hw: (in) hardware; kept until dlend_link_remove()
 *
 * Ops may be called before this returns.
 * Context: process, may sleep. Return: link or ERR_PTR.
 */
struct dlend_link *dlend_link_add(struct device *parent, struct dlend_link_hw *hw);

/**
 * dlend_link_remove - the hardware goes away
 * @link: from dlend_link_add(); the hardware delivers no events for it any more
 *
 * When this returns link_down() has run for every user, and no op is called any more.
 * Context: process, may sleep; waits for message handlers that run.
 */
void dlend_link_remove(struct dlend_link *link);

/**
 * dlend_link_queue_step - have the bring-up make a step now, as something has changed
 * @link: link
 *
 * Context: any.
 */
void dlend_link_queue_step(struct dlend_link *link);

/**
 * dlend_link_doorbell - own doorbell bits may be set
 * @link: link
 *
 * Context: any, hard interrupt too; calls fire() of interrupt sinks.
 */
void dlend_link_doorbell(struct dlend_link *link);

#endif
