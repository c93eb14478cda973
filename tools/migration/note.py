# SPDX-License-Identifier: GPL-2.0-only
"""The note on the target of a move: which VM comes, and from which host.

It is written before the target has a definition of the VM, and removed when the move has ended, one way or the other.
Lines: name of the VM; name of the other host; machine-id of that host, or RELEASED.  `dlend status` reads it, too.
"""
from dataclasses import dataclass
from pathlib import Path

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
