#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Three hosts: two that want the same device, one that is reserved, and one that is never lent again.

    host a (node 1) ---- ab ---- host b (node 2)
           \\----- ac ---- host c (node 3) ---- bc ---- host b
"""
import sys
import uuid as uuids
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position


def refused(t, f, host, uuid, who):
    """No VM begins with it, and people hear why."""
    qemu = f.start_vm(host.name, uuid)
    t.ok(qemu.status == 1 and "busy" in qemu.out, f"QEMU does not start: {who}", f"{qemu.status} {qemu.out}")
    t.ok(f"no VM can have the device now: {who}" in host.run("dmesg").out, "  the kernel says so")
    t.equal(f.mdev_state(host.name, uuid), f"taken: {who}", "  and so does the mediated device")


def second_borrower(t, f, a, c, address):
    """Both have an mdev of the same device; the first guest gets it, the second VM does not start while that has it."""
    first, second = f.mdev("a", address, "dlend-nvme"), f.mdev("c", address, "dlend-nvme")
    with f.guest("a", "first", devices=[f.device(first)]) as g:
        g.run("[ -b /dev/nvme0n1 ]")
        t.equal(f.lender_state(address)[:2], ("held", "1"), "node 1 has it")
        f.wait_state("c", address, "held", 20)
        parent = f"/sys/class/mdev_bus/{address}/mdev_supported_types/dlend-nvme"
        t.equal(c.run(f"cat {parent}/available_instances").out.strip(), "0", "node 3 sees 0 available")
        entry = f.offers("c")[address]
        t.equal((entry["state"], entry["borrower"]), ("held", 1), "dlend list on node 3 says who has it")
        refused(t, f, c, second, "node 1 (a) has it")
        t.equal(f.lender_state(address)[:2], ("held", "1"), "and node 1 still has it")
        out = g.run("dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c", timeout=120).out
        t.equal(out.strip(), "65536", "whose guest has noticed nothing")
    f.wait_state("c", address, "free")
    t.equal(f.mdev_state("c", second), "idle", "when node 1 has returned it, a VM can have it")
    with f.guest("c", "second", devices=[f.device(second)]) as g:
        g.run("[ -b /dev/nvme0n1 ]")
        f.wait_state("a", address, "held", 20)
        t.equal(f.mdev_state("a", first), "taken: node 3 (c) has it", "and now node 1 hears that node 3 has it")
    f.wait_state("a", address, "free")
    f.mdev_stop("a", first)
    f.mdev_stop("c", second)


def reserved(t, f, address):
    """For node 3: node 1 hears so before it asks, who has the device keeps it, and the lender remembers."""
    bdf = "0000" + address[5:]
    uuid = f.mdev("a", address, "dlend-nvme")
    f.dlend("b", f"reserve --for 3 {bdf}")
    f.wait_state("a", address, "reserved", 20)
    seen = f.offers("a")[address]
    t.equal((seen["state"], seen["borrower"], seen["borrower_name"]), ("reserved", 3, "c"), "node 1 sees for whom")
    t.equal(f.lender_state(address)[:2], ("reserved", "3"), "and so does the lender")
    refused(t, f, f.host("a"), uuid, "it is reserved for node 3 (c)")
    t.equal(f.offers("c")[address]["state"], "free", "to node 3 it is free")
    other = f.mdev("c", address, "dlend-nvme")
    with f.guest("c", "third", devices=[f.device(other)]) as g:
        g.run("[ -b /dev/nvme0n1 ]")
        f.dlend("b", f"reserve --for 1 {bdf}")
        t.equal(f.lender_state(address)[:2], ("held", "3"), "reserved for node 1 meanwhile: node 3 keeps it")
    f.wait_state("c", address, "reserved", 60)
    f.wait_state("a", address, "free", 60)
    t.passed("when node 3 has returned it, node 1 may have it")
    f.mdev_stop("a", uuid)
    f.mdev_stop("c", other)
    f.dlend("b", f"reclaim {bdf}", timeout=120)
    f.dlend("b", f"lend {bdf}", timeout=120)
    f.wait_state("c", address, "reserved")
    t.passed("lent anew, it is reserved as before")
    f.host("b").run(f"echo '1 1' >/sys/bus/pci/devices/{bdf}/dlend/reserved")
    f.wait_state("c", address, "free", 30)
    t.passed("and a reservation for a second ends by itself")
    f.dlend("b", f"unreserve {bdf}")


def reserved_for_a_vm(t, f, address):
    """By the UUID of its mediated device: wherever that is."""
    bdf, vm = "0000" + address[5:], str(uuids.uuid4())
    start = f"mdevctl start -u {vm} -p {address} --type dlend-nvme"
    another = f.mdev("a", address, "dlend-nvme")
    f.dlend("b", f"reserve --for {vm} {bdf}")
    f.wait_state("a", address, "reserved", 20)
    refused(t, f, f.host("a"), another, f"it is reserved for the VM that has the mediated device {vm}")
    f.mdev_stop("a", another)
    for name in "ac":
        f.wait_state(name, address, "reserved", 60)
        f.host(name).run(start)
        with f.guest(name, f"its-{name}", devices=[f.device(vm)]) as g:
            g.run("[ -b /dev/nvme0n1 ]")
            t.equal(f.lender_state(address)[:2], ("held", str(f.node[name])), f"host {name}: its VM has it")
        f.wait_state(name, address, "reserved", 60)
        f.mdev_stop(name, vm)
    f.host("c").load_modules("dlend_native")
    r = f.host("c").run(f"dlend attach {address} 2>&1", check=False)
    t.ok(r.status and f"reserved for the VM that has the mediated device {vm}" in r.out, "no host has it for itself", r.out)
    r = f.host("c").run(f"mdevctl start -u {uuids.uuid4()} -p {address} --type dlend-nvme", check=False)
    t.ok(r.status, "nor for another VM", r.out)
    f.dlend("b", f"unreserve {bdf}")
    f.wait_state("a", address, "free", 20)


def withdrawn(t, f, a, b, c, address):
    """A lender that asks for its device: nobody else gets it meanwhile, and if it is not returned, all is as before."""
    bdf, attached = "0000" + address[5:], f"/sys/bus/dlend/devices/{address}/attached"
    for host in (a, c):
        host.run("modprobe nvme", timeout=60)
        host.load_modules("dlend_native")
    f.dlend("a", f"attach {address}", timeout=120)
    f.wait_state("c", address, "held", 30)
    r = f.dlend("b", f"reclaim {bdf}", check=False, timeout=60)
    t.equal((r.status, f.lender_state(address)[:2]), (4, ("held", "1")), "node 1 does not return it when it is asked, and keeps it", r.out)
    f.dlend("a", f"detach --force {address}", timeout=120)
    f.wait_state("c", address, "free", 60)
    t.passed("when it has returned it, others can have it as before")
    f.dlend("a", f"attach {address}", timeout=120)
    f.wait_state("c", address, "held", 30)
    for host in (a, c):
        host.run("dmesg -C")
    wanted = c.spawn(f"until [ -e /tmp/stop ]; do echo 1 >{attached}; done 2>/dev/null")
    reclaim = b.spawn(f"dlend reclaim {bdf} 2>&1")
    a.wait_for("dmesg | grep -q 'asks for its device back'", 30)
    f.dlend("a", f"detach --force {address}", timeout=120)
    r = reclaim.wait(120, check=False)
    c.run("touch /tmp/stop")
    wanted.wait(120, check=False)
    t.ok(not r.status and f"{bdf} is back" in r.out, "asked again, and returned", r.out)
    t.ok("attached" not in c.run("dmesg").out, "node 3, which wanted it all the time, has not had it in between", c.run("dmesg | tail").out)
    f.lend("b", "nvme0")
    f.wait_state("a", address, "free", 60)


def quarantine(t, f, a, b, address):
    """A device whose reset fails is never lent again."""
    uuid = f.mdev("a", address, "dlend-nvme")
    with f.guest("a", "last", devices=[f.device(uuid)]) as g:
        g.run("[ -b /dev/nvme0n1 ]")
        b.run(f"echo 1 >/sys/kernel/debug/dlend/lender/0000{address[5:]}/fail_reset")
    f.wait_state("a", address, "quarantined", 60)
    t.equal(f.lender_state(address)[0], "quarantined", "a device whose reset failed is quarantined")
    parent = f"/sys/class/mdev_bus/{address}/mdev_supported_types/dlend-nvme"
    t.equal(a.run(f"cat {parent}/available_instances").out.strip(), "0", "and not available any more")
    t.ok("reset" in b.run("dmesg | grep -i quarantine | tail -n 2").out, "the lender's log says why")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as cluster:
        f = Fabric(cluster)
        a, b, c = (cluster.host(n) for n in "abc")
        f.up(timeout=150)
        b.own_disks()
        address = f.lend("b", "nvme0")
        with t.case("two want it"):
            second_borrower(t, f, a, c, address)
        with t.case("reserved"):
            reserved(t, f, address)
        with t.case("reserved for a VM"):
            reserved_for_a_vm(t, f, address)
        with t.case("withdrawn"):
            withdrawn(t, f, a, b, c, address)
        with t.case("quarantine"):
            quarantine(t, f, a, b, address)
        for host in (a, b, c):
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
