#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A lent disk writes into the memory of another lent device, and reads from it, while their guest moves: nothing is lost.

    host a (node 1): the guest at first ---- ab ---- host b (node 2): near, the disk
           \\------ ac ---- host c (node 3): far, with memory of its own, and the guest later ---- bc ---- host b

On host c the one is that host's own.  The disk is driven by a program (guest/prp.c), which has the next transfer made as
soon as the guest runs again.  It goes one way only: emulated hosts that read from each other through one NTB stop both
(tests/ntbsim/README.md).  A transfer seldom meets the moment in which the way there is not open, so the lender's tracepoints
tell, too, that there is none.

In the end the link between the two lenders goes down: the way then leads through host a, to where its windows onto far's BARs
are.  They opened when the guest came back.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from monitor import THERE_AND_BACK, Moving  # noqa: E402  pylint: disable=wrong-import-position
from peers import bar_address, enable  # noqa: E402  pylint: disable=wrong-import-position

NEAR, FAR = "0000:00:10.0", "0000:00:11.0"
MEMORY_BAR = 2
ROUNDS = 20


class Ferry:
    """The program."""

    def __init__(self, t, m):
        self.t, self.m = t, m

    def begin(self):
        vm = self.m.vm
        enable(vm, NEAR, FAR)
        self.reached()
        vm.run("echo 0 >/tmp/rounds")
        at = bar_address(vm, FAR, MEMORY_BAR)
        vm.spawn(f"prp ferry {NEAR} {at:#x} 0 {FAR} {MEMORY_BAR} /tmp/rounds >/tmp/wrong 2>&1")

    def never_in_vain(self, what):
        """As the disk's lender has seen it since the trace was cleared: whenever it may transfer, the way is open."""
        disk = next(iter(self.m.devices))
        steps = [line for event, _, line in self.m.f.trace("b", f"(dlend_bus_master|dlend_lend_p2p): {disk} ")]
        transfers, opened, wrong = True, True, []
        for step in steps:
            if "dlend_bus_master" in step:
                transfers = step.endswith(" on")
            elif f" bar={MEMORY_BAR} " in step:
                opened = bool(re.search(r" map .* status=0$", step))
            if transfers and not opened:
                wrong.append(step)
        begun = [step for step in steps if re.search(r"dlend_bus_master: .* on$", step)]
        self.t.ok(not wrong and transfers and len(begun) == 1, f"{what}: it reaches the other's memory whenever it may transfer",
                  "\n".join(wrong + ["of"] + steps))

    def end(self):
        """In the midst of no transfer."""
        self.m.vm.run("killall prp")
        self.m.vm.wait_for("! killall -0 prp 2>/dev/null")

    def reached(self, way="", timeout=60):
        """The disk reaches that memory, by that way, as its host says."""
        (name, uuids), = self.m.uuid.items()
        self.m.f.host(name).wait_for(f"grep -q ' bar{MEMORY_BAR} .*{way} mapped$' /sys/bus/mdev/devices/{uuids[0]}/dlend/p2p",
                                     timeout)

    def go_on(self, what):
        before = int(self.m.vm.run("cat /tmp/rounds").out)
        self.m.vm.wait_for(f"[ -s /tmp/wrong ] || [ $(cat /tmp/rounds) -gt {before + ROUNDS} ]", 120)
        self.t.equal(self.m.vm.run("cat /tmp/wrong").out, "", f"{what}: it goes on, and every sector is right")


def moves(t, f, m):
    ferry = Ferry(t, m)
    with t.case("a guest"):
        m.begin("a")
        ferry.begin()
        ferry.go_on("before it moves")
    for source, to in THERE_AND_BACK:
        with t.case(f"{source} to {to}"):
            f.trace_clear("b")
            m.move(source, to)
            ferry.go_on(f"on host {to}")
            ferry.never_in_vain(f"{source} to {to}")
            ferry.reached()
    with t.case("through its host"):
        ferry.reached("lender-link")
        ferry.end()
        f.cluster.link("bc").command("down")
        try:
            ferry.reached("via-borrower", 90)
            t.passed("without a link between the lenders, it reaches the other's memory through host a")
        finally:
            f.cluster.link("bc").command("up")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        lent = {f.lend(name, "nvme0"): "dlend-nvme" for name in "bc"}
        with Moving(t, f, lent, memory="128M", modules=(), tools=("programs",)) as m:
            moves(t, f, m)
        t.equal(c.complaints(), [], "no kernel has a complaint, and no IOMMU has blocked anything")


main()
