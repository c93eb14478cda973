#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A guest that goes to sleep and wakes up: its drivers put the lent devices to sleep, and bring them back.

Up to the sleep itself (pm_test): after ACPI's S3 any guest boots anew here, one without devices, too (README.md).

    host a (node 1): guest ---- ab ---- host b (node 2): nvme0, nic
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

SUM = "dd if=/dev/nvme0n1 bs=64k count=4 iflag=direct 2>/dev/null | sha256sum"
TURNS = 2


def sleep_and_wake(t, g):
    """All of its drivers, to the last, late step; and back after 5 seconds."""
    said = g.run("echo core >/sys/power/pm_test && echo deep >/sys/power/mem_sleep && dmesg -c >/dev/null; "
                 "echo mem >/sys/power/state && echo awake; dmesg | grep -o 'Waiting for 5 second' | head -n 1", timeout=180, check=False).out
    t.ok("awake\n" in said, "the guest's drivers sleep, and are awake again", said)


def at_work(t, g, want, what):
    t.equal(g.run(SUM, timeout=120).out, want, f"{what}: the disk has what was written")
    g.wait_for("ip link show eth0 | grep -q LOWER_UP")
    t.passed(f"{what}: the NIC has its link")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        b = c.host("b")
        f.up()
        addresses = {port: f.lend("b", port) for port in ("nvme0", "nic")}
        uuids = [f.mdev("a", address, kind) for address, kind in zip(addresses.values(), ("dlend-nvme", "dlend-nic"))]
        with f.guest("a", "sleeper", modules=("nvme", "e1000e"), devices=[f.device(uuid) for uuid in uuids]) as g:
            g.wait_for("[ -b /dev/nvme0n1 ] && [ -e /sys/class/net/eth0 ]")
            want = g.run("dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null; "
                         "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null; sha256sum </tmp/data", timeout=240).out
            g.run("ip link set eth0 up")
            g.wait_for("ip link show eth0 | grep -q LOWER_UP")
            epochs = {address: f.lender_state(address)[2] for address in addresses.values()}
            at_work(t, g, want, "before")
            for turn in range(TURNS):
                with t.case(f"sleep {turn + 1}"):
                    f.trace_clear("b")
                    sleep_and_wake(t, g)
                    at_work(t, g, want, f"awake {turn + 1}")
                    for address, epoch in epochs.items():
                        t.equal(f.lender_state(address), ("held", "1", epoch), f"{address}: under the same lease")
            t.equal(g.complaints(), [], "the guest's kernel has no complaint")
            g.shutdown()
        for address in addresses.values():
            f.wait_state("a", address, "free")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
