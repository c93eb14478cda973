#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Interrupts without the lender's processor.

    host a (node 1): guests, and itself ------ ab ------ host b (node 2): nvme0, nvme1, edu

QEMU's IOMMU does not look at who asks for an interrupt, so a hostile device reaches more entries of its table here than it
would on hardware.
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import attach, detach, node_of, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DEBUG, Fabric, polled  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT, iommu_fault_at  # noqa: E402  pylint: disable=wrong-import-position

BLOCKS = 64
ALLOW = "/sys/class/dlend_link/*:*/direct_interrupts"
SUM = (f"dd if=/dev/urandom of=/tmp/d bs=4k count={BLOCKS} 2>/dev/null; dd if=/tmp/d of={{0}} bs=4k oflag=direct 2>/dev/null; "
       f"dd if={{0}} bs=4k count={BLOCKS} iflag=direct 2>/dev/null | cmp - /tmp/d && echo same")
TIMEOUT_MS = 1500   # of the guest's driver, which then looks by itself
PAGE = 0xfef00000   # where a device of a lender writes direct interrupts to
SIZE = 0x100000
HANDLE = 0x10       # what makes an address one of a remapped interrupt, whose number is in bits 5 to 19
EDU = "0000:00:10.0"


def link_stat(host, name):
    return sum(map(int, re.findall(rf"^{name}: (\d+)$", host.run(f"cat {DEBUG}/links/*:*").out, re.M)))


def counts(a, b):
    """Interrupts that the lender's processors have taken, and that came directly to the borrower."""
    fired = sum(map(int, b.run("grep dlend-lender /proc/interrupts | sed 's/^[^:]*: *//' | awk '{s += $1 + $2} END {print s + 0}'")
                .out.split()))
    return fired, link_stat(a, "irq_direct")


def since(a, b, before):
    return [now - then for now, then in zip(counts(a, b), before)]


def uses(t, a, b, g, disk, direct, what):
    before = counts(a, b)
    t.equal(g.run(SUM.format(f"/dev/{disk}"), timeout=240).out, "same\n", f"{what}: what was written is read back")
    fired, came = since(a, b, before)
    if direct:
        t.equal(fired, 0, f"{what}: no processor of the lender took an interrupt")
        t.ok(came >= 2 * BLOCKS, f"{what}: all came to the borrower directly", str(came))
    else:
        t.ok(fired >= 2 * BLOCKS and not came, f"{what}: by the doorbell", f"{fired} {came}")
    t.equal(polled(g), 0, f"{what}: the guest has missed none")


def probe(a):
    """What is registered with the kernel's irqbypass manager, and what is signalled."""
    new = int(a.run("uname -r").out.split(".")[0]) >= 7
    where = "eventfd=%si irq=%dx:s32" if new else "eventfd=+16(%di) irq=+24(%di):s32"
    a.run(f"modprobe irqbypass; cd /sys/kernel/tracing && {{ echo 'p:dlend/offered irq_bypass_register_producer {where}' && "
          "echo 'p:dlend/withdrawn irq_bypass_unregister_producer' && echo 'p:dlend/signal eventfd_signal_mask ctx=%di'; } >kprobe_events && "
          "echo >trace && echo 1 >events/dlend/offered/enable && echo 1 >events/dlend/withdrawn/enable")


def traced(a, event):
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in a.run(f"grep ' {event}: ' /sys/kernel/tracing/trace || :").out.splitlines()]


def offered(t, a, b, g, uuid):
    """A host whose processors post interrupts needs no software: KVM is told which interrupt belongs to its eventfd."""
    now = int(re.search(r"^bypass (\d+)$", a.run(f"cat {DEBUG}/mdev/{uuid}/irqs").out, re.M).group(1))
    pairs = traced(a, "offered")
    numbers = re.findall(r"^ *(\d+):.*dlend-direct$", a.run("cat /proc/interrupts").out, re.M)
    t.ok(now >= 2 and {p["irq"] for p in pairs} <= set(numbers), "its interrupts are offered to KVM", f"{now} {pairs} {numbers}")
    last = {p["irq"]: p["eventfd"] for p in pairs}
    wanted = " || ".join(f"ctx == {eventfd}" for eventfd in last.values())
    a.run(f"cd /sys/kernel/tracing/events/dlend/signal && echo '{wanted}' >filter && echo 1 >enable")
    uses(t, a, b, g, "nvme0n1", True, "traced")
    a.run("echo 0 >/sys/kernel/tracing/events/dlend/signal/enable")
    t.ok(len(traced(a, "signal")) >= BLOCKS, "  with the eventfds that KVM gets them by", wanted)


