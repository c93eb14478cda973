# SPDX-License-Identifier: GPL-2.0-only
"""What a move leaves on a host: a lock on the VM, and on the target a note: which VM comes, and from which host.

The note is written before the target has a definition of the VM, and removed when the move has ended, one way or the other.
Lines: name of the VM; name of the other host; machine-id of that host, or RELEASED.  `dlend status` reads it, too.
"""
import fcntl
from dataclasses import dataclass
from pathlib import Path

from remote.messages import IN_USE, Failure

from .domain import UUID

RELEASED = "released"       # the other host has no definition of the VM any more, so it cannot start it


@dataclass
class Note:
    """One note."""
    path: Path
    uuid: str       # of the VM
    name: str
    origin: str
    machine: str

    @property
    def is_released(self):
        return self.machine == RELEASED

    def release(self):
        """The VM is this host's now.  A second --finish finds that."""
        self.machine = RELEASED
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(note_text(self.name, self.origin, RELEASED), encoding="utf-8")
        new.replace(self.path)


def note_text(name, origin, machine):
    return f"{name}\n{origin}\n{machine}\n"


def find_note(settings, vm):
    """The note that this VM comes here; None if there is none.  vm: its name, as `dlend status` tells it, or its UUID"""
    for path in sorted((settings.root / "run/dlend").glob("moving-*")):
        uuid = path.name.removeprefix("moving-")
        name, origin, machine = [*path.read_text(encoding="utf-8", errors="replace").splitlines(), "", "", ""][:3]
        if UUID.fullmatch(uuid) and vm in (name, uuid):
            return Note(path, uuid, name, origin, machine)
    return None


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
