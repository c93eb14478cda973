// SPDX-License-Identifier: GPL-2.0-only
/*
 * reach DEVICE ADDRESS: on the host to which it is attached, a program that has DEVICE by VFIO.  It
 * maps a page at this address of the device's, and on both sides of it pages are not mapped.  The
 * device writes zeroes there, made to by somebody else (insist).
 *
 * Says "reached" when the page has become zero; maps a second page in its place and says "moved",
 * which the first one stays untouched by; waits until /tmp/go is there; says "untouched", or what
 * has changed.  All the time the pages before and behind have to stay as they are.
 */
#include "vmm.h"

#define PATTERN		0xa5
#define PAGES		4u		/* before, first, second, behind */
#define WAIT_US		60000000

static uint8_t *page(uint8_t *memory, unsigned int number)
{
	return memory + number * PAGE;
}

static int is(const volatile uint8_t *at, uint8_t value)
{
	for (unsigned int i = 0; i < PAGE; i++)
		if (at[i] != value)
			return 0;
	return 1;
}

static void await_zeroes(const volatile uint8_t *at)
{
	uint64_t begin = now_us();

	while (!is(at, 0)) {
		if (now_us() - begin > WAIT_US)
			die("the device does not write there");
		doze(1000);
	}
}

int main(int argc, char **argv)
{
	struct space s = { .bytes = PAGE };	/* at IO address 0, which nobody writes to */
	uint8_t *memory;
	uint64_t at;

	if (argc != 3) {
		fprintf(stderr, "usage: reach DEVICE ADDRESS\n");
		return 2;
	}
	at = strtoull(argv[2], NULL, 0);
	s.memory = new_memory(PAGE);
	memory = new_memory(PAGES * PAGE);
	memset(memory, PATTERN, PAGES * PAGE);
	open_space(argv[1], &s);
	space_map(&s, at, page(memory, 1), PAGE);
	enable_device(open_device(argv[1], &s));
	await_zeroes(page(memory, 1));
	puts("reached");
	space_unmap(&s, at, PAGE);
	/* Whatever was on its way has arrived when the unmapping was answered. */
	memset(page(memory, 1), PATTERN, PAGE);
	space_map(&s, at, page(memory, 2), PAGE);
	await_zeroes(page(memory, 2));
	puts("moved");
	space_unmap(&s, at, PAGE);
	memset(page(memory, 2), PATTERN, PAGE);
	fflush(stdout);
	await_go(WAIT_US);
	for (turn = 0; turn < PAGES; turn++)
		if (!is(page(memory, turn), PATTERN))
			die("a page that is not mapped was written to");
	puts("untouched");
	return 0;
}
