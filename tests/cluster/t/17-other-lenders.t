#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Lenders of other kinds: one without interrupt remapping, which has to be allowed to lend, and one with AMD's IOMMU.

    host a (node 1): guest ---- ab ---- host b (node 2): nvme0, no interrupt remapping
                      \\------ ac ---- host c (node 3): nvme0, AMD's IOMMU

One guest has a disk of each.  The host without remapping has to be allowed a link first, and a's processor, which writes
to a's own bridge's registers, shows why.
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import node_of, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position

ALLOW = "/sys/module/dlend_core/parameters/allow_unsafe_interrupts"
XLAT4 = 0x440           # of AMD's bridge: where the window leads to in the other host
MSI, NMI = 0xfee00000, 0x400    # to the processor with APIC id 0; delivery mode
NOWHERE = 768 << 20     # in a window of 1 GiB: where nothing is


def has_no_link(t, f, b):
    b.wait_for("grep -q 'interrupt remapping is off' /sys/class/dlend_link/*:*/last_error", 60)
    t.passed("without interrupt remapping there is no link, and it says why")
    t.equal(b.run("cat /sys/class/dlend_link/*:*/state").out.split(), ["down"], "  it is down")
    t.ok(ALLOW in b.run("dmesg").out, "  the kernel says what to do")
    said = f.doctor("b")[1]["interrupt-remapping"]
    t.ok(said[1] == "FAIL" and "links stay down" in said[0], "doctor says that links stay down", str(said))


def a_peer_raises(t, a, b, link):
    """An NMI, which no domain of an IOMMU keeps away."""
    if link.family != "amd":
        t.skip("another family's bridge")
    regs, window = (a.run(f"sed -n '{line}s/ .*//p' /sys/bus/pci/devices/{a.bdf('ntb-ab')}/resource").out.strip() for line in (1, 5))
    xlat = " ".join(f"$(({regs} + {XLAT4 + n}))" for n in (0, 4))
    a.run(f"set -- {xlat}; low=$(busybox devmem $1) high=$(busybox devmem $2); busybox devmem $2 32 0; busybox devmem $1 32 {MSI:#x}; "
          f"busybox devmem {window} 32 {NMI:#x}; busybox devmem $1 32 $low; busybox devmem $2 32 $high")
    b.wait_for("dmesg | grep -q 'NMI received'", 20)
    t.passed("its peer raises a non-maskable interrupt there")


def has_to_be_allowed(t, f, b):
    bdf = b.bdf("nvme0")
    r = f.dlend("b", f"lend {bdf} 2>&1", check=False, timeout=60)
    t.ok(r.status and "interrupt remapping is off" in r.out and ALLOW in r.out,
         "without interrupt remapping lending is refused, with what to do about it", f"{r.status}: {r.out}")
    t.ok("not lent: interrupt remapping is off" in b.run("dmesg").out, "by the kernel, too")
    t.ok(b.run(f"[ -e /sys/bus/pci/drivers/dlend-lender/{bdf} ]", check=False).status, "it is where it was")
    b.run(f"echo Y >{ALLOW}")
    said = f.doctor("b")[1]["interrupt-remapping"]
    t.ok(said[1] == "WARN" and "allowed all the same" in said[0], "doctor says that it is allowed", str(said))
    f.wait_links("a", 150)
    f.wait_links("b", 60)
    t.passed("the link comes up")


def disks(g):
    """{"B": "nvme1", ...}: of which lender each disk is."""
    lines = g.run("cd /sys/block && for n in nvme*; do echo $n $(cat $n/device/serial); done").out.split("\n")
    return {serial[-1]: name for name, serial in (line.split() for line in lines if line)}


def reads(g, disk):
    return f"dd if=/dev/{disk} bs=64k count=4 iflag=direct 2>/dev/null | sha256sum"


def works(t, g, disk, whose):
    sums = g.run("dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null && "
                 f"dd if=/tmp/data of=/dev/{disk} bs=64k oflag=direct 2>/dev/null && sha256sum </tmp/data", timeout=240).out
    t.equal(g.run(reads(g, disk), timeout=240).out, sums, f"{whose}: what was written is read back")
    count = g.run(f"grep -c 'PCI-MSIX.*{disk[:5]}q' /proc/interrupts", check=False).out.strip()
    t.ok(int(count) > 0, f"{whose}: by MSI-X", count)
    return sums


