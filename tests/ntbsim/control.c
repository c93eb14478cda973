// SPDX-License-Identifier: GPL-2.0
/*
 * The control socket.  One command a line; the answer is zero or more lines and then "ok"
 * or "error: WHY".  Tests are the only client, so commands are checked but not quick.
 */
#include "control.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "util.h"

#define MAX_LINE (2 * DMA_MAX_LEN + 256)
#define MAX_ARGS 6

struct client {
	int fd;
	char line[MAX_LINE];
	size_t have;
	bool waiting;		/* for a peek that QEMU has to answer */
	struct text out;
	struct client *next;
};

static struct client *clients;
static struct ntb_link *links;
static const char *socket_path;
static int listen_fd = -1;

/* ---- answers ---- */

static void client_drop(struct client *c)
{
	struct client **p;
	struct ntb_link *l;

	for (l = links; l; l = l->next) {
		dma_cancel(&l->side[0].dma, c);
		dma_cancel(&l->side[1].dma, c);
	}
	for (p = &clients; *p != c; p = &(*p)->next)
		;
	*p = c->next;
	watch_del(c->fd);
	close(c->fd);
	text_free(&c->out);
	free(c);
}

static void flush(struct client *c)
{
	ssize_t n;

	if (!c->out.len)
		return;
	n = send(c->fd, c->out.s, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0) {
		memmove(c->out.s, c->out.s + n, c->out.len - n);
		c->out.len -= n;
	}
	watch_out(c->fd, c->out.len > 0);
}

/* Every command returns NULL or why it failed. */
typedef const char *(*command_fn)(struct client *c, char **arg);

/* ---- arguments ---- */

static struct ntb_link *find_link(const char *name)
{
	struct ntb_link *l;

	for (l = links; l; l = l->next)
		if (!strcmp(l->name, name))
			return l;
	return NULL;
}

static struct ntb_side *find_side(const char *name, const char *side)
{
	struct ntb_link *l = find_link(name);

	if (!l || (strcmp(side, "a") && strcmp(side, "b")))
		return NULL;
	return &l->side[side[0] == 'b'];
}

static bool number(const char *s, uint64_t *v)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*v = strtoull(s, &end, 0);
	return !*end && !errno;
}

static bool window(const char *s, enum ntb_window *w)
{
	if (strcmp(s, "2") && strcmp(s, "4"))
		return false;
	*w = *s == '2' ? NTB_BAR2 : NTB_BAR4;
	return true;
}

static bool hex(const char *s, uint8_t *buf, size_t *len)
{
	unsigned int byte;

	for (*len = 0; *s; s += 2) {
		if (*len == DMA_MAX_LEN || !isxdigit((unsigned char)s[0]) ||
		    !isxdigit((unsigned char)s[1]))
			return false;
		if (sscanf(s, "%2x", &byte) != 1)
			return false;
		buf[(*len)++] = byte;
	}
	return *len > 0;
}

/* ---- commands ---- */

static void show_number(struct text *t, const char *name, uint64_t v)
{
	text_add(t, ",\"%s\":%llu", name, (unsigned long long)v);
}

static void show_window(struct text *t, struct ntb_side *s, const char *name, enum ntb_window w)
{
	uint64_t addr, open;

	s->link->family->window(s, w, 0, &addr, &open);
	text_add(t, ",\"%s\":{\"xlat\":\"0x%llx\",\"limit\":%llu}", name,
		 (unsigned long long)addr, (unsigned long long)open);
}

