#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A day of the administrator's: packages on three hosts, six devices lent, four VMs, an update, a reboot, a device
replaced, a VM moved, and all of it removed.

    host a (node 1): vm1, vm2, igb attached       each host is joined to each, has libvirt, and may run any VM
    host b (node 2): vm4; lends nvme0, igb
    host c (node 3): vm3; lends nvme0, nvme1, nvme2, nic

What the administrator types is looked up in the docs (documented.py): a command that no page has fails the scenario, and
so does one of docs/operations.md that was not typed.  What the scenario only looks at, it looks at by its own means.

The bed gives each host the packages, what its guests boot from, and in place of DKMS what DKMS made of these packages
elsewhere (root/mkdeb), as compiling takes half an hour on a host.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
import virt  # noqa: E402  pylint: disable=wrong-import-position
from attached import bound, pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from documented import Documented, pages  # noqa: E402  pylint: disable=wrong-import-position
from domain import Domain, hostdev  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

OLD = re.search(r'DLEND_VERSION\s+"(.*)"', (HERE.parents[1] / "include/dlend/version.h").read_text(encoding="utf-8")).group(1)
NEW = f"{OLD}.1"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; cd /root; "
DEBS = "./build/deb/dlend_*.deb ./build/deb/dlend-dkms_*.deb ./build/deb/dlend-ntb-dkms_*.deb"
SUM = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | sha256sum"
# Hosts here are slow, so a peer that says nothing for 2 s is none that is gone (fabric.py).
SETTINGS = "options dlend_core heartbeat_timeout_ms=10000\n"
# The package dkms, as far as those of dlend call it: "build" is to copy what DKMS has built
DKMS = r"""set -e
cd /tmp && mkdir -p dkms/DEBIAN dkms/usr/sbin dkms/usr/lib/dkms
cat >dkms/DEBIAN/control <<'END'
Package: dkms
Version: 3.9
Architecture: all
Provides: xz-utils
Maintainer: nobody <nobody@localhost>
Description: what DKMS does, as the test bed does it
END
cat >dkms/usr/lib/dkms/common.postinst <<'END'
#!/bin/sh
cp -r "/share/packages-$2/lib/modules/$(uname -r)/." "/lib/modules/$(uname -r)/"
END
cat >dkms/usr/sbin/dkms <<'END'
#!/bin/sh
case $1 in
status) echo installed ;;
remove) rm -rf "/lib/modules/$(uname -r)/updates/dkms" ;;
esac
END
chmod 755 dkms/usr/lib/dkms/common.postinst dkms/usr/sbin/dkms
dpkg-deb --build dkms dkms.deb && dpkg -i dkms.deb"""


def series():
    """Of the kernel that hosts boot: one that packages are for."""
    kernel = os.environ.get("DLEND_KERNEL", "")
    if "debug" in Path(kernel).name:
        Tap.skip("the kernel of check-debug comes in no package")
    return "6.12" if "6.12" in kernel else "7.2"


def prepare(c):
    """Of the bed.  libvirtd's first call makes it ask QEMU what it can, which takes long."""
    shutil.copytree(BUILD / "packages", c.share / f"packages-{OLD}")
    shutil.copytree(BUILD / f"packages-{NEW}", c.share / f"packages-{NEW}")
    calls = []
    for host in c.hosts.values():
        host.run(DKMS)
        host.run("cat >/etc/modprobe.d/bed.conf", input=SETTINGS)
        calls.append(host.spawn("virsh -q list --all"))
    for call in calls:
        call.wait(300, check=True)


