/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bring-up of a link as a state machine: each event leads to a new state, and to actions.
 *
 *   down --start--> hello --both nonces known, control areas cleared--> test
 *        --own test passed, peer's test arrived, peer's heartbeat seen--> up
 *
 * and back to down at any time, or from test back to hello when the peer has begun anew.  By the
 * handshake a node writes into its peer's control area only after the peer has cleared that area
 * for this session.  A node writes to its peer's scratchpads, and reads its own:
 *
 *   HELLO  the writer's nonce
 *   ACK    "I have seen your nonce, and write nothing of an older session any more"
 *   READY  "I have seen your ACK, and have cleared my control area: write"
 *
 * Each write to the peer can be lost or overwritten, once or for a while.  So nothing is written
 * only once: scratchpads and test are written again until the link is up.  A heartbeat says that
 * its sender has all that it needs for this session.  If a node is up and its peer is not, the
 * node gets no heartbeat, and begins anew; its peer sees that, and goes back to hello.
 */
#ifndef DLEND_NTB_BRINGUP_H
#define DLEND_NTB_BRINGUP_H

#include <linux/bits.h>
#include <linux/types.h>
#include <dlend/proto.h>

enum dlend_bringup_state {
	DLEND_BRINGUP_DOWN,
	DLEND_BRINGUP_HELLO,
	DLEND_BRINGUP_TEST,
	DLEND_BRINGUP_UP,
	DLEND_BRINGUP_STATES
};

/* Actions that an event asks for; several at once are possible, and are done in this order. */
#define DLEND_DO_END	0x01	/* the session is over: stop writing, set MAGIC, ACK, READY to 0 */
#define DLEND_DO_ACK	0x02	/* write READY = 0, then ACK = @ack */
#define DLEND_DO_CLEAR	0x04	/* clear the own control area, then write READY = @ack */
#define DLEND_DO_TEST	0x08	/* run the self-test, report by dlend_bringup_tested() */
#define DLEND_DO_UP	0x10	/* the session begins */
#define DLEND_DO_ERROR	0x20	/* @error has a new text for the log */

#define DLEND_BRINGUP_ERROR_LEN	192
#define DLEND_BRINGUP_RETEST_MS	1000	/* between self-tests, until the link is up */
#define DLEND_BRINGUP_LATE_MS	5000	/* a peer's test that comes later is an error */
#define DLEND_BRINGUP_MIN_WINDOW	BIT_ULL(20)	/* a smaller one is an error */

/**
 * struct dlend_bringup - the state machine of one link; all 0 at first
 * @state: its state
 * @node: this node's id. The caller sets this and the next two before dlend_bringup_start()
 * @version: its protocol versions: min << 16 | max
 * @aperture_mib: size of its aperture in MiB
 * @loop: this node must be its own peer. The caller sets it once
 * @required: node id that the peer must have, 0: any. The caller sets it, at any time
 * @timeout_ms: heartbeat time-out. The caller sets it before dlend_bringup_start()
 * @nonce: of this session, never 0 in a session
 * @error: why the link is not up, or ""; in state test, the result of the test
 * @ack: value for the ACK scratchpad
 * @peer_nonce: the peer's nonce, as its scratchpads say, if versions fit
 * @peer_node: its id, likewise
 * @peer_aperture_mib: size of its aperture in MiB, likewise
 * @picked: the protocol version in use
 * @peer_window: bytes that the peer's window reaches here, not trusted
 * @passed: this node's self-test has passed
 * @complete: @passed, the peer's self-test has arrived here, and its window is large enough
 * @cleared: this node's control area was cleared for this session
 * @tested_at: when this node's self-test last ran, milliseconds; 0: it has not run
 * @test_since: when state test began, milliseconds
 * @beat: the peer's last heartbeat
 * @beat_at: when it was first seen, milliseconds
 *
 * Members from @ack on are set to 0 when the machine leaves state down, and when it goes there.
 */
struct dlend_bringup {
	enum dlend_bringup_state state;
	u16 node;
	u32 version;
	u32 aperture_mib;
	bool loop;
	u16 required;
	u32 timeout_ms;
	u64 nonce;
	char error[DLEND_BRINGUP_ERROR_LEN];
	u32 ack;
	u64 peer_nonce;
	u16 peer_node;
	u32 peer_aperture_mib;
	u64 peer_window;
	u16 picked;
	bool passed;
	bool complete;
	bool cleared;
	u64 tested_at, test_since;
	u32 beat;
	u64 beat_at;
};

/**
 * struct dlend_bringup_area - contents of this node's control area, which the peer has written: not
 *	trusted
 * @nonce: this node's nonce, as the peer has seen it
 * @beat: the peer's heartbeat
 * @window: as in struct dlend_ctrl; needed in state test only
 * @check: likewise
 * @test: a private copy of the pattern of the peer's self-test; needed in state test only
 */
struct dlend_bringup_area {
	u64 nonce;
	u32 beat;
	u64 window;
	u64 check;
	u8 test[DLEND_TEST_SIZE];
};

