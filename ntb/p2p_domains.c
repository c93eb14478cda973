// SPDX-License-Identifier: GPL-2.0
/*
 * Peer-to-peer domains: which host bridges get the same number.
 *
 * This file knows nothing of PCI: the caller says which bridges are joined.
 */
#include <linux/kernel.h>

#include "p2p_domains.h"

/* Is @bridge joined with all bridges of @domain? */
static bool dlend_p2p_domain_takes(const struct dlend_p2p_domains *domains, u16 domain, u32 bridge,
				   bool (*joined)(u32 a, u32 b))
{
	unsigned int i;

	for (i = 0; i < domains->n; i++)
		if (domains->at[i].domain == domain && !joined(domains->at[i].bridge, bridge))
			return false;
	return true;
}

u16 dlend_p2p_domains_number(struct dlend_p2p_domains *domains, u32 bridge,
			     bool (*joined)(u32 a, u32 b))
{
	unsigned int i;
	u16 domain;

	for (i = 0; i < domains->n; i++)
		if (domains->at[i].bridge == bridge)
			return domains->at[i].domain;
	if (domains->n == DLEND_P2P_DOMAIN_MAX || !joined(bridge, bridge))
		return DLEND_P2P_DOMAIN_NONE;
	for (i = 0; i < domains->next; i++)
		if (dlend_p2p_domain_takes(domains, DLEND_P2P_DOMAIN_FIRST + i, bridge, joined))
			break;
	domain = DLEND_P2P_DOMAIN_FIRST + i;
	domains->next = max(domains->next, i + 1);
	domains->at[domains->n].bridge = bridge;
	domains->at[domains->n++].domain = domain;
	return domain;
}
