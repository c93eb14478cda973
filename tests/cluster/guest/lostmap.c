// SPDX-License-Identifier: GPL-2.0-only
/*
 * lostmap DEVICE FILE [EDU]: a program has the device by VFIO, its registers mapped, and goes on
 * after it was lost, as a VMM does that plugs memory into its VM.  From the moment that FILE
 * exists it maps memory at new IO addresses, near the old ones and far from them, and takes all of
 * it back.
 * With EDU, a device that was not lost joins the same address space before that, and copies pages.
 *
 * Says "has it", and later "ok mapped BYTES"; or what is wrong, and exits with 1.
 */
#include "vmmedu.h"

#define BYTES		(2u << 20)
#define NEAR		(8ull << 20)
#define FAR		(1ull << 30)
#define MORE_BYTES	(64u << 20)	/* several pieces of the window */
#define TURNS		3

static void *ram(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("no memory");
	return at;
}

int main(int argc, char **argv)
{
	volatile uint32_t *edu = NULL;
	struct space s = {}, other;
	uint64_t mapped = 0;
	void *more;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: lostmap DEVICE FILE [EDU]\n");
		return 2;
	}
	make_memory(&s);
	more = ram(MORE_BYTES);
	open_space(argv[1], &s);
	start(open_device(argv[1], &s), 0);
	printf("has it\n");
	fflush(stdout);
	while (access(argv[2], F_OK))
		doze(10000);
	if (argc == 4) {
		other = space_of(argv[3], &s);
		edu = start(open_device(argv[3], &other), EDU_IDENT);
	}
	for (turn = 1; turn <= TURNS; turn++) {
		space_map(&s, NEAR, more, BYTES);
		space_map(&s, FAR, more, MORE_BYTES);
		mapped += BYTES + MORE_BYTES;
		if (edu)
			dma(edu);
		space_unmap(&s, NEAR, BYTES);
		space_unmap(&s, FAR, MORE_BYTES);
	}
	space_unmap(&s, 0, MEMORY);
	printf("ok mapped %llu\n", (unsigned long long)mapped);
	return 0;
}
