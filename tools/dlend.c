// SPDX-License-Identifier: GPL-2.0-only
/* The dlend command: options, and which verb does what. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

struct options opt = {
	.sysfs = "/sys", .procfs = "/proc", .boot = "/boot", .etc = "/etc", .run = "/run/dlend",
	.modules = "/lib/modules",
};

static const struct {
	const char *verb, *arguments, *help;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "lend", "[--as BB:DD.F] [--clique N|none|auto] [--group] [--reset METHOD] BDF",
	  "offer a device of this host to the others", cmd_lend },
	{ "lend", "--all | --config FILE", "offer what /etc/dlend.conf (FILE) lists", cmd_lend },
	{ "reclaim", "[--force] BDF", "end that, and give it back to its own driver", cmd_reclaim },
	{ "attach", "[--persistent] ADDRESS...",
	  "use an offered device here, by this host's own driver", cmd_attach },
	{ "detach", "[--persistent] [--force] ADDRESS...", "return it to its lender", cmd_detach },
	{ "list", "", "show every offer of every node", cmd_list },
	{ "links", "", "show the NTB links of this node", cmd_links },
	{ "status", "", "show this node: links, offers, mediated devices", cmd_status },
	{ "doctor", "[--strict] [--guest SIZE] [BDF...]", "check this host, and say how to mend it",
	  cmd_doctor },
	{ "metrics", "[--no-debugfs] [--output FILE]", "print this host's numbers for Prometheus",
	  cmd_metrics },
	{ "watch", "[--initial] [--count N] [--timeout S]", "print what changes, until Ctrl-C",
	  cmd_watch },
	{ "topology", "[--dot | --path DEVICE DEVICE|memory[:NODE]]",
	  "draw the fabric, or a way through it", cmd_topology },
	{ "cdi", "[--kind DOMAIN/NAME] [--output FILE]", "list mdevs for container runtimes (CDI)",
	  cmd_cdi },
	{ "libvirt-xml", "[--mode root-port|switch-port] [--io|--no-io] DOMAIN|-|UUID...",
	  "print a libvirt domain's part with lent devices", cmd_libvirt_xml },
	{ "migrate", "[--live [--cut|--detach]] [--dry-run] VM HOST",
	  "move a VM with its lent devices to another host", cmd_migrate },
	{ "migrate", "--prepare VM", "change its definition so that it can move while it runs",
	  cmd_migrate },
	{ "migrate", "--finish [--force] VM", "on HOST: start what a dead host was moving there",
	  cmd_migrate },
	{ "callout", NULL, NULL, cmd_callout },	/* for mdevctl.d/dlend */
};

#define COMMANDS	(sizeof(commands) / sizeof(*commands))

static void print_synopsis(FILE *f)
{
	fputs("dlend - lend PCIe devices to other hosts and their virtual machines\n\n"
	      "usage: dlend [--json] COMMAND\n\n", f);
	for (size_t i = 0; i < COMMANDS; i++)
		if (commands[i].help)
			fprintf(f, "  %-11s %-43s  %s\n", commands[i].verb, commands[i].arguments,
				commands[i].help);
	fputs("\n"
	      "  --json          machine-readable output\n"
	      "  --root DIR      look below DIR for /sys, /proc and the rest, touch nothing else\n"
	      "  --sysfs DIR     look here instead of /sys, and touch nothing else\n"
	      "  --procfs DIR    look here instead of /proc\n"
	      "  --help, --version\n\n"
	      "BDF is bus:device.function as lspci prints it; ADDRESS is as dlend list shows it. Exit status: 0 done, 1 failed,\n"
	      "2 wrong usage, 3 not found, 4 in use, 5 the device cannot be lent, 6 this node is\n"
	      "not set up. See dlend(8).\n", f);
}

void refuse_arguments(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json"))
			fail(EXIT_USAGE, text("%s takes no argument", argv[0]), argv[i], NULL);
		opt.json = true;
	}
}

int run_show(int argc, char **argv, void (*show)(json_t *root))
{
	json_t *root;

	refuse_arguments(argc, argv);
	root = opt.json ? json_object() : NULL;
	show(root);
	if (root)
		print_json(root);
	return EXIT_OK;
}

static void set_root(const char *root)
{
	opt.sysfs = path("%s/sys", root);
	opt.procfs = path("%s/proc", root);
	opt.boot = path("%s/boot", root);
	opt.etc = path("%s/etc", root);
	opt.run = path("%s/run/dlend", root);
	opt.modules = path("%s/lib/modules", root);
	opt.fake = true;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "root", required_argument, NULL, 'r' },
		{ "sysfs", required_argument, NULL, 's' },
		{ "procfs", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 }
	};
	int c;

	/* '+': stop at the verb, because what follows are its own options */
	while ((c = getopt_long(argc, argv, "+hV", options, NULL)) != -1)
		switch (c) {
		case 'j':
			opt.json = true;
			break;
		case 'r':
			set_root(optarg);
			break;
		case 's':
			/* Nobody said where /run is, so nothing is stored there. */
			opt.sysfs = optarg;
			opt.run = NULL;
			opt.fake = true;
			break;
		case 'p':
			opt.procfs = optarg;
			break;
		case 'h':
			print_synopsis(stdout);
			exit(EXIT_OK);
		case 'V':
			puts("dlend " DLEND_TOOL_VERSION);
			exit(EXIT_OK);
		default:
			exit(EXIT_USAGE);
		}
}

int main(int argc, char **argv)
{
	int first;

	parse_options(argc, argv);
	first = optind;
	if (first == argc) {
		print_synopsis(stderr);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(argv[first], commands[i].verb)) {
			optind = 0;	/* start over, on the verb's own options */
			return commands[i].run(argc - first, argv + first);
		}
	fail(EXIT_USAGE, text("there is no command \"%s\"", argv[first]), NULL,
	     "See dlend --help.");
}
