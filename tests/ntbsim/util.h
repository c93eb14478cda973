/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Small things that every part of ntbsim needs: logging, time, little-endian access.
 * Knows nothing of NTBs or vfio-user.
 */
#ifndef NTBSIM_UTIL_H
#define NTBSIM_UTIL_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(n) (1u << (n))

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

extern bool verbose;

/* Always shown. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Shown with --verbose. */
#define dbg(...) do { if (verbose) say(__VA_ARGS__); } while (0)
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Never returns NULL: the simulator is useless without memory, and small. */
void *xalloc(size_t size);

/* Monotonic, milliseconds. */
uint64_t now_ms(void);

/* A string that grows; text is always terminated once something was added. */
struct text {
	char *s;
	size_t len, cap;
};

void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *t);

/* Unix stream sockets, non-blocking and close-on-exec. Return: fd, or -1 with errno set. */
int unix_listen(const char *path);
int unix_connect(const char *path);

static inline uint32_t get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline void put32(void *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint64_t get64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline void put64(void *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put16(void *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

#endif
