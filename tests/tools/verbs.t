#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What is the same for all verbs of dlend: --help, wrong arguments, and who may call them.

    one host, node 1, with a disk 0000:03:00.0, that sees an offer of node 2, d0002:03:00.0
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from documents import check_output  # noqa: E402  pylint: disable=wrong-import-position
from fake import DLEND, TOP, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, OFFER = "0000:03:00.0", "d0002:03:00.0"
UUID = "11111111-0000-4000-8000-000000000001"
NOBODY = 65534
# No address, name, number or word of any verb
HOSTILE = ["", "../..", "a" * 5000, "\x1b[31mred\r\n", "\x7f"]
# A file may have any name, but not these
NO_FILE = ["", "../..", "a" * 5000]
# Verb: (arguments that are right, those that are wrong, with "@" for each of HOSTILE and "@file" for each of NO_FILE)
VERBS = {
    "lend": ([DISK], ["", f"{DISK} @", "--all --group", "--as", "--clique", "--reset", "--set", "--config", "@", f"--as @ {DISK}",
                      f"--clique @ {DISK}", f"--reset @ {DISK}", f"--set @ {DISK}", "--config @file"]),
    "reclaim": ([DISK], ["", f"{DISK} 04:00.0", "@"]),
    "reserve": ([DISK], ["", f"{DISK} 04:00.0", "--for", "--until", "@", f"--for @ {DISK}", f"--until @ {DISK}", f"--for 0 {DISK}",
                         f"--for 65536 {DISK}", f"--for 2/x {DISK}", f"--until +0h {DISK}", f"--until +2 {DISK}", f"--until -2h {DISK}",
                         f"--until +9999999d {DISK}", f"--until 2001-01-01T00:00 {DISK}", f"--until 2090-02-30T00:00 {DISK}",
                         f"--until 2090-01-01T00:00x {DISK}", f"--until 9990-01-01T00:00 {DISK}"]),
    "unreserve": ([DISK], ["", f"{DISK} 04:00.0", "@"]),
    "borrow": ([OFFER], ["", f"{OFFER} @", f"--uuid {UUID} {OFFER} {OFFER}", "--uuid", "@", f"--uuid @ {OFFER}", f"--uuid 2x {OFFER}", f"--uuid {UUID}0 {OFFER}", "dlend-",
                         "dlend-x/y", "nvme", "03:00.0"]),
    "return": ([UUID], ["", f"{UUID} {UUID}", "@", OFFER]),
    "attach": ([OFFER], ["", "@", f"{OFFER} @", f"--persistent {OFFER} @", f"--force {OFFER}"]),
    "detach": ([OFFER], ["", "@", f"{OFFER} @", f"--persistent {OFFER} @"]),
    "list": ([], ["@", "more"]),
    "links": ([], ["@", "more"]),
    "show": ([OFFER], ["", f"{OFFER} {OFFER}", "@", "3b:00", f"{UUID}0"]),
    "status": ([], ["@", "more"]),
    "doctor": ([], ["--guest", "@", f"{DISK} @", "--guest @"]),
    "metrics": ([], ["--output", "@", "--output @file"]),
    "stats": ([], ["--interval", "--count", "--count 2", "@", "--interval @", "--interval 0", "--interval 1 --count @", f"{OFFER} @"]),
    "watch": (["--count=1"], ["--count", "--timeout", "--interval", "@", "--count @", "--timeout @", "--interval @"]),
    "topology": ([], ["--path", f"--path {OFFER}", "--dot --path memory memory", "@", "--path @ memory", f"--path {OFFER} @"]),
    "cdi": ([], ["--kind", "--output", "@", "--kind @", "--output @file", "--iommufd @"]),
    "libvirt-xml": ([UUID], ["", "--mode", "--domain", "--any", f"--any @ {UUID}", "--domain vm1 vm2", "@", "--domain @", "--mode @ vm1", f"{UUID} @", "--numa --reserve @"]),
    "bench": (["--device", "3:00.0", "b"], ["", "b", "--device 03:00.0", "--device 03:00.0 a b c", "--device @ b", "--device 03:00.0 @",
                                            "--device 03:00.0 --runs @ b", "--device 03:00.0 --ios @ b", "--device 03:00.0 --plot @file b",
                                            "--device 03:00.0 --runs 1 b", "--device", "--device 03:00.0 --bar 6 b", "--device 03:00.0 --bar @ b",
                                            "--device 03:00.0 --ping @ --address 192.0.2.2/24 b", "--device 03:00.0 --ping 192.0.2.1 --address @ b"]),
    "migrate": (["vm1", "b"], ["", "vm1", "vm1 b c", "--live --no-start vm1 b", "--prepare vm1 b", "--timeout", "@ b", "vm1 @",
                               "--timeout @ vm1 b", "--copy @ vm1 b", "--prepare @", "--finish @"]),
}
# Options that may mean several
AMBIGUOUS = {"lend": ["--c", "1", DISK], "migrate": ["--de", "vm1", "b"]}
NEED_ROOT = {"lend", "reclaim", "reserve", "unreserve", "borrow", "return", "attach", "detach", "bench", "migrate"}


def host():
    f = Fake()
    f.pci(DISK)
    f.offer(OFFER, attached="no", attach_error="")
    os.environ["DLEND_PROGRAMS"] = str(TOP / "tools")
    return f


