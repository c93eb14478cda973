#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Every end of a lease, while everybody goes on: who had the device stores to its BARs and loads from them, and the
device writes by DMA to what was the guest's memory, with bus mastering forced on.  Once the end is acknowledged nothing
of it arrives: pages that were the guest's and the device's registers keep what is in them.

    host a (node 1): a program that is its own VMM ---- ab ---- host b (node 2): edu, a board with memory

Beside what both hosts' kernels stop at their own end, the runner sends what a hostile kernel would: stores to where the
BARs were in b's aperture, and to where the guest's page was in a's.

48-canary.t END...: these ends only, e.g. "unplugged shut_down".
"""
import contextlib
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, CommandFailed, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position

RAM = {"edu": "/run/edu", "board": "/run/board"}
SPOTS = {"edu": "0:0x4", "board": "0:0x0 2:0x0 2:0xff000"}    # the board's mask of interrupts; its memory
PAGE, GPA = 4096, 0x200000      # where in the guest's RAM edu writes
STATE = "/run/insist"
ENOUGH = {"stores": 50, "transfers": 3, "looked": 50}
POISON = "0badf00d"


def words(host, path, names):
    out = host.run(f"od -An -v -td8 -w8 {path} 2>/dev/null || :").out.split()
    return dict(zip(names, map(int, out)))


class Both:
    """Both devices, and both sides of them."""

    def __init__(self, t, c):
        self.t, self.c, self.f = t, c, Fabric(c)
        self.a, self.b = c.host("a"), c.host("b")
        self.jobs, self.lent, self.uuids = {}, {}, {}
        self.insist = None
        self.offsets = {}

    def lend(self):
        for name in RAM:
            self.lent[name] = self.f.lend("b", name)

    def borrow(self):
        """In use: stores arrive, and DMA."""
        for name, address in self.lent.items():
            self.f.wait_state("a", address, "free")
            self.uuids[name] = self.f.mdev("a", address, "dlend-pci")
        self.f.trace_clear("b")
        self.a.run("rm -f /run/edu* /run/board*")
        for name, uuid in self.uuids.items():
            self.jobs[name] = self.a.spawn(f"/share/canary {RAM[name]} {uuid} {SPOTS[name]} 2>&1")
        for name in RAM:
            self.a.wait_for(f"[ -s {RAM[name]}.count ] && [ $(od -An -td8 -N8 {RAM[name]}.count) -gt 10 ]", 60)
        if self.insist is None or self.insist.over:
            self.insist = self.b.spawn(f"/share/insist {self.b.bdf('edu')} {GPA:#x} {STATE} {self.b.bdf('board')} 2 2>&1")
        self.fill("L")
        self.a.wait_for(f"! {self.kept('L')}", 30)
        self.offsets = self.slots()

    def fill(self, letter):
        self.a.run(f"head -c {PAGE} /dev/zero | tr '\\0' {letter} | "
                   f"dd of={RAM['edu']} bs={PAGE} seek={GPA // PAGE} conv=notrunc 2>/dev/null")

    @staticmethod
    def kept(letter):
        """Shell: does the page hold what fill() left?"""
        return (f"[ $(dd if={RAM['edu']} bs={PAGE} skip={GPA // PAGE} count=1 2>/dev/null | tr -d {letter} | wc -c) = 0 ]")

    def slots(self):
        """Where things are in the apertures: {("b", what): offset}, as the lender has been told or has said."""
        found = {}
        for _, fields, line in self.f.trace("b", "dlend_lend_window: .* map "):
            at, offset, size = (int(fields[key], 16) for key in ("at", "offset", "size"))
            kind = re.search(r"dlend_lend_window: (\S+) (\w+) map", line)
            if kind.group(2) == "bar":
                found["b", f"{kind.group(1)} BAR {at}"] = offset + (4 if kind.group(1) == self.lent["edu"] else 0)
            elif kind.group(1) == self.lent["edu"] and at <= GPA < at + size:
                found["a", "the guest's page"] = offset + GPA - at
        return found

    def hostile(self):
        for (side, _), offset in self.offsets.items():
            # Where there is no way any more, it says so
            with contextlib.suppress(CommandFailed):
                self.c.link("ab").command(f"poke {side} 4 {offset} {POISON}")

    def counts(self):
        now = words(self.b, STATE, ("transfers", "watch", "looked", "changed"))
        for name in self.alive():
            now[f"stores {name}"] = words(self.a, f"{RAM[name]}.count", ("stores",))["stores"]
        return now

    def alive(self):
        return [name for name, job in self.jobs.items() if not job.over]

    def watch(self, on):
        self.b.run(f"printf '\\{int(on):03o}' | dd of={STATE} bs=1 seek=8 conv=notrunc 2>/dev/null")

    def faults(self):
        return len(re.findall(IOMMU_FAULT, self.b.run("dmesg").out))

    def untouched(self, what, pages=True, device=True):
        """From now on nothing may arrive, whatever everybody tries."""
        if device:
            self.watch(False)
        before, faults = self.counts(), self.faults()
        if pages:
            self.fill("C")
        if device:
            self.watch(True)
        self.hostile()
        for name in self.alive():
            self.a.wait_for(f"[ $(od -An -td8 -N8 {RAM[name]}.count) -gt "
                            f"{before[f'stores {name}'] + ENOUGH['stores']} ]", 60)
        if device:
            for number, key in ((0, "transfers"), (16, "looked")):
                self.b.wait_for(f"[ $(od -An -td8 -j{number} -N8 {STATE}) -gt {before[key] + ENOUGH[key]} ]", 60)
        self.hostile()
        now = self.counts()
        tried = " ".join(f"{key}: {now[key] - before[key]}" for key in now if key != "watch")
        if device:
            self.t.equal(now["changed"], before["changed"],
                         f"{what}: the devices' registers and memory stay as they were ({tried})")
        if pages:
            r = self.a.run(self.kept("C"), check=False)
            self.t.ok(not r.status, f"{what}: and so does the page that was the guest's")
        if device:
            self.b.wait_for(f"[ $(dmesg | grep -cE '{IOMMU_FAULT}') -gt {faults} ]", 30)
            self.t.passed(f"{what}: the device's writes are stopped by the IOMMU of its host")

    def over(self):
        """The ex-guests go, too."""
        self.b.run(f"[ ! -e {STATE} ] || printf '\\000' | dd of={STATE} bs=1 seek=8 conv=notrunc 2>/dev/null")
        for job in self.jobs.values():
            job.kill(9)
        for job in self.jobs.values():
            job.wait()
        for uuid in self.uuids.values():
            self.f.mdev_stop("a", uuid)
        self.jobs = {}

    def free(self, timeout=60):
        """The acknowledgement: the lender has them back, and would lend them again."""
        for address in self.lent.values():
            self.b.wait_for(f"grep -qx free /sys/bus/pci/devices/0000{address[5:]}/dlend/state", timeout, every=0.1)


def reclaimed(both):
    both.borrow()
    for address in both.lent.values():
        both.b.run(f"echo force >/sys/bus/pci/devices/0000{address[5:]}/dlend/reclaim", timeout=60)
    both.untouched("taken back by force")
    both.over()


def killed(both):
    both.borrow()
    for job in both.jobs.values():
        job.kill(9)
        job.wait()
    both.free()
    both.untouched("the VMM killed")
    both.over()


def cut(both):
    both.borrow()
    both.c.link("ab").command("down")
    both.free(90)
    both.untouched("the link cut")
    both.c.link("ab").command("up")
    both.f.wait_links("a", 120)
    both.untouched("the link up again")
    both.over()


def unbound(both):
    both.borrow()
    for address in both.lent.values():
        both.b.run(f"echo 0000{address[5:]} >/sys/bus/pci/drivers/dlend-lender/unbind", timeout=60)
    both.untouched("unbound")
    both.over()
    both.lend()


def unloaded(both):
    both.borrow()
    both.b.run("rmmod dlend_lender", timeout=90)
    both.untouched("the lender's module unloaded")
    both.over()
    both.b.load_modules("dlend_lender")
    both.lend()


def unplugged(both):
    """The slot's next device has the address that the last one had."""
    both.borrow()
    b, bdf = both.b, both.b.bdf("edu")
    b.qmp("device_del", id="edu")
    b.wait_event("DEVICE_DELETED", 60, lambda data: data.get("device") == "edu")
    b.wait_for(f"[ ! -e /sys/bus/pci/devices/{bdf} ]", 60)
    both.insist.kill(9)
    both.insist.wait()
    both.hostile()
    b.qmp("device_add", driver="edu", id="edu", bus="port-edu", addr="0x0")
    b.wait_for(f"[ -e /sys/bus/pci/devices/{bdf}/resource0 ]", 60)
    b.run(f"echo 1 >/sys/bus/pci/devices/{bdf}/enable")
    both.insist = b.spawn(f"/share/insist {bdf} {GPA:#x} {STATE} {b.bdf('board')} 2 2>&1")
    b.wait_for(f"[ $(od -An -td8 -N8 {STATE}) -gt 0 ]", 30)
    b.run(f"echo force >/sys/bus/pci/devices/{b.bdf('board')}/dlend/reclaim", timeout=60)
    both.untouched("unplugged, and another one plugged in")
    both.over()
    both.lend()