class Day:
    def __init__(self, t, c):
        self.t, self.c = t, c
        self.f = Fabric(c)
        self.docs = Documented(pages())
        self.vms = {}
        self.uuids = {}     # of each VM
        self.sums = {}      # what is on its disk
        names = (("b", "nvme0"), ("b", "igb"), ("c", "nvme0"), ("c", "nvme1"), ("c", "nvme2"), ("c", "nic"))
        self.lent = {(host, port): self.f.address(host, port) for host, port in names}

    def host(self, name):
        return self.c.host(name)

    def known(self, command):
        if not self.docs.find(command):
            raise RuntimeError(f"no page of the docs has the command: {command}")
        return command

    def types(self, name, command, timeout=300):
        """What the host answers to a command from the docs."""
        return self.host(name).run(PATH + self.known(command), timeout=timeout).out

    def bdf(self, host, port):
        """As an administrator writes it."""
        return self.lent[host, port].split(":", 1)[1]

    def holder(self, host, port):
        state, borrower, _ = self.f.lender_state(self.lent[host, port])
        return borrower if state == "held" else state

    def give_packages(self, version):
        """The bed does."""
        for host in self.c.hosts.values():
            host.run(f"rm -rf /root/build/deb && mkdir -p /root/build/deb && cp /share/packages-{version}/*.deb /root/build/deb/")

    def all_type(self, command, answer=None):
        """On all hosts at once; what each says."""
        jobs = {name: host.spawn(PATH + self.known(command), input=answer) for name, host in self.c.hosts.items()}
        return {name: job.wait(600, check=True).out for name, job in jobs.items()}

    def shut_down(self, name):
        vm = self.vms[name]
        vm.heed_power_button()
        self.types(vm.host.name, f"virsh shutdown {name}")
        vm.wait_off(120)

    def start(self, name):
        vm = self.vms[name]
        self.types(vm.host.name, f"virsh start {name}")
        vm.meet(vm.host)

    def finds_its_data(self, name, how):
        self.t.equal(self.vms[name].run(SUM, timeout=240).out, self.sums[name], f"{how}: {name} finds what it wrote")

    def write(self, name):
        self.vms[name].run("dd if=/dev/urandom of=/dev/nvme0n1 bs=64k count=1 oflag=direct 2>/dev/null", timeout=240)
        self.sums[name] = self.vms[name].run(SUM, timeout=240).out


def installs(d):
    d.give_packages(OLD)
    said = d.all_type(f"apt install {DEBS}")
    d.t.ok(all("dlend doctor" in text for text in said.values()), "apt installs the packages on three hosts, and says how to go on",
           said["a"])
    for node, name in enumerate(d.c.hosts, 1):
        d.types(name, f"sed -i 's/^#options dlend_core node_id=.*/options dlend_core node_id={node}/' /etc/modprobe.d/dlend.conf")
        d.types(name, "modprobe ntb_hw_amd")
        d.types(name, "modprobe -a dlend_ntb dlend_mdev dlend_native")
    for name in d.c.hosts:
        d.f.wait_links(name)
        said = d.types(name, "dlend links")
        d.t.ok(len(re.findall(r"\bup\b", said)) >= 2, f"host {name}: dlend links shows two that are up", said)
    said = d.types("a", "dlend doctor")
    d.t.ok("0 FAIL" in said, "dlend doctor finds nothing that is missing", said)


def lends(d):
    for host, port in d.lent:
        d.types(host, f"echo {d.bdf(host, port)} >>/etc/dlend.conf")
    for host in "bc":
        d.types(host, "dlend lend --all")
    for address in d.lent.values():
        d.f.wait_state("a", address, "free")
    said = d.types("a", "dlend list")
    d.t.ok(all(address in said for address in d.lent.values()), "six devices are lent, and dlend list shows them", said)


def defines(d):
    """vm1 to vm3 by the names of devices; vm4 by a type."""
    use = {"vm1": ("a", [("c", "nvme0", "nvme"), ("c", "nic", "nic")]), "vm2": ("a", [("c", "nvme1", "nvme")]),
           "vm3": ("c", [("b", "nvme0", "nvme")])}
    for name in d.c.hosts:
        d.types(name, "echo 'set libvirt-hook=on' >>/etc/dlend.conf")
    d.all_type("systemctl restart libvirtd")
    for vm, (host, devices) in use.items():
        d.uuids[vm] = []
        for owner, port, kind in devices:
            uuid = d.types(host, "uuidgen").strip()
            d.types(host, f"mdevctl define -u {uuid} -p {d.lent[owner, port]} --type dlend-{kind}")
            d.uuids[vm].append(uuid)
        define(d, host, vm, d.uuids[vm])
    printed = d.types("b", "dlend libvirt-xml --any dlend-nvme")
    metadata = re.search("<metadata>.*</metadata>", printed, re.S).group(0)
    define(d, "b", "vm4", [re.search(r"<address uuid='([^']*)'", printed).group(1)], metadata)


