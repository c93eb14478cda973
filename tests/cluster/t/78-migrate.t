#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VM moves host and keeps its devices: dlend migrate, with libvirt and ssh as Debian has them.

    host a (node 1): the VM at first ---- ac ---- host c (node 3): nvme0, nic ---- bc ---- host b (node 2)

DLEND_LONG=1: a running VM whose devices are detached, too, one that comes back as a step fails, a host that dies in
the middle, and the move by hand.
"""
import os
import re
import sys
import uuid as uuids
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import virt  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from domain import Domain  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

LONG = os.environ.get("DLEND_LONG") == "1"
SUM = "dd if=/dev/nvme0n1 bs=64k count=2 iflag=direct 2>/dev/null | sha256sum"
# Where the guest finds what, and who that is
READY = "[ -b /dev/nvme0n1 ] && [ -e /sys/class/net/eth0 ]"
DEVICES = ("readlink -f /sys/class/nvme/nvme0/device /sys/class/net/eth0/device; "
           "cat /sys/class/nvme/nvme0/serial /sys/class/net/eth0/address")


class Moves:
    """The cluster, the VM, and what the VM should find wherever it is."""

    def __init__(self, t, c):
        self.t, self.c = t, c
        self.f = Fabric(c)
        self.vm = self.disk = self.nic = None
        self.uuids = []
        self.devices = self.sum = ""

    def host(self, name):
        return self.c.host(name)

    def migrate(self, source, words, check=True):
        return self.host(source).run(f"dlend migrate {words}", check=check, timeout=300)

    def refused(self, source, words, name, code, *parts):
        """It fails, says all that, and the VM goes on where it is."""
        result = self.migrate(source, words, check=False)
        self.t.ok(result.status == code and all(p in result.out for p in parts), name, f"{result.status}: {result.out}")

    def nothing_left(self, name):
        self.t.equal(virt.left(self.host(name)), [], f"nothing of it is left on host {name}")

    def running(self):
        """Where it runs, of the hosts that do."""
        return [name for name, host in self.c.hosts.items()
                if host.running and "vm1" in host.run("virsh -q list --name").out.split()]

    def is_at(self, name, how):
        """It runs there and nowhere else, by the same guest addresses, with its data."""
        t, node = self.t, str(self.f.node[name])
        t.equal(self.running(), [name], f"{how}: the VM runs on host {name} and nowhere else")
        self.vm.wait_for(READY, 150)
        t.equal(self.vm.run(DEVICES).out, self.devices, "the guest finds the same devices at the same addresses")
        t.equal(self.vm.run(SUM, timeout=240).out, self.sum, "and what it wrote")
        t.equal([self.f.lender_state(x)[:2] for x in (self.disk, self.nic)], [("held", node)] * 2,
                f"the lender says that node {node} has both")


def begins(m):
    """The VM on host a."""
    a, f = m.host("a"), m.f
    m.disk, m.nic = f.lend("c", "nvme0"), f.lend("c", "nic")
    for address, kind in ((m.disk, "dlend-nvme"), (m.nic, "dlend-nic")):
        m.uuids.append(str(uuids.uuid4()))
        a.run(f"mdevctl define -u {m.uuids[-1]} -p {address} --type {kind} && mdevctl start -u {m.uuids[-1]}")
    m.vm = Domain("vm1", mdevs=m.uuids, modules=("nvme", "e1000e", "button", "evdev"), tools=("power",))
    for name in "bc":
        m.vm.put(m.host(name))
    m.vm.define(a)
    m.vm.start()
    m.vm.wait_for(READY, 150)
    m.devices = m.vm.run(DEVICES).out
    m.t.ok("DLEND-NVME-0" in m.devices and "52:54:00:d1:e0:01" in m.devices,
           "a VM on host a with a disk and a card of host c", m.devices)
    m.sum = m.vm.run("dd if=/dev/urandom of=/tmp/data bs=64k count=2 2>/dev/null && dd if=/tmp/data of=/dev/nvme0n1 "
                     "bs=64k oflag=direct 2>/dev/null && sha256sum </tmp/data", timeout=240).out


def dry(m):
    before = [virt.left(m.host(n)) for n in "ab"]
    says = m.migrate("a", "--dry-run vm1 b").out
    m.t.ok("shut vm1 down" in says and "on b: start vm1" in says, "--dry-run says what would be done", says)
    m.t.equal([virt.left(m.host(n)) for n in "ab"], before, "and does none of it")


def cold(m, source, to):
    m.vm.heed_power_button()
    says = m.migrate(source, f"vm1 {to}").out
    m.t.ok(f"vm1 runs on {to} now" in says, f"dlend migrate vm1 {to}, on host {source}", says)
    m.vm.meet(m.host(to))
    m.is_at(to, "cold")
    m.nothing_left(source)


def no_link(m):
    """The target's link to the lender is down."""
    m.c.link("ac").command("down")
    m.host("a").wait_for(f"grep -qx down /sys/bus/dlend/devices/{m.disk}/link", 60)
    m.refused("b", "vm1 a", "the target has no link to the lender: refused, and it says so", 6,
              "link to the lender, node 3, is down", "dlend links")
    m.c.link("ac").command("up")
    m.t.equal(m.vm.run(SUM, timeout=240).out, m.sum, "the VM runs on where it was, with its disk")
    m.nothing_left("a")
    m.f.wait_links("a")


