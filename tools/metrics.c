// SPDX-License-Identifier: GPL-2.0-only
/* dlend metrics: this host in numbers, for Prometheus (docs/monitoring.md). */
#include <libgen.h>
#include <string.h>

#include "../include/dlend/version.h"
#include "metric.h"

static const char *const modules[] = { DLEND_MODULES };

/* The type of a device without "dlend-" */
static const char *kind_of(const char *dir)
{
	const char *type = attr(dir, "type");

	return strncmp(type, "dlend-", 6) ? type : type + 6;
}

/* Links of this node */

static const char *const link_states[] = { "down", "hello", "test", "up", NULL };

/* Of an NTB only: the link of a node to itself has no limit. */
static const struct metric_row link_sizes[] = {
	{ "dlend_link_window_bytes", "How much of the peer this node reaches.",
	  "window_bytes" },
	{ "dlend_link_aperture_bytes", "How much of this node the peer reaches.",
	  "aperture_bytes" },
	{ "dlend_link_aperture_free_bytes", "Free part of the aperture.",
	  "aperture_free_bytes" },
	{ "dlend_link_aperture_largest_free_bytes", "Largest free piece of the aperture.",
	  "aperture_largest_free_bytes" },
	{ "dlend_link_aperture_quarantined_bytes",
	  "Part of the aperture that is not free yet because the peer may still use it.",
	  "quarantined_bytes", 1 },
	{ "dlend_link_aperture_p2p_bytes", "Part of the aperture that peer-to-peer uses.",
	  "p2p_bytes", 1 },
	{ "dlend_link_aperture_p2p_limit_bytes",
	  "Part of the aperture that peer-to-peer may use.", "p2p_limit_bytes", 1 },
	{ 0 }
};

static const struct metric_row link_rows[] = {
	{ "dlend_link_heartbeat_age_seconds",
	  "Time since the last sign of life of the peer; 0 while the link is not up.",
	  "heartbeat_age_ms", FROM_SYSFS, UNIT_MILLI },
	{ "dlend_link_sessions_total", "How often the link came up.", "sessions", 1 },
	{ "dlend_link_mapped_bytes", "Memory of this node that the peer reaches now.",
	  "mapped_bytes", 1 },
	{ "dlend_link_call_timeouts_total", "Calls that the peer did not answer in time.",
	  "call_timeouts", 1 },
	{ "dlend_link_ring_full_waits_total", "Waits for room in the peer's ring of messages.",
	  "ring_full_waits", 1 },
	{ "dlend_link_doorbells_rung_total",
	  "Interrupts of lent devices that this node passed on, each with a doorbell.",
	  "irq_fired", 1 },
	{ "dlend_link_interrupts_delivered_total",
	  "Interrupts of borrowed devices that came in over the link.", "irq_delivered", 1 },
	{ "dlend_link_doorbell_scans_total",
	  "How often a doorbell made this node look for interrupts.", "irq_scans", 1 },
	{ "dlend_link_doorbell_polls_total",
	  "How often the doorbells were masked and polled because they came too fast.",
	  "doorbell_polls", 1 },
	{ "dlend_link_interrupt_overruns_total",
	  "How often the peer's list of interrupts was overwritten before it was read; none is lost.",
	  "irq_overruns", 1 },
	{ "dlend_link_interrupts_bad_total",
	  "Interrupts from the peer that belong to no borrowed device.", "irq_bad", 1 },
	{ 0 }
};

static const char *const drops[] = { "bad", "late", "session", "no_user", "refused" };

/* @ntbs: those of @links that have a size */
static void load_links(struct metric_objects *links, struct metric_objects *ntbs)
{
	struct names n = list_dir(sys("class/dlend_link"));

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i), *labels;
		bool loop = attr_is(dir, "type", "loop");
		struct metric_object *o;

		labels = metric_label(metric_label(NULL, "link", n.name[i]), "type",
				      loop ? "loop" : "ntb");
		o = metric_object_add(links, labels, dir);
		o->file[1] = metric_file("links", n.name[i], NULL);
		if (!loop)
			*metric_object_add(ntbs, NULL, NULL) = *o;
	}
}

/* 1 for each link whose attribute is this word, else 0 */
static void print_is(const struct metric_objects *links, const char *attribute, const char *word)
{
	for (size_t i = 0; i < links->count; i++)
		metric_sample(links->object[i].labels,
			      attr_is(links->object[i].dir, attribute, word) ? "1" : "0");
}

