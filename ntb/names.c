// SPDX-License-Identifier: GPL-2.0
/*
 * Names that both sides use: of devices by address, kinds of devices by class code, states of an
 * offer, interrupt modes, nodes, and sets.
 *
 * Pure: tables, formats and characters.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <dlend/names.h>

/* First match wins; any class matches the last. @mask: bits of the class code that count. */
static const struct dlend_kind_row {
	u32 mask, class;
	const char *name, *title;
} kinds[] = {
	{ 0xffffff, 0x010802, "nvme", "dlend NVMe disk" },
	{ 0xff0000, 0x010000, "storage", "dlend storage controller" },
	{ 0xff0000, 0x020000, "nic", "dlend network card" },
	{ 0xff0000, 0x030000, "gpu", "dlend GPU" },
	/* Not all of multimedia: 0400 is video, 0402 telephony. */
	{ 0xffff00, 0x040100, "audio", "dlend sound card" },
	{ 0xffff00, 0x040300, "audio", "dlend sound card" },
	{ 0xffff00, 0x0b4000, "accel", "dlend accelerator" },
	{ 0xffff00, 0x0c0300, "usb", "dlend USB controller" },
	{ 0xff0000, 0x120000, "accel", "dlend accelerator" },
	{ 0, 0, "pci", "dlend PCI device" },
};

static const struct dlend_kind_row *dlend_kind_find(u32 class)
{
	const struct dlend_kind_row *row = kinds;

	while ((class & row->mask) != row->class)
		row++;
	return row;
}

const char *dlend_kind(u32 class)
{
	return dlend_kind_find(class)->name;
}

const char *dlend_kind_title(u32 class)
{
	return dlend_kind_find(class)->title;
}

const char *dlend_addr_name(const struct dlend_addr *addr, char name[DLEND_NAME_LEN])
{
	snprintf(name, DLEND_NAME_LEN, "%05x:%02x:%02x.%x", DLEND_DOMAIN_BASE + addr->lender,
		 addr->bdf >> 8, (addr->bdf >> 3) & 0x1f, addr->bdf & 7);
	return name;
}

static const char * const dlend_offer_state_names[DLEND_OFFER_STATES] = {
	[DLEND_OFFER_FREE] = "free",
	[DLEND_OFFER_HELD] = "held",
	[DLEND_OFFER_RETURNING] = "returning",
	[DLEND_OFFER_QUARANTINED] = "quarantined",
	[DLEND_OFFER_GONE] = "gone",
	[DLEND_OFFER_RESERVED] = "reserved",
	[DLEND_OFFER_KEPT] = "kept",
};

static const char * const dlend_irq_mode_names[DLEND_IRQ_MODES] = {
	[DLEND_IRQ_NONE] = "none",
	[DLEND_IRQ_INTX] = "intx",
	[DLEND_IRQ_MSI] = "msi",
	[DLEND_IRQ_MSIX] = "msix",
};

const char *dlend_offer_state_name(u16 state)
{
	return state < DLEND_OFFER_STATES ? dlend_offer_state_names[state] : "unknown";
}

const char *dlend_irq_mode_name(u32 mode)
{
	return mode < DLEND_IRQ_MODES ? dlend_irq_mode_names[mode] : "unknown";
}

static bool dlend_name_may_have(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

void dlend_name_read(char *name, const char *from)
{
	unsigned int i;

	for (i = 0; i < DLEND_NODE_NAME_LEN - 1 && from[i]; i++)
		name[i] = dlend_name_may_have(from[i]) ? from[i] : '?';
	memset(name + i, 0, DLEND_NODE_NAME_LEN - i);
}
