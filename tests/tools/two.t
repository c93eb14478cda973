#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Two administrators at once: lend, reclaim, attach and detach of the same device wait for each other, those of others do not.

    one host, node 1: a disk 0000:03:00.0, another one of another group, and an offer of node 2, d0002:03:00.0
"""
import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import DLEND, LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, OTHER = "0000:03:00.0", "0000:04:00.0"
OFFER, PCI = "d0002:03:00.0", "d002:03:00.0"
LOCK = {DISK: "lock-group-7", OTHER: "lock-group-8", OFFER: f"lock-{OFFER}"}
WAITS = "another dlend command works on it; this one waits"
ROUNDS = 8


class Host(Fake):
    def __init__(self):
        super().__init__()
        for bdf, group in ((DISK, "7"), (OTHER, "8")):
            self.pci(bdf, group=group, reset="flr bus")
            self.file("driver_override", "nvme\n", self.device(bdf))
        self.offer(OFFER, attached="no", attach_error="")
        (self.root / "etc").mkdir()

    @contextlib.contextmanager
    def held(self, what):
        """As if another command worked on it."""
        path = self.root / "run/dlend" / LOCK[what]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def begin(self, words):
        return subprocess.Popen([DLEND, "--root", self.root, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        """(exit status, standard output, standard error)"""
        out, err = process.communicate(timeout=60)
        self.settle()
        return process.returncode, out, err

    def reset_method(self):
        return (self.device(DISK) / "reset_method").read_text().splitlines()[0]

    def whole(self):
        """What is wrong if the disk is neither lent in full nor back in full"""
        kept = sorted(p.name for p in self.root.glob(f"run/dlend/*-{DISK}*"))
        lent = self.driver_of(DISK) == LENDER
        found = self.driver_of(DISK), self.override(DISK), self.reset_method(), kept
        if lent and self.reset_method() == "bus":
            return found != (LENDER, LENDER, "bus", [f"driver-{DISK}", f"reset-{DISK}"]) and found
        if lent:
            return found != (LENDER, LENDER, "flr bus", [f"driver-{DISK}"]) and found
        return found != ("nvme", "nvme", "flr bus", []) and found


def waits(t):
    """The other one is done before this one begins, which is told."""
    for first, words in (("", f"lend {DISK}"), (f"lend {DISK}", f"reclaim {DISK}"), (f"lend {DISK}", f"reclaim --force {DISK}"),
                         (f"lend {DISK}", f"lend --clique 5 {DISK}"), ("", f"attach --persistent {OFFER}"),
                         ("", f"detach --persistent {OFFER}")):
        with Host() as f:
            what = OFFER if OFFER in words else DISK
            if first:
                f.run(first)
            if "--persistent" in words:
                f.files(f.sys / f"bus/dlend/devices/{OFFER}", attached=PCI)
                f.pci(PCI, group="9")
            f.writes.clear()
            with f.held(what):
                process = f.begin(words)
                line = process.stderr.readline()
                t.ok(f"{what}: {WAITS}" in line, f"{words}: waits, and says so", line)
                before = f.writes, f.driver_of(DISK), (f.root / f"etc/dlend/attach/{OFFER}").exists()
                t.equal(before, ([], LENDER if first else "nvme", False), "  nothing is done meanwhile")
            t.equal(f.end(process)[0], 0, "  then it goes on")


def sees_what_was_done(t):
    with Host() as f:
        f.run(f"lend {DISK}")
        with f.held(DISK):
            process = f.begin(f"reclaim {DISK}")
            process.stderr.readline()
            f.unbind(DISK, LENDER)
            f.bind(DISK, "nvme")
            f.writes.clear()
        code, _, err = f.end(process)
        t.equal((code, "is not lent" in err, f.writes, f.driver_of(DISK)), (3, True, [], "nvme"),
                "reclaimed meanwhile: its own driver keeps it")
    with Host() as f:
        with f.held(OFFER):
            process = f.begin(f"attach {OFFER}")
            process.stderr.readline()
            f.files(f.sys / f"bus/dlend/devices/{OFFER}", attached=PCI)
            f.pci(PCI, group="9")
        t.equal(f.end(process)[:2], (0, f"{OFFER} is attached as {PCI}, driver nvme\n"), "attached meanwhile: that is what was asked for")
        with f.held(OFFER):
            process = f.begin(f"detach {OFFER}")
            process.stderr.readline()
            f.files(f.sys / f"bus/dlend/devices/{OFFER}", attached="no")
        code, _, err = f.end(process)
        t.equal((code, "is not attached here" in err), (3, True), "detached meanwhile: there is nothing to do")
        t.equal((f.sys / f"bus/dlend/devices/{OFFER}/attached").read_text(), "no\n", "  and nothing was done")


def others_do_not_wait(t):
    with Host() as f, f.held(DISK):
        t.equal((f.run(f"lend {OTHER}").code, f.driver_of(OTHER)), (0, LENDER), "another device is lent meanwhile")
        t.equal(f.run(f"attach --persistent {PCI.replace('d002', 'd0009')}").code, 0, "another one is noted")
        t.equal(f.run("list").code, 0, "and all can be looked at")


def pairs(t):
    """Both at once, again and again: each time the disk is lent or back, whole, and nothing was refused."""
    for one, two, codes in ((f"lend {DISK}", f"lend {DISK}", {0}), (f"lend --reset bus {DISK}", f"lend {DISK}", {0}),
                            (f"lend {DISK}", f"reclaim {DISK}", {0, 3}), (f"lend --reset bus {DISK}", f"reclaim --force {DISK}", {0, 3}),
                            (f"reclaim {DISK}", f"reclaim --force {DISK}", {0, 3}), ("lend --all", f"lend {DISK}", {0}),
                            ("lend --all", f"reclaim {DISK}", {0, 3}), (f"lend {DISK}", f"lend {OTHER}", {0})):
        with Host() as f:
            f.file("dlend.conf", "03:00.0 reset=bus\n04:00.0\n", f.root / "etc")
            wrong = []
            for number in range(ROUNDS):
                # In turn from a disk that is lent and from one that is not
                f.run(f"lend {DISK}" if number % 2 else f"reclaim {DISK}")
                ends = [f.end(p) for p in [f.begin(one), f.begin(two)]]
                if not {code for code, _, _ in ends} <= codes or f.whole():
                    wrong.append((ends, f.whole()))
            t.equal(wrong, [], f"{one} | {two}")
            f.run(f"reclaim {DISK}")
            t.equal(f.whole() or f.driver_of(DISK), "nvme", "  and it can be reclaimed")


def no_lock(t):
    with Host() as f:
        (f.root / "run").mkdir()
        (f.root / "run/dlend").symlink_to("/nowhere")
        for words in (f"lend {DISK}", f"attach {OFFER}"):
            r = f.run(words)
            t.ok(r.code == 1 and "lock-" in r.err and "cannot be written" in r.err, f"{words}: no lock, no change", r.err)
        t.equal((f.writes, f.override(DISK)), ([], "nvme"), "  indeed")
    with Host() as f:
        f.run(f"lend {DISK}")
        t.equal(os.stat(f.root / "run/dlend" / LOCK[DISK]).st_mode & 0o777, 0o600, "only root can hold it")


with Tap() as tap:
    for part in (waits, sees_what_was_done, others_do_not_wait, pairs, no_lock):
        tap.diag(part.__name__)
        part(tap)
