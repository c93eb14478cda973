// SPDX-License-Identifier: GPL-2.0
/*
 * Peer-to-peer between the devices that one VM has borrowed: each shall reach the BARs of the
 * others at the addresses where the guest has put them.
 *
 * Every vdev that is open says here how it is (dlend_p2p_publish()); p2p_plan.c says which mappings
 * there should be; one worker makes it so, asking lenders, and never holds up a guest.  Must not
 * know what a lender does with a mapping, nor when a device is borrowed: that is borrow.c's.
 *
 * A mapping through this node is a slot of our aperture towards the source's lender, mapped to our
 * window to the target's.  Where that window leads is the target's lease's business: the slot is
 * unmapped before the lease is returned, or a new session begins (dlend_p2p_fence()).
 *
 * Locks: p2p_lock guards all of this, and is never held while asking.  It is taken under
 * vdev->lock.  Edges are made and freed by the worker only, who may look at one without it.
 */
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <dlend/compat.h>
#include <dlend/kind.h>
#include "clique.h"
#include "vdev.h"
#include "trace.h"

/* Devices of one VM that are looked at; whatever is beyond does no peer-to-peer. */
#define P2P_DEVS	32

/* Links of this node and its peers. */
#define P2P_PATHS	256

#define P2P_AGAIN_MIN_MS	50u
#define P2P_AGAIN_LOST_MS	1000u
#define P2P_AGAIN_MAX_MS	30000u

/* One end of a mapping, and what a message to its lender needs. */
struct p2p_end {
	struct dlend_link *link;
	u64 session;
	struct dlend_addr addr;
	u32 epoch;
};

/*
 * struct p2p_edge - a BAR that a device shall reach, or does
 * @s, @t: whose; leases and links those of @have
 * @want, @have: mapping
 * @route: of @have, or the next to try; @granted: the target's lender was asked
 * @slot: in the aperture @ap of @s.link, NULL once in quarantine with @cookie
 * @lost: the source's lender has unmapped it by itself
 * @err: of the last try; @told: the log has it
 * @again: jiffies, not before; @again_ms: longer each time
 */
struct p2p_edge {
	struct list_head node;
	struct p2p_end s, t;
	unsigned int bar;
	struct dlend_p2p_wish want, have;
	enum dlend_p2p_route route;
	bool granted, lost, told;
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	u64 cookie;
	int err;
	unsigned long again;
	unsigned int again_ms;
};

/* What a peer said about its links. */
struct p2p_peers {
	struct list_head node;
	struct dlend_link *link;
	unsigned int n;
	struct dlend_p2p_path path[DLEND_PEERS_PER_MSG];
};

/* The devices of one VM, for p2p_plan.c. */
struct p2p_vm {
	unsigned int n;
	struct dlend_p2p *member[P2P_DEVS];
	struct dlend_p2p_dev dev[P2P_DEVS];
};

static DEFINE_MUTEX(p2p_lock);
static LIST_HEAD(p2p_members);
static LIST_HEAD(p2p_edges);
static LIST_HEAD(p2p_peers);
static struct workqueue_struct *p2p_wq;

static void p2p_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(p2p_dwork, p2p_work);

static void p2p_kick(void)
{
	mod_delayed_work(p2p_wq, &p2p_dwork, 0);
}

/* KVM's VM is the VM; without KVM it is the process. */
static bool same_vm(const struct dlend_p2p *a, const struct dlend_p2p *b)
{
	return a->kvm ? a->kvm == b->kvm : !b->kvm && a->tgid == b->tgid;
}

static struct dlend_vdev *member_vdev(struct dlend_p2p *m)
{
	return container_of(m, struct dlend_vdev, p2p);
}

static void collect_vm(const struct dlend_p2p *of, struct p2p_vm *vm)
{
	struct dlend_p2p *m;

	lockdep_assert_held(&p2p_lock);
	vm->n = 0;
	list_for_each_entry(m, &p2p_members, node) {
		if (!same_vm(m, of) || vm->n == P2P_DEVS)
			continue;
		vm->member[vm->n] = m;
		vm->dev[vm->n++] = m->dev;
	}
}

static unsigned int index_in(const struct p2p_vm *vm, const struct dlend_p2p *m)
{
	unsigned int i;

	for (i = 0; i < vm->n; i++)
		if (vm->member[i] == m)
			break;
	return i;
}

