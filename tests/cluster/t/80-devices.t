#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Devices of every kind, each used by a guest with the device's own driver.

    host a (node 1): guests ------ ab ------ host b (node 2): sound, USB, displays, edu, odd ones,
                                             two functions in one group
"""
import contextlib
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import kinds  # noqa: E402  pylint: disable=wrong-import-position
from blocks import disk_of  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap, rom_image  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from host import FEWER_ADDRESSES  # noqa: E402  pylint: disable=wrong-import-position

# Device number in the guest, and type, by port of the topology.
SLOT = {"sound": 0x10, "usb": 0x11, "edu": 0x12, "small": 0x13, "huge": 0x14, "bochs": 0x15, "vgpu": 0x16}
TYPE = {"sound": "dlend-audio", "usb": "dlend-usb", "edu": "dlend-pci", "small": "dlend-pci", "huge": "dlend-pci",
        "bochs": "dlend-gpu", "vgpu": "dlend-gpu"}


def lend_all(t, f):
    """{port: (address, UUID on a)}"""
    lent = {port: f.lend("b", port) for port in TYPE}
    offers = f.offers("a")
    t.equal({port: offers.get(address, {}).get("type") for port, address in lent.items()}, TYPE,
            "the type of each goes by its class")
    return {port: (address, f.mdev("a", address, TYPE[port])) for port, address in lent.items()}


def device(f, lent, port):
    return f.device(lent[port][1], f",id={port},addr={SLOT[port]:#x}")


def bdf(port):
    return f"0000:00:{SLOT[port]:02x}.0"


def held(t, f, lent, port, mode=None):
    """Borrowed, and if an interrupt mode is named: that is what the lender's side does."""
    t.equal(f.lender_state(lent[port][0])[:2], ("held", "1"), f"{port}: borrowed")
    if mode:
        irqs = f.irqs("a", lent[port][1])
        t.ok(irqs["live"] == mode and irqs["signalled"], f"{port}: interrupts by {mode}", str(irqs))


def sound(t, f, c, lent, g):
    kinds.tone(t, g, [kinds.VIRTIO_SOUND], c.run_dir / "b-sound.wav", "sound")
    held(t, f, lent, "sound", "msix")


def usb(t, f, b, lent, g, stick):
    kinds.stick(t, g, "ehci_pci", b.disk_file("stick"), stick, "usb")
    held(t, f, lent, "usb", "intx")


def edu(t, f, lent, g):
    out = g.run(f"echo 1 >/sys/bus/pci/devices/{bdf('edu')}/enable; edu {bdf('edu')}", timeout=120).out
    said = dict(line.split(None, 1) for line in out.splitlines())
    t.equal((said.get("ident"), said.get("live")), ("010000ed", "edcba987"), "edu: its registers, from user space")
    t.equal(said.get("dma"), "ok", "edu: DMA both ways")
    t.equal((said.get("msi"), said.get("dma_msi")), ("10", "2"), "edu: each MSI arrives, and once")
    held(t, f, lent, "edu", "msi")


def small(t, f, b, lent, g):
    """Of shared memory between VMs: the register for its interrupts (IntrMask), which holds what is written."""
    out = g.run(f"cd /sys/bus/pci/devices/{bdf('small')}; echo 1 >enable; set -- $(head -n 1 resource); "
                "echo $(($2 - $1 + 1)); devmem $1 32; devmem $1 32 0x1234; devmem $1 32", timeout=60).out.split()
    t.equal(out[0], "256", "small: a BAR of 256 bytes")
    t.equal(out[1:], ["0x00000000", "0x00001234"], "small: is read, and written")
    start = b.run(f"head -n 1 /sys/bus/pci/devices/{b.bdf('small')}/resource").out.split()[0]
    t.equal(b.hmp(f"xp /1wx {start}").split()[-1], "0x00001234", "small: in the device, as its own host reads it")
    held(t, f, lent, "small")


