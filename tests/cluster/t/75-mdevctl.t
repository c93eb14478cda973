#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""mdevctl as Debian has it, under systemd and udev: definitions, attributes, what cannot be had, autostart.

    host a (node 1, systemd): mdevctl ---- ab ---- host b (node 2): nvme0, nvme1, a guest of its own
"""
import json
import sys
import uuid as uuids
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

KIND = "dlend-nvme"
MDEVS = "/sys/bus/mdev/devices"


class Mdevctl:
    """mdevctl on a host, and what is to be seen of it."""

    def __init__(self, host):
        self.host = host

    def __call__(self, words, check=True, timeout=60):
        return self.host.run(f"mdevctl {words}", check=check, timeout=timeout)

    def json(self, words):
        return json.loads(self(f"{words} --dumpjson").out)

    def instances(self, parent):
        """available_instances of the one type of a parent."""
        for entry in self.json(f"types -p {parent}"):
            for kind, values in next(iter(entry.values()), [{}])[0].items() if entry else ():
                return kind, values["available_instances"]
        return None

    def defined(self, uuid):
        """The definition as mdevctl keeps it."""
        return self.json(f"list -d -u {uuid}")

    def running(self, uuid):
        return self.host.run(f"[ -e {MDEVS}/{uuid} ]", check=False).status == 0

    def setting(self, uuid, name):
        return self.host.run(f"cat {MDEVS}/{uuid}/{name}").out.strip()


def refused(t, result, name, *parts):
    """It failed, said all that, and nothing else that would hide it."""
    t.ok(result.status and all(part in result.out for part in parts), name, f"{result.status}: {result.out}")


def types(t, m, parent):
    shown = m("types").out
    t.ok(all(text in shown for text in (parent, KIND, "Available instances: 1", "Device API: vfio-pci", "Name: dlend NVMe disk\n")),
         "mdevctl types shows the offer", shown)
    t.equal(m.instances(parent), (KIND, 1), "and so does types --dumpjson")


def definitions(t, m, parent):
    uuid = str(uuids.uuid4())
    m(f"define -u {uuid} -p {parent} --type {KIND}")
    t.equal(m.defined(uuid), {"mdev_type": KIND, "start": "manual", "attrs": []}, "define")
    t.ok(not m.running(uuid), "which starts nothing")
    for words, text in (("--addattr clique --value 16", "clique is a number from 0 to 15"),
                        ("--addattr prepin --value now", "prepin is bme"),
                        ("--addattr lowmem --value 5G", "lowmem is auto"),
                        ("--addattr colour --value red", '"colour" is no attribute')):
        refused(t, m(f"modify -u {uuid} {words}", check=False), f"modify {words} is refused", text)
    t.equal(m.defined(uuid)["attrs"], [], "and changed nothing")
    for name, value in (("clique", "3"), ("prepin", "open"), ("lowmem", "2G")):
        m(f"modify -u {uuid} --addattr {name} --value {value}")
    t.equal(m.defined(uuid)["attrs"], [{"clique": "3"}, {"prepin": "open"}, {"lowmem": "2G"}],
            "good ones are taken")
    return uuid


def starts(t, m, parent, uuid):
    m(f"start -u {uuid}")
    t.ok(m.running(uuid), "start")
    t.equal([m.setting(uuid, n) for n in ("clique", "prepin", "lowmem")], ["3", "open", "2048M"],
            "the device is as its definition says")
    t.equal(m.json("list"), [{parent: [{uuid: {"mdev_type": KIND, "start": "manual", "attrs": [
        {"clique": "3"}, {"prepin": "open"}, {"lowmem": "2048M"}]}}]}], "list --dumpjson reads that back")
    t.equal(m.instances(parent), (KIND, 0), "the offer has no instance left")
    refused(t, m(f"start -u {uuids.uuid4()} -p {parent} --type {KIND}", check=False),
            "a second one is refused, with the reason", "made a mediated device of it already")
    refused(t, m(f"start -u {uuid}", check=False), "and so is the same once more")


def live(t, m, uuid):
    def modify(clique, **options):
        definition = {"mdev_type": KIND, "start": "manual", "attrs": [{"clique": clique}]}
        m.host.run("cat >/tmp/live.json", input=json.dumps(definition))
        return m(f"modify -u {uuid} --live --jsonfile /tmp/live.json", **options)

    modify("none")
    t.equal([m.setting(uuid, n) for n in ("clique", "prepin", "lowmem")], ["none", "bme", "auto"],
            "modify --live changes the device")
    t.equal(m.defined(uuid)["attrs"][0], {"clique": "3"}, "and not its definition")
    refused(t, modify("99", check=False), "a bad value is refused there, too", "clique is a number")
    t.equal(m.setting(uuid, "clique"), "none", "and the device is as it was")


def stops(t, m, parent, uuid):
    m(f"stop -u {uuid}")
    t.ok(not m.running(uuid), "stop")
    t.equal(m.instances(parent), (KIND, 1), "the offer has an instance again")
    m(f"undefine -u {uuid}")
    t.equal(m.json("list -d"), [], "undefine")


def wrong(t, m, parent):
    """A parent or a type that is not there."""
    nobody = "d0002:7f:00.0"
    refused(t, m(f"start -u {uuids.uuid4()} -p {nobody} --type {KIND}", check=False), "a parent that nobody offers",
            nobody, "no node offers it")
    refused(t, m(f"start -u {uuids.uuid4()} -p {parent} --type dlend-gpu", check=False), "another type",
            "its type is dlend-nvme, not dlend-gpu")
    t.equal(m.json("list"), [], "nothing was made")


def held(t, f, m, parent):
    """The lender's own guest has it."""
    own = f.mdev("b", parent, KIND)
    with f.guest("b", "own", devices=[f.device(own)]) as g:
        g.run("dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1", timeout=120)
        f.wait_state("a", parent, "held")
        t.equal(m.instances(parent), (KIND, 0), "held elsewhere: no instance")
        refused(t, m(f"start -u {uuids.uuid4()} -p {parent} --type {KIND}", check=False), "and start says who has it",
                "node 2 (b) has it")
    f.mdev_stop("b", own)
    f.wait_state("a", parent, "free")
    t.equal(m.instances(parent), (KIND, 1), "free again: one instance")


