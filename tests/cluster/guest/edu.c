// SPDX-License-Identifier: GPL-2.0-only
/*
 * edu BDF: drives QEMU's edu device from user space: registers, DMA both ways, MSI.
 *
 * A guest has no IOMMU and no driver for the device, so addresses for DMA come from
 * /proc/self/pagemap, and its messages ask for the vector of a rescheduling interrupt: a guest with
 * one processor gets no others, and /proc/interrupts counts them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <linux/pci_regs.h>

#include "edureg.h"

#define SIZE		4096
#define MSI_ADDRESS	0xfee00000	/* processor 0 */
#define MSI_VECTOR	0xfd		/* arch/x86/include/asm/irq_vectors.h: RESCHEDULE_VECTOR */

static volatile uint32_t *regs;
static int config;

static void die(const char *what)
{
	fprintf(stderr, "edu: %s (%s)\n", what, strerror(errno));
	exit(1);
}

static uint32_t reg(unsigned int at)
{
	return regs[at / 4];
}

static void set_reg(unsigned int at, uint32_t value)
{
	regs[at / 4] = value;
}

static void pause_ms(unsigned int ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000L };

	nanosleep(&t, NULL);
}

static uint16_t get16(unsigned int at)
{
	uint16_t value;

	if (pread(config, &value, 2, at) != 2)
		die("configuration space is not readable");
	return value;
}

static void put(unsigned int at, uint32_t value, unsigned int size)
{
	if (pwrite(config, &value, size, at) != (ssize_t)size)
		die("configuration space is not writable");
}

static void open_device(const char *bdf)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", bdf);
	config = open(path, O_RDWR);
	if (config < 0)
		die(path);
	put(PCI_COMMAND, get16(PCI_COMMAND) | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 2);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource0", bdf);
	fd = open(path, O_RDWR | O_SYNC);
	if (fd < 0)
		die(path);
	regs = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (regs == MAP_FAILED)
		die("its registers cannot be mapped");
}

static uint64_t physical(void *page)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)page / SIZE * 8) != 8)
		die("pagemap");
	close(fd);
	if (!(entry >> 63) || !(entry << 9))
		die("the page has no address");
	return (entry & ((1ull << 55) - 1)) * SIZE;
}

static uint8_t *dma_page(void)
{
	uint8_t *page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (page == MAP_FAILED || mlock(page, SIZE))
		die("no memory");
	return page;
}

static void dma(uint64_t from, uint64_t to, uint32_t command)
{
	set_reg(R_DMA_SRC, from);
	set_reg(R_DMA_DST, to);
	set_reg(R_DMA_COUNT, SIZE);
	set_reg(R_DMA_CMD, CMD_RUN | command);
	for (int i = 0; reg(R_DMA_CMD) & CMD_RUN; i++) {
		if (i == 500)
			die("DMA does not end");
		pause_ms(20);
	}
}

/* Out of memory, into memory elsewhere: both must hold the same, and the rest nothing new. */
static void test_dma(uint32_t command)
{
	uint8_t *out = dma_page(), *in = dma_page();

	for (int i = 0; i < SIZE; i++)
		out[i] = i * 7 + (i >> 8);
	memset(in, 0xa5, SIZE);
	dma(physical(out), DEVICE_BUFFER, command);
	dma(DEVICE_BUFFER, physical(in), CMD_TO_RAM | command);
	for (int i = 0; i < SIZE; i++)
		if (in[i] != out[i]) {
			printf("byte %d is %02x, not %02x\n", i, in[i], out[i]);
			exit(1);
		}
}

static void enable_msi(void)
{
	unsigned int at = get16(PCI_CAPABILITY_LIST) & 0xfc, flags;

	while (at && (get16(at) & 0xff) != PCI_CAP_ID_MSI)
		at = get16(at) >> 8 & 0xfc;
	if (!at)
		die("it has no MSI");
	flags = get16(at + PCI_MSI_FLAGS);
	put(at + PCI_MSI_ADDRESS_LO, MSI_ADDRESS, 4);
	if (flags & PCI_MSI_FLAGS_64BIT)
		put(at + PCI_MSI_ADDRESS_HI, 0, 4);
	put(at + (flags & PCI_MSI_FLAGS_64BIT ? PCI_MSI_DATA_64 : PCI_MSI_DATA_32), MSI_VECTOR, 2);
	put(at + PCI_MSI_FLAGS, (flags & ~PCI_MSI_FLAGS_QSIZE) | PCI_MSI_FLAGS_ENABLE, 2);
}

static unsigned long arrived(void)
{
	unsigned long count = 0;
	char line[256];
	FILE *file = fopen("/proc/interrupts", "r");

	if (!file)
		die("/proc/interrupts");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " RES: %lu", &count) == 1)
			break;
	fclose(file);
	return count;
}

static void wait_for(unsigned long count)
{
	for (int i = 0; arrived() < count && i < 250; i++)
		pause_ms(20);
}

/* Return: interrupts that came for @count that were raised. */
static unsigned long test_msi(unsigned int count)
{
	unsigned long before = arrived();

	for (unsigned int i = 0; i < count; i++) {
		set_reg(R_IRQ_RAISE, 1);
		wait_for(before + i + 1);
		set_reg(R_IRQ_ACK, reg(R_IRQ_STATUS));
	}
	return arrived() - before;
}

int main(int argc, char **argv)
{
	unsigned long before;

	if (argc != 2) {
		fprintf(stderr, "usage: edu BDF\n");
		return 2;
	}
	open_device(argv[1]);
	set_reg(R_LIVE, 0x12345678);
	printf("ident %08x\nlive %08x\n", reg(R_IDENT), reg(R_LIVE));
	test_dma(0);
	printf("dma ok\n");
	enable_msi();
	printf("msi %lu\n", test_msi(10));
	before = arrived();
	test_dma(CMD_IRQ);
	wait_for(before + 2);
	set_reg(R_IRQ_ACK, reg(R_IRQ_STATUS));
	printf("dma_msi %lu\n", arrived() - before);
	return 0;
}
