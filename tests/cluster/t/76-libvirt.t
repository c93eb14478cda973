#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""libvirt's own daemon under systemd, with Debian's AppArmor: a domain whose disks another host lends.

    host a (node 1, systemd): libvirtd, the domain ---- ab ---- host b (node 2): nvme0, nvme1
"""
import re
import sys
import uuid as uuids
import xml.etree.ElementTree as ET
from pathlib import Path

HERE = Path(__file__).resolve().parent
NODEDEV = HERE.parents[1] / "tools/nodedev.xml"     # what tests/tools/names.t takes for libvirt's words
sys.path.insert(0, str(HERE.parent))
from attached import pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from domain import Domain, hostdev  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

KIND = "dlend-nvme"
SUM = "dd if=/dev/{} bs=64k count=4 iflag=direct 2>/dev/null | sha256sum"


def define(a, address):
    uuid = str(uuids.uuid4())
    a.run(f"mdevctl define -u {uuid} -p {address} --type {KIND}")
    return uuid


def active(a, uuid):
    return a.run(f"[ -e /sys/bus/mdev/devices/{uuid} ]", check=False).status == 0


def denials(a):
    """What AppArmor refused libvirt or its guests: other than it does without any device of ours."""
    return [line for line in a.run("dmesg | grep DENIED", check=False).out.splitlines() if "libvirt" in line]


def without_hook(t, a, vm, uuid):
    t.ok(uuid in vm.virsh(f"dumpxml {vm.name}").out, "virsh define takes the device of a definition")
    result = vm.virsh(f"start {vm.name}", check=False)
    t.ok(result.status and uuid in result.out, "the hook is off: the mdev is not there, and virsh start says so",
         result.out)
    t.ok(not active(a, uuid), "and nothing started it")
    a.run("echo 'set libvirt-hook=on' >>/etc/dlend.conf")


def starts(t, f, a, vm, disk, uuid):
    vm.start()
    t.ok(active(a, uuid), "virsh start, with the hook: it starts the mdev first")
    t.ok("DLEND-NVME-0" in vm.run("cat /sys/class/nvme/nvme0/serial").out, "the guest finds the disk")
    wrote = vm.run("dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null && "
                   "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null && sha256sum </tmp/data", timeout=240).out
    t.equal(vm.run(SUM.format("nvme0n1"), timeout=240).out, wrote, "and what it wrote is there")
    t.equal(f.lender_state(disk)[:2], ("held", "1"), "the lender says that host a has it")
    return wrote


def confined(t, a, vm):
    """As Debian ships it: own user, own AppArmor profile, devices by cgroup, locked memory by limit."""
    pid = a.run(f"cat /run/libvirt/qemu/{vm.name}.pid").out.strip()
    domain = vm.virsh(f"domuuid {vm.name}").out.strip()
    t.equal(a.run(f"cat /proc/{pid}/attr/current").out.rstrip("\0\n"), f"libvirt-{domain} (enforce)",
            "QEMU is confined by its AppArmor profile")
    t.equal(a.run(f"stat -c %U /proc/{pid}").out.strip(), "libvirt-qemu", "as a user of its own")
    limit = re.search(r"Max locked memory\s+(\d+)", a.run(f"cat /proc/{pid}/limits").out)
    t.ok(limit and int(limit.group(1)) >= vm.memory << 20, "libvirt has set its limit of locked memory",
         limit and limit.group(0))
    group = f"$(grep ^0:: /proc/{pid}/cgroup | cut -c 4- | sed 's,/libvirt/.*,/libvirt,')"
    for file, status in (("/dev/vfio/vfio", 0), ("/dev/vda", 1)):
        r = a.run(f"sh -c 'echo $$ >\"$0/cgroup.procs\" && exec 3<{file}' \"/sys/fs/cgroup{group}\"", check=False)
        t.ok(bool(r.status) == bool(status) and (not status or "not permitted" in r.out),
             f"whoever is in its cgroup, root too, {'cannot' if status else 'can'} open {file}", f"{r.status}: {r.out}")
    t.equal(denials(a), [], "and AppArmor had nothing to refuse")


def shown(t, f, a, vm, uuid):
    xml = vm.virsh(f"dumpxml {vm.name}").out
    t.ok(uuid in xml and "type='mdev'" in xml, "dumpxml shows the device")
    stats = vm.virsh(f"domstats {vm.name}").out
    t.ok("state.state=1" in stats and "balloon.current" in stats, "domstats tells what it does of any domain", stats)
    listed = vm.virsh("nodedev-list --cap mdev").out
    t.ok(uuid.replace("-", "_") in listed, "nodedev-list --cap mdev has the device", listed)
    info = vm.virsh(f"nodedev-dumpxml {listed.split()[0]}").out
    t.ok(f"<uuid>{uuid}</uuid>" in info and KIND in info, "nodedev-dumpxml has its type", info)
    address = f.address("b", "nvme0")
    group = a.run(f"basename $(readlink /sys/bus/mdev/devices/{uuid}/iommu_group)").out.strip()
    path = a.run(f"realpath /sys/bus/mdev/devices/{uuid}").out.strip()
    want = NODEDEV.read_text().format(name=re.sub(r"[^a-z0-9]", "_", f"{uuid}_{address}"), path=path, type=KIND, uuid=uuid,
                                      address=address, group=group)
    t.equal(*(ET.canonicalize(text, strip_text=True) for text in (info, want)), "and its parent by address only, as names.t has it")
    a.run("cat >/tmp/nodedev.xml", input="<device><parent>computer</parent><capability type='mdev'>"
          f"<type id='{KIND}'/><uuid>{uuids.uuid4()}</uuid></capability></device>")
    for verb in ("nodedev-define", "nodedev-create"):
        result = vm.virsh(f"{verb} /tmp/nodedev.xml", check=False)
        t.ok(result.status, f"{verb} cannot make one (docs/libvirt.md)", result.out)
    t.equal(len(vm.virsh("nodedev-list --cap mdev --inactive").out.split()), 1, "a definition is an inactive device")
    t.equal(vm.virsh("nodedev-list --cap mdev_types").out.split(), [], "offers are no node devices (docs/libvirt.md)")
    result = vm.virsh(f"save {vm.name} /var/lib/libvirt/images/saved", check=False)
    t.ok(result.status and vm.state() == "running", "what cannot be, saving it, is refused, and it runs on", result.out)


def bars(t, a, b, vm, disk):
    """The lender's kernel tells them as ranges; 0x200: memory, 0x2000: prefetchable, 0x100000: 64 bits."""
    want = []
    for index, line in enumerate(b.run(f"head -6 /sys/bus/pci/devices/{b.bdf('nvme0')}/resource").out.splitlines()):
        first, last, flags = (int(word, 16) for word in line.split())
        if flags & 0x200:
            want.append(f"{index} {last - first + 1}{' 64' if flags & 0x100000 else ''}{' prefetch' if flags & 0x2000 else ''}")
    found = [line for line in a.run(f"cat /sys/bus/dlend/devices/{disk}/bars").out.splitlines() if not line.startswith("6 ")]
    t.ok(want and found == want, "an offer has the sizes of its BARs", f"{found}, not {want}")
    printed = a.run(f"dlend libvirt-xml --mode root-port --reserve {vm.name}").out
    t.ok("<target memReserve='1024'/>" in printed, "so libvirt-xml reserves a window for them", printed)


