#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""docs/trouble.md has each message of the sources, and none besides; messages.py finds them all.

An entry of that page is an item of a list that begins with messages in `...`, separated by commas; a paragraph of its own
says what they mean.  "..." in them stands for anything.
"""
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path[:0] = [str(HERE), str(TOP / "tests/cluster")]
import messages  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

PAGE = TOP / "docs/trouble.md"
LEAST_LETTERS = 8       # of a pattern, beside its gaps: with fewer it says nothing
MOST_COVERED = 8        # messages by one pattern: with more, a new one would not be missed
COLUMNS = 120
# What hands a message on; whoever calls it is looked at instead
HAND_ON = {"dlend_link_set_error", "dlend_condition_fail", "dlend_report_err", "dlend_native_fn_fails", "dlend_native_lost", "dlend_client_check"}


class Entry:
    """line: in the page; patterns: what stands in `...`; text: what is said of them"""

    def __init__(self, line, head, text):
        self.line, self.text = line, text
        self.patterns = [re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`]+)`", head)]


def read_entries(text):
    entries, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        if lines[at].startswith("- `"):
            head, said, begin = [lines[at]], [], at + 1
            at += 1
            while at < len(lines) and lines[at].startswith("  "):
                head.append(lines[at])
                at += 1
            while at < len(lines) and (not lines[at] or lines[at].startswith("  ")):
                said.append(lines[at])
                at += 1
            entries.append(Entry(begin, "\n".join(head), "\n".join(said).strip()))
        else:
            at += 1
    return entries


class Coverage:
    """Which messages the patterns of entries cover."""

    def __init__(self, found, entries):
        self.found, self.entries = found, entries
        self.texts = {m.text for m in found}

    def covered(self, pattern):
        """The texts that a pattern covers; one that is a message as it stands covers no other"""
        if pattern in self.texts:
            return {pattern}
        wanted = re.compile(".*".join(map(re.escape, pattern.split("..."))))
        return {text for text in self.texts if wanted.fullmatch(text)}

    def patterns(self):
        return [(e.line, p, self.covered(p)) for e in self.entries for p in e.patterns]

    def missing(self):
        """Messages that no entry covers"""
        has = set().union(*(covered for _, _, covered in self.patterns()))
        return [f"{m.file}:{m.line}: {m.text}" for m in self.found if m.text not in has]

    def unused(self):
        """Patterns that cover no message"""
        return [f"{line}: {pattern}" for line, pattern, covered in self.patterns() if not covered]

    def too_wide(self):
        """Patterns that say nothing, or cover too much"""
        return [f"{line}: {pattern}" for line, pattern, covered in self.patterns() if covered != {pattern} and
                (len(covered) > MOST_COVERED or len(re.sub(r"[^A-Za-z]", "", pattern)) < LEAST_LETTERS)]


def silent(top):
    """Calls of the kernel's printers in the modules of which no message was found: {function around it}"""
    found = {(m.file, m.line) for m in messages.messages(top)}
    around = set()
    for source in messages.kernel_sources(top):
        for m in re.finditer(r"\b(?:dev|pci|pr)_(?:emerg|alert|crit|err|warn|notice)(?:_\w+)?\(|\bWARN(?:_ONCE)?\(", source.code):
            if (source.name, source.line(m.start())) not in found:
                around.add((source.function_at(m.start()) or ("", "", f"{source.name}:{source.line(m.start())}"))[2])
    return around


def copied(top):
    """The sources, to be broken."""
    for folder in (*messages.KERNEL, "tools", "debian"):
        shutil.copytree(TOP / folder, top / folder, ignore=shutil.ignore_patterns("*.o", "*.ko", "__pycache__"))
    return top


