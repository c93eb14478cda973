#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend borrow and return on a fake host: which device is chosen, and who is refused, and why; and libvirt's hook, which
has devices chosen for domains that name a type.

    node 1 sees GPUs of nodes 2 and 3, and a disk; mdevctl is a fake that makes one mediated device of each, as the kernel does
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import DLEND, TOP, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

G1, G2, G3, DISK = "d0002:01:00.0", "d0002:02:00.0", "d0003:01:00.0", "d0003:3b:00.0"
GPUS = (G1, G2, G3)
UUID = "11111111-0000-4000-8000-00000000000a"
OTHER = "22222222-0000-4000-8000-000000000002"
MDEVCTL = """#!/bin/sh
root=${MDEVCTL_ENV_ROOT:-$DLEND_HOOK_ROOT}
echo "$*" >>$root/calls
echo "mdevctl $1: done"
mdev=$root/sys/bus/mdev/devices/$3
case $1 in
start)
	[ "$5" ] || set -- $1 $2 $3 -p $(basename $(dirname $root/etc/mdevctl.d/*/$3)) --type dlend-gpu
	parent=$root/sys/devices/dlend/$5
	[ ! -e $root/faster-$5 ] || mkdir -p $parent/one
	mkdir $parent/one && mkdir -p $parent/$3/dlend || left=none
	echo 0 >$parent/mdev_supported_types/$7/available_instances
	[ -z "$left" ] && [ ! -e $root/broken-$5 ] || exit 1
	echo bme >$parent/$3/prepin
	cat $root/state-$5 >$parent/$3/dlend/state || echo idle >$parent/$3/dlend/state
	ln -s $parent/$3 $mdev ;;
stop)
	[ ! -e $root/stuck ] || exit 1
	parent=$(realpath $mdev/..)
	rm -r $parent/$3 $mdev $parent/one
	echo 1 >$(echo $parent/mdev_supported_types/*/available_instances) ;;
esac 2>/dev/null
"""


class Host(Fake):
    def __init__(self, node="1"):
        super().__init__(node)
        self.put("bus/mdev/devices")
        self.file("mdevctl", MDEVCTL, self.root / "bin")
        (self.root / "bin/mdevctl").chmod(0o755)
        (self.root / "bin/dlend").symlink_to(Path(DLEND).resolve())
        self.path = os.environ["PATH"]
        os.environ["PATH"] = f"{self.root}/bin:{self.path}"
        for address in GPUS:
            self.gpu(address)
        self.gpu(DISK, type="dlend-nvme")

    def __exit__(self, *error):
        os.environ["PATH"] = self.path
        super().__exit__(*error)

    def gpu(self, address, **attributes):
        attributes = {"type": "dlend-gpu", "lender": address[4], **attributes}
        dev = self.offer(address, **attributes)
        self.files(dev / "mdev_supported_types" / attributes["type"], available_instances="1")

    def change(self, address, left="1", **attributes):
        """left: how many mediated devices can be made of it"""
        dev = self.sys / "devices/dlend" / address
        self.files(dev, **attributes)
        self.files(dev / "mdev_supported_types/dlend-gpu", available_instances=left)

    def mdevs(self):
        """{UUID: the device that it was made of}"""
        return {p.name: p.resolve().parent.name for p in (self.sys / "bus/mdev/devices").iterdir()}

    def mark(self, name, text=""):
        path = self.root / name
        self.file(path.name, text, path.parent)

    def hook(self, operation, step, xml, domain="vm1"):
        """libvirt's hook, turned on"""
        self.mark("etc/dlend.conf", "set libvirt-hook=on\n")
        for name, target in (("lib/dlend/libvirt-mdevs", TOP / "dist/libvirt-mdevs"), ("bin/python3", sys.executable)):
            path = self.root / "usr" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.symlink_to(target)
        return subprocess.run([TOP / "dist/libvirt-hook", domain, operation, step, "-"], input=xml, capture_output=True, text=True,
                              env={**os.environ, "DLEND_HOOK_ROOT": str(self.root)}, check=False, timeout=60)

    def calls(self):
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []


