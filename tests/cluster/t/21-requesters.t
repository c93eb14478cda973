#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A Switchtec switch lets those requests pass whose ids are in its table: lent functions' are, before any peer hears of them.

    host a (node 1) ------ ab, a Switchtec switch ------ host b (node 2): nvme0, nvme1, edu, an edu behind a PCI bridge

That the switch drops what is not in its table cannot be shown here (tests/ntbsim/README.md); that it is in the table can.
"""
import contextlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

HOST = {0x0000, 0x00f8}     # the root complex and host b's bridge, which the kernel's driver puts into the table


def rid(bdf):
    bus, device, function = bdf[5:7], bdf[8:10], bdf[11:]
    return int(bus, 16) << 8 | int(device, 16) << 3 | int(function)


class Table:
    """Of host b's partition."""

    def __init__(self, c):
        self.c, self.link = c, c.link("ab")

    def command(self, words=""):
        return self.link.command(f"requesters b {words}")

    def read(self, key):
        return json.loads(self.command())[key]

    def told(self):
        """For how many ids more the host says that there is room."""
        return int(self.c.host("b").run("cat /sys/class/dlend_link/*:*/requester_ids_free").out)

    def lent(self):
        return set(self.read("ids")) - HOST

    def wait_without(self, bdf, timeout=60):
        self.c.loop.wait(f"the id of {bdf} to go", lambda: rid(bdf) not in self.lent(), timeout)

    @contextlib.contextmanager
    def locked_by_peer(self):
        self.command("lock on")
        try:
            yield
        finally:
            self.command("lock off")

    def wait_attempts(self, more):
        """Until host b has tried to lock it so many times more, in vain each time."""
        before = self.read("attempts")
        self.c.loop.wait(f"{more} attempts to lock", lambda: self.read("attempts") >= before + more, 90)


def lend(f, b, bdf):
    """Only that: the peer may hear of it later, or never."""
    f.dlend("b", f"lend {bdf}", timeout=120)
    b.wait_for(f"grep -qx free /sys/bus/pci/devices/{bdf}/dlend/state", 60)
    return f"d0002:{bdf[5:]}"


def lend_and_hear(f, b, port):
    """Until host a has heard of it, too."""
    bdf = b.bdf(port)
    f.wait_state("a", lend(f, b, bdf), "free")
    return bdf


def reclaim(f, *bdfs):
    for bdf in bdfs:
        f.dlend("b", f"reclaim {bdf}", timeout=120)


def taken_back(f, table, bdf):
    reclaim(f, bdf)
    table.wait_without(bdf)


@contextlib.contextmanager
def link_down(f, b, table):
    table.link.command("down")
    b.wait_for("! grep -qx up /sys/class/dlend_link/*:*/state", 60)
    try:
        yield
    finally:
        table.link.command("up")
        f.wait_links("b")


def before_it_is_heard(t, f, b, table):
    bdf = b.bdf("nvme0")
    t.equal(table.lent(), set(), "nothing is lent, and the table has the host's own only")
    with table.locked_by_peer():
        address = lend(f, b, bdf)
        table.wait_attempts(2)
        t.ok(address not in f.offers("a"), "the peer has the table locked: it is tried again, and host a hears of no device")
        t.equal(table.lent(), set(), "  as its id is not there")
    f.wait_state("a", address, "free")
    t.equal(table.lent(), {rid(bdf)}, "unlocked: host a hears of the device, whose id is there")
    taken_back(f, table, bdf)
    t.passed("taken back: its id is gone")


def behind_a_bridge(t, f, b, table):
    bridge = b.bdf("bridge")
    bdf = b.run(f"cd /sys/bus/pci/devices/{bridge} && echo ????:??:??.?").out.strip()
    f.wait_state("a", lend(f, b, bdf), "free")
    t.equal(table.lent(), {rid(bdf), rid(f"{bdf[:8]}00.0")}, "behind a PCI bridge: its id is there, and the one that the bridge gives its requests")
    taken_back(f, table, bdf)
    t.equal(table.lent(), set(), "taken back: both are gone")


