/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/gfp.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_GFP_H
#define SHIM_LINUX_GFP_H

#include <linux/types.h>

#define GFP_KERNEL		0u
#define GFP_ATOMIC		0u
#define GFP_NOWAIT		0u
#define GFP_KERNEL_ACCOUNT	0u
#define GFP_NOIO		0u
#define __GFP_ACCOUNT		0u
#define __GFP_NOWARN		0u
#define __GFP_NOFAIL		0u
#define __GFP_RETRY_MAYFAIL	0u

#endif