def told(vm):
    """What virsh tells of a domain, but for what changes by itself: names of statistics, and the definition."""
    stats = {line.split("=")[0].strip() for line in vm.virsh(f"domstats {vm.name}").out.splitlines() if "=" in line}
    return stats, vm.virsh(f"dumpxml {vm.name}").out


def attach(t, f, a, vm, disk, uuid):
    a.run("cat >/tmp/other.xml", input=hostdev(uuid))
    result = vm.virsh(f"attach-device {vm.name} /tmp/other.xml --live", check=False)
    t.ok(result.status and uuid in result.out, "attach-device of an mdev that is not there is refused", result.out)
    a.run(f"mdevctl start -u {uuid}")
    vm.virsh(f"attach-device {vm.name} /tmp/other.xml --live")
    vm.wait_for("[ -b /dev/nvme1n1 ]", 90)
    t.ok("DLEND-NVME-1" in vm.run("cat /sys/class/nvme/nvme1/serial").out, "attach-device: the guest has another disk")
    t.equal(f.lender_state(disk)[:2], ("held", "1"), "which is borrowed now")
    vm.run("dd if=/dev/nvme1n1 of=/dev/null bs=64k count=1 iflag=direct", timeout=120)
    t.ok(uuid in told(vm)[1], "and dumpxml has it")


def detach(t, f, a, vm, disk, uuid):
    vm.virsh(f"detach-device {vm.name} /tmp/other.xml --live")
    a.wait_for(f"! virsh dumpxml {vm.name} | grep -q {uuid}", 60, every=1)
    t.equal(vm.run("ls /sys/class/nvme").out.split(), ["nvme0"], "detach-device: the guest has it no more")
    f.wait_state("a", disk, "free")
    t.equal(f.lender_state(disk)[0], "free", "and it is free")
    a.wait_for(f"mdevctl stop -u {uuid}", 20)
    t.ok(not active(a, uuid), "its mdev stops")
    size = vm.run("dd if=/dev/nvme0n1 bs=4k count=1 2>/dev/null | wc -c").out.strip()
    t.equal(size, "4096", "the first one is used on")
    t.equal(denials(a), [], "AppArmor had nothing to refuse")