def withdrawn(t, a):
    said = [len(traced(a, event)) for event in ("offered", "withdrawn")]
    t.ok(said[0] == said[1] and said[0], "all offers to KVM are withdrawn, before the interrupts are freed", str(said))
    a.run("cd /sys/kernel/tracing; echo 0 >events/dlend/enable; echo >kprobe_events; echo >trace")


def off(t, f, a, b, uuid, address):
    with f.guest("a", "off", devices=[f.device(uuid)]) as g:
        uses(t, a, b, g, "nvme0n1", False, "not allowed")
        said = f.interrupts("a", address)
        t.equal(said, "doorbell: the link does not allow direct interrupts", "the reason is shown")
        g.shutdown()
    f.wait_state("a", address, "free")


def on(t, f, a, b, uuids, addresses):
    a.run(f"echo on | tee {ALLOW}")
    probe(a)
    with f.guest("a", "first", devices=[f.device(uuids[0])]) as g:
        uses(t, a, b, g, "nvme0n1", True, "allowed")
        offered(t, a, b, g, uuids[0])
        t.equal(f.interrupts("a", addresses[0]), "direct", "it is shown")
        with f.guest("a", "second", devices=[f.device(uuids[1])]) as h:
            uses(t, a, b, h, "nvme0n1", False, "another VM")
            said = f.interrupts("a", addresses[1])
            t.equal(said, "doorbell: another VM, or this host, has direct interrupts of this link", "the reason is shown")
        uses(t, a, b, g, "nvme0n1", True, "the first one goes on")
        g.reboot()
        uses(t, a, b, g, "nvme0n1", True, "after a reboot")
        order(t, f.cluster, g)
        g.shutdown()
    for address in addresses:
        f.wait_state("a", address, "free")
    withdrawn(t, a)
    with f.guest("a", "both", devices=[f.device(uuid) for uuid in uuids]) as g:
        for n in range(2):
            uses(t, a, b, g, f"nvme{n}n1", True, f"both devices in one VM: disk {n}")
        g.kill(9)
    for address in addresses:
        f.wait_state("a", address, "free")
    t.equal(a.run("grep -c dlend-direct /proc/interrupts || :").out.strip(), "0", "all vectors are given back")


def order(t, c, g):
    """Data and interrupts take one queue of the bridge's, as on hardware. With one for each window the data may be late."""
    g.run(f"echo {TIMEOUT_MS} >/sys/block/nvme0n1/queue/io_timeout")
    with c.link("ab").late("b", "data"):
        g.run("for i in 1 2 3 4; do dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null; done", timeout=240)
        t.ok(polled(g), "in a bridge that let interrupts overtake data the guest would miss some: this test can fail")


def attacks(t, a, b, g, h):
    uses(t, a, b, h, "nvme0n1", False, "another VM")
    before = counts(a, b)[1]
    with a.provoke(IOMMU_FAULT, "an entry of the table that is not in use", must=False):
        for first in range(0, 256, 64):
            g.run(f"p2p words {EDU} {PAGE + HANDLE + 32 * first:#x}", timeout=120)
    t.ok(counts(a, b)[1] > before, "it fires vectors of its own VM's")
    uses(t, a, b, h, "nvme0n1", False, "the other VM goes on")
    with b.provoke(IOMMU_FAULT, "behind the page is nothing"):
        g.run(f"p2p out {EDU} {PAGE + SIZE:#x}", check=False, timeout=60)
        b.wait_for(f"dmesg | grep -qE '{iommu_fault_at(PAGE + SIZE)}'", 20)
    t.passed("what it writes behind the page is blocked by the IOMMU of its lender, and reported")


def hostile(t, f, a, b, uuids):
    """A guest makes its device ask for 256 interrupts by number, and write beyond that."""
    with f.guest("a", "evil", modules=(), tools=("programs",),
                 devices=[f.device(uuids["edu"], f",addr={EDU[8:10]}")]) as g:
        before = counts(a, b)
        g.run(f"echo 1 >/sys/bus/pci/devices/{EDU}/enable; edu {EDU}", timeout=120)
        fired, came = since(a, b, before)
        t.ok(not fired and came >= 10, "a device with MSI, whose interrupts come directly", f"{fired} {came}")
        with f.guest("a", "victim", devices=[f.device(uuids["nvme1"])]) as h:
            attacks(t, a, b, g, h)
            t.equal(g.complaints() + h.complaints(), [], "neither guest's kernel has a complaint")


def none_here(t, f, a, b, uuid, address):
    """A bridge without a second window."""
    a.run(f"echo on | tee {ALLOW}")
    with f.guest("a", "none", devices=[f.device(uuid)]) as g:
        uses(t, a, b, g, "nvme0n1", False, "allowed, and not possible")
        said = f.interrupts("a", address)
        t.ok("second window" in said, "the reason is shown", said)
        g.shutdown()
    f.wait_state("a", address, "free")


