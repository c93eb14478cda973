/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A vfio-user server socket: one client at a time, whole messages in order, descriptors
 * attached to the message that carried them.  Knows nothing of what the messages mean.
 */
#ifndef NTBSIM_VFU_H
#define NTBSIM_VFU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

#define VFU_MAX_BODY (64u * 1024)
#define VFU_MAX_FDS 16

struct vfu_msg {
	struct vu_hdr hdr;
	int fds[VFU_MAX_FDS];	/* closed after the callback unless taken (set to -1) */
	unsigned int nfds;
	size_t len;		/* of body */
	struct vfu_msg *next;
	uint8_t body[];
};

struct vfu;

struct vfu_ops {
	void (*up)(struct vfu *v);
	void (*down)(struct vfu *v);	/* the client is gone */
	void (*request)(struct vfu *v, struct vfu_msg *m);
	void (*reply)(struct vfu *v, struct vfu_msg *m);
};

struct vfu {
	const struct vfu_ops *ops;
	const char *path;
	int listen_fd, fd;	/* fd is -1 without a client */
	bool hold;		/* see vfu_hold() */

	struct vu_hdr rx_hdr;	/* the message that is arriving */
	size_t rx_have;		/* bytes of header and body so far */
	struct vfu_msg *rx;
	int rx_fds[VFU_MAX_FDS];
	unsigned int rx_nfds;

	struct vfu_msg *queue, **queue_end;	/* requests held back */
	unsigned int queued;

	uint8_t *tx;		/* what the socket did not take yet */
	size_t tx_len, tx_cap;
};

/* Return: 0 or -errno. @path must live as long as @v. */
int vfu_open(struct vfu *v, const char *path, const struct vfu_ops *ops);
void vfu_close(struct vfu *v);

/*
 * While held, further requests of this client wait, as they would behind a read that is not
 * completed yet.  Replies do not wait: otherwise two sides could wait for each other for ever.
 */
void vfu_hold(struct vfu *v, bool hold);
/* Handle what was held back.  From the idle hook only: it calls the request callback. */
void vfu_drain(struct vfu *v);

/* Two parts, so that a structure and its data need no copying together. */
void vfu_send(struct vfu *v, const struct vu_hdr *hdr, const void *a, size_t alen,
	      const void *b, size_t blen);
/* Answer @req; nothing is sent if the client wants no reply. */
void vfu_reply(struct vfu *v, const struct vu_hdr *req, const void *a, size_t alen,
	       const void *b, size_t blen);
void vfu_error(struct vfu *v, const struct vu_hdr *req, int err);

#endif
