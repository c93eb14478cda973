#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A PCI error (AER) of a lent device, which QEMU makes on the lender: nobody has the device while the lender's
kernel recovers it, and then it is lent again.

    host a (node 1): guests, and itself ------ ab ------ host b (node 2): rng
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position

GUEST = {"tools": ("rng",), "modules": ("virtio-rng",)}
# Each read writes to a BAR of the device, so that some are on their way at any moment.
BUSY = "(while dd if=/dev/hwrng of=/dev/null bs=64 count=1; do :; done) >/dev/null 2>&1 &"


def inject(b, error):
    """QEMU's device tells the root port, and Linux there finds out the rest."""
    out = b.hmp(f"pcie_aer_inject_error rng {error}")
    assert "OK" in out, out


def firmware(b):
    """Ports pass errors on, as firmware sets them up (_HPX); QEMU's does not."""
    b.run(f"setpci -s {b.port('rng').bdf} BRIDGE_CONTROL.w=2:2")


def works(g):
    """It writes into the guest's memory, and never the same."""
    g.wait_for("[ -c /dev/hwrng ]")
    read = "dd if=/dev/hwrng bs=64 count=1 iflag=fullblock 2>/dev/null | sha256sum"
    return g.run(read, timeout=120).out != g.run(read, timeout=120).out


def order(t, f, address, what):
    """Of what the lender did: reset only when the kernel's core had done its part."""
    steps = re.findall(rf"dlend_fence: {address} (\w+)", "\n".join(line for _, _, line in f.trace("b", "dlend_fence")))
    ours = [step for step in steps if step in ("error_over", "restored")]
    t.ok("error_over" in ours and ours[-1] == "restored" and "restored" not in ours[:ours.index("error_over")],
         f"{what}: no reset of ours, and so no new lease, while the lender's kernel recovers it", " ".join(steps))
    return steps


def in_use(t, f, b, address, uuid, g, error, what):
    epoch = f.lender_state(address)[2]
    t.ok(works(g), f"{what}: a guest uses it")
    g.run(BUSY)
    f.trace_clear("b")
    inject(b, error)
    f.wait_mdev("a", uuid, "failed", 30)
    state = f.mdev_state("a", uuid)
    t.ok("error" in state, f"{what}: the borrower says that the device had an error", state)
    g.wait_event("STOP", 30)
    t.ok(eventually(lambda: g.stopped, True, 30), f"{what}: and QEMU, which stops the guest, as it does for a local device")
    b.wait_for(f"grep -qx free /sys/bus/pci/devices/0000{address[5:]}/dlend/state", 30)
    t.equal(order(t, f, address, what)[:1], ["bus_master_off"], f"{what}: the guest's DMA ends first of all")
    t.equal(f.lender_state(address)[2], epoch, f"{what}: nobody has had it since")


def idle(t, f, b, address, error, what):
    """Nobody has it: who comes in the middle of that would wait."""
    f.trace_clear("b")
    inject(b, error)
    b.wait_for("grep -q 'dlend_fence:.* restored ' /sys/kernel/tracing/trace", 30)
    b.wait_for(f"grep -qx free /sys/bus/pci/devices/0000{address[5:]}/dlend/state", 30)
    t.passed(f"{what}: it is offered as before")
    order(t, f, address, what)


