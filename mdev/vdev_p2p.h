/* SPDX-License-Identifier: GPL-2.0 */
/* A vdev among the other devices of its VM. */
#ifndef DLEND_MDEV_VDEV_P2P_H
#define DLEND_MDEV_VDEV_P2P_H

#include <dlend/cfg.h>
#include <dlend/proto.h>
#include "vdev.h"

/** dlend_vdev_offered_clique - DLEND_OFFER_CLIQUE* as vdev->clique has it. Context: any. */
static inline int dlend_vdev_offered_clique(u16 clique)
{
	if (clique == DLEND_OFFER_CLIQUE_AUTO)
		return DLEND_CLIQUE_AUTO;
	if (clique == DLEND_OFFER_CLIQUE_NONE)
		return DLEND_CFG_CLIQUE_NONE;
	return clique - DLEND_OFFER_CLIQUE(0);
}

/**
 * dlend_vdev_p2p_join - a VMM opens the device: it is one of that VM's from now on
 * @v: (in, out) vdev; vdev->clique_shown is set
 *
 * Context: process. The end is dlend_p2p_leave().
 */
void dlend_vdev_p2p_join(struct dlend_vdev *v);

/**
 * dlend_vdev_p2p_await - wait until a device reaches the BARs of the VM's other devices
 * @v: (in) vdev, published as one that transfers
 *
 * What cannot be reached is not waited for, nor is anything if the device is to stop at once.
 *
 * Context: the worker (steps.c), none of the vdev's locks; may sleep for a second.
 */
void dlend_vdev_p2p_await(struct dlend_vdev *v);

/** dlend_vdev_publish - lease, Bus Master Enable or BARs may have changed. Context: vdev->lock. */
void dlend_vdev_publish(struct dlend_vdev *v);

#endif
