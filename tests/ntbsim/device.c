// SPDX-License-Identifier: GPL-2.0
/*
 * The function as a vfio-user device: answers QEMU's requests out of the NTB model.
 * Every field of a request is checked; what does not fit is answered with an error.
 */
#include <errno.h>
#include <unistd.h>

#include "ntb.h"
#include "util.h"

static struct ntb_side *side_of(struct vfu *v)
{
	return container_of(v, struct ntb_side, vfu);
}

static int do_version(struct ntb_side *s, struct vfu_msg *m)
{
	/* QEMU has room for no more than it sent, so say only what is not the default. */
	static const char caps[] =
		"{\"capabilities\":{\"max_msg_fds\":16,\"write_multiple\":true}}";
	struct vu_version v;

	if (m->len < sizeof(v))
		return EINVAL;
	memcpy(&v, m->body, sizeof(v));
	if (v.major != 0)
		return EINVAL;
	v.minor = 0;
	vfu_reply(&s->vfu, &m->hdr, &v, sizeof(v), caps, sizeof(caps));
	return 0;
}

static int do_dma_map(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_dma_map d;
	unsigned int prot = 0;
	int err;

	if (m->len < sizeof(d) || m->nfds > 1)
		return EINVAL;
	memcpy(&d, m->body, sizeof(d));
	if (d.flags & VU_MAP_READ)
		prot |= MEM_READ;
	if (d.flags & VU_MAP_WRITE)
		prot |= MEM_WRITE;
	err = mem_add(&s->dma.mem, d.iova, d.size, m->nfds ? m->fds[0] : -1, d.offset, prot);
	if (err)
		return -err;
	vfu_reply(&s->vfu, &m->hdr, NULL, 0, NULL, 0);
	return 0;
}

static int do_dma_unmap(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_dma_unmap d;

	if (m->len < sizeof(d))
		return EINVAL;
	memcpy(&d, m->body, sizeof(d));
	if (d.flags & VU_UNMAP_DIRTY_BITMAP)
		return ENOTSUP;
	if (d.flags & VU_UNMAP_ALL)
		mem_del(&s->dma.mem, 0, UINT64_MAX);
	else
		mem_del(&s->dma.mem, d.iova, d.size);
	vfu_reply(&s->vfu, &m->hdr, &d, sizeof(d), NULL, 0);
	return 0;
}

static int do_get_info(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_dev_info i = {
		.argsz = sizeof(i), .flags = VU_DEV_RESET | VU_DEV_PCI,
		.regions = VU_REGIONS, .irqs = VU_IRQS,
	};

	if (m->len < sizeof(i))
		return EINVAL;
	vfu_reply(&s->vfu, &m->hdr, &i, sizeof(i), NULL, 0);
	return 0;
}

static uint64_t region_size(const struct ntb_side *s, uint32_t index)
{
	switch (index) {
	case VU_BAR0:
		return s->link->family->bar0_size;
	case VU_BAR2:
		return s->link->bar_size[NTB_BAR2];
	case VU_BAR4:
		return s->link->bar_size[NTB_BAR4];
	case VU_CONFIG:
		return NTB_CFG_SIZE;
	default:
		return 0;
	}
}

static int do_region_info(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_region_info r;

	if (m->len < sizeof(r))
		return EINVAL;
	memcpy(&r, m->body, sizeof(r));
	if (r.index >= VU_REGIONS)
		return EINVAL;
	r = (struct vu_region_info){
		.argsz = sizeof(r), .index = r.index, .size = region_size(s, r.index),
	};
	if (r.size)
		r.flags = VU_REGION_R | VU_REGION_W;
	vfu_reply(&s->vfu, &m->hdr, &r, sizeof(r), NULL, 0);
	return 0;
}

static int do_irq_info(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_irq_info i;

	if (m->len < sizeof(i))
		return EINVAL;
	memcpy(&i, m->body, sizeof(i));
	/* Answer ERR and REQ with an error: QEMU then does without them, in silence. */
	if (i.index > VU_IRQ_MSIX)
		return EINVAL;
	i.argsz = sizeof(i);
	i.flags = VU_IRQ_EVENTFD | VU_IRQ_NORESIZE;
	i.count = i.index == VU_IRQ_MSIX ? s->link->family->vectors : 0;
	vfu_reply(&s->vfu, &m->hdr, &i, sizeof(i), NULL, 0);
	return 0;
}

static void irqfd_set(struct ntb_side *s, unsigned int vec, int fd)
{
	if (s->irqfd[vec] >= 0)
		close(s->irqfd[vec]);
	s->irqfd[vec] = fd;
}

static void irqs_off(struct ntb_side *s)
{
	unsigned int i;

	for (i = 0; i < NTB_VECTORS_MAX; i++)
		irqfd_set(s, i, -1);
	s->irq_pending = 0;
	s->irq_masked = 0;
}

static void irq_retry(struct ntb_side *s, unsigned int vec)
{
	if (s->irq_pending >> vec & 1)
		ntb_irq(s, vec);
}

