#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The main path: a guest on a uses b's NVMe disks with its own driver.

    host a (node 1): guests ------ ab ------ host b (node 2): nvme0, nvme1
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position


def nothing_borrowed(t, f, a, b, address, uuid):
    """What the VMM and firmware do at start borrows nothing: shown with no guest OS at all."""
    f.trace_clear("b")
    with f.guest("a", "idle", wait=False, kernel=False, devices=[f.device(uuid, ",id=lent")], extra=["-S"]) as g:
        g.qmp("query-status")
        t.equal(f.lender_state(address)[0], "free", "open, reset, configuration, ROM and mmap borrow nothing")
        t.ok(not f.trace("b", "dlend_lease"), "the lender's tracepoints saw no lease")
    t.equal(f.lender_state(address)[0], "free", "nor does the death of such a VMM")


def use_disk(t, f, a, b, address, uuid):
    f.trace_clear("b")
    with f.guest("a", "g1", memory="384M", devices=[f.device(uuid, ",id=lent")], tools=("tools", "fio")) as g:
        in_the_guest(t, f, a, address, uuid, g)
    f.wait_state("a", address, "free")
    t.equal(f.lender_state(address)[0], "free", "guest off: the device is back")
    t.ok([fields for name, fields, _ in f.trace("b") if name == "dlend_fence"], "fenced before")


def in_the_guest(t, f, a, address, uuid, g):
    t.ok("DLEND-NVME-0" in g.run("cat /sys/class/nvme/nvme0/serial").out, "the guest's nvme driver finds the disk")
    t.equal(f.lender_state(address)[:2], ("held", "1"), "the lender says who holds it")
    t.ok("nvme" in g.run("grep -h nvme /proc/interrupts").out, "with interrupts of its own")
    kinds = set(re.findall(r"(\S+)\s+\S+\s+nvme", g.run("grep nvme /proc/interrupts").out))
    t.ok(kinds and all(re.match("(IR-)?PCI-MSIX-", kind) for kind in kinds), "which are MSI-X", str(kinds))
    irqs = f.irqs("a", uuid)
    t.ok(irqs["live"] == "msix" and irqs["signalled"], "and by MSI-X they came", str(irqs))
    sums = g.run("dd if=/dev/urandom of=/tmp/data bs=64k count=8 2>/dev/null && "
                 "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null && sync && "
                 "sha256sum </tmp/data", timeout=240).out
    back = "dd if=/dev/nvme0n1 bs=64k count=8 iflag=direct 2>/dev/null | sha256sum"
    t.equal(g.run(back, timeout=240).out, sums, "what was written is read back")

    f.trace_clear("a")
    before = f.stats("a", uuid)
    g.run(verified("/dev/nvme0n1"), timeout=300)
    after = f.stats("a", uuid)
    t.passed("fio --verify")
    same = [k for k in before if re.search(r"_faults|trapped_|^messages$|^gate_waits$", k)]
    t.ok({"bar0_faults_4k", "trapped_reads", "messages"} <= set(same),
         "debugfs counts faults, trapped accesses and messages", str(before))
    more = {k: after[k] - before[k] for k in same if after[k] != before[k]}
    why = [line for _, _, line in f.trace("a", "dlend_(msg_send|window|dma_unmap|vdev_step)")] if more else []
    # In one line: of a failure, the end of a whole run has only the first
    t.ok(not more, "during it: no BAR fault, no trapped access, no message", f"{more} {why}")

    epoch = f.lender_state(address)[2]
    g.reboot(timeout=240)
    t.equal(g.run(back, timeout=240).out, sums, "the data are there after a guest reboot")
    t.equal(f.lender_state(address), ("held", "1", epoch), "over which the lease stayed")
    g.shutdown()


def killed(t, f, a, b, address, uuid):
    with f.guest("a", "g2", devices=[f.device(uuid, ",id=lent")]) as g:
        t.equal(f.lender_state(address)[:2], ("held", "1"), "borrowed again")
        g.spawn("dd if=/dev/nvme0n1 of=/dev/null bs=64k iflag=direct")
        f.trace_clear("a")
        g.kill(9)
    f.wait_state("a", address, "free")
    t.equal(f.lender_state(address)[0], "free", "SIGKILL of QEMU in the middle of I/O returns the device")
    steps = [line for name, _, line in f.trace("a") if name in ("dlend_vdev_step", "dlend_window")]
    order = [next((i for i, line in enumerate(steps) if re.search(what, line)), None)
             for what in ("vdev_step: .* bus_master off", "window: .* lost")]
    t.ok(None not in order and order == sorted(order), "which stops before its memory goes", "\n".join(steps[-20:]))


