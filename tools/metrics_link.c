// SPDX-License-Identifier: GPL-2.0-only
/* dlend metrics: links of this node. */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

static const struct metric_state states[] = {
	{ "down", "down" }, { "hello", "hello" }, { "test", "test" }, { "up", "up" },
	{ 0 }
};

/* Of an NTB only: the link of a node to itself has no limit. */
static const struct metric_row sizes[] = {
	{ "dlend_link_window_bytes", "How much of the peer this node reaches.", "window_bytes",
	  FROM_SYSFS, UNIT_ONE },
	{ "dlend_link_aperture_bytes", "How much of this node the peer reaches.",
	  "aperture_bytes", FROM_SYSFS, UNIT_ONE },
	{ "dlend_link_aperture_free_bytes", "Free part of the aperture.", "aperture_free_bytes",
	  FROM_SYSFS, UNIT_ONE },
	{ "dlend_link_aperture_largest_free_bytes", "Largest free piece of the aperture.",
	  "aperture_largest_free_bytes", FROM_SYSFS, UNIT_ONE },
	{ "dlend_link_aperture_quarantined_bytes",
	  "Part of the aperture that is not free yet because the peer may still know it.",
	  "quarantined_bytes", 0, UNIT_ONE },
	{ "dlend_link_aperture_p2p_bytes", "Part of the aperture that peer-to-peer uses.",
	  "p2p_bytes", 0, UNIT_ONE },
	{ "dlend_link_aperture_p2p_limit_bytes",
	  "Part of the aperture that peer-to-peer may use.", "p2p_limit_bytes", 0, UNIT_ONE },
	{ 0 }
};

static const struct metric_row rows[] = {
	{ "dlend_link_heartbeat_age_seconds",
	  "Time since the last sign of life of the peer; 0 while the link is not up.",
	  "heartbeat_age_ms", FROM_SYSFS, UNIT_MILLI },
	{ "dlend_link_sessions_total", "How often the link came up.", "sessions", 0, UNIT_ONE },
	{ "dlend_link_mapped_bytes", "Memory of this node that the peer reaches now.",
	  "mapped_bytes", 0, UNIT_ONE },
	{ "dlend_link_call_timeouts_total", "Calls that the peer did not answer in time.",
	  "call_timeouts", 0, UNIT_ONE },
	{ "dlend_link_ring_full_waits_total", "Waits for room in the peer's ring of messages.",
	  "ring_full_waits", 0, UNIT_ONE },
	{ "dlend_link_doorbells_rung_total",
	  "Interrupts of lent devices that this node passed on, each with a doorbell.",
	  "irq_fired", 0, UNIT_ONE },
	{ "dlend_link_interrupts_delivered_total",
	  "Interrupts of borrowed devices that came in over the link.", "irq_delivered", 0,
	  UNIT_ONE },
	{ "dlend_link_doorbell_scans_total",
	  "How often a doorbell made this node look for interrupts.", "irq_scans", 0, UNIT_ONE },
	{ "dlend_link_doorbell_polls_total",
	  "How often the doorbells were masked and polled because they came too fast.",
	  "doorbell_polls", 0, UNIT_ONE },
	{ "dlend_link_interrupt_overruns_total",
	  "How often the peer's list of interrupts was overwritten before it was read; none is lost.",
	  "irq_overruns", 0, UNIT_ONE },
	{ "dlend_link_interrupts_bad_total",
	  "Interrupts from the peer that belong to no borrowed device.", "irq_bad", 0, UNIT_ONE },
	{ 0 }
};

static const char *const drops[] = { "bad", "late", "session", "no_user", "refused" };

/* @ntbs: those of @links that have a size; what they hold is that list's. */
static void load_links(struct metric_objects *links, struct metric_objects *ntbs)
{
	char *class = path("%s/class/dlend_link", opt.sysfs), type[TEXT_MAX];
	struct names n = list_dir(class);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", class, n.name[i]);
		bool loop = !strcmp(read_attr(type, dir, "type"), "loop");
		const char *labels = metric_label(NULL, "link", n.name[i]);
		struct metric_object *o;

		labels = metric_label(labels, "type", loop ? "loop" : "ntb");
		o = metric_object_add(links, labels, dir);
		o->file[0] = metric_file("links", n.name[i], NULL);
		if (!loop)
			*metric_object_add(ntbs, NULL, NULL) = *o;
	}
	names_free(&n);
	free(class);
}

