// SPDX-License-Identifier: GPL-2.0-only
/* dlend metrics: devices that this host lends. */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

static const struct metric_state states[] = {
	{ "preparing", "preparing" }, { "incomplete", "incomplete" }, { "free", "free" },
	{ "held", "held" }, { "returning", "returning" }, { "quarantined", "quarantined" },
	{ "reserved", "reserved" }, { "kept", "kept" },
	{ 0 }
};

/* Its files of debugfs. */
enum { LEASE, IRQS, DMA };

static const struct metric_row rows[] = {
	{ "dlend_lent_device_borrower_node",
	  "Node that has the device, or that it is reserved or kept for; 0: none.", "borrower",
	  FROM_SYSFS, UNIT_ONE },
	{ "dlend_lent_device_lease_epoch",
	  "Number of the current or the last lease; it grows with each lease.", "epoch",
	  FROM_SYSFS, UNIT_ONE },
	{ "dlend_lent_device_reset_failed",
	  "1 if the last reset of the device failed.", "broken", LEASE, UNIT_ONE },
	{ "dlend_lent_device_interrupts_total",
	  "Interrupts of the device since it is lent.", "total", IRQS, UNIT_ONE },
	{ "dlend_lent_device_vectors", "Interrupts that its borrower has set up.", "vectors",
	  IRQS, UNIT_ONE },
	{ "dlend_lent_device_mapped_bytes", "Memory that the device reaches now.",
	  "mapped_bytes", DMA, UNIT_ONE },
	{ "dlend_lent_device_dma_faults_total",
	  "Accesses of the device that the IOMMU refused in this lease, if its driver tells.",
	  "faults", DMA, UNIT_ONE },
	{ 0 }
};

const char *metrics_kind(char kind[TEXT_MAX], const char *dir)
{
	read_attr(kind, dir, "type");
	if (!strncmp(kind, "dlend-", 6))
		memmove(kind, kind + 6, strlen(kind + 6) + 1);
	return kind;
}

static void add_lent(struct metric_objects *lent, const char *bdf, char *dir)
{
	static const char *const files[] = { [LEASE] = "lease", [IRQS] = "irqs", [DMA] = "dma" };
	struct metric_object *o;
	const char *labels;
	char value[TEXT_MAX];

	labels = metric_label(NULL, "address", read_attr(value, dir, "fabric_name"));
	labels = metric_label(labels, "device", bdf);
	labels = metric_label(labels, "kind", metrics_kind(value, dir));
	o = metric_object_add(lent, labels, dir);
	for (size_t i = 0; i < METRIC_FILES; i++)
		o->file[i] = metric_file("lender", bdf, files[i]);
}

void metrics_lent(void)
{
	char *driver = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs), name[TEXT_MAX];
	struct names n = list_dir(driver);
	struct metric_objects lent = { 0 };

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s/dlend", driver, n.name[i]);

		if (*read_attr(name, dir, "fabric_name"))
			add_lent(&lent, n.name[i], dir);
		else
			free(dir);
	}
	metric_begin("dlend_lent_device_state", "1 for the state that the device is in.");
	metric_states(&lent, states);
	metric_rows(&lent, rows);
	metric_objects_free(&lent);
	names_free(&n);
	free(driver);
}
