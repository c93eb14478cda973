#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What other tools make of the names that dlend gives: of mediated devices, their types, their parents.

Run for real, as Debian has them: libvirt (its test driver, its schemas), virt-install, and the parser that it shares with
virt-manager.  The node device is what libvirt's own nodedev driver says of one of ours: nodedev.xml, which 76-libvirt
compares with libvirt's words on a host.

NOT run, but RE-ENACTED here, in our own words, after their published source: how KubeVirt finds mediated devices, and
which it removes (pkg/virt-handler/device-manager: mediated_device.go, mediated_devices_types.go, common.go), and how Kata
Containers finds out what a file below /dev/vfio is (src/runtime/pkg/device/drivers: vfio.go, utils.go).  Neither is in
Debian.
"""
import importlib.machinery
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fabric import UUIDS, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

HOOK = importlib.machinery.SourceFileLoader("libvirt_mdevs", str(HERE.parents[1] / "dist/libvirt-mdevs")).load_module()
A, B = "d0002:04:00.0", "d0003:01:00.0"
KINDS = re.findall(r'^\t\{ .*"(.*)", "(.*)" \},$', (HERE.parents[1] / "ntb/names.c").read_text(), re.M)
COMPUTER = ("<device><name>computer</name><capability type='system'><hardware><uuid>11111111-2222-4333-8444-555555555555"
            "</uuid></hardware><firmware/></capability></device>")


def tool(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, **options)


def said(result):
    return f"{result.returncode}: {result.stdout}{result.stderr}"


def nodedev(kind, address=A, uuid=UUIDS[A]):
    """(name, XML) of a node device."""
    name = re.sub(r"[^a-z0-9]", "_", f"{uuid}_{address}")
    xml = (HERE / "nodedev.xml").read_text().format(name=name, path=f"/sys/devices/{address}/{uuid}", type=kind,
                                                    uuid=uuid, address=address, group=41)
    return f"mdev_{name}", xml


def virt_install(uri, hostdev):
    return tool("virt-install", "--connect", uri, "--name", "vm", "--memory", "64", "--disk", "none", "--osinfo", "linux2022",
                "--import", "--network", "none", "--graphics", "none", "--print-xml", "--hostdev", hostdev)


def libvirt(t, folder):
    """Its test driver reads and writes node devices and domains by the code that all drivers use."""
    name, xml = nodedev("dlend-nvme")
    (folder / "nodes.xml").write_text(f"<node>{COMPUTER}{xml}</node>")
    uri = f"test://{folder}/nodes.xml"
    listed = tool("virsh", "-c", uri, "nodedev-list", "--cap", "mdev")
    t.equal(listed.stdout.split(), [name], "libvirt, nodedev-list: the device")
    dumped = tool("virsh", "-c", uri, "nodedev-dumpxml", name)
    t.ok(f"<uuid>{UUIDS[A]}</uuid>" in dumped.stdout and "<type id='dlend-nvme'/>" in dumped.stdout,
         "libvirt, nodedev-dumpxml: its type and UUID", said(dumped))
    for what, text in (("what it printed", dumped.stdout), ("what its nodedev driver prints", xml)):
        (folder / "nodedev.xml").write_text(text)
        valid = tool("virt-xml-validate", folder / "nodedev.xml", "nodedev")
        t.ok(not valid.returncode, f"  {what} is what the schema asks for", said(valid))
    made = tool("virsh", "-c", uri, "nodedev-create", folder / "nodedev.xml")
    t.ok(made.returncode, "libvirt, nodedev-create: refused (libvirt.md)", said(made))
    return uri, name


def virtinst(t, folder, uri, name):
    by_name = virt_install(uri, name)
    t.ok(by_name.returncode and "mdev type id 'dlend-nvme'" in by_name.stderr,
         "virt-install --hostdev NAME: refused, as it knows types of NVIDIA and Intel only (libvirt.md)", said(by_name))
    by_uuid = virt_install(uri, f"type=mdev,xpath1.set=./@model=vfio-pci,xpath2.set=./source/address/@uuid={UUIDS[A]}")
    t.ok(not by_uuid.returncode and f'<address uuid="{UUIDS[A]}"/>' in by_uuid.stdout, "virt-install, by UUID as libvirt.md says",
         said(by_uuid))
    file = folder / "vm.xml"
    file.write_text(by_uuid.stdout)
    for words in (["virt-xml-validate", file, "domain"], ["virsh", "-c", uri, "define", file]):
        result = tool(*words)
        t.ok(not result.returncode, f"  {words[0]} takes that domain", said(result))
    program = ("import sys; sys.path.insert(0, '/usr/share/virt-manager')\n"
               "from virtinst import NodeDevice, cli\n"
               "conn = cli.getConnection(sys.argv[1])\n"
               "d = NodeDevice(conn, parsexml=sys.stdin.read())\n"
               "print(d.name, d.device_type, d.type_id, d.get_mdev_uuid(), d.parent)\n")
    for kind in sorted({word for word, _ in KINDS}):
        name, xml = nodedev(f"dlend-{kind}")
        read = tool(sys.executable, "-c", program, uri, input=xml)
        t.equal(read.stdout.split(), [name, "mdev", f"dlend-{kind}", UUIDS[A], "computer"],
                f"virt-manager's parser: name, type and UUID of dlend-{kind}")


def chosen(t, folder, uri):
    """A domain whose devices are chosen when it starts: libvirt keeps what the hook reads."""
    with Fabric() as f:
        printed = f.run("libvirt-xml --any dlend-gpu --any dlend-nvme").out
    devices, beside = printed.split("<!-- the rest belongs into <domain>, beside <devices> -->")
    file = folder / "any.xml"
    file.write_text("<domain type='test'><name>any</name><memory>65536</memory><os><type arch='x86_64' machine='q35'>hvm</type></os>"
                    f"<devices>{devices}</devices>{beside}</domain>")
    valid = tool("virt-xml-validate", file, "domain")
    t.ok(not valid.returncode, "devices by their type: what dlend libvirt-xml --any prints is what libvirt's schema asks for", said(valid))
    dumped = tool("virsh", "-c", uri, f"define {file}; dumpxml any")
    kept = HOOK.named(HOOK.parse(dumped.stdout[dumped.stdout.index("<domain"):].strip()))
    t.equal(list(kept.values()), ["dlend-gpu", "dlend-nvme"], "  libvirt keeps UUIDs and types, and the hook finds them", said(dumped))
    words = "<devices>" + "".join(f"<device uuid='{uuid}' type='dlend-usb'/>" for uuid in kept) + "</devices>"
    changed = tool("virsh", "-c", uri, f"define {file}; metadata any urn:dlend:devices --config --key dlend --set \"{words}\"; dumpxml any")
    kept = HOOK.named(HOOK.parse(changed.stdout[changed.stdout.index("<domain"):].strip()))
    t.equal(list(kept.values()), ["dlend-usb", "dlend-usb"], "  virsh metadata changes the types", said(changed))


# KubeVirt, re-enacted

def kubevirt(f, selectors):
    """{selector: [(UUID, what it takes for the parent's PCI address, NUMA node, file)]} of the permitted host devices."""
    wanted = {selector.replace(" ", "_").strip(): selector for selector in selectors}
    found = {}
    for entry in sorted((f.sys / "bus/mdev/devices").iterdir()):
        name = (entry / "mdev_type/name").read_text().replace(" ", "_").strip()
        if name not in wanted:
            continue
        parent = os.readlink(entry).split("/")[-2]
        numa = f.sys / "bus/pci/devices" / parent / "numa_node"
        group = os.path.basename(os.readlink(entry / "iommu_group"))
        found.setdefault(wanted[name], []).append(
            (entry.name, parent, int(numa.read_text()) if numa.exists() else -1, f"/dev/vfio/{group}"))
    return found


def kubevirt_matches(t):
    with Fabric() as f:
        f.populate()
        f.offer("d0003:02:00.0", lender="3", type="dlend-nvme", vendor="0x144d", device="0xa80a")
        other = "e0000000-0000-4000-8000-000000000001"
        f.mdev(A, group="41")
        f.mdev("d0003:02:00.0", group="42", uuid=other)
        f.mdev(B, group="43")
        found = kubevirt(f, ["dlend NVMe disk", "dlend GPU"])
        t.equal([uuid for uuid, *_ in found["dlend NVMe disk"]], [UUIDS[A], other],
                "KubeVirt (re-enacted): one selector takes disks of two nodes and two models")
        t.equal(found["dlend GPU"], [(UUIDS[B], B, -1, "/dev/vfio/43")],
                "  the parent's name is read as it is, and there is no NUMA node of that name")
        t.equal(kubevirt(f, ["dlend_GPU"]), {"dlend_GPU": [(UUIDS[B], B, -1, "/dev/vfio/43")]}, "  underscores for blanks, too")
    for word, title in KINDS:
        t.ok(re.fullmatch(r"dlend [A-Za-z ]+", title), f"the name of dlend-{word} has no id, no node, no model: {title}")


def kubevirt_removes(f, types, external):
    """UUIDs that its agent removes from a node: of neither the types that it is to make, nor of an external provider's."""
    keep = {name.replace(" ", "_").strip() for name in types | external}
    return [entry.name for entry in sorted((f.sys / "bus/mdev/devices").iterdir())
            if (entry / "mdev_type/name").read_text().replace(" ", "_").strip() not in keep]


def documented_selectors():
    """{selector: is it an external provider's?} of the example in docs/containers.md."""
    page = (HERE.parents[1] / "docs/containers.md").read_text(encoding="utf-8")
    items = re.findall(r'^ +- mdevNameSelector: "(.*)"\n((?: +\w+: .*\n)*)', page, re.M)
    return {name: "externalResourceProvider: true" in rest for name, rest in items}


def kubevirt_keeps(t):
    selectors = documented_selectors()
    t.ok("dlend GPU" in selectors, "containers.md has an example for GPUs", str(selectors))
    with Fabric() as f:
        f.populate()
        f.mdev(B, group="43")
        f.mdev(A, group="41")
        external = {name for name, provider in selectors.items() if provider}
        t.ok(UUIDS[B] not in kubevirt_removes(f, {"NVIDIA A10-24Q"}, external), "KubeVirt (re-enacted): a device of the example stays")
        t.equal(kubevirt_removes(f, {"NVIDIA A10-24Q"}, set()), sorted((UUIDS[A], UUIDS[B])), "  and one that is not marked is removed")


# Kata, re-enacted

def kata(f, file):
    """What Kata's runtime makes of a file: (kind, BDF, where QEMU finds it, whether it takes it for PCIe); None: left out."""
    sysfs = f.sys
    if file.startswith("/dev/vfio/devices/"):
        entry = next(p for p in sysfs.glob("bus/*/devices/*/vfio-dev/*") if p.name == os.path.basename(file))
        bdfs = re.findall(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]", str(entry.resolve().relative_to(f.sys.resolve())))
        bdf = bdfs[-1]
        return "pci", bdf, f"/sys/bus/pci/devices/{bdf}", pcie(f, bdf)
    member = next((sysfs / "kernel/iommu_groups" / os.path.basename(file) / "devices").iterdir())
    if member.name.count(":") == 2:
        return "pci", member.name, f"/sys/bus/pci/devices/{member.name}", pcie(f, member.name)
    where = member.resolve()
    bdf = where.parent.name.split(":", 1)[1]
    pclass = kata_pci(f, bdf) / "class"
    if pclass.exists() and (int(pclass.read_text(), 16) >> 8) & 0x0600 == 0x0600:
        return None
    return "mdev", bdf, "/sys/" + str(where.relative_to(f.sys.resolve())), pcie(f, bdf)


def kata_pci(f, bdf):
    return f.sys / "bus/pci/devices" / (bdf if bdf.count(":") == 2 else f"0000:{bdf}")


def pcie(f, bdf):
    config = kata_pci(f, bdf) / "config"
    return config.exists() and config.stat().st_size > 256


def files_of(f, *options):
    """{name of the CDI device: its files}, as dlend cdi prints them."""
    spec = json.loads(f.run(["cdi", *options]).out)
    return {d["name"]: [n["path"] for n in d["containerEdits"]["deviceNodes"]] for d in spec["devices"]}


def kata_finds(t):
    with Fabric() as f:
        f.populate()
        f.mdev(A, group="41", cdev="vfio7")
        f.mdev(B, group="43", cdev="vfio8")
        files = files_of(f)
        for address in (A, B):
            read = [kata(f, file) for file in files[UUIDS[address]]]
            t.equal(read, [("mdev", address[6:], f"/sys/devices/dlend/{address}/{UUIDS[address]}", False)],
                    f"Kata (re-enacted): all files that dlend cdi gives for {address} are that device")
        f.files(f.sys / "devices/dlend" / A, attached="d002:04:00.0")
        dev = f.pci("d002:04:00.0", driver="vfio-pci", group="44")
        (dev / "config").write_bytes(bytes(4096))
        f.files(dev / "vfio-dev/vfio9", dev="511:9")
        for options in ([], ["--iommufd"]):
            read = [kata(f, file) for file in files_of(f, *options)["d002:04:00.0"]]
            t.equal(read, [("pci", "d002:04:00.0", "/sys/bus/pci/devices/d002:04:00.0", True)],
                    f"  an attached device of vfio-pci's is a PCIe device as any other, by its own address {' '.join(options)}")
        own = kata(f, "/dev/vfio/devices/vfio7")
        t.equal(own[:2], ("pci", A[1:]), "  by its own file it would be a PCI device that is not there (containers.md)")
        t.ok(not kata_pci(f, own[1]).exists(), "    no host has such an address")
        f.pci("0000:04:00.0", driver=None)
        t.equal(kata(f, "/dev/vfio/41")[0], "mdev", "  a device of the host at the address after the first colon: no harm")
        f.files(f.device("0000:04:00.0"), **{"class": "0x060400"})
        t.equal(kata(f, "/dev/vfio/41"), None, "    a bridge there: Kata leaves the lent device out (containers.md)")


with Tap() as tap, tempfile.TemporaryDirectory(prefix="dlend-names-") as tmp:
    tap.diag("libvirt")
    address, device = libvirt(tap, Path(tmp))
    virtinst(tap, Path(tmp), address, device)
    chosen(tap, Path(tmp), address)
    for part in (kubevirt_matches, kubevirt_keeps, kata_finds):
        tap.diag(part.__name__)
        part(tap)
