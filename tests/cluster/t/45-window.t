#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A window that is too small for the guest: said in numbers, and nothing half built.

    host a (node 1): guests ------ ab, 128 MiB ------ host b (node 2): nvme0
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position


def foretold(t, f):
    """What follows, said before anybody has tried."""
    for size, level in (("96M", "OK"), ("256M", "FAIL")):
        status, checks = f.doctor("a", f"--guest {size}")
        t.equal(checks["window"][1], level, f"dlend doctor: a guest of {size}: {level}", str(checks["window"]))
        t.ok(status == 6 or level == "OK", "  and its exit status says so", str((status, checks)))


def too_large(t, a, b, f, address, uuid):
    before = f.free("a")
    with f.guest("a", "large", wait=False, memory="256M", modules=(), devices=[f.device(uuid)]):
        f.wait_mdev("a", uuid, "failed", 150)
        state = f.mdev_state("a", uuid)
        t.ok("window" in state and "MiB" in state + a.run("dmesg | grep -i window | tail -n 2").out,
             "a full window is said, with sizes", state)
        control = b.run(f"lspci -vv -s {address[6:]} | grep -m1 Control:").out
        t.ok("BusMaster-" in control, "the physical Bus Master Enable stays off", control)
    f.wait_state("a", address, "free")
    t.equal(f.wait_free("a", before), before, "and every slot is free again")


def fits(t, f, address, uuid):
    with f.guest("a", "small", memory="96M", devices=[f.device(uuid)]) as g:
        t.equal(g.run("dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c", timeout=120).out.strip(),
                "65536", "a guest that fits works")
    f.wait_state("a", address, "free")


def taken_back(t, b, f, address, uuid):
    """The window has no room for the guest's memory twice: what the lost lease had must be free for the next one."""
    before = f.free("a")
    read = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c"
    with f.guest("a", "twice", memory="96M", devices=[f.device(uuid)]) as g:
        t.equal(g.run(read, timeout=120).out.strip(), "65536", "a guest has a device")
        b.run(f"echo force >/sys/bus/pci/devices/0000{address[5:]}/dlend/reclaim", timeout=60)
        f.wait_state("a", address, "free")
        t.equal(f.wait_free("a", before), before, "its lender takes it back: its part of the window is free, though the VM runs on")
        g.reboot()
        t.equal(g.run(read, timeout=120).out.strip(), "65536", "the guest reboots, and has it again")
    f.wait_state("a", address, "free")


def main():
    with Tap() as t, Cluster("small-window.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("dlend doctor"):
            foretold(t, f)
        with t.case("guest larger than the window"):
            too_large(t, a, b, f, address, uuid)
        with t.case("guest that fits"):
            fits(t, f, address, uuid)
        with t.case("taken back"):
            taken_back(t, b, f, address, uuid)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
