// SPDX-License-Identifier: GPL-2.0
/*
 * P2P clique capability (NVIDIA, "PCI Express Virtual Peer-to-Peer Approval Capability"): where it
 * goes, which is where QEMU puts it, too, and how it looks.  Must not know who decides on cliques,
 * nor the rest of configuration space: borrower/cfg_build.c says which bytes are taken and links
 * the result into the list.
 */

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/pci_regs.h>

#include <dlend/clique.h>

#define NVIDIA			0x10de
#define NVIDIA_KEPLER		0x0fc0	/* first device id of Kepler; older have no clique */
#define NVIDIA_TURING		0x1e00	/* first device id of Turing; all later ones are above */

#define PLACE_TURING		0xd4	/* NVIDIA's table: Turing and later */
#define PLACE_KEPLER		0xc8	/* Kepler, Maxwell, Pascal, Volta */

/* dlend_clique_is() tells it by the last four from other vendor-specific ones. */
static const u8 signature[] = { PCI_CAP_ID_VNDR, 0, DLEND_CLIQUE_LEN, 'P', '2', 'P' };

bool dlend_clique_known(u16 vendor)
{
	return vendor == NVIDIA;
}

static bool dlend_clique_is_free(const u8 *used, unsigned int at)
{
	unsigned int i;

	for (i = 0; i < DLEND_CLIQUE_LEN; i++)
		if (used[at + i])
			return false;
	return true;
}

int dlend_clique_place(const u8 *used, u16 vendor, u16 device)
{
	bool old = vendor == NVIDIA && device >= NVIDIA_KEPLER && device < NVIDIA_TURING;
	unsigned int first = old ? PLACE_KEPLER : PLACE_TURING;
	unsigned int second = old ? PLACE_TURING : PLACE_KEPLER;

	if (dlend_clique_is_free(used, first))
		return first;
	return dlend_clique_is_free(used, second) ? second : -ENOSPC;
}

void dlend_clique_write(u8 *cap, int clique)
{
	memcpy(cap, signature, sizeof(signature));
	cap[6] = clique << 3;	/* version 0 in the low three bits */
	cap[7] = 0;
}
