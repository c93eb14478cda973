// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend libvirt-xml: prints the part of a libvirt domain that gives a guest its lent devices in a
 * tree like the fabric's.  Each is at a root port, or those of a clique are below one switch.
 *
 * Knows the limits of a q35 machine and refuses what is beyond them.  Only prints the elements, and
 * changes no domain.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

#define SLOTS_ROOT	32	/* on the root bus */
#define SLOTS_USED	8	/* of a guest that nothing is known of: chipset, virtio, a bridge */
#define SLOTS_ALL	256	/* in the whole tree */
#define BUS_LAST	255
#define SWITCH_PORTS	32	/* below one upstream port */
#define IO_PORTS	16	/* each takes 4 KiB of the 64 KiB of I/O space */

/* The devices of one root port or one switch. */
struct branch {
	size_t count;
	const struct lent **device;
};

struct plan {
	bool switches;
	size_t count;
	struct branch *branch;
	unsigned int controllers, ports, roots;
};

/* Planning */

static bool belong_together(const struct lent *a, const struct lent *b)
{
	const char *sa = place_switch(&a->place), *sb = place_switch(&b->place);

	if (a->clique >= 0 || b->clique >= 0)
		return a->clique == b->clique;
	return a->lender == b->lender && sa && sb && !strcmp(sa, sb);
}

static void plan_device(struct plan *p, const struct lent *d)
{
	struct branch *b = NULL;

	for (size_t i = 0; p->switches && i < p->count && !b; i++)
		if (belong_together(p->branch[i].device[0], d))
			b = &p->branch[i];
	if (!b) {
		p->branch = reallocarray(p->branch, p->count + 1, sizeof(*p->branch));
		if (!p->branch)
			abort();
		b = &p->branch[p->count++];
		memset(b, 0, sizeof(*b));
	}
	b->device = reallocarray(b->device, b->count + 1, sizeof(*b->device));
	if (!b->device)
		abort();
	b->device[b->count++] = d;
}

static struct plan make_plan(const struct fabric *f, const struct names *uuid, bool switches)
{
	struct plan p = { .switches = switches };

	for (size_t i = 0; i < uuid->count; i++) {
		const struct lent *d = fabric_device(f, uuid->name[i]);

		if (!d || strcmp(d->uuid, uuid->name[i]))
			fail(EXIT_NOT_FOUND, text("%s: no such mediated device", uuid->name[i]),
			     "dlend has none of that UUID on this node",
			     "dlend status lists them; mdevctl start makes one.");
		for (size_t k = 0; k < i; k++)
			if (!strcmp(uuid->name[i], uuid->name[k]))
				fail(EXIT_USAGE, text("%s is there twice", uuid->name[i]),
				     NULL, NULL);
		plan_device(&p, d);
	}
	for (size_t i = 0; i < p.count; i++) {
		size_t n = p.branch[i].count;

		p.roots++;
		p.ports += n;
		p.controllers += n > 1 ? 2 + n : 1;
	}
	return p;
}

static void check_limit(const char *what, unsigned int have, unsigned int add, unsigned int most,
			const char *todo)
{
	if (have + add > most)
		fail(EXIT_UNFIT, text("the guest has not enough %s", what),
		     text("%u are taken and %u more are needed, of %u", have, add, most), todo);
}

static void check_limits(const struct guest *g, const struct plan *p)
{
	for (size_t i = 0; i < p->count; i++)
		check_limit("ports at one switch", 0, p->branch[i].count, SWITCH_PORTS,
			    "Split the clique, or use --mode root-port.");
	check_limit("slots on its root bus", g->slots, p->roots, SLOTS_ROOT,
		    "Use --mode switch-port, which takes one for each clique, or take devices away.");
	check_limit("buses", g->last, p->controllers, BUS_LAST, "Take devices away.");
	check_limit("slots", g->all, p->controllers + p->ports, SLOTS_ALL, "Take devices away.");
	if (g->io)
		check_limit("I/O space, in ports of 4 KiB", g->ports, p->ports, IO_PORTS,
			    "Lent devices have no I/O BARs in a guest: where no other device has any, say --no-io.");
}

/* Writing */

static void print_address(unsigned int bus, unsigned int slot)
{
	printf("<address type='pci' domain='0x0000' bus='0x%02x' slot='0x%02x' function='0x0'/>\n",
	       bus, slot);
}

static void print_controller(unsigned int index, const char *model, unsigned int bus, int slot)
{
	printf("<controller type='pci' index='%u' model='%s'", index, model);
	if (slot < 0) {
		puts("/>");	/* on the root bus, where libvirt finds a slot */
		return;
	}
	fputs(">\n  ", stdout);
	print_address(bus, slot);
	puts("</controller>");
}