def autostart(t, c, f, m, parent):
    """At boot, when its link comes up, when it is offered again."""
    a = m.host
    uuid = str(uuids.uuid4())
    m(f"define -u {uuid} -p {parent} --type {KIND}")
    m(f"modify -u {uuid} --addattr clique --value 5")
    m(f"modify -u {uuid} --auto")
    t.equal(m.defined(uuid)["start"], "auto", "modify --auto")
    t.ok(not m.running(uuid), "which starts nothing by itself")
    a.run("sync")
    c.link("ab").command("down")
    a.reset()
    f.load("a")
    a.run("udevadm settle", timeout=150)
    t.ok(not m.running(uuid), "host a boots while the link is down: there is nothing to start")
    refused(t, m(f"start -u {uuid}", check=False), "and starting it says why", parent)
    own = f.mdev("b", parent, KIND)
    with f.guest("b", "first", devices=[f.device(own)], wait=False, kernel=False, memory="64M"):
        f.wait_state("b", parent, "held", 90)
        c.link("ab").command("up")
        f.wait_state("a", parent, "held", 60)
        a.wait_for("udevadm settle && [ -z \"$(systemctl list-jobs --no-legend 'dlend-*')\" ]")
        t.ok(not m.running(uuid), "the link comes up, and another guest has the device: not yet")
    a.wait_for(f"[ -e {MDEVS}/{uuid} ]", 60)
    t.passed("it is free: it starts")
    f.mdev_stop("b", own)
    a.wait_for(f"grep -qx 5 {MDEVS}/{uuid}/clique", 10)
    t.passed("as it is defined")
    t.equal(a.run(f"systemctl show -p Result --value 'dlend-mdevs@{parent}.service'").out.strip(), "success",
            "systemd says that all went well")
    return uuid


def comes_back(t, c, f, m, parent, uuid):
    """What was started stays started while its device is away, and does not come back if it was stopped."""
    a, b = m.host, c.host("b")
    c.link("ab").command("down")
    a.wait_for(f"grep -qx down /sys/bus/dlend/devices/{parent}/link", 60)
    t.ok(m.running(uuid), "the link goes down: what was started stays")
    t.equal(m.instances(parent), (KIND, 0), "and there is no instance")
    m(f"stop -u {uuid}")
    refused(t, m(f"start -u {uuid}", check=False), "stopped now, it does not start, for that reason",
            "the link to its lender, node 2, is down")
    c.link("ab").command("up")
    f.wait_state("a", parent, "free")
    a.run("udevadm settle", timeout=150)
    t.ok(not m.running(uuid), "the link comes up: what was stopped by hand stays so")
    f.dlend("b", f"reclaim {b.bdf('nvme0')}", timeout=120)
    a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{parent} ]", 30)
    refused(t, m(f"start -u {uuid}", check=False), "its lender takes it back: start says that nobody offers it",
            "no node offers it")
    f.lend("b", "nvme0", wait=["a"])
    a.wait_for(f"[ -e {MDEVS}/{uuid} ]", 60)
    t.passed("it lends it again: the definition starts")
    f.dlend("b", f"reclaim {b.bdf('nvme0')}", timeout=120)
    f.wait_state("a", parent, "gone")
    t.ok(m.running(uuid), "taken back while there is an mdev: that stays")
    t.equal(m.instances(parent), (KIND, 0), "without an instance")
    f.lend("b", "nvme0", wait=["a"])
    t.ok(m.running(uuid), "and is that of the device when this is lent again")
    m(f"stop -u {uuid}")
    m(f"undefine -u {uuid}")


def main():
    with Tap() as t, Cluster("mdevctl-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a = c.host("a")
        a.install()
        f.up()
        m = Mdevctl(a)
        disk, other = f.lend("b", "nvme0"), f.lend("b", "nvme1")
        with t.case("types"):
            types(t, m, disk)
        with t.case("a definition"):
            uuid = definitions(t, m, disk)
        with t.case("start"):
            starts(t, m, disk, uuid)
        with t.case("modify --live"):
            live(t, m, uuid)
        with t.case("stop, undefine"):
            stops(t, m, disk, uuid)
        with t.case("what is not there"):
            wrong(t, m, disk)
        with t.case("held elsewhere"):
            held(t, f, m, other)
        with t.case("autostart"):
            uuid = autostart(t, c, f, m, disk)
        with t.case("offers and links that come and go"):
            comes_back(t, c, f, m, disk, uuid)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
