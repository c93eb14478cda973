#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Attached devices of several lenders, and several hosts that want the same one.

    host a (node 1) --- ab --- host b (node 2): edu, nvme0
       \\                          /
        ac --- host c (node 3) --- bc         c: edu, nvme0
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import first_register, node_of, pci, where  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position

SWAPS = 100     # for each of the two hosts


def lends_and_attaches(t, f, a, c, lent):
    """a has two lenders' disks; c, one of the lenders, has a device of the other one, too."""
    for name in ("b", "c"):
        f.dlend("a", f"attach {lent[name]}", timeout=120)
    f.dlend("c", f"attach {lent['edu']}", timeout=120)
    nodes = [node_of(a, lent[name]) for name in ("b", "c")]
    serials = [a.run(f"cat /sys/bus/pci/devices/{pci(lent[n])}/nvme/*/serial").out.strip() for n in ("b", "c")]
    t.equal(serials, ["DLEND-B-NVME-0", "DLEND-C-NVME-0"], "one host has the disks of two lenders")
    jobs = [a.spawn(verified(node, "128k", offset="0", name=f"v{n}")) for n, node in enumerate(nodes)]
    t.equal([job.wait(240).status for job in jobs], [0, 0], "both work at once, with verification")
    t.equal(first_register(c, pci(lent["edu"])), "0x010000ed", "the one that lends uses a device of the other one")
    f.dlend("c", f"detach {lent['edu']}", timeout=120)
    f.dlend("a", f"detach {lent['b']} {lent['c']}", timeout=120)
    for address in lent.values():
        f.wait_state("a", address, "free")
    t.passed("and all are back")


def at_once(t, f, a, c, address):
    """Two commands on each of two hosts want it: one has it, the others hear who."""
    for turn in range(5):
        jobs = [(host, host.spawn(f"dlend attach {address} 2>&1")) for host in (a, c, a, c)]
        results = [(host, job.wait(120, check=False)) for host, job in jobs]
        has = [name for name in "ac" if where(f.host(name), address) != "no"]
        if len(has) != 1:
            break
        # The second command on the host that has it may find it attached already, which is no error
        wrong = [r.out for host, r in results if r.status and not any(w in r.out for w in ("is in use", "being attached", "another command attaches", "is held", "attached already"))]
        won = [r for host, r in results if not r.status and host.name == has[0]]
        lost = [r for host, r in results if not r.status and host.name != has[0]]
        if wrong or lost or not won:
            t.ok(False, "those that do not get it hear why", f"turn {turn}: {[(h.name, r.status, r.out) for h, r in results]}")
        f.dlend(has[0], f"detach --force {address}", timeout=120)
        for name in "ac":
            f.wait_state(name, address, "free")
    t.equal(len(has), 1, "of four commands on two hosts one has got it, each time")


def swapped(t, f, a, c, address):
    """In turn; no driver is there, so that it is quick."""
    for host in (a, c):
        host.run("echo 0 >/sys/bus/pci/drivers_autoprobe")
    script = (f"for i in $(seq {SWAPS}); do for n in $(seq 600); do echo 1 2>/dev/null >/sys/bus/dlend/devices/{address}/attached && "
              f"break; sleep 0.05; done; "   # pace
              f"[ $n != 600 ] || exit 1; cat /sys/bus/pci/devices/{pci(address)}/vendor; "
              f"echo 0 >/sys/bus/dlend/devices/{address}/attached || exit 2; done | sort | uniq -c")
    epoch = f.lender_state(address)[2]
    jobs = [host.spawn(script) for host in (a, c)]
    out = [job.wait(900, check=False).out.split() for job in jobs]
    t.equal(out, [[str(SWAPS), "0x1234"]] * 2, f"two hosts take it from each other {2 * SWAPS} times")
    f.wait_state("a", address, "free")
    t.equal(f.lender_state(address)[2] - epoch, 2 * SWAPS, "by as many leases")
    for host in (a, c):
        host.run("echo 1 >/sys/bus/pci/drivers_autoprobe")
        t.ok("dlend-root" not in host.run("ls /sys/bus/platform/devices").out, f"host {host.name} has no root bus left")


def no_room(t, f, a, address):
    """Its driver's memory does not fit into the window."""
    a.run("echo 4000 >/sys/module/dlend_native/parameters/dma_mib")
    r = f.dlend("a", f"attach {address}", check=False, timeout=120)
    t.ok(r.status and "the window of node 2" in r.out and "dlend_native.dma_mib" in r.out, "no room in the window: says how much there is",
         r.out)
    t.equal(f.lender_state(address)[0], "free", "and nobody has it")
    a.run("echo 0 >/sys/module/dlend_native/parameters/dma_mib")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as cluster:
        f = Fabric(cluster)
        a, b, c = (cluster.host(n) for n in "abc")
        f.up()
        for host in (b, c):
            host.own_disks()
        a.run("modprobe nvme")
        for host in (a, c):
            host.load_modules("dlend_native")
        lent = {"b": f.lend("b", "nvme0"), "c": f.lend("c", "nvme0"), "edu": f.lend("b", "edu")}
        with t.case("several lenders"):
            lends_and_attaches(t, f, a, c, lent)
        with t.case("all at once"):
            at_once(t, f, a, c, lent["edu"])
        with t.case("again and again"):
            swapped(t, f, a, c, lent["edu"])
        with t.case("no room"):
            no_room(t, f, a, lent["edu"])
        for host in (a, b, c):
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
