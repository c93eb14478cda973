// SPDX-License-Identifier: GPL-2.0
/* See client.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "util.h"

static char dir[64];
char path_a[128], path_b[128], path_ctl[128];
pid_t server;
static unsigned int tests, failures;

void ok(bool good, const char *what)
{
	printf("%sok %u - %s\n", good ? "" : "not ", ++tests, what);
	fflush(stdout);
	if (!good)
		failures++;
}

void bail(const char *why)
{
	printf("Bail out! %s\n", why);
	if (server > 0)
		kill(server, SIGKILL);
	exit(1);
}

/* ---- the client's end of the protocol ---- */

static void send_msg(struct peer *p, struct vu_hdr h, const void *a, size_t alen,
		     const void *b, size_t blen, const int *fds, unsigned int nfds)
{
	char ctl[CMSG_SPACE(16 * sizeof(int))] = { 0 };
	struct iovec iov[3] = { { &h, sizeof(h) }, { (void *)a, alen }, { (void *)b, blen } };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 3 };

	h.size = sizeof(h) + alen + blen;
	if (nfds) {
		struct cmsghdr *c;

		mh.msg_control = ctl;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	/* A failure shows as a reply that does not come. */
	(void)!sendmsg(p->fd, &mh, MSG_NOSIGNAL);
}

/* Return: false on end of file or when nothing came in @ms. */
bool recv_all(int fd, void *buf, size_t len, int ms)
{
	uint8_t *to = buf;

	while (len) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&pfd, 1, ms) <= 0)
			return false;
		n = recv(fd, to, len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			return false;
		to += n;
		len -= n;
	}
	return true;
}

/* Play QEMU for a DMA message: only the "device" is behind it. */
static void answer_dma(struct peer *p, const struct vu_hdr *req, const uint8_t *body)
{
	struct vu_hdr h = { .id = req->id, .cmd = req->cmd, .flags = VU_REPLY };
	struct vu_dma_rw rw;

	memcpy(&rw, body, sizeof(rw));
	p->dev_last_len = rw.count;
	if (req->cmd == VU_DMA_READ) {
		p->dev_reads++;
		p->writes_at_read = p->dev_writes;
	} else {
		p->dev_writes++;
	}
	if (p->dev_mute)
		return;
	if (rw.addr < DEV_IOVA || rw.addr >= DEV_IOVA + 0x1000) {
		h.flags |= VU_ERROR;
		h.error = ENODEV;
		send_msg(p, h, NULL, 0, NULL, 0, NULL, 0);
	} else if (req->cmd == VU_DMA_READ) {
		send_msg(p, h, &rw, sizeof(rw), &p->dev_value, rw.count, NULL, 0);
	} else {
		memcpy(&p->dev_written, body + sizeof(rw), rw.count > 8 ? 8 : rw.count);
		send_msg(p, h, NULL, 0, NULL, 0, NULL, 0);
	}
}

/* Receive one message, and serve requests of the server.  Return: false without one. */
bool recv_msg(struct peer *p, struct vu_hdr *h, uint8_t *body, size_t max, int ms)
{
	if (!recv_all(p->fd, h, sizeof(*h), ms))
		return false;
	if (h->size < sizeof(*h) || h->size - sizeof(*h) > max)
		bail("message of a bad size");
	if (!recv_all(p->fd, body, h->size - sizeof(*h), PATIENCE_MS))
		return false;
	if ((h->flags & VU_TYPE_MASK) != VU_REPLY)
		answer_dma(p, h, body);
	return true;
}

/* Serve the server's requests for a while. */
void serve(struct peer *p, int ms)
{
	uint8_t body[8192];
	struct vu_hdr h;

	while (recv_msg(p, &h, body, sizeof(body), ms))
		;
}

uint16_t request(struct peer *p, int cmd, const void *a, size_t alen, const void *b, size_t blen,
		 const int *fds, unsigned int nfds)
{
	struct vu_hdr h = { .id = p->next_id++, .cmd = cmd };

	send_msg(p, h, a, alen, b, blen, fds, nfds);
	return h.id;
}

/* Return: errno of the reply, 0 or -1 when there was none; @other is served meanwhile. */
int wait_reply(struct peer *p, uint16_t id, void *out, size_t outlen, struct peer *other)
{
	uint8_t body[8192];
	struct vu_hdr h;
	int i;

	for (i = 0; i < PATIENCE_MS / 5; i++) {
		struct pollfd pfd[2] = {
			{ .fd = p->fd, .events = POLLIN },
			{ .fd = other ? other->fd : -1, .events = POLLIN },
		};

		poll(pfd, 2, 5);
		if (pfd[1].revents && !recv_msg(other, &h, body, sizeof(body), 1))
			return -1;
		if (!pfd[0].revents)
			continue;
		if (!recv_msg(p, &h, body, sizeof(body), 1))
			return -1;
		if ((h.flags & VU_TYPE_MASK) != VU_REPLY || h.id != id)
			continue;
		if (h.flags & VU_ERROR)
			return h.error;
		if (out)
			memcpy(out, body, outlen);
		return 0;
	}
	return -1;
}

