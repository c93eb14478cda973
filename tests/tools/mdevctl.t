#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The callout of mdevctl: by itself, as mdevctl(8) says that it is called, and under the real mdevctl.

    node 1: an offer d0002:3b:00.0 of node 2, and what each case makes of it
"""
import glob
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import DLEND, TOP, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

CALLOUT = TOP / "mdevctl.d/dlend"
UUID = "11111111-0000-4000-8000-000000000001"
OTHER = "33333333-0000-4000-8000-000000000003"
PARENT = "d0002:3b:00.0"
TYPE = "dlend-nvme"


class Host(Fake):
    """A fake host with mdevctl's folders."""

    def __init__(self):
        super().__init__()
        self.env = {**os.environ, "MDEVCTL_ENV_ROOT": str(self.root), "DLEND_TOOL": str(DLEND)}
        self.conf = self.root / "etc/mdevctl.d"
        scripts = self.root / "usr/lib/mdevctl/scripts.d"
        for path in (scripts / "callouts", scripts / "notifiers", self.conf):
            path.mkdir(parents=True)
        shutil.copy(CALLOUT, scripts / "callouts/dlend")
        self.put("bus/mdev/devices")
        self.put("class/mdev_bus")

    def parent(self, instances="1", **attributes):
        dev = self.offer(PARENT, **attributes)
        kind = dev / "mdev_supported_types" / TYPE
        self.files(kind, available_instances=instances, device_api="vfio-pci", name="a disk", description="x")
        (kind / "create").write_text("")
        self.link(f"class/mdev_bus/{PARENT}", dev)
        return dev

    def mdev(self, **settings):
        """As the kernel makes it, but for its type: so mdevctl takes it for one that is still to be made."""
        dev = self.sys / f"devices/dlend/{PARENT}/{UUID}"
        self.files(dev, **{"clique": "auto", "prepin": "bme", "lowmem": "auto", **settings})
        self.link(f"bus/mdev/devices/{UUID}", dev)
        return dev

    def complete(self, dev):
        (dev / "mdev_type").symlink_to(f"../mdev_supported_types/{TYPE}")

    def call(self, event, action, attrs=None, kind=TYPE, stdin=None, parent=PARENT):
        if stdin is None:
            stdin = json.dumps({"mdev_type": kind, "start": "auto", "attrs": attrs or []})
        return subprocess.run([CALLOUT, "-t", kind, "-e", event, "-a", action, "-s", "none", "-u", UUID, "-p", parent],
                              input=stdin, capture_output=True, text=True, env=self.env, check=False)


def first(path):
    return path.read_text().splitlines()[0]


def foreign(t):
    with Host() as f:
        for kind in ("i915-GVTg_V4_4", "vfio_ap-passthrough", "", "dlend", "xdlend-nvme"):
            r = f.call("pre", "start", kind=kind)
            t.equal((r.returncode, r.stdout, r.stderr), (2, "", ""), f"type {kind!r} is not ours")
        r = f.call("get", "capabilities", kind="mtty-1")
        t.equal(r.returncode, 2, "  nor are its capabilities")
        t.equal(f.call("get", "capabilities", parent="../x").returncode, 1, "a parent with a slash is refused")


def capabilities(t):
    with Host() as f:
        r = f.call("get", "capabilities", stdin='{"provides":{"version":2,"actions":["start"],"events":["pre"]}}')
        says = json.loads(r.stdout)["supports"]
        t.ok(r.returncode == 0 and {"start", "stop", "define", "undefine", "modify", "attributes", "capabilities"}
             <= set(says["actions"]) and {"pre", "post", "get", "live"} <= set(says["events"]), "capabilities", r.stdout)


GOOD = [{"clique": "0"}, {"clique": "15"}, {"clique": "none"}, {"clique": "auto"}, {"clique": "always"}, {"prepin": "bme"}, {"prepin": "open"}, {"lowmem": "auto"},
        {"lowmem": "2G"}, {"lowmem": "3072M"}, {"lowmem": "1m"}, {"lowmem": "4G"}, {"lowmem": "0x80000000"}]
BAD = [{"clique": "16"}, {"clique": "-1"}, {"clique": ""}, {"clique": "1x"}, {"clique": " 1"}, {"prepin": "now"},
       {"prepin": ""}, {"lowmem": "5G"}, {"lowmem": "0"}, {"lowmem": "1000"}, {"lowmem": "2GG"}, {"lowmem": "2T"},
       {"lowmem": "99999999999999999999"}, {"lowmem": "18446744073709551616M"}, {"lowmem": "1M1"}, {"colour": "red"},
       {"../remove": "1"}, {"dlend/clique": "3"}]


