#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend list, links and status on a fake host: what they show, and that their JSON is JSON.

    node 1, with two links (one up, one down), offers of nodes 1, 2 and 3, two mediated devices
"""
import contextlib
import json
import os
import pty
import sys
import termios
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import DLEND, LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

OFFERS = {"address", "type", "vendor", "device", "vendor_name", "device_name", "class", "lender", "lender_name", "state",
          "borrower", "borrower_name", "epoch", "link", "set", "own"}


def populate(f):
    f.pci("0000:03:00.0", driver=LENDER)
    f.offer("d0002:3b:00.0", state="held", borrower="1", epoch="12")
    f.offer("d0003:01:00.1", lender="3", vendor="0xdead", device="0xbeef", type="dlend-pci", state="quarantined")
    f.files(f.put("class/dlend_link/ntb0"), state="up", peer_node="2", version="1", session="18446744073709551615",
            window_bytes=str(1 << 30), aperture_bytes=str(1 << 31), aperture_free_bytes=str(1 << 29),
            aperture_largest_free_bytes=str(1 << 28), slots="ctrl 1 ram 4 bar 0 irq 1 p2p 12", self_test="passed",
            heartbeat_age_ms="40", last_error="")
    f.files(f.put("class/dlend_link/ntb1"), state="down", peer_node="0",
            last_error="peer speaks version 9, this node 1..1: update one of them")
    f.files(f.put("class/dlend_link/ntb0"), type="ntb")
    f.files(f.put("class/dlend_link/zloop"), type="loop", state="up", peer_node="1", window_bytes=str(1 << 46),
            aperture_free_bytes=str(1 << 46), self_test="passed", heartbeat_age_ms="1", last_error="")
    for uuid in ("11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"):
        dev = f.put(f"devices/dlend/d0002:3b:00.0/{uuid}")
        f.link(f"bus/mdev/devices/{uuid}", dev)
        if uuid.startswith("1"):
            f.files(dev / "dlend", state="failed", reason="memlock limit too low", epoch="12", p2p="one\ntwo")


def full(t):
    with Fake() as f:
        populate(f)
        offers = {o["address"]: o for o in json.loads(f.run("list --json").out)["offers"]}
        t.equal(sorted(offers), ["d0001:03:00.0", "d0002:3b:00.0", "d0003:01:00.1"], "list: offers of all nodes")
        t.ok(all(set(o) == OFFERS for o in offers.values()), "  each with every field")
        held = offers["d0002:3b:00.0"]
        t.equal((held["state"], held["borrower"], held["epoch"], held["lender"], held["own"]),
                ("held", 1, 12, 2, ""), "  who lends, who borrows, which epoch")
        t.equal((offers["d0001:03:00.0"]["own"], offers["d0001:03:00.0"]["lender"]), ("0000:03:00.0", 1),
                "  and this node's own, which is not on the bus here")
        t.ok("QEMU" in held["device_name"] or "NVM" in held["device_name"], "  names come from pci.ids", str(held))
        text = f.run("list").out
        t.ok("d0002:3b:00.0  dlend-nvme  2       held" in text and "BORROWER" in text, "list as a table", text)
        links = json.loads(f.run("--json links").out)["links"]
        t.equal([(x["name"], x["state"], x["peer_node"]) for x in links],
                [("ntb0", "up", 2), ("ntb1", "down", 0), ("zloop", "up", 1)], "links")
        t.equal([x["type"] for x in links], ["ntb", "", "loop"], "  an NTB's, and of a lender to itself")
        row = next(line for line in f.run("links").out.splitlines() if line.startswith("zloop"))
        t.ok("passed" in row and "M" not in row, "  whose size nobody needs to know", row)
        t.equal((links[0]["session"], links[0]["window_bytes"]), ("18446744073709551615", 1 << 30),
                "  a session is text, a size is a number")
        row = next(line for line in f.run("links").out.splitlines() if line.startswith("ntb0"))
        t.equal(row.split()[3:13], ["1024M", "2048M", "512M", "256M", "4", "ram,", "1", "irq,", "12", "p2p"],
                "  sizes of window and aperture, what is free of it, in one piece, and slots by kind")
        t.ok("update one of them" in f.run("links").out, "links as a table shows the last error")
        f.files(f.put("class/dlend_link/ntb1"), window_bytes="0", aperture_bytes=str(1 << 30), aperture_free_bytes="0",
                aperture_largest_free_bytes="0")
        row = next(line for line in f.run("links").out.splitlines() if line.startswith("ntb1"))
        t.equal(row.split()[3:6], ["-", "1024M", "0M"], "  of a link that was not up yet no window; nothing free is said")
        f.files(f.put("class/dlend_link/ntb1"), aperture_bytes="0")
        row = next(line for line in f.run("links").out.splitlines() if line.startswith("ntb1"))
        t.ok("0M" not in row, "  without an aperture there is nothing to say", row)
        status = json.loads(f.run("status --json").out)
        t.equal(sorted(status), ["attached", "links", "mdevs", "modules", "moves", "node", "node_name", "offers", "verb", "version"], "status holds everything")
        t.equal(status["node"], 1, "  the node's id")
        t.equal([(m["uuid"][0], m["parent"], m["state"], m["reason"]) for m in status["mdevs"]],
                [("1", "d0002:3b:00.0", "failed", "memlock limit too low")], "  mediated devices of dlend only")
        t.equal(status["mdevs"][0]["p2p"], "one\ntwo", "  all lines of an attribute")
        text = f.run("status").out
        t.ok("  p2p:\n    one\n    two\n" in text, "  as text, too", text)
        t.ok("reason: memlock limit too low" in text and "node 1" in text, "status as text", text)


def names(t):
    """Of nodes that links have heard; another node has only its number."""
    with Fake() as f:
        populate(f)
        f.files(f.put("module/dlend_core/parameters"), node_name="alpha")
        f.files(f.put("class/dlend_link/ntb0"), peer_name="007")
        offers = {o["address"]: o for o in json.loads(f.run("list --json").out)["offers"]}
        t.equal([(o["lender_name"], o["borrower_name"]) for _, o in sorted(offers.items())],
                [("alpha", ""), ("007", "alpha"), ("", "")], "list: names beside numbers")
        text = f.run("list").out
        t.ok("dlend-nvme  2 (007)    held         1 (alpha)" in text and "  3          quarantined  -" in text,
             "  in the table, too", text)
        status = json.loads(f.run("status --json").out)
        t.equal((status["node_name"], [x["peer_name"] for x in status["links"]]), ("alpha", ["007", "", ""]), "status and links")
        text = f.run("status").out
        t.ok(text.startswith("node 1 (alpha), modules:") and "ntb0   up     2 (007)" in text, "  as text", text)
        f.files(f.put("class/dlend_link/ntb0"), peer_name="\x1b[2J\"")
        t.ok("2 (?[2J\")" in f.run("links").out, "no control sequence comes out, whatever the file holds")


def moves(t):
    """Names that another host gave, in a command for a person to type."""
    with Fake() as f:
        for n, (name, typed) in enumerate((("vm1", "vm1"), ("it's; rm -rf /", "'it'\\''s; rm -rf /'"), ("-x", "-- '-x'"))):
            f.file("moving-x", f"{name}\nfar\n", f.root / "run/dlend")
            text = f.run("status").out
            t.ok(text.endswith(f"{name} was to move here from far; if that has died: dlend migrate --finish {typed}\n"),
                 f"status: a move, to be finished by a word ({n})", text)


def own_offer(t):
    """On the lender itself an offer is on the bus, too: shown once, with the lender's own word."""
    with Fake() as f:
        f.pci("0000:03:00.0", driver=LENDER)
        f.offer("d0001:03:00.0", lender="1", state="free", link="loop")
        for words, value in (("held", "2"), ("quarantined", "0")):
            (f.sys / f"bus/pci/drivers/{LENDER}/0000:03:00.0/dlend/state").write_text(f"{words}\n")
            (f.sys / f"bus/pci/drivers/{LENDER}/0000:03:00.0/dlend/borrower").write_text(f"{value}\n")
            offers = json.loads(f.run("list --json").out)["offers"]
            t.equal([(o["address"], o["own"], o["state"], o["borrower"], o["link"], o["lender"]) for o in offers],
                    [("d0001:03:00.0", "0000:03:00.0", words, int(value), "loop", 1)], f"an own offer, {words}")


