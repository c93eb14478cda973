// SPDX-License-Identifier: GPL-2.0
/*
 * What both sides call the states of an offer, the interrupt modes of a device, nodes, and sets.
 *
 * Pure: tables and characters.  Knows no device and no message.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <dlend/names.h>

static const char * const dlend_offer_state_names[DLEND_OFFER_STATES] = {
	[DLEND_OFFER_FREE] = "free",
	[DLEND_OFFER_HELD] = "held",
	[DLEND_OFFER_RETURNING] = "returning",
	[DLEND_OFFER_QUARANTINED] = "quarantined",
	[DLEND_OFFER_GONE] = "gone",
	[DLEND_OFFER_RESERVED] = "reserved",
	[DLEND_OFFER_KEPT] = "kept",
};

static const char * const dlend_irq_mode_names[DLEND_IRQ_MODES] = {
	[DLEND_IRQ_NONE] = "none",
	[DLEND_IRQ_INTX] = "intx",
	[DLEND_IRQ_MSI] = "msi",
	[DLEND_IRQ_MSIX] = "msix",
};

const char *dlend_offer_state_name(u16 state)
{
	return state < DLEND_OFFER_STATES ? dlend_offer_state_names[state] : "unknown";
}

const char *dlend_irq_mode_name(u32 mode)
{
	return mode < DLEND_IRQ_MODES ? dlend_irq_mode_names[mode] : "unknown";
}

static bool dlend_name_may_have(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

void dlend_name_read(char *name, const char *from)
{
	unsigned int i;

	for (i = 0; i < DLEND_NODE_NAME_LEN - 1 && from[i]; i++)
		name[i] = dlend_name_may_have(from[i]) ? from[i] : '?';
	memset(name + i, 0, DLEND_NODE_NAME_LEN - i);
}
