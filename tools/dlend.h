/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the dlend command, as they see each other.  Plain sysfs throughout: nothing here
 * knows ioctls or messages, and everything it does can be done with cat and echo (docs/sysfs.md).
 */
#ifndef DLEND_TOOL_H
#define DLEND_TOOL_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define __printf(format, first)	__attribute__((__format__(printf, format, first)))
#define __noreturn		__attribute__((__noreturn__))

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof(*(array)))
#define DLEND_DRIVER		"dlend-lender"
#define CLAIM_OVERRIDE		"dlend-claimed"	/* a driver that nobody has */
#define DLEND_MODULES		"dlend_core", "dlend_ntb", "dlend_lender", "dlend_borrower", \
				"dlend_mdev", "dlend_native"
#define ALLOW_ATS	"/sys/module/dlend_lender/parameters/allow_ats"
#define ALLOW_UNSAFE_INTERRUPTS	"/sys/module/dlend_core/parameters/allow_unsafe_interrupts"
#define TEXT_MAX		256	/* longest attribute that is looked at */

/* Exit codes; dlend.8 says when. */
enum {
	EXIT_OK = 0,
	EXIT_FAIL = 1,		/* the system refused what should have worked */
	EXIT_USAGE = 2,
	EXIT_NOT_FOUND = 3,
	EXIT_IN_USE = 4,
	EXIT_UNFIT = 5,		/* a device that cannot be lent */
	EXIT_NOT_READY = 6,	/* modules, node id */
};

/**
 * struct options - what stood on the command line
 * @sysfs: where sysfs is; @procfs, @boot (kernel configurations), @etc, @run, @modules likewise
 * @fake: --root was given: nothing outside these trees is looked at or changed
 * @lines: JSON is one object a line
 * @verb: "" if there is none of this name
 */
struct options {
	const char *sysfs, *procfs, *boot, *etc, *run, *modules;
	bool fake, json, lines;
	const char *verb;
};

extern struct options opt;

/*
 * sysfs.c: memory, text, lists of names, and files.  All memory that these functions return stays
 * until the process ends, or until memory_drop().
 */
/** memory_mark - for memory_drop(): frees what was allocated since then */
size_t memory_mark(void);
void memory_drop(size_t mark);
void *zeroed(size_t count, size_t size);
/** grow - room for one element more than @count, which is zero. Return: the array, maybe moved */
void *grow(void *array, size_t count, size_t size);
/** text - printf into memory */
char *text(const char *fmt, ...) __printf(1, 2);
char *vtext(const char *fmt, va_list args) __printf(1, 0);
/* The same, for a path below sysfs. */
#define sys(fmt, ...) text("%s/" fmt, opt.sysfs, ##__VA_ARGS__)
/** join - @list, a comma, and @word */
const char *join(const char *list, const char *word);
/** ascii - bytes of @s that are no printable ASCII become '?', in place. Return: @s */
char *ascii(char *s);
/** strip_text - @text without blanks at either end, in place */
char *strip_text(char *text);
bool ends_with(const char *s, const char *end);
/** is_digits - at least one digit, and nothing else */
bool is_digits(const char *s);
/** has_word - is @word in @words (may be NULL), between blanks, commas and ends of lines? */
bool has_word(const char *words, const char *word);
bool path_exists(const char *p);
/** read_line - first line of a file; NULL if it cannot be read */
char *read_line(const char *p);
/** attr - attribute @name of directory @dir, as ascii() has it; "" if it cannot be read */
char *attr(const char *dir, const char *name);
/** attr_number - the same as a number (also 0x...), 0 if it is none */
unsigned long long attr_number(const char *dir, const char *name);
bool attr_is(const char *dir, const char *name, const char *value);
/** write_text - one write(2), as sysfs wants it. Return: 0 or -errno */
int write_text(const char *p, const char *text);
/** read_all - a whole file, or (@p is NULL) standard input; NULL if it cannot be read */
char *read_all(const char *p);
/** next_line - the next line of *@rest (may be NULL) that is not empty, or NULL; cuts the text */
char *next_line(char **rest);
/** link_name - last part of where symbolic link @dir/@name points, NULL if there is none */
char *link_name(const char *dir, const char *name);
/** real_path - canonical path, NULL if it does not exist */
char *real_path(const char *p);
/** is_below - @p is inside directory @dir (both canonical) */
bool is_below(const char *p, const char *dir);

