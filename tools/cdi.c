// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend cdi: what this node has of lent devices for container runtimes, as a file of the Container
 * Device Interface: mediated devices, pairs of them, and attached devices that vfio-pci has.
 * Annotations are those of NVIDIA's architecture for Kata Containers: "clique-id" says what belongs
 * together, "bdf" is the PCI address on this host.
 */
#include <ctype.h>
#include <string.h>

#include "fabric.h"

/* The first with annotations.  A runtime refuses what is newer than its own. */
#define CDI_VERSION	"0.6.0"
#define CDI_KIND	"dlend.local/device"
#define KIND_CLASS_MAX	63
#define KIND_VENDOR_MAX	253

/* Letters and digits; the characters of @inner may stand between them. */
static bool is_name(const char *s, size_t len, size_t most, const char *inner)
{
	if (!len || len > most || !isalnum((unsigned char)s[0]) ||
	    !isalnum((unsigned char)s[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr(inner, s[i]))
			return false;
	return true;
}

static void check_kind_name(const char *kind)
{
	const char *slash = strchr(kind, '/');
	size_t vendor = slash ? slash - kind : 0;

	if (slash && is_name(kind, vendor, KIND_VENDOR_MAX, "-.") &&
	    isalpha((unsigned char)kind[0]) &&
	    !memmem(kind, vendor, "..", 2) &&
	    is_name(slash + 1, strlen(slash + 1), KIND_CLASS_MAX, "-_."))
		return;
	fail(EXIT_USAGE, text("\"%s\" is no kind", kind), "a kind is a domain name, /, and a name",
	     "For example --kind " CDI_KIND ".");
}

static json_t *node_json(const char *file)
{
	return json_pack("{s:o, s:s}", "path", ascii_json(file), "permissions", "rw");
}

/*
 * One file: a runtime makes a device of each that it is given.
 * @own: the file that the kernel makes of each device (VFIO_DEVICE_CDEV), not the group's
 */
static json_t *nodes_json(bool own, const char *bus, const char *name)
{
	const char *dir = sys("bus/%s/devices/%s", bus, name);
	const char *group = link_name(dir, "iommu_group");
	struct names files = list_dir(text("%s/vfio-dev", dir));
	json_t *nodes = json_array();

	for (size_t i = 0; own && i < files.count; i++)
		if (path_exists(text("%s/dev", names_path(&files, i))))
			json_array_append_new(nodes, node_json(text("/dev/vfio/devices/%s",
								    files.name[i])));
	if (!own && group)
		json_array_append_new(nodes, node_json(text("/dev/vfio/%s", group)));
	return nodes;
}

/* Adds a device if it has a file that a container can get. */
static void add_device(json_t *devices, json_t *name, json_t *nodes, json_t *annotations)
{
	json_t *device = json_pack("{s:o, s:{s:o}}", "name", name,
				   "containerEdits", "deviceNodes", nodes);

	if (json_object_size(annotations))
		json_object_set_new(device, "annotations", annotations);
	if (json_array_size(nodes))
		json_array_append_new(devices, device);
}

static json_t *annotations_json(const struct lent *d)
{
	json_t *annotations = json_object();

	if (d->clique >= 0)
		json_object_set_new(annotations, "clique-id", json_sprintf("%d", d->clique));
	return annotations;
}

/* A PCI device of this host as any other, if it is vfio-pci's. */
static void add_attached(json_t *devices, bool own, const struct lent *d)
{
	const char *where = attached_as(offer_directory(d->address));
	const char *driver = where ? attached_driver(where) : NULL;

	if (driver && !strcmp(driver, "vfio-pci"))
		add_device(devices, ascii_json(where), nodes_json(own, "pci", where),
			   json_pack("{s:o}", "bdf", ascii_json(where)));
}

/* A network card of the clique of @gpu that no pair has yet: one of the same lender if there is. */
static size_t find_nic(const struct fabric *f, const bool *paired, const struct lent *gpu)
{
	size_t found = f->devices;

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		if (paired[i] || !*d->uuid || strcmp(d->type, "dlend-nic") ||
		    d->clique != gpu->clique)
			continue;
		if (d->lender == gpu->lender)
			return i;
		if (found == f->devices)
			found = i;
	}
	return found;
}

/* A GPU and a network card of one clique, as one device: a container that asks for it has both. */
static void add_pairs(json_t *devices, bool own, const struct fabric *f)
{
	bool *paired = zeroed(f->devices, sizeof(*paired));

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *gpu = &f->device[i];
		json_t *nodes;
		size_t nic;

		if (!*gpu->uuid || strcmp(gpu->type, "dlend-gpu") || gpu->clique < 0)
			continue;
		nic = find_nic(f, paired, gpu);
		if (nic == f->devices)
			continue;
		paired[nic] = true;
		nodes = nodes_json(own, "mdev", gpu->uuid);
		json_array_extend(nodes, nodes_json(own, "mdev", f->device[nic].uuid));
		if (json_array_size(nodes) == 2)
			add_device(devices, json_sprintf("pair-%s", gpu->uuid), nodes,
				   annotations_json(gpu));
	}
}

static json_t *devices_json(bool own, const struct fabric *f)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *d = &f->device[i];

		/* Its parent's name looks like a PCI address and is none: no "bdf". */
		if (*d->uuid)
			add_device(devices, ascii_json(d->uuid), nodes_json(own, "mdev", d->uuid),
				   annotations_json(d));
		add_attached(devices, own, d);
	}
	add_pairs(devices, own, f);
	return devices;
}

int cmd_cdi(int argc, char **argv)
{
	const char *kind = CDI_KIND, *output = NULL;
	bool own = false;
	const struct verb_option options[] = {
		{ "kind", &kind }, { "output", &output }, { "iommufd", .flag = &own }, { 0 }
	};
	json_t *devices;
	struct fabric f;

	verb_words(argc, argv, options, 0, 0);
	check_file_name("output", output);
	check_kind_name(kind);
	f = fabric_load();
	devices = devices_json(own, &f);
	if (!json_array_size(devices))
		fail(EXIT_NOT_FOUND, "this node has no device for a container",
		     "a CDI file has to list at least one device",
		     "Start a mediated device first: mdevctl start -u $(uuidgen) -p ADDRESS --type TYPE.");
	if (output)
		output_begin(output,
			     "Make its directory (mkdir -p /etc/cdi), or give another file.");
	print_json(json_pack("{s:s, s:s, s:o}",
			     "cdiVersion", CDI_VERSION, "kind", kind, "devices", devices));
	if (output)
		output_end();
	return EXIT_OK;
}
