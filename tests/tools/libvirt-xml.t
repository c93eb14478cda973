#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend libvirt-xml on a fake host: the tree that comes out, and every limit with its numbers.

What it prints in each of its modes is given to libvirt's schema, to libvirt's own rules for the PCI tree of a q35 machine
(qemu:///embed), and to QEMU, by the arguments that libvirt makes of it; QEMU then has all of it but the lent devices.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fabric import UUIDS, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

A, B, C, OWN = "d0002:04:00.0", "d0002:05:00.0", "d0003:01:00.0", "d0001:08:00.0"
MODELS = {"pcie-root-port": "root", "pcie-switch-upstream-port": "up", "pcie-switch-downstream-port": "down",
          "pcie-to-pci-bridge": "bridge", "pcie-expander-bus": "expander"}
BELOW_DOMAIN = "<!-- the rest belongs into <domain>, beside <devices> -->"
DOMAIN = """<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>vm</name><memory unit='MiB'>256</memory><vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu><numa><cell id='0' cpus='0' memory='131072'/><cell id='1' cpus='1' memory='131072'/></numa></cpu>
  <devices>{}</devices>{}
</domain>
"""
# Runs a command, and looks after the orphans below it: libvirt waits for each QEMU that it has asked to be gone, which is the
# child of pid 1, and not each machine's pid 1 looks after those at once.
SUBREAPER = """import ctypes, os, subprocess, sys
assert not ctypes.CDLL(None).prctl(36, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER"
child = subprocess.Popen(sys.argv[1:])
pid = status = None
while pid != child.pid:
    pid, status = os.wait()
os._exit(os.waitstatus_to_exitcode(status) & 255)
"""
PLAIN = ("-machine", "-accel", "-cpu", "-m", "-smp", "-numa")   # arguments of QEMU's that are taken as they are


def tree(text):
    """{UUID: controllers above it, from the root on} and {index: (model, bus or None, slot)}."""
    top = ET.fromstring(f"<devices>{text.split(BELOW_DOMAIN)[0]}</devices>")
    controllers = {}
    for c in top.findall("controller"):
        address = c.find("address")
        place = (None, None) if address is None else (int(address.get("bus"), 0), int(address.get("slot"), 0))
        index = int(c.get("index"))
        assert index not in controllers and c.get("type") == "pci"
        controllers[index] = (MODELS[c.get("model")], *place)
    above, taken = {}, [(bus, slot) for _, bus, slot in controllers.values() if bus is not None]
    for h in top.findall("hostdev"):
        assert (h.get("mode"), h.get("type"), h.get("model")) == ("subsystem", "mdev", "vfio-pci")
        bus, chain = int(h.find("address").get("bus"), 0), []
        while bus is not None:
            chain.insert(0, (bus, controllers[bus][0]))
            bus = controllers[bus][1]
        above[h.find("source/address").get("uuid")] = chain
        taken.append((chain[-1][0], int(h.find("address").get("slot"), 0)))
    assert len(set(taken)) == len(taken), "two things in one slot"
    return above, controllers


def kinds(chain):
    return [kind for _, kind in chain]


def many(f, count, clique="none", offer=None):
    """Mediated devices, each of an offer of its own."""
    uuids = []
    for number in range(count):
        address = f"d0002:{number:02x}:1f.0"
        f.offer(address, **({"place": offer} if offer else {}))
        uuids.append(f"c0000000-0000-4000-8000-{number:012x}")
        f.mdev(address, clique=clique, uuid=uuids[-1])
    return uuids


def domain(uuids, more=""):
    devices = "".join(f"""
    <hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
      <source><address uuid='{uuid}'/></source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x{10 + n:02x}' function='0x0'/>
    </hostdev>""" for n, uuid in enumerate(uuids))
    return ("<domain type='kvm'>\n<!-- <hostdev type='mdev'> --><name>a&gt;b</name>"
            f"<devices>{devices}{more}</devices></domain>")


def from_text(f, text, *options):
    """As `virsh dumpxml` in front of the command."""
    file = f.root / "domain.xml"
    file.write_text(text)
    virsh = f.root / "bin/virsh"
    f.file("virsh", f'#!/bin/sh\ncut -d" " -f1,5 /proc/$$/stat >{f.root}/virsh.group\n[ "$*" = "dumpxml --domain vm one" ] && exec cat {file}\n'
           "echo no such domain >&2\nexit 1\n", virsh.parent)
    virsh.chmod(0o755)
    old = os.environ["PATH"]
    os.environ["PATH"] = f"{virsh.parent}:{old}"
    try:
        return f.run(["libvirt-xml", *options, "vm one"])
    finally:
        os.environ["PATH"] = old


def shapes(t):
    with Fabric() as f:
        f.populate()
        for device, clique in ((A, "3"), (C, "3"), (B, "none"), (OWN, "none")):
            f.offer(device, lender="1") if device == OWN else None
            f.mdev(device, clique=clique)
        all_of_them = [UUIDS[d] for d in (A, B, C, OWN)]
        above, controllers = tree(f.run(["libvirt-xml", *all_of_them]).out)
        t.equal(kinds(above[UUIDS[A]]), ["root", "up", "down"], "a clique: below a switch")
        said = f.run(["libvirt-xml", UUIDS[A]]).out
        t.ok(f"<alias name='ua-{UUIDS[A]}'/>" in said, "each has an alias, by which QEMU can be told more of it", said)
        t.equal(above[UUIDS[A]][:2], above[UUIDS[C]][:2], "  of its own, devices of two lenders side by side")
        t.ok(above[UUIDS[A]][2] != above[UUIDS[C]][2], "  each at its own port")
        t.equal((kinds(above[UUIDS[B]]), kinds(above[UUIDS[OWN]])), (["root"], ["root"]),
                "a device with none that belongs to it: at a root port")
        t.equal(sorted(controllers), list(range(1, 7)), "indexes from 1 on")
        above, controllers = tree(f.run(["libvirt-xml", "--mode", "root-port", *all_of_them]).out)
        t.equal([kinds(chain) for chain in above.values()], [["root"]] * 4, "root-port mode: each at a root port")
        clique = f.run(["libvirt-xml", *all_of_them]).out
    with Fabric() as f:
        f.populate()
        for device in (A, B, C):
            f.mdev(device)
        above, _ = tree(f.run(["libvirt-xml", *(UUIDS[d] for d in (A, B, C))]).out)
        t.equal(above[UUIDS[A]][:2], above[UUIDS[B]][:2], "no cliques: devices of one real switch are at one here")
        t.equal(kinds(above[UUIDS[C]]), ["root"], "  and no other is")
    return clique


def reserves(text):
    """{index of a root port: (bytes below 4 GiB, bytes above it)}, as printed."""
    devices, _, override = text.partition(BELOW_DOMAIN)
    low = {int(c.get("index")): int(c.find("target").get("memReserve")) << 10
           for c in ET.fromstring(f"<devices>{devices}</devices>").findall("controller")
           if c.find("target") is not None and c.find("target").get("memReserve")}
    ns = "{http://libvirt.org/schemas/domain/qemu/1.0}"
    high = {int(d.get("alias").removeprefix("pci.")): int(d.find(f".//{ns}property[@name='pref64-reserve']").get("value"))
            for d in ET.fromstring(f"<domain>{override}</domain>").iter(f"{ns}device")}
    return {index: (low.get(index, 0), high.get(index, 0)) for index in sorted({*low, *high})}


def windows(t):
    """--reserve: a window for what is attached later."""
    with Fabric() as f:
        f.populate()
        for device, bars in ((A, f"0 {64 << 20} 64\n2 {1 << 30} 64 prefetch\n4 {32 << 20} 64 prefetch\n6 {1 << 19}"), (B, "0 16384 64"),
                             (C, f"1 {1 << 20} 64 prefetch")):
            f.files(f.sys / "devices/dlend" / device, bars=bars)
            f.mdev(device, clique="3" if device != B else "none")
        alone = f.run(["libvirt-xml", "--mode", "root-port", "--reserve", *(UUIDS[d] for d in (A, B, C))]).out
        t.equal(reserves(alone), {1: (128 << 20, 2 << 30), 2: (1 << 20, 0), 3: (0, 1 << 20)},
                "--reserve: room for all BARs of each, the next power of two, 64-bit prefetchable ones above 4 GiB")
        t.equal(reserves(f.run(["libvirt-xml", "--reserve", *(UUIDS[d] for d in (A, B, C))]).out)[1], (128 << 20, 2 << 30),
                "  at the root port of a switch: for all that is below")
        t.equal(reserves(f.run(["libvirt-xml", UUIDS[A]]).out), {}, "  not unless it was asked for")
        t.ok("qemu:" not in f.run(["libvirt-xml", "--reserve", UUIDS[B]]).out, "  nothing for QEMU where libvirt's own words do")
        return alone


def near(t):
    """--numa: expander buses of the guest's cells."""
    with Fabric() as f:
        f.populate()
        f.sockets()
        f.files(f.sys / "class/dlend_link/0000:06:00.0", root="0000:80 1 128 0")
        for device, clique in ((A, "3"), (B, "3"), (C, "3"), (OWN, "none")):
            f.offer(device, lender="1") if device == OWN else None
            f.mdev(device, clique=clique)
        devices = [UUIDS[d] for d in (A, B, C, OWN)]

        def cells(*nodesets):
            memnodes = "".join(f"<memnode cellid='{n}' mode='strict' nodeset='{s}'/>" for n, s in enumerate(nodesets))
            return domain(devices).replace("<devices>", f"<numatune>{memnodes}</numatune><devices>")

        r = from_text(f, cells("0-1,^1", "1,3"), "--numa")
        above, controllers = tree(r.out)
        t.equal({d: kinds(above[UUIDS[d]]) for d in (A, B, C, OWN)},
                {A: ["expander", "root", "up", "down"], B: ["expander", "root", "up", "down"], C: ["expander", "root"],
                 OWN: ["expander", "root"]}, "--numa: an expander bus for each cell, below it the ports and switches")
        t.ok(above[UUIDS[A]][0] == above[UUIDS[OWN]][0] != above[UUIDS[C]][0],
             "  by the NUMA node of this host where the device, or its link, is; a clique is cut where they differ", r.out)
        node = {int(c.get("index")): c.find("target/node").text for c in ET.fromstring(f"<d>{r.out}</d>").findall("controller")
                if c.get("model") == "pcie-expander-bus"}
        t.equal((node[above[UUIDS[A]][0][0]], node[above[UUIDS[C]][0][0]]), ("0", "1"), "  with the number of the cell")
        some = from_text(f, cells("5", "1"), "--numa")
        t.equal((kinds(tree(some.out)[0][UUIDS[A]]), kinds(tree(some.out)[0][UUIDS[C]])),
                (["root", "up", "down"], ["expander", "root"]), "  what is near no cell stays on the root bus")
        r = from_text(f, domain(devices), "--numa")
        t.ok(r.code == 5 and "near a NUMA cell" in r.err and "--numa" in r.err and not r.out, "  a domain without such cells: refused", r.err)
        t.ok(f.run(["libvirt-xml", "--numa", UUIDS[A]]).code == 5, "  UUIDs alone have none either")
        return some.out


def named(text):
    """{UUID: type} of the devices that are chosen at start, as printed for <metadata>."""
    below = text.partition(BELOW_DOMAIN)[2]
    space = "{urn:dlend:devices}"
    return {d.get("uuid"): d.get("type") for d in ET.fromstring(f"<domain>{below}</domain>").findall(f"metadata/{space}devices/{space}device")}


def any_of(t):
    """--any: devices that are chosen when the domain starts."""
    with Fabric() as f:
        f.populate()
        f.mdev(A)
        f.files(f.sys / "devices/dlend" / A, bars=f"0 {64 << 20} 64 prefetch\n")
        r = f.run("libvirt-xml --any dlend-gpu --any dlend-nvme")
        above, controllers = tree(r.out)
        t.equal([kinds(chain) for chain in above.values()], [["root"], ["root"]], "--any: each at a root port")
        t.equal([(uuid in above, kind) for uuid, kind in named(r.out).items()], [(True, "dlend-gpu"), (True, "dlend-nvme")],
                "  and its UUID and type for <metadata>", r.out)
        t.ok("<!-- port: any dlend-gpu -->" in r.out, "  a comment says what it is", r.out)
        t.ok(set(named(f.run("libvirt-xml --any dlend-gpu").out)).isdisjoint(above), "  another time, other UUIDs")
        r = f.run(f"libvirt-xml --any dlend-gpu --reserve --mode bridge {UUIDS[A]}")
        above, controllers = tree(r.out)
        t.equal([kinds(chain) for chain in above.values()], [["root", "bridge"]] * 2, "beside a device that is named, in another mode")
        t.equal((len(named(r.out)), list(reserves(r.out))), (1, [1]), "  the window is that of the device that is known")
        t.equal(r.out.count(BELOW_DOMAIN), 1, "  what belongs beside <devices> stands together")
        more = "<controller type='pci' index='7' model='pcie-root-port'/>"
        found = from_text(f, domain([], more), "--any", "dlend-gpu")
        t.equal((found.code, min(tree(found.out)[1])), (0, 8), "beside what a domain without lent devices has", found.err)
        t.equal(named(f.run(["libvirt-xml", UUIDS[A]]).out), {}, "without it, no metadata")
        for kind in ("gpu", "dlend-", "dlend-GPU", "dlend-gpu'/>", ""):
            bad = f.run(["libvirt-xml", "--any", kind])
            t.ok(bad.code == 2 and "is no type" in bad.err and not bad.out, f"no type: {kind!r}", bad.err)
        return r.out


def bridges(t):
    with Fabric() as f:
        uuids = many(f, 40)
        r = f.run(["libvirt-xml", "--mode", "bridge", "--io", *uuids])
        above, controllers = tree(r.out)
        t.equal({tuple(kinds(chain)) for chain in above.values()}, {("root", "bridge")}, "bridge mode: on buses of conventional PCI")
        t.equal(sorted(model for model, *_ in controllers.values()), ["bridge", "bridge", "root", "root"],
                "  31 at each bridge; so 40 devices take I/O space of two ports only")
        return r.out


class Machine:
    """libvirt's QEMU driver and QEMU, without a daemon and without lent devices."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="dlend-embed-")
        self.file = f"{self.folder.name}/vm.xml"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.folder.cleanup()

    @staticmethod
    def run(*words, **options):
        r = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900, **options)
        return r, f"{r.returncode}: {r.stdout[-2000:]}{r.stderr[-2000:]}"

    def takes(self, t, name, printed):
        """Returns QEMU's arguments."""
        devices, _, override = printed.partition(BELOW_DOMAIN)
        Path(self.file).write_text(DOMAIN.format(devices, override))
        r, said = self.run("virt-xml-validate", self.file, "domain")
        t.ok(not r.returncode, f"{name}: libvirt's schema takes it", said)
        r, said = self.run(sys.executable, "-c", SUBREAPER, "virsh", "-c", f"qemu:///embed?root={self.folder.name}/root",
                           f"define {self.file}; domxml-to-native qemu-argv --xml {self.file}")
        t.ok(not r.returncode and "-device" in r.stdout, "  so do its rules for the tree", said)
        words = shlex.split(r.stdout)
        pairs = [(a, b) for a, b in zip(words, words[1:]) if a in PLAIN or a == "-device" and '"vfio-pci"' not in b or
                 a == "-object" and "memory-backend" in b]
        r, said = self.run("qemu-system-x86_64", *(word for pair in pairs for word in pair), "-nodefaults", "-S", "-display", "none",
                           "-monitor", "stdio", input="quit\n")
        t.ok(pairs and not r.returncode, "  and QEMU makes it", said)
        return [json.loads(b) for a, b in pairs if a == "-device" and b.startswith("{")]


def real(t, printed):
    with Machine() as m:
        for name, text in printed.items():
            devices = m.takes(t, name, text)
            ports = {d["id"]: d for d in devices if d["driver"] == "pcie-root-port"}
            for index, (low, high) in reserves(text).items():
                port = ports.get(f"pci.{index}", {})
                t.equal((port.get("mem-reserve", 0), port.get("pref64-reserve", 0)), (low, high), f"  QEMU hears of the windows of port {index}")
            if name == "--numa":
                t.ok(any(d["driver"] == "pxb-pcie" and d.get("numa_node") == 1 for d in devices), "  and of the cell of the expander bus",
                     str(devices))


def domains(t):
    with Fabric() as f:
        f.populate()
        f.mdev(A, clique="0")
        f.mdev(C, clique="0")
        more = ("<controller type='pci' index='0' model='pcie-root'/><controller type='pci' index='7' "
                "model='pcie-root-port'/><controller type='usb' index='99' model='ich9-ehci1'/>")
        r = from_text(f, domain([UUIDS[A], UUIDS[C]], more))
        above, controllers = tree(r.out)
        t.equal(sorted(above), sorted([UUIDS[A], UUIDS[C]]), "a domain: its devices are found")
        t.equal(min(controllers), 8, "  indexes go on after its PCI controllers'")
        r = from_text(f, domain([UUIDS[A], "f0000000-0000-4000-8000-00000000000f"]))
        t.equal(sorted(tree(r.out)[0]), [UUIDS[A]], "  mdevs of others are left alone")
        process, group = (f.root / "virsh.group").read_text().split()
        t.equal(process, group, "  Ctrl-C of a terminal does not reach virsh: it is in a process group of its own")
        r = from_text(f, domain([]))
        t.ok(r.code == 3 and "no mediated device of dlend" in r.err, "a domain without any", r.err)
        for text in ("", "<", "<!--", "<domain", "<network></network>", "x" * 5000, "<a b='", "<domain <domain>"):
            r = from_text(f, text)
            t.ok(r.code in (2, 3) and r.err.startswith("dlend: "), f"no domain: {text[:20]!r}", r.err)
        r = from_text(f, domain([UUIDS[A]]).replace("</name>", "\n</title>"))
        t.ok(r.code == 2 and "line 3: " in r.err, "  XML that is broken: where", r.err)
        for dtd in ("[<!ENTITY b 'b'>]", "[<!ENTITY b SYSTEM 'file:///etc/passwd'>]", "SYSTEM 'http://127.0.0.1:1/b.dtd'"):
            r = from_text(f, f"<!DOCTYPE domain {dtd}>" + domain([UUIDS[A]]))
            t.ok(r.code == 2 and "DOCTYPE" in r.err and not r.out, f"  a document type is refused: {dtd}", r.err)
        many = "".join(f"<!ENTITY b{n} '{f'&b{n - 1};' * 10 if n else 'b' * 10}'>" for n in range(12))
        r = from_text(f, f"<!DOCTYPE domain [{many}]><domain a='&b11;'>&b11;</domain>")
        t.ok(r.code == 2 and not r.out, "  and entities of entities are not spelt out", r.err)
        r = from_text(f, domain([UUIDS[A]], "<a>" * 300 + "</a>" * 300))
        t.ok(r.code == 2 and "depth" in r.err, "  elements too deep in one another", r.err)
        other = ("<interface type='hostdev'><source><address type='pci' bus='0x00' slot='0x03' function='0x0'/></source>"
                 "<address type='pci' bus='0x01' slot='0x00' function='0x0'/></interface>") * 31
        r = from_text(f, domain([UUIDS[A]], other))
        t.equal(r.code, 0, "  where a device is on the host takes no slot of the guest's", r.err)
        r = f.run(["libvirt-xml", "--domain", "none"])
        t.ok(r.code == 3 and "virsh" in r.err, "a domain that virsh does not know, or no virsh", r.err)


def kept(t):
    """What the domain says of its devices stays: only their places are new."""
    with Fabric() as f:
        f.populate()
        f.mdev(A, clique="0")
        f.mdev(C, clique="0")
        text = domain([UUIDS[A].upper(), UUIDS[C]])
        more = ("<alias name='hostdev0'/><boot order='2'/><rom bar='off'/><driver iommufd='yes'/>", "<alias name='ua-mine'/><teaming type='transient' persistent='ua-x'/>")
        for words in more:
            text = text.replace("</source>\n", f"</source>{words}\n", 1).replace("</source><", "</source ><", 1)
        text = text.replace("managed='no'", "managed='no' display='on' ramfb='on'", 1)
        r = from_text(f, text)
        top = ET.fromstring(f"<devices>{r.out.split(BELOW_DOMAIN)[0]}</devices>")
        one, two = (h for h in top.findall("hostdev"))
        t.equal((one.get("display"), one.get("ramfb"), two.get("display")), ("on", "on", None), "attributes of a device stay")
        t.equal([(e.tag, dict(e.attrib)) for e in one if e.tag not in ("source", "address")],
                [("alias", {"name": f"ua-{UUIDS[A]}"}), ("boot", {"order": "2"}), ("rom", {"bar": "off"}), ("driver", {"iommufd": "yes"})],
                "  and elements; an alias that libvirt gives anew each time becomes one that stays")
        t.equal([(e.tag, e.get("name")) for e in two if e.tag in ("alias", "teaming")], [("alias", "ua-mine"), ("teaming", None)], "  one that somebody gave stays")
        t.equal([len(h.findall("address")) for h in (one, two)], [1, 1], "  each has one place")
        t.equal(sorted(uuid.lower() for uuid in tree(r.out)[0]), sorted([UUIDS[A], UUIDS[C]]), "a UUID in capitals is the same UUID")
        r = f.run(["libvirt-xml", UUIDS[A].upper()])
        t.equal((r.code, list(tree(r.out)[0])), (0, [UUIDS[A]]), "  on the command line, too", r.err)
        for machine in ("pc", "pc-i440fx-9.2", "pc-q35-9.2", "q35", "virt"):
            r = from_text(f, domain([UUIDS[A]]).replace("<name>", f"<os><type machine='{machine}'>hvm</type></os><name>", 1))
            refused = machine in ("pc", "pc-i440fx-9.2")
            t.ok((r.code == 5 and f"its machine is {machine}," in r.err and not r.out) if refused else r.code == 0, f"a machine {machine}: refused: {refused}", r.err)
        r = from_text(f, domain([UUIDS[A]], "<iommu model='intel'/>"))
        t.ok(r.code == 5 and "<iommu>" in r.err and not r.out, "a virtual IOMMU is refused", r.err)


def limits(t):
    """(have, add, most) of each."""
    def refused(r, what, have, add, most):
        t.ok(r.code == 5 and what in r.err and f"{have} are taken and {add} more are needed, of {most}" in r.err
             and not r.out, f"{what}: {have} + {add} > {most}", f"{r.code} {r.err}")

    with Fabric() as f:
        uuids = many(f, 33)
        r = f.run(["libvirt-xml", *uuids[:24]])
        t.equal((r.code, len(tree(r.out)[0])), (0, 24), "24 root ports fit beside what every guest has")
        refused(f.run(["libvirt-xml", *uuids[:25]]), "slots on its root bus", 8, 25, 32)
        r = f.run(["libvirt-xml", "--io", *uuids[:16]])
        t.equal(r.code, 0, "16 ports with I/O fit")
        refused(f.run(["libvirt-xml", "--io", *uuids[:17]]), "I/O space", 0, 17, 16)
        host = ("<hostdev mode='subsystem' type='pci'><address type='pci' bus='0x00' slot='0x05' function='0x0'/>"
                "</hostdev>")
        refused(from_text(f, domain(uuids[:17], host)), "I/O space", 0, 17, 16)
        t.equal(from_text(f, domain(uuids[:17], host), "--no-io").code, 0, "  unless it has no I/O BARs")
        slots = "".join(f"<controller type='pci' index='{n}' model='pcie-root-port'>"
                        f"<address type='pci' bus='0x00' slot='0x{n:02x}' function='0x0'/></controller>"
                        for n in range(1, 30))
        refused(from_text(f, domain(uuids[:2], slots)), "slots on its root bus", 31, 2, 32)
        last = "<controller type='pci' index='254' model='pcie-root-port'/>"
        refused(from_text(f, domain(uuids[:2], last)), "buses", 254, 2, 255)
        crowd = "".join(f"<disk><address type='pci' bus='0x{1 + n // 32:02x}' slot='0x{n % 32:02x}' function='0x0'/>"
                        "</disk>" for n in range(253))
        refused(from_text(f, domain(uuids[:1], crowd)), "slots", 255, 2, 256)
    with Fabric() as f:
        uuids = many(f, 33, clique="1")
        r = f.run(["libvirt-xml", *uuids[:32]])
        t.equal((r.code, len(tree(r.out)[0])), (0, 32), "a clique of 32 fits one switch")
        refused(f.run(["libvirt-xml", *uuids]), "ports at one switch", 0, 33, 32)


def bad(t):
    with Fabric() as f:
        f.populate()
        f.mdev(A)
        for words, code, why in (([], 2, "usage"), (["--mode", "x", UUIDS[A]], 2, "no mode"),
                                 ([UUIDS[A], UUIDS[A]], 2, "twice"), ([UUIDS[B]], 3, "no such mediated device"),
                                 ([UUIDS[A], A], 2, "is no UUID"),
                                 ([UUIDS[A], "b" + UUIDS[A][1:]], 3, "no such mediated device"),
                                 (["--domain", "x", UUIDS[A]], 2, "usage"), (["--what"], 2, "what")):
            r = f.run(["libvirt-xml", *words])
            t.ok(r.code == code and why in r.err and not r.out, f"{words}"[:60], f"{r.code} {r.err}")


with Tap() as tap:
    out = {}
    for part, mode in ((shapes, "switch-port"), (bridges, "bridge"), (windows, "--reserve"), (near, "--numa"), (any_of, "--any"), (domains, None), (kept, None), (limits, None),
                       (bad, None)):
        tap.diag(part.__name__)
        out[mode] = part(tap)
    tap.diag(real.__name__)
    real(tap, {mode: text for mode, text in out.items() if mode})
