// SPDX-License-Identifier: GPL-2.0
/*
 * A VM moves from one host to another, and its device stays where it is: VFIO's migration states.
 *
 * The VMM on the old host stops the VM (STOP), and reads some kilobytes (STOP_COPY).  The VMM on
 * the new host writes these bytes (RESUMING) before the VM runs there.  They say how the guest sees
 * the device, and have a token by which the lender knows that the new host has this VM.  The worker
 * on each host makes the requests to the lender, step by step:
 *
 *   RUNNING -> RUNNING_P2P	wait for a disk's outstanding commands, a second at most; then have
 *				the worker ask the lender to stop the device
 *   RUNNING_P2P -> STOP	wait until the lender has stopped it; after a time-out go on all the
 *				same: the next transition fails then
 *   STOP -> STOP_COPY		hand the device over.  This can fail: the VM goes on here
 *   STOP -> RESUMING		(new host) prepare: pin and map the VM's memory as that comes
 *   write()			(new host) the last byte: wait until all is prepared.  If that
 *				fails, the VM goes on at the old host
 *   STOP -> RUNNING_P2P	(new host) take the device over
 *   RUNNING_P2P -> RUNNING	the device does DMA again.  All of the VM's devices are here by
 *				then, and before it begins, the device gets access to those of them
 *				that it shall reach
 *
 * All this happens only if the device's attribute move_to names a node.  Otherwise a pause of the
 * VM stops no device, and STOP_COPY fails.
 */
#include <linux/anon_inodes.h>
#include <linux/crc32.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/iopoll.h>
#include <linux/ktime.h>
#include <linux/nvme.h>
#include <linux/pci_ids.h>
#include <linux/pci_regs.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "outstanding.h"
#include "trace.h"
#include "vdev.h"

/* How long a VMM waits, with its big lock held, for the lender */
#define DLEND_MOVE_STOP_MS	6000
#define DLEND_MOVE_TAKE_MS	10000
#define DLEND_MOVE_TELL_MS	10000	/* a writer of move_to waits, not a VMM */
#define DLEND_MOVE_PREPARE_MS	120000	/* for the VM's memory, too */

/*
 * struct dlend_move_file - a file that the VMM reads or writes; freed when the VMM closes it
 * @v: vdev, with a reference.  If @v->move.file is not this file, the VMM has left the migration
 *	state that this file belongs to, and cannot use the file any more
 * @length: bytes of the stream that are in @buf; under @v->move.lock
 * @buf: the stream (move_stream.h); under @v->move.lock
 */
struct dlend_move_file {
	struct dlend_vdev *v;
	size_t length;
	u8 buf[DLEND_MOVE_MAX];
};

/* Log why the VM stays where it is.  Return: @err */
#define dlend_move_err(v, err, fmt, ...) ({						\
	dev_err_ratelimited(dlend_vdev_dev(v), "the VM does not move: " fmt "\n",	\
			    ##__VA_ARGS__);						\
	(err);										\
})

/*
 * Outstanding commands of a borrowed disk's controller.
 *
 * The lender only sees whether the controller is silent.  This host can read the controller's
 * registers, through the window, and the guest's memory; outstanding.c judges what is read.
 */

/* The VMM waits with its big lock held, at most as long as a lender waits for silence. */
#define DLEND_CONTROLLER_WAIT_US	USEC_PER_SEC
#define DLEND_CONTROLLER_LOOK_US	(5 * USEC_PER_MSEC)

/*
 * A controller that is asked for outstanding commands.
 * @r: access to @regs, for outstanding.c
 * @v: vdev
 * @kind: type of the controller; NULL: NVMe
 * @regs: mapping of the registers in the window
 */
struct dlend_controller {
	struct dlend_registers r;
	struct dlend_vdev *v;
	const struct dlend_controller_type *kind;
	void __iomem *regs;
};

static int dlend_controller_read_memory(void *arg, u64 gpa, void *buf, size_t size)
{
	struct dlend_vdev *v = arg;

	return vfio_dma_rw(&v->vfio, gpa, buf, size, false);
}

static bool dlend_controller_nvme_busy(const struct dlend_controller *e)
{
	struct dlend_nvme n = {
		.cc = readl(e->regs + NVME_REG_CC),
		.csts = readl(e->regs + NVME_REG_CSTS),
		.aqa = readl(e->regs + NVME_REG_AQA),
		.asq = lo_hi_readq(e->regs + NVME_REG_ASQ),
		.acq = lo_hi_readq(e->regs + NVME_REG_ACQ),
		.read = dlend_controller_read_memory,
		.arg = e->v,
	};

	return dlend_nvme_busy(&n) > 0;
}

