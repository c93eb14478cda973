// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verbs: who does what, and what --help says of each.  What all of them do alike with their
 * arguments: --help, --json, mistakes, and that some need root.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlend.h"

#define OPTIONS_MAX	10	/* of a verb, beside those that all have */
#define OWN_OPTION	256	/* what getopt_long() returns of the first of these */
#define PROGRAMS	"/usr/lib/dlend"
#define SECONDS_MAX	(365 * 24 * 3600)
#define COUNT_MAX	1000000000

/* @options: those of all rows of a verb, in its first; NULL: it has none of its own. */
static const struct {
	const char *verb, *arguments, *help, *options;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "lend",
	  "[--as BB:DD.F] [--clique N|none|auto] [--group] [--reset METHOD] [--set NAME] [--anyway] BDF...",
	  "offer a device of this host to the others",
	  "  --as BB:DD.F    the address by which other nodes know the device\n"
	  "  --clique N      its peer-to-peer clique: 0 to 15, none, auto\n"
	  "  --group         lend all devices of its IOMMU group\n"
	  "  --reset METHOD  how it is reset: flr, bus and the like; several with commas\n"
	  "  --anyway        lend it even if that can harm this host\n"
	  "  --set NAME      put it into a set, whose devices go to one node at a time; none: no set\n"
	  "  --all           lend the devices that /etc/dlend.conf lists\n"
	  "  --config FILE   lend the devices that this file lists\n", cmd_lend },
	{ "lend", "--all | --config FILE", "offer the devices that /etc/dlend.conf (FILE) lists",
	  NULL, cmd_lend },
	{ "reclaim", "[--force] BDF", "stop lending a device, and give it back to its own driver",
	  "  --force         take it from its borrower without asking\n", cmd_reclaim },
	{ "reserve", "[--for NODE|UUID] [--until TIME] BDF",
	  "let only one node or VM borrow a lent device, when it is free",
	  "  --for NODE      for that node, by number or name, instead of this one\n"
	  "  --for UUID      for the VM that has that mediated device, on any node\n"
	  "  --until TIME    until this time: 2026-12-24T18:00, or +30m, +8h, +7d\n", cmd_reserve },
	{ "unreserve", "BDF", "remove a reservation: any node may borrow the device", NULL,
	  cmd_unreserve },
	{ "borrow", "[--uuid UUID] ADDRESS|TYPE...",
	  "make a mediated device of an offered device, or of any device of a type",
	  "  --uuid UUID     its UUID, instead of a new one; with one device only\n", cmd_borrow },
	{ "return", "UUID", "remove a mediated device that no VM uses", NULL, cmd_return },
	{ "attach", "[--persistent] ADDRESS...",
	  "use an offered device here, with this host's own driver",
	  "  --persistent    attach it at each boot, too\n", cmd_attach },
	{ "detach", "[--persistent] [--force] ADDRESS...",
	  "give an attached device back to its lender",
	  "  --persistent    do not attach it at the next boot, either\n"
	  "  --force         detach it even if it is in use\n", cmd_detach },
	{ "list", "", "show every offer of every node", NULL, cmd_list },
	{ "links", "", "show the NTB links of this node", NULL, cmd_links },
	{ "show", "DEVICE", "show all that is known of one device, and what can be done with it",
	  NULL, cmd_show },
	{ "status", "", "show this node: links, offers, mediated devices", NULL, cmd_status },
	{ "doctor", "[--strict] [--guest SIZE] [BDF...]", "check this host, and say how to mend it",
	  "  --strict        treat a warning as a failure\n"
	  "  --guest SIZE    check whether a guest with so much memory (16G) fits\n", cmd_doctor },
	{ "metrics", "[--no-debugfs] [--output FILE]", "print this host's numbers for Prometheus",
	  "  --output FILE   replace this file atomically, for node_exporter's textfile collector\n"
	  "  --no-debugfs    print only numbers that sysfs has\n", cmd_metrics },
	{ "stats", "[--interval S [--count N]] [DEVICE...]",
	  "show numbers of links and devices, and how they change",
	  "  --interval S    repeat every S seconds, and show how much counters have grown\n"
	  "  --count N       end after N times\n", cmd_stats },
	{ "watch", "[--initial] [--count N] [--timeout S] [--interval S]",
	  "print each change on this node, until Ctrl-C",
	  "  --initial       first print the present state\n"
	  "  --count N       end after N changes\n"
	  "  --timeout S     end after S seconds; with --count: fail if there were fewer changes\n"
	  "  --interval S    look every S seconds (1), also without an event of the kernel\n",
	  cmd_watch },
	{ "topology", "[--dot | --nccl [--vm DOMAIN|-] | --path DEVICE DEVICE|memory[:NODE]]",
	  "draw the fabric, or a way through it",
	  "  --path          show only the way from the first device to the second one\n"
	  "  --dot           print a graph for graphviz\n"
	  "  --nccl          print a topology file for NCCL: attached GPUs and network cards\n"
	  "  --vm DOMAIN     with --nccl: those of this VM, by their addresses in it\n",
	  cmd_topology },
	{ "cdi", "[--kind DOMAIN/NAME] [--iommufd] [--output FILE]",
	  "list lent devices for container runtimes (CDI)",
	  "  --kind DOMAIN/NAME  use this kind instead of dlend.local/device\n"
	  "  --iommufd           list files of devices, not of their groups\n"
	  "  --output FILE       replace this file atomically\n", cmd_cdi },
	{ "libvirt-xml", "[--mode MODE] [--reserve] [--numa] [--any TYPE] DOMAIN|-|UUID...",
	  "print the part of a libvirt domain that has the lent devices",
	  "  --mode MODE     switch-port (a switch for each clique), root-port (for each device), bridge\n"
	  "  --any TYPE      add a device of this type that is chosen when the domain starts; may be repeated\n"
	  "  --reserve       reserve windows for devices that are attached later\n"
	  "  --numa          put devices on an expander bus of the guest's nearest NUMA cell\n"
	  "  --io            the guest has other devices with I/O BARs\n"
	  "  --no-io         the guest has no other devices with I/O BARs\n"
	  "  --domain NAME   the domain, if its name looks like a UUID or an option\n",
	  cmd_libvirt_xml },
	/* These print their own help. */
	{ "bench", "[--bar N] [--runs N] [--write ID] [--plot FILE] --device BDF [BORROWER] LENDER",
	  "measure a device on its own host, and attached to another host", NULL, cmd_program },
	{ "bench", "[--runs N] [--write SERIAL] [--plot FILE] --p2p DISK MEMORY",
	  "measure a disk of this host that reads into another device's memory", NULL,
	  cmd_program },
	{ "migrate", "[--live [--cut|--detach]] [--dry-run] VM HOST",
	  "move a VM with its lent devices to another host", NULL, cmd_program },
	{ "migrate", "--prepare VM", "change its definition so that it can move while it runs",
	  NULL, cmd_program },
	{ "migrate", "--finish [--force] VM",
	  "on HOST: start a VM that another host was moving here when it died", NULL, cmd_program },
	{ "claim", NULL, NULL, NULL, cmd_claim },	/* for 61-dlend-claim.rules */
	{ "callout", NULL, NULL, NULL, cmd_callout },	/* for mdevctl.d/dlend */
};