def named(t):
    with Host() as f:
        r = f.run(f"borrow --uuid {UUID.upper()} {G2}")
        t.equal((r.code, f.mdevs()), (0, {UUID: G2}), "a device that is named", r.err)
        t.equal(r.out, f"{G2} is borrowed as {UUID}. For QEMU:\n  -device vfio-pci,sysfsdev=/sys/bus/mdev/devices/{UUID}\n", "  what QEMU is told")
        t.equal((f.sys / "bus/mdev/devices" / UUID / "prepin").read_text(), "open\n", "  its lender gives it when QEMU opens it, not later")
        t.equal(f.calls(), [f"start -u {UUID} -p {G2} --type dlend-gpu"], "  mdevctl made it, and defined nothing")
        r = f.run(f"borrow --uuid {UUID} {G1}")
        t.ok(r.code == 4 and f"a mediated device of {G2}" in r.err and f.mdevs() == {UUID: G2}, "a UUID that is there", r.err)
        r = f.run(f"borrow {G2}")
        t.ok(r.code == 4 and "made a mediated device of it already" in r.err, "a device that is borrowed here", r.err)
        r = f.run(f"return {UUID}")
        t.equal((r.code, r.out, f.mdevs()), (0, f"{G2} is returned, and {UUID} is gone\n", {}), "return", r.err)
        t.equal(f.run(f"return {UUID}").code, 3, "  once")
        found = json.loads(f.run(f"--json borrow {G2}").out)
        t.equal((found["address"], f.mdevs()), (G2, {found["uuid"]: G2}), "a UUID of its own, in JSON")
        t.ok(re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", found["uuid"]), "  a random one", found["uuid"])
        t.equal(found["device"], f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{found['uuid']}", "  and QEMU's words")
        t.equal(json.loads(f.run(f"--json return {found['uuid']}").out)["address"], G2, "  return in JSON")
        f.change(G1, state="held", borrower="3")
        t.equal(f.run(f"borrow {G1}").code, 0, "by name also one whose VM is about to come (move_to)")
        f.change(G3, "0", state="held", borrower="2")
        for address, code, why in ((G3, 4, "node 2 has it"), ("d0009:01:00.0", 3, "no node offers it")):
            r = f.run(f"borrow {address}")
            t.ok(r.code == code and why in r.err, f"refused: {why}", r.err)


def several(t):
    """All or none."""
    with Host() as f:
        r = f.run(f"--json borrow {G1} dlend-nvme {G3}")
        found = json.loads(r.out)["borrowed"]
        t.equal([e["address"] for e in found], [G1, DISK, G3], "several, some of them by their type", r.err)
        t.equal(f.mdevs(), {e["uuid"]: e["address"] for e in found}, "  all are there")
        for entry in found:
            f.run(f"return {entry['uuid']}")
        f.change(G3, "0", state="kept", borrower="4", set="island")
        for words in (f"borrow {G1} {G2} {G3}", f"borrow {G1} {G1}"):
            r = f.run(words)
            t.equal((r.code, f.mdevs(), r.out), (4, {}, ""), f"{words}: none", r.err)
        r = f.run(f"borrow {G3}")
        t.ok(r.code == 4 and f"{G3} cannot be used here: node 4 has another device of set island" in r.err, "  it says which set is whose", r.err)
        f.change(G1, "0", state="held", borrower="3")
        f.change(G2, "0", state="kept", borrower="4", set="island")
        refused_all(t, f, {G1: "node 3 has it", G2: "node 4 has another device of set island", G3: "node 4 has another device of set island"})


def refused_all(t, f, reasons, words="borrow dlend-gpu"):
    before = f.mdevs()
    r = f.run(words)
    t.ok(r.code == 4 and "dlend: no dlend-gpu can be borrowed: " in r.err, "none is left", f"{r.code} {r.err}")
    for address, why in reasons.items():
        t.ok(f"{address}: {why}" in r.err, f"  why not {address}", r.err)
    t.equal(f.mdevs(), before, "  nothing was made")


def any_of_a_type(t):
    with Host() as f:
        f.change(G1, "0", state="held", borrower="3")
        f.change(G2, "0", state="reserved", borrower="4")
        r = f.run(f"borrow --uuid {UUID} dlend-gpu")
        t.equal((r.code, f.mdevs()), (0, {UUID: G3}), "any of a type: the one that is free", r.err)
        t.ok(G3 in r.out and f"-device vfio-pci,sysfsdev=/sys/bus/mdev/devices/{UUID}" in r.out, "  it says which", r.out)
        f.files(f.put("class/dlend_link/ntb1"), state="up", peer_node="3", peer_name="gamma")
        refused_all(t, f, {G1: "node 3 (gamma) has it", G2: "it is reserved for node 4", G3: "this node has made a mediated device of it already"})
        f.change(G2, "1", state="reserved", borrower="0", reserved=OTHER)
        refused_all(t, f, {G2: f"it is reserved for the VM that has the mediated device {OTHER}"}, words=f"borrow --uuid {UUID[:-1]}b dlend-gpu")
        r = f.run(f"borrow --uuid {OTHER} dlend-gpu")
        t.equal((r.code, f.mdevs()), (0, {UUID: G3, OTHER: G2}), "the one that is reserved for this mediated device", r.err)
        f.run(f"return {UUID}")
        f.run(f"return {OTHER}")
        f.change(G1, state="free", borrower="0")
        r = f.run(f"borrow --uuid {OTHER} dlend-gpu")
        t.equal((r.code, f.mdevs()), (0, {OTHER: G2}), "  before those that anybody may have", r.err)
        r = f.run("borrow dlend-nic")
        t.ok(r.code == 3 and "there is no dlend-nic: no node offers one" in r.err, "a type that nobody offers", r.err)
    for what, attributes, why in (("quarantined", {"state": "quarantined"}, "it is quarantined on node 2"),
                                  ("behind a link that is down", {"state": "gone", "link": "down"}, "the link to its lender, node 2, is down"),
                                  ("attached here", {"attached": "d002:01:00.0"}, "it is attached to this host itself")):
        with Host() as f:
            for address in GPUS:
                f.change(address, "0", **{**attributes, "lender": "2"})
            t.diag(f"all are {what}")
            refused_all(t, f, {G1: why, G2: why})
    with Host() as f:
        for address in GPUS:
            f.change(address, state="held", borrower="3")
        refused_all(t, f, {G1: "it is another VM's, which moves to this host"})
        f.change(G1, state="returning", borrower="0")
        t.equal((f.run(f"borrow --uuid {UUID} dlend-gpu").code, f.mdevs()), (0, {UUID: G1}), "one that is being reset, if none is free: the VM waits")
        f.change(G2, state="returning", borrower="0")
        f.change(G3, state="free", borrower="0")
        f.run(f"borrow --uuid {OTHER} dlend-gpu")
        t.equal(f.mdevs()[OTHER], G3, "  but one that is free comes first")


def at_once(t):
    """Between the look and mdevctl, another command or another host is faster."""
    chosen = {}
    for node in ("1", "2", "3"):
        with Host(node) as f:
            f.run(f"borrow --uuid {UUID} dlend-gpu")
            chosen[node] = f.mdevs()[UUID]
    t.equal(sorted(chosen.values()), sorted(GPUS), "three hosts that choose at the same moment do not begin with the same device")
    with Host() as f:
        first = chosen["1"]
        f.mark(f"faster-{first}")
        r = f.run(f"borrow --uuid {UUID} dlend-gpu")
        t.ok(r.code == 0 and f.mdevs()[UUID] not in (first, None), "another command of this host was faster: the next one", r.err)
        t.ok("dlend" not in r.err, "  which nobody needs to know", r.err)
        t.equal(len(f.calls()), 2, "  two attempts")
    with Host() as f:
        f.mark(f"state-{first}", "taken: node 3 has it\n")
        f.run(f"borrow --uuid {UUID} dlend-gpu")
        t.ok(f.mdevs()[UUID] != first and len(f.mdevs()) == 1, "another host was faster: the next one", str(f.mdevs()))
        t.equal([line.split()[0] for line in f.calls()], ["start", "stop", "start"], "  and what was made is gone again")
    with Host() as f:
        for address in GPUS:
            f.mark(f"faster-{address}")
        refused_all(t, f, {address: "this node has made a mediated device of it already" for address in GPUS})
    with Host() as f:
        for address in GPUS:
            f.mark(f"broken-{address}")
            f.mark(f"state-{address}", "taken: node 3 has it\n")
        r = f.run(f"borrow {DISK}")
        t.equal(r.code, 0, "what is wrong with others does not matter", r.err)
        (f.root / f"broken-{G1}").unlink()
        r = f.run(f"borrow {G1}")
        t.ok(r.code == 1 and f"{G1} cannot be borrowed: node 3 has it" in r.err and list(f.mdevs().values()) == [DISK], "by name there is no next one", r.err)
    with Host() as f:
        commands = [subprocess.Popen([DLEND, "--root", f.root, "--json", "borrow", "dlend-gpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for _ in range(5)]
        said = [json.loads(command.communicate()[0]) for command in commands]
        got = [document["address"] for document in said if "address" in document]
        t.equal(sorted(got), sorted(GPUS), "five commands at once for three devices: each device goes to one", str(said))
        t.equal(sorted(f.mdevs().values()), sorted(GPUS), "  and is made once")


def in_use(t):
    with Host() as f:
        f.run(f"borrow --uuid {UUID} {G1}")
        mdev = (f.sys / "bus/mdev/devices" / UUID).resolve()
        (mdev / "iommu_group").symlink_to("../../../kernel/iommu_groups/41")
        (mdev / "vfio-dev/vfio7").mkdir(parents=True)
        f.file("comm", "qemu-system-x86\n", f.proc / "4711")
        fds = f.proc / "4711/fd"
        fds.mkdir()
        for number, file in enumerate(("/dev/vfio/41", "/dev/vfio/devices/vfio7")):
            (fds / str(number)).symlink_to(file)
            r = f.run(f"return {UUID}")
            t.ok(r.code == 4 and f"process 4711 (qemu-system-x86) has {file} open" in r.err and f.mdevs() == {UUID: G1}, f"a VM has {file}: refused", r.err)
            (fds / str(number)).unlink()
        (fds / "0").symlink_to("/dev/vfio/42")
        f.mark("stuck")
        r = f.run(f"return {UUID}")
        t.ok(r.code == 1 and "mdevctl does not stop it" in r.err, "mdevctl refuses", r.err)
        (f.root / "stuck").unlink()
        t.equal((f.run(f"return {UUID}").code, f.mdevs()), (0, {}), "another device's file does not matter")
        f.link(f"bus/mdev/devices/{OTHER}", f.put(f"devices/other/{OTHER}"))
        r = f.run(f"return {OTHER}")
        t.ok(r.code == 3 and f.mdevs() == {OTHER: "other"}, "a mediated device of somebody else is left alone", r.err)


def domain(**types):
    """The XML of a domain: a device for each UUID, and of which type it may be any ("": that is not said)."""
    devices = "".join(f"<hostdev type='mdev'><source><address uuid='{uuid}'/></source></hostdev>" for uuid in types)
    chosen = "".join(f"<d:device uuid='{uuid}' type='{kind}'/>" for uuid, kind in types.items() if kind)
    return f"<domain><metadata><x xmlns='urn:x'/><d:devices xmlns:d='urn:dlend:devices'>{chosen}</d:devices></metadata>" \
           f"<devices>{devices}</devices></domain>"


def hook(t):
    with Host() as f:
        f.change(G1, "0", state="held", borrower="3")
        f.change(G2, "0", state="reserved", borrower="4")
        vm = domain(**{UUID: "dlend-gpu", OTHER: "dlend-nvme"})
        r = f.hook("prepare", "begin", vm)
        t.equal((r.returncode, r.stderr, f.mdevs()), (0, "", {UUID: G3, OTHER: DISK}), "the hook: devices are chosen when the domain starts")
        t.equal(sorted(p.name for p in f.root.glob("run/dlend/hook-*")), [f"hook-{UUID}", f"hook-{OTHER}"], "  it will stop them")
        t.equal(f.hook("prepare", "begin", vm).returncode, 0, "  a second time nothing has to be done")
        second = "33333333-0000-4000-8000-000000000003"
        r = f.hook("prepare", "begin", domain(**{second: "dlend-gpu"}), "vm2")
        t.ok(r.returncode == 1 and f"dlend hook: vm2: {second} cannot be started: no dlend-gpu can be borrowed: " in r.stderr, "none is left: the domain does not start", r.stderr)
        t.ok(all(text in r.stderr for text in (f"{G1}: node 3 has it", f"{G2}: it is reserved for node 4", f"{G3}: this node has made")),
             "  and libvirt prints who has each", r.stderr)
        f.hook("release", "end", vm)
        t.equal((f.mdevs(), list(f.root.glob("run/dlend/hook-*"))), ({}, []), "the end of the domain: all are given back")
        t.equal(f.hook("prepare", "begin", domain(**{second: "dlend-gpu"}), "vm2").returncode, 0, "  the other domain gets one now")
        t.equal(f.mdevs(), {second: G3}, "  the same")
    with Host() as f:
        for address in (G2, G3):
            f.change(address, "0", state="held", borrower="3")
        r = f.hook("prepare", "begin", domain(**{UUID: "dlend-gpu", OTHER: "dlend-gpu"}))
        t.equal((r.returncode, f.mdevs()), (1, {}), "two, and only one is free: the domain does not keep it", r.stderr)
    with Host() as f:
        f.mark(f"faster-{G2}")
        f.mark(f"state-{G3}", "taken: node 2 has it\n")
        r = f.hook("prepare", "begin", domain(**{UUID: "dlend-gpu"}))
        t.equal((r.returncode, r.stderr, f.mdevs()), (0, "", {UUID: G1}), "two others were faster: the next one")
    with Host() as f:
        f.mark(f"etc/mdevctl.d/{G2}/{UUID}", "{}")
        f.hook("prepare", "begin", domain(**{UUID: "dlend-gpu"}))
        t.equal((f.calls(), f.mdevs()), ([f"start -u {UUID}"], {UUID: G2}), "a definition on this host names a device: that one")
    with Host() as f:
        f.run(f"borrow --uuid {UUID} {G2}")
        before = f.calls()
        f.hook("prepare", "begin", domain(**{UUID: "dlend-gpu"}))
        f.hook("release", "end", domain(**{UUID: "dlend-gpu"}))
        t.equal((f.calls(), f.mdevs()), (before, {UUID: G2}), "what is there already, as when a VM moves here, is left as it is")
    with Host() as f:
        for what, xml in (("no metadata", domain(**{UUID: ""})), ("of another device", domain(**{UUID: ""}).replace(
                "</d:devices>", f"<d:device uuid='{OTHER}' type='dlend-gpu'/></d:devices>")), ("of another name space", domain(
                    **{UUID: "dlend-gpu"}).replace("urn:dlend:devices", "urn:dlend"))):
            r = f.hook("prepare", "begin", xml)
            t.equal((r.returncode, r.stderr, f.mdevs()), (0, "", {}), f"{what}: nothing is chosen")
        for kind in ("--help", "x", G1, "dlend-", "dlend-GPU"):
            r = f.hook("prepare", "begin", domain(**{UUID: kind}))
            t.ok(r.returncode == 1 and f"names no type of dlend's for it: {kind}" in r.stderr and f.mdevs() == {}, f"no type: {kind}", r.stderr)
        r = f.hook("prepare", "begin", domain(**{UUID: "dlend-nic"}))
        t.ok(r.returncode == 1 and "there is no dlend-nic: no node offers one" in r.stderr, "a type that nobody offers", r.stderr)
        (f.root / "bin/dlend").unlink()
        shutil.copy("/bin/false", f.root / "bin/dlend")
        t.equal(f.hook("prepare", "begin", domain(**{UUID: "dlend-gpu"})).returncode, 1, "dlend fails without a word: refused")


def mistakes(t):
    with Host() as f:
        (f.root / "bin/mdevctl").unlink()
        os.environ["PATH"] = f"{f.root}/bin"
        for words in (f"borrow {G1}", "borrow dlend-gpu"):
            r = f.run(words)
            t.ok(r.code == 6 and "mdevctl cannot be run" in r.err, f"{words}: without mdevctl", r.err)


with Tap() as tap:
    for part in (named, several, any_of_a_type, at_once, in_use, hook, mistakes):
        tap.diag(part.__name__)
        part(tap)
