// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend libvirt-xml: prints the part of a libvirt domain that gives a guest its lent devices in a
 * tree like the fabric's, as guestplan.c has planned it.  Changes no domain.
 */
#include <ctype.h>
#include <string.h>

#include "guest.h"

#define WINDOW_MIN	0x100000	/* of a bridge: it comes in pieces of this size */
#define SLOTS_USED	8	/* of a guest that nothing is known of: chipset, virtio, a bridge */

static void print_address(unsigned int bus, unsigned int slot)
{
	printf("<address type='pci' domain='0x0000' bus='0x%02x' slot='0x%02x' function='0x0'/>\n",
	       bus, slot);
}

/* @slot: negative on the root bus, where libvirt finds one */
static void print_controller(unsigned int index, const char *model, const char *more,
			     unsigned int bus, int slot)
{
	printf("<controller type='pci' index='%u' model='%s'", index, model);
	if (slot < 0 && !*more) {
		puts("/>");
		return;
	}
	printf(">\n%s", more);
	if (slot >= 0) {
		fputs("  ", stdout);
		print_address(bus, slot);
	}
	puts("</controller>");
}

/* As the domain has it, but for its place. */
static void print_hostdev(const struct plan *p, const struct lent *d, unsigned int bus,
			  unsigned int slot)
{
	const struct guest *g = p->guest;
	size_t i = 0;

	while (i < g->hostdev.count && strcmp(g->uuid.name[i], d->uuid))
		i++;
	if (i < g->hostdev.count) {
		fputs(g->hostdev.name[i], stdout);
	} else {
		puts("<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>");
		printf("  <source>\n    <address uuid='%s'/>\n  </source>\n", d->uuid);
		printf("  <alias name='ua-%s'/>\n  ", d->uuid);
	}
	print_address(bus, slot);
	puts("</hostdev>");
}

static bool is_any(const struct lent *d)
{
	return !*d->address;
}

static void print_comment(const struct branch *b, const char *what)
{
	printf("<!-- %s:", what);
	for (size_t i = 0; i < b->count; i++) {
		putchar(' ');
		if (is_any(b->device[i]))
			printf("any %s", b->device[i]->type);
		for (const char *c = b->device[i]->address; *c; c++)
			putchar(isalnum((unsigned char)*c) || *c == ':' || *c == '.' ? *c : '?');
	}
	if (b->device[0]->clique >= 0)
		printf(", clique %d", b->device[0]->clique);
	puts(" -->");
}

/* A window of a bridge: what BARs of @bytes in all need, each at a multiple of its size. */
static unsigned long long window_size(unsigned long long bytes)
{
	unsigned long long size = WINDOW_MIN;

	while (size < bytes)
		size <<= 1;
	return size;
}

static void sum_bars(const struct branch *b, unsigned long long *high, unsigned long long *low)
{
	*high = 0;
	*low = 0;
	for (size_t i = 0; i < b->count; i++) {
		*high += b->device[i]->high;
		*low += b->device[i]->low;
	}
}

static void print_root_port(const struct branch *b, unsigned int index, bool reserve,
			    unsigned int bus, int slot)
{
	unsigned long long high, low;

	sum_bars(b, &high, &low);
	print_controller(index, "pcie-root-port", !reserve || !low ? "" :
			 text("  <target memReserve='%llu'/>\n", window_size(low) >> 10),
			 bus, slot);
}

static unsigned int print_switch(const struct plan *p, const struct branch *b, unsigned int index)
{
	unsigned int root = index, up = ++index;

	print_controller(up, "pcie-switch-upstream-port", "", root, 0);
	for (size_t k = 0; k < b->count; k++)
		print_controller(++index, "pcie-switch-downstream-port", "", up, k);
	for (size_t k = 0; k < b->count; k++)
		print_hostdev(p, b->device[k], index - b->count + 1 + k, 0);
	return index;
}

static unsigned int print_bridge(const struct plan *p, const struct branch *b, unsigned int index)
{
	unsigned int root = index++;

	print_controller(index, "pcie-to-pci-bridge", "", root, 0);
	for (size_t k = 0; k < b->count; k++)
		print_hostdev(p, b->device[k], index, 1 + k);
	return index;
}

/* What is below root port @index.  Return: the last index that was used. */
static unsigned int print_below(const struct plan *p, const struct branch *b, unsigned int index)
{
	if (p->mode == PLAN_BRIDGE)
		return print_bridge(p, b, index);
	if (b->count > 1)
		return print_switch(p, b, index);
	print_hostdev(p, b->device[0], index, 0);
	return index;
}

static void begin_domain(bool *begun)
{
	if (!*begun)
		puts("<!-- the rest belongs into <domain>, beside <devices> -->");
	*begun = true;
}

/* For libvirt's hook (dist/libvirt-mdevs).  libvirt keeps one element of each name space. */
static void print_metadata(const struct plan *p, bool *begun)
{
	bool found = false;

	for (size_t i = 0; i < p->count; i++)
		for (size_t k = 0; k < p->branch[i].count; k++) {
			const struct lent *d = p->branch[i].device[k];

			if (!is_any(d))
				continue;
			begin_domain(begun);
			if (!found)
				puts("<metadata>\n"
				     "  <dlend:devices xmlns:dlend='urn:dlend:devices'>");
			found = true;
			printf("    <dlend:device uuid='%s' type='%s'/>\n", d->uuid, d->type);
		}
	if (found)
		puts("  </dlend:devices>\n</metadata>");
}

