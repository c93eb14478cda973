/* SPDX-License-Identifier: GPL-2.0 */
/* The lender as a user of links: messages, and links that come and go. */
#ifndef DLEND_LENDER_REQUEST_H
#define DLEND_LENDER_REQUEST_H

#include <dlend/link.h>

#include "lender/fn.h"

/* For dlend_link_user_register(). */
extern struct dlend_link_user lend_link_user;

#endif
