#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""An attached device is lost: its driver sees a device that was unplugged, and it can be attached again.

    host a (node 1): its own nvme driver ------ ab ------ host b (node 2): nvme0
"""
import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import NODE, pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position


class Disk:
    def __init__(self, t, f, address):
        self.t, self.f, self.address, self.a = t, f, address, f.host("a")

    def attach(self):
        self.f.wait_state("a", self.address, "free", 60)
        self.f.dlend("a", f"attach {self.address}", timeout=120)
        self.a.wait_for(f"[ -b {NODE.format(pci(self.address))} ]", 60)
        return self.a.run(f"echo {NODE.format(pci(self.address))}").out.strip()

    @contextlib.contextmanager
    def in_use(self, what):
        """A program reads it all the time; after the block it has ended with an error, and the device is gone."""
        node = self.attach()
        job = self.a.spawn(f"while dd if={node} of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null; do :; done")
        self.a.wait_for(f"[ $(awk '{{ print $1 }}' /sys/block/{node[5:]}/stat) -gt 100 ]", 60)
        yield node
        job.wait(120, check=False)
        self.t.passed(f"{what}: the program has an error, and nothing hangs")
        self.gone(what)

    def gone(self, what):
        self.a.wait_for(f"[ ! -e /sys/bus/pci/devices/{pci(self.address)} ]", 120)
        self.t.passed(f"{what}: the device is gone")

    def works(self, what):
        node = self.attach()
        out = self.a.run(f"dd if={node} bs=4k count=4 iflag=direct 2>/dev/null | wc -c", timeout=60).out
        self.t.equal(out.strip(), "16384", f"{what}: attached again, it works")
        self.f.dlend("a", f"detach {self.address}", timeout=120)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        address = f.lend("b", "nvme0")
        disk = Disk(t, f, address)
        device = "the device goes on until its lender has stopped it"
        driver = "the driver goes on until it has noticed: its lender's IOMMU stops it"
        with t.case("the link is cut"), a.provoke(IOMMU_FAULT, device, must=False), \
                b.provoke(IOMMU_FAULT, driver, must=False):
            with disk.in_use("link cut"):
                c.link("ab").command("down")
            c.link("ab").command("up")
            f.wait_links("a", 120)
            disk.works("link cut")
        with t.case("taken back"), b.provoke(IOMMU_FAULT, driver, must=False):
            with disk.in_use("reclaim --force"):
                f.dlend("b", f"reclaim --force 0000{address[5:]}", timeout=120)
            f.lend("b", "nvme0")
            disk.works("reclaim --force")
        with t.case("the module is unloaded"):
            disk.attach()
            t.ok(a.run("rmmod dlend_native", check=False).status, "the module stays while a device is attached")
            f.dlend("a", f"detach {address}", timeout=120)
            a.run("rmmod dlend_native", timeout=120)
            f.wait_state("a", address, "free")
            t.ok("attached" not in a.run(f"ls /sys/bus/dlend/devices/{address}").out, "unloaded, it leaves nothing behind")
            a.load_modules("dlend_native")
            disk.works("unloaded and loaded")
        with t.case("the NTB loses its driver"), a.provoke(IOMMU_FAULT, device, must=False), \
                b.provoke(IOMMU_FAULT, driver, must=False):
            with disk.in_use("unbind"):
                ntb = a.run("basename $(ls -d /sys/bus/pci/drivers/ntb_hw_amd/0*)").out.strip()
                a.run(f"echo {ntb} >/sys/bus/pci/drivers/ntb_hw_amd/unbind", timeout=120)
            a.run(f"echo {ntb} >/sys/bus/pci/drivers/ntb_hw_amd/bind", timeout=60)
            f.wait_links("a", 120)
            disk.works("unbind")
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
