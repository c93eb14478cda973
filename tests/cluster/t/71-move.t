#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VM moves from host to host while it writes to a lent disk, which stays where it is.

    host a (node 1): the VM at first ---- ab ---- host b (node 2): nvme0
           \\------ ac ---- host c (node 3): the VM later ---- bc ---- host b
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from moves import MORE, Moves, moves  # noqa: E402  pylint: disable=wrong-import-position


def interrupts(c, what):
    """Of lent devices, since the hosts are up, over all links: "fired" by their lenders, "delivered" by their borrowers, or
    "direct" from the device to those."""
    return sum(int(count) for host in c.hosts.values()
               for count in re.findall(rf"^irq_{what}: (\d+)", host.run("cat /sys/kernel/debug/dlend/links/*:*").out, re.M))


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        m = Moves(t, c)
        m.begin()
        with t.case("there"):
            moves(m, "a", "c")
        with t.case("to the disk's own host"):
            moves(m, "c", "b")
        with t.case("and back"):
            moves(m, "b", "a")
        fired = interrupts(c, "fired")
        direct = interrupts(c, "direct")
        t.ok(fired + direct > 3 * MORE / 4, "the disk has interrupted all the time", f"{fired} {direct}")
        t.equal(interrupts(c, "delivered"), fired, "and each interrupt was heard by the host that the VM was on")
        for host in c.hosts.values():
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
