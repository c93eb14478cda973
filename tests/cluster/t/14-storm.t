#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A link whose control areas, scratchpads and doorbells are overwritten, lost and delayed: it always comes back.

    host a (node 1): a program that is its own VMM ---- ab ---- host b (node 2): edu, nvme0

In bursts, at any moment of bring-up and of a session's life, under load; after each burst everything has to be right
within 10 s.  DLEND_SEED=N: the same again.  DLEND_LONG=1: for a minute, not a quarter of it.
"""
import os
import random
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import LINKS_UP, Fabric, in_turns  # noqa: E402  pylint: disable=wrong-import-position
from forge import CONTROL, RING, WINDOW  # noqa: E402  pylint: disable=wrong-import-position
from wire import CommandFailed  # noqa: E402  pylint: disable=wrong-import-position

SECONDS = 60 if os.environ.get("DLEND_LONG") else 15
SEED = int(os.environ.get("DLEND_SEED") or random.SystemRandom().randrange(1 << 32))
RIGHT = 10      # seconds, times DLEND_PATIENCE, of the hosts' own
LOAD = "while [ ! -e /run/calm ]; do /share/cycle {} 1 2>/dev/null; done; rm /run/calm; touch /run/over"


class Storm:
    """Stray writes: of anything, to anywhere."""

    def __init__(self, c, seed):
        self.c, self.random = c, random.Random(seed)
        self.counts = {}

    def word(self):
        return self.random.choice((0, 0xffffffff, self.random.randrange(8), self.random.randrange(1 << 32)))

    def area(self):
        """Half of them hit what is not the rings."""
        r = self.random
        offset = r.randrange(0, *r.choice(((512, 4), (RING, 1), (CONTROL, 1), (CONTROL, 4096))))
        data = r.randbytes(r.choice((1, 4, 64, 256, 4096))) if r.randrange(4) else self.word().to_bytes(4, "little")
        data = data[:CONTROL - offset]
        return f"poke ab {r.choice('ab')} {WINDOW} {offset} {data.hex()}"

    def scratchpad(self):
        return f"spad ab {self.random.randrange(16)} {self.word()}"

    def doorbell(self):
        side = self.random.choice("ab")
        how = self.random.choice(("drop 5", "drop 50", "delay 300", "delay 3000", "normal"))
        return f"doorbell ab {side} {how}"

    def silence(self):
        return f"silent ab {self.random.choice('ab')} {self.random.choice(('on', 'off', 'off'))}"

    def cable(self):
        return f"link ab {self.random.choice(('down', 'up', 'up'))}"

    def one(self):
        kind = self.random.choices((self.area, self.scratchpad, self.doorbell, self.silence, self.cable),
                                   (60, 25, 10, 3, 2))[0]
        self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
        try:
            self.c.ntbsim(kind())
        except CommandFailed:
            pass        # no window just now

    def burst(self):
        """Some writes in a row, or for a while: shorter than a bring-up, as long, or much longer."""
        end = time.monotonic() + self.random.choice((0.01, 0.1, 0.5, 2, 4))
        pause = self.random.choice((0, 0.01, 0.05))
        while time.monotonic() < end:
            self.one()
            time.sleep(pause)       # pace

    def calm(self):
        for command in ("link ab up", "silent ab a off", "silent ab b off", "doorbell ab a normal", "doorbell ab b normal",
                        "doorbell ab a drop 0", "doorbell ab b drop 0"):
            self.c.ntbsim(command)


def right(f, name, test):
    in_turns(f.host(name), test, 4 * RIGHT)


def both_up(f):
    for name in ("a", "b"):
        right(f, name, LINKS_UP)


def what_is(f):
    """For a person, when something is not right."""
    return "\n".join(f"{name}: " + f.host(name).run(
        "cd /sys/class/dlend_link/*:* && grep . state session peer_node self_test last_error; dlend list; dlend status"
    ).out for name in ("a", "b"))


def bursts(t, f, storm):
    """After each, the link works again, on both sides, in time."""
    end, n, slowest = time.monotonic() + SECONDS, 0, 0.0
    while time.monotonic() < end:
        storm.burst()
        storm.calm()
        n, begin = n + 1, time.monotonic()
        try:
            both_up(f)
        except CommandFailed:
            t.ok(False, f"burst {n} of seed {SEED}: the link is up again on both sides within {RIGHT} s", what_is(f))
            return
        slowest = max(slowest, time.monotonic() - begin)
    t.passed(f"the link is up again on both sides within {RIGHT} s after each of {n} bursts")
    t.diag(f"{storm.counts}, {slowest:.1f} s until it was up, at the longest")


def all_is_right(t, f, a, uuid, lent, free, pinned):
    """Offers, leases and apertures, and that they can be used."""
    a.run("touch /run/calm")
    a.wait_for("[ -e /run/over ]", 60)
    both_up(f)
    for address in lent:
        right(f, "a", f"grep -qx free /sys/bus/dlend/devices/{address}/state")
        t.equal(f.lender_state(address)[:2], ("free", "0"), f"{address} is free, as both hosts say")
    for name in ("a", "b"):
        t.equal(f.wait_free(name, free[name]), free[name], f"host {name}: as much of its apertures is free as before")
    t.equal(a.run(f"/share/cycle {uuid} 20", timeout=60, check=False).out, "ok 20\n",
            "the device is borrowed, used by DMA, and returned")
    t.equal(f.wait_pinned("a", pinned), pinned, "no page is pinned that was not before, as the kernel counts them")


def news(t, f, address):
    """What is said after it all is heard, too."""
    bdf = f"0000{address[5:]}"
    f.dlend("b", f"reclaim {bdf}", timeout=60)
    right(f, "a", f"! grep -qx free /sys/bus/dlend/devices/{address}/state")
    f.dlend("b", f"lend {bdf}", timeout=120)
    right(f, "a", f"grep -qx free /sys/bus/dlend/devices/{address}/state")
    t.passed("an offer that goes and comes is heard of")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        t.diag(f"DLEND_SEED={SEED}")
        shutil.copy(BUILD / "guest/cycle", c.run_dir / "share/cycle")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up(heartbeat_timeout_ms=None)
        lent = f.lend("b", "edu"), f.lend("b", "nvme0")
        uuid = f.mdev("a", lent[0], "dlend-pci")
        a.run("modprobe -q iommufd || :")
        t.equal(a.run(f"/share/cycle {uuid} 1", timeout=60).out, "ok 1\n", "borrowed once, in quiet")
        f.wait_state("a", lent[0], "free")
        free, pinned = {name: f.free(name) for name in ("a", "b")}, f.pinned("a")
        a.run(f"({LOAD.format(uuid)}) >/dev/null 2>&1 &")
        storm = Storm(c, SEED)
        with t.case("bursts"):
            bursts(t, f, storm)
        with t.case("when it is over"):
            all_is_right(t, f, a, uuid, lent, free, pinned)
            news(t, f, lent[1])
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
