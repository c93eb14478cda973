#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Peer-to-peer where there is no room for all of it, and a lender that dies while it is written into.

    host a (node 1): guest ---- ab, 256 MiB ---- host b (node 2): edu, near, one-b, two-b
           \\------------ ac ---- host c (node 3): far, of 256 MiB, one-c, two-c ---- bc, 64 MiB ---- host b
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import iommu_fault_at  # noqa: E402  pylint: disable=wrong-import-position
from peers import ACCESSES, Peers  # noqa: E402  pylint: disable=wrong-import-position

DEVICES = {"edu": ("b", "dlend-pci", 0x10), "near": ("b", "dlend-gpu", 0x11), "far": ("c", "dlend-gpu", 0x12)}
REGISTERS = 2       # far's small BAR
FULL = "error -28, a window is full"
NO_DOUBT = "others of that clique are or were out of reach, or an administrator has set it so"
BOOKED = "error -105, the room in a window is booked for another VM"
SHARE = "/sys/module/dlend_core/parameters/p2p_window_percent"
ONE = {"one-b": ("b", "dlend-gpu", 0x10), "one-c": ("c", "dlend-gpu", 0x11)}
TWO = {"two-b": ("b", "dlend-gpu", 0x10), "two-c": ("c", "dlend-gpu", 0x11)}
NARROW = "no way there and back has windows for all BARs"
TAKEN = "what is left of the windows is too small for all BARs, as other VMs use them, too"


def clique(b, name):
    return b.host.run(f"cat /sys/bus/mdev/devices/{b.uuid[name]}/dlend/clique").out.strip()


def claimed(t, b):
    """An admin's own number is shown to the guest, true or not; what is not true of it is said when it is opened."""
    b.clique(2)
    b.host.run(f"echo auto >/sys/bus/mdev/devices/{b.uuid['far']}/clique")
    b.f.dlend("c", f"lend --clique 2 {b.c.host('c').bdf('far')}")
    b.host.wait_for(f"grep -qx 2 /sys/bus/dlend/devices/{b.address['far']}/clique", 20)
    with b.f.guest("a", "claim", wait=False, kernel=False, memory="160M", devices=b.devices(), extra=["-S"]) as g:
        g.qmp("query-status")
        t.equal([clique(b, name) for name in DEVICES], ["2"] * 3, "an override is what the guest sees, for far that of its lender")
        log = b.host.run("dmesg | grep 'clique 2 claims'").out
        warned = sorted(set(re.findall(r"clique 2 claims peer-to-peer with (\S+),", log)))
        others = sorted(b.uuid[name] for name in ("edu", "near"))
        t.equal(warned, others, "far, opened last, is warned of for both devices that it does not reach", log)
    b.host.run("dmesg -C")


def opened(pair, label):
    """A guest that does not run: its VMM has opened the devices, so what its guest will see stands."""
    return pair.f.guest(pair.name, label, wait=False, kernel=False, memory="160M", devices=pair.devices(), extra=["-S"])


def told(pair, g):
    """The cliques that a guest sees, and the doubts between its two devices."""
    g.qmp("query-status")
    files = [f"/sys/bus/mdev/devices/{uuid}/dlend" for uuid in pair.uuid.values()]
    return [clique(pair, name) for name in pair.uuid], [pair.host.run(f"cat {name}/p2p_doubts").out for name in files]


def doubts(pair, why):
    return [f"{address} {why}\n" for address in reversed(pair.address.values())]


def reserved(t, one, two):
    """A VM that has opened its devices has its room, before anything is mapped; what another one maps does not take it."""
    with opened(one, "first") as first:
        t.equal(told(one, first), (["0", "0"], ["", ""]), "the first VM: one clique")
        with two.f.guest(two.name, "second", modules=(), memory="160M", devices=two.devices(), tools=("programs",)) as two.g:
            t.equal(told(two, two.g), (["0", "1"], doubts(two, TAKEN)), "the second: two, and p2p_doubts says why")
            log = two.host.run("dmesg | grep 'clique 1, not 0'").out
            t.ok(two.uuid["two-c"] in log and TAKEN in log, "so does the log", log)
            text = two.f.dlend("a", "topology").out
            t.ok(TAKEN in text and "in different cliques:" in text, "and dlend topology", text)
            two.enable()
            for source, target in (("two-b", "two-c"), ("two-c", "two-b")):
                two.wait_way(source, target, f"none {BOOKED}", two.bar(target))
            t.passed("what it was not promised is not mapped, though nothing else is yet")
            log = two.host.run("dmesg | grep 'does not reach BAR 0'").out
            t.ok("it is tried again, and succeeds when that VM ends" in log, "and the log says until when", log)
            first.kill()
            two.wait_mapped()
            t.passed("the first ends: it is")
            t.equal(told(two, two.g), (["0", "1"], doubts(two, NO_DOUBT)), "its guest has been told already: the cliques stay")
            with opened(one, "third") as third:
                t.equal(told(one, third), (["0", "1"], doubts(one, TAKEN)), "a VM that comes now: what is mapped is taken, too")
            two.g.shutdown()
    for pair in (one, two):
        for address in pair.address.values():
            pair.f.wait_state("a", address, "free")
    with opened(two, "next") as g:
        t.equal(told(two, g), (["0", "0"], ["", ""]), "all have ended: the next VM has one clique")


def compete(t, b):
    """Two VMs, and a window that has room for one.  Through the borrower there is none."""
    share = b.host.run(f"cat {SHARE}; echo 0 >{SHARE}").out.strip()
    pairs = [Peers(t, b.c, b.f, "a", devices) for devices in (ONE, TWO)]
    for pair in pairs:
        pair.clique("always")
    reserved(t, *pairs)
    b.host.run(f"echo {share} >{SHARE}; dmesg -C")


