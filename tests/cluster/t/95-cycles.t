#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A device that is borrowed and returned again and again: nothing grows.

    host a (node 1): a program that is its own VMM ---- ab ---- host b (node 2): edu

DLEND_LONG=1: 1,000 times, not 60.
"""
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

TIMES = 1000 if os.environ.get("DLEND_LONG") else 60
PART = 20       # so that there is something to say now and then


def used(f):
    return {"a": f.free("a"), "b": f.free("b")}


def slabs(host):
    """Objects in the caches of the sizes that our modules allocate from; other users' come and go."""
    out = host.run("cat /proc/slabinfo 2>/dev/null | awk '/^kmalloc-(96|128|192|256|512|1k|2k) / { print $1, $2 }'").out
    return {name: int(count) for name, count in map(str.split, out.splitlines())}


def grown(t, host, before):
    """Something that each turn leaves behind is found here even if it is in a list, where kmemleak sees no leak."""
    now = slabs(host)
    t.diag(f"slabs of {host.name}: {before}, then {now}")
    if TIMES >= 1000:
        more = {name: now[name] - count for name, count in before.items() if now[name] - count > TIMES / 4}
        t.ok(before and not more, f"host {host.name}: no cache of the kernel's has grown with the turns", str(more))


def cycles(t, f, c, uuid):
    for done in range(0, TIMES, PART):
        out = c.host("a").run(f"/share/cycle {uuid} {PART}", timeout=300, check=False)
        if out.status:
            t.ok(False, f"turns {done} to {done + PART}", out.out)
            return
    t.passed(f"{TIMES} times borrowed, used and returned; every tenth with DMA both ways")


def hasty(t, f, c, address, uuid):
    """Opened again while the lender still resets the device for the one that has closed it."""
    slow = f"/sys/kernel/debug/dlend/lender/0000{address[5:]}/slow_reset_ms"
    c.host("b").run(f"echo 500 >{slow}")
    out = c.host("a").run(f"/share/cycle {uuid} 5 hasty", timeout=120, check=False)
    t.equal(out.out, "ok 5\n", "opened again while the lender still works for the one before: borrowed each time")
    c.host("b").run(f"echo 0 >{slow}")
    f.wait_state("a", address, "free", 30)


def by_iommufd(t, f, a, address, uuid):
    """What only iommufd makes possible: devices of one VM in different address spaces, or late in any."""
    if a.run(f"[ -e /sys/bus/mdev/devices/{uuid}/vfio-dev ] && [ -c /dev/iommu ] && [ -d /dev/vfio/devices ]",
             check=False).status:
        t.skip("no iommufd for mediated devices in this kernel: make check-debug has one")
    setting = f"/sys/bus/mdev/devices/{uuid}/prepin"
    was = a.run(f"cat {setting}; echo open >{setting}").out.strip()
    out = a.run(f"/share/cycle {uuid} 2 late", timeout=60, check=False)
    t.equal(out.out, "ok 2\n", "pinned as soon as it is opened, and attached after that")
    a.run(f"echo {was} >{setting}")
    f.wait_state("a", address, "free", 30)
    other, pinned = f.mdev("a", f.lend("b", "nvme1"), "dlend-nvme"), f.pinned("a")
    a.wait_for("[ -c /dev/kvm ]")
    out = a.run(f"/share/cycle {uuid} 1 with {other}", timeout=60, check=False)
    t.equal(out.out, "ok 1\n", "closed, with pins that no other device of the VM can take over")
    f.wait_state("a", address, "free", 30)
    t.equal(f.wait_pinned("a", pinned), pinned, "neither has a page pinned then, as the kernel counts them")
    f.mdev_stop("a", other)


def beside(t, f, b, address):
    """The lender's own VM has a device that is passed through, too: it does not reach the BAR of the lent one, which it
    could go on doing when the lease has ended."""
    uuid, nic = f.mdev("b", address, "dlend-pci"), b.bdf("nic")
    b.run(f"modprobe vfio-pci; cd /sys/bus/pci/devices/{nic}; [ ! -e driver ] || echo {nic} >driver/unbind; "
          f"echo vfio-pci >driver_override; echo {nic} >/sys/bus/pci/drivers_probe")
    out = b.run(f"/share/cycle {uuid} 1 beside {nic}", timeout=60, check=False)
    t.equal(out.out, "ok 1\n", "a BAR that is in use is not mapped for the DMA of a local device")
    f.mdev_stop("b", uuid)
    f.wait_state("b", address, "free", 30)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/cycle", c.run_dir / "share/cycle")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "edu")
        uuid = f.mdev("a", address, "dlend-pci")
        a.run("modprobe -q iommufd || :")
        pinned = f.pinned("a")
        # The first leaves what stays until the mdev goes.
        t.equal(a.run(f"/share/cycle {uuid} 1", timeout=60).out, "ok 1\n", "once")
        f.wait_state("a", address, "free")
        before, epoch, begin = used(f), f.lender_state(address)[2], time.monotonic()
        caches = {host: slabs(host) for host in (a, b)}
        with t.case("again and again"):
            cycles(t, f, c, uuid)
        t.diag(f"{(time.monotonic() - begin) / TIMES * 1000:.0f} ms each")
        f.wait_state("a", address, "free")
        for host, had in caches.items():
            grown(t, host, had)
        t.equal(f.lender_state(address)[2] - epoch, TIMES, "each has been a lease of its own, and none was taken twice")
        hasty(t, f, c, address, uuid)
        with t.case("beside a local device"):
            beside(t, f, b, address)
        with t.case("by iommufd"):
            by_iommufd(t, f, a, address, uuid)
        for name, free in before.items():
            t.equal(f.wait_free(name, free), free,
                    f"host {name}: as much of its apertures is free as before")
        t.equal(f.wait_pinned("a", pinned), pinned, "no page is pinned, as the kernel counts them")
        t.equal(f.domain(address)["mapped_bytes"], 0, "the lender maps nothing for the device")
        f.mdev_stop("a", uuid)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
