// SPDX-License-Identifier: GPL-2.0-only
/*
 * registers pci BDF|mdev UUID WHAT: opens a device by VFIO as a VMM does, with no guest, and says
 * what it finds, so that a device of vfio-pci's and a lent one can be compared.  WHAT is one of
 *
 * dump: its configuration space as found, which bits of it can be written, and what is left of it
 *	after a function level reset, D3hot and VFIO_DEVICE_RESET; lines "PHASE REGISTER VALUE",
 *	where a register is "header+OFFSET", "capID+OFFSET", "extID+OFFSET", "capID@ADDRESS+OFFSET"
 *	if there may be several of that kind, or "gap+ADDRESS" if it is in no capability.  What is
 *	0 is not said.
 * readrq N: sets Max_Read_Request_Size to 128 << N; says "ready", waits until /tmp/go is there
 * resets N: VFIO_DEVICE_RESET, N times; its BAR is used after each
 * vectors N: sets up N MSI-X vectors (MSI if it has no MSI-X); says what the kernel answers
 * heard N: sets up as many; says "ready", waits until /tmp/go is there, and says how often each
 *	fired
 * status: edu's INTx, and what PCI_STATUS says of it
 * irqs: edu's MSI, once; says "ready", waits until /tmp/go is there, raises a second one, and says
 *	"error" when the device is lost by that
 * stop reset|master: stops edu, which is about to write memory, while the kernel is at work on
 *	memory that was just added (WHAT ends with the UUID's sysfs directory); says what edu wrote
 * silent: edu; says "ready", waits until /tmp/go is there, resets it, and has it write memory
 * window: a virtio device's registers, through the window onto them that is in its configuration
 *	space, and in its BAR
 * listed: reads each register that is in a capability of the specification's, ten times
 * slow: says "ready", waits until /tmp/go is there, and says how long two reads take of a register
 *	that only the device knows (virtio's window), and a write to it; reads it again when /tmp/go
 *	has gone
 *
 * What goes wrong ends the program, with a message.
 */
#include <poll.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#include <linux/virtio_pci.h>

#include "edureg.h"
#include "vmm.h"

#define MEMORY		(4ull << 20)
#define SPACE		4096u
#define STD		256u
#define VECTORS_MAX	512u

static struct space space;
static int device;
static uint8_t *memory;		/* what would be the guest's, at 0 */
static char name_of[SPACE / 4][24];
static unsigned int pm, express, msix, bar;

/* Opening it */

static void *allot(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		die("no memory");
	return p;
}

/* Of vfio-pci's, or a mediated one; by the legacy container, which takes both. */
static void open_it(const char *bus, const char *name)
{
	memory = allot(MEMORY);
	space.memory = memory;
	space.bytes = MEMORY;
	open_legacy(bus, name, &space);
	device = open_device(name, &space);
}

/* Configuration space */

static uint32_t get(unsigned int at, unsigned int size)
{
	uint32_t value = 0;

	if (pread(device, &value, size, region(device, VFIO_PCI_CONFIG_REGION_INDEX) + at) !=
	    (ssize_t)size)
		die("configuration space is not readable");
	return value;
}

static void put(unsigned int at, uint32_t value, unsigned int size)
{
	if (pwrite(device, &value, size, region(device, VFIO_PCI_CONFIG_REGION_INDEX) + at) !=
	    (ssize_t)size)
		die("configuration space is not writable");
}

static unsigned int space_size(void)
{
	struct vfio_region_info info = {
		.argsz = sizeof(info), .index = VFIO_PCI_CONFIG_REGION_INDEX,
	};

	must(ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &info), "no configuration space");
	return info.size < SPACE ? info.size : SPACE;
}

/* Bytes of a capability; what is behind it, up to the next one, is nobody's.  0: not known */
static unsigned int std_length(unsigned int id, unsigned int at)
{
	unsigned int flags = get(at + PCI_MSI_FLAGS, 2);

	switch (id) {
	case PCI_CAP_ID_PM:
		return PCI_PM_SIZEOF;
	case PCI_CAP_ID_MSI:
		return 10 + (flags & PCI_MSI_FLAGS_64BIT ? 4 : 0) +
		       (flags & PCI_MSI_FLAGS_MASKBIT ? 10 : 0);
	case PCI_CAP_ID_VPD:
		return PCI_CAP_VPD_SIZEOF;
	case PCI_CAP_ID_VNDR:
		return get(at + PCI_CAP_FLAGS, 1);
	case PCI_CAP_ID_EXP:
		/* Of an endpoint; version 1 ends behind the link's registers. */
		return (flags & PCI_EXP_FLAGS_VERS) > 1 ? 0x3c : 0x14;
	case PCI_CAP_ID_MSIX:
		return PCI_CAP_MSIX_SIZEOF;
	}
	return 0;
}

