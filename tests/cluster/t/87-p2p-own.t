#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A guest with a device of its own host beside a borrowed one: lent by that host to itself, and passed through.

    host a (node 1): guest; edu, lent over the link to itself; passed, another edu, by vfio-pci ---- ab ---- host b (node 2): far
           \\------------ ac ---- host c (node 3) ---- bc ---- host b

c might borrow from both.  So it hears how much of their link is left for it.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position
from peers import ACCESSES, Peers, bar_address, enable  # noqa: E402  pylint: disable=wrong-import-position

DEVICES = {"edu": ("a", "dlend-pci", 0x10), "far": ("b", "dlend-gpu", 0x11)}
PASSED = "0000:00:12.0"     # where the guest has it
SEED = 40


def told(b):
    files = [f"/sys/bus/mdev/devices/{uuid}/dlend" for uuid in b.uuid.values()]
    return [b.host.run(f"cat {name}/{what}").out for what in ("clique", "p2p_doubts") for name in files]


def own_and_remote(t, b):
    """Over the link of the two hosts, and over nothing else."""
    t.equal(told(b), ["0\n", "0\n", "", ""], "own and remote device: one clique, no doubt")
    b.wait_way("edu", "far", "lender-link mapped", b.bar("far"))
    b.wait_way("far", "edu", "lender-link mapped", b.bar("edu"))
    t.passed("each reaches the other over the link")
    at = b.bar("far")
    b.p2p("load", b.bdf("edu"), SEED)
    b.p2p("fill", at, SEED + 1)
    got = b.counted("out", b.bdf("edu"), at)
    t.ok(got[("ab", "a")] >= ACCESSES, "edu's write leaves its host by the window", str(got))
    t.equal(b.p2p("check", at, SEED, check=False), "ok", "and the guest finds it in far's BAR")
    b.p2p("fill", at, SEED + 2)
    b.p2p("in", b.bdf("edu"), at)
    t.equal(b.p2p("store", b.bdf("edu"), SEED + 2, check=False), "ok", "edu reads what is there")


def left(f):
    """MiB of their link that a and b say are left for peer-to-peer of c's VMs: there, and back."""
    lines = [line.split() for line in f.host("c").run("cat /sys/bus/dlend/neighbours").out.splitlines()]
    return [int(size) >> 20 for way in (["1", "2"], ["2", "1"]) for *ends, size in lines if ends == way]


def passed(b):
    """Lines of dlend/p2p about BARs that the host itself passes through, for each borrowed device."""
    texts = [b.host.run(f"cat /sys/bus/mdev/devices/{uuid}/dlend/p2p").out for uuid in b.uuid.values()]
    return [[line for line in text.splitlines() if line.startswith("host - ")] for text in texts]


def passed_through(t, b):
    """Neither side's accesses arrive, both are reported, and it was said before."""
    at, far = bar_address(b.g, PASSED, 0), b.bar("far")
    line = f"host - {at:#x} 0x100000 none passed through by this host, not borrowed"
    t.equal(passed(b), [[line]] * 2, "dlend/p2p of each borrowed device has the BAR, and why it is not reached")
    for uuid in b.uuid.values():
        said = b.host.run(f"dmesg | grep '{uuid}.* passes through'", check=False).out
        t.ok(f"with a BAR at {at:#x}:" in said and said.count("\n") == 1, "the log of each says so, once", said)
    b.p2p("load", b.bdf("edu"), SEED)
    b.blocked("a", at, "edu writes to a device that its guest has by vfio-pci")
    b.p2p("out", b.bdf("edu"), at, check=False)
    b.p2p("fill", far, SEED + 3)
    b.p2p("load", PASSED, SEED + 4)
    b.blocked("a", far, "a device that is passed through writes to a borrowed one")
    b.p2p("out", PASSED, far, check=False)
    t.equal(b.p2p("check", far, SEED + 3, check=False), "ok", "what it writes to far does not arrive")


def main():
    with Tap() as t, Cluster("p2p-own.toml", tap=t) as c:
        f = Fabric(c)
        f.up()
        a, own = c.host("a"), c.host("a").bdf("passed")
        b = Peers(t, c, f, "a", DEVICES)
        b.clique("always")
        a.run(f"modprobe vfio-pci; cd /sys/bus/pci/devices/{own} && echo vfio-pci >driver_override && "
              f"{{ [ ! -e driver ] || echo {own} >driver/unbind; }} && echo {own} >/sys/bus/pci/drivers_probe")
        free = {name: f.free(name) for name in "ab"}
        whole = left(f)
        with f.guest("a", "own", modules=(), memory="160M", devices=b.devices(), tools=("programs",)) as b.g:
            b.enable()
            with t.case("own and remote"):
                own_and_remote(t, b)
            t.equal(passed(b), [[], []], "nothing is passed through")
            there, back = whole
            want = [there - 5, back - 1]
            t.equal(eventually(lambda: left(f), want), want, "c hears that a's VM has far's 4 MiB and 4 KiB, and edu's 1 MiB")
            b.g.shutdown()
        for address in b.address.values():
            f.wait_state("a", address, "free")
        t.equal(eventually(lambda: left(f), whole), whole, "and that all is there again")
        devices = [*b.devices(), f"vfio-pci,host={own},addr={PASSED[8:10]}"]
        with f.guest("a", "passed", modules=(), memory="160M", devices=devices, tools=("programs",)) as b.g:
            b.enable()
            enable(b.g, PASSED)
            with t.case("passed through"):
                passed_through(t, b)
            out = b.g.shutdown().out
            t.ok("peer-to-peer transactions on BARs are not supported" in out, "QEMU says that it cannot map a borrowed device's BAR for the other", out)
        for name in "ab":
            t.equal(f.wait_free(name, free[name]), free[name], f"all windows of host {name} are free again")
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
