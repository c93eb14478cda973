// SPDX-License-Identifier: GPL-2.0
/*
 * What both sides call a device: its kind, by its class code, and its name.
 *
 * Pure: a table and a format.
 */
#include <linux/kernel.h>
#include <dlend/kind.h>

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
