/* SPDX-License-Identifier: GPL-2.0 */
/* An attached device reaches its own BARs. */
#ifndef DLEND_NATIVE_REACH_H
#define DLEND_NATIVE_REACH_H

#include <linux/types.h>

struct dlend_lease;
struct dlend_native_fn;

/**
 * dlend_native_reach_begin - its BARs have their bus addresses, and it reaches them there
 * @fn: (in, out) function with a lease, whose driver does not have it yet
 *
 * Context: process; waits for the lender, a second at most.
 */
void dlend_native_reach_begin(struct dlend_native_fn *fn);

/**
 * dlend_native_reach - it is to reach them, or not, as while it is being reset
 * @fn: (in) function; nothing happens before dlend_native_reach_begin()
 * @lease: (in) its lease
 * @on: (in) which of both
 *
 * Context: as there.
 */
void dlend_native_reach(struct dlend_native_fn *fn, const struct dlend_lease *lease, bool on);

/** dlend_native_reach_end - end of dlend_native_reach_begin(); fine without. Context: process */
void dlend_native_reach_end(struct dlend_native_fn *fn);

#endif
