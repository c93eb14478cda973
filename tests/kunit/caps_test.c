// SPDX-License-Identifier: GPL-2.0
/*
 * Capabilities of configuration space (ntb/caps.c): those of real devices, beside what vfio-pci
 * shows and passes on.  Each difference has its reason here, and each reason a device that needs
 * it.  The lender's filter and the borrower agree on every byte.
 */

#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include <dlend/cfg.h>

#include "lender/cfgfilter.h"

/*
 * struct space - what decides in a real device's configuration space
 * @name: whose
 * @bytes: that were read of it, 256 or 4096
 * @caps: its capabilities in their order, as POSITION:ID, an extended one's ID in four digits; then
 *	=OFFSET.VALUE for what decides how long it is; lines end in semicolons
 * @raw: what vfio-pci passes on as it is, by its source in Linux 7.2
 */
struct space {
	const char *name;
	u32 bytes;
	const char *caps, *raw;
};

static const struct space spaces[] = {
	{ "amd-navi23-audio", 4096,
	  "48:09=2.08 50:01 64:10=2.0012=c.00440d04 a0:05=2.0081 100:000b=4.01010001; "
	  "150:0001 2a0:000d=4.0000",
	  "40-4f 58-63 ae-14f 17c-29f 2a8-fff" },
	{ "amd-r9-fury-fiji", 4096,
	  "48:09=2.08 50:01 58:10=2.0012=c.00400103 a0:05=2.0081 100:000b=4.01010001; "
	  "150:0001 200:0015=8.20 270:0019 2b0:000f 2c0:0013 2d0:001b 328:000e",
	  "40-4f 94-9f ae-14f 17c-1ff 20c-2af 2b8-2bf 2d0-327 330-fff" },
	{ "amd-rx6600-navi23", 4096,
	  "48:09=2.08 50:01 64:10=2.0012=c.00440d04 a0:05=2.0081 100:000b=4.01010001; "
	  "150:0001 200:0015=8.40 240:0004 270:0019 2a0:000d=4.0000 2d0:001b 320:0018; "
	  "410:0026 440:0027",
	  "40-4f 58-63 ae-14f 17c-1ff 214-23f 250-29f 2a8-31f 328-fff" },
	{ "aspeed-vga", 256,
	  "40:01 50:05=2.0082",
	  "48-4f 5e-ff" },
	{ "atheros-ar8151", 4096,
	  "40:01 48:05=2.0081 58:10=2.0001=c.0007fc11 6c:03 100:0001 180:0003",
	  "56-57 74-ff 12c-17f 18c-fff" },
	{ "atheros-ar928x", 4096,
	  "40:01 50:05=2.0000 60:10=2.0011=c.00033811 90:11=2.0000 100:0001; "
	  "140:0002=4.00=8.00 160:0003",
	  "48-4f 5a-5f 74-8f 9c-ff 12c-13f 15c-15f 16c-fff" },
	{ "broadcom-bcm5719", 256,
	  "48:01 50:03 58:05=2.0086 a0:11=2.0010 ac:10=2.0002=c.00055c42",
	  "40-47 66-9f e8-ff" },
	{ "broadcom-bcm5764m", 4096,
	  "48:01 40:03 60:09=2.6c 50:05=2.0081 cc:10=2.0002=c.00074c11 100:0001; "
	  "13c:0002=4.00=8.00 160:0003 16c:0004",
	  "5e-cb 12c-13b 158-15f 17c-fff" },
	{ "cavium-thunderx-vf-ea", 4096,
	  "40:10=2.0002=c.00000000 80:11=2.0009 98:14=2.04 100:000e 108:000b=4.040100a0; "
	  "180:0010",
	  "7c-7f 8c-ff 108-17f 1c0-fff" },
	{ "creative-x-fi-20k2", 256,
	  "40:01 48:05=2.0080 58:10=2.0002=c.00000c11",
	  "56-57 94-ff" },
	{ "intel-82545em-pcix", 256,
	  "dc:01 e4:07=2.0008 f0:05=2.0080",
	  "40-db ec-ef fe-ff" },
	{ "intel-82576", 4096,
	  "40:01 50:05=2.0180 70:11=2.0009 a0:10=2.0002=c.00036c41 100:0001 140:0003; "
	  "150:000e 160:0010",
	  "48-4f 68-6f 7c-9f dc-ff 12c-13f 14c-14f 158-15f 1a0-fff" },
	{ "intel-82579lm", 256,
	  "c8:01 d0:05=2.0081 e0:13",
	  "40-c7 de-df e6-ff" },
	{ "intel-ahci-c220", 256,
	  "80:05=2.0001 70:01 a8:12=4.48",
	  "40-6f 78-7f 8a-a7 b0-ff" },
	{ "intel-cxl-0d93", 4096,
	  "40:10=2.0092=c.00000000 80:05=2.0384 a0:01 100:0001 200:0008=4.00=8.01; "
	  "300:0009=4.00=8.00 550:0012 588:0018 5b0:0017=4.000f0300 6e0:000f 700:0015=8.24; "
	  "714:0019 b20:0013 b40:001b b50:001f b80:0010 d00:000b=4.04c10040; "
	  "e00:0023=4.03801e98=8.0000 e38:0003",
	  "6c-7f 98-9f a8-ff 12c-1ff 21c-2ff 31c-54f 578-587 590-5af 5dc-6df 6e8-6ff; "
	  "70c-b1f b30-b7f bc0-e37 e44-fff" },
	{ "intel-cxl-doe", 4096,
	  "40:11=2.0001 80:10=2.0002=c.00000411 100:002e 130:002e",
	  "4c-7f bc-ff 104-fff" },
	{ "intel-dsa", 4096,
	  "40:10=2.0092=c.00000000 80:11=2.0008 90:01 100:0001 150:0018 160:0017=4.00010205; "
	  "170:0002=4.11=8.01 200:0023=4.01808086=8.0005 220:000f 230:001b 240:0013",
	  "6c-7f 8c-8f 98-ff 12c-14f 158-15f 198-21f 228-23f 250-fff" },
	{ "intel-hda-c220", 4096,
	  "50:01 60:05=2.0081 70:10=2.0091 100:0002=4.01=8.00",
	  "40-4f 58-5f 6e-6f 7c-ff 128-fff" },
	{ "intel-igd-ivybridge", 256,
	  "90:05=2.0001 d0:01 a4:13",
	  "40-8f 9a-a3 aa-cf d8-ff" },
	{ "intel-igd-skylake", 4096,
	  "40:09=2.0c 70:10=2.0092=c.00000000 ac:05=2.0001 d0:01 100:001b 200:000f 300:0013",
	  "40-6f 9c-ab b6-cf d8-ff 104-1ff 208-2ff 310-fff" },
	{ "intel-raid-82801", 256,
	  "80:05=2.0001 70:01 a8:12=4.48 b0:13",
	  "40-6f 78-7f 8a-a7 b6-ff" },
	{ "intel-thunderbolt-nhi", 4096,
	  "80:01 88:05=2.0080 c0:10=2.0002=c.00055c41 a0:11=2.000f 100:0003 200:0001; "
	  "300:0002=4.00=8.00 400:0004 500:000b=4.08811234 600:0018",
	  "40-7f 96-9f ac-bf fc-ff 10c-1ff 22c-2ff 31c-3ff 410-5ff 608-fff" },
	{ "intel-uhci-ich9", 256,
	  "50:13",
	  "40-4f 56-ff" },
	{ "intel-wifi-6205", 4096,
	  "c8:01 d0:05=2.0081 e0:10=2.0001=c.0006ec11 100:0001 140:0003",
	  "40-c7 de-df f4-ff 12c-13f 14c-fff" },
	{ "intel-wifi-7265", 4096,
	  "c8:01 d0:05=2.0081 40:10=2.0002=c.0046e811 100:0001 140:0003 14c:0018 154:001e",
	  "7c-c7 de-ff 12c-13f 154-fff" },
	{ "intel-x710", 256,
	  "40:01 50:05=2.0180 70:11=2.0080 a0:10=2.0002=c.00425843",
	  "48-4f 68-6f 7c-9f dc-ff" },
	{ "intel-xhci-c220", 256,
	  "70:01",
	  "40-6f 78-ff" },
	{ "lsi-53c1010-scsi", 256,
	  "40:01",
	  "48-ff" },
	{ "mellanox-connectx3-pro", 4096,
	  "40:01 9c:11=2.00ff 60:10=2.0002=c.0843f483 100:000e 148:0003 154:0001 18c:0019",
	  "48-5f a8-ff 108-147 180-fff" },
	{ "mellanox-connectx5ex", 256,
	  "60:10=2.0002=c.00417104 48:03 9c:11=2.003f c0:09=2.18 40:01",
	  "50-5f a8-ff" },
	{ "myricom-10g", 4096,
	  "44:05=2.0080 54:01 5c:10=2.0001=c.0003f481 88:09=2.20 d0:11=2.007f 100:0001; "
	  "1a8:0003 1c4:000f",
	  "40-43 52-53 70-cf dc-ff 12c-1a7 1b4-1c3 1cc-fff" },
	{ "nvidia-gp106-audio", 4096,
	  "60:01 68:05=2.0080 78:10=2.0002=c.00453d03 100:0001",
	  "40-5f 76-77 b4-ff 12c-fff" },
	{ "nvidia-gtx1060-gp106", 4096,
	  "60:01 68:05=2.0081 78:10=2.0012=c.00453d03 100:0002=4.00=8.00 250:0018 128:0004; "
	  "420:0001 600:000b=4.02410001 900:0019",
	  "40-5f 76-77 b4-ff 11c-127 138-24f 258-41f 44c-fff" },
	{ "nvidia-mx150-gp108", 4096,
	  "60:01 68:05=2.0080 78:10=2.0002=c.00454c43 100:0002=4.00=8.00 250:0018 258:001e; "
	  "128:0004 420:0001 600:000b=4.02410001 900:0019",
	  "40-5f 76-77 b4-ff 11c-127 138-24f 258-41f 44c-fff" },
	{ "nvidia-nvs5200m-gf108", 4096,
	  "60:01 68:05=2.0081 78:10=2.0002=c.00052d01 b4:09=2.14 100:0002=4.00=8.00; "
	  "128:0004 600:000b=4.02410001",
	  "40-5f 76-77 b4-ff 11c-127 138-fff" },
	{ "nvidia-rtx3060ti-ga104", 4096,
	  "60:01 68:05=2.0081 78:10=2.0012=c.00453d04 b4:09=2.14 100:0002=4.00=8.00; "
	  "258:001e 128:0004 420:0001 600:000b=4.02410001 900:0019 bb0:0015=8.60 c1c:0026; "
	  "d00:0027 e00:0025",
	  "40-5f 76-77 b4-ff 11c-127 138-41f 44c-baf bcc-fff" },
	{ "o2micro-sdhci", 4096,
	  "a0:01 80:10=2.0001=c.00073c11 100:0002=4.00=8.00 200:0001",
	  "40-7f 94-9f a8-ff 11c-1ff 22c-fff" },
	{ "realtek-nvme-5765", 4096,
	  "40:01 50:05=2.0086 70:10=2.0002=c.00477843 b0:11=2.0008 100:0001 148:0003; "
	  "158:0019 178:0018 180:001e 190:000b=4.03810001",
	  "48-4f 5e-6f ac-af bc-ff 12c-147 154-177 180-fff" },
	{ "realtek-rtl8101e", 4096,
	  "40:01 50:05=2.0081 70:10=2.0202=c.00073c11 ac:11=2.0001 cc:03 100:0001; "
	  "140:0002=4.00=8.00 160:0003",
	  "48-4f 5e-6f b8-cb d4-ff 12c-13f 15c-15f 16c-fff" },
	{ "realtek-rtl8111", 4096,
	  "40:01 50:05=2.0080 70:10=2.0202=c.00477c11 b0:11=2.0003 100:0001; "
	  "140:0002=4.00=8.00 160:0003 170:0018 178:001e",
	  "48-4f 5e-6f ac-af bc-ff 12c-13f 15c-15f 16c-16f 178-fff" },
	{ "rme-hdsp-madi-xilinx", 256,
	  "40:01 48:05=2.0080 58:10=2.0001=c.00036411",
	  "56-57 6c-ff" },
	{ "samsung-nvme-a808", 256,
	  "40:01 50:05=2.008a 70:10=2.0002=c.00477843 b0:11=2.0020",
	  "48-4f 5e-6f ac-af bc-ff" },
	{ "samsung-pm174x", 4096,
	  "40:01 70:10=2.0002=c.00437025 b0:11=2.0080 100:0001 148:0003 168:000e 178:0019; "
	  "198:0026 1bc:0027 1d4:002a 1f8:0010 3c0:0025",
	  "48-6f ac-af bc-ff 12c-147 154-167 170-1f7 238-fff" },
	{ "synopsys-nvme-dev3", 4096,
	  "40:01 50:05=2.0186 70:10=2.0002=c.0045c843 b0:11=2.000f 100:0001 158:0019; "
	  "178:0018 180:001e 300:002f",
	  "48-4f 68-6f ac-af bc-ff 12c-177 180-fff" },
	{ "ti-tusb73x0", 256,
	  "40:01 48:05=2.0086 70:10=2.0002=c.00069c12 c0:11=2.0007",
	  "56-6f ac-bf cc-ff" },
	{ "virtio-fs", 256,
	  "40:11=2.0002 4c:09=2.10 5c:09=2.10 6c:09=2.14 80:09=2.10 90:09=2.18",
	  "4c-ff" },
	{ "xilinx-cxl-mem", 4096,
	  "80:10=2.0092=c.00000000 e0:05=2.0088 f8:01 100:000b=4.00811556 128:000e 1e0:0025; "
	  "200:0001 450:002e 500:0023=4.03811e98=8.0000 540:0023=4.01411e98=8.0007; "
	  "560:0023=4.02401e98=8.0008 590:0023=4.01001e98=8.0005",
	  "40-7f ac-df ee-f7 100-127 130-1ff 22c-fff" },
};

