// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the instructions that an emulated host executes in its kernel's modules: a plugin of
 * QEMU's (-plugin FILE.so,out=COUNTS), for bench/run.
 *
 * COUNTS is an array of 64-bit counters in this machine's byte order, one for each 16 bytes from
 * MODULES on: how many instructions of blocks that begin there have been executed.  Whoever wants
 * to know maps the file while the host runs; most of it is a hole.
 *
 * A block counts as a whole, when it begins: one that faults in its middle counts as if it had not.
 * A guest in that host that has modules is counted as well.
 *
 * Debian's packages do not have qemu-plugin.h; what is used of it stands here, as version 7 of the
 * interface has it (QEMU 11.1).  Another version is refused by QEMU, which says so.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct qemu_plugin_tb;

extern int qemu_plugin_version;
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*cb)(struct qemu_plugin_tb *tb, void *data),
					   void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int cpu, void *data), int flags,
					  void *data);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);

#define MODULES		0xffffffffa0000000ULL	/* x86-64: up to the end, with KASLR or without */
#define SHIFT		4
#define COUNTERS	((0ULL - MODULES) >> SHIFT)
#define INSNS_BITS	16	/* of a callback's data; the counter is above them */

int qemu_plugin_version = 7;

static uint64_t *counts;

static void executed(unsigned int cpu, void *data)
{
	uintptr_t block = (uintptr_t)data;

	(void)cpu;
	__atomic_fetch_add(&counts[block >> INSNS_BITS], block & ((1 << INSNS_BITS) - 1),
			   __ATOMIC_RELAXED);
}

static void translated(struct qemu_plugin_tb *tb, void *data)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	uintptr_t block;

	(void)data;
	if (address < MODULES)
		return;
	block = (address - MODULES) >> SHIFT << INSNS_BITS | qemu_plugin_tb_n_insns(tb);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, (void *)block);
}

static uint64_t *map_counts(const char *path)
{
	size_t size = COUNTERS * sizeof(*counts);
	void *map = MAP_FAILED;
	int fd;

	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0 && !ftruncate(fd, size))
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		perror(path);
	if (fd >= 0)
		close(fd);
	return map == MAP_FAILED ? NULL : map;
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "instructions: needs out=FILE, and nothing else\n");
		return -1;
	}
	counts = map_counts(argv[0] + 4);
	if (!counts)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated, NULL);
	return 0;
}
