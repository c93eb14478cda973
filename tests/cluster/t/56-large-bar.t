#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""BARs of 2 GiB and 64 MiB: they fit into a large window, and a guest's accesses take few, large mappings.

    host a (node 1): guest ---- ab (4 GiB) ---- host b (node 2): large, middle (memory as a BAR)
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

MIB, GIB = 1 << 20, 1 << 30
SIZE = 2 * GIB
SLOT = 0x10
# As for host b (large-hosts.toml): SeaBIOS places 4 GiB and a little well, if that is a multiple of the largest
ROOM = "pcie-root-port,id=room,chassis=90,addr=0x1c,pref64-reserve={}G"
PLACES = (0, 4096, GIB - 64, GIB, SIZE // 2 + (64 << 20), SIZE - 64)
SMALLER, ITS_PLACES = 64 * MIB, (0, 4096, 2 * MIB - 64, 2 * MIB, 32 * MIB, 64 * MIB - 64)


def bar(host, bdf):
    """(first, last) address of BAR 2."""
    first, last = host.run(f"sed -n 3p /sys/bus/pci/devices/{bdf}/resource").out.split()[:2]
    return int(first, 16), int(last, 16)


def reaches(t, b, g, bdf, port="large", size=SIZE, places=PLACES):
    """What the guest writes is there for the device's own host, and the other way round."""
    g.run(f"echo 1 >/sys/bus/pci/devices/{bdf}/enable")
    first, last = bar(g, bdf)
    there, _ = bar(b, b.bdf(port))
    t.equal(last + 1 - first, size, f"the guest sees a BAR of {size >> 20} MiB")
    for n, place in enumerate(places):
        g.run(f"devmem {first + place:#x} 32 {0x51a50000 + n:#x}", timeout=60)
    wrote = [int(b.hmp(f"xp /1wx {there + place:#x}").split()[-1], 16) for place in places]
    t.equal(wrote, [0x51a50000 + n for n in range(len(places))], "what it writes, from end to end, is in the device")
    read = [int(g.run(f"devmem {first + place:#x} 32", timeout=60).out, 16) for place in places]
    t.equal(read, wrote, "  and is what it reads")


def faults(f, uuid):
    stats = f.stats("a", uuid)
    return {size: stats[f"bar2_faults_{size}"] for size in ("4k", "2m", "1g")}


def entries(t, f, uuid, before, size="1g", count=2):
    now = faults(f, uuid)
    made = {size: now[size] - before[size] for size in now}
    t.equal(made, {"4k": 0, "2m": 0, "1g": 0, size: count}, f"it is mapped by {size}, and once each: nothing page by page")


def cold(t, f, b, uuid, before):
    none = faults(f, uuid)
    with f.guest("a", "large", modules=(), tools=("programs",), memory="160M",
                 devices=[ROOM.format(1), f.device(uuid, f",id=large,addr={SLOT:#x}")]) as g:
        reaches(t, b, g, f"0000:00:{SLOT:02x}.0")
        entries(t, f, uuid, none)
        taken = sum(before.values()) - sum(f.free("b").values())
        t.ok(SIZE <= taken < SIZE + (64 << 20), "it takes its own size of the window, and little more", f"{taken >> 20} MiB")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()


def plugged(t, f, b, uuid):
    """Into a port that firmware has given room for it."""
    none = faults(f, uuid)
    with f.guest("a", "plug", modules=(), tools=("programs",), memory="160M", ports=1,
                 port_options=",pref64-reserve=3G") as g:
        g.qmp("device_add", driver="vfio-pci", id="large", bus="hp0", sysfsdev=f"/sys/bus/mdev/devices/{uuid}")
        g.wait_for("[ -e /sys/bus/pci/devices/0000:01:00.0/enable ]", 60)
        reaches(t, b, g, "0000:01:00.0")
        entries(t, f, uuid, none)
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()


def smaller(t, f, b):
    """Too small for an entry of 1 GiB."""
    address = f.lend("b", "middle")
    uuid = f.mdev("a", address, "dlend-pci")
    none = faults(f, uuid)
    with f.guest("a", "middle", modules=(), tools=("programs",), memory="160M",
                 devices=[f.device(uuid, f",id=middle,addr={SLOT:#x}")]) as g:
        reaches(t, b, g, f"0000:00:{SLOT:02x}.0", "middle", SMALLER, ITS_PLACES)
        entries(t, f, uuid, none, "2m", len({place // (2 * MIB) for place in ITS_PLACES}))
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    f.wait_state("a", address, "free")


def refused(t, f, b, before):
    address = f.lend("b", "huge")
    uuid = f.mdev("a", address, "dlend-pci")
    with f.guest("a", "huge", modules=(), tools=("programs",), memory="160M",
                 devices=[ROOM.format(3), f.device(uuid, f",id=huge,addr={SLOT:#x}")]) as g:
        bdf = f"0000:00:{SLOT:02x}.0"
        g.spawn(f"echo 1 >/sys/bus/pci/devices/{bdf}/enable; devmem {bar(g, bdf)[0]:#x} 32")
        f.wait_mdev("a", uuid, "failed", 60)
        state = f.mdev_state("a", uuid)
        t.ok("BARs do not fit into the window" in state, "a BAR as large as the whole window is refused", state)
        log = b.run("dmesg | grep -i window | tail -n 2").out
        t.ok("BAR 2 (4194304 KiB) does not fit" in log, "  and the lender's log has the sizes", log)
    f.wait_state("a", address, "free")
    t.equal(f.wait_free("b", before), before, "and nothing of the window is taken")


def main():
    with Tap() as t, Cluster("large-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "large")
        uuid = f.mdev("a", address, "dlend-pci")
        before = f.free("b")
        with t.case("there from the start"):
            cold(t, f, b, uuid, before)
        f.wait_state("a", address, "free")
        t.equal(f.wait_free("b", before), before, "which is free again afterwards")
        with t.case("plugged in"):
            plugged(t, f, b, uuid)
        f.wait_state("a", address, "free")
        with t.case("64 MiB"):
            smaller(t, f, b)
        with t.case("larger than the window"):
            refused(t, f, b, before)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")


main()
