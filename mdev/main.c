// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-mdev: borrowed devices as mediated devices, for guests.
 */
#include <linux/module.h>
#include <dlend/compat.h>
#include <dlend/version.h>
#include "mdev.h"
#include "memory.h"
#include "vdev_debugfs.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static int __init dlend_mdev_init(void)
{
	int ret = dlend_memory_start();

	if (ret)
		return ret;
	dlend_vdev_debugfs_init();
	ret = dlend_mdev_start();
	if (ret)
		goto stop;
	return 0;

stop:
	dlend_vdev_debugfs_exit();
	dlend_memory_stop();
	return ret;
}

static void __exit dlend_mdev_exit(void)
{
	dlend_mdev_stop();
	dlend_vdev_debugfs_exit();
	dlend_memory_stop();
}

module_init(dlend_mdev_init);
module_exit(dlend_mdev_exit);
MODULE_DESCRIPTION("dlend: borrowed PCIe devices as mediated devices");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
