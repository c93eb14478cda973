#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A peer of another version: refused with both versions named, or used with what both speak.

    host a (node 1) ------ ab ------ host b (node 2): nvme0, nvme1
    reads b's version otherwise

b is as ever; ntbsim makes a read another range of versions in b's scratchpads.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

VERSION = 1         # the second of side a's scratchpads, which b writes
SWITCHTEC = 2064    # where ntb_hw_switchtec has them in its shared page (struct shared_mw)
OURS = 1
NEWER = OURS + 1    # one that does not exist
ERROR = f"node 2 speaks protocol {NEWER} to {NEWER}, this node {OURS} to {OURS}"


def attribute(host, name):
    return host.run(f"cat /sys/class/dlend_link/*:*/{name}").out.strip()


def claim(c, oldest, newest):
    """What host a reads as b's version from now on."""
    value = oldest << 16 | newest
    if c.link("ab").family == "switchtec":
        # RAM of its own, where the other one's driver writes
        c.ntbsim(f"mute ab b 2 {SWITCHTEC + 4 * VERSION} 4")
        c.ntbsim(f"poke ab a 2 {SWITCHTEC + 4 * VERSION} {value.to_bytes(4, 'little').hex()}")
    else:
        c.ntbsim(f"override ab a {VERSION} {value}")


def tell_truth(c):
    c.ntbsim("mute ab b 2 0 0" if c.link("ab").family == "switchtec" else "override ab a off")


def train_again(c, a, b):
    c.link("ab").command("down")
    for host in (a, b):
        host.wait_for("! grep -qx up /sys/class/dlend_link/*:*/state", 20)
    c.link("ab").command("up")


def window_accesses(c):
    """Of both sides, reads and writes, from the start; in window 2 ntb_hw_switchtec has the scratchpads."""
    link = json.loads(c.ntbsim("status"))["links"]["ab"]
    return [link[side][kind] for side in "ab" for kind in ("reads4", "writes4")]


def running_session(t, c, a):
    session = attribute(a, "session")
    claim(c, NEWER, NEWER)
    c.wait_traffic("ab", "writes", 20)      # heartbeats
    t.equal((attribute(a, "state"), attribute(a, "session")), ("up", session),
            "a session that was agreed on goes on, whatever the version says later")


def refused(t, c, a, b):
    train_again(c, a, b)
    a.wait_for("grep -q 'speaks protocol' /sys/class/dlend_link/*:*/last_error", 60)
    error = attribute(a, "last_error")
    t.ok(error.startswith(ERROR), "last_error names the node, and which versions each side speaks", error)
    t.ok("install the same dlend on both" in error, "and what to do", error)
    link = json.loads(a.run("dlend links --json").out)["links"][0]
    t.equal((link["state"], link["last_error"]), ("hello", error), "dlend links --json says the same")
    t.ok(error in a.run("dlend links").out, "and so does dlend links")
    b.wait_for("grep -qx hello /sys/class/dlend_link/*:*/state", 20)


def nothing_goes_over(t, c, f, a, b, before, later):
    """An offer from before is gone, one made now does not arrive, and the window is not touched."""
    t.equal((attribute(a, "session"), attribute(b, "session")), ("0", "0"), "there is no session")
    accesses = window_accesses(c)
    f.dlend("b", f"lend {b.bdf('nvme1')}", timeout=120)
    c.wait_traffic("ab", "reg_reads", 200)  # of scratchpads, some at each look for a peer
    offers = f.offers("a")
    t.equal(offers.get(before, {}).get("state", "gone"), "gone", "the offer that was known is gone")
    t.ok(later not in offers, "the one that is made now is not seen", str(offers))
    t.equal(window_accesses(c), accesses, "nobody reads or writes through the window")
    for host in (a, b):
        t.equal(attribute(host, "slots"), "ctrl 1 ram 0 bar 0 irq 0 p2p 0",
                f"host {host.name} lets the peer reach its control area only")
    t.equal((attribute(a, "state"), attribute(b, "state")), ("hello", "hello"), "both still look for a peer")
    said = a.run("dmesg | grep -c 'speaks protocol'").out.strip()
    t.equal(said, "1", "the kernel log has it once, not at every look")


def comes_back(t, c, f, before, later):
    tell_truth(c)
    for name in ("a", "b"):
        f.wait_links(name, 60)
    for address in (before, later):
        f.wait_state("a", address, "free")
    t.passed("with a version that both speak the link is up by itself, with all offers")


def newer_peer(t, c, f, a, b):
    """It speaks ours, too: nothing is wrong."""
    claim(c, OURS, NEWER)
    train_again(c, a, b)
    for name in ("a", "b"):
        f.wait_links(name, 60)
    t.equal((attribute(a, "version"), attribute(a, "self_test")), (str(OURS), "passed"),
            "with a peer that speaks newer ones, too, the newest common version is used")
    tell_truth(c)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        before = f.lend("b", "nvme0")
        later = f.address("b", "nvme1")
        with t.case("a running session"):
            running_session(t, c, a)
        with t.case("no common version"):
            refused(t, c, a, b)
            nothing_goes_over(t, c, f, a, b, before, later)
        with t.case("a common version again"):
            comes_back(t, c, f, before, later)
        with t.case("a newer peer"):
            newer_peer(t, c, f, a, b)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
