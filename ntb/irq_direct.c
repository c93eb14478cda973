// SPDX-License-Identifier: GPL-2.0
/*
 * Direct interrupts, on the borrower: they need no processor of the lender.
 *
 * The peer's second window leads to the addresses of interrupts in this host (0xfee00000).  A
 * vector is an entry for the NTB's function in the table of interrupt remapping; it needs no MSI of
 * the NTB itself.  A vector's *message* is the address and the data by which a device fires it; the
 * message stays the same when the vector's affinity changes.
 *
 * Interrupt remapping checks only the requester ID, which is the NTB's for all that comes through
 * the window.  So a device that can write to the window can fire every vector behind this NTB, not
 * only those whose messages it knows.  Therefore all sets of vectors of a link belong to one user:
 * a process (a VM's VMM), or this host.
 *
 * Vectors are numbers here; the users have devices and guests.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/moduleparam.h>
#include <linux/msi.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <asm/hw_irq.h>
#include <dlend/compat.h>
#include "link.h"

static bool dlend_direct_allowed;
module_param_named(direct_interrupts, dlend_direct_allowed, bool, 0644);
MODULE_PARM_DESC(direct_interrupts,
		 "Let lent devices interrupt this host without a processor of their lender: direct_interrupts of links that come from now on (default: off)");

/* Where x86 processors take interrupts; DLEND_DIRECT_SIZE bytes. */
#define DLEND_DIRECT_BASE	0xfee00000ull

/* @set: its set; @index: its number there; @virq: Linux' number; @used: it has a handler */
struct dlend_direct_vector {
	struct dlend_irq_direct *set;
	u32 index;
	unsigned int virq;
	bool used;
};

/*
 * struct dlend_irq_direct - a set of vectors, for one device; one call at a time (dlend/link.h)
 * @link: the link; a reference until dlend_irq_direct_close()
 * @old: in dlend_directs.old; under directs.lock
 * @fire: the user's function, called with @arg
 * @mode, @count: mode and number of its vectors; DLEND_IRQ_NONE and 0: it has none
 * @vector: the first @count are allocated
 * @table: their messages, for the lender, in @slot
 */
struct dlend_irq_direct {
	struct dlend_link *link;
	struct list_head old;
	void (*fire)(void *arg, u32 vector, u32 count);
	void *arg;
	enum dlend_irq_mode mode;
	u32 count;
	struct dlend_direct_vector vector[DLEND_MAX_VECTORS];
	struct dlend_p_message *table;
	struct dlend_slot *slot;
};

#define DLEND_DIRECT_TABLE_MAX	DLEND_DIRECT_TABLE(DLEND_MAX_VECTORS)

/* The irq domain */

static struct irq_chip dlend_direct_chip = {
	.name = "dlend-direct",
	.irq_ack = irq_chip_ack_parent,
	.irq_set_affinity = irq_chip_set_affinity_parent,
	.irq_set_vcpu_affinity = irq_chip_set_vcpu_affinity_parent,
	.irq_retrigger = irq_chip_retrigger_hierarchy,
	.flags = IRQCHIP_SKIP_SET_WAKE,
};

static int dlend_direct_domain_alloc(struct irq_domain *domain, unsigned int virq,
				     unsigned int count, void *arg)
{
	unsigned int i;
	int ret;

	ret = irq_domain_alloc_irqs_parent(domain, virq, count, arg);
	if (ret)
		return ret;
	for (i = 0; i < count; i++)
		irq_domain_set_info(domain, virq + i, virq + i, &dlend_direct_chip, NULL,
				    handle_edge_irq, NULL, "edge");
	return 0;
}

static const struct irq_domain_ops dlend_direct_domain_ops = {
	.alloc = dlend_direct_domain_alloc,
	.free = irq_domain_free_irqs_common,
};

