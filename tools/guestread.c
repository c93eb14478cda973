// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the XML of a libvirt domain, as virsh dumpxml writes it: which mediated devices it has, and
 * what its guest's PCI tree holds already.  Plans nothing (guestplan.c).
 */
#include <ctype.h>
#include <errno.h>
#include <libxml/parser.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

/* Value of attribute @name, "" if @element (may be NULL) has none. */
static char *element_attr(const xmlNode *element, const char *name)
{
	xmlChar *found = element ? xmlGetNoNsProp(element, BAD_CAST name) : NULL;
	char *value = text("%s", found ? (const char *)found : "");

	xmlFree(found);
	return value;
}

static unsigned int element_number(const xmlNode *element, const char *name)
{
	return strtoul(element_attr(element, name), NULL, 0);
}

static bool element_is(const xmlNode *element, const char *name)
{
	return !strcmp((const char *)element->name, name);
}

/* The first element of that name directly in @parent (may be NULL), or NULL. */
static xmlNode *find_child(xmlNode *parent, const char *name)
{
	xmlNode *child = parent ? xmlFirstElementChild(parent) : NULL;

	while (child && !element_is(child, name))
		child = xmlNextElementSibling(child);
	return child;
}

static void read_controller(struct guest *g, const xmlNode *controller)
{
	unsigned int index = element_number(controller, "index");
	const char *model = element_attr(controller, "model");

	if (strcmp(element_attr(controller, "type"), "pci"))
		return;
	if (index > g->last)
		g->last = index;
	g->ports += !strcmp(model, "pcie-root-port") ||
		    !strcmp(model, "pcie-switch-downstream-port");
}

static void count_slot(struct guest *g, xmlNode *device)
{
	const xmlNode *address = find_child(device, "address");

	if (strcmp(element_attr(address, "type"), "pci"))
		return;
	if (element_number(address, "function"))	/* its slot is counted with function 0 */
		return;
	g->all++;
	g->slots += !element_number(address, "bus");
}

/* libvirt keeps a name that begins so, and gives all others anew each time the VM starts. */
static void give_alias(xmlNode *device, const char *uuid)
{
	xmlNode *alias = find_child(device, "alias");

	if (!strncmp(element_attr(alias, "name"), "ua-", 3))
		return;
	if (!alias)
		alias = xmlNewChild(device, NULL, BAD_CAST "alias", NULL);
	xmlSetProp(alias, BAD_CAST "name", BAD_CAST text("ua-%s", uuid));
}

/* All that its owner has written into the element, but for its place, which is to stand last. */
static void keep_hostdev(struct guest *g, xmlNode *device, const char *uuid)
{
	xmlNode *address = find_child(device, "address");
	xmlBuffer *buffer = xmlBufferCreate();
	char *element;

	if (address) {
		xmlUnlinkNode(address);
		xmlFreeNode(address);
	}
	give_alias(device, uuid);
	if (!buffer || xmlNodeDump(buffer, device->doc, device, 0, 0) < 0)
		abort();
	element = text("%s", (const char *)xmlBufferContent(buffer));
	*strrchr(element, '<') = '\0';
	names_add(&g->uuid, uuid);
	names_add(&g->hostdev, element);
	xmlBufferFree(buffer);
}

static void add_seat(struct guest *g, xmlNode *device)
{
	const xmlNode *place = find_child(device, "address");
	const xmlNode *source = find_child(find_child(device, "source"), "address");
	const xmlNode *number = find_child(device, "target");
	bool pci = !strcmp(element_attr(place, "type"), "pci");
	struct seat s = {
		.what = text("%s", element_attr(source, "uuid")), .controller = -1, .fixed = -1,
		.bus = pci ? (int)element_number(place, "bus") : -1,
		.slot = element_number(place, "slot"),
		.function = element_number(place, "function"),
	};

	if (*element_attr(number, "busNr"))
		s.fixed = element_number(number, "busNr");
	if (element_is(device, "controller") && !strcmp(element_attr(device, "type"), "pci") &&
	    (s.fixed >= 0 || !strstr(element_attr(device, "model"), "expander")))
		s.controller = element_number(device, "index");
	if (element_is(device, "hostdev") && *element_attr(source, "slot"))
		s.what = text("%04x:%02x:%02x.%x", element_number(source, "domain"),
			      element_number(source, "bus"), element_number(source, "slot"),
			      element_number(source, "function"));
	g->seat = grow(g->seat, g->seats, sizeof(s));
	g->seat[g->seats++] = s;
}

/* The slot of a lent device does not count, because it gets a new one. */
static void read_device(struct guest *g, xmlNode *device, const struct fabric *f)
{
	char *uuid;

	add_seat(g, device);
	if (element_is(device, "controller")) {
		read_controller(g, device);
	} else if (element_is(device, "hostdev")) {
		uuid = element_attr(find_child(find_child(device, "source"), "address"), "uuid");
		for (char *c = uuid; *c; c++)
			*c = tolower((unsigned char)*c);	/* as the kernel has them */
		if (*uuid && fabric_device(f, uuid)) {
			keep_hostdev(g, device, uuid);
			return;
		}
		/* A device of the host that is not ours may have I/O BARs. */
		g->io |= !*uuid;
	}
	count_slot(g, device);
}

static __noreturn void refuse_xml(const char *why)
{
	fail(EXIT_USAGE, "what was read is no libvirt domain", why,
	     "Give what virsh dumpxml prints, or the UUIDs of mediated devices.");
}