def huge(t, f, b, lent, g):
    address, uuid = lent["huge"]
    before = f.free("b")
    g.spawn(f"cd /sys/bus/pci/devices/{bdf('huge')}; echo 1 >enable; set -- $(sed -n 3p resource); devmem $1 32")
    f.wait_mdev("a", uuid, "failed", 60)
    log = b.run("dmesg | grep 'does not fit into the window' | tail -n 1").out
    t.ok(re.search(r"BAR 2 \(2097152 KiB\).*node 1: \d+ KiB in all", log),
         "huge: the lender says which BAR, and sizes", log)
    t.ok("window" in f.mdev_state("a", uuid), "huge: the borrower says that it is the window", f.mdev_state("a", uuid))
    f.wait_state("a", address, "free", 30)
    t.equal(f.wait_free("b", before), before, "huge: and nothing stays lent")


def not_here(t):
    """Of the devices that should be here, those that the emulation keeps from it."""
    for name in ("intel-hda", "qemu-xhci"):
        with t.case(name):
            t.skip("QEMU lets its DMA reach RAM only, so not an NTB (tests/cluster/README.md); see 66-own-devices")


def small_devices(t, f, c, lent, stick):
    b = c.host("b")
    ports = ("sound", "usb", "edu", "small", "huge")
    with contextlib.ExitStack() as stack:
        # The borrower's IOMMU unmaps at once; the lender's too, if it takes the firmware long to put it back.
        with c.host("a").provoke(*kinds.FIRMWARE, must=False), c.host("b").provoke(*kinds.FIRMWARE, must=False):
            g = stack.enter_context(f.guest("a", "kinds", modules=(), memory="160M", tools=("audio", "usb", "programs"), cpu=FEWER_ADDRESSES,
                                            devices=[device(f, lent, port) for port in ports]))
        for name, part in {"sound": lambda: sound(t, f, c, lent, g), "USB": lambda: usb(t, f, b, lent, g, stick),
                           "edu": lambda: edu(t, f, lent, g), "small BAR": lambda: small(t, f, b, lent, g)}.items():
            with t.case(f"{name}: to the end"):
                part()
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        # Last: a device that failed stops its VM.
        with t.case("a BAR larger than the window"):
            huge(t, f, b, lent, g)
    for port in ports:
        f.wait_state("a", lent[port][0], "free")


def paint(t, f, c, lent, g, port, *how):
    wrong = kinds.paint(t, c, g, port, bdf(port), *how)
    held(t, f, lent, port)
    return wrong


def displays(t, f, c, lent):
    # The kernel's console would copy a whole screen, 8 bytes at a time, through an emulated bridge.
    with f.guest("a", "displays", modules=(), memory="192M",
                 cmdline="drm_kms_helper.fbdev_emulation=0 drm_client_lib.active=",
                 devices=[device(f, lent, port) for port in ("bochs", "vgpu")], tools=("gpu", "programs")) as g:
        with t.case("bochs-display: to the end"):
            wrong = paint(t, f, c, lent, g, "bochs", "bochs", "bochs-drm", "160 120")
            t.ok(wrong is None, "bochs: and the guest's picture, pixel by pixel", f"x, y, is, should be: {wrong}")
        with t.case("virtio-gpu: to the end"):
            wrong = paint(t, f, c, lent, g, "vgpu", "virtio_gpu", "virtio_gpu")
            t.todo(wrong is None, "vgpu: and the guest's picture, pixel by pixel",
                   "QEMU reads a resource's memory once, when it is attached, if it is not RAM of its own host "
                   "(66-own-devices, where it is, has the picture)")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
    for port in ("bochs", "vgpu"):
        f.wait_state("a", lent[port][0], "free")


def bind(b, function):
    b.run(f"cd /sys/bus/pci/devices/{function} && {{ [ ! -e driver ] || echo {function} >driver/unbind; }}; "
          f"echo dlend-lender >driver_override && echo {function} >/sys/bus/pci/drivers_probe")