def passed_through(t, f, a, vm, disk):
    """A device that the host has attached, as libvirt passes any PCI device to a domain."""
    here, driver = pci(disk), f"basename $(readlink /sys/bus/pci/devices/{pci(disk)}/driver)"
    f.dlend("a", f"attach {disk}", timeout=120)
    a.wait_for(f"[ $({driver}) = nvme ]", 60)
    name = "pci_" + here.replace(":", "_").replace(".", "_")
    a.wait_for(f"virsh -q nodedev-list --cap pci | grep -qx '{name} *'", 60)
    t.passed("an attached device is a node device")
    domain, bus, slot, function = here.replace(".", ":").split(":")
    a.run("cat >/tmp/pci.xml", input="<hostdev mode='subsystem' type='pci' managed='yes'><source>"
          f"<address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/></source></hostdev>")
    vm.virsh(f"attach-device {vm.name} /tmp/pci.xml --live")
    vm.wait_for("[ -b /dev/nvme1n1 ]", 90)
    t.ok("DLEND-NVME-1" in vm.run("cat /sys/class/nvme/nvme1/serial").out, "as a managed PCI device, the guest has it")
    t.equal(a.run(driver).out.strip(), "vfio-pci", "by the kernel's own vfio-pci")
    vm.run("dd if=/dev/nvme1n1 of=/dev/null bs=64k count=1 iflag=direct", timeout=120)
    vm.virsh(f"detach-device {vm.name} /tmp/pci.xml --live")
    a.wait_for(f"! virsh dumpxml {vm.name} | grep -q \"type='pci' managed\"", 60, every=1)
    a.wait_for(f"[ $({driver}) = nvme ]", 60)
    t.passed("given back, the host's own driver has it")
    f.dlend("a", f"detach {disk}", timeout=120)
    f.wait_state("a", disk, "free")
    t.equal(denials(a), [], "AppArmor had nothing to refuse")


def reboots(t, f, vm, disk, wrote):
    epoch = f.lender_state(disk)[2]
    for how, reboot in (("the guest reboots", vm.reboot), ("virsh reboot", vm.reboot_by_virsh)):
        reboot()
        t.equal(vm.run(SUM.format("nvme0n1"), timeout=240).out, wrote, f"{how}: it finds its data")
        t.equal(f.lender_state(disk)[2], epoch, "by the same lease")


def destroyed(t, f, a, vm, disk, uuid):
    vm.destroy()
    f.wait_state("a", disk, "free")
    t.equal(f.lender_state(disk)[0], "free", "virsh destroy: the device is free")
    a.wait_for(f"[ ! -e /sys/bus/mdev/devices/{uuid} ]", 20)
    t.passed("and the hook has stopped the mdev")


def not_to_be_had(t, f, b, vm):
    f.dlend("b", f"reclaim {b.bdf('nvme0')}", timeout=120)
    vm.host.wait_for(f"[ ! -e /sys/bus/dlend/devices/{f.address('b', 'nvme0')} ]", 20)
    result = vm.virsh(f"start {vm.name}", check=False)
    t.ok(result.status and "no node offers it" in result.out, "a device that is gone: virsh start says why", result.out)
    t.equal(vm.state(), "shut off", "the domain stays off")


def main():
    with Tap() as t, Cluster("libvirt-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        a.install()
        # libvirt looks for hooks when it starts
        restart = a.spawn("systemctl restart libvirtd && virsh -q list --all")
        f.up()
        a.load_modules("dlend_native")
        disks = [f.lend("b", "nvme0"), f.lend("b", "nvme1")]
        own, other = (define(a, disk) for disk in disks)
        restart.wait(120, check=True)
        vm = Domain("vm1", mdevs=[own], ports=1, modules=("nvme", "button", "evdev"), tools=("power",))
        vm.define(a)
        with t.case("without the hook"):
            without_hook(t, a, vm, own)
        with t.case("start"):
            wrote = starts(t, f, a, vm, disks[0], own)
        with t.case("confinement"):
            confined(t, a, vm)
        with t.case("what virsh shows"):
            shown(t, f, a, vm, own)
            bars(t, a, b, vm, disks[0])
        before = told(vm)
        with t.case("attach-device"):
            attach(t, f, a, vm, disks[1], other)
        with t.case("detach-device"):
            detach(t, f, a, vm, disks[1], other)
            t.equal(told(vm), before, "domstats and dumpxml say what they said before")
        with t.case("an attached device"):
            passed_through(t, f, a, vm, disks[1])
            t.equal(told(vm), before, "domstats and dumpxml say what they said before")
        with t.case("reboot"):
            reboots(t, f, vm, disks[0], wrote)
        with t.case("destroy"):
            destroyed(t, f, a, vm, disks[0], own)
        with t.case("a device that cannot be had"):
            not_to_be_had(t, f, b, vm)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
