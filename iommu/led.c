// SPDX-License-Identifier: GPL-2.0
/* Where the pages of a raw slot that was cut lead: see led.h. */
#include <linux/bits.h>
#include <linux/mm.h>
#include "led.h"

/* Page frames have no more bits than this. */
#define DLEND_LED_PFN_BITS	52

void dlend_led_init(struct dlend_led *led)
{
	mt_init(&led->before);
	/* Drivers map and unmap in interrupts, too. */
	xa_init_flags(&led->after, XA_FLAGS_LOCK_IRQ);
}

void dlend_led_destroy(struct dlend_led *led)
{
	mtree_destroy(&led->before);
	xa_destroy(&led->after);
}

void *dlend_led_run(unsigned long page, phys_addr_t phys)
{
	return phys ? xa_mk_value(BIT_ULL(DLEND_LED_PFN_BITS) + PHYS_PFN(phys) - page) : NULL;
}

/* An order that small does not fail. */
void dlend_led_note(struct dlend_led *led, unsigned long first, unsigned long end, void *run)
{
	if (run)
		WARN_ON(mtree_store_range(&led->before, first, end - 1, run,
					  GFP_NOIO | __GFP_NOFAIL));
}

static int dlend_led_store(struct dlend_led *led, unsigned long page, unsigned long frame,
			   gfp_t gfp)
{
	unsigned long flags;
	void *old;

	xa_lock_irqsave(&led->after, flags);
	old = __xa_store(&led->after, page, xa_mk_value(frame), gfp);
	xa_unlock_irqrestore(&led->after, flags);
	return xa_err(old);
}

int dlend_led_map(struct dlend_led *led, u64 at, u64 size, phys_addr_t phys, gfp_t gfp)
{
	unsigned long page = at >> PAGE_SHIFT, i;
	int err = 0;

	for (i = 0; i < size >> PAGE_SHIFT && !err; i++)
		err = dlend_led_store(led, page + i, PHYS_PFN(phys) + i, gfp);
	if (err)
		dlend_led_unmap(led, at, size);
	return err;
}

void dlend_led_unmap(struct dlend_led *led, u64 at, u64 size)
{
	unsigned long page, flags, last = (at + size - 1) >> PAGE_SHIFT;
	void *entry;

	xa_for_each_range(&led->after, page, entry, at >> PAGE_SHIFT, last) {
		xa_lock_irqsave(&led->after, flags);
		__xa_erase(&led->after, page);
		xa_unlock_irqrestore(&led->after, flags);
	}
}

static phys_addr_t dlend_led_before(struct dlend_led *led, unsigned long page)
{
	void *run = mtree_load(&led->before, page);

	return run ? PFN_PHYS(xa_to_value(run) + page - BIT_ULL(DLEND_LED_PFN_BITS)) : 0;
}

phys_addr_t dlend_led_phys(struct dlend_led *led, u64 at)
{
	unsigned long page = at >> PAGE_SHIFT;
	void *frame = xa_load(&led->after, page);
	phys_addr_t phys = frame ? PFN_PHYS(xa_to_value(frame)) : dlend_led_before(led, page);

	return phys ? phys + offset_in_page(at) : 0;
}
