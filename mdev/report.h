/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reports about guest memory for people: numbers, debugfs, and why a build has failed and what to
 * do about it.  (dlend_memory_stat(), _show(), _reason() and _pinned() of memory.h are here, too.)
 */
#ifndef DLEND_MDEV_REPORT_H
#define DLEND_MDEV_REPORT_H

#include "ram.h"

/**
 * dlend_report_err - say why a build has failed, for dlend_memory_reason() and in the log
 * @mem: (in, out) member
 * @fmt: (in) words, as for printf()
 *
 * The log gets only a reason that differs from the last one: builds fail again and again.
 *
 * Context: may sleep; takes ram->lock.
 */
__printf(2, 3) void dlend_report_err(struct dlend_memory *mem, const char *fmt, ...);

/** dlend_report_probe - say why RAM could not be pinned; @err: of the prober. Context: as above. */
void dlend_report_probe(struct dlend_memory *mem, int err);

/** dlend_report_window - say that the aperture is full, and what would help. Context: as above. */
void dlend_report_window(struct dlend_memory *mem);

#endif