/* Names, maybe those of directory @dir: sorted, without dot files. */
struct names {
	size_t count;
	char **name;
	const char *dir;
};

struct names list_dir(const char *dir);
/** names_path - path of the name at @i, of list_dir() */
char *names_path(const struct names *n, size_t i);
/** names_text - for people, with commas */
const char *names_text(const struct names *n);
void names_add(struct names *n, const char *name);
void names_sort(struct names *n);
/** names_have - is @name one of @n? */
bool names_have(const struct names *n, const char *name);

/* message.c */
/**
 * fail - say what went wrong and exit with @code
 * @what: happened; @why; @todo: what to do about it (both may be NULL)
 */
__noreturn void fail(int code, const char *what, const char *why, const char *todo);
/**
 * attempt - call @act; a fail() in it ends it, not the process
 *
 * The message stands on stderr then, nothing as JSON. Return: 0, or the code of fail().
 */
int attempt(void (*act)(void *arg), void *arg);
/** attempt_quietly - as attempt(), without a message. Return: NULL, or why it failed */
const char *attempt_quietly(void (*act)(void *arg), void *arg);
/** attempt_todo - what the message says to do about it; NULL: nothing */
const char *attempt_todo(void);
/** fail_again - as the fail() that ended the last attempt(), but for good and said once */
__noreturn void fail_again(int code);
/** attempt_json - what the last attempt() failed with, as --json has it */
json_t *attempt_json(int code);
/** attempt_failure - the same as one line */
const char *attempt_failure(void);
/** progress - a line on stderr for a person who waits; nothing with --json */
void progress(const char *fmt, ...) __printf(1, 2);

/* json.c */
/**
 * ascii_json - @s as a JSON string, NULL as ""; each byte that is no ASCII becomes '?'
 *
 * For all text but constants and what attr() or bdf_parse() made, which is ASCII: jansson
 * makes nothing at all of text that is not UTF-8.
 */
json_t *ascii_json(const char *s);
/** attr_json - @value of attribute @name: a number, null if that cannot be read; or text */
json_t *attr_json(const char *name, const char *value);
/** print_json - on standard output, in a form that others define; @root is gone then */
void print_json(json_t *root);
/** print_document - the same for what --json prints, with the verb and its version (dist/schema) */
void print_document(json_t *root);
/* print.c: tables, and a file instead of standard output. */
/** print_done - what a command has done: @list, as @key; and what failed, if there is a @code */
void print_done(const char *key, json_t *list, int code);
struct libscols_table;
/** table_row - the first one, which makes @t, is the heads of the columns */
void table_row(struct libscols_table **t, int columns, const char *const *cell);
void table_print(struct libscols_table **t);	/* and free it */
/**
 * output_begin - all output goes to @file, which is complete when it gets its name
 *
 * Exits with a message, and with @todo, if it cannot be.
 */
void output_begin(const char *file, const char *todo);
/** output_end - @file is there, and standard output is what it was. Exits with a message if not */
void output_end(void);
/** output_flush - what was printed so far has arrived. Exits with a message if not */
void output_flush(void);
/** output_check_at_exit - a command whose output did not arrive has failed */
void output_check_at_exit(void);

/* verb.c: what all verbs do alike. */
/** print_verbs - a line for each */
void print_verbs(FILE *f);
/** run_verb - that of @argv[0]. Return: the exit status */
int run_verb(int argc, char **argv);

