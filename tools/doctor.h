/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of `dlend doctor`.  All of them look and report; none changes anything or exits. */
#ifndef DLEND_TOOL_DOCTOR_H
#define DLEND_TOOL_DOCTOR_H

#include "dlend.h"

/* finding.c */
enum level {
	LEVEL_OK,
	LEVEL_WARN,		/* works, but less well or less safely than it could */
	LEVEL_FAIL,
};

/**
 * finding - print one line of the report, or keep it for findings_json(), and count it
 * @level:	(in) how bad it is
 * @check:	(in) name of the check, for scripts; it stays the same from version to version
 * @what:	(in) what was found
 * @fix:	(in) what to do about it, NULL if nothing
 */
void finding(enum level level, const char *check, const char *what, const char *fix);

/** findings_json - all of them so far, and how many there are of each level */
json_t *findings_json(void);

/** findings_count - how many findings of @level there were so far */
unsigned int findings_count(enum level level);

/** size_text - @bytes for people: 5368709120 is "5 GiB" */
const char *size_text(unsigned long long bytes);

/* What the host is asked to carry; 0: not said. */
struct demands {
	unsigned long long guest_bytes;
	struct names devices;		/* of this host, to be lent */
};

void doctor_kernel(void);
void doctor_modules(void);
void doctor_iommu(void);
void doctor_memory(void);
void doctor_ntb(const struct demands *demands);
void doctor_links(const struct demands *demands);
void doctor_device(const char *bdf);
/** doctor_reach - whether devices (BDFs) reach the NTBs of this host */
void doctor_reach(const struct names *devices);
/** doctor_fabric - whether devices of other nodes reach this host, as these nodes tell */
void doctor_fabric(void);

/** is_loaded - is that module there? */
bool is_loaded(const char *module);
/** module_allows - is that switch of a module's on? */
bool module_allows(const char *module, const char *parameter);
/** bar_bytes - all memory BARs of a device together */
unsigned long long bar_bytes(const char *dir);
/** largest_bar - the largest memory BAR of a device, bytes */
unsigned long long largest_bar(const char *dir);
/** memory_total - RAM of this host in bytes, 0 if unknown */
unsigned long long memory_total(void);

#endif
