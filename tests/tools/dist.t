#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What is installed beside the command: libvirt's hook, the start of definitions, dlend-build-ntb.

    each under a fake root, with fake programs that write down how they were called
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import TOP  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DIST = TOP / "dist"
U1, U2, U3 = (f"{n}1111111-0000-4000-8000-00000000000{n}" for n in "123")
MDEV = "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{}'/></source></hostdev>"


class Root:
    """A root directory, and programs that are called instead of the real ones."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="dlend-dist-"))
        self.bin = self.path / "fakebin"
        self.calls = self.path / "calls"
        for name in ("etc/mdevctl.d", "sys/bus/mdev/devices", "run", "fakebin"):
            (self.path / name).mkdir(parents=True)
        self.calls.write_text("")
        self.env = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "DLEND_HOOK_ROOT": str(self.path),
                    "ROOT": str(self.path), "CALLS": str(self.calls)}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.path)

    def program(self, name, text="exit 0"):
        file = self.bin / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >>"$CALLS"\n{text}\n')
        file.chmod(0o755)

    def file(self, name, text=""):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def called(self):
        lines = self.calls.read_text().splitlines()
        self.calls.write_text("")
        return lines

    def run(self, *words, stdin=""):
        return subprocess.run([str(w) for w in words], input=stdin, capture_output=True, text=True, env=self.env,
                              check=False, timeout=60)


class Host(Root):
    """One with definitions of U1 and U2 on offers of dlend, of U3 on a device of somebody else."""

    def __init__(self, conf="set libvirt-hook=on\n"):
        super().__init__()
        if conf is not None:
            self.file("etc/dlend.conf", conf)
        for parent, uuid in (("d0002:3b:00.0", U1), ("d0003:01:00.0", U2), ("0000:00:02.0", U3)):
            self.file(f"etc/mdevctl.d/{parent}/{uuid}", "{}")
        for name, target in (("lib/dlend/libvirt-mdevs", DIST / "libvirt-mdevs"),
                             ("bin/python3", os.path.realpath(sys.executable))):
            (self.path / "usr" / name).parent.mkdir(parents=True)
            (self.path / "usr" / name).symlink_to(target)
        self.program("mdevctl", 'd=$ROOT/sys/bus/mdev/devices/$3\n'
                     '[ -e "$ROOT/fail-$1-$3" ] && { echo "$3: held by node 3" >&2; exit 1; }\n'
                     'case $1 in start) mkdir "$d" ;; stop) rmdir "$d" ;; esac')

    def hook(self, operation, step, *uuids, xml=None, domain="vm1"):
        xml = xml if xml is not None else "<domain><devices><disk/>" + "".join(map(MDEV.format, uuids)) + "</devices></domain>"
        return self.run(DIST / "libvirt-hook", domain, operation, step, "-", stdin=xml)

    def active(self):
        return sorted(p.name for p in (self.path / "sys/bus/mdev/devices").iterdir())


def hook_off(t):
    for conf in (None, "", "# set libvirt-hook=on\n", "set libvirt-hook=off\n", "set libvirt-hook=on\nset libvirt-hook=off\n",
                 "3b:00.0\n", "set libvirt-hook=on x\n", "set x libvirt-hook=on\n", "setlibvirt-hook=on\n",
                 "set  # libvirt-hook=on", "set libvirt-hook=onset libvirt-hook=on\n", "* *\nset libvirt-hook=*\n",
                 "set libvirt-hook=on\\\n\n"):
        with Host(conf) as h:
            r = h.hook("prepare", "begin", U1)
            t.equal((r.returncode, r.stderr, h.called()), (0, "", []), f"off: {conf!r}")
    for conf in ("set libvirt-hook=on", "\tset \tlibvirt-hook=on # yes\r\n", "set libvirt-hook=on\r\n3b:00.0 group\r\n",
                 "set libvirt-hook=off\nset libvirt-hook=on#\n\nset libvirt-hook=off x\n", "\\\nset libvirt-hook=on\n"):
        with Host(conf) as h:
            r = h.hook("prepare", "begin", U1)
            t.equal((r.returncode, r.stderr, h.called()), (0, "", [f"mdevctl start -u {U1}"]), f"on: {conf!r}")


def hook_alone(t):
    """Every VM of the host depends on it: it must not depend on Python, nor on a package that is gone."""
    for conf in (None, "set libvirt-hook=off\n"):
        with Host(conf) as h:
            h.env["PATH"] = "/nowhere"
            for gone in ("bin/python3", "lib/dlend/libvirt-mdevs"):
                (h.path / "usr" / gone).unlink()
            r = h.hook("prepare", "begin", U1)
            t.equal((r.returncode, r.stderr), (0, ""), f"without Python, without the rest of dlend: {conf!r}")
    for gone in ("bin/python3", "lib/dlend/libvirt-mdevs"):
        with Host() as h:
            (h.path / "usr" / gone).unlink()
            for operation, step in (("prepare", "begin"), ("release", "end")):
                r = h.hook(operation, step, U1)
                t.ok(r.returncode == 0 and gone in r.stderr, f"on, and {gone} is gone: {operation} {step}", r.stderr)
    t.equal((DIST / "libvirt-hook").read_text().splitlines()[0], "#!/bin/sh", "it is a shell's")


def hook(t):
    with Host() as h:
        r = h.hook("prepare", "begin", U1, U3, U2, U1.upper())
        t.equal((r.returncode, r.stderr, h.called()), (0, "", [f"mdevctl start -u {U1}", f"mdevctl start -u {U2}"]),
                "prepare begin starts dlend's, each once, and nobody else's")
        for operation, step in (("start", "begin"), ("started", "begin"), ("stopped", "end"), ("migrate", "begin"),
                                ("reconnect", "begin"), ("attach", "begin"), ("prepare", "end"), ("release", "begin")):
            h.hook(operation, step, U1)
            t.equal(h.called(), [], f"{operation} {step} does nothing")
        h.hook("release", "end", U1, domain="vm2")
        t.equal(h.called(), [], "the end of another domain stops nothing")
        r = h.hook("release", "end", U1, U2, U3)
        t.equal((r.returncode, h.called(), h.active()), (0, [f"mdevctl stop -u {U1}", f"mdevctl stop -u {U2}"], []),
                "release end stops them")
        h.hook("release", "end", U1, U2)
        t.equal(h.called(), [], "  once")
    with Host() as h:
        (h.path / "sys/bus/mdev/devices" / U1).mkdir()
        h.hook("prepare", "begin", U1)
        h.hook("release", "end", U1)
        t.equal((h.called(), h.active()), ([], [U1]), "what ran before is left running")


def hook_taken(t):
    """Devices that were started before: may this domain have them?"""
    with Host() as h:
        for state, refused in (("idle", False), ("running", False), ("prepared for a VM that comes", False),
                               ("failed: it was taken: away", False), ("taken: node 3 has it", True)):
            h.file(f"sys/bus/mdev/devices/{U2}/dlend/state", state + "\n")
            r = h.hook("prepare", "begin", U1, U2)
            t.equal((r.returncode, U1 in h.active()), (1, False) if refused else (0, True), f"{state}: refused: {refused}")
            t.equal(r.stderr, f"dlend hook: vm1: {U2} cannot be used: node 3 has it\n" if refused else "", "  and why")
        h.file(f"sys/bus/mdev/devices/{U3}/dlend/state", "taken: node 4 has it\n")
        t.ok("node 4 has it" in h.hook("prepare", "begin", U3).stderr, "also one of which nothing is defined here")


def hook_fails(t):
    with Host() as h:
        h.file(f"fail-start-{U2}")
        r = h.hook("prepare", "begin", U1, U2)
        t.ok(r.returncode == 1 and "held by node 3" in r.stderr and "vm1" in r.stderr, "the second cannot be started", r.stderr)
        t.equal((h.active(), list((h.path / "run/dlend").iterdir())), ([], []), "  the first is stopped again")
    with Host() as h:
        h.program("mdevctl", "exit 1")
        r = h.hook("prepare", "begin", U1)
        t.ok(r.returncode == 1 and "mdevctl does not say why" in r.stderr, "mdevctl fails without a word", r.stderr)
    with Host() as h:
        h.hook("prepare", "begin", U1)
        h.file(f"fail-stop-{U1}")
        r = h.hook("release", "end", U1)
        t.ok(r.returncode == 0 and "cannot be stopped" in r.stderr, "one that cannot be stopped is told", r.stderr)
        (h.path / f"fail-stop-{U1}").unlink()
        h.hook("release", "end", U1)
        t.equal(h.active(), [], "  and stopped the next time")
    with Host() as h:
        (h.bin / "mdevctl").unlink()
        h.env["PATH"] = f"{h.bin}:/nowhere"
        r = h.hook("prepare", "begin", U1)
        t.ok(r.returncode == 1 and "Traceback" not in r.stderr and "mdevctl" in r.stderr, "no mdevctl", r.stderr)
    for xml in ("", "<domain>", "x", "<!DOCTYPE d [<!ENTITY a 'b'>]><domain/>", "<domain>&a;</domain>"):
        with Host() as h:
            r = h.hook("prepare", "begin", xml=xml)
            t.ok(r.returncode == 0 and "Traceback" not in r.stderr and "not understood" in r.stderr, f"no domain: {xml[:20]!r}: not ours to refuse", r.stderr)
            for ours in (MDEV.format(U1.upper()), "<d xmlns='urn:dlend:devices'>"):
                r = h.hook("prepare", "begin", xml=(xml or "x") + ours)
                t.ok(r.returncode == 1 and "Traceback" not in r.stderr and r.stderr, "  it may have a device of ours: refused", r.stderr)
                t.equal(h.hook("release", "end", xml=(xml or "x") + ours).returncode, 0, "  never fails at the end")
    with Host() as h:
        for text in ("<![CDATA[<!DOCTYPE html><!ENTITY a 'b'>]]>", "&lt;!DOCTYPE html&gt;"):
            r = h.hook("prepare", "begin", xml=f"<domain><metadata><n xmlns='x:y'>{text}</n></metadata><devices>{MDEV.format(U1)}</devices></domain>")
            t.equal((r.returncode, r.stderr, h.called()), (0, "", [f"mdevctl start -u {U1}"]), f"a text of somebody's: {text[:24]}")
            h.hook("release", "end", U1)
            h.called()
    with Host() as h:
        h.file(f"sys/bus/mdev/devices/{U2}/dlend/state", "idle\n")
        for uuid, refused in ((U1, True), (U2, True), (U3, False)):
            r = h.hook("prepare", "begin", xml=f"<domain><devices>{MDEV.format(uuid)}<iommu model='intel'/></devices></domain>")
            t.equal((r.returncode, uuid in r.stderr, h.called()), (int(refused), refused, []), f"a virtual IOMMU: refused: {refused}")
    with Host() as h:
        for xml in ("<domain/>", f"<domain><devices>{MDEV.format('../../x')}</devices></domain>",
                    "<domain><devices><hostdev type='mdev'/><hostdev type='mdev'><source/></hostdev></devices></domain>",
                    f"<domain><devices>{MDEV.format(U1).replace('mdev', 'pci')}</devices></domain>",
                    f"<domain><description>{MDEV.format(U1)}</description></domain>"):
            r = h.hook("prepare", "begin", xml=xml)
            t.equal((r.returncode, h.called()), (0, []), f"nothing to do: {xml[:60]}")
        text = (DIST / "libvirt-hook").read_text() + (DIST / "libvirt-mdevs").read_text()
        t.ok("virsh" not in text and "import libvirt" not in text, "it never calls libvirt")


def start_mdevs(t):
    with Root() as r:
        for name in ("systemctl", "mdevctl"):
            r.program(name)
        # Its PATH puts the system's directories first
        text = (DIST / "start-mdevs").read_text()
        file = r.file("start-mdevs", text.replace("PATH=/usr/sbin:", f"PATH={r.bin}:/usr/sbin:"))
        file.chmod(0o755)
        r.env["DLEND_RUN_SYSTEMD"] = str(r.path)
        r.run(file, "d0002:3b:00.0")
        t.equal(r.called(), ["systemctl --no-block start dlend-mdevs@d0002:3b:00.0.service"], "by systemd")
        r.env["DLEND_RUN_SYSTEMD"] = "/nowhere"
        r.run(file, "d0002:3b:00.0")
        t.equal(r.called(), ["mdevctl start-parent-mdevs d0002:3b:00.0"], "without it")
        for bad in ("", "../x", "a b", "$(x)"):
            t.ok(r.run(file, bad).returncode != 0 and not r.called(), f"refused: {bad!r}")


RULES = DIST / "61-dlend.rules"
# What mdevctl installs (1.4), shortened
MDEVCTLS = """ACTION=="change", ENV{MDEV_STATE}=="registered", TEST=="/etc/mdevctl.d/$kernel", RUN+="/usr/sbin/mdevctl start-parent-mdevs %k"
ACTION=="add", TEST=="/etc/mdevctl.d/$kernel", RUN+="/usr/sbin/mdevctl start-parent-mdevs %k"
"""


def run_by_udev(*words, **event):
    """What udev would run, in order."""
    return by_udev(*words, **event)[0]


def by_udev(rules, root, kernel, subsystem="dlend", above=(), **event):
    """(what udev would run, properties): as much of its language as these rules use.

    root: files, and sys, the device's own; above: attributes of devices that this one is below
    """
    above = dict(above)
    values, runs, skip = {"SUBSYSTEM": subsystem, **event}, [], None
    for line in rules.replace("\\\n", " ").splitlines():
        parts = re.findall(r'([A-Z]+)(?:\{(\w+)\})?(==|!=|\+=|=)"([^"]*)"', "" if line.startswith("#") else line)
        new = []
        for key, name, operator, value in parts:
            value = value.replace("$kernel", kernel).replace("%k", kernel)
            if key == "LABEL":
                skip = None if skip == value else skip
            elif skip:
                break
            elif key == "GOTO":
                skip = value
            elif key in ("RUN", "PROGRAM"):
                new.append(value)
            elif operator == "=":
                values[name] = value
            elif key == "ATTRS":
                if above.get(name) != value:
                    break
            elif key == "TEST":
                found = (root / value[1:] if value.startswith("/") else root / "sys" / value).exists()
                if found != (operator == "=="):
                    break
            elif (values.get(name or key, "") in value.split("|")) != (operator == "=="):
                break
        else:
            runs += new
    return runs, values


def udev_claim(t):
    """What this host is to lend, its own parts do not begin to use at boot."""
    text = (DIST / "61-dlend-claim.rules").read_text()
    bdf, program = "0000:03:00.0", "/usr/lib/dlend/claim-device"
    claimed, other = {"driver_override": "dlend-claimed"}, {"driver_override": "(null)"}
    t.ok("60-persistent-storage.rules" < "61-dlend-claim.rules" < "64-md-raid-assembly.rules", "in its place among the rules of others")
    with Root() as r:
        t.equal(run_by_udev(text, r.path, bdf, "pci", ACTION="add"), [], "a host that lends nothing: nothing is asked")
        r.file("etc/dlend.conf")
        t.equal(run_by_udev(text, r.path, bdf, "pci", ACTION="add"), [f"{program} {bdf}"], "one that does: each PCI device is looked at")
        for subsystem, action in (("pci", "change"), ("pci", "remove"), ("usb", "add")):
            t.equal(run_by_udev(text, r.path, bdf, subsystem, ACTION=action), [], f"  {subsystem}, {action}: nothing")
        for action in ("add", "change"):
            raid = by_udev(text, r.path, "nvme0n1", "block", claimed, ACTION=action, ID_FS_TYPE="linux_raid_member", ID_FS_USAGE="raid")[1]
            t.equal((raid["ID_FS_TYPE"], raid["ID_FS_USAGE"]), ("", ""), f"{action} of a disk below one that is claimed: no array, no volume")
            card = by_udev(text, r.path, "eth1", "net", claimed, ACTION=action)[1]
            t.equal((card["NM_UNMANAGED"], card["ID_NET_MANAGED_BY"]), ("1", "dlend"), "  nor does a network manager take a card")
            raid = by_udev(text, r.path, "nvme1n1", "block", other, ACTION=action, ID_FS_TYPE="LVM2_member")[1]
            t.equal(raid["ID_FS_TYPE"], "LVM2_member", "  others are as they were")
        r.program("dlend", 'echo "$*" >>"$ROOT/asked"; exit 3')
        file = r.file("claim-device", (DIST / "claim-device").read_text().replace("PATH=/usr/local/sbin:", f"PATH={r.bin}:/usr/local/sbin:"))
        file.chmod(0o755)
        t.equal((r.run(file, bdf).returncode, (r.path / "asked").read_text()), (3, f"claim {bdf}\n"), "the program asks dlend")


def udev_rules(t):
    """Which programs udev runs for an offer, with a mdevctl of each place."""
    offer, ours = "d0002:3b:00.0", "/usr/lib/dlend/start-mdevs d0002:3b:00.0"
    text = RULES.read_text()
    t.ok(RULES.name > "60-mdevctl.rules", "mdevctl's own rule comes first")
    for place in ("usr/bin/mdevctl", "usr/sbin/mdevctl"):
        with Root() as r:
            r.file(place)
            t.equal(run_by_udev(text, r.path, offer, ACTION="change", MDEV_STATE="registered"), [], f"{place}: nothing is defined")
            r.file(f"etc/mdevctl.d/{offer}/{U1}")
            t.equal(run_by_udev(text, r.path, offer, ACTION="add"), [], "  an offer that is no parent yet")
            (r.path / "sys/mdev_supported_types").mkdir(parents=True)
            for event in ({"ACTION": "change", "MDEV_STATE": "registered"}, {"ACTION": "add"}):
                t.equal(run_by_udev(text, r.path, offer, **event), [ours], f"  {event}: ours is run")
                t.equal(run_by_udev(MDEVCTLS + text, r.path, offer, **event)[-1:], [ours], "  after mdevctl's own")
            for event in ({"ACTION": "change", "MDEV_STATE": "unregistered"}, {"ACTION": "remove"}, {"ACTION": "change"},
                          {"ACTION": "add", "subsystem": "pci"}):
                t.equal(run_by_udev(text, r.path, offer, **event), [], f"  {event}: nothing")
            r.file(f"etc/dlend/attach/{offer}")
            attach = f"/usr/lib/dlend/attach-now {offer}"
            t.equal(run_by_udev(text, r.path, offer, ACTION="change", DLEND_ATTACH="ready"), [attach], "  to be attached")


def start_domains(t):
    """What libvirt was to start at boot, as soon as all devices of it are there."""
    parent, vm = "d0002:3b:00.0", "99999999-0000-4000-8000-000000000009"
    with Root() as r:
        r.env["DLEND_ROOT"] = str(r.path)
        r.program("virsh", 'case $* in *list*) cat "$ROOT/inactive" ;; *dumpxml*) cat "$ROOT/xml" ;; esac')
        r.file("inactive", f"{vm} vm of mine\n\n")
        r.file("xml", f"<domain>\n{MDEV.format(U1)}\n{MDEV.format(U2)}\n</domain>\n")
        text = (DIST / "start-domains").read_text()
        file = r.file("start-domains", text.replace("PATH=/usr/sbin:", f"PATH={r.bin}:/usr/sbin:"))
        file.chmod(0o755)

        def started():
            r.run(file, parent)
            return [line for line in r.called() if " start " in line]

        r.file(f"sys/bus/dlend/devices/{parent}/{U1}/x")
        r.file(f"sys/bus/mdev/devices/{U1}/x")
        t.equal(started(), [], "a domain whose other device is not there: not yet")
        r.file(f"sys/bus/mdev/devices/{U2}/x")
        t.equal(started(), [f"virsh -q start {vm}"], "now both are: libvirt starts it")
        t.equal(started(), [], "once: what somebody shuts down stays so")
        shutil.rmtree(r.path / "run/dlend")
        r.env["DLEND_HOOK_ROOT"] = str(r.path)
        for operation in ("started", "reconnect"):
            t.equal(r.run(DIST / "libvirt-hook", "vm of mine", operation, "begin", "-").returncode, 0, f"{operation}: the hook notes it, though it is off")
            t.equal(started(), [], "  what libvirt or people have started, and somebody shut down, stays off")
            shutil.rmtree(r.path / "run/dlend")
        r.run(DIST / "libvirt-hook", "vm of mine", "prepare", "begin", "-")
        t.equal(started(), [f"virsh -q start {vm}"], "  one that could not start does not count")
        shutil.rmtree(r.path / "run/dlend")
        shutil.rmtree(r.path / f"sys/bus/dlend/devices/{parent}/{U1}")
        t.equal(started(), [], "nor one that has no device of this offer")
        (r.bin / "virsh").unlink()
        r.program("timeout", "exit 1")
        t.equal(r.run(file, parent).returncode, 0, "no virsh, or one that does not answer")
    t.ok("start-domains %i" in (DIST / "dlend-mdevs@.service").read_text(), "the unit calls it")


RELEASE = "6.12.107+deb13-amd64"
NTB = DIST / "ntb"
SERIES = "6.12"


class Bridge(Root):
    """With a kernel that has no drivers of NTBs, its headers and its source; make and dkms are fakes."""

    def __init__(self, version="6.12.107", folders=("ntb", "pci/switch"), config="# CONFIG_NTB is not set\n"):
        super().__init__()
        self.env["DLEND_NTB_ROOT"] = str(self.path)
        self.program("make", 'for w; do case $w in M=*) cd "${w#M=}" ;; esac; done\n[ -e "$ROOT/fail" ] && { echo broken; exit 2; }\n'
                     'for d in $(sed -n "s/obj-y += //p" Kbuild); do [ -e $d/Kconfig ] || exit 3; done\n'
                     'mkdir -p drivers/ntb/hw/amd drivers/ntb/hw/epf drivers/ntb/hw/idt drivers/ntb/hw/intel drivers/ntb/hw/mscc\n'
                     'for n in amd epf idt intel; do touch drivers/ntb/hw/$n/ntb_hw_$n.ko; done\n'
                     'touch drivers/ntb/ntb.ko drivers/ntb/ntb_perf.ko drivers/ntb/hw/mscc/ntb_hw_switchtec.ko drivers/pci/switch/switchtec.ko Module.symvers')
        self.program("gcc")
        self.program("depmod")
        # What it has built is in files $ROOT/dkms/NAME-RELEASE
        (self.path / "dkms").mkdir()
        self.program("dkms", 'f="$ROOT/dkms/$3-$5" n=${2%/*} v=${2#*/}\ncase $1 in\n'
                     'status) [ -e "$f" ] && echo "$3/0.1, $5, x86_64: installed" || true ;;\n'
                     'install) [ -e "$ROOT/refuse-$4" ] && exit 10; touch "$ROOT/dkms/$n-$4"; [ $n = dlend-ntb ] || '
                     '{ mkdir -p "$ROOT/lib/modules/$4/updates/dkms"; touch "$ROOT/lib/modules/$4/updates/dkms/dlend_ntb.ko.xz"; } ;;\n'
                     'remove) rm "$ROOT/dkms/$n-$4" ;;\nesac')
        self.kernel(RELEASE, config)
        self.source(version, folders)

    def kernel(self, release, config="# CONFIG_NTB is not set\n"):
        self.file(f"boot/config-{release}", config)
        self.file(f"lib/modules/{release}/build/Makefile")
        self.file(f"lib/modules/{release}/build/include/x")

    def source(self, version, folders=("ntb", "pci/switch")):
        numbers = dict(zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split(".")))
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder) / f"linux-source-{version}"
            for name in ("net", *folders):
                (top / "drivers" / name).mkdir(parents=True)
                (top / "drivers" / name / "Kconfig").touch()
                (top / "drivers" / name / "Makefile").touch()
            (top / "Makefile").write_text("# SPDX\n" + "".join(f"{n} = {v}\n" for n, v in numbers.items()) + "EXTRAVERSION =\n")
            self.file(f"usr/src/linux-source-{SERIES}.tar.xz").unlink()
            with tarfile.open(self.path / f"usr/src/linux-source-{SERIES}.tar.xz", "w:xz") as tar:
                tar.add(top, arcname=top.name)

    def build(self, *words):
        return self.run(DIST / "dlend-build-ntb", *(words or (RELEASE,)))

    def drivers(self, *words, folder=NTB):
        work = self.path / "work"
        work.mkdir(exist_ok=True)
        return subprocess.run([folder / "ntb-drivers", *words], capture_output=True, text=True, env=self.env, cwd=work, check=False)

    def made(self):
        folder = self.path / f"lib/modules/{RELEASE}/updates/dlend-ntb"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else None


HW = sorted(f"ntb_hw_{name}.ko" for name in ("amd", "epf", "idt", "intel", "switchtec"))


def build_ntb(t):
    with Bridge() as r:
        result = r.build()
        t.equal((result.returncode, r.made()), (0, ["Module.symvers", "ntb.ko", *HW, "switchtec.ko"]),
                "builds and installs the drivers, the switch's too, and none of their other users")
        t.ok(any(c.startswith("depmod") and RELEASE in c for c in r.called()), "  and runs depmod", result.stderr)
        t.ok("KBUILD_EXTRA_SYMBOLS=" in result.stderr, "  and says how dlend_ntb is built", result.stderr)
    with Bridge(config="CONFIG_PCI_SW_SWITCHTEC=m\n") as r:
        t.equal((r.build().returncode, r.made()), (0, ["Module.symvers", "ntb.ko", *HW]), "the switch's driver is the kernel's own, if it has one")
    with Bridge(config="CONFIG_NTB=m\n") as r:
        t.ok(r.build().returncode == 0 and not r.called(), "a kernel with NTB drivers: nothing to do")
    with Bridge() as r:
        (r.path / f"dkms/dlend-ntb-{RELEASE}").touch()
        result = r.build()
        t.ok(result.returncode == 0 and "dlend-ntb-dkms has built them" in result.stderr and not r.made(), "a kernel for which DKMS did it", result.stderr)
    for gone, package in ((f"lib/modules/{RELEASE}/build/Makefile", f"linux-headers-{RELEASE}"),
                          ("usr/src/linux-source-6.12.tar.xz", "linux-source-6.12")):
        with Bridge() as r:
            (r.path / gone).unlink()
            result = r.build()
            t.ok(result.returncode == 1 and f"apt install {package}\n" in result.stderr, f"without {package}", result.stderr)
            t.equal(r.made(), None, "  nothing is installed")
    with Bridge() as r:
        r.file("fail")
        result = r.build()
        t.ok(result.returncode == 1 and "broken" in result.stderr and "do not build" in result.stderr, "a build that fails",
             result.stderr)
        t.equal(r.made(), None, "  installs nothing")
        for words in (("x",), ("--nonsense",), ("1.2", "3.4"), ("--source",)):
            t.equal(r.build(*words).returncode, 2, f"wrong usage: {' '.join(words)}")
        t.equal(r.build("--source", "/nowhere.tar.xz", RELEASE).returncode, 1, "--source that is not there")


def drivers(t):
    """What DKMS and dlend-build-ntb share."""
    with Bridge() as r:
        shutil.copytree(NTB, r.path / "work")
        result = r.drivers("unpack", RELEASE, folder=r.path / "work")
        there = sorted(str(p.relative_to(r.path / "work")) for p in (r.path / "work").rglob("*") if p.is_file())
        t.equal((result.returncode, there), (0, ["Kbuild"] + [f"drivers/{d}/{f}" for d in ("ntb", "pci/switch") for f in ("Kconfig", "Makefile")] + ["ntb-drivers"]),
                "unpacks the two folders of the source, and nothing else, beside itself")
    for version, status, part in (("6.12.118", 0, "of Linux 6.12.118, and the kernel is 6.12.107+deb13-amd64"),
                                  ("6.12.10", 0, "the source is of Linux 6.12.10, and the kernel is"),
                                  ("7.2.12", 1, "is Linux 7.2.12, and the kernel is 6.12.107+deb13-amd64: apt install linux-source-6.12\n")):
        with Bridge(version) as r:
            result = r.drivers("unpack", RELEASE)
            t.ok(result.returncode == status and part in result.stderr, f"the source of {version}", result.stderr)
    for folders in (("ntb",), ("pci/switch",)):
        with Bridge(folders=folders) as r:
            result = r.drivers("unpack", RELEASE)
            t.ok(result.returncode == 1 and "is not the source of a Linux that has NTB drivers" in result.stderr, f"a source with {folders} alone", result.stderr)

    def built(*config):
        text = "include Kbuild\nall: ; @echo $(obj-y); env | grep ^CONFIG\n"
        r = subprocess.run(["make", "-s", "-f", "-", *config], input=text, cwd=NTB, capture_output=True, text=True, check=True)
        return r.stdout.splitlines()

    ours, others = built(), built("CONFIG_PCI_SW_SWITCHTEC=m")
    t.equal((ours[0], others[0]), ("drivers/ntb/ drivers/pci/switch/", "drivers/ntb/"), "Kbuild builds the switch's driver, if the kernel has none")
    options = {"NTB", *(f"NTB_{name}" for name in ("AMD", "EPF", "IDT", "INTEL", "SWITCHTEC")), "PCI_SW_SWITCHTEC"}
    t.equal({line.removesuffix("=m").removeprefix("CONFIG_") for line in ours[1:]}, options, "  and drivers of NTBs, no users of them")


def dkms_for(release, root, package="dlend-ntb-dkms"):
    """What DKMS reads of the package's file."""
    folder = root.path / "dkms-source"
    if not folder.exists():
        shutil.copytree(NTB, folder)
    shutil.copy(TOP / f"debian/{package}.dkms", folder / "dkms.conf")
    text = (f'kernelver={release}; kernel_source_dir=/none; . {folder}/dkms.conf\nif [[ $kernelver =~ $BUILD_EXCLUSIVE_KERNEL ]]; then echo yes; else echo no; fi\n'
            'for i in "${!BUILT_MODULE_NAME[@]}"; do echo "${BUILT_MODULE_LOCATION[i]}/${BUILT_MODULE_NAME[i]} ${DEST_MODULE_LOCATION[i]}"; done')
    r = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=root.env, check=True)
    return r.stdout.splitlines(), r.stderr


