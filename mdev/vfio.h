/* SPDX-License-Identifier: GPL-2.0 */
/* The VFIO PCI device that a VMM sees. */
#ifndef DLEND_MDEV_VFIO_H
#define DLEND_MDEV_VFIO_H

struct vfio_device_ops;

extern const struct vfio_device_ops dlend_vfio_ops;

#endif