/* The fabric, as far as this node can know */

struct p2p_paths {
	unsigned int n;
	struct dlend_p2p_path path[P2P_PATHS];
};

static int add_own_path(struct dlend_link *link, void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct p2p_paths *paths = arg;
	struct dlend_aperture_stat st;

	if (!ap || paths->n == P2P_PATHS || dlend_link_peer(link) == dlend_node_id())
		return 0;
	dlend_aperture_stat(ap, &st);
	paths->path[paths->n++] = (struct dlend_p2p_path){
		.from = dlend_link_peer(link),
		.to = dlend_node_id(),
		.mib = min_t(u64, st.p2p_limit >> 20, U32_MAX),
	};
	return 0;
}

/* kfree() it. */
static struct p2p_paths *known_paths(struct dlend_p2p_fabric *fabric)
{
	struct p2p_paths *paths = kzalloc_obj(*paths);
	struct p2p_peers *peers;
	unsigned int i;

	*fabric = (struct dlend_p2p_fabric){ .self = dlend_node_id() };
	if (!paths)
		return NULL;
	dlend_link_for_each(add_own_path, paths);
	mutex_lock(&p2p_lock);
	list_for_each_entry(peers, &p2p_peers, node)
		for (i = 0; i < peers->n && paths->n < P2P_PATHS; i++)
			paths->path[paths->n++] = peers->path[i];
	mutex_unlock(&p2p_lock);
	fabric->path = paths->path;
	fabric->n = paths->n;
	return paths;
}

ssize_t dlend_p2p_emit_paths(char *buf)
{
	struct dlend_p2p_fabric fabric;
	struct p2p_paths *paths = known_paths(&fabric);
	unsigned int i;
	int at = 0;

	if (!paths)
		return -ENOMEM;
	/* Whole lines only. */
	for (i = 0; i < fabric.n && at < PAGE_SIZE - 32; i++)
		at += sysfs_emit_at(buf, at, "%u %u %llu\n", fabric.path[i].from,
				    fabric.path[i].to, (u64)fabric.path[i].mib << 20);
	kfree(paths);
	return at;
}

static void forget_peers(struct dlend_link *link)
{
	struct p2p_peers *peers, *next;

	lockdep_assert_held(&p2p_lock);
	list_for_each_entry_safe(peers, next, &p2p_peers, node) {
		if (peers->link != link)
			continue;
		list_del(&peers->node);
		dlend_link_put(peers->link);
		kfree(peers);
	}
}

void dlend_p2p_peers(struct dlend_link *link, const struct dlend_p_peers *p)
{
	struct p2p_peers *peers = kzalloc_obj(*peers);
	unsigned int i;

	if (!peers)
		return;
	peers->link = dlend_link_get(link);
	peers->n = min_t(u32, le32_to_cpu(p->count), DLEND_PEERS_PER_MSG);
	for (i = 0; i < peers->n; i++)
		peers->path[i] = (struct dlend_p2p_path){
			.from = le16_to_cpu(p->peer[i].node),
			.to = dlend_link_peer(link),
			.mib = le32_to_cpu(p->peer[i].mib),
		};
	mutex_lock(&p2p_lock);
	forget_peers(link);
	list_add_tail(&peers->node, &p2p_peers);
	mutex_unlock(&p2p_lock);
	p2p_kick();
}

void dlend_p2p_link_down(struct dlend_link *link)
{
	mutex_lock(&p2p_lock);
	forget_peers(link);
	mutex_unlock(&p2p_lock);
}

/* Slots */

static bool session_over(const struct p2p_end *end)
{
	return !end->link || dlend_link_session(end->link) != end->session;
}

/* What went through here reaches nothing any more when this returns. */
static void slot_close(struct p2p_edge *e)
{
	lockdep_assert_held(&p2p_lock);
	if (e->slot)
		e->cookie = dlend_slot_quarantine(e->ap, e->slot);
	e->slot = NULL;
}

/* @acked: the source's lender has nothing that leads there. A new session releases all anyway. */
static void slot_release(struct p2p_edge *e, bool acked)
{
	lockdep_assert_held(&p2p_lock);
	slot_close(e);
	if (e->cookie && acked && !session_over(&e->s))
		dlend_slot_release(e->ap, e->cookie);
	e->cookie = 0;
	e->ap = NULL;
}

