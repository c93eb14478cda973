// SPDX-License-Identifier: GPL-2.0
/*
 * Configuration space of attached devices.
 *
 * The PCI core reads and writes it with interrupts off and a lock held, so it is answered here,
 * from what the lender read when it had reset the device (dlend/cfg.h).  Bus Master Enable and
 * memory decoding are the lender's: they are on while the device is attached.  A function level
 * reset goes to the lender; until it is over, reads give ones: the PCI core polls for the end of
 * that.  It polls for Vital Product Data, too, so that these come from the device.  Other
 * registers that only the device knows (dlend_cfg_live()) stay as they were after its reset, and a
 * write there is lost: nobody polls for those.
 *
 * Must not know DMA and messages of interrupts.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "config.h"
#include "fn.h"
#include "intx.h"

/* The lender's kernel gives a device 125 ms for a word of VPD; so does the one here. */
#define DLEND_NATIVE_VPD_MS	250

/* What a bus gives when nobody answers. */
#define DLEND_NATIVE_NOBODY	0xffffffffu

/* Interrupt Status, where a read includes it. Under lock. */
static u32 dlend_native_config_intx(const struct dlend_native_fn *fn, int where, int size)
{
	int bit = 8 * (PCI_STATUS - where) + ilog2(PCI_STATUS_INTERRUPT);

	return fn->intx_up && bit >= 0 && bit < 8 * size ? BIT(bit) : 0;
}

static int dlend_native_config_read(struct pci_bus *bus, unsigned int devfn, int where, int size,
				    u32 *val)
{
	struct dlend_native_fn *fn = dlend_native_fn_on(bus, devfn);
	unsigned long flags;
	__le32 got = 0;

	*val = DLEND_NATIVE_NOBODY;
	if (!fn)
		return PCIBIOS_DEVICE_NOT_FOUND;
	raw_spin_lock_irqsave(&fn->lock, flags);
	if (!fn->dead && !fn->resetting) {
		dlend_cfg_read(&fn->cfg, where, &got, size);
		*val = le32_to_cpu(got) | dlend_native_config_intx(fn, where, size);
	}
	raw_spin_unlock_irqrestore(&fn->lock, flags);
	return PCIBIOS_SUCCESSFUL;
}

static int dlend_native_config_write(struct pci_bus *bus, unsigned int devfn, int where, int size,
				     u32 val)
{
	struct dlend_native_fn *fn = dlend_native_fn_on(bus, devfn);
	__le32 put = cpu_to_le32(val);
	unsigned long flags;
	u32 effects = 0;

	if (!fn)
		return PCIBIOS_DEVICE_NOT_FOUND;
	raw_spin_lock_irqsave(&fn->lock, flags);
	if (!fn->dead && !fn->resetting) {
		effects = dlend_cfg_write(&fn->cfg, where, &put, size);
		fn->resetting = effects & DLEND_CFG_E_FLR;
	}
	raw_spin_unlock_irqrestore(&fn->lock, flags);
	if (effects & (DLEND_CFG_E_FLR | DLEND_CFG_E_READRQ | DLEND_CFG_E_MSE_ON |
		       DLEND_CFG_E_BME_ON))
		queue_work(fn->claim.wq, &fn->reset_work);
	if (effects & DLEND_CFG_E_VPD)
		queue_work(dlend_native_wq, &fn->vpd_work);
	if (effects & DLEND_CFG_E_INTX && fn->intx)
		dlend_native_intx_wanted(fn);
	return PCIBIOS_SUCCESSFUL;
}

void dlend_native_config_vpd_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, vpd_work);
	struct dlend_lease *lease = dlend_native_lease(fn);
	u16 addr;
	u32 data;

	if (!lease)
		return;
	raw_spin_lock_irq(&fn->lock);
	addr = dlend_cfg_vpd(&fn->cfg, &data);
	raw_spin_unlock_irq(&fn->lock);
	if (dlend_lease_vpd(lease, fn->cfg.vpd_pos, addr, &data, DLEND_NATIVE_VPD_MS))
		return;
	raw_spin_lock_irq(&fn->lock);
	dlend_cfg_vpd_done(&fn->cfg, addr, data);
	raw_spin_unlock_irq(&fn->lock);
}

struct pci_ops dlend_native_config_ops = {
	.read = dlend_native_config_read,
	.write = dlend_native_config_write,
};

int dlend_native_config_init(struct dlend_native_fn *fn)
{
	struct dlend_cfg_desc desc = {
		.vendor = fn->info.vendor,
		.device = fn->info.device,
		.is_vf = fn->info.flags & DLEND_OFFER_F_VF,
		.no_intx = !fn->intx,
		.no_msi = !fn->info.nr_msi,
		.no_msix = !fn->info.nr_msix,
		.max_msi = fn->info.nr_msi,
		.max_msix = fn->info.nr_msix,
		.clique = DLEND_CFG_CLIQUE_NONE,
		.add_reset = true,
		/* Else Linux 6.12 waits 10 ms for a reset in which the lender has to take part. */
		.keeps_state = true,
	};
	u8 *snapshot = kmalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	unsigned int i;
	int ret;

	if (!snapshot)
		return -ENOMEM;
	dlend_offer_copy(fn->claim.offer, &fn->info, snapshot);
	desc.snapshot = snapshot;
	for (i = 0; i < DLEND_NUM_BARS; i++) {
		desc.bar[i].size = fn->claim.lease->bar[i].phys ? fn->info.bar[i].size : 0;
		desc.bar[i].is64 = fn->info.bar[i].flags & DLEND_BAR_F_64;
		desc.bar[i].prefetch = fn->info.bar[i].flags & DLEND_BAR_F_PREFETCH;
	}
	ret = dlend_cfg_init(&fn->cfg, &desc);
	kfree(snapshot);
	/* Without a clique, a looped list of capabilities is cut and is no error. */
	return ret == -EINVAL ? ret : 0;
}

void dlend_native_config_place(struct dlend_native_fn *fn, unsigned int bar, u64 at)
{
	__le32 low = cpu_to_le32(at), high = cpu_to_le32(at >> 32);

	dlend_cfg_write(&fn->cfg, PCI_BASE_ADDRESS_0 + 4 * bar, &low, sizeof(low));
	if (fn->info.bar[bar].flags & DLEND_BAR_F_64)
		dlend_cfg_write(&fn->cfg, PCI_BASE_ADDRESS_0 + 4 * bar + 4, &high, sizeof(high));
}