static u32 dlend_controller_register(const struct dlend_registers *r, u32 offset)
{
	return readl(container_of_const(r, struct dlend_controller, r)->regs + offset);
}

/* Return: is a command certainly outstanding? */
static bool dlend_controller_busy(const struct dlend_controller *e)
{
	return e->kind ? e->kind->busy(&e->r) : dlend_controller_nvme_busy(e);
}

/*
 * Wait until no command is certainly outstanding, for a second at most.  Return: true if one still
 * is; false also if the device is no disk that is known here, or has no lease.
 */
static bool dlend_controller_await(struct dlend_vdev *v)
{
	const struct dlend_controller_type *kind = dlend_controller_type_of(v->info.class);
	unsigned int bar = kind ? kind->bar : 0;
	struct dlend_controller e = {
		.r = { min_t(u64, v->info.bar[bar].size, DLEND_OUTSTANDING_SIZE),
		       dlend_controller_register },
		.v = v,
		.kind = kind,
	};
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);
	phys_addr_t phys = lease ? READ_ONCE(lease->bar[bar].phys) : 0;
	bool busy;

	if (!kind && v->info.class != PCI_CLASS_STORAGE_EXPRESS)
		return false;
	if (!phys || e.r.size < NVME_REG_ACQ + sizeof(u64))
		return false;
	e.regs = ioremap(phys, e.r.size);
	if (!e.regs)
		return false;
	read_poll_timeout(dlend_controller_busy, busy, !busy, DLEND_CONTROLLER_LOOK_US,
			  DLEND_CONTROLLER_WAIT_US, false, &e);
	iounmap(e.regs);
	return busy;
}

/* The VM stands still, or goes on */

