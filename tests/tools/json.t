#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend --json: each document says its verb and its version, and is as the schema of the verb has it.

    one host, node 1, with a disk 0000:03:00.0, that sees an offer of node 2, d0002:03:00.0, and has a mediated device of it
All other tests check what they see of --json, too: Fake.run(), World.run() and Host.run() of the emulated hosts do it.
"""
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
import jsonschema  # noqa: E402  pylint: disable=wrong-import-position
from documents import SCHEMAS, Wrong, check_document, check_output  # noqa: E402  pylint: disable=wrong-import-position
from fake import TOP, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, OFFER, UUID = "0000:03:00.0", "d0002:03:00.0", "11111111-0000-4000-8000-000000000001"
NOT_THERE = "d0009:09:00.0"
# Of each verb: a command that succeeds, where a fake host is enough for that, and one that fails; (words, members)
DONE = [(f"lend {DISK}", {"lent"}), (f"reclaim {DISK}", {"reclaimed"}), ("lend --config {empty}", {"lent", "failed"}),
        (f"attach --persistent {NOT_THERE}", {"attached"}), (f"detach --persistent {NOT_THERE}", {"detached"}),
        ("list", {"offers"}), ("links", {"links"}), ("status", {"node", "node_name", "modules", "links", "offers", "mdevs", "attached", "moves"}),
        (f"show {OFFER}", {"offer", "reserved", "link", "mdevs", "attached", "clique", "interrupts", "bars", "attach_error", "obstacle", "next"}),
        ("stats", {"seconds", "links", "lent", "mdevs", "attached"}),
        ("doctor", {"checks", "ok", "warn", "fail"}),
        ("topology", {"node", "nodes", "names", "links", "devices", "routes", "cliques", "doubts", "p2p"}),
        (f"topology --path {OFFER} memory", {"from", "to", "way", "hops", "roots", "switches", "bridges", "ntbs", "exact", "steps"})]
FAILED = ["lend 09:00.0", "reclaim 09:00.0", f"attach {NOT_THERE}", f"detach {NOT_THERE}", "list more", "links more", f"show {NOT_THERE}", "status more",
          "doctor x", "metrics more", "stats more", "watch more", "topology more", "cdi more", "libvirt-xml", "migrate vm1", "bench b",
          "reserve 09:00.0", "unreserve 09:00.0", f"borrow {NOT_THERE}", f"return {UUID[:-1]}9"]
VERBS = sorted({words.split()[0] for words in FAILED})


def host():
    f = Fake()
    f.pci(DISK)
    f.offer(OFFER)
    (f.root / "etc").mkdir()
    f.files(f.put("class/dlend_link/ntb0"), type="ntb", state="up", peer_node="2", session="4711", last_error="")
    dev = f.put(f"devices/dlend/{OFFER}/{UUID}")
    f.files(dev / "dlend", state="idle", epoch="0", memory="4096", move_to="0", clique="3")
    f.link(f"bus/mdev/devices/{UUID}", dev)
    return f


def schemas(t):
    with host() as f:
        verbs = sorted(set(re.findall(r"^  ([a-z][-a-z]+) ", f.run("--help").out, re.M)))
    t.equal(VERBS, verbs, "this test knows all verbs")
    t.equal(sorted(p.stem for p in SCHEMAS.iterdir()), sorted([*verbs, "error"]), "each has a schema, and errors have one")
    for path in sorted(SCHEMAS.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        with t.case(f"{path.name} is a schema, and names its verb"):
            schema = json.loads(text)
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
            assert path.stem == "error" or f'"verb": {{"const": "{path.stem}"}}' in text
        t.ok('"additionalProperties": false' not in text, "  a member may be added without a new version")


def each_verb(t):
    with host() as f:
        f.file("empty", "", f.root)
        for words, members in DONE:
            r = f.run(f"--json {words.format(empty=f.root / 'empty')}")
            found = json.loads(r.out)
            t.equal([*found.items()][:2], [("verb", words.split()[0]), ("version", 1)], f"{words}: begins with its verb and version", r.err)
            t.equal(set(found) - {"verb", "version"}, members, "  and is no error")
        for words in FAILED:
            found = json.loads(f.run(f"--json {words}").out)
            t.equal((found["verb"], found["version"], [*found][2:]), (words.split()[0], 1, ["error"]), f"{words}: an error, likewise")
        for words in ("nonsense", "--nonsense"):
            found = json.loads(f.run(f"--json {words}").out)
            t.equal((found["verb"], found["version"]), ("", 1), f"{words}: an error without a verb")


def types(t):
    """By what an attribute is, not by what it looks like today."""
    with host() as f:
        link, mdev = f.sys / "class/dlend_link/ntb0", f.sys / f"bus/mdev/devices/{UUID}/dlend"
        for clique, kind in (("3", str), ("auto", str)):
            (mdev / "clique").write_text(f"{clique}\n")
            found = json.loads(f.run("--json status").out)["mdevs"][0]
            t.ok(isinstance(found["clique"], kind), f"a clique is text: {clique}", str(found))
        t.equal((found["memory"], found["epoch"]), (4096, 0), "  and bytes are a number")
        found = json.loads(f.run("--json links").out)["links"][0]
        t.equal((found["session"], found["peer_node"], found["window_bytes"]), ("4711", 2, None), "a session is text; a number that is not there is null")
        (link / "peer_node").write_text("two\n")
        t.equal(json.loads(f.run("--json links").out)["links"][0]["peer_node"], None, "  one that is none, too")


def is_refused(words, text):
    try:
        check_output(words, text)
    except Wrong:
        return True
    return False


def refused(t):
    """What the other tests would not pass."""
    offer = {"address": OFFER, "type": "dlend-nvme", "vendor": "0x1b36", "device": "0x0010", "vendor_name": "", "device_name": "",
             "class": "0x010802", "lender": 2, "lender_name": "beta", "state": "free", "borrower": 0, "borrower_name": "",
             "epoch": 3, "link": "ntb0", "set": "", "own": ""}
    good = {"verb": "list", "version": 1, "offers": [offer]}
    with t.case("a document as it should be"):
        check_document(good)
    words = ["dlend", "--json", "list", "status"]
    for why, wrong in (("no version", {"verb": "list", "offers": []}), ("another version", {**good, "version": 2}),
                       ("no verb", {"version": 1, "offers": []}), ("neither offers nor an error", {"verb": "list", "version": 1}),
                       ("a member that the schema does not name", {**good, "more": 1}),
                       ("the same further inside", {**good, "offers": [{**offer, "more": 1}]}),
                       ("text where a number is", {**good, "offers": [{**offer, "lender": "2"}]}),
                       ("an error without its parts", {"verb": "status", "version": 1, "error": {"code": 1}})):
        t.ok(is_refused(words, json.dumps(wrong)), f"refused: {why}")
    t.ok(is_refused("dlend --json watch", f"for people\n{json.dumps(good)}\n"), "refused: a document of another verb, in the second line")


def pages(t):
    page, manual = (TOP / "docs/monitoring.md").read_text(), (TOP / "tools/dlend.8").read_text()
    for name, text in (("docs/monitoring.md", page), ("dlend(8)", manual)):
        t.ok("/dlend/schema" in text and "version" in text, f"{name} says where the schemas are, and what a version is")


with Tap() as tap:
    for part in (schemas, each_verb, types, refused, pages):
        tap.diag(part.__name__)
        part(tap)
