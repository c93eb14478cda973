#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A borrowed device writes into and reads from others of its guest, wherever they are.

    host a (node 1): guest ---- ab ---- host b (node 2): edu, near
           \\------------ ac ---- host c (node 3): far ---- bc ---- host b

edu does DMA, to near on its own lender, to far over bc, and with bc down through a.
"""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position
from klog import iommu_fault_at  # noqa: E402  pylint: disable=wrong-import-position
from peers import ACCESSES, Peers  # noqa: E402  pylint: disable=wrong-import-position

DEVICES = {"edu": ("b", "dlend-pci", 0x10), "near": ("b", "dlend-gpu", 0x11), "far": ("c", "dlend-gpu", 0x12)}
FREE = 0xd0000000           # of the guest's PCI hole, and a multiple of the BARs' size
RAM = 0x2000000


def transfers(b, target, at, busy, name):
    """Both directions, byte for byte; meanwhile nothing of it comes by the borrower's memory."""
    t = b.t
    got = b.counted("load", b.bdf("edu"), 1)
    t.ok(got[("ab", "b")] >= ACCESSES, f"{name}: what edu reads from the guest's RAM is counted on ab", str(got))
    b.p2p("fill", at, 99)
    b.windows_used(b.counted("out", b.bdf("edu"), at), busy, f"{name}: edu's write takes the windows {sorted(busy)}, only")
    t.equal(b.p2p("check", at, 1, check=False), "ok", f"{name}: and the guest finds it in {target}'s BAR")
    b.p2p("fill", at, 7)
    b.windows_used(b.counted_read("edu", at, busy), busy, f"{name}: edu's read takes the same")
    t.equal(b.p2p("store", b.bdf("edu"), 7, check=False), "ok", f"{name}: and is what the guest put there")


def cliques(b):
    """All reach each other, so all say the same; the bytes are those of the specification."""
    for name in DEVICES:
        text = b.g.run(f"hexdump -ve '1/1 \"%02x\"' /sys/bus/pci/devices/{b.bdf(name)}/config").out.strip()
        config = bytes.fromhex(text)
        at = config.find(b"\x08P2P") - 2
        b.t.ok(at >= 0x40 and config[at] == 9 and config[at + 1] == 0 and config[at + 6:at + 8] == b"\0\0",
               f"{name} has the capability, last in the list, version 0, clique 0", text[:512])
        shown = b.c.host("a").run(f"cat /sys/bus/mdev/devices/{b.uuid[name]}/dlend/clique").out.strip()
        b.t.equal(shown, "0", f"{name}: sysfs says so, too")


def matrix(b):
    b.wait_mapped()
    way = {(s, t): next(w for (n, bar), (_, w, _) in b.reach(s).items() if n == t and bar == 0)
           for s in DEVICES for t in DEVICES if s != t}
    want = {pair: "same-lender" if "far" not in pair else "lender-link" for pair in way}
    b.t.equal(way, want, "who reaches whom: all of them, by the shortest way")


def moves(b):
    """The guest puts the BAR elsewhere; over another BAR; over its own RAM; and back."""
    t, a, home = b.t, b.c.host("a"), b.bar("far")
    b.p2p("load", b.bdf("edu"), 3)
    b.p2p("move", b.bdf("far"), FREE)
    b.wait_way("edu", "far", "lender-link mapped", FREE)
    b.p2p("out", b.bdf("edu"), FREE)
    t.equal(b.p2p("check", FREE, 3, check=False), "ok", "the mapping follows a BAR that moves")
    b.p2p("move", b.bdf("far"), b.bar("near"))
    b.wait_way("edu", "far", "none placed over another BAR", b.bar("near"))
    b.wait_way("edu", "near", "none placed over another BAR", b.bar("near"))
    t.passed("two BARs at one address: neither is mapped, and it says so")
    b.p2p("move", b.bdf("far"), RAM)
    b.wait_way("edu", "far", "none error -17", RAM)
    t.ok("over its own RAM" in a.run("dmesg | grep 'does not reach' | tail -n 1").out, "over RAM: refused, with a message")
    b.wait_way("edu", "near", "same-lender mapped", b.bar("near"))
    b.p2p("move", b.bdf("far"), home)
    b.wait_way("edu", "far", "lender-link mapped", home)
    t.passed("back at its place it is reached again")