def refused(t, f, b, table):
    bdf = b.bdf("nvme0")
    table.command("refuse on")
    address = lend(f, b, bdf)
    b.wait_for("dmesg | grep -q 'the switch refuses a change of its table of requesters: error 0*3'")
    b.wait_for(f"dmesg | grep -q '{bdf}: not lent over link .*: its switch does not take it as a requester'")
    t.ok(address not in f.offers("a"), "refused by the switch: not lent over this link, and the log says so")
    t.equal((table.lent(), table.read("locked")), (set(), ""), "  the table is as it was, and nobody's")
    table.command("refuse off")
    reclaim(f, bdf)
    lend_and_hear(f, b, "nvme0")
    t.equal(table.lent(), {rid(bdf)}, "lent again, when the switch takes it")
    taken_back(f, table, bdf)


def forgotten(t, f, b, table):
    """A reset of the partition forgets all; a session begins after it."""
    bdf = lend_and_hear(f, b, "nvme0")
    with link_down(f, b, table):
        table.command("forget")
        t.equal(table.lent(), set(), "the switch has forgotten what it was told")
    f.wait_state("a", f.address("b", "nvme0"), "free")
    t.equal(table.lent(), {rid(bdf)}, "  the next session tells it again")
    taken_back(f, table, bdf)


def back_without_link(t, f, b, table):
    bdf = lend_and_hear(f, b, "nvme0")
    with link_down(f, b, table):
        t.ok(rid(bdf) in table.lent(), "the link goes down: the table stays as it is")
        taken_back(f, table, bdf)
        t.passed("  taken back: its id is gone, before the link comes back")


def back_while_locked(t, f, b, table):
    bdf = lend_and_hear(f, b, "nvme1")
    with table.locked_by_peer():
        reclaim(f, bdf)
        table.wait_attempts(2)
        t.ok(rid(bdf) in table.lent(), "taken back while the peer has the table locked: it is tried again")
    table.wait_without(bdf)
    t.passed("  unlocked: its id is gone")


def unloaded(t, f, b, table):
    bdf = lend_and_hear(f, b, "edu")
    b.run("rmmod dlend_ntb", timeout=90)
    t.ok(rid(bdf) not in table.lent(), "dlend_ntb unloaded: the id of a device that is lent is not left in the table")
    b.load_modules("dlend_ntb")
    f.wait_links("b")
    f.wait_state("a", f.address("b", "edu"), "free")
    t.ok(rid(bdf) in table.lent(), "  loaded again: it is there")
    taken_back(f, table, bdf)


def full(t, f, b, table):
    table.command(f"places {len(HOST) + 2}")
    t.equal(table.told(), 2, "a table with two places more than the host's own has room for two ids")
    disks = [lend_and_hear(f, b, name) for name in ("nvme0", "nvme1")]
    t.equal(table.told(), 0, "two devices are lent: for none")
    bdf = b.bdf("edu")
    address = lend(f, b, bdf)
    b.wait_for(f"dmesg | grep -q '{bdf}: not lent over link .*: it needs 1 of the 4 places in its switch.s table of requesters, and 0 are free'")
    t.ok(address not in f.offers("a"), "full: not lent over this link, and the log has the numbers")
    t.equal(table.lent(), {rid(disk) for disk in disks}, "  the others stay")
    reclaim(f, disks[0])
    f.wait_state("a", address, "free")
    t.equal(table.lent(), {rid(disks[1]), rid(bdf)}, "another one is taken back: then it is lent, by itself")
    reclaim(f, disks[1], bdf)
    table.wait_without(bdf)
    t.equal(table.lent(), set(), "all are taken back: the table has the host's own only")


def main():
    with Tap() as t, Cluster("switchtec.toml", tap=t) as c:
        f = Fabric(c)
        b, table = c.host("b"), Table(c)
        f.up()
        for name, case in {"in the table before it is heard of": before_it_is_heard, "behind a PCI bridge": behind_a_bridge,
                           "a switch that refuses": refused, "a partition that was reset": forgotten,
                           "taken back while the link is down": back_without_link,
                           "taken back while the table is locked": back_while_locked, "dlend_ntb unloaded": unloaded,
                           "a table that is full": full}.items():
            with t.case(name):
                case(t, f, b, table)
        t.equal(table.read("locked"), "", "nobody has the table locked")
        t.equal(c.complaints(), [], "no host's kernel has a complaint")


main()