static unsigned int ext_length(unsigned int id, unsigned int at)
{
	switch (id) {
	case PCI_EXT_CAP_ID_VNDR:
	case PCI_EXT_CAP_ID_DVSEC:
		return PCI_VNDR_HEADER_LEN(get(at + PCI_VNDR_HEADER, 4));
	case PCI_EXT_CAP_ID_ERR:
		return PCI_ERR_ROOT_COMMAND;
	case PCI_EXT_CAP_ID_DSN:
		return PCI_EXT_CAP_DSN_SIZEOF;
	}
	return 0;
}

static void name_capability(const char *kind, unsigned int id, unsigned int at, unsigned int len)
{
	bool std = kind[0] == 'c', several;
	unsigned int end = len ? at + len : at + 4;
	char where[8] = "";

	several = std ? id == PCI_CAP_ID_VNDR :
			id == PCI_EXT_CAP_ID_VNDR || id == PCI_EXT_CAP_ID_DVSEC;
	if (several)
		snprintf(where, sizeof(where), "@%x", at & (SPACE - 1));
	for (unsigned int i = at; i < end && i < SPACE; i += 4)
		snprintf(name_of[i / 4], sizeof(name_of[0]), "%s%0*x%s+%02x", kind, std ? 2 : 4,
			 id & 0xffff, where, (i - at) & 0xfff);
}

static bool is_gap(unsigned int at)
{
	return !strncmp(name_of[at / 4], "gap", 3);
}

/* Of many registers in no capability, the first ones and the last one tell enough. */
#define GAP_ENOUGH	8u

static bool is_left_out(unsigned int at)
{
	if (at < STD || at + 4 >= SPACE)
		return false;
	for (unsigned int n = 0; n <= GAP_ENOUGH; n++)
		if (!is_gap(at - 4 * n))
			return false;
	return true;
}

static void find_registers(void)
{
	unsigned int at, n;

	for (at = 0; at < SPACE; at += 4)
		snprintf(name_of[at / 4], sizeof(name_of[0]),
			 at < 0x40 ? "header+%02x" : "gap+%03x", at);
	for (at = get(PCI_CAPABILITY_LIST, 1), n = 0; at && n < 48; at = get(at + 1, 1), n++) {
		unsigned int id = get(at, 1);

		name_capability("cap", id, at, std_length(id, at));
		if (id == PCI_CAP_ID_PM)
			pm = at;
		if (id == PCI_CAP_ID_EXP)
			express = at;
		if (id == PCI_CAP_ID_MSIX)
			msix = at;
	}
	if (space_size() <= STD)
		return;
	/* Also if there are none: their list begins here. */
	name_capability("ext", 0, STD, 4);
	for (at = get(STD, 4) ? STD : 0, n = 0; at && n < 48; at = get(at, 4) >> 20, n++)
		name_capability("ext", get(at, 2), at, ext_length(get(at, 2), at));
}

static void dump(const char *phase)
{
	for (unsigned int at = 0; at < space_size(); at += 4)
		if (!is_left_out(at) && get(at, 4))
			printf("%s %s %08x\n", phase, name_of[at / 4], get(at, 4));
}

/* Not what starts a reset or changes the power state: those are phases of their own. */
static uint32_t ones_at(unsigned int at)
{
	if (express && at == express + PCI_EXP_DEVCTL)
		return ~(uint32_t)PCI_EXP_DEVCTL_BCR_FLR;
	if (pm && at == pm + PCI_PM_CTRL)
		return ~(uint32_t)PCI_PM_CTRL_STATE_MASK;
	return ~0u;
}

