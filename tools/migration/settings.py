# SPDX-License-Identifier: GPL-2.0-only
"""What holds for the whole run of the program, and where it keeps its files."""
from dataclasses import dataclass
from pathlib import Path

from .messages import Failure


@dataclass(frozen=True)
class Settings:
    """Made once from the command line.  Paths are the same on both hosts."""
    root: Path = Path("/")      # all files are below this directory; tests have one of their own
    json: bool = False          # what is printed is for programs

    def note_path(self, uuid):
        """The note on the target that the VM with this UUID is to start there."""
        return self.root / f"run/dlend/moving-{uuid}"

    def mark_path(self, uuid):
        """The mark of libvirt's hook.  When a VM stops, the hook stops its marked devices (dist/libvirt-mdevs)."""
        return self.root / f"run/dlend/hook-{uuid}"

    def make_run_directory(self):
        directory = self.root / "run/dlend"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"{directory} cannot be made", str(error), "Only root can move a VM.") from None
        return directory
