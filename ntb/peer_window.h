/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How this node reaches what is in its peer's aperture: through an NTB window, or, where the peer
 * is this node itself, by looking it up in the one aperture that there is.
 *
 * What users open is declared in dlend/link.h (struct dlend_window, dlend_link_dma_map()).
 */
#ifndef DLEND_NTB_PEER_WINDOW_H
#define DLEND_NTB_PEER_WINDOW_H

#include <linux/types.h>

struct dlend_link;
struct dlend_peer_window_ops;
struct dlend_window;

/**
 * struct dlend_peer_window - the way to the peer's aperture
 * @ops: through a window, or on the loop
 * @base: physical address of the window here; 0 on the loop
 * @size: bytes of the window; 0 while unknown
 * @aperture: bytes of the peer's aperture, as the peer says; 0 while unknown
 *
 * Set by set-up and session under state_lock, read without it while a session is up.
 */
struct dlend_peer_window {
	const struct dlend_peer_window_ops *ops;
	phys_addr_t base;
	u64 size;
	u64 aperture;
};

/** dlend_peer_window_init - choose the way that the link's hardware has. Context: any. */
void dlend_peer_window_init(struct dlend_link *link);

/**
 * dlend_peer_window_map - make the peer's control area reachable as link->peer_ctrl
 * @link: link; with its own control area
 *
 * Context: process, may sleep, under state_lock.
 * Return: 0; -ENOSPC the window is smaller than 1 MiB; -ENOMEM; or the hardware's error.
 */
int dlend_peer_window_map(struct dlend_link *link);

/** dlend_peer_window_unmap - undo dlend_peer_window_map(). Context: process, under state_lock. */
void dlend_peer_window_unmap(struct dlend_link *link);

/**
 * dlend_window_map - map a window on RAM into the kernel's address space
 * @w: (in) open window
 *
 * On the loop the mapping must not be used any more once dlend_window.revoked() was called.
 * Context: process, may sleep. Return: the mapping, or NULL.
 */
void __iomem *dlend_window_map(struct dlend_window *w);

/**
 * dlend_window_unmap - undo dlend_window_map()
 * @link: link of the window, which may be closed already
 * @mem: (in) the mapping, or NULL
 *
 * Context: process, may sleep.
 */
void dlend_window_unmap(struct dlend_link *link, void __iomem *mem);

#endif
