#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""One borrower does whatever it may, and all of it at once; two honest ones of the same lender, and its administrator,
neither lose anything nor wait for it.

    host a (node 1): hostile ---- ab ---- host b (node 2): nvme0, edu0, edu1, nic ---- bc ---- host c (node 3): honest
                                          and honest itself

The hostile one begins as any: a VM that holds nvme0.  Then its kernel stands still, and the runner writes in its place:
heartbeats, maps up to its caps and beyond, peer-to-peer with targets that nobody has, doorbells without end, interrupts
that nobody raised; and it takes b's messages one at a time, as slowly as it can without losing its session at once.
Beside it leases begin and end, devices do DMA, and a device is taken back and lent again.  How long all that takes,
quiet and beside it, is printed, and decides nothing.

Before that its VM only uses its disk, and what b's processors read in host a takes long, as a peer can have it: b reads there
before it tells of each interrupt.  How many of these reads b makes decides, beside the time that has passed on b.
"""
import contextlib
import itertools
import random
import re
import shutil
import struct
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DEBUG, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from forge import (CONTROL, CREDIT, DMA_MAP, DMA_PER_MSG, HEARTBEAT, IRQ_INDEX,  # noqa: E402  pylint: disable=wrong-import-position
                   P2P_MAP, PAGE, READ_WRITE, SLOTS, Forge, dma_map, message)
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position
from wire import CommandFailed  # noqa: E402  pylint: disable=wrong-import-position

LEASES = 10         # of each honest tenant; the last one copies a page
UNBINDS = 1
BEAT_S = 0.2
DRIP_S = 0.25       # what a lender still bears: 64 messages in 20 s
ASK_S = 1.0
SLOW_MS = (5, 50)   # a processor waits no longer than a bridge does: 50 ms, as a rule
READERS = 8
SHARE = 4           # of one processor's time, interrupts have a part for that, and threads have as much
BEGUN = 4           # reads that a share does not count yet: the first one of each processor, of both kinds


class Hostile(threading.Thread):
    """In the place of host a's kernel, which stands still: what it writes into b's control area."""

    def __init__(self, c, address, epoch, drips):
        super().__init__(daemon=True)
        self.c, self.address, self.epoch, self.drips = c, address, epoch, drips
        self.theirs, self.ours = Forge(c, "ab", "b"), Forge(c, "ab", "a")
        self.random = random.Random(49)
        self.over = threading.Event()
        self.before = 0             # bytes that b maps for it
        self.sent = {"maps": 0, "targets": 0}
        self.produced = 0
        self.began_anew = False     # b has ended the session
        self.error = None

    def map_one(self, n):
        """Six pages, no two of which can share anything."""
        self.sent["maps"] += 1
        pages = [2 * (DMA_PER_MSG * n + i) for i in range(DMA_PER_MSG)]
        return DMA_MAP, dma_map([((1 << 40) + at * PAGE, PAGE, CONTROL + at % 8192 * PAGE) for at in pages])

    def target(self, n):
        """A BAR of a device that no node has."""
        self.sent["targets"] += 1
        return P2P_MAP, struct.pack("<QQQIIIHHHH", (1 << 44) + n * PAGE, PAGE, 0, 0, READ_WRITE, n + 1,
                                    self.random.randrange(1, 1 << 16), self.random.choice((2, 3, 77)), n % 6, 0)

    def send(self, kind, payload):
        self.theirs.put(self.produced, message(self.produced, kind, self.address, self.epoch, payload))
        self.produced += 1

    def fill(self, numbers):
        """As much as the ring holds."""
        room = SLOTS - 2 - (self.produced - self.ours.word(CREDIT) & 0xffffffff)
        for n in itertools.islice(numbers, max(0, room)):
            self.send(*(self.map_one if n % 4 else self.target)(n))

    def run(self):
        try:
            self.attack()
        except CommandFailed as e:      # there is no window: the session is over
            self.began_anew = True
            self.error = str(e)

    def attack(self):
        numbers = itertools.count()
        self.produced = self.theirs.word(0)
        taken, dripped, asked, beat = self.theirs.word(CREDIT), time.monotonic(), 0.0, 0.0
        while not self.over.is_set():
            now = time.monotonic()
            if self.theirs.word(0) != self.produced:
                self.began_anew = True
                return
            if now - beat > BEAT_S:
                beat = now
                self.theirs.set_word(HEARTBEAT, self.theirs.word(HEARTBEAT) + 1)
                self.theirs.set_word(IRQ_INDEX, self.theirs.word(IRQ_INDEX) + self.random.randrange(1, 3000))
            waiting = self.ours.word(0) - taken & 0xffffffff
            if waiting and (not self.drips or now - dripped > DRIP_S):
                taken, dripped = taken + (1 if self.drips else waiting), now
                self.theirs.set_word(CREDIT, taken)
            # Each is answered, and what nobody takes of the answers stands in the way of the news
            if not self.drips:
                self.fill(numbers)
            elif now - asked > ASK_S:
                asked, n = now, next(numbers)
                self.send(*(self.map_one if n % 4 else self.target)(n))
            time.sleep(0.01)    # pace

    def end(self):
        self.over.set()
        self.join()


@contextlib.contextmanager
def hostile(t, f, c, a, address, uuid, drips):
    """From a lease in good order to a storm, and back."""
    with contextlib.ExitStack() as after:
        after.enter_context(a.provoke(IOMMU_FAULT, "its link ends at its own end first, which takes its memory out of a device's reach "
                                      "that has not been stopped", must=False))
        after.enter_context(f.guest("a", "hold", wait=False, kernel=False, memory="64M", devices=[f.device(uuid)]))
        f.wait_state("a", address, "held", 120)
        f.wait_mdev("a", uuid, "running", 60)
        attack = Hostile(c, address, f.lender_state(address)[2], drips)
        attack.before = f.domain(address)["mapped_bytes"]
        after.enter_context(a.stands_still())
        c.ntbsim("doorbell ab a flood 1000")
        after.callback(c.ntbsim, "doorbell ab a normal")
        after.callback(attack.end)
        attack.start()
        yield attack
    f.wait_links("a", 120)
    f.wait_links("b", 120)
    f.wait_state("a", address, "free", 60)
    t.passed("when it is over its link is up again, and its device free")


class Reads:
    """What b reads in host a, and how much of that in hard interrupts."""

    def __init__(self, f, link, address):
        self.b, self.directory = f.lender_of(address)
        self.link = link

    def clock(self):
        return float(self.b.run("cut -d' ' -f1 /proc/uptime").out)

    def now(self):
        """(reads by interrupts, all reads)"""
        text = self.b.run(f"cat {self.directory}/irqs; grep -h ^irq_late: {DEBUG}/links/*").out
        late = sum(map(int, re.findall(r"^irq_late: (\d+)$", text, re.M)))
        return int(re.search(r"^total (\d+)$", text, re.M).group(1)) - late, self.link.came_slowly("b")


def sessions(f):
    return re.findall(r"^sessions: \d+$", f.host("b").run(f"cat {DEBUG}/links/*").out, re.M)


def print_times(t, name, took, quiet):
    for what, ms in took.items():
        t.diag(f"{name}: {what}: {ms} ms, quiet {quiet[what]} ms")


def slow_window(t, f, c, honest, address, uuid, quiet):
    link, before = c.link("ab"), sessions(f)
    with f.guest("a", "busy", devices=[f.device(uuid)]) as g:
        g.wait_for("[ -b /dev/nvme0n1 ]")
        g.run(f"for n in $(seq {READERS}); do "
              "(while dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct; do :; done) >/dev/null 2>&1 & done")
        quick = "beside a disk at work, with a window as ever"
        print_times(t, quick, honest.work(quick), quiet)
        for ms in SLOW_MS:
            name = f"beside a window whose reads take {ms} ms"
            reads = Reads(f, link, address)
            with link.slow("b", ms):
                begin = reads.clock()
                interrupts, every = reads.now()
                took = honest.work(name)
                more, every_more = reads.now()
                end = reads.clock()
            print_times(t, name, took, quiet)
            t.diag(f"{more - interrupts} reads by interrupts, {every_more - every} in all, in {end - begin:.1f} s")
            most = round((end - begin) * 1000 / ms / SHARE) + BEGUN
            t.ok(0 < more - interrupts <= most, f"{name}: interrupts waited for some, for a part of the time",
                 f"{more - interrupts} reads in {end - begin:.1f} s, {most} at most")
            t.ok(every_more - every <= 2 * most, f"{name}: and threads waited no longer", f"{every_more - every} in all")
        t.equal(sessions(f), before, "no session has ended, neither an honest one nor its own")
        g.kill()
    f.wait_state("a", address, "free", 60)


class Honest:
    """Two tenants, and the lender's administrator."""

    def __init__(self, t, f):
        self.t, self.f = t, f
        self.b, self.c = f.host("b"), f.host("c")
        self.lent = {"c": f.lend("b", "edu0"), "b": f.lend("b", "edu1")}
        self.uuid = {name: f.mdev(name, address, "dlend-pci") for name, address in self.lent.items()}
        self.spare = f.lend("b", "spare")

    def leases(self, name):
        """A job: leases of one tenant, each with a fence at its end; prints milliseconds."""
        return self.f.host(name).spawn(f"s=$(date +%s%N); /share/cycle {self.uuid[name]} {LEASES} 2>&1 && "
                                       "echo $(( ($(date +%s%N) - s) / 1000000 ))")

    def unbind(self):
        """Until the other honest node has heard of it, too; seconds."""
        bdf, begin = f"0000{self.spare[5:]}", time.monotonic()
        self.f.dlend("b", f"reclaim {bdf}", timeout=60)
        self.c.wait_for(f"[ ! -e /sys/bus/dlend/devices/{self.spare} ] || "
                        f"! grep -qx free /sys/bus/dlend/devices/{self.spare}/state", 30, every=0.1)
        gone = time.monotonic() - begin
        self.f.dlend("b", f"lend {bdf}", timeout=60)
        self.f.wait_state("c", self.spare, "free", 30)
        return gone

    def work(self, when):
        """Returns {what: milliseconds}."""
        self.f.trace_clear("b")
        jobs = {name: self.leases(name) for name in self.lent}
        unbinds = [self.unbind() for _ in range(UNBINDS)]
        took = {"unbind": round(max(unbinds) * 1000)}
        for name, job in jobs.items():
            out = job.wait(240, check=False).out
            self.t.ok(out.startswith(f"ok {LEASES}\n"), f"{when}: {LEASES} leases of host {name}, each used and returned", out)
            took[f"lease {name}"] = int(out.split()[-1]) // LEASES if out.startswith("ok ") else None
        lost = [line for _, _, line in self.f.trace("b", "link_lost") if any(a in line for a in self.lent.values())]
        self.t.equal(lost, [], f"{when}: and none was taken from it")
        return took


