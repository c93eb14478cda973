// SPDX-License-Identifier: GPL-2.0
/*
 * The DMA map of one side.  With a virtual IOMMU in caching mode QEMU sends one map for
 * every page that the guest kernel maps, each with a duplicate of the same descriptor, so
 * files are recognised by inode and mapped once: tens of thousands of descriptors or
 * mappings would run into the limits of the process.
 */
#include "mem.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util.h"

#define MAX_MAPS (1u << 18)	/* a client may not make us grow without end */
#define MAX_BACKINGS 64

static struct backing *backing_get(struct mem *m, int fd)
{
	unsigned int n = 0;
	struct backing *b;
	struct stat st;
	void *base;

	if (fstat(fd, &st) || st.st_size <= 0)
		return NULL;
	for (b = m->backings; b; b = b->next, n++)
		if (b->dev == st.st_dev && b->ino == st.st_ino)
			return b;
	if (n == MAX_BACKINGS)
		return NULL;
	base = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return NULL;
	b = xalloc(sizeof(*b));
	*b = (struct backing){ st.st_dev, st.st_ino, base, st.st_size, m->backings };
	m->backings = b;
	return b;
}

/* Index of the first map that ends after @iova. */
static unsigned int first_after(const struct mem *m, uint64_t iova)
{
	unsigned int lo = 0, hi = m->count;

	while (lo < hi) {
		unsigned int mid = lo + (hi - lo) / 2;

		if (m->maps[mid].iova + m->maps[mid].size > iova)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static void insert_at(struct mem *m, unsigned int i, struct mem_map map)
{
	if (m->count == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 64;
		m->maps = realloc(m->maps, m->cap * sizeof(*m->maps));
		if (!m->maps)
			die("out of memory");
	}
	memmove(&m->maps[i + 1], &m->maps[i], (m->count - i) * sizeof(*m->maps));
	m->maps[i] = map;
	m->count++;
}

static void remove_range(struct mem *m, unsigned int i, unsigned int n)
{
	if (!n)
		return;
	memmove(&m->maps[i], &m->maps[i + n], (m->count - i - n) * sizeof(*m->maps));
	m->count -= n;
}

static struct mem_map tail_from(struct mem_map map, uint64_t iova)
{
	uint64_t cut = iova - map.iova;

	map.iova = iova;
	map.size -= cut;
	if (map.host)
		map.host += cut;
	return map;
}

void mem_del(struct mem *m, uint64_t iova, uint64_t size)
{
	uint64_t end = size > UINT64_MAX - iova ? UINT64_MAX : iova + size;
	unsigned int i = first_after(m, iova), n = 0;

	if (i < m->count && m->maps[i].iova < iova) {
		/* Only the end of this one goes, or its middle. */
		struct mem_map old = m->maps[i];

		m->maps[i].size = iova - old.iova;
		i++;
		if (old.iova + old.size > end) {
			insert_at(m, i, tail_from(old, end));
			return;
		}
	}
	while (i + n < m->count && m->maps[i + n].iova + m->maps[i + n].size <= end)
		n++;
	remove_range(m, i, n);
	if (i < m->count && m->maps[i].iova < end)
		m->maps[i] = tail_from(m->maps[i], end);
}

int mem_add(struct mem *m, uint64_t iova, uint64_t size, int fd, uint64_t offset,
	    unsigned int prot)
{
	struct mem_map map = { .iova = iova, .size = size, .prot = prot };
	struct backing *b;

	if (!size || size > UINT64_MAX - iova)
		return -EINVAL;
	if (m->count >= MAX_MAPS)
		return -ENOSPC;
	if (fd >= 0) {
		b = backing_get(m, fd);
		if (!b)
			return -EBADF;
		if (offset > b->size || size > b->size - offset)
			return -ERANGE;
		map.host = b->base + offset;
	}
	mem_del(m, iova, size);
	insert_at(m, first_after(m, iova), map);
	return 0;
}

void mem_clear(struct mem *m)
{
	while (m->backings) {
		struct backing *b = m->backings;

		m->backings = b->next;
		munmap(b->base, b->size);
		free(b);
	}
	free(m->maps);
	memset(m, 0, sizeof(*m));
}

uint64_t mem_total(const struct mem *m)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < m->count; i++)
		sum += m->maps[i].size;
	return sum;
}

