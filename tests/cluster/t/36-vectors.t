#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Message interrupts, one by one: masked, many, in a row, and moved between the doorbell and the direct way.

    host a (node 1): guests, a program, and itself ------ ab ------ host b (node 2): nvme0, many, row
"""
import contextlib
import re
import shutil
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import attach, detach, node_of, pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually, polled  # noqa: E402  pylint: disable=wrong-import-position

LINKS = "/sys/class/dlend_link/*:*/direct_interrupts"
PAGE = 0xfef00000   # where a device of a lender writes direct interrupts to
MSI, MSIX = 5, 17   # capabilities
MASKALL = 0x4000
TABLE = 128         # of "many"
VECTORS = 128       # of one device, in use at once
ROUNDS = 8
READERS = 8         # which come to their disk at any moment


# What a device's registers say

class Messages:
    """A device's message interrupts, as its host's processors see them."""

    def __init__(self, host, bdf):
        self.host = host
        self.bdf = bdf
        words = host.run(f"od -An -v -tx1 -N256 /sys/bus/pci/devices/{bdf}/config").out.split()
        self.config = bytes(int(word, 16) for word in words)
        bars = host.run(f"cut -d' ' -f1 /sys/bus/pci/devices/{bdf}/resource").out.split()
        self.bar = [int(bar, 16) for bar in bars]
        self.msi, self.msix = self._capability(MSI), self._capability(MSIX)

    def _capability(self, wanted):
        at = self.config[0x34]
        while at and self.config[at] != wanted:
            at = self.config[at + 1]
        return at

    def _place(self, register):
        value, = struct.unpack_from("<I", self.config, self.msix + register)
        return self.bar[value & 7] + (value & ~7)

    def entry(self, vector):
        return self._place(4) + 16 * vector

    def pending(self, vector):
        """Of a guest's: its own processor does not read that, see KVM's internal error in README.md."""
        said = self.host.hmp(f"xp /1wx {self._place(8) + 4 * (vector // 32):#x}")
        return bool(int(said.split(":")[1], 16) & 1 << vector % 32)

    def mask_all(self, on):
        """Of its MSI-X; the kernel's driver does not do it, and does not notice."""
        high = self.config[self.msix + 3] & ~(MASKALL >> 8) | (MASKALL >> 8 if on else 0)
        self.host.run(f"printf '\\{high:03o}' | dd of=/sys/bus/pci/devices/{self.bdf}/config bs=1 seek={self.msix + 3} conv=notrunc 2>/dev/null")

    def written(self, count):
        """What the first vectors write: [(address, data)]."""
        if self.msi:
            at, = struct.unpack_from("<I", self.config, self.msi + 4)
            data, = struct.unpack_from("<H", self.config, self.msi + 12)
            return [(at, data + n) for n in range(count)]
        first = self.entry(0)
        words = self.host.run(f"n=0; while [ $n -lt {count} ]; do for w in 0 8; do busybox devmem $(({first:#x} + 16 * n + w)) 32; done; "
                              "n=$((n + 1)); done", timeout=120).out.split()
        return [(int(words[i], 16), int(words[i + 1], 16)) for i in range(0, len(words), 2)]


def vectors_of(a):
    """Of direct interrupts: that are in use, and all that this kernel knows, whose ever."""
    return [int(n) for n in a.run("grep -c dlend-direct /proc/interrupts; ls /sys/kernel/irq | wc -l", check=False).out.split()]


def switch(f, address, to):
    f.host("a").run(f"echo {to} >/sys/bus/dlend/devices/{address}/direct_interrupts")


# A guest masks

