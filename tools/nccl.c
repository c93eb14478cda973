// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend topology --nccl: the borrowed GPUs and network cards of this host, or of one of its guests,
 * as a topology file for NCCL there.  What NCCL makes of such a file says what is in it:
 *
 * - Its parser takes no XML declaration, and one blank between attributes.
 * - It looks for its GPUs and network cards by "busid", and adds what is missing: class and link
 *   from its own sysfs, and all gpu, nic and net elements.  A net element that is in the file
 *   keeps it from reading the links above, and then it fails.  So there are none.
 * - An address that its own sysfs has, has the class of that device: if that is 0680, as of an NTB,
 *   it is a switch of NVLink, and what is below is lost.  So the bridges of other hosts have
 *   addresses that no host has.
 * - If the way between two devices passes no cpu element, they do peer-to-peer; else it depends.
 *   So what reaches each other is below one bridge, and nothing else is.
 */
#include <libxml/tree.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

#define OF_LENDER	0xe000	/* PCI domain: bridges of a lender, whose node id it has */
#define OF_CLIQUE	0xf000	/* one for each clique, which is its bus */
#define OF_BRIDGE	0xf001	/* in a guest: the bridge above attached devices */
#define ID_BITS		0xfff	/* of that id, the low bits */
#define BRIDGE_CLASS	"0x060400"

/**
 * struct leaf - a device, as the host that reads the file has it
 * @dir: in sysfs, of an attached device that is not a guest's; NULL: not known
 * @group: address of a bridge below which all devices reach each other; NULL: there is none
 * @numa: < 0: not known
 */
struct leaf {
	const struct lent *lent;
	const char *busid, *class, *dir, *group;
	int numa;
};

/* In all of the file: an address is there once. */
static xmlNode *look_for(xmlNode *node, const char *key, const char *value)
{
	xmlChar *has = xmlGetNoNsProp(node, BAD_CAST key);
	xmlNode *found = has && !strcmp((const char *)has, value) ? node : NULL;

	xmlFree(has);
	for (node = xmlFirstElementChild(node); node && !found; node = xmlNextElementSibling(node))
		found = look_for(node, key, value);
	return found;
}

/* The element that is there, or a new one. */
static xmlNode *find_element(xmlNode *parent, const char *name, const char *key, const char *value)
{
	xmlNode *node = look_for(xmlDocGetRootElement(parent->doc), key, value);

	if (node)
		return node;
	node = xmlNewChild(parent, NULL, BAD_CAST name, NULL);
	if (!xmlNewProp(node, BAD_CAST key, BAD_CAST value))
		abort();
	return node;
}

static xmlNode *find_bridge(xmlNode *parent, const char *busid)
{
	xmlNode *bridge = find_element(parent, "pci", "busid", busid);

	xmlSetProp(bridge, BAD_CAST "class", BAD_CAST BRIDGE_CLASS);
	return bridge;
}

static void add_comment(xmlNode *parent, const char *words)
{
	xmlAddChild(parent, xmlNewDocComment(parent->doc, BAD_CAST text(" %s ", words)));
}

/* The lender's root complex, where all requests go, and the switches of it above the device. */
static xmlNode *find_place(xmlNode *node, const struct lent *d)
{
	unsigned int domain = OF_LENDER | (d->lender & ID_BITS);

	node = find_bridge(node, text("%04x:%s:00.0", domain,
				      d->root.known ? strchr(d->root.bridge, ':') + 1 : "00"));
	for (size_t i = 0; i < d->place.count; i++)
		if (d->place.bridge[i].kind == BRIDGE_UP)
			node = find_bridge(node, text("%04x%s", domain,
						      strchr(d->place.bridge[i].bdf, ':')));
	return node;
}

static void add_link(xmlNode *pci, const char *dir)
{
	const char *speed = attr(dir, "max_link_speed");
	unsigned long long width = attr_number(dir, "max_link_width");

	if (*speed >= '0' && *speed <= '9')
		xmlSetProp(pci, BAD_CAST "link_speed", BAD_CAST speed);
	if (width && width <= 32)	/* 255: it has not said */
		xmlSetProp(pci, BAD_CAST "link_width", BAD_CAST text("%llu", width));
}

