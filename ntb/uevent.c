// SPDX-License-Identifier: GPL-2.0
/* What user space hears of without asking. */
#include <linux/device.h>
#include <linux/kobject.h>

#include <dlend/compat.h>
#include <dlend/uevent.h>

void dlend_uevent_state(struct device *dev, const char *state)
{
	char text[32];
	char *env[2] = { text };

	snprintf(text, sizeof(text), "DLEND_STATE=%s", state);
	kobject_uevent_env(&dev->kobj, KOBJ_CHANGE, env);
}
DLEND_EXPORT(dlend_uevent_state);