static void show_side(struct text *t, struct ntb_side *s)
{
	const struct ntb_counters *n = &s->n;
	const struct dma_port *d = &s->dma;

	text_add(t, "{\"connected\":%s,\"ready\":%s,\"silent\":%s",
		 s->vfu.fd >= 0 ? "true" : "false",
		 s->link->family->driven(s) ? "true" : "false", s->silent ? "true" : "false");
	show_number(t, "reads", n->reads);
	show_number(t, "writes", n->writes);
	show_number(t, "reads4", n->reads4);
	show_number(t, "writes4", n->writes4);
	show_number(t, "read_bytes", n->read_bytes);
	show_number(t, "write_bytes", n->write_bytes);
	show_number(t, "reg_reads", n->reg_reads);
	show_number(t, "reg_writes", n->reg_writes);
	show_number(t, "doorbells", n->doorbells);
	show_number(t, "doorbells_lost", n->doorbells_lost);
	show_number(t, "late", n->late);
	show_number(t, "slow", n->slow);
	show_number(t, "irqs", n->irqs);
	show_number(t, "dropped", n->dropped);
	show_number(t, "dma_reads", d->msg_reads);
	show_number(t, "dma_writes", d->unmapped_writes + d->not_ram_writes);
	show_number(t, "dma_writes_unmapped", d->unmapped_writes);
	show_number(t, "dma_writes_not_ram", d->not_ram_writes);
	show_number(t, "ram_writes", d->ram_writes);
	show_number(t, "held", d->held_writes);
	show_number(t, "held_doorbells", d->held_calls);
	show_number(t, "inflight", d->inflight.count);
	show_number(t, "waiting", d->held.count);
	show_number(t, "faults", d->faults);
	text_add(t, ",\"last_fault\":\"0x%llx\"", (unsigned long long)d->last_fault);
	show_number(t, "timeouts", d->timeouts);
	show_number(t, "late_replies", d->late);
	show_number(t, "maps", d->mem.count);
	show_number(t, "mapped_bytes", mem_total(&d->mem));
	show_number(t, "db_drop", s->db_drop);
	show_number(t, "db_delay_ms", s->db_delay_ms);
	show_number(t, "overridden", s->spad_lies);
	show_window(t, s, "bar2", NTB_BAR2);
	show_window(t, s, "bar4", NTB_BAR4);
	text_add(t, "}");
}

static const char *cmd_status(struct client *c, char **arg)
{
	struct ntb_link *l;

	(void)arg;
	text_add(&c->out, "{\"links\":{");
	for (l = links; l; l = l->next) {
		text_add(&c->out, "%s\"%s\":{\"up\":%s,\"trained\":%s,\"cut\":%s",
			 l == links ? "" : ",", l->name, ntb_ready(l) ? "true" : "false",
			 l->up ? "true" : "false", l->cut ? "true" : "false");
		show_number(&c->out, "bar2_size", l->bar_size[NTB_BAR2]);
		show_number(&c->out, "bar4_size", l->bar_size[NTB_BAR4]);
		text_add(&c->out, ",\"a\":");
		show_side(&c->out, &l->side[0]);
		text_add(&c->out, ",\"b\":");
		show_side(&c->out, &l->side[1]);
		text_add(&c->out, "}");
	}
	text_add(&c->out, "}}\n");
	return NULL;
}

static const char *cmd_link(struct client *c, char **arg)
{
	struct ntb_link *l = find_link(arg[1]);

	(void)c;
	if (!l)
		return "no such link";
	if (strcmp(arg[2], "up") && strcmp(arg[2], "down"))
		return "up or down?";
	ntb_cut(l, !strcmp(arg[2], "down"));
	return NULL;
}

static const char *cmd_silent(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);

	(void)c;
	if (!s)
		return "no such side";
	if (strcmp(arg[3], "on") && strcmp(arg[3], "off"))
		return "on or off?";
	s->silent = !strcmp(arg[3], "on");
	return NULL;
}

static const char *cmd_mute(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);
	uint64_t off, len;
	enum ntb_window w;

	(void)c;
	if (!s)
		return "no such side";
	if (!window(arg[3], &w) || !number(arg[4], &off) || !number(arg[5], &len) ||
	    off > s->link->bar_size[w] || len > s->link->bar_size[w])
		return "usage: mute NAME a|b 2|4 OFFSET LEN";
	s->mute_window = w;
	s->mute_off = off;
	s->mute_len = len;
	return NULL;
}

static const char *cmd_doorbell(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);
	uint64_t n = 0;

	(void)c;
	if (!s)
		return "no such side";
	if (!strcmp(arg[3], "normal")) {
		s->db_drop = 0;
		s->db_delay_ms = 0;
		ntb_flood(s, 0);
		return NULL;
	}
	if (!arg[4] || !number(arg[4], &n) || n > 1000000000)
		return "bad number";
	if (!strcmp(arg[3], "drop"))
		s->db_drop = n;
	else if (!strcmp(arg[3], "delay"))
		s->db_delay_ms = n;
	else if (!strcmp(arg[3], "flood") && n <= 1000)
		ntb_flood(s, n);
	else
		return "drop, delay, flood or normal?";
	return NULL;
}

