// SPDX-License-Identifier: GPL-2.0-only
/*
 * move DEVICE FILE go MORE: plays a VMM whose VM writes to an NVMe disk by VFIO, 4 commands at a
 * time, numbered blocks of 4 KiB, each with its interrupt, the last 24 of which stay.  When /tmp/go
 * is there, it stops the VM in the midst of that, as a VMM does that moves it to another host: its
 * memory goes to FILE.ram, what VFIO has of the device to FILE.vfio.  Then it waits for /tmp/end,
 * and ends; or for /tmp/back, and the VM goes on here.
 *
 * move DEVICE FILE come: on the other host: prepares for the VM, waits for FILE.vfio, loads both,
 * and the VM goes on here, if /tmp/late is not there; else when that is gone.
 *
 * The VM goes on for MORE blocks, then reads those that stay, and compares.  Says "runs", "left",
 * "waits", "came", "goes on", and at the end "ok BLOCKS here BLOCKS interrupts COUNT"; or what is
 * wrong, and exits with 1.  What is refused where a VMM gives up the move is said, with "refused".
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "vmmnvme.h"

#define RAM_BYTES	(4u << 20)	/* at address 0 of the VM */
#define QUEUE		16u		/* entries */
#define DEPTH		4u		/* commands under way */
#define BLOCK		4096u
#define STAY		24u		/* blocks on the disk */
#define LBA		512u
#define TIMEOUT_MS	120000
#define PAUSE_US	600000
#define STREAM_BYTES	65536

/* In the VM's memory, one after the other. */
#define ASQ		0x0000u
#define ACQ		0x1000u
#define SQ		0x2000u
#define CQ		0x3000u
#define DRIVER		0x4000u
#define BUFFERS		0x10000u

/* All that the VM's driver knows: it moves with the memory. */
struct driver {
	uint32_t more;			/* to write when it goes on */
	uint32_t next, done;		/* blocks begun, ended */
	uint32_t tail, head;
	uint16_t phase;
	uint16_t busy;			/* a bit for each buffer */
};

static struct driver *drv;
static struct nvme_queue io;
static uint64_t interrupts;
static int vector = -1, failure = -1;

static int exists(const char *path)
{
	return !access(path, F_OK);
}

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/* The VM */

static void await_interrupt(void)
{
	struct pollfd wait[] = { { .fd = vector, .events = POLLIN },
				 { .fd = failure, .events = POLLIN } };
	uint64_t count;

	if (poll(wait, 2, TIMEOUT_MS) < 1)
		die("no interrupt");
	if (wait[1].revents)
		die("the VMM is told that the device has failed");
	must(read(vector, &count, sizeof(count)), "no interrupt");
	interrupts += count;
	/* An emulated bridge takes its time for each, and one that is too slow is given up. */
	doze(PAUSE_US);
}

static void fill(uint32_t *at, uint32_t number)
{
	for (unsigned int i = 0; i < BLOCK / 4; i++)
		at[i] = number * 2654435761u + i;
}

static void *buffer(unsigned int n)
{
	return memory + BUFFERS + n * BLOCK;
}

static void begin(unsigned int opcode, uint32_t block, unsigned int n)
{
	drv->busy |= 1u << n;
	nvme_begin(regs, &io, (struct nvme_command){
		.opcode = opcode,
		.id = n,
		.nsid = 1,
		.prp1 = BUFFERS + n * BLOCK,
		.dw10 = block % STAY * (BLOCK / LBA),
		.dw12 = BLOCK / LBA - 1,
	});
}

static void end_all(void)
{
	while (nvme_ended(&io)) {
		unsigned int n = io.done[io.head].id;

		disk_end(&io);
		if (!(drv->busy & 1u << n))
			die("a command ends twice");
		drv->busy &= ~(1u << n);
		drv->done++;
	}
}

static void begin_more(uint32_t end)
{
	for (unsigned int n = 0; n < DEPTH && drv->next < end; n++) {
		if (drv->busy & 1u << n)
			continue;
		fill(buffer(n), drv->next);
		begin(NVME_WRITE, drv->next++, n);
	}
}