void dlend_p2p_fence(const struct dlend_addr *addr, u32 epoch)
{
	struct p2p_edge *e;

	guard(mutex)(&p2p_lock);
	list_for_each_entry(e, &p2p_edges, node)
		if ((dlend_addr_same(&e->s.addr, addr) && e->s.epoch == epoch) ||
		    (dlend_addr_same(&e->t.addr, addr) && e->t.epoch == epoch))
			slot_close(e);
}

/* Where the window to the target's BAR is. */
static struct dlend_p2p *member_of(const struct dlend_addr *addr)
{
	struct dlend_p2p *m;

	lockdep_assert_held(&p2p_lock);
	list_for_each_entry(m, &p2p_members, node)
		if (dlend_addr_same(&m->dev.addr, addr))
			return m;
	return NULL;
}

static int slot_open(struct p2p_edge *e)
{
	struct dlend_p2p *target;
	phys_addr_t phys;
	int ret;

	guard(mutex)(&p2p_lock);
	target = member_of(&e->t.addr);
	/* Under the lock: a lease that ends later finds the slot (dlend_p2p_fence()). */
	if (!target || target->dev.epoch != e->t.epoch || session_over(&e->s))
		return -ENOTCONN;
	phys = target->bar_phys[e->bar];
	e->ap = dlend_link_aperture(e->s.link);
	if (!phys || !e->ap)
		return -ENOTCONN;
	e->slot = dlend_slot_alloc(e->ap, e->want.size, min_t(u64, e->want.size, SZ_1G), 0,
				   DLEND_SLOT_P2P);
	if (IS_ERR(e->slot)) {
		ret = PTR_ERR(e->slot);
		e->slot = NULL;
		return ret;
	}
	ret = dlend_slot_map_phys(e->ap, e->slot, 0, phys, e->want.size,
				  DLEND_PROT_READ | DLEND_PROT_WRITE, true);
	if (!ret)
		return 0;
	/* Nobody was told: it can be used again at once. */
	dlend_slot_free(e->ap, e->slot);
	e->slot = NULL;
	return ret;
}

/* Asking lenders; by the worker, without the lock */

static int ask(const struct p2p_end *end, struct dlend_msg *req)
{
	if (session_over(end))
		return -ENOTCONN;
	return dlend_link_call(end->link, req, NULL, 0);
}

static int ask_source(struct p2p_edge *e, u16 type, const struct dlend_p2p_wish *wish)
{
	struct dlend_p_p2p *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &e->s.addr, e->s.epoch, sizeof(*p));
	p->gpa = cpu_to_le64(wish->gpa);
	p->size = cpu_to_le64(wish->size);
	p->prot = cpu_to_le32(DLEND_PROT_READ | DLEND_PROT_WRITE);
	p->epoch = cpu_to_le32(e->t.epoch);
	p->lender = cpu_to_le16(e->t.addr.lender);
	p->bdf = cpu_to_le16(e->t.addr.bdf);
	p->bar = cpu_to_le16(e->bar);
	if (type == DLEND_MSG_P2P_MAP && e->route == DLEND_P2P_BORROWER) {
		p->flags = cpu_to_le32(DLEND_P2P_F_OFFSET);
		mutex_lock(&p2p_lock);
		p->offset = e->slot ? cpu_to_le64(e->slot->offset) : 0;
		mutex_unlock(&p2p_lock);
		if (!p->offset)
			return -ENOTCONN;
	}
	return ask(&e->s, &req);
}

static int ask_target(const struct p2p_edge *e, u16 type)
{
	struct dlend_p_p2p_grant *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &e->t.addr, e->t.epoch, sizeof(*p));
	p->node = cpu_to_le16(e->s.addr.lender);
	p->bar = cpu_to_le16(e->bar);
	return ask(&e->t, &req);
}

/* One grant serves all devices of a lender: is there another one that needs it? */
static bool grant_shared(const struct p2p_edge *e)
{
	const struct p2p_edge *other;

	guard(mutex)(&p2p_lock);
	list_for_each_entry(other, &p2p_edges, node)
		if (other != e && other->granted && other->bar == e->bar &&
		    dlend_addr_same(&other->t.addr, &e->t.addr) && other->t.epoch == e->t.epoch &&
		    other->s.addr.lender == e->s.addr.lender)
			return true;
	return false;
}

