/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a VMM does with a device, for programs on the borrower's host that play one, with no guest:
 * an address space with memory in it, by iommufd if the kernel gives the device a file of its own
 * there, else by the legacy container.  A device is a mediated one, by UUID, or one of vfio-pci's,
 * by its PCI address.  What goes wrong ends the program, with a message.
 */
#ifndef DLEND_GUEST_VMM_H
#define DLEND_GUEST_VMM_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <linux/iommufd.h>
#include <linux/kvm.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>

#define PAGE		4096u

static unsigned int turn;	/* which of several, for messages */

static inline __attribute__((noreturn)) void die(const char *what)
{
	fprintf(stderr, "%s %u: %s (%s)\n", program_invocation_short_name, turn, what,
		strerror(errno));
	exit(1);
}

static inline int must(int ret, const char *what)
{
	if (ret < 0)
		die(what);
	return ret;
}

/* Memory as a VMM has it for its guest. */
static inline void *new_memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("no memory");
	return at;
}

/* What a VMM has once: an address space with guest RAM in it, from 0. */
struct space {
	void *memory;
	size_t bytes;
	int container, group;	/* legacy */
	int v1;			/* and of the version that nobody should use */
	int iommufd;		/* or -1 */
	uint32_t ioas;
	char device[300];	/* with iommufd: its path */
};

/* The bus of a device: PCI addresses have colons, UUIDs have none. */
static inline char const *bus_of(const char *device)
{
	return strchr(device, ':') ? "pci" : "mdev";
}

/* Can it be opened by iommufd? */
static inline int iommufd_device(const char *device, struct space *s)
{
	char path[300];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/bus/%s/devices/%s/vfio-dev", bus_of(device), device);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "vfio", 4))
			snprintf(s->device, sizeof(s->device), "/dev/vfio/devices/%s",
				 entry->d_name);
	if (dir)
		closedir(dir);
	return s->device[0] && !access(s->device, R_OK | W_OK) &&
	       !access("/dev/iommu", R_OK | W_OK);
}

/* @bytes of @at are the guest's at @gpa from now on.  Returns 0, or -1 and errno. */
static inline int space_try_map(const struct space *s, uint64_t gpa, void *at, uint64_t bytes)
{
	struct vfio_iommu_type1_dma_map legacy = {
		.argsz = sizeof(legacy),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)at,
		.iova = gpa,
		.size = bytes,
	};
	struct iommu_ioas_map map = {
		.size = sizeof(map),
		.flags = IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_READABLE |
			 IOMMU_IOAS_MAP_WRITEABLE,
		.ioas_id = s->ioas,
		.user_va = (uintptr_t)at,
		.length = bytes,
		.iova = gpa,
	};

	if (s->iommufd < 0)
		return ioctl(s->container, VFIO_IOMMU_MAP_DMA, &legacy);
	return ioctl(s->iommufd, IOMMU_IOAS_MAP, &map);
}

static inline void space_map(const struct space *s, uint64_t gpa, void *at, uint64_t bytes)
{
	must(space_try_map(s, gpa, at, bytes), "memory is not mapped");
}

/* And not any more: exactly what was mapped. */
static inline void space_unmap(const struct space *s, uint64_t gpa, uint64_t bytes)
{
	struct vfio_iommu_type1_dma_unmap legacy = {
		.argsz = sizeof(legacy),
		.iova = gpa,
		.size = bytes,
	};
	struct iommu_ioas_unmap unmap = {
		.size = sizeof(unmap),
		.ioas_id = s->ioas,
		.iova = gpa,
		.length = bytes,
	};

	if (s->iommufd < 0)
		must(ioctl(s->container, VFIO_IOMMU_UNMAP_DMA, &legacy), "memory is not unmapped");
	else
		must(ioctl(s->iommufd, IOMMU_IOAS_UNMAP, &unmap), "memory is not unmapped");
}

/* A new address space, of the same iommufd. */
static inline void alloc_space(struct space *s, int with_memory)
{
	struct iommu_ioas_alloc alloc = { .size = sizeof(alloc) };

	must(ioctl(s->iommufd, IOMMU_IOAS_ALLOC, &alloc), "no address space");
	s->ioas = alloc.out_ioas_id;
	if (with_memory)
		space_map(s, 0, s->memory, s->bytes);
}

static inline void open_iommufd(struct space *s, int with_memory)
{
	s->iommufd = must(open("/dev/iommu", O_RDWR), "/dev/iommu");
	alloc_space(s, with_memory);
}

