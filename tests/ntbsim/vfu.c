// SPDX-License-Identifier: GPL-2.0
/*
 * Transport of the vfio-user protocol.  A header is read on its own, because descriptors
 * come with the first byte of a message and a larger read would not say whose they are.
 * A client that breaks the framing is disconnected; nothing it sends may end the process.
 */
#include "vfu.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "util.h"

#define MAX_BATCH 64			/* then another socket gets its turn */
#define MAX_QUEUED 4096
#define MAX_TX (8u * 1024 * 1024)

static void close_fds(int *fds, unsigned int n)
{
	while (n--)
		if (fds[n] >= 0)
			close(fds[n]);
}

static void msg_free(struct vfu_msg *m)
{
	if (!m)
		return;
	close_fds(m->fds, m->nfds);
	free(m);
}

static void rx_reset(struct vfu *v)
{
	msg_free(v->rx);
	v->rx = NULL;
	v->rx_have = 0;
	v->rx_nfds = 0;
}

static void queue_clear(struct vfu *v)
{
	while (v->queue) {
		struct vfu_msg *m = v->queue;

		v->queue = m->next;
		msg_free(m);
	}
	v->queue_end = &v->queue;
	v->queued = 0;
}

static void disconnect(struct vfu *v)
{
	if (v->fd < 0)
		return;
	watch_del(v->fd);
	close(v->fd);
	v->fd = -1;
	if (!v->rx)
		close_fds(v->rx_fds, v->rx_nfds);
	rx_reset(v);
	queue_clear(v);
	v->tx_len = 0;
	v->hold = false;
	v->ops->down(v);
}

/* Return: bytes, 0 when there is nothing to read, -1 when the client is gone. */
static ssize_t rx_some(struct vfu *v, void *buf, size_t len)
{
	char ctl[CMSG_SPACE(sizeof(int) * VFU_MAX_FDS)];
	struct iovec iov = { buf, len };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = ctl, .msg_controllen = sizeof(ctl),
	};
	struct cmsghdr *c;
	ssize_t n = recvmsg(v->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	for (c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
		unsigned int i, nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; i < nfds; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (v->rx || v->rx_nfds == VFU_MAX_FDS)
				close(fd);	/* not with a header, or too many */
			else
				v->rx_fds[v->rx_nfds++] = fd;
		}
	}
	return n ? n : -1;
}

/* The header is complete: check it and make room for the body. */
static bool rx_start_body(struct vfu *v)
{
	size_t len = v->rx_hdr.size - sizeof(v->rx_hdr);

	if (v->rx_hdr.size < sizeof(v->rx_hdr) || len > VFU_MAX_BODY) {
		say("%s: message of %u bytes, client dropped", v->path, v->rx_hdr.size);
		return false;
	}
	v->rx = xalloc(sizeof(*v->rx) + len);
	v->rx->hdr = v->rx_hdr;
	v->rx->len = len;
	v->rx->nfds = v->rx_nfds;
	memcpy(v->rx->fds, v->rx_fds, sizeof(v->rx_fds));
	return true;
}

/* Return: 1 when a message is complete in v->rx, 0 to wait for more, -1 to disconnect. */
static int rx_step(struct vfu *v)
{
	size_t head = sizeof(v->rx_hdr);
	ssize_t n;

	if (!v->rx) {
		n = rx_some(v, (uint8_t *)&v->rx_hdr + v->rx_have, head - v->rx_have);
		if (n <= 0)
			return n;
		v->rx_have += n;
		if (v->rx_have < head)
			return 0;
		if (!rx_start_body(v))
			return -1;
	}
	if (v->rx_have - head < v->rx->len) {
		n = rx_some(v, v->rx->body + (v->rx_have - head),
			    v->rx->len - (v->rx_have - head));
		if (n <= 0)
			return n;
		v->rx_have += n;
	}
	return v->rx_have - head == v->rx->len;
}

static void enqueue(struct vfu *v, struct vfu_msg *m)
{
	m->next = NULL;
	*v->queue_end = m;
	v->queue_end = &m->next;
	if (++v->queued == MAX_QUEUED)
		watch_in(v->fd, false);
}

static void dispatch(struct vfu *v, struct vfu_msg *m)
{
	bool reply = (m->hdr.flags & VU_TYPE_MASK) == VU_REPLY;

	if (!reply && (v->hold || v->queue)) {
		enqueue(v, m);
		return;
	}
	if (reply)
		v->ops->reply(v, m);
	else
		v->ops->request(v, m);
	msg_free(m);
}

static void client_ready(void *arg, short revents);

static void tx_flush(struct vfu *v)
{
	ssize_t n = send(v->fd, v->tx, v->tx_len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0) {
		memmove(v->tx, v->tx + n, v->tx_len - n);
		v->tx_len -= n;
	}
	watch_out(v->fd, v->tx_len > 0);
}