/* Which bits are written? */
static void ones(void)
{
	unsigned int gaps = 0;

	for (unsigned int at = 0; at < space_size(); at += 4) {
		uint32_t old, bits;

		if (is_left_out(at))
			continue;
		old = get(at, 4);
		put(at, 0, 4);
		bits = get(at, 4);
		put(at, ones_at(at), 4);
		bits ^= get(at, 4);
		put(at, old, 4);
		if (is_gap(at))
			gaps += !!bits;
		else if (bits)
			printf("ones %s %08x\n", name_of[at / 4], bits);
	}
	if (gaps)
		printf("ones gaps %u\n", gaps);
}

/* What a guest's firmware and driver set up. */
static void set_up(void)
{
	for (unsigned int i = 0; i < 6; i++)
		put(PCI_BASE_ADDRESS_0 + 4 * i, 0xc0000000 + (i << 24), 4);
	put(PCI_INTERRUPT_LINE, 10, 1);
	put(PCI_CACHE_LINE_SIZE, 16, 1);
	if (express)
		put(express + PCI_EXP_DEVCTL,
		    (get(express + PCI_EXP_DEVCTL, 2) & ~PCI_EXP_DEVCTL_READRQ) |
		    PCI_EXP_DEVCTL_READRQ_256B, 2);
	put(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 2);
}

/* The one with the device's registers: the first, but of virtio's. */
static void find_bar(void)
{
	struct vfio_region_info info = {
		.argsz = sizeof(info), .index = VFIO_PCI_BAR0_REGION_INDEX,
	};

	must(ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &info), "no BARs");
	bar = info.size ? VFIO_PCI_BAR0_REGION_INDEX : VFIO_PCI_BAR4_REGION_INDEX;
}

static void read_bar(const char *phase)
{
	uint32_t value = 0;
	ssize_t n = pread(device, &value, 4, region(device, bar));

	if (n == 4)
		printf("%s bar%u %08x\n", phase, bar, value);
	else
		printf("%s bar%u %s\n", phase, bar, strerror(errno));
}

/* A lent device is borrowed when this returns: who reads its BAR waits for that. */
static void hold(void)
{
	uint32_t command = get(PCI_COMMAND, 2), value;

	put(PCI_COMMAND, command | PCI_COMMAND_MEMORY, 2);
	if (pread(device, &value, 4, region(device, bar)) != 4)
		die("its BAR is not readable");
	put(PCI_COMMAND, command, 2);
}

static void describe(void)
{
	for (unsigned int i = 0; i < VFIO_PCI_NUM_REGIONS; i++) {
		struct vfio_region_info info = { .argsz = sizeof(info), .index = i };

		if (!ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &info) && info.size)
			printf("info region%u %llx,%x\n", i, (unsigned long long)info.size,
			       info.flags & ~VFIO_REGION_INFO_FLAG_CAPS);
	}
	for (unsigned int i = 0; i < VFIO_PCI_NUM_IRQS; i++) {
		struct vfio_irq_info info = { .argsz = sizeof(info), .index = i };

		if (!ioctl(device, VFIO_DEVICE_GET_IRQ_INFO, &info) && info.count)
			printf("info irq%u %u,%x\n", i, info.count, info.flags);
	}
}

static void power(unsigned int state)
{
	put(pm + PCI_PM_CTRL, (get(pm + PCI_PM_CTRL, 2) & ~PCI_PM_CTRL_STATE_MASK) | state, 2);
	doze(20000);	/* the specification's 10 ms, and some */
}

static void do_dump(void)
{
	describe();
	dump("open");
	hold();
	ones();
	must(ioctl(device, VFIO_DEVICE_RESET), "no reset");
	set_up();
	dump("set");
	read_bar("set");
	put(PCI_COMMAND, PCI_COMMAND_MASTER, 2);
	read_bar("no-decoding");
	if (express && get(express + PCI_EXP_DEVCAP, 4) & PCI_EXP_DEVCAP_FLR) {
		set_up();
		put(express + PCI_EXP_DEVCTL,
		    get(express + PCI_EXP_DEVCTL, 2) | PCI_EXP_DEVCTL_BCR_FLR, 2);
		doze(110000);
		dump("flr");
		read_bar("flr");
	}
	if (pm) {
		set_up();
		power(3);
		dump("d3hot");
		read_bar("d3hot");
		power(0);
		dump("d0");
		read_bar("d0");
	}
	set_up();
	must(ioctl(device, VFIO_DEVICE_RESET), "no reset");
	dump("reset");
	read_bar("reset");
}

/* Single properties */