def too_small(t, b):
    """Mappings that fit stand, and the clique is that of devices that reach each other."""
    t.equal([clique(b, name) for name in DEVICES], ["0", "0", "1"], "far is left out of the clique: the mdev's setting beats the lender's")
    log = b.host.run("dmesg | grep 'clique 1, not 0'").out
    t.ok(b.uuid["far"] in log and NARROW in log, "and the log says why", log)
    b.wait_mapped("far", timeout=60)
    for name in ("edu", "near"):
        b.wait_way(name, "far", f"none {FULL}", b.bar("far"), timeout=60)
        t.equal({key: (way, state) for key, (_, way, state) in b.reach(name).items() if key[0] == "far"},
                {("far", 0): ("none", FULL), ("far", REGISTERS): ("lender-link", "mapped")},
                f"{name}: far's registers are mapped, its memory does not fit")
    t.equal({(key, way) for key, (_, way, _) in b.reach("far").items()},
            {(("edu", 0), "lender-link"), (("near", 0), "lender-link"), (("near", 2), "lender-link")},
            "far reaches all that the others have")
    log = b.host.run("dmesg | grep 'does not reach BAR 0'").out
    t.ok("a window is full; give the NTBs larger ones" in log, "what to do about it is said", log)
    log = b.c.host("c").run("dmesg | grep 'does not fit into the window to node 2'").out
    t.ok("BAR 0 (262144 KiB)" in log, "by the lender, too, in numbers", log)
    text = b.f.dlend("a", "topology").out
    t.ok(re.search(rf"{b.address['edu']} +{b.address['far']} +0 .* none +{FULL}\n", text) and "WARNING" not in text,
         "dlend topology shows it, and nothing claims otherwise", text)


def fits(t, b):
    """Both of what fits: on one lender, and from lender to lender."""
    at = b.bar("near")
    b.p2p("load", b.bdf("edu"), 21)
    b.p2p("out", b.bdf("edu"), at)
    t.equal(b.p2p("check", at, 21, check=False), "ok", "edu writes into near's memory")


def lender_dies(t, c, b):
    """edu writes into far's registers all the time: whoever is there, it is not the device's RAM that is at stake."""
    f, at = b.f, b.bar("far", REGISTERS)
    writes = f"while p2p out {b.bdf('edu')} {at:#x} >/dev/null; do echo 1; done"
    job = b.g.spawn(writes)
    before = b.counts()[("bc", "a")]
    c.loop.wait("edu's writes", lambda: b.counts()[("bc", "a")] >= before + ACCESSES, 60)
    t.passed("edu's writes pass from lender to lender")
    for name in "ab":
        f.trace_clear(name)
    b.blocked("b", at, "edu still writes to the dead lender's device")
    c.host("c").kill()
    f.host("a").wait_for(f"grep -q '^failed' /sys/bus/mdev/devices/{b.uuid['far']}/dlend/state", 60)
    t.passed("the lender's death is noticed by the borrower")
    b.c.host("b").wait_for(f"dmesg | grep -qE '{iommu_fault_at(at)}'", 60)
    t.passed("writes that are still under way are blocked by the IOMMU of the other lender, and reported")
    lost = [fields for event, fields, _ in f.trace("b", "(revoked|lost)") if event == "dlend_lend_p2p"]
    t.ok(lost, "which unmapped what led there by itself")
    job.kill()
    t.equal([f.lender_state(b.address[name])[:2] for name in ("edu", "near")], [("held", "1")] * 2,
            "leases of the lender that lives go on")
    job.wait()
    b.p2p("wait", b.bdf("edu"), 0)
    fits(t, b)
    b.p2p("fill", b.bar("near"), 23)
    b.p2p("in", b.bdf("edu"), b.bar("near"))
    t.equal(b.p2p("store", b.bdf("edu"), 23, check=False), "ok", "and reads from it into the guest's RAM")
    zapped = f.stats("a", b.uuid["far"])["dead_faults"]
    out = b.g.run(f"devmem {b.bar('far'):#x} 32", timeout=60, check=False).out.strip().lower()
    t.equal(out, "0xffffffff", "the dead lender's device reads as 0xff")
    t.ok(f.stats("a", b.uuid["far"])["dead_faults"] > zapped, "from a page of its own, not from the window of a dead link")
    t.ok(("far", 0) not in b.reach("edu") or b.reach("edu")[("far", 0)][1] == "none", "nothing of it is mapped")


def main():
    with Tap() as t, Cluster("p2p-small.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        b = Peers(t, c, f, "a", DEVICES)
        free = {name: f.free(name) for name in "ab"}
        with t.case("a clique that is claimed"):
            claimed(t, b)
        with t.case("two VMs that compete"):
            compete(t, b)
        b.clique("always")
        with f.guest("a", "small", modules=(), memory="160M", devices=b.devices(), tools=("programs",)) as b.g:
            b.enable()
            with t.case("windows too small"):
                too_small(t, b)
                fits(t, b)
            with t.case("a lender dies"):
                lender_dies(t, c, b)
        f.wait_state("a", b.address["edu"], "free")
        for name, link in (("a", "ab"), ("b", "ab")):
            key = f.host(name).bdf(f"ntb-{link}")
            t.equal(f.wait_free(name, free[name])[key], free[name][key], f"host {name}: the window of link {link} is free again")
        t.equal(c.host("a").complaints(), [], "host a's kernel has no complaint")


main()
