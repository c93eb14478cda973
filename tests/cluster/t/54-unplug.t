#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Memory that a VM gives up or gets while its device works, and resets: the device is never lost.

    host a (node 1): a program that is its own VMM ---- ab ---- host b (node 2): edu
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DEBUG, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from wire import PATIENCE  # noqa: E402  pylint: disable=wrong-import-position

BLOCKS = 80         # one each 100 ms, which takes longer in all than what follows
SETTLE_S = 5        # of which a GiB takes two to be known to shrink
GATE_MS = 1000 * PATIENCE   # without progress; a slow kernel takes that long for one step of it
LARGE_MIB = 512


def unplugged(t, f, a, address, uuid):
    """Blocks above 4 GiB, where no firmware is at work: the guest notices nothing."""
    out = a.run(f"/share/unplug {uuid} {BLOCKS} from 0x100000000", timeout=120, check=False)
    t.equal(out.out, f"ok {BLOCKS} shut 0\n", "DMA goes on while blocks are unplugged, and the gate stays open")
    t.equal(f.stats("a", uuid)["pinned_bytes"], 0, "no page is pinned when it is closed")
    f.wait_state("a", address, "free")


def shrunk(t, f, a, address, uuid):
    """Blocks below 4 GiB may be firmware's doing: accesses wait for them, but not for ever."""
    out = a.run(f"/share/unplug {uuid} {BLOCKS} from 0x10000000", timeout=120, check=False)
    t.ok(out.out.startswith(f"ok {BLOCKS} shut "), "below 4 GiB, too, and for longer than a layout has to settle",
         out.out)
    f.wait_state("a", address, "free")


def large(t, f, a, address, uuid):
    """More memory than can be pinned in the time that an access waits for a device that does nothing."""
    timeout = "/sys/module/dlend_mdev/parameters/gate_timeout_ms"
    was = a.run(f"cat {timeout}; echo {GATE_MS} >{timeout}").out.strip()
    job = a.spawn(f"/share/unplug {uuid} {LARGE_MIB} large 2>&1")
    a.wait_for(f"grep -qx 'gate read' {DEBUG}/mdev/{uuid}/stats", 60, every=0.05)
    out = job.wait(180, check=False).out
    a.run(f"echo {was} >{timeout}")
    t.ok(out.startswith("ok "), "a build that takes longer than an access waits, but progresses, costs no device and no write", out)
    f.wait_state("a", address, "free")
    if out.startswith("ok ") and int(out.split()[1]) < GATE_MS * 1000:
        t.skip(f"this machine pins {LARGE_MIB} MiB in less than {GATE_MS} ms: not shown")


def joined(t, f, a, address, uuid):
    """A device that has used nothing leaves: what is pinned after that is still pinned once."""
    others = [f.lend("b", name) for name in ("nvme0", "nvme1")]
    uuids = [f.mdev("a", other, "dlend-nvme") for other in others]
    a.wait_for("[ -c /dev/kvm ]")
    out = a.run(f"/share/unplug {uuid} 1 beside {' '.join(uuids)}", timeout=60, check=False)
    t.equal(out.out, "ok 1 sharers 2 2\n", "the one that was there and the one that comes share their pins")
    for one in (address, *others):
        f.wait_state("a", one, "free")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/unplug", c.run_dir / "share/unplug")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "edu")
        uuid = f.mdev("a", address, "dlend-pci")
        a.run("modprobe -q iommufd || :")
        a.run(f"echo {SETTLE_S} >/sys/module/dlend_mdev/parameters/settle_s")
        free = f.free("a")
        with t.case("unplugged"):
            unplugged(t, f, a, address, uuid)
        with t.case("shrunk below 4 GiB"):
            shrunk(t, f, a, address, uuid)
        with t.case("reset"):
            out = a.run(f"/share/unplug {uuid} 3 resets", timeout=60, check=False)
            t.equal(out.out, "ok 3\n", "pins stay, and DMA works after each")
            f.wait_state("a", address, "free")
        with t.case("more than may be locked"):
            for blocks, what in ((1, "not a page of it fits"), (2, "a part of it fits")):
                out = a.run(f"/share/unplug {uuid} {blocks} short", timeout=60, check=False)
                t.ok(out.out.startswith("ok told 1 failed") and "memlock" in out.out,
                     f"{what}: the device is stopped, the VMM is told, and its state says why", out.out)
                f.wait_state("a", address, "free")
        with t.case("slow to pin"):
            large(t, f, a, address, uuid)
        with t.case("three devices"):
            joined(t, f, a, address, uuid)
        t.equal(f.wait_free("a", free), free, "as much of the window is free as before")
        t.equal(f.domain(address).get("mapped_bytes", 0), 0, "the lender maps nothing for the device")
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
