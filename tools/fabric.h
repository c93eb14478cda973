/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fabric as this node knows it, from sysfs alone: nodes, links, devices, and the bridges above
 * each device.  What only others know is there as far as they told.
 */
#ifndef DLEND_TOOL_FABRIC_H
#define DLEND_TOOL_FABRIC_H

#include <stdint.h>

#include "dlend.h"

#define PLACE_MAX	8	/* bridges above a device; those below are left out */

enum bridge_kind {
	BRIDGE_ROOT,		/* root port */
	BRIDGE_UP,		/* upstream port of a switch */
	BRIDGE_DOWN,		/* downstream port of a switch */
	BRIDGE_PCI,		/* to conventional PCI */
	BRIDGE_KINDS
};

/** struct bridge - @acs: sends what its devices say to each other up to the root */
struct bridge {
	char bdf[16];
	enum bridge_kind kind;
	bool acs;
};

/** struct place - bridges above a device, from the root on; none: it sits on the root bus */
struct place {
	bool known;
	size_t count;
	struct bridge bridge[PLACE_MAX];
};

/**
 * struct root - where something joins the root complex of its host: below which host bridge
 * @bridge: domain and root bus, "0000:40"
 * @numa: NUMA node, negative: not known
 * @payload: largest packet in bytes, 0: not known
 * @p2p_domain: what is on the same one (not 0) in the same host reaches each other by peer-to-peer
 */
struct root {
	bool known;
	char bridge[16];
	int numa;
	unsigned int payload, p2p_domain;
};

/* place.c */
/** root_parse - from "DDDD:BB NUMA PAYLOAD ISLAND", docs/ABI; not known if malformed */
struct root root_parse(const char *words);
/** root_attr - attribute "root" of directory @dir of sysfs; not known if there is none */
struct root root_attr(const char *dir);
/** root_same - the same host bridge, or both not known */
bool root_same(const struct root *a, const struct root *b);
/** root_text - for people, without what is below it: "host bridge 0000:40, NUMA node 1, ..." */
const char *root_text(const struct root *root);

/** place_local - of the PCI device in directory @dir of sysfs (any name of it) */
struct place place_local(const char *dir);
/** place_parse - from "BDF,KIND[,acs] ...", docs/ABI/sysfs-bus-dlend; not known if malformed */
struct place place_parse(const char *words);
const char *bridge_kind_name(enum bridge_kind kind);
/** place_switch - address of the switch nearest to the root, NULL if there is none */
const char *place_switch(const struct place *place);

/**
 * struct edge - what @from reaches of @to through a window; a link is two of these
 * @name: address of @from's end of the NTB, "" if not known; a link of this node is named so
 * @bytes: 0 if not known
 * @up: a session is running
 * @place, @root: of @from's end of the NTB
 */
struct edge {
	unsigned int from, to;
	const char *name, *state;
	unsigned long long bytes;
	bool up;
	struct place place;
	struct root root;
};

/**
 * struct lent - a device of some node
 * @own: its address on this host, "" if another's
 * @uuid: the mediated device made from it here, "" if there is none
 * @interrupts: how they reach its user on this host, "" if it has none here
 * @clique: that this one tells its guest, -1 if none
 * @high, @low: bytes of its BARs that a bridge passes on above 4 GiB (64 bits, prefetchable), and
 *	of all others; 0 if not known
 */
struct lent {
	const char *address, *type, *state, *own, *uuid, *interrupts;
	unsigned int lender, borrower, vendor, device;
	unsigned long long high, low;
	int clique;
	struct place place;
	struct root root;
};

/**
 * struct reach - a BAR of @to, at @address of their guest, as @from reaches it
 * @way: "none", or as in dlend/p2p
 * @state: "mapped", or why it is not
 */
struct reach {
	const char *from, *to, *way, *state;
	unsigned int bar;
	uint64_t address, size;
	bool mapped;
};

/** struct doubt - @why says what speaks against peer-to-peer between @a and @b, of one guest */
struct doubt {
	const char *a, *b, *why;
};

/**
 * struct fabric - all of it
 * @me: this node's id, 0 if it has none
 * @node: ids, ascending
 */
