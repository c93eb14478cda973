#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""No interrupt is told before the data that the device wrote ahead of it, however late those are; nor is the end of a lease.

    host a (node 1): guest ---- ab ---- host b (node 2): nvme0

The emulated bridge delays what the disk writes into the guest's memory, by chance; what the lender's processor writes after
it, and its doorbells, do not wait for that.  A read through the window pushes what is late, as on any PCIe.
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually, polled  # noqa: E402  pylint: disable=wrong-import-position

READERS = 8
LEAVES = 8
BLOCK_WRITES = 8192     # of a block that a program leaves, of 8 bytes each
TIMEOUT_MS = 1500       # of the guest's driver, which then looks by itself
READBACK = "/sys/module/dlend_core/parameters/irq_readback"


def transfers(g, count):
    """Each block is written, and read back by itself."""
    g.run(f"""for i in $(seq {count}); do
                 dd if=/dev/urandom of=/tmp/block bs=4k count=1 2>/dev/null
                 dd if=/tmp/block of=/dev/nvme0n1 bs=4k seek=$i oflag=direct 2>/dev/null
                 dd if=/dev/nvme0n1 bs=4k skip=$i count=1 iflag=direct 2>/dev/null | cmp - /tmp/block || exit
         done""", timeout=240)


def taken_back(t, f, a, link, uuid, address):
    """Its VMM dies at work.  The memory goes when the lender has said that the device does not reach it any more: what
    comes after that is blocked by the borrower's IOMMU, which complains."""
    with f.guest("a", "dies", devices=[f.device(uuid)]) as g:
        g.wait_for("[ -b /dev/nvme0n1 ]")
        with link.late("b", "data"):
            before = link.came_late("b")
            g.run(f"for n in $(seq {READERS}); do "
                  "(while dd if=/dev/nvme0n1 of=/dev/null bs=256k count=64 iflag=direct; do :; done) >/dev/null 2>&1 & done")
            eventually(lambda: link.came_late("b") - before > 2000, True, 60)
            g.kill(9)
            f.wait_state("a", address, "free")
            t.ok(link.came_late("b") - before > 2000, "a disk is taken back while its writes are late")
    t.equal(a.complaints(), [], "nothing comes after that")


def left(t, f, a, link, uuid, address):
    """As a program that looks at its memory itself, and ends: the lender reads nothing there for an interrupt."""
    with link.late("b", "data"):
        before = link.came_late("b")
        for _ in range(LEAVES):
            a.run(f"/share/userdisk --leave {uuid}", timeout=60)
            f.wait_state("a", address, "free")
        t.ok(link.came_late("b") - before > LEAVES * BLOCK_WRITES / 2, f"{LEAVES} times a program leaves a disk that writes")
    t.equal(a.complaints(), [], "nothing comes when its memory is not the disk's any more")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        shutil.copy(BUILD / "guest/userdisk", c.run_dir / "share/userdisk")
        f.up()
        a, b, link = c.host("a"), c.host("b"), c.link("ab")
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("to the end"), f.guest("a", "g", devices=[f.device(uuid)]) as g:
            g.wait_for("[ -e /sys/block/nvme0n1/queue/io_timeout ]")
            g.run(f"echo {TIMEOUT_MS} >/sys/block/nvme0n1/queue/io_timeout")
            with link.late("b", "data"):
                before = link.came_late("b")
                transfers(g, 20)
                late = link.came_late("b") - before
                t.ok(late > 0, f"{late} writes of the disk were late")
                t.equal(polled(g), 0, "the guest's driver has found every completion when it was interrupted")
                b.run(f"echo 0 >{READBACK}")
                transfers(g, 2)
                t.ok(polled(g), "without the lender's read it would not have: this test can fail")
                b.run(f"echo 1 >{READBACK}")
            g.shutdown()
        f.wait_state("a", address, "free")
        with t.case("left"):
            left(t, f, a, link, uuid, address)
        with t.case("taken back"):
            taken_back(t, f, a, link, uuid, address)
        for name in "ab":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
