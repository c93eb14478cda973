// SPDX-License-Identifier: GPL-2.0
/*
 * Can this NTB carry a link?  See fit.h.
 *
 * Pure: works on a description of the hardware.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <dlend/proto.h>
#include "fit.h"

/* Some bridges have errata that no driver can work around, and their drivers say so. */
static int dlend_fit_check_errata(const struct dlend_fit *fit, char why[DLEND_FIT_WHY])
{
	const char *what = !fit->spad_unsafe ? "doorbells" : !fit->db_unsafe ? "scratchpads" :
			   "doorbells and scratchpads";

	if (!fit->db_unsafe && !fit->spad_unsafe)
		return 0;
	if (fit->allow_unsafe) {
		snprintf(why, DLEND_FIT_WHY,
			 "its driver says that the use of its %s can lock up this host; it is used all the same, as dlend_ntb.allow_unsafe says",
			 what);
		return 0;
	}
	snprintf(why, DLEND_FIT_WHY,
		 "its driver says that the use of its %s can lock up this host (an erratum of Xeon E5 v2 to v4): not used; dlend_ntb.allow_unsafe=1 uses it all the same",
		 what);
	return -EOPNOTSUPP;
}

int dlend_fit_check(const struct dlend_fit *fit, u64 doorbells, char why[DLEND_FIT_WHY])
{
	why[0] = '\0';
	if (fit->crosslink) {
		snprintf(why, DLEND_FIT_WHY,
			 "joins two switches by a crosslink, which is not supported, as the other switch's requesters cannot be set: use two partitions of one switch");
		return -EOPNOTSUPP;
	}
	if (fit->peers != 1) {
		snprintf(why, DLEND_FIT_WHY,
			 "has %d peers, dlend wants exactly one: partition the switch into pairs",
			 fit->peers);
		return -EINVAL;
	}
	if (fit->spads < DLEND_SPAD_COUNT) {
		snprintf(why, DLEND_FIT_WHY,
			 "has fewer than %d scratchpads that the peer can write",
			 DLEND_SPAD_COUNT);
		return -EINVAL;
	}
	if (doorbells & ~fit->doorbells) {
		snprintf(why, DLEND_FIT_WHY,
			 "has no doorbells 0 and 1 (valid: %llx)",
			 fit->doorbells);
		return -EINVAL;
	}
	if (!fit->translates) {
		snprintf(why, DLEND_FIT_WHY,
			 "cannot set where its own windows lead");
		return -EINVAL;
	}
	return dlend_fit_check_errata(fit, why);
}