/* Under directs.lock. Return: 0; -EOPNOTSUPP this host's interrupts are not isolated; -ENOMEM */
static int dlend_direct_make_domain(struct dlend_link *link, struct device *dev)
{
	struct dlend_directs *all = &link->directs;
	struct irq_domain *parent = dev_get_msi_domain(dev);

	if (all->domain)
		return 0;
	/* Only interrupt remapping checks who writes, and limits the writer to its own vectors. */
	if (!parent || !(parent->flags & IRQ_DOMAIN_FLAG_ISOLATED_MSI))
		return -EOPNOTSUPP;
	all->fwnode = irq_domain_alloc_named_fwnode(dev_name(&link->dev));
	if (!all->fwnode)
		return -ENOMEM;
	all->domain = irq_domain_create_hierarchy(parent, 0, 0, all->fwnode,
						  &dlend_direct_domain_ops, link);
	if (all->domain) {
		all->dev = get_device(dev);
		return 0;
	}
	irq_domain_free_fwnode(all->fwnode);
	all->fwnode = NULL;
	return -ENOMEM;
}

/*
 * Before a set is made: make the irq domain, and let the second window lead to interrupts, if that
 * was not done before.  Under state_lock and directs.lock.  Return: 0; -ENOTCONN no session; as
 * dlend_direct_make_domain(); as dlend_link_hw_ops.spare_set()
 */
static int dlend_direct_prepare(struct dlend_link *link)
{
	struct dlend_directs *all = &link->directs;
	struct device *dev;
	int err;

	lockdep_assert_held(&link->state_lock);
	if (link->hw_gone || !dlend_link_session(link))
		return -ENOTCONN;
	dev = link->hw->dma_dev;
	if (!link->ops->spare_set || !dev || !dev_is_pci(dev))
		return -EOPNOTSUPP;
	err = dlend_direct_make_domain(link, dev);
	if (err || all->ready)
		return err;
	err = link->ops->spare_set(link->hw, DLEND_DIRECT_BASE, DLEND_DIRECT_SIZE, &all->page);
	all->ready = !err;
	return err;
}

/* Vectors */

static irqreturn_t dlend_direct_handler(int irq, void *arg)
{
	struct dlend_direct_vector *vec = arg;
	struct dlend_irq_direct *set = vec->set;

	atomic64_inc(&set->link->stat.irq_direct);
	set->fire(set->arg, vec->index, 1);
	return IRQ_HANDLED;
}

/*
 * Get a vector's message from the level of the irq domain's hierarchy that composes messages: the
 * one of interrupt remapping.  Return: false: there is no such level, or the address is outside
 * DLEND_DIRECT_BASE.
 */
static bool dlend_direct_message(unsigned int virq, struct dlend_p_message *m)
{
	struct irq_data *data = irq_get_irq_data(virq);
	struct msi_msg msg = {};
	u64 at;

	while (data && !(data->chip && data->chip->irq_compose_msi_msg))
		data = data->parent_data;
	if (!data)
		return false;
	data->chip->irq_compose_msi_msg(data, &msg);
	at = ((u64)msg.address_hi << 32 | msg.address_lo) - DLEND_DIRECT_BASE;
	m->at = cpu_to_le32(at);
	m->data = cpu_to_le32(msg.data);
	return at < DLEND_DIRECT_SIZE;
}

/* Allocate @count contiguous vectors. Return: virq of the first one, or -errno. */
static int dlend_direct_alloc(struct dlend_link *link, enum dlend_irq_mode mode, u32 count)
{
	struct device *dev = link->directs.dev;
	/* Drivers of IOMMUs use only desc.dev: its requester ID is the one that may fire these. */
	struct msi_desc desc = { .dev = dev };
	struct irq_alloc_info info = {
		.type = mode == DLEND_IRQ_MSI ? X86_IRQ_ALLOC_TYPE_PCI_MSI :
						X86_IRQ_ALLOC_TYPE_PCI_MSIX,
		.desc = &desc,
	};

	return irq_domain_alloc_irqs(link->directs.domain, count, dev_to_node(dev), &info);
}

/* Enter @n vectors, which have the virqs from @virq on, behind those that @set has. */
static int dlend_direct_add(struct dlend_irq_direct *set, int virq, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		u32 index = set->count + i;

		set->vector[index] = (struct dlend_direct_vector) {
			.set = set,
			.index = index,
			.virq = virq + i,
		};
		if (!dlend_direct_message(virq + i, &set->table[index]))
			goto unknown;
	}
	set->count += n;
	return 0;

