// SPDX-License-Identifier: GPL-2.0-only
/*
 * greedy legacy|iommufd WAY COUNT MDEV: a VMM that takes more of its host than it may lock.  WAY:
 *
 *   again	the same 2 MiB at COUNT places
 *   pages	COUNT pages, 1 MiB apart
 *   holes	16 MiB come, and all of it goes but for one page, COUNT times, each time elsewhere
 *
 * Says "mapped", and waits for /tmp/go.  Then it turns the device on.  Says "ready"; or, with
 * holes, "had COUNT", or "refused after" so many, when the device has failed.  Then it waits until
 * it is killed.
 */
#include "vmm.h"

#define BASE		(4u << 20)
#define HIGH		(4ull << 30)
#define PIECE		(2ull << 20)
#define APART		(1ull << 20)
#define COMES		(16ull << 20)
#define PINNED_S	120

static struct space s;
static const char *uuid;
static char *piece;

/* A memory slot with address space of the VMM's, and nothing behind it: RAM is looked for there. */
static void empty_slot(unsigned int number, uint64_t gpa, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		die("no address space");
	vm_slot(number, gpa, at, bytes);
}

/* The guest has the piece at @gpa, too.  iommufd counts memory once that is copied. */
static void map_again(uint64_t gpa)
{
	struct iommu_ioas_copy copy = {
		.size = sizeof(copy),
		.flags = IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_READABLE |
			 IOMMU_IOAS_MAP_WRITEABLE,
		.dst_ioas_id = s.ioas,
		.src_ioas_id = s.ioas,
		.length = PIECE,
		.dst_iova = gpa,
		.src_iova = HIGH,
	};

	if (s.iommufd < 0 || gpa == HIGH)
		space_map(&s, gpa, piece, PIECE);
	else
		must(ioctl(s.iommufd, IOMMU_IOAS_COPY, &copy), "memory is not copied");
}

static int failed(void)
{
	char path[300], state[8] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/mdev/devices/%s/dlend/state", uuid);
	f = fopen(path, "r");
	if (!f || !fgets(state, sizeof(state), f))
		die(path);
	fclose(f);
	return !strcmp(state, "failed:");
}

/* Return: so much is pinned; or 0: the device has failed. */
static int await_pinned(uint64_t bytes)
{
	uint64_t since = now_us();

	while (mdev_number(uuid, "pinned_bytes") != bytes) {
		if (failed())
			return 0;
		if (now_us() - since > PINNED_S * 1000000ull)
			die("the memory is not pinned, or stays so");
		doze(5000);
	}
	return 1;
}

static void make_holes(unsigned int count)
{
	uint64_t gpa = HIGH, pinned = BASE;

	for (turn = 0; turn < count; turn++, gpa += COMES, pinned += PAGE) {
		space_map(&s, gpa, piece, PAGE);
		space_map(&s, gpa + PAGE, piece + PAGE, COMES - PAGE);
		empty_slot(1 + turn, gpa, COMES);	/* not before: it comes as a whole */
		if (!await_pinned(pinned + COMES)) {
			printf("refused after %u\n", turn);
			return;
		}
		space_unmap(&s, gpa + PAGE, COMES - PAGE);
		await_pinned(pinned + PAGE);
	}
	printf("had %u\n", turn);
}

int main(int argc, char **argv)
{
	unsigned int count, i;
	int fd, holes, again;

	if (argc != 5) {
		fprintf(stderr, "usage: greedy legacy|iommufd again|pages|holes COUNT MDEV\n");
		return 2;
	}
	count = strtoul(argv[3], NULL, 0);
	uuid = argv[4];
	holes = !strcmp(argv[2], "holes");
	again = !strcmp(argv[2], "again");
	s.bytes = BASE;
	s.memory = new_memory(BASE);
	piece = new_memory(COMES);
	memset(piece, 1, COMES);
	vm_slot(0, 0, s.memory, BASE);
	if (!holes)
		empty_slot(1, HIGH, count * (again ? PIECE : APART));
	if (!strcmp(argv[1], "legacy"))
		open_legacy("mdev", uuid, &s);
	else if (iommufd_device(uuid, &s))
		open_iommufd(&s, 1);
	else
		die("no iommufd");
	fd = open_in_vm(uuid, &s);
	for (i = 0; i < count && !holes; i++) {
		if (again)
			map_again(HIGH + i * PIECE);
		else
			space_map(&s, HIGH + i * APART, piece, PAGE);
	}
	puts("mapped");
	fflush(stdout);
	await_go(0);
	enable_device(fd);
	if (holes && await_pinned(BASE))
		make_holes(count);
	else
		puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
