#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Functions beside each other: what happens to one costs the tenants of the others nothing.

    host a (node 1): a program that is its own VMM ---- ab ---- host b (node 2): three cards below one port, two twins

PCI errors (AER), which QEMU makes on the lender, of one of three functions: one is held, one free, one not lent.
Functions that are plugged into the IOMMU group of one that is held, and out of it.
"""
import contextlib
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DEBUG, Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position
from forge import BORROW, CREDIT, WINDOW, Forge, borrow, send  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position

RAM = "/run/canary"
STATUS = 0x08       # a register of the cards that may be written, to no effect
INTMS = 0x0c        # one of the twins' that masks pins only
STORES_ON = "who has a device that is taken away stores on until it hears of that"
OVER = "device recovery (failed|successful)"    # what Linux says at the end of it


def pci(address):
    return f"/sys/bus/pci/devices/0000{address[5:]}"


def stores(host):
    """How often the holder has reached the device: 0 until it has it."""
    return int(host.run(f"od -An -td8 -N8 {RAM}.count 2>/dev/null || echo 0").out)


@contextlib.contextmanager
def holder(t, f, a, address, register, what):
    """Somebody on a has it, and uses it all the time."""
    uuid = f.mdev("a", address, "dlend-nic" if register == STATUS else "dlend-nvme")
    a.run(f"rm -f {RAM}*")
    job = a.spawn(f"/share/canary {RAM} {uuid} 0:{register:#x} 2>&1")
    a.wait_for(f"[ -s {RAM}.count ] && [ $(od -An -td8 -N8 {RAM}.count) -gt 10 ]", 60)
    t.equal(f.lender_state(address)[:2], ("held", "1"), f"{what}: somebody has it")
    try:
        yield uuid
    finally:
        job.kill(9)
        job.wait()
        f.mdev_stop("a", uuid)


def still(t, f, a, address, uuid, epoch, what):
    """The holder has noticed nothing."""
    t.equal(f.lender_state(address), ("held", "1", epoch), f"{what}: who has the one beside it keeps that")
    before = stores(a)
    a.wait_for(f"[ $(od -An -td8 -N8 {RAM}.count) -gt {before + 100} ]", 60)
    state = f.mdev_state("a", uuid)
    t.ok(state.startswith("running"), f"{what}: and goes on using it", state)


def error(b, number, kind):
    """An error of one of the cards, and all that Linux does about it.

    QEMU's igb has one, but cannot tell: its Device Control is read-only. So the last card has one at the same time, and
    tells: Linux then asks the drivers of all.
    """
    said = f"dmesg | grep -cE '{OVER}'"
    before = int(b.run(f"{said} || :").out)
    for n in sorted({number, 2}):
        out = b.hmp(f"pcie_aer_inject_error cards{f'.{n}' if n else ''} {kind}")
        assert "OK" in out, out
    b.wait_for(f"[ $({said}) -gt {before} ]", 60)


def resets(f, address):
    return [line for _, _, line in f.trace("b", f"dlend_reset: {address} ")]


def broken(t, f, b, free):
    """The reset after an error fails; that after the next one does not."""
    fail = f"{DEBUG}/lender/0000{free[5:]}/fail_reset"
    b.run(f"echo Y >{fail}")
    error(b, 1, "COMP_TIME")
    f.wait_state("a", free, "quarantined", 90)
    t.passed("its reset fails, and nobody has it: all see that it is quarantined")
    b.run(f"echo N >{fail}")
    error(b, 1, "COMP_TIME")
    f.wait_state("a", free, "free", 90)
    t.passed("Linux recovers it once more, and its reset is good: it is free again")


def errors(t, f, a, b):
    # As firmware sets ports up, 44-errors
    b.run(f"setpci -s {b.port('cards').bdf} BRIDGE_CONTROL.w=2:2")
    b.run("cd /sys/kernel/tracing && echo 'p:dlend_devctl pcie_capability_clear_and_set_word_unlocked at=%si:u32 "
          "clear=%dx:u16' >>kprobe_events && echo 'at == 8 && clear == 0x800' >events/kprobes/dlend_devctl/filter && "
          "echo 1 >events/kprobes/dlend_devctl/enable")
    groups = {b.run(f"readlink /sys/bus/pci/devices/{b.bdf('cards', n)}/iommu_group").out for n in range(3)}
    t.equal(len(groups), 3, "each card is in a group of its own")
    held, free = (f.lend("b", "cards", n) for n in range(2))
    third = b.bdf("cards", 2)
    b.run(f"cd /sys/bus/pci/devices/{third} && [ ! -e driver ] || echo {third} >driver/unbind")
    # QEMU's devices have no such bit: what counts is that it is cleared
    cleared = b.run("grep -c dlend_devctl: /sys/kernel/tracing/trace || :").out.strip()
    t.equal(cleared, "2", "no device that is lent may leave caches out of what it does (No Snoop)")
    for n in range(2):
        devctl = int(b.run(f"setpci -s {b.bdf('cards', n)} CAP_EXP+8.w").out, 16)
        t.ok(not devctl & 0x800, f"card {n}: nor does it", f"{devctl:#x}")
    with holder(t, f, a, held, STATUS, "one of three") as uuid:
        epoch = f.lender_state(held)[2]
        f.trace_clear("b")
        error(b, 2, "COMP_TIME")
        still(t, f, a, held, uuid, epoch, "an error of one that is not lent")
        t.equal((f.lender_state(free)[0], resets(f, free)), ("free", []), "nothing is done to one that nobody has")
        error(b, 1, "COMP_TIME")
        b.wait_for(f"grep -q 'dlend_reset: {free} ' /sys/kernel/tracing/trace && grep -qx free {pci(free)}/dlend/state", 60)
        t.passed("an error of one that nobody has: it is reset, and offered as before")
        still(t, f, a, held, uuid, epoch, "an error of one that nobody has")
        broken(t, f, b, free)
        still(t, f, a, held, uuid, epoch, "one that nobody has is quarantined")
        error(b, 0, "COMP_TIME")
        f.wait_mdev("a", uuid, "failed", 30)
        state = f.mdev_state("a", uuid)
        t.ok("error" in state, "an error of the one that is held: who has it loses it, and is told why", state)
        b.wait_for(f"grep -qx free {pci(held)}/dlend/state", 60)
        t.passed("though Linux gave up, as one beside it has no driver, its reset has brought it back")
    with holder(t, f, a, held, STATUS, "after that") as uuid:
        error(b, 2, "MALF_TLP")
        f.wait_mdev("a", uuid, "failed", 30)
        t.passed("a fatal error of one that is not lent: Linux resets all below the port, so it is lost")
        for address in (held, free):
            b.wait_for(f"grep -qx free {pci(address)}/dlend/state", 90)
        t.passed("and all of them can be borrowed again")
    f.wait_state("a", held, "free")
    with holder(t, f, a, free, STATUS, "the one that nobody had") as uuid:
        t.ok(f.mdev_state("a", uuid).startswith("running"), "which works")


def plug(t, f, a, b, twins):
    """One of two of a group comes while somebody has the other, and its first reset fails; then that takes long."""
    bind, second = f"{DEBUG}/lender/bind", f"0000{twins[1][5:]}"
    with holder(t, f, a, twins[0], INTMS, "one of a group") as uuid:
        epoch = f.lender_state(twins[0])[2]
        b.run("echo 1 >/sys/bus/pci/rescan", timeout=60)
        b.wait_for(f"[ -e /sys/bus/pci/devices/{second} ]")
        still(t, f, a, twins[0], uuid, epoch, "one is plugged into its group")
        b.run(f"echo Y >{bind}/fail_reset")
        r = f.dlend("b", f"lend --group {second} 2>&1", check=False, timeout=60)
        b.run(f"echo N >{bind}/fail_reset")
        t.ok(r.status and "not lent: its reset failed" in b.run("dmesg").out, "its first reset fails, so that it is not lent",
             r.out)
        still(t, f, a, twins[0], uuid, epoch, "the first reset of one that comes fails")
        with b.provoke(IOMMU_FAULT, STORES_ON, must=False):
            early(t, f, b, twins, bind)
    f.wait_links("a", 120)
    b.wait_for(f"grep -qx 'iommu_group .* functions 2 bound 2' {pci(twins[0])}/dlend/group", 60)
    for address in twins:
        f.wait_state("a", address, "free", 60)
    t.passed("bound and reset, both are offered")


def early(t, f, b, twins, bind):
    """It can be named by whoever has the other: what its former driver left in it is not theirs.

    The message is sent in host a's name, so the link ends at the next one of its own, and with it the lease of the other.
    """
    b.run(f"echo 20000 >{bind}/slow_reset_ms")
    job = b.spawn(f"dlend lend --group {b.bdf('twins', 1)}")
    b.wait_for(f"grep -qx 0000{twins[1][5:]} {pci(twins[0])}/dlend/group", 30, every=0.1)
    f.trace_clear("b")
    send(f.cluster.link("ab"), BORROW, twins[1], 0, borrow())
    b.wait_for(f"grep -q 'dlend_lease: {twins[1]} grant' /sys/kernel/tracing/trace", 30, every=0.1)
    t.ok(not job.over, "its first reset takes long, and somebody asks for it meanwhile")
    status = [fields["status"] for _, fields, _ in f.trace("b", f"dlend_lease: {twins[1]} grant")]
    t.equal(status, ["-19"], "it is refused: ENODEV")
    job.wait(120, check=True)
    b.run(f"echo 0 >{bind}/slow_reset_ms; echo 0 >{DEBUG}/lender/{b.bdf('twins', 1)}/slow_reset_ms")


def group(t, f, a, b):
    f.dlend("b", f"lend --group {b.bdf('twins')}", timeout=120)
    twins = [f.address("b", "twins", n) for n in range(2)]
    for address in twins:
        f.wait_state("a", address, "free")
    b.run(f"echo 1 >{pci(twins[1])}/remove", timeout=60)
    b.wait_for(f"grep -qx free {pci(twins[0])}/dlend/state", 30)
    t.passed("one of a group is taken out: the other is a whole group now, and offered")
    f.wait_state("a", twins[0], "free")
    b.run("echo 1 >/sys/bus/pci/rescan", timeout=60)
    b.wait_for(f"grep -qx incomplete {pci(twins[0])}/dlend/state", 30)
    t.passed("it comes again, and nobody has bound it: the group is not whole")
    b.run(f"echo 1 >{pci(twins[1])}/remove", timeout=60)
    f.wait_state("a", twins[0], "free")
    plug(t, f, a, b, twins)
    swapped(t, f, a, b, twins)


def swapped(t, f, a, b, twins):
    """The group gets another number while somebody has one of it: who has the other one later is beside that all the same."""
    first = f"0000{twins[0][5:]}"
    b.run(f"echo 1 >{pci(twins[0])}/remove", timeout=60)
    b.wait_for(f"grep -qx 'iommu_group .* functions 1 bound 1' {pci(twins[1])}/dlend/group", 30)
    f.wait_state("a", twins[1], "free")
    with holder(t, f, a, twins[1], INTMS, "the second of a group"):
        b.run("echo 1 >/sys/bus/pci/rescan", timeout=60)
        b.wait_for(f"[ -e /sys/bus/pci/devices/{first} ]")
        f.dlend("b", f"lend --group {first}", timeout=60)
    for address in twins:
        f.wait_state("a", address, "free", 60)
    uuid = f.mdev("a", twins[0], "dlend-nvme")
    with holder(t, f, a, twins[1], INTMS, "the second of a group again"):
        job = a.spawn(f"/share/canary {RAM}2 {uuid} 0:{INTMS:#x} 2>&1")
        # It ends, and forgets why, if it does not get the device
        a.wait_for(f"dmesg | grep -q 'used by another VM' || grep -q '^running' /sys/bus/mdev/devices/{uuid}/dlend/state", 60)
        t.ok("used by another VM" in a.run("dmesg").out,
             "the first, which came while somebody had the second, is not for another VM", f.mdev_state("a", uuid))
        job.kill(9)
        job.wait()
    f.mdev_stop("a", uuid)


def ring_full_waits(host):
    return sum(map(int, re.findall(r"^ring_full_waits: (\d+)$", host.run(f"cat {DEBUG}/links/*:*").out, re.M)))


def untold(t, f, a, b):
    """Who has one of a group asks for the one that has just come while it is still being told of that.

    Host a takes nothing meanwhile: after a card's offer the twin's does not fit into the ring.
    """
    twins, card = [f.address("b", "twins", n) for n in range(2)], b.bdf("cards")
    f.wait_state("a", f.address("b", "cards"), "free")
    b.run(f"echo 1 >{pci(twins[1])}/remove", timeout=60)
    f.wait_state("a", twins[0], "free", 60)
    with holder(t, f, a, twins[0], INTMS, "the first of a group"):
        b.run(f"echo 1 >/sys/bus/pci/rescan; dlend reclaim {card}", timeout=60)
        b.wait_for(f"[ -e {pci(twins[1])} ]")
        host_a, waits = Forge(f.cluster, "ab", "b"), ring_full_waits(b)
        f.cluster.ntbsim(f"mute ab a {WINDOW} 0 {CREDIT + 4}")
        f.dlend("b", f"lend {card}", timeout=60)
        f.dlend("b", f"lend --group 0000{twins[1][5:]}", timeout=60)
        t.ok(eventually(lambda: ring_full_waits(b) > waits, True), "a function joins the group, and its offer is on its way")
        f.trace_clear("b")
        host_a.send(BORROW, twins[1], 0, borrow())
        b.wait_for(f"grep -q 'dlend_lease: {twins[1]} grant' /sys/kernel/tracing/trace", 30, every=0.1)
        status = [fields["status"] for _, fields, _ in f.trace("b", f"dlend_lease: {twins[1]} grant")]
        t.equal(status, ["-11"], "  it is not lent before that has arrived: EAGAIN")
        f.cluster.ntbsim(f"mute ab a {WINDOW} 0 0")
    f.wait_links("a", 120)
    for address in (*twins, f.address("b", "cards")):
        f.wait_state("a", address, "free", 60)


def unbound_at_once(t, f, a, b):
    """Each finds the other one's device locked, and leaves work for later: none of it is left when the module goes."""
    twins = [f.address("b", "twins", n) for n in range(2)]
    unbind = " ".join(f"echo 0000{address[5:]} >/sys/bus/pci/drivers/dlend-lender/unbind &" for address in twins)
    for turn in range(3):
        with holder(t, f, a, twins[turn % 2], INTMS, f"a group, for the {turn + 1}. time"):
            b.run(f"{unbind} wait; rmmod dlend_lender", timeout=120)
        # What was left would have been due by the time that the group is lent again.
        b.load_modules("dlend_lender")
        f.dlend("b", f"lend --group {b.bdf('twins')}", timeout=120)
        for address in twins:
            f.wait_state("a", address, "free", 60)
    t.passed("both of a group are unbound at the same time, and the module unloaded: lent again each time")


def main():
    with Tap() as t, Cluster("neighbours.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/canary", c.run_dir / "share/canary")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.expect("AER: |PCIe Bus Error", "QEMU makes devices tell of errors, and Linux does what it can")
        with t.case("errors of one of three"), b.provoke(IOMMU_FAULT, STORES_ON, must=False):
            errors(t, f, a, b)
        with t.case("a group that changes"):
            group(t, f, a, b)
        with t.case("one that is being told of"):
            untold(t, f, a, b)
        with t.case("both are unbound at once"), b.provoke(IOMMU_FAULT, STORES_ON, must=False):
            unbound_at_once(t, f, a, b)
        said = re.findall(r"(\S+): reset failed .* quarantined", b.run("dmesg").out)
        t.equal(said, [b.bdf("cards", 1)], "none was quarantined but the one whose reset was made to fail")


main()
