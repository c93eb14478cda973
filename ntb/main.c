// SPDX-License-Identifier: GPL-2.0
/*
 * dlend_core: the module.  Its parameters are in the files that use them.
 *
 * If a host slept while one of its devices is lent, or while it borrows one, a guest would lose its
 * device or its memory in the middle of a transfer.  That is worse than a suspend that is refused
 * with a reason.  So a host sleeps only while nothing is lent or borrowed.  Its links end their
 * sessions before it sleeps, and begin new ones afterwards.
 *
 * A host that shuts down turns its IOMMUs off, while an NTB still forwards its peer's writes.  So
 * the translations of all links are cleared before that.  A shutdown cannot be refused.
 */
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/reboot.h>
#include <linux/suspend.h>
#include <dlend/caps.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/version.h>
#include "link.h"

#define CREATE_TRACE_POINTS
#include <ntb/trace.h>

/* Functions of pure files are exported here: these files know nothing of modules. */
DLEND_EXPORT(dlend_addr_name);
DLEND_EXPORT(dlend_cap_at);
DLEND_EXPORT(dlend_cap_bytes);
DLEND_EXPORT(dlend_cap_header_rules);
DLEND_EXPORT(dlend_cap_owned);
DLEND_EXPORT(dlend_caps_find);
DLEND_EXPORT(dlend_caps_room);
DLEND_EXPORT(dlend_kind);
DLEND_EXPORT(dlend_kind_title);
DLEND_EXPORT(dlend_offer_state_name);
DLEND_EXPORT(dlend_irq_mode_name);
DLEND_EXPORT(dlend_name_read);
DLEND_EXPORT(dlend_msg_init);
DLEND_EXPORT(dlend_msg_type_name);

/* The host sleeps */

/* @err: int, the first error so far; users after that are not asked */
static void dlend_pm_suspend_user(struct dlend_link_user *user, void *err)
{
	if (!*(int *)err && user->suspend)
		*(int *)err = user->suspend();
}

static void dlend_pm_resume_user(struct dlend_link_user *user, void *slept)
{
	if (user->resume)
		user->resume(*(bool *)slept);
}

static void dlend_pm_shut_down(struct dlend_link_user *user, void *unused)
{
	if (user->shutdown)
		user->shutdown();
}

static int dlend_pm_prepare(void)
{
	bool slept = false;
	int err = 0;

	dlend_users_call(dlend_pm_suspend_user, &err);
	if (err)
		dlend_users_call(dlend_pm_resume_user, &slept);
	else
		dlend_links_sleep(true);
	return err;
}

static void dlend_pm_resume(void)
{
	bool slept = true;

	dlend_links_sleep(false);
	dlend_users_call(dlend_pm_resume_user, &slept);
}

static int dlend_pm_event(struct notifier_block *self, unsigned long event, void *unused)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		return notifier_from_errno(dlend_pm_prepare());
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		dlend_pm_resume();
		return NOTIFY_OK;
	default:
		return NOTIFY_DONE;
	}
}

static struct notifier_block dlend_pm_notifier = {
	.notifier_call = dlend_pm_event,
};

/* Called before devices are shut down, but not by a kernel that panics: that leaves IOMMUs on. */
static int dlend_pm_reboot_event(struct notifier_block *self, unsigned long event, void *unused)
{
	dlend_users_call(dlend_pm_shut_down, NULL);
	dlend_links_sleep(true);
	return NOTIFY_DONE;
}

static struct notifier_block dlend_pm_reboot_notifier = {
	.notifier_call = dlend_pm_reboot_event,
};

static int dlend_pm_init(void)
{
	int err = register_pm_notifier(&dlend_pm_notifier);

	if (err)
		return err;
	err = register_reboot_notifier(&dlend_pm_reboot_notifier);
	if (err)
		unregister_pm_notifier(&dlend_pm_notifier);
	return err;
}

/* The module */

static int __init dlend_core_init(void)
{
	int err = dlend_links_init();

	if (err)
		return err;
	err = class_register(&dlend_link_class);
	if (err)
		goto exit_links;
	dlend_debugfs_init();
	err = dlend_pm_init();
	if (err)
		goto free_debugfs;
	if (!dlend_node_id())
		pr_warn("dlend: no node id, links stay down: set dlend_core.node_id to 1..65535, different on every node\n");
	return 0;

free_debugfs:
	dlend_debugfs_exit();
	class_unregister(&dlend_link_class);
exit_links:
	dlend_links_exit();
	return err;
}

static void __exit dlend_core_exit(void)
{
	dlend_loop_exit();
	unregister_reboot_notifier(&dlend_pm_reboot_notifier);
	unregister_pm_notifier(&dlend_pm_notifier);
	dlend_debugfs_exit();
	class_unregister(&dlend_link_class);
	dlend_links_exit();
}

module_init(dlend_core_init);
module_exit(dlend_core_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
MODULE_DESCRIPTION("dlend: links between hosts and their apertures");
