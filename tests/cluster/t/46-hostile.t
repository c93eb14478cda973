#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A borrower whose messages are well-formed and who has a lease, and who wants the lender's memory; one that lives,
but takes no messages.

    host a (node 1): a VM that only holds the device ------ ab, 128 MiB ------ host b (node 2): nvme0

The runner writes into b's ring what host a would send.
"""
import contextlib
import re
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually, in_turns  # noqa: E402  pylint: disable=wrong-import-position
from forge import (BORROW, CONTROL, CREDIT, DMA_MAP, DMA_PER_MSG, OFFER, PAGE, RECLAIM, SNAPSHOT,  # noqa: E402  pylint: disable=wrong-import-position
                   WITHDRAW, Forge, borrow, dma_map, offer_says)

WINDOW = 128 << 20
CALLS = 4               # that b works at, at a time; more are refused
BORROWS = 40            # the kernel lets ten lines of a kind pass in 5 s


def whole_window(times):
    """All of the window, at as many addresses, each of which needs a page table entry for every 4 KiB."""
    size = WINDOW - CONTROL
    return dma_map([((n + 2 << 40) + PAGE, size, CONTROL) for n in range(times)])


def mapped(f, address):
    return f.domain(address)["mapped_bytes"]


def settled(f, address):
    """What stays mapped: what the firmware has unmapped, and not put back, a borrower has unmapped after 2 s at most."""
    dma = f"{f.lender_of(address)[1]}/dma"
    f.host("b").wait_for(f"cd /tmp; mv now before; grep '^mapped_bytes' {dma} >now; cmp -s now before", 60, every=3)
    return mapped(f, address)


def again_and_again(t, f, c, b, address, uuid):
    with contextlib.ExitStack() as after, \
            f.guest("a", "hold", wait=False, kernel=False, memory="64M", devices=[f.device(uuid)]) as g:
        f.wait_state("a", address, "held", 120)
        b.wait_for(f"grep -q '^mapped_bytes: [1-9]' {f.lender_of(address)[1]}/dma", 120)
        # From here on no firmware moves its memory.
        g.qmp("stop")
        f.wait_mdev("a", uuid, "running", 60)
        before, epoch = settled(f, address), f.lender_state(address)[2]
        t.ok(0 < before < WINDOW, "a VM's memory is mapped", str(before))
        host_a = after.enter_context(Forge(c, "ab", "b"))
        # First one that is in order, so that what is refused after it is not refused for its form.
        host_a.send(DMA_MAP, address, epoch, dma_map([(1 << 40, 16 * PAGE, WINDOW // 2)]))
        b.wait_for(f"grep -q '^mapped_bytes: {before + 16 * PAGE}$' {f.lender_of(address)[1]}/dma", 30)
        t.passed("a forged message maps what an honest one could")
        host_a.send(DMA_MAP, address, epoch, whole_window(DMA_PER_MSG))
        b.wait_for("dmesg | grep -q 'cannot be mapped (-28)'", 60)
        t.equal(mapped(f, address), before + 16 * PAGE,
                "all of the window six times over is refused, and nothing of it stays")
    f.wait_links("a", 120)
    f.wait_state("a", address, "free", 60)
    t.passed("the device is free again")


def borrows_badly(t, f, c, b, address):
    """It asks for a device again and again, and names a place for the counters of interrupts that it has not."""
    lines = "dmesg | grep -c 'cannot be lent' || :"
    f.trace_clear("b")
    before = int(b.run(lines).out)
    with Forge(c, "ab", "b") as host_a:
        for n in range(BORROWS):
            host_a.send(BORROW, address, 0, borrow(1 << 60, n))
            if (n + 1) % CALLS == 0:
                b.wait_for(f"[ $(grep -c 'dlend_lease: {address} grant' /sys/kernel/tracing/trace) = {n + 1} ]", 30, every=0.1)
    events = f.trace("b", address)
    t.equal([fields["status"] for name, fields, line in events if name == "dlend_lease" and " grant " in line],
            ["-34"] * BORROWS, "counters that are not in its window: ERANGE, each time")
    t.equal([line for name, _, line in events if name == "dlend_reset"], [], "  the device is not touched for that")
    said = int(b.run(lines).out) - before
    t.ok(0 < said < BORROWS, "  and the log does not fill with it", str(said))
    f.wait_links("a", 120)
    f.wait_state("a", address, "free", 60)


def takes_nothing(t, f, c, b, address):
    """It never says that it has taken a message: whoever sends one must not wait for ever, nor others behind it."""
    c.ntbsim(f"mute ab a 4 {CREDIT} 4")
    bdf = f"0000{address[5:]}"
    # News for node 1: that it is gone, and what offers it again; soon more than the ring holds.
    b.wait_for(f"dlend reclaim {bdf} && dlend lend {bdf} && "
               "cat /sys/class/dlend_link/*:*/last_error | grep -q 'takes no messages'", 120)
    t.passed("a peer that takes no messages has to begin anew, and last_error says why")
    r = f.dlend("b", f"reclaim {bdf}", timeout=60, check=False)
    t.equal(r.status, 0, "what the administrator says is done all the same")
    c.ntbsim("mute ab a 4 0 0")
    f.dlend("b", f"lend {bdf}")
    f.wait_links("b", 120)
    f.wait_state("a", address, "free", 60)
    t.passed("when it takes them again, the link is up and its offers are right")


FREE = 0                # enum dlend_offer_state
RECLAIMS = 60           # the kernel lets ten lines of a kind pass in 5 s


def received(host, kind):
    """How many messages of that kind it has taken from its peers."""
    out = host.run("cat /sys/kernel/debug/dlend/links/*:*").out
    return sum(int(n) for n in re.findall(rf"^msg_{kind}: sent \d+ received (\d+)$", out, re.M))


def lender_says(t, f, c, a, address, uuid):
    """Host b's words to host a, in b's place: what ends a lease may come with an offer; and it nags."""
    # Not too long ago, so that it is in the ring
    f.dlend("b", f"reclaim 0000{address[5:]}", timeout=60)
    f.wait_mdev("a", uuid, "idle", 60)
    f.dlend("b", f"lend 0000{address[5:]}", timeout=60)
    f.wait_state("a", address, "free", 60)
    with Forge(c, "ab", "a") as host_b:
        offer = host_b.heard(OFFER, address)[-1]
    with f.guest("a", "hold", wait=False, kernel=False, memory="64M", devices=[f.device(uuid)]) as g:
        f.wait_mdev("a", uuid, "running", 120)
        # What b itself says would take the place of a forged message: no news, and nothing that firmware asks for
        g.qmp("stop")
        f.wait_state("a", address, "held", 60)
        epoch = f.lender_state(address)[2]
        with Forge(c, "ab", "a") as host_b:
            asked = "dmesg | grep -c 'asks for its device back' || :"
            before = int(a.run(asked).out)
            taken = received(a, "RECLAIM")
            # As many as a ring has room for, so that they come at once.
            for _ in range(RECLAIMS):
                host_b.send(RECLAIM, address, epoch, call=0)
            t.equal(eventually(lambda: received(a, "RECLAIM"), taken + RECLAIMS, 60), taken + RECLAIMS, "all of it is heard")
            said = int(a.run(asked).out) - before
            t.ok(0 < said < RECLAIMS, f"a lender that asks {RECLAIMS} times for its device fills no log", str(said))
            host_b.send(OFFER, address, 0, offer_says(offer, FREE, 0, epoch), call=0)
            f.wait_mdev("a", uuid, "failed.*", 30)
            t.passed("an offer that says that nobody has the device ends the lease")
    f.wait_links("a", 120)
    f.wait_state("a", address, "free", 60)


@contextlib.contextmanager
def held_still(f, uuid):
    """A VM has the device, and nobody reads what is out of reach."""
    with f.guest("a", "hold", wait=False, kernel=False, memory="64M", devices=[f.device(uuid)]) as g:
        f.wait_mdev("a", uuid, "running", 120)
        g.qmp("stop")
        f.wait_mdev("a", uuid, "running", 60)
        yield


def unbound_slowly(t, f, b, address, uuid):
    """The lender's driver lets go of a device that a VM has, and its reset takes long."""
    with held_still(f, uuid):
        b.run(f"echo 20000 >/sys/kernel/debug/dlend/lender/0000{address[5:]}/slow_reset_ms")
        job = b.spawn(f"echo 0000{address[5:]} >/sys/bus/pci/drivers/dlend-lender/unbind; touch /tmp/unbound")
        f.wait_mdev("a", uuid, "failed", 60)
        still = b.run("[ -e /tmp/unbound ]", check=False).status
        job.wait(120)
    t.ok(still, "unbound while a VM has it: the VM loses it before the reset is over")
    f.dlend("b", f"lend 0000{address[5:]}", timeout=60)
    f.wait_state("a", address, "free", 60)


