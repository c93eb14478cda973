#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Where attached devices are in a host's PCI tree: BARs in a crowded window, and equal numbers in one IOMMU group.

    host a (node 1) ------ ab (128 MiB) ------ host b (node 2): three devices with a BAR of 32 MiB, one with 64 MiB;
                                               two edu below a switch without ACS
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import first_register, pci, where  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

EDU_IDENT = "0x010000ed"


def crowded(t, f, a):
    """The lender finds no place for a BAR that is a multiple of its size, but one that is not."""
    lent = {port: f.lend("b", port) for port in ("one", "two", "three", "large")}
    for port in ("one", "two", "three"):
        f.dlend("a", f"attach {lent[port]}", timeout=120)
    f.dlend("a", f"detach {lent['one']} {lent['two']}", timeout=120)
    f.dlend("a", f"attach {lent['large']}", timeout=120)
    device = f"/sys/bus/pci/devices/{pci(lent['large'])}"
    start, end, _ = (int(word, 16) for word in a.run(f"sed -n 3p {device}/resource").out.split())
    t.equal(end + 1 - start, 64 << 20, "a BAR of 64 MiB has a place")
    t.ok(start % (64 << 20), "which is no multiple of its size", hex(start))
    t.equal(a.run(f"echo 1 >{device}/enable", check=False).status, 0, "its driver can enable it")
    out = a.run(f"busybox devmem {start + (48 << 20):#x} 32 0x12345678; busybox devmem {start + (48 << 20):#x} 32").out.strip()
    t.equal(out, "0x12345678", "and reaches its memory")
    f.dlend("a", f"detach {lent['large']} {lent['three']}", timeout=120)
    for address in lent.values():
        f.wait_state("a", address, "free")


def same_number(t, f, a, b):
    """Both are 00.0 of their buses on the lender; they have one lease, and so one bus."""
    bdfs = sorted(b.run("for d in /sys/bus/pci/devices/*; do [ $(cat $d/vendor)$(cat $d/device) = 0x12340x11e8 ] && basename $d; done; :").out.split())
    t.equal([bdf[-4:] for bdf in bdfs], ["00.0", "00.0"], "two functions have one number on two buses")
    f.dlend("b", f"lend --group {bdfs[0]}", timeout=120)
    lent = [f"d0002:{bdf[5:]}" for bdf in bdfs]
    for address in lent:
        f.wait_state("a", address, "free")
    f.dlend("a", f"attach {lent[0]}", timeout=120)
    found = [where(a, address) for address in lent]
    t.ok(len(set(found)) == 2 and "no" not in found, "attached, both are there", str(found))
    for device in found:
        t.equal(first_register(a, device), EDU_IDENT, f"{device}: its registers are reached")
    f.dlend("a", f"detach {lent[1]}", timeout=120)
    for address in lent:
        f.wait_state("a", address, "free")
    t.passed("and both are back")


def main():
    with Tap() as t, Cluster("place-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        a.load_modules("dlend_native")
        a.run("echo 16 >/sys/module/dlend_native/parameters/dma_mib")
        with t.case("a crowded window"):
            crowded(t, f, a)
        with t.case("equal numbers"):
            same_number(t, f, a, b)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
