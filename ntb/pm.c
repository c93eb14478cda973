// SPDX-License-Identifier: GPL-2.0
/*
 * This host goes to sleep, and comes back; or it goes down for good.
 *
 * A guest, here or on a peer, that lost its device or its memory's host in the middle of a
 * transfer is worse off than an admin whose suspend is refused with a reason.  So a host sleeps
 * only while nothing of it is lent and nothing is borrowed; its links go down in good order before
 * and begin anew after.
 *
 * A host that goes down turns its IOMMUs off on the way, and an NTB goes on forwarding what its
 * peer writes: so nothing may lead here any more by then.  Nobody is asked about that.
 *
 * Knows neither offers nor leases: users are asked.
 */
#include <linux/notifier.h>
#include <linux/reboot.h>
#include <linux/suspend.h>
#include "core.h"

static int fall_asleep(void)
{
	int err = dlend_users_suspend();

	if (!err)
		dlend_links_sleep(true);
	return err;
}

static void wake_up_again(void)
{
	dlend_links_sleep(false);
	dlend_users_resume();
}

static int pm_event(struct notifier_block *self, unsigned long event, void *unused)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		return notifier_from_errno(fall_asleep());
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		wake_up_again();
		return NOTIFY_OK;
	default:
		return NOTIFY_DONE;
	}
}

static struct notifier_block pm_notifier = {
	.notifier_call = pm_event,
};

/* Before devices are shut down.  A kernel that panics does not come here: it leaves IOMMUs on. */
static int reboot_event(struct notifier_block *self, unsigned long event, void *unused)
{
	dlend_users_shutdown();
	dlend_links_sleep(true);
	return NOTIFY_DONE;
}

static struct notifier_block reboot_notifier = {
	.notifier_call = reboot_event,
};

int dlend_pm_init(void)
{
	int err = register_pm_notifier(&pm_notifier);

	if (err)
		return err;
	err = register_reboot_notifier(&reboot_notifier);
	if (err)
		unregister_pm_notifier(&pm_notifier);
	return err;
}

void dlend_pm_exit(void)
{
	unregister_reboot_notifier(&reboot_notifier);
	unregister_pm_notifier(&pm_notifier);
}
