/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The VMM that has opened a device: how much it may lock, and who is charged for the memory that
 * the kernel needs for it.
 */
#ifndef DLEND_MDEV_VMM_H
#define DLEND_MDEV_VMM_H

#include <linux/sched.h>
#include <linux/types.h>
#include <dlend/link.h>

struct mem_cgroup;
struct mm_struct;

/**
 * struct dlend_vmm - a VMM
 * @task: its first thread, with a reference; NULL: none
 * @mm: its address space, which may have ended, with a reference
 * @locks_all: it may lock as much as it likes (CAP_IPC_LOCK)
 */
struct dlend_vmm {
	struct task_struct *task;
	struct mm_struct *mm;
	bool locks_all;
};

/** dlend_vmm_party - a process, by its first @thread. Context: any. */
static inline struct dlend_party dlend_vmm_party(const struct task_struct *thread)
{
	return (struct dlend_party){ .pid = thread->tgid, .since = thread->start_boottime };
}

/** dlend_vmm_note - it is the caller from now on; @vmm: (in, out). Context: system call. */
void dlend_vmm_note(struct dlend_vmm *vmm);

/** dlend_vmm_copy - as @from, which is there; @to: (out). Context: any. */
void dlend_vmm_copy(struct dlend_vmm *to, const struct dlend_vmm *from);

/** dlend_vmm_drop - give the references back, if there are any. Context: process. */
void dlend_vmm_drop(struct dlend_vmm *vmm);

/**
 * dlend_vmm_lockable - how much may it lock in all, as things are now?
 * @vmm: (in) VMM
 *
 * Context: any. Return: bytes, U64_MAX: as much as it likes.
 */
u64 dlend_vmm_lockable(const struct dlend_vmm *vmm);

/**
 * dlend_vmm_charge - from now on its control group is charged for what this thread allocates
 * @vmm: (in) VMM
 *
 * What is allocated with __GFP_ACCOUNT, that is.  It has to be DLEND_BOOKS_GFP, or to fail as that
 * does: so VFIO is not called, and nothing is mapped, until dlend_vmm_charged().
 *
 * Context: process, may sleep. Return: for dlend_vmm_charged(), which has to follow.
 */
struct mem_cgroup *dlend_vmm_charge(const struct dlend_vmm *vmm);

/** dlend_vmm_charged - as before dlend_vmm_charge(), which returned @before. Context: as there. */
void dlend_vmm_charged(struct mem_cgroup *before);

#endif
