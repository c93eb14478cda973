#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A device that translates addresses by itself (ATS): refused, or, if the administrator trusts it, told to forget them.

    host a (node 1): guest ------ ab ------ host b (node 2): rng with ATS, one without, and two of one group, one with it

The first of a group that is bound has the group's DMA blocked.  Kernels turn ATS off then, and on again with the next
domain (Intel's driver here, on 6.12 and 7.2): so the second looks harmless, until somebody borrows one of them.

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
BIND = ("cd /sys/bus/pci/devices/{0}; [ ! -e driver ] || echo {0} >driver/unbind; echo dlend-lender >driver_override; "
        "echo {0} >/sys/bus/pci/drivers_probe || :; basename $(readlink driver) 2>/dev/null || echo none")
UNBIND = "cd /sys/bus/pci/devices/{0}; [ ! -e driver ] || echo {0} >driver/unbind; echo >driver_override"
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
    b.run(f"echo N >{ALLOW}")
    t.ok(said[1] == "WARN" and "trusts it" in said[0], "doctor says that it is allowed", str(said))


def ats(b, bdf):
    return b.run(f"lspci -vv -s {bdf} | sed -n 's/.*ATSCtl:[[:space:]]*Enable\\([+-]\\).*/\\1/p'").out.strip()


def nobody_gets(t, f, b, address, bdf):
    """Whoever asks for one of them is refused, and told why; then its ATS is off again."""
    f.wait_state("a", address, "free")
    r = f.dlend("a", f"attach {address} 2>&1", check=False, timeout=120)
    t.ok(r.status and "by itself (ATS)" in r.out, f"{address}: a host that asks for it is refused, and told why", r.out)
    f.wait_state("a", address, "free")
    uuid = f.mdev("a", address, "dlend-pci")
    with f.guest("a", "refused", devices=[f.device(uuid)], wait=False):
        f.wait_mdev("a", uuid, "failed", 60)
        state = f.mdev_state("a", uuid)
        t.ok("by itself (ATS)" in state, "  so is a VM", state)
        t.equal(ats(b, bdf), "-", "  and the device has no ATS while they are shut out")
    f.mdev_stop("a", uuid)


def group(t, f, b):
    """Its ATS comes on with the domain of whoever borrows it, or of whoever borrows the one beside it."""
    first, second = b.bdf("pair", 0), b.bdf("pair", 1)
    f.host("a").load_modules("dlend_native")
    t.equal(b.run(BIND.format(second), timeout=60).out.split()[-1], "none", "the second one, alone: its ATS is on, and it is not lent")
    t.equal(b.run(BIND.format(first), timeout=60).out.split()[-1], "dlend-lender", "the first one can be lent")
    blocked = ats(b, second)
    driver = b.run(BIND.format(second), timeout=60).out.split()[-1]
    t.equal((blocked, driver), (blocked, "none" if blocked == "+" else "dlend-lender"), f"ATS of the second one, blocked: {blocked}")
    if driver == "dlend-lender":
        for n in range(2):
            nobody_gets(t, f, b, f.address("b", "pair", n), second)
        said = b.run("dmesg").out
        t.ok(f"{second}: not lent: it translates addresses by itself" in said, "the lender's log says which device, and what to do")
    for bdf in (second, first):
        b.run(UNBIND.format(bdf), timeout=60)


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
    blocked = order.index("dma_blocked")
    t.ok("dev_tlb" in order[:blocked] or ats(b, b.bdf("rng")) == "-",
         "it is told to forget its translations, or its ATS is turned off, before the lender says that its DMA is blocked", str(order))
    t.ok("reset" in order[blocked:], "  and then it is reset")


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
        with t.case("in a group"):
            group(t, f, b)
        b.run(f"echo Y >{ALLOW}")
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
