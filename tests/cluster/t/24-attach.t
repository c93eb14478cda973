#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A host uses a device of another one with its own drivers, without a VM: dlend attach.

    host a (node 1): its own nvme and e1000e drivers, and vfio-pci ------ ab ------ host b (node 2): nvme0, pair
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import as_at_home, attach, detach, messages, node_of, pci, portrait, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position
from wire import PATIENCE  # noqa: E402  pylint: disable=wrong-import-position


def refused(t, f, words, code, *parts):
    r = f.dlend("a", words, check=False, timeout=120)
    t.ok(r.status == code and all(part in r.out for part in parts), f"{words.split()[0]}: {parts[-1]}", f"{r.status}: {r.out}")


def disk(t, f, a, b, address, home):
    attach(t, f, address, "nvme")
    node = node_of(a, address)
    as_at_home(t, "NVMe", home, portrait(a, pci(address)))
    t.ok("DLEND-NVME-0" in a.run(f"cat /sys/bus/pci/devices/{pci(address)}/nvme/*/serial").out, "the driver finds the disk")
    kinds = set(re.findall(r"\s(\S+)\s+\S+\s+nvme", a.run("grep nvme /proc/interrupts").out))
    t.ok(kinds and all("PCI-MSIX" in kind for kind in kinds), "its interrupts are MSI-X", str(kinds))
    group = a.run(f"cd /sys/bus/pci/devices/{pci(address)}/iommu_group && cat type && ls devices").out.split()
    t.equal(group, ["DMA", pci(address)], "it is alone in an IOMMU group of its own, translated strictly")
    before = messages(a)
    a.run(verified(node, offset="0"), timeout=300)
    t.passed("fio --verify")
    t.equal(messages(a), before, "during it: no message to the lender")
    # Not more at once than the emulated window carries within a heartbeat (README.md)
    a.run(f"mkfs.ext4 -q -F -O ^has_journal -N 64 {node} 8m && mkdir -p /mnt/lent && mount {node} /mnt/lent && "
          "dd if=/dev/urandom of=/mnt/lent/data bs=16k count=16 oflag=direct 2>/dev/null && sync", timeout=120)
    sums = a.run("sha256sum </mnt/lent/data").out
    refused(t, f, f"detach {address}", 4, "is in use", "is mounted on /mnt/lent")
    a.run("umount /mnt/lent")
    detach(t, f, address)
    attach(t, f, address, "nvme")
    node = node_of(a, address)
    t.equal(a.run(f"mount {node} /mnt/lent && sha256sum </mnt/lent/data && umount /mnt/lent").out, sums,
            "attached again: the file is there")


def fewer(t, f, a, b, address):
    """Its lender has not so many interrupts left."""
    limit = f"/sys/kernel/debug/dlend/lender/0000{address[5:]}/max_vectors"
    b.run(f"echo 2 >{limit}")
    attach(t, f, address, "nvme")
    node = node_of(a, address)
    kinds = re.findall(r"\s(\S+)\s+\S+\s+nvme", a.run("grep nvme /proc/interrupts").out)
    t.ok(len(kinds) == 2 and all("PCI-MSIX" in kind for kind in kinds), "a lender with two interrupts left: the driver gets these", str(kinds))
    a.run(verified(node, "64k", offset="0"), timeout=300)
    t.passed("  and works with them")
    b.run(f"echo 4 >{limit}")
    vfio_pci(a, address)
    out = a.run(f"/share/registers pci {pci(address)} vectors 8", timeout=60).out
    t.equal(re.findall(r"^vectors (\d+: -?\d+)$", out, re.M), ["8: 4", "4: 0"], "  vfio-pci says how many there are, and these work")
    detach(t, f, address)
    b.run(f"echo 0 >{limit}")


def removed(t, f, a, address):
    """As an admin would unplug any device."""
    a.run(f"echo 1 >/sys/bus/pci/devices/{pci(address)}/remove", timeout=60)
    f.wait_state("a", address, "free")
    t.equal(a.run(f"cat /sys/bus/dlend/devices/{address}/attached").out.strip(), "no", '"remove" returns the device')