def unbound_while_asked(t, f, b, address, uuid):
    """The admin waits for a device to be given back, for as long as he has said, and somebody unbinds it."""
    patience = "/sys/module/dlend_lender/parameters/reclaim_timeout_ms"
    device = f"/sys/bus/pci/devices/0000{address[5:]}"
    with held_still(f, uuid):
        was = b.run(f"cat {patience}; echo 600000 >{patience}").out.strip()
        asking = b.spawn(f"echo 1 >{device}/dlend/reclaim")
        b.wait_for(f"grep -q 'dlend_lease: {address} reclaim' /sys/kernel/tracing/trace", 30)
        b.run(f"echo 0000{address[5:]} >/sys/bus/pci/drivers/dlend-lender/unbind", timeout=300)
        t.ok(asking.wait(60, check=False).status, "unbound while its admin waits for it: both come to an end at once")
        b.run(f"echo {was} >{patience}")
    f.dlend("b", f"lend 0000{address[5:]}", timeout=60)
    f.wait_state("a", address, "free", 60)


def offered_anew(t, f, c, a, address, uuid):
    """A device that has an mdev is withdrawn and offered anew, and the mdev goes before the new offer is complete."""
    f.host("b").run(f"dlend reclaim 0000{address[5:]} && dlend lend 0000{address[5:]}", timeout=60)
    f.wait_state("a", address, "free", 60)
    with Forge(c, "ab", "a") as host_b:
        offer, pieces = host_b.heard(OFFER, address)[-1], host_b.heard(SNAPSHOT, address)[-32:]
        t.equal(len(pieces), 32, "an offer is in the ring, with all its pieces")
        host_b.send(WITHDRAW, address, call=0)
        f.wait_state("a", address, "gone", 30)
        host_b.send(OFFER, address, 0, offer, call=0)
        a.wait_for(f"! grep -qx gone /sys/bus/dlend/devices/{address}/state", 30)
        f.mdev_stop("a", uuid)
        for piece in pieces:
            host_b.send(SNAPSHOT, address, 0, piece, call=0)
        a.wait_for(f"grep -qx 1 /sys/class/mdev_bus/{address}/mdev_supported_types/dlend-nvme/available_instances", 30)
        uuid = f.mdev("a", address, "dlend-nvme")
    f.wait_links("a", 120)
    f.wait_state("a", address, "free", 60)
    t.passed("offered anew while its mdev goes: it is there")
    return uuid


