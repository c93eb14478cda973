// SPDX-License-Identifier: GPL-2.0-only
/*
 * polled UUID TIMES [MIB]: on the borrower's host, with no guest: a VM of KVM's with an EHCI, which
 * finds its work in memory.  A DIMM of MIB (2) is plugged in TIMES times, and as soon as KVM's call
 * has returned the controller has a buffer in it, with no access to a BAR.  It is to write a
 * descriptor of the USB device below it there.
 *
 * Says "ok TIMES lost LOST stopped STOPPED": how often it said that it had written and had not, and
 * how often it was stopped and its VMM told so; or what is wrong, and exits with 1.
 */
#include <poll.h>

#include "vmm.h"

#define BASE		(4u << 20)
#define BLOCK		(2u << 20)	/* the buffer is in the first of the DIMM */
#define DIMM_GPA	(1u << 30)	/* QEMU's EHCI has 32 bits for addresses */
#define QH		0x10000u
#define QTD		0x10100u	/* three, of 64 bytes */
#define SETUP		0x10200u
#define BUFFER		0x11000u
#define DESCRIPTOR	18u

#define OP_COMMAND	0x00
#define OP_STATUS	0x04
#define OP_ASYNC	0x18
#define OP_CONFIG	0x40
#define OP_PORT		0x44

#define PORT_CONNECTED	(1u << 0)
#define PORT_CHANGES	0x2au		/* a written 1 clears */
#define PORT_ENABLED	(1u << 2)
#define PORT_RESET	(1u << 8)

#define TD_ACTIVE	(1u << 7)
#define TD_HALTED	(1u << 6)
#define TD_ERRORS	(3u << 10)
#define TD_DATA1	(1u << 31)
#define TD_BYTES(n)	((n) << 16)
#define TD_OUT		(0u << 8)
#define TD_IN		(1u << 8)
#define TD_SETUP	(2u << 8)
#define END		1u		/* of a list */

static uint8_t *memory;
static uint64_t dimm = BLOCK;
static int told;			/* by the VMM's error eventfd */
static volatile uint32_t *regs;
static unsigned int op;

static volatile uint32_t *reg(unsigned int at)
{
	return regs + (op + at) / 4;
}

static int has_failed(void)
{
	struct pollfd what = { .fd = told, .events = POLLIN };

	return poll(&what, 1, 0) == 1;
}

static volatile uint32_t *word(uint32_t gpa)
{
	return (volatile uint32_t *)(memory + gpa);
}

/* The port that has a device: reset, and enabled. */
static void start_port(void)
{
	unsigned int ports = regs[1] & 0xf, n;
	uint32_t at = 0;

	for (n = 0; n < ports; n++) {
		at = OP_PORT + 4 * n;
		if (*reg(at) & PORT_CONNECTED)
			break;
	}
	if (n == ports)
		die("nothing is plugged in");
	*reg(at) = (*reg(at) & ~PORT_CHANGES) | PORT_RESET;
	doze(100000);
	*reg(at) = *reg(at) & ~(PORT_CHANGES | PORT_RESET);
	for (n = 0; !(*reg(at) & PORT_ENABLED); n++) {
		if (n == 100)
			die("the port is not enabled");
		doze(20000);
	}
}

/* One queue head, which is the whole schedule, of control transfers to address 0. */
static void start_schedule(void)
{
	*word(QH) = QH | 2;
	*word(QH + 4) = 64u << 16 | 1u << 15 | 1u << 14 | 2u << 12;
	*word(QH + 8) = 1u << 30;
	*word(QH + 16) = END;
	*word(QH + 20) = END;
	__sync_synchronize();
	*reg(OP_ASYNC) = QH;
	*reg(OP_COMMAND) = 8u << 16 | 1u << 5 | 1;
}

static void td(unsigned int n, uint32_t next, uint32_t token, uint32_t buffer)
{
	uint32_t at = QTD + n * 64;

	*word(at) = next;
	*word(at + 4) = END;
	*word(at + 12) = buffer;
	*word(at + 8) = token | TD_ACTIVE | TD_ERRORS;
}

/*
 * The controller is to write the descriptor to @gpa.  Nothing but memory is touched.
 * Returns whether it says that it did: not if the VMM was told that it has failed.
 */
static int get_descriptor(uint32_t gpa)
{
	static const uint8_t setup[8] = { 0x80, 6, 0, 1, 0, 0, DESCRIPTOR, 0 };
	uint64_t begin = now_us();

	memcpy(memory + SETUP, setup, sizeof(setup));
	td(2, END, TD_DATA1 | TD_OUT, 0);
	td(1, QTD + 128, TD_DATA1 | TD_BYTES(DESCRIPTOR) | TD_IN, gpa);
	td(0, QTD + 64, TD_BYTES(8u) | TD_SETUP, SETUP);
	__sync_synchronize();
	*word(QH + 16) = QTD;
	while (*word(QTD + 128 + 8) & TD_ACTIVE) {
		if ((*word(QH + 24) & TD_HALTED) || now_us() - begin > 20000000)
			die("the controller does not do it");
		doze(200);
		if (has_failed() && now_us() - begin > 1000000)
			return 0;
	}
	return 1;
}

enum end { WRITTEN, LOST, STOPPED, ENDS };

static enum end transfer(uint32_t gpa, const uint8_t *at)
{
	if (!get_descriptor(gpa))
		return STOPPED;
	return at[0] == DESCRIPTOR && at[1] == 1 ? WRITTEN : LOST;
}

static enum end with_dimm(const struct space *s)
{
	uint64_t gpa = DIMM_GPA + turn % 3 * (256u << 20), page = turn * 7 % 512 * PAGE;
	uint8_t *at = new_memory(dimm);
	enum end end;

	memset(at, 0xa5, BLOCK);
	space_map(s, gpa, at, dimm);
	vm_slot(1, gpa, at, dimm);
	end = transfer(gpa + page, at + page);
	vm_slot(1, gpa, at, 0);
	space_unmap(s, gpa, dimm);
	munmap(at, dimm);
	/* Waits until what was taken away counts as gone. */
	(void)*reg(OP_STATUS);
	return end;
}

int main(int argc, char **argv)
{
	unsigned int times = argc > 2 ? strtoul(argv[2], NULL, 0) : 0, count[ENDS] = {};
	struct space s = { .bytes = BASE };

	if (!times)
		return 2;
	if (argc > 3)
		dimm = strtoull(argv[3], NULL, 0) << 20;
	memory = new_memory(BASE);
	s.memory = memory;
	vm_slot(0, 0, memory, BASE);
	open_space(argv[1], &s);
	int fd = open_in_vm(argv[1], &s);

	told = error_eventfd(fd);
	regs = map_registers(fd, PAGE);
	enable_device(fd);
	if (regs[0] == ~0u)
		die("the controller is not there");
	op = regs[0] & 0xff;
	*reg(OP_COMMAND) = 2;
	doze(100000);
	*reg(OP_CONFIG) = 1;
	doze(100000);
	start_port();
	start_schedule();
	if (transfer(BUFFER, memory + BUFFER) != WRITTEN)
		die("no descriptor comes");
	for (turn = 1; turn <= times; turn++)
		count[with_dimm(&s)]++;
	*reg(OP_COMMAND) = 0;
	printf("ok %u lost %u stopped %u\n", times, count[LOST], count[STOPPED]);
	return 0;
}
