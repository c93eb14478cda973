// SPDX-License-Identifier: GPL-2.0-only
/*
 * sharers EDU [OTHER]: a program has EDU by VFIO, and maps memory again and again where no IOMMU
 * with 39 bits has an address.  Each time that is refused, and costs nothing: it can map elsewhere
 * afterwards, and the device copies.
 *
 * With OTHER in the same address space, it then waits until /tmp/go is there, and takes OTHER out
 * of it.
 *
 * Says "refused", "ok", "closed"; or what is wrong, and exits with 1.
 */
#include "vmmedu.h"

#define BEYOND	(1ull << 40)
#define STEP	(1ull << 30)	/* each in a place of its own in the window */
#define TURNS	100
#define MORE	(16ull << 20)

static void refused(const struct space *s)
{
	for (turn = 0; turn < TURNS; turn++)
		if (!space_try_map(s, BEYOND + turn * STEP, s->memory, PAGE))
			die("memory is mapped where a lender has no address");
	printf("refused\n");
	space_map(s, MORE, s->memory, PAGE);
	space_unmap(s, MORE, PAGE);
}

int main(int argc, char **argv)
{
	volatile uint32_t *edu;
	struct space s = {}, other;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: sharers EDU [OTHER]\n");
		return 2;
	}
	setlinebuf(stdout);
	make_memory(&s);
	open_legacy("pci", argv[1], &s);
	edu = start(open_device(argv[1], &s), EDU_IDENT);
	if (argc == 3) {
		other = s;
		other.group = open_group("pci", argv[2], s.container);
		/* VFIO resets a device as it is closed. */
		close(open_device(argv[2], &other));
	}
	refused(&s);
	turn = 1;
	dma(edu);
	printf("ok\n");
	if (argc == 2)
		return 0;
	await_go(0);
	close(other.group);
	printf("closed\n");
	return 0;
}
