/* SPDX-License-Identifier: GPL-2.0 */
/* Resources: parts of an NTB's BAR, as windows of root buses. */
#ifndef DLEND_NATIVE_WINDOW_H
#define DLEND_NATIVE_WINDOW_H

#include <linux/ioport.h>
#include <linux/list.h>

struct dlend_link;
struct dlend_native_fn;
struct dlend_native_region;

/**
 * struct dlend_native_window - a BAR of a lent device, in the BAR of this host's NTB
 * @res: in the kernel's tree of resources, below the NTB's BAR
 * @region: the NTB's BAR
 * @node: among its windows
 * @fn: whose BAR it is
 * @idle: no driver has the device any more
 */
struct dlend_native_window {
	struct resource res;
	struct dlend_native_region *region;
	struct list_head node;
	struct dlend_native_fn *fn;
	bool idle;
};

/** dlend_native_windows_start - before the first window. Context: process. Return: 0 or -errno. */
int dlend_native_windows_start(void);

/** dlend_native_windows_stop - after the last one. Context: process. */
void dlend_native_windows_stop(void);

/**
 * dlend_native_window_open - make room for drivers to request a lent device's BAR
 * @w: (out) window, zeros
 * @fn: function; is lost, and let go of, before the NTB loses its driver. Stays until the close
 * @link: (in) link whose window it is in
 * @at: (in) physical address
 * @size: (in) bytes, page multiple
 *
 * The NTB's driver has reserved its BAR as a whole; that reservation is given up until the last
 * window in that BAR is closed.
 * Context: process, may sleep. Return: 0; -ENODEV @at is in no BAR of the NTB, or that is losing
 * its driver; -EBUSY; -ENOMEM.
 */
int dlend_native_window_open(struct dlend_native_window *w, struct dlend_native_fn *fn,
			     struct dlend_link *link, phys_addr_t at, u64 size);

/**
 * dlend_native_window_idle - no driver has the device any more
 * @w: window; its device is still there, and gets no driver again
 *
 * Context: process, may sleep.
 */
void dlend_native_window_idle(struct dlend_native_window *w);

/** dlend_native_window_close - undo that; one that is not open is fine. Context: process. */
void dlend_native_window_close(struct dlend_native_window *w);

#endif
