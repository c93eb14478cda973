# SPDX-License-Identifier: GPL-2.0-only
"""What holds for the whole run of a program, and where it keeps its files."""
from dataclasses import dataclass
from pathlib import Path

from .messages import Failure


@dataclass(frozen=True)
class Settings:
    """Made once from the command line.  Paths are the same on all hosts."""
    root: Path = Path("/")      # all files are below this directory; tests have one of their own
    json: bool = False          # what is printed is for programs

    def make_run_directory(self):
        directory = self.root / "run/dlend"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"{directory} cannot be made", str(error), "Only root can do that.") from None
        return directory
