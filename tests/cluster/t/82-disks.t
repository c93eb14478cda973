#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a guest, or its firmware, does to a lent disk besides reading and writing.

    host a (node 1): guests ------ ab ------ host b (node 2): boot, vboot; keep and other, two controllers
                                             of one disk, of which b lends one

DLEND_LONG=1: 20 reboots, not 3.
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap, guest_image, rom_image, word_sum  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position

REBOOTS = 20 if os.environ.get("DLEND_LONG") else 3
# A disk's name changes when its driver lets go of it for a while.
SAME = "dd if=$(ls /dev/nvme?n1) bs=64k count=4 iflag=direct 2>/dev/null | cmp - /tmp/data && echo same"
SUMS = "dd if=$(ls /dev/nvme?n1) bs=64k count=4 iflag=direct 2>/dev/null | sha256sum"
DEVICE = "/sys/class/nvme/nvme0/device"


# What firmware does, with no kernel in sight

def make_bootable(b, name):
    """A boot sector of ours, and what it adds up; the sum."""
    body = os.urandom(64 << 10)
    with open(b.disk_file(name), "r+b") as file:
        file.write(guest_image("disk.bin") + body)
    return word_sum(body)


def seabios(t, f, b):
    want = make_bootable(b, "boot")
    disk, card = f.lend("b", "boot"), f.lend("b", "edu")
    uuids = f.mdev("a", disk, "dlend-nvme"), f.mdev("a", card, "dlend-pci")
    devices = [f.device(uuids[0], ",bootindex=1"), f.device(uuids[1])]
    with f.guest("a", "boot", wait=False, kernel=False, memory="64M", devices=devices) as g:
        g.wait_console("DLEND ROM RAN", 120)
        t.passed("the guest's firmware runs the expansion ROM of a lent device")
        t.equal(f.lender_state(card)[0], "free", "which borrows nothing")
        found = g.wait_console(r"DLEND BOOT ([0-9a-f]{8})", 120).group(1)
        t.equal(found, f"{want:08x}", "a VM whose only disk is lent boots from it, and reads right")
        t.equal(f.lender_state(disk)[:2], ("held", "1"), "by a lease that firmware took")
    f.wait_state("a", disk, "free")
    for uuid in uuids:
        f.mdev_stop("a", uuid)


def seabios_by_virtio(t, f, b):
    """64 KiB at once: a virtio device maps all of a request before it begins."""
    want = make_bootable(b, "virtio")
    b.plug_virtio_disk("vboot", "virtio")
    disk = f.lend("b", "vboot")
    uuid = f.mdev("a", disk, "dlend-storage")
    with f.guest("a", "vboot", wait=False, kernel=False, memory="64M", devices=[f.device(uuid, ",bootindex=1")]) as g:
        found = g.wait_console(r"DLEND BOOT ([0-9a-f]{8})", 120).group(1)
        t.equal(found, f"{want:08x}", "a VM whose only disk is a lent virtio-blk boots from it, and reads right")
    f.wait_state("a", disk, "free")
    f.mdev_stop("a", uuid)


# A second controller of a disk that the lender goes on using

def keeper(b):
    """The lender's own name of the disk, which is not the path's if it knows that there may be several."""
    b.wait_for(f"ls -d /sys/bus/pci/devices/{b.bdf('keep')}/nvme/nvme*/nvme*n1", 20)
    return "/dev/" + b.run(f"ls /sys/bus/pci/devices/{b.bdf('keep')}/nvme/nvme*/ | grep '^nvme.*n1$' | "
                           "sed 's/c[0-9]*n/n/' | head -n 1").out.strip()


def shared(t, f, b, address, g):
    """Both hosts see one disk: what the guest wrote, its lender reads by its own controller."""
    g.run("dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null; "
          "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null", timeout=240)
    want = g.run("sha256sum </tmp/data").out
    t.equal(b.run(f"dd if={keeper(b)} bs=64k count=4 iflag=direct 2>/dev/null | sha256sum").out, want,
            "the lender reads through its own controller what the guest wrote")
    t.equal(f.lender_state(address)[:2], ("held", "1"), "while the guest has the other")


def flush(t, g):
    count = "awk '{ n += $16 } END { print n + 0 }' /sys/block/nvme0*/stat"
    t.equal(g.run("cat /sys/block/nvme0n1/queue/write_cache").out.strip(), "write back", "the disk has a write cache")
    before = int(g.run(count).out)
    g.run("dd if=/tmp/data of=/dev/nvme0n1 bs=64k conv=fsync 2>/dev/null", timeout=240)
    t.ok(int(g.run(count).out) > before, "which the guest flushes")


def requests(f, address):
    """Resets that the lender has done for a guest."""
    return [line for name, _, line in f.trace("b") if name == "dlend_reset" and f"{address} request" in line]


def resets(t, f, address, g):
    """By each way that the guest knows; its driver finds the disk again."""
    methods = g.run(f"cat {DEVICE}/reset_method").out.split()
    t.ok({"flr", "bus"} <= set(methods), "the guest knows how to reset the device alone, and its bus", str(methods))
    for method in methods:
        f.trace_clear("b")
        g.run(f"echo {method} >{DEVICE}/reset_method && echo 1 >{DEVICE}/reset", timeout=120)
        t.equal(g.run(SAME, timeout=240).out, "same\n", f"the disk works after a reset by {method}")
        if method in ("flr", "bus"):
            t.ok(requests(f, address), f"and the lender did one for {method}")