/* The IOMMU group of a device, in a container from now on. */
static inline int open_group(const char *bus, const char *device, int container)
{
	char path[300], link[300];
	ssize_t n;
	int group;

	snprintf(path, sizeof(path), "/sys/bus/%s/devices/%s/iommu_group", bus, device);
	n = readlink(path, link, sizeof(link) - 1);
	must(n, path);
	link[n] = '\0';
	snprintf(path, sizeof(path), "/dev/vfio%s", strrchr(link, '/'));
	group = must(open(path, O_RDWR), path);
	must(ioctl(group, VFIO_GROUP_SET_CONTAINER, &container), "no container");
	return group;
}

/* @bus: "mdev", or "pci" for a device of vfio-pci's */
static inline void open_legacy(const char *bus, const char *device, struct space *s)
{
	s->iommufd = -1;
	s->container = must(open("/dev/vfio/vfio", O_RDWR), "/dev/vfio/vfio");
	s->group = open_group(bus, device, s->container);
	must(ioctl(s->container, VFIO_SET_IOMMU, s->v1 ? VFIO_TYPE1_IOMMU : VFIO_TYPE1v2_IOMMU),
	     "no type 1");
	space_map(s, 0, s->memory, s->bytes);
}

/* As the caller says. */
static inline void open_how(int legacy, const char *device, struct space *s)
{
	if (legacy)
		open_legacy(bus_of(device), device, s);
	else if (iommufd_device(device, s))
		open_iommufd(s, 1);
	else
		die("no iommufd");
}

/* By iommufd, if the device can be had so. */
static inline void open_space(const char *device, struct space *s)
{
	if (!s->v1 && iommufd_device(device, s))
		open_iommufd(s, 1);
	else
		open_legacy(bus_of(device), device, s);
}

static inline uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ull + ts.tv_nsec / 1000;
}

/* A number of the mdev's in debugfs. */
static inline unsigned long long mdev_number(const char *uuid, const char *key)
{
	unsigned long long value;
	char path[300], name[64];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/dlend/mdev/%s/stats", uuid);
	f = fopen(path, "r");
	if (!f)
		die(path);
	while (fscanf(f, "%63s %llu%*[^\n]", name, &value) > 0 && strcmp(name, key))
		;
	fclose(f);
	if (strcmp(name, key))
		die(key);
	return value;
}

/* Less if it is interrupted. */
static inline void doze(unsigned int us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000L }, NULL);
}

/* Until the scenario says so; @most_us: or for so long, 0: without an end. */
static inline void await_go(uint64_t most_us)
{
	uint64_t begin = now_us();

	while (access("/tmp/go", F_OK)) {
		if (most_us && now_us() - begin > most_us)
			die("nobody says go");
		doze(1000);
	}
}

/* The VM, of which there is one. */
static inline int vm_file(void)
{
	static int vm = -1;

	if (vm < 0)
		vm = must(ioctl(must(open("/dev/kvm", O_RDWR), "/dev/kvm"), KVM_CREATE_VM, 0),
			  "no VM");
	return vm;
}

/* A memory slot of the VM: guest RAM at @gpa, which is @at here. */
static inline void vm_slot(unsigned int number, uint64_t gpa, void *at, uint64_t bytes)
{
	struct kvm_userspace_memory_region region = {
		.slot = number,
		.guest_phys_addr = gpa,
		.memory_size = bytes,
		.userspace_addr = (uintptr_t)at,
	};

	must(ioctl(vm_file(), KVM_SET_USER_MEMORY_REGION, &region), "no memory slot");
}

/* A device joins it, or leaves it, which holds it open until then. */
static inline void tell_vm(int fd, uint64_t what)
{
	struct kvm_create_device device = { .type = KVM_DEV_TYPE_VFIO };
	struct kvm_device_attr attr = {
		.group = KVM_DEV_VFIO_FILE,
		.attr = what,
		.addr = (uintptr_t)&fd,
	};
	static int files = -1;

	if (files < 0) {
		must(ioctl(vm_file(), KVM_CREATE_DEVICE, &device), "the VM does not know of VFIO");
		files = device.fd;
	}
	must(ioctl(files, KVM_SET_DEVICE_ATTR, &attr),
	     "the VM does not take the device, or keeps it");
}

/* iommufd: opened, and not yet in an address space. */
static inline int device_file(const struct space *s)
{
	return must(open(s->device, O_RDWR), s->device);
}

