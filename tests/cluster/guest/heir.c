// SPDX-License-Identifier: GPL-2.0-only
/*
 * heir MDEV: a VMM that opens the device and ends, while a child of its has the device on; so there
 * can be a process of its number that has nothing to do with it.
 *
 * The child says "heir PID of PID", of itself and of its parent, when that has ended, and goes on
 * until it is killed.
 */
#include <sys/prctl.h>
#include <signal.h>

#include "vmm.h"

#define BASE		(4u << 20)

int main(int argc, char **argv)
{
	struct space s = { .bytes = BASE };
	pid_t parent = getpid();
	sigset_t end;
	int got;

	if (argc != 2) {
		fprintf(stderr, "usage: heir MDEV\n");
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
