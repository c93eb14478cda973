// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-native: borrowed devices in this host's own PCI tree.
 */
#include <linux/module.h>
#include <dlend/compat.h>
#include "attach.h"
#include "iommu.h"

static int __init dlend_native_init(void)
{
	int ret = dlend_native_iommu_init();

	if (ret)
		return ret;
	ret = dlend_native_attach_start();
	if (ret)
		dlend_native_iommu_exit();
	return ret;
}

static void __exit dlend_native_exit(void)
{
	dlend_native_attach_stop();
	dlend_native_iommu_exit();
}

module_init(dlend_native_init);
module_exit(dlend_native_exit);
MODULE_DESCRIPTION("dlend: borrowed PCIe devices for this host's own drivers");
MODULE_LICENSE("GPL");
DLEND_IMPORT();
