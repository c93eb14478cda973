/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which of a VM's borrowed devices reaches which BARs of the others or of its own, and by which
 * route.  Pure logic, without locks, messages and windows: borrower/p2p.c sends the messages.
 * Context of all functions: any.
 *
 * And cliques: of which borrowed devices a VM's guest may believe that they reach each other.  What
 * is mapped does not depend on cliques.  Two devices are in one clique only if there is no *doubt*
 * (no known obstacle): all their BARs fit into the windows of the route, in both directions, beside
 * what others have there (borrower/p2p_plan.h), and each host on the route says that its root
 * complex passes requests on (struct dlend_root).
 *
 * A *way* is a source, a target and one of the target's BARs.  A way that is mapped, or should be,
 * is an *edge*.
 */
#ifndef DLEND_P2P_PLAN_H
#define DLEND_P2P_PLAN_H

#include <dlend/types.h>

/* Route: how requests of a source (the device that does DMA) get to a target (with the BAR). */
enum dlend_p2p_route {
	DLEND_P2P_NONE,		/* no route */
	DLEND_P2P_LOCAL,	/* both sit in one host */
	DLEND_P2P_LENDERS,	/* over the link between their lenders */
	DLEND_P2P_BORROWER,	/* through this node, which has links to both */
};

/* Why a BAR is not to be mapped. */
enum dlend_p2p_why {
	DLEND_P2P_OK,
	DLEND_P2P_OFF,		/* the source does no DMA, or the target does not decode */
	DLEND_P2P_NO_BAR,	/* the target has no such BAR, or it cannot be mapped */
	DLEND_P2P_PART,		/* it does not begin and end with a page, or its address wraps */
	DLEND_P2P_OVER_BAR,	/* the guest has placed another BAR there, too */
};

struct dlend_p2p_bar {
	u64 gpa, size;		/* size 0: there is none, or it cannot be mapped */
};

/**
 * struct dlend_p2p_dev - a borrowed device, as seen by the others of its VM
 * @addr: lender and address of the device
 * @epoch: number of its lease; 0: there is none
 * @source: there is a lease, and the device may do DMA
 * @target: there is a lease, and the device decodes its BARs
 * @clique: the clique that the guest sees; negative: none
 * @p2p_domain: peer-to-peer domain in its lender, for cliques (struct dlend_root); borrower/p2p.c
 *	fills it in
 * @bar: where the guest has put its BARs
 */
struct dlend_p2p_dev {
	struct dlend_addr addr;
	u32 epoch;
	bool source, target;
	int clique;
	u16 p2p_domain;
	struct dlend_p2p_bar bar[DLEND_NUM_BARS];
};

/*
 * Peer-to-peer may use @mib MiB of the aperture that node @to has on its link to node @from.  Of
 * these others have @taken bytes: guests' RAM, and what is booked for peer-to-peer of other VMs
 * (borrower/p2p_plan.h).
 */
struct dlend_p2p_path {
	u16 from, to;
	u32 mib;
	u64 taken;
};

/*
 * The NTB of node @at that leads to node @to is in the peer-to-peer domain @p2p_domain of node @at:
 * see struct dlend_root.
 */
struct dlend_p2p_end {
	u16 at, to;
	u16 p2p_domain;
};

/**
 * struct dlend_p2p_fabric - what is known of links
 * @self: this node
 * @alone: plan as if nothing of the apertures were taken
 * @path: links of this node and of its peers; if several are for one aperture, the one with the
 *	least room counts
 * @n: how many these are
 * @end: NTBs at the ends of these links, as far as nodes have said where these are
 * @ends: how many these are
 */
struct dlend_p2p_fabric {
	u16 self;
	bool alone;
	const struct dlend_p2p_path *path;
	unsigned int n;
	const struct dlend_p2p_end *end;
	unsigned int ends;
};

/* The mapping of a way: as it should be, or as it is. @on: false: none, the rest says nothing. */
struct dlend_p2p_wish {
	bool on;
	u64 gpa, size;
	u32 source_epoch, target_epoch;
};

enum dlend_p2p_step { DLEND_P2P_KEEP, DLEND_P2P_MAP, DLEND_P2P_UNMAP };

/* A way. @s, @t: source and target, as indices into the devices of one VM. */
struct dlend_p2p_way {
	unsigned int s, t, bar;
};

/**
 * dlend_p2p_want - shall device @way.s reach BAR @way.bar of device @way.t?
 * @dev: (in) the devices of one VM
 * @n: (in) how many these are
 * @way: (in) source, target, BAR
 * @wish: (out) the mapping, off unless DLEND_P2P_OK is returned
 */
enum dlend_p2p_why dlend_p2p_want(const struct dlend_p2p_dev *dev, unsigned int n,
				  struct dlend_p2p_way way, struct dlend_p2p_wish *wish);

/** dlend_p2p_wish_same - are addresses, size and leases of two mappings the same? Ignores @on */
bool dlend_p2p_wish_same(const struct dlend_p2p_wish *a, const struct dlend_p2p_wish *b);