/* Make the device fail, as the VM is here without it. @fmt: why, appended. [locked] */
#define dlend_move_lost(v, fmt, ...)							\
	dlend_condition_fail(v, true, "the VM cannot go on with it on this host" fmt,	\
			     ##__VA_ARGS__)

/* The VM stands still: have the worker stop the device, if move_to names a node. */
static void dlend_move_stand_still(struct dlend_vdev *v)
{
	bool busy = READ_ONCE(v->desired.move_to) != DLEND_NODE_NONE &&
		    !READ_ONCE(v->desired.forced) &&
		    !READ_ONCE(v->desired.quiesced) && dlend_controller_await(v);

	guard(mutex)(&v->lock);
	if (v->desired.move_to == DLEND_NODE_NONE || v->desired.quiesced)
		return;
	v->move.why[0] = 0;
	if (busy) {
		/* The device is not stopped, so no work is lost; dlend_move_may_go() fails later */
		snprintf(v->move.why, sizeof(v->move.why),
			 "it still has commands to end, a second after its guest had stopped: try again when it has less to do");
		return;
	}
	v->desired.quiesced = true;
	v->desired.turn++;
	dlend_vdev_update(v);
}

/* The VM goes on: if the device was stopped, have the worker let it go on. */
static void dlend_move_go_on(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	if (!v->desired.quiesced)
		return;
	v->desired.quiesced = false;
	v->desired.turn++;
	if (v->move.given && !v->claim.lease) {
		v->move.given = false;
		dlend_move_lost(v, ": another host has taken it over");
	}
	dlend_vdev_update(v);
}

/* Wait until the lender has stopped the device, or knows that it may go on; or for some time. */
static void dlend_move_await(struct dlend_vdev *v)
{
	wait_event_timeout(v->idle_wq, READ_ONCE(v->is.move_settled),
			   msecs_to_jiffies(DLEND_MOVE_STOP_MS));
}

/* The old host */

/* Describe the device as this host has it.  Return: 0 or -ENOMEM. [locked] */
static int dlend_move_describe(struct dlend_vdev *v, struct dlend_move_device *device)
{
	u8 *snapshot __free(kfree) = kmalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	struct dlend_offer_info info;

	if (!snapshot)
		return -ENOMEM;
	dlend_offer_copy(v->claim.offer, &info, snapshot);
	device->addr = *dlend_offer_addr(v->claim.offer);
	device->vendor = info.vendor;
	device->product = info.device;
	device->snapshot_crc = crc32_le(~0, snapshot, DLEND_CFG_SIZE);
	device->clique = v->clique_shown;
	return 0;
}

/*
 * Would the guest still get INTx after a move?  QEMU (11.1) sets up in KVM where INTx goes when the
 * guest sets its chipset up, but not when QEMU loads that chipset's state: on the other host KVM
 * would raise a wrong line.  Return: 0, -EPERM. [locked]
 */
static int dlend_move_intx_may_go(struct dlend_vdev *v)
{
	const struct dlend_irqs *irq = &v->irq;

	/* If the VMM itself injects INTx, it unmasks INTx by ioctls, and not by KVM's eventfd. */
	if (!v->claim.lease || irq->mode != DLEND_IRQ_INTX || !irq->unmask || irq->disabled)
		return 0;
	return dlend_move_err(v, -EPERM,
			      "its guest has it interrupt by INTx, which QEMU does not pass on after a move; start the VM with x-no-kvm-intx=on at this device, as \"dlend migrate --prepare\" writes it");
}

/* May the device move?  If not, log why.  Return: 0 or -errno. [locked] */
static int dlend_move_may_go(struct dlend_vdev *v)
{
	if (v->desired.move_to == DLEND_NODE_NONE)
		return dlend_move_err(v, -EPERM,
				      "no target node is named; use \"dlend migrate --live\", or write the node's number to the device's attribute move_to");
	if (v->now.failed)
		return dlend_move_err(v, -EIO, "its device has failed: %s", v->reason);
	if (!v->claim.lease)
		return 0;
	if (!dlend_plan_may_leave(&v->desired, &v->actual))
		return dlend_move_err(v, -EBUSY, "its device cannot be left alone: %s",
					 v->move.why[0] ? v->move.why :
					 "its lender has not stopped it in time");
	/* The guest may have set INTx up after move_to was written. */
	return dlend_move_intx_may_go(v);
}

/* Hand the device over, and write the stream to @f.  Waits for the lender.  Return: 0 or -errno. */
static int dlend_move_copy(struct dlend_vdev *v, struct dlend_move_file *f)
{
	struct dlend_move_image *image __free(kfree) = kzalloc_obj(*image);
	struct dlend_lease *lease __free(dlend_lease_put) = NULL;
	int ret;

	if (!image)
		return -ENOMEM;
	mutex_lock(&v->lock);
	ret = dlend_move_may_go(v) ?: dlend_move_describe(v, &image->device);
	memcpy(image->cfg, v->cfg.val, sizeof(image->cfg));
	lease = dlend_lease_get(v->claim.lease);
	mutex_unlock(&v->lock);
	if (ret)
		return ret;
	if (lease) {
		ret = dlend_lease_hand_over(lease, image->token);
		image->leased = true;
		mutex_lock(&v->lock);
		v->move.given = !ret && v->claim.lease == lease;
		mutex_unlock(&v->lock);
	}
	if (ret)
		return dlend_move_err(v, ret, "node %u does not hand its device over (%pe)",
				      dlend_vdev_lender(v), ERR_PTR(ret));
	f->length = dlend_move_pack(image, f->buf);
	return 0;
}

/* The new host */

/*
 * Load the configuration space of @image, if this mediated device is made from the same device, and
 * shown to the guest in the same way.  Return: 0 or -errno. [locked]
 */
static int dlend_move_compare(struct dlend_vdev *v, const struct dlend_move_image *image)
{
	const struct dlend_move_device *its = &image->device;
	struct dlend_move_device mine;
	char name[DLEND_NAME_LEN];
	int ret = dlend_move_describe(v, &mine);
	u32 at;

	if (ret)
		return ret;
	if (mine.addr.lender != its->addr.lender || mine.addr.bdf != its->addr.bdf ||
	    mine.vendor != its->vendor || mine.product != its->product ||
	    mine.snapshot_crc != its->snapshot_crc)
		return dlend_move_err(v, -EINVAL,
				      "it has another device on the old host, %s; make the mediated device here from that one",
					 dlend_addr_name(&its->addr, name));
	if (mine.clique != its->clique)
		return dlend_move_err(v, -EINVAL,
				      "its guest sees clique %d there and would see %d here; set the attribute clique to %d before the VM starts",
					 its->clique, mine.clique, its->clique);
	ret = dlend_cfg_load(&v->cfg, image->cfg, &at);
	if (ret)
		return dlend_move_err(v, ret,
				      "its device is shown in another way there (configuration space at 0x%x); install the same version of dlend on both hosts",
					 at);
	return 0;
}

/* Is the standby prepared, or will it not be? */
static bool dlend_move_prepared(struct dlend_vdev *v)
{
	return READ_ONCE(v->is.ready) || READ_ONCE(v->now.refused) || READ_ONCE(v->now.failed) ||
	       !READ_ONCE(v->now.open);
}

/*
 * Wait until the standby is prepared, and ask the lender whether it may take the device over.  Now
 * the VM can still go on at the old host.  Return: 0 or -errno.
 */
static int dlend_move_ask(struct dlend_vdev *v)
{
	struct dlend_lease *lease __free(dlend_lease_put) = NULL;
	char why[DLEND_REASON_LEN] = "the VM's memory is not mapped in time";
	int ret = -EBUSY;

	mutex_lock(&v->lock);
	/* If the standby was refused or has failed, that may have been too early: try again. */
	v->now.refused = false;
	dlend_condition_clear(v);
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	wait_event_killable_timeout(v->idle_wq, dlend_move_prepared(v),
				    msecs_to_jiffies(DLEND_MOVE_PREPARE_MS));
	mutex_lock(&v->lock);
	if (v->is.ready)
		lease = dlend_lease_get(v->claim.lease);
	else if (v->now.refused || v->now.failed)
		strscpy(why, v->now.refused ? v->move.why : v->reason);
	mutex_unlock(&v->lock);
	if (lease)
		ret = dlend_lease_may_take_over(lease, v->move.token, why);
	return ret ? dlend_move_err(v, ret, "this host cannot take its device over: %s", why) : 0;
}

/* The whole stream has come: check it, and wait until this host can take over. */
static int dlend_move_arrived(struct dlend_vdev *v, const struct dlend_move_file *f)
{
	struct dlend_move_image *image __free(kfree) = kzalloc_obj(*image);
	const char *why;
	int ret;

	if (!image)
		return -ENOMEM;
	ret = dlend_move_unpack(f->buf, f->length, image, &why);
	if (ret)
		return dlend_move_err(v, ret, "the device state that arrived cannot be read: %s",
				      why);
	mutex_lock(&v->lock);
	ret = dlend_move_compare(v, image);
	v->move.has_token = !ret && image->leased;
	memcpy(v->move.token, image->token, sizeof(v->move.token));
	mutex_unlock(&v->lock);
	return !ret && image->leased ? dlend_move_ask(v) : ret;
}

/* The VM runs here now: act on what the guest has set in configuration space. [locked] */
static void dlend_move_begin(struct dlend_vdev *v)
{
	v->now.coming = false;
	v->move.has_token = false;
	v->desired.taken = false;
	v->desired.bme = dlend_cfg_mastering(&v->cfg);
	/* The last build may have searched before all of the VM's memory had come. */
	v->desired.rescan++;
	if (v->desired.bme)
		v->bme_at = ktime_get();
	dlend_vdev_update(v);
}

/* The VM that was to come goes on here: have the worker take the device over, and wait for that. */
static void dlend_move_take(struct dlend_vdev *v)
{
	struct dlend_lease *before = NULL;

	mutex_lock(&v->lock);
	if (v->move.has_token && v->claim.lease) {
		v->desired.taken = true;
		/* The VM may run before its device is here: accesses wait at the gate. */
		dlend_vdev_update(v);
	} else {
		/* The lease was lost since the token came, or the VM had none on the old host. */
		if (v->move.has_token)
			dlend_move_lost(v, ": the link to its lender was lost");
		before = dlend_ended_give_up(v);
		dlend_move_begin(v);
	}
	mutex_unlock(&v->lock);
	dlend_lease_put(before);
	wait_event_timeout(v->idle_wq, !READ_ONCE(v->now.coming),
			   msecs_to_jiffies(DLEND_MOVE_TAKE_MS));
}

/* Files */

static int dlend_move_release(struct inode *inode, struct file *file)
{
	struct dlend_move_file *f = file->private_data;

	mutex_lock(&f->v->move.lock);
	if (f->v->move.file == f)
		f->v->move.file = NULL;
	mutex_unlock(&f->v->move.lock);
	dlend_vdev_put(f->v);
	kvfree(f);
	return 0;
}

static ssize_t dlend_move_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	struct dlend_move_file *f = file->private_data;

	guard(mutex)(&f->v->move.lock);
	if (f->v->move.file != f)
		return -ENODEV;
	return simple_read_from_buffer(buf, count, &file->f_pos, f->buf, f->length);
}

