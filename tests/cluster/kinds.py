# SPDX-License-Identifier: GPL-2.0-only
"""Devices of some kinds at work in a guest, and what their host has of it: for 80-devices, 74-move-kinds and 66-own-devices.

Knows how a driver is loaded and what it is to do; not where the device is, nor how it was lent.
"""
import hashlib

import measure

HERTZ = 440
# By itself it gives up after a second, in which hosts here may do nothing.
VIRTIO_SOUND = "virtio_snd msg_timeout_ms=60000"
# What is expected of an EHCI as its guest starts, and why.
FIRMWARE = ("DMAR: .*DMA Read.*fault addr .*PTE Read access is not set|DMAR: .*handling fault status",
            "SeaBIOS has the EHCI read its schedule while it changes what low RAM is, which unmaps all of it for a moment; a "
            "local vfio-pci's has the same")


def wait(g, test, seconds=60):
    """Until a shell test holds in the guest."""
    g.wait_for(test, seconds)


def tone(t, g, modules, wav, name):
    """A tone from the guest's first sound card is in its host's sound file, and no other is."""
    g.run("; ".join(f"modprobe {module}" for module in modules), timeout=60)
    wait(g, "[ -c /dev/snd/pcmC0D0p ]")
    out = g.run(f"tone {HERTZ} 8", timeout=180).out
    t.diag("tone: " + " ".join(out.split()))
    best, stretches = measure.tone(wav, HERTZ, 0.1)
    t.ok(best > 0.95 and stretches >= 10, f"{name}: the lender's sound file has the tone of {HERTZ} Hz",
         f"share of its power {best:.3f}, {stretches} tenths of a second")
    t.ok(measure.tone(wav, HERTZ * 3 // 2, 0.1)[0] < 0.1, f"{name}: and no other")


def stick(t, g, module, file, data, name):
    """A USB stick that holds data: the guest reads it, and writes to it."""
    g.run(f"modprobe {module}; modprobe usb_storage; modprobe sd_mod", timeout=60)
    wait(g, "[ -b /dev/sda ]")
    t.equal(g.run("sha256sum </dev/sda", timeout=300).out.split()[0], hashlib.sha256(data).hexdigest(),
            f"{name}: the stick's checksum")
    want = g.run("dd if=/dev/urandom of=/tmp/x bs=64k count=1 2>/dev/null; "
                 "dd if=/tmp/x of=/dev/sda bs=64k conv=fsync 2>/dev/null; sha256sum </tmp/x", timeout=240).out
    with open(file, "rb") as disk:
        t.equal(hashlib.sha256(disk.read(65536)).hexdigest(), want.split()[0],
                f"{name}: what the guest writes is on the stick")


def colour(picture):
    """What tests/cluster/guest/paint.c shows."""
    def at(x, y):
        across, down = x * 8 // picture.width, y * 6 // picture.height
        return across * 36, down * 51, 255 if (across ^ down) & 1 else 64
    return at


def paint(t, c, g, port, bdf, module, driver, size=""):
    """The guest paints; the first pixel of host b's screenshot that is not what it painted, or None."""
    g.run(f"modprobe {module}", timeout=60)
    wait(g, f"ls /sys/bus/pci/devices/{bdf}/drm/card* /sys/bus/pci/devices/{bdf}/virtio*/drm/card* 2>/dev/null | "
            "grep -q .")
    mode = g.run(f"paint {driver} {size}", timeout=180).out.split()
    c.host("b").qmp("screendump", device=port, filename=f"{port}.ppm")
    picture = measure.Picture(c.run_dir / f"{port}.ppm")
    t.equal([str(picture.width), str(picture.height)], mode,
            f"{port}: the lender's screen has the mode that the guest set")
    (c.run_dir / f"{port}.svg").write_text(picture.svg(), encoding="utf-8")
    wrong = picture.differs(colour(picture))
    g.run("killall paint", check=False)
    return wrong
