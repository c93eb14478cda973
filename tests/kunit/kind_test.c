// SPDX-License-Identifier: GPL-2.0
/* A class code for each kind, and codes that only look like one; names of devices. */
#include <kunit/test.h>
#include <dlend/names.h>

static void kind_by_class(struct kunit *test)
{
	static const struct {
		u32 class;
		const char *kind, *title;
	} cases[] = {
		{ 0x010802, "nvme", "dlend NVMe disk" },
		/* NVMHCI, which nvme cannot drive */
		{ 0x010801, "storage", "dlend storage controller" },
		{ 0x010601, "storage", "dlend storage controller" },	/* AHCI */
		{ 0x020000, "nic", "dlend network card" },
		{ 0x028000, "nic", "dlend network card" },
		{ 0x030000, "gpu", "dlend GPU" },			/* VGA */
		{ 0x030200, "gpu", "dlend GPU" },			/* 3D, without a display */
		{ 0x040000, "pci", "dlend PCI device" },		/* video capture */
		{ 0x040100, "audio", "dlend sound card" },
		{ 0x040300, "audio", "dlend sound card" },		/* HD Audio */
		{ 0x0b4000, "accel", "dlend accelerator" },		/* co-processor */
		{ 0x0c0330, "usb", "dlend USB controller" },		/* xHCI */
		{ 0x0c0500, "pci", "dlend PCI device" },		/* SMBus */
		{ 0x120000, "accel", "dlend accelerator" },
		{ 0x000000, "pci", "dlend PCI device" },
		{ 0xffffff, "pci", "dlend PCI device" },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		u32 class = cases[i].class;

		KUNIT_EXPECT_STREQ_MSG(test, dlend_kind(class), cases[i].kind, "class %06x", class);
		KUNIT_EXPECT_STREQ_MSG(test, dlend_kind_title(class), cases[i].title,
				       "class %06x", class);
	}
}

static void name_of_address(struct kunit *test)
{
	const struct dlend_addr first = { .lender = 1, .bdf = 0 };
	const struct dlend_addr last = { .lender = 0xffff, .bdf = 0xffff };
	char name[DLEND_NAME_LEN];

	KUNIT_EXPECT_STREQ(test, dlend_addr_name(&first, name), "d0001:00:00.0");
	KUNIT_EXPECT_STREQ(test, dlend_addr_name(&last, name), "dffff:ff:1f.7");
}

static struct kunit_case kind_cases[] = {
	KUNIT_CASE(kind_by_class),
	KUNIT_CASE(name_of_address),
	{}
};

static struct kunit_suite kind_suite = {
	.name = "dlend_kind",
	.test_cases = kind_cases,
};

kunit_test_suite(kind_suite);
