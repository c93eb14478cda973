# SPDX-License-Identifier: GPL-2.0-only
"""A lock on a VM, on one host."""
import fcntl

from remote.messages import IN_USE, Failure


def lock_vm(settings, uuid):
    """Two programs that move the same VM would undo each other's steps.  Return an open file, which is the lock."""
    # pylint: disable-next=consider-using-with
    handle = open(settings.make_run_directory() / f"migrate-{uuid}.lock", "w", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise Failure("it is being moved already", "another dlend migrate runs", "Wait for it.", IN_USE) from None
    return handle
