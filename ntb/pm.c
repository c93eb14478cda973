// SPDX-License-Identifier: GPL-2.0
/*
 * This host goes to sleep, and comes back; or it goes down for good.
 *
 * If a host slept while one of its devices is lent, or while it borrows one, a guest would lose its
 * device or its memory in the middle of a transfer.  That is worse than a suspend that is refused
 * with a reason.  So a host sleeps only while nothing is lent or borrowed; its links go down in
 * good order before, and begin anew after.
 *
 * A host that goes down turns its IOMMUs off on the way, and an NTB goes on forwarding what its
 * peer writes.  So nothing may lead here any more by then.  Nobody can refuse that.
 *
 * Knows neither offers nor leases: users are asked.
 */
#include <linux/notifier.h>
#include <linux/reboot.h>
#include <linux/suspend.h>
#include "link.h"
#include "pm.h"
#include "users.h"

static int dlend_pm_sleep_link(struct dlend_link *link, void *on)
{
	dlend_session_sleep(link, *(bool *)on);
	return 0;
}

static bool dlend_pm_is_asleep;

bool dlend_pm_asleep(void)
{
	return READ_ONCE(dlend_pm_is_asleep);
}

static void dlend_pm_sleep_links(bool on)
{
	WRITE_ONCE(dlend_pm_is_asleep, on);
	dlend_links_each(dlend_pm_sleep_link, &on);
}

static int dlend_pm_prepare(void)
{
	int err = dlend_users_suspend();

	if (!err)
		dlend_pm_sleep_links(true);
	return err;
}

static void dlend_pm_resume(void)
{
	dlend_pm_sleep_links(false);
	dlend_users_resume(true);
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

/* Before devices are shut down.  A kernel that panics does not come here: it leaves IOMMUs on. */
static int dlend_pm_reboot_event(struct notifier_block *self, unsigned long event, void *unused)
{
	dlend_users_shutdown();
	dlend_pm_sleep_links(true);
	return NOTIFY_DONE;
}

static struct notifier_block dlend_pm_reboot_notifier = {
	.notifier_call = dlend_pm_reboot_event,
};

int dlend_pm_init(void)
{
	int err = register_pm_notifier(&dlend_pm_notifier);

	if (err)
		return err;
	err = register_reboot_notifier(&dlend_pm_reboot_notifier);
	if (err)
		unregister_pm_notifier(&dlend_pm_notifier);
	return err;
}

void dlend_pm_exit(void)
{
	unregister_reboot_notifier(&dlend_pm_reboot_notifier);
	unregister_pm_notifier(&dlend_pm_notifier);
}
