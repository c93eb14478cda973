#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Everybody lends and borrows at once, and the devices of one guest, from two lenders, reach each other.

    host a (node 1): edu; guests main, second ---- ab ---- host b (node 2): nvme, near, edu1, edu2; guest back
           \\------ ac ---- host c (node 3): edu, far; guest one ---- bc ---- host b

main borrows nvme and near of b, edu and far of c; second edu1 of b; one edu2 of b; back edu of a.
back's driver polls a's registers, the others' poll b's and c's: not at the same time
(tests/ntbsim/README.md, Time).
"""
import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DEBUG, EVENTS, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from peers import PAGE, Peers  # noqa: E402  pylint: disable=wrong-import-position

MAIN = {"nvme": ("b", "dlend-nvme", 0x10), "near": ("b", "dlend-gpu", 0x11),
        "edu": ("c", "dlend-pci", 0x12), "far": ("c", "dlend-gpu", 0x13)}
SINGLE = {"second": ("a", "edu1", "b"), "one": ("c", "edu2", "b"), "back": ("b", "edu", "a")}
NODE = {"a": 1, "b": 2, "c": 3}
COUNTED = ("dlend_slot_alloc", "dlend_domain_map", "dlend_window_map", "dlend_p2p", "dlend_lend_p2p")


def pattern(seed):
    """As in guest/p2p.c."""
    return bytes((seed * 31 + i * 7 + (i >> 8)) & 0xff for i in range(PAGE))


def messages(f):
    """Sent by anybody since the links are up: {type: n}."""
    found = {}
    for name in NODE:
        text = f.host(name).run(f"cat {DEBUG}/links/*:*").out
        for kind, count in re.findall(r"^msg_(\w+): sent (\d+)", text, re.M):
            found[kind] = found.get(kind, 0) + int(count)
    return found


class Cost:
    """What happens in the block, as a diagnostic: messages by type, mappings, time."""

    def __init__(self, t, f, what, borrower):
        self.t, self.f, self.what, self.borrower = t, f, what, borrower
        self.sent = {}

    def __enter__(self):
        for name in NODE:
            self.f.trace_clear(name)
        self.sent = messages(self.f)
        self.begin = time.monotonic()
        return self

    def __exit__(self, kind, error, trace):
        if kind:
            return
        wall = time.monotonic() - self.begin
        sent = {key: n - self.sent.get(key, 0) for key, n in messages(self.f).items() if n != self.sent.get(key, 0)}
        seen = {}
        for name in NODE:
            for event, _, _ in self.f.trace(name):
                if event in COUNTED:
                    seen[event] = seen.get(event, 0) + 1
        steps = [float(found.group(1)) for _, _, line in self.f.trace(self.borrower, "dlend_(vdev_step|p2p|gate):")
                 if (found := re.search(r"\s(\d+\.\d+): dlend_", line))]
        self.t.diag(f"cost of {self.what}: {sum(sent.values())} messages {sent}")
        self.t.diag(f"  traced on all hosts: {seen}")
        self.t.diag(f"  {steps[-1] - steps[0] if steps else 0:.2f} s in the borrower's kernel, {wall:.2f} s as seen from here")


class Single:
    """A guest with one edu of another host."""

    def __init__(self, f, label):
        self.f, self.label = f, label
        self.name, port, lender = SINGLE[label]
        self.address = f.lend(lender, port)
        self.uuid = f.mdev(self.name, self.address, "dlend-pci")
        self.g = None

    def start(self):
        return self.f.guest(self.name, self.label, wait=False, modules=(), memory="128M",
                            devices=[self.f.device(self.uuid, ",addr=0x10")], tools=("programs",))

    def transfer(self, seed):
        """RAM to the device and back, compared there; as a job."""
        d = "0000:00:10.0"
        return self.g.spawn(f"set -e; echo 1 >/sys/bus/pci/devices/{d}/enable; p2p on {d}; p2p load {d} {seed}; "
                            f"p2p store {d} {seed}")


def enough(t, job, what):
    result = job.wait(120, check=False)
    t.equal((result.status, result.out.split()), (0, ["ok"] * 3), what)


def singles(t, f, guests):
    """One at first, whose cost is compared with four devices'; two at once from one lender; then the other way."""
    with Cost(t, f, "one device, one lender", "a"):
        enough(t, guests["second"].transfer(5), "a second guest of a, by another device of b: data are right")
    jobs = [guests[label].transfer(seed) for label, seed in (("second", 6), ("one", 7))]
    for job, what in zip(jobs, ("guests of a", "and of c at once use b's devices")):
        enough(t, job, what)
    enough(t, guests["back"].transfer(8), "and b, which lends to both, has a device of a")
    for label, guest in guests.items():
        t.equal(f.lender_state(guest.address)[:2], ("held", str(NODE[guest.name])), f"{label} has its device")


def mapped(t, b):
    """All four of main, from two lenders: each reaches all BARs of the others."""
    with Cost(t, b.f, "four devices, two lenders", "a"):
        b.enable()
        b.wait_mapped()
    reach = {name: b.reach(name) for name in MAIN}
    bars = {name: {bar for (target, bar) in reach["edu" if name != "edu" else "far"] if target == name} for name in MAIN}
    b.t.diag(f"peer-to-peer mappings: {sum(len(r) for r in reach.values())}, of BARs {bars}")
    t.ok(all(bars.values()), "every device has BARs to be reached", str(bars))
    for name in MAIN:
        want = {(target, bar): "same-lender" if b.where[target] == b.where[name] else "lender-link"
                for target in MAIN if target != name for bar in bars[target]}
        t.equal({key: way for key, (_, way, _) in reach[name].items()}, want, f"{name} reaches the three others")
    topology = json.loads(b.f.dlend("a", "topology --json").out)
    t.equal(sorted((r["from"], r["to"], r["bar"], int(r["address"], 0), r["mapped"]) for r in topology["p2p"]),
            sorted((b.address[name], b.address[target], bar, at, True)
                   for name in MAIN for (target, bar), (at, _, _) in reach[name].items()),
            "dlend topology shows the same")
    return bars


