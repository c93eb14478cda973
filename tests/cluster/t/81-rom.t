#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A real option ROM, iPXE's, of a lent NIC: the guest's firmware finds it in the device, runs it, and it looks at the NIC.

It goes no further here: iPXE then waits for a key, and its clock stands still (README.md).

    host a (node 1): guest with firmware only ---- ab ---- host b (node 2): nic
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position


def main():
    with Tap() as t, Cluster("rom-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up()
        address = f.lend("b", "nic")
        uuid = f.mdev("a", address, "dlend-nic")
        # What it writes to the screen comes to the serial port
        with f.guest("a", "firmware", wait=False, kernel=False, memory="64M", extra=("-machine", "graphics=off"),
                     devices=[f.device(uuid, ",bootindex=1")]) as g:
            g.wait_console(r"iPXE \(http", 240)
            t.passed("the guest's firmware runs the ROM of the lent device")
            g.wait_console(r"Features: \w+", 240)
            t.passed("which has looked at its device")
            t.equal(f.lender_state(address)[:2], ("held", "1"), "so the guest has borrowed it")
        f.wait_state("a", address, "free")
        for name in "ab":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
