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
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

SLOT = {"edu": 0x10, "near": 0x11, "far": 0x12}
WHERE = {"edu": "b", "near": "b", "far": "c"}
TYPE = {"edu": "dlend-pci", "near": "dlend-gpu", "far": "dlend-gpu"}
PAGE = 4096
ACCESSES = PAGE // 8        # at most 8 bytes each, on the emulated NTB
QUIET = ACCESSES // 2       # heartbeats and edu's registers are fewer
FREE = 0xd0000000           # of the guest's PCI hole, and a multiple of the BARs' size
RAM = 0x2000000


def bdf(name):
    return f"0000:00:{SLOT[name]:02x}.0"


class Bench:
    """The guest, its three devices, and what the links count."""

    def __init__(self, t, c, f):
        self.t, self.c, self.f = t, c, f
        self.address = {name: f.lend(WHERE[name], name) for name in SLOT}
        self.uuid = {name: f.mdev("a", self.address[name], TYPE[name]) for name in SLOT}
        for uuid in self.uuid.values():
            c.host("a").run(f"echo always >/sys/bus/mdev/devices/{uuid}/clique")
        self.g = None

    def devices(self):
        return [self.f.device(self.uuid[name], f",id={name},addr={SLOT[name]:#x}") for name in SLOT]

    def p2p(self, *words, check=True):
        return self.g.run("p2p " + " ".join(str(w) if isinstance(w, str) else hex(w) for w in words),
                          timeout=120, check=check).out.strip()

    def bar(self, name):
        return int(self.g.run(f"head -n 1 /sys/bus/pci/devices/{bdf(name)}/resource").out.split()[0], 16)

    def reach(self, name):
        """{(target, bar): (address, way, state)} of dlend/p2p."""
        out = self.c.host("a").run(f"cat /sys/bus/mdev/devices/{self.uuid[name]}/dlend/p2p").out
        names = {address: n for n, address in self.address.items()}
        found = re.findall(r"^(\S+) bar(\d) (\S+) \S+ (\S+) (.+)$", out, re.M)
        return {(names[a], int(bar)): (int(at, 16), way, state) for a, bar, at, way, state in found}

    def wait_way(self, target, way, at, timeout=40):
        self.c.host("a").wait_for(
            f"grep -q '^{self.address[target]} bar0 {at:#x} .* {way}' "
            f"/sys/bus/mdev/devices/{self.uuid['edu']}/dlend/p2p", timeout)

    def counts(self):
        """Accesses that each side has made through its windows: {("ab", "b"): n}."""
        links = json.loads(self.c.ntbsim("status"))["links"]
        return {(link, side): links[link][side]["reads"] + links[link][side]["writes"]
                for link in links for side in "ab"}

    def counted(self, *words):
        before = self.counts()
        self.p2p(*words)
        after = self.counts()
        return {key: after[key] - before[key] for key in after}

    def counted_read(self, at, busy):
        """edu's read.  Nobody looks at its registers while windows are busy with it: emulated hosts that read from
        each other through one NTB at the same time stop both (tests/ntbsim/README.md)."""
        before = self.counts()
        self.p2p("start", bdf("edu"), at)
        end = time.monotonic() + 60
        while any(self.counts()[key] - before[key] < ACCESSES for key in busy) and time.monotonic() < end:
            time.sleep(0.5)
        time.sleep(0.5)     # for the last reply
        self.p2p("wait", bdf("edu"), 0)
        after = self.counts()
        return {key: after[key] - before[key] for key in after}


def windows_used(t, got, busy, what):
    """Exactly these windows carried a page; on the others there is next to nothing."""
    carried = {key for key, n in got.items() if n >= ACCESSES}
    quiet = {key for key, n in got.items() if n < QUIET}
    t.ok(carried == busy and quiet == got.keys() - busy, what, str(got))


def transfers(b, target, at, busy, name):
    """Both directions, byte for byte; meanwhile nothing of it comes by the borrower's memory."""
    t = b.t
    got = b.counted("load", bdf("edu"), 1)
    t.ok(got[("ab", "b")] >= ACCESSES, f"{name}: what edu reads from the guest's RAM is counted on ab", str(got))
    b.p2p("fill", at, 99)
    windows_used(t, b.counted("out", bdf("edu"), at), busy, f"{name}: edu's write takes the windows {sorted(busy)}, only")
    t.equal(b.p2p("check", at, 1, check=False), "ok", f"{name}: and the guest finds it in {target}'s BAR")
    b.p2p("fill", at, 7)
    windows_used(t, b.counted_read(at, busy), busy, f"{name}: edu's read takes the same")
    t.equal(b.p2p("store", bdf("edu"), 7, check=False), "ok", f"{name}: and is what the guest put there")


