/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/compiler.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#include <linux/types.h>

#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v)	(*(volatile typeof(x) *)&(x) = (v))
#define fallthrough		__attribute__((fallthrough))
#define noinline		__attribute__((noinline))
#define __must_check		__attribute__((warn_unused_result))
#define __maybe_unused		__attribute__((unused))
#define __always_unused		__attribute__((unused))
#define __printf(a, b)		__attribute__((format(printf, a, b)))
#define __force
#define __user
#define __iomem
#define __init
#define __exit
#define barrier()		__asm__ __volatile__("" ::: "memory")
#define smp_wmb()		__atomic_thread_fence(__ATOMIC_RELEASE)
#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_mb()		__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define dma_wmb()		smp_wmb()
#define dma_rmb()		smp_rmb()
#define wmb()			smp_mb()
#define rmb()			smp_mb()
#define mb()			smp_mb()

#endif