def masks(t, f, g, uuid, what):
    """Its disk is read while all of the disk's interrupts are masked."""
    m = Messages(g, g.run("basename $(readlink /sys/block/nvme0n1/device/device)").out.strip())
    before = f.irqs("a", uuid)["fired"]
    m.mask_all(True)
    job = g.spawn("dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null")
    t.ok(eventually(lambda: f.irqs("a", uuid)["fired"] > before, True), f"{what}, masked: the device sends an interrupt")
    t.ok(eventually(lambda: m.pending(1), True), "  which is pending")
    t.ok(not job.over, "  and the guest's driver waits for it")
    m.mask_all(False)
    t.equal(job.wait(60).status, 0, "  unmasked, it comes")
    t.ok(eventually(lambda: m.pending(1), False) is False, "  and is not pending any more")
    t.equal(polled(g), 0, "  the guest has missed none")


# The administrator changes his mind

def moved(t, f, g, address):
    """While its disk is read all the time.  An interrupt may still be on its way when the borrower is told that no more
    will come, unless the lender has made sure."""
    link = f.cluster.link("ab")
    before = link.came_late("b")
    job = g.spawn("while [ ! -e /tmp/over ]; do dd if=/dev/nvme0n1 of=/dev/null bs=4k count=16 iflag=direct 2>/dev/null || exit; done")
    with link.late("b", "interrupts"):
        for n in range(10):
            for to, want in (("off", "doorbell: direct_interrupts of this device is off"), ("on", "direct")):
                switch(f, address, to)
                said = eventually(lambda w=want: f.interrupts("a", address), want)
                if said != want:
                    t.equal(said, want, f"{to}, time {n}")
    t.passed("ten times to the doorbell, and back to the direct way, under load")
    t.ok(link.came_late("b") > before, "  with interrupts on their way")
    g.run("touch /tmp/over")
    t.equal(job.wait(120).status, 0, "  its disk was read all the time")
    t.equal(polled(g), 0, "  and no interrupt was missed")


def in_guest(t, f, a, uuid, address):
    with f.guest("a", "masks", devices=[f.device(uuid)]) as g:
        g.run("dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null")
        t.equal(f.interrupts("a", address), "direct", "its interrupts come directly")
        masks(t, f, g, uuid, "direct")
        moved(t, f, g, address)
        g.kill(9)
    f.wait_state("a", address, "free")
    switch(f, address, "off")
    with f.guest("a", "bell", devices=[f.device(uuid)]) as g:
        g.run("dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null")
        t.equal(f.interrupts("a", address)[:8], "doorbell", "its interrupts come by the doorbell")
        t.equal(vectors_of(a)[0], 0, "  and no direct vector is left")
        masks(t, f, g, uuid, "doorbell")
        g.kill(9)
    f.wait_state("a", address, "free")
    switch(f, address, "on")


# A program, whose device does nothing: processors of its lender write what it would

@contextlib.contextmanager
def hears(a, uuid, count):
    """A program with so many interrupts; a function that ends it, and says how often it heard each."""
    a.run("rm -f /tmp/go /tmp/heard")
    job = a.spawn(f"/share/registers mdev {uuid} heard {count} >/tmp/heard 2>&1")
    a.wait_for("grep -q . /tmp/heard", 60)

    def end():
        a.run("touch /tmp/go")
        job.wait(60)
        return [int(n) for n in re.findall(r"^heard \d+: (\d+)$", a.run("cat /tmp/heard").out, re.M)]
    yield end
    a.run("touch /tmp/go")
    job.wait(60)


@contextlib.contextmanager
def window(b):
    """Where that page is for the lender's processors: a function, once a device's domain has it."""
    tracing = "/sys/kernel/tracing"
    b.run(f"echo 'p:dlend/mapped iommu_map iova=%si:x64 phys=%dx:x64' >{tracing}/kprobe_events && echo 1 >{tracing}/events/dlend/mapped/enable")
    yield lambda: int(re.findall(rf"mapped: .* iova={PAGE:#x} phys=(0x\w+)", b.run(f"cat {tracing}/trace").out)[-1], 16)
    b.run(f"echo 0 >{tracing}/events/dlend/mapped/enable; echo '-:dlend/mapped' >>{tracing}/kprobe_events")


