#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend topology --nccl on a fake host: what NCCL makes of the file, by its own rules as published.

    node 1 (this host): d0002:04:00.0, a GPU, and d0002:05:00.0, a network card, at one switch of node 2;
    d0003:01:00.0, a GPU of node 3; d0003:02:00.0, a disk of it
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fabric import UUIDS, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

A, B, C, D = "d0002:04:00.0", "d0002:05:00.0", "d0003:01:00.0", "d0003:02:00.0"
CLASSES = {A: "0x030200", B: "0x020000", C: "0x030200", D: "0x010802"}
HERE_AS = {address: address.replace("d0", "d", 1) for address in CLASSES}    # d002:04:00.0
# NCCL's parser knows no more.  It has 255 bytes for a name or a value, 16 attributes, and 256 elements.
ELEMENT = re.compile(r'<(/?)(\w{1,254})((?: \w{1,254}="[^"<]{0,254}"){0,16})(/?)>')
COMMENT = re.compile(r"<!--[ \n](?:(?!--).)*-->", re.S)
BUSID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]")
INSIDE = {None: {"system"}, "system": {"cpu"}, "cpu": {"pci"}, "pci": {"pci"}}
BRIDGE, NVSWITCH = "0x060400", "0x068000"


class Element:
    def __init__(self, name, parent, **attributes):
        self.name, self.parent, self.subs, self.has = name, parent, [], attributes
        if parent:
            parent.subs.append(self)

    def all(self):
        yield self
        for sub in self.subs:
            yield from sub.all()

    def above(self):
        return [self, *(self.parent.above() if self.parent else [])]

    def find(self, name, **attributes):
        return next((e for e in self.all() if e.name == name and attributes.items() <= e.has.items()), None)


def read(text):
    """The system; raises ValueError as NCCL refuses the file."""
    at, top, inside = 0, None, None
    while at < len(text):
        if text[at] in " \n":
            at += 1
            continue
        m = COMMENT.match(text, at) or ELEMENT.match(text, at)
        if not m:
            raise ValueError(f"at {text[at:at + 60]!r}")
        at = m.end()
        if m.re is COMMENT:
            continue
        close, name, attributes, single = m.groups()
        if close:
            if not inside or inside.name != name:
                raise ValueError(f"{name} ends")
            inside = inside.parent
            continue
        if name not in INSIDE[inside.name if inside else None]:
            raise ValueError(f"it would leave out {name}")
        inside = Element(name, inside, **dict(re.findall(r'(\w+)="([^"]*)"', attributes)))
        top = top or inside
        inside = inside.parent if single else inside
    if inside or top.has.get("version") != "1":
        raise ValueError("no end, or no version")
    busids = [e.has["busid"] for e in top.all() if e.name == "pci"]
    if len(set(busids)) < len(busids) or not all(map(BUSID.fullmatch, busids)) or sum(1 for _ in top.all()) > 256:
        raise ValueError(f"addresses {busids}")
    return top


def fill(top, sysfs):
    """As NCCL does for its devices. sysfs: {address: class} of the host that reads it"""
    for busid, pci_class in sysfs.items():
        if pci_class[:4] not in ("0x02", "0x03"):
            continue
        element = top.find("pci", busid=busid)
        if not element:
            element = Element("pci", top.find("cpu", numaid="-1") or Element("cpu", top, numaid="-1"), busid=busid)
        for each in element.above():
            each.has["keep"] = True
            if each.name == "pci":
                each.has.update({"class": sysfs[each.has["busid"]]} if each.has["busid"] in sysfs else {})
                each.has.setdefault("link_speed", "")
                each.has.setdefault("link_width", "0")
    for each in top.all():
        each.subs = [sub for sub in each.subs if "keep" in sub.has]
    for each in top.all():
        if each.name == "pci" and each.has["class"] == NVSWITCH:
            raise ValueError(f"{each.has['busid']} would be an NVSwitch")
        if each.name == "pci" and each.subs and each.has["class"][:4] in ("0x02", "0x03"):
            raise ValueError(f"{each.has['busid']} is a device, and what is below is lost")
    return top


