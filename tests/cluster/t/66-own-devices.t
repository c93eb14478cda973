#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Devices that QEMU does not let reach an NTB, each with its own driver in a guest on their own host.

    host b (node 2): intel-hda, qemu-xhci, virtio-gpu; guests.  No NTB.

What lends and borrows them is what does so for others: the link is the host's to itself.
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import kinds  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

TYPE = {"sound": "dlend-audio", "usb": "dlend-usb", "vgpu": "dlend-gpu"}
SLOT = {"sound": 0x10, "usb": 0x11, "vgpu": 0x12}


def held(t, f, lent, port, mode):
    address, uuid = lent[port]
    t.equal(f.lender_state(address)[:2], ("held", "2"), f"{port}: borrowed")
    irqs = f.irqs("b", uuid)
    t.ok(irqs["live"] == mode and irqs["signalled"], f"{port}: interrupts by {mode}", str(irqs))


def guest(f, lent, label, *ports, **options):
    devices = [f.device(lent[port][1], f",id={port},addr={SLOT[port]:#x}") for port in ports]
    return f.guest("b", label, modules=(), memory="160M", devices=devices, **options)


def small_devices(t, f, c, lent, data):
    b = c.host("b")
    with guest(f, lent, "kinds", "sound", "usb", tools=("audio", "usb", "programs")) as g:
        with t.case("intel-hda: to the end"):
            kinds.tone(t, g, ["snd_hda_codec_generic", "snd_hda_intel"], c.run_dir / "b-sound.wav", "intel-hda")
            held(t, f, lent, "sound", "msi")
        with t.case("qemu-xhci: to the end"):
            kinds.stick(t, g, "xhci_pci", b.disk_file("stick"), data, "qemu-xhci")
            held(t, f, lent, "usb", "msix")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    for port in ("sound", "usb"):
        f.wait_state("b", lent[port][0], "free")


def display(t, f, c, lent):
    with guest(f, lent, "display", "vgpu", tools=("gpu", "programs"),
               cmdline="drm_kms_helper.fbdev_emulation=0 drm_client_lib.active=") as g:
        wrong = kinds.paint(t, c, g, "vgpu", f"0000:00:{SLOT['vgpu']:02x}.0", "virtio_gpu", "virtio_gpu")
        t.ok(wrong is None, "virtio-gpu: the lender's screen shows the guest's picture, pixel by pixel",
             f"x, y, is, should be: {wrong}")
        held(t, f, lent, "vgpu", "msix")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
    f.wait_state("b", lent["vgpu"][0], "free")


def main():
    with Tap() as t, Cluster("own-devices.toml", tap=t) as c:
        f = Fabric(c, b=2)
        b = c.host("b")
        f.up(wait=False)
        data = os.urandom(1 << 20)
        with open(b.disk_file("stick"), "r+b") as file:
            file.write(data)
        lent = {}
        for port, kind in TYPE.items():
            address = f.lend("b", port, wait=("b",))
            lent[port] = (address, f.mdev("b", address, kind))
        free = f.free("b")
        with t.case("sound and USB"):
            small_devices(t, f, c, lent, data)
        with t.case("a display"):
            display(t, f, c, lent)
        t.equal(f.wait_free("b", free), free, "nothing stays lent")
        t.equal(b.complaints(), [], "the host's kernel has no complaint")


main()
