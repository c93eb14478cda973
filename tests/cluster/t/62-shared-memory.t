#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VM's memory is pinned and mapped once, however many devices it borrows over one link.

    host a (node 1): one guest with both disks ------ ab ------ host b (node 2): nvme0, nvme1
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position

MIB = 1 << 20
NAMES = ("one", "two")
SERIAL = {"one": "DLEND-NVME-0", "two": "DLEND-NVME-1"}


class Pair:
    """The two disks, as host a and its guest know them."""

    def __init__(self, f, address, uuid):
        self.f, self.address, self.uuid = f, address, uuid

    def stats(self):
        return {name: self.f.stats("a", self.uuid[name]) for name in NAMES}

    def device(self, name, bus):
        return self.f.device(self.uuid[name], f",id={name},bus={bus}")

    def once(self, t, what):
        """Both see the same pins, each made through one of them."""
        st = self.stats()
        pinned = st["one"]["pinned_bytes"]
        t.ok(pinned > 200 * MIB and st["two"]["pinned_bytes"] == pinned, f"{what}: both use the same pins",
             f"{pinned}, {st['two']['pinned_bytes']}")
        t.equal(st["one"]["own_bytes"] + st["two"]["own_bytes"], pinned, f"{what}: each made through one of them")
        t.equal([st[name]["sharers"] for name in NAMES], [2, 2], f"{what}: and they know of each other")
        maps = [self.f.domain(self.address[name])["mapped_bytes"] for name in NAMES]
        t.equal(maps[0], maps[1], f"{what}: the lender maps the same for both")
        return st


def disk(g, name):
    """The guest's name for one of them, by its serial number."""
    return g.wait_for(f"grep -ls {SERIAL[name]} /sys/class/nvme/*/serial", 120).out.split("/")[4] + "n1"


def fio(g, name, size="256k"):
    """The command that writes at random and reads back."""
    device = disk(g, name)
    g.wait_for(f"[ -b /dev/{device} ]")
    return verified(f"/dev/{device}", size, offset="0", name=name)


def both_work(t, g, what):
    jobs = [g.spawn(fio(g, name)) for name in NAMES]
    t.equal([job.wait(300).status for job in jobs], [0, 0], f"{what}: fio verifies both disks at once")


def room(t, f, free, pinned):
    """What the window lacks since the guest began is its RAM once, and little else."""
    now = f.free("a")
    used = sum(free.values()) - sum(now.values())
    t.ok(pinned <= used < pinned * 3 // 2, "the window has room taken for the guest's RAM once",
         f"{used} bytes for {pinned}")
    return now


def handed_over(t, p, g):
    """The device that pinned goes; the other has its I/O under way and notices nothing."""
    before = p.stats()
    pinner, other = sorted(NAMES, key=lambda name: before[name]["own_bytes"], reverse=True)
    t.ok(before[pinner]["own_bytes"], f"disk {pinner} is the one that pinned", str(before[pinner]["own_bytes"]))
    job = g.spawn(fio(g, other, "1m"))
    g.qmp("device_del", id=pinner)
    g.wait_event("DEVICE_DELETED", 90, lambda data: data.get("device") == pinner)
    p.f.wait_state("a", p.address[pinner], "free")
    after = p.f.stats("a", p.uuid[other])
    t.equal(job.wait(300).status, 0, "the other's I/O went on, and is right")
    t.equal(after["own_bytes"], after["pinned_bytes"], "all pins are its own now")
    t.equal(after["pinned_bytes"], before[other]["pinned_bytes"], "and as many as before")
    t.equal(after["taken_bytes"] - before[other]["taken_bytes"], before[pinner]["own_bytes"], "taken over one by one")
    t.equal(after["sharers"], 1, "it is alone")
    t.equal([after[k] - before[other][k] for k in ("gate_shuts", "rebuilds", "dma_unmaps")], [0, 0, 0],
            "nothing was taken away from it meanwhile")
    t.ok([e for e in p.f.trace("a", "dlend_window") if "handed-over" in e[2]], "the tracepoints tell of it")
    return pinner


