/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts of a borrowed device, as VFIO shows them. */
#ifndef DLEND_MDEV_IRQ_H
#define DLEND_MDEV_IRQ_H

#include "vdev.h"

struct vfio_irq_set;

/** dlend_irqs_init - prepare a new vdev. Context: any. */
void dlend_irqs_init(struct dlend_vdev *v);

/** dlend_irqs_close - the last file is closed: signal nothing any more. Context: may sleep. */
void dlend_irqs_close(struct dlend_vdev *v);

/** dlend_irqs_count - number of interrupts of VFIO's @index. Context: any. */
unsigned int dlend_irqs_count(struct dlend_vdev *v, unsigned int index);

/** dlend_irqs_flags - VFIO_IRQ_INFO_* of VFIO's @index. Context: any. */
u32 dlend_irqs_flags(unsigned int index);

/**
 * dlend_irqs_set - VFIO_DEVICE_SET_IRQS
 * @v: (in) vdev
 * @hdr: (in) checked against the number of interrupts
 * @data: (in) as many values as @hdr says; NULL if it has none
 *
 * Context: process; waits for the lender, bounded, if it has to set something up for that.
 * Return: 0 or -errno; > 0, as vfio-pci does: the lender has only so many vectors, and none is set
 * up any more; -ENOSPC: the lender has none at all, and none is set up any more; or it lacks only
 * those of @hdr, and the others stay.
 */
int dlend_irqs_set(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);

/**
 * dlend_irqs_fired - interrupts have come from the device
 * @v: (in) vdev
 * @vector, @count: (in) which, and how many
 *
 * Context: any, hard interrupt too.
 */
void dlend_irqs_fired(struct dlend_vdev *v, u32 vector, u32 count);

/**
 * dlend_irqs_live - what the lender delivers from now on
 * @v: (in) vdev
 * @mode: (in) interrupts
 * @resized: (in) their number has changed, and some may be lost: signal every vector once
 *
 * Context: process.
 */
void dlend_irqs_live(struct dlend_vdev *v, enum dlend_irq_mode mode, bool resized);

/** dlend_irqs_disable_intx - the guest's COMMAND turns INTx off, or on. Context: process. */
void dlend_irqs_disable_intx(struct dlend_vdev *v, bool disable);

/**
 * dlend_irqs_intx_is_kvms - does the guest have INTx, by way of KVM?
 * @v: (in) vdev
 *
 * That is so if the VMM has given an eventfd for the unmask, which KVM signals at the guest's end
 * of interrupt; a VMM that passes INTx on by itself unmasks it by calls.
 *
 * Context: vdev->lock held.
 */
bool dlend_irqs_intx_is_kvms(struct dlend_vdev *v);

/** dlend_irqs_intx_up - does the lender wait for the guest to serve INTx? Context: process. */
bool dlend_irqs_intx_up(struct dlend_vdev *v);

/**
 * dlend_irqs_signal - send the VMM itself a message
 * @v: (in) vdev
 * @index: (in) VFIO_PCI_ERR_IRQ_INDEX or VFIO_PCI_REQ_IRQ_INDEX
 *
 * Context: process. Return: does the VMM listen?
 */
bool dlend_irqs_signal(struct dlend_vdev *v, unsigned int index);

#endif
