// SPDX-License-Identifier: GPL-2.0-only
/* dlend metrics: what nodes offer, and what this host uses of it: mediated and attached devices. */
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

/* Offers of all nodes */

static const struct metric_state offer_states[] = {
	{ "free", "free" }, { "held", "held" }, { "returning", "returning" },
	{ "quarantined", "quarantined" }, { "gone", "gone" }, { "reserved", "reserved" },
	{ "kept", "kept" },
	{ 0 }
};

/* Their directories. */
static struct names list_offers(void)
{
	char *bus = path("%s/bus/dlend/devices", opt.sysfs);
	struct names n = list_dir(bus), dirs = { 0 };

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]);

		names_add(&dirs, dir);
		free(dir);
	}
	names_free(&n);
	free(bus);
	return dirs;
}

static size_t count_equal(const struct names *all, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < all->count; i++)
		count += !strcmp(all->name[i], name);
	return count;
}

void metrics_offers(void)
{
	struct names offers = list_offers(), kinds = { 0 }, seen = { 0 };
	char kind[TEXT_MAX], state[TEXT_MAX];

	for (size_t i = 0; i < offers.count; i++) {
		const char *is;

		read_attr(state, offers.name[i], "state");
		is = metric_state_word(offer_states, state);
		if (!names_have(&kinds, metrics_kind(kind, offers.name[i])))
			names_add(&kinds, kind);
		names_add(&seen, text("%s %s", kind, is ? is : ""));
	}
	metric_begin("dlend_offers",
		     "Offers of all nodes that this node knows, by kind and state.");
	for (size_t i = 0; i < kinds.count; i++)
		for (const struct metric_state *s = offer_states; s->word; s++) {
			const char *labels = metric_label(NULL, "kind", kinds.name[i]);
			const char *wanted = text("%s %s", kinds.name[i], s->word);

			metric_sample(metric_label(labels, "state", s->word),
				      text("%zu", count_equal(&seen, wanted)));
		}
	names_free(&seen);
	names_free(&kinds);
	names_free(&offers);
}

/* Mediated devices */

/* The first that fits counts. */
static const struct metric_state mdev_states[] = {
	{ "idle", "idle" }, { "borrowing", "borrowing" }, { "building", "building" },
	{ "running", "running" }, { "failed", "failed" },
	{ "stopped", "stopped" }, { "prepared", "prepared" }, { "taken", "taken" },
	{ 0 }
};

enum { STATS, IRQS };

static const struct metric_row mdev_rows[] = {
	{ "dlend_mdev_lease_epoch", "Number of the lease, 0: none.", "epoch", FROM_SYSFS,
	  UNIT_ONE },
	{ "dlend_mdev_pinned_bytes",
	  "Guest memory that is pinned; devices of one VM on one link each show all of it.",
	  "memory", FROM_SYSFS, UNIT_ONE },
	{ "dlend_mdev_memory_sharers", "How many devices of the VM use this memory.",
	  "memory_sharers", FROM_SYSFS, UNIT_ONE },
	{ "dlend_mdev_borrows_total", "How often the device was borrowed.", "borrows", STATS,
	  UNIT_ONE },
	{ "dlend_mdev_returns_total", "How often the device was returned.", "returns", STATS,
	  UNIT_ONE },
	{ "dlend_mdev_resets_total", "Resets of the device that the guest or its VMM asked for.",
	  "resets", STATS, UNIT_ONE },
	{ "dlend_mdev_builds_total", "How often guest memory was looked for and mapped.",
	  "builds", STATS, UNIT_ONE },
	{ "dlend_mdev_build_retries_total", "How often that had to be tried again.",
	  "build_retries", STATS, UNIT_ONE },
	{ "dlend_mdev_gate_waits_total",
	  "Accesses of the guest that waited until the device was ready.", "gate_waits", STATS,
	  UNIT_ONE },
	{ "dlend_mdev_gate_wait_longest_seconds", "The longest of these waits.",
	  "gate_wait_longest_us", STATS, UNIT_MICRO },
	{ "dlend_mdev_trapped_reads_total", "Reads of BARs that went through the VMM.",
	  "trapped_reads", STATS, UNIT_ONE },
	{ "dlend_mdev_trapped_writes_total", "Writes to BARs that went through the VMM.",
	  "trapped_writes", STATS, UNIT_ONE },
	{ "dlend_mdev_trapped_timeouts_total",
	  "Accesses through the VMM that did not find the device ready.", "trapped_timeouts",
	  STATS, UNIT_ONE },
	{ "dlend_mdev_dead_faults_total",
	  "Pages of 0xff that were mapped because the guest did not have the device.",
	  "dead_faults", STATS, UNIT_ONE },
	{ "dlend_mdev_interrupts_total", "Interrupts that came from the device.", "fired", IRQS,
	  UNIT_ONE },
	{ "dlend_mdev_interrupts_signalled_total",
	  "Interrupts that the guest got; several that are close together can become one.",
	  "signalled", IRQS, UNIT_ONE },
	{ "dlend_mdev_interrupts_stray_total",
	  "Interrupts of vectors that the guest has not set up.", "stray", IRQS, UNIT_ONE },
	{ "dlend_mdev_errors_signalled_total", "Errors that the VMM was told.", "errors", IRQS,
	  UNIT_ONE },
	{ 0 }
};

