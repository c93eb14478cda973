#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VM moves, and something goes wrong: whose disk it is is never in doubt.

    host a (node 1): the VM at first ---- ab ---- host b (node 2): nvme0
           \\------ ac ---- host c (node 3): the VM later ---- bc ---- host b
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from moves import Moves, vm  # noqa: E402  pylint: disable=wrong-import-position


def words(m):
    """What cannot be written to move_to."""
    def refused(what, why, name):
        out = m.host("a").run(f"echo {what} | tee {m.vdev('a')}/dlend/move_to", check=False)
        m.t.ok(out.status and why in out.out, f"move_to: {name}", out.out)
    refused("3", "No such device", "no VM has the device")
    with vm(m, "a"):
        for what in ("3 fast", "cut", "3 cut all cut all cut all"):
            refused(what, "Invalid argument", what)
        refused("70000", "out of range", "no node's number")
        # "all": with iommufd, as in check-debug, any other is refused for that
        refused("1 all", "Invalid argument", "the node that it is on")
        m.t.equal(m.host("a").run(f"cat {m.vdev('a')}/dlend/move_to").out, "0\n", "and the VM may go nowhere")
    m.free("not named")


def unarmed(m):
    """Nobody has said where to: a VMM that saves its VM, or a VMM that is asked to, is refused, and the VM goes on."""
    t = m.t
    with vm(m, "a") as there:
        m.host("a").run("touch /tmp/go")
        m.ends(there, "a", "no target node: the VM goes on where it was")
        t.ok("refused: Operation not permitted" in m.said("a"), "and the VMM was told", m.said("a"))
        m.logged("a", "dlend migrate --live", "the log says what to do")
    m.free("not moved")


def cancelled(m):
    """The VM stays: who prepared for it takes nothing over."""
    t = m.t
    with vm(m, "a") as there:
        here = m.comes("a", "c")
        m.host("a").run("touch /tmp/back")
        m.wait_said("a", "goes on")
        t.equal(m.lender()[:2], ("held", "1"), "the VM goes on where it was, with its disk")
        m.begins("c")
        here.wait(120, check=False)
        t.ok("has failed" in m.said("c"), "a VMM that starts it over there as well is told that it has no disk", m.said("c"))
        m.logged("c", "still in use on its old node", "the log says why")
        m.ends(there, "a", "the VM finds every block as it was written")
    m.free("cancelled")


def continued(m):
    """The VM is over there, and somebody lets the old VMM go on, too."""
    t = m.t
    with vm(m, "a") as there:
        here = m.expected("a", "c")
        m.leaves("a")
        m.ends(here, "c", "it has moved")
        m.host("a").run("touch /tmp/back")
        there.wait(120, check=False)
        t.ok("has failed" in m.said("a"), "a VMM that lets it go on where it was as well is told that it has no disk",
             m.said("a"))
        m.logged("a", "another host has taken it over", "the log says why")
    m.free("moved")


def waited(m):
    """For how long the disk has waited for nobody, the last time, by its lender's clock."""
    log = m.host("b").run("dmesg").out
    stamps = [[float(stamp) for stamp in re.findall(rf"^\[ *([\d.]+)\] .*{words}", log, re.M)]
              for words in ("has let it go before", "no node took it over")]
    return stamps[1][-1] - stamps[0][-1]


def old_one_dies(m):
    """Its VMM is killed when it has given the disk away, before the other one has begun."""
    t = m.t
    m.f.patience(m.disk, 20)
    with vm(m, "a") as there:
        here = m.comes("a", "c")
        resets = m.resets()
        m.kill(there)
        m.host("b").wait_for("dmesg | grep -q 'node 1 has let it go before node 3'", 20)
        t.equal(m.lender()[:2], ("held", "1"), "the old VMM is dead: its disk waits, as it was, for the new one")
        m.begins("c")
        m.ends(here, "c", "and the VM goes on there")
    m.free("the old one died")
    t.equal(m.resets(), resets + 1, "it was reset once: when its VM had gone in the end")


def nobody_comes(m):
    """Both VMMs are killed: after a time the disk is reset, and everybody's. Not earlier, although it waited before."""
    t = m.t
    m.f.patience(m.disk, 30)
    with vm(m, "a") as there:
        here = m.expected("a", "c")
        m.kill(here)
        m.leaves("a")
        resets = m.resets()
        m.kill(there)
        m.free("nobody comes")
        t.equal(m.resets(), resets + 1, "it was reset")
        seconds = waited(m)
        t.ok(seconds >= 30, "it had waited for as long as was said", f"{seconds:.1f} s")
    m.f.patience(m.disk, 60)


def new_one_dies(m):
    """The VMM that waits is killed: the VM goes on, and moves another time."""
    with vm(m, "a") as there:
        here = m.expected("a", "c")
        m.kill(here)
        here = m.expected("a", "c")
        m.leaves("a")
        m.host("a").run("touch /tmp/end")
        there.wait(60)
        m.ends(here, "c", "the first VMM that waited was killed: the second one gets the VM")
    m.free("moved at the second try")


def links(m):
    """The new host's link is lost before the VM has come: it stays. The old one's is lost then: it goes."""
    t = m.t
    with vm(m, "a") as there:
        here = m.expected("a", "c", late=True)
        with m.cut("bc"):
            m.leaves("a")
            here.wait(200, check=False)
            t.ok("refused" in m.said("c"), "the new host's link is down: what comes is refused", m.said("c"))
        m.host("a").run("touch /tmp/back")
        m.ends(there, "a", "and the VM goes on where it was")
    m.free("its link was down")
    with vm(m, "a") as there:
        here = m.comes("a", "c")
        with m.cut("ab"):
            m.begins("c")
            m.ends(here, "c", "the old host's link is lost after the VM has left: it goes on over there")
    m.free("its old link was down")


PATIENCE = "/sys/module/dlend_core/parameters/call_timeout_ms"


def late(m):
    """Its lender is late when the VM goes on: longer than VFIO's call waits, so that the VM runs before it has its disk."""
    t, there = m.t, m.host("c")
    was = there.run(f"cat {PATIENCE}; echo 60000 >{PATIENCE}").out.strip()
    with vm(m, "a"):
        here = m.comes("a", "c")
        with m.host("b").stands_still():
            m.begins("c")
            m.wait_said("c", "goes on", 60)
            t.ok(m.f.mdev_state("c", m.uuid["c"]).startswith("prepared"), "the VM runs, and does not have its disk yet")
        m.ends(here, "c", "it has it as soon as the lender answers, and finds every block as it was written")
    there.run(f"echo {was} >{PATIENCE}")
    m.free("its lender was late")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        m = Moves(t, c)
        # A lender that stands still for a while keeps its sessions.
        m.begin(heartbeat_timeout_ms=60000)
        for case in (words, unarmed, cancelled, continued, old_one_dies, nobody_comes, new_one_dies, links, late):
            with t.case(case.__name__.replace("_", " ")):
                case(m)
                m.unprepare("c")
        for host in c.hosts.values():
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
