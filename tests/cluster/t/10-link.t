#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The link: bring-up, self-test, and every way in which it can go wrong.

    host a (node 1) ------ ab ------ host b (node 2)
"""
import contextlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position
from forge import Forge  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position

NO_SUCH_TYPE = 999
BEATS = 40      # of the heart, and what else is written meanwhile


def attribute(host, name):
    return host.run(f"cat /sys/class/dlend_link/*:*/{name}").out.strip()


def session(host):
    return attribute(host, "session")


def without_node_id(t, a):
    """Loaded without a node id, a host says what it wants and keeps its links down."""
    a.load_modules("dlend_core", *a.ntb_modules, "dlend_ntb")
    a.wait_for("dmesg | grep -q 'dlend_core.node_id'", 20)
    t.ok(attribute(a, "state") == "down", "without a node id the link stays down, and the log says what to set")
    a.run("rmmod dlend_ntb && rmmod dlend_core")


def small_window(t, a):
    """Switchtec's driver shows 2 MiB of a window, unless it is told."""
    a.load_modules("ntb_hw_switchtec max_mw_size=0x200000", "dlend_core", "dlend_ntb")
    a.wait_for("dmesg | grep -q 'shows 2 MiB of a window.*options ntb_hw_switchtec max_mw_size='", 20)
    t.equal(a.run("ls /sys/class/dlend_link").out, "", "a window of which the driver shows little is not used, and the log says what to set")
    a.run("rmmod dlend_ntb && rmmod dlend_core && rmmod ntb_hw_switchtec")


def comes_up(t, a, b):
    for host, peer in ((a, "2"), (b, "1")):
        t.equal(attribute(host, "peer_node"), peer, f"{host.name} knows its peer's node id")
        t.equal(attribute(host, "self_test"), "passed", f"{host.name}'s self-test through the window passed")
    t.ok(int(attribute(a, "aperture_bytes")) >= 1 << 26, "the aperture is as large as the window")
    links = a.run("dlend links --json").out
    t.ok('"state": "up"' in links or '"state":"up"' in links, "dlend links says the same")


def reads(c):
    """Of both sides through their windows, from the start."""
    link = json.loads(c.ntbsim("status"))["links"]["ab"]
    return [link[side]["reads"] for side in "ab"]


def reads_nothing(t, c):
    """A read of what the peer has is a round trip."""
    before = reads(c)
    t.ok(min(before) > 0, "each side's self-test has read through the window", str(before))
    c.wait_traffic("ab", "writes", BEATS)
    t.equal(reads(c), before, "after that a link that nobody uses carries writes, and no read")


def changes_session(t, f, what, before, a):
    a.wait_for(f"[ \"$(cat /sys/class/dlend_link/*:*/state)\" = up ] && "
               f"[ \"$(cat /sys/class/dlend_link/*:*/session)\" != {before} ]", 120)
    f.wait_links("b", 60)
    t.passed(f"{what}: the link is up again, in a new session")


def goes_down_and_up(t, f, c, a):
    before = session(a)
    c.link("ab").command("down")
    a.wait_for("grep -qvx up /sys/class/dlend_link/*:*/state", 60)
    t.passed("link down is seen")
    c.link("ab").command("up")
    changes_session(t, f, "link down and up", before, a)


def silent_peer(t, f, c, a):
    before = session(a)
    c.ntbsim("silent ab b on")
    a.wait_for("grep -qvx up /sys/class/dlend_link/*:*/state", 60)
    t.ok("heartbeat" in attribute(a, "last_error"), "a silent peer is noticed by its heartbeat")
    c.ntbsim("silent ab b off")
    changes_session(t, f, "the peer speaks again", before, a)


def counter(host, name):
    out = host.run("cat /sys/kernel/debug/dlend/links/*:*").out
    return int(next(line for line in out.splitlines() if line.startswith(f"{name}:")).split()[1])


def refused(host, more_than):
    """Until more messages are dropped as bad than these."""
    host.wait_for("awk '/^dropped_(bad|session):/ { n += $2 } END { exit !(n > %d) }' "
                  "/sys/kernel/debug/dlend/links/*:*" % more_than, 30)


