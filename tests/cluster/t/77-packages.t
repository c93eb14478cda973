#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The Debian packages on hosts with systemd: installed, set up by their files in /etc, booted, used, removed.

    host a (node 1, systemd): a guest ---- ab ---- host b (node 2, systemd): nvme0, nic

No module of the test bed's is on these hosts.  root/mkdeb had DKMS build those from the packages,
not on the hosts, as compiling takes half an hour there; for the same reason dlend-dkms itself is not installed here.
"""
import json
import os
import re
import subprocess
import sys
import uuid as uuids
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

# As an administrator has it: none of the bed's own folders.
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; "
PACKAGES = BUILD / "packages"
KIND = "dlend-nvme"


def series():
    """Of the kernel that hosts boot: one that packages are for."""
    kernel = os.environ.get("DLEND_KERNEL", "")
    if "debug" in Path(kernel).name:
        Tap.skip("the kernel of check-debug comes in no package")
    return "6.12" if "6.12" in kernel else "7.2"


def install(c, name):
    """In the background: dpkg, and what DKMS made; then the two files that an admin edits."""
    node = list(c.hosts).index(name) + 1
    devices = "class=0108\n" if name == "b" else ""
    return c.host(name).spawn(PATH + f"""set -e
        dpkg -i /share/packages/dlend_*_amd64.deb
        cp -r /share/packages/lib/modules/$(uname -r)/. /lib/modules/$(uname -r)/
        sed -i 's/^#options dlend_core node_id=.*/options dlend_core node_id={node}/' /etc/modprobe.d/dlend.conf
        cat >>/etc/dlend.conf
        sync""", input=devices or "\n")


def built(t):
    """In a tree with the headers of both kernels, where the packages were installed (root/mkdeb)."""
    log = (PACKAGES / "log").read_text(encoding="utf-8")
    t.equal(sorted(re.findall(r"^dlend/\S+, (\d+\.\d+)\S+, x86_64: installed$", log, re.M)), ["6.12", "7.2"],
            "installing dlend-dkms builds the modules for both kernels")
    t.equal(sorted(re.findall(r"^Installing /lib/modules/(\d+\.\d+)\S*/dlend_ntb\.ko", log, re.M)), ["6.12", "7.2"],
            "with dlend_ntb, as dlend-ntb-dkms had made NTB drivers for both")
    modules = re.findall(r"^filename: .*/(\w+)\.ko.*\n(signer:.*)?", log, re.M)
    t.ok({"ntb", "ntb_hw_amd", "dlend_ntb", "dlend_core"} <= {name for name, _ in modules} and all(signer for _, signer in modules),
         "and DKMS has signed each, for Secure Boot", str(modules))


def files(t, a, said):
    t.ok("no drivers for non-transparent bridges" in said and "dlend-ntb-dkms" in said,
         "installing says that this kernel has no NTB drivers, and what makes them", said)
    t.ok("dlend doctor" in said, "and where to go on", said)
    t.equal(a.run(PATH + "command -v dlend").out, "/usr/sbin/dlend\n", "the command is in the path")
    t.ok(a.run(PATH + "dlend --version").out.startswith("dlend"), "and runs")
    t.ok("--live" in a.run(PATH + "dlend migrate --help").out, "dlend migrate finds its modules")
    for page in ("man8/dlend.8", "man5/dlend.conf.5", "man8/dlend-build-ntb.8"):
        t.ok(a.run(f"zcat /usr/share/man/{page}.gz | head -40").out.count(".Nm"), f"manual page {page}")
    pages = a.run("cd /usr/share/doc/dlend && ls README.md docs/README.md docs/trouble.md", check=False)
    t.equal(pages.status, 0, "the pages that messages name", pages.out)
    done = a.run(PATH + "bash -c 'source /usr/share/bash-completion/completions/dlend; COMP_WORDS=(dlend l) COMP_CWORD=1; "
                 "_dlend; echo ${COMPREPLY[@]}'").out.split()
    t.ok({"lend", "list", "links"} <= set(done), "completion of the command", str(done))
    t.equal(a.run("stat -c %a /etc/libvirt/hooks/qemu.d/dlend /usr/lib/mdevctl/scripts.d/callouts/dlend").out.split(),
            ["755", "755"], "libvirt's hook and mdevctl's callout are where they are looked for")
    t.equal(a.run("echo '<domain/>' | /etc/libvirt/hooks/qemu.d/dlend vm prepare begin -", check=False).status, 0,
            "the hook agrees to any domain, as it is off")
    t.equal(a.run("systemctl is-enabled dlend-lend.service", check=False).out.strip(), "enabled", "the unit is enabled")


def booted(t, f, a, b):
    """Nothing was typed since the hosts booted."""
    f.wait_links("a")
    t.equal([h.run("cat /sys/module/dlend_core/parameters/node_id").out.strip() for h in (a, b)], ["1", "2"],
            "modules load at boot, with the ids of /etc/modprobe.d/dlend.conf")
    t.equal(a.run("modinfo -F version dlend_core").out.strip(), a.run(PATH + "dlend --version").out.split()[1], "of the command's version")
    t.equal(a.run("modinfo -F filename dlend_ntb ntb_hw_amd | cut -d/ -f5- | sed s/.xz$//").out.split(),
            ["updates/dkms/dlend_ntb.ko", "updates/dkms/ntb_hw_amd.ko"], "those of DKMS")
    state = b.run("systemctl show -p Result -p ActiveState --value dlend-lend.service").out.split()
    t.equal(sorted(state), ["active", "success"], "dlend-lend.service has run",
            b.run("journalctl -b -u dlend-lend.service --no-pager").out)
    address = f.address("b", "nvme0")
    f.wait_state("a", address, "free")
    offers = json.loads(a.run(PATH + "dlend list --json").out)["offers"]
    t.equal([(o["address"], o["type"]) for o in offers], [(address, KIND)],
            "what /etc/dlend.conf lists is lent, and nothing else")
    return address


def doctor(t, a):
    result = a.run(PATH + "dlend doctor", check=False)
    t.ok(result.status == 0 and "0 FAIL" in result.out, "dlend doctor finds nothing that is missing", result.out)


def defined(t, a, address):
    uuid = str(uuids.uuid4())
    result = a.run(PATH + f"mdevctl define -u {uuid} -p {address} --type {KIND} && "
                   f"mdevctl modify -u {uuid} --addattr clique --value 16", check=False)
    t.ok(result.status and "clique is a number" in result.out, "mdevctl finds the callout, which finds the command",
         result.out)
    a.run(PATH + f"mdevctl modify -u {uuid} --auto")
    return uuid


def starts_itself(t, f, a, b, address, uuid):
    """The offer goes and comes: udev's rule, systemd's unit, mdevctl."""
    b.run(PATH + "dlend reclaim 0000" + address[5:], timeout=60)
    a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ]", 20)
    b.run("systemctl restart dlend-lend.service", timeout=60)
    f.wait_state("a", address, "free")
    a.wait_for(f"[ -e /sys/bus/mdev/devices/{uuid} ]", 30)
    t.passed("a definition that is to start by itself does so when the device is lent again")
    with f.guest("a", "vm", devices=[f.device(uuid)]) as g:
        t.ok("DLEND-NVME-0" in g.run("cat /sys/class/nvme/nvme0/serial").out, "a guest uses the disk")
        g.run("dd if=/dev/nvme0n1 of=/dev/null bs=64k count=1 iflag=direct", timeout=120)
        g.shutdown()
    f.wait_state("a", address, "free")


def removed(t, a, uuid):
    said = a.run("echo 'set libvirt-hook=on' >>/etc/dlend.conf; " + PATH + "dpkg -r dlend", timeout=120).out
    t.ok("these devices stay in use until this host reboots" in said and f"for VMs here: {uuid}" in said,
         "removing says what becomes of a device that is in use", said)
    t.ok(a.run(f"[ -e /sys/bus/mdev/devices/{uuid} ]", check=False).status == 0, "and that is so")
    result = a.run("echo '<domain/>' | /etc/libvirt/hooks/qemu.d/dlend vm prepare begin -", check=False)
    t.ok(not result.status and "libvirt-mdevs is not there" in result.out,
         "removed: the hook stays, and agrees to any domain", result.out)
    a.run(PATH + "dpkg -P dlend", timeout=120)
    left = a.run("ls -d /usr/sbin/dlend* /usr/lib/dlend /etc/dlend.conf /etc/modprobe.d/dlend.conf /usr/share/doc/dlend "
                 "/usr/lib/modprobe.d/dlend* /etc/libvirt/hooks/qemu.d/dlend /usr/lib/mdevctl/scripts.d/callouts/dlend "
                 "/usr/lib/systemd/system/dlend* /etc/systemd/system/*/dlend-lend* 2>/dev/null", check=False).out
    t.equal(left, "", "purged: nothing is left")


def main():
    with Tap() as t:
        subprocess.run([HERE / "root/mkdeb", series()], check=True)
        with t.case("DKMS"):
            built(t)
        with Cluster("package-hosts.toml", modules=False, tap=t) as c:
            f = Fabric(c)
            a, b = c.host("a"), c.host("b")
            subprocess.run(["cp", "-r", PACKAGES, c.share / "packages"], check=True)
            jobs = [install(c, name) for name in c.hosts]
            said = [job.wait(180, check=True).out for job in jobs][0]
            with t.case("what the package puts there"):
                files(t, a, said)
            a.reset(wait=False)
            b.reset()
            a.wait_up(boots=2)
            with t.case("boot"):
                address = booted(t, f, a, b)
            with t.case("dlend doctor"):
                doctor(t, a)
            with t.case("mdevctl"):
                uuid = defined(t, a, address)
            with t.case("a device that is lent, and a guest"):
                starts_itself(t, f, a, b, address, uuid)
            with t.case("removal"):
                removed(t, a, uuid)
            t.equal(c.complaints(), [], "no kernel has a complaint")


main()
