# SPDX-License-Identifier: GPL-2.0-only
"""Which host runs the VM."""
from remote.hosts import reason_of
from remote.messages import Failure
from remote.waits import wait_until

from .domain import domain_state


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
