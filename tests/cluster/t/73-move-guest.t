#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A Linux guest of QEMU's moves from host to host while four programs write to its lent disk, which stays.

    host a (node 1): the guest at first ---- ab ---- host b (node 2): nvme0
           \\------ ac ---- host c (node 3): the guest later ---- bc ---- host b

71-move has a VMM of our own, which is faster, and 79-live has libvirt; here is QEMU alone, by its monitor and a file.
DLEND_LONG=1: 20 round trips.
"""
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from blocks import Writers  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from monitor import THERE_AND_BACK, Moving  # noqa: E402  pylint: disable=wrong-import-position

TRIPS = 20 if os.environ.get("DLEND_LONG") == "1" else 1
BLOCK = 512
# 8 MiB of the disk for each of the programs
PLACES = [("nvme0n1", 16384 * writer) for writer in range(4)]
SAME = "cat /proc/sys/kernel/random/boot_id; dmesg | grep -c nvme; readlink -f /sys/class/nvme/nvme0/device"


def works_on(t, m, writers):
    writers.go_on(m.vm)
    t.equal(writers.lost(m.vm), "", "all of them write on, and no block was refused")


def asked(host):
    """What a borrower has asked its lender to do to a device's DMA."""
    return re.findall(r"^msg_(?:QUIESCE|RUN|BUS_MASTER): sent (\d+)", host.run("cat /sys/kernel/debug/dlend/links/*:*").out, re.M)


def pauses(t, m, a, writers):
    """Nobody has said that the guest moves."""
    before = m.states(), asked(a)
    for _ in range(3):
        m.vm.qmp("stop")
        m.vm.qmp("cont")
    works_on(t, m, writers)
    t.equal((m.states(), asked(a)), before, "a pause costs nothing: same lease, and no word of it to the lender")


def on_the_disk(disk):
    """How many blocks of each program are there, one after the other, as the disk itself has them."""
    with open(disk, "rb") as file:
        data = file.read()
    counts = []
    for _, first in PLACES:
        count = 0
        while data.startswith(b"%08d" % (count + 1), (first + count + 1) * BLOCK):
            count += 1
        counts.append(count)
    return counts


def moves(t, m, a, writers, disk):
    with t.case("a guest with a disk"):
        m.begin("a")
        m.vm.wait_for("[ -b /dev/nvme0n1 ]", 60)
        same = m.vm.run(SAME).out
        writers.begin(m.vm)
        works_on(t, m, writers)
        pauses(t, m, a, writers)
    for trip in range(TRIPS):
        for source, to in THERE_AND_BACK:
            with t.case(f"trip {trip + 1}: {source} to {to}"):
                m.move(source, to)
                works_on(t, m, writers)
                t.equal(m.vm.run(SAME).out, same, "the guest: same boot, same device, no message of its driver")
    writers.check(t, m.vm)
    last = writers.last(m.vm)
    m.vm.shutdown()
    t.equal([count >= known for count, known in zip(on_the_disk(disk), last)], [True] * len(last),
            "its lender's disk has all of them when the guest is gone", f"{last}")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        disk = f.lend("b", "nvme0")
        with Moving(t, f, {disk: "dlend-nvme"}, memory="128M") as m:
            moves(t, m, c.host("a"), Writers(PLACES, size=BLOCK), c.host("b").disk_file("nvme0"))
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
