// SPDX-License-Identifier: GPL-2.0-only
/*
 * lostmap DEVICE FILE [EDU [first]]: a program has the device by VFIO, its registers mapped,
 * and goes on after it was lost, as a VMM does that plugs memory into its VM.  From the moment
 * that FILE exists it maps memory at new IO addresses, near the old ones and far from them,
 * and takes all of it back.  With EDU, a device that was not lost joins the same address space
 * before that, and copies pages; with "first", it was there before the loss, and copies pages
 * also after the lost one was closed.
 *
 * Says "has it", and later "ok mapped BYTES"; or what is wrong, and exits with 1.
 */
#include "vmmedu.h"

#define BYTES		(2u << 20)
#define NEAR		(8ull << 20)
#define FAR		(1ull << 30)
#define MORE_BYTES	(64u << 20)	/* several pieces of the window */
#define TURNS		3

static volatile uint32_t *join(const char *device, const struct space *s)
{
	struct space other = space_of(device, s);

	return start(open_device(device, &other), EDU_IDENT);
}

int main(int argc, char **argv)
{
	int first = argc == 5 && !strcmp(argv[4], "first"), fd;
	volatile uint32_t *regs, *edu = NULL;
	struct space s = {};
	uint64_t mapped = 0;
	void *more;

	if (argc < 3 || argc > 5 || (argc == 5 && !first)) {
		fprintf(stderr, "usage: lostmap DEVICE FILE [EDU [first]]\n");
		return 2;
	}
	make_memory(&s);
	more = new_memory(MORE_BYTES);
	open_space(argv[1], &s);
	fd = open_device(argv[1], &s);
	regs = start(fd, 0);
	if (first)
		edu = join(argv[3], &s);
	printf("has it\n");
	fflush(stdout);
	while (access(argv[2], F_OK))
		doze(10000);
	if (argc == 4)
		edu = join(argv[3], &s);
	for (turn = 1; turn <= TURNS; turn++) {
		space_map(&s, NEAR, more, BYTES);
		space_map(&s, FAR, more, MORE_BYTES);
		mapped += BYTES + MORE_BYTES;
		if (edu)
			dma(edu);
		space_unmap(&s, NEAR, BYTES);
		space_unmap(&s, FAR, MORE_BYTES);
	}
	if (first) {
		stop(fd, regs);
		if (s.iommufd < 0)
			close(s.group);
		dma(edu);
	}
	space_unmap(&s, 0, MEMORY);
	printf("ok mapped %llu\n", (unsigned long long)mapped);
	return 0;
}
