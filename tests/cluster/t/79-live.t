#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A running VM moves host while it writes to its lent disk: dlend migrate --live, with libvirt as Debian has it.

    host a (node 1): the VM at first ---- ac ---- host c (node 3): nvme0 ---- bc ---- host b (node 2)

The guest has Debian's kernel and its nvme driver; it writes a numbered block, says so, and begins anew.
"""
import json
import os
import re
import sys
import uuid as uuids
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from domain import Domain  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

LONG = os.environ.get("DLEND_LONG") == "1"
LEFT = "virsh -q list --all --name; ls /sys/bus/mdev/devices; find /etc/mdevctl.d /run/dlend -name '*-*-*-*-*' ! -name '*.lock'"
# Block n of the disk begins with the number n, and the file has the last one that the disk has said it has.
TICKS = """n=0; while :; do n=$((n+1)); printf '%08d' $n | dd of=/dev/nvme0n1 bs=4k seek=$n conv=sync oflag=direct 2>/dev/null &&
echo $n >/tmp/last.new && mv /tmp/last.new /tmp/last || echo $n >>/tmp/lost; done"""
WRONG = """n=1; last=$(cat /tmp/last); while [ $n -le $last ]; do
[ "$(dd if=/dev/nvme0n1 bs=4k skip=$n count=1 iflag=direct 2>/dev/null | head -c 8)" = $(printf '%08d' $n) ] || echo $n; n=$((n+1)); done | wc -l"""
SAME = "cat /proc/sys/kernel/random/boot_id /tmp/mark; readlink -f /sys/class/nvme/nvme0/device; dmesg | grep -c nvme"


class Live:
    """The cluster, and the VM."""

    def __init__(self, t, c):
        self.t, self.c, self.f = t, c, Fabric(c)
        self.vm = None
        self.disk = self.uuid = self.same = ""

    def host(self, name):
        return self.c.host(name)

    def begins(self):
        """The VM on host a, prepared as people do it."""
        a = self.host("a")
        self.disk = self.f.lend("c", "nvme0")
        self.uuid = str(uuids.uuid4())
        a.run(f"mdevctl define -u {self.uuid} -p {self.disk} --type dlend-nvme && mdevctl start -u {self.uuid}")
        self.vm = Domain("vm1", mdevs=[self.uuid], modules=("nvme",), tools=())
        for name in "bc":
            self.vm.put(self.host(name))
        self.vm.define(a)
        self.t.ok("1 device of vm1 are prepared" in a.run("dlend migrate --prepare vm1", timeout=60).out, "dlend migrate --prepare")
        self.vm.start()
        self.vm.wait_for("[ -b /dev/nvme0n1 ]", 60)
        self.vm.run("cat /proc/sys/kernel/random/uuid >/tmp/mark; echo 0 >/tmp/last")
        self.same = self.vm.run(SAME).out
        self.vm.spawn(TICKS)

    def last(self):
        return int(self.vm.run("cat /tmp/last").out)

    def ticks_on(self):
        self.vm.wait_for(f"[ $(cat /tmp/last) -gt {self.last() + 2} ]", 60)

    def resets(self):
        return len(self.f.trace("c", f"dlend_reset: {self.disk} "))

    def moves(self, source, to):
        t = self.t
        self.ticks_on()
        resets = self.resets()
        up = float(self.vm.run("cat /proc/uptime").out.split()[0])
        result = self.host(source).run(f"dlend migrate --json --live vm1 {to}", timeout=300, check=False)
        t.diag(result.out)
        t.equal(result.status, 0, f"dlend migrate --live vm1 {to}, on host {source}", result.out)
        self.vm.follow(self.host(to))
        t.equal(self.vm.run(SAME).out, self.same, "the guest: same boot, same memory, same device, no message of its driver")
        self.ticks_on()
        t.ok(float(self.vm.run("cat /proc/uptime").out.split()[0]) > up, "  its clock goes on")
        t.equal(self.vm.run("cat /tmp/lost 2>/dev/null", check=False).out, "", "  no block was refused")
        t.equal(self.f.lender_state(self.disk)[:2], ("held", str(self.f.node[to])), f"the lender says that node {self.f.node[to]} has it")
        t.equal(self.resets(), resets, "  and has not reset it")
        t.equal(self.host(source).run(LEFT).out.split(), [], f"nothing of it is left on host {source}")


def main():
    with Tap() as t, Cluster("virt-hosts.toml", tap=t) as c:
        m = Live(t, c)
        for host in c.hosts.values():
            host.install()
        # The first call makes libvirtd ask QEMU what it can do
        calls = [host.spawn("virsh -q list --all") for host in c.hosts.values()]
        m.f.up()
        for call in calls:
            call.wait(300, check=True)
        with t.case("a VM"):
            m.begins()
        with t.case("to another borrower"):
            m.moves("a", "b")
        with t.case("to the lender itself"):
            m.moves("b", "c")
        with t.case("and back"):
            m.moves("c", "a")
        t.equal(m.vm.run(WRONG, timeout=300).out.strip(), "0", f"each of the blocks is as it was written ({m.last()} of them)")
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