def empty(t):
    with Fake(lender=False, node=None) as f:
        for words, key in (("list", "offers"), ("links", "links"), ("status", "mdevs")):
            r = f.run(f"--json {words}")
            t.equal((r.code, json.loads(r.out)[key]), (0, []), f"{words} on a host without dlend")
            t.ok("no " in f.run(words).out, "  and as text")
        t.equal(f.run("list extra").code, 2, "list takes no argument")


def hostile(t):
    """Attributes carry what peers say: quotes, control characters, bytes that are no text, no end."""
    with Fake() as f:
        dev = f.offer("d0002:3b:00.0", epoch="007", borrower="12345678901234567890")
        for value in (b'a"b\\c', b"\x01\x1b[31m", b"\xff\xfe\x80", b"x" * 5000, b"", b"\0\0", b"-", b"1e5", b"{}"):
            (dev / "state").write_bytes(value)
            (dev / "type").write_bytes(value)
            r = f.run("list --json")
            with t.case(f"JSON of {value[:12]!r}"):
                assert len(json.loads(r.out)["offers"]) == 1 and r.code == 0
            t.ok(f.run("list").code == 0 and "\x1b" not in f.run("list").out, "  and the table")
        os.mkdir(os.fsencode(f.sys / "bus/dlend/devices") + b"/d\xff\x7f")
        with t.case("JSON of an offer whose name is no text"):
            assert [o["address"] for o in json.loads(f.run("list --json").out)["offers"]] == ["d0002:3b:00.0", "d??"]
        os.rmdir(os.fsencode(f.sys / "bus/dlend/devices") + b"/d\xff\x7f")
        own = f.put("bus/mdev/devices/11111111-0000-4000-8000-000000000001/dlend")
        (own / "state").write_bytes(b"\xc3\x28\x1b\"")
        with t.case("JSON of a mediated device's attribute that is no text"):
            assert json.loads(f.run("status --json").out)["mdevs"][0]["state"] == '?(\x1b"'
        os.unlink(dev / "state")
        (dev / "state").mkdir()
        with t.case("an attribute that cannot be read"):
            assert json.loads(f.run("list --json").out)["offers"][0]["state"] == ""


def terminal(t):
    """A message is not cut, however narrow the window is, so that people can look for it."""
    with Fake() as f:
        populate(f)
        for words in ("list", "links"):
            pid, fd = pty.fork()
            if not pid:
                termios.tcsetwinsize(0, (24, 40))
                os.execv(DLEND, ["dlend", "--root", str(f.root), words])
            with open(fd, encoding="utf-8", newline="", closefd=True) as stream:
                text = "".join(lines(stream))
            os.waitpid(pid, 0)
            t.equal(text.replace("\r", ""), f.run(words).out, f"{words}: on a narrow terminal as in a file")


def lines(stream):
    """Until the other end is closed, which Linux calls an error."""
    with contextlib.suppress(OSError):
        yield from stream


with Tap() as tap:
    for part in (full, names, moves, own_offer, empty, hostile, terminal):
        tap.diag(part.__name__)
        part(tap)