/* A lease that ended has taken its grants with it. */
static void give_back(struct p2p_edge *e)
{
	struct dlend_p2p *target;
	bool live;

	if (!e->granted)
		return;
	mutex_lock(&p2p_lock);
	target = member_of(&e->t.addr);
	live = target && target->dev.epoch == e->t.epoch;
	mutex_unlock(&p2p_lock);
	if (live && !grant_shared(e))
		ask_target(e, DLEND_MSG_P2P_UNGRANT);
	e->granted = false;
}

static void drop_end(struct p2p_end *end)
{
	if (end->link)
		dlend_link_put(end->link);
	end->link = NULL;
}

/* Does the source still hold the lease under which it was mapped? If not, nothing of it is. */
static bool source_live(const struct p2p_edge *e)
{
	struct dlend_p2p *source;

	guard(mutex)(&p2p_lock);
	source = member_of(&e->s.addr);
	return source && source->dev.epoch == e->s.epoch;
}

static void put_off(struct p2p_edge *e, unsigned int ms)
{
	lockdep_assert_held(&p2p_lock);
	e->again_ms = ms;
	e->again = jiffies + msecs_to_jiffies(ms);
}

static void unmap_edge(struct p2p_edge *e)
{
	char name[DLEND_NAME_LEN];
	int ret = 0;

	/* Nobody but the source's lender can say that nothing leads to the slot. */
	if (!e->lost && (source_live(e) || e->ap))
		ret = ask_source(e, DLEND_MSG_P2P_UNMAP, &e->have);
	if (ret == -ENOENT || ret == -ESTALE || ret == -ENODEV)
		ret = 0;
	if (ret && ret != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(e->s.link),
				     "node %u did not unmap a BAR of %s (%d): its part of the window stays reserved until the link restarts\n",
				     e->s.addr.lender, dlend_addr_name(&e->t.addr, name), ret);
	mutex_lock(&p2p_lock);
	slot_release(e, !ret);
	mutex_unlock(&p2p_lock);
	give_back(e);
	trace_dlend_p2p(&e->s.addr, &e->t.addr, e->lost ? "lost" : "unmap", e->bar, e->route,
			e->have.gpa, e->have.size, ret);
	mutex_lock(&p2p_lock);
	e->err = e->lost ? -ECONNRESET : 0;
	if (e->lost)
		put_off(e, P2P_AGAIN_LOST_MS);
	e->have.on = false;
	e->lost = false;
	mutex_unlock(&p2p_lock);
	drop_end(&e->s);
	drop_end(&e->t);
}

static int map_once(struct p2p_edge *e)
{
	int ret = 0;

	if (e->route == DLEND_P2P_LENDERS) {
		ret = ask_target(e, DLEND_MSG_P2P_GRANT);
		e->granted = !ret || ret == -ETIMEDOUT;
	} else if (e->route == DLEND_P2P_BORROWER) {
		ret = slot_open(e);
	}
	if (!ret)
		ret = ask_source(e, DLEND_MSG_P2P_MAP, &e->want);
	if (!ret)
		return 0;
	/* It may have been mapped, and only the answer be late. */
	if (ret == -ETIMEDOUT)
		ask_source(e, DLEND_MSG_P2P_UNMAP, &e->want);
	mutex_lock(&p2p_lock);
	slot_release(e, ret != -ETIMEDOUT);
	mutex_unlock(&p2p_lock);
	give_back(e);
	return ret;
}

/* Does another way promise anything? Not if it is the address that cannot be. */
static bool worth_detour(int err)
{
	return err == -EHOSTUNREACH || err == -ENOSPC || err == -EDQUOT || err == -ENOTCONN ||
	       err == -EAGAIN || err == -ERANGE;
}

static void explain(const struct p2p_edge *e)
{
	char from[DLEND_NAME_LEN], to[DLEND_NAME_LEN];
	struct device *dev = dlend_link_dev(e->s.link);
	const char *what, *todo;

	what = dlend_p2p_err_text(e->err, &todo);
	dev_warn(dev,
		 "%s does not reach BAR %u of %s at %#llx (%s, %d): %s; %s\n",
		 dlend_addr_name(&e->s.addr, from), e->bar, dlend_addr_name(&e->t.addr, to),
		 e->want.gpa, dlend_p2p_route_name(e->route), e->err, what, todo);
}