void print_verbs(FILE *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (verbs[i].help)
			fprintf(f, "  %-11s %-43s  %s\n", verbs[i].verb, verbs[i].arguments,
				verbs[i].help);
}

int run_verb(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strcmp(argv[0], verbs[i].verb)) {
			opt.verb = verbs[i].verb;
			return verbs[i].run(argc, argv);
		}
	fail(EXIT_USAGE, text("there is no command \"%s\"", argv[0]), NULL, "See dlend --help.");
}

static const char *verb_usage(const char *verb)
{
	const char *usage = "";

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strcmp(verb, verbs[i].verb))
			usage = text("%s%sdlend %s %s", usage, *usage ? ", or: " : "", verb,
				     verbs[i].arguments);
	return text("usage: %s", usage);
}

__noreturn static void print_help(const char *verb)
{
	const char *options = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verb, verbs[i].verb))
			continue;
		printf("%s dlend %s %s\n         %s\n", options ? "      " : "usage:", verb,
		       verbs[i].arguments, verbs[i].help);
		if (!options)
			options = verbs[i].options ? verbs[i].options : "";
	}
	printf("\n%s", options);
	puts("  --json          machine-readable output, and errors\n"
	     "  --help\n\n"
	     "See dlend(8).");
	exit(EXIT_OK);
}

/* @c: what getopt_long() said of it. */
static const char *wrong_option(int c, char **argv, const struct option *all)
{
	const char *word = argv[optind - 1];
	int like = 0;

	if (c == ':')
		return text("%s needs a value", word);
	if (strncmp(word, "--", 2))
		return text("there is no option -%c", optopt);
	if (optopt)
		return text("%s: this option takes no value", word);
	for (; all->name; all++)
		like += !strncmp(all->name, word + 2, strcspn(word + 2, "="));
	return like > 1 ? text("%s may be one of several options", word) :
			  text("there is no option %s", word);
}

