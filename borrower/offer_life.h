/* SPDX-License-Identifier: GPL-2.0 */
/* Life of an offer: made, shown on the bus, announced, removed. */
#ifndef DLEND_BORROWER_OFFER_LIFE_H
#define DLEND_BORROWER_OFFER_LIFE_H

#include "offer.h"

/**
 * dlend_offer_alloc - put a new offer into the book, of which only the address is known
 * @addr: (in) device
 *
 * Context: dlend_offers_lock; may sleep. Return: offer, or ERR_PTR(-ENOSPC, -ENOMEM).
 */
struct dlend_offer *dlend_offer_alloc(const struct dlend_addr *addr);

/**
 * dlend_offer_update - have a worker show the offer on the bus, or announce it, if that is due
 * @offer: (in) offer
 *
 * Context: dlend_offers_lock; waits for nobody.
 */
void dlend_offer_update(struct dlend_offer *offer);

/**
 * dlend_offer_set_state - note what the lender says, or GONE, and have a worker tell user space
 * @offer: (in) offer
 * @state: enum dlend_offer_state
 * @holder: node, or DLEND_NODE_NONE
 *
 * Context: dlend_offers_lock; waits for nobody.
 */
void dlend_offer_set_state(struct dlend_offer *offer, u16 state, u16 holder);

/** dlend_offer_set_vm - the same for the VM that it is reserved for. Context: dlend_offers_lock. */
void dlend_offer_set_vm(struct dlend_offer *offer, const u8 *vm);

/**
 * dlend_offer_ask - have the lenders at the other end send all their offers
 * @link: link
 *
 * Context: process, may sleep. Return: as dlend_link_post_in().
 */
int dlend_offer_ask(struct dlend_link *link);

/**
 * dlend_offer_kill - the offer ends: a worker removes it
 * @offer: (in) offer that nobody claims, unless the module is being unloaded
 *
 * Context: dlend_offers_lock; waits for nobody.
 */
void dlend_offer_kill(struct dlend_offer *offer);

/** dlend_offer_life_init - make the workqueue. Context: module init. Return: 0, -ENOMEM. */
int dlend_offer_life_init(void);

/** dlend_offer_life_exit - remove all offers. Context: module exit. */
void dlend_offer_life_exit(void);

#endif