def cliques(b):
    """All reach each other, so all say the same; the bytes are those of the specification."""
    for name in SLOT:
        text = b.g.run(f"hexdump -ve '1/1 \"%02x\"' /sys/bus/pci/devices/{bdf(name)}/config").out.strip()
        config = bytes.fromhex(text)
        at = config.find(b"\x08P2P") - 2
        b.t.ok(at >= 0x40 and config[at] == 9 and config[at + 1] == 0 and config[at + 6:at + 8] == b"\0\0",
               f"{name} has the capability, last in the list, version 0, clique 0", text[:512])
        shown = b.c.host("a").run(f"cat /sys/bus/mdev/devices/{b.uuid[name]}/dlend/clique").out.strip()
        b.t.equal(shown, "0", f"{name}: sysfs says so, too")


def matrix(b):
    for name in SLOT:
        b.p2p("on", bdf(name))
    for name in SLOT:
        b.c.host("a").wait_for(f"! grep -q none /sys/bus/mdev/devices/{b.uuid[name]}/dlend/p2p", 60)
    way = {(s, t): next(w for (n, bar), (_, w, _) in b.reach(s).items() if n == t and bar == 0)
           for s in SLOT for t in SLOT if s != t}
    want = {pair: "same-lender" if "far" not in pair else "lender-link" for pair in way}
    b.t.equal(way, want, "who reaches whom: all of them, by the shortest way")


def moves(b):
    """The guest puts the BAR elsewhere; over another BAR; over its own RAM; and back."""
    t, a, home = b.t, b.c.host("a"), b.bar("far")
    b.p2p("load", bdf("edu"), 3)
    b.p2p("move", bdf("far"), FREE)
    b.wait_way("far", "lender-link mapped", FREE)
    b.p2p("out", bdf("edu"), FREE)
    t.equal(b.p2p("check", FREE, 3, check=False), "ok", "the mapping follows a BAR that moves")
    b.p2p("move", bdf("far"), b.bar("near"))
    b.wait_way("far", "none placed over another BAR", b.bar("near"))
    b.wait_way("near", "none placed over another BAR", b.bar("near"))
    t.ok(True, "two BARs at one address: neither is mapped, and it says so")
    b.p2p("move", bdf("far"), RAM)
    b.wait_way("far", "none error -17", RAM)
    t.ok("over its own RAM" in a.run("dmesg | grep 'does not reach' | tail -n 1").out, "over RAM: refused, with a message")
    b.wait_way("near", "same-lender mapped", b.bar("near"))
    b.p2p("move", bdf("far"), home)
    b.wait_way("far", "lender-link mapped", home)
    t.ok(True, "back at its place it is reached again")


def detour(b):
    """Without the link between the lenders the way leads through the borrower."""
    t, at = b.t, b.bar("far")
    b.c.link("bc").command("down")
    b.wait_way("far", "via-borrower mapped", at)
    t.ok(any(fields.get("err") == "0" for event, fields, line in b.f.trace("a", "lost") if event == "dlend_p2p"),
         "b's lender says that it had to unmap")
    transfers(b, "far", at, {("ab", "b"), ("ac", "a")}, "via the borrower")
    links = json.loads(b.c.ntbsim("status"))["links"]
    t.ok(links["ab"]["a"]["dma_writes"] >= ACCESSES, "what arrives at a goes on to another BAR, not to RAM")
    b.c.link("bc").command("up")
    b.f.wait_links("b")


def blocked(b, target):
    """The target's lender takes it back: what was its address leads nowhere."""
    t, lender, at = b.t, b.c.host(WHERE[target]), b.bar(target)
    for name in "abc":
        b.f.trace_clear(name)
    lender.run(f"echo force >/sys/bus/pci/devices/0000{b.address[target][5:]}/dlend/reclaim", timeout=60)
    steps = [line for event, _, line in b.f.trace(WHERE[target]) if event in ("dlend_fence", "dlend_grant", "dlend_lend_p2p")]
    revoked = [i for i, line in enumerate(steps) if " close " in line or " revoked " in line]
    reset = [i for i, line in enumerate(steps) if re.search(r" reset epoch", line)]
    t.ok(revoked and reset and revoked[0] < reset[0], f"{target}: nothing reaches it before it is reset", "\n".join(steps))
    b.c.host("b").run("dmesg -C")
    b.p2p("out", bdf("edu"), at, check=False)
    b.c.host("b").wait_for(f"dmesg | grep -qi 'DMAR.*fault addr.*{at:x}'", 20)
    t.ok(True, f"{target}: edu's next write there is blocked by the IOMMU of its lender, and reported")
    t.ok(("edu", 0) not in b.reach("edu") and b.reach("edu")[(target, 0)][2] == "not in use", f"{target}: and sysfs shows it")


def main():
    with Tap() as t, Cluster("p2p-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        b = Bench(t, c, f)
        free = {name: f.free(name) for name in "abc"}
        with f.guest("a", "p2p", modules=(), memory="160M", devices=b.devices(), tools=("programs",)) as b.g:
            b.g.run("for d in " + " ".join(map(bdf, SLOT)) + "; do echo 1 >/sys/bus/pci/devices/$d/enable; done")
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
