/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of `dlend topology`.  What a way through the fabric is, route.c knows. */
#ifndef DLEND_TOOL_TOPOLOGY_H
#define DLEND_TOOL_TOPOLOGY_H

#include "fabric.h"

#define CLIQUES		16	/* as NVIDIA's capability numbers them: 0 to 15 */

typedef void (*pair_fn)(void *arg, const struct lent *a, const struct lent *b);

/* clique.c */
/** clique_has - is there a device in @clique (0 to 15)? */
bool clique_has(const struct fabric *f, int clique);
/** clique_each_unreachable_pair - @fn(@arg) for each pair in @clique with no way to each other */
void clique_each_unreachable_pair(const struct fabric *f, int clique, pair_fn fn, void *arg);
/** clique_of - the clique that the device with this address tells its guest, -1: none */
int clique_of(const struct fabric *f, const char *address);
/** cliques_show - print each clique, with warnings about ways and doubts */
void cliques_show(const struct fabric *f);

/* topology_json.c */
/** route_json - @r as a JSON object, with or without its steps */
json_t *route_json(const struct route *r, bool steps);
/** topology_json - print all of @f as a JSON object */
void topology_json(const struct fabric *f);

/* path.c */
/**
 * path_show - print the way from one device to another, or to memory
 * @f:		(in) the fabric
 * @from:	(in) a device, as fabric_device() takes it
 * @to:		(in) a device, "memory" (of this node), or "memory:N" (of node N)
 *
 * Exits with a message if there is no such device or no way.
 */
void path_show(const struct fabric *f, const char *from, const char *to);

#endif
