// SPDX-License-Identifier: GPL-2.0
/*
 * dlend_core: the module.  Its parameters are in the files that use them.
 *
 * If a lender slept, its devices would be gone for the guests of other nodes.  If a borrower slept,
 * the memory of its guests would be gone for the devices, in the middle of a transfer.  That is
 * worse than a suspend that is refused with a reason.  So a host sleeps only while nothing is lent
 * or borrowed.  Its links end their sessions before it sleeps, and begin new ones afterwards.
 *
 * A host that shuts down turns its IOMMUs off, while an NTB still forwards its peer's writes.  So
 * before that, each NTB's translation of the peer's window to this host's aperture is cleared.  A
 * shutdown cannot be refused.
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

/*
 * Functions of pure files (tests/pure.mk) are exported here: these files are compiled in user
 * space, too, where nothing can be exported.
 */
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

/* The host sleeps, or shuts down */

/* Callbacks of dlend_users_call() */

/* @err: int, the first error so far; users after that are not asked */
static void dlend_pm_suspend_user(struct dlend_link_user *user, void *err)
{
	if (!*(int *)err && user->suspend)
		*(int *)err = user->suspend();
}

/* @slept: bool: false if a user has refused to suspend */
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

/*
 * Users first: one of them may refuse, and then no session has to end.  The PM core sends no
 * PM_POST_* to a notifier that has refused, so all users are resumed here, also those that were not
 * asked (struct dlend_link_user allows that).
 */
static int dlend_pm_prepare(void)
{
	bool slept = false;
	int err = 0;

	dlend_users_call(dlend_pm_suspend_user, &err);
	if (err)
		dlend_users_call(dlend_pm_resume_user, &slept);
	else
		dlend_links_suspend(true);	/* end all sessions, begin none */
	return err;
}

/* Also called if the host did not sleep after all, because other code has refused later. */
static void dlend_pm_resume(void)
{
	bool slept = true;

	dlend_links_suspend(false);	/* sessions may begin again */
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

/*
 * Called before devices are shut down.  A kernel that panics does not call this, but it leaves its
 * IOMMUs on.
 */
static int dlend_pm_reboot_event(struct notifier_block *self, unsigned long event, void *unused)
{
	dlend_users_call(dlend_pm_shut_down, NULL);
	dlend_links_suspend(true);	/* for good: end all sessions, and clear translations */
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

/* The modules above, and dlend_ntb with its links, are unloaded already: only the loop is left. */
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
