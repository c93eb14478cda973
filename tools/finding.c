// SPDX-License-Identifier: GPL-2.0-only
/* What `dlend doctor` found: prints each finding, or keeps it for --json, and counts them. */
#include "doctor.h"

static unsigned int counts[LEVEL_FAIL + 1];
static const char *const level_names[] = { "OK", "WARN", "FAIL" };
static json_t *checks;		/* with --json */

void finding(enum level level, const char *check, const char *what, const char *fix)
{
	counts[level]++;
	if (opt.json) {
		checks = checks ? checks : json_array();
		json_array_append_new(checks,
				      json_pack("{s:s, s:s, s:o, s:o}",
						"check", check, "level", level_names[level],
						"what", ascii_json(what),
						"fix", ascii_json(fix)));
		return;
	}
	printf("%-4s  %s: %s%s%s\n", level_names[level], check, what, fix ? ". " : "",
	       fix ? fix : "");
}

json_t *findings_json(void)
{
	return json_pack("{s:o, s:i, s:i, s:i}",
			 "checks", checks ? json_incref(checks) : json_array(),
			 "ok", counts[LEVEL_OK], "warn", counts[LEVEL_WARN],
			 "fail", counts[LEVEL_FAIL]);
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

	while (bytes >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
		rest = bytes % 1024 * 10 / 1024;
		bytes /= 1024;
		unit++;
	}
	return rest ? text("%llu.%llu %s", bytes, rest, units[unit]) :
		      text("%llu %s", bytes, units[unit]);
}
