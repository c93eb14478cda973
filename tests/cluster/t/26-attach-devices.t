#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Devices of other kinds, used by a host's own drivers: sound, USB, a disk of virtio's, a display.

    host a (node 1): the drivers ------ ab ------ host b (node 2): sound, usb, vboot, bochs, huge
"""
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import kinds  # noqa: E402  pylint: disable=wrong-import-position
from attached import as_at_home, bound, pci, portrait  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap, rom_image  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position


class Attached:
    """A device of host b's in host a, for a block."""

    def __init__(self, f, port):
        self.f, self.port, self.address = f, port, None

    def __enter__(self):
        self.address = self.f.lend("b", self.port)
        self.f.dlend("a", f"attach {self.address}", timeout=120)
        return pci(self.address)

    def __exit__(self, *error):
        self.f.dlend("a", f"detach --force {self.address}", timeout=120, check=not error[0])
        if not error[0]:
            self.f.wait_state("a", self.address, "free")


def released_mapped(host):
    """In this block, a driver may leave something mapped when it is released."""
    return host.provoke(r"WARNING: kernel/dma/debug.c:\d+ at dma_debug_device_change", "virtio_snd leaves event buffers mapped",
                        must=False)


def at_home(b, port, driver, module):
    """What its own host shows of it while its own driver there has it."""
    b.run(f"modprobe {module}", timeout=60)
    bound(b, b.bdf(port), driver)
    return portrait(b, b.bdf(port))


def virtio(t, f, a, b):
    b.plug_virtio_disk("vboot", "virtio")
    a.run("modprobe virtio_blk")
    home = at_home(b, "vboot", "virtio-pci", "virtio_blk")
    with Attached(f, "vboot") as address:
        a.wait_for(f"ls /sys/bus/pci/devices/{address}/virtio*/block/*", 30)
        disk = a.run(f"ls /sys/bus/pci/devices/{address}/virtio*/block").out.strip()
        out = a.run(f"dd if=/dev/urandom of=/tmp/x bs=16k count=8 2>/dev/null; dd if=/tmp/x of=/dev/{disk} bs=16k oflag=direct "
                    f"2>/dev/null; dd if=/dev/{disk} bs=16k count=8 iflag=direct 2>/dev/null | cmp - /tmp/x && echo same",
                    timeout=120).out
        t.equal(out, "same\n", "virtio-blk: what is written is read")
        as_at_home(t, "virtio-blk", home, portrait(a, address))


def huge(t, f, b):
    """Its BAR is larger than the window."""
    address = f.lend("b", "huge")
    before = f.free("b")
    r = f.dlend("a", f"attach {address}", check=False, timeout=120)
    t.ok(r.status and "its BARs do not fit into the window of node 2" in r.out, "a BAR larger than the window: attach says so", r.out)
    t.ok("BAR 2 (2097152 KiB) does not fit" in b.run("dmesg").out, "  its lender's log says which BAR, and sizes")
    f.wait_state("a", address, "free")
    t.equal(f.wait_free("b", before), before, "  and nothing stays lent")


def main():
    with Tap() as t, Cluster("devices.toml", tap=t, files={"dlend.rom": rom_image()}) as c:
        for program in ("tone", "paint"):
            shutil.copy(BUILD / "guest" / program, c.run_dir / "share" / program)
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        stick = os.urandom(1 << 20)
        with open(b.disk_file("stick"), "r+b") as file:
            file.write(stick)
        # Some of these devices keep all of their emulated host from running for seconds, while they do DMA.
        f.up(heartbeat_timeout_ms=20000)
        b.own_disks()
        a.load_modules("dlend_native")
        a.run("for p in tone paint; do ln -sf /share/$p /usr/local/sbin/$p 2>/dev/null || cp /share/$p /usr/sbin/$p; done")
        home = {port: at_home(b, port, driver, module) for port, driver, module in
                (("sound", "virtio-pci", "virtio_snd"), ("bochs", "bochs-drm", "bochs"), ("usb", "ehci-pci", "ehci_pci"))}
        b.run("echo 0 >/sys/class/vtconsole/vtcon1/bind", check=False)     # its own console, or the display is in use
        # virtsnd_remove() leaves the buffers of its queue of events mapped, on the device's own host, too.  Only the kernel
        # of check-debug tells (CONFIG_DMA_API_DEBUG); it does not name the driver in that line.
        with t.case("sound"), released_mapped(a), released_mapped(b), Attached(f, "sound") as address:
            kinds.tone(t, a, [kinds.VIRTIO_SOUND], c.run_dir / "b-sound.wav", "sound")
            as_at_home(t, "virtio-sound", home["sound"], portrait(a, address))
        with t.case("a disk of virtio's"):
            virtio(t, f, a, b)
        with t.case("a display"), Attached(f, "bochs") as address:
            wrong = kinds.paint(t, c, a, "bochs", address, "bochs", "bochs-drm", "160 120")
            t.ok(wrong is None, "bochs: and the picture, pixel by pixel", f"x, y, is, should be: {wrong}")
            as_at_home(t, "bochs", home["bochs"], portrait(a, address))
        with t.case("USB, by INTx"), Attached(f, "usb") as address:
            kinds.stick(t, a, "ehci_pci", b.disk_file("stick"), stick, "usb")
            as_at_home(t, "usb", home["usb"], portrait(a, address))
        with t.case("a BAR that finds no place"):
            huge(t, f, b)
        for name in ("intel-hda", "qemu-xhci"):
            with t.case(name):
                t.skip("QEMU lets its DMA reach RAM only, so not an NTB (tests/cluster/README.md)")
        with t.case("a SCSI controller"):
            t.skip("QEMU has none whose DMA is right where memory is not RAM to it (tests/cluster/README.md)")
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
