// SPDX-License-Identifier: GPL-2.0
/*
 * The device's own configuration space, as the borrower reaches it under a lease: CFG_READ and
 * CFG_WRITE.
 *
 * Must not know which registers are the device's own (dlend_cfg_live()), nor who wants to read
 * them.
 */
#include <linux/bitops.h>
#include <linux/jiffies.h>
#include <linux/pci_regs.h>
#include <dlend/compat.h>
#include "lease.h"

/* Where Device Control has Max_Read_Request_Size. */
#define DLEND_LEASE_READRQ_SHIFT	(ffs(PCI_EXP_DEVCTL_READRQ) - 1)

/* @type: CFG_READ or CFG_WRITE. */
static int dlend_lease_cfg(struct dlend_lease *lease, u16 type, struct dlend_p_cfg *cfg,
			   unsigned int timeout_ms)
{
	struct dlend_msg req, reply = {};
	struct dlend_p_cfg *p;
	int ret;

	p = dlend_msg_init(&req, type, &lease->addr, lease->epoch, sizeof(*p));
	*p = *cfg;
	ret = dlend_lease_call(lease, &req, &reply, timeout_ms);
	memcpy(cfg, reply.payload, sizeof(*cfg));
	return ret;
}

int dlend_lease_cfg_read(struct dlend_lease *lease, u32 at, u32 size, u32 *value,
			 unsigned int timeout_ms)
{
	struct dlend_p_cfg cfg = { .offset = cpu_to_le16(at), .size = cpu_to_le16(size) };
	int ret = dlend_lease_cfg(lease, DLEND_MSG_CFG_READ, &cfg, timeout_ms);

	if (!ret)
		*value = le32_to_cpu(cfg.value);
	return ret;
}
DLEND_EXPORT(dlend_lease_cfg_read);

int dlend_lease_cfg_write(struct dlend_lease *lease, u32 at, u32 size, u32 value,
			  unsigned int timeout_ms)
{
	struct dlend_p_cfg cfg = {
		.offset = cpu_to_le16(at), .size = cpu_to_le16(size), .value = cpu_to_le32(value),
	};

	return dlend_lease_cfg(lease, DLEND_MSG_CFG_WRITE, &cfg, timeout_ms);
}
DLEND_EXPORT(dlend_lease_cfg_write);

/* What is left until @end (jiffies), at least 1: to a call, 0 means its default. */
static unsigned int dlend_lease_left_ms(unsigned long end)
{
	return time_before(jiffies, end) ? max(jiffies_to_msecs(end - jiffies), 1u) : 1;
}

/*
 * As a driver does it, but for the poll: the lender answers the write of the address when the word
 * was moved.
 */
int dlend_lease_vpd(struct dlend_lease *lease, u32 pos, u16 addr, u32 *data,
		    unsigned int timeout_ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(timeout_ms);
	bool write = addr & PCI_VPD_ADDR_F;
	int ret = 0;

	if (write)
		ret = dlend_lease_cfg_write(lease, pos + PCI_VPD_DATA, 4, *data, timeout_ms);
	if (!ret)
		ret = dlend_lease_cfg_write(lease, pos + PCI_VPD_ADDR, 2, addr,
					    dlend_lease_left_ms(end));
	if (ret || write)
		return ret;
	return dlend_lease_cfg_read(lease, pos + PCI_VPD_DATA, 4, data, dlend_lease_left_ms(end));
}
DLEND_EXPORT(dlend_lease_vpd);

int dlend_lease_set_readrq(struct dlend_lease *lease, u32 at, u32 readrq)
{
	return dlend_lease_cfg_write(lease, at, 2, readrq << DLEND_LEASE_READRQ_SHIFT, 0);
}
DLEND_EXPORT(dlend_lease_set_readrq);

int dlend_lease_enable(struct dlend_lease *lease)
{
	return dlend_lease_cfg_write(lease, PCI_COMMAND, 2, PCI_COMMAND_MEMORY, 0);
}
DLEND_EXPORT(dlend_lease_enable);

int dlend_lease_read_status(struct dlend_lease *lease, u16 *status, unsigned int timeout_ms)
{
	u32 value = 0;
	int ret = dlend_lease_cfg_read(lease, PCI_STATUS, 2, &value, timeout_ms);

	*status = value;
	return ret;
}
DLEND_EXPORT(dlend_lease_read_status);
