#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Two functions of one IOMMU group, and so of one domain, in one VM, that reach a third device.

    host a (node 1): guest ---- ab ---- host b (node 2): twins
           \\------------ ac ---- host c (node 3): far ---- bc ---- host b

What one of them has mapped, the other has, too: it must not notice that the first one goes.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

MEMORY = 160 << 20
FAR = "0000:00:12.0"


class Group:
    """Both twins and far, lent, and made into mediated devices of a."""

    def __init__(self, t, c):
        self.t, self.c, self.f = t, c, Fabric(c)
        self.a, self.b = c.host("a"), c.host("b")
        self.f.up(timeout=150)
        self.f.dlend("b", f"lend --group {self.b.bdf('twins')}", timeout=120)
        self.twins = [self.f.address("b", "twins", n) for n in range(2)]
        self.far = self.f.lend("c", "far")
        for address in self.twins:
            self.f.wait_state("a", address, "free")
        self.uuids = [self.f.mdev("a", address, "dlend-nvme") for address in self.twins]
        self.uuid_far = self.f.mdev("a", self.far, "dlend-gpu")
        for uuid in (*self.uuids, self.uuid_far):
            self.a.run(f"echo always >/sys/bus/mdev/devices/{uuid}/clique")

    def guest(self, label):
        devices = [self.f.device(uuid, f",id=twin{n},bus=hp{n}") for n, uuid in enumerate(self.uuids)]
        devices.append(self.f.device(self.uuid_far, ",id=far,addr=0x12"))
        return self.f.guest("a", label, memory="160M", devices=devices, ports=2, tools=("programs",))

    def reached(self, g, way):
        """Both twins reach far, this way.  Returns where."""
        g.run(f"echo 1 >/sys/bus/pci/devices/{FAR}/enable; p2p on {FAR}")
        at = int(g.run(f"cat /sys/bus/pci/devices/{FAR}/resource").out.split()[0], 16)
        for uuid in self.uuids:
            self.a.wait_for(f"grep -q '^{self.far} bar0 {at:#x} .* {way} mapped' "
                            f"/sys/bus/mdev/devices/{uuid}/dlend/p2p", 60)
        self.t.passed(f"both functions reach far's BAR: {way}")
        return at


def unplugged(t, group, g):
    """One goes; what both had mapped is not touched, so that the other's transfers go on."""
    f = group.f
    at = group.reached(g, "lender-link")
    disk = g.run("cd /sys/block && grep -l DLEND-TWIN-1 nvme*/device/serial").out.split("/")[0]
    g.run(f"dd if=/dev/urandom of=/tmp/data bs=64k count=2 2>/dev/null; "
          f"dd if=/tmp/data of=/dev/{disk} bs=64k oflag=direct 2>/dev/null", timeout=240)
    reads = g.spawn(f"while dd if=/dev/{disk} bs=64k count=2 iflag=direct 2>/dev/null | cmp - /tmp/data; "
                    "do echo >>/tmp/reads; done; echo differs")
    f.trace_clear("b")
    g.qmp("device_del", id="twin0")
    g.wait_event("DEVICE_DELETED", 60, lambda data: data.get("device") == "twin0")
    group.b.wait_for("grep -q 'dlend_reset:' /sys/kernel/tracing/trace", 60)
    g.wait_for(f"[ $(wc -l </tmp/reads) -ge {int(g.run('cat /tmp/reads 2>/dev/null | wc -l').out) + 5} ]", 120)
    t.ok(not reads.over, "one is unplugged: the other's transfers go on, and bring what they should")
    reads.kill()
    unmapped = [(int(fields["iova"], 16), line) for event, fields, line in f.trace("b", "dlend_domain_unmap")
                if event == "dlend_domain_unmap"]
    touched = [line for iova, line in unmapped if iova < MEMORY or iova == at]
    t.equal(touched, [], "nothing that it uses was unmapped, not for a moment")
    t.ok(unmapped, "what only the other used was")
    t.equal(group.f.lender_state(group.twins[1])[:2], ("held", "1"), "and the group stays lent")
    t.equal(g.complaints(), [], "the guest's kernel has no complaint")


def link_lost(t, group, c):
    """Their ways to far lead through the borrower, whose link goes: both lose all at once."""
    f = group.f
    c.link("bc").command("down")
    with group.guest("lost") as g:
        group.reached(g, "via-borrower")
        c.link("ab").command("down")
        group.b.wait_for(f"[ $(cat /sys/bus/pci/devices/0000{group.twins[0][5:]}/dlend/state) = free ]", 90)
        t.passed("the borrower's link is lost: the lender has fenced and reset both")
    for name in ("ab", "bc"):
        c.link(name).command("up")
    f.wait_links("b", 150)
    for address in group.twins:
        f.wait_state("a", address, "free", 90)
    t.passed("and both can be borrowed again")


def pulled_out(t, group):
    """One goes while a VM has both, and cannot be reset, as it is not there any more: that is no reason to keep the other."""
    f, b = group.f, group.b
    stays, goes = group.twins
    bdf = f"0000{goes[5:]}"
    b.late_writes("ab", "the VM's firmware writes to the disk until its host hears that it has gone")
    with f.guest("a", "pulled", wait=False, kernel=False, memory="64M", devices=[f.device(uuid) for uuid in group.uuids]):
        for uuid in group.uuids:
            f.wait_mdev("a", uuid, "running", 120)
        b.run(f"echo 1 >/sys/kernel/debug/dlend/lender/{bdf}/fail_reset; echo {bdf} >/sys/bus/pci/drivers/dlend-lender/unbind; "
              f"echo 1 >/sys/bus/pci/devices/{bdf}/remove", timeout=60)
    f.wait_state("a", stays, "free", 60)
    t.passed("one is pulled out while a VM has both: the other is lent on")


def main():
    with Tap() as t, Cluster("group-hosts.toml", tap=t) as c:
        group = Group(t, c)
        free = {name: group.f.free(name) for name in "abc"}
        with t.case("one function is unplugged"):
            with group.guest("both") as g:
                unplugged(t, group, g)
        with t.case("the borrower is lost"):
            link_lost(t, group, c)
        for name in "abc":
            t.equal(group.f.wait_free(name, free[name]), free[name], f"all windows of host {name} are free again")
        # What was not reset keeps its part of the window until the link begins anew
        with t.case("one is pulled out"):
            pulled_out(t, group)
        for name in "bc":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