def half_lent(t, f, a, b):
    """One function of two, bound by hand: it is there, and cannot be had."""
    first, second = f.address("b", "twins"), f.address("b", "twins", 1)
    bind(b, b.bdf("twins"))
    t.equal(f.lender_state(first)[0], "incomplete", "twins: one alone is incomplete")
    a.wait_for(f"[ -e /sys/bus/dlend/devices/{first} ]", 20)
    r = a.run(f"mdevctl start -u 00000000-1111-2222-3333-444444444444 -p {first} --type dlend-nvme", check=False)
    t.ok(r.status != 0, "twins: and not to be had", r.out)
    f.dlend("b", f"lend --group {b.bdf('twins')}", timeout=120)
    for address in (first, second):
        f.wait_state("a", address, "free")
    t.passed("twins: lent together, both are free")
    return first, second


def both_used(t, f, twins, uuids):
    """And then one alone: what the other had mapped as well takes the place of what goes."""
    devices = [f.device(uuid, f",id=twin{n},bus=hp{n}") for n, uuid in enumerate(uuids)]
    with f.guest("a", "both", devices=devices, ports=2) as g:
        t.equal(sorted(g.run("cat /sys/class/nvme/*/serial").out.split()), ["DLEND-TWIN-0", "DLEND-TWIN-1"],
                "twins: one VM has both")
        states = {f.lender_state(address) for address in twins}
        t.ok(len(states) == 1 and next(iter(states))[:2] == ("held", "1"), "twins: under one lease", str(states))
        disks = [disk_of(g, f"DLEND-TWIN-{n}") for n in range(2)]
        for disk in disks:
            g.run(f"dd if=/dev/urandom of=/tmp/{disk} bs=64k count=2 2>/dev/null; "
                  f"dd if=/tmp/{disk} of=/dev/{disk} bs=64k oflag=direct 2>/dev/null", timeout=240)
        same = "dd if=/dev/{0} bs=64k count=2 iflag=direct 2>/dev/null | cmp - /tmp/{0} && echo same"
        for disk in disks:
            t.equal(g.run(same.format(disk), timeout=240).out, "same\n", f"twins: {disk} has what was written")
        g.qmp("device_del", id="twin0")
        g.wait_event("DEVICE_DELETED", 60, lambda data: data.get("device") == "twin0")
        t.equal(g.run(same.format(disks[1]), timeout=240).out, "same\n",
                "twins: one goes on when the other is unplugged")
        t.equal(f.lender_state(twins[1])[:2], ("held", "1"), "twins: and the group stays lent")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    for address in twins:
        f.wait_state("a", address, "free")


def two_machines(t, f, twins, uuids):
    """Firmware is enough: it drives disks of this class itself."""
    devices = [f.device(uuid) for uuid in uuids]
    options = {"wait": False, "kernel": False, "memory": "64M"}
    with f.guest("a", "one", devices=devices[:1], **options):
        f.wait_state("a", twins[0], "held", 240)
        with f.guest("a", "two", devices=devices[1:], **options):
            f.wait_mdev("a", uuids[1], "failed", 240)
            state = f.mdev_state("a", uuids[1])
            t.ok("group" in state and "another VM" in state, "twins: half of the group for another VM is refused",
                 state)
            f.wait_mdev("a", uuids[0], "running", 60)
            t.equal(f.lender_state(twins[0])[:2], ("held", "1"), "twins: and the first VM keeps its own")
    for address in twins:
        f.wait_state("a", address, "free")


def group(t, f, a, b):
    twins = half_lent(t, f, a, b)
    uuids = [f.mdev("a", address, "dlend-nvme") for address in twins]
    with t.case("one VM with both functions"):
        both_used(t, f, twins, uuids)
    with t.case("two VMs with one each"):
        two_machines(t, f, twins, uuids)


def main():
    with Tap() as t, Cluster("devices.toml", tap=t, files={"dlend.rom": rom_image()}) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        # Some of these devices keep all of their emulated host from running for seconds, while they do DMA.
        f.up(heartbeat_timeout_ms=20000)
        stick = os.urandom(1 << 20)
        with open(b.disk_file("stick"), "r+b") as file:
            file.write(stick)
        lent = lend_all(t, f)
        not_here(t)
        with t.case("sound, USB, edu and BARs of odd sizes"):
            small_devices(t, f, c, lent, stick)
        with t.case("displays"):
            displays(t, f, c, lent)
        with t.case("two functions in one group"):
            group(t, f, a, b)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
