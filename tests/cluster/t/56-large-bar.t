#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A BAR of 2 GiB: it fits into a large window, and a guest's accesses take few, large mappings.

    host a (node 1): guest ---- ab (8 GiB) ---- host b (node 2): large (memory as a BAR)
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from host import FEWER_ADDRESSES  # noqa: E402  pylint: disable=wrong-import-position

GIB = 1 << 30
SIZE = 2 * GIB
SLOT = 0x10
PLACES = (0, 4096, GIB - 4, GIB, SIZE // 2 + (64 << 20), SIZE - 4)


def bar(host, bdf):
    """(first, last) address of BAR 2."""
    first, last = host.run(f"sed -n 3p /sys/bus/pci/devices/{bdf}/resource").out.split()[:2]
    return int(first, 16), int(last, 16)


def reaches(t, b, g, bdf):
    """What the guest writes is there for the device's own host, and the other way round."""
    g.run(f"echo 1 >/sys/bus/pci/devices/{bdf}/enable")
    first, last = bar(g, bdf)
    there, _ = bar(b, b.bdf("large"))
    t.equal(last + 1 - first, SIZE, "the guest sees a BAR of 2 GiB")
    for n, place in enumerate(PLACES):
        g.run(f"devmem {first + place:#x} 32 {0x51a50000 + n:#x}", timeout=60)
    wrote = [int(b.hmp(f"xp /1wx {there + place:#x}").split()[-1], 16) for place in PLACES]
    t.equal(wrote, [0x51a50000 + n for n in range(len(PLACES))], "what it writes, from end to end, is in the device")
    read = [int(g.run(f"devmem {first + place:#x} 32", timeout=60).out, 16) for place in PLACES]
    t.equal(read, wrote, "  and is what it reads")


def entries(t, f, uuid):
    stats = f.stats("a", uuid)
    faults = {size: stats[f"bar2_faults_{size}"] for size in ("4k", "2m", "1g")}
    t.diag(str(faults))
    t.equal(faults["4k"], 0, "no mapping of 4 KiB: a large BAR is not mapped page by page")
    t.ok(1 <= faults["1g"] + faults["2m"] <= len(PLACES), "mappings of 2 MiB and 1 GiB, no more than were touched", str(faults))
    return faults


def main():
    with Tap() as t, Cluster("large-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "large")
        uuid = f.mdev("a", address, "dlend-pci")
        before = f.free("b")
        with f.guest("a", "large", modules=(), tools=("programs",), memory="96M", cpu=FEWER_ADDRESSES,
                     devices=[f.device(uuid, f",id=large,addr={SLOT:#x}")]) as g:
            reaches(t, b, g, f"0000:00:{SLOT:02x}.0")
            entries(t, f, uuid)
            taken = sum(before.values()) - sum(f.free("b").values())
            t.ok(SIZE <= taken < SIZE + (64 << 20), "it takes its own size of the window, and little more", f"{taken >> 20} MiB")
            t.equal(g.complaints(), [], "the guest's kernel has no complaint")
            g.shutdown()
        f.wait_state("a", address, "free")
        t.equal(f.wait_free("b", before), before, "which is free again afterwards")
        t.equal(a.complaints(), [], "host a's kernel has no complaint")


main()
