/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hardware that joins two nodes, for the *link core*: the files of ntb/ that make a link of it.
 * Two files implement the hardware: ntb/client.c by the kernel's NTB API, and ntb/loop.c, by memory
 * and function calls, for a node that is its own peer (the loop).
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
 * struct dlend_link_hw_ops - functions of a link's hardware
 * @type: kind of hardware, one word, for sysfs
 * @spad_read: read scratchpad @index (&enum dlend_spad) of this node, which the peer writes. Not an
 *	access across the link
 * @spad_write: write @value to scratchpad @index of the peer. The write is lost while the
 *	hardware's link is down
 * @db_ring: set doorbell bits @bits at the peer. The caller has ordered its writes through the
 *	window before this call, by wmb(). On the loop this calls dlend_link_doorbell(), unless the
 *	bits are masked
 * @db_read: get this node's doorbell bits that are set, masked or not. When it returns, an earlier
 *	@db_clear has taken effect
 * @db_clear: clear doorbell bits @bits of this node
 * @db_mask: mask (@masked) or unmask doorbell interrupts of this node. If a bit is set while it is
 *	masked, an interrupt need not follow when it is unmasked
 * @inbound: get the size of the window by which the peer reaches this node, and the alignment that
 *	the window's translation needs, both in bytes. Called only while the hardware's link is up:
 *	some NTBs do not know their windows before. Return: 0; -ENODEV no window is found
 * @set_trans: set the translation of the window of @inbound: it leads to @size bytes from @base on,
 *	IOVAs of &dlend_link_hw.dma_dev. Return: 0; -ENOTCONN or -EAGAIN the hardware is not
 *	connected yet, so the bring-up calls this again later; or another -errno. NULL: there is no
 *	window (the loop)
 * @clear_trans: clear that translation: when this returns, the peer's window reaches nothing of
 *	this node any more. NULL if @set_trans is
 * @spare_set: set the translation of a second window by which the peer reaches this node: it leads
 *	to @size bytes from @base on, addresses as dma_dev would write to them. @offset is set to
 *	where these bytes begin in the window. Return: 0; -ENODEV there is no second window; -ENOSPC
 *	it is too small, with its alignment; or another -errno. NULL: there is no second window
 * @spare_clear: clear the translation of the second window. NULL if @spare_set is
 * @set_requesters: let requests with the requester IDs in @these, and of this host's processors,
 *	pass to the peer, and no others, as dlend_link_set_requesters() says. A reset of the
 *	hardware may undo this; then a new session begins, and this is called again. Return: 0, also
 *	if the hardware lets all requests pass; if nothing has changed: -ENOSPC the hardware's table
 *	is too small, -EAGAIN the peer is changing the table now, -ENODEV the hardware does not
 *	answer; -EIO the hardware refuses, or has taken only a part. NULL: all requests pass
 * @requesters_free: get how many more requester IDs the hardware's table has room for. Return: that
 *	number; -ENODATA there is no table, and all requests pass; -ENODEV the hardware does not
 *	answer. NULL if @set_requesters is
 * @link_is_up: is the hardware's own link up? NULL: it always is
 * @link_enable: let the hardware's own link come up, or (@on false) take it down. Errors are not
 *	reported: @link_is_up says whether the link has come up. NULL: nothing has to be done
 *
 * The db_*() ops may be called in any context, also with spinlocks held, and by several processors
 * at the same time. All others are called in process context, under the link's state_lock
 * (ntb/link.h), and may sleep.
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
 * struct dlend_link_hw - the hardware of one link
 * @ops: functions of the hardware
 * @window: physical address in this host of the window by which this node reaches the peer
 * @window_size: bytes of @window; 0: this is the loop: the peer is this node, and the link's only
 *	aperture is the peer's aperture, too
 * @spare: physical address of a second window by which this node reaches the peer: this node's
 *	devices send direct interrupts through it. (dlend_link_hw_ops.spare_set is about the window
 *	of the other direction, for direct interrupts to this node.)
 * @spare_size: bytes of @spare; 0: there is none
 * @dma_dev: device whose IOMMU domain translates the peer's accesses: the NTB's function; NULL on
 *	the loop
 * @shares_domain: true: the driver of @dma_dev does DMA itself, so the aperture is made in the DMA
 *	API's domain (dlend_aperture_create(), @shared)
 *
 * Implementations embed it in a structure of their own, in which their ops find what else they
 * need. No member changes from dlend_link_add() until dlend_link_remove() has returned.
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

/* Doorbell bits that a link uses, in both directions (dlend/proto.h). */
#define DLEND_LINK_DOORBELLS	(BIT_ULL(DLEND_DB_MSG) | BIT_ULL(DLEND_DB_IRQ))

/**
 * dlend_link_add - make a new link, and start its bring-up
 * @parent: device of the hardware, under which the link's device is made; the link has that
 *	device's name, in /sys/class/dlend_link. NULL: there is none, and the link's name is
 *	@hw->ops->type
 * @hw: (in) hardware; the caller keeps it until dlend_link_remove() has returned
 *
 * Ops may be called before this returns. The bring-up goes on in a work item.
 * Context: process, may sleep; takes dlend_links_lock and state_lock (ntb/link.h).
 * Return: link; the caller has a reference, which dlend_link_remove() drops. ERR_PTR: -ENOMEM; or
 * the error of device_add().
 */
struct dlend_link *dlend_link_add(struct device *parent, struct dlend_link_hw *hw);

/**
 * dlend_link_remove - end a link, because its hardware goes away
 * @link: from dlend_link_add(). The caller guarantees that it has stopped the hardware's events:
 *	it calls neither dlend_link_queue_step() nor dlend_link_doorbell() for the link any more
 *
 * When this returns, link_down() of every user has returned, and no op is called any more. The link
 * itself stays until its last reference is dropped.
 * Context: process, may sleep; waits for link_down() and for message handlers that run, so it must
 * not be called by these; takes state_lock, dlend_users_lock and dlend_links_lock (ntb/link.h).
 */
void dlend_link_remove(struct dlend_link *link);

/**
 * dlend_link_queue_step - have the bring-up look at the link now, not only at its next time
 * @link: link, to which the caller has a reference. Nothing happens once dlend_link_remove() has
 *	begun to end the use of the hardware
 *
 * To be called when something has changed that the bring-up depends on: for example, the hardware's
 * link has gone up or down. Queues state_work (ntb/session.c).
 * Context: any, hard interrupt too.
 */
void dlend_link_queue_step(struct dlend_link *link);

/**
 * dlend_link_doorbell - handle a doorbell interrupt: read, clear and handle the bits
 * @link: link; dlend_link_remove() was not called
 *
 * For DLEND_DB_IRQ this delivers interrupts: it calls fire() of interrupt sinks
 * (dlend_irq_sink_open()), with interrupts off. For DLEND_DB_MSG it queues work. If there is too
 * much to do for an interrupt handler, it masks the doorbells, and a work item goes on.
 * Context: any, hard interrupt too, on several processors at the same time; takes irq_lock
 * (ntb/link.h).
 */
void dlend_link_doorbell(struct dlend_link *link);

#endif
