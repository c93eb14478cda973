#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The function of an NTB is removed while a VM has a device over it, and comes back by a rescan.

That somebody pulls the card cannot be shown here (tests/cluster/README.md).

    host a (node 1): VM ---- ab ---- host b (node 2): nvme0
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position


def gone_and_back(t, f, host, address, uuid):
    name, bdf = f"host {host.name}'s NTB is removed", host.bdf("ntb-ab")
    vm = {"wait": False, "kernel": False, "memory": "64M", "devices": [f.device(uuid)]}
    with f.guest("a", f"one-{host.name}", **vm):
        f.wait_mdev("a", uuid, "running", 120)
        host.run(f"echo 1 >/sys/bus/pci/devices/{bdf}/remove", timeout=120)
        f.wait_mdev("a", uuid, "failed", 90)
        host.cluster.host("b").wait_for(f"[ $(cat /sys/bus/pci/devices/0000{address[5:]}/dlend/state) = free ]", 90)
        t.passed(f"{name}: its VM is told, and the lender has fenced and reset the device")
    host.run("echo 1 >/sys/bus/pci/rescan", timeout=120)
    for other in ("a", "b"):
        f.wait_links(other, 120)
    f.wait_state("a", address, "free", 60)
    with f.guest("a", f"two-{host.name}", **vm):
        f.wait_mdev("a", uuid, "running", 120)
        t.passed("  it comes back: the link is up by itself, and the device can be borrowed")
    f.wait_state("a", address, "free", 60)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        free = {name: f.free(name) for name in "ab"}
        for name in "ab":
            with t.case(f"{name}: to the end"):
                gone_and_back(t, f, c.host(name), address, uuid)
        for name in "ab":
            t.equal(f.wait_free(name, free[name]), free[name], f"all windows of host {name} are free again")
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
