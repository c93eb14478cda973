#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A host uses a device of another one with its own drivers, without a VM.

    host a (node 1): its own nvme and e1000e drivers ------ ab ------ host b (node 2): nvme0, pair
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

DISK = "/dev/$(basename /sys/bus/pci/devices/{0}/nvme/nvme*/nvme*n1)"


def attached(address):
    return f"/sys/bus/dlend/devices/{address}/attached"


def attach(t, f, a, address, driver):
    a.run(f"echo 1 >{attached(address)}", timeout=90)
    t.equal(a.run(f"cat {attached(address)}").out.strip(), address, "attached, with the offer's name")
    a.wait_for(f"[ \"$(basename $(readlink /sys/bus/pci/devices/{address}/driver))\" = {driver} ]", 60)
    t.passed(f"the kernel's own {driver} has it")
    t.equal(f.lender_state(address)[:2], ("held", "1"), "its lender says so")


def detach(t, f, a, address):
    a.run(f"echo 0 >{attached(address)}", timeout=90)
    t.ok(a.run(f"[ ! -e /sys/bus/pci/devices/{address} ]; echo $?").out.strip() == "0", "detached: it is gone")
    f.wait_state("a", address, "free")


def disk(t, f, a, b):
    address = f.lend("b", "nvme0")
    attach(t, f, a, address, "nvme")
    t.diag(a.run(f"lspci -vv -s {address} || lspci -vv -D | tail -50").out)
    where = DISK.format(address)
    a.wait_for(f"[ -b {where} ]", 60)
    sums = a.run(f"dd if=/dev/urandom of=/tmp/data bs=64k count=64 2>/dev/null && dd if=/tmp/data of={where} bs=64k oflag=direct "
                 f"2>/dev/null && dd if={where} bs=64k count=64 iflag=direct 2>/dev/null | sha256sum; sha256sum </tmp/data",
                 timeout=120).out.split()
    t.equal(sums[0], sums[2], "what is written is read again")
    t.diag(a.run("grep -i dlend /proc/interrupts; ls /sys/kernel/iommu_groups/; dmesg | tail -30").out)
    detach(t, f, a, address)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        with t.case("a disk"):
            disk(t, f, a, b)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
