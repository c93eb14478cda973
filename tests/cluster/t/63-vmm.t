#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VMM does what it likes, and dies: nothing hangs, nothing stays pinned, and the next VMM has the device.

    host a (node 1): VMMs of its own ------ ab ------ host b (node 2): nvme0, nvme1, edu, an e1000e

With DLEND_LONG=1 for an hour more, with a hostile VMM for each kind of device at the same time; DLEND_SEED=N begins with that seed.
"""
import os
import random
import re
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import attach, detach, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position

PROGRAMS = ("atonce", "heir", "hostile", "served")
# Threads, MiB of each, turns, devices: more threads than type1 makes rounds, and more memory than a few calls unpin.
AT_ONCE = ((2, 1, 20, 1), (3, 32, 6, 2), (24, 4, 2, 1))
PORTS = {"nvme0": "dlend-nvme", "nvme1": "dlend-nvme", "edu": "dlend-pci", "nic": "dlend-nic"}
# The devices of each VMM that runs at a time
ALONE = ([["nvme0"]], [["edu"]], [["nic"]], [["nvme0", "edu", "nvme1"]])
TOGETHER = ([["nvme0", "nvme1"], ["edu"], ["nic"]],)
LONG = bool(os.environ.get("DLEND_LONG"))
SECONDS = 4             # of one hostile VMM
HOUR = 3600


class Bed:
    """Devices, and how host a was before anybody had them."""

    def __init__(self, t, f):
        self.t, self.f, self.a = t, f, f.host("a")
        self.address = {port: f.lend("b", port) for port in PORTS}
        self.uuid = {port: f.mdev("a", self.address[port], kind) for port, kind in PORTS.items()}
        self.free, self.pins = f.free("a"), f.pinned("a")
        # The kernel of make check-debug has both
        legacy = self.a.run("modprobe -q iommufd; [ -c /dev/iommu ]", check=False).status
        self.hows = ["legacy"] if legacy else ["legacy", "iommufd"]
        self.seed = int(os.environ.get("DLEND_SEED") or random.randrange(1 << 32))

    def is_whole(self, what, ports=PORTS):
        """All that a VMM had is free again."""
        for port in ports:
            self.f.wait_state("a", self.address[port], "free")
        self.t.equal(self.f.wait_free("a", self.free), self.free, f"{what}: the window is whole")
        self.t.equal(self.f.wait_pinned("a", self.pins), self.pins, f"{what}: nothing is pinned")

    def at_once(self, threads, size, turns, ports):
        what = f"{threads} threads unmap {size} MiB each at once, {len(ports)} devices"
        ran = self.a.run(f"/share/atonce {threads} {size} {turns} {' '.join(self.uuid[p] for p in ports)} 2>&1", timeout=300,
                         check=False)
        self.t.equal(ran.out.strip(), "ok", what)

    def killed(self):
        """The device that is closed first has pinned everything, and another one uses it."""
        self.f.trace_clear("a")
        job = self.a.spawn(f"exec /share/atonce 1 128 0 {self.uuid['nvme0']} {self.uuid['nvme1']} >/run/killed 2>&1")
        self.a.wait_for("grep -q ^ready /run/killed", 120)
        job.kill(9)
        job.wait(60, check=False)
        self.is_whole("a VMM with two devices is killed")
        handed = [int(fields["bytes"]) for _, fields, _ in self.f.trace("a", "dlend_window: .* handed-over ")]
        self.t.equal(sum(handed), 0, "nothing was pinned again for it")

    def served(self, how, ports):
        """A VMM dies while its memory waits for a program that does not serve it."""
        what = f"served, {how}, {len(ports)} devices"
        job = self.a.spawn(f"exec /share/served {how} {' '.join(self.uuid[port] for port in ports)} >/run/served 2>&1")
        self.a.wait_for("grep -q ^read /run/served", 120)
        for port in ports:
            self.f.wait_state("a", self.address[port], "held")
        job.kill(9)
        for port in ports:
            self.f.wait_state("a", self.address[port], "free")
        uuid = self.f.mdev("b", self.address[ports[0]], PORTS[ports[0]])
        ran = self.f.host("b").run(f"/share/atonce 1 1 1 {uuid} 2>&1", check=False)
        self.t.equal(ran.out.strip(), "ok", f"{what}: another VMM has the device")
        self.f.mdev_stop("b", uuid)
        self.t.ok(not job.over, f"{what}: while the dead one still waits for its memory")
        self.a.run("kill $(sed -n 's/^read //p;q' /run/served)")
        job.wait(60, check=False)
        self.is_whole(f"{what}: when nobody is to serve it any more")

    def hostile(self, how, *vmms, devices=None):
        """VMMs at the same time.  vmms: the ports that each has; devices: of the only one, if they are not mediated"""
        jobs = []
        for ports in vmms:
            self.seed += 1
            words = devices or [self.uuid[port] for port in ports]
            jobs.append((f"{how} {' '.join(ports)}, seed {self.seed}",
                         self.a.spawn(f"exec /share/hostile {how} {self.seed} {SECONDS} {' '.join(words)} 2>&1")))
        for what, job in jobs:
            self.t.equal(job.wait(SECONDS + 120).out.strip(), "dead", f"hostile: {what}: it is dead when it is killed")

    def attached(self, port, driver):
        """By the host's own vfio-pci."""
        address = self.address[port]
        self.a.run(f"mdevctl stop -u {self.uuid[port]}")
        attach(self.t, self.f, address, driver)
        vfio_pci(self.a, address)
        for how in self.hows:
            self.hostile(how, [port], devices=[pci(address)])
        detach(self.t, self.f, address)
        self.uuid[port] = self.f.mdev("a", address, PORTS[port])
        self.is_whole(f"{port}, attached")