def checks(t):
    with Host() as f:
        f.parent()
        for action in ("define", "modify", "start"):
            r = f.call("pre", action)
            t.equal((r.returncode, r.stderr), (0, ""), f"{action} without attributes")
        for attr in GOOD:
            r = f.call("pre", "define", [attr])
            t.equal((r.returncode, r.stderr), (0, ""), f"define {attr}")
        for attr in BAD:
            results = [f.call(*what, [attr]) for what in (("pre", "define"), ("pre", "modify"), ("pre", "start"),
                                                          ("live", "modify"))]
            name = next(iter(attr))
            t.ok(all(r.returncode == 1 and name in r.stderr for r in results), f"{attr} is refused by all, with a reason",
                 results[0].stderr)
        r = f.call("pre", "define", [{"clique": "1"}, {"prepin": "open"}, {"clique": "2"}])
        t.ok(r.returncode == 1 and "twice" in r.stderr, "an attribute that is there twice", r.stderr)
        t.equal(f.call("pre", "define", [{"clique": "1"}, {"prepin": "open"}, {"lowmem": "2G"}]).returncode, 0, "all three")


def nonsense(t):
    texts = ['{', '[]', 'x', '{"attrs":[{"clique":3}]}', '{"attrs":{"clique":"3"}}', '{"attrs":[{"clique":"3"}]} x',
             '{"attrs":[{"clique":"\\q"}]}', '{"attrs":[{"clique"', '{"a":' + '[' * 3000 + ']' * 3000 + '}',
             '{"attrs":[{"clique":"' + 'x' * 1000 + '"}]}', '{"attrs":[{"clique":"1',
             '{"attrs":[{"clique":"\\u00', '{"attrs":[{"clique":"3","clique":"4"}]}', '{"attrs":[],"attrs":[]}',
             '{"attrs":["clique"]}', '{"attrs":[{"' + 'x' * 256 + '":"1"}]}', '{"a":1.2.3}',
             '{"attrs":[{"clique":"\\u0000"}]}']
    with Host() as f:
        f.parent()
        for text in texts:
            r = f.call("pre", "define", stdin=text)
            t.ok(r.returncode == 1 and "not understood" in r.stderr, f"refused: {text[:40]}", f"{r.returncode} {r.stderr}")
        for text in ("", "\n", '{"mdev_type":"dlend-nvme","start":"manual"}', '{"x":{"y":[1,true,null,"\\n"]},"attrs":null}',
                     '{ "attrs" : [ { "clique" : "3" } ] , "z" : -1.5e3 }',
                     '{"a":' + '[' * 100 + ']' * 100 + '}', '{"attrs":[{"clique":"\\u0033"}]}'):
            r = f.call("pre", "define", stdin=text)
            t.equal((r.returncode, r.stderr), (0, ""), f"understood: {text[:60]!r}")


def not_to_be_had(t):
    def refused(f, name, *parts):
        r = f.call("pre", "start")
        t.ok(r.returncode == 1 and all(p in r.stderr for p in parts), name, f"{r.returncode} {r.stderr}")
        t.equal(f.call("pre", "define").returncode, 0, "  which is no reason against defining it")

    with Host() as f:
        refused(f, "no such offer", PARENT, "no node offers it")
    for name, attributes, parts in (
            ("held elsewhere", {"state": "held", "borrower": "3", "instances": "0"}, ["node 3 has it", "reclaim"]),
            ("held by this node", {"state": "held", "borrower": "1", "instances": "0"}, ["node 1 has it (this one)"]),
            ("quarantined", {"state": "quarantined", "instances": "0"}, ["quarantined on node 2"]),
            ("link down", {"state": "gone", "link": "down", "instances": "0"}, ["link to its lender, node 2, is down"]),
            ("attached here", {"attached": PARENT, "instances": "0"}, ["attached to this host itself", f"dlend detach {PARENT}"]),
            ("reserved for another VM", {"state": "reserved", "reserved": OTHER}, [f"reserved for the VM that has the mediated device {OTHER}", "unreserve"]),
            ("reserved for a node", {"state": "reserved", "borrower": "3", "reserved": "none"}, ["reserved for node 3"]),
            ("an mdev of it here", {"instances": "0"}, ["made a mediated device of it already"])):
        with Host() as f:
            f.parent(**attributes)
            refused(f, name, *parts)
    with Host() as f:
        f.parent()
        r = f.call("pre", "start", kind="dlend-gpu")
        t.ok(r.returncode == 1 and "its type is dlend-nvme" in r.stderr, "of another type", r.stderr)
    with Host() as f:
        f.parent(state="held", borrower="3", instances="1")
        r = f.call("pre", "start")
        t.equal((r.returncode, r.stderr), (0, ""), "held by a node whose VM moves to here: not refused")
    with Host() as f:
        f.parent(state="reserved", reserved=UUID)
        r = f.call("pre", "start")
        t.equal((r.returncode, r.stderr), (0, ""), "reserved for the VM whose it is")
    with Host() as f:
        f.parent(state="returning")
        r = f.call("pre", "start")
        t.equal((r.returncode, r.stderr), (0, ""), "reset after its last lease: not refused, the VM waits")