def intx(t, f, a, b, address, uuid):
    with f.guest("a", "g3", cmdline="pci=nomsi", devices=[f.device(uuid, ",id=lent")]) as g:
        t.ok(g.run("grep -c 'IO-APIC.*nvme' /proc/interrupts", check=False).out.strip() != "0", "INTx, with pci=nomsi")
        out = g.run("dd if=/dev/nvme0n1 bs=64k count=4 iflag=direct 2>/dev/null | wc -c", timeout=240).out
        t.equal(out.strip(), str(4 * 65536), "the disk works with INTx")
        t.ok(int(g.run("awk '/nvme/ { n += $2 } END { print n + 0 }' /proc/interrupts").out) > 4,
             "more than one INTx arrived")
        g.shutdown()
    f.wait_state("a", address, "free")


def trapped(t, f):
    """A VMM that maps no BAR: each access is a call, and the first one borrows and waits, as a page fault would."""
    address = f.lend("b", "edu")
    uuid = f.mdev("a", address, "dlend-pci")
    edu = "0000:00:10.0"
    with f.guest("a", "g5", modules=(), memory="128M", tools=("programs",),
                 devices=[f.device(uuid, ",x-no-mmap=on,addr=0x10")]) as g:
        out = g.run(f"echo 1 >/sys/bus/pci/devices/{edu}/enable; edu {edu}", timeout=120).out
        said = dict(line.split(None, 1) for line in out.splitlines())
        t.equal((said.get("ident"), said.get("live"), said.get("dma")), ("010000ed", "edcba987", "ok"),
                "BARs that are not mapped: the first read finds the device, and DMA goes both ways")
        stats = f.stats("a", uuid)
        t.ok(stats["trapped_reads"] > 0 and stats["trapped_timeouts"] == 0 and not stats["bar0_faults_4k"],
             "by traps only, and none gave up", str(stats))
        g.shutdown()
    f.wait_state("a", address, "free")
    f.mdev_stop("a", uuid)


def hot_plug(t, f, a, b, address, uuid):
    """Plugged into a running guest and unplugged again: borrowed and returned without a restart."""
    with f.guest("a", "g4", ports=2) as g:
        for name, turn in (("lent", "hot-plugged"), ("again", "hot-plugged once more")):
            g.qmp("device_add", driver="vfio-pci", id=name, bus="hp0", sysfsdev=f"/sys/bus/mdev/devices/{uuid}")
            g.wait_for("ls /dev/nvme?n1")
            t.equal(f.lender_state(address)[:2], ("held", "1"), f"{turn}: borrowed")
            g.qmp("device_del", id=name)
            g.wait_event("DEVICE_DELETED", 60, lambda data, name=name: data.get("device") == name)
            f.wait_state("a", address, "free")
            t.equal(f.lender_state(address)[0], "free", "hot-unplugged: returned")
            g.wait_for("! ls /dev/nvme?n1")
        t.ok(g.qmp("query-status")["running"], "the guest goes on")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        address = f.lend("b", "nvme0")
        t.ok(address in f.offers("a"), "the offer appears on a")
        uuid = f.mdev("a", address, "dlend-nvme")
        t.equal(f.mdev_state("a", uuid).split()[0], "idle", "mdevctl start makes an idle device")
        with t.case("nothing is borrowed before the guest touches the device"):
            nothing_borrowed(t, f, a, b, address, uuid)
        with t.case("a guest uses the disk"):
            use_disk(t, f, a, b, address, uuid)
        with t.case("the VMM is killed"):
            killed(t, f, a, b, address, uuid)
        with t.case("INTx"):
            intx(t, f, a, b, address, uuid)
        with t.case("hot-plug and hot-unplug"):
            hot_plug(t, f, a, b, address, uuid)
        with t.case("BARs that the VMM does not map"):
            trapped(t, f)
        with t.case("the lender takes it back"):
            f.mdev_stop("a", uuid)
            f.dlend("b", f"reclaim {b.bdf('nvme0')}", timeout=120)
            b.wait_for(f"ls -d /sys/bus/pci/devices/{b.bdf('nvme0')}/nvme/*/nvme*n1", 30)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
