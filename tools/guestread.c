// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the XML of a libvirt domain, as virsh dumpxml writes it: which mediated devices it has, and
 * what its guest's PCI tree holds already.  Plans nothing (guestxml.c).
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

/* A domain while it is read; @uuid: of the <hostdev> that is open; @before: what was before it. */
struct reader {
	const struct fabric *f;
	struct guest g, before;
	bool inside;
	char uuid[TEXT_MAX];
};

static bool is_blank(char c)
{
	return isspace((unsigned char)c);
}

/* Value of @name in a start tag, "" if it has none. */
static const char *tag_attr(char value[TEXT_MAX], const char *tag, const char *name)
{
	size_t len = strlen(name);

	value[0] = '\0';
	for (const char *at = strstr(tag, name); at; at = strstr(at + 1, name)) {
		const char *quote = at + len + 1, *end;

		if (at == tag || !is_blank(at[-1]) || at[len] != '=' ||
		    (*quote != '\'' && *quote != '"'))
			continue;
		end = strchr(quote + 1, *quote);
		if (end && end - quote - 1 < TEXT_MAX)
			snprintf(value, TEXT_MAX, "%.*s", (int)(end - quote - 1), quote + 1);
		break;
	}
	return value;
}

static bool tag_is(const char *tag, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(tag, name, len) && (!tag[len] || is_blank(tag[len]) || tag[len] == '/');
}

static void read_controller(struct guest *g, const char *tag)
{
	char value[TEXT_MAX];
	unsigned int index;

	if (strcmp(tag_attr(value, tag, "type"), "pci"))
		return;
	index = strtoul(tag_attr(value, tag, "index"), NULL, 0);
	if (index > g->last)
		g->last = index;
	tag_attr(value, tag, "model");
	g->ports += !strcmp(value, "pcie-root-port") ||
		    !strcmp(value, "pcie-switch-downstream-port");
}

/* One PCI address that is taken. Return: on the root bus */
static bool read_address(struct guest *g, const char *tag)
{
	char value[TEXT_MAX];
	unsigned int function;

	if (strcmp(tag_attr(value, tag, "type"), "pci"))
		return false;
	function = strtoul(tag_attr(value, tag, "function"), NULL, 0);
	if (function)		/* of a slot that is counted with its function 0 */
		return false;
	g->all++;
	return !strtoul(tag_attr(value, tag, "bus"), NULL, 0);
}

/* A device of the host that is not ours may have I/O BARs. */
static void end_hostdev(struct reader *r)
{
	r->inside = false;
	if (*r->uuid && fabric_device(r->f, r->uuid)) {
		r->g = r->before;	/* its place is what we make anew */
		names_add(&r->g.uuid, r->uuid);
	} else if (!*r->uuid) {
		r->g.io = true;
	}
}

static void read_tag(struct reader *r, const char *tag)
{
	char value[TEXT_MAX];

	if (tag_is(tag, "hostdev")) {
		r->inside = true;
		r->uuid[0] = '\0';
		r->before = r->g;
	} else if (tag_is(tag, "/hostdev") && r->inside) {
		end_hostdev(r);
	} else if (tag_is(tag, "controller")) {
		read_controller(&r->g, tag);
	} else if (tag_is(tag, "address")) {
		if (r->inside && *tag_attr(value, tag, "uuid"))
			snprintf(r->uuid, sizeof(r->uuid), "%s", value);
		r->g.slots += read_address(&r->g, tag);
	}
}

/* A '>' in quotes ends no tag. */
static char *tag_end(char *at)
{
	char quote = '\0';

	for (; *at; at++) {
		if (quote)
			quote = *at == quote ? '\0' : quote;
		else if (*at == '\'' || *at == '"')
			quote = *at;
		else if (*at == '>')
			return at;
	}
	return NULL;
}

struct guest guest_read(char *xml, const struct fabric *f)
{
	/* The host bridge, and at 1f ISA, SATA, SMBus. */
	struct reader r = { .f = f, .g = { .slots = 2, .all = 2 } };
	bool domain = false;
	char *end;

	for (char *at = strchr(xml, '<'); at; at = strchr(end + 1, '<')) {
		if (!strncmp(at, "<!--", 4)) {
			end = strstr(at, "-->");
			if (!end)
				break;
			continue;
		}
		end = tag_end(at);
		if (!end)
			break;
		*end = '\0';
		domain |= tag_is(at + 1, "domain");
		read_tag(&r, at + 1);
	}
	if (!domain)
		fail(EXIT_USAGE, "what was read is no libvirt domain", "it has no <domain> element",
		     "Give what virsh dumpxml prints, or the UUIDs of mediated devices.");
	if (!r.g.uuid.count)
		fail(EXIT_NOT_FOUND, "the domain has no mediated device of dlend",
		     "no <hostdev type='mdev'> in it names one of this node",
		     "Give their UUIDs: dlend libvirt-xml UUID...; dlend status lists them.");
	return r.g;
}

char *guest_ask_virsh(const char *domain)
{
	int ends[2], status;
	char *file, *xml;
	pid_t child;

	if (pipe(ends))
		fail(EXIT_FAIL, "no pipe", strerror(errno), NULL);
	child = fork();
	if (!child) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execlp("virsh", "virsh", "dumpxml", "--domain", domain, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	file = path("/dev/fd/%d", ends[0]);
	xml = child > 0 ? read_all(file) : NULL;
	free(file);
	close(ends[0]);
	if (child < 0 || waitpid(child, &status, 0) != child || !xml || status)
		fail(EXIT_NOT_FOUND, text("domain %s cannot be read", domain),
		     "virsh dumpxml failed", "virsh list --all shows the domains of this host.");
	return xml;
}
