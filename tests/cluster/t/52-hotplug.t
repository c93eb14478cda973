#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""RAM that comes while a lent device is used, and is used at once; nobody writes `rescan`.

    host a (node 1): a VMM of our own ------ ab ------ host b (node 2): nvme0, nvme1

A write of the disk's to memory that it cannot reach yet is lost without a word: that the page is as it was shows it, and
a fault of the lender's IOMMU, which no host may have logged at the end.
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

SETTINGS = "/sys/module/dlend_mdev/parameters"


def added(t, f, a, address, uuid, how, second=""):
    """Memory comes and goes in turn, and the disk writes to it at once; the second one, if there is one."""
    times = 20
    out = a.run(f"/share/hotadd {uuid} {times} {how} {second}", timeout=300, check=False).out
    how += ", two devices" if second else ""
    said = re.match(rf"ok {times} lost (\d+) longest (\d+) slot (\d+)\n$", out)
    t.ok(said and said.group(1) == "0", f"{how}: {times} times, and no write was lost", out)
    if said:
        t.diag(f"{how}: longest time from VFIO's mapping to the write {int(said.group(2)) / 1000:.1f} ms, "
               f"longest call of KVM's for a slot {int(said.group(3)) / 1000:.1f} ms")
    f.wait_state("a", address, "free", 30)
    t.equal(f.stats("a", uuid)["pinned_bytes"], 0, f"{how}: no page is pinned afterwards")


def found_by_rescan(t, f, a, address, uuid):
    """Nobody looks but a rescan, which finds it with the gate open: it is to shut the gate before."""
    a.run(f"echo 0 >{SETTINGS}/look_ms")
    before = f.stats("a", uuid)["grows"]
    script = (f"/share/hotadd {uuid} 5 blocks & while kill -0 $! 2>/dev/null; do "
              f"echo 1 >/sys/bus/mdev/devices/{uuid}/dlend/rescan; sleep 0.1; done; wait $!")    # pace
    out = a.run(script, timeout=300, check=False).out
    t.ok(out.startswith("ok 5 lost 0 "), "found by a rescan: no write was lost", out)
    t.equal(f.stats("a", uuid)["grows"] - before, 5, "and each time the gate was shut before the RAM was pinned")
    a.run(f"echo 4 >{SETTINGS}/look_ms")
    f.wait_state("a", address, "free", 30)


def comes_late(t, f, a, address, uuid):
    """A second block comes while the lender is told of the first: the gate opens when both are in reach."""
    b, patience = f.host("b"), "/sys/module/dlend_core/parameters/call_timeout_ms"
    # Looks are rare, so that the next one does not find the second block before the disk writes.
    was = a.run(f"cat {patience}; echo 20000 >{patience}; echo 1000 >{SETTINGS}/look_ms; rm -f /tmp/go").out.strip()
    program = a.spawn(f"/share/hotadd {uuid} 1 late >/tmp/late 2>&1")
    a.wait_for("grep -q ready /tmp/late", 60)
    with b.stands_still():
        a.run("touch /tmp/go")
        a.wait_for("grep -q mapped /tmp/late", 60)
    program.wait(120)
    out = a.run(f"cat /tmp/late; echo {was} >{patience}; echo 4 >{SETTINGS}/look_ms").out
    t.ok("ok 1 lost 0 " in out, "a block that comes while the lender is told of another: no write was lost", out)
    f.wait_state("a", address, "free", 30)


def at_rest(t, f, a, uuids):
    """One thread and one look for a VM, not for each device of it; and few."""
    for some in (uuids[:1], uuids):
        out = a.run(f"/share/hotadd {some[0]} 10 rest {' '.join(some[1:])}", timeout=120, check=False).out
        said = re.match(r"ok 10 wakeups (\d+) looks (\d+) ms (\d+)\n$", out)
        per_second = (int(said.group(1)) + int(said.group(2))) * 1000 / int(said.group(3)) if said else None
        t.ok(said and 0 < per_second <= 20, f"a VM at rest with {len(some)} devices: 20 wake-ups a second at most",
             f"{out}{per_second} a second")
        for uuid in some:
            f.wait_mdev("a", uuid, "idle")


def refused(t, f, a, address, uuid):
    """What cannot be lent to is told in words of its own, and is no hole in silence."""
    for how, words in (("secret", "guest RAM at 0x100000000 cannot be pinned for long"),
                       ("v1", "VFIO container of version 1")):
        out = a.run(f"dmesg -C; /share/hotadd {uuid} 1 {how}", timeout=60, check=False).out
        t.equal(out, "dead\n", f"{how}: the guest reads 0xff")
        t.ok(words in a.run("dmesg").out, f"{how}: and the log says why: {words}", a.run("dmesg").out[-900:])
        f.wait_state("a", address, "free", 30)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/hotadd", c.run_dir / "share/hotadd")
        f = Fabric(c)
        a = c.host("a")
        # A lender that stands still for a call keeps its session.
        f.up(heartbeat_timeout_ms=30000)
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        a.run(f"modprobe -q iommufd; echo 0 >{SETTINGS}/rescan_s")    # what is found is found otherwise
        a.wait_for("[ -c /dev/kvm ]")
        with t.case("memory slots"):
            added(t, f, a, address, uuid, "slots")
        with t.case("blocks in a slot"):
            added(t, f, a, address, uuid, "blocks")
        for how in ("off", "asleep"):
            with t.case(f"blocks while the device is {how}"):
                added(t, f, a, address, uuid, how)
        with t.case("comes late"):
            comes_late(t, f, a, address, uuid)
        with t.case("found by a rescan"):
            found_by_rescan(t, f, a, address, uuid)
        other = f.lend("b", "nvme1")
        second = f.mdev("a", other, "dlend-nvme")
        with t.case("blocks in a slot, of a VM with two devices"):
            for how in ("blocks", "off", "asleep"):
                added(t, f, a, address, uuid, how, second)
                f.wait_state("a", other, "free", 30)
        with t.case("at rest"):
            at_rest(t, f, a, [uuid, second])
        f.mdev_stop("a", second)
        with t.case("refused"):
            refused(t, f, a, address, uuid)
        f.mdev_stop("a", uuid)


main()