struct fabric {
	unsigned int me;
	size_t nodes, edges, devices, reaches, doubts;
	unsigned int *node;
	struct edge *edge;
	struct lent *device;
	struct reach *reach;
	struct doubt *doubt;
};

/* fabric.c */
struct fabric fabric_load(void);
#define ROOTS_MAX	64	/* host bridges of a node that are told apart */

/**
 * fabric_roots - the host bridges of a node that something known here is below
 * @root: (out) room for ROOTS_MAX, ascending; one that is not known stands for all of these
 *
 * Return: how many; 0 if nothing is known of the node but its id.
 */
size_t fabric_roots(const struct fabric *f, unsigned int node, struct root *root);
/** fabric_edge - a link that is up, from @from to @to, or NULL */
const struct edge *fabric_edge(const struct fabric *f, unsigned int from, unsigned int to);
/** fabric_device - by fabric-wide name, address on this host, or UUID of its mdev; NULL: none */
const struct lent *fabric_device(const struct fabric *f, const char *name);

/** fabric_numa - of this host, where packets of @d come in: its own, or that of the link; or < 0 */
int fabric_numa(const struct fabric *f, const struct lent *d);

enum way {
	WAY_LENDER,		/* both ends in one node */
	WAY_LINK,		/* over the link of the two nodes */
	WAY_BORROWER,		/* through the borrower: two links */
	WAY_NONE
};

enum step_kind {
	STEP_DEVICE, STEP_SWITCH, STEP_PCI, STEP_ROOT, STEP_NTB, STEP_MEMORY, STEP_UNKNOWN
};

/** struct step - a device, or a chip that passes a packet on */
struct step {
	enum step_kind kind;
	unsigned int node;
	const char *name, *note;
};

#define STEPS_MAX	(8 * (PLACE_MAX + 2))

/**
 * struct route - the way of one write
 * @hops: chips that pass it on: switches, bridges, roots, NTB ends; neither source nor target
 * @bridges: of those PCI bridges that Linux shows, a switch being two, a root port one
 * @crossings: of an NTB from one node to another
 * @exact: false if some of the bridges are not known
 */
struct route {
	const char *from, *to;
	enum way way;
	size_t count;
	struct step step[STEPS_MAX];
	unsigned int hops, switches, bridges, roots, crossings;
	bool exact;
};

/* route.c */
/** route_device - from the DMA of @a to a BAR of @b, both borrowed by @borrower */
struct route route_device(const struct fabric *f, const struct lent *a, const struct lent *b,
			  unsigned int borrower);
/** route_memory - from the DMA of @a to the memory of a guest on @node */
struct route route_memory(const struct fabric *f, const struct lent *a, unsigned int node);
typedef void (*route_fn)(void *arg, const struct route *r);

/**
 * route_each - call @fn with @arg for every route that a guest on this node could use
 *
 * From each device to this node's memory, and between all that have a mediated device here.
 */
void route_each(const struct fabric *f, route_fn fn, void *arg);
const char *way_name(enum way way);
const char *step_name(enum step_kind kind);

/* clique.c: what borrowed devices of a guest really reach of each other, and cliques */
#define CLIQUES		16	/* as NVIDIA's capability numbers them: 0 to 15 */
void peers_show(const struct fabric *f);
json_t *peers_json(const struct fabric *f);

/** clique_has - is there a device in @clique (0 to 15)? */
bool clique_has(const struct fabric *f, int clique);
/** clique_reaches - does a guest's device have a way to another one, and back? */
bool clique_reaches(const struct fabric *f, const struct lent *a, const struct lent *b);
/** clique_of - the clique that the device with this address tells its guest, -1: none */
int clique_of(const struct fabric *f, const char *address);
/** cliques_show - print each clique, with warnings about ways and doubts */
void cliques_show(const struct fabric *f);

/* dot.c */
void fabric_dot(const struct fabric *f);
/* nccl.c */
/**
 * nccl_print - NCCL's topology file; exits with a message if nothing would be in it
 * @vm: a libvirt domain of this host, or "-": its XML is on standard input; NULL: of this host
 */
void nccl_print(const struct fabric *f, const char *vm);

#endif
