# SPDX-License-Identifier: GPL-2.0-only
"""How long a VM stands still when its devices stay: what is known before, and the way to copy its memory.

A lent device writes into the memory of the VM when it likes, and no IOMMU tells where.  So the VMM must take all memory
that the device can reach for changed, in each pass and once more after the VM has stopped.  Two ways to copy that:

    compare     the VMM keeps what it has sent, compares (XBZRLE), and sends what differs: as fast as memory is read,
                but it needs that memory twice
    send        it sends all memory after the VM has stopped: as fast as the network

Pure: numbers in, numbers and words out.
"""
from dataclasses import dataclass

MIB, GIB = 1 << 20, 1 << 30
# A page costs a compare and a look into the cache of pages that were sent; a processor of a server does 2 GiB/s or more.
COMPARE_BYTES_PER_S = GIB
# Of what the network could carry
SEND_SHARE = 0.9
# The lender waits so long for the commands that a disk still has.  One that has none is quiet in 50 ms.
DRAIN_S, QUIET_S = 1.0, 0.05
# To stop the processors, and to let them go on, with their devices, on the other host
SWITCH_S = 0.1
# What the VMM itself needs beside the second copy of the VM's memory
SPARE_BYTES = 256 * MIB

# By what the type is called after "dlend-".  The lender decides (lender/drain.c); this says it before it is asked.
KEPT, CUT, TRIED, NEVER = "kept", "cut", "tried", "never"
KINDS = {"nvme": KEPT, "storage": KEPT, "nic": CUT, "audio": CUT, "usb": TRIED, "gpu": NEVER, "accel": NEVER}


@dataclass(frozen=True)
class Copy:
    """ram: of the VM, in bytes; method: "compare" or "send"; why: for people; seconds: to copy what is left when the VM has
    stopped, None if nobody knows"""
    ram: int
    method: str
    why: str
    seconds: float


def kind_of(type_name):
    """What becomes of a device of this type, such as "dlend-nvme"; None if only its lender can say."""
    return KINDS.get(type_name.removeprefix("dlend-"))


def is_cut(type_name):
    """Whether such a device never becomes quiet, and moves only if what is under way may be lost."""
    return kind_of(type_name) in (CUT, TRIED)


def in_words(size):
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"


def sending_seconds(ram, bits_per_s):
    return 8 * ram / (SEND_SHARE * bits_per_s) if bits_per_s else None


def choose_copy(ram, free, bits_per_s, wanted=None):
    """The Copy that lets the VM stand still for a shorter time.

    ram: of the VM; free: memory of this host that nobody uses; both in bytes; bits_per_s: of the network to the other
    host, 0 if that is not known; wanted: "compare" or "send" if somebody has chosen already
    """
    compared, sent = ram / COMPARE_BYTES_PER_S, sending_seconds(ram, bits_per_s)
    if wanted:
        return Copy(ram, wanted, "as you said", compared if wanted == "compare" else sent)
    if free < ram + SPARE_BYTES:
        return Copy(ram, "send", f"this host has not {in_words(ram + SPARE_BYTES)} to spare for a copy to compare with", sent)
    if sent is not None and sent < compared:
        return Copy(ram, "send", f"the network is as fast ({bits_per_s / 1e9:.0f} Gb/s)", sent)
    return Copy(ram, "compare", f"sending {in_words(ram)} would take {sent:.1f} s" if sent is not None else
                "the speed of the network is not known", compared)


def blackout_seconds(copy, drains):
    """At least, in seconds; None if nobody knows.  drains: how many devices have commands to end"""
    return copy.seconds + (QUIET_S if drains else 0) + SWITCH_S if copy.seconds is not None else None


def describe_blackout(copy, drains):
    """For people.  drains: how many devices have commands to end"""
    copying = f"{copy.seconds:.1f} s" if copy.seconds is not None else "an unknown time"
    parts = [f"{copying} to {copy.method} {in_words(copy.ram)}"]
    if drains:
        parts.append(f"{QUIET_S:.2f} to {DRAIN_S:.0f} s until {'its disk has' if drains == 1 else 'its disks have'} ended "
                     "what was under way")
    parts.append(f"{SWITCH_S:.1f} s to switch")
    least = blackout_seconds(copy, drains)
    about = f"about {least:.1f} s" if least is not None else "a time that is not known"
    return f"the VM will be stopped for {about}: {', '.join(parts)}"


def cache_bytes(ram):
    """Of XBZRLE: a power of two, above the VM's memory, so that no page takes the place of another one's."""
    return 1 << ram.bit_length()