def written(t, f, a, b, uuid, address, count, what):
    """Each of the device's messages, and nothing else, is heard as that vector's interrupt."""
    with window(b) as page, hears(a, uuid, count) as end:
        t.equal(f.interrupts("a", address), "direct", f"{what}: {count} interrupts come directly")
        t.equal(vectors_of(a)[0], count, "  each has a vector of this host's")
        messages = Messages(b, "0000" + address[5:]).written(count)
        t.ok(all(PAGE <= at < PAGE + 0x100000 for at, _ in messages) and len(set(messages)) == count,
             "  and a message of its own in the device's registers", str(messages[:4]))
        for at, data in messages[::2]:
            b.run(f"busybox devmem {page() + at - PAGE:#x} 32 {data:#x}")
        t.equal(end(), [1 - n % 2 for n in range(count)], "  every other one is written once, and only those are heard, once")
    f.wait_state("a", address, "free")


def often(t, f, a, uuid, address, began):
    for n in range(ROUNDS):
        with hears(a, uuid, VECTORS):
            if vectors_of(a)[0] != VECTORS:
                t.equal(a.run("cat /tmp/heard").out, "ready\n", f"time {n}: {VECTORS} vectors, {f.interrupts('a', address)}")
        f.wait_state("a", address, "free")
    t.equal(vectors_of(a), began, f"{ROUNDS} times {VECTORS} vectors: all are given back")


def attached(t, f, a, address, began):
    attach(t, f, address, "nvme")
    disk = node_of(a, address)
    a.run(f"dd if={disk} of=/dev/null bs=4k count=16 iflag=direct 2>/dev/null")
    used, known = vectors_of(a)
    t.ok(1 <= used <= 8 and known - began[1] >= TABLE, "attached: only what its driver uses takes a vector of a processor", f"{used} {known} {began}")
    t.equal(f.interrupts("a", address), "direct", "  its interrupts come directly")
    job = a.spawn(f"for i in $(seq {READERS}); do "
                  f"while [ ! -e /tmp/over ]; do dd if={disk} of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null || touch /tmp/failed; done & "
                  "done; wait; [ ! -e /tmp/failed ]")
    with f.cluster.link("ab").late("b", "interrupts"):
        for want in ("doorbell: direct_interrupts of this device is off", "direct") * 3:
            switch(f, address, "on" if want == "direct" else "off")
            t.equal(eventually(lambda w=want: f.interrupts("a", address), want), want, "  moved under load")
    a.run("touch /tmp/over")
    t.equal(job.wait(120).status, 0, "  its disk was read all the time")
    t.equal(polled(a), 0, "  and no interrupt was missed")
    a.run(f"echo 1 | tee /sys/bus/pci/devices/{pci(address)}/nvme/*/reset_controller", timeout=120)
    a.run(f"dd if={disk} of=/dev/null bs=4k count=16 iflag=direct 2>/dev/null")
    detach(t, f, address)
    t.equal(vectors_of(a), began, "  all are given back")


def main():
    with Tap() as t, Cluster("direct-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/registers", c.run_dir / "share/registers")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        a.run(f"echo on | tee {LINKS}")
        with t.case("a guest"):
            address = f.lend("b", "nvme0")
            in_guest(t, f, a, f.mdev("a", address, "dlend-nvme"), address)
        with t.case("in a row"):
            address = f.lend("b", "row")
            written(t, f, a, b, f.mdev("a", address, "dlend-usb"), address, 16, "MSI")
        with t.case("many"):
            address = f.lend("b", "many")
            uuid = f.mdev("a", address, "dlend-nvme")
            began = vectors_of(a)
            written(t, f, a, b, uuid, address, VECTORS, "MSI-X")
            often(t, f, a, uuid, address, began)
            f.mdev_stop("a", uuid)
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        with t.case("attached"):
            attached(t, f, a, address, vectors_of(a))
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