KUNIT_ARRAY_PARAM_DESC(space, spaces, name);

struct kind {
	u16 id;
	bool ext;
	const char *why;
};

/* vfio-pci shows it, and a guest does not see it. */
static const struct kind hidden[] = {
	{ 0x07, false, "PCI-X: settings of the bus that the device sits on" },
	{ 0x12, false, "SATA: a second way to the disk's ports, through registers of ports" },
	{ 0x02, true, "VC: the priority of requests on their way" },
	{ 0x08, true, "MFVC: the same" },
	{ 0x09, true, "VC: the same" },
	{ 0x0d, true, "ACS: which way requests take" },
	{ 0x0e, true, "ARI: routing of the real bus; QEMU hides it, too" },
	{ 0x0f, true, "ATS: translated requests pass by the lender's IOMMU" },
	{ 0x10, true, "SR-IOV: the lender makes functions; QEMU hides it, too" },
	{ 0x12, true, "multicast: addresses of the lender's host" },
	{ 0x13, true, "PRI: needs ATS" },
	{ 0x15, true, "resizable BAR: the window fixes sizes" },
	{ 0x17, true, "TPH: which of the lender's caches data go to" },
	{ 0x18, true, "LTR: times of the real link" },
	{ 0x23, true, "CXL: its memory does not reach over the link" },
	{}
};