static bool take_end(struct p2p_end *end, u32 epoch)
{
	struct dlend_p2p *m;

	lockdep_assert_held(&p2p_lock);
	m = member_of(&end->addr);
	if (!m || m->dev.epoch != epoch || !m->link)
		return false;
	end->link = dlend_link_get(m->link);
	end->session = m->session;
	end->epoch = epoch;
	return true;
}

static int take_ends(struct p2p_edge *e)
{
	int ret = 0;

	mutex_lock(&p2p_lock);
	e->lost = false;
	if (!take_end(&e->s, e->want.source_epoch) || !take_end(&e->t, e->want.target_epoch))
		ret = -ENOTCONN;
	mutex_unlock(&p2p_lock);
	return ret;
}

static void map_edge(struct p2p_edge *e, const struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_wish want = e->want;
	enum dlend_p2p_route route = dlend_p2p_route(fabric, e->s.addr.lender, e->t.addr.lender);
	int ret = take_ends(e);

	while (!ret) {
		e->route = route;
		ret = map_once(e);
		trace_dlend_p2p(&e->s.addr, &e->t.addr, "map", e->bar, e->route, want.gpa,
				want.size, ret);
		if (!ret || !worth_detour(ret))
			break;
		route = dlend_p2p_detour(fabric, e->s.addr.lender, e->t.addr.lender, e->route);
		if (route == DLEND_P2P_NONE)
			break;
		ret = 0;
	}
	mutex_lock(&p2p_lock);
	e->err = ret;
	e->have = want;
	e->have.on = !ret;
	if (ret)
		e->lost = false;
	put_off(e, ret ? clamp(e->again_ms * 2, P2P_AGAIN_MIN_MS, P2P_AGAIN_MAX_MS) : 0);
	mutex_unlock(&p2p_lock);
	/* What ends in a moment by itself is not worth a word; what does not, one. */
	if (ret && e->s.link && !e->told && ret != -ENOTCONN && ret != -ESTALE &&
	    (ret != -EAGAIN || e->again_ms > MSEC_PER_SEC)) {
		e->told = true;
		explain(e);
	}
	if (ret) {
		drop_end(&e->s);
		drop_end(&e->t);
	}
}

/* The worker */

static struct p2p_edge *edge_find(const struct dlend_addr *s, const struct dlend_addr *t,
				  unsigned int bar)
{
	struct p2p_edge *e;

	lockdep_assert_held(&p2p_lock);
	list_for_each_entry(e, &p2p_edges, node)
		if (e->bar == bar && dlend_addr_same(&e->s.addr, s) &&
		    dlend_addr_same(&e->t.addr, t))
			return e;
	return NULL;
}

static void edge_wish(const struct p2p_vm *vm, unsigned int s, unsigned int t, unsigned int bar)
{
	struct dlend_p2p_wish wish;
	struct p2p_edge *e;

	if (dlend_p2p_want(vm->dev, vm->n, s, t, bar, &wish) != DLEND_P2P_OK)
		return;
	e = edge_find(&vm->dev[s].addr, &vm->dev[t].addr, bar);
	if (!e) {
		e = kzalloc_obj(*e);
		if (!e)
			return;		/* somebody's next change tries again */
		e->s.addr = vm->dev[s].addr;
		e->t.addr = vm->dev[t].addr;
		e->bar = bar;
		list_add_tail(&e->node, &p2p_edges);
	}
	if (e->want.gpa != wish.gpa || e->want.size != wish.size ||
	    e->want.source_epoch != wish.source_epoch ||
	    e->want.target_epoch != wish.target_epoch) {
		e->told = false;
		e->again = jiffies;
		e->again_ms = 0;
	}
	e->want = wish;
}