def same_number(t, f):
    """A VMM has the number of another, which has ended, and whose device a child of its has on."""
    a, b = f.host("a"), f.host("b")
    f.dlend("b", f"lend --group {b.bdf('pair')}", timeout=120)
    pair = [f.address("b", "pair", n) for n in range(2)]
    for address in pair:
        f.wait_state("a", address, "free")
    uuids = [f.mdev("a", address, "dlend-nic") for address in pair]
    a.spawn(f"exec /share/heir {uuids[0]} >/run/heir 2>&1").wait(60)
    heir, number = re.match(r"heir (\d+) of (\d+)", a.wait_for("grep ^heir /run/heir").out).groups()
    f.wait_mdev("a", uuids[0], "running")
    a.run(f"/share/heir --as {number} /share/atonce 1 1 1 {uuids[1]} >/dev/null 2>&1")
    f.wait_mdev("a", uuids[1], "failed")
    t.ok("is used by another VM here" in f.mdev_state("a", uuids[1]), "a VM whose VMM has another one's number is not that VM")
    a.run(f"kill -9 {heir} {number}")
    for uuid in uuids:
        f.wait_mdev("a", uuid, "idle")
        f.mdev_stop("a", uuid)


def hostile_rounds(bed, rounds):
    for how in bed.hows:
        for vmms in rounds:
            bed.hostile(how, *vmms)
            bed.is_whole(f"{how} {vmms}")
    for port in ("nvme0", "edu", "nic"):
        bed.at_once(1, 1, 1, [port])
    bed.is_whole("after honest VMMs")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        for name in PROGRAMS:
            shutil.copy(BUILD / "guest" / name, c.run_dir / "share" / name)
        f.up()
        a, b = c.host("a"), c.host("b")
        a.wait_for("[ -c /dev/kvm ]")
        b.own_disks()
        bed = Bed(t, f)
        with t.case("at once"):
            for threads, size, turns, devices in AT_ONCE:
                bed.at_once(threads, size, turns, list(PORTS)[:devices])
            bed.is_whole("at once")
        with t.case("killed"):
            bed.killed()
        with t.case("same number"):
            same_number(t, f)
        bed.is_whole("two VMMs of one number")
        with t.case("served"):
            for how in bed.hows:
                bed.served(how, ["nvme0"])
                bed.served(how, ["nvme0", "edu"])
        for host in (a, b):
            host.expect(IOMMU_FAULT, "a device of a hostile VMM may do DMA where there is nothing", must=False)
        with t.case("hostile"):
            hostile_rounds(bed, ALONE)
            end = time.monotonic() + HOUR
            while LONG and time.monotonic() < end:
                hostile_rounds(bed, TOGETHER)
        if len(bed.hows) == 1:
            t.diag("this kernel has no iommufd; the one of make check-debug has")
        a.load_modules("dlend_native")
        a.run("modprobe nvme")
        with t.case("hostile, attached"):
            bed.attached("edu", None)
            bed.attached("nvme0", "nvme")
        with t.case("honest"), f.guest("a", "g", tools=("fio",), devices=[f.device(bed.uuid["nvme0"])]) as g:
            g.wait_for("[ -b /dev/nvme0n1 ]")
            g.run(verified("/dev/nvme0n1", "256k"), timeout=300)
            g.shutdown()
        bed.is_whole("at the end")
        said = re.findall("threads of the VMM unmap memory at the same time.*", a.run("dmesg").out)
        t.diag(f"threads gave way: {len(said)} messages")
        for name in "ab":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