def in_the_guest(t, f, p, g, free):
    st = p.once(t, "after boot")
    now = room(t, f, free, st["one"]["pinned_bytes"])
    both_work(t, g, "after boot")
    pinner = handed_over(t, p, g)
    g.wait_for(f"! grep -qs {SERIAL[pinner]} /sys/class/nvme/*/serial")
    g.qmp("device_add", driver="vfio-pci", id=pinner, bus=f"hp{NAMES.index(pinner)}",
          sysfsdev=f"/sys/bus/mdev/devices/{p.uuid[pinner]}")
    disk(g, pinner)
    st = p.once(t, "plugged in again")
    t.equal(st[pinner]["own_bytes"], 0, "which pinned nothing")
    t.equal(f.free("a"), now, "and took no room for it")
    both_work(t, g, "plugged in again")
    g.reboot(timeout=300)
    p.once(t, "after a reboot")
    t.equal(f.free("a"), now, "which has the room it had")
    both_work(t, g, "after a reboot")
    for name in NAMES:
        g.spawn(f"dd if=/dev/{disk(g, name)} of=/dev/null bs=64k iflag=direct")
    g.kill(9)


def alone(t, f, p, free):
    """Two VMs share nothing, though it is the same link."""
    with f.guest("a", "vm1", devices=[p.device("one", "hp0")], ports=1) as g1:
        with f.guest("a", "vm2", devices=[p.device("two", "hp0")], ports=1) as g2:
            st = p.stats()
            t.equal([st[n]["own_bytes"] for n in NAMES], [st[n]["pinned_bytes"] for n in NAMES],
                    "two VMs: each has pins of its own")
            t.equal([st[n]["sharers"] for n in NAMES], [1, 1], "and shares them with nobody")
            used = sum(free.values()) - sum(f.free("a").values())
            t.ok(used >= sum(st[n]["pinned_bytes"] for n in NAMES), "and room of its own", str(used))
            g2.shutdown()
        g1.shutdown()


def link_lost(t, f, c, p, free):
    """Both go at once, in the middle of I/O; the guest and its host go on, and nothing of it stays."""
    with f.guest("a", "lost", ports=2, devices=[p.device("one", "hp0"), p.device("two", "hp1")]) as g:
        for name in NAMES:
            g.spawn(f"dd if=/dev/{disk(g, name)} of=/dev/null bs=64k iflag=direct")
        f.trace_clear("b")
        c.link("ab").command("down")
        for name in NAMES:
            c.host("b").wait_for(f"grep -qx free /sys/bus/pci/devices/0000{p.address[name][5:]}/dlend/state", 15)
        steps = [e[2] for e in f.trace("b") if e[0] == "dlend_fence"]
        fenced = [any(p.address[name][6:] in line and "dma_blocked" in line for line in steps) for name in NAMES]
        t.equal(fenced, [True, True], "the lender fences both, and has reset them", "\n".join(steps))
        for name in NAMES:
            f.wait_mdev("a", p.uuid[name], "failed")
        t.equal(g.run("echo alive").out.strip(), "alive", "the guest lost both, and goes on")
        c.link("ab").command("up")
        f.wait_links("a", 120)
        for name in NAMES:
            f.wait_state("a", p.address[name], "free")
        g.kill(9)
    t.equal(f.wait_free("a", free), free, "both are offered again, and the window is free")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        address = {"one": f.lend("b", "nvme0"), "two": f.lend("b", "nvme1")}
        p = Pair(f, address, {name: f.mdev("a", address[name], "dlend-nvme") for name in NAMES})
        free = f.free("a")
        with t.case("one VM, two disks"):
            with f.guest("a", "g", ports=2, tools=("fio",),
                         devices=[p.device("one", "hp0"), p.device("two", "hp1")]) as g:
                in_the_guest(t, f, p, g, free)
            for name in NAMES:
                f.wait_state("a", address[name], "free")
            t.equal(f.wait_free("a", free), free, "SIGKILL of QEMU in the middle of I/O: the window is free")
        with t.case("two VMs"):
            alone(t, f, p, free)
            for name in NAMES:
                f.wait_state("a", address[name], "free")
            t.equal(f.wait_free("a", free), free, "the window is free")
        with t.case("the link is lost"):
            link_lost(t, f, c, p, free)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
