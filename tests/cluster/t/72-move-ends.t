#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VM moves, and one of the hosts, VMMs or links goes, at each step: its disk is never anybody else's, and free in the end.

    host a (node 1): the VM at first ---- ab ---- host b (node 2): nvme0
           \\------ ac ---- host c (node 3): the VM later ---- bc ---- host b

What is refused in time is 72-move-faults'.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from moves import Moves, moves, vm  # noqa: E402  pylint: disable=wrong-import-position


def stays_lost(m, job, name, what):
    """Its VMM, which holds the VM still, lets it go on: it is told that it has no disk any more."""
    m.host(name).run("touch /tmp/back; rm -f /tmp/late")
    job.wait(120, check=False)
    m.t.ok("\nok " not in m.said(name) and ("has failed" in m.said(name) or "refused" in m.said(name)), what, m.said(name))


def loses(m, job, name, what):
    """Its VM has lost the disk; the VMM's interrupts do not come any more."""
    m.f.wait_mdev(name, m.uuid[name], "failed", 60)
    m.t.passed(what)
    m.kill(job)


def source_first(m):
    """The VMM is killed before the VM has left: as any VM's end.  Who waits has nothing to take over, and is in nobody's way."""
    t = m.t
    with vm(m, "a") as there:
        m.expected("a", "c")
        resets = m.resets()
        m.kill(there)
        m.free("killed before the VM left")
        t.equal(m.resets(), resets + 1, "  it was reset")
        again = m.runs("a")
        m.host("a").run("touch /tmp/go")
        m.ends(again, "a", "another VM has the disk, though somebody still waits for the one that died")
    m.free("nobody waits any more")


def target_in_standby(m):
    """The VMM is killed that has all it needs, and has not begun."""
    with vm(m, "a") as there:
        here = m.comes("a", "c")
        resets = m.resets()
        m.kill(here)
        m.host("a").run("touch /tmp/back")
        m.ends(there, "a", "killed before the VM began there: it goes on where it was")
    m.free("killed in standby")
    m.t.equal(m.resets(), resets + 1, "it was reset once: when its VM had gone in the end")


def target_later(m):
    """The VMM is killed when the VM runs there: that was the VM's end.  The old VMM does not bring it back."""
    t = m.t
    with vm(m, "a") as there:
        here = m.goes("a", "c")
        resets = m.resets()
        m.kill(here)
        m.free("killed after the VM began there")
        t.equal(m.resets(), resets + 1, "  it was reset")
        stays_lost(m, there, "a", "the old VMM lets the VM go on: it is told that it has no disk")
        t.equal(m.lender()[0], "free", "  and the disk is nobody's")


def source_cut_off(m):
    """The link is lost of a VM that runs, and comes back: another host that was to have it does not get it by that."""
    t = m.t
    with vm(m, "a") as there:
        m.expected("a", "c")
        resets = m.resets()
        with m.cut("ab"):
            loses(m, there, "a", "the link is lost of a VM that was to move: it has lost its disk")
            m.f.wait_state("c", m.disk, "free", 60)
            t.equal(m.resets(), resets + 1, "  which was reset, and is free, though another host was to have it")
    m.free("the link is back")


def target_cut_off(m):
    """The link is lost of the host that the VM is to go on on: before that, it goes on where it was, and not there."""
    with vm(m, "a") as there:
        here = m.comes("a", "c")
        with m.cut("bc"):
            stays_lost(m, here, "c", "the link is lost before the VM begins there: it cannot")
            m.host("a").run("touch /tmp/back")
            m.ends(there, "a", "  and goes on where it was")
    m.free("lost in standby")


def target_cut_off_later(m):
    """... and after that, the disk is lost, as for any VM."""
    t = m.t
    with vm(m, "a") as there:
        here = m.goes("a", "c")
        resets = m.resets()
        with m.cut("bc"):
            loses(m, here, "c", "the link is lost after the VM began there: it has lost its disk")
            m.free("lost after the VM began there")
            t.equal(m.resets(), resets + 1, "  it was reset")
            stays_lost(m, there, "a", "the old VMM lets the VM go on: it is told that it has no disk")


def lender_again(m, meanwhile=None):
    """The disk's host resets; in time it lends the disk again."""
    m.host("b").reset()
    if meanwhile:
        meanwhile()
    m.f.load("b")
    for name in "bac":
        m.f.wait_links(name)
    m.f.lend("b", "nvme0")


def lender_at_first(m):
    with vm(m, "a") as there:
        m.expected("a", "c")
        lender_again(m, lambda: loses(m, there, "a", "the lender resets while the VM runs: it has lost its disk"))
    m.free("the lender is back")


def lender_in_standby(m):
    with vm(m, "a") as there:
        here = m.comes("a", "c")
        lender_again(m)
        stays_lost(m, here, "c", "the lender resets while the VM is nowhere: the new host cannot let it go on")
        stays_lost(m, there, "a", "  nor can the old one")
        m.t.equal(m.lender()[0], "free", "  and the disk is nobody's")


def lender_later(m):
    with vm(m, "a") as there:
        here = m.goes("a", "c")
        lender_again(m, lambda: loses(m, here, "c", "the lender resets after the move: the VM has lost its disk"))
        stays_lost(m, there, "a", "  and does not go on where it was")
    m.free("the lender is back again")


def another_clique(m):
    """On the new host the guest would see that its disk is in a clique: it knows that it is in none."""
    with vm(m, "a") as there:
        m.names("a", m.f.node["c"])
        m.f.wait_available("c", m.disk)
        m.prepare("c")
        m.host("c").run(f"echo 5 >{m.vdev('c')}/dlend/clique")
        here = m.expected("a", "c")
        m.leaves("a")
        here.wait(120, check=False)
        m.t.ok("refused" in m.said("c"), "another clique there: what comes is refused", m.said("c"))
        m.logged("c", "and would see 5 here; set the attribute clique to", "  the log says what to do")
        m.host("a").run("touch /tmp/back")
        m.ends(there, "a", "  and the VM goes on where it was")
    m.free("it was refused")


CASES = (source_first, target_in_standby, target_later, source_cut_off, target_cut_off, target_cut_off_later, another_clique,
         lender_at_first, lender_in_standby, lender_later)


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        m = Moves(t, c)
        m.begin()
        for case in CASES:
            with t.case(case.__name__.replace("_", " ")):
                case(m)
                m.unprepare("c")
        with t.case("and a VM moves"):
            moves(m, "a", "c")
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
