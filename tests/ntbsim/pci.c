// SPDX-License-Identifier: GPL-2.0
/*
 * Configuration space of the function.  QEMU emulates most of what the host changes (BAR
 * addresses, MSI-X enable and masks); here is what it reads once and passes through.
 */
#include "ntb.h"
#include "util.h"

enum {
	CFG_COMMAND = 0x04,
	CMD_MASTER = BIT(2),
	CMD_WRITABLE = 0x0546,		/* memory, master, parity, SERR, no INTx */
	CFG_STATUS = 0x06,
	CFG_SUBVENDOR = 0x2c,
	CFG_CAPS = 0x34,

	CAP_PCIE = 0x40,
	CAP_MSIX = 0x80,
};

static void pcie_cap(uint8_t *c)
{
	c[0] = 0x10;
	c[1] = CAP_MSIX;
	put16(c + 0x02, 0x0002);	/* version 2, endpoint */
	put32(c + 0x04, 0x00008001);	/* 256 byte payload, role-based errors */
	put32(c + 0x0c, 0x00000103);	/* link can do 8 GT/s, x16 */
	put16(c + 0x12, 0x0103);	/* and does */
	put32(c + 0x2c, 0x0000000e);	/* speeds 2.5, 5 and 8 GT/s */
	put16(c + 0x30, 0x0003);	/* target 8 GT/s */
}

static void msix_cap(uint8_t *c, const struct ntb_side *s)
{
	const struct ntb_family *f = s->link->family;
	uint32_t at = s->idx * f->msix_stride;

	c[0] = 0x11;
	put16(c + 0x02, f->vectors - 1);
	put32(c + 0x04, f->msix_table + at);	/* low bits: in BAR0 */
	put32(c + 0x08, f->msix_pba + at);
}

void pci_set_id(struct ntb_side *s, uint16_t vendor, uint16_t device)
{
	put16(s->cfg, vendor);
	put16(s->cfg + 2, device);
	put16(s->cfg + CFG_SUBVENDOR, vendor);
	put16(s->cfg + CFG_SUBVENDOR + 2, device);
}

void pci_init(struct ntb_side *s)
{
	uint8_t *c = s->cfg;

	memset(c, 0, NTB_CFG_SIZE);
	put16(c + CFG_STATUS, 0x0010);		/* has capabilities */
	put32(c + PCI_REVISION, 0x06800000);	/* class: bridge, other */
	put32(c + PCI_BAR0 + 8, PCI_BAR_MEM64 | PCI_BAR_PREFETCH);
	put32(c + PCI_BAR0 + 16, PCI_BAR_MEM64 | PCI_BAR_PREFETCH);
	c[CFG_CAPS] = CAP_PCIE;
	pcie_cap(c + CAP_PCIE);
	msix_cap(c + CAP_MSIX, s);
	s->link->family->config(s);
	memset(s->bar, 0, sizeof(s->bar));
}

/* Which bits of this byte the host may change. */
static uint8_t writable(uint32_t off)
{
	switch (off) {
	case CFG_COMMAND:
		return CMD_WRITABLE & 0xff;
	case CFG_COMMAND + 1:
		return CMD_WRITABLE >> 8;
	case 0x0c:			/* cache line size */
	case 0x3c:			/* interrupt line */
		return 0xff;
	case CAP_PCIE + 0x08:		/* device control, without FLR */
		return 0xff;
	case CAP_PCIE + 0x09:
		return 0x7f;
	case CAP_PCIE + 0x10:		/* link control */
		return 0xcb;
	case CAP_MSIX + 0x03:		/* enable, function mask */
		return 0xc0;
	default:
		return 0;
	}
}

bool pci_master(const struct ntb_side *s)
{
	return s->cfg[CFG_COMMAND] & CMD_MASTER;
}

/* QEMU answers reads of BARs itself, and passes all writes on, those that find the size, too. */
static void bar_write(struct ntb_side *s, uint32_t off, uint8_t v)
{
	if (off >= PCI_BAR0 && off < PCI_BAR0 + sizeof(s->bar))
		s->bar[off - PCI_BAR0] = v;
}

uint64_t pci_bar(const struct ntb_side *s, unsigned int bar)
{
	return get64(s->bar + 4 * bar) & ~0xfull;
}

void pci_write(struct ntb_side *s, uint32_t off, const uint8_t *buf, unsigned int len)
{
	for (; len; len--, off++, buf++) {
		uint8_t w = writable(off);

		s->cfg[off] = (s->cfg[off] & ~w) | (*buf & w);
		bar_write(s, off, *buf);
	}
	s->dma.master = pci_master(s);
}
