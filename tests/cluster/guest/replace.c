// SPDX-License-Identifier: GPL-2.0-only
/*
 * replace EDU: a program has the device by iommufd, and moves it to another address space, which
 * has memory at an IO address that no IOMMU with 39 bits has.  That fails: the device must reach
 * what it reached before, and can then be moved to an address space without that memory.
 *
 * Says "refused ERRNO" and "ok"; or what is wrong, and exits with 1.
 */
#include "vmmedu.h"

#define BEYOND	(1ull << 40)

/* As a VMM does that wants the domain before it moves the device. */
static uint32_t domain_of(const struct space *s, uint32_t device)
{
	struct iommu_hwpt_alloc alloc = {
		.size = sizeof(alloc),
		.dev_id = device,
		.pt_id = s->ioas,
	};

	must(ioctl(s->iommufd, IOMMU_HWPT_ALLOC, &alloc), "no domain");
	return alloc.out_hwpt_id;
}

static void replace(const char *name, struct space *s)
{
	volatile uint32_t *edu;
	uint32_t number, domain;
	struct space other;
	int fd;

	if (!iommufd_device(name, s))
		die("it cannot be had by iommufd");
	fd = device_file(s);
	number = bind_device(fd, s);
	attach_device(fd, s);
	edu = start(fd, EDU_IDENT);
	turn = 1;
	dma(edu);
	other = *s;
	alloc_space(&other, 1);
	space_map(&other, BEYOND, s->memory, PAGE);
	domain = domain_of(&other, number);
	if (!move_device(fd, domain))
		die("it was moved to where a lender cannot follow");
	printf("refused %d\n", errno);
	turn = 2;
	dma(edu);
	space_unmap(&other, BEYOND, PAGE);
	must(move_device(fd, domain), "not moved");
	turn = 3;
	dma(edu);
	alloc_space(&other, 1);
	attach_device(fd, &other);
	turn = 4;
	dma(edu);
}

int main(int argc, char **argv)
{
	struct space s = {};

	if (argc != 2) {
		fprintf(stderr, "usage: replace EDU\n");
		return 2;
	}
	make_memory(&s);
	open_iommufd(&s, 1);
	replace(argv[1], &s);
	printf("ok\n");
	return 0;
}
