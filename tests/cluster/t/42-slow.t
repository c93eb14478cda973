#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A device that takes half a minute to reset, beside one that is in use.

    host a (node 1): guests g1, g2 ------ ab ------ host b (node 2): nvme0 (slow), nvme1
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

READ = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c"
RESET = "echo 1 >/sys/class/nvme/nvme0/device/reset"
SLOW_MS = 30000


def resets(f, address):
    """Function resets of a device that its lender has done for a guest."""
    return [line for name, _, line in f.trace("b") if name == "dlend_reset" and f"{address} request" in line]


def slow_reset(t, f, b, slow, g1, g2):
    for g in (g1, g2):
        t.equal(g.run(READ, timeout=120).out.strip(), "65536", "a guest uses its disk")
    b.run(f"echo {SLOW_MS} >/sys/kernel/debug/dlend/lender/0000{slow[5:]}/slow_reset_ms")
    f.trace_clear("b")
    job = g1.spawn(f"{RESET}; {READ}")
    b.wait_for(f"grep -q 'dlend_bus_master: {slow} off' /sys/kernel/tracing/trace", 20)
    # A reset of its own takes every kind of call: reset, unmap, map, interrupts, Bus Master Enable.
    t.equal(g2.run(f"{RESET}; {READ}", timeout=60).out.strip(), "65536",
            "the other guest resets its disk and reads from it")
    t.equal(resets(f, slow), [], "while the slow reset is under way")
    t.equal(job.wait(180).out.strip(), "65536", "the slow disk is used again after its reset")
    t.ok(len(resets(f, slow)) == 1 and "status=0" in resets(f, slow)[0], "which was waited for", str(resets(f, slow)))
    b.run(f"echo 0 >/sys/kernel/debug/dlend/lender/0000{slow[5:]}/slow_reset_ms")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        slow, other = f.lend("b", "nvme0"), f.lend("b", "nvme1")
        devices = [f.device(f.mdev("a", address, "dlend-nvme")) for address in (slow, other)]
        with t.case("a slow reset holds up nobody else"):
            with f.guest("a", "g1", devices=devices[:1]) as g1, f.guest("a", "g2", devices=devices[1:]) as g2:
                slow_reset(t, f, b, slow, g1, g2)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
