// SPDX-License-Identifier: GPL-2.0
/*
 * The condition of a borrowed device: it works, or has failed and why.
 *
 * A device that has failed reads 0xff until the guest or its VMM resets it.
 */
#include <linux/moduleparam.h>
#include <dlend/uevent.h>
#include "vdev.h"

/*
 * QEMU stops the VM when the error eventfd is signalled.  But a guest can often go on without its
 * device, as after a surprise removal: so it reads 0xff instead.
 */
bool dlend_stop_on_loss;
module_param_named(stop_on_loss, dlend_stop_on_loss, bool, 0644);
MODULE_PARM_DESC(stop_on_loss, "also tell the VMM (error eventfd: QEMU stops the VM) when a link is lost or a lease ends");

/* The device is of no use to the guest from now on. [locked] */
void dlend_condition_fail(struct dlend_vdev *v, bool tell, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(v->reason, sizeof(v->reason), fmt, args);
	va_end(args);
	v->failed = true;
	dlend_gate_update(v);
	/* A guest may try again as often as it likes. */
	dev_err_ratelimited(dlend_vdev_dev(v),
			    "borrowed device unusable: %s; the guest reads 0xff from it\n",
			    v->reason);
	if (tell)
		dlend_irqs_signal(v, VFIO_PCI_ERR_IRQ_INDEX);
	dlend_condition_say(v);
}

/* A failed device gets another chance. [locked] */
void dlend_condition_clear(struct dlend_vdev *v)
{
	v->failed = false;
	v->errored = false;
	v->lost = false;
	v->reason[0] = 0;
	v->backoff_ms = 0;
}

void dlend_condition_text(struct dlend_vdev *v, char *buf, size_t size)
{
	char who[DLEND_REASON_LEN];

	if (v->move.coming)
		snprintf(buf, size, "prepared for a VM that comes%s%s",
			 v->move.refused ? ", in vain: " : "", v->move.refused ? v->move.why : "");
	else if (v->failed)
		snprintf(buf, size, "failed: %s", v->reason);
	else if (v->want.quiet)
		snprintf(buf, size, "stopped, as its VM is: %s",
			 v->move.given ? "handed over" : v->have.quiet ? "may move" : "not yet");
	else if (v->claim.borrowing && !v->claim.lease)
		snprintf(buf, size, "borrowing");
	else if (!v->claim.lease && dlend_claim_taken(&v->claim, who))
		snprintf(buf, size, "taken: %s", who);
	else if (!v->claim.lease)
		snprintf(buf, size, "idle");
	else if (!dlend_gate_settled(v))
		snprintf(buf, size, "building");
	else
		snprintf(buf, size, "running");
}

/* Note the first word of the condition. Return: user space does not know it. */
static bool dlend_condition_news(struct dlend_vdev *v, char word[DLEND_CONDITION_WORD])
{
	char text[DLEND_REASON_LEN + DLEND_CONDITION_WORDS];

	guard(mutex)(&v->lock);
	dlend_condition_text(v, text, sizeof(text));
	text[strcspn(text, " ,:")] = 0;
	if (!strcmp(v->said, text))
		return false;
	strscpy(v->said, text);
	memcpy(word, v->said, DLEND_CONDITION_WORD);
	return true;
}

static void dlend_condition_say_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, say);
	char word[DLEND_CONDITION_WORD];

	if (dlend_condition_news(v, word))
		dlend_uevent_state(dlend_vdev_dev(v), word);
}

/*
 * Not by vdev's worker: that may be in the way to a disk to which memory is written out, and events
 * need memory.
 */
void dlend_condition_say(struct dlend_vdev *v)
{
	schedule_delayed_work(&v->say, msecs_to_jiffies(DLEND_UEVENT_DELAY_MS));
}

void dlend_condition_init(struct dlend_vdev *v)
{
	strscpy(v->said, "idle");
	INIT_DELAYED_WORK(&v->say, dlend_condition_say_work);
}

void dlend_condition_exit(struct dlend_vdev *v)
{
	cancel_delayed_work_sync(&v->say);
}
