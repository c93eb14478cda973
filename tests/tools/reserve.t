#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend reserve and unreserve on a fake host: what the kernel is told, and what is kept for the next boot.

    node 1 with a disk 0000:03:00.0, alone or in one IOMMU group with a sound function
"""
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, SOUND = "0000:03:00.0", "0000:03:00.1"
UUID = "8ea3d6b2-55b4-4d0f-9e0c-0d6f7a1c2b3e"
HOUR = 3600


def lent(f, words="lend 03:00.0"):
    f.pci(DISK)
    (f.root / "etc").mkdir(exist_ok=True)
    assert f.run(words).code == 0


def attribute(f, bdf=DISK):
    """What the kernel was told: the first line, as nothing truncates the file."""
    return (f.device(bdf) / "dlend/reserved").read_text().splitlines()[0]


def records(f):
    return {p.name: p.read_text().split() for p in f.root.glob("etc/dlend/reserved/*")}


def again(f):
    """The kernel forgets it with the lease of the device: as after a reboot."""
    assert f.run("reclaim 03:00.0").code == 0
    return f.run("lend 03:00.0")


def reserve(t):
    with Fake() as f:
        lent(f)
        f.files(f.put("class/dlend_link/ntb0"), state="up", peer_node="3", peer_name="gamma")
        r = f.run("reserve --for 3 03:00.0")
        t.equal((r.code, r.out), (0, f"{DISK} is reserved for node 3 (gamma)\n"), "reserve says for whom")
        t.equal((attribute(f), records(f)), ("3", {DISK: ["3"]}), "  the kernel knows it, and a record stays")
        t.equal(again(f).code, 0, "the device is lent anew")
        t.equal(attribute(f), "3", "  for the same node")
        r = f.run("--json reserve d0001:03:00.0")
        t.equal(json.loads(r.out), {"verb": "reserve", "version": 1, "device": DISK, "node": 1, "mdev": "", "until": ""}, "for this node itself, in JSON, by the fabric's name")
        t.equal((attribute(f), records(f)), ("1", {DISK: ["1"]}), "  instead of what was before")
        r = f.run("unreserve 03:00.0")
        t.equal((r.code, attribute(f), records(f)), (0, "none", {}), "unreserve: any node, and no record", )
        t.equal(f.run("unreserve 03:00.0").code, 3, "  once")
        again(f)
        t.equal(attribute(f), "none", "  also when it is lent anew")
    with Fake() as f:
        f.pci(DISK)
        r = f.run("reserve 03:00.0")
        t.ok(r.code == 3 and "is not lent" in r.err and not records(f), "only what is lent can be reserved", r.err)


def by_name(t):
    with Fake() as f:
        lent(f)
        f.files(f.sys / "module/dlend_core/parameters", node_name="alpha")
        for link, node, name in (("ntb0", "3", "gamma"), ("ntb1", "3", "gamma"), ("ntb2", "4", "delta"), ("ntb3", "5", "delta"), ("ntb4", "0", ""),
                                 ("ntb5", "6", "7"), ("ntb6", "8", "b.c-d_e")):
            f.files(f.put(f"class/dlend_link/{link}"), state="up", peer_node=node, peer_name=name)
        for word, node in (("gamma", "3"), ("alpha", "1"), ("b.c-d_e", "8"), ("7", "7")):
            r = f.run(f"reserve --for {word} 03:00.0")
            t.equal((r.code, attribute(f), records(f)), (0, node, {DISK: [node]}), f"--for {word}: node {node}", r.err)
        t.equal(f.run("reserve --for gamma 03:00.0").out, f"{DISK} is reserved for node 3 (gamma)\n", "  and it says both")
        f.writes.clear()
        for word, code, why in (("beta", 3, "this node has no link to a node of that name"), ("Gamma", 3, "no link to a node"), ("2x", 3, "no link to a node"),
                                ("delta", 2, "nodes 4 and 5 have that name"), ("a/b", 2, "neither a node's number or name nor a UUID"), ("+3", 2, "neither")):
            r = f.run(f"reserve --for {word} 03:00.0")
            t.ok(r.code == code and f"--for {word}: " in r.err and why in r.err, f"--for {word}: refused", f"{r.code} {r.err}")
            t.equal((attribute(f), records(f)), ("3", {DISK: ["3"]}), "  nothing has changed")


def for_a_vm(t):
    with Fake() as f:
        lent(f)
        r = f.run(f"reserve --for {UUID.upper()} 03:00.0")
        t.equal((r.code, r.out), (0, f"{DISK} is reserved for the VM that has the mediated device {UUID}\n"), "for a VM, by the UUID of its mediated device")
        t.equal((attribute(f), records(f)), (UUID, {DISK: [UUID]}), "  the kernel knows it, and a record stays")
        t.equal((again(f).code, attribute(f)), (0, UUID), "  also when it is lent anew")
        found = f.json(f"reserve --for {UUID} --until +2h 03:00.0")
        t.equal((found["node"], found["mdev"], bool(found["until"])), (0, UUID, True), "in JSON, for a time")
        who, left = attribute(f).split()
        t.ok(who == UUID and 2 * HOUR - 60 < int(left) <= 2 * HOUR, "  so many seconds for the kernel", attribute(f))
        found = f.json("show 03:00.0")["reserved"]
        t.equal((found["node"], found["mdev"]), (0, UUID), "  show tells for which")
        t.equal((f.run("reserve --for 2 03:00.0").code, attribute(f), f.json("show 03:00.0")["reserved"]["mdev"]), (0, "2", ""), "for a node instead")
    with Fake() as f:
        f.pci(SOUND, driver="snd", pclass="0x040300")
        lent(f, "lend --group 03:00.0")
        r = f.run(f"reserve --for {UUID} 03:00.0")
        t.ok(r.code == 5 and "others of its IOMMU group are lent with it" in r.err and not records(f), "not what is lent with others", r.err)


def until(t):
    with Fake() as f:
        lent(f)
        now = time.time()
        f.run("reserve --for 2 --until +2h 03:00.0")
        node, left = attribute(f).split()
        end = int(records(f)[DISK][1])
        t.ok(node == "2" and 2 * HOUR - 60 < int(left) <= 2 * HOUR, "--until +2h: so many seconds for the kernel", attribute(f))
        t.ok(now + 2 * HOUR - 1 <= end <= now + 2 * HOUR + 60, "  and a moment in the record", str(end))
        f.file(DISK, f"2 {int(now) + HOUR}\n", f.root / "etc/dlend/reserved")
        again(f)
        t.ok(HOUR - 120 < int(attribute(f).split()[1]) <= HOUR, "lent anew: what is left of it", attribute(f))
        f.file(DISK, f"2 {int(now) - 5}\n", f.root / "etc/dlend/reserved")
        t.equal((again(f).code, attribute(f), records(f)), (0, "none", {}), "  nothing is left: any node, and no record")
        r = f.run("reserve --until 2090-12-24T18:00 03:00.0")
        t.ok(r.out.endswith(" until 2090-12-24T18:00\n"), "--until a moment", r.out + r.err)


def group(t):
    """One reservation for all that is lent together, whichever of them is named."""
    with Fake() as f:
        f.pci(SOUND, driver="snd", pclass="0x040300")
        lent(f, "lend --group 03:00.0")
        f.run("reserve --for 2 03:00.0")
        f.run("reserve --for 3 03:00.1")
        t.equal(records(f), {SOUND: ["3"]}, "the last one counts")
        t.equal((f.run("unreserve 03:00.0").code, records(f)), (0, {}), "  and any of them ends it")


def mistakes(t):
    with Fake() as f:
        lent(f)
        for text in ("", "x", "-1", "2 -5"):
            f.file(DISK, f"{text}\n", f.root / "etc/dlend/reserved")
            r = again(f)
            t.ok(r.code == 1 and "is not understood" in r.err and f.driver_of(DISK) == "dlend-lender",
                 f"a record {text!r}: it is lent, and told", r.err)
        (f.device(DISK) / "dlend/reserved").unlink()
        r = f.run("reserve 03:00.0")
        t.ok(r.code == 1 and "too old" in r.err and records(f) == {DISK: ["2", "-5"]}, "modules that do not know of it: the record is as before", r.err)
    with Fake() as f:
        lent(f)
        f.file("dlend", "", f.root / "etc")
        r = f.run("reserve 03:00.0")
        t.ok(r.code == 1 and "cannot be written" in r.err and "Nothing has changed" in r.err and attribute(f) == "none",
             "a record that cannot be kept: the kernel is not told", r.err)
    with Fake() as f:
        # the first one is lent beside another one
        f.pci(SOUND, driver="snd", pclass="0x040300")
        lent(f, "lend --group 03:00.0")
        f.run("reserve --for 3 03:00.0")
        for bdf in (DISK, SOUND):
            path = f.device(bdf) / "dlend/reserved"
            path.unlink()
            path.symlink_to("/dev/full")
        for words in ("reserve --for 4 03:00.0", "reserve --for 4 03:00.1", "unreserve 03:00.0"):
            if words.startswith("un"):
                # It can be read, and not written
                path = f.device(DISK) / "dlend/reserved"
                path.unlink()
                path.symlink_to("/proc/version")
            r = f.run(words)
            t.ok(r.code == 1 and "cannot be changed" in r.err and "lent as before" in r.err, f"{words}: the kernel refuses", r.err)
            t.equal(records(f), {DISK: ["3"]}, "  and the record is as before")
    with Fake() as f:
        lent(f)
        f.run("reserve --for 3 03:00.0")
        full = f.root / f"etc/dlend/reserved/{DISK}.new"
        full.symlink_to("/dev/full")
        r = f.run("reserve --for 4 03:00.0")
        t.ok(r.code == 1 and "cannot be written" in r.err, "a full disk", r.err)
        t.equal((attribute(f), records(f)), ("3", {DISK: ["3"]}), "  all is as before")


with Tap() as tap:
    for part in (reserve, by_name, for_a_vm, until, group, mistakes):
        tap.diag(part.__name__)
        part(tap)
