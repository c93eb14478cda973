// SPDX-License-Identifier: GPL-2.0-only
/*
 * /etc/dlend.conf: what this host lends at boot, one device a line, and a few switches.
 *
 *	3b:00.0 reset=flr		a function by its address
 *	10de:2204 clique=3		all of that vendor and device
 *	class=0108 group		all of that class (here: NVMe and the like)
 *	3d:00.0 serial=S4EWNX0N12	that disk, and no other that is there now
 *	3c:00.0 set=render		it and all others of that set go to one node at a time
 *	link 01:00.0 peer=3		that NTB leads to node 3, and to nobody else
 *	link 01:00.0 direct=on		devices behind it may interrupt without their lender's help
 *	set libvirt-hook=on
 *
 * The whole file is read before anything is done, so that a mistake in it changes nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static __noreturn void refuse_line(const char *file, unsigned int line, const char *what)
{
	fail(EXIT_USAGE, text("%s, line %u", file, line), what,
	     "dlend.conf(5) says what a line can be.");
}

static __noreturn void refuse_attribute(const char *file, unsigned int line, const char *word)
{
	refuse_line(file, line, text("\"%s\" is none of %s, %s", word,
				     "group, anyway, reset=METHOD, clique=N, set=NAME",
				     "as=BB:DD.F, ids=VVVV:DDDD, serial=NUMBER"));
}

static bool is_hex(const char *s, size_t len)
{
	return strlen(s) >= len && strspn(s, "0123456789abcdefABCDEF") >= len;
}

static bool is_vendor_and_device(const char *s)
{
	return strlen(s) == 9 && s[4] == ':' && is_hex(s, 4) && is_hex(s + 5, 4);
}

static bool is_class(const char *s)
{
	size_t len;

	if (strncmp(s, "class=", 6))
		return false;
	len = strlen(s + 6);
	return (len == 2 || len == 4 || len == 6) && is_hex(s + 6, len);
}

bool config_is_address(const struct lend_line *line)
{
	return !is_vendor_and_device(line->which) && !is_class(line->which);
}

bool clique_valid(const char *s)
{
	char *end;
	long n;

	if (!strcmp(s, "none") || !strcmp(s, "auto"))
		return true;
	if (!isdigit((unsigned char)*s))
		return false;
	n = strtol(s, &end, 10);
	return !*end && n >= 0 && n <= 15;
}

static void parse_attribute(struct lend_line *line, const char *word, const char *file)
{
	char full[16];

	if (!strcmp(word, "group")) {
		line->group = true;
	} else if (!strcmp(word, "anyway")) {
		line->anyway = true;
	} else if (!strncmp(word, "reset=", 6) && word[6]) {
		line->reset = strdup(word + 6);
	} else if (!strncmp(word, "clique=", 7)) {
		line->clique = strdup(word + 7);
		if (!clique_valid(line->clique))
			refuse_line(file, line->number, "clique= takes 0 to 15, none or auto");
	} else if (!strncmp(word, "set=", 4)) {
		line->set = strdup(word + 4);
		if (!name_valid(line->set))
			refuse_line(file, line->number,
				    "set= takes a name of letters, digits, \".\", \"_\" and \"-\"");
	} else if (!strncmp(word, "as=", 3)) {
		line->as = strdup(word + 3);
		if (!bdf_parse(full, line->as) || strlen(line->as) > 7)
			refuse_line(file, line->number,
				    "as= takes bus:device.function, like 3b:00.0");
		if (!config_is_address(line))
			refuse_line(file, line->number,
				    "as= names one device: give that by its address");
	} else if (!strncmp(word, "ids=", 4)) {
		line->ids = strdup(word + 4);
		if (!is_vendor_and_device(line->ids))
			refuse_line(file, line->number, "ids= takes vendor:device, like 10de:2204");
	} else if (!strncmp(word, "serial=", 7)) {
		line->serial = strdup(word + 7);
		if (!name_valid(line->serial))
			refuse_line(file, line->number,
				    "serial= takes letters, digits, \".\", \"_\" and \"-\"");
	} else {
		refuse_attribute(file, line->number, word);
	}
}

static void parse_switch(struct config *c, const char *word, const char *file, unsigned int number)
{
	if (!word || strncmp(word, "libvirt-hook=", 13))
		refuse_line(file, number, "there is no such switch: libvirt-hook=on or =off");
	if (strcmp(word + 13, "on") && strcmp(word + 13, "off"))
		refuse_line(file, number, "libvirt-hook= takes on or off");
	c->libvirt_hook = !strcmp(word + 13, "on");
}

static bool is_node_id(const char *s)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)*s))
		return false;
	n = strtol(s, &end, 10);
	return !*end && n >= 1 && n <= 65535;
}

static void parse_link_attribute(struct link_line *line, const char *word, const char *file)
{
	if (!strncmp(word, "peer=", 5)) {
		if (!is_node_id(word + 5))
			refuse_line(file, line->number,
				    "link takes peer=N, the node id of the other end, 1 to 65535");
		if (line->peer)
			refuse_line(file, line->number, "one link a line, with one peer");
		line->peer = strdup(word + 5);
	} else if (!strcmp(word, "direct=on") || !strcmp(word, "direct=off")) {
		line->direct = strdup(word + 7);
	} else {
		refuse_line(file, line->number,
			    text("\"%s\" is none of peer=N, direct=on, direct=off", word));
	}
}

static void parse_link(struct config *c, char **save, const char *file, unsigned int number)
{
	const char *ntb = strtok_r(NULL, " \t\r", save), *word = strtok_r(NULL, " \t\r", save);
	struct link_line line = { .number = number };

	if (!ntb || !bdf_parse(line.ntb, ntb))
		refuse_line(file, number, "link takes the PCI address of an NTB, like 01:00.0");
	if (!word)
		refuse_line(file, number, "link takes peer=N, direct=on or direct=off");
	for (; word; word = strtok_r(NULL, " \t\r", save))
		parse_link_attribute(&line, word, file);
	c->link = reallocarray(c->link, c->links + 1, sizeof(line));
	if (!c->link)
		abort();
	c->link[c->links++] = line;
}

static void parse_line(struct config *c, char *s, const char *file, unsigned int number)
{
	struct lend_line line = { .number = number };
	char *save, *word, full[16];

	s[strcspn(s, "#\n")] = '\0';
	word = strtok_r(s, " \t\r", &save);
	if (!word)
		return;
	if (!strcmp(word, "set")) {
		parse_switch(c, strtok_r(NULL, " \t\r", &save), file, number);
		if (strtok_r(NULL, " \t\r", &save))
			refuse_line(file, number, "one switch a line");
		return;
	}
	if (!strcmp(word, "link")) {
		parse_link(c, &save, file, number);
		return;
	}
	line.which = strdup(word);
	if (!is_vendor_and_device(word) && !is_class(word) && !bdf_parse(full, word))
		refuse_line(file, number,
			    text("\"%s\" is no PCI address, no vendor:device and no class=", word));
	while ((word = strtok_r(NULL, " \t\r", &save)))
		parse_attribute(&line, word, file);
	c->line = reallocarray(c->line, c->count + 1, sizeof(line));
	if (!c->line)
		abort();
	c->line[c->count++] = line;
}

struct config config_read(const char *file)
{
	struct config c = { 0 };
	unsigned int number = 0;
	char *line = NULL;
	size_t room = 0;
	FILE *f = fopen(file, "re");

	if (!f)
		fail(EXIT_NOT_FOUND, text("%s cannot be read", file), strerror(errno),
		     "dlend.conf(5) says what belongs into it.");
	while (getline(&line, &room, f) > 0)
		parse_line(&c, line, file, ++number);
	if (ferror(f))
		fail(EXIT_FAIL, text("%s cannot be read", file), strerror(errno), NULL);
	free(line);
	fclose(f);
	return c;
}

/* Another node's, which is only attached here: that node lends it. */
static bool is_attached(const char *dir)
{
	char *offer = offer_attached_as(strrchr(dir, '/') + 1);
	bool is = offer;

	free(offer);
	return is;
}

