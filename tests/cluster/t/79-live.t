#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A running VM moves host while it writes to its lent disks: dlend migrate --live, with libvirt as Debian has it.

    host a (node 1): the VM at first ---- ac ---- host c (node 3): nvme0, nvme1, nic ---- bc ---- host b (node 2)

The guest has Debian's kernel and its drivers.  It writes numbered blocks to both disks all the time.  The card has no
network here: that it interrupts, and finds its link again, is all that it can show.
"""
import sys
import uuid as uuids
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import virt  # noqa: E402  pylint: disable=wrong-import-position
from blocks import Writers  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from domain import Domain  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

READY = "[ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ] && [ -e /sys/class/net/eth0 ]"
SAME = ("cat /proc/sys/kernel/random/boot_id /tmp/mark; readlink -f /sys/class/nvme/nvme*/device /sys/class/net/eth0/device; "
        "dmesg | grep -cE 'nvme|e1000e|eth0'")
INTERRUPTS = "$(grep eth0 /proc/interrupts | awk '{ n += $2 } END { print n + 0 }')"


class Live:
    """The cluster, and the VM."""

    def __init__(self, t, c):
        self.t, self.c, self.f = t, c, Fabric(c)
        self.vm = None
        self.devices, self.uuids = [], []
        self.writers = Writers([("nvme0n1", 0), ("nvme1n1", 0)], size="4k")
        self.same = ""

    def host(self, name):
        return self.c.host(name)

    def migrate(self, source, words):
        return self.host(source).run(f"dlend migrate {words}", timeout=600, check=False)

    def begins(self):
        """The VM on host a, prepared as people do it."""
        a = self.host("a")
        for name in ("nvme0", "nvme1", "nic"):
            self.devices.append(self.f.lend("c", name))
            self.uuids.append(str(uuids.uuid4()))
            a.run(f"mdevctl define -u {self.uuids[-1]} -p {self.devices[-1]} --type dlend-{name.rstrip('01')} && "
                  f"mdevctl start -u {self.uuids[-1]}")
        self.vm = Domain("vm1", mdevs=self.uuids, memory=128, modules=("nvme", "e1000e"))
        for name in "bc":
            self.vm.put(self.host(name))
        self.vm.define(a)
        says = self.migrate("a", "--prepare vm1").out
        self.t.ok("3 devices of vm1 are prepared" in says, "dlend migrate --prepare", says)
        self.vm.start()
        self.vm.wait_for(READY, 60)
        self.finds_link()
        self.vm.run("cat /proc/sys/kernel/random/uuid >/tmp/mark")
        self.same = self.vm.run(SAME).out
        self.writers.begin(self.vm)

    def finds_link(self):
        """The card tells of its link by an interrupt."""
        before = int(self.vm.run(f"echo {INTERRUPTS}").out)
        self.vm.run("ip link set eth0 down; ip link set eth0 up")
        self.vm.wait_for(f"[ {INTERRUPTS} -gt {before} ] && grep -qx 1 /sys/class/net/eth0/carrier", 60)

    def resets(self):
        return [self.f.resets(device) for device in self.devices]

    def refused(self):
        """A card is never quiet."""
        r = self.migrate("a", "--live vm1 b")
        self.t.ok(r.status == 4 and "--cut" in r.out and self.devices[2] in r.out, "a card moves only if somebody says so", r.out)
        says = self.migrate("a", "--dry-run --live --cut vm1 b").out
        self.t.ok(f"let {self.devices[2]} go to b (node 2 cut)" in says and "will be stopped for about" in says,
                  "--dry-run says what it would cost", says)

    def unnamed(self):
        """A migration of libvirt's that nobody has announced."""
        for words in ("save vm1 /tmp/vm1.saved", "managedsave vm1", "dump vm1 /tmp/vm1.core", "snapshot-create-as vm1 one",
                      "snapshot-create-as vm1 one --memspec /tmp/vm1.memory,snapshot=external --no-metadata"):
            r = self.vm.virsh(words, check=False, timeout=300)
            self.t.ok(r.status, f"virsh {words} is refused", r.out)
            self.t.equal(self.vm.state(), "running", "  and the VM runs on")
        self.writers.go_on(self.vm)

    def consoles(self):
        """What the guest has said, on whichever host."""
        for name, host in self.c.hosts.items():
            self.t.diag(f"vm1 on {name}: {host.run('tail -n 40 /var/log/libvirt/qemu/vm1.console', check=False).out}")

    def moves(self, source, to, words):
        t = self.t
        self.writers.go_on(self.vm)
        resets = self.resets()
        up = float(self.vm.run("cat /proc/uptime").out.split()[0])
        result = self.migrate(source, f"--json --live --cut {words} vm1 {to}")
        t.diag(result.out)
        t.equal(result.status, 0, f"dlend migrate --live --cut {words} vm1 {to}, on host {source}", result.out)
        self.vm.follow(self.host(to))
        t.equal(self.vm.run(SAME).out, self.same, "the guest: same boot, same memory, same devices, no message of their drivers")
        self.writers.go_on(self.vm)
        t.ok(float(self.vm.run("cat /proc/uptime").out.split()[0]) > up, "  its clock goes on")
        t.equal(self.writers.lost(self.vm), "", "  no block was refused")
        node = str(self.f.node[to])
        t.equal([self.f.lender_state(device)[:2] for device in self.devices], [("held", node)] * 3,
                f"the lender says that node {node} has all three")
        t.equal(self.resets(), resets, "  and has reset none")
        t.equal(virt.left(self.host(source)), [], f"nothing of it is left on host {source}")
        self.finds_link()
        t.passed("the card interrupts, and has a link")
        self.same = self.vm.run(SAME).out       # its driver has said that


def main():
    with Tap() as t, Cluster("virt-hosts.toml", tap=t) as c:
        m = Live(t, c)
        virt.up(m.f)
        with t.case("a VM"):
            m.begins()
        with t.case("what is refused"):
            m.refused()
            m.unnamed()
        for name, source, to, words in (("to another borrower", "a", "b", ""), ("to the lender itself", "b", "c", "--copy compare"),
                                        ("and back", "c", "a", "--copy send")):
            failed = t.failed
            with t.case(name):
                m.moves(source, to, words)
            if t.failed > failed:
                m.consoles()
        m.writers.check(t, m.vm)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
