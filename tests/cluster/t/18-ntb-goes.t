#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""An NTB loses its driver, or is removed, on either side, whatever is in use over it; then it comes back, and all works again.

    host a (node 1): the user ---- ab ---- host b (node 2): nvme0
           \\------ ac ---- host c (node 3): nvme0, and where a VM moves to ---- bc ---- host b

What went takes along what it had: no vector, no part of a window, no device stays behind.
"""
import contextlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import node_of, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import eventually  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position
from moves import Moves  # noqa: E402  pylint: disable=wrong-import-position

WHY = "who used it goes on until it has noticed"
VECTORS = "grep -c dlend-direct /proc/interrupts || :"
FIRMWARE = {"wait": False, "kernel": False, "memory": "64M"}    # a VM with nothing to boot from: its firmware drives the disks
UNBIND, REMOVE = "unbind", "remove"


class Goes:
    def __init__(self, t, c):
        self.t, self.m = t, Moves(t, c)
        self.f, self.a = self.m.f, c.host("a")
        self.disk, self.far = "", ""

    def uuid(self):
        return self.m.uuid["a"]

    # Uses: something is in use in the block, and has noticed its end after it

    def vm(self, direct):
        """A VM on host a that writes to the disk; its interrupts come directly, or by its lender."""
        self.a.run(f"for at in /sys/class/dlend_link/*/direct_interrupts; do echo {int(direct)} >$at; done")
        self.m.prepare("a")
        self.m.runs("a")
        self.t.equal(self.f.interrupts("a", self.disk).partition(":")[0], "direct" if direct else "doorbell", "a VM has the disk")

    @contextlib.contextmanager
    def doorbell(self):
        self.vm(direct=False)
        yield
        self.f.wait_mdev("a", self.uuid(), "failed", 90)
        self.m.kill_all()

    @contextlib.contextmanager
    def direct(self):
        self.vm(direct=True)
        yield
        self.f.wait_mdev("a", self.uuid(), "failed", 90)
        self.m.kill_all()

    @contextlib.contextmanager
    def moving(self):
        """It has left host a, and waits on host c for its first instruction there."""
        self.vm(direct=False)
        self.m.comes("a", "c")
        yield
        self.m.kill_all()
        self.m.unprepare("c")

    @contextlib.contextmanager
    def peers(self):
        """Two disks of a VM, of two lenders, reach each other."""
        self.m.prepare("a")
        uuids = [self.uuid(), self.f.mdev("a", self.far, "dlend-nvme")]
        paths = " ".join(f"/sys/bus/mdev/devices/{uuid}" for uuid in uuids)
        self.a.run(f"for at in {paths}; do echo always >$at/clique; done")
        with self.f.guest("a", "peers", devices=[self.f.device(uuid) for uuid in uuids], **FIRMWARE):
            self.a.wait_for(f"for at in {paths}; do grep -q ' mapped' $at/dlend/p2p && ! grep -q ' none ' $at/dlend/p2p || exit 1; done", 120)
            yield
        self.f.mdev_stop("a", uuids[1])
        self.f.wait_state("a", self.far, "free", 90)

    def attach(self):
        self.m.unprepare("a")
        self.f.dlend("a", f"attach {self.disk}", timeout=120)

    def detached(self):
        self.a.wait_for(f"[ ! -e /sys/bus/pci/devices/{pci(self.disk)} ]", 120)
        self.a.wait_for("! ls /sys/bus/platform/devices | grep -q dlend-root", 60)

    @contextlib.contextmanager
    def attached(self):
        """The host's own driver has it, and a program reads it."""
        self.attach()
        node = node_of(self.a, self.disk)
        job = self.a.spawn(f"while dd if={node} of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null; do :; done")
        self.a.wait_for(f"[ $(awk '{{ print $1 }}' /sys/block/{node[5:]}/stat) -gt 100 ]", 60)
        yield
        job.wait(120, check=False)
        self.detached()

    @contextlib.contextmanager
    def vfio(self):
        """A VM has it by vfio-pci, and does not give it back before it ends."""
        self.attach()
        vfio_pci(self.a, self.disk)
        device = pci(self.disk)
        with self.f.guest("a", "vfio", devices=[f"vfio-pci,host={device}"], **FIRMWARE):
            self.a.wait_for(f"[ $(( 0x$(setpci -s {device} COMMAND) & 4 )) != 0 ]", 120)
            yield
        self.detached()

    # What goes, and how

    def case(self, use, name, link, how):
        """While that is in use, the NTB of `link` in host `name` goes; and comes back."""
        host = self.m.host(name)
        ntb, what = host.bdf(f"ntb-{link}"), f"{use.__name__}: {how} of {link} in host {name}"
        with use():
            host.run(f"echo {ntb} >{host.ntb_driver}/unbind" if how == UNBIND else f"echo 1 >/sys/bus/pci/devices/{ntb}/remove", timeout=120)
        vectors = eventually(lambda: self.a.run(VECTORS).out.strip(), "0", 60)
        self.t.equal(vectors, "0", f"{what}: its user has noticed, and no vector is left")
        host.run(f"echo {ntb} >{host.ntb_driver}/bind" if how == UNBIND else "echo 1 >/sys/bus/pci/rescan", timeout=120)
        for other in "abc":
            self.f.wait_links(other, 120)
        self.f.wait_state("a", self.disk, "free", 90)
        self.t.passed(f"{what}: it is back, and the device is free")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        g = Goes(t, c)
        f, a = g.f, g.a
        g.m.begin()
        g.disk, g.far = g.m.disk, f.lend("c", "nvme0")
        c.host("b").own_disks()
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        f.patience(g.disk, 5)
        free = {name: f.free(name) for name in "abc"}
        both = [("a", "ab"), ("b", "ab")]
        uses = [(g.direct, both), (g.doorbell, both), (g.attached, both), (g.vfio, both), (g.moving, [*both, ("c", "bc")]),
                (g.peers, [*both, ("b", "bc"), ("c", "bc")])]
        only = os.environ.get("DLEND_ONLY", "").split()
        for use, where in uses:
            for name, link in where:
                for how in (UNBIND, REMOVE):
                    if only and use.__name__ not in only:
                        continue
                    with contextlib.ExitStack() as faults, t.case(f"{use.__name__}, {name}, {how}"):
                        for host in c.hosts.values():
                            faults.enter_context(host.provoke(IOMMU_FAULT, WHY, must=False))
                        g.case(use, name, link, how)
                    if (how, name) == (REMOVE, where[-1][0]):
                        for each in "abc":
                            t.equal(f.wait_free(each, free[each]), free[each], f"{use.__name__}: all windows of host {each} are free again")
        for name in "abc":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