/**
 * struct verb_option - an option of a verb
 * @value: (out) what follows it; @values: (out) the same of one that may be repeated
 * @flag: (out) true, of an option without a value
 */
struct verb_option {
	const char *name;
	const char **value;
	struct names *values;
	bool *flag;
};

#define ANY_NUMBER	1000000		/* of words */

/**
 * verb_words - read the arguments of a verb
 * @own: options beside --help and --json, which are dealt with here; NULL: there are none
 * @least, @most: words beside the options
 *
 * Exits with usage after a mistake. Return: the words, NULL after the last
 */
char **verb_words(int argc, char **argv, const struct verb_option *own, int least, int most);
struct option;
/** refuse_option - exits with usage as getopt_long() said @c, which is '?' or ':' */
__noreturn void refuse_option(int c, char **argv, const struct option *all, const char *todo);
/** refuse_usage - exits with usage, as there are too many or too few arguments */
__noreturn void refuse_usage(const char *verb);
/** check_file_name - exits with usage if --@option @file cannot be one; @file may be NULL */
void check_file_name(const char *option, const char *file);
/** parse_seconds - the value @s of --@option. Return: milliseconds, 0 if @s is NULL */
int64_t parse_seconds(const char *option, const char *s);
/** parse_count - the value @s of --count; @of: what is counted, for a message. 0 if @s is NULL */
unsigned long parse_count(const char *s, const char *of);
/** root_directory - of --root, or "/" */
const char *root_directory(void);
/** need_root - exits with a message if who calls is not root, and the real /sys would be changed */
void need_root(const char *verb);
/**
 * run_show - a command that takes no arguments and shows something
 * @show: adds it to @root; @root is NULL: prints it as text
 *
 * Return: the exit status.
 */
int run_show(int argc, char **argv, void (*show)(json_t *root));

/* child.c: other processes. */
#define CHILD_MISSING	127
/**
 * child_run - run a program, and wait until it has ended
 * @words: its arguments, NULL after the last
 *
 * What it prints goes to standard error: it is no part of what this command prints.
 *
 * Return: its exit status; CHILD_MISSING: it is not there; -1: a signal has ended it
 */
int child_run(const char *const *words);
/** child_read - what a program prints, as child_run(); NULL if it fails or is not there */
char *child_read(const char *const *words);
/**
 * write_and_wait - as write_text(), where that takes as long as others want
 * @waiting: for progress(), every few seconds
 * @most_s: so many seconds are waited for at most; 0: no end
 *
 * Return: 0 or -errno; -EINPROGRESS: it goes on without this process, which has waited long enough
 */
int write_and_wait(const char *p, const char *word, const char *waiting, int most_s);

/* state.c: files that last.  Who writes one has a lock on what it is about. */
struct device;
/** state_prepare - write all of it, beside @file. Return: 0 or -errno: then nothing is left */
int state_prepare(const char *file, const char *text);
/** state_commit - it becomes @file. Return: 0 or -errno: then @file is as before */
int state_commit(const char *file);
/** state_drop - it does not */
void state_drop(const char *file);
/** state_write - prepare and commit */
int state_write(const char *file, const char *text);
/* In /run/dlend */
/**
 * lock_name - from now on, until the next call or the end, no other dlend command has this lock
 * @what: for a line of progress, if this has to wait
 */
void lock_name(const char *name, const char *what);
/** lock_device - the same for @dev and all that are lent with it: look at its state after this */
void lock_device(const struct device *dev);
/* How a device was set before it was lent. */
/** keep_value - store @value of @setting. Return: 0 or -errno; what was stored before stays then */
int keep_value(const struct device *dev, const char *setting, const char *value);
/** kept_value - what is stored, NULL if there is nothing */
const char *kept_value(const struct device *dev, const char *setting);
void forget_value(const struct device *dev, const char *setting);
#define OVERRIDE_SETTING	"driver"	/* driver_override; absent: there was none */

