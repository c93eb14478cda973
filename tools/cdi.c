// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend cdi: what this node has of lent devices for container runtimes, as a file of the Container
 * Device Interface: mediated devices, pairs of them, and attached devices that vfio-pci has.
 * Annotations are those of NVIDIA's architecture for Kata Containers: "clique-id" says what belongs
 * together, "bdf" is the PCI address on this host, "attach-pci" wants a bus of conventional PCI.
 */
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

static void check_version(const char *version)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (!strcmp(version, versions[i]))
			return;
	fail(EXIT_USAGE, text("CDI version %s is not known", version),
	     "known are 0.6.0 (the first with annotations) to " CDI_VERSION,
	     "Give the newest that your container runtime takes.");
}

static json_t *node_json(const char *file)
{
	return json_pack("{s:o, s:s}", "path", ascii_json(file), "permissions", "rw");
}

/* @own: the file that the kernel makes of each device (VFIO_DEVICE_CDEV), not the group's. */
struct cdi_want {
	bool own, attach_pci;
};

/* One file: a runtime makes a device of each that it is given. */
static json_t *nodes_json(const struct cdi_want *want, const char *bus, const char *name)
{
	const char *dir = sys("bus/%s/devices/%s", bus, name), *group = link_name(dir, "iommu_group");
	struct names own = list_dir(text("%s/vfio-dev", dir));
	json_t *nodes = json_array();

	for (size_t i = 0; want->own && i < own.count; i++)
		if (path_exists(text("%s/dev", names_path(&own, i))))
			json_array_append_new(nodes, node_json(text("/dev/vfio/devices/%s",
								    own.name[i])));
	if (!want->own && group)
		json_array_append_new(nodes, node_json(text("/dev/vfio/%s", group)));
	return nodes;
}

/* Adds a device if it has a file that a container can get. */
static void add_device(json_t *devices, json_t *name, json_t *nodes, json_t *annotations)
{
	json_t *device = json_pack("{s:o, s:{s:O}}", "name", name,
				   "containerEdits", "deviceNodes", nodes);

	if (json_object_size(annotations))
		json_object_set(device, "annotations", annotations);
	if (json_array_size(nodes))
		json_array_append(devices, device);
	json_decref(device);
	json_decref(annotations);
	json_decref(nodes);
}

static json_t *annotations_json(const struct cdi_want *want, const struct lent *d)
{
	json_t *annotations = json_object();

	if (d->clique >= 0)
		json_object_set_new(annotations, "clique-id", json_sprintf("%d", d->clique));
	if (want->attach_pci)
		json_object_set_new(annotations, "attach-pci", json_string("true"));
	return annotations;
}

/* Its parent's name looks like a PCI address and is none: no "bdf". */
static void add_mdev(json_t *devices, const struct cdi_want *want, const struct lent *d)
{
	add_device(devices, ascii_json(d->uuid), nodes_json(want, "mdev", d->uuid),
		   annotations_json(want, d));
}

/* A PCI device of this host as any other, if it is vfio-pci's. */
static void add_attached(json_t *devices, const struct cdi_want *want, const struct lent *d)
{
	const char *where = attached_as(offer_directory(d->address));
	const char *driver = where ? attached_driver(where) : NULL;

	if (driver && !strcmp(driver, "vfio-pci"))
		add_device(devices, ascii_json(where), nodes_json(want, "pci", where),
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

static void add_pair(json_t *devices, const struct cdi_want *want, const struct lent *gpu,
		     const struct lent *nic)
{
	json_t *nodes = nodes_json(want, "mdev", gpu->uuid);
	json_t *other = nodes_json(want, "mdev", nic->uuid);

	json_array_extend(nodes, other);
	if (json_array_size(nodes) == 2)
		add_device(devices, json_sprintf("pair-%s", gpu->uuid), json_incref(nodes),
			   annotations_json(want, gpu));
	json_decref(other);
	json_decref(nodes);
}

/* A GPU and a network card of one clique, as one device: a container that asks for it has both. */
static void add_pairs(json_t *devices, const struct cdi_want *want, const struct fabric *f)
{
	bool *paired = zeroed(f->devices, sizeof(*paired));

	for (size_t i = 0; i < f->devices; i++) {
		const struct lent *gpu = &f->device[i];
		size_t nic;

		if (!*gpu->uuid || strcmp(gpu->type, "dlend-gpu") || gpu->clique < 0)
			continue;
		nic = find_nic(f, paired, gpu);
		if (nic == f->devices)
			continue;
		paired[nic] = true;
		add_pair(devices, want, gpu, &f->device[nic]);
	}
}

static json_t *devices_json(const struct cdi_want *want, const struct fabric *f)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < f->devices; i++) {
		if (*f->device[i].uuid)
			add_mdev(devices, want, &f->device[i]);
		add_attached(devices, want, &f->device[i]);
	}
	add_pairs(devices, want, f);
	return devices;
}

int cmd_cdi(int argc, char **argv)
{
	const char *kind = CDI_KIND, *version = CDI_VERSION, *output = NULL;
	struct cdi_want want = { 0 };
	const struct verb_option options[] = {
		{ "kind", &kind }, { "cdi-version", &version }, { "output", &output },
		{ "iommufd", .flag = &want.own }, { "attach-pci", .flag = &want.attach_pci }, { 0 }
	};
	json_t *devices;
	struct fabric f;

	verb_words(argc, argv, options, 0, 0);
	check_version(version);
	check_file_name("output", output);
	check_kind_name(kind);
	f = fabric_load();
	devices = devices_json(&want, &f);
	if (!json_array_size(devices))
		fail(EXIT_NOT_FOUND, "nothing that a container could have on this node",
		     "a CDI file has to list at least one device",
		     "Start a mediated device first: mdevctl start -u $(uuidgen) -p ADDRESS --type TYPE.");
	if (output)
		output_begin(output,
			     "Make its directory (mkdir -p /etc/cdi), or give another file.");
	print_json(json_pack("{s:s, s:s, s:o}",
			     "cdiVersion", version, "kind", kind, "devices", devices));
	if (output)
		output_end();
	return EXIT_OK;
}