static const char *cmd_window(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);
	uint64_t ms, from = 0;
	bool interrupts;

	(void)c;
	if (!s)
		return "no such side";
	if (!strcmp(arg[3], "normal") && !arg[4]) {
		late_set(s, 0, 0, false);
		s->slow_ms = 0;
		return NULL;
	}
	if (!strcmp(arg[3], "slow") && arg[4] && !arg[5]) {
		if (!number(arg[4], &ms) || !ms || ms > DMA_READ_TIMEOUT_MS)
			return "bad number";
		s->slow_ms = ms;
		return NULL;
	}
	if (strcmp(arg[3], "late") || !arg[4] || !arg[5])
		return "late MS OFFSET, late MS interrupts, slow MS, or normal?";
	interrupts = !strcmp(arg[5], "interrupts");
	if (!number(arg[4], &ms) || !ms || ms > 10000 || !(interrupts || number(arg[5], &from)))
		return "bad number";
	late_set(s, ms, from, interrupts);
	return NULL;
}

static const char *cmd_poke(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);
	uint8_t buf[DMA_MAX_LEN];
	enum ntb_window w;
	uint64_t off, lost;
	size_t len;

	(void)c;
	if (!s)
		return "no such side";
	if (!window(arg[3], &w) || !number(arg[4], &off) || !hex(arg[5], buf, &len))
		return "usage: poke NAME a|b 2|4 OFFSET HEXBYTES";
	lost = ntb_peer(s)->n.dropped + s->dma.faults;
	ntb_window_write(ntb_peer(s), w, off, buf, len, true);
	if (lost != ntb_peer(s)->n.dropped + s->dma.faults)
		return "not mapped";
	return NULL;
}

static void finish(struct client *c, const char *why)
{
	if (why)
		text_add(&c->out, "error: %s\n", why);
	else
		text_add(&c->out, "ok\n");
	flush(c);
}

static void peek_done(void *arg, int err, const void *data, size_t len)
{
	struct client *c = arg;
	const uint8_t *p = data;
	size_t i;

	c->waiting = false;
	if (err) {
		finish(c, strerror(err));
		return;
	}
	for (i = 0; i < len; i++)
		text_add(&c->out, "%02x", p[i]);
	text_add(&c->out, "\n");
	finish(c, NULL);
}

static const char *cmd_peek(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);
	uint64_t off, len;
	enum ntb_window w;

	if (!s)
		return "no such side";
	if (!window(arg[3], &w) || !number(arg[4], &off) || !number(arg[5], &len) ||
	    !len || len > DMA_MAX_LEN)
		return "usage: peek NAME a|b 2|4 OFFSET LEN";
	c->waiting = true;
	ntb_window_read(ntb_peer(s), w, off, len, true, peek_done, c);
	return NULL;
}

static const char *cmd_spad(struct client *c, char **arg)
{
	struct ntb_link *l = find_link(arg[1]);
	uint32_t *spad;
	uint64_t n, v;

	if (!l)
		return "no such link";
	spad = l->family->spad && number(arg[2], &n) && n < 256 ? l->family->spad(l, n) : NULL;
	if (!spad)
		return "bad scratchpad";
	if (!arg[3]) {
		text_add(&c->out, "0x%08x\n", *spad);
		return NULL;
	}
	if (!number(arg[3], &v) || v > UINT32_MAX)
		return "bad value";
	*spad = v;
	return NULL;
}

static const char *cmd_override(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);
	uint64_t n, v;

	(void)c;
	if (!s)
		return "no such side";
	if (!strcmp(arg[3], "off") && !arg[4]) {
		s->spad_lies = 0;
		return NULL;
	}
	if (!s->link->family->spad)
		return "this bridge has no scratchpads";
	if (!arg[4] || !number(arg[3], &n) || n >= NTB_SPADS || !number(arg[4], &v) ||
	    v > UINT32_MAX)
		return "usage: override NAME a|b N VALUE, or override NAME a|b off";
	s->spad_lie[n] = v;
	s->spad_lies |= BIT(n);
	return NULL;
}

static const char *cmd_requesters(struct client *c, char **arg)
{
	struct ntb_side *s = find_side(arg[1], arg[2]);

	if (!s)
		return "no such side";
	if (!s->link->family->requesters)
		return "this bridge lets all requesters pass";
	return s->link->family->requesters(s, arg + 3, &c->out);
}

static const char *cmd_patience(struct client *c, char **arg)
{
	uint64_t ms;

	(void)c;
	if (!number(arg[1], &ms) || ms > 3600000)
		return "usage: patience MS, up to an hour";
	dma_write_timeout_ms = ms;
	return NULL;
}

static const char *cmd_quit(struct client *c, char **arg)
{
	(void)c;
	(void)arg;
	loop_stop();
	return NULL;
}