/* Eventfds for a run of vectors, or none: then these vectors are given up. */
static int irqs_eventfd(struct ntb_side *s, struct vfu_msg *m, const struct vu_irq_set *q)
{
	unsigned int i;

	if (m->nfds && m->nfds != q->count)
		return EINVAL;
	for (i = 0; i < q->count; i++) {
		irqfd_set(s, q->start + i, m->nfds ? m->fds[i] : -1);
		if (!m->nfds)
			continue;
		m->fds[i] = -1;
		irq_retry(s, q->start + i);
	}
	return 0;
}

/* TRIGGER, MASK or UNMASK of vectors, all of them or those with a true flag. */
static void irqs_action(struct ntb_side *s, const struct vu_irq_set *q, const uint8_t *flag)
{
	unsigned int i;

	for (i = 0; i < q->count; i++) {
		unsigned int vec = q->start + i;

		if (flag && !flag[i])
			continue;
		if (q->flags & VU_IRQ_MASK) {
			s->irq_masked |= 1ull << vec;
		} else if (q->flags & VU_IRQ_UNMASK) {
			s->irq_masked &= ~(1ull << vec);
			irq_retry(s, vec);
		} else if (q->flags & VU_IRQ_TRIGGER) {
			ntb_irq(s, vec);
		}
	}
}

static int do_set_irqs(struct ntb_side *s, struct vfu_msg *m)
{
	unsigned int vectors = s->link->family->vectors;
	struct vu_irq_set q;
	int err = 0;

	if (m->len < sizeof(q))
		return EINVAL;
	memcpy(&q, m->body, sizeof(q));
	if (q.index != VU_IRQ_MSIX)
		return q.count ? EINVAL : (vfu_reply(&s->vfu, &m->hdr, NULL, 0, NULL, 0), 0);
	if (q.start > vectors || q.count > vectors - q.start)
		return EINVAL;
	if (q.flags & VU_IRQ_DATA_EVENTFD)
		err = irqs_eventfd(s, m, &q);
	else if (q.flags & VU_IRQ_DATA_BOOL && m->len - sizeof(q) < q.count)
		err = EINVAL;
	else if (q.flags & VU_IRQ_DATA_BOOL)
		irqs_action(s, &q, m->body + sizeof(q));
	else if (q.flags & VU_IRQ_TRIGGER && !q.count)
		irqs_off(s);
	else
		irqs_action(s, &q, NULL);
	if (!err)
		vfu_reply(&s->vfu, &m->hdr, NULL, 0, NULL, 0);
	return err;
}

static void window_read_done(void *arg, int err, const void *data, size_t len)
{
	struct ntb_side *s = arg;

	(void)err;	/* the reader sees all ones, as on a real bus */
	vfu_hold(&s->vfu, false);
	vfu_reply(&s->vfu, &s->rd_hdr, s->rd_body, sizeof(s->rd_body), data, len);
}

static void window_read_now(struct ntb_side *s)
{
	struct vu_region_rw rw;

	memcpy(&rw, s->rd_body, sizeof(rw));
	ntb_window_read(s, rw.region == VU_BAR2 ? NTB_BAR2 : NTB_BAR4, rw.offset, rw.count, false,
			window_read_done, s);
}

static void window_read_slow(struct timer *t)
{
	window_read_now(container_of(t, struct ntb_side, slow));
}

/*
 * The answer may come later; until then this QEMU's other requests wait.  Slow are a processor's
 * reads, of four bytes: devices make wider ones.
 */
static void window_read(struct ntb_side *s, struct vfu_msg *m, const struct vu_region_rw *rw)
{
	s->n.reads++;
	s->n.reads4 += rw->region == VU_BAR4;
	s->n.read_bytes += rw->count;
	s->rd_hdr = m->hdr;
	memcpy(s->rd_body, rw, sizeof(s->rd_body));
	vfu_hold(&s->vfu, true);
	if (!s->slow_ms || rw->count != 4) {
		window_read_now(s);
		return;
	}
	s->n.slow++;
	s->slow.fn = window_read_slow;
	timer_set(&s->slow, s->slow_ms);
}

/* What every access must satisfy. */
static int check_rw(const struct ntb_side *s, const struct vu_region_rw *rw)
{
	uint64_t size = rw->region < VU_REGIONS ? region_size(s, rw->region) : 0;
	/* No CPU and no emulated device makes one access wider than 8 bytes. */
	uint32_t max = rw->region == VU_CONFIG ? NTB_CFG_SIZE : 8;

	if (!rw->count || rw->count > max || rw->offset >= size ||
	    rw->count > size - rw->offset)
		return EINVAL;
	return 0;
}

static int get_rw(struct ntb_side *s, struct vfu_msg *m, struct vu_region_rw *rw)
{
	if (m->len < sizeof(*rw))
		return EINVAL;
	memcpy(rw, m->body, sizeof(*rw));
	return check_rw(s, rw);
}

