#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A device that takes half a minute to reset, beside one that is in use; and a reset that its lender's administrator asks for.

    host a (node 1): guests g1, g2 ------ ab ------ host b (node 2): nvme0 (slow), nvme1
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position

READ = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c"
RESET = "echo 1 >/sys/class/nvme/nvme0/device/reset"
SLOW_MS = 30000
RESETS = 20         # of some 0.1 s each; the guest writes more often than that
EAGAIN = -11
CFG_WRITE = 12      # enum dlend_msg_type
SIZES = ("d=$(cat /sys/class/nvme/nvme0/address); "
         "while [ ! -e /tmp/stop ]; do setpci -s $d CAP_EXP+8.w=0:7000; setpci -s $d CAP_EXP+8.w=2000:7000; done")


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


def written(f, address, status):
    """Has the lender answered a write to configuration space so?"""
    return bool(f.trace("b", f"dlend_msg_send: .* type={CFG_WRITE} .* device={address} status={status} "))


def read_requests(t, f, b, address, g):
    """A guest sets the size of read requests, again and again, while the device is reset.  Linux writes Device Control then,
    with what it had saved: who writes there in the midst of that, reads what the reset has left."""
    g.wait_for("[ -b /dev/nvme0n1 ]")
    f.trace_clear("b")
    job = g.spawn(SIZES)
    eventually(lambda: written(f, address, 0), True, 30)
    t.ok(written(f, address, 0), "a guest sets the size of read requests")
    for _ in range(RESETS):
        b.run(f"echo 1 >/sys/bus/pci/devices/0000{address[5:]}/reset")
        if written(f, address, EAGAIN):
            break
    t.ok(written(f, address, EAGAIN), "nothing is written while its lender resets the device")
    g.run("touch /tmp/stop")
    job.wait(60)


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
        f.wait_state("a", slow, "free", 60)
        with t.case("a reset by its lender"):
            with f.guest("a", "g3", devices=devices[:1], tools=("tools",)) as g3:
                read_requests(t, f, b, slow, g3)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
