#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VMM does what it likes: nothing hangs, nothing stays pinned, and the next VMM has the device.

    host a (node 1): VMMs of its own ------ ab ------ host b (node 2): nvme0, nvme1
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

# Threads, MiB of each, turns, devices.  More threads than type1 makes rounds; more memory than one round unpins.
AT_ONCE = ((2, 1, 20, 1), (3, 32, 6, 2), (24, 4, 4, 1))


def at_once(t, f, uuid):
    """Threads unmap at the same moment, by the legacy container."""
    a = f.host("a")
    for threads, size, turns, devices in AT_ONCE:
        what = f"{threads} threads unmap {size} MiB each at once, {devices} devices"
        ran = a.run(f"/share/atonce {threads} {size} {turns} {' '.join(uuid[:devices])} 2>&1", timeout=300, check=False)
        t.equal(ran.out.strip(), "ok", what)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        shutil.copy(BUILD / "guest/atonce", c.run_dir / "share/atonce")
        f.up()
        c.host("a").wait_for("[ -c /dev/kvm ]")
        c.host("b").own_disks()
        address = [f.lend("b", "nvme0"), f.lend("b", "nvme1")]
        uuid = [f.mdev("a", at, "dlend-nvme") for at in address]
        free = f.free("a")
        with t.case("at once"):
            at_once(t, f, uuid)
            for at in address:
                f.wait_state("a", at, "free")
            t.equal(f.wait_free("a", free), free, "the window is free")
        for name in "ab":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
