// SPDX-License-Identifier: GPL-2.0
/*
 * Puts a link together from its parts, and takes it apart.
 */
#include <linux/slab.h>
#include <dlend/compat.h>
#include "debugfs.h"
#include "link.h"
#include "link_life.h"
#include "pm.h"
#include "sysfs.h"

/* The last reference is gone. Also after dlend_link_add() failed: parts may not have been made. */
static void dlend_link_release(struct device *dev)
{
	struct dlend_link *link = container_of(dev, struct dlend_link, dev);

	dlend_setup_free(link);
	dlend_jobs_free(link);
	dlend_irq_sinks_free(link);
	kfree(link);
}

const struct class dlend_link_class = {
	.name = "dlend_link",
	.dev_release = dlend_link_release,
};

static int dlend_link_make_parts(struct dlend_link *link, const char *name)
{
	spin_lock_init(&link->lock);
	spin_lock_init(&link->irq_lock);
	dlend_announce_init(link);
	dlend_peer_window_init(link);
	dlend_chan_init(link);
	dlend_irq_sinks_init(link);
	dlend_directs_init(link);
	dlend_irq_sources_init(link);
	dlend_doorbell_init(link);
	dlend_session_init(link);
	return dlend_jobs_init(link, name);
}

struct dlend_link *dlend_link_add(struct device *parent, const struct dlend_link_hw_ops *ops,
				  void *hw)
{
	const char *name = parent ? dev_name(parent) : ops->type;
	struct dlend_link *link = kzalloc_obj(*link);
	int err;

	if (!link)
		return ERR_PTR(-ENOMEM);
	link->ops = ops;
	link->hw = hw;
	device_initialize(&link->dev);
	link->dev.class = &dlend_link_class;
	link->dev.parent = parent;
	link->dev.groups = dlend_link_groups;
	err = dlend_link_make_parts(link, name);
	if (!err)
		err = dev_set_name(&link->dev, "%s", name);
	if (!err)
		err = device_add(&link->dev);
	if (err) {
		put_device(&link->dev);
		return ERR_PTR(err);
	}
	dlend_debugfs_add(link);
	dlend_link_register(link);
	/* From here on, who puts links to sleep finds this one; who did before has said so. */
	dlend_session_open(link, dlend_pm_asleep());
	return link;
}
DLEND_EXPORT(dlend_link_add);

void dlend_link_remove(struct dlend_link *link)
{
	/* The link is in the registry until the last link_down(): a user may leave meanwhile. */
	dlend_session_remove(link);
	dlend_announce_settle();
	dlend_link_unregister(link);
	dlend_debugfs_remove(link);
	device_del(&link->dev);
	put_device(&link->dev);
}
DLEND_EXPORT(dlend_link_remove);
