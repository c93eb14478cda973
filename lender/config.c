// SPDX-License-Identifier: GPL-2.0
/*
 * A lent function's configuration space, for its borrower: what the filter (cfgfilter.c) lets pass.
 *
 * Vital Product Data goes through the kernel's own accessors, as vfio-pci's does: they know how
 * long to wait for a device, where its data end, and which devices must not be asked.  So a
 * borrower never writes the registers themselves.  It writes the word (if it is to be written),
 * then the address; the answer to that comes when the word was moved; then it reads the word.
 *
 * Knows nothing of who else the function has told what.
 */
#include <linux/pci.h>
#include <linux/unaligned.h>

#include "lender/config.h"
#include "lender/group.h"
#include "lender/lease.h"
#include "lender/reset.h"

static bool lend_config_valid(u32 at, u32 size)
{
	return (size == 1 || size == 2 || size == 4) && !(at % size) && at + size <= DLEND_CFG_SIZE;
}

/* The PCI core resets it, or a reset has failed: it need not answer.  Group lock. */
static int lend_config_busy(const struct lend_fn *fn)
{
	return fn->hidden ? -EAGAIN : 0;
}

static u32 lend_config_get(struct pci_dev *pdev, u32 at, u32 size)
{
	u32 value = 0;
	u16 word;
	u8 byte;

	/* A snapshot has 4 KiB: what the device does not have is all ones there, and here. */
	if (at >= pdev->cfg_size)
		return ~0u >> (32 - 8 * size);
	switch (size) {
	case 1:
		pci_read_config_byte(pdev, at, &byte);
		return byte;
	case 2:
		pci_read_config_word(pdev, at, &word);
		return word;
	}
	pci_read_config_dword(pdev, at, &value);
	return value;
}

static void lend_config_put(struct pci_dev *pdev, u32 at, u32 size, u32 value)
{
	if (size == 1)
		pci_write_config_byte(pdev, at, value);
	else if (size == 2)
		pci_write_config_word(pdev, at, value);
	else
		pci_write_config_dword(pdev, at, value);
}

/* The word of VPD that this lease has; another one's is 0.  Group lock. */
static u8 *lend_config_vpd_word(struct lend_fn *fn)
{
	u32 epoch = fn->group->lease.epoch;

	if (fn->vpd.epoch != epoch)
		memset(&fn->vpd, 0, sizeof(fn->vpd));
	fn->vpd.epoch = epoch;
	return fn->vpd.data;
}

int lend_config_read(struct lend_fn *fn, const struct dlend_p_cfg *want, struct dlend_p_cfg *got)
{
	u32 at = le16_to_cpu(want->offset), size = le16_to_cpu(want->size), value;
	int ret = lend_config_valid(at, size) ? lend_config_busy(fn) : -EINVAL;

	if (ret)
		return ret;
	if (lend_cfgfilter_way(&fn->filter, at, size) == LEND_CFG_VPD_DATA)
		value = get_unaligned_le32(lend_config_vpd_word(fn));
	else
		value = lend_cfgfilter_show(&fn->filter, at, size,
					    lend_config_get(fn->pdev, at, size));
	*got = *want;
	got->value = cpu_to_le32(value);
	return 0;
}

/*
 * As vfio-pci does: the size is not below the payload size, where it would cost throughput and help
 * nobody, and not above what the host bridge can stand (the kernel's own limit).
 */
static void lend_config_set_readrq(struct lend_fn *fn, u16 devctl)
{
	int readrq = 128 << ((devctl & PCI_EXP_DEVCTL_READRQ) >> 12);
	int ret = pcie_set_readrq(fn->pdev, max(readrq, pcie_get_mps(fn->pdev)));

	/* The guest may have asked for a reserved size: the device keeps the one that it has. */
	if (ret)
		pci_dbg(fn->pdev, "read requests of %d bytes refused (%d)\n", readrq, ret);
}

