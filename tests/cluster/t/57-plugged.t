#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""RAM that is plugged in: a device reaches it before its guest has it, or is stopped, and its VMM is told.

    host a (node 1): VMMs, a guest ------ ab, 128 MiB ------ host b (node 2): usb, an EHCI with a stick; nvme0

The EHCI takes its work from memory: no access to a BAR holds it back.
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position
from plug import ONLINE, dimm_in  # noqa: E402  pylint: disable=wrong-import-position

TIMES = 24
ORDINARY = "setpriv --bounding-set=-ipc_lock"   # a VMM of an ordinary user


def reached(t, f, a, address, uuid):
    out = a.run(f"/share/polled {uuid} {TIMES} 2>&1", timeout=900, check=False).out
    t.equal(out, f"ok {TIMES} lost 0 stopped 0\n", "it fits: each transfer that was done is there")
    f.wait_state("a", address, "free")


def out_of_reach(t, f, a, address, uuid):
    """@what is full: the one transfer into the DIMM is not done, instead of lost."""
    for what, before, mib in (("window", "", 200), ("memlock", f"ulimit -l 16384; {ORDINARY} ", 32)):
        a.run("dmesg -C")
        out = a.run(f"{before}/share/polled {uuid} 1 {mib} 2>&1", timeout=300, check=False).out
        t.equal(out, "ok 1 lost 0 stopped 1\n", f"{what} full: the device is stopped, and its VMM is told")
        said = a.run("dmesg").out
        t.ok("no way to RAM that was plugged in" in said and what in said, f"{what} full: and the log says why", said[-900:])
        f.wait_state("a", address, "free")


def guest_without_room(t, f, a, address, uuid):
    """A guest of QEMU's, whose programs would have the DIMM at once."""
    with f.guest("a", "full", memory="96M", maxmem="1G", cmdline=ONLINE, devices=[f.device(uuid)]) as g:
        t.equal(g.run("dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c", timeout=120).out.strip(), "65536",
                "a guest that fits works")
        dimm_in(g)
        f.wait_mdev("a", uuid, "failed", 60)
        t.ok("window" in f.mdev_state("a", uuid), "a DIMM that does not fit: the device has failed, and says why",
             f.mdev_state("a", uuid))
        t.ok(g.wait_event("STOP", 30), "and its VM is stopped")
    f.wait_state("a", address, "free")


def main():
    with Tap() as t, Cluster("small-window.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/polled", c.run_dir / "share/polled")
        f = Fabric(c)
        a = c.host("a")
        f.up()
        a.run("modprobe -q iommufd || :")
        a.wait_for("[ -c /dev/kvm ]")
        address = f.lend("b", "usb")
        uuid = f.mdev("a", address, "dlend-usb")
        with t.case("in reach"):
            reached(t, f, a, address, uuid)
        for host in (a, c.host("b")):
            host.expect(IOMMU_FAULT, "a device that is being stopped is still given memory out of its reach", must=False)
        with t.case("out of reach"):
            out_of_reach(t, f, a, address, uuid)
        f.mdev_stop("a", uuid)
        disk = f.lend("b", "nvme0")
        with t.case("a guest"):
            guest_without_room(t, f, a, disk, f.mdev("a", disk, "dlend-nvme"))


main()