static void wait_for_go(void)
{
	printf("ready\n");
	fflush(stdout);
	await_go(0);
}

static void await_go_away(void)
{
	while (!access("/tmp/go", F_OK))
		doze(1000);
}

static void do_readrq(unsigned int n)
{
	if (!express)
		die("no PCI Express");
	set_up();
	put(express + PCI_EXP_DEVCTL,
	    (get(express + PCI_EXP_DEVCTL, 2) & ~PCI_EXP_DEVCTL_READRQ) | n << 12, 2);
	read_bar("readrq");
	wait_for_go();
}

static void do_resets(unsigned int n)
{
	for (set_up(); n; n--) {
		must(ioctl(device, VFIO_DEVICE_RESET), "no reset");
		set_up();
		read_bar("reset");
	}
}

static int set_irqs(unsigned int index, unsigned int count, int *fds)
{
	uint8_t buf[sizeof(struct vfio_irq_set) + VECTORS_MAX * 4] = {};
	struct vfio_irq_set *set = (void *)buf;

	set->argsz = sizeof(*set) + count * 4;
	set->flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
	set->index = index;
	set->count = count;
	memcpy(set->data, fds, count * 4);
	return ioctl(device, VFIO_DEVICE_SET_IRQS, set);
}

static unsigned int message_index(void)
{
	return msix ? VFIO_PCI_MSIX_IRQ_INDEX : VFIO_PCI_MSI_IRQ_INDEX;
}

static void make_eventfds(int fds[VECTORS_MAX])
{
	for (unsigned int i = 0; i < VECTORS_MAX; i++)
		fds[i] = eventfd(0, EFD_NONBLOCK);
}

static void do_heard(unsigned int n)
{
	int fds[VECTORS_MAX];
	eventfd_t count;

	if (n > VECTORS_MAX)
		die("so many are not possible");
	set_up();
	hold();
	make_eventfds(fds);
	if (set_irqs(message_index(), n, fds))
		die("not so many interrupts");
	wait_for_go();
	for (unsigned int i = 0; i < n; i++)
		printf("heard %u: %d\n", i, eventfd_read(fds[i], &count) ? 0 : (int)count);
}

static void do_vectors(unsigned int n)
{
	unsigned int index = message_index();
	int fds[VECTORS_MAX], ret;

	set_up();
	read_bar("vectors");
	make_eventfds(fds);
	ret = set_irqs(index, n, fds);
	printf("vectors %u: %d\n", n, ret < 0 ? -errno : ret);
	if (ret > 0)
		printf("vectors %d: %d\n", ret, set_irqs(index, ret, fds));
	read_bar("vectors");
}

#define TARGET		0x10000u

static volatile uint32_t *map_edu(void)
{
	volatile uint32_t *regs = map_registers(device, PAGE);

	if (regs[0] != EDU_IDENT)
		die("edu is not there");
	return regs;
}

static void say_status(const char *when)
{
	printf("status %s %u\n", when, !!(get(PCI_STATUS, 2) & PCI_STATUS_INTERRUPT));
}

static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t count;

	if (poll(&p, 1, 30000) != 1 || read(fd, &count, 8) != 8)
		die("no interrupt");
}

static void unmask(void)
{
	struct vfio_irq_set set = {
		.argsz = sizeof(set),
		.flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK,
		.index = VFIO_PCI_INTX_IRQ_INDEX, .count = 1,
	};

	must(ioctl(device, VFIO_DEVICE_SET_IRQS, &set), "INTx is not unmasked");
}

static void do_status(void)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	volatile uint32_t *regs;

	set_up();
	regs = map_edu();
	must(set_irqs(VFIO_PCI_INTX_IRQ_INDEX, 1, &fd), "no INTx");
	(void)regs[0];		/* set up by then */
	say_status("idle");
	regs[R_IRQ_RAISE / 4] = 1;
	await(fd);
	say_status("raised");
	unmask();		/* too early: it comes again */
	await(fd);
	say_status("again");
	regs[R_IRQ_ACK / 4] = 1;
	(void)regs[0];
	say_status("served");
	unmask();
	say_status("over");
}

