# SPDX-License-Identifier: GPL-2.0-only
"""One step of a move; and which host runs the VM."""
import time

from remote.hosts import reason_of
from remote.messages import Failure
from remote.waits import wait_until

from .domain import domain_state


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


class Unknown(Failure):
    """Nobody can tell here whether the VM runs on the other host.  So nothing may be started."""


def owner_unknown(move, why):
    """The exception for a VM of which this host cannot tell where it runs; it tells people how to find out."""
    starts = [f"mdevctl start -u {mdev.uuid} -p {mdev.parent}" for mdev in move.mdevs]
    name = move.shell_name
    return Unknown(f"it is not known whether {move.vm} runs on {move.there}", why,
                   f"There: virsh domstate {name}. If it runs, here: {move.undefine}. "
                   f"If it is shut off, there: dlend migrate --finish {name}. If that host is gone for good, "
                   f"here: {'; '.join([*starts, f'virsh start {name}'])}")


def find_running_host(move, result=None):
    """The host that runs the VM, as soon as that is clear.  In the middle of a migration it is paused on both hosts.

    result: of the command that migrated it, for the reason if neither host runs it
    """
    found = []

    def is_clear():
        state = domain_state(move.here, move.uuid)
        if state == "running":
            found.append(move.here)
        elif state != "paused" and domain_state(move.there, move.uuid) == "running":
            found.append(move.there)
        return found
    wait_until(move.settings, f"{move.vm} to run on either side", move.args.wait, is_clear,
               lambda: owner_unknown(move, reason_of(result) if result else "neither host says that it does"))
    return found[0]
