// SPDX-License-Identifier: GPL-2.0
/*
 * Configuration space of the function.  QEMU emulates most of what the host changes (BAR
 * addresses, MSI-X enable and masks); here is what it reads once and passes through.
 */
#include "ntb.h"
#include "util.h"

enum {
	VENDOR_AMD = 0x1022,

	CFG_COMMAND = 0x04,
	CMD_MASTER = BIT(2),
	CMD_WRITABLE = 0x0546,		/* memory, master, parity, SERR, no INTx */
	CFG_STATUS = 0x06,
	CFG_CLASS = 0x08,
	CFG_BAR0 = 0x10,
	CFG_SUBVENDOR = 0x2c,
	CFG_CAPS = 0x34,

	CAP_PCIE = 0x40,
	CAP_MSIX = 0x80,

	BAR_MEM64 = 0x4,
	BAR_PREFETCH = 0x8,
};

/*
 * The endpoint variant: on both sides the driver reads the link status from the function itself;
 * with the others, which older kernels know only, it looks in a switch above the secondary side.
 */
unsigned int ntb_device_id = 0x17d7;

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

static void msix_cap(uint8_t *c)
{
	c[0] = 0x11;
	put16(c + 0x02, NTB_VECTORS - 1);
	put32(c + 0x04, NTB_MSIX_TABLE);	/* low bits: in BAR0 */
	put32(c + 0x08, NTB_MSIX_PBA);
}

void pci_init(struct ntb_side *s)
{
	uint8_t *c = s->cfg;

	memset(c, 0, NTB_CFG_SIZE);
	put16(c, VENDOR_AMD);
	put16(c + 0x02, ntb_device_id);
	put16(c + CFG_STATUS, 0x0010);		/* has capabilities */
	put32(c + CFG_CLASS, 0x06800000);	/* bridge, other */
	put32(c + CFG_BAR0, 0);
	put32(c + CFG_BAR0 + 8, BAR_MEM64 | BAR_PREFETCH);
	put32(c + CFG_BAR0 + 16, BAR_MEM64 | BAR_PREFETCH);
	put16(c + CFG_SUBVENDOR, VENDOR_AMD);
	put16(c + CFG_SUBVENDOR + 2, ntb_device_id);
	c[CFG_CAPS] = CAP_PCIE;
	pcie_cap(c + CAP_PCIE);
	msix_cap(c + CAP_MSIX);
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

void pci_write(struct ntb_side *s, uint32_t off, const uint8_t *buf, unsigned int len)
{
	for (; len; len--, off++, buf++) {
		uint8_t w = writable(off);

		s->cfg[off] = (s->cfg[off] & ~w) | (*buf & w);
	}
	s->dma.master = pci_master(s);
}
