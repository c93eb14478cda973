// SPDX-License-Identifier: GPL-2.0-only
/* What `dlend doctor` found: prints each finding, as text or JSON, and counts them. */
#include "finding.h"

static unsigned int counts[LEVEL_FAIL + 1];
static const char *const level_names[] = { "OK", "WARN", "FAIL" };

void finding(enum level level, const char *check, const char *what, const char *fix)
{
	counts[level]++;
	if (opt.json) {
		json_begin(NULL, '{');
		json_text("check", check);
		json_text("level", level_names[level]);
		json_text("what", what);
		json_text("fix", fix ? fix : "");
		json_end('}');
		return;
	}
	printf("%-4s  %s: %s%s%s\n", level_names[level], check, what, fix ? ". " : "",
	       fix ? fix : "");
}

unsigned int findings_count(enum level level)
{
	return counts[level];
}

const char *size_text(unsigned long long bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int unit = 0;
	unsigned long long rest = 0;

	while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
		rest = bytes % 1024 * 10 / 1024;
		bytes /= 1024;
		unit++;
	}
	return rest ? text("%llu.%llu %s", bytes, rest, units[unit]) :
		      text("%llu %s", bytes, units[unit]);
}
