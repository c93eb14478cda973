#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a borrower gave up is out of its device's reach, whatever is plugged into the group meanwhile; and a borrower
whose peer-to-peer leads to devices that it invents.

    host a (node 1): a program that only holds one function ---- ab ---- host b (node 2): twins, two functions

The runner writes into b's ring what host a would send.
"""
import shutil
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from forge import CONTROL, DMA_MAP, P2P_MAP, PAGE, READ_WRITE, Forge, dma_map  # noqa: E402  pylint: disable=wrong-import-position

DMA_UNMAP, P2P_UNMAP = 10, 21       # enum dlend_msg_type
BY_OFFSET = 1                       # DLEND_P2P_F_OFFSET
WINDOW = 1 << 30                    # ntbsim's own
TERA = 1 << 40
MAPS_MAX = 32 * 6                   # LEND_MAPS_MAX of lender/p2p.c: the BARs of so many devices
AT_ONCE = 8                         # calls of one device that are under way


def p2p(target, gpa, size, offset=CONTROL):
    """BAR 0 of a device of node 9, which there is not, by way of host a's aperture."""
    return struct.pack("<QQQIIIHHHH", gpa, size, offset, BY_OFFSET, READ_WRITE, 1, target, 9, 0, 0)


class Borrower:
    """A program of a that holds the first of the twins, and what is forged in its host's name."""

    def __init__(self, c):
        self.f = Fabric(c)
        self.b = c.host("b")
        self.f.up()
        self.twin = [self.b.bdf("twins", n) for n in range(2)]
        self.b.run(f"echo 1 >/sys/bus/pci/devices/{self.twin[1]}/remove")
        self.address = self.f.lend("b", "twins")
        self.uuid = self.f.mdev("a", self.address, "dlend-nvme")
        self.debugfs = self.f.lender_of(self.address)[1]
        self.forge, self.epoch = None, 0

    def send(self, kind, payload):
        self.forge.send(kind, self.address, self.epoch, payload)

    def mapped(self):
        return self.f.domain(self.address)["mapped_bytes"]

    def wait_mapped(self, want):
        self.b.wait_for(f"grep -qx 'mapped_bytes: {want}' {self.debugfs}/dma", 30)

    def wait_maps(self, want):
        self.b.wait_for(f"grep -qx 'maps: {want}' {self.debugfs}/p2p", 30)


def plugged_in(t, x):
    """A map is older than the other function of the group: giving it up ends it all the same."""
    before, at = x.mapped(), WINDOW // 2
    x.send(DMA_MAP, dma_map([(TERA, 16 * PAGE, at)]))
    x.wait_mapped(before + 16 * PAGE)
    group = f"/sys/bus/pci/devices/{x.twin[0]}/dlend/group"
    t.ok("functions 1 bound 1" in x.b.run(f"cat {group}").out, "one function is lent, and its guest's memory mapped")
    x.b.run(f"""echo 1 >/sys/bus/pci/rescan
        cd /sys/bus/pci/devices/{x.twin[1]} && echo dlend-lender >driver_override &&
        echo {x.twin[1]} >/sys/bus/pci/drivers/dlend-lender/bind""", timeout=60)
    # What a lease is of does not change under it.
    x.b.wait_for(f"grep -q 'functions 1 bound 2' {group}", 30)
    t.equal(x.f.lender_state(x.address)[:2], ("held", "1"), "another one is plugged into its group, which stays lent")
    x.send(DMA_UNMAP, dma_map([(TERA, 16 * PAGE, at)]))
    x.wait_mapped(before)
    t.passed("what was mapped before is unmapped when the borrower gives it up")
    x.send(DMA_MAP, dma_map([(TERA, 16 * PAGE, at)]))
    x.wait_mapped(before + 16 * PAGE)
    x.send(DMA_UNMAP, dma_map([(TERA, 16 * PAGE, at)]))
    x.wait_mapped(before)
    t.passed("and so is what was mapped after")


def invented(t, x):
    """Targets that nobody has, at addresses that cost a page table each."""
    before = x.mapped()
    x.send(P2P_MAP, p2p(0, 2 * TERA, WINDOW // 2))
    x.wait_maps(1)
    x.send(P2P_MAP, p2p(1, 3 * TERA, WINDOW - CONTROL))
    for n in range(2, MAPS_MAX + AT_ONCE, AT_ONCE):
        for target in range(n, n + AT_ONCE):
            x.send(P2P_MAP, p2p(target, 4 * TERA + (target << 30), PAGE))
        # One that is there, and does not count: of one device they come in order.
        if n + AT_ONCE < MAPS_MAX:
            x.wait_maps(n + AT_ONCE - 1)
        else:
            x.wait_maps(MAPS_MAX)
    t.equal(x.mapped(), before + WINDOW // 2 + (MAPS_MAX - 1) * PAGE,
            "a window is mapped for peer-to-peer once, and no more BARs than a VM has")
    x.send(P2P_UNMAP, p2p(0, 2 * TERA, WINDOW // 2))
    x.wait_maps(MAPS_MAX - 1)
    x.wait_mapped(before + (MAPS_MAX - 1) * PAGE)
    t.passed("the last ones were refused, and what is given up goes")
    # Guest memory comes first: all that is in its way goes.
    x.send(DMA_MAP, dma_map([(4 * TERA + (2 << 30), PAGE, WINDOW // 2)]))
    x.wait_maps(MAPS_MAX - 2)
    t.passed("guest memory takes the place of a BAR that is there")


def main():
    with Tap() as t, Cluster("neighbours.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/registers", c.run_dir / "share/registers")
        x = Borrower(c)
        a = c.host("a")
        a.run("rm -f /tmp/go")
        job = a.spawn(f"/share/registers mdev {x.uuid} readrq 2 >/tmp/holds 2>&1")
        a.wait_for("grep -q ready /tmp/holds", 60)
        x.epoch = x.f.lender_state(x.address)[2]
        with Forge(c, "ab", "b") as x.forge:
            with t.case("a function is plugged into the group"):
                plugged_in(t, x)
            with t.case("peer-to-peer to what is invented"):
                invented(t, x)
        x.f.wait_links("a", 120)
        a.run("touch /tmp/go")
        job.wait(60, check=False)
        x.f.wait_state("a", x.address, "free", 90)
        t.equal(x.mapped(), 0, "the link begins anew: nothing is mapped any more")
        t.equal(x.b.run(f"sed -n 's/^maps: //p' {x.debugfs}/p2p").out.strip(), "0", "the device is free, and reaches nobody")
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(x.b.complaints(), [], "host b's kernel has no complaint")


main()