/* What should be, from what is. */
static void plan_all(void)
{
	struct p2p_vm *vm = kzalloc_obj(*vm);
	unsigned int t, bar, s;
	struct dlend_p2p *m;
	struct p2p_edge *e;

	if (!vm)
		return;
	mutex_lock(&p2p_lock);
	list_for_each_entry(e, &p2p_edges, node)
		e->want.on = false;
	list_for_each_entry(m, &p2p_members, node) {
		collect_vm(m, vm);
		s = index_in(vm, m);
		for (t = 0; t < vm->n && s < vm->n; t++)
			for (bar = 0; bar < DLEND_NUM_BARS; bar++)
				edge_wish(vm, s, t, bar);
	}
	mutex_unlock(&p2p_lock);
	kfree(vm);
}

/* The next edge to do something about, @step says what; what is not needed any more is freed. */
static struct p2p_edge *next_edge(enum dlend_p2p_step *step)
{
	struct p2p_edge *e, *next;

	guard(mutex)(&p2p_lock);
	/* First what is to go: it may be in the way of what is to come. */
	list_for_each_entry_safe(e, next, &p2p_edges, node) {
		*step = e->lost ? DLEND_P2P_UNMAP : dlend_p2p_step(&e->want, &e->have);
		if (*step == DLEND_P2P_UNMAP)
			return e;
		if (!e->want.on) {
			list_del(&e->node);
			kfree(e);
		}
	}
	*step = DLEND_P2P_MAP;
	list_for_each_entry(e, &p2p_edges, node)
		if (dlend_p2p_step(&e->want, &e->have) == DLEND_P2P_MAP &&
		    time_after_eq(jiffies, e->again))
			return e;
	return NULL;
}

/* Milliseconds until something is tried again, 0: nothing is. */
static unsigned int next_try(void)
{
	unsigned int ms = 0, wait;
	struct p2p_edge *e;

	guard(mutex)(&p2p_lock);
	list_for_each_entry(e, &p2p_edges, node) {
		if (!e->want.on || e->have.on)
			continue;
		wait = time_after(e->again, jiffies) ? jiffies_to_msecs(e->again - jiffies) : 0;
		ms = min(ms ?: U32_MAX, max(wait, P2P_AGAIN_MIN_MS));
	}
	return ms;
}

static void p2p_work(struct work_struct *work)
{
	struct dlend_p2p_fabric fabric;
	struct p2p_paths *paths;
	enum dlend_p2p_step step;
	struct p2p_edge *e;
	unsigned int ms;

	for (;;) {
		plan_all();
		e = next_edge(&step);
		if (!e)
			break;
		if (step == DLEND_P2P_UNMAP) {
			unmap_edge(e);
			continue;
		}
		paths = known_paths(&fabric);
		map_edge(e, &fabric);
		kfree(paths);
	}
	ms = next_try();
	if (ms)
		queue_delayed_work(p2p_wq, &p2p_dwork, msecs_to_jiffies(ms));
}

/* From here on: what vdevs say */

static void describe(struct dlend_vdev *v, struct dlend_p2p_dev *dev)
{
	unsigned int i;

	memset(dev, 0, sizeof(*dev));	/* with all padding: it is compared */
	dev->addr = v->offer->addr;
	dev->clique = v->clique_shown;
	for (i = 0; i < DLEND_NUM_BARS; i++) {
		/* One smaller than a page is lent with the rest of it, which is nobody's. */
		dev->bar[i].size = v->info.bar[i].flags & DLEND_BAR_F_MAPPABLE &&
				   v->info.bar[i].size >= PAGE_SIZE ? v->info.bar[i].size : 0;
		dev->bar[i].gpa = dlend_cfg_bar_addr(&v->cfg, i);
	}
}

static void member_unlink(struct dlend_p2p *m)
{
	if (m->link)
		dlend_link_put(m->link);
	m->link = NULL;
	memset(m->bar_phys, 0, sizeof(m->bar_phys));
}

void dlend_p2p_publish(struct dlend_vdev *v)
{
	struct dlend_lease *lease = v->failed ? NULL : v->lease;
	struct dlend_p2p *m = &v->p2p;
	struct dlend_p2p_dev dev;
	unsigned int i;

	lockdep_assert_held(&v->lock);
	describe(v, &dev);
	if (lease) {
		dev.epoch = lease->epoch;
		dev.source = v->have.bme;
		/* Its lender lets nobody reach it while it is reset. */
		dev.target = dlend_cfg_mse(&v->cfg) && v->have.reset == v->want.reset;
	}
	guard(mutex)(&p2p_lock);
	if (!m->joined || !memcmp(&m->dev, &dev, sizeof(dev)))
		return;
	if (m->dev.epoch != dev.epoch) {
		member_unlink(m);
		if (lease) {
			m->link = dlend_link_get(lease->link);
			m->session = lease->session;
			for (i = 0; i < DLEND_NUM_BARS; i++)
				m->bar_phys[i] = READ_ONCE(lease->bar[i].phys);
		}
	}
	m->dev = dev;
	p2p_kick();
}

