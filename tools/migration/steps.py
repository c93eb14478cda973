# SPDX-License-Identifier: GPL-2.0-only
"""One step of a move."""
import time

from remote.messages import Failure


class Step:
    """One step.

    title: for people, what is done; perform: does it; undo: brings back what was before, whether perform() came to
    its end, half way or nowhere, None if there is nothing to bring back; by_hand: the command for people if undo
    fails, or, for a step that is not undone, if the step fails
    """

    def __init__(self, title, perform, undo=None, by_hand=""):
        self.title, self.perform, self.undo, self.by_hand = title, perform, undo, by_hand
        self.moves_running_vm = False
        self.seconds = 0.0

    def perform_timed(self):
        begin = time.monotonic()
        try:
            self.perform()
        finally:
            self.seconds = time.monotonic() - begin


def failure_of(step, error):
    """The Failure that an exception means.

    An exception that nobody thought of is a fault of this program.  The VM must not suffer for it.
    """
    if isinstance(error, Failure):
        return error
    return Failure(f"this failed: {step.title}", f"{type(error).__name__}: {error}", "Please report that.")


def steps_for_json(steps, **more):
    return {**more, "steps": [{"step": step.title, "seconds": round(step.seconds, 3)} for step in steps]}
