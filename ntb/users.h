/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Users of links: the layers above (struct dlend_link_user), and how they are called.
 *
 * A user keeps its number from dlend_user_add() to dlend_user_del(); numbers are used again.
 */
#ifndef DLEND_NTB_USERS_H
#define DLEND_NTB_USERS_H

#include <linux/types.h>

struct dlend_link;
struct dlend_link_user;
struct dlend_msg;

/* The lender and the borrower, and room for what a test or a later part may add. */
#define DLEND_MAX_USERS		8

/**
 * dlend_user_add - give a user a number
 * @user: user; its callbacks may run before this returns
 *
 * Context: process; the caller serialises with other dlend_user_add() and dlend_user_del().
 * Return: its number, 0..DLEND_MAX_USERS - 1; -ENOSPC.
 */
int dlend_user_add(struct dlend_link_user *user);

/**
 * dlend_user_del - take a user's number away
 * @user: user
 *
 * No callback of it that dlend_users_call(), dlend_users_message() and the like have begun runs any
 * more when this returns.
 * Context: process, may sleep; as dlend_user_add().
 * Return: the number that it had; -ENOENT.
 */
int dlend_user_del(struct dlend_link_user *user);

/**
 * dlend_users_call - call a function for every user
 * @fn: called with the user and its number, under SRCU; may sleep
 * @arg: (in) for @fn
 *
 * Context: process, may sleep.
 */
void dlend_users_call(void (*fn)(struct dlend_link_user *user, unsigned int number, void *arg),
		      void *arg);

/**
 * dlend_users_message - hand a message to the user that handles it
 * @link: link that it came over
 * @msg: (in) checked message
 * @reply: (out) as for dlend_link_user.message; NULL for a post
 *
 * Context: process, may sleep, as long as the handler does.
 * Return: what the handler returned; -EOPNOTSUPP if nobody handles this type here.
 */
int dlend_users_message(struct dlend_link *link, const struct dlend_msg *msg,
			struct dlend_msg *reply);

/**
 * dlend_users_suspend - ask all users whether the host may sleep
 *
 * If one refuses, all are told that the host did not fall asleep.
 * Context: process, may sleep. Return: 0, or the error of the user that refuses.
 */
int dlend_users_suspend(void);

/**
 * dlend_users_resume - tell all users that the host is awake
 * @slept: (in) false: it did not fall asleep, as one of them was in the way
 *
 * Context: process, may sleep.
 */
void dlend_users_resume(bool slept);

/** dlend_users_shutdown - tell all users that the host goes down. Context: process, may sleep. */
void dlend_users_shutdown(void);

/** dlend_users_vouched - tell all users that islands have changed. Context: process, may sleep. */
void dlend_users_vouched(void);

#endif