/* Exits with a message if @xml is no domain.  Fetches no files and expands no entities. */
static xmlDoc *parse_domain(const char *xml)
{
	xmlDoc *doc = xmlReadDoc(BAD_CAST xml, NULL, NULL,
				 XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	const xmlError *error = xmlGetLastError();

	if (!doc && error && error->message)
		refuse_xml(text("line %d: %.*s", error->line,
				(int)strcspn(error->message, "\n"), error->message));
	if (!doc)
		refuse_xml("it is no XML");
	if (doc->intSubset)
		refuse_xml("it has a document type (<!DOCTYPE>), and no domain has one");
	if (!element_is(xmlDocGetRootElement(doc), "domain"))
		refuse_xml("it has no <domain> element");
	return doc;
}

/* "0-1,3,^1": later words count more. */
static void read_memnode(struct guest *g, const xmlNode *memnode)
{
	unsigned int cell = element_number(memnode, "cellid");
	char *rest = element_attr(memnode, "nodeset"), *word;

	while ((word = strsep(&rest, ","))) {
		bool out = *word == '^';
		unsigned int first, last;
		int found = sscanf(word + out, "%u-%u", &first, &last);

		if (found == 1)
			last = first;
		for (; found > 0 && first <= last && first < HOST_NODES; first++)
			g->cell[first] = out ? -1 : (int)cell;
	}
}

static void read_numa(struct guest *g, xmlNode *domain)
{
	xmlNode *numatune = find_child(domain, "numatune");
	xmlNode *child = numatune ? xmlFirstElementChild(numatune) : NULL;

	for (; child; child = xmlNextElementSibling(child))
		if (element_is(child, "memnode"))
			read_memnode(g, child);
}

/* What dlend's devices do not fit into, whatever their place. */
static void check_machine(xmlNode *domain, xmlNode *devices)
{
	const char *machine = element_attr(find_child(find_child(domain, "os"), "type"),
					   "machine");

	if (!strcmp(machine, "pc") || strstr(machine, "i440fx"))
		fail(EXIT_UNFIT, "the domain's machine has no PCI Express",
		     text("its machine is %s, whose only bus is of conventional PCI", machine),
		     "Make it a q35 machine (<type machine='q35'>), or leave the place to libvirt: <hostdev> without <address type='pci'>.");
	if (find_child(devices, "iommu"))
		fail(EXIT_UNFIT, "the domain has a virtual IOMMU",
		     "mediated devices cannot be used behind one: it keeps changing what they reach",
		     "Take <iommu> out of the domain.");
}

struct guest guest_new(unsigned int slots)
{
	struct guest g = { .slots = slots, .all = slots };

	for (size_t i = 0; i < HOST_NODES; i++)
		g.cell[i] = -1;
	return g;
}

int guest_cell(const struct guest *g, int numa)
{
	return numa >= 0 && numa < HOST_NODES ? g->cell[numa] : -1;
}

/* @number: (out) of each controller's bus; @next: the last one that was given */
static void number_buses(const struct guest *g, int bus, int *number, int *next)
{
	for (unsigned int place = 0; place < 256; place++)
		for (size_t i = 0; i < g->seats; i++) {
			const struct seat *s = &g->seat[i];
			int of_its_own = s->fixed;

			if (s->bus != bus || s->controller < 0 || s->controller >= GUEST_BUSES ||
			    s->slot * 8 + s->function != place || number[s->controller] >= 0)
				continue;
			number[s->controller] = s->fixed >= 0 ? s->fixed : ++*next;
			number_buses(g, s->controller, number, s->fixed >= 0 ? &of_its_own : next);
		}
}

const char *guest_address(const struct guest *g, const char *what)
{
	int number[GUEST_BUSES], next = 0;

	memset(number, 0xff, sizeof(number));
	number[0] = 0;
	number_buses(g, 0, number, &next);
	for (size_t i = 0; i < g->seats; i++) {
		const struct seat *s = &g->seat[i];

		if (strcasecmp(s->what, what))
			continue;
		if (s->bus < 0 || s->bus >= GUEST_BUSES || number[s->bus] < 0 || s->slot > 31 ||
		    s->function > 7)
			return "";
		return text("0000:%02x:%02x.%x", number[s->bus], s->slot, s->function);
	}
	return NULL;
}

struct guest guest_read(const char *xml, const struct fabric *f, bool add)
{
	/* The host bridge, and at 1f ISA, SATA, SMBus. */
	struct guest g = guest_new(2);
	xmlDoc *doc = parse_domain(xml);
	xmlNode *devices = find_child(xmlDocGetRootElement(doc), "devices");
	xmlNode *device = devices ? xmlFirstElementChild(devices) : NULL;

	if (add)
		check_machine(xmlDocGetRootElement(doc), devices);
	for (; device; device = xmlNextElementSibling(device))
		read_device(&g, device, f);
	read_numa(&g, xmlDocGetRootElement(doc));
	xmlFreeDoc(doc);
	return g;
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

char *guest_xml(const char *domain)
{
	const char *const words[] = { "virsh", "dumpxml", "--domain", domain, NULL };
	bool input = !strcmp(domain, "-");
	char *xml;

	if (!input && !is_domain_name(domain))
		fail(EXIT_USAGE, text("\"%s\" is no name of a domain", domain), NULL,
		     "virsh list --all shows the domains of this host.");
	xml = input ? read_all(NULL) : child_read(words);
	if (!xml && input)
		fail(EXIT_FAIL, "standard input cannot be read", strerror(errno), NULL);
	if (!xml)
		fail(EXIT_NOT_FOUND, text("domain %s cannot be read", domain),
		     "virsh dumpxml failed", "virsh list --all shows the domains of this host.");
	return xml;
}