def held(t, f, a, address):
    uuid = f.mdev("a", address, "dlend-nvme")
    refused(t, f, f"attach {address}", 4, "is in use", f"as mediated device {uuid}")
    r = a.run(f"echo 1 >/sys/bus/dlend/devices/{address}/attached", check=False)
    t.ok(r.status and uuid in a.run(f"cat /sys/bus/dlend/devices/{address}/attach_error").out, "the kernel says the same")
    f.mdev_stop("a", uuid)
    attach(t, f, address, "nvme")
    r = a.run(f"mdevctl start -u {uuid} -p {address} --type dlend-nvme", check=False)
    t.ok(r.status, "and the other way round", r.out)
    detach(t, f, address)


def cycles(t, f, a, address):
    """Under load, that is: each detach takes it from a program that reads it."""
    for _ in range(5):
        f.dlend("a", f"attach {address}", timeout=120)
        node = node_of(a, address)
        job = a.spawn(f"dd if={node} of=/dev/null bs=64k iflag=direct 2>/dev/null")
        a.wait_for(f"[ $(awk '{{ print $1 }}' /sys/block/{node[5:]}/stat) -gt 20 ]", 60)
        f.dlend("a", f"detach --force {address}", timeout=120)
        job.wait(60, check=False)
        f.wait_state("a", address, "free")
    t.passed("attached and taken away under load, again and again")


def pair(t, f, a):
    """Two functions of one IOMMU group: both, or none."""
    f.dlend("b", f"lend --group {f.host('b').bdf('pair')}", timeout=120)
    both = [f.address("b", "pair", n) for n in (0, 1)]
    for address in both:
        f.wait_state("a", address, "free")
    f.dlend("a", f"attach {both[0]}", timeout=120)
    t.equal([a.run(f"cat /sys/bus/dlend/devices/{n}/attached").out.strip() for n in both], [pci(n) for n in both], "both are attached")
    groups = {a.run(f"readlink /sys/bus/pci/devices/{pci(n)}/iommu_group").out for n in both}
    t.equal(len(groups), 1, "in one IOMMU group, as on their lender")
    f.dlend("a", f"detach {pci(both[1])}", timeout=120)
    for address in both:
        f.wait_state("a", address, "free")
    t.passed("and both are back")


def by_vfio(t, f, a, address):
    """The kernel's own vfio-pci has it, for a program that is its own VMM: memory, interrupts, resets."""
    attach(t, f, address, "nvme")
    vfio_pci(a, address)
    out = a.run(f"/share/registers pci {pci(address)} dump", timeout=120).out
    t.ok(re.search("^flr bar0 (?!ffffffff)", out, re.M) and re.search("^reset bar0 (?!ffffffff)", out, re.M),
         "its registers are reached, also after a reset", out)
    out = a.run(f"/share/registers pci {pci(address)} vectors 8", timeout=60).out
    t.ok(re.search(r"^vectors 8: 0$", out, re.M), "it has MSI-X vectors", out)
    again = 400 // PATIENCE     # the debug kernel takes a second each
    out = a.run(f"/share/userdisk {pci(address)} 20 {again}", timeout=300).out
    found = re.search(r"^ok 20 bytes (\d+) interrupts (\d+) ", out, re.M)
    t.ok(found and int(found.group(2)) >= 40, f"a program with a driver of its own moves data, with interrupts that it took {again} times", out)
    out = a.run(f"/share/hotadd {pci(address)} 20 slots", timeout=300).out
    found = re.search(r"^ok 20 lost (\d+) ", out, re.M)
    t.ok(found and found.group(1) == "0", "memory that is plugged in is in its reach before the VM has it", out)
    t.diag(out.strip())
    detach(t, f, address)


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        for program in ("registers", "hotadd", "userdisk"):
            shutil.copy(BUILD / "guest" / program, c.run_dir / "share" / program)
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        a.run("modprobe nvme; modprobe ext4")
        refused(t, f, "attach d0002:01:00.0", 3, "is not there", "no node offers it")
        home = portrait(b, b.bdf("nvme0"))
        address = f.lend("b", "nvme0")
        refused(t, f, f"attach {address}", 6, "cannot be attached", "dlend_native is not loaded")
        a.load_modules("dlend_native")
        refused(t, f, f"detach {address}", 3, "is not attached here")
        with t.case("a disk"):
            disk(t, f, a, b, address, home)
        with t.case("removed"):
            removed(t, f, a, address)
        with t.case("few interrupts"):
            fewer(t, f, a, b, address)
        with t.case("held by a mediated device"):
            held(t, f, a, address)
        with t.case("again and again"):
            cycles(t, f, a, address)
        with t.case("a group"):
            pair(t, f, a)
        with t.case("vfio-pci"):
            by_vfio(t, f, a, address)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
