// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend cdi: the mediated devices of this node for container runtimes, as a file of the Container
 * Device Interface.  Annotations are those that Kata Containers wants: with "bdf" and "clique-id"
 * it can tell a guest what belongs together.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define CDI_VERSION	"1.1.0"
#define CDI_KIND	"dlend.local/device"
#define KIND_CLASS_MAX	63
#define KIND_VENDOR_MAX	253

/* Versions with annotations; 0.6.0 was the first.  A runtime refuses those newer than its own. */
static const char *const versions[] = { "1.1.0", "1.0.0", "0.8.0", "0.7.0", "0.6.0" };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char alphanumeric[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/* Letters and digits; the characters of @inner may stand between them. */
static bool is_name(const char *s, size_t len, size_t most, const char *inner)
{
	if (!len || len > most || !strchr(alphanumeric, s[0]) || !strchr(alphanumeric, s[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!strchr(alphanumeric, s[i]) && !strchr(inner, s[i]))
			return false;
	return true;
}

static void check_kind_name(const char *kind)
{
	const char *slash = strchr(kind, '/');
	size_t vendor = slash ? slash - kind : 0;

	if (slash && is_name(kind, vendor, KIND_VENDOR_MAX, "-.") && strchr(letters, kind[0]) &&
	    !memmem(kind, vendor, "..", 2) &&
	    is_name(slash + 1, strlen(slash + 1), KIND_CLASS_MAX, "-_."))
		return;
	fail(EXIT_USAGE, text("\"%s\" is no kind", kind), "a kind is a domain name, /, and a name",
	     "For example --kind " CDI_KIND ".");
}

static const char *check_version(const char *version)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
		if (!strcmp(version, versions[i]))
			return versions[i];
	fail(EXIT_USAGE, text("CDI version %s is not known", version),
	     "known are 0.6.0 (the first with annotations) to " CDI_VERSION,
	     "Give the newest that your container runtime takes.");
}

static json_t *node_json(const char *file)
{
	return json_pack("{s:o, s:s}", "path", ascii_json(file), "permissions", "rw");
}

/* The file of the group, and the device's own if the kernel makes one (VFIO_DEVICE_CDEV). */
static json_t *nodes_json(const char *dir)
{
	char *link = path("%s/iommu_group", dir), *group = link_name(link);
	char *own = path("%s/vfio-dev", dir);
	struct names n = list_dir(own);
	json_t *nodes = json_array();

	if (group)
		json_array_append_new(nodes, node_json(text("/dev/vfio/%s", group)));
	for (size_t i = 0; i < n.count; i++) {
		char *dev = path("%s/%s/dev", own, n.name[i]);
		const char *file = text("/dev/vfio/devices/%s", n.name[i]);

		if (path_exists(dev))
			json_array_append_new(nodes, node_json(file));
		free(dev);
	}
	names_free(&n);
	free(own);
	free(group);
	free(link);
	return nodes;
}

/* Adds a mediated device if it has a file that a container can get. */
static void add_mdev(json_t *devices, const struct lent *d)
{
	char *dir = path("%s/bus/mdev/devices/%s", opt.sysfs, d->uuid);
	json_t *nodes = nodes_json(dir), *annotations;

	if (json_array_size(nodes)) {
		annotations = json_pack("{s:o}", "bdf", ascii_json(d->address));
		if (d->clique >= 0)
			json_object_set_new(annotations, "clique-id",
					    json_sprintf("%d", d->clique));
		json_array_append_new(devices,
				      json_pack("{s:o, s:o, s:{s:O}}",
						"name", ascii_json(d->uuid),
						"annotations", annotations,
						"containerEdits", "deviceNodes", nodes));
	}
	json_decref(nodes);
	free(dir);
}

static json_t *devices_json(const struct fabric *f)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < f->devices; i++)
		if (*f->device[i].uuid)
			add_mdev(devices, &f->device[i]);
	return devices;
}

int cmd_cdi(int argc, char **argv)
{
	static const struct option options[] = {
		{ "kind", required_argument, NULL, 'k' },
		{ "cdi-version", required_argument, NULL, 'v' },
		{ "output", required_argument, NULL, 'o' },
		{ 0 }
	};
	const char *kind = CDI_KIND, *version = CDI_VERSION, *output = NULL;
	json_t *devices;
	struct fabric f;
	int c;

	while ((c = verb_option(argc, argv, options)) != -1) {
		kind = c == 'k' ? optarg : kind;
		version = c == 'v' ? check_version(optarg) : version;
		output = c == 'o' ? optarg : output;
	}
	if (optind != argc)
		refuse_usage(argv[0]);
	if (output)
		check_file_name("output", output);
	check_kind_name(kind);
	f = fabric_load();
	devices = devices_json(&f);
	if (!json_array_size(devices))
		fail(EXIT_NOT_FOUND, "no mediated device of dlend on this node",
		     "a CDI file has to list at least one device",
		     "Start one first: mdevctl start -u $(uuidgen) -p ADDRESS --type TYPE.");
	if (output)
		output_begin(output,
			     "Make its directory (mkdir -p /etc/cdi), or give another file.");
	print_json(json_pack("{s:s, s:s, s:o}",
			     "cdiVersion", version, "kind", kind, "devices", devices));
	if (output)
		output_end();
	return EXIT_OK;
}
