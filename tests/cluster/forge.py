# SPDX-License-Identifier: GPL-2.0-only
"""What a peer could write into a host's control area, written by the runner instead (ntbsim: poke, peek).

    send(c.link("ab"), BORROW, "d0002:01:00.0", 0, payload)     # as host a would, to b; the link begins anew then
    with Forge(c, "ab", "b") as host_a:                         # several in one session
        host_a.send(DMA_MAP, address, epoch, payload)

Knows struct dlend_ctrl and struct dlend_msg, as docs/wire-format.md has them.
"""
import struct
import time
import zlib

from wire import SLACK, TimedOut

PAGE = 4096
CONTROL = 9 * PAGE                      # all of the control area
CREDIT = 64                             # msg_cons of struct dlend_ctrl
HEARTBEAT, IRQ_INDEX = 128, 192
NONCE = 248                             # the peer's, another one in each session; 8 bytes
WINDOW_BYTES = 512                      # window of struct dlend_ctrl
RING, SLOTS, SIZE = PAGE, 64, 256       # struct dlend_ctrl, struct dlend_msg
HEAD = 32                               # of that, until its payload
WINDOW = 4                              # of ntbsim's two, the one that carries a link
CALL_ID = 0x7fff0000
OFFER, SNAPSHOT, WITHDRAW, RECLAIM, BORROW, DMA_MAP, P2P_MAP = 1, 2, 3, 5, 7, 9, 20     # enum dlend_msg_type
OFFER_STATE, OFFER_EPOCH = 28, 32       # struct dlend_p_offer
READ_WRITE = 3                          # DLEND_PROT_*
DMA_PER_MSG, DMA_ENTRY = 6, 32          # struct dlend_p_dma
VM = 16                                 # DLEND_VM_SIZE


def message(seq, kind, address, epoch, payload, call=CALL_ID):
    """struct dlend_msg, sealed; @address as d0002:01:00.0, or None.  A post has @call 0."""
    bdf, lender = device_of(address) if address else (0, 0)
    head = struct.pack("<IHHIIHHIHH", seq, kind, 0, call and call + seq, epoch, bdf, lender, 0, len(payload), 0)
    body = payload.ljust(SIZE - len(head) - 4, b"\0")
    crc = ~zlib.crc32(head + bytes(4) + body) & 0xffffffff
    return head + struct.pack("<I", crc) + body


def device_of(address):
    """(bdf, node) of an address, as messages have them."""
    lender, bus, slot = address[1:].split(":")
    device, function = slot.split(".")
    return int(bus, 16) << 8 | int(device, 16) << 3 | int(function), int(lender, 16)


def offer_says(offer, state, holder, epoch):
    """An OFFER's payload, with another state."""
    offer = bytearray(offer)
    struct.pack_into("<HH", offer, OFFER_STATE, state, holder)
    struct.pack_into("<I", offer, OFFER_EPOCH, epoch)
    return bytes(offer)


def borrow(offset=0, handle=0):
    """The payload of a BORROW: where interrupts are counted.  For no VM."""
    return struct.pack("<QII", offset, handle, 0) + bytes(VM)


def dma_map(ranges):
    """The payload of a DMA_MAP: [(gpa, size, offset)], DMA_PER_MSG of them at most."""
    entries = b"".join(struct.pack("<QQQII", gpa, size, offset, READ_WRITE, 0) for gpa, size, offset in ranges)
    return struct.pack("<II", len(ranges), 0) + entries.ljust(DMA_PER_MSG * DMA_ENTRY, b"\0")


class Forge:
    """Writes what arrives at @side ("a" or "b") of a link, in the place of the node on the other side.

    As a context, for messages: neither does that node write the index of its own, which knows nothing of what was
    forged, nor is it told how many were taken, more than it has sent.  The block's end ends the session, if it has
    a forged message, and waits for the next one: what the two say to each other in it is lost.
    """

    def __init__(self, cluster, link, side):
        self.cluster, self.link, self.side = cluster, link, side
        self.other = "b" if side == "a" else "a"
        self.forged = None      # the session that has a message of ours: its nonce

    def __enter__(self):
        self.cluster.ntbsim(f"mute {self.link} {self.other} {WINDOW} 0 4")
        self.cluster.ntbsim(f"mute {self.link} {self.side} {WINDOW} {CREDIT} 4")
        return self

    def __exit__(self, *error):
        if self.forged:
            self.end_session()
        for side in (self.side, self.other):
            self.cluster.ntbsim(f"mute {self.link} {side} {WINDOW} 0 0")

    def end_session(self):
        """Else it lasts until somebody looks, or goes on, if that node has sent more meanwhile than was forged."""
        end = time.monotonic() + 30 * SLACK
        while (now := self.peek(NONCE, 8)) in (self.forged, bytes(8)):
            if time.monotonic() > end:
                raise TimedOut(f"link {self.link}: the session with a forged message goes on after {30 * SLACK} s")
            if now == self.forged:
                self.set_word(0, self.word(0) + 2 * SLOTS)      # no ring holds so many
            time.sleep(0.1)

    def poke(self, offset, data):
        self.cluster.ntbsim(f"poke {self.link} {self.side} {WINDOW} {offset} {data.hex()}")

    def peek(self, offset, size):
        return bytes.fromhex(self.cluster.ntbsim(f"peek {self.link} {self.side} {WINDOW} {offset} {size}").split()[0])

    def word(self, offset):
        return int.from_bytes(self.peek(offset, 4), "little")

    def set_word(self, offset, value):
        self.poke(offset, (value & 0xffffffff).to_bytes(4, "little"))

    def put(self, produced, raw):
        """As the peer would, behind so many others: the message, then the index."""
        self.poke(RING + produced % SLOTS * SIZE, raw)
        self.set_word(0, produced + 1)
        self.forged = self.peek(NONCE, 8)

    def send(self, kind, address=None, epoch=0, payload=b"", call=CALL_ID):
        produced = self.word(0)
        self.put(produced, message(produced, kind, address, epoch, payload, call))

    def heard(self, kind, address):
        """The payloads of all messages of that kind about a device that are still in the ring, in order of arrival."""
        produced, found = self.word(0), []
        for number in range(max(produced - SLOTS, 0), produced):
            raw = self.peek(RING + number % SLOTS * SIZE, SIZE)
            _, what, _, _, _, bdf, lender, _, length, _ = struct.unpack_from("<IHHIIHHIHH", raw)
            if what == kind and (bdf, lender) == device_of(address):
                found.append(raw[HEAD:HEAD + length])
        return found

    def garbage(self):
        """A message of which nothing is as it was sent."""
        self.put(self.word(0), b"\x5a" * SIZE)


def send(link, kind, address, epoch, payload):
    """One message, as the link's end a would send it to its end b; returns when it was taken."""
    end = time.monotonic() + 10 * SLACK
    credit = Forge(link.cluster, link.name, "a")
    with Forge(link.cluster, link.name, "b") as host_a:
        # What b says that it has taken: a does not look at it, it is muted; b counts on from what it has.
        taken = host_a.word(0) + 1
        host_a.send(kind, address, epoch, payload)
        link.cluster.ntbsim(f"mute {link.name} b {WINDOW} 0 0")
        while credit.word(CREDIT) != taken and time.monotonic() < end:
            time.sleep(0.01)
