#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Two devices that belong together, a disk and edu of host b: one node at a time has them, also while a VM moves.

    host a (node 1) ---- ab ---- host b (node 2): nvme0, edu, each in an IOMMU group of its own
           \\----- ac ---- host c (node 3) ---- bc ---- host b
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from moves import Moves, vm  # noqa: E402  pylint: disable=wrong-import-position

WHO = "node 1 (a) has another device of set pair"
ROUNDS = 4


def sees(t, f, address, **want):
    """Host, and the state of a free device for it."""
    for name, state in want.items():
        f.wait_state(name, address, state, 30)
        t.passed(f"  to host {name} the other device is {state}")


def refused(t, f, disk, uuid):
    """Whatever node 3 tries.  uuid: of its mediated device, made before"""
    entry = f.offers("c")[disk]
    t.equal((entry["set"], entry["borrower"]), ("pair", 1), "dlend list names the set, and who has another device of it")
    t.equal(f.mdev_state("c", uuid), f"taken: {WHO}", "so says a mediated device")
    qemu = f.start_vm("c", uuid)
    t.ok(qemu.status == 1 and "busy" in qemu.out, "QEMU does not start", f"{qemu.status} {qemu.out}")
    t.ok(f"no VM can have the device now: {WHO}" in f.host("c").run("dmesg").out, "  the kernel says why")
    f.mdev_stop("c", uuid)
    for words in (f"attach {disk}", f"borrow {disk}", "borrow dlend-nvme"):
        r = f.dlend("c", f"{words} 2>&1", check=False, timeout=120)
        t.ok(r.status == 4 and WHO in r.out, f"dlend {words}: {WHO}", f"{r.status} {r.out}")


def one_has_both(t, f, disk, edu):
    uuid = f.mdev("c", disk, "dlend-nvme")
    f.dlend("a", f"attach {edu}", timeout=120)
    t.equal(f.lender_state(disk)[:2], ("kept", "1"), "node 1 has edu: to the lender's admin the disk is kept for it")
    sees(t, f, disk, a="free", b="kept", c="kept")
    refused(t, f, disk, uuid)
    f.dlend("a", f"attach {disk}", timeout=120)
    f.dlend("a", f"detach --force {edu}", timeout=120)
    t.equal(f.lender_state(disk)[:2], ("held", "1"), "node 1 gets the disk, too, and gives edu back")
    sees(t, f, edu, a="free", b="kept", c="kept")
    f.host("b").run(f"echo force >/sys/bus/pci/devices/0000{disk[5:]}/dlend/reclaim")
    sees(t, f, edu, c="free")
    f.wait_state("c", disk, "free", 30)
    t.passed("the disk is taken away from node 1: the set is free")


def at_once(t, f, disk, edu):
    """Nobody is told anything before both have asked, so the lender alone keeps them apart."""
    for _ in range(ROUNDS):
        for name, address in (("a", disk), ("c", edu)):
            f.wait_state(name, address, "free")
        jobs = [f.host(name).spawn(f"dlend attach {address}") for name, address in (("a", disk), ("c", edu))]
        for job in jobs:
            job.wait(120, check=False)
        held = [borrower for state, borrower, _ in (f.lender_state(address) for address in (disk, edu)) if state == "held"]
        t.ok(len(held) == 1, "nodes 1 and 3 ask for one device each at the same moment: one of them gets it", str(held))
        for name, address in (("a", disk), ("c", edu)):
            f.dlend(name, f"detach --force {address}", check=False, timeout=120)


def moving(t, m, edu):
    """The disk moves from node 1 to node 3; edu, which its VM has not used yet, goes with it."""
    f = m.f
    m.prepare("a")
    with vm(m, "a"):
        sees(t, f, edu, a="free", b="kept", c="kept")
        m.names("a", f.node["c"])
        sees(t, f, edu, a="free", b="kept", c="free")
        here = m.goes("a", "c")
        sees(t, f, edu, a="kept", b="kept", c="free")
        t.equal(f.lender_state(edu)[:2], ("kept", "3"), "  for node 3")
        m.ends(here, "c", "the VM goes on there")
    m.free("the VM has ended")
    sees(t, f, edu, a="free", b="free", c="free")
    for name in "ac":
        m.unprepare(name)


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        m = Moves(t, c)
        f, b = m.f, c.host("b")
        f.up(timeout=150)
        for name in "ac":
            f.host(name).load_modules("dlend_native")
        f.dlend("b", f"lend --set pair {b.bdf('nvme0')} {b.bdf('edu')}", timeout=120)
        m.disk, edu = f.address("b", "nvme0"), f.address("b", "edu")
        for address in (m.disk, edu):
            f.wait_state("a", address, "free")
            f.wait_state("c", address, "free")
        with t.case("one has both"):
            one_has_both(t, f, m.disk, edu)
        with t.case("at once"):
            at_once(t, f, m.disk, edu)
        with t.case("a VM moves"):
            moving(t, m, edu)
        with t.case("none"):
            f.dlend("a", f"attach {edu}", timeout=120)
            sees(t, f, m.disk, c="kept")
            f.dlend("b", f"lend --set none {b.bdf('nvme0')}", timeout=120)
            sees(t, f, m.disk, c="free")
            f.dlend("a", f"detach --force {edu}", timeout=120)
        for host in c.hosts.values():
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