def attributes(t):
    with Host() as f:
        f.parent()
        dev = f.mdev()
        t.equal(json.loads(f.call("get", "attributes", stdin="").stdout), [], "a device without settings")
        f.files(dev, clique="3", lowmem="2048M")
        t.equal(json.loads(f.call("get", "attributes", stdin="").stdout), [{"clique": "3"}, {"lowmem": "2048M"}],
                "what is set can be read back")


def live(t):
    with Host() as f:
        f.parent()
        r = f.call("live", "modify", [{"clique": "4"}])
        t.ok(r.returncode == 1 and "not started" in r.stderr, "no device, no change", r.stderr)
        dev = f.mdev(clique="3")
        r = f.call("live", "modify", [{"prepin": "open"}])
        t.equal((r.returncode, first(dev / "clique"), first(dev / "prepin")), (0, "auto", "open"),
                "live: what is named is set, what is not goes back")
        os.unlink(dev / "clique")
        (dev / "clique").symlink_to("/dev/full")
        r = f.call("live", "modify", [{"clique": "5"}])
        t.ok(r.returncode == 1 and "clique stays" in r.stderr, "a refusal of the kernel's is told", r.stderr)
    with Host() as f:
        f.parent()
        dev = f.mdev(clique="3")
        os.unlink(dev / "lowmem")
        (dev / "lowmem").symlink_to("/dev/full")
        r = f.call("live", "modify", [{"prepin": "open"}, {"lowmem": "2G"}])
        t.ok(r.returncode == 1 and "lowmem stays" in r.stderr and "now" not in r.stderr, "the last of three is refused",
             r.stderr)
        t.equal((first(dev / "clique"), first(dev / "prepin")), ("3", "bme"), "  the others are what they were")


def find_mdevctl():
    """On this machine, or in a tree of the cache that test hosts boot."""
    with Host() as f:
        trees = sorted(glob.glob(os.environ.get("DLEND_CACHE", "") + "/host-*/usr/bin/mdevctl"))
        for path in (shutil.which("mdevctl"), *trees):
            if path and subprocess.run([path, "types"], env=f.env, capture_output=True, check=False).returncode == 0:
                return path
    return None