__noreturn void refuse_option(int c, char **argv, const struct option *all, const char *todo)
{
	fail(EXIT_USAGE, wrong_option(c, argv, all), NULL, todo);
}

char **verb_words(int argc, char **argv, const struct verb_option *own, int least, int most)
{
	struct option all[OPTIONS_MAX + 3] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
	};
	int c;

	for (int i = 0; own && own[i].name; i++) {
		if (i == OPTIONS_MAX)
			abort();
		all[i + 2] = (struct option){
			own[i].name, own[i].flag ? no_argument : required_argument, NULL,
			OWN_OPTION + i
		};
	}
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", all, NULL)) != -1)
		if (c >= OWN_OPTION && own[c - OWN_OPTION].flag)
			*own[c - OWN_OPTION].flag = true;
		else if (c >= OWN_OPTION && own[c - OWN_OPTION].values)
			names_add(own[c - OWN_OPTION].values, optarg);
		else if (c >= OWN_OPTION)
			*own[c - OWN_OPTION].value = optarg;
		else if (c == 'j')
			opt.json = true;
		else if (c == 'h')
			print_help(argv[0]);
		else
			refuse_option(c, argv, all, verb_usage(argv[0]));
	if (argc - optind < least || argc - optind > most)
		refuse_usage(argv[0]);
	return argv + optind;
}

void refuse_usage(const char *verb)
{
	fail(EXIT_USAGE, verb_usage(verb), NULL, NULL);
}

void check_file_name(const char *option, const char *file)
{
	struct stat there;

	if (file && (!*file || strlen(file) >= PATH_MAX ||
		     (!stat(file, &there) && S_ISDIR(there.st_mode))))
		fail(EXIT_USAGE, text("--%s %s", option, file), "that is no name of a file", NULL);
}

int64_t parse_seconds(const char *option, const char *s)
{
	char *end;
	double seconds = s ? strtod(s, &end) : 0;

	if (s && (*s < '0' || *s > '9' || *end || !(seconds >= 0.001 && seconds <= SECONDS_MAX)))
		fail(EXIT_USAGE, text("--%s %s", option, s), "that is no number of seconds",
		     text("Give one from 0.001 to %d.", SECONDS_MAX));
	return seconds * 1000;
}

unsigned long parse_count(const char *s, const char *of)
{
	unsigned long count = s && is_digits(s) ? strtoul(s, NULL, 10) : 0;

	if (s && (!count || count > COUNT_MAX))
		fail(EXIT_USAGE, text("--count %s", s), text("that is no number of %s", of),
		     text("Give one from 1 to %d.", COUNT_MAX));
	return count;
}

void need_root(const char *verb)
{
	if (!opt.fake && geteuid())
		fail(EXIT_FAIL, text("%s needs root", verb), "run it with sudo", NULL);
}

int run_show(int argc, char **argv, void (*show)(json_t *root))
{
	json_t *root;

	verb_words(argc, argv, NULL, 0, 0);
	root = opt.json ? json_object() : NULL;
	show(root);
	if (root)
		print_document(root);
	return EXIT_OK;
}

/* Each of the directories is below it. */
const char *root_directory(void)
{
	return strlen(opt.etc) == strlen("/etc") ? "/" :
	       text("%.*s", (int)(strlen(opt.etc) - strlen("/etc")), opt.etc);
}

/* dlend bench, dlend migrate: hands over to the program that does it, on several hosts. */
int cmd_program(int argc, char **argv)
{
	const char **words = zeroed(argc + 4, sizeof(*words));
	/* For tests, and to try programs that are not installed */
	const char *other = getenv("DLEND_PROGRAMS");
	const char *file = text("%s/%s", other && *other ? other : PROGRAMS, argv[0]);
	size_t count = 0;

	words[count++] = text("dlend %s", argv[0]);
	if (opt.json)
		words[count++] = "--json";
	if (opt.fake) {
		words[count++] = "--root";
		words[count++] = root_directory();
	}
	for (int i = 1; i < argc; i++)
		words[count++] = argv[i];
	execv(file, (char *const *)words);
	fail(EXIT_FAIL, text("%s cannot be run", file), strerror(errno),
	     errno == ENOENT ? "Is python3 installed, and dlend completely (make install)?" : NULL);
}