/* libvirt has no word for this window.  It calls the controller of an index "pci.INDEX". */
static void print_override(const struct plan *p, const unsigned int *root, bool *begun)
{
	unsigned long long high, low;
	bool found = false;

	for (size_t i = 0; i < p->count; i++) {
		sum_bars(&p->branch[i], &high, &low);
		if (!high)
			continue;
		begin_domain(begun);
		if (!found)
			puts("<qemu:override xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>");
		found = true;
		printf("  <qemu:device alias='pci.%u'>\n    <qemu:frontend>\n"
		       "      <qemu:property name='pref64-reserve' type='unsigned' value='%llu'/>\n"
		       "    </qemu:frontend>\n  </qemu:device>\n", root[i], window_size(high));
	}
	if (found)
		puts("</qemu:override>");
}

static void print_plan(const struct plan *p, unsigned int index, bool reserve)
{
	unsigned int expander = index + 1, *root = zeroed(p->count, sizeof(*root));
	unsigned int *slot = zeroed(p->cells, sizeof(*slot));
	bool begun = false;

	for (size_t i = 0; i < p->cells; i++)
		print_controller(++index, "pcie-expander-bus",
				 text("  <target>\n    <node>%d</node>\n  </target>\n", p->cell[i]),
				 0, -1);
	for (size_t i = 0; i < p->count; i++) {
		const struct branch *b = &p->branch[i];
		size_t at = 0;

		while (at < p->cells && p->cell[at] != b->cell)
			at++;
		root[i] = ++index;
		print_comment(b, p->mode == PLAN_BRIDGE ? "bridge" :
			      b->count > 1 ? "switch" : "port");
		print_root_port(b, index, reserve, expander + at,
				at < p->cells ? (int)slot[at]++ : -1);
		index = print_below(p, b, index);
	}
	/* No comment of XML's may hold the option's two dashes. */
	puts("<!-- they stay while the VM moves, if it is prepared: dlend(8), migrate -->");
	print_metadata(p, &begun);
	if (reserve)
		print_override(p, root, &begun);
}

/* @any: types of devices that it is to get besides */
static struct guest read_guest(const struct fabric *f, char **words, const char *domain,
			       const struct names *any)
{
	struct guest g = guest_new(SLOTS_USED);

	if (!domain && *words && !words[1] && !uuid_valid(*words) && strcmp(*words, "-"))
		domain = *words++;
	if (domain ? !!*words : !*words && !any->count)
		refuse_usage("libvirt-xml");
	if (domain || (*words && !strcmp(*words, "-"))) {
		g = guest_read(guest_xml(domain ? domain : "-"), f, true);
		if (!g.uuid.count && !any->count)
			fail(EXIT_NOT_FOUND, "the domain has no mediated device of dlend",
			     "no <hostdev type='mdev'> in it names one of this node",
			     "Give their UUIDs: dlend libvirt-xml UUID...; dlend status lists them.");
		return g;
	}
	for (; *words; words++)
		names_add(&g.uuid, uuid_parse(*words));
	return g;
}

static enum plan_mode parse_mode(const char *word)
{
	static const char *const modes[] = {
		[PLAN_SWITCH_PORT] = "switch-port",
		[PLAN_ROOT_PORT] = "root-port",
		[PLAN_BRIDGE] = "bridge",
	};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strcmp(word, modes[i]))
			return i;
	fail(EXIT_USAGE, text("there is no mode \"%s\"", word), NULL,
	     "Modes are root-port, switch-port and bridge.");
}

int cmd_libvirt_xml(int argc, char **argv)
{
	const char *word = "switch-port", *domain = NULL;
	bool reserve = false, numa = false, io = false, no_io = false;
	struct names any = { 0 };
	const struct verb_option options[] = {
		{ "mode", &word }, { "domain", &domain }, { "any", .values = &any },
		{ "io", .flag = &io }, { "no-io", .flag = &no_io },
		{ "reserve", .flag = &reserve }, { "numa", .flag = &numa }, { 0 }
	};
	char **words = verb_words(argc, argv, options, 0, ANY_NUMBER);
	enum plan_mode mode = parse_mode(word);
	struct fabric f;
	struct guest g;
	struct plan p;

	for (size_t i = 0; i < any.count; i++)
		if (!type_valid(any.name[i]))
			fail(EXIT_USAGE, text("\"%s\" is no type", any.name[i]), NULL,
			     "Give one as dlend list shows it, for example dlend-gpu.");
	f = fabric_load();
	g = read_guest(&f, words, domain, &any);
	g.any = any;
	g.io = !no_io && (io || g.io);
	p = plan_make(&f, &g, mode, numa);
	plan_check(&g, &p);
	print_plan(&p, g.last, reserve);
	return EXIT_OK;
}
