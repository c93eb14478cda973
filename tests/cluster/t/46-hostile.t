#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A borrower whose messages are well-formed and who has a lease, and who wants the lender's memory; one that lives,
but takes no messages.

    host a (node 1): a VM that only holds the device ------ ab, 128 MiB ------ host b (node 2): nvme0

The runner writes into b's ring what host a would send.
"""
import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

RING, SLOTS, SIZE = 4096, 64, 256       # struct dlend_ctrl, struct dlend_msg
CALL_ID = 0x7fff0000
DMA_MAP, PER_MSG, READ_WRITE = 9, 6, 3
PAGE = 4096
CONTROL = 9 * PAGE
CREDIT = 64         # msg_cons of struct dlend_ctrl
WINDOW = 128 << 20


def message(seq, kind, address, epoch, payload):
    """struct dlend_msg, sealed; @address as d0002:01:00.0."""
    lender, bus, slot = address[1:].split(":")
    device, function = slot.split(".")
    bdf = int(bus, 16) << 8 | int(device, 16) << 3 | int(function)
    head = struct.pack("<IHHIIHHIHH", seq, kind, 0, CALL_ID + seq, epoch, bdf, int(lender, 16), 0, len(payload), 0)
    body = payload.ljust(SIZE - len(head) - 4, b"\0")
    crc = ~zlib.crc32(head + bytes(4) + body) & 0xffffffff
    return head + struct.pack("<I", crc) + body


def send(c, kind, address, epoch, payload):
    """As host a would: the message, then the index."""
    produced = int.from_bytes(bytes.fromhex(c.ntbsim("peek ab b 4 0 4").split()[0][:8]), "little")
    data = message(produced, kind, address, epoch, payload)
    c.ntbsim(f"poke ab b 4 {RING + produced % SLOTS * SIZE} {data.hex()}")
    c.ntbsim(f"poke ab b 4 0 {(produced + 1).to_bytes(4, 'little').hex()}")


def dma_map(ranges):
    entries = b"".join(struct.pack("<QQQII", gpa, size, offset, READ_WRITE, 0) for gpa, size, offset in ranges)
    return struct.pack("<II", len(ranges), 0) + entries.ljust(PER_MSG * 32, b"\0")


def whole_window(times):
    """All of the window, at as many addresses, each of which needs a page table entry for every 4 KiB."""
    size = WINDOW - CONTROL
    return dma_map([((n + 2 << 40) + PAGE, size, CONTROL) for n in range(times)])


def mapped(f, address):
    return f.domain(address).get("mapped_bytes", 0)


def again_and_again(t, f, c, b, address, uuid):
    with f.guest("a", "hold", wait=False, kernel=False, memory="64M", devices=[f.device(uuid)]):
        f.wait_state("a", address, "held", 120)
        f.wait_mdev("a", uuid, "running", 60)
        before, epoch = mapped(f, address), f.lender_state(address)[2]
        t.ok(0 < before < WINDOW, "a VM's memory is mapped", str(before))
        # First one that is in order, so that what is refused after it is not refused for its form.
        send(c, DMA_MAP, address, epoch, dma_map([(1 << 40, 16 * PAGE, WINDOW // 2)]))
        b.wait_for(f"grep -q '^mapped_bytes: {before + 16 * PAGE}$' {f.lender_of(address)[1]}/dma", 30)
        t.passed("a forged message maps what an honest one could")
        send(c, DMA_MAP, address, epoch, whole_window(PER_MSG))
        b.wait_for("dmesg | grep -q 'cannot be mapped (-28)'", 60)
        t.equal(mapped(f, address), before + 16 * PAGE,
                "all of the window six times over is refused, and nothing of it stays")
    f.wait_links("a", 120)
    f.wait_state("a", address, "free", 60)
    t.passed("the device is free again")


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


def main():
    with Tap() as t, Cluster("small-window.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("the window, again and again"):
            again_and_again(t, f, c, b, address, uuid)
        with t.case("a peer that takes no messages"):
            takes_nothing(t, f, c, b, address)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