static const struct command {
	const char *name;
	int min, max;		/* words, with the name */
	bool answers;		/* itself, maybe later */
	command_fn fn;
} commands[] = {
	{ "status",	1, 1, false, cmd_status },
	{ "link",	3, 3, false, cmd_link },
	{ "silent",	4, 4, false, cmd_silent },
	{ "mute",	6, 6, false, cmd_mute },
	{ "doorbell",	4, 5, false, cmd_doorbell },
	{ "window",	4, 6, false, cmd_window },
	{ "poke",	6, 6, false, cmd_poke },
	{ "peek",	6, 6, true, cmd_peek },
	{ "spad",	3, 4, false, cmd_spad },
	{ "override",	4, 5, false, cmd_override },
	{ "requesters",	3, 5, false, cmd_requesters },
	{ "patience",	2, 2, false, cmd_patience },
	{ "quit",	1, 1, false, cmd_quit },
};

static const struct command *find_command(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static void run_line(struct client *c, char *line)
{
	char *arg[MAX_ARGS + 2] = { NULL }, *save;
	const struct command *cmd;
	const char *why;
	int n = 0;

	for (arg[n] = strtok_r(line, " \t\r", &save); arg[n] && n <= MAX_ARGS;
	     arg[n] = strtok_r(NULL, " \t\r", &save))
		n++;
	if (!n)
		return;
	cmd = find_command(arg[0]);
	if (!cmd || n < cmd->min || n > cmd->max) {
		finish(c, cmd ? "wrong number of words" : "no such command");
		return;
	}
	why = cmd->fn(c, arg);
	if (why || !cmd->answers)
		finish(c, why);
}

static void run_lines(struct client *c)
{
	char *end;

	while (!c->waiting && (end = memchr(c->line, '\n', c->have))) {
		size_t used = end + 1 - c->line;
		char line[MAX_LINE];

		*end = 0;
		memcpy(line, c->line, used);
		memmove(c->line, c->line + used, c->have - used);
		c->have -= used;
		run_line(c, line);
	}
}

/* ---- connections ---- */

static void client_ready(void *arg, short revents)
{
	struct client *c = arg;
	ssize_t n;

	if (revents & POLLOUT)
		flush(c);
	if (!(revents & ~POLLOUT))
		return;
	if (c->have == sizeof(c->line)) {
		client_drop(c);		/* no command is that long */
		return;
	}
	n = recv(c->fd, c->line + c->have, sizeof(c->line) - c->have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_drop(c);
		return;
	}
	c->have += n;
	run_lines(c);
}

static void listen_ready(void *arg, short revents)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct client *c;

	(void)arg;
	(void)revents;
	if (fd < 0)
		return;
	c = xalloc(sizeof(*c));
	c->fd = fd;
	c->next = clients;
	clients = c;
	watch_add(fd, client_ready, c);
}

int control_open(const char *path, struct ntb_link *l)
{
	links = l;
	socket_path = path;
	listen_fd = unix_listen(path);
	if (listen_fd < 0)
		return -errno;
	watch_add(listen_fd, listen_ready, NULL);
	return 0;
}

void control_close(void)
{
	if (listen_fd < 0)
		return;
	while (clients)
		client_drop(clients);
	watch_del(listen_fd);
	close(listen_fd);
	unlink(socket_path);
}

/* ---- the client ---- */

static bool send_all(int fd, const char *s, size_t len)
{
	while (len) {
		ssize_t n = send(fd, s, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
			continue;
		}
		if (n <= 0)
			return false;
		s += n;
		len -= n;
	}
	return true;
}

/* Return: exit status once the last line of the answer is there, else -1. */
static int answer_status(const struct text *t)
{
	const char *last;

	if (!t->len || t->s[t->len - 1] != '\n')
		return -1;
	for (last = t->s + t->len - 1; last > t->s && last[-1] != '\n'; last--)
		;
	if (!strcmp(last, "ok\n"))
		return 0;
	return strncmp(last, "error:", 6) ? -1 : 1;
}

int control_command(const char *path, const char *command)
{
	struct text t = { NULL, 0, 0 };
	char buf[4096];
	int fd, status = -1;

	/* EAGAIN: more clients at once than the socket holds. */
	while ((fd = unix_connect(path)) < 0 && errno == EAGAIN)
		poll(NULL, 0, 10);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	text_add(&t, "%s\n", command);
	if (!send_all(fd, t.s, t.len))
		die("%s: %s", path, strerror(errno));
	t.len = 0;
	while (status < 0) {
		ssize_t n;

		poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
		n = recv(fd, buf, sizeof(buf) - 1, 0);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			die("%s: no answer", path);
		buf[n] = 0;
		text_add(&t, "%s", buf);
		status = answer_status(&t);
	}
	fputs(t.s, stdout);
	close(fd);
	text_free(&t);
	return status;
}