int call(struct peer *p, int cmd, const void *a, size_t alen, const void *b, size_t blen,
	 void *out, size_t outlen)
{
	return wait_reply(p, request(p, cmd, a, alen, b, blen, NULL, 0), out, outlen, NULL);
}

uint64_t rd_other(struct peer *p, int region, uint64_t off, unsigned int len, struct peer *other)
{
	struct vu_region_rw rw = { .offset = off, .region = region, .count = len };
	struct { struct vu_region_rw rw; uint8_t data[8]; } r = { 0 };
	uint64_t v = 0;
	uint16_t id = request(p, VU_REGION_READ, &rw, sizeof(rw), NULL, 0, NULL, 0);

	if (wait_reply(p, id, &r, sizeof(rw) + len, other))
		bail("a read was not answered");
	memcpy(&v, r.data, len);
	return v;
}

uint64_t rd(struct peer *p, int region, uint64_t off, unsigned int len)
{
	return rd_other(p, region, off, len, NULL);
}

void wr(struct peer *p, int region, uint64_t off, uint64_t v, unsigned int len)
{
	struct vu_region_rw rw = { .offset = off, .region = region, .count = len };

	if (call(p, VU_REGION_WRITE, &rw, sizeof(rw), &v, len, NULL, 0))
		bail("a write was refused");
}

int dma_map(struct peer *p, uint64_t iova, uint64_t size, uint64_t off, unsigned int flags,
	    int fd)
{
	struct vu_dma_map m = {
		.argsz = sizeof(m), .flags = flags, .offset = off, .iova = iova, .size = size,
	};
	uint16_t id = request(p, VU_DMA_MAP, &m, sizeof(m), NULL, 0, &fd, fd >= 0);

	return wait_reply(p, id, NULL, 0, NULL);
}

int dma_unmap(struct peer *p, uint64_t iova, uint64_t size, unsigned int flags)
{
	struct vu_dma_unmap m = {
		.argsz = sizeof(m), .flags = flags, .iova = iova, .size = size,
	};

	return call(p, VU_DMA_UNMAP, &m, sizeof(m), NULL, 0, NULL, 0);
}

int set_irqs(struct peer *p, unsigned int start, unsigned int count, bool on)
{
	struct vu_irq_set q = {
		.argsz = sizeof(q), .flags = VU_IRQ_DATA_EVENTFD | VU_IRQ_TRIGGER,
		.index = VU_IRQ_MSIX, .start = start, .count = count,
	};
	uint16_t id = request(p, VU_SET_IRQS, &q, sizeof(q), NULL, 0, p->irq + start,
			      on ? count : 0);

	return wait_reply(p, id, NULL, 0, NULL);
}

/* How often the vector fired; waits a moment if it has not yet. */
uint64_t fired(struct peer *p, unsigned int vec, int ms)
{
	struct pollfd pfd = { .fd = p->irq[vec], .events = POLLIN };
	uint64_t n = 0;

	if (poll(&pfd, 1, ms) > 0 && read(p->irq[vec], &n, sizeof(n)) != sizeof(n))
		return 0;
	return n;
}

void drain_irqs(struct peer *p)
{
	unsigned int i;

	for (i = 0; i < VECTORS; i++)
		fired(p, i, 0);
}

/* ---- the control socket ---- */

static bool answered(const char *s, size_t len)
{
	const char *last = s + len - 1;

	if (!len || *last != '\n')
		return false;
	while (last > s && last[-1] != '\n')
		last--;
	return !strncmp(last, "ok\n", 3) || !strncmp(last, "error:", 6);
}