def ntb_dkms(t):
    """The package by which DKMS builds the drivers for each new kernel."""
    names = [f"drivers/ntb/hw/{place}/{name}" for place, name in (("amd", "ntb_hw_amd"), ("epf", "ntb_hw_epf"), ("idt", "ntb_hw_idt"),
             ("intel", "ntb_hw_intel"), ("mscc", "ntb_hw_switchtec"))]
    with Bridge() as r:
        t.equal(dkms_for(RELEASE, r), (["yes", *(f"{m} /updates/dkms" for m in ("drivers/ntb/ntb", *names, "drivers/pci/switch/switchtec"))], ""),
                "DKMS builds the drivers where the source is, without a word")
        lines, said = dkms_for("6.17.3-amd64", r)
        t.ok(lines[0] == "no" and said == "dlend: no NTB drivers for the kernel 6.17.3-amd64 without its source: apt install linux-source-6.17\n",
             "  and leaves out a kernel whose source is not there, and says what to install", said)
        t.equal((dkms_for("6.1.0-49-amd64", r)[0][0], dkms_for("6.1.0-49-amd64", r)[1]), ("no", ""), "  and those that dlend is not for")
    exclusive = [re.search(r"^BUILD_EXCLUSIVE_KERNEL=.*", (TOP / f"debian/{p}.dkms").read_text(), re.M).group()
                 for p in ("dlend-dkms", "dlend-ntb-dkms")]
    t.equal(exclusive[0], exclusive[1], "  which are those of dlend-dkms")
    arch = [re.search(r'^BUILD_EXCLUSIVE_ARCH="(.*)"', (TOP / f"debian/{p}.dkms").read_text(), re.M).group(1) for p in ("dlend-dkms", "dlend-ntb-dkms")]
    t.equal([[name for name in ("x86_64", "aarch64", "i686", "x86_64_v3") if re.search(each, name)] for each in arch], [["x86_64"]] * 2,
            "  and on the machines that dlend is for")
    with Bridge() as r:
        tree = r.file("var/lib/dkms/dlend-ntb/0.1/x").parent
        text = (f'kernelver={RELEASE}; dkms_tree={tree.parent.parent}; . {TOP}/debian/dlend-dkms.dkms; echo "${{BUILD_DEPENDS[*]}}"\n'
                'echo "${BUILT_MODULE_NAME[5]}"; echo "${MAKE[0]}"')

        def dlend():
            return subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=r.env, check=True).stdout.split("\n")[:3]

        t.equal(dlend()[:2], ["", ""], "dlend-dkms without dlend-ntb-dkms: no links, and no waiting")
        shutil.copytree(NTB, tree / "source")
        depends, ntb, make = dlend()
        t.ok((depends, ntb) == ("dlend-ntb", "dlend_ntb") and
             f"CONFIG_NTB=m KBUILD_EXTRA_SYMBOLS={tree.parent}/kernel-{RELEASE}-x86_64/module/Module.symvers" in make,
             "  with it, for a new kernel: DKMS is to build that first, and then dlend_ntb", make)
        (r.path / "usr/src/linux-source-6.12.tar.xz").unlink()
        t.equal(dlend()[:2], ["", ""], "  where the source is not there: as without it")
        r.file(f"var/lib/dkms/dlend-ntb/kernel-{RELEASE}-x86_64/module/Module.symvers")
        t.equal(dlend()[:2], ["", "dlend_ntb"], "  but once it is built, the source may go")
    with Bridge() as r:
        source = r.path / "var/lib/dkms/dlend-ntb-0.1"
        shutil.copytree(NTB, source)
        for release in ("6.12.1-new", "6.17.1-amd64"):
            r.kernel(release)
        r.kernel("6.12.3-other", "CONFIG_NTB=m\n")
        for name in (f"dlend-{RELEASE}", "dlend-6.17.1-amd64"):
            (r.path / "dkms" / name).touch()
        result = r.drivers("catch-up", folder=source)
        calls = [c for c in r.called() if "status" not in c]
        t.equal((result.returncode, sorted(calls)), (0, sorted(["dkms install dlend-ntb/0.1 -k 6.12.1-new", f"dkms install dlend-ntb/0.1 -k {RELEASE}",
                f"dkms remove dlend/0.1 -k {RELEASE}", f"dkms install dlend/0.1 -k {RELEASE}"])),
                "what came late is caught up: the drivers where their source is, and dlend's modules that were built without them", result.stderr)
        t.ok("apt install linux-source-6.17\n" in result.stderr, "  the other kernel's source is told", result.stderr)
        r.drivers("catch-up", folder=source)
        t.equal([c for c in r.called() if "status" not in c], [], "  once")
        r.kernel("6.12.4-broken")
        r.file("refuse-6.12.4-broken")
        t.equal(r.drivers("catch-up", folder=source).returncode, 0, "  a kernel for which they do not build does not stop dpkg")
        (r.path / f"lib/modules/{RELEASE}/updates/dlend-ntb").mkdir(parents=True)
        r.drivers("forget", RELEASE)
        t.equal(r.made(), None, "what dlend-build-ntb made is taken out before DKMS installs")


