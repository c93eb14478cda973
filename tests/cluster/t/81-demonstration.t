#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""One lent disk with an operating system on it, used in turn wherever it is wanted, as in the paper's demonstration.

    host a (node 1): a VM; last, its own nvme driver ---- ab ---- host b (node 2): nvme0, a VM ---- bc ---- host c (node 3): a VM

Each VM has no other disk and boots from it, by one definition of mdevctl's, which all hosts have. Last, host a attaches
the disk by the same address, without a VM. Each user finds the files of all before it, beside the kernel that they booted,
and leaves one.
"""
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import attach, detach, node_of  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from osdisk import booted_from_disk  # noqa: E402  pylint: disable=wrong-import-position

FAT = ("vfat", "nls_cp437", "nls_ascii")
PARTS = ("base", "fat")     # of the initramfs on the disk
AT = "/mnt/lent"


class Disk:
    """The lent disk, and what its users have left on it."""

    def __init__(self, t, c, f):
        self.t, self.c, self.f = t, c, f
        self.image = c.host("b").disk_file("nvme0")
        self.address = f.lend("b", "nvme0")
        self.made = False
        self.sums = {}      # file: checksum
        self.epochs = []    # of its leases

    def prepare(self, line):
        """The operating system is installed once. Later only its command line changes, as each start has a name."""
        if self.made:
            self.c.linux_line(self.image, line, PARTS)
        else:
            self.c.linux_disk(self.image, line, PARTS)
        self.made = True

    def held_by(self, node, who):
        state, borrower, epoch = self.f.lender_state(self.address)
        self.t.equal((state, borrower), ("held", str(node)), f"{who} has the disk, says its lender")
        self.epochs.append(epoch)

    def visit(self, where, node, who, name):
        """Mounts what it booted from. where: a guest or a host."""
        where.run(f"mkdir -p {AT} && mount -t vfat {node} {AT}", timeout=120)
        files = where.run(f"cd {AT} && ls", timeout=120).out.split()
        self.t.ok({"vmlinuz", "syslinux.cfg"} <= set(files), f"{who} finds the operating system", str(files))
        if self.sums:
            found = where.run(f"cd {AT} && sha256sum *.dat", timeout=240).out.split()
            self.t.equal(dict(zip(found[1::2], found[::2])), self.sums, f"{who} finds the files of all before it")
        # Not more at once than the emulated window carries within a heartbeat (README.md)
        out = where.run(f"cd {AT} && dd if=/dev/urandom of={name} bs=16k count=4 2>/dev/null && sha256sum {name}; "
                        f"cd / && umount {AT}", timeout=240).out
        self.sums[name] = out.split()[0]
        there = self.c.linux_file(self.image, name)
        self.t.equal(hashlib.sha256(there).hexdigest(), self.sums[name], f"{who} leaves a file, which is on the lender's disk")


def in_a_vm(t, f, disk, host, uuid, who):
    f.mdev_start(host, uuid)
    with f.guest(host, f"on-{host}", kernel=disk.prepare, memory="128M", modules=("nvme", *FAT), timeout=400,
                 devices=[f.device(uuid, ",bootindex=1")]) as g:
        disk.held_by(f.node[host], who)
        booted_from_disk(t, g)
        disk.visit(g, "/dev/nvme0n1", who, f"{host}.dat")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    f.wait_state(host, disk.address, "free")
    f.mdev_stop(host, uuid)


def natively(t, f, disk, a):
    a.load_modules("dlend_native")
    a.run("modprobe nvme")
    attach(t, f, disk.address, "nvme")
    disk.held_by(1, "the host itself")
    disk.visit(a, node_of(a, disk.address), "the host itself", "native.dat")
    detach(t, f, disk.address)


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        disk = Disk(t, c, f)
        uuid, definition = f.define("a", disk.address, "dlend-nvme")
        for name in "bc":
            f.take_definition(name, disk.address, uuid, definition)
        for host, who in (("a", "a VM on host a"), ("c", "a VM on host c"), ("b", "the lender's own VM")):
            with t.case(who):
                in_a_vm(t, f, disk, host, uuid, who)
        with t.case("attached, without a VM"):
            natively(t, f, disk, c.host("a"))
        t.ok(len(disk.epochs) == 4 and disk.epochs == sorted(set(disk.epochs)), "these were four leases, one after the other", str(disk.epochs))
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
