// SPDX-License-Identifier: GPL-2.0
/*
 * ntbsim: both ends of Non-Transparent Bridges, as vfio-user devices for two QEMUs
 * each.  Options, start and end; see README.md for what is modelled.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control.h"
#include "loop.h"
#include "ntb.h"
#include "util.h"

#define MAX_COMMANDS 32

static struct ntb_link *links, **links_end = &links;

static const char usage[] =
"usage: ntbsim [--control SOCK] [--link-delay-ms MS] [--write-timeout-ms MS]\n"
"              [--device-id HEX] [--verbose]\n"
"              --link NAME=SOCK_A,SOCK_B[,bar2=SIZE][,bar4=SIZE][,family=FAMILY]...\n"
"       ntbsim --control SOCK --command \"COMMAND\"...\n"
"\n"
"Both ends of NTBs for QEMU's vfio-user-pci device.  Side a is the primary, or upstream.\n"
"\n"
"  --link SPEC      a link: its name, the sockets of both sides, the window sizes\n"
"                   (powers of two, with K, M or G; default bar2=64M,bar4=1G), and whose\n"
"                   bridges these are: amd (the default), intel-skx, intel-icx, intel-spr\n"
"  --link-delay-ms MS   how long a driver must be done with its configuration before\n"
"                   it is told that the link is up (0..60000, default 300)\n"
"  --write-timeout-ms MS   how long a write that a QEMU has to do is waited for, and with it\n"
"                   what may not overtake it (0..60000, default 20000)\n"
"  --device-id HEX  PCI device id of AMD's that come after it (default 17d7, the endpoint; 148b\n"
"                   is what Linux before 6.13 knows, too)\n"
"  --control SOCK   where commands are taken (with --command: sent to)\n"
"  --command CMD    be the client: send a command, show the answer\n"
"  --verbose        log link changes and refused requests, too\n"
"  --help           this text\n"
"\n"
"Commands: status | link NAME up|down | silent NAME a|b on|off |\n"
"  mute NAME a|b 2|4 OFFSET LEN |\n"
"  doorbell NAME a|b drop N|delay MS|flood N|normal | spad NAME N [VALUE] |\n"
"  override NAME a|b N VALUE|off |\n"
"  poke NAME a|b 2|4 OFFSET HEXBYTES | peek NAME a|b 2|4 OFFSET LEN |\n"
"  patience MS | quit\n";

static void copy(char *to, size_t size, const char *from, const char *what)
{
	if (!*from || strlen(from) >= size)
		die("%s is empty or too long: '%s'", what, from);
	strcpy(to, from);
}

static uint64_t parse_size(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 0);
	unsigned int shift = 0;

	switch (toupper((unsigned char)*end)) {
	case 'K':
		shift = 10;
		break;
	case 'M':
		shift = 20;
		break;
	case 'G':
		shift = 30;
		break;
	}
	if (shift)
		end++;
	/* A BAR is a power of two, and a window at least a page. */
	if (*end || v > UINT64_MAX >> 24 >> shift || v << shift < 4096 || v & (v - 1))
		die("bad window size: '%s'", s);
	return v << shift;
}

static unsigned int parse_ms(const char *option, const char *s)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	if (!isdigit((unsigned char)*s) || *end || v > 60000)
		die("bad %s: '%s'", option, s);
	return v;
}

static void parse_link_option(struct ntb_link *l, const char *word)
{
	if (!strncmp(word, "bar2=", 5))
		l->bar_size[NTB_BAR2] = parse_size(word + 5);
	else if (!strncmp(word, "bar4=", 5))
		l->bar_size[NTB_BAR4] = parse_size(word + 5);
	else if (!strncmp(word, "family=", 7))
		l->family = ntb_family_named(word + 7);
	else
		die("--link: what is '%s'?", word);
	if (!l->family)
		die("--link: no such family: '%s'", word);
}

