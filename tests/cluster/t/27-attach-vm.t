#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""An attached device is handed to VMs by the kernel's own vfio-pci, as any local device.

    host a (node 1): vfio-pci, and guests ------ ab ------ host b (node 2): nvme0

No VM's memory is looked for: VFIO says what it is, also what a guest with an IOMMU of its own maps.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import attach, detach, messages, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from plug import MIB, ONLINE, VIRTIO_MEM, dimm_in, dimm_out, used_at_once, virtio_mem  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position

WRITE = ("dd if=/dev/urandom of=/tmp/data bs=16k count=16 2>/dev/null && dd if=/tmp/data of=/dev/nvme0n1 bs=16k oflag=direct "
         "2>/dev/null && sync && sha256sum </tmp/data")
READ = "dd if=/dev/nvme0n1 bs=16k count=16 iflag=direct 2>/dev/null | sha256sum"


def works(t, g, name):
    sums = g.run(WRITE, timeout=240).out
    t.equal(g.run(READ, timeout=240).out, sums, f"{name}: what was written is read back")
    return sums


def booted(t, f, a, address):
    """It boots, works, reboots, and gets memory that it uses at once."""
    with f.guest("a", "vm", memory="512M", maxmem="1G", ports=2, modules=("nvme", "virtio_mem"), tools=("fio", "memory"),
                 cmdline=ONLINE, devices=[f"vfio-pci,host={pci(address)},id=lent,bus=hp1"], extra=VIRTIO_MEM) as g:
        t.ok("DLEND-NVME-0" in g.run("cat /sys/class/nvme/nvme0/serial").out, "the guest's nvme driver finds the disk")
        kinds = set(re.findall(r"(\S+)\s+\S+\s+nvme", g.run("grep nvme /proc/interrupts").out))
        t.ok(kinds and all(re.match("(IR-)?PCI-MSIX-", kind) for kind in kinds), "with MSI-X", str(kinds))
        sums = works(t, g, "booted")
        before = messages(a)
        g.run(verified("/dev/nvme0n1"), timeout=300)
        t.passed("fio --verify")
        t.equal(messages(a), before, "during it: no message to the lender")
        epoch = f.lender_state(address)[2]
        g.reboot(timeout=240)
        t.equal(g.run(READ, timeout=240).out, sums, "the data are there after a guest reboot")
        t.equal(f.lender_state(address), ("held", "1", epoch), "over which the lease stayed")
        for turn in (1, 2):
            used_at_once(t, g, f"DIMM, turn {turn}", lambda: dimm_in(g))
            dimm_out(g)
            used_at_once(t, g, f"virtio-mem, turn {turn}", lambda: virtio_mem(g, 128 * turn * MIB))
            virtio_mem(g, 0, most=64 * MIB)
        plugged(t, g, address)
        g.shutdown()


def plugged(t, g, address):
    """Out of the running guest, and into a slot of it."""
    g.qmp("device_del", id="lent")
    g.wait_event("DEVICE_DELETED", match=lambda data: data.get("device") == "lent")
    g.wait_for("[ ! -e /dev/nvme0n1 ]")
    g.qmp("device_add", driver="vfio-pci", id="again", bus="hp0", host=pci(address))
    g.wait_for("[ -b /dev/nvme0n1 ]")
    works(t, g, "hot-plugged")


def by_intx(t, f, address):
    """A guest whose driver has no other interrupts: VFIO masks each one in the device, and enables it again."""
    with f.guest("a", "intx", memory="256M", cmdline="pci=nomsi",
                 devices=[f"vfio-pci,host={pci(address)},id=lent"]) as g:
        t.ok(g.run("grep -c 'IO-APIC.*nvme' /proc/interrupts", check=False).out.strip() != "0", "a guest with INTx")
        works(t, g, "with INTx")
        count = int(g.run("awk '/nvme/ { n += $2 } END { print n }' /proc/interrupts").out)
        g.run("dd if=/dev/nvme0n1 of=/dev/null bs=4k count=32 iflag=direct 2>/dev/null", timeout=120)
        count = int(g.run("awk '/nvme/ { n += $2 } END { print n }' /proc/interrupts").out) - count
        # The mask is off again when the device may not have heard yet that its interrupt was served, so that it comes once
        # more: now and then, on a slow host several times.  One that nobody masks comes thousands of times.
        t.ok(32 <= count <= 32 * 12, "an interrupt for each command, and not without end", str(count))
        g.shutdown()


def with_iommu(t, f, address):
    """A guest that has an IOMMU, by which its nvme driver's DMA goes: a mediated device cannot have that."""
    with f.guest("a", "viommu", memory="256M", tools=("fio",), cmdline="intel_iommu=on",
                 devices=["intel-iommu,caching-mode=on,intremap=off", f"vfio-pci,host={pci(address)},id=lent"]) as g:
        kind = g.run("cat /sys/class/nvme/nvme0/device/iommu_group/type").out.strip()
        t.ok(kind.startswith("DMA"), "a guest with an IOMMU: its kernel translates for the disk", kind)
        works(t, g, "with an IOMMU")
        g.run(verified("/dev/nvme0n1"), timeout=300)
        t.passed("fio --verify")
        g.shutdown()


def translated(t, f, address):
    """The same with a mediated device, which cannot have that: the VM is told so, by name, at the device."""
    uuid = f.mdev("a", address, "dlend-nvme")
    with f.guest("a", "mdev", memory="256M", cmdline="intel_iommu=on", wait=False,
                 devices=["intel-iommu,caching-mode=on,intremap=off", f.device(uuid)]):
        f.wait_mdev("a", uuid, "failed", 240)
        state = f.mdev_state("a", uuid)
        t.ok("virtual IOMMU" in state, "a mediated device of a guest with an IOMMU says what is wrong", state)
        t.ok("virtual IOMMU" in f.host("a").run("dmesg").out, "  so does the log")
    f.wait_state("a", address, "free")
    with f.guest("a", "passes", memory="256M", cmdline="intel_iommu=on iommu=pt",
                 devices=["intel-iommu,caching-mode=on,intremap=off", f.device(uuid)]) as g:
        works(t, g, "mediated, with an IOMMU that translates for others only")
        g.shutdown()
    f.mdev_stop("a", uuid)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        a.load_modules("dlend_native")
        address = f.lend("b", "nvme0")
        # The window, of 1 GiB, shall have room for the VM's memory.
        a.run("echo 16 >/sys/module/dlend_native/parameters/dma_mib")
        attach(t, f, address, "")
        vfio_pci(a, address)
        pinned = f.pinned("a")
        with t.case("a VM"):
            booted(t, f, a, address)
        t.equal(f.wait_pinned("a", pinned), pinned, "the VM is gone: none of its pages is pinned")
        with t.case("a VM with INTx"):
            by_intx(t, f, address)
        with t.case("a VM with an IOMMU"):
            with_iommu(t, f, address)
        t.equal(f.wait_pinned("a", pinned), pinned, "nor of that one")
        detach(t, f, address)
        with t.case("mediated, and a VM with an IOMMU"):
            translated(t, f, address)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