static void do_irqs(void)
{
	int irq = eventfd(0, EFD_NONBLOCK), err = eventfd(0, EFD_NONBLOCK);
	volatile uint32_t *regs;

	set_up();
	regs = map_edu();
	must(set_irqs(VFIO_PCI_ERR_IRQ_INDEX, 1, &err), "no error interrupt");
	must(set_irqs(VFIO_PCI_MSI_IRQ_INDEX, 1, &irq), "no MSI");
	(void)regs[0];		/* set up by then */
	regs[R_IRQ_RAISE / 4] = 1;
	await(irq);
	wait_for_go();
	regs[R_IRQ_RAISE / 4] = 1;
	await(err);
	puts("error");
}

#define MORE_AT		(1ull << 32)
#define MORE		(512ull << 20)

static void finish(volatile uint32_t *regs)
{
	while (edu_is_busy(regs))
		doze(10000);
}

/* Zeros into edu's own memory, which holds what its last user left. */
static void clear_buffer(volatile uint32_t *regs)
{
	edu_begin(regs, TARGET, DEVICE_BUFFER, 0);
	finish(regs);
}

/* What of a page is not as memset() left it. */
static unsigned int changed(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < EDU_BYTES; i++)
		n += memory[TARGET + i] != 0xa5;
	return n;
}

/* Edu takes 100 ms for what it is told; meanwhile it is told to stop. */
static void do_stop(const char *how, const char *sysfs)
{
	char path[300];
	volatile uint32_t *regs;
	uint64_t began;
	int fd;

	set_up();
	regs = map_edu();
	clear_buffer(regs);
	snprintf(path, sizeof(path), "%s/rescan", sysfs);
	fd = must(open(path, O_WRONLY), path);
	space_map(&space, MORE_AT, allot(MORE), MORE);
	must(write(fd, "1", 1), "no rescan");
	edu_begin(regs, DEVICE_BUFFER, TARGET, CMD_TO_RAM);
	began = now_us();
	if (!strcmp(how, "reset"))
		must(ioctl(device, VFIO_DEVICE_RESET), "no reset");
	else
		put(PCI_COMMAND, PCI_COMMAND_MEMORY, 2);
	printf("took %.0f ms\n", (now_us() - began) / 1e3);
	/* From here on this is other data, and not the device's business. */
	memset(memory + TARGET, 0xa5, EDU_BYTES);
	for (int i = 0; i < 4; i++)
		doze(500000);
	printf("wrote %u\n", changed());
}

/* Something else happens before the reset; afterwards the device is as it was. */
static void do_silent(void)
{
	volatile uint32_t *regs;
	uint64_t began;

	set_up();
	regs = map_edu();
	clear_buffer(regs);
	wait_for_go();
	began = now_us();
	must(ioctl(device, VFIO_DEVICE_RESET), "no reset");
	printf("took %.0f ms\n", (now_us() - began) / 1e3);
	fflush(stdout);
	memset(memory + TARGET, 0xa5, EDU_BYTES);
	set_up();
	edu_begin(regs, DEVICE_BUFFER, TARGET, CMD_TO_RAM);
	finish(regs);
	printf("wrote %u\n", changed());
}

/* What only the device knows */

/* virtio's vendor-specific capability of that type. */
static unsigned int virtio_cap(unsigned int type)
{
	unsigned int at = get(PCI_CAPABILITY_LIST, 1);

	while (at && (get(at, 1) != PCI_CAP_ID_VNDR ||
		      get(at + VIRTIO_PCI_CAP_CFG_TYPE, 1) != type))
		at = get(at + PCI_CAP_LIST_NEXT, 1);
	if (!at)
		die("this is no virtio device");
	return at;
}

/* Where the window's data are, behind the structure that all of these capabilities have. */
#define WINDOW_DATA	16u

/* Let the window show a register of the BAR that @common is about. */
static void aim(unsigned int window, unsigned int common, uint32_t reg)
{
	put(window + VIRTIO_PCI_CAP_BAR, get(common + VIRTIO_PCI_CAP_BAR, 1), 1);
	put(window + VIRTIO_PCI_CAP_OFFSET, get(common + VIRTIO_PCI_CAP_OFFSET, 4) + reg, 4);
	put(window + VIRTIO_PCI_CAP_LENGTH, 4, 4);
}

