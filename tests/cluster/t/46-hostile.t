#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A borrower whose messages are well-formed and who has a lease, and who wants the lender's memory; one that lives,
but takes no messages.

    host a (node 1): a VM that only holds the device ------ ab, 128 MiB ------ host b (node 2): nvme0

The runner writes into b's ring what host a would send.
"""
import contextlib
import struct
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from forge import BORROW, CONTROL, CREDIT, DMA_MAP, DMA_PER_MSG, PAGE, Forge, dma_map  # noqa: E402  pylint: disable=wrong-import-position

WINDOW = 128 << 20
CALLS = 4               # that b works at, at a time; more are refused
BORROWS = 40            # the kernel lets ten lines of a kind pass in 5 s


def whole_window(times):
    """All of the window, at as many addresses, each of which needs a page table entry for every 4 KiB."""
    size = WINDOW - CONTROL
    return dma_map([((n + 2 << 40) + PAGE, size, CONTROL) for n in range(times)])


def mapped(f, address):
    return f.domain(address)["mapped_bytes"]


def again_and_again(t, f, c, b, address, uuid):
    with contextlib.ExitStack() as after, \
            f.guest("a", "hold", wait=False, kernel=False, memory="64M", devices=[f.device(uuid)]) as g:
        f.wait_state("a", address, "held", 120)
        b.wait_for(f"grep -q '^mapped_bytes: [1-9]' {f.lender_of(address)[1]}/dma", 120)
        # From here on no firmware moves its memory.
        g.qmp("stop")
        f.wait_mdev("a", uuid, "running", 60)
        before, epoch = mapped(f, address), f.lender_state(address)[2]
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
            host_a.send(BORROW, address, 0, struct.pack("<QII", 1 << 60, n, 0))
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
    r = f.dlend("b", f"reclaim {bdf}", timeout=30, check=False)
    t.equal(r.status, 0, "what the administrator says is done all the same")
    c.ntbsim("mute ab a 4 0 0")
    f.dlend("b", f"lend {bdf}")
    f.wait_links("b", 120)
    f.wait_state("a", address, "free", 60)
    t.passed("when it takes them again, the link is up and its offers are right")


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
            b.wait_for(f"! grep -qx free {here}", 10)
            f.dlend("b", f"lend {bdf}", timeout=60)
            b.wait_for(f"grep -qx free {here}", 10)
        t.passed("while one peer drips credits, devices are unbound, and offers heard of by others, without a wait")
        t.ok(counter(b, "ring_full_waits") > 0, "though its ring is full")
        b.wait_for("cat /sys/class/dlend_link/*:*/last_error | grep -q 'takes no messages, or too slowly'", 60)
        t.passed("and it loses its session")
    f.wait_links("b", 60)
    f.wait_state("a", address, "free", 60)
    t.passed("when it takes them again, it hears what it has missed")


@contextlib.contextmanager
def full(f, c, b, address, call_ms):
    """Host a takes nothing, and b's ring is full of news for it.  b bears that for 20 s; a post waits for @call_ms."""
    bdf = f"0000{address[5:]}"
    b.run(f"echo {call_ms} >/sys/module/dlend_core/parameters/call_timeout_ms")
    c.ntbsim(f"mute ab a 4 {CREDIT} 4")
    try:
        for _ in range(2):
            f.dlend("b", f"reclaim {bdf}", timeout=60)
            f.dlend("b", f"lend {bdf}", timeout=60)
        yield
    finally:
        c.ntbsim("mute ab a 4 0 0")
        b.run("echo 5000 >/sys/module/dlend_core/parameters/call_timeout_ms")


def gone_late(t, f, c, b, address, other):
    """b gives up telling it of an end, and tries again; meanwhile others, who have heard of that, hear of other things."""
    f.wait_state("a", other, "free")
    before = counter(b, "sessions")
    with full(f, c, b, address, 2000):
        f.trace_clear("b")
        f.dlend("b", f"reclaim 0000{address[5:]}", timeout=60)
        b.wait_for(f"echo auto >/sys/bus/pci/devices/0000{other[5:]}/dlend/clique; "
                   f"grep -q 'type=3 .* device={address} .* err=-110' /sys/kernel/tracing/trace", 60)
        t.passed("a device is unbound: a peer that takes nothing is not told")
    f.host("a").wait_for(f"! grep -qx free /sys/bus/dlend/devices/{address}/state", 60)
    t.passed("it is told when it takes messages again")
    t.equal(counter(b, "sessions"), before, "in the same session")


def unloaded(t, f, c, b, address, other):
    """It takes one message now and then: nobody unloads a module by the pace of a peer."""
    f.dlend("b", f"lend 0000{address[5:]}", timeout=60)
    f.wait_state("a", address, "free")
    # Longer than a message waits to be taken, so that what drips is an end of no post
    with full(f, c, b, address, 10000):
        for bdf in (f"0000{address[5:]}", f"0000{other[5:]}"):
            f.dlend("b", f"reclaim {bdf}", timeout=60)
        sessions = "cat /sys/class/dlend_link/*:*/session"
        with dripping(c):
            before = b.run(sessions).out
            b.run("rmmod dlend_lender", timeout=120)
            after = b.run(sessions).out
    t.equal(after, before, "the module is unloaded while b has much to say to a peer that drips credits, before that costs "
            "the peer its session")


def main():
    with Tap() as t, Cluster("small-window.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("the window, again and again"):
            again_and_again(t, f, c, b, address, uuid)
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