def in_the_guest(t, f, c, g, lent):
    disk = disks(g)
    t.equal(sorted(disk), ["B", "C"], "the guest has a disk of each lender")
    sums = {name: works(t, g, disk[name], whose) for name, whose in
            (("B", "without interrupt remapping"), ("C", "with AMD's IOMMU"))}
    f.trace_clear("c")
    c.link("ac").command("down")
    c.host("c").wait_for(f"grep -qx free /sys/bus/pci/devices/0000{lent['c'][5:]}/dlend/state", 30)
    steps = [line for _, _, line in f.trace("c", "dlend_fence")]
    t.ok(steps, "AMD: the link is lost, and the device fenced and reset")
    t.equal(g.run(reads(g, disk["B"]), timeout=240).out, sums["B"], "the other disk goes on")
    c.link("ac").command("up")
    f.wait_links("a", 150)
    f.wait_state("a", lent["c"], "free", 60)
    t.passed("AMD: the link comes back, and the device is offered again")
    g.spawn(f"dd if=/dev/{disk['B']} of=/dev/null bs=64k iflag=direct")
    g.kill(9)
    f.wait_state("a", lent["b"], "free", 60)
    t.passed("without interrupt remapping: SIGKILL of the VMM in the middle of I/O returns the device")


def attached(t, f, a, lent):
    """By the host's own driver, from both; a program has only the one whose interrupts are isolated, unless it is allowed."""
    a.run("modprobe nvme")
    a.load_modules("dlend_native")
    for name, address in lent.items():
        f.wait_state("a", address, "free")
        f.dlend("a", f"attach {address}", timeout=120)
        node = node_of(a, address)
        out = a.run(f"dd if=/dev/urandom of=/tmp/d bs=4k count=16 2>/dev/null; dd if=/tmp/d of={node} bs=4k oflag=direct 2>/dev/null; "
                    f"dd if={node} bs=4k count=16 iflag=direct 2>/dev/null | cmp - /tmp/d && echo same", timeout=120).out
        t.equal(out, "same\n", f"{name}: attached, and what was written is read back")
        vfio_pci(a, address)
    use = "/share/userdisk {} 4 2>&1"
    t.ok(a.run(use.format(pci(lent["c"])), timeout=120).out.startswith("ok 4 "), "AMD: a program has it by vfio-pci")
    r = a.run(use.format(pci(lent["b"])), check=False, timeout=120)
    log = a.run("dmesg | tail -n 3").out
    # The kernel's iommufd says no more than EPERM
    t.ok(r.status and ("interrupt" in log or "iommufd (Operation not permitted)" in r.out),
         "without interrupt remapping: VFIO refuses it, and says why", r.out + log)
    allow = "/sys/module/*iommu*/parameters/allow_unsafe_interrupts"
    a.run(f"echo Y | tee {allow}")
    t.ok(a.run(use.format(pci(lent["b"])), timeout=120).out.startswith("ok 4 "), "and does not if it is allowed")
    a.run(f"echo N | tee {allow}")
    f.dlend("a", f"detach {' '.join(lent.values())}", timeout=120)
    for address in lent.values():
        f.wait_state("a", address, "free")


def main():
    with Tap() as t, Cluster("other-lenders.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/userdisk", c.run_dir / "share/userdisk")
        f = Fabric(c)
        f.up(wait=False)
        with t.case("no interrupt remapping"):
            has_no_link(t, f, c.host("b"))
            has_to_be_allowed(t, f, c.host("b"))
        t.ok("AMD-Vi" in c.host("c").run("dmesg").out, "c's IOMMU is AMD's")
        lent = {name: f.lend(name, "nvme0", wait="a") for name in "bc"}
        hidden = "the borrower's PCI core writes to the MSI-X table, which a lender without interrupt remapping hides"
        with t.case("attached"), c.host("b").provoke(IOMMU_FAULT, hidden, must=False):
            attached(t, f, c.host("a"), lent)
        uuids = {name: f.mdev("a", address, "dlend-nvme") for name, address in lent.items()}
        with t.case("a guest with both"):
            with f.guest("a", "g", devices=[f.device(uuid) for uuid in uuids.values()]) as g:
                in_the_guest(t, f, c, g, lent)
        for name in "bc":
            t.equal(f.domain(lent[name]).get("mapped_bytes", 0), 0, f"{name} maps nothing for its device")
        c.host("c").expect(r"Event logged \[IO_PAGE_FAULT", "the runner stores to where nothing is")
        c.link("ac").command(f"poke b 4 {NOWHERE} 0badf00d")
        c.host("c").wait_for("dmesg | grep -q IO_PAGE_FAULT", 30)
        t.passed("AMD: what goes nowhere is a complaint, as with Intel's")
        with t.case("what was allowed"):
            a_peer_raises(t, c.host("a"), c.host("b"), c.link("ab"))


main()