static void print_hostdev(const struct lent *d, unsigned int bus)
{
	puts("<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>");
	printf("  <source>\n    <address uuid='%s'/>\n  </source>\n", d->uuid);
	printf("  <alias name='ua-%s'/>\n  ", d->uuid);
	print_address(bus, 0);
	puts("</hostdev>");
}

static void print_comment(const struct branch *b)
{
	printf("<!-- %s", b->count > 1 ? "switch:" : "port:");
	for (size_t i = 0; i < b->count; i++) {
		putchar(' ');
		for (const char *c = b->device[i]->address; *c; c++)
			putchar(isalnum((unsigned char)*c) || *c == ':' || *c == '.' ? *c : '?');
	}
	if (b->device[0]->clique >= 0)
		printf(", clique %d", b->device[0]->clique);
	puts(" -->");
}

static void print_plan(const struct plan *p, unsigned int index)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct branch *b = &p->branch[i];
		unsigned int root = ++index, up;

		print_comment(b);
		print_controller(root, "pcie-root-port", 0, -1);
		if (b->count == 1) {
			print_hostdev(b->device[0], root);
			continue;
		}
		up = ++index;
		print_controller(up, "pcie-switch-upstream-port", root, 0);
		for (size_t k = 0; k < b->count; k++)
			print_controller(++index, "pcie-switch-downstream-port", up, k);
		for (size_t k = 0; k < b->count; k++)
			print_hostdev(b->device[k], index - b->count + 1 + k);
	}
	/* No comment of XML's may hold the option's two dashes. */
	puts("<!-- they stay while the VM moves, if it is prepared: dlend(8), migrate -->");
}

/* As libvirt has it. */
static bool is_domain_name(const char *s)
{
	size_t len = strlen(s);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == '/' || s[i] == 0x7f)
			return false;
	return len && len < TEXT_MAX;
}

static struct guest read_guest(const struct fabric *f, int argc, char **argv, const char *domain)
{
	struct guest g = { .slots = SLOTS_USED, .all = SLOTS_USED };
	char *xml;

	if (!domain && argc == 1 && !uuid_valid(argv[0]) && strcmp(argv[0], "-"))
		domain = argv[--argc];
	if (domain ? argc : !argc)
		refuse_usage("libvirt-xml");
	if (domain && !is_domain_name(domain))
		fail(EXIT_USAGE, text("\"%s\" is no name of a domain", domain), NULL,
		     "virsh list --all shows the domains of this host.");
	if (domain || !strcmp(argv[0], "-")) {
		xml = domain ? guest_ask_virsh(domain) : read_all("/dev/stdin");
		if (!xml)
			fail(EXIT_FAIL, "standard input cannot be read", strerror(errno), NULL);
		g = guest_read(xml, f);
		free(xml);
		return g;
	}
	for (int i = 0; i < argc; i++) {
		if (!uuid_valid(argv[i]))
			fail(EXIT_USAGE, text("\"%s\" is no UUID", argv[i]), NULL,
			     "dlend status lists those of the mediated devices.");
		names_add(&g.uuid, argv[i]);
	}
	return g;
}

int cmd_libvirt_xml(int argc, char **argv)
{
	static const struct option options[] = {
		{ "mode", required_argument, NULL, 'm' },
		{ "domain", required_argument, NULL, 'd' },
		{ "io", no_argument, NULL, 'i' },
		{ "no-io", no_argument, NULL, 'n' },
		{ 0 }
	};
	const char *domain = NULL, *mode = "switch-port";
	int c, io = 0;
	struct fabric f;
	struct guest g;
	struct plan p;

	while ((c = verb_option(argc, argv, options)) != -1) {
		mode = c == 'm' ? optarg : mode;
		domain = c == 'd' ? optarg : domain;
		io = c == 'i' ? 1 : c == 'n' ? -1 : io;
	}
	if (strcmp(mode, "switch-port") && strcmp(mode, "root-port"))
		fail(EXIT_USAGE, text("there is no mode \"%s\"", mode), NULL,
		     "Modes are root-port and switch-port.");
	f = fabric_load();
	g = read_guest(&f, argc - optind, argv + optind, domain);
	g.io = io ? io > 0 : g.io;
	p = make_plan(&f, &g.uuid, !strcmp(mode, "switch-port"));
	check_limits(&g, &p);
	print_plan(&p, g.last);
	return EXIT_OK;
}