/* Devices that the guest is told to be able to reach, and cannot. */
static void warn_claims(struct dlend_vdev *v, const struct dlend_p2p_fabric *fabric,
			const struct p2p_vm *vm, unsigned int of)
{
	int other = -1;

	while ((other = dlend_p2p_claim(fabric, vm->dev, vm->n, of, other + 1)) >= 0)
		dev_warn(dlend_vdev_dev(v), "clique %d claims peer-to-peer with %s, but no way there and back has windows for it: the guest's driver will try it in vain; set another clique\n",
			 vm->dev[of].clique,
			 dev_name(dlend_vdev_dev(member_vdev(vm->member[other]))));
}

/* The borrower's admin comes first, then the lender's. */
static int wanted_clique(const struct dlend_vdev *v)
{
	return v->clique == DLEND_CLIQUE_AUTO ? v->info.clique : v->clique;
}

/* What the guest shall see. Without a number of an admin's own: by what can be reached. */
static int choose_clique(struct dlend_vdev *v, const struct dlend_p2p_fabric *fabric,
			 struct p2p_vm *vm, unsigned int of)
{
	int clique = wanted_clique(v);

	if (clique >= DLEND_CFG_CLIQUE_NONE)
		return clique;
	if (clique == DLEND_CLIQUE_AUTO && !dlend_clique_known(v->info.vendor))
		return DLEND_CFG_CLIQUE_NONE;
	clique = dlend_p2p_clique(fabric, vm->dev, vm->n, of, DLEND_CLIQUE_MAX);
	if (clique < 0) {
		dev_warn(dlend_vdev_dev(v), "no clique is left for it: the VM has too many devices that do not reach each other; its driver is told nothing\n");
		return DLEND_CFG_CLIQUE_NONE;
	}
	return clique;
}

/* A computed clique that leaves out a device of the VM: say which, and why. */
static void tell_alone(struct dlend_vdev *v, const struct dlend_p2p_fabric *fabric,
		       const struct p2p_vm *vm, unsigned int of)
{
	unsigned int i;

	for (i = 0; i < vm->n; i++)
		if (i != of && vm->dev[i].clique >= 0 &&
		    vm->dev[i].clique != vm->dev[of].clique)
			dev_info(dlend_vdev_dev(v), "clique %d, not %d of %s: %s\n",
				 vm->dev[of].clique, vm->dev[i].clique,
				 dev_name(dlend_vdev_dev(member_vdev(vm->member[i]))),
				 dlend_p2p_reaches(fabric, vm->dev, vm->n, i, of) &&
				 dlend_p2p_reaches(fabric, vm->dev, vm->n, of, i) ?
				 "others of that clique are out of reach" :
				 "no way there and back has windows for all BARs");
}

void dlend_p2p_join(struct dlend_vdev *v)
{
	struct p2p_vm *vm = kzalloc_obj(*vm);
	struct dlend_p2p_fabric fabric;
	struct dlend_p2p *m = &v->p2p;
	struct p2p_paths *paths;
	unsigned int of;

	paths = known_paths(&fabric);
	m->kvm = v->vfio.kvm;
	m->tgid = current->tgid;
	v->clique_shown = max(wanted_clique(v), DLEND_CFG_CLIQUE_NONE);
	describe(v, &m->dev);
	mutex_lock(&p2p_lock);
	list_add_tail(&m->node, &p2p_members);
	m->joined = true;
	if (!vm)
		goto unlock;
	collect_vm(m, vm);
	of = index_in(vm, m);
	if (of == vm->n)
		goto unlock;
	v->clique_shown = choose_clique(v, &fabric, vm, of);
	m->dev.clique = v->clique_shown;
	vm->dev[of].clique = v->clique_shown;
	if (wanted_clique(v) < DLEND_CFG_CLIQUE_NONE && v->clique_shown >= 0)
		tell_alone(v, &fabric, vm, of);
	else
		warn_claims(v, &fabric, vm, of);
unlock:
	mutex_unlock(&p2p_lock);
	kfree(paths);
	kfree(vm);
}