static void print_info(const struct metric_objects *links)
{
	char value[TEXT_MAX];

	metric_begin("dlend_link_info",
		     "Node at the other end (0: not known yet) and version of the protocol.");
	for (size_t i = 0; i < links->count; i++) {
		const struct metric_object *o = &links->object[i];
		const char *labels;

		labels = metric_label(o->labels, "peer", read_attr(value, o->dir, "peer_node"));
		labels = metric_label(labels, "protocol", read_attr(value, o->dir, "version"));
		metric_sample(labels, "1");
	}
}

/* 1 for each link whose attribute is this word, else 0 */
static void print_is(const struct metric_objects *links, const char *attribute, const char *word)
{
	char value[TEXT_MAX];

	for (size_t i = 0; i < links->count; i++) {
		const struct metric_object *o = &links->object[i];

		read_attr(value, o->dir, attribute);
		metric_sample(o->labels, strcmp(value, word) ? "0" : "1");
	}
}

/* The attribute is "ctrl 1 ram 4 bar 0 irq 1 p2p 0". */
static void print_slots(const struct metric_objects *links)
{
	metric_begin("dlend_link_slots", "Slots of the aperture in use, by kind.");
	for (size_t i = 0; i < links->count; i++) {
		const struct metric_object *o = &links->object[i];
		char value[TEXT_MAX], kind[TEXT_MAX], count[TEXT_MAX];
		int used = 0;

		read_attr(value, o->dir, "slots");
		for (char *c = value; sscanf(c, "%15[a-z0-9] %15[0-9]%n", kind, count, &used) == 2;
		     c += used + strspn(c + used, " "))
			metric_sample(metric_label(o->labels, "kind", kind), count);
	}
}

/* Prints what a link's lines "msg_TYPE: sent N received N" say: the first number, or the second. */
static void print_counts(const struct metric_object *o, bool received)
{
	for (const char *line = o->file[0]; line; line = strchr(line, '\n')) {
		char type[TEXT_MAX], sent[TEXT_MAX], got[TEXT_MAX];

		line += *line == '\n';
		if (sscanf(line, "msg_%31[A-Z0-9_]: sent %20[0-9] received %20[0-9]", type, sent,
			   got) == 3)
			metric_sample(metric_label(o->labels, "message", type),
				      received ? got : sent);
	}
}

static void print_messages(const struct metric_objects *links)
{
	metric_begin("dlend_link_messages_sent_total", "Messages to the peer, by type.");
	for (size_t i = 0; i < links->count; i++)
		print_counts(&links->object[i], false);
	metric_begin("dlend_link_messages_received_total", "Messages from the peer, by type.");
	for (size_t i = 0; i < links->count; i++)
		print_counts(&links->object[i], true);
}

static void print_drops(const struct metric_objects *links)
{
	metric_begin("dlend_link_messages_dropped_total",
		     "Messages from the peer that were not heeded, by reason.");
	for (size_t i = 0; i < links->count; i++)
		for (size_t j = 0; j < sizeof(drops) / sizeof(*drops); j++) {
			const struct metric_object *o = &links->object[i];
			const char *key = text("dropped_%s", drops[j]);
			char number[TEXT_MAX];

			if (metric_number(number, o->file[0], key))
				metric_sample(metric_label(o->labels, "reason", drops[j]), number);
		}
}

void metrics_links(void)
{
	struct metric_objects links = { 0 }, ntbs = { 0 };

	load_links(&links, &ntbs);
	metric_begin("dlend_link_up", "1 if a session with the peer runs.");
	print_is(&links, "state", "up");
	metric_begin("dlend_link_state", "1 for the state that the link is in.");
	metric_states(&links, states);
	print_info(&links);
	metric_begin("dlend_link_self_test_passed",
		     "1 if both nodes have read what the other wrote.");
	print_is(&links, "self_test", "passed");
	metric_rows(&ntbs, sizes);
	metric_rows(&links, rows);
	print_slots(&links);
	print_messages(&links);
	print_drops(&links);
	free(ntbs.object);
	metric_objects_free(&links);
}
