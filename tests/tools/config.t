#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""/etc/dlend.conf: what a line can be, and `dlend lend --all` with some of it failing.

    one host, node 1: two NVMe disks, a NIC, a bridge
"""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, OTHER, NIC, BRIDGE = "0000:03:00.0", "0000:04:00.0", "0000:05:00.0", "0000:02:00.0"


class Host(Fake):
    def __init__(self, text=None):
        super().__init__()
        self.pci(BRIDGE, driver="pcieport", pclass="0x060400", group="2", vendor="0x1b36", device="0x000c")
        self.pci(DISK, group="3", reset="flr bus")
        self.pci(OTHER, group="4")
        self.pci(NIC, driver="e1000e", pclass="0x020000", group="5", vendor="0x8086", device="0x10D3")
        if text is not None:
            self.file("dlend.conf", text, self.root / "etc")
        (self.root / "run").mkdir()

    def lent(self, *bdf):
        if bdf:
            super().lent(*bdf)
            return None
        return [x for x in (BRIDGE, DISK, OTHER, NIC) if self.driver_of(x) == LENDER]


def lines(t):
    for text, want in (("", []), ("# nothing\n\n   # at all\n", []), ("03:00.0\n", [DISK]), ("03:00.0", [DISK]),
                       ("0000:03:00.0 # the disk\n", [DISK]), ("\t03:00.0\treset=bus  group \r\n", [DISK]),
                       ("1b36:0010\n", [DISK, OTHER]), ("8086:10d3\n", [NIC]), ("class=01\n", [DISK, OTHER]),
                       ("class=0108\n", [DISK, OTHER]), ("class=010802\n", [DISK, OTHER]), ("class=02\n", [NIC]),
                       ("class=06\n", []), ("1b36:000c\n", []), ("dead:beef\n", []),
                       ("set libvirt-hook=on\n04:00.0\n", [OTHER]), ("03:00.0\nclass=01 reset=bus\n", [DISK, OTHER])):
        with Host(text) as f:
            r = f.run("lend --all")
            t.equal((r.code, f.lent()), (0, want), f"{text!r}")


def mistakes(t):
    for text, number, part in (("03:00.0\nxx\n", 2, "no PCI address"), ("03:00.0 colour=red\n", 1, "colour=red"),
                               ("\n\n03:00.0 clique=16\n", 3, "0 to 15"), ("03:00.0 clique=\n", 1, "0 to 15"),
                               ("03:00.0 clique=1x\n", 1, "0 to 15"), ("03:00.0 as=3b\n", 1, "bus:device.function"),
                               ("03:00.0 ids=1b36\n", 1, "ids= takes"), ("03:00.0 serial=\n", 1, "serial= takes"),
                               ("03:00.0 set=\n", 1, "set= takes a name"), ("03:00.0 set=a/b\n", 1, "set= takes a name"),
                               ("class=01 as=3b:00.0\n", 1, "by its address"), ("03:00.0 reset=\n", 1, "reset="),
                               ("class=1\n", 1, "class="), ("class=0108022\n", 1, "class="), ("class=xy\n", 1, "class="),
                               ("1b36:001\n", 1, "vendor:device"), ("set\n", 1, "no such switch"),
                               ("set libvirt-hook=maybe\n", 1, "on or off"), ("set libvirt-hook=on x\n", 1, "one switch"),
                               ("set speed=high\n", 1, "no such switch"), ("03:00.0 04:00.0\n", 1, "04:00.0")):
        with Host("04:00.0\n" + text) as f:
            r = f.run("lend --all")
            t.ok(r.code == 2 and f"dlend.conf, line {number + 1}" in r.err and part in r.err, f"{text!r}: {part}", r.err)
            t.equal(f.lent(), [], "  and nothing was lent, not even what stands before it")


def pcie_serial(f, bdf):
    """In the list of its extended capabilities, behind another one."""
    config = bytearray(4096)
    config[0x06], config[0x34], config[0x40] = 0x10, 0x40, 0x10     # a list of capabilities, and PCI Express in it
    config[0x100:0x104] = (0x14010001).to_bytes(4, "little")
    config[0x140:0x14c] = (0x00010003).to_bytes(4, "little") + (0x3344556600aabb11).to_bytes(8, "little")
    (f.device(bdf) / "config").write_bytes(config)


def identity(t):
    """What is at an address now is what the line means, or it is left alone, whatever it is."""
    lines_of = {"03:00.0 ids=1b36:0010": [DISK], "03:00.0 ids=1B36:0010 serial=S4EW-1": [DISK], "03:00.0 ids=1b36:0011": [],
                "03:00.0 serial=S4EW-2": [], "03:00.0 serial=S4EW-1 reset=bus": [DISK], "1b36:0010 serial=S4EW-1": [DISK],
                "04:00.0 serial=S4EW-1": [], "05:00.0 serial=3344556600aabb11": [NIC], "05:00.0 serial=3344556600aabb12": [],
                "05:00.0 ids=8086:10d3 serial=3344556600aabb11": [NIC], "05:00.0 ids=8086:10d4": []}
    for line, want in lines_of.items():
        with Host(line + "\n") as f:
            f.files(f.device(DISK) / "nvme/nvme0", serial="S4EW-1              ")
            pcie_serial(f, NIC)
            r = f.run("lend --all")
            t.equal((r.code, f.lent()), (0 if want and "1b36:0010 s" not in line else 1, want), f"{line!r}")
            t.ok("is not the device that line 1 means" in r.err or r.code == 0, "  the message says so", r.err)


def rounds(t):
    with Host("09:00.0\n03:00.0 reset=bus\n04:00.0\n05:00.0\n") as f:
        f.files(f.below(f.device(NIC), "net/eth1", "class/net/eth1"), flags="0x1003", carrier="1")
        r = f.run("--json lend --all")
        says = json.loads(r.out)
        t.equal((r.code, f.lent()), (1, [DISK, OTHER]), "one that is not there and one in use: the others are lent")
        t.equal([x["device"] for x in says["lent"]], [DISK, OTHER], "  JSON says which")
        t.equal([(x["device"], x["why"].split(": ")[-1][:13]) for x in says["failed"]],
                [("0000:09:00.0", "no PCI device"), (NIC, "its network i")], "  and which not, and why")
        before = list(f.writes)
        f.files(f.sys / "class/net/eth1", flags="0x1002")
        r = f.run("lend --all")
        t.equal((r.code, f.lent()), (1, [DISK, OTHER, NIC]), "again, with the obstacle gone: the rest")
        t.ok(not any(DISK in text for name, text in f.writes[len(before):] if name in ("bind", "unbind")),
             "  those that were lent are left alone")
        t.ok("eth1" not in r.err and "1 failed" in r.err, "  text counts", r.err)
    with Host("03:00.0 reset=nonsense\n") as f:
        (f.device(DISK) / "reset_method").unlink()
        (f.device(DISK) / "reset_method").symlink_to("/dev/full")
        t.ok(f.run("lend --all").code == 1 and not f.lent(), "a reset method that is refused")
    with Host() as f:
        r = f.run("lend --all")
        t.ok(r.code == 3 and "dlend.conf cannot be read" in r.err, "no file", r.err)
        f.file("mine", "04:00.0\n", f.root)
        t.equal((f.run(f"lend --config {f.root}/mine").code, f.lent()), (0, [OTHER]), "--config FILE")
        t.equal(f.run("lend --all 03:00.0").code, 2, "--all takes no device")
        t.equal(f.run("lend --all --reset bus").code, 2, "  and no attribute")


def groups(t):
    with Host("03:00.0\n") as f:
        f.pci("0000:03:00.1", driver="snd", pclass="0x040300", group="3")
        t.ok("--group" in f.run("lend --all").err and not f.lent(), "half of a group is refused")
        f.file("dlend.conf", "class=0108 group\n03:00.1\n", f.root / "etc")
        r = f.run("lend --all")
        t.equal((r.code, f.driver_of(DISK), f.driver_of("0000:03:00.1"), f.driver_of(OTHER)), (0, LENDER, LENDER, LENDER),
                "group: the whole, and no line lends it twice")


def clique(t):
    with Host("03:00.0 clique=3\n04:00.0 clique=none\n05:00.0 clique=auto\n") as f:
        r = f.run("lend --all")
        t.ok(r.code == 0 and "clique" not in r.err, "clique=", r.err)
        t.equal(sorted(value for name, value in f.writes if name == "clique"), ["3", "auto", "none"], "  is set on the lent device")
    with Host("03:00.0 clique=3\n") as f:
        f.lent = lambda *bdf: f.files(f.device(DISK) / "dlend", state="free", type="dlend-nvme", fabric_name="d0001:03:00.0")
        r = f.run("lend --all")
        t.ok(r.code == 1 and "dlend_lender is too old for it" in r.err and "is lent as" in r.out,
             "  where the kernel does not know of it: lent, and an error", r.err)


def sets(t):
    with Host("03:00.0 set=pair\n05:00.0 set=pair\n04:00.0\n") as f:
        r = f.run("lend --all")
        found = [(f.device(bdf) / "dlend/set").read_text().split()[0] for bdf in (DISK, NIC, OTHER)]
        t.equal((r.code, found), (0, ["pair", "pair", "none"]), "set= is set on the lent device", r.err)


def links(t):
    """Which node is at the other end of an NTB."""
    for text, number, part in (("link\n", 1, "PCI address"), ("link ntb0 peer=2\n", 1, "PCI address"),
                               ("link 01:00.0\n", 1, "peer=N"), ("link 01:00.0 direct=1\n", 1, "direct=on"),
                               ("link 01:00.0 peer=0\n", 1, "peer=N"),
                               ("link 01:00.0 peer=65536\n", 1, "peer=N"), ("link 01:00.0 node=2\n", 1, "peer=N"),
                               ("link 01:00.0 peer=2 peer=3\n", 1, "one link")):
        with Host("04:00.0\n" + text) as f:
            r = f.run("lend --all")
            t.ok(r.code == 2 and f"dlend.conf, line {number + 1}" in r.err and part in r.err, f"{text!r}: {part}", r.err)
    with Host("03:00.0\nlink 01:00.0 peer=7 # the long cable\n") as f:
        r = f.run("lend --all")
        t.ok(r.code == 3 and "line 2" in r.err and "no such link" in r.err and not f.lent(),
             "a link that is not there: nothing is lent", r.err)
        f.files(f.put("class/dlend_link/0000:01:00.0"), required_peer="0")
        t.equal((f.run("lend --all").code, f.lent()), (0, [DISK]), "link 01:00.0 peer=7")
        required = (f.sys / "class/dlend_link/0000:01:00.0/required_peer").read_text().strip()
        t.equal(required, "7", "  is written to the link, before anything is lent")
    with Host("link 01:00.0 direct=on\n") as f:
        f.files(f.put("class/dlend_link/0000:01:00.0"), required_peer="0", direct_interrupts="no")
        t.equal(f.run("lend --all").code, 0, "link 01:00.0 direct=on")
        link = f.sys / "class/dlend_link/0000:01:00.0"
        t.equal([(link / name).read_text().strip() for name in ("direct_interrupts", "required_peer")], ["on", "0"],
                "  is written, and nothing else")


with Tap() as tap:
    for part in (lines, mistakes, identity, rounds, groups, clique, sets, links):
        tap.diag(part.__name__)
        part(tap)