/* With all commands under way, when it is told to stop. */
static void run_until_told(void)
{
	for (;;) {
		begin_more(~0u);
		if (drv->done > STAY && exists("/tmp/go"))
			return;
		await_interrupt();
		end_all();
	}
}

static void run_on(void)
{
	uint32_t end = drv->next + drv->more;

	end_all();
	while (drv->done < end) {
		begin_more(end);
		await_interrupt();
		end_all();
	}
}

static void compare_some(uint32_t first)
{
	static uint32_t want[BLOCK / 4];

	for (unsigned int n = 0; n < DEPTH; n++) {
		memset(buffer(n), 0, BLOCK);
		begin(NVME_READ, first + n, n);
	}
	while (drv->busy) {
		await_interrupt();
		end_all();
	}
	for (unsigned int n = 0; n < DEPTH; n++) {
		fill(want, first + n);
		turn = first + n;
		if (memcmp(want, buffer(n), BLOCK))
			die("a block is not what was written");
	}
}

static void compare(void)
{
	for (uint32_t first = drv->next - STAY; first < drv->next; first += DEPTH)
		compare_some(first);
}

static void finish(uint32_t before)
{
	uint32_t all = drv->done;

	compare();
	printf("ok %u here %u interrupts %llu\n", all, all - before,
	       (unsigned long long)interrupts);
	fflush(stdout);
}

static void boot(int fd, uint32_t more)
{
	struct nvme_queue admin = disk_queue(0, QUEUE, ASQ, ACQ);

	enable_device(fd);
	drv->more = more;
	io = disk_queue(1, QUEUE, SQ, CQ);
	disk_start(&admin, TIMEOUT_MS);
	disk_execute(&admin, nvme_create_cq(&io, 1 << 16 | 2), TIMEOUT_MS);
	disk_execute(&admin, nvme_create_sq(&io), TIMEOUT_MS);
}

/* The VMM */

static void set_eventfd(int fd, unsigned int index, unsigned int start, int event)
{
	struct {
		struct vfio_irq_set set;
		int32_t event;
	} request = {
		.set = {
			.argsz = sizeof(request),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = index,
			.start = start,
			.count = 1,
		},
		.event = event,
	};

	must(ioctl(fd, VFIO_DEVICE_SET_IRQS, &request), "no interrupts");
}

static void set_vectors(int fd)
{
	vector = must(eventfd(0, EFD_CLOEXEC), "no eventfd");
	failure = must(eventfd(0, EFD_CLOEXEC), "no eventfd");
	set_eventfd(fd, VFIO_PCI_MSIX_IRQ_INDEX, 1, vector);
	set_eventfd(fd, VFIO_PCI_ERR_IRQ_INDEX, 0, failure);
}

/* Returns a file, -1 if the state has none; or -2 and errno. */
static int set_state(int fd, uint32_t state)
{
	struct {
		struct vfio_device_feature feature;
		struct vfio_device_feature_mig_state mig;
	} request = {
		.feature = {
			.argsz = sizeof(request),
			.flags = VFIO_DEVICE_FEATURE_SET | VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE,
		},
		.mig = { .device_state = state, .data_fd = -1 },
	};

	return ioctl(fd, VFIO_DEVICE_FEATURE, &request) ? -2 : request.mig.data_fd;
}

static void must_be(int fd, uint32_t state)
{
	if (set_state(fd, state) == -2)
		die("a state is refused");
}

static void read_file(const char *path, void *at, size_t bytes)
{
	int fd = must(open(path, O_RDONLY), path);

	for (ssize_t n; bytes; at = (char *)at + n, bytes -= n) {
		n = must(read(fd, at, bytes), path);
		if (!n)
			die(path);
	}
	close(fd);
}

