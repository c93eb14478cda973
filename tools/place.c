// SPDX-License-Identifier: GPL-2.0-only
/*
 * The place of a device: the bridges above it, and where it joins the root complex of its host: the
 * host bridge (a socket has one or several), NUMA node, and what it reaches there.  For devices of
 * this host sysfs tells them.  For others their offers do, and that text is checked like all that
 * peers send.
 */
#include <pci/pci.h>
#include <string.h>

#include "fabric.h"

/* Requests and completions between peers go up. */
#define ACS_REDIRECT	(PCI_ACS_CTRL_REQ_RED | PCI_ACS_CTRL_CMPLT_RED)

#define DOMAIN_MAX	0xfffffu
#define BUS_MAX		0xffu
#define PAYLOAD_MAX	4096u
#define P2P_DOMAIN_MAX	0xffffu

static const char *const kinds[BRIDGE_KINDS] = {
	[BRIDGE_ROOT] = "root", [BRIDGE_UP] = "up", [BRIDGE_DOWN] = "down", [BRIDGE_PCI] = "pci",
};

const char *bridge_kind_name(enum bridge_kind kind)
{
	return kinds[kind];
}

static bool parse_bridge(struct bridge *b, char *word)
{
	char *kind, *acs, *rest = NULL;
	const char *bdf = strtok_r(word, ",", &rest);

	kind = strtok_r(NULL, ",", &rest);
	acs = strtok_r(NULL, ",", &rest);
	if (!bdf || !kind || !bdf_parse(b->bdf, bdf) || (acs && strcmp(acs, "acs")) ||
	    strtok_r(NULL, ",", &rest))
		return false;
	b->acs = acs;
	for (int i = 0; i < BRIDGE_KINDS; i++)
		if (!strcmp(kind, kinds[i])) {
			b->kind = i;
			return true;
		}
	return false;
}

struct place place_parse(const char *words)
{
	char *copy = text("%s", words), *rest = NULL, *word;
	struct place place = { .known = true };

	for (word = strtok_r(copy, " \t\n", &rest); word && place.known;
	     word = strtok_r(NULL, " \t\n", &rest))
		if (place.count == PLACE_MAX || !parse_bridge(&place.bridge[place.count++], word))
			place = (struct place){ .known = false };
	return place;
}

/* Only root can read the capability.  Without it, the order of the bridges tells the type. */
static enum bridge_kind bridge_kind_of(int type, const struct place *above)
{
	switch (type) {
	case PCI_EXP_TYPE_ROOT_PORT:
		return BRIDGE_ROOT;
	case PCI_EXP_TYPE_UPSTREAM:
		return BRIDGE_UP;
	case PCI_EXP_TYPE_DOWNSTREAM:
		return BRIDGE_DOWN;
	case PCI_EXP_TYPE_PCI_BRIDGE:
	case PCI_EXP_TYPE_PCIE_BRIDGE:
		return BRIDGE_PCI;
	}
	if (!above->count)
		return BRIDGE_ROOT;
	return above->bridge[above->count - 1].kind == BRIDGE_UP ? BRIDGE_DOWN : BRIDGE_UP;
}

static void add_bridge(struct place *place, const char *bdf)
{
	int flags = capability_word(bdf, PCI_CAP_ID_EXP, PCI_CAP_NORMAL, PCI_EXP_FLAGS);
	int acs = capability_word(bdf, PCI_EXT_CAP_ID_ACS, PCI_CAP_EXTENDED, PCI_ACS_CTRL);
	struct bridge *b = &place->bridge[place->count];

	snprintf(b->bdf, sizeof(b->bdf), "%s", bdf);
	b->kind = bridge_kind_of(flags < 0 ? flags : (flags & PCI_EXP_FLAGS_TYPE) >> 4, place);
	b->acs = acs >= 0 && (acs & ACS_REDIRECT) == ACS_REDIRECT;
	place->count++;
}

struct place place_local(const char *dir)
{
	struct place place = { .known = false };
	char *whole = real_path(dir), bdf[16];

	if (!whole)
		return place;
	place.known = true;
	/* Each directory above whose name is a PCI address is a bridge. */
	for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		char *name;

		*slash = '\0';
		name = strrchr(whole, '/') + 1;
		if (strchr(name, '.') && bdf_parse(bdf, name) && place.count < PLACE_MAX)
			add_bridge(&place, bdf);
		*slash = '/';
	}
	return place;
}

const char *place_switch(const struct place *place)
{
	for (size_t i = 0; i < place->count; i++)
		if (place->bridge[i].kind == BRIDGE_UP)
			return place->bridge[i].bdf;
	return NULL;
}

struct root root_parse(const char *words)
{
	struct root root = { .known = true };
	unsigned int domain, bus;
	int used = 0;

	if (sscanf(words, "%x:%x %d %u %u%n", &domain, &bus, &root.numa, &root.payload,
		   &root.p2p_domain, &used) != 5 || words[used] || domain > DOMAIN_MAX ||
	    bus > BUS_MAX || root.payload > PAYLOAD_MAX || root.p2p_domain > P2P_DOMAIN_MAX)
		return (struct root){ .known = false };
	snprintf(root.bridge, sizeof(root.bridge), "%04x:%02x", domain, bus);
	return root;
}

struct root root_attr(const char *dir)
{
	return root_parse(attr(dir, "root"));
}

bool root_same(const struct root *a, const struct root *b)
{
	return a->known == b->known && !strcmp(a->bridge, b->bridge);
}

const char *root_text(const struct root *root)
{
	const char *numa = root->numa < 0 ? "" : text(", NUMA node %d", root->numa);

	if (!root->known)
		return "host bridge not known";
	return text("host bridge %s%s, %s", root->bridge, numa,
		    root->p2p_domain ? text("peer-to-peer domain %u", root->p2p_domain) :
				   "nobody allows peer-to-peer");
}