def held(m, source, to):
    """Another node's guest took the device while the VM was off."""
    a = m.host("a")
    m.vm.shutdown()
    m.f.wait_state("a", m.disk, "free")
    for uuid in m.uuids:
        m.host(source).run(f"mdevctl stop -u {uuid}")
    other = m.f.mdev("a", m.disk, "dlend-nvme")
    # SeaBIOS looks for a disk to boot from
    with m.f.guest("a", "other", wait=False, kernel=False, devices=[m.f.device(other)]):
        m.f.wait_state(source, m.disk, "held")
        m.refused(source, f"vm1 {to}", "the lease is held: refused, and it says by whom", 4, "node 1 has it",
                  "dlend reclaim")
        m.t.equal(m.host(source).run("virsh domstate vm1").out.strip(), "shut off", "the VM stays where it was")
        m.nothing_left(to)
    m.f.wait_state("a", m.disk, "free")
    a.run(f"mdevctl stop -u {other}")


def by_hand(m, source, to):
    """As docs/migration.md has it; the VM is off."""
    s = m.host(source)
    for uuid, parent in zip(m.uuids, (m.disk, m.nic)):
        s.run(f"ssh {to} mdevctl define -u {uuid} -p {parent} --jsonfile /dev/stdin </etc/mdevctl.d/{parent}/{uuid}")
    s.run(f"virsh migrate --offline --persistent --undefinesource vm1 qemu+ssh://{to}/system", timeout=120)
    for uuid in m.uuids:
        s.run(f"mdevctl undefine -u {uuid}")
        m.host(to).run(f"mdevctl start -u {uuid}")
    m.vm.start(m.host(to))
    m.is_at(to, "by hand")
    m.nothing_left(source)


def live(m, source, to):
    marks = "cat /proc/sys/kernel/random/boot_id /tmp/mark; kill -0 $(cat /tmp/pid) && echo alive"
    m.vm.run("cat /proc/sys/kernel/random/uuid >/tmp/mark; setsid sleep 100000 & echo $! >/tmp/pid")
    before, up = m.vm.run(marks).out, float(m.vm.run("cat /proc/uptime").out.split()[0])
    says = m.migrate(source, f"--live --detach vm1 {to}").out
    m.t.ok(f"vm1 runs on {to} now" in says, f"dlend migrate --live --detach vm1 {to}", says)
    m.vm.follow(m.host(to))
    m.t.ok("alive" in before and m.vm.run(marks).out == before,
           "the guest has not noticed: same boot, same memory, same process")
    m.t.ok(float(m.vm.run("cat /proc/uptime").out.split()[0]) > up, "its clock goes on")
    m.is_at(to, "live")
    m.nothing_left(source)