static ssize_t dlend_move_write(struct file *file, const char __user *buf, size_t count,
				loff_t *pos)
{
	struct dlend_move_file *f = file->private_data;
	size_t length;
	int ret;

	guard(mutex)(&f->v->move.lock);
	if (f->v->move.file != f)
		return -ENODEV;
	if (f->v->move.arrived || count > sizeof(f->buf) - f->length)
		return -EFBIG;
	if (copy_from_user(f->buf + f->length, buf, count))
		return -EFAULT;
	f->length += count;
	ret = dlend_move_length(f->buf, f->length, &length);
	if (!ret && f->length > length)
		ret = -EBADMSG;
	if (ret)
		return dlend_move_err(f->v, ret,
				      "the device state that arrived is of another version, or damaged");
	if (f->length < length)
		return count;
	ret = dlend_move_arrived(f->v, f);
	f->v->move.arrived = !ret;
	return ret ?: count;
}

static const struct file_operations dlend_move_fops = {
	.owner = THIS_MODULE,
	.read = dlend_move_read,
	.write = dlend_move_write,
	.release = dlend_move_release,
};

/*
 * Make a file that the VMM reads the stream from (@flags O_RDONLY: with the stream, as the device
 * is handed over) or writes the stream to (O_WRONLY).  Context: vdev->move.lock is held.
 */