/* vfio-pci hides it, and a guest may read it. */
static const struct kind shown[] = {
	{ 0x19, true, "secondary PCIe" }, { 0x25, true, "data link" }, { 0x26, true, "16 GT/s" },
	{ 0x2a, true, "32 GT/s" },
	{}
};

/* vfio-pci, which does not know it, passes it on as it is, and no guest writes it. */
static const struct kind kept[] = {
	{ 0x14, false, "enhanced allocation: where the device decodes" },
	{ 0x19, true, "secondary PCIe: equalization of the real link" },
	{ 0x1b, true, "PASID: where requests go" },
	{ 0x1e, true, "L1 substates: states of the real link" },
	{ 0x1f, true, "PTM: messages to the lender's root" },
	{ 0x23, true, "CXL: see above" },
	{ 0x25, true, "data link: see above" },
	{ 0x26, true, "16 GT/s: see above" },
	{ 0x27, true, "lane margining: a test of the real link" },
	{ 0x2a, true, "32 GT/s: see above" },
	{ 0x2f, true, "device 3: tags that the way may not carry" },
	{}
};

/* vfio-pci lets it be read only. */
static const struct kind passed[] = {
	{ 0x04, true, "power budgeting: its selector has to be written before its data are read" },
	{}
};

struct reasons {
	u32 hidden, shown, kept, passed;
};

