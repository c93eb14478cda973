#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""udev keeps what /etc/dlend.conf lists from the host's own volumes and drivers, until it is lent.

    host a (node 1) ---- ab ---- host b (node 2, systemd, udev): nvme0
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

CLAIMED = "dlend-claimed"


class Disk:
    """A disk of host b, as udev and the kernel show it."""

    def __init__(self, host, bdf):
        self.host, self.dir = host, f"/sys/bus/pci/devices/{bdf}"

    def override(self):
        return self.host.run(f"cat {self.dir}/driver_override").out.strip()

    def driver(self):
        return self.host.run(f"basename $(readlink {self.dir}/driver) 2>/dev/null || :").out.strip()

    def kind(self):
        """What udev tells others that is on it."""
        return self.host.run("udevadm info -q property -n /dev/nvme0n1 | sed -n 's/^ID_FS_TYPE=//p'").out.strip()

    def found(self):
        """As at boot: udev is told of all devices."""
        self.host.run("udevadm trigger -c add -s pci --settle; udevadm trigger -c add -s block --settle", timeout=150)


def in_use(t, host, disk, bdf):
    host.run("swapon /dev/nvme0n1")
    host.run(f"echo {bdf} >/etc/dlend.conf")
    disk.found()
    t.equal((disk.override(), disk.kind()), ("(null)", "swap"), "a disk that this host uses is left alone")
    host.run("swapoff /dev/nvme0n1")


def late(t, disk):
    """Its driver has it already, as one in the initramfs."""
    disk.found()
    t.equal((disk.override(), disk.driver(), disk.kind()), (CLAIMED, "nvme", ""), "one that it does not use: nobody sees what is on it")


def early(t, host, disk):
    """Its driver comes later."""
    host.run(f"rmmod nvme; echo 1 >{disk.dir}/remove; echo 1 >/sys/bus/pci/rescan; udevadm settle; modprobe nvme; udevadm settle", timeout=150)
    t.equal((disk.override(), disk.driver()), (CLAIMED, ""), "found before its driver is loaded: that does not get it")


def main():
    with Tap() as t, Cluster("bench-hosts.toml", tap=t) as c:
        f = Fabric(c)
        b = c.host("b")
        b.install()
        f.up(timeout=150)
        b.run("udevadm control --reload")
        bdf = b.bdf("nvme0")
        disk = Disk(b, bdf)
        b.own_disks()
        b.run("mkswap /dev/nvme0n1 && udevadm trigger -c change /dev/nvme0n1 --settle", timeout=60)
        t.equal(disk.kind(), "swap", "udev knows what is on a disk")
        with t.case("in use"):
            in_use(t, b, disk, bdf)
        with t.case("late"):
            late(t, disk)
        with t.case("early"):
            early(t, b, disk)
        with t.case("lent"):
            f.dlend("b", "lend --all", timeout=120)
            t.equal(disk.driver(), "dlend-lender", "dlend lend --all lends it")
            disk.found()
            t.equal(disk.override(), "dlend-lender", "which udev does not change")
            f.dlend("b", f"reclaim {bdf}", timeout=120)
            t.equal((disk.override(), disk.driver()), ("(null)", "nvme"), "reclaimed: its own driver has it, and nothing is left of the claim")
        t.equal([host.complaints() for host in c.hosts.values()], [[], []], "no kernel has a complaint")


main()
