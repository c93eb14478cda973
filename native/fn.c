// SPDX-License-Identifier: GPL-2.0
/*
 * The structure of a function: how it is made, looked up, marked as lost, and freed.  Must not know
 * how a function is attached.
 */
#include <linux/pci.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "native.h"

struct workqueue_struct *dlend_native_wq;

struct dlend_native_fn *dlend_native_fn_make(struct dlend_offer *offer)
{
	struct dlend_native_fn *fn = kzalloc_obj(*fn);

	if (!fn)
		return NULL;
	kref_init(&fn->ref);
	raw_spin_lock_init(&fn->lock);
	mutex_init(&fn->domain_lock);
	mutex_init(&fn->irq_lock);
	INIT_LIST_HEAD(&fn->in_domain);
	init_waitqueue_head(&fn->reach_wq);
	fn->claim.dev = get_device(dlend_offer_dev(offer));
	fn->claim.offer = offer;
	return fn;
}

static void dlend_native_fn_free(struct kref *ref)
{
	struct dlend_native_fn *fn = container_of(ref, struct dlend_native_fn, ref);

	pci_dev_put(fn->pdev);
	put_device(fn->claim.dev);
	kfree(fn);
}

void dlend_native_fn_put(struct dlend_native_fn *fn)
{
	kref_put(&fn->ref, dlend_native_fn_free);
}

void dlend_native_queue_lost(struct dlend_native_fn *fn)
{
	kref_get(&fn->ref);
	if (!queue_work(dlend_native_wq, &fn->lost_work))
		dlend_native_fn_put(fn);
}

void dlend_native_lost(struct dlend_native_fn *fn, const char *why)
{
	struct pci_dev *pdev;
	bool first;

	raw_spin_lock_irq(&fn->lock);
	first = !fn->dead;
	fn->dead = true;
	raw_spin_unlock_irq(&fn->lock);
	if (!first)
		return;
	dev_err(fn->claim.dev, "the attached device is lost: %s\n", why);
	pdev = READ_ONCE(fn->pdev);
	/*
	 * Report a surprise removal, but not while a driver probes the device: nvme's probe waits
	 * until the channel has no error, even if the error is permanent, and the removal waits for
	 * the probe.  While error_state is normal, reads of all ones end the probe.
	 */
	if (pdev && device_is_bound(&pdev->dev))
		pdev->error_state = pci_channel_io_perm_failure;
	dlend_native_queue_lost(fn);
}

struct dlend_native_fn *dlend_native_fn_on(struct pci_bus *bus, unsigned int devfn)
{
	struct dlend_native_root *root;

	if (bus->ops != &dlend_native_config_ops || !pci_is_root_bus(bus))
		return NULL;
	root = container_of((struct pci_sysdata *)bus->sysdata, struct dlend_native_root, sysdata);
	return devfn < DLEND_NATIVE_DEVFNS ? root->fn[devfn] : NULL;
}

struct dlend_native_fn *dlend_native_fn_of(struct pci_dev *pdev)
{
	return dlend_native_fn_on(pdev->bus, pdev->devfn);
}

void dlend_native_fn_fails(struct dlend_native_fn *fn, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(fn->why, sizeof(fn->why), fmt, args);
	va_end(args);
	dev_err(fn->claim.dev, "%s\n", fn->why);
}