static struct file *dlend_move_open_file(struct dlend_vdev *v, int flags)
{
	struct dlend_move_file *f __free(kvfree) = kvzalloc_obj(*f);
	struct file *file;
	int ret;

	if (!f)
		return ERR_PTR(-ENOMEM);
	if (flags == O_RDONLY) {
		/* The VM may have stood still before move_to was written. */
		dlend_move_stand_still(v);
		dlend_move_await(v);
		ret = dlend_move_copy(v, f);
		if (ret)
			return ERR_PTR(ret);
	}
	file = anon_inode_getfile("dlend-move", &dlend_move_fops, f, flags);
	if (IS_ERR(file))
		return file;
	stream_open(file_inode(file), file);
	f->v = dlend_vdev_get(v);
	v->move.file = no_free_ptr(f);
	return file;
}

/* States */

/* A VM is to come: return the lease in use, if any, and have the worker prepare a standby. */
static void dlend_move_expect(struct dlend_vdev *v)
{
	struct dlend_lease *before __free(dlend_lease_put) = NULL;

	guard(mutex)(&v->lock);
	before = dlend_ended_give_up(v);
	v->now.coming = true;
	v->now.refused = false;
	v->move.has_token = false;
	v->move.arrived = false;
	v->desired.taken = false;
	v->desired.build++;
	dlend_vdev_update(v);
}