def cases(wrong):
    """[(words)] of a row of VERBS"""
    for line in wrong:
        words = line.split()
        mark = next((w for w in words if w.startswith("@")), None)
        for value in {"@": HOSTILE, "@file": NO_FILE}.get(mark, [None]):
            yield [value if w == mark else w for w in words]


def shown(words):
    return " ".join(repr(w) if not w or not w.isprintable() else w[:20] for w in words)


def all_there(t):
    with host() as f:
        listed = set(re.findall(r"^  ([a-z][-a-z]+) ", f.run("--help").out, re.M))
        t.equal(listed, set(VERBS), "the table has each verb")


def helps(t):
    with host() as f:
        for verb, (right, _) in VERBS.items():
            for words in ([verb, "--help"], [verb, "-h"], [verb, *right, "--help"], ["--json", verb, "--help"]):
                r = f.run(words)
                t.ok(r.code == 0 and r.out.startswith(f"usage: dlend {verb} ") and not r.err, shown(words), f"{r.code} {r.err}")
            t.ok("--json" in r.out and "--help" in r.out, f"  {verb}: it has the options", r.out)
        t.equal(f.writes, [], "and does nothing else")


def refused(t, f, words):
    """In words, which are one or two lines without control characters, and as JSON; and nothing is done."""
    r = f.run(["--json", *words])
    try:
        code = json.loads(r.out)["error"]["code"]
    except (ValueError, KeyError):
        code = None
    said = [line for line in r.err.split("\n") if line]
    clean = all(line.isascii() and line.isprintable() and len(line) < 2500 for line in said)
    t.ok(r.code == code == 2 and said and clean and len(said) <= 2 and said[0].startswith("dlend: ") and not f.writes, shown(words),
         f"{r.code}, in JSON {code}, {f.writes}\n{r.err[:1000]!r}")
    return r


def wrong_arguments(t):
    with host() as f:
        for verb, (right, wrong) in VERBS.items():
            for words in cases(wrong):
                refused(t, f, [verb, *words])
            for option in ("--nonsense", "--nonsense=\x1b[31m", "-x", "--json=1"):
                r = refused(t, f, [verb, option, *right])
                t.ok(option[:6] in r.err and f"usage: dlend {verb} " in r.err, "  it says what there is", r.err)
            if verb in AMBIGUOUS:
                refused(t, f, [verb, *AMBIGUOUS[verb]])
        for words in ([], [""], ["../.."], ["a" * 5000], ["\x1b[31m"], ["--nonsense"], ["-x"], ["--root"]):
            r = f.run(words, trees=["--json"])
            t.ok(r.code == 2 and r.err and "\x1b" not in r.err, f"no verb: {shown(words)}", f"{r.code} {r.err}")
        t.ok(not (f.root / "etc/dlend").exists(), "and nothing is noted")


def unprivileged(command):
    """Its result when nobody calls it, on this machine's own /sys"""
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, **user)
    check_output(command, result.stdout)
    return result


def root_only(t):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        dlend = shutil.copy(DLEND, f"{folder}/dlend")
        shutil.copytree(TOP / "tools", f"{folder}/programs", ignore=shutil.ignore_patterns("__pycache__"))
        os.environ["DLEND_PROGRAMS"] = f"{folder}/programs"
        for verb in sorted(NEED_ROOT):
            right = VERBS[verb][0]
            r = unprivileged([dlend, verb, *right])
            t.equal((r.returncode, r.stderr), (1, f"dlend: {verb} needs root: run it with sudo\n"), f"{verb} needs root")
            r = unprivileged([dlend, "--json", verb, *right])
            t.ok(r.returncode == 1 and json.loads(r.stdout or "{}").get("error", {}).get("code") == 1, "  in JSON, too", r.stdout)
            r = unprivileged([dlend, verb, "--help"])
            t.equal((r.returncode, r.stderr), (0, ""), "  but its help does not")
            t.equal(unprivileged([dlend, verb, "--nonsense"]).returncode, 2, "  nor a mistake")
        for verb in ("list", "links", "show", "status", "doctor", "metrics", "stats", "topology"):
            t.ok("needs root" not in unprivileged([dlend, verb, *VERBS[verb][0]]).stderr, f"{verb} does not")


def full(t):
    """What a command has to print does not arrive: then it has failed, whichever it is."""
    elsewhere = {"bench", "migrate"}        # programs of their own
    with host() as f:
        for words in [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS if verb not in elsewhere)]:
            r = f.run(words, before="exec >/dev/full")
            t.ok(r.code == 1 and "standard output cannot be written" in r.err, f"{shown(words)}: to a full disk", f"{r.code} {r.err}")
        shows = [[verb, *VERBS[verb][0]] for verb in ("list", "links", "show", "status", "doctor", "metrics", "stats", "topology", "cdi")]
        for words in [*shows, ["watch", "--initial", "--timeout=0.1"], ["lend", DISK], ["reclaim", DISK],
                      ["lend", "--config", "/dev/null"], ["attach", "--persistent", "d0009:09:00.0"]]:
            for first in ([], ["--json"]):
                r = f.run(words)
                if not r.code and r.out:
                    f.run(["lend", DISK] if words[0] == "reclaim" else ["links"])
                    r = f.run([*first, *words], before="exec >/dev/full")
                    t.ok(r.code == 1 and "standard output cannot be written" in r.err, f"{shown([*first, *words])}: to a full disk", f"{r.code} {r.err}")


with Tap() as tap:
    for part in (all_there, helps, full, wrong_arguments, root_only):
        tap.diag(part.__name__)
        part(tap)