def real(t):
    tool = find_mdevctl()
    if not tool:
        with t.case("the real mdevctl"):
            t.skip("there is none that runs here")
        return

    def mdevctl(f, words):
        return subprocess.run([tool, *words.split()], capture_output=True, text=True, env=f.env, check=False)

    with Host() as f:
        f.parent()
        r = mdevctl(f, f"define -u {UUID} -p {PARENT} --type {TYPE} --auto")
        t.equal((r.returncode, r.stderr), (0, ""), "mdevctl define")
        r = mdevctl(f, f"modify -u {UUID} --addattr clique --value 99")
        t.ok(r.returncode != 0 and "clique is a number from 0 to 15" in r.stderr, "mdevctl modify: a bad value is refused",
             r.stderr)
        r = mdevctl(f, f"modify -u {UUID} --addattr clique --value 9")
        t.equal((r.returncode, r.stderr), (0, ""), "  a good one is taken")
        r = mdevctl(f, f"list -d -u {UUID} --dumpjson")
        t.equal(json.loads(r.stdout)["attrs"], [{"clique": "9"}], "  and is in the definition")
        bad = f.root / "bad.json"
        bad.write_text(json.dumps({"mdev_type": TYPE, "start": "auto", "attrs": [{"prepin": "never"}]}))
        r = mdevctl(f, f"start -p {PARENT} --jsonfile {bad}")
        t.ok(r.returncode != 0 and "prepin" in r.stderr, "mdevctl start: a bad value is refused", r.stderr)
        create = f.sys / f"devices/dlend/{PARENT}/mdev_supported_types/{TYPE}/create"
        t.equal(create.read_text(), "", "  before anything is made")
    with Host() as f:
        f.parent(state="held", borrower="3", instances="0")
        r = mdevctl(f, f"start -u {UUID} -p {PARENT} --type {TYPE}")
        t.ok(r.returncode != 0 and "node 3 has it" in r.stderr, "mdevctl start says who has it", r.stderr)
        t.ok("Available instances: 0" in mdevctl(f, "types").stdout, "  and mdevctl types that there is none")
    with Host() as f:
        f.parent()
        dev = f.mdev()
        good = f.root / "good.json"
        good.write_text(json.dumps({"mdev_type": TYPE, "start": "manual", "attrs": [{"clique": "7"}, {"prepin": "open"}]}))
        r = mdevctl(f, f"start -u {UUID} -p {PARENT} --jsonfile {good}")
        t.equal((r.returncode, r.stderr), (0, ""), "mdevctl start with attributes")
        t.equal((first(dev / "clique"), first(dev / "prepin"), first(dev / "lowmem")), ("7", "open", "auto"),
                "  the device has them")
        f.complete(dev)
        r = mdevctl(f, f"list -u {UUID} --dumpjson")
        t.equal(json.loads(r.stdout)["attrs"], [{"clique": "7"}, {"prepin": "open"}], "  mdevctl list reads them back")
        r = mdevctl(f, f"define -u {UUID}")
        t.equal((r.returncode, r.stderr), (0, ""), "mdevctl define of a running device")
        saved = json.loads((f.conf / PARENT / UUID).read_text())
        t.equal(saved["attrs"], [{"clique": "7"}, {"prepin": "open"}], "  keeps what it has")
        good.write_text(json.dumps({"mdev_type": TYPE, "start": "manual", "attrs": [{"clique": "8"}]}))
        r = mdevctl(f, f"modify -u {UUID} --live --jsonfile {good}")
        t.equal((r.returncode, first(dev / "clique"), first(dev / "prepin")), (0, "8", "bme"), "mdevctl modify --live")
        r = mdevctl(f, f"undefine -u {UUID}")
        t.equal((r.returncode, (f.conf / PARENT / UUID).exists()), (0, False), "mdevctl undefine")


# The real one, and what the kernel does meanwhile
KERNEL = """#!/bin/sh
{tool} "$@" || exit
mdev={root}/sys/devices/dlend/{parent}/{uuid}
case $1 in
start) mkdir -p $mdev/dlend && echo bme >$mdev/prepin && : >$mdev/remove && ln -s ../mdev_supported_types/{kind} $mdev/mdev_type &&
	ln -s $mdev {root}/sys/bus/mdev/devices/{uuid} ;;
stop) cp $mdev/remove {root}/removed && rm -r $mdev {root}/sys/bus/mdev/devices/{uuid} ;;
esac
"""


def borrowed(t):
    """dlend borrow and return call it."""
    tool = find_mdevctl()
    if not tool:
        with t.case("dlend borrow, with the real mdevctl"):
            t.skip("there is none that runs here")
        return
    with Host() as f:
        parent = f.parent()
        f.file("mdevctl", KERNEL.format(tool=tool, root=f.root, parent=PARENT, uuid=UUID, kind=TYPE), f.root / "bin")
        (f.root / "bin/mdevctl").chmod(0o755)
        os.environ.update(PATH=f"{f.root}/bin:{os.environ['PATH']}", DLEND_TOOL=str(DLEND))
        r = f.run(f"--json borrow --uuid {UUID} {TYPE}")
        t.equal((r.code, json.loads(r.out).get("address")), (0, PARENT), "dlend borrow of a type, with the real mdevctl", r.err)
        t.equal((parent / f"mdev_supported_types/{TYPE}/create").read_text(), UUID, "  the kernel was told to make it")
        t.equal((first(parent / UUID / "prepin"), list(f.conf.iterdir())), ("open", []), "  for when QEMU opens it, and nothing is defined")
        r = f.run(f"return {UUID}")
        t.equal((r.code, (f.root / "removed").read_text()), (0, "1"), "dlend return: the kernel was told to remove it", r.err)


with Tap() as tap:
    for part in (foreign, capabilities, checks, nonsense, not_to_be_had, attributes, live, real, borrowed):
        tap.diag(part.__name__)
        part(tap)