def define(d, host, name, uuids, metadata=""):
    """The file is written with an editor."""
    vm = d.vms[name] = Domain(name, mdevs=uuids, modules=("nvme", "e1000e", "button", "evdev"), tools=("power",))
    vm.host = d.host(host)
    vm.put(vm.host)
    vm.host.run(f"cat >/root/{name}.xml", input=vm.xml().replace("<devices>", f"{metadata}<devices>", 1))
    d.types(host, f"virsh define {name}.xml")


def used(d):
    """All six."""
    for name, vm in d.vms.items():
        d.start(name)
        vm.wait_for("[ -b /dev/nvme0n1 ]", 150)
        d.write(name)
    d.vms["vm1"].wait_for("[ -e /sys/class/net/eth0 ]", 60)
    d.types("a", f"dlend attach {d.lent['b', 'igb']}")
    bound(d.host("a"), pci(d.lent["b", "igb"]), "igb")
    d.t.equal({key: d.holder(*key) for key in d.lent}, {("b", "nvme0"): "3", ("b", "igb"): "1", ("c", "nvme0"): "1", ("c", "nvme1"): "1",
              ("c", "nvme2"): "2", ("c", "nic"): "1"}, "four VMs and a host use them all; vm4 has the disk that was free")
    said = d.types("c", "dlend status")
    d.t.ok(all(d.lent[key] in said for key in d.lent if key[0] == "c"), "dlend status on a lender shows its devices", said)


def updates(d):
    epochs = [d.f.lender_state(address)[2] for address in d.lent.values()]
    d.give_packages(NEW)
    said = d.all_type(f"apt install {DEBS}")
    d.t.ok(all(uuid in said["a"] for uuid in d.uuids["vm1"] + d.uuids["vm2"]) and d.lent["b", "igb"] in said["a"] and
           "are in use, and stay so" in said["a"], "an update says which devices are in use here, and that it goes on", said["a"])
    d.t.ok(all(d.bdf(*key) in said[key[0]] for key in d.lent), "and which are lent", said["b"] + said["c"])
    for name in d.c.hosts:
        d.t.equal([d.types(name, "modinfo -F version dlend_core").strip(), d.types(name, "cat /sys/module/dlend_core/version").strip(),
                   d.host(name).run(PATH + "dlend --version").out.split()[1]], [NEW, OLD, NEW],
                  f"host {name}: command and modules are new, the old modules are loaded")
    d.t.equal([d.f.lender_state(address)[2] for address in d.lent.values()], epochs, "each device has the borrower that it had")
    for name in d.vms:
        d.finds_its_data(name, "updated")


def reboots(d):
    """Host b: vm4 is there, vm3 has its disk, and host a its card."""
    d.shut_down("vm4")
    d.shut_down("vm3")
    d.types("a", f"dlend detach {d.lent['b', 'igb']}")
    for key in (("b", "nvme0"), ("b", "igb")):
        d.f.wait_state("a", d.lent[key], "free")
    d.host("b").reboot(PATH + d.known("reboot"))
    for name in d.c.hosts:
        d.f.wait_links(name)
    for name in "ac":
        d.f.wait_state(name, d.lent["b", "nvme0"], "free")
        d.f.wait_state(name, d.lent["b", "igb"], "free")
    d.t.passed("host b reboots: it lends again what /etc/dlend.conf lists")
    d.t.equal(d.types("b", "cat /sys/module/dlend_core/version").strip(), NEW, "with the new modules; the other hosts have the old ones")
    d.types("a", f"dlend attach {d.lent['b', 'igb']}")
    bound(d.host("a"), pci(d.lent["b", "igb"]), "igb")
    for name in ("vm3", "vm4"):
        d.start(name)
        d.finds_its_data(name, "host b is back")
    for name in ("vm1", "vm2"):
        d.finds_its_data(name, "it ran all the time")


