/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzers share: reading the input piece by piece, a check that ends the run, and
 * writing the first inputs (code makes them, so that no binary lies in the tree).
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/types.h>

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define MUST(cond) do {								\
	if (!(cond)) {								\
		fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
		abort();							\
	}									\
} while (0)

struct input {
	const u8 *data;
	size_t left;
};

/* Take @size bytes of the input; beyond its end there are zeroes. */
static inline void take(struct input *in, void *to, size_t size)
{
	size_t have = size < in->left ? size : in->left;

	memset(to, 0, size);
	memcpy(to, in->data, have);
	in->data += have;
	in->left -= have;
}

static inline u8 take_u8(struct input *in)
{
	u8 v;

	take(in, &v, sizeof(v));
	return v;
}

static inline u32 take_u32(struct input *in)
{
	u32 v;

	take(in, &v, sizeof(v));
	return v;
}

/* Write a first input, if DLEND_SEEDS asks for them. */
static inline void seed(const char *name, const void *data, size_t size)
{
	const char *dir = getenv("DLEND_SEEDS");
	char path[4096];
	FILE *file;

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "wb");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file)) {
		perror(path);
		exit(1);
	}
}

#endif
