// SPDX-License-Identifier: GPL-2.0-only
/*
 * served legacy|iommufd MDEV...: a VMM some of whose RAM is a file of a FUSE file system, privately
 * mapped.  The server of that file, another process, never answers a read.  So whoever pins this
 * RAM waits in a page fault, which no signal ends.
 *
 * The server says "read PID", of itself, as soon as somebody waits; it goes on until it is killed,
 * and so does the VMM.
 */
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "vmm.h"

#define BASE		(4u << 20)
#define GPA		(4ull << 30)
#define SERVED		(2u << 20)
#define MOUNT		"/run/served.ram"
#define DEVICES		4u

/* The file system is this one file. */
static size_t answer(const struct fuse_in_header *request, void *body)
{
	const struct fuse_init_in *wish = (const void *)(request + 1);
	struct fuse_init_out *init = body;
	struct fuse_attr_out *attr = body;
	struct fuse_open_out *opened = body;

	switch (request->opcode) {
	case FUSE_INIT:
		*init = (struct fuse_init_out){ .major = FUSE_KERNEL_VERSION,
						.minor = FUSE_KERNEL_MINOR_VERSION,
						.max_readahead = wish->max_readahead,
						.max_write = PAGE };
		return sizeof(*init);
	case FUSE_GETATTR:
		*attr = (struct fuse_attr_out){ .attr = { .ino = FUSE_ROOT_ID, .size = SERVED,
							  .mode = S_IFREG | 0600, .nlink = 1 } };
		return sizeof(*attr);
	case FUSE_OPEN:
		*opened = (struct fuse_open_out){ .fh = 1 };
		return sizeof(*opened);
	}
	return 0;
}

static void serve(int fuse)
{
	static union {
		struct fuse_in_header request;
		char bytes[FUSE_MIN_READ_BUFFER + PAGE];
	} in;
	struct {
		struct fuse_out_header head;
		char body[256];
	} out = {};

	while (read(fuse, &in, sizeof(in)) > 0) {
		if (in.request.opcode == FUSE_READ) {
			printf("read %d\n", getpid());
			continue;
		}
		out.head = (struct fuse_out_header){ .unique = in.request.unique };
		out.head.len = sizeof(out.head) + answer(&in.request, out.body);
		if (out.head.len == sizeof(out.head))
			out.head.error = -ENOSYS;
		if (in.request.opcode != FUSE_FORGET && in.request.opcode != FUSE_INTERRUPT &&
		    write(fuse, &out, out.head.len) < 0)
			die("the kernel does not take an answer");
	}
	exit(0);
}

/* RAM as the server has it, which outlives the VMM. */
static void *served_memory(void)
{
	int fuse = must(open("/dev/fuse", O_RDWR), "/dev/fuse");
	char options[80];
	struct stat st;
	void *at;
	int file;

	close(must(open(MOUNT, O_CREAT | O_RDWR, 0600), MOUNT));
	snprintf(options, sizeof(options), "fd=%d,rootmode=100600,user_id=0,group_id=0", fuse);
	must(mount("served", MOUNT, "fuse", 0, options), "not mounted");
	if (!must(fork(), "no server")) {
		setsid();
		serve(fuse);
	}
	close(fuse);
	file = must(open(MOUNT, O_RDWR), MOUNT);
	if (fstat(file, &st) || st.st_size != SERVED)
		die("the file is not served");
	at = mmap(NULL, SERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	if (at == MAP_FAILED)
		die("the file is not mapped");
	/* Its name is needed no more. */
	must(umount2(MOUNT, MNT_DETACH), "not unmounted");
	return at;
}

int main(int argc, char **argv)
{
	struct space s = { .bytes = BASE }, each[DEVICES];
	int fd[DEVICES], legacy, i;
	void *served;

	legacy = argc > 1 && !strcmp(argv[1], "legacy");
	if (argc < 3 || argc > 2 + (int)DEVICES || (!legacy && strcmp(argv[1], "iommufd"))) {
		fprintf(stderr, "usage: served legacy|iommufd MDEV...\n");
		return 2;
	}
	argc -= 2;
	argv += 2;
	setlinebuf(stdout);
	s.memory = new_memory(BASE);
	served = served_memory();
	vm_slot(0, 0, s.memory, BASE);
	vm_slot(1, GPA, served, SERVED);
	open_how(legacy, argv[0], &s);
	space_map(&s, GPA, served, SERVED);
	for (i = 0; i < argc; i++) {
		each[i] = i ? space_of(argv[i], &s) : s;
		fd[i] = open_in_vm(argv[i], &each[i]);
	}
	for (i = 0; i < argc; i++)
		enable_device(fd[i]);
	pause();
	return 0;
}