unknown:
	for (u32 i = 0; i < n; i++)
		irq_dispose_mapping(virq + i);
	return -EOPNOTSUPP;
}

/* MSI needs contiguous vectors; those of MSI-X are allocated one by one. */
static int dlend_direct_grow(struct dlend_irq_direct *set, enum dlend_irq_mode mode, u32 count)
{
	u32 n = mode == DLEND_IRQ_MSI ? count : 1;
	int err = 0, virq;

	while (!err && set->count < count) {
		virq = dlend_direct_alloc(set->link, mode, n);
		err = virq < 0 ? virq : dlend_direct_add(set, virq, n);
	}
	return err;
}

/* Under directs.lock, unless nobody else has @set yet. Free the vectors, the table and @set. */
static void dlend_direct_destroy(struct dlend_irq_direct *set)
{
	/* A vector cannot fire after this: interrupt remapping has no entry for it any more. */
	while (set->count)
		irq_dispose_mapping(set->vector[--set->count].virq);
	if (set->table)
		free_pages_exact(set->table, DLEND_DIRECT_TABLE_MAX);
	kvfree(set);
}

static struct dlend_irq_direct *dlend_direct_create(struct dlend_link *link,
						    void (*fire)(void *arg, u32 vector, u32 count),
						    void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct dlend_irq_direct *set = kvzalloc_obj(*set);
	int err = ap ? -ENOMEM : -ENOTCONN;

	if (!set)
		return ERR_PTR(-ENOMEM);
	set->fire = fire;
	set->arg = arg;
	set->table = alloc_pages_exact(DLEND_DIRECT_TABLE_MAX, GFP_KERNEL | __GFP_ZERO);
	if (ap && set->table) {
		set->slot = dlend_slot_of_memory(ap, set->table, DLEND_DIRECT_TABLE_MAX,
						 DLEND_PROT_READ, DLEND_SLOT_IRQ);
		err = PTR_ERR_OR_ZERO(set->slot);
	}
	if (err) {
		dlend_direct_destroy(set);
		return ERR_PTR(err);
	}
	set->link = dlend_link_get(link);
	return set;
}

/*
 * Under state_lock and directs.lock.  Prepare the link for direct interrupts.  Return: why @user
 * cannot have them, or NULL
 */
static const char *dlend_direct_refuse(struct dlend_link *link, struct dlend_user user)
{
	struct dlend_directs *all = &link->directs;
	int err;

	if (all->users && !dlend_same_user(all->user, user))
		return "another VM, or this host, has direct interrupts of this link";
	err = dlend_direct_prepare(link);
	switch (err) {
	case 0:
		return NULL;
	case -EOPNOTSUPP:
		return "this host's IOMMU does not isolate interrupts";
	case -ENODEV:
		return "the bridge has no second window";
	case -ENOSPC:
		return "the bridge's second window is too small";
	default:
		return "the bridge's second window cannot be set up";
	}
}

struct dlend_irq_direct *dlend_irq_direct_open(struct dlend_link *link, struct dlend_user user,
					       void (*fire)(void *arg, u32 vector, u32 count),
					       void *arg, const char **why)
{
	struct dlend_directs *all = &link->directs;
	struct dlend_irq_direct *set;

	*why = "the link does not allow direct interrupts";
	if (!READ_ONCE(link->directs.allowed))
		return ERR_PTR(-EOPNOTSUPP);
	guard(mutex)(&link->state_lock);
	guard(mutex)(&all->lock);
	*why = dlend_direct_refuse(link, user);
	if (*why)
		return ERR_PTR(-EOPNOTSUPP);
	set = dlend_direct_create(link, fire, arg);
	if (IS_ERR(set)) {
		*why = "no room for their table";
		return set;
	}
	all->user = user;
	all->users++;
	return set;
}
DLEND_EXPORT(dlend_irq_direct_open);

int dlend_irq_direct_set(struct dlend_irq_direct *set, enum dlend_irq_mode mode, u32 count,
			 struct dlend_p_direct *p)
{
	struct dlend_directs *all = &set->link->directs;
	int err;

