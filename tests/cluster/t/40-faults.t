#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Things that go wrong while a guest has the device.

    host a (node 1): guests ------ ab ------ host b (node 2): nvme0, nvme1
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

READ = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c"


def memlock(t, f, a, address, uuid):
    """Guest RAM that may not be pinned: the guest runs, the device says why it does not."""
    with f.guest("a", "small", wait=False, devices=[f.device(uuid)], modules=(), prefix="ulimit -l 16384;",
                 wrap=("setpriv", "--bounding-set=-ipc_lock")):
        f.wait_mdev("a", uuid, "failed")
        said = f.mdev_state("a", uuid)
        t.ok("memlock" in said, "a memlock limit that is too low is named", said)
        t.ok("hard_limit)" in said, "and what to do about it, in full", said)
        t.equal(f.lender_state(address)[:2], ("held", "1"), "the lease stays this VM's until it is off, as in any failure here")
    f.wait_state("a", address, "free")


def link_lost(t, f, c, a, b, address, uuid):
    with f.guest("a", "g1", cmdline="iomem=relaxed", devices=[f.device(uuid)]) as g:
        lose_the_link(t, f, c, a, b, address, uuid, g)


def lose_the_link(t, f, c, a, b, address, uuid, g):
    t.equal(g.run(READ, timeout=120).out.strip(), "65536", "the guest uses the disk")
    bar = g.run("cat /sys/class/nvme/nvme0/device/resource | head -n 1").out.split()[0]
    f.trace_clear("b")
    c.link("ab").command("down")
    b.wait_for(f"[ $(cat /sys/bus/pci/devices/0000{address[5:]}/dlend/state) = free ]", 60)
    f.wait_mdev("a", uuid, "failed", 60)
    events = [name for name, _, _ in f.trace("b")]
    t.ok("dlend_fence" in events, "the lender fenced the device")
    ask = f"devmem {bar} 32"
    zapped = f.stats("a", uuid)["dead_faults"]
    out = g.run(ask, timeout=60, check=False).out.strip().lower()
    t.equal(out, "0xffffffff", "the guest reads 0xff")
    t.ok(f.stats("a", uuid)["dead_faults"] > zapped, "from a page of its own, not from the window of a dead link")
    a.run("true")
    t.ok(g.run("echo alive").out.strip() == "alive", "the guest is alive, and so is its host")
    c.link("ab").command("up")
    f.wait_links("a", 120)
    f.wait_state("a", address, "free", 60)
    t.passed("the link comes back and the device is offered again")
    out = g.run(ask, timeout=60, check=False).out.strip().lower()
    t.equal(out, "0xffffffff", "which the guest, whose lease has ended, does not reach again")


def reclaim_held(t, f, a, b, address, uuid):
    with f.guest("a", "g2", devices=[f.device(uuid)]) as g:
        g.run(READ, timeout=120)
        t.equal(f.lender_state(address)[0], "held", "borrowed")
        r = f.dlend("b", f"reclaim --force 0000{address[5:]}", timeout=120)
        t.equal(r.status, 0, "reclaim --force takes it from a running guest")
        b.wait_for("grep -q DLEND-NVME-0 /sys/class/nvme/*/serial", 30)
        t.passed("the lender's own driver has it")
        t.ok(g.run("echo alive").out.strip() == "alive", "the guest is alive")


def unloaded_on_its_way(t, f, a, b, address, uuid):
    """A lender that is silent for a while has the return of a lease still to answer, and the module whose mediated
    device had it is unloaded: not before that call has ended, as it goes through the module's own functions."""
    marks = "/sys/kernel/tracing/instances/unload"      # a module's end empties the trace that its events are in
    a.run(f"mkdir {marks} && echo 1 >{marks}/events/dlend/dlend_return/enable")
    with f.guest("a", "g3", devices=[f.device(uuid)]) as g:
        g.run(READ, timeout=120)
        t.equal(f.lender_state(address)[0], "held", "borrowed again")
        with b.stands_still():
            g.kill()
            f.mdev_stop("a", uuid)
            a.run(f"echo asked >{marks}/trace_marker; rmmod dlend_mdev; echo unloaded >{marks}/trace_marker", timeout=120)
    order = re.findall(r"asked|dlend_return(?=:)|unloaded", a.run(f"cat {marks}/trace; rmdir {marks}").out)
    t.equal(order, ["asked", "dlend_return", "unloaded"], "the module goes when the lease's return is over")
    f.wait_links("a", 120)
    f.wait_links("b", 120)
    f.wait_state("a", address, "free")
    a.load_modules("dlend_mdev")
    uuid = f.mdev("a", address, "dlend-nvme")
    with f.guest("a", "g4", devices=[f.device(uuid)]) as g:
        t.equal(g.run(READ, timeout=120).out.strip(), "65536", "loaded again: another guest uses the device")
        g.shutdown()
    f.wait_state("a", address, "free")
    return uuid


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        # A lender that stands still for a return is given up after that, and not before.
        f.up(heartbeat_timeout_ms=25000)
        b.own_disks()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("memlock limit"):
            memlock(t, f, a, address, uuid)
        with t.case("link lost while the guest runs"):
            link_lost(t, f, c, a, b, address, uuid)
        with t.case("unloaded while a lease is on its way back"):
            uuid = unloaded_on_its_way(t, f, a, b, address, uuid)
        with t.case("forced reclaim"):
            reclaim_held(t, f, a, b, address, uuid)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