static void print_link_info(const struct metric_object *o)
{
	const char *labels = metric_label(o->labels, "peer", attr(o->dir, "peer_node"));

	metric_sample(metric_label(labels, "protocol", attr(o->dir, "version")), "1");
}

/* The attribute is "ctrl 1 ram 4 bar 0 irq 1 p2p 0". */
static void print_slots(const struct metric_object *o)
{
	char kind[16], count[16];
	int used = 0;

	for (char *c = attr(o->dir, "slots"); sscanf(c, "%15[a-z0-9] %15[0-9]%n", kind, count,
						     &used) == 2;
	     c += used + strspn(c + used, " "))
		metric_sample(metric_label(o->labels, "kind", kind), count);
}

/* What a link's lines "msg_TYPE: sent N received N" say: the first number, or the second */
static void print_messages(const struct metric_objects *links, bool received)
{
	char type[32], sent[32], got[32];

	for (size_t i = 0; i < links->count; i++)
		for (const char *line = links->object[i].file[1]; line; line = strchr(line, '\n')) {
			line += *line == '\n';
			if (sscanf(line, "msg_%31[A-Z0-9_]: sent %20[0-9] received %20[0-9]", type,
				   sent, got) == 3)
				metric_sample(metric_label(links->object[i].labels, "message",
							   type), received ? got : sent);
		}
}

static void print_drops(const struct metric_object *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(drops); i++) {
		const char *number = metric_number(o->file[1], text("dropped_%s", drops[i]));

		if (number)
			metric_sample(metric_label(o->labels, "reason", drops[i]), number);
	}
}

static void print_each(const struct metric_objects *all, const char *name, const char *help,
		       void (*print)(const struct metric_object *o))
{
	metric_begin(name, help);
	for (size_t i = 0; i < all->count; i++)
		print(&all->object[i]);
}

void metrics_links(void)
{
	struct metric_objects links = { 0 }, ntbs = { 0 };

	load_links(&links, &ntbs);
	metric_begin("dlend_link_up", "1 if a session with the peer runs.");
	print_is(&links, "state", "up");
	metric_begin("dlend_link_state", "1 for the state that the link is in.");
	metric_states(&links, link_states);
	print_each(&links, "dlend_link_info",
		   "Node at the other end (0: not known yet) and version of the protocol.",
		   print_link_info);
	metric_begin("dlend_link_self_test_passed",
		     "1 if both nodes have read what the other wrote.");
	print_is(&links, "self_test", "passed");
	metric_rows(&ntbs, link_sizes);
	metric_rows(&links, link_rows);
	print_each(&links, "dlend_link_slots", "Slots of the aperture in use, by kind.",
		   print_slots);
	metric_begin("dlend_link_messages_sent_total", "Messages to the peer, by type.");
	print_messages(&links, false);
	metric_begin("dlend_link_messages_received_total", "Messages from the peer, by type.");
	print_messages(&links, true);
	print_each(&links, "dlend_link_messages_dropped_total",
		   "Messages from the peer that were ignored, by reason.", print_drops);
}

/* Devices that this host lends */

static const char *const lent_states[] = {
	"preparing", "incomplete", "free", "held", "returning", "quarantined", "reserved", "kept",
	NULL
};

/* Its files of debugfs. */
enum { LEASE = 1, LENT_IRQS, DMA };

static const struct metric_row lent_rows[] = {
	{ "dlend_lent_device_borrower_node",
	  "Node that has the device, or that it is reserved or kept for; 0: none.", "borrower" },
	{ "dlend_lent_device_lease_epoch",
	  "Number of the current or the last lease; it grows with each lease.", "epoch" },
	{ "dlend_lent_device_reset_failed", "1 if the last reset of the device failed.",
	  "broken", LEASE },
	{ "dlend_lent_device_interrupts_total", "Interrupts of the device since it is lent.",
	  "total", LENT_IRQS },
	{ "dlend_lent_device_vectors", "Interrupts that its borrower has set up.",
	  "vectors", LENT_IRQS },
	{ "dlend_lent_device_mapped_bytes", "Memory that the device reaches now.",
	  "mapped_bytes", DMA },
	{ "dlend_lent_device_dma_faults_total",
	  "Accesses of the device that the IOMMU blocked in this lease, if the IOMMU's driver reports them.",
	  "faults", DMA },
	{ 0 }
};

