// SPDX-License-Identifier: GPL-2.0
/*
 * Expansion ROM of a lent function.  It is copied once, before the function is offered: borrowers
 * read it when their VMM starts, long before they have a lease.  To read it from the device at that
 * time would disturb the holder of the lease, because in many devices the ROM and the BARs share an
 * address decoder.
 *
 * Knows nothing of leases.
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "lender/rom.h"

static bool lend_rom_wanted = true;
module_param_named(rom, lend_rom_wanted, bool, 0644);
MODULE_PARM_DESC(rom, "copy the expansion ROM of devices that are lent from now on, and lend it too");

/* Copy the ROM to @fn->rom.  Return: bytes; 0: there is none; or -errno. */
static ssize_t lend_rom_load(struct lend_fn *fn)
{
	struct pci_dev *pdev = fn->pdev;
	void __iomem *image;
	size_t size;

	image = pci_map_rom(pdev, &size);
	if (!image)
		return 0;
	if (size > DLEND_ROM_MAX) {
		pci_unmap_rom(pdev, image);
		return -EFBIG;
	}
	fn->rom = kvmalloc(size, GFP_KERNEL);
	if (fn->rom)
		memcpy_fromio(fn->rom, image, size);
	pci_unmap_rom(pdev, image);
	return fn->rom ? size : -ENOMEM;
}

void lend_rom_copy(struct lend_fn *fn)
{
	struct lend_bar *bar = &fn->bar[DLEND_ROM_INDEX];
	ssize_t size = lend_rom_wanted && bar->size ? lend_rom_load(fn) : 0;

	if (size < 0)
		pci_warn(fn->pdev, "its ROM is not lent (%zd): give the guest's device a romfile if the firmware needs it\n",
			 size);
	if (size <= 0) {
		bar->size = 0;
		return;
	}
	/* A request may read it already: the bytes have to be there before the size. */
	smp_store_release(&fn->rom_size, size);
}

int lend_rom_read(struct lend_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got)
{
	u32 at = le32_to_cpu(want->value), size;

	/* Pairs with the release in lend_rom_copy(). */
	size = smp_load_acquire(&fn->rom_size);
	if (!size)
		return -ENOENT;
	if (at >= size)
		return -ERANGE;
	got->offset = want->value;
	got->size = cpu_to_le32(size);
	memcpy(got->data, fn->rom + at, min_t(u32, size - at, sizeof(got->data)));
	return 0;
}

void lend_rom_free(struct lend_fn *fn)
{
	kvfree(fn->rom);
}