def replaces(d):
    """The disk of vm2, which runs on."""
    a, c, vm, (uuid,) = d.host("a"), d.host("c"), d.vms["vm2"], d.uuids["vm2"]
    a.run("cat >/root/device.xml", input=hostdev(uuid))
    d.types("a", "virsh detach-device vm2 device.xml --live")
    d.types("a", f"mdevctl stop -u {uuid}")
    d.t.equal(vm.run("ls /dev/nvme* 2>/dev/null", check=False).out, "", "vm2 runs on without its disk")
    bdf = c.bdf("nvme1")
    d.types("c", f"dlend reclaim {d.bdf('c', 'nvme1')}")
    c.qmp("device_del", id="nvme1")
    c.wait_event("DEVICE_DELETED", 60, lambda data: data.get("device") == "nvme1")
    c.wait_for(f"[ ! -e /sys/bus/pci/devices/{bdf} ]", 60)
    c.qmp("device_add", driver="nvme", id="nvme1", bus="port-nvme1", serial="DLEND-NEW", drive="spare", dbcs=False)
    c.wait_for(f"grep -qs DLEND-NEW /sys/bus/pci/devices/{bdf}/nvme/nvme*/serial", 60)
    d.types("c", f"dlend lend {d.bdf('c', 'nvme1')}")
    d.f.wait_state("a", d.lent["c", "nvme1"], "free")
    d.types("a", f"mdevctl start -u {uuid}")
    d.types("a", "virsh attach-device vm2 device.xml --live")
    vm.wait_for("[ -b /dev/nvme0n1 ]", 150)
    d.t.ok("DLEND-NEW" in vm.run("cat /sys/class/nvme/nvme*/serial").out, "vm2 has the new disk, by the old definition")
    d.write("vm2")


def moves(d):
    vm = d.vms["vm1"]
    vm.put(d.host("b"))
    d.types("a", "dlend migrate --dry-run vm1 b")
    vm.heed_power_button()
    said = d.types("a", "dlend migrate vm1 b")
    d.t.ok("vm1 runs on b now" in said, "dlend migrate moves vm1 from host a, which has the old modules, to b, which has the new ones", said)
    vm.meet(d.host("b"))
    vm.wait_for("[ -b /dev/nvme0n1 ] && [ -e /sys/class/net/eth0 ]", 150)
    d.finds_its_data("vm1", "moved")
    d.t.equal([d.holder("c", port) for port in ("nvme0", "nic")], ["2", "2"], "host b has its devices")


def removes(d):
    for name, vm in d.vms.items():
        d.shut_down(name)
        d.types(vm.host.name, f"virsh undefine {name}")
        for uuid in d.uuids.get(name, ()):
            if not vm.host.run(f"[ -e /sys/bus/mdev/devices/{uuid} ]", check=False).status:
                d.types(vm.host.name, f"mdevctl stop -u {uuid}")
            d.types(vm.host.name, f"mdevctl undefine -u {uuid}")
    d.types("a", f"dlend detach {d.lent['b', 'igb']}")
    for (host, port), address in d.lent.items():
        d.f.wait_state("a", address, "free")
        d.types(host, f"dlend reclaim {d.bdf(host, port)}")
        bound(d.host(host), d.host(host).bdf(port), {"igb": "igb", "nic": "e1000e"}.get(port, "nvme"))
    d.t.passed("each device is back with its own driver")
    d.all_type("modprobe -r dlend_mdev dlend_native dlend_lender dlend_borrower dlend_ntb dlend_core")
    d.all_type("apt purge dlend dlend-dkms dlend-ntb-dkms", "y\n")
    for name, host in d.c.hosts.items():
        left = host.run("grep -h ^dlend_ /proc/modules; ls -d /usr/sbin/dlend* /usr/lib/dlend /etc/dlend* /etc/modprobe.d/dlend* /usr/share/doc/dlend* "
                        "/usr/src/dlend* /lib/modules/*/updates/dkms/* /usr/lib/modprobe.d/dlend* /etc/libvirt/hooks/qemu.d/dlend "
                        "/usr/lib/systemd/system/dlend* /etc/systemd/system/*/dlend* 2>/dev/null; "
                        "dpkg-query -W 'dlend*' 2>/dev/null", check=False).out
        d.t.equal(virt.left(host) + left.split(), [], f"nothing is left on host {name}")


def main():
    with Tap() as t:
        for version in ((), (NEW,)):
            subprocess.run([HERE / "root/mkdeb", series(), *version], check=True)
        with Cluster("day-hosts.toml", modules=False, tap=t) as c:
            prepare(c)
            d = Day(t, c)
            # Each goes on where the one before it has ended
            for part in (installs, lends, defines, used, updates, reboots, replaces, moves, removes):
                part(d)
            t.equal(d.docs.untyped("docs/operations.md"), [], "each command of docs/operations.md was typed")


main()
