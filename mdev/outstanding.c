// SPDX-License-Identifier: GPL-2.0
/*
 * Controllers whose registers say whether commands have not ended yet: see outstanding.h.
 *
 * A controller that is off, or has stopped because of an error, ends nothing: what it shows then
 * waits for its driver, who finds it on the other host.
 */
#include <linux/bits.h>
#include <linux/kernel.h>
#include "outstanding.h"

/* A BAR may end before the last ports that could be there. */
static u32 dlend_register(const struct dlend_registers *r, u32 offset)
{
	return offset + sizeof(u32) <= r->size ? r->read(r, offset) : ~0u;
}

/* AHCI: up to 32 ports, each with a bit for each of 32 commands */
#define DLEND_AHCI_CTL		0x04
#define DLEND_AHCI_PORTS	0x0c	/* those that there are */
#define DLEND_AHCI_PORT(i)	(0x100 + (i) * 0x80)
#define DLEND_AHCI_IS		0x10
#define DLEND_AHCI_CMD		0x18
#define DLEND_AHCI_SSTS		0x28
#define DLEND_AHCI_SACT		0x34
#define DLEND_AHCI_CI		0x38

#define DLEND_AHCI_CTL_ON	BIT(31)
#define DLEND_AHCI_CMD_START	BIT(0)
#define DLEND_AHCI_SSTS_DET	0xfu
#define DLEND_AHCI_DET_THERE	0x3u
/* Of a command, or of the host or the link under it: the port stops until its driver starts it */
#define DLEND_AHCI_IS_STOPPED	(BIT(30) | BIT(29) | BIT(28) | BIT(27))

static bool dlend_ahci_port_busy(const struct dlend_registers *r, u32 port)
{
	u32 link = dlend_register(r, port + DLEND_AHCI_SSTS) & DLEND_AHCI_SSTS_DET;

	if (!(dlend_register(r, port + DLEND_AHCI_CMD) & DLEND_AHCI_CMD_START) ||
	    dlend_register(r, port + DLEND_AHCI_IS) & DLEND_AHCI_IS_STOPPED ||
	    link != DLEND_AHCI_DET_THERE)
		return false;
	return dlend_register(r, port + DLEND_AHCI_CI) | dlend_register(r, port + DLEND_AHCI_SACT);
}

static bool dlend_ahci_busy(const struct dlend_registers *r)
{
	u32 ctl = dlend_register(r, DLEND_AHCI_CTL), ports = dlend_register(r, DLEND_AHCI_PORTS);

	if (ctl == ~0u || !(ctl & DLEND_AHCI_CTL_ON))
		return false;
	for (u32 i = 0; i < 32; i++)
		if (ports & BIT(i) && dlend_ahci_port_busy(r, DLEND_AHCI_PORT(i)))
			return true;
	return false;
}

/* UFS: a bit for each transfer, and for each task about one */
#define DLEND_UFS_ENABLE	0x34
#define DLEND_UFS_TRANSFERS	0x58
#define DLEND_UFS_TRANSFERS_RUN	0x60
#define DLEND_UFS_TASKS		0x78
#define DLEND_UFS_TASKS_RUN	0x80

static bool dlend_ufs_busy(const struct dlend_registers *r)
{
	u32 enable = dlend_register(r, DLEND_UFS_ENABLE);

	if (enable == ~0u || !(enable & 1))
		return false;
	return (dlend_register(r, DLEND_UFS_TRANSFERS_RUN) & 1 &&
		dlend_register(r, DLEND_UFS_TRANSFERS)) ||
	       (dlend_register(r, DLEND_UFS_TASKS_RUN) & 1 && dlend_register(r, DLEND_UFS_TASKS));
}

static const struct dlend_outstanding dlend_outstanding_kinds[] = {
	{ 0x010601, 5, dlend_ahci_busy },
	{ 0x010901, 0, dlend_ufs_busy },
};

const struct dlend_outstanding *dlend_outstanding_of(u32 class)
{
	for (u32 i = 0; i < ARRAY_SIZE(dlend_outstanding_kinds); i++)
		if (dlend_outstanding_kinds[i].class == class)
			return &dlend_outstanding_kinds[i];
	return NULL;
}
