// SPDX-License-Identifier: GPL-2.0-only
/*
 * heir MDEV: a VMM that opens the device and ends, while a child of its has the device on; so there
 * can be a process of its number that has nothing to do with it.
 *
 * The child says "heir PID of PID", of itself and of its parent, when that has ended, and goes on
 * until it is killed.
 *
 * heir --as NUMBER PROGRAM [ARGUMENT...]: begins this program as the process of that number.
 */
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>

#include "vmm.h"

#define BASE		(4u << 20)

/* Of an ended process, the number is free when the last that remembers it is done. */
static int begin_as(pid_t number, char **command)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&number,
		.set_tid_size = 1,
	};
	int pid;

	while ((pid = syscall(SYS_clone3, &args, sizeof(args))) < 0 && errno == EEXIST)
		doze(5000);
	if (must(pid, "no process of that number"))
		return 0;
	execv(command[0], command);
	return must(-1, command[0]);
}

int main(int argc, char **argv)
{
	struct space s = { .bytes = BASE };
	pid_t parent = getpid();
	sigset_t end;
	int got;

	if (argc > 3 && !strcmp(argv[1], "--as"))
		return begin_as(atoi(argv[2]), argv + 3);
	if (argc != 2) {
		fprintf(stderr, "usage: heir MDEV | heir --as NUMBER PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	setlinebuf(stdout);
	s.memory = new_memory(BASE);
	vm_slot(0, 0, s.memory, BASE);
	open_space(argv[1], &s);
	enable_device(open_in_vm(argv[1], &s));
	while (mdev_number(argv[1], "pinned_bytes") != BASE)
		doze(5000);
	sigemptyset(&end);
	sigaddset(&end, SIGUSR1);
	sigprocmask(SIG_BLOCK, &end, NULL);
	if (must(fork(), "no child"))
		return 0;
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	if (getppid() == parent)
		sigwait(&end, &got);
	printf("heir %d of %d\n", getpid(), parent);
	pause();
	return 0;
}
