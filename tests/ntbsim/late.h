/* SPDX-License-Identifier: GPL-2.0 */
/* Writes through a window that arrive later than they would have to: a fault switch. */
#ifndef NTBSIM_LATE_H
#define NTBSIM_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

struct ntb_side;
struct late_write;

struct late {
	unsigned int ms;	/* longest delay; 0: none */
	uint64_t from;		/* what goes to offsets below is not late */
	bool interrupts;	/* only what leads to an x86 processor's interrupts is */
	struct late_write *head, **end;
	struct timer timer;
};

/* From now on. @ms 0: no more. */
void late_set(struct ntb_side *s, unsigned int ms, uint64_t from, bool interrupts);
/* Return: whether it is kept for later. */
bool late_takes(struct ntb_side *s, unsigned int w, uint64_t off, const void *data, size_t len);
/* All of them arrive: somebody reads. */
void late_push(struct ntb_side *s);
/* All of them are lost: the function is reset. */
void late_drop(struct ntb_side *s);

#endif