static const struct reasons all_reasons = {
	BIT(ARRAY_SIZE(hidden) - 1) - 1, BIT(ARRAY_SIZE(shown) - 1) - 1,
	BIT(ARRAY_SIZE(kept) - 1) - 1, BIT(ARRAY_SIZE(passed) - 1) - 1,
};

struct fixture {
	u8 snap[DLEND_CFG_SIZE];
	u16 cap[64];			/* where they are, in their order */
	unsigned int nr;
	bool raw[DLEND_CFG_SIZE];	/* of vfio-pci */
	struct lend_cfgfilter filter;
	struct dlend_cfg_desc desc;
	struct dlend_cfg cfg;
};

static int caps_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct fixture), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	return 0;
}

/* Return: digits that it has. */
static unsigned int number(const char **text, u32 *value)
{
	const char *at = *text;

	for (*value = 0; (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); at++)
		*value = *value << 4 | (*at <= '9' ? *at - '0' : *at - 'a' + 10);
	swap(at, *text);
	return *text - at;
}

static void put(u8 *at, u32 value, unsigned int digits)
{
	for (; digits >= 2; digits -= 2, value >>= 8)
		*at++ = value;
}

/* One capability of the text, behind the one at @last; 0: the first of its list.  Return: where. */
static u32 put_cap(struct fixture *f, const char **text, u32 last)
{
	u32 pos, id, at, value;
	unsigned int digits;

	number(text, &pos);
	++*text;
	if (number(text, &id) == 4) {
		put_unaligned_le32(id | 1 << 16, f->snap + pos);
		if (last >= 0x100)
			put_unaligned_le16(1 | pos << 4, f->snap + last + 2);
	} else {
		f->snap[pos] = id;
		f->snap[last ? last + 1 : 0x34] = pos;
		f->snap[6] = 0x10;
	}
	while (**text == '=') {
		++*text;
		number(text, &at);
		++*text;
		digits = number(text, &value);
		put(f->snap + pos + at, value, digits);
	}
	*text += strspn(*text, "; ");
	f->cap[f->nr++] = pos;
	return pos;
}