static void check_name(const struct ntb_link *new)
{
	const struct ntb_link *l;
	const char *c;

	/* Names go into JSON and into commands of words. */
	for (c = new->name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-_.:", *c))
			die("bad link name: '%s'", new->name);
	for (l = links; l; l = l->next)
		if (!strcmp(l->name, new->name))
			die("two links named '%s'", new->name);
}

static void parse_link(char *spec)
{
	struct ntb_link *l = xalloc(sizeof(*l));
	char *eq = strchr(spec, '='), *save, *word;
	int i;

	if (!eq)
		die("--link NAME=SOCK_A,SOCK_B[,bar2=SIZE][,bar4=SIZE][,family=FAMILY]");
	*eq = 0;
	copy(l->name, sizeof(l->name), spec, "link name");
	check_name(l);
	l->family = &amd_family;
	l->bar_size[NTB_BAR2] = 64ull << 20;
	l->bar_size[NTB_BAR4] = 1ull << 30;
	word = strtok_r(eq + 1, ",", &save);
	for (i = 0; i < 2; i++, word = strtok_r(NULL, ",", &save))
		copy(l->side[i].path, sizeof(l->side[i].path), word ? word : "", "socket");
	for (; word; word = strtok_r(NULL, ",", &save))
		parse_link_option(l, word);
	*links_end = l;
	links_end = &l->next;
}

static void on_signal(int sig)
{
	(void)sig;
	loop_stop();
}

/* Blocked here, delivered in ppoll() only: a callback is never interrupted. */
static void catch_signals(void)
{
	static const int sigs[] = { SIGTERM, SIGINT, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t set;
	unsigned int i;

	sigemptyset(&set);
	for (i = 0; i < ARRAY_SIZE(sigs); i++) {
		sigaddset(&set, sigs[i]);
		sigaction(sigs[i], &sa, NULL);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void idle(void)
{
	struct ntb_link *l;

	for (l = links; l; l = l->next)
		ntb_idle(l);
}

static int serve(const char *control)
{
	struct ntb_link *l;
	int err;

	catch_signals();
	for (l = links; l; l = l->next) {
		err = ntb_open(l);
		if (err)
			die("link %s: %s", l->name, strerror(-err));
	}
	if (control) {
		err = control_open(control, links);
		if (err)
			die("%s: %s", control, strerror(-err));
	}
	loop_run(idle);
	control_close();
	while (links) {
		l = links;
		ntb_close(l);
		links = l->next;
		free(l);
	}
	return 0;
}

static int run_commands(const char *control, char **commands, int n)
{
	int i, status = 0;

	if (!control)
		die("--command needs --control");
	for (i = 0; i < n && !status; i++)
		status = control_command(control, commands[i]);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "control", required_argument, NULL, 'c' },
		{ "command", required_argument, NULL, 'x' },
		{ "link", required_argument, NULL, 'l' },
		{ "link-delay-ms", required_argument, NULL, 'd' },
		{ "write-timeout-ms", required_argument, NULL, 'w' },
		{ "device-id", required_argument, NULL, 'i' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *control = NULL;
	char *commands[MAX_COMMANDS];
	int opt, ncommands = 0;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'c':
			control = optarg;
			break;
		case 'x':
			if (ncommands == MAX_COMMANDS)
				die("too many commands");
			commands[ncommands++] = optarg;
			break;
		case 'l':
			parse_link(optarg);
			break;
		case 'd':
			ntb_link_delay_ms = parse_ms("--link-delay-ms", optarg);
			break;
		case 'w':
			dma_write_timeout_ms = parse_ms("--write-timeout-ms", optarg);
			break;
		case 'i':
			amd_device_id = strtoul(optarg, NULL, 16);
			if (!amd_device_id || amd_device_id >= 0xffff)
				die("--device-id: want 1 to fffe, in hexadecimal");
			break;
		case 'v':
			verbose = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (ncommands)
		return run_commands(control, commands, ncommands);
	if (!links || optind != argc) {
		fputs(usage, stderr);
		return 2;
	}
	return serve(control);
}
