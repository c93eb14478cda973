// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers of a vdev in debugfs: /sys/kernel/debug/dlend/mdev/<uuid>/{stats,memory,irqs}.
 * One "key value" per line, so that scenarios can read them without a parser.
 *
 * Must not change anything.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <dlend/names.h>
#include "vdev.h"

static struct dentry *dlend_vdev_debugfs_root;

static void dlend_vdev_debugfs_bars(struct seq_file *m, const struct dlend_vdev *v)
{
	const struct dlend_vdev_stat *st = &v->stat;
	unsigned int i;

	for (i = 0; i < DLEND_NUM_BARS; i++) {
		seq_printf(m, "bar%u_faults_4k %lld\n", i, atomic64_read(&st->fault_4k[i]));
		seq_printf(m, "bar%u_faults_2m %lld\n", i, atomic64_read(&st->fault_2m[i]));
		seq_printf(m, "bar%u_faults_1g %lld\n", i, atomic64_read(&st->fault_1g[i]));
	}
	seq_printf(m, "dead_faults %lld\n", atomic64_read(&st->fault_dead));
	seq_printf(m, "gate_waits %lld\n", atomic64_read(&st->fault_waits));
	seq_printf(m, "gate_wait_longest_us %lld\n", atomic64_read(&st->wait_longest_us));
	seq_printf(m, "trapped_reads %lld\n", atomic64_read(&st->trapped_reads));
	seq_printf(m, "trapped_writes %lld\n", atomic64_read(&st->trapped_writes));
	seq_printf(m, "trapped_timeouts %lld\n", atomic64_read(&st->trapped_timeouts));
	seq_printf(m, "live_reads %lld\n", atomic64_read(&st->live_reads));
	seq_printf(m, "live_writes %lld\n", atomic64_read(&st->live_writes));
	seq_printf(m, "live_missed %lld\n", atomic64_read(&st->live_missed));
}

struct dlend_memory_stat dlend_vdev_memory_stat(struct dlend_vdev *v)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);
	struct dlend_memory_stat st = {};

	if (lease)
		dlend_memory_stat(dlend_vdev_memory(lease), &st);
	return st;
}

static void dlend_vdev_debugfs_memory(struct seq_file *m, struct dlend_vdev *v)
{
	struct dlend_memory_stat st = dlend_vdev_memory_stat(v);

	seq_printf(m, "messages %llu\n", st.messages + atomic64_read(&v->claim.messages));
	seq_printf(m, "pinned_bytes %llu\n", st.pinned_bytes);
	seq_printf(m, "own_bytes %llu\n", st.own_bytes);
	seq_printf(m, "taken_bytes %llu\n", st.taken_bytes);
	seq_printf(m, "sharers %llu\n", st.sharers);
	seq_printf(m, "book_bytes %llu\n", st.book_bytes);
	seq_printf(m, "pages_4k %llu\n", st.pages_4k);
	seq_printf(m, "pages_2m %llu\n", st.pages_2m);
	seq_printf(m, "pages_1g %llu\n", st.pages_1g);
	seq_printf(m, "pin_calls %llu\n", st.pin_calls);
	seq_printf(m, "last_build_calls %llu\n", st.last_build_calls);
	seq_printf(m, "looks %llu\n", st.looks);
	seq_printf(m, "vm_wakeups %llu\n", st.wakeups);
	seq_printf(m, "grows %llu\n", v->stat.grows);
	seq_printf(m, "pin_us %llu\n", st.pin_us);
	seq_printf(m, "pin_longest_us %llu\n", st.pin_longest_us);
	seq_printf(m, "map_us %llu\n", st.map_us);
	seq_printf(m, "dma_unmaps %llu\n", st.unmaps);
	seq_printf(m, "dma_unmap_longest_us %llu\n", st.unmap_longest_us);
	seq_printf(m, "missing_waits %llu\n", st.waits);
	seq_printf(m, "rebuilds %llu\n", st.rebuilds);
}