static void add_mdev(struct metric_objects *mdevs, const char *uuid, char *own)
{
	char *dir = path("%s/bus/mdev/devices/%s", opt.sysfs, uuid), *where = real_path(dir);
	char *parent = where ? dirname(where) : NULL, kind[TEXT_MAX];
	struct metric_object *o;
	const char *labels;

	labels = metric_label(NULL, "address", parent ? basename(parent) : "");
	labels = metric_label(labels, "kind", parent ? metrics_kind(kind, parent) : "");
	labels = metric_label(labels, "uuid", uuid);
	o = metric_object_add(mdevs, labels, own);
	o->file[STATS] = metric_file("mdev", uuid, "stats");
	o->file[IRQS] = metric_file("mdev", uuid, "irqs");
	free(where);
	free(dir);
}

void metrics_mdevs(void)
{
	char *bus = path("%s/bus/mdev/devices", opt.sysfs);
	struct names n = list_dir(bus);
	struct metric_objects mdevs = { 0 };

	for (size_t i = 0; i < n.count; i++) {
		char *own = path("%s/%s/dlend", bus, n.name[i]);

		if (path_exists(own))
			add_mdev(&mdevs, n.name[i], own);
		else
			free(own);
	}
	metric_begin("dlend_mdev_state", "1 for the state that the mediated device is in.");
	metric_states(&mdevs, mdev_states);
	metric_rows(&mdevs, mdev_rows);
	metric_objects_free(&mdevs);
	names_free(&n);
	free(bus);
}

/* Attached devices */

static const struct metric_row attached_rows[] = {
	{ "dlend_attached_device_vectors", "Interrupts that the driver has set up.", "vectors", 0,
	  UNIT_ONE },
	{ "dlend_attached_device_mapped_bytes", "Memory of this host that the device reaches now.",
	  "mapped_bytes", 0, UNIT_ONE },
	{ "dlend_attached_device_window_bytes", "Part of the window that is set aside for that.",
	  "segment_bytes", 0, UNIT_ONE },
	{ "dlend_attached_device_messages_total", "Messages to its lender.", "messages", 0,
	  UNIT_ONE },
	{ 0 }
};

static void print_attached_info(const struct metric_objects *attached)
{
	metric_begin("dlend_attached_device_info",
		     "Address here of an attached device, and its driver.");
	for (size_t i = 0; i < attached->count; i++) {
		const struct metric_object *o = &attached->object[i];
		char where[TEXT_MAX], *driver;
		const char *labels;

		read_attached(where, o->dir);
		driver = attached_driver(where);
		labels = metric_label(o->labels, "device", where);
		metric_sample(metric_label(labels, "driver", driver ? driver : ""), "1");
		free(driver);
	}
}

/* Of those that are attached, or that could not be. */
static void print_failures(const struct metric_objects *attached, const struct names *offers)
{
	metric_begin("dlend_attach_failed", "1 if the last attempt to attach the device failed.");
	for (size_t i = 0; i < attached->count; i++)
		metric_sample(attached->object[i].labels, "0");
	for (size_t i = 0; i < offers->count; i++) {
		char *dir = offers->name[i], value[TEXT_MAX];
		const char *labels;

		if (read_attached(value, dir) || !*read_attr(value, dir, "attach_error"))
			continue;
		labels = metric_label(NULL, "address", basename(dir));
		metric_sample(metric_label(labels, "kind", metrics_kind(value, dir)), "1");
	}
}

void metrics_attached(void)
{
	struct names offers = list_offers();
	struct metric_objects attached = { 0 };
	char value[TEXT_MAX];

	for (size_t i = 0; i < offers.count; i++) {
		char *dir = offers.name[i];
		const char *address = basename(dir), *labels;

		if (!read_attached(value, dir))
			continue;
		labels = metric_label(NULL, "address", address);
		labels = metric_label(labels, "kind", metrics_kind(value, dir));
		metric_object_add(&attached, labels, strdup(dir))->file[0] =
			metric_file("native", address, NULL);
	}
	print_attached_info(&attached);
	print_failures(&attached, &offers);
	metric_rows(&attached, attached_rows);
	metric_objects_free(&attached);
	names_free(&offers);
}