void metrics_lent(void)
{
	struct names n = list_dir(sys("bus/pci/drivers/" DLEND_DRIVER));
	struct metric_objects lent = { 0 };

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = text("%s/dlend", names_path(&n, i)), *bdf = n.name[i], *labels;
		struct metric_object *o;

		if (!*attr(dir, "fabric_name"))
			continue;
		labels = metric_label(NULL, "address", attr(dir, "fabric_name"));
		labels = metric_label(labels, "device", bdf);
		labels = metric_label(labels, "kind", kind_of(dir));
		o = metric_object_add(&lent, labels, dir);
		o->file[LEASE] = metric_file("lender", bdf, "lease");
		o->file[LENT_IRQS] = metric_file("lender", bdf, "irqs");
		o->file[DMA] = metric_file("lender", bdf, "dma");
	}
	metric_begin("dlend_lent_device_state", "1 for the state that the device is in.");
	metric_states(&lent, lent_states);
	metric_rows(&lent, lent_rows);
}

/* Offers of all nodes */

static const char *const offer_states[] = {
	"free", "held", "returning", "quarantined", "gone", "reserved", "kept", NULL
};

static void metrics_offers(void)
{
	struct names offers = list_dir(sys("bus/dlend/devices")), kinds = { 0 }, seen = { 0 };

	for (size_t i = 0; i < offers.count; i++) {
		const char *dir = names_path(&offers, i), *kind = kind_of(dir);
		const char *is = metric_state(offer_states, attr(dir, "state"));

		if (!names_have(&kinds, kind))
			names_add(&kinds, kind);
		names_add(&seen, text("%s %s", kind, is ? is : ""));
	}
	metric_begin("dlend_offers",
		     "Offers of all nodes that this node knows, by kind and state.");
	for (size_t i = 0; i < kinds.count; i++)
		for (const char *const *s = offer_states; *s; s++) {
			const char *labels = metric_label(NULL, "kind", kinds.name[i]);
			size_t count = 0;

			for (size_t k = 0; k < seen.count; k++)
				count += !strcmp(seen.name[k], text("%s %s", kinds.name[i], *s));
			metric_sample(metric_label(labels, "state", *s), text("%zu", count));
		}
}

/* Mediated devices */

static const char *const mdev_states[] = {
	"idle", "borrowing", "building", "running", "failed", "stopped", "prepared", "taken", NULL
};

enum { STATS = 1, IRQS };

static const struct metric_row mdev_rows[] = {
	{ "dlend_mdev_lease_epoch", "Number of the lease, 0: none.", "epoch" },
	{ "dlend_mdev_pinned_bytes",
	  "Guest memory that is pinned; devices of one VM on one link each show all of it.",
	  "memory" },
	{ "dlend_mdev_memory_sharers", "How many devices of the VM use this memory.",
	  "memory_sharers" },
	{ "dlend_mdev_borrows_total", "How often the device was borrowed.", "borrows", STATS },
	{ "dlend_mdev_returns_total", "How often the device was returned.", "returns", STATS },
	{ "dlend_mdev_resets_total",
	  "Resets of the device that the guest or its VMM asked for.", "resets", STATS },
	{ "dlend_mdev_builds_total", "How often guest memory was searched and mapped.",
	  "builds", STATS },
	{ "dlend_mdev_build_retries_total", "How often that had to be tried again.",
	  "build_retries", STATS },
	{ "dlend_mdev_gate_waits_total",
	  "Accesses of the guest that waited until the device was ready.", "gate_waits", STATS },
	{ "dlend_mdev_gate_wait_longest_seconds", "The longest of these waits.",
	  "gate_wait_longest_us", STATS, UNIT_MICRO },
	{ "dlend_mdev_trapped_reads_total", "Reads of BARs that went through the VMM.",
	  "trapped_reads", STATS },
	{ "dlend_mdev_trapped_writes_total", "Writes to BARs that went through the VMM.",
	  "trapped_writes", STATS },
	{ "dlend_mdev_trapped_timeouts_total",
	  "Accesses through the VMM that did not find the device ready.",
	  "trapped_timeouts", STATS },
	{ "dlend_mdev_dead_faults_total",
	  "Pages of 0xff that were mapped because the guest did not have the device.",
	  "dead_faults", STATS },
	{ "dlend_mdev_interrupts_total", "Interrupts that came from the device.",
	  "fired", IRQS },
	{ "dlend_mdev_interrupts_signalled_total",
	  "Interrupts that the guest got; several that are close together can become one.",
	  "signalled", IRQS },
	{ "dlend_mdev_interrupts_stray_total",
	  "Interrupts of vectors that the guest has not set up.", "stray", IRQS },
	{ "dlend_mdev_errors_signalled_total", "Errors that were reported to the VMM.",
	  "errors", IRQS },
	{ 0 }
};

