# SPDX-License-Identifier: GPL-2.0-only
"""Is what an administrator types one of the commands that the docs have?

    docs = Documented(pages())
    docs.find("dlend lend 01:00.0")      # "docs/getting-started.md"; None: no page has such a command
    docs.untyped("docs/operations.md")   # commands of a page that nobody has asked for yet

A code block of a page has commands: lines that begin with "# ", or all lines, if none does.  Not part of a command are
what three spaces stand before, and a remark ("  # why").  A line with "..." leaves something out, and is no command.

Values stand for others of their kind (KINDS): dlend lend 3b:00.0 is what the docs say of any device.
"""
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?:^    .*\n)+", re.M)
REMARK = re.compile(r"\s+#\s|\s{3,}")
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
BDF = r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
# name: (as docs write it, as it is typed).  The first that fits counts.
KINDS = {
    "uuid": (rf"\$(?:U|uuid)\b|\bUUID\b|{UUID}", UUID),
    "address": (r"\bd[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", r"d[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"),
    "device": (rf"\b{BDF}", BDF),
    "type": (r"(?<=--type )dlend-\w+|(?<=--any )dlend-\w+", r"dlend-\w+"),
    "file": (r"\b\w+\.xml\b", r"\w+\.xml"),
    "vm": (r"\bVM\b|\bvm\d\b", r"[a-z]\w*"),
    "node": (r"(?<=node_id=)\d+", r"\d+"),
    "host": (r"(?<![^\s/])[abc](?![^\s/:])|\bHOST\b", r"[a-z]\w*"),
}
KIND = re.compile("|".join(f"(?P<{name}>{written})" for name, (written, _) in KINDS.items()))


def pages():
    """{name: text} of all that users read."""
    return {str(path.relative_to(TOP)): path.read_text(encoding="utf-8")
            for path in (TOP / "README.md", *sorted((TOP / "docs").glob("*.md")))}


def commands(text):
    """Those of a page, in its order."""
    for block in BLOCK.findall(text):
        lines = [line[4:] for line in re.sub(r"\\\n *", "", block).splitlines()]
        if any(line.startswith("# ") for line in lines):
            lines = [line[2:] for line in lines if line.startswith("# ")]
        for line in lines:
            yield from parts(REMARK.split(line)[0])


def parts(line):
    """The commands of a line, as they are typed one by one."""
    for part in re.split(r"; | && ", line) if "'" not in line else [line]:
        part = re.sub(r"^\w+=\$\((.*)\)$", r"\1", part.strip().removeprefix("sudo "))
        if part and "..." not in part:
            yield part


def pattern(command):
    """What is typed where docs have this command; the same value twice is the same one each time."""
    out, end, groups = "", 0, {}
    for found in KIND.finditer(command):
        out += re.escape(command[end:found.start()])
        end = found.end()
        if found.group() in groups:
            out += f"(?P={groups[found.group()]})"
        else:
            groups[found.group()] = f"v{len(groups)}"
            out += f"(?P<v{len(groups) - 1}>{KINDS[found.lastgroup][1]})"
    return re.compile(out + re.escape(command[end:]))


class Documented:
    def __init__(self, texts):
        self.rows = [(page, command, pattern(command)) for page, text in texts.items() for command in commands(text)]
        self.typed = set()

    def find(self, command):
        """The first page that has it, or None."""
        have = [(page, row) for page, row, typed in self.rows if typed.fullmatch(command)]
        self.typed.update(have)
        return have[0][0] if have else None

    def untyped(self, page):
        return [row for where, row, _ in self.rows if where == page and (where, row) not in self.typed]