def reads(t, a, b, node, what):
    """This host itself uses a disk: it is read with each of its processors."""
    for cpu in range(2):
        before, on = counts(a, b), per_processor(a)
        a.run(f"taskset -c {cpu} dd if={node} of=/dev/null bs=4k count={BLOCKS} iflag=direct 2>/dev/null", timeout=120)
        fired, came = since(a, b, before)
        t.ok(not fired and came >= BLOCKS, f"{what}, processor {cpu}: directly", f"{fired} {came}")
        here = [now - then for now, then in zip(per_processor(a), on)]
        t.ok(here[cpu] >= BLOCKS // 2 > here[1 - cpu], "  and to that processor, where its driver wants them", str(here))


def per_processor(a):
    return [int(n) for n in a.run("awk '/dlend-direct/ {s += $2; t += $3} END {print s + 0, t + 0}' /proc/interrupts").out.split()]


def attached(t, f, a, b, uuid, addresses):
    """The kernel's own vectors of attached devices are one user's: this host's."""
    attach(t, f, addresses[0], "nvme")
    node = node_of(a, addresses[0])
    t.equal(a.run(SUM.format(node), timeout=120).out, "same\n", "attached: what was written is read back")
    reads(t, a, b, node, "attached")
    t.equal(f.interrupts("a", addresses[0]), "direct", "it is shown")
    with f.guest("a", "late", devices=[f.device(uuid)]) as g:
        uses(t, a, b, g, "nvme0n1", False, "a VM beside it")
        g.shutdown()
    f.wait_state("a", addresses[1], "free")
    f.mdev_stop("a", uuid)
    attach(t, f, addresses[1], "nvme")
    reads(t, a, b, node_of(a, addresses[1]), "a second one")
    a.run(f"echo 1 | tee /sys/bus/pci/devices/{pci(addresses[1])}/nvme/*/reset_controller", timeout=120)
    reads(t, a, b, node_of(a, addresses[1]), "its driver started it again")
    reads(t, a, b, node, "the first one goes on")
    detach(t, f, addresses[1])
    of_vfio(t, f, a, b, addresses[1])
    reads(t, a, b, node, "the first one goes on")
    detach(t, f, addresses[0])
    t.equal(a.run("grep -c dlend-direct /proc/interrupts || :").out.strip(), "0", "all vectors are given back")


def of_vfio(t, f, a, b, address):
    """What a program makes it do is not this host's own."""
    attach(t, f, address, None)
    vfio_pci(a, address)
    before = counts(a, b)
    out = a.run(f"/share/userdisk {pci(address)} 20 10", timeout=300).out
    came = since(a, b, before)[1]
    found = re.search(r"^ok 20 bytes \d+ interrupts (\d+)", out, re.M)
    t.ok(found and int(found.group(1)) >= 20 and not came, "a program has it: by the doorbell", f"{came} {out}")
    detach(t, f, address)


def link_lost(t, f, c, a, b, uuid, address):
    with f.guest("a", "lost", devices=[f.device(uuid)]) as g:
        uses(t, a, b, g, "nvme0n1", True, "before the link is lost")
        c.link("ab").command("down")
        f.wait_mdev("a", uuid, "failed", 60)
        c.link("ab").command("up")
        f.wait_links("a", 150)
        f.wait_state("a", address, "free", 60)
        g.kill(9)
    with f.guest("a", "after", devices=[f.device(uuid)]) as g:
        uses(t, a, b, g, "nvme0n1", True, "in the next session")
    f.wait_state("a", address, "free")
    t.equal(a.run("grep -c dlend-direct /proc/interrupts || :").out.strip(), "0", "all vectors are given back")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest" / "userdisk", c.run_dir / "share" / "userdisk")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        addresses = [f.lend("b", f"nvme{n}") for n in range(2)]
        uuids = [f.mdev("a", address, "dlend-nvme") for address in addresses]
        a.run(f"echo off | tee {ALLOW}")
        with t.case("off, as it is at first"):
            off(t, f, a, b, uuids[0], addresses[0])
        if c.link("ab").family == "switchtec":
            with t.case("no second window"):
                none_here(t, f, a, b, uuids[0], addresses[0])
            return
        with t.case("on"):
            on(t, f, a, b, uuids, addresses)
        with t.case("the link is lost"):
            link_lost(t, f, c, a, b, uuids[0], addresses[0])
        with t.case("a hostile guest"):
            hostile(t, f, a, b, {"edu": f.mdev("a", f.lend("b", "edu"), "dlend-pci"), "nvme1": uuids[1]})
        for address in addresses:
            f.wait_state("a", address, "free")
        f.mdev_stop("a", uuids[0])
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        with t.case("attached"):
            attached(t, f, a, b, uuids[1], addresses)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