def malformed_message(t, f, c, a):
    """What the peer's ring would look like if it wrote rubbish."""
    before = session(a)
    bad = counter(a, "dropped_bad") + counter(a, "dropped_session")
    with Forge(c, "ab", "a") as peer:
        peer.send(NO_SUCH_TYPE, call=0)
        refused(a, bad)
        t.equal(session(a), before, "a message that is whole and makes no sense is dropped, and the session goes on")
        peer.garbage()
        refused(a, bad + 1)
        t.passed("a malformed message is dropped and counted")
    changes_session(t, f, "a message that was overwritten, so that something is lost", before, a)
    before = session(a)
    # Muted: or the honest index may be back before anybody looks
    with Forge(c, "ab", "a") as peer:
        peer.set_word(0, peer.word(0) + 1000)
        a.wait_for(f"[ \"$(cat /sys/class/dlend_link/*:*/session)\" != {before} ]", 30)
    changes_session(t, f, "an index that lies", before, a)


def corrupted_control_page(t, f, c, a):
    before = session(a)
    # All of it: indexes alone may be said again before anybody looks at them
    for offset in range(0, 4096, 64):
        c.ntbsim(f"poke ab a 4 {offset} {'a5' * 64}")
    changes_session(t, f, "a corrupted control page", before, a)
    t.ok(attribute(a, "state") != "", "host a is alive after its control page was overwritten")


def peer_reboots(t, f, a, b):
    before = session(a)
    b.reset()
    f.load("b", heartbeat_timeout_ms=None)
    changes_session(t, f, "a peer that rebooted", before, a)


def another_peer(t, f, c, a):
    """The admin says which node is at the other end: who says that it is another one is not believed."""
    link = a.bdf("ntb-ab")
    direct = "off" if attribute(a, "direct_interrupts") == "on" else "on"
    a.run(f"echo 'link {link} peer=3 direct={direct}' >/run/dlend.conf")
    f.dlend("a", "lend --config /run/dlend.conf")
    a.wait_for("grep -q 'is node 2, this link is for node 3 only' /sys/class/dlend_link/*:*/last_error", 20)
    t.ok(attribute(a, "state") != "up", "a link that is for node 3 is not up with node 2, and says so")
    # What its driver unmaps, and Switchtec's leaves open to the peer, the peer writes until it sees that the link is down.
    shared = a.provoke(IOMMU_FAULT, "the peer's scratchpads, in memory that the driver has given back", must=False)
    with shared if c.link("ab").family == "switchtec" else contextlib.nullcontext():
        a.run(f"cd {a.ntb_driver} && echo {link} >unbind && echo {link} >bind", timeout=60)
    a.wait_for("grep -q 'is node 2, this link is for node 3 only' /sys/class/dlend_link/*:*/last_error", 60)
    t.ok(attribute(a, "state") != "up", "nor after its NTB's driver was away")
    t.equal(attribute(a, "direct_interrupts"), direct, "and whether it allows direct interrupts is remembered")
    a.run(f"echo 'link {link} peer=2' >/run/dlend.conf")
    f.dlend("a", "lend --config /run/dlend.conf")
    for name in ("a", "b"):
        f.wait_links(name, 60)
    t.passed("one that is for node 2 is")


def outbound(c, side):
    """Where the window of a side leads: (bus address there, size)."""
    window = json.loads(c.ntbsim("status"))["links"]["ab"][side]["bar4"]
    return int(window["xlat"], 16), window["limit"]


def goes_down_for_good(t, f, c, a, b):
    """Its IOMMU is off when its kernel is done; its NTB is there still."""
    t.ok(outbound(c, "a")[0], "host a's window leads to host b", str(outbound(c, "a")))
    b.spawn("busybox halt -f")
    a.wait_for("grep -qvx up /sys/class/dlend_link/*:*/state", 30)
    console = c.run_dir / "b.console"
    t.ok(eventually(lambda: "System halted" in console.read_text(errors="replace"), True, 60), "host b goes down")
    t.equal(outbound(c, "a")[0], 0, "its NTB is there still, and host a's window leads nowhere")
    b.kill()


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        with t.case("no node id"):
            without_node_id(t, a)
        if c.link("ab").family == "switchtec":
            with t.case("a small window"):
                a.run("rmmod ntb_hw_switchtec")
                small_window(t, a)
        f.up()
        with t.case("bring-up"):
            comes_up(t, a, b)
        with t.case("no reads"):
            reads_nothing(t, c)
        with t.case("down and up"):
            goes_down_and_up(t, f, c, a)
        with t.case("silent peer"):
            silent_peer(t, f, c, a)
        with t.case("corrupted control page"):
            corrupted_control_page(t, f, c, a)
        with t.case("malformed messages"):
            malformed_message(t, f, c, a)
        with t.case("reboot of the peer"):
            peer_reboots(t, f, a, b)
        with t.case("another peer"):
            another_peer(t, f, c, a)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")
        with t.case("a host that goes down"):
            goes_down_for_good(t, f, c, a, b)


main()