/*
 * Where [iova, iova + *len) is, *len cut down to the end of the map that @iova lies in.
 */
static enum mem_result find(struct mem *m, uint64_t iova, size_t *len, unsigned int prot,
			    uint8_t **host)
{
	unsigned int i = first_after(m, iova);
	const struct mem_map *map = &m->maps[i];

	if (i == m->count || map->iova > iova)
		return MEM_UNMAPPED;
	if (!(map->prot & prot))
		return MEM_DENIED;
	if (!map->host)
		return MEM_NOT_RAM;
	*host = map->host + (iova - map->iova);
	if (*len > map->iova + map->size - iova)
		*len = map->iova + map->size - iova;
	return MEM_OK;
}

/* Copy nothing unless all can be copied: an access is done here or by QEMU, not by both. */
enum mem_result mem_probe(struct mem *m, uint64_t iova, size_t len, unsigned int prot)
{
	while (len) {
		size_t n = len;
		uint8_t *host;
		enum mem_result r = find(m, iova, &n, prot, &host);

		if (r != MEM_OK)
			return r;
		iova += n;
		len -= n;
	}
	return MEM_OK;
}

static size_t natural(const uint8_t *host, size_t len)
{
	size_t n = 8;

	while (n > len || (uintptr_t)host & (n - 1))
		n /= 2;
	return n;
}

/*
 * The guest's vCPUs run concurrently on this memory, hence atomics; release and acquire
 * because PCIe writes arrive in the order in which they were sent.
 */
static void store(uint8_t *host, const void *from, size_t n)
{
	union { uint16_t u16; uint32_t u32; uint64_t u64; } v;

	memcpy(&v, from, n);
	switch (n) {
	case 8:
		__atomic_store_n((uint64_t *)(void *)host, v.u64, __ATOMIC_RELEASE);
		break;
	case 4:
		__atomic_store_n((uint32_t *)(void *)host, v.u32, __ATOMIC_RELEASE);
		break;
	case 2:
		__atomic_store_n((uint16_t *)(void *)host, v.u16, __ATOMIC_RELEASE);
		break;
	default:
		__atomic_store_n(host, *(const uint8_t *)from, __ATOMIC_RELEASE);
	}
}

static void load(void *to, const uint8_t *host, size_t n)
{
	union { uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64; } v;

	switch (n) {
	case 8:
		v.u64 = __atomic_load_n((const uint64_t *)(const void *)host, __ATOMIC_ACQUIRE);
		break;
	case 4:
		v.u32 = __atomic_load_n((const uint32_t *)(const void *)host, __ATOMIC_ACQUIRE);
		break;
	case 2:
		v.u16 = __atomic_load_n((const uint16_t *)(const void *)host, __ATOMIC_ACQUIRE);
		break;
	default:
		v.u8 = __atomic_load_n(host, __ATOMIC_ACQUIRE);
	}
	memcpy(to, &v, n);
}

enum mem_result mem_write(struct mem *m, uint64_t iova, const void *buf, size_t len)
{
	enum mem_result r = mem_probe(m, iova, len, MEM_WRITE);
	const uint8_t *from = buf;

	while (r == MEM_OK && len) {
		size_t n = len;
		uint8_t *host;

		find(m, iova, &n, MEM_WRITE, &host);
		n = natural(host, n);
		store(host, from, n);
		iova += n;
		from += n;
		len -= n;
	}
	return r;
}

enum mem_result mem_read(struct mem *m, uint64_t iova, void *buf, size_t len)
{
	enum mem_result r = mem_probe(m, iova, len, MEM_READ);
	uint8_t *to = buf;

	while (r == MEM_OK && len) {
		size_t n = len;
		uint8_t *host;

		find(m, iova, &n, MEM_READ, &host);
		n = natural(host, n);
		load(to, host, n);
		iova += n;
		to += n;
		len -= n;
	}
	return r;
}
