#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend cdi on a fake host: what it lists, and that it is what the Container Device Interface asks for.

check() below is the specification of 1.1.0, as far as it goes for what can be in such a file, in our own words.
"""
import copy
import json
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fabric import UUIDS, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

A, B = "d0002:04:00.0", "d0003:01:00.0"
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


def need(condition, what):
    if not condition:
        raise ValueError(what)


def only(table, required, optional, what):
    need(isinstance(table, dict), f"{what} is no object")
    need(required <= table.keys(), f"{what} lacks {required - table.keys()}")
    need(table.keys() <= required | optional, f"{what} has {table.keys() - required - optional}")


def annotations(table, what):
    only(table, set(), set(table), what)
    for key, value in table.items():
        prefix, _, name = key.rpartition("/")
        need(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", name), f"key {key}")
        need(not prefix or re.fullmatch(rf"{LABEL}(\.{LABEL})*", prefix), f"prefix of {key}")
        need(isinstance(value, str), f"{key} is no string")


def device_node(node):
    only(node, {"path"}, {"hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}, "a node")
    need(node["path"].startswith("/"), "its path")
    need(node.get("hostPath", "/").startswith("/"), "its path on the host")
    need(re.fullmatch(r"[rwm]*", node.get("permissions", "")), "its permissions")
    need(node.get("type", "c") in ("b", "c", "u", "p"), "its type")


def edits(table):
    only(table, set(), {"env", "deviceNodes", "mounts", "hooks", "additionalGids", "intelRdt", "netDevices"}, "edits")
    need(table, "edits that edit nothing")
    for node in table.get("deviceNodes", []):
        device_node(node)


def check(spec):
    """Raises ValueError."""
    only(spec, {"cdiVersion", "kind", "devices"}, {"annotations", "containerEdits"}, "the file")
    need(spec["cdiVersion"] in ("0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"), "a released version with annotations")
    vendor, slash, name = spec["kind"].partition("/")
    need(slash and len(vendor) <= 253 and re.fullmatch(rf"{LABEL}(\.{LABEL})*", vendor), "vendor")
    need(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", name), "class")
    annotations(spec.get("annotations", {}), "annotations")
    need(isinstance(spec["devices"], list) and spec["devices"], "at least one device")
    names = [device.get("name") for device in spec["devices"]]
    need(len(set(names)) == len(names), "a name twice")
    for device in spec["devices"]:
        only(device, {"name", "containerEdits"}, {"annotations"}, "a device")
        need(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", device["name"]), "its name")
        annotations(device.get("annotations", {}), "its annotations")
        edits(device["containerEdits"])
    edits(spec.get("containerEdits", {"env": []}))


def populate(f):
    f.populate()
    f.mdev(A, clique="3", group="41", cdev="vfio7")
    f.mdev(B, group="42")


def contents(t):
    with Fabric() as f:
        populate(f)
        f.link("bus/mdev/devices/b0000000-0000-4000-8000-000000000009", f.put("devices/other/parent/mdev"))
        r = f.run("cdi")
        spec = json.loads(r.out)
        with t.case("what the specification asks for"):
            check(spec)
        t.equal((spec["cdiVersion"], spec["kind"]), ("0.6.0", "dlend.local/device"), "version and kind")
        devices = {d["name"]: d for d in spec["devices"]}
        t.equal(sorted(devices), sorted([UUIDS[A], UUIDS[B]]), "mediated devices of dlend, by UUID, and no others")
        one, two = devices[UUIDS[A]], devices[UUIDS[B]]
        t.equal(one["annotations"], {"clique-id": "3"}, "the clique, as Kata wants it: a string; no address that would be read as PCI's")
        t.ok("annotations" not in two, "  no clique, no annotation")
        t.equal([paths(one), paths(two)], [["/dev/vfio/41"], ["/dev/vfio/42"]], "one file: the group's")
        r = f.run("cdi --iommufd")
        devices = by_name(r)
        t.equal({name: paths(d) for name, d in devices.items()}, {UUIDS[A]: ["/dev/vfio/devices/vfio7"]},
                "--iommufd: the device's own, where the kernel has one")
        r = f.run("cdi --kind example.org/gpu-x")
        spec = json.loads(r.out)
        with t.case("another kind"):
            check(spec)
            assert (spec["cdiVersion"], spec["kind"]) == ("0.6.0", "example.org/gpu-x")


def by_name(r):
    spec = json.loads(r.out)
    check(spec)
    return {d["name"]: d for d in spec["devices"]}


def paths(device):
    return [n["path"] for n in device["containerEdits"]["deviceNodes"]]


def attached(t):
    with Fabric() as f:
        f.populate()
        f.files(f.sys / "devices/dlend" / A, attached="d002:04:00.0")
        f.files(f.sys / "devices/dlend" / B, attached="d003:01:00.0")
        f.pci("d002:04:00.0", driver="vfio-pci", group="44")
        f.pci("d003:01:00.0", driver="nvme", group="45")
        f.files(f.device("d002:04:00.0") / "vfio-dev/vfio9", dev="511:9")
        devices = by_name(f.run("cdi"))
        t.equal({name: paths(d) for name, d in devices.items()}, {"d002:04:00.0": ["/dev/vfio/44"]},
                "attached devices: those that vfio-pci has, by their address here")
        t.equal(devices["d002:04:00.0"]["annotations"], {"bdf": "d002:04:00.0"}, "  which is one of PCI")
        t.equal(paths(by_name(f.run("cdi --iommufd"))["d002:04:00.0"]), ["/dev/vfio/devices/vfio9"], "  --iommufd")


def pairs(t):
    with Fabric() as f:
        f.populate()
        uuids = {}
        for n, (lender, kind, clique) in enumerate(((2, "gpu", 3), (2, "gpu", 3), (3, "nic", 3), (2, "nic", 3), (2, "gpu", 4), (2, "nic", "none"),
                                                    (3, "gpu", "none"), (2, "nvme", 4))):
            address = f"d000{lender}:{0x20 + n:02x}:00.0"
            uuids[n] = f"c0000000-0000-4000-8000-{n:012x}"
            f.offer(address, lender=str(lender), type=f"dlend-{kind}")
            f.mdev(address, clique=str(clique), uuid=uuids[n], group=str(50 + n))
        devices = by_name(f.run("cdi"))
        t.equal({name: paths(d) for name, d in devices.items() if name.startswith("pair-")},
                {f"pair-{uuids[0]}": ["/dev/vfio/50", "/dev/vfio/53"], f"pair-{uuids[1]}": ["/dev/vfio/51", "/dev/vfio/52"]},
                "a GPU and a network card of one clique are a device, of the same lender if there is one")
        t.equal(devices[f"pair-{uuids[0]}"]["annotations"], {"clique-id": "3"}, "  with their clique")
        t.equal(len(devices), 10, "  and each by itself, too")


def the_check(t):
    """It can fail."""
    with Fabric() as f:
        populate(f)
        good = json.loads(f.run("cdi").out)
    def node(spec):
        return spec["devices"][0]["containerEdits"]["deviceNodes"][0]

    for name, spoil in (("no kind", lambda s: s.pop("kind")), ("empty list", lambda s: s.update(devices=[])),
                        ("unknown field", lambda s: s.update(more=1)),
                        ("old version", lambda s: s.update(cdiVersion="0.4.0")),
                        ("kind without class", lambda s: s.update(kind="dlend")),
                        ("clique as a number", lambda s: s["devices"][0]["annotations"].update({"clique-id": 3})),
                        ("name twice", lambda s: s["devices"].append(s["devices"][0])),
                        ("no edits", lambda s: s["devices"][0].pop("containerEdits")),
                        ("relative path", lambda s: node(s).update(path="x"))):
        spec = copy.deepcopy(good)
        spoil(spec)
        try:
            check(spec)
            t.ok(False, f"{name} is found")
        except ValueError:
            t.passed(f"{name} is found")


def output(t):
    with Fabric() as f:
        populate(f)
        file = f.root / "dlend.json"
        r = f.run(["cdi", "--output", str(file)])
        t.equal((r.code, r.out), (0, ""), "--output")
        with t.case("  the file"):
            check(json.loads(file.read_text()))
        t.equal(sorted(p.name for p in f.root.glob("dlend*")), ["dlend.json"], "  and no other")
        before = file.read_text()
        f.mdev("d0002:05:00.0", group="43")
        r = f.run(["cdi", "--output", str(file)], before='trap "" XFSZ; ulimit -f 0')
        t.ok(r.code == 1 and "cannot be written" in r.err, "a full disk", r.err)
        t.equal(file.read_text(), before, "  leaves what was there")
        t.equal(sorted(p.name for p in f.root.glob("dlend*")), ["dlend.json"], "  and nothing else")
        os.mkdir(f.root / "folder")
        r = f.run(["--json", "cdi", "--output", str(f.root / "folder")])
        t.ok(r.code == 2 and json.loads(r.out)["error"]["why"] == "that is no name of a file", "a folder is no file", r.out)
        r = f.run(["cdi", "--output", "/dev/full/x"])
        t.ok(r.code == 1 and "cannot be written" in r.err, "no directory", r.err)


def bad(t):
    with Fabric() as f:
        r = f.run("cdi")
        t.ok(r.code == 3 and not r.out and "at least one" in r.err, "without mediated devices there is no file", r.err)
        populate(f)
        for kind in ("x", "/x", "x/", "a..b/c", "-a/b", "a/b/c", "1a/b", "a/" + "b" * 64, "a b/c", "a/-b"):
            r = f.run(["cdi", "--kind", kind])
            t.ok(r.code == 2 and "is no kind" in r.err, f"kind {kind[:12]!r}", r.err)
        t.equal(f.run("cdi more").code, 2, "an argument")
    with Fabric() as f:
        f.populate()
        f.mdev(A, group=None)
        t.equal(f.run("cdi").code, 3, "an mdev that has no file yet is not listed")


with Tap() as tap:
    for part in (contents, attached, pairs, the_check, output, bad):
        tap.diag(part.__name__)
        part(tap)
