// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that are bound, and offered later.  The admin writes a reservation, a set and a clique
 * into attributes that are there only when the function is bound.  A function that was bound by
 * lend_prepare is not offered before that is done, so nobody can borrow what is another's.
 *
 * And functions that are to be unbound soon: their group is withdrawn before its holder is asked to
 * return it, so nobody can borrow what would be taken away at once.
 *
 * Knows nothing of what is written.
 */
#include <linux/device.h>
#include <linux/pci.h>

#include "lender/members.h"
#include "lender/outbox.h"
#include "lender/prepare.h"

/* The prepare lock: guards lend_prepare_dev, from before a device is bound until it is. */
static DEFINE_MUTEX(lend_prepare_lock);
static struct device *lend_prepare_dev;

/* Binds a device, as "bind" does. */
static ssize_t lend_prepare_store(struct device_driver *drv, const char *buf, size_t len)
{
	struct device *dev = bus_find_device_by_name(&pci_bus_type, NULL, buf);
	int ret;

	if (!dev)
		return -ENODEV;
	mutex_lock(&lend_prepare_lock);
	WRITE_ONCE(lend_prepare_dev, dev);
	ret = device_driver_attach(drv, dev);
	WRITE_ONCE(lend_prepare_dev, NULL);
	mutex_unlock(&lend_prepare_lock);
	put_device(dev);
	return ret ?: len;
}
static DRIVER_ATTR_WO(lend_prepare);

static struct attribute *lend_prepare_attrs[] = { &driver_attr_lend_prepare.attr, NULL };

const struct attribute_group lend_prepare_group = { .attrs = lend_prepare_attrs };

/* A probe may run in another thread than the write: see work_on_cpu() in the PCI core. */
bool lend_prepare_asked(const struct pci_dev *pdev)
{
	return READ_ONCE(lend_prepare_dev) == &pdev->dev;
}

void lend_prepare_done(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&group->lock);
	if (!fn->preparing && !group->withdrawn)
		return;
	group->withdrawn = false;
	fn->preparing = false;
	lend_group_try_offer(group);
	lend_outbox_tell(fn, LEND_TELL_OFFER);
	/* Also if another function of the group is missing. */
	lend_group_tell(group);
}

void lend_prepare_withdraw(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&group->lock);
	group->withdrawn = true;
	lend_group_try_offer(group);
}
