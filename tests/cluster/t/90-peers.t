#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""GPUs and a network card of several hosts, for NCCL: the addresses that a guest really has.  And a disk that reads into the
memory of another one.

    host a (node 1) ---- ab ---- host b (node 2): gpu, nic; nvme0, a disk with 4 MiB of memory for others
           \\----- ac ---- host c (node 3): gpu; nvme0, the same ---- bc ---- host b
    host d, alone, without an IOMMU: a disk, and another one with such memory, two functions of one device
"""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from tree import arguments, placed  # noqa: E402  pylint: disable=wrong-import-position

LEAF = re.compile(r'<pci busid="([0-9a-f:.]+)" class="(0x0[23]\w+)"[^>]*/>')
DOMAIN = "<domain type='kvm'><name>vm</name><os><type machine='q35'>hvm</type></os><devices>{}</devices></domain>"


def in_a_vm(t, f, a, offers):
    """In one clique: the file has the addresses that the guest's kernel has."""
    uuids = [f.mdev("a", address, kind) for address, kind in offers]
    for uuid in uuids:
        a.run(f"echo 3 >/sys/bus/mdev/devices/{uuid}/clique")
    for mode in ("switch-port", "root-port"):
        text = placed(re.sub(r"<!--.*?-->", "", f.dlend("a", f"libvirt-xml --mode {mode} " + " ".join(uuids)).out))
        a.run(f"cat >/tmp/vm.xml <<'END'\n{DOMAIN.format(text)}\nEND")
        out = a.run("dlend topology --nccl --vm - </tmp/vm.xml").out
        leaves = dict(LEAF.findall(out))
        t.equal((len(leaves), out.count('busid="f000:03:00.0"'), out.count("<cpu ")), (3, 1, 1), f"{mode}: all of the clique are below one bridge", out)
        with f.guest("a", f"nccl-{mode}", devices=arguments(text), tools=("tools",)) as g:
            has = dict(re.findall(r"^(\S+) 0([23]\w+):", g.run("lspci -Dn").out, re.M))
            missing = {busid for busid, pci_class in leaves.items() if has.get(busid) != pci_class[3:7]}
            t.equal(missing, set(), f"  at the addresses that the guest has for them, in {mode}", f"{leaves} {has}")
            g.shutdown()
    for uuid in uuids:
        f.mdev_stop("a", uuid)


def natively(t, f, a, offers):
    for address, _ in offers:
        f.dlend("a", f"attach {address}", timeout=120)
    out = f.dlend("a", "topology --nccl").out
    leaves = dict(LEAF.findall(out))
    t.equal(sorted(leaves), sorted(pci(address) for address, _ in offers), "attached: at their addresses here", out)
    has = {busid: a.run(f"cat /sys/bus/pci/devices/{busid}/class").out.strip() for busid in leaves}
    t.equal(leaves, has, "  with their class")
    for address, _ in offers:
        f.dlend("a", f"detach --force {address}", timeout=120)


def bench(host, words, check=True):
    """One transfer of each size: a processor takes an emulated host very long to copy 1 MiB over a link."""
    return host.run(f"dlend bench --runs 2 --ios 1 {words} 2>/tmp/progress || {{ s=$?; cat /tmp/progress; exit $s; }}", check=check, timeout=1500)


def measured(t, host, disk, memory, serial):
    """All jobs; bartimes has compared what has arrived."""
    says = json.loads(bench(host, f"--json --write {serial} --p2p {disk} {memory}").out)
    sizes = [4096 << 2 * n for n in range(5)]
    t.equal([(job["job"], job["block_bytes"]) for job in says["jobs"]], [(way, size) for way in ("read", "write") for size in sizes],
            f"{host.name}: a disk reads into another one's memory, and writes from there, by size")
    for job in says["jobs"]:
        t.equal([sum(job[place]["distribution_ns"].values()) for place in ("ram", "direct")], [2, 2], f"  {job['job']}, {job['block_bytes']} bytes: all")


def own_devices(t, d):
    """Of a host without dlend's modules: what the command does besides is the same."""
    d.own_disks()
    disk, memory = d.bdf("nvme0"), d.bdf("nvme0", 1)
    if not d.run(f"ls -d /sys/bus/pci/devices/{memory}/p2pmem", check=False).out:
        kernel = "CONFIG_PCI_P2PDMA" if d.run("grep -cw pci_p2pdma_add_resource /proc/kallsyms", check=False).out.strip() == "0" else "p2pmem"
        r = bench(d, f"--p2p {disk} {memory}", check=False)
        t.ok(r.status in (2, 6) and kernel in r.out, "a kernel without memory of devices: told", f"{r.status} {r.out}")
        return
    measured(t, d, disk, memory, "DLEND-D-NVME-0")
    name = d.run(f"basename $(ls -d /sys/bus/pci/devices/{disk}/nvme/nvme*/nvme*n1)").out.strip().replace("c0", "")
    d.run(f"mkfs.ext4 -q -F -O ^has_journal /dev/{name} && mount /dev/{name} /mnt")
    r = bench(d, f"--p2p {disk} {memory}", check=False)
    t.ok(r.status == 4 and "is in use: it is mounted" in r.out, "a mounted disk: told", f"{r.status} {r.out}")
    d.run(f"umount /mnt && wipefs -q --all /dev/{name}")
    r = bench(d, f"--p2p {disk} {d.port('nvme0').bdf}", check=False)
    t.ok(r.status == 2 and "has no memory for other devices" in r.out, "a device without memory: told", f"{r.status} {r.out}")


def attached_disks(t, f, a, near, far):
    for address in (near, far):
        f.dlend("a", f"attach {address}", timeout=120)
    a.own_disks()
    r = bench(a, f"--p2p {pci(near)} {pci(far)}", check=False)
    t.ok(r.status in (1, 2, 6) and ("does not reach" in r.out or "memory" in r.out) and "Traceback" not in r.out, "attached disks do not reach each other: told",
         f"{r.status} {r.out}")
    for address in (near, far):
        f.dlend("a", f"detach {address}", timeout=120)


def main():
    with Tap() as t, Cluster("peers.toml", tap=t) as c:
        f = Fabric(c)
        a, d = c.host("a"), c.host("d")
        for host in (a, d):
            host.install()
        with t.case("a host's own disks"):
            own_devices(t, d)
        f.up("a", "b", "c", timeout=150)
        a.load_modules("dlend_native")
        for name in "bc":
            c.host(name).own_disks()
        gpu, nic, far = f.lend("b", "gpu"), f.lend("b", "nic"), f.lend("c", "gpu")
        offers = ((gpu, "dlend-gpu"), (nic, "dlend-nic"), (far, "dlend-gpu"))
        with t.case("NCCL in a VM"):
            in_a_vm(t, f, a, offers)
        with t.case("NCCL natively"):
            natively(t, f, a, offers)
        with t.case("attached disks"):
            attached_disks(t, f, a, f.lend("b", "nvme0"), f.lend("c", "nvme0"))
        for host in c.hosts.values():
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