def shim(host, verb, script):
    """`virsh VERB` that comes by ssh does that instead, until unshim()."""
    host.run(f"cat >/usr/local/bin/virsh && chmod 755 /usr/local/bin/virsh",
             input=f'#!/bin/sh\n[ "$1" = {verb} ] && {{ {script}\n}}\nexec /usr/bin/virsh "$@"\n')


def unshim(host):
    host.run("rm -f /usr/local/bin/virsh")


def live_fails(m, source, to):
    """The device cannot be attached over there: the VM comes back, and so does the device."""
    shim(m.host(to), "attach-device", "echo 'error: refused by the test' >&2; exit 1")
    m.refused(source, f"--live --detach vm1 {to}", "live: a step fails after the VM has gone", 1, "refused by the test",
              "as before")
    unshim(m.host(to))
    m.vm.follow(m.host(source))
    m.is_at(source, "back again")
    m.nothing_left(to)


def dies(m, source, to):
    """The source loses power when it has let go, before the target starts the VM."""
    there = m.host(to)
    shim(there, "start", "touch /tmp/held; sleep 100000")
    m.vm.heed_power_button()
    m.host(source).spawn(f"dlend migrate vm1 {to}")
    there.wait_for("[ -e /tmp/held ]", 240)
    m.host(source).run("sync")
    m.host(source).reset()
    unshim(there)
    m.t.equal(m.running(), [], "the source loses power in the middle: the VM runs nowhere")
    m.f.wait_state(to, m.disk, "free")
    says = there.run("dlend status").out
    m.t.ok("dlend migrate --finish vm1" in says, "dlend status on the target tells what to do", says)
    says = asks(m, source, there)
    m.vm.meet(there)
    comes_back(m, source, to, re.search("mdevctl undefine.*", says).group(0))
    m.is_at(to, "finished")


def asks(m, source, there):
    """The source is back; but at first no ssh reaches it.  Return what --finish says in the end."""
    s = m.host(source)
    s.wait_for("virsh -q list --all --name | grep -qx vm1", 240)
    s.run("systemctl stop ssh.socket ssh.service 2>/dev/null; true")
    r = there.run("dlend migrate --finish vm1", check=False, timeout=300)
    m.t.ok(r.status == 6 and "cannot be asked" in r.out and "--force" in r.out, "the source cannot be asked: refused", r.out)
    m.t.equal(m.running(), [], "the VM still runs nowhere")
    s.run("systemctl start ssh.service")
    there.wait_for(f"ssh -o BatchMode=yes {source} true", 120)
    says = there.run("dlend migrate --finish vm1", timeout=300).out
    m.t.ok("vm1 runs here" in says and "mdevctl undefine" in says, "it answers: the VM starts, and what is left is told", says)
    m.t.ok("vm1" not in s.run("virsh -q list --all --name").out.split(), "the source has let it go")
    return says


def comes_back(m, source, to, undefine):
    """Its mediated devices do not start while another host has the devices."""
    s = m.host(source)
    m.f.load(source)
    m.f.wait_links(source)
    for uuid in m.uuids:
        r = s.run(f"mdevctl start -u {uuid}", check=False)
        m.t.ok(r.status and f"node {m.f.node[to]} ({to}) has it" in r.out, "the source cannot have its devices", r.out)
    s.run(undefine)
    m.nothing_left(source)


def main():
    with Tap() as t, Cluster("virt-hosts.toml", tap=t) as c:
        m = Moves(t, c)
        virt.up(m.f)
        with t.case("a VM"):
            begins(m)
        with t.case("--dry-run"):
            dry(m)
        with t.case("to another borrower"):
            cold(m, "a", "b")
        with t.case("no link"):
            no_link(m)
        with t.case("to the lender itself"):
            cold(m, "b", "c")
        with t.case("a lease that is held"):
            held(m, "c", "b")
        for name, part, source, to in (("by hand", by_hand, "c", "a"), ("a running VM", live, "a", "b"),
                                       ("a running VM, and a step fails", live_fails, "b", "a"),
                                       ("the source dies", dies, "b", "a")):
            with t.case(name):
                if not LONG:
                    t.skip("takes minutes: DLEND_LONG=1 (make check-long)")
                part(m, source, to)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
