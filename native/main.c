// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-native: borrowed devices in this host's own PCI tree.
 */
#include <linux/module.h>
#include <dlend/compat.h>
#include <dlend/version.h>
#include "attach.h"
#include "iommu.h"
#include "window.h"

static int __init dlend_native_init(void)
{
	int ret = dlend_native_windows_start();

	if (ret)
		return ret;
	ret = dlend_native_iommu_init();
	if (ret)
		goto stop_windows;
	ret = dlend_native_attach_start();
	if (ret)
		goto exit_iommu;
	return 0;

exit_iommu:
	dlend_native_iommu_exit();
stop_windows:
	dlend_native_windows_stop();
	return ret;
}

static void __exit dlend_native_exit(void)
{
	dlend_native_attach_stop();
	dlend_native_iommu_exit();
	dlend_native_windows_stop();
}

module_init(dlend_native_init);
module_exit(dlend_native_exit);
MODULE_DESCRIPTION("dlend: borrowed PCIe devices for this host's own drivers");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
