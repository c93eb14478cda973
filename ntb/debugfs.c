// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of links in debugfs: /sys/kernel/debug/dlend/links.
 *
 * Only reads.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <dlend/compat.h>
#include <iommu/aperture.h>
#include "debugfs.h"
#include "link.h"

static struct dentry *dlend_debugfs_root, *dlend_debugfs_links;

static void dlend_debugfs_show_messages(struct seq_file *m, struct dlend_link_stat *st)
{
	unsigned int type;

	for (type = 1; type < DLEND_MSG_TYPES; type++)
		seq_printf(m, "msg_%s: sent %u received %u\n", dlend_msg_type_name(type),
			   atomic_read(&st->sent[type]), atomic_read(&st->received[type]));
	seq_printf(m, "dropped_bad: %u\ndropped_late: %u\n",
		   atomic_read(&st->dropped[DLEND_DROP_BAD]),
		   atomic_read(&st->dropped[DLEND_DROP_LATE]));
	seq_printf(m, "dropped_session: %u\ndropped_no_user: %u\ndropped_refused: %u\n",
		   atomic_read(&st->dropped[DLEND_DROP_SESSION]),
		   atomic_read(&st->dropped[DLEND_DROP_NO_USER]),
		   atomic_read(&st->dropped[DLEND_DROP_REFUSED]));
	seq_printf(m, "call_timeouts: %u\nring_full_waits: %u\nsessions: %u\n",
		   atomic_read(&st->timeouts), atomic_read(&st->ring_full),
		   atomic_read(&st->sessions));
}

static void dlend_debugfs_show_irqs(struct seq_file *m, struct dlend_link_stat *st)
{
	seq_printf(m, "irq_direct: %lld\n", atomic64_read(&st->irq_direct));
	seq_printf(m, "irq_fired: %lld\nirq_delivered: %lld\nirq_late: %lld\n",
		   atomic64_read(&st->irq_fired), atomic64_read(&st->irq_delivered),
		   atomic64_read(&st->irq_late));
	seq_printf(m, "doorbell_polls: %u\n", atomic_read(&st->polls));
	seq_printf(m, "irq_scans: %lld\nirq_overruns: %lld\nirq_bad: %lld\n",
		   atomic64_read(&st->irq_scans), atomic64_read(&st->irq_overruns),
		   atomic64_read(&st->irq_bad));
}

static int dlend_debugfs_link_show(struct seq_file *m, void *unused)
{
	struct dlend_link *link = m->private;
	struct dlend_aperture *ap = dlend_link_aperture(link);

	seq_printf(m, "state: %s\npeer_node: %u\nsession: %llx\n",
		   dlend_bringup_name(READ_ONCE(link->bringup.state)), dlend_link_peer(link),
		   dlend_link_session(link));
	dlend_debugfs_show_messages(m, &link->stat);
	dlend_debugfs_show_irqs(m, &link->stat);
	if (ap)
		dlend_aperture_show(ap, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dlend_debugfs_link);

void dlend_debugfs_add(struct dlend_link *link)
{
	debugfs_create_file(dlend_link_name(link), 0444, dlend_debugfs_links, link,
			    &dlend_debugfs_link_fops);
}

void dlend_debugfs_remove(struct dlend_link *link)
{
	debugfs_lookup_and_remove(dlend_link_name(link), dlend_debugfs_links);
}

struct dentry *dlend_debugfs(void)
{
	return dlend_debugfs_root;
}
DLEND_EXPORT(dlend_debugfs);

/* Without debugfs these hold error pointers, which debugfs takes without complaint. */
void dlend_debugfs_init(void)
{
	dlend_debugfs_root = debugfs_create_dir("dlend", NULL);
	dlend_debugfs_links = debugfs_create_dir("links", dlend_debugfs_root);
}

void dlend_debugfs_exit(void)
{
	debugfs_remove(dlend_debugfs_root);
}