def distance(top, a, b):
    """NCCL's word for the way between two devices."""
    ways = [top.find("pci", busid=busid).above()[1:] for busid in (a, b)]
    meet = next(e for e in ways[0] if e in ways[1])
    return {"cpu": "PHB", "system": "SYS"}.get(meet.name, "PIX" if ways[0][0] is ways[1][0] else "PXB")


def attach(f, address, bridge=None, **more):
    """In this host's tree: on a root bus of its own, or below a bridge that others may be below, too."""
    where = HERE_AS[address]
    f.files(f.sys / "devices/dlend" / address, attached=where, **{"class": CLASSES[address]})
    above = [f.sys / f"devices/pci{where[:7]}"] if not bridge else [f.sys / "devices/pcid0ff:00", f.sys / f"devices/pcid0ff:00/{bridge}"]
    dev = above[-1] / where
    f.files(dev, **{"class": CLASSES[address], "max_link_speed": "16.0 GT/s PCIe", "max_link_width": "8", **more})
    f.link(f"bus/pci/devices/{where}", dev)


def host(told=True):
    f = Fabric()
    f.populate(told=told)
    f.offer(D, lender="3")
    f.sockets()
    return f


def natively(t):
    sysfs = {HERE_AS[address]: pci_class for address, pci_class in CLASSES.items()}
    with host() as f:
        for address in CLASSES:
            attach(f, address)
        r = f.run("topology --nccl")
        top = read(r.out)
        t.equal((r.code, r.err), (0, ""), "attached devices: NCCL reads the file")
        t.equal(sorted(e.has["busid"] for e in top.all() if e.name == "pci"), sorted(HERE_AS[d] for d in (A, B, C)), "  GPUs and network cards, and no disk")
        t.equal([top.find("pci", busid=HERE_AS[d]).parent.has["numaid"] for d in (A, C)], ["0", "-1"], "  where the links to their lenders are")
        t.equal([top.find("pci", busid=HERE_AS[A]).has[name] for name in ("link_speed", "link_width")], ["16.0 GT/s PCIe", "8"], "  with their own link")
        fill(top, sysfs)
        t.equal(distance(top, HERE_AS[A], HERE_AS[B]), "PHB", "devices on root buses of their own do not reach each other, by the file")
    with host() as f:
        for address in (A, B, C):
            attach(f, address, bridge="d0ff:00:00.0", **{"max_link_width": "255", "max_link_speed": "Unknown"})
        top = read(f.run("topology --nccl").out)
        t.equal(sorted(top.find("pci", busid=HERE_AS[A]).has), ["busid", "class"], "a link that nobody knows is left out")
        fill(top, {**sysfs, "d0ff:00:00.0": "0x060401", "0000:01:00.0": "0x020000", "0000:05:00.0": NVSWITCH})
        t.equal([distance(top, HERE_AS[a], HERE_AS[b]) for a, b in ((A, C), (B, C))], ["PXB", "PXB"], "below one bridge here: they reach each other, from another lender")
        t.ok(distance(top, HERE_AS[A], HERE_AS[B]) in ("PIX", "PXB"), "  and what a lender says that cannot be: a switch at two host bridges")
        f.files(f.sys / "devices/dlend" / B, root="0000:00 0 256 2")
        top = fill(read(f.run("topology --nccl").out), sysfs)
        t.equal(distance(top, HERE_AS[A], HERE_AS[B]), "PIX", "  those at one switch of a lender are the nearest")
        t.equal(len([e for e in top.all() if e.name == "cpu"]), 1, "  all at one NUMA node, as they are together")
        t.equal(f.run("topology --nccl").out, f.run("topology --nccl").out, "the same each time, as NCCL merges what each process reads")
    with host(told=False) as f:
        f.file("root", "x\n", f.sys / "devices/dlend" / C)
        for address in (A, C):
            attach(f, address, bridge="d0ff:00:00.0")
        top = fill(read(f.run("topology --nccl").out), sysfs)
        t.equal(distance(top, HERE_AS[A], HERE_AS[C]), "PXB", "lenders that do not tell where their devices are")


