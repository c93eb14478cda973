# SPDX-License-Identifier: GPL-2.0-only
"""Waiting for a condition."""
import time

from . import messages

TELL_S = 10             # how often people are told what the program waits for


def wait_until(settings, what, seconds, is_ready, make_failure):
    """Wait until is_ready().  After this many seconds, raise make_failure().  what: for people, what is awaited"""
    begin = told = time.monotonic()
    while not is_ready():
        now = time.monotonic()
        if now - begin >= seconds:
            raise make_failure()
        if now - told >= TELL_S:
            messages.print_progress(settings, f"  waiting for {what} ({now - begin:.0f} s)")
            told = now
        time.sleep(min(1.0, max(seconds / 20, 0.01)))
