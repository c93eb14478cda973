#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a device does to itself.

It is reset while it is lent, and nobody says so: an NVM subsystem reset, new firmware, an FPGA's new image.  Its BARs, bus
mastering and interrupts are gone.  Its user's driver gets it back, as from vfio-pci.
It reads and writes its own BARs by DMA, at the addresses by which its user knows them: a disk may fetch commands there.

    host a (node 1): guests, itself ------ ab ------ host b (node 2): nvme0, edu
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import attach, detach, node_of, pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

SAID = "was reset, and this host was not told"


def lose_itself(t, b):
    """Through the port above, past the lender's kernel."""
    root, bdf = b.port("nvme0").bdf, b.bdf("nvme0")
    b.run(f"setpci -s {root} BRIDGE_CONTROL.w=40:40; sleep 0.2; setpci -s {root} BRIDGE_CONTROL.w=0:40")     # pace
    b.wait_for(f"[ $(setpci -s {bdf} CLASS_DEVICE.w) = 0108 ]", 20)
    t.equal(b.run(f"setpci -s {bdf} COMMAND.w").out.strip(), "0000", "the device has lost itself")


def said(b):
    return int(b.run(f"dmesg | grep -c '{SAID}'", check=False).out)


def wrote(machine, disk):
    out = machine.run(f"dd if=/dev/urandom of=/tmp/p bs=64k count=4 2>/dev/null; dd if=/tmp/p of={disk} bs=64k oflag=direct 2>/dev/null; "
                      "sha256sum </tmp/p", timeout=120).out.strip()
    return out


def has(machine, disk):
    return machine.run(f"dd if={disk} bs=64k count=4 iflag=direct 2>/dev/null | sha256sum", timeout=120).out.strip()


def in_use(t, f, b, address, g):
    want, before, lease = wrote(g, "/dev/nvme0n1"), said(b), f.lender_state(address)
    bdf = g.run("basename $(readlink /sys/class/nvme/nvme0/device)").out.strip()
    lose_itself(t, b)
    # As it does by itself when a command times out: nobody waits for that here.
    g.run("echo 1 >/sys/class/nvme/nvme0/reset_controller", timeout=120)
    t.equal(has(g, "/dev/nvme0n1"), want, "the guest's driver resets its controller: the disk and its data are back")
    t.equal(said(b) - before, 1, "the lender says what happened")
    lose_itself(t, b)
    g.run(f"echo {bdf} >/sys/bus/pci/drivers/nvme/unbind", timeout=120)
    lose_itself(t, b)
    g.run(f"echo 1 >/sys/bus/pci/devices/{bdf}/remove; echo 1 >/sys/bus/pci/rescan", timeout=120)
    g.wait_for("[ -b /dev/nvme0n1 ]", 60)
    t.equal(has(g, "/dev/nvme0n1"), want, "once more while no driver had it: the guest finds the device anew")
    t.equal(f.lender_state(address), lease, "all under one lease")
    return want


def by_a_host(t, f, a, b, address):
    attach(t, f, address, "nvme")
    disk = node_of(a, address)
    want = wrote(a, disk)
    lose_itself(t, b)
    a.run(f"for r in /sys/bus/pci/devices/{pci(address)}/nvme/nvme*/reset_controller; do echo 1 >$r; done", timeout=120)
    t.equal(has(a, disk), want, "attached: its driver resets its controller: the disk and its data are back")
    detach(t, f, address)


def reaches_itself(t, machine, bdf, program, who):
    machine.run(f"{program} on {bdf}")
    t.equal(machine.run(f"{program} own {bdf} 0", check=False, timeout=120).out.strip(), "ok",
            f"{who}: a device reads a register of its own by DMA, and writes another")


def itself(t, f, a, b):
    edu = f.lend("b", "edu")
    uuid = f.mdev("a", edu, "dlend-pci")
    with f.guest("a", "own", memory="160M", tools=["programs"], modules=(), devices=[f.device(uuid)]) as g:
        bdf = g.run("basename $(dirname $(grep -l 0x11e8 /sys/bus/pci/devices/*/device))").out.strip()
        reaches_itself(t, g, bdf, "p2p", "a guest's")
        g.shutdown()
    f.wait_state("a", edu, "free")
    f.mdev_stop("a", uuid)
    attach(t, f, edu, None)
    reaches_itself(t, a, pci(edu), "/share/p2p", "a host's")
    a.run(f"echo 1 >/sys/bus/pci/devices/{pci(edu)}/reset", timeout=60)
    reaches_itself(t, a, pci(edu), "/share/p2p", "a host's, after a reset")
    detach(t, f, edu)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/p2p", c.run_dir / "share/p2p")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        with t.case("while a guest has it: to the end"):
            with f.guest("a", "g", memory="160M", devices=[f.device(uuid)]) as g:
                want = in_use(t, f, b, address, g)
                g.shutdown()
            f.wait_state("a", address, "free")
        with t.case("while nobody has it: to the end"):
            lose_itself(t, b)
            with f.guest("a", "next", memory="160M", devices=[f.device(uuid)]) as g:
                t.equal(has(g, "/dev/nvme0n1"), want, "the next guest has the disk")
                g.shutdown()
            f.wait_state("a", address, "free")
        f.mdev_stop("a", uuid)
        with t.case("while a host has it: to the end"):
            by_a_host(t, f, a, b, address)
        with t.case("its own BARs: to the end"):
            itself(t, f, a, b)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