# Buses of the guest: root port 1 -> 1, root port 2 -> 2, its switch 3 with ports 4 and 5; root port 3, which is in an earlier slot
DOMAIN = """<domain type='kvm'><name>vm</name><os><type machine='{machine}'>hvm</type></os>
<numatune><memnode cellid='1' nodeset='0'/></numatune><devices>
<controller type='pci' index='0' model='pcie-root'/>
<controller type='pci' index='1' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/></controller>
<controller type='pci' index='2' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x1'/></controller>
<controller type='pci' index='3' model='pcie-switch-upstream-port'><address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></controller>
<controller type='pci' index='4' model='pcie-switch-downstream-port'><address type='pci' domain='0x0000' bus='0x03' slot='0x01' function='0x0'/></controller>
<controller type='pci' index='5' model='pcie-switch-downstream-port'><address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/></controller>
<controller type='pci' index='6' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0'/></controller>
<controller type='pci' index='7' model='pcie-expander-bus'><target busNr='128'><node>1</node></target><address type='pci' domain='0x0000' bus='0x00' slot='0x08' function='0x0'/></controller>
<controller type='pci' index='8' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/></controller>
<controller type='usb' index='9'><address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/></controller>
{devices}</devices></domain>
"""
MDEV = "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{}'/></source>{}</hostdev>"
HOSTDEV = ("<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x{}' bus='0x{}' slot='0x{}' function='0x{}'/></source>{}"
           "</hostdev>")


def seat(bus, slot=0, function=0):
    return f"<address type='pci' domain='0x0000' bus='{bus:#04x}' slot='{slot:#04x}' function='{function:#x}'/>"


def ask(f, devices, machine="q35"):
    f.file("domain.xml", DOMAIN.format(devices=devices, machine=machine), f.root)
    return f.run(["topology", "--nccl", "--vm", "-"], before=f"exec <{f.root}/domain.xml")


def in_a_vm(t):
    guest = {"0000:06:00.0": "0x030200", "0000:05:00.0": "0x020000", "0000:81:00.0": "0x030200", "0000:04:00.0": BRIDGE}
    with host() as f:
        for device, clique in ((A, "3"), (B, "3"), (C, "4")):
            f.files(f.sys / "devices/dlend" / device, **{"class": CLASSES[device]})
            f.mdev(device, clique=clique)
        text = MDEV.format(UUIDS[A].upper(), seat(4)) + MDEV.format(UUIDS[B], seat(5)) + MDEV.format(UUIDS[C], seat(8))
        r = ask(f, text)
        top = fill(read(r.out), guest)
        t.equal(sorted(e.has["busid"] for e in top.all() if not e.subs), sorted(busid for busid in guest if busid != "0000:04:00.0"),
                "a VM: devices at the addresses that its firmware gives, in the order of slots, and an expander bus")
        t.equal(distance(top, "0000:05:00.0", "0000:06:00.0"), "PIX", "those of a clique reach each other")
        t.equal(distance(top, "0000:05:00.0", "0000:81:00.0"), "SYS", "  others do not")
        t.equal([top.find("pci", busid=busid).above()[-2].has["numaid"] for busid in ("0000:06:00.0", "0000:81:00.0")], ["1", "-1"],
                "  at the cell that is near the link, if that is known")
        t.equal(top.find("pci", busid="0000:06:00.0").has.get("link_speed"), "", "  and NCCL reads links in the guest")
        f.files(f.sys / "bus/mdev/devices" / UUIDS[C] / "dlend", clique="3")
        top = fill(read(ask(f, text).out), guest)
        t.equal([distance(top, "0000:06:00.0", busid) for busid in ("0000:05:00.0", "0000:81:00.0")], ["PIX", "PXB"], "all in one clique, of two lenders")
        for name, wrong in (("no address", ""), ("one on a bus that is not there", seat(40)), ("one of a bus without a number", seat(9)),
                            ("a slot that cannot be", seat(4, 32)), ("a bus that cannot be", seat(4096))):
            r = ask(f, MDEV.format(UUIDS[A], wrong))
            t.ok(r.code == 6 and not r.out and f"the domain does not say where {A} is" in r.err, f"{name}: told", f"{r.code} {r.err}")
        ring = seat(10).join(("<controller type='pci' index='10' model='pcie-root-port'>", "</controller>"))
        t.equal(ask(f, ring + MDEV.format(UUIDS[A], seat(10))).code, 6, "a controller on its own bus: told")
        r = ask(f, MDEV.format("b" + UUIDS[A][1:], seat(4)))
        t.ok(r.code == 3 and "no lent GPU or network card of this node is in the domain" in r.err, "a VM without any: told", r.err)
        t.equal(ask(f, text + "<iommu model='intel'/>", "pc-i440fx-9.0").code, 0, "any machine")
    with host() as f:
        for address in (A, C):
            attach(f, address, bridge="d0ff:01:00.0")
        attach(f, B)
        text = "".join(HOSTDEV.format(*re.split(r"[:.]", HERE_AS[d]), seat(bus)) for d, bus in ((A, 4), (B, 5), (C, 8)))
        top = fill(read(ask(f, text).out), guest)
        t.equal([distance(top, "0000:06:00.0", busid) for busid in ("0000:81:00.0", "0000:05:00.0")], ["PXB", "PHB"],
                "attached devices by vfio-pci: below one bridge here, and one that is not")