/** dlend_p2p_step - the next step from @have to @want; a mapping that differs is unmapped first */
enum dlend_p2p_step dlend_p2p_step(const struct dlend_p2p_wish *want,
				   const struct dlend_p2p_wish *have);

/** dlend_p2p_room - bytes that peer-to-peer may use of the aperture of @to for @from; 0: no link */
u64 dlend_p2p_room(const struct dlend_p2p_fabric *f, u16 from, u16 to);

/** dlend_p2p_route - the best route from devices of node @s to those of @t, whatever is taken */
enum dlend_p2p_route dlend_p2p_route(const struct dlend_p2p_fabric *f, u16 s, u16 t);

/** dlend_p2p_detour - the next best route after @route has failed, or DLEND_P2P_NONE */
enum dlend_p2p_route dlend_p2p_detour(const struct dlend_p2p_fabric *f, u16 s, u16 t,
				      enum dlend_p2p_route route);

/**
 * dlend_p2p_wide_route - the best route that has room for all BARs that use it
 * @f: (in) links
 * @dev: (in) the devices of one VM
 * @n: (in) how many these are
 * @s: (in) the device that the route comes from
 * @t: (in) the device that it leads to
 *
 * These BARs must fit beside what is taken there, unless @f->alone is set.
 * Only sizes of BARs are needed, so this works before devices are borrowed or BARs are placed.
 * Return: the route; DLEND_P2P_NONE if all are too narrow.
 */
enum dlend_p2p_route dlend_p2p_wide_route(const struct dlend_p2p_fabric *f,
					  const struct dlend_p2p_dev *dev, unsigned int n,
					  unsigned int s, unsigned int t);

/**
 * dlend_p2p_err_text - for people: why a lender, or this node, did not map a way
 * @err: (in) -errno of the lender, or of this node
 * @todo: (out) what to do about it; may be NULL
 */
const char *dlend_p2p_err_text(int err, const char **todo);

/* What speaks against peer-to-peer between two devices. */
enum dlend_p2p_doubt_kind {
	DLEND_P2P_SURE,		/* nothing */
	DLEND_P2P_NARROW,	/* no route has windows for all BARs */
	DLEND_P2P_TAKEN,	/* one has, but not beside what others have there */
	DLEND_P2P_NOT_ALLOWED,	/* a node has not said that it passes requests on */
	DLEND_P2P_APART,	/* entry and exit are in two peer-to-peer domains of a node */
};

/**
 * struct dlend_p2p_doubt - why two devices may not reach each other
 * @kind: SURE: there is no doubt
 * @node: node whose root complex may not pass requests on, if @kind is NOT_ALLOWED or APART
 * @to: where transfers enter and leave this root complex: for an NTB, the node that it leads to; 0:
 *	the source or the target
 */
struct dlend_p2p_doubt {
	enum dlend_p2p_doubt_kind kind;
	u16 node;
	u16 to[2];
};

/* Bytes of a doubt's text. */
#define DLEND_P2P_DOUBT_LEN	160

/**
 * dlend_p2p_doubt - what speaks against peer-to-peer between @a and @b, there or back?
 * @f: (in) links
 * @dev: (in) the devices of one VM
 * @n: (in) how many these are
 * @a: (in) one of them
 * @b: (in) another one
 *
 * Return: the first doubt on the way, or DLEND_P2P_SURE.
 */
struct dlend_p2p_doubt dlend_p2p_doubt(const struct dlend_p2p_fabric *f,
				       const struct dlend_p2p_dev *dev, unsigned int n,
				       unsigned int a, unsigned int b);

/**
 * dlend_p2p_doubt_text - describe a doubt to people
 * @doubt: (in) doubt
 * @text: (out) DLEND_P2P_DOUBT_LEN bytes; "" for DLEND_P2P_SURE
 *
 * Return: @text.
 */
const char *dlend_p2p_doubt_text(const struct dlend_p2p_doubt *doubt, char *text);

/**
 * dlend_p2p_clique - choose the clique of a device
 * @f: (in) links
 * @dev: (in) the devices of one VM
 * @n: (in) how many these are
 * @new: (in) the device
 * @max: (in) highest number of a clique
 *
 * Return: the lowest clique that has members, and no doubt between them and @new; else the lowest
 * one without a member; else -ENOSPC.
 */
int dlend_p2p_clique(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
		     unsigned int n, unsigned int new, int max);

/**
 * dlend_p2p_clique_rival - find a device that must not be in the clique of another, by a doubt
 * @f: (in) links
 * @dev: (in) the devices of one VM
 * @n: (in) how many these are
 * @of: (in) the other device
 * @after: (in) where to begin
 *
 * Return: its index, the first one from @after on; or -1.
 */
int dlend_p2p_clique_rival(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
			   unsigned int n, unsigned int of, unsigned int after);

#endif