def another_card(t, f, c, a, b, address, uuid):
    """Under the address of a device that has an mdev another one is offered: it is there when the mdev has gone."""
    before = received(b, "SUBSCRIBE")
    with Forge(c, "ab", "a") as host_b:
        offer = bytearray(host_b.heard(OFFER, address)[-1])
        offer[2] ^= 1       # its device id
        host_b.send(OFFER, address, 0, bytes(offer), call=0)
        a.wait_for("dmesg | grep -q 'now offers another device under this address'", 30)
        host_b.send(WITHDRAW, address, call=0)
        f.wait_state("a", address, "gone", 30)
        f.mdev_stop("a", uuid)
        t.equal(eventually(lambda: received(b, "SUBSCRIBE"), before + 1), before + 1,
                "another device under that address: its lender is asked again when the mdev has gone")
    f.wait_links("a", 120)
    f.wait_state("a", address, "free", 60)


def counter(host, name):
    out = host.run("cat /sys/kernel/debug/dlend/links/*:*").out
    return int(next(line for line in out.splitlines() if line.startswith(f"{name}:")).split()[1])


@contextlib.contextmanager
def dripping(c):
    """Host a says that it has taken one more message each 4 s."""
    credit, over = Forge(c, "ab", "b"), threading.Event()

    def drip():
        while not over.wait(4):
            credit.set_word(CREDIT, credit.word(CREDIT) + 1)

    threading.Thread(target=drip, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def drips(t, f, c, b, address):
    """It takes one message each time that b is about to give up.  What is said to others, here b's own guests over its
    link to itself, and what the admin does, does not wait for that."""
    bdf, here = f"0000{address[5:]}", f"/sys/bus/dlend/devices/{address}/state"
    b.wait_for(f"grep -qx free {here}", 30)
    c.ntbsim(f"mute ab a 4 {CREDIT} 4")
    with contextlib.ExitStack() as stack:
        stack.callback(c.ntbsim, "mute ab a 4 0 0")
        stack.enter_context(dripping(c))
        # An offer is 34 messages: so many fill the ring for host a.
        for _ in range(3):
            f.dlend("b", f"reclaim {bdf}", timeout=60)
            in_turns(b, f"! grep -qx free {here}", 40)
            f.dlend("b", f"lend {bdf}", timeout=60)
            in_turns(b, f"grep -qx free {here}", 40)
        t.passed("while one peer drips credits, devices are unbound, and offers heard of by others, without a wait")
        t.ok(counter(b, "ring_full_waits") > 0, "though its ring is full")
        b.wait_for("cat /sys/class/dlend_link/*:*/last_error | grep -q 'takes no messages, or too slowly'", 60)
        t.passed("and it loses its session")
    f.wait_links("b", 60)
    f.wait_state("a", address, "free", 60)
    t.passed("when it takes them again, it hears what it has missed")


@contextlib.contextmanager
def patient(b, call_ms):
    """A post of b's waits so long for a place in a full ring, and b bears four times of that."""
    b.run(f"echo {call_ms} >/sys/module/dlend_core/parameters/call_timeout_ms")
    try:
        yield
    finally:
        b.run("echo 5000 >/sys/module/dlend_core/parameters/call_timeout_ms")


@contextlib.contextmanager
def full(f, c, address):
    """Host a takes nothing, and b's ring is full of news for it."""
    bdf = f"0000{address[5:]}"
    c.ntbsim(f"mute ab a 4 {CREDIT} 4")
    try:
        for _ in range(2):
            f.dlend("b", f"reclaim {bdf}", timeout=60)
            f.dlend("b", f"lend {bdf}", timeout=60)
        yield
    finally:
        c.ntbsim("mute ab a 4 0 0")


def gone_late(t, f, c, b, address, other):
    """b gives up telling it of an end, and tries again; meanwhile others, who have heard of that, hear of other things."""
    f.wait_state("a", other, "free")
    before = counter(b, "sessions")
    # Until a has heard it: what b bears counts from when the ring was full.
    with patient(b, 10000):
        with full(f, c, address):
            f.trace_clear("b")
            f.dlend("b", f"reclaim 0000{address[5:]}", timeout=60)
            # Each waits for room in a's ring, as long as the first: who looked only after a second one could be too late.
            told = b.spawn(f"for i in 1 2 3; do echo auto >/sys/bus/pci/devices/0000{other[5:]}/dlend/clique; done")
            b.wait_for(f"grep -q 'type=3 .* device={address} .* err=-110' /sys/kernel/tracing/trace", 60, every=0.1)
            t.passed("a device is unbound: a peer that takes nothing is not told")
        # a need not have heard that it was lent again, so what a shows of it does not say that a has heard this.
        b.wait_for(f"grep 'type=3 .* device={address} .* err=0$' /sys/kernel/tracing/trace | grep -qv 'loop'", 60)
        f.host("a").wait_for(f"! grep -qx free /sys/bus/dlend/devices/{address}/state", 60)
    told.wait(120, check=True)
    t.passed("it is told when it takes messages again")
    t.equal(counter(b, "sessions"), before, "in the same session")


def unloaded(t, f, c, b, address, other):
    """It takes one message now and then: nobody unloads a module by the pace of a peer."""
    f.dlend("b", f"lend 0000{address[5:]}", timeout=60)
    f.wait_state("a", address, "free")
    # Longer than a message waits to be taken, so that what drips is an end of no post
    with patient(b, 10000), full(f, c, address):
        for bdf in (f"0000{address[5:]}", f"0000{other[5:]}"):
            f.dlend("b", f"reclaim {bdf}", timeout=60)
        sessions = "cat /sys/class/dlend_link/*:*/session"
        with dripping(c):
            before = b.run(sessions).out
            b.run("rmmod dlend_lender", timeout=120)
            after = b.run(f"cat /sys/class/dlend_link/*:*/last_error; {sessions}").out
    t.ok(after.endswith(before) or "not heard that nothing is lent any more" in after,
         "the module is unloaded while b has much to say to a peer that drips credits, before that costs the peer its session",
         f"{before}{after}")
    f.host("a").wait_for(" && ".join(f"! grep -qx free /sys/bus/dlend/devices/{gone}/state" for gone in (address, other)), 60)
    t.passed("the peer hears in a new session that nothing is lent any more")


def main():
    with Tap() as t, Cluster("small-window.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("the window, again and again"):
            again_and_again(t, f, c, b, address, uuid)
        with t.case("a lender's word"):
            lender_says(t, f, c, a, address, uuid)
        with t.case("unbound slowly"):
            unbound_slowly(t, f, b, address, uuid)
        with t.case("unbound while its admin waits"):
            unbound_while_asked(t, f, b, address, uuid)
        with t.case("offered anew"):
            uuid = offered_anew(t, f, c, a, address, uuid)
        with t.case("another card"):
            another_card(t, f, c, a, b, address, uuid)
        with t.case("counters that are nowhere"):
            borrows_badly(t, f, c, b, address)
        with t.case("a peer that takes no messages"):
            takes_nothing(t, f, c, b, address)
        with t.case("one that drips credits"):
            drips(t, f, c, b, address)
        with t.case("one that takes no messages for a while"):
            other = f.lend("b", "other")
            gone_late(t, f, c, b, address, other)
            unloaded(t, f, c, b, address, other)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