void metrics_mdevs(void)
{
	struct names n = list_dir(sys("bus/mdev/devices"));
	struct metric_objects mdevs = { 0 };

	for (size_t i = 0; i < n.count; i++) {
		const char *own = text("%s/dlend", names_path(&n, i)), *uuid = n.name[i], *labels;
		char *where = real_path(names_path(&n, i));
		char *parent = where ? dirname(where) : NULL;
		struct metric_object *o;

		if (!path_exists(own))
			continue;
		labels = metric_label(NULL, "address", parent ? basename(parent) : "");
		labels = metric_label(labels, "kind", parent ? kind_of(parent) : "");
		labels = metric_label(labels, "uuid", uuid);
		o = metric_object_add(&mdevs, labels, own);
		o->file[STATS] = metric_file("mdev", uuid, "stats");
		o->file[IRQS] = metric_file("mdev", uuid, "irqs");
	}
	metric_begin("dlend_mdev_state", "1 for the state that the mediated device is in.");
	metric_states(&mdevs, mdev_states);
	metric_rows(&mdevs, mdev_rows);
}

/* Attached devices */

static const struct metric_row attached_rows[] = {
	{ "dlend_attached_device_vectors", "Interrupts that the driver has set up.",
	  "vectors", 1 },
	{ "dlend_attached_device_mapped_bytes",
	  "Memory of this host that the device reaches now.", "mapped_bytes", 1 },
	{ "dlend_attached_device_window_bytes",
	  "Part of the window that is reserved for that memory.", "segment_bytes", 1 },
	{ "dlend_attached_device_messages_total", "Messages to its lender.", "messages", 1 },
	{ 0 }
};

static void print_attached_info(const struct metric_object *o)
{
	const char *where = attached_as(o->dir), *driver = where ? attached_driver(where) : NULL;
	const char *labels = metric_label(o->labels, "device", where ? where : "");

	metric_sample(metric_label(labels, "driver", driver ? driver : ""), "1");
}

void metrics_attached(void)
{
	struct names n = list_dir(sys("bus/dlend/devices"));
	struct metric_objects attached = { 0 }, failed = { 0 };

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i);
		const char *labels = metric_label(metric_label(NULL, "address", n.name[i]), "kind",
						  kind_of(dir));

		if (attached_as(dir))
			metric_object_add(&attached, labels, dir)->file[1] =
				metric_file("native", n.name[i], NULL);
		else if (*attr(dir, "attach_error"))
			metric_object_add(&failed, labels, dir);
	}
	print_each(&attached, "dlend_attached_device_info",
		   "Address here of an attached device, and its driver.", print_attached_info);
	metric_begin("dlend_attach_failed", "1 if the last attempt to attach the device failed.");
	for (size_t i = 0; i < attached.count; i++)
		metric_sample(attached.object[i].labels, "0");
	for (size_t i = 0; i < failed.count; i++)
		metric_sample(failed.object[i].labels, "1");
	metric_rows(&attached, attached_rows);
}

/* The command */

static void show_node(void)
{
	const char *node = own_node();

	metric_begin("dlend_node_info", "Id of this node, 0: none; version of the dlend command.");
	metric_sample(metric_label(metric_label(NULL, "node", *node ? node : "0"), "version",
				   DLEND_VERSION), "1");
	metric_begin("dlend_module_loaded", "1 if the module is loaded.");
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		metric_sample(metric_label(NULL, "module", modules[i]),
			      path_exists(sys("module/%s", modules[i])) ? "1" : "0");
	metric_begin("dlend_debugfs_readable", "1 if the numbers of debugfs are among these.");
	metric_sample(NULL, metric_has_debugfs() ? "1" : "0");
}

int cmd_metrics(int argc, char **argv)
{
	const char *output = NULL;
	const struct verb_option options[] = {
		{ "no-debugfs", .flag = &metric_no_debugfs }, { "output", &output }, { 0 }
	};

	verb_words(argc, argv, options, 0, 0);
	check_file_name("output", output);
	if (output)
		output_begin(output, "Make its directory, or give another file.");
	show_node();
	metrics_links();
	metrics_lent();
	metrics_offers();
	metrics_mdevs();
	metrics_attached();
	if (output)
		output_end();
	else
		output_flush();
	return EXIT_OK;
}