#define DLEND_BACKOFF_LASTED_MS	10000	/* a session that was up so long is not a short one */
#define DLEND_BACKOFF_FREE	4	/* that many short sessions in a row cause no wait */
#define DLEND_BACKOFF_FIRST_MS	125	/* wait after one more; it doubles with each, ... */
#define DLEND_BACKOFF_MAX_MS	2000U	/* ... but only to this: a link is back within 10 s */

/**
 * struct dlend_backoff - a wait between sessions that do not last; all 0 at first
 * @up_at: when the last session came up, milliseconds; set by the caller
 * @row: short sessions in a row
 * @until: no new session begins before this time, milliseconds
 *
 * Each session causes work for the link's users, and messages to other nodes.  A peer that begins
 * a new session again and again must not keep them busy.
 */
struct dlend_backoff {
	u64 up_at;
	u32 row;
	u64 until;
};

/**
 * dlend_backoff_down - set the wait, as a session that was up is over
 * @o: wait
 * @now: (in) milliseconds, any origin, as everywhere here
 *
 * Context: any; the caller serialises, as everywhere here.
 */
void dlend_backoff_down(struct dlend_backoff *o, u64 now);

/**
 * dlend_backoff_left - how long the next session has to wait
 * @o: (in) wait
 * @now: (in) milliseconds
 *
 * Context: any. Return: milliseconds; 0: it may begin now.
 */
u32 dlend_backoff_left(const struct dlend_backoff *o, u64 now);

/**
 * dlend_bringup_start - go from state down to hello
 * @b: machine; in any other state the call is ignored
 * @nonce: (in) random; changed here if it is not usable (its halves must differ)
 *
 * The caller guarantees that the hardware's link is up, and that users' link_down() of the last
 * session has returned. It then writes the scratchpads, with @b->nonce.
 * Context: any.
 */
void dlend_bringup_start(struct dlend_bringup *b, u64 nonce);

/** dlend_bringup_link_down - go down, without an error. Context: any. Return: DLEND_DO_* */
u32 dlend_bringup_link_down(struct dlend_bringup *b);

/**
 * dlend_bringup_abort - go to state down, with an error
 * @b: machine; if it is down already, nothing happens, and @why is not read
 * @why: (in) text for @b->error, copied
 *
 * Context: any. Return: DLEND_DO_*
 */
u32 dlend_bringup_abort(struct dlend_bringup *b, const char *why);

/**
 * dlend_bringup_spads - evaluate the peer's scratchpads
 * @b: machine
 * @spad: (in) values of all DLEND_SPAD_COUNT, which were equal in two reads; not trusted
 * @now: (in) milliseconds
 *
 * Context: any. Return: DLEND_DO_*
 */
u32 dlend_bringup_spads(struct dlend_bringup *b, const u32 *spad, u64 now);

/**
 * dlend_bringup_tested - note the result of the self-test that DLEND_DO_TEST asked for
 * @b: machine; in any other state than test the call is ignored
 * @passed: (in) result
 * @now: (in) milliseconds
 *
 * Context: any. Return: DLEND_DO_*
 */
u32 dlend_bringup_tested(struct dlend_bringup *b, bool passed, u64 now);

/**
 * dlend_bringup_area - evaluate this node's control area
 * @b: machine; in states down and hello the call is ignored
 * @area: (in) its contents, not trusted
 * @now: (in) milliseconds
 *
 * Context: any. Return: DLEND_DO_*
 */
u32 dlend_bringup_area(struct dlend_bringup *b, const struct dlend_bringup_area *area, u64 now);

/** dlend_bringup_beats - shall this node send heartbeats to the peer? Context: any. */
bool dlend_bringup_beats(const struct dlend_bringup *b);

/**
 * dlend_bringup_check - compute the checksum that this node writes into the peer's control area
 * @b: (in) machine
 * @window: (in) bytes of this node's window, which are written there, too
 *
 * It covers @window and this node's scratchpads in this session.  So the peer notices if a word was
 * overwritten before the peer has read it.
 * Context: any. Return: checksum, never 0.
 */
u64 dlend_bringup_check(const struct dlend_bringup *b, u64 window);

/**
 * dlend_bringup_reach - compute how much of this node's aperture the peer reaches
 * @b: (in) machine
 * @aperture: (in) bytes of the aperture
 *
 * Each direction has its own size: the smaller one of an aperture and of the window onto it.
 * Context: any. Return: bytes.
 */
u64 dlend_bringup_reach(const struct dlend_bringup *b, u64 aperture);

/** dlend_bringup_age - ms since the peer's heartbeat changed, 0 without a session. Context: any. */
u64 dlend_bringup_age(const struct dlend_bringup *b, u64 now);

/** dlend_bringup_hash - 32 bits of @nonce for ACK and READY; not 0 if usable. Context: any. */
u32 dlend_bringup_hash(u64 nonce);

/**
 * dlend_bringup_pattern - make the self-test's pattern for a node
 * @nonce: (in) of the node that receives it
 * @pattern: (out) DLEND_TEST_SIZE bytes
 *
 * Context: any.
 */
void dlend_bringup_pattern(u64 nonce, u8 *pattern);

/** dlend_bringup_name - state as sysfs shows it. Context: any. */
const char *dlend_bringup_name(enum dlend_bringup_state state);

#endif