UNITS = ("dlend-lend.service", "dlend-mdevs@.service", "dlend-attach@.service", "dlend-metrics.service", "dlend-metrics.timer")


def units(t):
    for name in UNITS:
        text = (DIST / name).read_text()
        parts = ("[Unit]", "[Timer]") if name.endswith(".timer") else ("[Unit]", "Type=oneshot", "ExecStart=")
        t.ok(all(part in text for part in parts), name)
    t.ok("ExecStart=dlend metrics --output /" in (DIST / "dlend-metrics.service").read_text(), "the timer's unit calls the command")
    t.ok("--no-enable --no-start --no-stop-on-upgrade dlend-metrics.timer" in (TOP / "debian/rules").read_text(),
         "  and the package leaves it off")
    analyze = shutil.which("systemd-analyze")
    with t.case("systemd takes the units"):
        if not analyze:
            t.skip("no systemd-analyze")
        with Root() as r:
            r.program("dlend")
            for name in UNITS:
                shutil.copy(DIST / name, r.path)
            result = r.run(analyze, "verify", "--man=no", "--recursive-errors=no", *(r.path / name for name in UNITS))
            wrong = [x for x in result.stderr.splitlines() if "dlend-" in x and "not executable" not in x and "not found" not in x]
            assert not wrong, wrong


