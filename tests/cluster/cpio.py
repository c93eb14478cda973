# SPDX-License-Identifier: GPL-2.0-only
"""Archives for initramfs: what mkimage makes once, and what a run adds to it.

Knows nothing of what is in them.
"""
import os
import stat
from pathlib import Path


class Cpio:
    """A newc archive, written in order; parents first is the caller's business (see dirs)."""

    def __init__(self, path):
        self.out = open(path, "wb")
        self.ino = 0
        self.seen = set()

    def _entry(self, name, mode, data=b"", rdev=(0, 0)):
        self.ino += 1
        raw = name.encode() + b"\0"
        fields = (self.ino, mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(raw), 0)
        self.out.write(b"070701" + b"".join(b"%08X" % f for f in fields) + raw)
        self._pad()
        self.out.write(data)
        self._pad()

    def _pad(self):
        self.out.write(b"\0" * (-self.out.tell() % 4))

    def dirs(self, name):
        parent = os.path.dirname(name)
        if parent:
            self.mkdir(parent)

    def mkdir(self, name):
        if name and name not in self.seen:
            self.dirs(name)
            self.seen.add(name)
            self._entry(name, stat.S_IFDIR | 0o755)

    def data(self, name, data, mode=0o644):
        if name not in self.seen:
            self.dirs(name)
            self.seen.add(name)
            self._entry(name, stat.S_IFREG | mode, data)

    def file(self, name, source):
        self.data(name, Path(source).read_bytes(), 0o755)

    def link(self, name, target):
        if name not in self.seen:
            self.dirs(name)
            self.seen.add(name)
            self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def console(self):
        self.mkdir("dev")
        self._entry("dev/console", stat.S_IFCHR | 0o600, rdev=(5, 1))

    def close(self):
        self._entry("TRAILER!!!", 0)
        self.out.write(b"\0" * (-self.out.tell() % 512))
        self.out.close()