def shut_down(both):
    """The lender's host restarts, and turns its IOMMUs off on the way: no device may do DMA by then."""
    both.borrow()
    b = both.b
    b.run("dmesg -n 7")     # onto the console, which outlives it
    boots = b.agent.boots
    b.resets += 1
    b.spawn("reboot -f")
    b.wait_up(boots=boots + 1)
    console = (both.c.run_dir / "b.console").read_text(errors="replace")
    said = dict(re.findall(r"dlend-lender 0000:(\S+): taken from node 1 \((\w+)\)", console))
    both.t.equal(sorted(said), sorted(address[6:] for address in both.lent.values()),
                 "shut down: each device that is lent is fenced")
    # The last one that was plugged in is the first to go; the NTB's driver ends the link when its turn comes
    both.t.equal(said.get(both.lent["edu"][6:]), "shutdown", "shut down: for that, not because its link went")
    both.t.ok("does not suspend" not in console, "shut down: nothing is said of a suspend")
    both.insist = None
    both.untouched("shut down", device=False)
    both.over()
    both.f.load("b")
    both.f.wait_links("b", 120)
    both.lend()


def dead(both):
    both.borrow()
    both.a.kill()
    both.free(90)
    both.jobs = {}
    both.untouched("the borrower's host dead", pages=False)
    both.a.start()
    both.a.wait_up()
    both.f.load("a")
    both.f.wait_links("a", 120)
    both.borrow()
    both.t.passed("its host is there again, and borrows")
    both.over()


def main():
    with Tap() as t, Cluster("canary.toml", tap=t) as c:
        for program in ("canary", "insist"):
            shutil.copy(BUILD / "guest" / program, c.run_dir / "share" / program)
        both = Both(t, c)
        both.f.up()
        c.host("b").expect(IOMMU_FAULT, "a device writes on when its lease is over")
        c.host("a").expect(IOMMU_FAULT, "the runner writes to where a guest's page was", must=False)
        both.lend()
        for end in (reclaimed, killed, cut, unbound, unloaded, unplugged, shut_down, dead):
            if not sys.argv[1:] or end.__name__ in sys.argv[1:]:
                with t.case(end.__name__):
                    end(both)


main()