#define DLEND_MOVE_ARC(from, to)	((from) << 8 | (to))
#define DLEND_MOVE_IS(from, to)		\
	DLEND_MOVE_ARC(VFIO_DEVICE_STATE_##from, VFIO_DEVICE_STATE_##to)

/*
 * Make one transition between migration states.  Context: vdev->move.lock is held.
 * Return: a file for the VMM; NULL: none; ERR_PTR: it has failed, and the state stays.
 */
static struct file *dlend_move_arc(struct dlend_vdev *v, u32 from, u32 to)
{
	switch (DLEND_MOVE_ARC(from, to)) {
	case DLEND_MOVE_IS(RUNNING, RUNNING_P2P):
		dlend_move_stand_still(v);
		return NULL;
	case DLEND_MOVE_IS(RUNNING_P2P, STOP):
		dlend_move_await(v);
		return NULL;
	case DLEND_MOVE_IS(STOP, RUNNING_P2P):
		if (READ_ONCE(v->now.coming))
			dlend_move_take(v);
		return NULL;
	case DLEND_MOVE_IS(RUNNING_P2P, RUNNING):
		dlend_move_go_on(v);
		dlend_move_await(v);
		return NULL;
	case DLEND_MOVE_IS(STOP, STOP_COPY):
		return dlend_move_open_file(v, O_RDONLY);
	case DLEND_MOVE_IS(STOP_COPY, STOP):
		return NULL;
	case DLEND_MOVE_IS(STOP, RESUMING):
		dlend_move_expect(v);
		return dlend_move_open_file(v, O_WRONLY);
	case DLEND_MOVE_IS(RESUMING, STOP):
		/* The VMM leaves RESUMING before the VM runs, and may have closed the file. */
		if (v->move.arrived)
			return NULL;
		return ERR_PTR(dlend_move_err(v, -EINVAL,
					      "the device state that arrived is not complete"));
	}
	return ERR_PTR(-EINVAL);
}

/*
 * Note a new migration state.  Until the VM runs, Bus Master Enable is not turned on (now.held).  A
 * file is of use in one state only.
 */
static void dlend_move_note_state(struct dlend_vdev *v, enum vfio_device_mig_state state)
{
	lockdep_assert_held(&v->move.lock);
	if (state != VFIO_DEVICE_STATE_STOP_COPY && state != VFIO_DEVICE_STATE_RESUMING)
		v->move.file = NULL;
	guard(mutex)(&v->lock);
	v->move.state = state;
	v->now.held = state != VFIO_DEVICE_STATE_RUNNING;
	dlend_vdev_update(v);
}

static struct file *dlend_move_set_state(struct vfio_device *vfio,
					 enum vfio_device_mig_state new_state)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);
	enum vfio_device_mig_state next;
	struct file *file = NULL;
	int ret;

	guard(mutex)(&v->move.lock);
	while (new_state != v->move.state) {
		ret = vfio_mig_get_next_state(vfio, v->move.state, new_state, &next);
		if (ret)
			return ERR_PTR(ret);
		file = dlend_move_arc(v, v->move.state, next);
		if (IS_ERR(file))
			return file;
		dlend_move_note_state(v, next);
		/* Only the state that was asked for has a file. */
		if (WARN_ON(file && new_state != next)) {
			fput(file);
			return ERR_PTR(-EINVAL);
		}
	}
	return file;
}

static int dlend_move_get_state(struct vfio_device *vfio, enum vfio_device_mig_state *state)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);

	guard(mutex)(&v->move.lock);
	*state = v->move.state;
	return 0;
}

static int dlend_move_get_data_size(struct vfio_device *vfio, unsigned long *length)
{
	*length = DLEND_MOVE_MAX;
	return 0;
}

const struct vfio_migration_ops dlend_move_ops = {
	.migration_set_state = dlend_move_set_state,
	.migration_get_state = dlend_move_get_state,
	.migration_get_data_size = dlend_move_get_data_size,
};

void dlend_move_forget(struct dlend_vdev *v)
{
	v->now.coming = false;
	v->now.refused = false;
	v->move.given = false;
	v->move.has_token = false;
	v->move.why[0] = 0;
	v->desired.quiesced = false;
	v->desired.taken = false;
}

void dlend_move_close(struct dlend_vdev *v)
{
	guard(mutex)(&v->move.lock);
	dlend_move_note_state(v, VFIO_DEVICE_STATE_RUNNING);
}

/* Which node may take the device over */

/* Parse @text: "NODE", and maybe "cut" (@forced) and "all".  Return: 0, -EINVAL, -ERANGE. */
static int dlend_move_parse_target(const char *text, u16 *node, bool *forced, bool *all)
{
	char words[24], *rest, *word;
	int ret;

	if (strscpy(words, text) < 0)
		return -EINVAL;
	rest = strim(words);
	ret = kstrtou16(strsep(&rest, " "), 0, node);
	while (!ret && (word = strsep(&rest, " "))) {
		if (!strcmp(word, "cut"))
			*forced = true;
		else if (!strcmp(word, "all"))
			*all = true;
		else
			ret = -EINVAL;
	}
	return ret;
}

int dlend_move_set_target(struct dlend_vdev *v, const char *text)
{
	bool forced = false, all = false;
	u16 node;
	int ret = dlend_move_parse_target(text, &node, &forced, &all);

	if (ret)
		return ret;
	mutex_lock(&v->lock);
	/*
	 * iommufd keeps no dirty bits for a mediated device, so the VMM would not send again what
	 * the device has written.
	 */
	if (!v->now.open)
		ret = -ENODEV;
	else if (node != DLEND_NODE_NONE && !all && v->had_space)
		ret = dlend_move_err(v, -EOPNOTSUPP,
				     "its VMM uses iommufd, which does not tell it what the device writes; leave iommufd out of the VM's definition, or write \"NODE all\" if the VMM sends all memory after the VM has stopped");
	else if (node != DLEND_NODE_NONE)
		ret = dlend_move_intx_may_go(v);
	if (ret) {
		mutex_unlock(&v->lock);
		return ret;
	}
	v->move.told = 0;
	v->desired.named++;
	v->desired.move_to = node;
	v->desired.forced = forced;
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	if (!wait_event_timeout(v->idle_wq, READ_ONCE(v->is.move_told),
				msecs_to_jiffies(DLEND_MOVE_TELL_MS)))
		return -ETIMEDOUT;
	return READ_ONCE(v->move.told);
}