static void do_window(void)
{
	unsigned int window = virtio_cap(VIRTIO_PCI_CAP_PCI_CFG);
	unsigned int common = virtio_cap(VIRTIO_PCI_CAP_COMMON_CFG);
	off_t regs = region(device, bar) + get(common + VIRTIO_PCI_CAP_OFFSET, 4);
	uint32_t value = 0;

	if (get(common + VIRTIO_PCI_CAP_BAR, 1) != bar)
		die("its registers are elsewhere");
	printf("window before %08x\n", get(window + WINDOW_DATA, 4));
	set_up();
	hold();
	/* A write through the window arrives, */
	aim(window, common, VIRTIO_PCI_COMMON_DFSELECT);
	put(window + WINDOW_DATA, 1, 4);
	must(pread(device, &value, 4, regs + VIRTIO_PCI_COMMON_DFSELECT),
	     "its BAR is not readable");
	printf("window wrote %u\n", value);
	/* and a read shows what the device has there now, of which nobody has told. */
	aim(window, common, VIRTIO_PCI_COMMON_DF);
	printf("window features1 %08x\n", get(window + WINDOW_DATA, 4));
	value = 0;
	must(pwrite(device, &value, 4, regs + VIRTIO_PCI_COMMON_DFSELECT),
	     "its BAR is not writable");
	printf("window features0 %08x\n", get(window + WINDOW_DATA, 4));
	must(pread(device, &value, 4, regs + VIRTIO_PCI_COMMON_DF), "its BAR is not readable");
	printf("window bar %08x\n", value);
	/* QEMU's keeps all this over a reset: the next one is to find it as it was here. */
	put(window + VIRTIO_PCI_CAP_BAR, 0, 1);
	put(window + VIRTIO_PCI_CAP_OFFSET, 0, 4);
	put(window + VIRTIO_PCI_CAP_LENGTH, 0, 4);
	put(window + WINDOW_DATA, 0, 4);
}

static void do_listed(void)
{
	unsigned int n = 0;

	set_up();
	hold();
	for (int pass = 0; pass < 10; pass++)
		for (unsigned int at = 0; at < space_size(); at += 4)
			if (!is_gap(at) && !strchr(name_of[at / 4], '@'))
				n += get(at, 4) != 0;
	printf("listed %u\n", n);
}

static void do_slow(void)
{
	unsigned int reg = virtio_cap(VIRTIO_PCI_CAP_PCI_CFG) + VIRTIO_PCI_CAP_OFFSET;
	uint64_t began;

	set_up();
	hold();
	put(reg, 0x40, 4);
	printf("slow before %x\n", get(reg, 4));
	wait_for_go();
	for (int i = 0; i < 2; i++) {
		began = now_us();
		printf("slow value %x\n", get(reg, 4));
		printf("slow %s %.0f\n", i ? "again" : "took", (now_us() - began) / 1e3);
		fflush(stdout);
	}
	began = now_us();
	put(reg, 0x44, 4);
	printf("slow wrote %.0f\n", (now_us() - began) / 1e3);
	fflush(stdout);
	await_go_away();
	/* Nobody asks a lender that has just been silent. */
	for (int i = 0; i < 300 && get(reg, 4) != 0x44; i++)
		doze(100000);
	printf("slow after %x\n", get(reg, 4));
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: registers pci BDF|mdev UUID WHAT\n");
		return 2;
	}
	open_it(argv[1], argv[2]);
	find_registers();
	find_bar();
	if (!strcmp(argv[3], "dump"))
		do_dump();
	else if (!strcmp(argv[3], "readrq") && argc == 5)
		do_readrq(strtoul(argv[4], NULL, 0));
	else if (!strcmp(argv[3], "resets") && argc == 5)
		do_resets(strtoul(argv[4], NULL, 0));
	else if (!strcmp(argv[3], "vectors") && argc == 5)
		do_vectors(strtoul(argv[4], NULL, 0));
	else if (!strcmp(argv[3], "heard") && argc == 5)
		do_heard(strtoul(argv[4], NULL, 0));
	else if (!strcmp(argv[3], "status"))
		do_status();
	else if (!strcmp(argv[3], "irqs"))
		do_irqs();
	else if (!strcmp(argv[3], "silent"))
		do_silent();
	else if (!strcmp(argv[3], "window"))
		do_window();
	else if (!strcmp(argv[3], "listed"))
		do_listed();
	else if (!strcmp(argv[3], "slow"))
		do_slow();
	else if (!strcmp(argv[3], "stop") && argc == 6)
		do_stop(argv[4], argv[5]);
	else
		return 2;
	return 0;
}