static void build(struct kunit *test, const char *caps, u32 bytes)
{
	struct fixture *f = test->priv;
	u32 last = 0;

	memset(f, 0, sizeof(*f));
	put_unaligned_le32(0x12348086, f->snap);
	while (*caps)
		last = put_cap(f, &caps, last);
	memset(f->snap + bytes, 0xff, DLEND_CFG_SIZE - bytes);
	lend_cfgfilter_init(&f->filter, f->snap, true);
	/* The borrower sees what the lender does not hide. */
	for (u32 at = 0; at < DLEND_CFG_SIZE; at++)
		f->snap[at] &= ~f->filter.hide[at];
	f->desc.snapshot = f->snap;
	f->desc.bar[0].size = 0x100000;
	f->desc.clique = DLEND_CFG_CLIQUE_NONE;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
}

static bool raw(const struct fixture *f, u32 at)
{
	return lend_cfgfilter_action(&f->filter, at, 1) == LEND_CFG_RAW;
}

static void agree(struct kunit *test)
{
	struct fixture *f = test->priv;

	for (u32 at = 0; at < DLEND_CFG_SIZE; at++)
		KUNIT_EXPECT_EQ_MSG(test, raw(f, at), !!dlend_cfg_live(&f->cfg, at, 1),
				    "at %#x", at);
	KUNIT_EXPECT_EQ(test, f->cfg.vpd_pos, f->filter.vpd);
}

/* Which one of the reasons it is, as a bit; 0: none. */
static u32 reason(const struct kind *kinds, u32 id, bool ext)
{
	for (u32 i = 0; kinds[i].id; i++)
		if (kinds[i].id == id && kinds[i].ext == ext)
			return BIT(i);
	return 0;
}

static u32 id_at(const struct fixture *f, u32 pos)
{
	return pos < 0x100 ? f->snap[pos] : get_unaligned_le16(f->snap + pos);
}

/* The capability whose registers, or whose gap behind, @at is; 0: there is none. */
static u32 owner(const struct fixture *f, u32 at)
{
	u32 first = at < 0x100 ? 0x40 : 0x100, pos = 0;

	for (unsigned int i = 0; i < f->nr; i++)
		if (f->cap[i] >= first && f->cap[i] <= at && f->cap[i] > pos)
			pos = f->cap[i];
	return pos;
}