/* Group lock. */
static int lend_config_write_now(struct lend_fn *fn, u32 at, u32 size, u32 value)
{
	int ret = lend_config_busy(fn);

	if (ret)
		return ret;
	/* Device Control is never written as it comes, but the size of read requests is set. */
	if (fn->pdev->pcie_cap && at == fn->pdev->pcie_cap + PCI_EXP_DEVCTL && size == 2) {
		lend_config_set_readrq(fn, value);
		return 0;
	}
	/* Nor is COMMAND, but a device that is turned on has its BARs then, as under vfio-pci. */
	if (at == PCI_COMMAND && size == 2) {
		lend_reset_heal(fn);
		return 0;
	}
	switch (lend_cfgfilter_way(&fn->filter, at, size)) {
	case LEND_CFG_RAW:
		/* In one piece: what a write does may depend on its size. */
		lend_config_put(fn->pdev, at, size, value);
		return 0;
	case LEND_CFG_VPD_DATA:
		put_unaligned_le32(value, lend_config_vpd_word(fn));
		return 0;
	default:
		return -EPERM;
	}
}

static int lend_config_move_word(struct pci_dev *pdev, u16 addr, u8 *word)
{
	bool write = addr & PCI_VPD_ADDR_F;
	ssize_t moved;

	if (write) {
		moved = pci_write_vpd(pdev, addr & PCI_VPD_ADDR_MASK, 4, word);
	} else {
		/* Behind the end of the data there are zeroes. */
		memset(word, 0, 4);
		moved = pci_read_vpd(pdev, addr, 4, word);
	}
	/* A borrower takes -ETIMEDOUT for a lender that does not answer. */
	if (moved == -ETIMEDOUT || (write && moved >= 0 && moved != 4))
		return -EIO;
	return min(moved, 0);
}

/*
 * The kernel looks for the end of the data once, which is as long as there are items in them.  That
 * only reads, so it is done before anybody has to wait for it.
 */
static void lend_config_learn_vpd(struct pci_dev *pdev)
{
	u8 first;

	if (!READ_ONCE(pdev->vpd.len))
		pci_read_vpd(pdev, 0, 1, &first);
}

/* The borrower's word, as it is or as it is to be.  Context: takes the group lock. */
static int lend_config_swap_word(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u8 *word,
				 bool store)
{
	int ret = lend_lease_enter(fn, link, epoch);
	u8 *mine;

	if (ret)
		return ret;
	mine = lend_config_vpd_word(fn);
	if (store)
		memcpy(mine, word, sizeof(fn->vpd.data));
	else
		memcpy(word, mine, sizeof(fn->vpd.data));
	ret = lend_config_busy(fn);
	lend_lease_exit(fn);
	return ret;
}

/*
 * Not under the group lock, as a fence must not wait for a device.  Under reset_lock, so that the
 * word is moved before the reset that ends the lease: nobody's write reaches the next lease.
 */
static int lend_config_vpd(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u16 addr)
{
	u8 word[sizeof(fn->vpd.data)];
	int ret;

	ret = lend_config_swap_word(fn, link, epoch, word, false);
	if (ret)
		return ret;
	lend_config_learn_vpd(fn->pdev);
	mutex_lock(&fn->group->reset_lock);
	ret = lend_config_swap_word(fn, link, epoch, word, false);
	if (!ret)
		ret = lend_config_move_word(fn->pdev, addr, word);
	if (!ret && !(addr & PCI_VPD_ADDR_F))
		ret = lend_config_swap_word(fn, link, epoch, word, true);
	mutex_unlock(&fn->group->reset_lock);
	return ret;
}

int lend_config_write(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
		      const struct dlend_p_cfg *want)
{
	u32 at = le16_to_cpu(want->offset), size = le16_to_cpu(want->size);
	u32 value = le32_to_cpu(want->value);
	int ret;

	if (!lend_config_valid(at, size))
		return -EINVAL;
	if (lend_cfgfilter_way(&fn->filter, at, size) == LEND_CFG_VPD_ADDR)
		return lend_config_vpd(fn, link, epoch, value);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	ret = lend_config_write_now(fn, at, size, value);
	lend_lease_exit(fn);
	return ret;
}