def detour(b):
    """Without the link between the lenders the way leads through the borrower."""
    t, at = b.t, b.bar("far")
    b.f.trace_clear("a")
    b.c.link("bc").command("down")
    b.wait_way("edu", "far", "via-borrower mapped", at)
    t.ok(any(fields.get("err") == "0" for event, fields, line in b.f.trace("a", "lost") if event == "dlend_p2p"),
         "b's lender says that it had to unmap")
    transfers(b, "far", at, {("ab", "b"), ("ac", "a")}, "via the borrower")
    links = json.loads(b.c.ntbsim("status"))["links"]
    t.ok(links["ab"]["a"]["dma_writes"] >= ACCESSES, "what arrives at a goes on to another BAR, not to RAM")
    b.c.link("bc").command("up")
    b.f.wait_links("b")
    # A way that works stays; a BAR that moves takes the best that there is by then.
    c, share = b.c.host("c"), "/sys/module/dlend_core/parameters/p2p_window_percent"
    percent = c.run(f"cat {share}; echo 0 >{share}").out.strip()
    b.p2p("move", b.bdf("far"), FREE)
    b.wait_way("edu", "far", "via-borrower mapped", FREE)
    log = c.run("dmesg | grep 'does not fit into the share of the window to node 2'").out
    t.ok("BAR 0 (4096 KiB)" in log, "the link is back, but peer-to-peer may take nothing of that window: it says so", log)
    c.run(f"echo {percent} >{share}")
    b.p2p("move", b.bdf("far"), at)
    b.wait_way("edu", "far", "lender-link mapped", at)
    t.passed("it may again: a BAR that moves takes the short way")


def write_reported(b, at):
    """edu writes there, and its lender's IOMMU has a line about it.  It says ten in 5 s, and one write has more."""
    b.p2p("out", b.bdf("edu"), at, check=False)
    return b.c.host("b").run(f"dmesg | grep -qE '{iommu_fault_at(at)}'", check=False).status == 0


def blocked(b, target):
    """The target's lender takes it back: what was its address leads nowhere."""
    t, lender, at = b.t, b.c.host(b.where[target]), b.bar(target)
    for name in "abc":
        b.f.trace_clear(name)
    lender.run(f"echo force >/sys/bus/pci/devices/0000{b.address[target][5:]}/dlend/reclaim", timeout=60)
    steps = [line for event, _, line in b.f.trace(b.where[target]) if event in ("dlend_fence", "dlend_grant", "dlend_lend_p2p")]
    revoked = [i for i, line in enumerate(steps) if " close " in line or " revoked " in line]
    reset = [i for i, line in enumerate(steps) if re.search(r" reset epoch", line)]
    t.ok(revoked and reset and revoked[0] < reset[0], f"{target}: nothing reaches it before it is reset", "\n".join(steps))
    b.c.host("b").run("dmesg -C")
    b.blocked("b", at, f"edu still writes to {target}, which it may not any more")
    t.ok(eventually(lambda: write_reported(b, at), True), f"{target}: edu's next write there is blocked by the IOMMU of its lender, and reported")
    t.ok(eventually(lambda: b.reach("edu")[(target, 0)][2], "not in use") == "not in use" and ("edu", 0) not in b.reach("edu"),
         f"{target}: and sysfs shows it")


def main():
    with Tap() as t, Cluster("p2p-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        b = Peers(t, c, f, "a", DEVICES)
        b.clique("always")
        free = {name: f.free(name) for name in "abc"}
        with f.guest("a", "p2p", modules=(), memory="160M", devices=b.devices(), tools=("programs",)) as b.g:
            b.enable()
            with t.case("cliques"):
                cliques(b)
            with t.case("who reaches whom"):
                matrix(b)
            with t.case("same lender"):
                transfers(b, "near", b.bar("near"), set(), "same lender")
            with t.case("another lender"):
                transfers(b, "far", b.bar("far"), {("bc", "a")}, "another lender")
            with t.case("BARs that move"):
                moves(b)
            with t.case("through the borrower"):
                detour(b)
            with t.case("revoked"):
                for target in ("far", "near"):
                    blocked(b, target)
        f.wait_state("a", b.address["edu"], "free")
        for name in "abc":
            t.equal(f.wait_free(name, free[name]), free[name], f"all windows of host {name} are free again")
        for host in ("a", "c"):
            t.equal(c.host(host).complaints(), [], f"host {host}'s kernel has no complaint")


main()