/* Headers: the lender's own kernel walks these lists, too. */
static bool in_header(const struct fixture *f, u32 pos, u32 at)
{
	u32 id = id_at(f, pos);

	if (at >= 0x100 && at < 0x104)
		return true;
	if (pos < 0x100)
		return pos && at < pos + (id == 0x09 ? 3 : 2);
	return at < pos + (id == 0x23 ? 10 : id == 0x0b ? 8 : 4);
}

/* Byte by byte: does a write of the guest's reach the device as it does with vfio-pci? */
static void writes(struct kunit *test, const struct space *s, struct reasons *used)
{
	struct fixture *f = test->priv;
	const char *text = s->raw;
	u32 from, to, pos, why;

	while (*text) {
		number(&text, &from);
		text++;
		number(&text, &to);
		text += strspn(text, "; ");
		memset(f->raw + from, true, to + 1 - from);
	}
	for (u32 at = 0; at < s->bytes; at++) {
		pos = owner(f, at);
		if (raw(f, at) == f->raw[at] || (f->raw[at] && in_header(f, pos, at)))
			continue;
		why = reason(f->raw[at] ? kept : passed, id_at(f, pos), pos >= 0x100);
		KUNIT_EXPECT_NE_MSG(test, why, 0u, "at %#x: vfio-pci %d, lent %d", at, f->raw[at],
				    raw(f, at));
		*(f->raw[at] ? &used->kept : &used->passed) |= why;
	}
}

/* What vfio-pci knows how long it is, and so shows. */
static bool vfio_shows(u32 id, bool ext)
{
	static const u8 std[] = {
		0x01, 0x02, 0x03, 0x05, 0x07, 0x08, 0x09, 0x10, 0x11, 0x12, 0x13,
	};
	static const u8 extended[] = {
		0x01, 0x02, 0x03, 0x04, 0x08, 0x09, 0x0b, 0x0d, 0x0e, 0x0f, 0x10, 0x12, 0x13, 0x15,
		0x16, 0x17, 0x18, 0x23,
	};

	return ext ? memchr(extended, id, sizeof(extended)) : memchr(std, id, sizeof(std));
}

static bool guest_sees(const struct fixture *f, u32 want)
{
	u32 pos = want < 0x100 ? f->cfg.val[0x34] : 0x100;

	while (pos && pos != want)
		pos = want < 0x100 ? f->cfg.val[pos + 1] :
				     get_unaligned_le16(f->cfg.val + pos + 2) >> 4;
	return pos && id_at(f, want) == (want < 0x100 ? f->cfg.val[pos] :
					 get_unaligned_le16(f->cfg.val + pos));
}

static void lists(struct kunit *test, struct reasons *used)
{
	struct fixture *f = test->priv;

	for (unsigned int i = 0; i < f->nr; i++) {
		u32 pos = f->cap[i], id = id_at(f, pos), why;
		bool ext = pos >= 0x100, vfio = vfio_shows(id, ext);

		if (guest_sees(f, pos) == vfio)
			continue;
		why = reason(vfio ? hidden : shown, id, ext);
		KUNIT_EXPECT_NE_MSG(test, why, 0u, "%#x at %#x: vfio-pci %d", id, pos, vfio);
		*(vfio ? &used->hidden : &used->shown) |= why;
	}
}

static void real(struct kunit *test)
{
	const struct space *s = test->param_value;
	struct reasons used = {};

	build(test, s->caps, s->bytes);
	agree(test);
	writes(test, s, &used);
	lists(test, &used);
}

/* Each reason is some device's. */
static void reasons_needed(struct kunit *test)
{
	struct reasons used = {};

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		build(test, spaces[i].caps, spaces[i].bytes);
		writes(test, &spaces[i], &used);
		lists(test, &used);
	}
	KUNIT_EXPECT_EQ(test, used.hidden, all_reasons.hidden);
	KUNIT_EXPECT_EQ(test, used.shown, all_reasons.shown);
	KUNIT_EXPECT_EQ(test, used.kept, all_reasons.kept);
	KUNIT_EXPECT_EQ(test, used.passed, all_reasons.passed);
}

/*
 * struct length - a kind whose length its contents decide
 * @caps: as above; the capability is the last one
 * @end: where it ends, so that the first register of the device's own is there; 0: nowhere
 */
struct length {
	const char *name, *caps;
	u32 end;
};

#define PCIE	"40:10=2.0002=c.00000080 "	/* eight lanes */