/* mdev.c: UUIDs, and mediated devices of this host. */
/** uuid_valid - is @s written as a UUID? */
bool uuid_valid(const char *s);
/** uuid_parse - @s with small letters; exits with usage if it is none */
const char *uuid_parse(const char *s);
/** uuid_new - a random one */
const char *uuid_new(void);
/** mdev_directory - where it is in sysfs, or would be */
char *mdev_directory(const char *uuid);
/** mdev_parent - the address of what it was made of; "" if it is not there */
const char *mdev_parent(const char *uuid);
/** mdev_user - as find_user(), of the one in @dir; others' processes are only seen by root */
const char *mdev_user(const char *dir, const char **vm);
/** fail_no_mdev - exits as there is none of that UUID */
__noreturn void fail_no_mdev(const char *uuid);

/* node.c */
#define NAME_LEN_MAX	63
/** name_valid - is @s a name as the kernel has them, of a node or of a set? */
bool name_valid(const char *s);
/** own_node - the id of this node, as sysfs has it; "" without dlend_core */
const char *own_node(void);
/** node_name - what node @id calls itself; "" if no link of this host has led to it */
const char *node_name(const char *id);
/** nodes_named - ids of the nodes that call themselves so; more than one if they share a name */
struct names nodes_named(const char *name);
/** node_text - a node for people: "2 (alpha)", or only its id */
const char *node_text(const char *id);

/* device.c: a PCI function of this host. */
struct device {
	char bdf[16];		/* 0000:3b:00.0 */
	char *dir;		/* in sysfs, canonical */
};

/** bdf_parse - accept [DDDD:]BB:DD.F, write the full form. Return: false if it is none */
bool bdf_parse(char bdf[16], const char *text);
/** check_bdf - exits with usage if bdf_parse() does not accept @text */
void check_bdf(const char *text);
/** is_bridge - a bridge, or another part of the host's own wiring, by its class */
bool is_bridge(const char *dir);
/** device_open - exits with a message if @text is no device of this host */
struct device device_open(const char *text);
const char *device_driver(const struct device *dev);	/* NULL = none */
bool device_lent(const struct device *dev);
/** device_preparing - it, or one of its group, is bound to dlend-lender and not offered yet */
bool device_preparing(const struct device *dev);
/** device_group - all functions in the IOMMU group of @dev, bridges left out */
struct names device_group(const struct device *dev);
/** group_others - those of @group that are not @dev, for a message */
const char *group_others(const struct device *dev, const struct names *group);
/** override_own - is this driver_override one that we have written? */
bool override_own(const char *override);
/** device_left - it has no driver, as we have kept it from all: claimed, or not lent to the end */
bool device_left(const struct device *dev);
/**
 * driver_patience - for how many seconds to wait until a driver lets go of a device
 *
 * Some drivers wait for whoever uses the device, without end and without a word.
 */
int driver_patience(void);
/** patience_over - why something is given up that returned -EINPROGRESS after that time */
const char *patience_over(void);
/**
 * device_bind_lender - bind to dlend-lender, which does not offer it yet if it knows how to wait;
 * device_unbind - from whatever it has. Return: 0 or -errno
 *
 * As the next two they return -EINPROGRESS if it takes longer than driver_patience(). The lock of
 * lock_device() is held then until it is over: nothing more may be done with the device.
 */
int device_bind_lender(const struct device *dev);
int device_unbind(const struct device *dev);
int device_override(const struct device *dev, const char *driver);	/* "" clears */
int device_probe(const struct device *dev);	/* its own driver, if there is one */
/** device_await_driver - wait a moment for a driver that probes by itself; there may be none */
void device_await_driver(const struct device *dev);
/* libpci.  Names are never NULL, and valid until the next call. */
const char *pci_vendor_name(unsigned int vendor);
const char *pci_device_name(unsigned int vendor, unsigned int device);
/**
 * capability_word - 16 bits of a PCI capability
 * @id, @kind: as pci_find_cap() takes them
 * @at: from its beginning
 *
 * Return: -1: there is no such capability; or it cannot be read, as who calls is not root
 */
