// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/dlend/lender/: state and counters of every function that is bound, and faults
 * that tests inject.
 *
 * Knows nothing of what the numbers mean.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include <dlend/names.h>

#include "lender/debugfs.h"
#include "lender/irq.h"
#include "lender/p2p.h"
#include "lender/set.h"

static struct dentry *lend_debugfs_root;

/* Faults that functions have from the moment at which they are bound. */
static bool lend_debugfs_fail_reset;
static u32 lend_debugfs_slow_reset_ms;

static int lease_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	seq_printf(m, "state %s\nholder %u\nepoch %u\nusers %llx\nfencing %d\nfailed %d\n",
		   dlend_offer_state_name(lease.state), lease.holder, lease.epoch, lease.users,
		   lease.fencing, lease.failed);
	seq_printf(m, "lent %d\ndirty %d\nbroken %d\n", fn->lent, fn->dirty, fn->broken);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(lease);

static int irqs_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;

	guard(mutex)(&fn->group->lock);
	lend_irq_show(fn, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(irqs);

static int dma_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;

	guard(mutex)(&fn->group->lock);
	if (fn->group->domain)
		dlend_domain_show(fn->group->domain, m);
	else
		seq_puts(m, "domain: none\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dma);

static int p2p_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;

	guard(mutex)(&fn->group->lock);
	lend_p2p_show(fn, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(p2p);

void lend_debugfs_faults(struct lend_fn *fn)
{
	fn->fail_reset = READ_ONCE(lend_debugfs_fail_reset);
	fn->slow_reset_ms = READ_ONCE(lend_debugfs_slow_reset_ms);
}

void lend_debugfs_add(struct lend_fn *fn)
{
	fn->debugfs = debugfs_create_dir(pci_name(fn->pdev), lend_debugfs_root);
	debugfs_create_file("lease", 0400, fn->debugfs, fn, &lease_fops);
	debugfs_create_file("irqs", 0400, fn->debugfs, fn, &irqs_fops);
	debugfs_create_file("dma", 0400, fn->debugfs, fn, &dma_fops);
	debugfs_create_file("p2p", 0400, fn->debugfs, fn, &p2p_fops);
	debugfs_create_bool("fail_reset", 0600, fn->debugfs, &fn->fail_reset);
	debugfs_create_bool("hold_stop", 0600, fn->debugfs, &fn->hold_stop);
	debugfs_create_u32("slow_reset_ms", 0600, fn->debugfs, &fn->slow_reset_ms);
	debugfs_create_u32("max_vectors", 0600, fn->debugfs, &fn->max_vectors);
}

void lend_debugfs_remove(struct lend_fn *fn)
{
	debugfs_remove_recursive(fn->debugfs);
}

void lend_debugfs_init(void)
{
	struct dentry *bind;

	lend_debugfs_root = debugfs_create_dir("lender", dlend_debugfs());
	bind = debugfs_create_dir("bind", lend_debugfs_root);
	debugfs_create_bool("fail_reset", 0600, bind, &lend_debugfs_fail_reset);
	debugfs_create_u32("slow_reset_ms", 0600, bind, &lend_debugfs_slow_reset_ms);
}

void lend_debugfs_exit(void)
{
	debugfs_remove_recursive(lend_debugfs_root);
}