def power(t, g):
    """D3hot and back, with no driver."""
    g.run(f"echo default >{DEVICE}/reset_method 2>/dev/null; readlink -f {DEVICE} >/tmp/device")
    g.run("d=$(cat /tmp/device); echo ${d##*/} >/sys/bus/pci/drivers/nvme/unbind; echo 1 >$d/enable", timeout=60)
    ask = "d=$(cat /tmp/device); set -- $(head -n 1 $d/resource); p2p peek $1 0; setpci -s ${d##*/} CAP_PM+4.w; "
    before = g.run(ask, timeout=60).out.split()
    t.ok(before[0].lower() != "0xffffffff" and int(before[1], 16) & 3 == 0, "in D0 its registers can be read",
         str(before))
    asleep = g.run("d=$(cat /tmp/device); setpci -s ${d##*/} CAP_PM+4.w=3:3; " + ask, timeout=60).out.split()
    t.ok(int(asleep[1], 16) & 3 == 3, "the device goes to D3hot", str(asleep))
    # QEMU, which has no bus to time out on, reads zeros.
    t.ok(asleep[0].lower() in ("0xffffffff", "0x00000000"), "where it answers no access", str(asleep))
    g.run("d=$(cat /tmp/device); setpci -s ${d##*/} CAP_PM+4.w=0:3", timeout=60)
    awake = eventually(lambda: g.run(ask, timeout=60).out.split(), before)
    t.equal(awake, before, "and comes back")
    g.run("d=$(cat /tmp/device); echo ${d##*/} >/sys/bus/pci/drivers/nvme/bind", timeout=90)
    g.wait_for("ls /dev/nvme?n1")
    t.equal(g.run(SAME, timeout=240).out, "same\n", "with the data there")


def second_controller(t, f, b, address, uuid):
    # A slow port: of a fast one the kernel waits for a link that QEMU's never says is there.
    devices = ["pcie-root-port,id=slow,chassis=1,x-speed=5", f.device(uuid, ",bus=slow")]
    with f.guest("a", "second", memory="384M", devices=devices, tools=("tools", "fio", "programs")) as g:
        shared(t, f, b, address, g)
        flush(t, g)
        g.run(verified("/dev/nvme0n1"), timeout=300)
        t.passed("fio --verify")
        with t.case("resets: to the end"):
            resets(t, f, address, g)
        with t.case("D3hot: to the end"):
            power(t, g)
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    f.wait_state("a", address, "free")


def by_lines(t, f, address, uuid):
    """All of it once more with INTx: the disk's driver has no other interrupts under pci=nomsi."""
    devices = ["pcie-root-port,id=slow,chassis=1,x-speed=5", f.device(uuid, ",bus=slow")]
    with f.guest("a", "lines", memory="384M", devices=devices, tools=("tools", "fio", "programs"),
                 cmdline="pci=nomsi") as g:
        g.run("dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null; "
              "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null", timeout=240)
        t.equal(g.run(SAME, timeout=240).out, "same\n", "INTx: what was written is read back")
        irqs = f.irqs("a", uuid)
        t.ok(irqs["live"] == "intx" and irqs["signalled"], "INTx: by INTx", str(irqs))
        flush(t, g)
        g.run(verified("/dev/nvme0n1"), timeout=300)
        t.passed("INTx: fio --verify")
        with t.case("INTx, resets: to the end"):
            resets(t, f, address, g)
        sums = g.run(SUMS, timeout=240).out
        g.reboot(timeout=240)
        t.equal(g.run(SUMS, timeout=240).out, sums, "INTx: the data are there after a guest reboot")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    f.wait_state("a", address, "free")


def used(f, uuid):
    """What must not grow from boot to boot: pins, and what they take of both apertures."""
    stats = f.stats("a", uuid)
    return {"pinned": stats["pinned_bytes"], "a": f.free("a"), "b": f.free("b"), "pages": f.pinned("a")}


def reboots(t, f, address, uuid):
    before, pinned = (f.free("a"), f.free("b")), f.pinned("a")
    with f.guest("a", "again", memory="128M", devices=[f.device(uuid)]) as g:
        read = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct >/dev/null"
        g.run(read, timeout=120)
        epoch = f.lender_state(address)[2]
        first = used(f, uuid)
        t.ok(first["pinned"] > 100 << 20 and first["pages"] - pinned >= first["pinned"] >> 12,
             "the guest's memory is pinned, as its host's kernel says, too", f"{first}, before {pinned} pages")
        for _ in range(REBOOTS):
            g.reboot(timeout=240)
            g.run(read, timeout=120)
        t.equal(eventually(lambda: used(f, uuid), first), first, f"after {REBOOTS} reboots as much is in use as after the first start")
        t.equal(f.lender_state(address), ("held", "1", epoch), "and the lease is the same")
        g.shutdown()
    f.wait_state("a", address, "free")
    t.equal((f.wait_free("a", before[0]), f.wait_free("b", before[1])), before, "the guest is off: all of it is free")
    t.equal(f.wait_pinned("a", pinned), pinned, "and no page is pinned any more, as the kernel counts them")


def main():
    with Tap() as t, Cluster("devices.toml", tap=t, files={"dlend.rom": rom_image()}) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        with t.case("SeaBIOS boots from the lent disk"):
            seabios(t, f, b)
        with t.case("SeaBIOS boots from a lent virtio disk"):
            seabios_by_virtio(t, f, b)
        b.own_disks()
        address = f.lend("b", "other")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("a second controller of a disk"):
            second_controller(t, f, b, address, uuid)
        with t.case("the same by INTx"):
            by_lines(t, f, address, uuid)
        with t.case("reboots"):
            reboots(t, f, address, uuid)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