void dlend_p2p_leave(struct dlend_vdev *v)
{
	struct dlend_p2p *m = &v->p2p;

	guard(mutex)(&p2p_lock);
	if (!m->joined)
		return;
	list_del(&m->node);
	m->joined = false;
	member_unlink(m);
	p2p_kick();
}

void dlend_p2p_lost(struct dlend_link *link, const struct dlend_addr *source, u32 epoch,
		    const struct dlend_p_p2p *p)
{
	struct dlend_addr target = {
		.lender = le16_to_cpu(p->lender), .bdf = le16_to_cpu(p->bdf),
	};
	struct p2p_edge *e;

	guard(mutex)(&p2p_lock);
	e = edge_find(source, &target, le16_to_cpu(p->bar));
	if (!e || e->s.link != link || e->s.epoch != epoch ||
	    e->t.epoch != le32_to_cpu(p->epoch))
		return;
	e->lost = true;
	p2p_kick();
}

/* For people */

static int emit_edge(const struct p2p_vm *vm, unsigned int s, unsigned int t, unsigned int bar,
		     char *buf, int at)
{
	const struct dlend_p2p_bar *b = &vm->dev[t].bar[bar];
	struct dlend_p2p_wish wish;
	enum dlend_p2p_why why = dlend_p2p_want(vm->dev, vm->n, s, t, bar, &wish);
	const struct p2p_edge *e;

	if (why == DLEND_P2P_NO_BAR)
		return 0;
	e = edge_find(&vm->dev[s].addr, &vm->dev[t].addr, bar);
	at += sysfs_emit_at(buf, at, "%s bar%u %#llx %#llx ",
			    dev_name(&member_vdev(vm->member[t])->offer->dev), bar, b->gpa,
			    b->size);
	if (e && e->have.on)
		return at + sysfs_emit_at(buf, at, "%s mapped\n", dlend_p2p_route_name(e->route));
	if (why != DLEND_P2P_OK)
		return at + sysfs_emit_at(buf, at, "none %s\n", dlend_p2p_why_text(why));
	if (e && e->err)
		return at + sysfs_emit_at(buf, at, "none error %d, %s\n", e->err,
					  dlend_p2p_err_text(e->err, NULL));
	return at + sysfs_emit_at(buf, at, "none soon\n");
}

ssize_t dlend_p2p_emit(struct dlend_vdev *v, char *buf)
{
	struct p2p_vm *vm = kzalloc_obj(*vm);
	unsigned int s, t, bar;
	int at = 0, len;

	if (!vm)
		return -ENOMEM;
	mutex_lock(&p2p_lock);
	if (v->p2p.joined)
		collect_vm(&v->p2p, vm);
	s = index_in(vm, &v->p2p);
	for (t = 0; t < vm->n && s < vm->n; t++) {
		for (bar = 0; bar < DLEND_NUM_BARS; bar++) {
			len = emit_edge(vm, s, t, bar, buf, at);
			/* Whole lines only. */
			if (len < PAGE_SIZE - 1)
				at = max(at, len);
		}
	}
	mutex_unlock(&p2p_lock);
	kfree(vm);
	return at;
}

int dlend_p2p_init(void)
{
	/* What it asks for may be the way to a disk that this host's memory is written to. */
	p2p_wq = alloc_ordered_workqueue("dlend-p2p", WQ_MEM_RECLAIM);
	return p2p_wq ? 0 : -ENOMEM;
}

/* No vdev is open and no link calls: what is left is taken down by one last turn. */
void dlend_p2p_exit(void)
{
	struct p2p_peers *peers, *next;

	p2p_kick();
	flush_delayed_work(&p2p_dwork);
	cancel_delayed_work_sync(&p2p_dwork);
	destroy_workqueue(p2p_wq);
	list_for_each_entry_safe(peers, next, &p2p_peers, node) {
		dlend_link_put(peers->link);
		kfree(peers);
	}
}
