/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of `dlend doctor`.  All of them look and report; none changes anything or exits. */
#ifndef DLEND_TOOL_DOCTOR_H
#define DLEND_TOOL_DOCTOR_H

#include "dlend.h"

enum level {
	LEVEL_OK,
	LEVEL_WARN,		/* works, but less well or less safely than it could */
	LEVEL_FAIL,
};

/**
 * finding - one line of the report
 * @level: how bad
 * @check: its name, for scripts; does not change from version to version
 * @what: is so
 * @fix: what to do about it, NULL if OK
 */
void finding(enum level level, const char *check, const char *what, const char *fix);

/* What the host is asked to carry; 0: not said. */
struct demands {
	unsigned long long guest_bytes;
	struct names devices;		/* of this host, to be lent */
};

void doctor_kernel(void);
void doctor_modules(void);
void doctor_iommu(void);
void doctor_memory(void);
void doctor_ntb(void);
void doctor_links(const struct demands *demands);
void doctor_device(const char *bdf);

/** bar_bytes - all memory BARs of a device together */
unsigned long long bar_bytes(const char *dir);
/** size_text - 5368709120 as "5 GiB"; valid for ever */
const char *size_text(unsigned long long bytes);
/** memory_total - RAM of this host in bytes, 0 if unknown */
unsigned long long memory_total(void);

#endif
