#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A device that translates addresses by itself (ATS): refused, or, if the administrator trusts it, told to forget them.

    host a (node 1): guest ------ ab ------ host b (node 2): rng with ATS, one without

Also: that an IOMMU cannot keep No Snoop requests from passing by caches is said.  One that can is not to be had here
(tests/cluster/README.md).

QEMU's device asks for each address anew, so that one that keeps old ones cannot be shown: what is shown is that the
lender's IOMMU tells it to forget them before it is reset.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

ALLOW = "/sys/module/dlend_lender/parameters/allow_ats"
BUSY = "(while dd if=/dev/hwrng of=/dev/null bs=64 count=1; do :; done) >/dev/null 2>&1 &"
TRACE = "/sys/kernel/tracing"
SOME = "dd if=/dev/hwrng bs=64 count=1 iflag=fullblock 2>/dev/null | wc -c"
QI = f"{TRACE}/events/intel_iommu/qi_submit"


def refused(t, f, b):
    bdf = b.bdf("rng")
    t.ok("Enable+" in b.run(f"lspci -vv -s {bdf} | grep ATSCtl").out, "the lender's kernel has turned the device's ATS on")
    said = f.doctor("b", bdf)[1]["device-ats"]
    t.ok(said[1] == "FAIL" and "is not lent" in said[0], "doctor says that it is not lent", str(said))
    r = f.dlend("b", f"lend {bdf} 2>&1", check=False, timeout=60)
    t.ok(r.status and "pci=noats" in r.out and ALLOW in r.out, "so it is, with what to do about it", f"{r.status}: {r.out}")
    t.ok("not lent: it translates addresses by itself" in b.run("dmesg").out, "by the kernel, too")
    b.run(f"echo Y >{ALLOW}")
    said = f.doctor("b", bdf)[1]["device-ats"]
    t.ok(said[1] == "WARN" and "trusts it" in said[0], "doctor says that it is allowed", str(said))


def forgets(t, f, b, g, address):
    """Its lender takes it back while it is at work."""
    t.equal(g.run(SOME, timeout=60).out.strip(), "64", "a guest uses it")
    g.run(BUSY)
    b.run(f"[ -e {QI} ] && echo 1 >{QI}/enable")
    f.trace_clear("b")
    b.late_writes("ab", "the guest, which is at work, writes to the device until its host hears that it has gone")
    b.run(f"echo force >/sys/bus/pci/devices/0000{address[5:]}/dlend/reclaim", timeout=60)
    f.wait_state("a", address, "free")
    b.run(f"echo 0 >{QI}/enable")
    steps = re.findall(rf"dlend_fence: {address} (\S+)|qi_submit: (dev_tlb)|dlend_reset: {address} ()", b.run(f"cat {TRACE}/trace").out)
    order = [fence or tlb or "reset" for fence, tlb, _ in steps]
    t.ok("dev_tlb" in order[:order.index("dma_blocked")] and "reset" in order[order.index("dma_blocked"):],
         "it is told to forget its translations before the lender says that its DMA is blocked, and then reset", str(order))


def coherent(host, file):
    """Whether No Snoop requests that come in by a link, or from a lent device, cannot pass by this host's caches."""
    return host.run(f"sed -n 's/^coherent: //p' /sys/kernel/debug/dlend/{file}").out.strip()


def no_snoop(t, f, lent):
    """No host's IOMMU can forbid it."""
    for name in ("a", "b"):
        host = f.host(name)
        t.equal((coherent(host, "links/*:*"), "its IOMMU cannot enforce cache coherency" in host.run("dmesg").out), ("0", True),
                f"host {name}: coherency of what the peer does is not enforced, and the log says so")
    t.equal(coherent(f.host("b"), f"lender/0000{lent[5:]}/dma"), "0", "  nor of what a lent device does")


def main():
    with Tap() as t, Cluster("ats-hosts.toml", tap=t) as c:
        f = Fabric(c)
        b = c.host("b")
        f.up()
        with t.case("refused"):
            refused(t, f, b)
        plain = f.lend("b", "plain")
        t.passed("one without ATS is lent at once")
        address = f.lend("b", "rng")
        t.ok("is trusted to forget" in b.run("dmesg").out, "one with ATS is, too, once that is allowed, and the log warns")
        uuid = f.mdev("a", address, "dlend-pci")
        with t.case("taken back"):
            with f.guest("a", "g", tools=("rng",), modules=("virtio-rng",), devices=[f.device(uuid)]) as g:
                g.wait_for("[ -c /dev/hwrng ]", 60)
                no_snoop(t, f, address)
                forgets(t, f, b, g, address)
        with f.guest("a", "next", tools=("rng",), modules=("virtio-rng",), devices=[f.device(uuid)]) as g:
            g.wait_for("[ -c /dev/hwrng ]", 60)
            t.equal(g.run(SOME, timeout=60).out.strip(), "64", "the next guest has it")
        f.wait_state("a", plain, "free")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