static int stats_show(struct seq_file *m, void *unused)
{
	static const char * const gate[] = {
		[DLEND_GATE_SHUT] = "shut",
		[DLEND_GATE_OPEN] = "open",
		[DLEND_GATE_DEAD] = "dead",
		[DLEND_GATE_READ] = "read",
	};
	struct dlend_vdev *v = m->private;
	char state[DLEND_REASON_LEN + DLEND_CONDITION_WORDS];

	dlend_vdev_debugfs_bars(m, v);
	dlend_vdev_debugfs_memory(m, v);
	guard(mutex)(&v->lock);
	dlend_condition_text(v, state, sizeof(state));
	seq_printf(m, "state %s\n", state);
	seq_printf(m, "gate %s\n", gate[v->gate]);
	seq_printf(m, "zaps %llu\n", v->stat.zaps);
	seq_printf(m, "gate_shuts %llu\n", v->stat.gate_shuts);
	seq_printf(m, "gate_last_us %llu\n", v->stat.gate_last_us);
	seq_printf(m, "gate_longest_us %llu\n", v->stat.gate_longest_us);
	seq_printf(m, "bme_to_gate_open_us %llu\n", v->stat.bme_to_open_us);
	seq_printf(m, "bme_to_gate_open_first_us %llu\n", v->stat.bme_to_open_first_us);
	seq_printf(m, "borrows %llu\n", v->stat.borrows);
	seq_printf(m, "returns %llu\n", v->stat.returns);
	seq_printf(m, "resets %llu\n", v->stat.resets);
	seq_printf(m, "builds %llu\n", v->stat.builds);
	seq_printf(m, "build_retries %llu\n", v->stat.build_retries);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int memory_show(struct seq_file *m, void *unused)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(m->private);

	if (lease)
		dlend_memory_show(dlend_vdev_memory(lease), m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(memory);

static int irqs_show(struct seq_file *m, void *unused)
{
	struct dlend_vdev *v = m->private;
	struct dlend_irqs *irq = &v->irq;
	unsigned int i, bypass = 0;

	guard(mutex)(&v->lock);
	for (i = 0; i < irq->nvec; i++)
		bypass += irq->vec[i].producing;
	seq_printf(m, "bypass %u\n", bypass);
	spin_lock_irq(&irq->lock);
	seq_printf(m, "mode %s\n", dlend_irq_mode_name(irq->mode));
	seq_printf(m, "live %s\n", dlend_irq_mode_name(irq->live));
	seq_printf(m, "fired %llu\n", irq->fired);
	seq_printf(m, "signalled %llu\n", irq->signalled);
	seq_printf(m, "stray %llu\n", irq->stray);
	seq_printf(m, "errors %llu\n", irq->errs);
	seq_printf(m, "requests %llu\n", irq->reqs);
	for (i = 0; i < irq->nvec; i++)
		if (irq->vec[i].count)
			seq_printf(m, "vector%u %llu\n", i, irq->vec[i].count);
	spin_unlock_irq(&irq->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(irqs);

void dlend_vdev_debugfs_add(struct dlend_vdev *v)
{
	v->dir = debugfs_create_dir(dev_name(dlend_vdev_dev(v)), dlend_vdev_debugfs_root);
	debugfs_create_file("stats", 0444, v->dir, v, &stats_fops);
	debugfs_create_file("memory", 0444, v->dir, v, &memory_fops);
	debugfs_create_file("irqs", 0444, v->dir, v, &irqs_fops);
}

void dlend_vdev_debugfs_remove(struct dlend_vdev *v)
{
	debugfs_remove(v->dir);
	v->dir = NULL;
}

void dlend_vdev_debugfs_init(void)
{
	dlend_vdev_debugfs_root = debugfs_create_dir("mdev", dlend_debugfs());
}

void dlend_vdev_debugfs_exit(void)
{
	debugfs_remove(dlend_vdev_debugfs_root);
}