def dashboard(t):
    """Grafana's JSON: what it refuses, or shows wrongly, without saying why."""
    board = json.loads((DIST / "dlend-dashboard.json").read_text())
    panels = board["panels"]
    t.equal(len({p["id"] for p in panels}), len(panels), "each panel has an id of its own")
    taken = [(x, y) for p in panels for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
             for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])]
    t.ok(len(set(taken)) == len(taken) and max(x for x, _ in taken) < 24, "  and a place of its own")
    shown = [p for p in panels if p["type"] != "row"]
    t.ok(shown and all(p["targets"] and len({x["refId"] for x in p["targets"]}) == len(p["targets"]) for p in shown),
         "  and queries")
    queries = [x["expr"] for p in shown for x in p["targets"]]
    t.ok(all('instance=~"$instance"' in q and q.count("(") == q.count(")") and q.count("{") == q.count("}") for q in queries),
         "  of the hosts that were chosen", str(queries))
    names = {v["name"] for v in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    t.equal(used, names, "  with the variables that there are")


def alerts(t):
    """No YAML reader is needed for so few forms of line; promtool judges the rest where there is one."""
    text = (DIST / "dlend-alerts.yml").read_text()
    rules = re.split(r"^      - alert: ", text, flags=re.M)[1:]
    named = [rule.split("\n")[0] for rule in rules]
    t.ok(len(set(named)) == len(named) and all(re.fullmatch(r"Dlend[A-Za-z]+", n) for n in named), "alerts have names of their own")
    for name, rule in zip(named, rules):
        keys = re.findall(r"^ +(\w+): ", rule, re.M)
        t.ok([k for k in keys if k != "for"] == ["expr", "severity", "summary", "description"] and
             re.search(r"severity: (warning|critical)$", rule, re.M), f"  {name}: what, how bad, and what to do", str(keys))
    documented = re.findall(r"^\| `(Dlend\w+)`", (TOP / "docs/monitoring.md").read_text(), re.M)
    t.equal(documented, named, "docs/monitoring.md lists them in this order")
    promtool = shutil.which("promtool")     # the build tree has none
    if promtool:
        with t.case("promtool takes the rules"):
            subprocess.run([promtool, "check", "rules", DIST / "dlend-alerts.yml"], check=True, capture_output=True)


INSTALLED = {
    "usr/sbin/dlend", "usr/sbin/dlend-build-ntb", "usr/share/man/man8/dlend.8", "usr/share/man/man5/dlend.conf.5",
    "usr/share/man/man8/dlend-build-ntb.8", "usr/share/bash-completion/completions/dlend",
    "usr/share/zsh/vendor-completions/_dlend", "usr/share/fish/vendor_completions.d/dlend.fish", "usr/lib/dlend/complete",
    "usr/lib/mdevctl/scripts.d/callouts/dlend", "usr/lib/dlend/start-mdevs", "usr/lib/dlend/attach-now", "usr/lib/dlend/claim-device", "usr/lib/dlend/start-domains", "usr/lib/dlend/migrate", "usr/lib/dlend/bench", "usr/lib/dlend/bartimes",
    "usr/lib/dlend/libvirt-mdevs", "usr/lib/dlend/ntb/Kbuild", "usr/lib/dlend/ntb/ntb-drivers",
    "usr/lib/udev/rules.d/61-dlend.rules", "usr/lib/udev/rules.d/61-dlend-claim.rules",
    "usr/lib/modules-load.d/dlend.conf", "usr/lib/systemd/system/dlend-lend.service",
    "usr/lib/systemd/system/dlend-mdevs@.service", "usr/lib/systemd/system/dlend-attach@.service",
    "usr/lib/systemd/system/dlend-metrics.service", "usr/lib/systemd/system/dlend-metrics.timer",
    "usr/share/dlend/dlend-alerts.yml", "usr/share/dlend/dlend-dashboard.json", "etc/libvirt/hooks/qemu.d/dlend", "etc/dlend.conf",
    "etc/modprobe.d/dlend.conf", "usr/lib/modprobe.d/dlend-ntb.conf", "usr/share/doc/dlend/README.md",
    "usr/share/doc/dlend/docs/guest-picture.svg",
    *(f"usr/share/dlend/schema/{p.name}" for p in (TOP / "dist/schema").iterdir()),
    *(f"usr/share/doc/dlend/docs/{p.name}" for p in (TOP / "docs").glob("*.md")),
    *(f"usr/lib/dlend/{p.relative_to(TOP / 'tools')}" for p in (TOP / "tools").glob("*/*.py"))}


def interpreters(dest):
    """Packages that scripts below @dest need; /bin/sh is everywhere."""
    lines = [p.read_bytes().split(b"\n")[0].decode("latin-1") for p in dest.rglob("*") if p.is_file()]
    lines = [line for line in lines if line.startswith("#!")]
    return {os.path.basename(line[2:].split()[-1]) for line in lines if line != "#!/bin/sh"}


def depends():
    text = (TOP / "debian/control").read_text().split("\nPackage: dlend\n")[1]
    line = next(x for x in text.splitlines() if x.startswith("Depends:"))
    return set(line.removeprefix("Depends:").replace(",", " ").split())


def sources(t):
    """The package of the modules has each file that Kbuild builds."""
    kbuild = (TOP / "Kbuild").read_text()
    files = {f"{name}.c" for name in re.findall(r"(\w+/\w+)\.o\b", kbuild)}
    with Root() as r:
        result = r.run("make", "-C", TOP, "install-sources", f"DESTDIR={r.path}", "VERSION=7")
        copy = r.path / "usr/src/dlend-7"
        missing = {name for name in files if not (copy / name).exists()}
        t.ok(result.returncode == 0 and files and not missing and (copy / "include/dlend/proto.h").exists(),
             "the package of sources has all that Kbuild builds", f"{result.stderr}{sorted(missing)}")


def packages(t):
    """What the packages say of themselves, and what building them takes."""
    control, changelog = ((TOP / "debian" / name).read_text() for name in ("control", "changelog"))
    version = re.match(r"dlend \((\S+)\)", changelog).group(1)
    header = re.search(r'#define DLEND_VERSION\s+"(.*)"', (TOP / "include/dlend/version.h").read_text()).group(1)
    t.equal(header, version, "modules and command have the version of the packages")
    modules = set(re.findall(r"^obj-m \+= (\w+)\.o", (TOP / "Kbuild").read_text(), re.M))
    folders = subprocess.run([TOP / "tests/module-folders"], capture_output=True, text=True, check=True).stdout.split()
    texts = [p.read_text() for folder in folders for p in (TOP / folder).glob("*.c")]
    t.equal([sum(f"\n{line}" in text for text in texts) for line in ("MODULE_LICENSE(", "MODULE_VERSION(DLEND_VERSION);")],
            [len(modules)] * 2, "  each module says it")
    maintainer = re.search(r"^Maintainer: (.*)$", control, re.M).group(1)
    t.ok("localhost" not in maintainer and f" -- {maintainer}  " in changelog, "the maintainer is one, the same everywhere", maintainer)
    needed = {word for word in re.search(r"^Build-Depends: (.*)$", control, re.M).group(1).split(", ") if " " not in word}
    for page in ("README.md", "docs/getting-started.md"):
        listed = set(re.search(r"apt install (.*debhelper.*)", (TOP / page).read_text()).group(1).split())
        t.equal((needed | {"build-essential"}) - listed, set(), f"{page} lists the packages that make deb needs")
    t.ok('/inbuild" make deb >' in (TOP / "tests/cluster/root/mkdeb").read_text(), "  and 77-packages builds by that very command")


def autopkgtest(t):
    """Debian's own tests of the packages: what they call is there, and so is what that needs."""
    control = (TOP / "debian/tests/control").read_text()
    names = re.findall(r"^Tests: (\S+)$", control, re.M)
    t.equal([name for name in names if not os.access(TOP / "debian/tests" / name, os.X_OK)], [], f"the tests {names} are programs")
    scenario = re.search(r"tests/run cluster/(\S+)", (TOP / "debian/tests/borrow").read_text()).group(1)
    t.ok((TOP / f"tests/cluster/t/{scenario}.t").exists(), f"  the scenario {scenario} is there")
    needed = re.findall(r"^need (\S+)|missing (python3-\S+)\"$", (TOP / "tests/setup").read_text(), re.M)
    listed = set(re.search(r"^Tests: borrow\nDepends: (.*?)\n\S", control, re.M | re.S).group(1).replace(",", " ").split())
    t.equal({a or b for a, b in needed} - listed, set(), "  it depends on what tests/setup would install")


class Removed(Root):
    """dlend's scripts for dpkg on a host where @lent and @attached devices, and @mdevs, are in use."""

    def __init__(self, lent=(), mdevs=(), attached=()):
        super().__init__()
        for driver, devices in (("bus/pci/drivers/dlend-lender", lent), ("bus/mdev/drivers/dlend_mdev", mdevs)):
            (self.path / "sys" / driver).mkdir(parents=True)
            for name in ("bind", *devices):
                self.file(f"sys/{driver}/{name}")
        for name in attached:
            self.file(f"sys/bus/dlend/devices/{name}/attached", "d002:3b:00.0\n")
        self.file("sys/bus/dlend/devices/d0003:01:00.0/attached", "no\n")
        if lent or mdevs or attached:
            (self.path / "sys/module/dlend_core").mkdir(parents=True)
        self.env["DPKG_ROOT"] = str(self.path)

    def says(self, package, *words):
        text = (TOP / f"debian/{package}").read_text().replace("#DEBHELPER#", "")
        r = subprocess.run(["sh", "-s", *words], input=text, capture_output=True, text=True, env=self.env, check=False)
        return r.returncode, r.stderr


def removal(t):
    """What dpkg says when packages are replaced or removed on a host that lends or borrows."""
    with Removed() as r:
        for package in ("dlend.prerm", "dlend-dkms.prerm"):
            t.equal([r.says(package, words) for words in ("remove", "upgrade", "deconfigure")], [(0, "")] * 3,
                    f"{package}: nothing is lent or borrowed: nothing to say")
    with Removed(["0000:3b:00.0", "0000:3c:00.0"], [U1], ["d0002:3b:00.0"]) as r:
        code, said = r.says("dlend.prerm", "remove")
        t.ok(code == 0 and all(text in said for text in ("lent: 0000:3b:00.0 0000:3c:00.0\n", f"for VMs here: {U1}\n", "attached here: d0002:3b:00.0\n")),
             "dlend is removed: what is in use is named", said)
        t.ok("stay in use until this host reboots" in said and "dlend reclaim" in said, "  and what becomes of it", said)
        code, said = r.says("dlend.prerm", "upgrade", "0.2")
        t.ok(code == 0 and "lent: 0000:3b:00.0" in said and "are in use, and stay so" in said, "dlend is replaced: all goes on", said)
        code, said = r.says("dlend-dkms.prerm", "remove")
        t.ok(code == 0 and "stay loaded until this host reboots" in said, "dlend-dkms is removed: loaded modules go on", said)
        code, said = r.says("dlend-dkms.prerm", "upgrade", "0.2")
        t.ok(code == 0 and "modules that are loaded are used until this host reboots" in said, "dlend-dkms is replaced: they do, too", said)
    with Removed(mdevs=[U1]) as r:
        said = r.says("dlend.prerm", "remove")[1]
        t.ok(U1 in said and "attached here" not in said, "what is not in use is not named", said)


def install(t):
    with Root() as r, tempfile.TemporaryDirectory() as dest:
        def make():
            return r.run("make", "-C", TOP, "install-files", f"DESTDIR={dest}", "PREFIX=/usr")

        result = make()
        there = {str(p.relative_to(dest)) for p in Path(dest).rglob("*") if p.is_file()}
        t.equal((result.returncode, there), (0, INSTALLED), "make install-files: everything, and nothing outside DESTDIR")
        scripts = [p for p in INSTALLED if p.startswith(("usr/sbin", "usr/lib/mdevctl", "usr/lib/dlend", "etc/libvirt"))
                   and not p.endswith((".py", "Kbuild"))]
        t.ok(all(os.access(Path(dest) / p, os.X_OK) for p in scripts), "  what is run can be run")
        env = {name: value for name, value in r.env.items() if name != "PYTHONDONTWRITEBYTECODE"}
        for program, option in (("migrate", "--live"), ("bench", "--runs")):
            result = subprocess.run([Path(dest) / "usr/lib/dlend" / program, "--help"], capture_output=True, text=True, env=env, check=False)
            t.ok(result.returncode == 0 and option in result.stdout, f"  dlend {program} finds its modules", result.stderr)
        there = {str(p.relative_to(dest)) for p in Path(dest).rglob("*") if p.is_file()}
        t.equal(there, INSTALLED, "  and leaves no file that no package would know")
        t.equal(interpreters(Path(dest)) - depends(), set(), "  interpreters of scripts: the package depends on them")
        own = [line for line in (Path(dest) / "etc/modprobe.d/dlend.conf").read_text().splitlines() if line]
        t.ok(own and all(line.startswith("#") for line in own), "  the file for the node id holds nothing else that counts", str(own))
        system = (Path(dest) / "usr/lib/modprobe.d/dlend-ntb.conf").read_text()
        t.ok("\nblacklist ntb_transport\n" in system and "max_mw_size" in system, "  what all hosts need is in a file of the package's own")
        (Path(dest) / "etc/dlend.conf").write_text("3b:00.0\n")
        make()
        t.equal((Path(dest) / "etc/dlend.conf").read_text(), "3b:00.0\n", "  an admin's own file stays")
        r.env["DLEND_HOOK_ROOT"] = dest
        installed = Path(dest) / "etc/libvirt/hooks/qemu.d/dlend"
        (Path(dest) / "etc/dlend.conf").write_text((DIST / "dlend.conf").read_text())
        result = r.run(installed, "vm1", "prepare", "begin", "-", stdin="x")
        t.equal((result.returncode, result.stderr), (0, ""), "  as it is installed, the hook is off")
        (Path(dest) / "etc/dlend.conf").write_text("set libvirt-hook=on\n")
        (Path(dest) / "usr/bin").mkdir()
        (Path(dest) / "usr/bin/python3").symlink_to(os.path.realpath(sys.executable))
        result = r.run(installed, "vm1", "prepare", "begin", "-", stdin="x")
        t.ok(result.returncode == 0 and "vm1: its definition is not understood: syntax error" in result.stderr, "  turned on, it finds what it calls",
             result.stderr)


with Tap() as tap:
    for part in (install, sources, packages, autopkgtest, removal, hook_off, hook_alone, hook, hook_taken, hook_fails, start_mdevs, udev_claim, udev_rules, start_domains, build_ntb, drivers, ntb_dkms, units, dashboard, alerts):
        tap.diag(part.__name__)
        part(tap)