static const struct length lengths[] = {
	{ "AGP", "40:02", 0x4c },
	{ "HyperTransport", "40:08", 0x5c },
	{ "SATA, its registers elsewhere", "40:12=4.48", 0x48 },
	{ "SATA, its registers here", "40:12=4.0f", 0x50 },
	{ "enhanced allocation, two entries", "40:14=2.02", 0x84 },
	{ "PCI-X 2.0", "40:07=2.1000", 0x58 },
	{ "VC, three more", PCIE "100:0002=4.03=8.01", 0x140 },
	{ "VC, 32 phases", PCIE "100:0002=4.00=8.02", 0x130 },
	{ "VC, 128 phases", PCIE "100:0002=4.00=8.0e", 0x160 },
	{ "links of the root complex", PCIE "100:0005=4.00000201", 0x130 },
	{ "ACS", PCIE "100:000d=4.005f", 0x108 },
	{ "ACS, egress control of 40", PCIE "100:000d=4.287f", 0x110 },
	{ "ACS, egress control of 256", PCIE "100:000d=4.007f", 0x128 },
	{ "resizable BARs, six", PCIE "100:0015=8.c0", 0x134 },
	{ "resizable BARs of functions, one", PCIE "100:0024=8.20", 0x10c },
	{ "power substates, 32", PCIE "100:0016=4.1f", 0x130 },
	{ "steering tags in it, four", PCIE "100:0017=4.00030205", 0x114 },
	{ "steering tags elsewhere", PCIE "100:0017=4.00030405", 0x10c },
	{ "eight lanes: secondary PCIe", PCIE "100:0019", 0x11c },
	{ "eight lanes: 16 GT/s", PCIE "100:0026", 0x128 },
	{ "eight lanes: 64 GT/s", PCIE "100:0031", 0x118 },
	{ "eight lanes: margining", PCIE "100:0027", 0x128 },
	{ "IDE, nothing", PCIE "100:0030=4.00000000", 0x10c },
	{ "IDE, a link stream of two classes", PCIE "100:0030=4.00002001", 0x11c },
	{ "IDE, two selective streams", PCIE "100:0030=4.00010002=c.00000001=2c.00000002",
	  0x158 },
	{ "errors", PCIE "100:0001", 0x12c },
	{ "ARI", PCIE "100:000e", 0x108 },
	{ "ATS", PCIE "100:000f", 0x108 },
	{ "SR-IOV", PCIE "100:0010", 0x140 },
	{ "multicast", PCIE "100:0012", 0x128 },
	{ "PRI", PCIE "100:0013", 0x110 },
	{ "LTR", PCIE "100:0018", 0x108 },
	{ "PASID", PCIE "100:001b", 0x108 },
	{ "L1 substates", PCIE "100:001e", 0x110 },
	{ "PTM", PCIE "100:001f", 0x10c },
	{ "data link", PCIE "100:0025", 0x10c },
	{ "device 3", PCIE "100:002f", 0x110 },
	{ "nobody knows it, standard", "40:77", 0x42 },
	{ "nobody knows it, extended", PCIE "100:0077", 0x104 },
	{ "nobody knows it, of 16 bits", PCIE "100:0101", 0x104 },
	{ "in the last word", PCIE "100:0003 ffc:0002=0.00010002", 0 },
};

KUNIT_ARRAY_PARAM_DESC(length, lengths, name);

static void ends(struct kunit *test)
{
	const struct length *l = test->param_value;
	struct fixture *f = test->priv;
	u32 at;

	build(test, l->caps, DLEND_CFG_SIZE);
	agree(test);
	for (at = f->cap[f->nr - 1]; at < DLEND_CFG_SIZE && !raw(f, at); at++)
		;
	KUNIT_EXPECT_EQ(test, at, l->end ?: DLEND_CFG_SIZE);
}

static struct kunit_case caps_cases[] = {
	KUNIT_CASE_PARAM(real, space_gen_params),
	KUNIT_CASE(reasons_needed),
	KUNIT_CASE_PARAM(ends, length_gen_params),
	{}
};

static struct kunit_suite caps_suite = {
	.name = "dlend-caps",
	.init = caps_init,
	.test_cases = caps_cases,
};

kunit_test_suite(caps_suite);

MODULE_DESCRIPTION("KUnit suite of the capabilities of configuration space");
MODULE_LICENSE("GPL");
