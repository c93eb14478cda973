#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The power of a borrower's host is cut while its guest is at work with two devices. Another host goes on with them.

    host a (node 1): the guest ---- ab ---- host b (node 2): nvme0, edu ---- bc ---- host c (node 3): the next guest

The guest writes to its disk all the time. A program on host b has edu write into the guest's memory all the time, and
turns its bus mastering on each time, whoever has it. So edu writes on when the lease is over, and only an IOMMU stops it.
"""
import contextlib
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from blocks import Writers  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position
from peers import ACCESSES, enable  # noqa: E402  pylint: disable=wrong-import-position

KINDS = {"nvme0": "dlend-nvme", "edu": "dlend-pci"}
EDU, AT = "0000:00:10.0", 0x200000      # in the guest: the device, and where in its memory it writes
OURS = f"memmap=64K${AT:#x} iomem=relaxed"      # what is there is not the guest's kernel's
STATE, PAGES = "/run/insist", 5
FILE = "dd if=/dev/nvme0n1 bs=64k count=2 iflag=direct 2>/dev/null | sha256sum"
FLUSHED = ("dd if=/dev/urandom of=/tmp/data bs=64k count=2 2>/dev/null; "
           "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct conv=fsync 2>/dev/null; sha256sum </tmp/data")
FIRST, SIZE = 256, 4096     # of the blocks that are written behind it
STEPS = ("bus_master_off", "dma_blocked", "irq_down", "bars_unmapped", "reset")


class Devices:
    """The lent devices, and who has them."""

    def __init__(self, t, f):
        self.t, self.f, self.b = t, f, f.host("b")
        self.address = {name: f.lend("b", name) for name in KINDS}
        self.uuid = {host: {name: f.mdev(host, self.address[name], kind) for name, kind in KINDS.items()} for host in "ac"}
        self.insist = self.b.spawn(f"/share/insist {self.b.bdf('edu')} {AT:#x} {STATE} 2>&1")

    @contextlib.contextmanager
    def guest(self, host):
        """With both, and edu's writes arrive in its memory."""
        uuid = self.uuid[host]
        with self.f.guest(host, f"on-{host}", cmdline=OURS, tools=("programs",),
                          devices=[self.f.device(uuid["nvme0"]), self.f.device(uuid["edu"], ",addr=0x10")]) as g:
            enable(g, EDU)
            g.run(f"devmem {AT:#x} 32 0x4c4c4c4c")
            g.wait_for(f"[ $(devmem {AT:#x} 32) = 0x00000000 ]", 60)
            self.t.passed(f"edu writes into the memory of a guest on host {host}")
            yield g

    def held_by(self, node, what):
        self.t.equal([self.f.lender_state(address)[:2] for address in self.address.values()], [("held", str(node))] * 2, what)

    def wait_free(self, timeout=60):
        for address in self.address.values():
            self.b.wait_for(f"grep -qx free /sys/bus/pci/devices/0000{address[5:]}/dlend/state", timeout, every=0.1)


def blocks_there(image, last):
    """Of the numbered blocks (blocks.py), up to this one, those that are not as they were written."""
    with open(image, "rb") as disk:
        return [n for n in range(1, last + 1) if disk.seek((FIRST + n) * SIZE) and disk.read(8) != b"%08d" % n]


def cut(t, c, devices):
    """The checksum of what the guest has flushed."""
    f, a = devices.f, c.host("a")
    with devices.guest("a") as g:
        devices.held_by(1, "host a has both devices")
        met = edu_writes(c, devices.b)
        t.ok(met >= (PAGES - 1) * ACCESSES, "the NTB meets each of edu's writes", str(met))
        flushed = g.run(FLUSHED, timeout=120).out.split()[0]
        writers = Writers([("nvme0n1", FIRST)], size=SIZE)
        writers.begin(g)
        writers.go_on(g)
        last, = writers.last(g)
        epochs = {address: f.lender_state(address)[2] for address in devices.address.values()}
        for address in epochs:
            devices.b.run(f"echo 3000 >{f.lender_of(address)[1]}/slow_reset_ms")
        f.trace_clear("b")
        a.kill()
    devices.wait_free(90)
    t.passed("the power of host a is cut while its guest writes: both devices get free")
    fenced(t, f, epochs)
    for address in epochs:
        devices.b.run(f"echo 0 >{f.lender_of(address)[1]}/slow_reset_ms")
    image = c.host("b").disk_file("nvme0")
    with open(image, "rb") as disk:
        t.equal(hashlib.sha256(disk.read(2 << 16)).hexdigest(), flushed, "what the guest has flushed is on the lender's disk")
    t.equal(blocks_there(image, last), [], f"and so is each of the {last} blocks that the disk has said it has")
    return flushed


