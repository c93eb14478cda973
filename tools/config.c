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
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static __noreturn void refuse_line(const char *file, unsigned int line, const char *what)
{
	fail(EXIT_USAGE, text("%s, line %u", file, line), what,
	     "dlend.conf(5) says what a line can be.");
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

static bool is_address(const struct lend_line *line)
{
	return !is_vendor_and_device(line->which) && !is_class(line->which);
}

static bool is_number_to(const char *s, unsigned long most)
{
	return is_digits(s) && strlen(s) < 9 && strtoul(s, NULL, 10) <= most;
}

bool clique_valid(const char *s)
{
	return !strcmp(s, "none") || !strcmp(s, "auto") || is_number_to(s, 15);
}

bool as_valid(const char *s)
{
	char full[16];

	return bdf_parse(full, s) && strlen(s) <= 7;
}

/* What a line may say of a device: @is_valid, or else @wrong; NULL: any word. */
static const struct attribute {
	const char *before;
	size_t at;		/* in struct lend_line */
	bool (*is_valid)(const char *s);
	const char *wrong;
} attributes[] = {
	{ "reset=", offsetof(struct lend_line, reset) },
	{ "clique=", offsetof(struct lend_line, clique), clique_valid,
	  "clique= takes 0 to 15, none or auto" },
	{ "set=", offsetof(struct lend_line, set), name_valid,
	  "set= takes a name of letters, digits, \".\", \"_\" and \"-\"" },
	{ "as=", offsetof(struct lend_line, as), as_valid,
	  "as= takes bus:device.function, like 3b:00.0" },
	{ "ids=", offsetof(struct lend_line, ids), is_vendor_and_device,
	  "ids= takes vendor:device, like 10de:2204" },
	{ "serial=", offsetof(struct lend_line, serial), name_valid,
	  "serial= takes letters, digits, \".\", \"_\" and \"-\"" },
};

static void parse_attribute(struct lend_line *line, const char *word, const char *file)
{
	const struct attribute *a = attributes;
	const char *value;

	line->group |= !strcmp(word, "group");
	line->anyway |= !strcmp(word, "anyway");
	if (!strcmp(word, "group") || !strcmp(word, "anyway"))
		return;
	while (a < attributes + ARRAY_SIZE(attributes) &&
	       strncmp(word, a->before, strlen(a->before)))
		a++;
	value = a < attributes + ARRAY_SIZE(attributes) ? word + strlen(a->before) : NULL;
	if (value && a->is_valid && !a->is_valid(value))
		refuse_line(file, line->number, a->wrong);
	if (!value || !*value)
		refuse_line(file, line->number,
			    text("\"%s\" is none of %s, %s", word,
				 "group, anyway, reset=METHOD, clique=N, set=NAME",
				 "as=BB:DD.F, ids=VVVV:DDDD, serial=NUMBER"));
	*(const char **)((char *)line + a->at) = text("%s", value);
	if (line->as && !is_address(line))
		refuse_line(file, line->number, "as= names one device: give that by its address");
}

static void parse_switch(struct config *c, const char *word, const char *file, unsigned int number)
{
	if (!word || strncmp(word, "libvirt-hook=", 13))
		refuse_line(file, number, "there is no such switch: libvirt-hook=on or =off");
	if (strcmp(word + 13, "on") && strcmp(word + 13, "off"))
		refuse_line(file, number, "libvirt-hook= takes on or off");
	c->libvirt_hook = !strcmp(word + 13, "on");
}

static void parse_link_attribute(struct link_line *line, const char *word, const char *file)
{
	if (!strncmp(word, "peer=", 5)) {
		if (!is_number_to(word + 5, 65535) || !strtoul(word + 5, NULL, 10))
			refuse_line(file, line->number,
				    "link takes peer=N, the node id of the other end, 1 to 65535");
		if (line->peer)
			refuse_line(file, line->number, "one link a line, with one peer");
		line->peer = text("%s", word + 5);
	} else if (!strcmp(word, "direct=on") || !strcmp(word, "direct=off")) {
		line->direct = text("%s", word + 7);
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
	c->link = grow(c->link, c->links, sizeof(line));
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
	line.which = text("%s", word);
	if (!is_vendor_and_device(word) && !is_class(word) && !bdf_parse(full, word))
		refuse_line(file, number,
			    text("\"%s\" is no PCI address, no vendor:device and no class=", word));
	while ((word = strtok_r(NULL, " \t\r", &save)))
		parse_attribute(&line, word, file);
	c->line = grow(c->line, c->count, sizeof(line));
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

/* Another node's device, which is only attached here, is for that node to lend. */
static bool line_matches(const struct lend_line *line, const char *dir, const char *bdf)
{
	const char *class = attr(dir, "class"), *vendor, *device;

	if (is_bridge(dir) || offer_attached_as(bdf))
		return false;
	if (is_class(line->which))
		return strlen(class) > 2 &&
		       !strncasecmp(class + 2, line->which + 6, strlen(line->which + 6));
	vendor = attr(dir, "vendor");
	device = attr(dir, "device");
	return strlen(vendor) == 6 && strlen(device) == 6 &&
	       !strncasecmp(vendor + 2, line->which, 4) && !strcasecmp(device + 2, line->which + 5);
}

struct names config_matches(const struct lend_line *line)
{
	struct names all, found = { 0 };
	char full[16];

	if (is_address(line)) {
		if (bdf_parse(full, line->which))
			names_add(&found, full);
		return found;
	}
	all = list_dir(sys("bus/pci/devices"));
	for (size_t i = 0; i < all.count; i++)
		if (line_matches(line, names_path(&all, i), all.name[i]))
			names_add(&found, all.name[i]);
	return found;
}
