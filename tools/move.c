// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes the functions of an IOMMU group from their drivers to dlend-lender, all of them or none.
 * Knows nothing of names, cliques or reset methods.
 */
#include <errno.h>
#include <string.h>

#include "dlend.h"

static bool override_is_set(const struct move *m)
{
	return *m->override && strcmp(m->override, "(null)");
}

/* Of an override that is ours, what was kept when that was set counts. */
static bool override_is_to_be_kept(const struct move *m)
{
	return !device_lent(&m->dev) && !override_own(m->override);
}

static void forget_overrides(const struct move *move, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (override_is_to_be_kept(&move[i]) && !move[i].stuck)
			forget_value(&move[i].dev, OVERRIDE_SETTING);
}

/* Done before anything is changed: what cannot be kept would be lost. */
static void keep_overrides(const struct move *move, size_t count)
{
	int err = 0;

	forget_overrides(move, count);
	for (size_t i = 0; i < count; i++) {
		const struct move *m = &move[i];

		if (override_is_to_be_kept(m) && override_is_set(m))
			err = keep_value(&m->dev, OVERRIDE_SETTING, m->override);
		if (!err)
			continue;
		forget_overrides(move, count);
		fail(EXIT_FAIL,
		     text("%s: its driver_override cannot be kept for reclaim", m->dev.bdf),
		     strerror(-err),
		     text("Nothing has changed. Is %s full, or not writable?", opt.run));
	}
}

/*
 * All functions leave our driver before the first goes back to its own, as in move_take().
 * Return: the functions that have no driver now.
 */
static const char *move_undo(struct move *move, size_t count)
{
	const char *lost = "";

	for (size_t i = 0; i < count; i++) {
		struct move *m = &move[i];

		if (!m->overridden || m->stuck)
			continue;
		if (device_lent(&m->dev))
			device_unbind(&m->dev);
		device_override(&m->dev, override_is_set(m) ? m->override : "");
	}
	forget_overrides(move, count);
	for (size_t i = 0; i < count; i++) {
		struct move *m = &move[i];

		if (!m->overridden || !m->driver || m->stuck)
			continue;
		device_probe(&m->dev);		/* does nothing to one that has its driver */
		if (!device_driver(&m->dev))
			lost = join(lost, m->dev.bdf);
	}
	return lost;
}

/* @m: which of @move it was */
static void undo_and_fail(struct move *move, size_t count, struct move *m, const char *what,
			  int err)
{
	const char *lost;

	/* The kernel's write goes on in a process of its own, which has the lock. */
	m->stuck = err == -EINPROGRESS;
	lost = move_undo(move, count);
	if (m->stuck)
		fail(EXIT_IN_USE, what, patience_over(),
		     text("Find its user (lsof, nvidia-smi), end it, and: %s %s",
			  "dlend lend or reclaim", m->dev.bdf));
	if (err == -EPERM && !*lost)
		fail(EXIT_UNFIT, what,
		     "interrupt remapping is off, so a borrower could make this host see interrupts that are not the device's",
		     "Turn it on in the firmware (interrupt remapping, x2APIC). If you trust all borrowers and peers with this host: echo Y > "
		     ALLOW_UNSAFE_INTERRUPTS);
	if (err == -EACCES && !*lost)
		fail(EXIT_UNFIT, what,
		     "it translates addresses by itself (ATS), which no fence can check",
		     "Boot this host with pci=noats. If you trust the device to forget translations when it is told to: echo Y > "
		     ALLOW_ATS);
	fail(err == -EBUSY ? EXIT_IN_USE : EXIT_FAIL, what, strerror(-err),
	     *lost ? text("These have no driver now: %s. The kernel's log says why: dmesg | tail",
			  lost) :
	     "Nothing has changed. The kernel's log says more: dmesg | tail");
}

struct move *move_plan(const struct names *bdf)
{
	struct move *move = zeroed(bdf->count, sizeof(*move));

	for (size_t i = 0; i < bdf->count; i++) {
		move[i].dev = device_open(bdf->name[i]);
		check_device(&move[i].dev);
		check_use(&move[i].dev);
		move[i].driver = device_driver(&move[i].dev);
		move[i].override = attr(move[i].dev.dir, "driver_override");
	}
	return move;
}

/*
 * All functions leave their drivers before the first comes to ours: the kernel gives us the DMA of
 * a group only when no other driver uses any device of it.
 */
void move_take(struct move *move, size_t count)
{
	int err;

	keep_overrides(move, count);
	for (size_t i = 0; i < count; i++) {
		struct move *m = &move[i];

		if (device_lent(&m->dev))
			continue;
		err = device_override(&m->dev, DLEND_DRIVER);
		if (err)
			undo_and_fail(move, count, m,
				      text("%s: cannot set its driver", m->dev.bdf), err);
		m->overridden = true;
		if (m->driver)
			progress("%s: taking it from %s", m->dev.bdf, m->driver);
		err = device_unbind(&m->dev);
		if (err)
			undo_and_fail(move, count, m, text("%s: its driver %s does not let go",
							   m->dev.bdf, m->driver), err);
	}
	for (size_t i = 0; i < count; i++) {
		struct move *m = &move[i];

		if (device_lent(&m->dev))
			continue;
		err = device_bind_lender(&m->dev);
		if (err)
			undo_and_fail(move, count, m,
				      text("%s: dlend-lender refused it", m->dev.bdf), err);
	}
}
