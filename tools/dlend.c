// SPDX-License-Identifier: GPL-2.0-only
/* The dlend command, and the options in front of the verb. */
#include <getopt.h>
#include <stdlib.h>

#include "../include/dlend/version.h"
#include "dlend.h"

struct options opt = {
	.sysfs = "/sys", .procfs = "/proc", .boot = "/boot", .etc = "/etc", .run = "/run/dlend",
	.modules = "/lib/modules", .verb = "",
};

static void print_synopsis(FILE *f)
{
	fputs("dlend - lend PCIe devices to other hosts and their virtual machines\n\n"
	      "usage: dlend [--json] COMMAND\n\n", f);
	print_verbs(f);
	fputs("\n"
	      "  --json          machine-readable output\n"
	      "  --root DIR      look below DIR for /sys, /proc and all other files; change nothing here\n"
	      "  --version\n"
	      "  --help          print this; dlend COMMAND --help: the options of COMMAND\n\n"
	      "BDF is bus:device.function as lspci prints it; ADDRESS is as dlend list shows it. Exit status: 0 done, 1 failed,\n"
	      "2 wrong usage, 3 not found, 4 in use, 5 the device cannot be lent, 6 this node is\n"
	      "not set up. See dlend(8).\n", f);
}

static void set_root(const char *root)
{
	opt.sysfs = text("%s/sys", root);
	opt.procfs = text("%s/proc", root);
	opt.boot = text("%s/boot", root);
	opt.etc = text("%s/etc", root);
	opt.run = text("%s/run/dlend", root);
	opt.modules = text("%s/lib/modules", root);
	opt.fake = true;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "root", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 }
	};
	int c;

	opterr = 0;
	/* '+': stop at the verb, because what follows are its own options */
	while ((c = getopt_long(argc, argv, "+:hV", options, NULL)) != -1)
		switch (c) {
		case 'j':
			opt.json = true;
			break;
		case 'r':
			set_root(optarg);
			break;
		case 'h':
			print_synopsis(stdout);
			exit(EXIT_OK);
		case 'V':
			puts("dlend " DLEND_VERSION);
			exit(EXIT_OK);
		default:
			refuse_option(c, argv, options, "See dlend --help.");
		}
}

int main(int argc, char **argv)
{
	int first;

	output_check_at_exit();
	parse_options(argc, argv);
	first = optind;
	if (first == argc) {
		print_synopsis(stderr);
		return EXIT_USAGE;
	}
	optind = 0;	/* start over, on the verb's own options */
	return run_verb(argc - first, argv + first);
}
