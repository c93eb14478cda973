#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend stats on a fake host: the numbers of dlend metrics, as tables, and how they change.

    node 1 with a link to node 2 and to itself; a lent device; two mediated devices; an attached device
What each number means, metrics.t shows: this one compares with the output of dlend metrics.
"""
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from documents import check_output  # noqa: E402  pylint: disable=wrong-import-position
from expose import parse  # noqa: E402  pylint: disable=wrong-import-position
from fake import DLEND, LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

NTB, DISK = "0000:05:00.0", "0000:03:00.0"
LENT, USED, OTHER, ATTACHED = "d0001:03:00.0", "d0002:3b:00.0", "d0002:3c:00.0", "d0003:01:00.0"
U1, U2 = (f"{n}1111111-0000-4000-8000-00000000000a" for n in "12")
LINK = """msg_OFFER: sent 3 received 4
msg_P2P_MAP: sent 2 received {received}
dropped_bad: 1
dropped_late: 2
sessions: 8
irq_fired: {fired}
mapped_bytes: 2147483648
"""
PATIENCE_S = 30


def numbers(f, received=12, fired=9, total=1007, borrows=10):
    debug = f.sys / "kernel/debug/dlend"
    f.file(NTB, LINK.format(received=received, fired=fired), debug / "links")
    f.file("irqs", f"total {total}\nvectors 9\n", debug / f"lender/{DISK}")
    f.file("stats", f"borrows {borrows}\ngate_wait_longest_us 1500042\n", debug / f"mdev/{U1}")
    f.file(ATTACHED, "messages: 31\nvectors: 5\nmapped_bytes: 65536\n", debug / "native")


def populate(f):
    f.files(f.put(f"class/dlend_link/{NTB}"), type="ntb", state="up", peer_node="2", heartbeat_age_ms="1040", slots="ctrl 1 ram 4", window_bytes="4096")
    f.files(f.put("class/dlend_link/loop"), type="loop", state="up", peer_node="1", heartbeat_age_ms="1", slots="ctrl 1 ram 0")
    f.pci(DISK, driver=LENDER)
    f.files(f.device(DISK) / "dlend", state="held", borrower="2", epoch="7")
    for address, uuid in ((USED, U1), (OTHER, U2)):
        f.offer(address, state="held", borrower="1")
        dev = f.put(f"devices/dlend/{address}/{uuid}")
        f.link(f"bus/mdev/devices/{uuid}", dev)
        f.files(dev / "dlend", state="running", epoch="12", memory=str(1 << 31), memory_sharers="1")
    f.offer(ATTACHED, lender="3", state="held", borrower="1", attached="d003:01:00.0")
    numbers(f)


def stats(f, words=""):
    return f.json(f"stats {words}")


def same(t):
    """Each number of dlend metrics that belongs to a thing is there; those with one more label are added."""
    with Fake() as f:
        populate(f)
        found = stats(f)
        t.equal([(kind, len(found[kind])) for kind in ("links", "lent", "mdevs", "attached")],
                [("links", 2), ("lent", 1), ("mdevs", 2), ("attached", 1)], "each thing once")
        t.equal(found["seconds"], None, "since they began to be counted")
        told = {(name, thing.get("link") or thing["address"]): value for kind in ("links", "lent", "mdevs", "attached")
                for thing in found[kind] for name, value in thing["numbers"].items()}
        want = {}
        for name, samples in parse(f.run("metrics").out).items():
            for labels, value in samples.items():
                labels = dict(labels)
                who = labels.get("link") or labels.get("address")
                if who and "state" not in labels and not name.endswith("_info") and name != "dlend_attach_failed":
                    want[name, who] = want.get((name, who), 0) + value
        t.equal(told, want, "the numbers of dlend metrics")
        t.equal((told["dlend_link_messages_received_total", NTB], told["dlend_link_messages_dropped_total", NTB]), (16, 3), "  messages of all types are added")
        t.equal((found["mdevs"][0]["uuid"], found["lent"][0]["device"], found["links"][1]["type"]), (U1, DISK, "loop"), "  with their names")


def tables(t):
    with Fake() as f:
        populate(f)
        text = f.run("stats").out
        rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
        head, link = (rows[name] for name in ("LINK", NTB))
        t.equal({name: dict(zip(head, link))[name] for name in ("SESSIONS", "SENT", "RECEIVED", "DROPPED", "RUNG", "DELIVERED", "MAPPED")},
                {"SESSIONS": "8", "SENT": "5", "RECEIVED": "16", "DROPPED": "3", "RUNG": "9", "DELIVERED": "-", "MAPPED": "2048M"}, "links; a dash is not known", )
        t.ok(any(line.startswith("LENT ") and "INTERRUPTS" in line for line in text.splitlines()) and "1007" in rows[LENT], "lent devices", text)
        t.ok(U1 in rows[USED] and "10" in rows[USED] and "BORROWS" in text, "mediated devices", text)
        t.ok("31" in rows[ATTACHED] and "MESSAGES" in text, "attached devices", text)
        for name, want in ((NTB, {NTB}), ("05:00.0", {NTB}), ("loop", {"loop"}), (DISK, {LENT}), (LENT, {LENT}), (U2.upper(), {OTHER}), (f"{USED} loop", {USED, "loop"})):
            rows = {line.split()[0] for line in f.run(f"stats {name}").out.splitlines() if line and not line[0].isupper()}
            t.equal(rows, want, f"only {name}")
        for name in ("0000:09:00.0", "d0009:01:00.0", f"{USED} 09:00.0"):
            r = f.run(f"stats {name}")
            t.ok(r.code == 3 and "there are no numbers of it" in r.err and not r.out, f"{name}: there is no such thing", r.err)
    with Fake(lender=False, node=None) as f:
        r = f.run("stats")
        t.equal((r.code, r.out), (0, "no links and no devices\n"), "a host without dlend")


def no_debugfs(t):
    with Fake() as f:
        populate(f)
        subprocess.run(["rm", "-r", f.sys / "kernel/debug"], check=True)
        r = f.run("stats")
        t.ok(r.code == 0 and "debugfs" in r.err and "MAPPED" in r.out, "without debugfs: it says so", r.err)


class Stats:
    """The command with --interval, and what it prints."""

    def __init__(self, f, *words):
        command = [DLEND, "--root", f.root, "--json", "stats", "--interval", "0.2", *words]
        self.command = command
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()

    def said(self):
        line = self.process.stdout.readline()
        check_output(self.command, line)
        found = json.loads(line)
        return found, {name: value for thing in found["links"] for name, value in thing["numbers"].items()}

    def until(self, name, value):
        """Prints go on meanwhile."""
        while True:
            found, told = self.said()
            if told[name] == value:
                return found, told


def interval(t):
    with Fake() as f:
        populate(f)
        with Stats(f, NTB) as s:
            found, told = s.said()
            t.equal((found["seconds"], told["dlend_link_doorbells_rung_total"], told["dlend_link_sessions_total"]), (None, 9, 8), "first: since they began")
            numbers(f, fired=109)
            found, told = s.until("dlend_link_doorbells_rung_total", 100)
            t.ok(0 < found["seconds"] < PATIENCE_S, "then: since the line before", str(found["seconds"]))
            t.equal((told["dlend_link_sessions_total"], told["dlend_link_mapped_bytes"]), (0, 1 << 31), "  of what only grows, not of sizes")
            numbers(f, fired=3)
            found, told = s.until("dlend_link_doorbells_rung_total", 3)
            t.equal((told["dlend_link_sessions_total"], [*found["lent"], *found["mdevs"]]), (0, []), "what began anew counts from there")
            subprocess.run(["rm", "-r", f.sys / f"class/dlend_link/{NTB}"], check=True)
            while found["links"]:
                found, told = s.said()
            t.equal(told, {}, "what is gone has no numbers")
        r = f.run("stats --interval 0.05 --count 3 loop")
        t.equal((r.code, [line.split()[0] for line in r.out.splitlines() if line]), (0, ["LINK", "loop"] * 3), "--count 3: it ends after three", )


with Tap() as tap:
    for part in (same, tables, no_debugfs, interval):
        tap.diag(part.__name__)
        part(tap)