int capability_word(const char *bdf, unsigned int id, unsigned int kind, unsigned int at);

/* reset.c: which way a lent device is reset. */
/** reset_valid - may @methods be words of the kernel's? */
bool reset_valid(const char *methods);
/**
 * reset_choose - @methods (as in sysfs, or with commas) from now on; what it was is kept
 *
 * Exits with a message if the device cannot be reset so, or what it was cannot be kept.
 */
void reset_choose(const struct device *dev, const char *methods);
/**
 * reset_shared - can a device only be reset with others, by their bus?
 * @with: (out) these others, for a message; "" if there are none
 * @outside: (out) one of them that is not in its IOMMU group, so that it cannot be reset; or NULL
 *
 * Return: false: it has a reset of its own, or is alone on its bus, or no bridge is above that
 */
bool reset_shared(const struct device *dev, const char **with, const char **outside);
/** reset_restore - what reset_choose() found, if it was ever called for @dev; never fails */
void reset_restore(const struct device *dev);

/* check.c: may a device be lent? */
/** check_node - is this node able to lend at all? Exits with a message if not */
void check_node(void);
/** check_kind - is @dev a thing that can be lent at all? Exits with a message if not */
void check_kind(const struct device *dev);
/** check_device - may @dev be lent? Exits with a message if not */
void check_device(const struct device *dev);
/** devices_behind - addresses of the devices that are there by the driver of @dev; no bridges */
struct names devices_behind(const struct device *dev);
/** device_above - the address of the device by whose driver @dev is there, or NULL */
const char *device_above(const struct device *dev);
/** device_hazard - what harm it does to lend it; NULL: none that is known */
const char *device_hazard(const struct device *dev);
/** check_hazard, check_above - the same for lending: exits with a message */
void check_hazard(const struct device *dev);
void check_above(const struct device *dev);

/* use.c */
/** check_use - is @dev in use by this host? Exits with a message if so */
void check_use(const struct device *dev);
/**
 * find_user - a process that has one of @files open
 * @vm: (out) name of the VM that it runs, "" if it tells none; may be NULL
 *
 * Return: the process, and which file; NULL: there is none
 */
const char *find_user(const struct names *files, const char **vm);

/* reserve.c */
/** reserve_again - @dev was lent anew: as its record says, if it has one. Exits if it cannot */
void reserve_again(const struct device *dev);
/** reserved_json - for whom the lent device of @dir in sysfs is reserved; null: for nobody */
json_t *reserved_json(const char *dir);

/* offer.c */
/** offer_parse - is @s the address of an offer? Writes its full form. */
bool offer_parse(char address[16], const char *s);
/** type_valid - is @s written as a type of mediated devices of dlend? */
bool type_valid(const char *s);
/** offer_directory - where it is in sysfs, or would be */
char *offer_directory(const char *address);
/** attached_as - the PCI address here of the offer in @dir of sysfs; NULL: it is not attached */
const char *attached_as(const char *dir);
/** attached_driver - of the attached device at this PCI address here; NULL: none */
const char *attached_driver(const char *where);
/** offer_attached_as - the offer whose device has this PCI address here; NULL: none */
const char *offer_attached_as(const char *pci);
/** fail_no_offer - exits as no node offers it */
__noreturn void fail_no_offer(const char *what);
/**
 * offer_check_taken - exits with a message if this host cannot have it because another one can
 * @dir: the offer in sysfs
 * @what: of the message
 * @held: if it is held, that is in the way
 * @uuid: of the mediated device that it is for, or NULL
 */
void offer_check_taken(const char *dir, const char *what, bool held, const char *uuid);
/** offer_check - exits with a message if the mediated device @uuid of it cannot be made here now */
void offer_check(const char *address, const char *uuid);
/** offer_obstacle - the same without a message. Return: NULL, or why; attempt_todo(): the cure */
const char *offer_obstacle(const char *address, const char *uuid);