static bool line_matches(const struct lend_line *line, const char *dir)
{
	char vendor[TEXT_MAX], device[TEXT_MAX], class[TEXT_MAX];

	read_attr(class, dir, "class");
	if (!strncmp(class, "0x06", 4) || is_attached(dir))
		return false;
	if (is_class(line->which))
		return strlen(class) > 2 &&
		       !strncasecmp(class + 2, line->which + 6, strlen(line->which + 6));
	read_attr(vendor, dir, "vendor");
	read_attr(device, dir, "device");
	return strlen(vendor) == 6 && strlen(device) == 6 &&
	       !strncasecmp(vendor + 2, line->which, 4) && !strcasecmp(device + 2, line->which + 5);
}

struct names config_matches(const struct lend_line *line)
{
	char *bus = path("%s/bus/pci/devices", opt.sysfs);
	struct names all, found = { 0 };
	char full[16];

	if (config_is_address(line)) {
		if (bdf_parse(full, line->which))
			names_add(&found, full);
		free(bus);
		return found;
	}
	all = list_dir(bus);
	for (size_t i = 0; i < all.count; i++) {
		char *dir = path("%s/%s", bus, all.name[i]);

		if (line_matches(line, dir))
			names_add(&found, all.name[i]);
		free(dir);
	}
	names_free(&all);
	free(bus);
	return found;
}
