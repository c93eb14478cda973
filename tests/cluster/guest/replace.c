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

static uint32_t another_space(const struct space *s, struct space *other)
{
	struct iommu_ioas_alloc alloc = { .size = sizeof(alloc) };

	*other = *s;
	must(ioctl(s->iommufd, IOMMU_IOAS_ALLOC, &alloc), "no second address space");
	other->ioas = alloc.out_ioas_id;
	space_map(other, 0, s->memory, s->bytes);
	return other->ioas;
}

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

static int move(int fd, uint32_t to)
{
	struct vfio_device_attach_iommufd_pt attach = { .argsz = sizeof(attach), .pt_id = to };

	return ioctl(fd, VFIO_DEVICE_ATTACH_IOMMUFD_PT, &attach);
}

int main(int argc, char **argv)
{
	struct vfio_device_bind_iommufd bind = { .argsz = sizeof(bind) };
	struct space s = {}, far, near;
	volatile uint32_t *edu;
	uint32_t domain;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: replace EDU\n");
		return 2;
	}
	make_memory(&s);
	if (!iommufd_device(argv[1], &s))
		die("it cannot be had by iommufd");
	open_iommufd(&s, 1);
	fd = device_file(&s);
	bind.iommufd = s.iommufd;
	must(ioctl(fd, VFIO_DEVICE_BIND_IOMMUFD, &bind), "not bound to iommufd");
	attach_device(fd, &s);
	edu = start(fd, EDU_IDENT);
	turn = 1;
	dma(edu);
	another_space(&s, &far);
	space_map(&far, BEYOND, s.memory, PAGE);
	domain = domain_of(&far, bind.out_devid);
	if (!move(fd, domain))
		die("it was moved to where a lender cannot follow");
	printf("refused %d\n", errno);
	turn = 2;
	dma(edu);
	space_unmap(&far, BEYOND, PAGE);
	must(move(fd, domain), "not moved");
	turn = 3;
	dma(edu);
	another_space(&s, &near);
	must(move(fd, near.ioas), "not moved back");
	turn = 4;
	dma(edu);
	printf("ok\n");
	return 0;
}
