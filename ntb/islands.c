// SPDX-License-Identifier: GPL-2.0
/*
 * Islands: which host bridges get one number.
 *
 * Knows nothing of PCI: the caller says which bridges are joined.
 */
#include <linux/kernel.h>

#include "islands.h"

static bool dlend_island_takes(const struct dlend_islands *islands, u16 island, u32 bridge,
			       bool (*joined)(u32 a, u32 b))
{
	unsigned int i;

	for (i = 0; i < islands->n; i++)
		if (islands->at[i].island == island && !joined(islands->at[i].bridge, bridge))
			return false;
	return true;
}

u16 dlend_islands_number(struct dlend_islands *islands, u32 bridge,
			 bool (*joined)(u32 a, u32 b))
{
	unsigned int i;
	u16 island;

	for (i = 0; i < islands->n; i++)
		if (islands->at[i].bridge == bridge)
			return islands->at[i].island;
	if (islands->n == DLEND_ISLANDS_MAX || !joined(bridge, bridge))
		return DLEND_ISLAND_NONE;
	for (i = 0; i < islands->next; i++)
		if (dlend_island_takes(islands, DLEND_ISLAND_FIRST + i, bridge, joined))
			break;
	island = DLEND_ISLAND_FIRST + i;
	islands->next = max(islands->next, i + 1);
	islands->at[islands->n].bridge = bridge;
	islands->at[islands->n++].island = island;
	return island;
}