static int do_region_read(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_region_rw rw;
	uint8_t buf[8];
	int err = get_rw(s, m, &rw);

	if (err)
		return err;
	switch (rw.region) {
	case VU_CONFIG:
		vfu_reply(&s->vfu, &m->hdr, &rw, sizeof(rw), s->cfg + rw.offset, rw.count);
		return 0;
	case VU_BAR0:
		ntb_reg_read(s, rw.offset, buf, rw.count);
		vfu_reply(&s->vfu, &m->hdr, &rw, sizeof(rw), buf, rw.count);
		return 0;
	default:
		window_read(s, m, &rw);
		return 0;
	}
}

static void region_write(struct ntb_side *s, const struct vu_region_rw *rw,
			 const uint8_t *data)
{
	switch (rw->region) {
	case VU_CONFIG:
		pci_write(s, rw->offset, data, rw->count);
		break;
	case VU_BAR0:
		ntb_reg_write(s, rw->offset, data, rw->count);
		break;
	default:
		s->n.writes++;
		s->n.writes4 += rw->region == VU_BAR4;
		s->n.write_bytes += rw->count;
		ntb_window_write(s, rw->region == VU_BAR2 ? NTB_BAR2 : NTB_BAR4, rw->offset,
				 data, rw->count, false);
	}
}

static int do_region_write(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_region_rw rw;
	int err = get_rw(s, m, &rw);

	if (err)
		return err;
	if (m->len - sizeof(rw) < rw.count)
		return EINVAL;
	region_write(s, &rw, m->body + sizeof(rw));
	/* A posted write: answer without waiting for its receiver. */
	vfu_reply(&s->vfu, &m->hdr, &rw, sizeof(rw), NULL, 0);
	return 0;
}

/*
 * QEMU joins posted writes into this message when they come faster than ntbsim takes them. Without
 * it, a read behind a large copy into a window would wait for too long.
 */
static int do_write_multi(struct ntb_side *s, struct vfu_msg *m)
{
	struct vu_write_one w;
	uint64_t n, i;
	int err = 0;

	if (m->len < sizeof(n))
		return EINVAL;
	n = get64(m->body);
	if (n > VU_MULTI_MAX || (m->len - sizeof(n)) / sizeof(w) < n)
		return EINVAL;
	for (i = 0; i < n; i++) {
		memcpy(&w, m->body + sizeof(n) + i * sizeof(w), sizeof(w));
		if (w.rw.count > sizeof(w.data) || check_rw(s, &w.rw))
			err = EINVAL;
		else
			region_write(s, &w.rw, w.data);
	}
	if (!err)
		vfu_reply(&s->vfu, &m->hdr, NULL, 0, NULL, 0);
	return err;
}

static int do_reset(struct ntb_side *s, struct vfu_msg *m)
{
	dbg("%s: reset", s->name);
	ntb_reset(s);
	vfu_reply(&s->vfu, &m->hdr, NULL, 0, NULL, 0);
	return 0;
}

static int handle(struct ntb_side *s, struct vfu_msg *m)
{
	switch (m->hdr.cmd) {
	case VU_VERSION:
		return do_version(s, m);
	case VU_DMA_MAP:
		return do_dma_map(s, m);
	case VU_DMA_UNMAP:
		return do_dma_unmap(s, m);
	case VU_GET_INFO:
		return do_get_info(s, m);
	case VU_GET_REGION_INFO:
		return do_region_info(s, m);
	case VU_GET_IRQ_INFO:
		return do_irq_info(s, m);
	case VU_SET_IRQS:
		return do_set_irqs(s, m);
	case VU_REGION_READ:
		return do_region_read(s, m);
	case VU_REGION_WRITE:
		return do_region_write(s, m);
	case VU_REGION_WRITE_MULTI:
		return do_write_multi(s, m);
	case VU_RESET:
		return do_reset(s, m);
	default:
		return ENOSYS;
	}
}

static void on_request(struct vfu *v, struct vfu_msg *m)
{
	struct ntb_side *s = side_of(v);
	int err = handle(s, m);

	if (err) {
		dbg("%s: request %u refused: %s", s->name, m->hdr.cmd, strerror(err));
		vfu_error(v, &m->hdr, err);
	}
}

static void on_reply(struct vfu *v, struct vfu_msg *m)
{
	dma_reply(&side_of(v)->dma, m);
}

static void on_up(struct vfu *v)
{
	struct ntb_side *s = side_of(v);

	say("%s: connected", s->name);
	ntb_reset(s);
}

static void on_down(struct vfu *v)
{
	struct ntb_side *s = side_of(v);

	say("%s: disconnected", s->name);
	/* Cancel its own reads: nobody waits for their answers.  The peer's reads from it fail. */
	timer_del(&s->slow);
	dma_cancel(&ntb_peer(s)->dma, s);
	dma_reset(&s->dma);
	irqs_off(s);
	ntb_reset(s);
}

const struct vfu_ops device_ops = {
	.up = on_up, .down = on_down, .request = on_request, .reply = on_reply,
};