def fenced(t, f, epochs):
    """By the trace as it was when they got free: resets take so long here that one which came later would not be in it."""
    for address, epoch in epochs.items():
        steps = [line.split(address)[1].split()[0] for name, fields, line in f.trace("b", address)
                 if name == "dlend_fence" and fields["epoch"] == str(epoch)]
        t.equal([step for step in steps if step in STEPS], list(STEPS), f"{address} was fenced, and then reset")
        resets = [line for name, _, line in f.trace("b", address) if name == "dlend_reset"]
        t.ok(len(resets) == 1 and "status=0" in resets[0], "  once, and well", "\n".join(resets))
        t.equal(f.domain(address)["mapped_bytes"], 0, "  it reaches no memory any more")


def edu_writes(c, b):
    """Until edu has done so a few times more; how many accesses of that the NTB to host a has met."""
    def window():
        return json.loads(c.ntbsim("status"))["links"]["ab"]["b"]["writes"]
    before, done = window(), int(b.run(f"od -An -td8 -N8 {STATE}").out)
    b.wait_for(f"[ $(od -An -td8 -N8 {STATE}) -gt {done + PAGES} ]", 60)
    return window() - before


def writes_on(t, c, b):
    faults = len(re.findall(IOMMU_FAULT, b.run("dmesg").out))
    t.equal(edu_writes(c, b), 0, "edu writes on, and nothing of it gets to the NTB")
    b.wait_for(f"[ $(dmesg | grep -cE '{IOMMU_FAULT}') -gt {faults} ]", 60)
    t.passed("the lender's IOMMU stops it")


def next_one(t, c, devices, flushed):
    """At once, and host a comes back meanwhile."""
    f, a = devices.f, c.host("a")
    with devices.guest("c") as g:
        devices.held_by(3, "host c has both devices")
        t.equal(g.run(FILE, timeout=120).out.split()[0], flushed, "its guest finds what the other one has flushed")
        leases = [f.lender_state(address) for address in devices.address.values()]
        a.start()
        a.wait_up()
        f.load("a")
        f.wait_links("a", 120)
        f.wait_state("a", devices.address["nvme0"], "held")
        t.equal(a.run("ls /sys/bus/mdev/devices").out, "", "host a is back, without a mediated device")
        entry = f.offers("a")[devices.address["nvme0"]]
        t.equal((entry["state"], entry["borrower"]), ("held", 3), "it is told who has the disk")
        r = a.run(f"mdevctl start -u {devices.uuid['a']['nvme0']} -p {devices.address['nvme0']} --type dlend-nvme", check=False)
        t.ok(r.status, "and cannot have it", r.out)
        t.equal([f.lender_state(address) for address in devices.address.values()], leases, "host c has both, by the same leases")
        t.equal(g.run(FILE, timeout=120).out.split()[0], flushed, "and its guest reads on")
        # Nobody expects a guest to leave a device at work
        devices.insist.kill(9)
        devices.insist.wait()
        g.shutdown()
    devices.wait_free()
    f.wait_state("a", devices.address["nvme0"], "free")
    t.equal([f.lender_state(address)[0] for address in devices.address.values()], ["free"] * 2,
            "that guest is off: the devices are free, and stay so until somebody asks for them")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/insist", c.run_dir / "share")
        f = Fabric(c)
        b = c.host("b")
        f.up(timeout=150)
        b.blocked("edu", "edu writes on when its lease is over")
        devices = Devices(t, f)
        with t.case("the power is cut"):
            flushed = cut(t, c, devices)
        with t.case("no DMA arrives"):
            writes_on(t, c, b)
        with t.case("the next one"):
            next_one(t, c, devices, flushed)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
