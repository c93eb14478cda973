/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Capabilities of configuration space.  One table serves both sides: by it the lender decides which
 * registers a borrower may write, and the borrower decides which registers a guest sees.  Pure:
 * bytes in, bits out.  Context of all functions: any.
 */
#ifndef DLEND_CAPS_H
#define DLEND_CAPS_H

#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/pci_regs.h>
#include <dlend/types.h>

#define DLEND_CFG_STD_SIZE	PCI_CFG_SPACE_SIZE

#define DLEND_CAP_SHOWN		0x1	/* in the list that a guest walks */
#define DLEND_CAP_OWN		0x2	/* registers behind its header are the device's own */
#define DLEND_CAP_CLIP		0x4	/* may end where the next one starts */
#define DLEND_CAP_SECRET	0x8	/* behind its header are addresses of the lender's host */
#define DLEND_CAP_UNKNOWN	0x10	/* its end is not known */

/**
 * struct dlend_cap_rule - one register, as a guest has it
 * @at: offset in its structure
 * @width: bytes, 1, 2 or 4
 * @show: bits that come from the device; the others start as 0
 * @write: bits that the guest can change; nothing but the virtual value changes
 * @w1c: bits that a written 1 clears
 */
struct dlend_cap_rule {
	u8 at;
	u8 width;
	u32 show;
	u32 write;
	u32 w1c;
};

struct dlend_caps;

/**
 * struct dlend_cap - one kind of capability
 * @id: capability id or extended capability id
 * @flags: DLEND_CAP_*
 * @min: fewest bytes of a valid one; 0: @len. With DLEND_CAP_OWN: bytes of its header
 * @len: bytes, to which @each and @lane may add some
 * @each: bytes to add for each element that the register at @at counts; 0: there is none
 * @at: offset of that register, 16 bits
 * @bits: its bits that hold the number
 * @lane: bytes to add for each lane of the link; the sum of these is rounded up to words of 32 bits
 * @length: (in place of @len and @each) computes the bytes from the capability's contents. @room:
 *	bytes up to the next capability
 * @is: is it this kind, of several with this id? NULL: yes
 * @rules: registers, ended by one without width; NULL: all of it is read-only
 */
struct dlend_cap {
	u16 id;
	u8 flags;
	u8 len, min;
	u8 each, at, lane;
	u16 bits;
	u32 (*length)(const struct dlend_caps *caps, const u8 *cap, u32 room);
	bool (*is)(const u8 *cap);
	const struct dlend_cap_rule *rules;
};

/**
 * struct dlend_caps - capabilities of one configuration space
 * @start: a bit for each word of 32 bits: a listed capability starts there, or the list breaks off
 * @own: a bit for each byte: a register of the device's own
 * @std: where the capabilities in the list are, in the device's order
 * @nr_std: how many these are
 * @nr_ext: how many are in the extended list
 * @std_broken: the list does not end as it should
 * @ext_broken: the extended list does not
 * @pcie: where the PCI Express capability is; without one there is no extended space
 * @lanes: width of the PCIe link (Link Capabilities), 0 without one
 */
struct dlend_caps {
	DECLARE_BITMAP(start, DLEND_CFG_SIZE / 4);
	DECLARE_BITMAP(own, DLEND_CFG_SIZE);
	u8 std[(DLEND_CFG_STD_SIZE - PCI_STD_HEADER_SIZEOF) / 4];
	u16 nr_std, nr_ext;
	bool std_broken, ext_broken;
	u8 pcie, lanes;
};

/** dlend_cap_header_rules - header, type 0, without BARs and the ROM (borrower/cfg.c) */
extern const struct dlend_cap_rule dlend_cap_header_rules[];

/**
 * dlend_caps_find - walk both lists, and find the registers that are the device's own
 * @caps: (out) capabilities
 * @space: (in) DLEND_CFG_SIZE bytes, as they are after a reset; not trusted. All ones where the
 *	device has nothing
 * @gaps: (in) registers that are in no known capability are the device's own, too
 *
 * The device's own registers are those of vendor-specific capabilities behind their headers, and
 * those in gaps.  Headers of capabilities, and the place where the extended list begins, are not.
 * If a list is broken, its gaps are not known, and do not count as the device's own.
 */
void dlend_caps_find(struct dlend_caps *caps, const u8 *space, bool gaps);

/** dlend_caps_next - where the first capability above @pos starts; DLEND_CFG_SIZE: none */
static inline u32 dlend_caps_next(const struct dlend_caps *caps, u32 pos)
{
	return 4 * find_next_bit(caps->start, DLEND_CFG_SIZE / 4, pos / 4 + 1);
}

/** dlend_caps_room - bytes from the capability at @pos to the next one, or to the end */
u32 dlend_caps_room(const struct dlend_caps *caps, u32 pos);

/** dlend_caps_own - is the byte at @at, below DLEND_CFG_SIZE, the device's own? */
static inline bool dlend_caps_own(const struct dlend_caps *caps, u32 at)
{
	return test_bit(at, caps->own);
}

/** dlend_caps_disown - the @len bytes at @at are the device's own no more */
static inline void dlend_caps_disown(struct dlend_caps *caps, u32 at, u32 len)
{
	bitmap_clear(caps->own, at, len);
}

/** dlend_cap_at - kind of the capability that starts at @pos. Return: never NULL */
const struct dlend_cap *dlend_cap_at(const u8 *space, u32 pos);

/**
 * dlend_cap_bytes - how long a capability is
 * @caps: (in) capabilities of @space
 * @space: (in) configuration space
 * @pos: (in) where the capability is
 *
 * Return: bytes, which may be more than dlend_caps_room(); 0 if its length fields make no sense. If
 * its kind is not known (DLEND_CAP_UNKNOWN): bytes of its header.
 */
u32 dlend_cap_bytes(const struct dlend_caps *caps, const u8 *space, u32 pos);

/** dlend_cap_owned - as dlend_cap_bytes(); if that is not known, bytes up to the next capability */
u32 dlend_cap_owned(const struct dlend_caps *caps, const u8 *space, u32 pos);

/* The P2P clique capability */

#define DLEND_CLIQUE_LEN	8
#define DLEND_CLIQUE_MAX	15	/* four bits of the approval parameters */

/** dlend_clique_known - do drivers of this vendor's devices look for the capability? */
bool dlend_clique_known(u16 vendor);

/** dlend_clique_is - is this vendor-specific capability (6 readable bytes) a clique capability? */
static inline bool dlend_clique_is(const u8 *cap)
{
	return cap[2] == DLEND_CLIQUE_LEN && cap[3] == 'P' && cap[4] == '2' && cap[5] == 'P';
}

#endif