def bad(t):
    with host() as f:
        for words, code, why in (("topology --nccl", 3, "no GPU or network card is attached to this host"), ("topology --nccl --dot", 2, "usage"),
                                 ("topology --nccl --json", 2, "usage"), ("topology --vm x", 2, "usage"), ("topology --nccl x", 2, "usage"),
                                 ("topology --nccl --path a b", 2, "usage"), ("topology --nccl --vm a/b", 2, "is no name of a domain")):
            r = f.run(words)
            t.ok(r.code == code and why in r.err, words, f"{r.code} {r.err}")
        r = f.run(["topology", "--nccl", "--vm", "-"], before="exec </dev/null")
        t.ok(r.code == 2 and "is no libvirt domain" in r.err, "no XML: told", r.err)


def rules(t):
    """What is above finds what NCCL would refuse."""
    good = '<system version="1">\n  <!-- x -->\n  <cpu numaid="0">\n    <pci busid="0000:01:00.0" class="0x030200"/>\n  </cpu>\n</system>\n'
    read(good)
    for name, old, new in (("a declaration", "<system", '<?xml version="1.0"?>\n<system'), ("two blanks", "<pci ", "<pci  "), ("another version", '"1"', '"2"'),
                           ("no end", "</system>", ""), ("text", "<cpu", "x<cpu"), ("a short address", "0000:", ""), ("a blank before the end", '"/>', '" />')):
        try:
            read(good.replace(old, new, 1))
            t.ok(False, f"{name}: refused")
        except ValueError:
            t.passed(f"{name}: refused")
    for name, sysfs in (("an NTB above", {"0000:01:00.0": "0x030200", "0000:02:00.0": NVSWITCH}), ("a GPU above", {"0000:01:00.0": "0x030200", "0000:02:00.0": "0x030000"})):
        try:
            fill(read(good.replace("<pci", '<pci busid="0000:02:00.0" class="0x060400"><pci').replace("</cpu", "</pci></cpu")), sysfs)
            t.ok(False, f"{name}: refused")
        except ValueError:
            t.passed(f"{name}: refused")


with Tap() as tap:
    for part in (rules, natively, in_a_vm, bad):
        tap.diag(part.__name__)
        part(tap)
