/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory that one QEMU lets its NTB function reach by DMA: a map from IO virtual address to the
 * memory behind it, as DMA_MAP and DMA_UNMAP describe it.  Knows nothing of NTBs.
 */
#ifndef NTBSIM_MEM_H
#define NTBSIM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEM_READ 1u
#define MEM_WRITE 2u

/* A file that some maps point into, mapped whole and once. */
struct backing {
	dev_t dev;
	ino_t ino;
	uint8_t *base;
	uint64_t size;
	struct backing *next;
};

struct mem_map {
	uint64_t iova, size;	/* iova + size never overflows */
	uint8_t *host;		/* NULL: only QEMU itself can reach it */
	unsigned int prot;	/* MEM_READ | MEM_WRITE */
};

struct mem {
	struct mem_map *maps;	/* by iova, never overlapping */
	unsigned int count, cap;
	struct backing *backings;
};

/*
 * @fd is not kept; -1 when there is no file behind the range.  Newer maps win over what
 * they overlap.  Return: 0 or -errno.
 */
int mem_add(struct mem *m, uint64_t iova, uint64_t size, int fd, uint64_t offset,
	    unsigned int prot);
/* Unmap all that is mapped in [iova, iova + size). */
void mem_del(struct mem *m, uint64_t iova, uint64_t size);
void mem_clear(struct mem *m);

enum mem_result {
	MEM_OK,
	MEM_NOT_RAM,	/* a map without memory that we see: QEMU must do it */
	MEM_UNMAPPED,	/* no map that we know of: QEMU must do it, or refuse it */
	MEM_DENIED,
};

/* What an access would return; of one in several pieces, the first that is not MEM_OK. */
enum mem_result mem_probe(struct mem *m, uint64_t iova, size_t len, unsigned int prot);
/*
 * One access by the NTB function.  Naturally aligned 1, 2, 4 or 8 bytes are one load or
 * store, so producers and consumers on the two hosts never see half a word.
 */
enum mem_result mem_read(struct mem *m, uint64_t iova, void *buf, size_t len);
enum mem_result mem_write(struct mem *m, uint64_t iova, const void *buf, size_t len);

uint64_t mem_total(const struct mem *m);

#endif