static void client_ready(void *arg, short revents)
{
	struct vfu *v = arg;
	int i, r = 1;

	if (revents & POLLOUT)
		tx_flush(v);
	if (!(revents & ~POLLOUT))
		return;
	for (i = 0; i < MAX_BATCH && r > 0 && v->queued < MAX_QUEUED; i++) {
		struct vfu_msg *m;

		r = rx_step(v);
		if (r <= 0)
			break;
		m = v->rx;
		v->rx = NULL;
		rx_reset(v);
		dispatch(v, m);
		if (v->fd < 0)
			return;
	}
	/* A client that is held back for good must still be seen to leave. */
	if (r < 0 || (v->queued == MAX_QUEUED && revents & (POLLHUP | POLLERR)))
		disconnect(v);
}

/* A host that restarts may be back before the end of its old connection was seen. */
static bool client_left(struct vfu *v)
{
	struct pollfd pfd = { .fd = v->fd };

	return poll(&pfd, 1, 0) > 0 && pfd.revents & (POLLHUP | POLLERR);
}

static void listen_ready(void *arg, short revents)
{
	struct vfu *v = arg;
	int fd = accept4(v->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)revents;
	if (fd < 0)
		return;
	if (v->fd >= 0 && client_left(v))
		disconnect(v);
	if (v->fd >= 0) {
		say("%s: a second client was turned away", v->path);
		close(fd);
		return;
	}
	v->fd = fd;
	watch_add(fd, client_ready, v);
	v->ops->up(v);
}

int vfu_open(struct vfu *v, const char *path, const struct vfu_ops *ops)
{
	v->ops = ops;
	v->path = path;
	v->fd = -1;
	v->queue_end = &v->queue;
	v->listen_fd = unix_listen(path);
	if (v->listen_fd < 0)
		return -errno;
	watch_add(v->listen_fd, listen_ready, v);
	return 0;
}

void vfu_close(struct vfu *v)
{
	disconnect(v);
	watch_del(v->listen_fd);
	close(v->listen_fd);
	unlink(v->path);
	free(v->tx);
	v->tx = NULL;
}

void vfu_hold(struct vfu *v, bool hold)
{
	v->hold = hold;
}

void vfu_drain(struct vfu *v)
{
	while (v->queue && !v->hold) {
		struct vfu_msg *m = v->queue;

		v->queue = m->next;
		if (!v->queue)
			v->queue_end = &v->queue;
		if (v->queued-- == MAX_QUEUED)
			watch_in(v->fd, true);
		v->ops->request(v, m);
		msg_free(m);
	}
}

static void tx_keep(struct vfu *v, const uint8_t *p, size_t len)
{
	if (v->tx_len + len > v->tx_cap) {
		v->tx_cap = (v->tx_len + len) * 2;
		v->tx = realloc(v->tx, v->tx_cap);
		if (!v->tx)
			die("out of memory");
	}
	memcpy(v->tx + v->tx_len, p, len);
	v->tx_len += len;
}

/* Keep what of the parts was not sent, in order. */
static void tx_keep_rest(struct vfu *v, const struct iovec *iov, int n, size_t sent)
{
	int i;

	for (i = 0; i < n; i++) {
		size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;

		if (iov[i].iov_len > skip)
			tx_keep(v, (uint8_t *)iov[i].iov_base + skip, iov[i].iov_len - skip);
		sent -= skip;
	}
	watch_out(v->fd, v->tx_len > 0);
}

void vfu_send(struct vfu *v, const struct vu_hdr *hdr, const void *a, size_t alen,
	      const void *b, size_t blen)
{
	struct vu_hdr h = *hdr;
	struct iovec iov[3] = {
		{ &h, sizeof(h) }, { (void *)a, alen }, { (void *)b, blen },
	};
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 3 };
	ssize_t n = 0;

	/* A client that does not read counts as gone: drop what it misses. */
	if (v->fd < 0 || v->tx_len > MAX_TX)
		return;
	h.size = sizeof(h) + alen + blen;
	if (!v->tx_len)
		n = sendmsg(v->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	tx_keep_rest(v, iov, 3, n > 0 ? n : 0);
}

void vfu_reply(struct vfu *v, const struct vu_hdr *req, const void *a, size_t alen,
	       const void *b, size_t blen)
{
	struct vu_hdr h = { .id = req->id, .cmd = req->cmd, .flags = VU_REPLY };

	if (!(req->flags & VU_NO_REPLY))
		vfu_send(v, &h, a, alen, b, blen);
}

void vfu_error(struct vfu *v, const struct vu_hdr *req, int err)
{
	struct vu_hdr h = {
		.id = req->id, .cmd = req->cmd, .flags = VU_REPLY | VU_ERROR, .error = err,
	};

	if (!(req->flags & VU_NO_REPLY))
		vfu_send(v, &h, NULL, 0, NULL, 0);
}