/* A group is where its first device comes in, even if others do at another NUMA node. */
static void add_leaf(xmlNode *system, const struct leaf *l)
{
	xmlNode *node = l->group ? look_for(system, "busid", l->group) : NULL;

	if (!node)
		node = find_element(system, "cpu", "numaid",
				    text("%d", l->numa < 0 ? -1 : l->numa));
	if (l->group)
		node = find_place(find_bridge(node, l->group), l->lent);
	add_comment(node, text("%s of node %u", l->lent->address, l->lent->lender));
	node = find_element(node, "pci", "busid", l->busid);
	xmlSetProp(node, BAD_CAST "class", BAD_CAST l->class);
	if (l->dir)
		add_link(node, l->dir);
}

/* @g: NULL: this host. Return: false: neither this host nor the guest has it */
static bool find_leaf(const struct fabric *f, const struct guest *g, const struct lent *d,
		      struct leaf *l)
{
	const char *offer = offer_directory(d->address), *where = attached_as(offer);
	const char *dir = where ? sys("bus/pci/devices/%s", where) : NULL;
	struct place above = dir ? place_local(dir) : (struct place){ .known = false };

	*l = (struct leaf){ .lent = d, .class = attr(offer, "class"), .numa = fabric_numa(f, d) };
	l->group = above.count ? text("%s", above.bridge[0].bdf) : NULL;
	if (!g) {
		l->busid = where;
		l->dir = dir;
		return where;
	}
	l->busid = guest_address(g, where ? where : *d->uuid ? d->uuid : d->address);
	l->numa = guest_cell(g, l->numa);
	/* What is above an attached device here is an address that the guest may have, too. */
	if (l->group)
		l->group = text("%04x%s", OF_BRIDGE, strchr(l->group, ':'));
	else if (d->clique >= 0)
		l->group = text("%04x:%02x:00.0", OF_CLIQUE, d->clique);
	if (l->busid && !*l->busid)
		fail(EXIT_NOT_READY, text("the domain does not say where %s is", d->address),
		     "it has no <address type='pci'> that leads to the root bus",
		     "Give what virsh dumpxml prints of a domain that is defined: libvirt adds the addresses.");
	return l->busid;
}

static size_t add_leaves(xmlNode *system, const struct fabric *f, const struct guest *g)
{
	size_t count = 0;

	for (size_t i = 0; i < f->devices; i++) {
		struct leaf l;

		if (!find_leaf(f, g, &f->device[i], &l) ||
		    (strncmp(l.class, "0x02", 4) && strncmp(l.class, "0x03", 4)))
			continue;
		add_leaf(system, &l);
		count++;
	}
	return count;
}

void nccl_print(const struct fabric *f, const char *vm)
{
	xmlDoc *doc = xmlNewDoc(BAD_CAST "1.0");
	xmlNode *system = xmlNewDocNode(doc, NULL, BAD_CAST "system", NULL);
	xmlBuffer *buffer = xmlBufferCreate();
	struct guest g;

	xmlDocSetRootElement(doc, system);
	xmlSetProp(system, BAD_CAST "version", BAD_CAST "1");
	add_comment(system, "NCCL takes a link without a speed for 16 lanes of 8 GT/s");
	if (vm)
		g = guest_read(guest_xml(vm), f, false);
	if (!add_leaves(system, f, vm ? &g : NULL))
		fail(EXIT_NOT_FOUND, "there is nothing that NCCL could use",
		     vm ? "no lent GPU or network card of this node is in the domain" :
			  "no GPU or network card is attached to this host",
		     vm ? "dlend status lists the mediated devices." :
			  "dlend attach does that; --vm DOMAIN is for a VM's devices.");
	if (!buffer || xmlNodeDump(buffer, doc, system, 0, 1) < 0)
		abort();
	puts((const char *)xmlBufferContent(buffer));
	xmlBufferFree(buffer);
	xmlFreeDoc(doc);
}