def pinned_once(t, b):
    """The guest's RAM is pinned once for each lender, whichever of its two devices did it."""
    stats = {name: b.f.stats("a", b.uuid[name]) for name in MAIN}
    for lender in sorted(set(b.where.values())):
        two = [stats[name] for name in MAIN if b.where[name] == lender]
        t.equal([st["sharers"] for st in two], [2, 2], f"the two devices of {lender} share the guest's RAM")
        t.equal(sum(st["own_bytes"] for st in two), two[0]["pinned_bytes"], "which is pinned once for both")


def shares(t, b, bars):
    """dlend status: what the windows of b are used for, and what is left."""
    f = b.f
    links = {link["peer_node"]: link for link in json.loads(f.dlend("b", "status --json").out)["links"]
             if link["type"] == "ntb"}
    slots = {peer: dict(zip(link["slots"].split()[::2], map(int, link["slots"].split()[1::2])))
             for peer, link in links.items()}
    t.equal((slots[1]["bar"], slots[3]["bar"]), (len(bars["nvme"]) + len(bars["near"]) + 1, 1),
            "b's window to a: BARs of main's devices and of second's; to c: of one's", str(slots))
    t.equal((slots[1]["p2p"], slots[3]["p2p"]), (0, len(bars["nvme"]) + len(bars["near"])),
            "and those that c's devices reach, once however many these are")
    t.ok(slots[1]["ram"] > 0 and slots[1]["irq"] > 0, "b's window to a: memory and interrupts of back, which b borrows for")
    for link in links.values():
        sizes = [link[key] for key in ("aperture_largest_free_bytes", "aperture_free_bytes", "aperture_bytes")]
        t.ok(0 < sizes[0] <= sizes[1] < sizes[2], f"to node {link['peer_node']}: size, free, largest free", str(sizes))
    rows = f.dlend("b", "status").out.splitlines()
    t.ok(any(re.match(r"LINK .* APERTURE +FREE +LARGEST +SLOTS ", row) for row in rows) and
         any(f"{slots[3]['p2p']} p2p" in row for row in rows), "as text, too", "\n".join(rows))


def edu_to_near(t, b, seed, what):
    at = b.bar("near")
    b.p2p("load", b.bdf("edu"), seed)
    b.windows_used(b.counted("out", b.bdf("edu"), at), {("bc", "b")}, f"{what}: c's edu writes to b's near over bc alone")
    t.equal(b.p2p("check", at, seed, check=False), "ok", f"{what}: byte for byte")


def disk(t, b):
    """NVMe commands whose PRPs are BARs of other devices; the disk's image is looked at from outside."""
    image = b.c.host("b").disk_file("nvme")
    for target, busy, lba in (("far", {("bc", "a")}, 64), ("near", set(), 128)):
        at = b.bar(target)
        b.p2p("fill", at, lba)
        b.windows_used(b.counted("write", b.bdf("nvme"), at, lba, tool="prp"), busy,
                       f"b's NVMe reads {target} by way of {sorted(busy)}, only")
        with open(image, "rb") as file:
            data = os.pread(file.fileno(), PAGE, lba * 512)
        t.equal(data, pattern(lba), f"and has what was in {target}'s memory on its disk, byte for byte")
        with open(image, "r+b") as file:
            os.pwrite(file.fileno(), pattern(lba + 1), lba * 512)
        b.windows_used(b.counted("read", b.bdf("nvme"), at, lba, tool="prp"), busy, f"it writes to {target} by the same")
        t.equal(b.p2p("check", at, lba + 1, check=False), "ok", f"and {target} has what is on the disk, byte for byte")


def together(t, c, f):
    b = Peers(t, c, f, "a", MAIN)
    guests = {label: Single(f, label) for label in SINGLE}
    free = {name: f.free(name) for name in NODE}
    with contextlib.ExitStack() as stack:
        for guest in guests.values():
            guest.g = stack.enter_context(guest.start())
        for guest in guests.values():
            guest.g.wait_ready(240)
        b.g = stack.enter_context(f.guest("a", "main", modules=(), memory="160M", devices=b.devices(),
                                          tools=("programs",)))
        with t.case("guests with one device"):
            singles(t, f, guests)
        with t.case("a guest with four"):
            bars = mapped(t, b)
            pinned_once(t, b)
            shares(t, b, bars)
        with t.case("from lender to lender"):
            edu_to_near(t, b, 11, "all together")
        with t.case("a disk and other devices' memory"):
            disk(t, b)
        with t.case("others leave"):
            guests["second"].g.kill()
            f.wait_state("a", guests["second"].address, "free")
            edu_to_near(t, b, 12, "second is gone")
            enough(t, guests["one"].transfer(9), "which one, on c, does not notice either")
    for address in (*b.address.values(), *(guest.address for guest in guests.values())):
        for name in NODE:
            f.wait_state(name, address, "free")
    for name in NODE:
        t.equal(f.wait_free(name, free[name]), free[name], f"all windows of host {name} are free again")


def main():
    with Tap() as t, Cluster("many-hosts.toml", tap=t) as c:
        f = Fabric(c)
        # Seven QEMUs on two processors: a host may stand still for a while.
        f.up(timeout=150)
        for name in NODE:
            c.host(name).run(f"echo 0 >{EVENTS}/dlend_pin/enable")     # looks for memory are many
        together(t, c, f)
        for name in NODE:
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
