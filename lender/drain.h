/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether a device falls silent, so that its lease can move to another node without a reset, when
 * its guest stands still: its vCPUs do not run, and give the device no new commands. Pure logic.
 */
#ifndef DLEND_LENDER_DRAIN_H
#define DLEND_LENDER_DRAIN_H

#include <linux/types.h>

/* What a device does while its guest stands still. */
enum lend_drain {
	LEND_DRAINS,	/* it completes its outstanding commands, and is silent then: disks */
	LEND_CUT,	/* never silent; lost transfers are repeated or harmless: networks, sound */
	LEND_TRIED,	/* never silent; some models (cut_models) survive lost transfers: USB */
	LEND_NEVER,	/* never silent; drivers do not survive lost transfers: GPUs, the rest */
};

/**
 * lend_drain_kind - what a device does while its guest stands still
 * @class: (in) 24 bits: base class, sub-class, interface
 *
 * Context: any.
 * Return: what a device of that class does.
 */
enum lend_drain lend_drain_kind(u32 class);

/**
 * lend_drain_moves - may a device move to another node with its VM?
 * @kind: (in) what it does while its guest stands still
 * @forced: (in) the administrator who moves the VM accepts lost transfers
 * @tried: (in) the lender's administrator has listed this model (module parameter cut_models)
 *
 * Context: any.
 * Return: true: it may.
 */
bool lend_drain_moves(enum lend_drain kind, bool forced, bool tried);

/**
 * lend_models_find - look for a model in a list
 * @list: (in) "VVVV:DDDD,...": vendor and device in hexadecimal; up to a line's end
 * @vendor: (in) PCI vendor
 * @device: (in) PCI device
 *
 * Context: any.
 * Return: 1: the list has the model; 0: it does not; -EINVAL: @list does not have that form.
 */
int lend_models_find(const char *list, u16 vendor, u16 device);

/**
 * struct lend_silence - how long a device has been silent; all zero at first
 * @fired: number of interrupts at the last lend_silence_look()
 * @since_us: time of the first lend_silence_look() with this number
 * @begun: lend_silence_look() was called before
 */
struct lend_silence {
	u64 fired;
	u64 since_us;
	bool begun;
};

/**
 * lend_silence_look - note how many interrupts a device has sent
 * @s: (in, out) silence
 * @fired: (in) number of interrupts so far
 * @now_us: (in) time in microseconds, of any monotonic clock
 *
 * Context: any; the caller serialises.
 * Return: microseconds since the call that first saw this number of interrupts.
 */
u64 lend_silence_look(struct lend_silence *s, u64 fired, u64 now_us);

#endif