/* It is there when it is whole. */
static void write_file(const char *path, const void *at, size_t bytes)
{
	char part[sizeof("a.part") + 256];
	int fd;

	snprintf(part, sizeof(part), "%s.part", path);
	fd = must(open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600), part);
	for (ssize_t n; bytes; at = (const char *)at + n, bytes -= n)
		n = must(write(fd, at, bytes), part);
	close(fd);
	must(rename(part, path), path);
}

static const char *file(const char *name, const char *what)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s.%s", name, what);
	return path;
}

/* Returns -1: the VMM gives up the move. */
static int refused(void)
{
	printf("refused: %s\n", strerror(errno));
	fflush(stdout);
	return -1;
}

/* Returns 0, or -1 if the VM may not leave. */
static int leave(int fd, const char *name)
{
	char stream[STREAM_BYTES];
	ssize_t n, size = 0;
	int data;

	must_be(fd, VFIO_DEVICE_STATE_STOP);
	data = set_state(fd, VFIO_DEVICE_STATE_STOP_COPY);
	if (data < 0)
		return refused();
	while ((n = must(read(data, stream + size, 1000), "VFIO's state")))
		size += n;
	close(data);
	must_be(fd, VFIO_DEVICE_STATE_STOP);
	drv->tail = io.tail;
	drv->head = io.head;
	drv->phase = io.phase;
	write_file(file(name, "ram"), memory, RAM_BYTES);
	write_file(file(name, "vfio"), stream, size);
	return 0;
}

/* Returns 0, or -1 if it may not come. */
static int arrive(int fd, const char *name)
{
	char stream[STREAM_BYTES];
	struct stat st;
	int data = set_state(fd, VFIO_DEVICE_STATE_RESUMING);

	if (data < 0)
		die("it cannot come");
	say("waits");
	while (!exists(file(name, "vfio")))
		doze(1000);
	must(stat(file(name, "vfio"), &st), "no state");
	read_file(file(name, "ram"), memory, RAM_BYTES);
	read_file(file(name, "vfio"), stream, st.st_size);
	for (ssize_t at = 0, n; at < st.st_size; at += n) {
		n = write(data, stream + at, st.st_size - at > 1000 ? 1000 : st.st_size - at);
		if (n <= 0)
			return refused();
	}
	close(data);
	/* As QEMU does. */
	set_config(fd, PCI_COMMAND, config(fd, PCI_COMMAND));
	set_vectors(fd);
	io = disk_queue(1, QUEUE, SQ, CQ);
	io.tail = drv->tail;
	io.head = drv->head;
	io.phase = drv->phase;
	say("came");
	return 0;
}

static void goes(int fd, const char *name, uint32_t more)
{
	set_vectors(fd);
	boot(fd, more);
	say("runs");
	run_until_told();
	if (!leave(fd, name)) {
		say("left");
		while (!exists("/tmp/back")) {
			if (exists("/tmp/end"))
				exit(0);
			doze(1000);
		}
	}
	must_be(fd, VFIO_DEVICE_STATE_RUNNING);
	say("goes on");
	run_on();
	finish(0);
}

static void comes(int fd, const char *name)
{
	uint32_t before;

	if (arrive(fd, name))
		exit(1);
	before = drv->done;
	while (exists("/tmp/late"))
		doze(1000);
	must_be(fd, VFIO_DEVICE_STATE_RUNNING);
	say("goes on");
	run_on();
	finish(before);
}

int main(int argc, char **argv)
{
	struct space s = { .bytes = RAM_BYTES };
	int fd, go = argc == 5 && !strcmp(argv[3], "go");

	if (!go && (argc != 4 || strcmp(argv[3], "come"))) {
		fprintf(stderr, "usage: move DEVICE FILE go MORE | come\n");
		return 2;
	}
	memory = new_memory(RAM_BYTES);
	s.memory = memory;
	drv = (struct driver *)(memory + DRIVER);
	open_space(argv[1], &s);
	fd = open_device(argv[1], &s);
	regs = map_registers(fd, NVME_REGISTERS);
	if (go)
		goes(fd, argv[2], strtoul(argv[4], NULL, 0));
	else
		comes(fd, argv[2]);
	return 0;
}