	guard(mutex)(&all->lock);
	if (!READ_ONCE(all->ready))
		return -ENOTCONN;
	if (count > DLEND_MAX_VECTORS)
		return -EINVAL;
	err = dlend_direct_grow(set, mode, count);
	if (err)
		return err;
	set->mode = mode;
	*p = (struct dlend_p_direct) {
		.mode = cpu_to_le32(mode),
		.count = cpu_to_le32(count),
		.table = cpu_to_le64(set->slot->offset),
		.page = cpu_to_le64(all->page),
	};
	return 0;
}
DLEND_EXPORT(dlend_irq_direct_set);

int dlend_irq_direct_use(struct dlend_irq_direct *set, u32 vector)
{
	struct dlend_direct_vector *vec;
	int err;

	if (!set)
		return 0;
	if (vector >= set->count)
		return -EINVAL;
	vec = &set->vector[vector];
	if (vec->used)
		return 0;
	/* On a realtime kernel the handler is a thread: fire() takes locks that sleep there. */
	err = request_irq(vec->virq, dlend_direct_handler, 0, "dlend-direct", vec);
	vec->used = !err;
	return err;
}
DLEND_EXPORT(dlend_irq_direct_use);

bool dlend_irq_direct_fits(const struct dlend_irq_direct *set, enum dlend_irq_mode mode,
			   u32 count)
{
	if (!READ_ONCE(set->link->directs.allowed))
		return false;
	if (!set->count)
		return true;
	return set->mode == mode && (mode == DLEND_IRQ_MSIX || set->count == count);
}
DLEND_EXPORT(dlend_irq_direct_fits);

void dlend_irq_direct_bind(struct dlend_irq_direct *set, u32 vector, unsigned int cpu)
{
	/* This fails for a processor that goes offline: the kernel moves such interrupts itself. */
	if (set && vector < set->count && set->vector[vector].used)
		irq_set_affinity(set->vector[vector].virq, cpumask_of(cpu));
}
DLEND_EXPORT(dlend_irq_direct_bind);

unsigned int dlend_irq_direct_number(const struct dlend_irq_direct *set, u32 vector)
{
	return set && vector < set->count ? set->vector[vector].virq : 0;
}
DLEND_EXPORT(dlend_irq_direct_number);

void dlend_irq_direct_close(struct dlend_irq_direct *set, bool acked)
{
	struct dlend_link *link = set->link;
	struct dlend_directs *all = &link->directs;

	/* No handler runs after this. Until vectors are freed, their interrupts are dropped. */
	for (u32 i = 0; i < set->count; i++)
		if (set->vector[i].used)
			free_irq(set->vector[i].virq, &set->vector[i]);
	mutex_lock(&all->lock);
	all->users--;
	dlend_slot_free(set->slot, acked);
	if (acked)
		dlend_direct_destroy(set);
	else
		list_add(&set->old, &all->old);
	mutex_unlock(&all->lock);
	dlend_link_put(link);
}
DLEND_EXPORT(dlend_irq_direct_close);

/* The link */

void dlend_directs_begin(struct dlend_link *link)
{
	struct dlend_irq_direct *set, *next;

	guard(mutex)(&link->directs.lock);
	list_for_each_entry_safe(set, next, &link->directs.old, old) {
		list_del(&set->old);
		dlend_direct_destroy(set);
	}
}

void dlend_directs_close(struct dlend_link *link)
{
	lockdep_assert_held(&link->state_lock);
	if (link->directs.ready)
		link->ops->spare_clear(link->hw);
	WRITE_ONCE(link->directs.ready, false);
}

void dlend_directs_free(struct dlend_link *link)
{
	struct dlend_directs *all = &link->directs;

	/* There is no other reference on the link. */
	dlend_directs_begin(link);
	if (!all->domain)
		return;
	irq_domain_remove(all->domain);
	irq_domain_free_fwnode(all->fwnode);
	put_device(all->dev);
}

void dlend_directs_recall(struct dlend_link *link)
{
	WRITE_ONCE(link->directs.allowed,
		   dlend_setting_of(link, DLEND_SETTING_DIRECT, READ_ONCE(dlend_direct_allowed)));
}