/* config.c: /etc/dlend.conf. */
/**
 * struct lend_line - what one line, or one command line, asks for
 * @which: BDF, or vendor:device, or class=CCSSPP (also CC, CCSS)
 * @as, @reset, @clique, @set: NULL if not said
 * @ids, @serial: of the device that is meant, vendor:device and as identity_of(); NULL: any
 * @anyway: also if it does harm (device_hazard())
 * @number: of the line, for messages
 */
struct lend_line {
	const char *which, *as, *reset, *clique, *set, *ids, *serial;
	bool group, anyway;
	unsigned int number;
};

/**
 * struct link_line - what the configuration file says of the link over an NTB
 * @ntb: full BDF
 * @peer: the node that it is for, and no other; NULL: any
 * @direct: "on" or "off", for direct interrupts; NULL: as it is
 */
struct link_line {
	char ntb[16];
	const char *peer, *direct;
	unsigned int number;
};

struct config {
	size_t count, links;
	struct lend_line *line;
	struct link_line *link;
	bool libvirt_hook;
};

/** config_read - exits with a message that names the line if something is wrong with it */
struct config config_read(const char *file);
/** config_matches - the functions of this host that @line means, bridges left out */
struct names config_matches(const struct lend_line *line);
/** clique_valid - "none", "auto", or 0 to 15 */
bool clique_valid(const char *text);
/** as_valid - a bus:device.function */
bool as_valid(const char *text);

/* identity.c */
/**
 * identity_of - the serial number of @dev: what it is lent with, or else an NVMe controller's as
 * this host's driver has read it, or else PCIe's; of letters, digits, ".", "_" and "-"
 *
 * Return: "": not known
 */
const char *identity_of(const struct device *dev);
/** identity_check - is @dev what @line means? Exits with a message if not */
void identity_check(const struct lend_line *line, const struct device *dev);

/* move.c: functions on their way from their own drivers to dlend-lender. */
/**
 * struct move - one function
 * @driver: that it had, NULL: none
 * @override: driver_override that it had
 * @stuck: a driver holds it, and may go on to do so: touch nothing
 */
struct move {
	struct device dev;
	const char *driver, *override;
	bool overridden, stuck;
};

/** move_plan - one for each of @bdf; exits with a message if one cannot be lent or is in use */
struct move *move_plan(const struct names *bdf);
/** move_take - bind all to dlend-lender, or none: then it exits with a message */
void move_take(struct move *move, size_t count);

/* uevent.c: the kernel's events, that there is something new to look at, not what; and time. */
/** uevent_open - a socket to poll(2) for reading, or -1 if this process gets no events */
int uevent_open(void);
/** now_ms - time that only grows */
int64_t now_ms(void);
/**
 * uevent_wait - until @until (now_ms()), or until soon after an event
 * @fd: from uevent_open(); -1: there are none
 *
 * Ends the process if nobody reads its standard output any more.
 */
void uevent_wait(int fd, int64_t until);

/* The commands: get their own arguments, argv[0] being the verb. */
int cmd_lend(int argc, char **argv);
int cmd_reclaim(int argc, char **argv);
int cmd_reserve(int argc, char **argv);
int cmd_unreserve(int argc, char **argv);
int cmd_borrow(int argc, char **argv);
int cmd_return(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_links(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_callout(int argc, char **argv);
int cmd_claim(int argc, char **argv);
int cmd_topology(int argc, char **argv);
int cmd_cdi(int argc, char **argv);
int cmd_libvirt_xml(int argc, char **argv);
int cmd_program(int argc, char **argv);
int cmd_metrics(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_watch(int argc, char **argv);

/*
 * Their parts that `status` shows too.  If @root is not NULL they go into it, under the key of the
 * same name, and nothing is printed.
 */
void show_offers(json_t *root);
void show_links(json_t *root);
void show_mdevs(json_t *root);
void show_attached(json_t *root);
#endif
