#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VM whose only disk is lent boots Linux from it: SeaBIOS's NVMe driver, a boot loader, the kernel's driver.

    host a (node 1): a guest without a kernel of QEMU's ------ ab ------ host b (node 2): nvme0

What the loader reads it reads by calls to the firmware (INT 13h), so the firmware's driver has the device until
the kernel does.
"""
import hashlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import LINUX_DISK, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from osdisk import booted_from_disk  # noqa: E402  pylint: disable=wrong-import-position

MIB = 1 << 20
MARK, ROOM = LINUX_DISK + 4 * MIB, LINUX_DISK + 8 * MIB     # on the disk: what the guest reads, where it writes

READ = "dd if=/dev/nvme0n1 bs=1M skip={} count=1 iflag=direct 2>/dev/null | sha256sum"
# In pieces: while host b's QEMU reads what a command is to write, over the bridge, b's processors wait for it, and with them the
# heartbeats: for 14 s for 1 MiB, on a machine that has nothing else to do and whose own processors sleep in between.
PIECE = 64 << 10
WRITE = ("dd if=/dev/urandom of=/tmp/data bs=1M count=1 2>/dev/null; "
         f"dd if=/tmp/data of=/dev/nvme0n1 bs={PIECE} seek={ROOM // PIECE} oflag=direct 2>/dev/null; sha256sum </tmp/data")


def device_reads(b):
    """Bytes that the disk's device has read from its image, by whose command ever."""
    blocks = {block["device"]: block["stats"] for block in b.qmp("query-blockstats")}
    return blocks["disk-nvme0"]["rd_bytes"]


def firmware(t, f, address, g):
    """Until a loader runs that the firmware found; the lease."""
    g.wait_console("SYSLINUX", 180)
    lease = f.lender_state(address)
    t.equal(lease[:2], ("held", "1"), "a boot loader comes from the lent disk, by a lease that firmware took")
    return lease


def linux(t, f, b, address, g, lease, mark):
    booted_from_disk(t, g)
    t.equal(g.run(READ.format(MARK // MIB), timeout=240).out.split()[0], hashlib.sha256(mark).hexdigest(),
            "the kernel's own driver reads the mark on it")
    wrote = g.run(WRITE, timeout=240).out.split()[0]
    with open(b.disk_file("nvme0"), "rb") as disk:
        disk.seek(ROOM)
        t.equal(hashlib.sha256(disk.read(MIB)).hexdigest(), wrote, "and writes to it")
    t.equal(f.lender_state(address), lease, "by the lease that firmware took: it was not given back between them")
    g.reboot()
    t.equal(g.run(READ.format(ROOM // MIB), timeout=240).out.split()[0], wrote,
            "rebooted, from the disk as before, it finds there what it wrote")
    t.equal(f.lender_state(address), lease, "by the same lease still")


def boots(t, f, c, b, address, uuid):
    mark = os.urandom(MIB)
    loads = []

    def prepare(line):
        with open(b.disk_file("nvme0"), "r+b") as disk:
            disk.seek(MARK)
            disk.write(mark)
        loads.append(c.linux_disk(b.disk_file("nvme0"), line))

    f.trace_clear("b")
    before = device_reads(b)
    with f.guest("a", "linux", wait=False, kernel=prepare, memory="128M",
                 devices=[f.device(uuid, ",bootindex=1")]) as g:
        lease = firmware(t, f, address, g)
        begin = time.monotonic()
        g.wait_ready(300)
        took = time.monotonic() - begin - float(g.run("cat /proc/uptime").out.split()[0])
        read = device_reads(b) - before
        c.say(f"{loads[0] / MIB:.1f} MiB loaded in {took:.0f} s, {loads[0] / MIB / took:.1f} MiB/s; "
              f"the device read {read / MIB:.1f} MiB")
        t.ok(read >= loads[0], "Linux is up, and the device has read all of kernel and initramfs", f"{read} {loads}")
        linux(t, f, b, address, g, lease, mark)
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    return lease


def leases(f, address):
    """What became of them: [(what, epoch)]."""
    return [(line.split(address)[1].split()[0], int(fields["epoch"])) for name, fields, line in f.trace("b", address)
            if name == "dlend_lease"]


def resets(f, address):
    """That the lender did when it got the device back."""
    return [line for name, _, line in f.trace("b", f"{address} return") if name == "dlend_reset"]


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        free, pinned = (f.free("a"), f.free("b")), f.pinned("a")
        with t.case("Linux boots from the lent disk: to the end"):
            lease = boots(t, f, c, b, address, uuid)
            f.wait_state("a", address, "free")
            t.equal(leases(f, address), [("grant", lease[2]), ("return", lease[2])],
                    "the guest is off: it was one lease, given once and returned once")
            done = resets(f, address)
            t.ok(len(done) == 1 and "status=0" in done[0], "and the device was reset then", "\n".join(done))
            t.equal(f.lender_state(address)[0], "free", "the disk is free")
            t.equal((f.wait_free("a", free[0]), f.wait_free("b", free[1])), free,
                    "and so is what it took of both hosts")
            t.equal(f.wait_pinned("a", pinned), pinned, "with no page pinned, as the kernel counts them")
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