BROKEN = (
    ("an error of the log", "lender/bind.c", '\nstatic void lend_x(struct device *d)\n{\n\tdev_err(d, "a new kind of %s "\n'
     '\t\t"trouble (%d)\\n", "old", 1);\n}\n', "a new kind of old trouble (...)"),
    ("one that is said once", "ntb/main.c", '\nstatic void dlend_x(void)\n{\n\tpr_warn_once("dlend: half of it is gone\\n");\n}\n',
     "dlend: half of it is gone"),
    ("a warning with a trace", "iommu/slots.c", '\nstatic void dlend_x(int n)\n{\n\tWARN_ONCE(n, "dlend: %d too many\\n", n);\n}\n',
     "dlend: ... too many"),
    ("a reason", "borrower/lease.c", '\nstatic void dlend_x(char *why)\n{\n\tsnprintf(why, 9, "it rains on node %u", 3);\n}\n',
     "it rains on node ..."),
    ("a device that fails", "mdev/vdev.c", '\nstatic void dlend_x(struct dlend_vdev *v)\n{\n\tdlend_condition_fail(v, true, '
     '"it is %s", v ? "late" : "early");\n}\n', "borrowed device unusable: it is early; the guest reads 0xff from it"),
    ("a link's error, by its name", "ntb/session.c", '\nstatic const char dlend_wet[] = "the cable; it is wet";\n\n'
     'static void dlend_x(struct dlend_link *l)\n{\n\tdlend_link_renew(l, dlend_wet);\n}\n', "the cable; it is wet"),
    ("an error of the command", "tools/use.c", '\nstatic void x(void)\n{\n\tfail(EXIT_FAIL, text("%s is odd", argv[0]), '
     '"it has /* no */ end", NULL);\n}\n', "... is odd: it has /* no */ end"),
    ("a line of doctor's", "tools/doctor.c", '\nstatic void x(void)\n{\n\tfinding(LEVEL_WARN, "moon", "it is full", NULL);\n}\n',
     "moon: it is full"),
    ("a mistake in dlend.conf", "tools/config.c", '\nstatic void x(void)\n{\n\trefuse_line("f", 1, "no colours, please");\n}\n',
     "..., line ...: no colours, please"),
    ("a failure of a move", "tools/migration/probe.py", '\n\ndef x(vm):\n    what = f"{vm} is asleep"\n    raise Failure(what, '
     '"it is " + vm if vm else "it is night")\n', "... is asleep: it is night"),
    ("what a package says", "debian/dlend.prerm", '\nsay "not in $(uname -r | cut -d. -f1), nor in $there"\n', "dlend: not in ..., nor in ..."),
)
NOT_SAID = (
    ("a comment", "lender/bind.c", '\nstatic void lend_x(void)\n{\n\t/* pr_err("dlend: in a comment\\n"); */\n}\n'),
    ("what is good", "tools/doctor.c", '\nstatic void x(void)\n{\n\tfinding(LEVEL_OK, "moon", "it is new", NULL);\n}\n'),
    ("what only goes on", "tools/lend.c", '\nstatic void x(void)\n{\n\tprogress("%s: taking it from there", "it");\n}\n'),
    ("information", "ntb/main.c", '\nstatic void dlend_x(void)\n{\n\tpr_info("dlend: all is well\\n");\n}\n'),
)


def broken(top, before, name, text):
    """The messages that the sources have besides those before when a file ends with this text"""
    path = top / name
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept + text, encoding="utf-8")
    after = {m.text for m in messages.messages(top)}
    path.write_text(kept, encoding="utf-8")
    return after - before


def main():
    with Tap() as t:
        found, text = messages.messages(), PAGE.read_text(encoding="utf-8")
        entries = read_entries(text)
        coverage = Coverage(found, entries)
        t.equal(coverage.missing(), [], "each message has an entry")
        t.equal(coverage.unused(), [], "each entry has a message")
        t.equal(coverage.too_wide(), [], "no entry is so wide that a new message would not be missed")
        t.equal([e.line for e in entries if len(e.text) < 10 or not e.patterns], [], "each entry says something")
        t.equal([n for n, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS], [], f"no line has more than {COLUMNS} columns")
        t.equal(silent(TOP), HAND_ON, "each place where a module prints is followed, but those that hand on what they are given")
        kinds = {m.where for m in found}
        t.equal(kinds, {"log", "reason", "command", "doctor", "programs", "packages"}, "there are messages of each kind")
        t.ok(len({m.text for m in found}) > 400, "hundreds of messages were found")

        with tempfile.TemporaryDirectory() as folder:
            top = copied(Path(folder))
            for what, name, more, want in BROKEN:
                new = broken(top, coverage.texts, name, more)
                t.ok(want in new, f"found: {what}", str(new))
                t.ok(Coverage([*found, messages.Message(name, 1, "", want)], entries).missing(), f"and missed in the page: {what}")
            for what, name, more in NOT_SAID:
                t.equal(broken(top, coverage.texts, name, more), set(), f"not found: {what}")

        less = [e for e in entries if "dlend-lender refused it" not in " ".join(e.patterns)]
        t.ok(any("dlend-lender refused it" in line for line in Coverage(found, less).missing()), "an entry that is gone is missed")
        more = read_entries(text + "\n- `a message of old times that nobody prints`\n\n  It says nothing any more.\n")
        t.ok(any("of old times" in line for line in Coverage(found, more).unused()), "an entry without a message is found")
        wide = read_entries("- `...`, `borrowed device ...`\n\n  Of all kinds.\n")
        t.equal(len(Coverage(found, wide).too_wide()), 2, "and so is one that covers too much")


main()
