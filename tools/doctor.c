// SPDX-License-Identifier: GPL-2.0-only
/* dlend doctor: what this host lacks for lending or borrowing, a line each, with the fix. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

/* Return: bytes, 0: it is no size */
static unsigned long long parse_size(const char *s)
{
	static const char units[] = "MmGgTt";
	unsigned long long bytes;
	const char *unit;
	char *end;

	errno = 0;
	bytes = strtoull(s, &end, 10);
	if (errno || end == s || *s == '-')
		return 0;
	unit = *end ? strchr(units, *end) : NULL;
	if (!*end)
		return bytes;
	return unit && !end[1] ? bytes << (20 + (unit - units) / 2 * 10) : 0;
}

/* If no devices were given: those that are lent, and those that dlend.conf lists. */
static void find_default_devices(void *arg)
{
	struct names *devices = arg, lent = list_dir(sys("bus/pci/drivers/" DLEND_DRIVER)), found;
	char *file = text("%s/dlend.conf", opt.etc), full[16];
	struct config c = { 0 };

	for (size_t i = 0; i < lent.count; i++)
		if (bdf_parse(full, lent.name[i]) && strchr(lent.name[i], '.'))
			names_add(devices, full);
	if (path_exists(file))
		c = config_read(file);
	for (size_t i = 0; i < c.count; i++) {
		found = config_matches(&c.line[i]);
		for (size_t k = 0; k < found.count; k++)
			if (!names_have(devices, found.name[k]))
				names_add(devices, found.name[k]);
	}
}

static void examine_host(struct demands *demands)
{
	struct names *devices = &demands->devices;
	bool bad_config = !devices->count && attempt(find_default_devices, devices);

	if (bad_config)
		finding(LEVEL_FAIL, "config",
			attempt_failure(), "Correct the line; see dlend.conf(5)");
	doctor_kernel();
	doctor_modules();
	doctor_iommu();
	doctor_memory();
	doctor_ntb(demands);
	doctor_links(demands);
	for (size_t i = 0; i < devices->count; i++)
		doctor_device(devices->name[i]);
	doctor_reach(devices);
	doctor_fabric();
	if (opt.json)
		print_document(findings_json());
	else
		printf("%u OK, %u WARN, %u FAIL\n", findings_count(LEVEL_OK),
		       findings_count(LEVEL_WARN), findings_count(LEVEL_FAIL));
}

int cmd_doctor(int argc, char **argv)
{
	struct demands demands = { 0 };
	const char *guest = NULL;
	bool strict = false;
	const struct verb_option options[] = {
		{ "strict", .flag = &strict }, { "guest", &guest }, { 0 }
	};
	char **words = verb_words(argc, argv, options, 0, ANY_NUMBER), full[16];

	demands.guest_bytes = guest ? parse_size(guest) : 0;
	if (guest && !demands.guest_bytes)
		fail(EXIT_USAGE, text("--guest %s", guest), "this is not a valid size",
		     "For example: --guest 16G");
	for (; *words; words++) {
		check_bdf(*words);
		bdf_parse(full, *words);
		names_add(&demands.devices, full);
	}
	examine_host(&demands);
	if (findings_count(LEVEL_FAIL) || (strict && findings_count(LEVEL_WARN)))
		return EXIT_NOT_READY;
	return EXIT_OK;
}
