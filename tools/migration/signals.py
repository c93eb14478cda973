# SPDX-License-Identifier: GPL-2.0-only
"""Signals that ask the program to end.

While steps are done, such a signal raises Interrupted.  While steps are undone, and when there is no way back
any more, signals are ignored.
"""
import contextlib
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal asked the program to end."""


def ignore_signals():
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def heeded_signals():
    """The signals that are not ignored.  The program leaves alone what was ignored when it began (nohup)."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def let_signals_call(handler):
    for number in heeded_signals():
        signal.signal(number, handler)


def heed_signals():
    """From now on, a signal raises Interrupted."""
    let_signals_call(raise_interrupted)


def raise_interrupted(_number, _frame):
    # Only once.  A second signal would come while steps are undone.
    ignore_signals()
    raise Interrupted


@contextlib.contextmanager
def signals_handled_by(handler):
    """In this context, each signal calls the handler instead; ignore_signals() in it outlasts it."""
    let_signals_call(handler)
    try:
        yield
    finally:
        heed_signals()
