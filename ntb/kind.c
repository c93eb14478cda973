// SPDX-License-Identifier: GPL-2.0
/*
 * What both sides call a device: its kind, by its class code, and its name.
 *
 * Pure: a table and a format.
 */
#include <linux/kernel.h>
#include <dlend/kind.h>

/* First match wins. @mask: which bits of the class code must be as in @class. */
static const struct {
	u32 mask, class;
	const char *name;
} kinds[] = {
	{ 0xffffff, 0x010802, "nvme" },
	{ 0xff0000, 0x010000, "storage" },
	{ 0xff0000, 0x020000, "nic" },
	{ 0xff0000, 0x030000, "gpu" },
	/* Not all of multimedia: 0400 is video, 0402 telephony. */
	{ 0xffff00, 0x040100, "audio" },
	{ 0xffff00, 0x040300, "audio" },
	{ 0xffff00, 0x0b4000, "accel" },
	{ 0xffff00, 0x0c0300, "usb" },
	{ 0xff0000, 0x120000, "accel" },
};

const char *dlend_kind(u32 class)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((class & kinds[i].mask) == kinds[i].class)
			return kinds[i].name;
	return "pci";
}

const char *dlend_addr_name(const struct dlend_addr *addr, char name[DLEND_NAME_LEN])
{
	snprintf(name, DLEND_NAME_LEN, "%05x:%02x:%02x.%x", DLEND_DOMAIN_BASE + addr->lender,
		 addr->bdf >> 8, (addr->bdf >> 3) & 0x1f, addr->bdf & 7);
	return name;
}