/* Returns the device's number there. */
static inline uint32_t bind_device(int fd, const struct space *s)
{
	struct vfio_device_bind_iommufd bind = { .argsz = sizeof(bind), .iommufd = s->iommufd };

	must(ioctl(fd, VFIO_DEVICE_BIND_IOMMUFD, &bind), "not bound to iommufd");
	return bind.out_devid;
}

/* @to: an address space, or a domain of one.  Returns 0, or -1 and errno. */
static inline int move_device(int fd, uint32_t to)
{
	struct vfio_device_attach_iommufd_pt attach = { .argsz = sizeof(attach), .pt_id = to };

	return ioctl(fd, VFIO_DEVICE_ATTACH_IOMMUFD_PT, &attach);
}

static inline void attach_device(int fd, const struct space *s)
{
	must(move_device(fd, s->ioas), "not attached");
}

/* The device, in the address space.  Returns its file. */
static inline int open_device(const char *uuid, const struct space *s)
{
	int fd;

	if (s->iommufd < 0)
		return must(ioctl(s->group, VFIO_GROUP_GET_DEVICE_FD, uuid),
			    "the device is not opened");
	fd = device_file(s);
	bind_device(fd, s);
	attach_device(fd, s);
	return fd;
}

/* The same, of the VM before: its group is in the container, if there are groups. */
static inline int open_in_vm(const char *uuid, const struct space *s)
{
	int fd;

	if (s->iommufd < 0) {
		tell_vm(s->group, KVM_DEV_VFIO_FILE_ADD);
		return open_device(uuid, s);
	}
	fd = device_file(s);
	tell_vm(fd, KVM_DEV_VFIO_FILE_ADD);
	bind_device(fd, s);
	attach_device(fd, s);
	return fd;
}

/* As @s, for another device. */
static inline struct space space_of(const char *uuid, const struct space *s)
{
	struct space other = *s;

	other.device[0] = '\0';
	if (s->iommufd < 0)
		other.group = open_group(bus_of(uuid), uuid, s->container);
	else if (!iommufd_device(uuid, &other))
		die("the other device has no iommufd");
	return other;
}

static inline off_t region(int fd, unsigned int index)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = index };

	must(ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &info), "no such region");
	return info.offset;
}

/* The first @bytes of the first BAR. */
static inline volatile uint32_t *map_registers(int fd, size_t bytes)
{
	volatile uint32_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				     region(fd, VFIO_PCI_BAR0_REGION_INDEX));

	if (at == MAP_FAILED)
		die("the BAR cannot be mapped");
	return at;
}

static inline uint16_t config(int fd, unsigned int at)
{
	uint16_t value;

	if (pread(fd, &value, 2, region(fd, VFIO_PCI_CONFIG_REGION_INDEX) + at) != 2)
		die("configuration space is not readable");
	return value;
}

static inline void set_config(int fd, unsigned int at, uint16_t value)
{
	if (pwrite(fd, &value, 2, region(fd, VFIO_PCI_CONFIG_REGION_INDEX) + at) != 2)
		die("configuration space is not writable");
}

/* As a guest's driver does when it begins: memory decoding and Bus Master Enable. */
static inline void enable_device(int fd)
{
	set_config(fd, PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

static inline unsigned int capability_at(int fd, unsigned int id)
{
	unsigned int at = config(fd, PCI_CAPABILITY_LIST) & 0xfc;

	while (at && (config(fd, at) & 0xff) != id)
		at = config(fd, at) >> 8 & 0xfc;
	if (!at)
		die("it has no such capability");
	return at;
}

static inline void set_bits(int fd, unsigned int at, uint16_t clear, uint16_t set)
{
	set_config(fd, at, (config(fd, at) & ~clear) | set);
}

/* By which the VMM learns that the device is of no use any more. */
static inline int error_eventfd(int fd)
{
	int event = must(eventfd(0, EFD_NONBLOCK), "no eventfd");
	union {
		struct vfio_irq_set set;
		char bytes[sizeof(struct vfio_irq_set) + sizeof(event)];
	} irq = { .set = {
		.argsz = sizeof(irq.bytes),
		.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
		.index = VFIO_PCI_ERR_IRQ_INDEX,
		.count = 1,
	} };

	memcpy(irq.set.data, &event, sizeof(event));
	must(ioctl(fd, VFIO_DEVICE_SET_IRQS, &irq), "no eventfd for errors");
	return event;
}

#endif