/*
 * The worker's steps, which the plan asks for (plan.c).
 *
 * A device that was stopped is like one whose guest has Bus Master Enable off: the usual step
 * (DLEND_STEP_BME_ON) turns that bit on again, here or on the other host.
 */

static const char *dlend_move_told_words(int err)
{
	switch (err) {
	case -EOPNOTSUPP:
		return "it never is quiet; \"NODE cut\" if it is a network or sound device";
	case -EMLINK:
		return "its IOMMU group has more functions: not possible yet";
	case -EINVAL:
		return "the VM is on that node already";
	default:
		return "the lender refuses";
	}
}

void dlend_move_step_to(struct dlend_vdev *v, struct dlend_lease *lease)
{
	int ret = dlend_lease_move_to(lease, v->asked.move_to, v->asked.forced);

	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	if (dlend_reply_named(&v->desired, &v->asked, &v->actual, &v->move.told, ret))
		dev_warn_ratelimited(dlend_vdev_dev(v), "node %u cannot take the device over (%pe): %s\n",
				     v->asked.move_to, ERR_PTR(ret), dlend_move_told_words(ret));
}

void dlend_move_step_quiesce(struct dlend_vdev *v, struct dlend_lease *lease)
{
	struct dlend_state had;
	struct dlend_quiesced quiesced;
	int ret;

	mutex_lock(&v->lock);
	v->actual.bme = false;
	had = v->actual;
	/* KVM delivers no interrupt directly any more, as the lender has to count them. */
	dlend_bypass_end(v);
	mutex_unlock(&v->lock);
	ret = dlend_lease_quiesce(lease, had.irq_mode, had.irq_count, &quiesced);
	trace_dlend_vdev_step(dlend_vdev_dev(v), "bus_master off", lease->epoch, ret);
	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	dlend_reply_quiesced(&v->asked, &v->actual, quiesced.drained || v->actual.forced, ret);
	if (quiesced.irqs_changed) {
		v->actual.irq_mode = DLEND_IRQ_UNKNOWN;
		v->irq_gap = true;
	}
	v->now.dma = v->now.dma && ret;
	if (ret)
		snprintf(v->move.why, sizeof(v->move.why), "node %u could not stop it (%pe)",
			 lease->addr.lender, ERR_PTR(ret));
	else if (v->actual.loud)
		snprintf(v->move.why, sizeof(v->move.why),
			 "it was still at work %u ms after its guest had stopped: try again when there is less to do",
			 quiesced.waited_us / 1000);
}

void dlend_move_step_run(struct dlend_vdev *v, struct dlend_lease *lease)
{
	int ret = dlend_lease_run(lease);

	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	/* Interrupts may have been lost while the device was stopped: signal each vector once. */
	dlend_irqs_live(v, v->actual.irq_mode, true);
	v->move.given = false;
	v->move.why[0] = 0;
	if (dlend_reply_ran(&v->desired, &v->asked, &v->actual, ret))
		dlend_move_lost(v, " (%pe)%s", ERR_PTR(ret),
				ret == -ESTALE ? ": another host has taken it over" : "");
}

void dlend_move_step_take_over(struct dlend_vdev *v, struct dlend_lease *lease)
{
	char why[DLEND_REASON_LEN] = "";
	int ret = dlend_lease_take_over(lease, v->move.token, why);

	guard(mutex)(&v->lock);
	/* If the VM is not to come any more, the lease has ended, too. */
	if (v->claim.lease != lease)
		return;
	dlend_reply_taken(&v->actual);
	/* The next set-up signals each vector once, as interrupts may be lost in the move. */
	v->irq_gap = true;
	dlend_move_begin(v);
	if (ret)
		dlend_move_lost(v, " (%pe): %s", ERR_PTR(ret), why);
}