/* Return: the whole answer, valid until the next call; @busy is served meanwhile. */
const char *control(const char *cmd, struct peer *busy)
{
	static char buf[16384];
	uint8_t body[8192];
	struct vu_hdr h;
	size_t have = 0;
	int fd = unix_connect(path_ctl);

	if (fd < 0 || send(fd, cmd, strlen(cmd), 0) < 0 || send(fd, "\n", 1, 0) < 0)
		bail("control socket");
	while (!answered(buf, have)) {
		struct pollfd pfd[2] = {
			{ .fd = fd, .events = POLLIN },
			{ .fd = busy ? busy->fd : -1, .events = POLLIN },
		};
		ssize_t n;

		if (poll(pfd, 2, PATIENCE_MS) <= 0)
			bail("no answer on the control socket");
		if (pfd[1].revents)
			recv_msg(busy, &h, body, sizeof(body), 100);
		if (!pfd[0].revents)
			continue;
		n = recv(fd, buf + have, sizeof(buf) - have - 1, 0);
		if (n <= 0)
			bail("control socket closed");
		have += n;
		buf[have] = 0;
	}
	close(fd);
	return buf;
}

bool did(const char *cmd)
{
	return !strcmp(control(cmd, NULL), "ok\n");
}

bool refused(const char *cmd)
{
	return !strncmp(control(cmd, NULL), "error:", 6);
}

/* A number of one side out of `status`. */
long long stat_of(char side, const char *name)
{
	char key[64];
	const char *s = control("status", NULL);

	snprintf(key, sizeof(key), "\"%c\":{", side);
	s = strstr(s, key);
	snprintf(key, sizeof(key), "\"%s\":", name);
	s = s ? strstr(s, key) : NULL;
	return s ? atoll(s + strlen(key)) : -1;
}

bool link_is(const char *state, int ms)
{
	for (; ms >= 0; ms -= 10) {
		if (strstr(control("status", NULL), state))
			return true;
		usleep(10000);
	}
	return false;
}

/* ---- set-up ---- */

static void start_server(const char *binary, const char *more)
{
	char spec[512], delay[16], patience[16];
	int i;

	snprintf(delay, sizeof(delay), "%d", LINK_DELAY_MS);
	snprintf(patience, sizeof(patience), "%d", WRITE_TIMEOUT_MS);
	snprintf(spec, sizeof(spec), "t=%s,%s,bar2=64K,bar4=1M%s", path_a, path_b, more);
	server = fork();
	if (server < 0)
		bail("fork");
	if (!server) {
		execl(binary, binary, "--control", path_ctl, "--link", spec, "--link-delay-ms",
		      delay, "--write-timeout-ms", patience, NULL);
		_exit(127);
	}
	for (i = 0; i < 500 && access(path_ctl, F_OK); i++)
		usleep(10000);
}

/* The server may not have seen yet that the last client left: try again. */
static void connect_peer(struct peer *p)
{
	struct { uint16_t major, minor; char caps[120]; } v = { 0, 0, "{\"capabilities\":{}}" };
	int i;

	for (i = 0; i < 100; i++) {
		p->fd = unix_connect(p->path);
		if (p->fd < 0)
			bail("cannot connect");
		if (!call(p, VU_VERSION, &v, sizeof(v), NULL, 0, NULL, 0))
			return;
		close(p->fd);
		usleep(20000);
	}
	bail("version");
}

void attach(struct peer *p, const char *path)
{
	unsigned int i;

	memset(p, 0, sizeof(*p));
	p->path = path;
	connect_peer(p);
	p->ram_fd = memfd_create("ram", MFD_CLOEXEC);
	if (p->ram_fd < 0 || ftruncate(p->ram_fd, RAM_SIZE))
		bail("memfd");
	p->ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, p->ram_fd, 0);
	if (p->ram == MAP_FAILED)
		bail("mmap");
	for (i = 0; i < VECTORS; i++)
		p->irq[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void detach(struct peer *p)
{
	unsigned int i;

	close(p->fd);
	close(p->ram_fd);
	munmap(p->ram, RAM_SIZE);
	for (i = 0; i < VECTORS; i++)
		close(p->irq[i]);
}

void begin(const char *binary, const char *more)
{
	strcpy(dir, "/tmp/ntbsim.XXXXXX");
	if (!mkdtemp(dir))
		bail("mkdtemp");
	snprintf(path_a, sizeof(path_a), "%s/a", dir);
	snprintf(path_b, sizeof(path_b), "%s/b", dir);
	snprintf(path_ctl, sizeof(path_ctl), "%s/ctl", dir);
	signal(SIGPIPE, SIG_IGN);
	start_server(binary, more);
}

static void test_end(void)
{
	int status = -1;

	kill(server, SIGTERM);
	ok(waitpid(server, &status, 0) == server && WIFEXITED(status) && !WEXITSTATUS(status),
	   "SIGTERM ends the server cleanly");
	ok(access(path_a, F_OK) && access(path_b, F_OK) && access(path_ctl, F_OK),
	   "its sockets are gone");
}

int end(bool last)
{
	test_end();
	rmdir(dir);
	if (last)
		printf("1..%u\n", tests);
	return failures ? 1 : 0;
}
