/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/prandom.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_PRANDOM_H
#define SHIM_LINUX_PRANDOM_H

#include <linux/types.h>

/* Not the kernel's numbers, but the same ones in every run. */
struct rnd_state {
	u64 s;
};

static inline void prandom_seed_state(struct rnd_state *state, u64 seed)
{
	state->s = seed ^ 0x9e3779b97f4a7c15ULL;
}

static inline u32 prandom_u32_state(struct rnd_state *state)
{
	state->s ^= state->s << 13;
	state->s ^= state->s >> 7;
	state->s ^= state->s << 17;
	return state->s >> 32;
}

static inline void prandom_bytes_state(struct rnd_state *state, void *buf, size_t n)
{
	u8 *p = buf;

	while (n--)
		*p++ = prandom_u32_state(state);
}

#endif