def beside(t, f, c, honest, address, uuid, quiet, drips):
    a, b = f.host("a"), f.host("b")
    name = "beside one that drips credits, too" if drips else "beside one that maps, invents, and rings"
    with hostile(t, f, c, a, address, uuid, drips) as attack:
        b.wait_for(f"[ $(sed -n 's/^mapped_bytes: //p' {f.lender_of(address)[1]}/dma) -gt {attack.before + PAGE} ]", 60)
        t.passed("what the hostile one asks for is done")
        took = honest.work(name)
        went_on = not attack.began_anew
    print_times(t, name, took, quiet)
    t.diag(f"it sent {attack.sent}" + ("" if went_on else f", until its session was over {attack.error or ''}"))
    least = 3 if drips else 100
    t.ok(attack.sent["maps"] > least and attack.sent["targets"] > least / 3, "all of it was sent meanwhile", str(attack.sent))
    t.ok(went_on or drips, "and it kept its session, as each of its messages was in order")


def main():
    with Tap() as t, Cluster("tenants.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/cycle", c.run_dir / "share/cycle")
        f = Fabric(c)
        f.up(timeout=150)
        c.host("b").own_disks()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        honest = Honest(t, f)
        with t.case("quiet"):
            quiet = honest.work("quiet")
        with t.case("slow"):
            slow_window(t, f, c, honest, address, uuid, quiet)
        for drips in (False, True):
            with t.case("dripping" if drips else "busy"):
                beside(t, f, c, honest, address, uuid, quiet, drips)
        with t.case("quiet again"):
            honest.work("afterwards")


main()