def attached(t, f, a, b, address, error, what):
    """Host a's vfio-pci has it, and a program that keeps it open.

    Not virtio's own driver: when its device is gone, it waits for a status that is not all ones (docs/native.md).
    """
    device = f"/sys/bus/pci/devices/{pci(address)}"
    f.dlend("a", f"attach {address}", timeout=120)
    vfio_pci(a, address)
    a.run("rm -f /tmp/go /tmp/open")
    job = a.spawn(f"/share/registers pci {pci(address)} readrq 1 >/tmp/open")
    a.wait_for("grep -q ready /tmp/open", 30)
    f.trace_clear("b")
    inject(b, error)
    a.wait_for("dmesg | grep -q 'its lender reports an error of it'", 30)
    t.equal(a.run(f"setpci -s {pci(address)} VENDOR_ID.l").out.strip(), "ffffffff", f"{what}: it reads as one that was unplugged")
    a.run("touch /tmp/go")
    job.wait(60, check=True)
    a.wait_for(f"[ ! -e {device} ]", 60)
    t.passed(f"{what}: it goes as soon as nobody has it open")
    f.wait_state("a", address, "free")
    t.equal(order(t, f, address, what)[:1], ["bus_master_off"], f"{what}: its DMA ends first of all")
    f.dlend("a", f"attach {address}", timeout=120)
    a.run("modprobe virtio-rng")
    t.ok(works(a), f"{what}: attached again, it works by its driver")
    f.dlend("a", f"detach --force {address}", timeout=120)
    f.wait_state("a", address, "free")
    a.run("rmmod virtio-rng; dmesg -C")


def method(b):
    return b.run(f"cat /sys/bus/pci/devices/{b.bdf('rng')}/reset_method").out.split()


def reset_by(t, f, b):
    """The way that an administrator chose is the one by which the device is cleaned, and is not kept for its driver."""
    f.dlend("b", f"reclaim {b.bdf('rng')}", timeout=90)
    had = method(b)
    t.ok({"flr", "bus"} <= set(had), "the device can be reset in several ways", str(had))
    address = f.lend("b", "rng", options="--reset bus")
    t.equal(method(b), ["bus"], "dlend lend --reset bus")
    b.run("cd /sys/kernel/tracing && echo p:dlend_bus pci_bridge_secondary_bus_reset >>kprobe_events && "
          "echo 1 >events/kprobes/dlend_bus/enable")
    uuid = f.mdev("a", address, "dlend-pci")
    f.trace_clear("b")
    with f.guest("a", "bus", devices=[f.device(uuid)], **GUEST) as g:
        t.ok(works(g), "a guest uses it")
        g.shutdown()
    f.wait_state("a", address, "free")
    t.ok("dlend_bus" in b.run("cat /sys/kernel/tracing/trace").out, "returned: it was reset by its bus")
    b.run("cd /sys/kernel/tracing && echo 0 >events/kprobes/dlend_bus/enable && echo -:dlend_bus >>kprobe_events")
    f.mdev_stop("a", uuid)
    f.dlend("b", f"reclaim {b.bdf('rng')}", timeout=90)
    t.equal(method(b), had, "reclaimed: as it was")


def main():
    with Tap() as t, Cluster("errors-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/registers", c.run_dir / "share/registers")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        firmware(b)
        b.expect("AER: |PCIe Bus Error", "QEMU makes the device tell of errors, and Linux recovers it")
        b.late_writes("ab", "the guest writes to the device's BARs until its host hears of the error")
        address = f.lend("b", "rng")
        uuid = f.mdev("a", address, "dlend-pci")
        for error, what in (("COMP_TIME", "an error"), ("MALF_TLP", "a fatal error")):
            with t.case(f"{what}: to the end"):
                idle(t, f, b, address, error, f"{what} of one that nobody has")
                with f.guest("a", "g" + error[0], devices=[f.device(uuid)], **GUEST) as g:
                    in_use(t, f, b, address, uuid, g, error, what)
                    g.kill()
                f.wait_state("a", address, "free")
        with t.case("the next guest: to the end"):
            with f.guest("a", "next", devices=[f.device(uuid)], **GUEST) as g:
                t.ok(works(g), "the next guest uses it as if nothing had been")
                g.shutdown()
            f.wait_state("a", address, "free")
            f.mdev_stop("a", uuid)
        a.load_modules("dlend_native")
        for error, what in (("COMP_TIME", "an error of an attached device"), ("MALF_TLP", "a fatal one")):
            with t.case(f"{what}: to the end"):
                attached(t, f, a, b, address, error, what)
        with t.case("reset by a method that was chosen"):
            reset_by(t, f, b)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
