// SPDX-License-Identifier: GPL-2.0
/*
 * VMMs: see vmm.h.
 */
#include <linux/capability.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "vmm.h"

void dlend_vmm_copy(struct dlend_vmm *to, const struct dlend_vmm *from)
{
	*to = *from;
	get_task_struct(to->task);
	mmgrab(to->mm);
}

void dlend_vmm_note(struct dlend_vmm *vmm)
{
	dlend_vmm_drop(vmm);
	dlend_vmm_copy(vmm, &(struct dlend_vmm) {
		.task = current->group_leader,
		.mm = current->mm,
		.locks_all = capable(CAP_IPC_LOCK),
	});
}

void dlend_vmm_drop(struct dlend_vmm *vmm)
{
	if (!vmm->task)
		return;
	put_task_struct(vmm->task);
	mmdrop(vmm->mm);
	vmm->task = NULL;
}

u64 dlend_vmm_lockable(const struct dlend_vmm *vmm)
{
	unsigned long most = task_rlimit(vmm->task, RLIMIT_MEMLOCK);

	return vmm->locks_all || most == RLIM_INFINITY ? U64_MAX : most;
}

struct mem_cgroup *dlend_vmm_charge(const struct dlend_vmm *vmm)
{
	return set_active_memcg(get_mem_cgroup_from_mm(vmm->mm));
}

void dlend_vmm_charged(struct mem_cgroup *before)
{
	mem_cgroup_put(set_active_memcg(before));
}
