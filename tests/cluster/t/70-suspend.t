#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Hosts that go to sleep: not while a device is lent or borrowed, and back in order after.

    host a (node 1): a guest ------ ab ------ host b (node 2): nvme0

Only as far as tasks are frozen (pm_test): what hardware loses in real sleep the emulated one cannot show.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import node_of  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DEBUG, Fabric  # noqa: E402  pylint: disable=wrong-import-position

READ = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c"
SESSION = "cat /sys/class/dlend_link/*:*/session"


def sleep(host):
    """Fall asleep and wake up; 0 if the host did."""
    return host.run("echo freezer >/sys/power/pm_test && echo freeze >/sys/power/state", check=False, timeout=90).status


def refuses(t, f, a, b, uuid):
    with f.guest("a", "g1", devices=[f.device(uuid)]) as g:
        t.equal(g.run(READ, timeout=120).out.strip(), "65536", "the guest uses the disk")
        session = a.run(SESSION).out
        for host, role in ((a, "borrower"), (b, "lender")):
            t.ok(sleep(host) != 0, f"the {role} does not suspend")
            t.ok("does not suspend" in host.run("dmesg | tail -n 20").out, "and says why")
        t.equal(a.run(SESSION).out, session, "the link did not notice")
        t.equal(g.run(f"echo 3 >/proc/sys/vm/drop_caches; {READ}", timeout=120).out.strip(), "65536",
                "nor did the guest")


def refuses_attached(t, f, a, b, address):
    f.dlend("a", f"attach {address}", timeout=120)
    node = node_of(a, address)
    for host, role in ((a, "borrower"), (b, "lender")):
        t.ok(sleep(host) != 0, f"attached: the {role} does not suspend")
        t.ok("does not suspend" in host.run("dmesg | tail -n 20").out, "and says why")
    out = a.run(f"dd if={node} bs=64k count=1 iflag=direct 2>/dev/null | wc -c", timeout=60).out
    t.equal(out.strip(), "65536", "the host uses the disk on")


def sleeps(t, f, a, b, address):
    f.wait_state("a", address, "free")
    b.wait_for(f"[ $(cat /sys/bus/pci/devices/0000{address[5:]}/dlend/state) = free ]", 30)
    for host, name in ((a, "a"), (b, "b")):
        session = host.run(SESSION).out
        f.trace_clear("b")
        t.equal(sleep(host), 0, f"host {name} suspends while nobody uses the device")
        for each in ("a", "b"):
            f.wait_links(each, 60)
        t.ok(host.run(SESSION).out != session, "and begins a new session after it")
        f.wait_state("a", address, "free")
    # Of a hibernation, which nobody can wake a host from here, the kernel tells the same.
    b.wait_for(f"grep -q 'dlend_fence: {address} reset' /sys/kernel/tracing/trace", 30)
    t.passed("what is lent is reset after it: another kernel may have driven it meanwhile")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        if a.run("[ -e /sys/power/pm_test ]", check=False).status:
            t.skip("the hosts' kernel has no CONFIG_PM_DEBUG (check-debug's has not): nothing wakes them up again")
        f.up()
        b.own_disks()
        address = f.lend("b", "nvme0")
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        with t.case("refused while it is attached"):
            refuses_attached(t, f, a, b, address)
        slow = f"{DEBUG}/lender/0000{address[5:]}/slow_reset_ms"
        b.run(f"echo 3000 >{slow}")
        f.dlend("a", f"detach {address}", timeout=120)
        uuid = f.mdev("a", address, "dlend-nvme")
        t.equal(f.lender_state(address)[0], "returning", "detached, and a mediated device of it made at once, while its "
                "lender resets it")
        b.run(f"echo 0 >{slow}")
        with t.case("refused while in use"):
            refuses(t, f, a, b, uuid)
        with t.case("suspends otherwise"):
            sleeps(t, f, a, b, address)
        with f.guest("a", "g2", devices=[f.device(uuid)]) as g:
            t.equal(g.run(READ, timeout=120).out.strip(), "65536", "the device is as good as before")
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
