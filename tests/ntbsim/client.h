/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the self-tests of ntbsim share: the server, and two small vfio-user clients in the place of
 * QEMUs.  Prints TAP.
 *
 *   client a ── a.sock ── ntbsim ── b.sock ── client b
 *      RAM a (memfd)                   RAM b (memfd), a "device" answered by message
 */
#ifndef NTBSIM_CLIENT_H
#define NTBSIM_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto.h"

#define RAM_SIZE 0x100000u
#define RAM_IOVA 0x10000000u	/* mapped read-write */
#define RO_IOVA 0x20000000u	/* one page of the same, read-only */
#define DEV_IOVA 0x30000000u	/* a map without a file: by message */
#define NOWHERE 0x40000000u
#define VECTORS 33
#define PATIENCE_MS 6000
#define LINK_DELAY_MS 500	/* what the server is told */
#define WRITE_TIMEOUT_MS 3000	/* also */

struct peer {
	const char *path;
	int fd, ram_fd;
	uint8_t *ram;
	int irq[VECTORS];
	uint16_t next_id;
	/* How the "device" of this client answers. */
	uint64_t dev_value, dev_written;
	uint32_t dev_last_len;
	bool dev_mute;
	unsigned int dev_reads, dev_writes;
	unsigned int writes_at_read;	/* dev_writes when it was last read */
};

extern char path_a[128], path_b[128], path_ctl[128];
extern pid_t server;

void ok(bool good, const char *what);
void bail(const char *why);

/* A server with one link, "t"; @more: for its --link, with a comma before each. */
void begin(const char *binary, const char *more);
/* The server ends.  @last: and so does the test.  Return: for exit(). */
int end(bool last);

void attach(struct peer *p, const char *path);
void detach(struct peer *p);

/* Return: false on end of file or when nothing came in @ms. */
bool recv_all(int fd, void *buf, size_t len, int ms);
/* Receive one message, and serve requests of the server.  Return: false without one. */
bool recv_msg(struct peer *p, struct vu_hdr *h, uint8_t *body, size_t max, int ms);
/* Serve the server's requests for a while. */
void serve(struct peer *p, int ms);
uint16_t request(struct peer *p, int cmd, const void *a, size_t alen, const void *b, size_t blen,
		 const int *fds, unsigned int nfds);
/* Return: errno of the reply, 0 or -1 when there was none; @other is served meanwhile. */
int wait_reply(struct peer *p, uint16_t id, void *out, size_t outlen, struct peer *other);
int call(struct peer *p, int cmd, const void *a, size_t alen, const void *b, size_t blen,
	 void *out, size_t outlen);
uint64_t rd_other(struct peer *p, int region, uint64_t off, unsigned int len, struct peer *other);
uint64_t rd(struct peer *p, int region, uint64_t off, unsigned int len);
void wr(struct peer *p, int region, uint64_t off, uint64_t v, unsigned int len);
int dma_map(struct peer *p, uint64_t iova, uint64_t size, uint64_t off, unsigned int flags,
	    int fd);
int dma_unmap(struct peer *p, uint64_t iova, uint64_t size, unsigned int flags);
int set_irqs(struct peer *p, unsigned int start, unsigned int count, bool on);
/* How often the vector fired; waits a moment if it has not yet. */
uint64_t fired(struct peer *p, unsigned int vec, int ms);
void drain_irqs(struct peer *p);

/* Return: the whole answer, valid until the next call; @busy is served meanwhile. */
const char *control(const char *cmd, struct peer *busy);
bool did(const char *cmd);
bool refused(const char *cmd);
/* A number of one side out of `status`. */
long long stat_of(char side, const char *name);
bool link_is(const char *state, int ms);

#endif
