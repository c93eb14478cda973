# SPDX-License-Identifier: GPL-2.0-only
"""Signals that ask the program to end.

While steps are done, such a signal raises Interrupted, but never in the middle of a command: that comes to its end
before.  While steps are undone, and when there is no way back any more, signals are ignored.

Commands run in sessions of their own (hosts.py).  So a terminal, whose Ctrl-C goes to all processes of its foreground,
and which ends them when it hangs up, reaches this program only.
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


class Deferral:
    """Whether a signal has to wait, and whether one does."""
    wanted = came = False


def raise_interrupted(_number, _frame):
    # Only once.  A second signal would come while steps are undone.
    ignore_signals()
    if Deferral.wanted:
        Deferral.came = True
    else:
        raise Interrupted


@contextlib.contextmanager
def interrupted_afterwards():
    """In this context, a signal that would raise Interrupted does so at the end."""
    Deferral.wanted = True
    try:
        yield
    finally:
        Deferral.wanted = False
    if Deferral.came:
        Deferral.came = False
        raise Interrupted


@contextlib.contextmanager
def signals_handled_by(handler):
    """In this context, each signal calls the handler instead; ignore_signals() in it outlasts it."""
    let_signals_call(handler)
    try:
        yield
    finally:
        heed_signals()
