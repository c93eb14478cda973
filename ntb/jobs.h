/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jobs: requests of the peer, each with the work item in which a user handles it.
 *
 * Their number is fixed (DLEND_MAX_REQUESTS); which of them may run is decided in requests.h.
 */
#ifndef DLEND_NTB_JOBS_H
#define DLEND_NTB_JOBS_H

#include <linux/types.h>
#include <linux/wait.h>
#include "requests.h"

struct dlend_job;
struct dlend_link;
struct workqueue_struct;

/**
 * struct dlend_jobs - all jobs of a link
 * @all: DLEND_MAX_REQUESTS of them
 * @wq: workqueue in which they run
 * @requests: which run and which wait; under link->lock
 * @idle: woken when a job is done
 */
struct dlend_jobs {
	struct dlend_job *all;
	struct workqueue_struct *wq;
	struct dlend_requests requests;
	wait_queue_head_t idle;
};

/**
 * dlend_jobs_init - make memory and workqueue
 * @link: link
 * @name: (in) name of the link, for the workqueue
 *
 * Context: process, may sleep.
 * Return: 0; -ENOMEM: to be freed by dlend_jobs_free(), too.
 */
int dlend_jobs_init(struct dlend_link *link, const char *name);

/** dlend_jobs_free - undo dlend_jobs_init(), also if it failed. Context: process, may sleep. */
void dlend_jobs_free(struct dlend_link *link);

/** dlend_jobs_room - may any request be added? Context: process; takes link->lock. */
bool dlend_jobs_room(struct dlend_link *link);

/**
 * dlend_jobs_add - a request has come: let a user handle it, in its turn
 * @link: link; dlend_jobs_room() was true
 * @session: (in) session that it came in; its reply goes into that one, or nowhere
 * @msg: (in) checked request, copied
 *
 * Context: process; takes link->lock.
 */
void dlend_jobs_add(struct dlend_link *link, u64 session, const struct dlend_msg *msg);

/**
 * dlend_jobs_wait - wait until no job is left
 * @link: link
 * @ms: (in) milliseconds to wait at most
 *
 * Context: process, may sleep. Return: is none left?
 */
bool dlend_jobs_wait(struct dlend_link *link, unsigned int ms);

/** dlend_jobs_drain - wait until no job is left, however long. Context: process, may sleep. */
void dlend_jobs_drain(struct dlend_link *link);

/** dlend_jobs_stop - no job runs any more, for good. Context: process, may sleep. */
void dlend_jobs_stop(struct dlend_link *link);

#endif
