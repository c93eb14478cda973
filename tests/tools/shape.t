#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What tests/shape finds: the tree is as it should be, and each rule is broken once, in a copy."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests/cluster"))
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

CODE = ("include/dlend", "iommu", "ntb", "lender", "borrower", "mdev", "tools", "tests/kunit")


class Copy:
    """The sources, to be broken."""

    def __init__(self, top):
        self.top = Path(top)
        for folder in CODE:
            shutil.copytree(TOP / folder, self.top / folder, ignore=shutil.ignore_patterns("*.o", "*.ko", "__pycache__"))
        shutil.copy(TOP / "tests/pure.mk", self.top / "tests/pure.mk")

    def findings(self):
        return subprocess.run([TOP / "tests/shape", self.top], capture_output=True, text=True, check=True).stdout.splitlines()

    def broken(self, **more):
        """What is found when files get more text at their ends; the text goes again."""
        before = {}
        for name, text in more.items():
            path = self.top / name
            before[path] = path.read_text(encoding="utf-8")
            path.write_text(before[path] + text, encoding="utf-8")
        found = self.findings()
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
        return found


def function(head, lines=1):
    return f"\n{head}\n{{\n" + "\tcpu_relax();\n" * lines + "}\n"


BROKEN = (
    ("a header of a higher folder", {"borrower/lease.c": '#include "mdev/vdev.h"\n'},
     r"borrower/lease\.c:\d+: a header of a folder"),
    ("a folder's own header from the side", {"lender/lease.c": '#include <iommu/maps.h>\n'},
     r"lender/lease\.c:\d+: a header of a folder"),
    ("a common header that knows a folder", {"include/dlend/link.h": '#include "ntb/link.h"\n'},
     r"include/dlend/link\.h:\d+: a header"),
    ("a kernel's version, compared elsewhere", {"mdev/vfio.c": "#if LINUX_VERSION_CODE < 1\n#endif\n"},
     r"mdev/vfio\.c:\d+: kernel versions"),
    ("a bare name", {"ntb/queue.c": function("static void fire(void)")}, r"ntb/queue\.c:\d+: fire\(\) does not begin with dlend_"),
    ("another folder's prefix", {"lender/lease.c": function("static void dlend_fire(void)")},
     r"lender/lease\.c:\d+: dlend_fire\(\) does not"),
    ("a long function", {"iommu/maps.c": function("static void dlend_long(void)", 61)}, r"dlend_long\(\) has 61 lines, at most 60"),
    ("as long as it may be", {"iommu/maps.c": function("static void dlend_long(void)", 60)}, None),
    ("six parameters, one a function's", {"iommu/maps.c": function("static void dlend_wide(int a, int b, int c, int d,\n"
                                                                   "\t\t       int e, void (*f)(int, int))")},
     r"dlend_wide\(\) has 6 parameters, at most 5"),
    ("a long file", {"mdev/bar.c": "\n" * 1500}, r"mdev/bar\.c: \d+ lines, at most 1500"),
    ("two structures of one name", {"mdev/bar.c": "struct lend_lease {\n\tint x;\n};\n"},
     r"struct lend_lease is two structures: .*mdev/bar\.c"),
    ("a ring of two files", {"iommu/slots.c": function("void dlend_up(void)").replace("cpu_relax", "dlend_down"),
                             "iommu/maps.c": function("void dlend_down(void)").replace("cpu_relax", "dlend_up")},
     r"a ring of files that call each other: iommu/maps\.c, iommu/slots\.c"),
    ("a ring of three, in tools", {"tools/table.c": function("void t_one(void)").replace("cpu_relax", "t_two"),
                                   "tools/path.c": function("void t_two(void)").replace("cpu_relax", "t_three"),
                                   "tools/check.c": function("void t_three(void)").replace("cpu_relax", "t_one")},
     r"a ring of files that call each other: .*tools/check\.c.*tools/path\.c.*tools/table\.c"),
    ("calls that only a comment or a string has", {"iommu/slots.c": "/* dlend_pages_count() */\n",
                                                   "iommu/maps.c": 'static const char *dlend_s = "dlend_slots_alloc()";\n'}, None),
    ("a pure file that knows devices", {"mdev/ranges.c": "#include <linux/pci.h>\n"},
     r"mdev/ranges\.c: <linux/pci\.h>, and tests/pure\.mk"),
    ("a pure file without a suite", {"tests/pure.mk": "dlend-pure += mdev/bar\n"}, r"mdev/bar\.c: no suite of tests/kunit calls it"),
    ("a pure file that is gone", {"tests/pure.mk": "dlend-pure += mdev/gone\n"}, r"tests/pure\.mk: there is no mdev/gone\.c"),
)


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as top:
        copy = Copy(top)
        t.equal(copy.findings(), [], "the tree has no finding")
        for what, more, want in BROKEN:
            found = copy.broken(**more)
            if want:
                t.ok(any(re.search(want, line) for line in found), f"found: {what}", str(found))
            else:
                t.equal(found, [], f"no finding: {what}")
        for path in (path for folder in ("mdev", "lender", "borrower") for path in copy.top.glob(f"{folder}/*.c")):
            path.unlink()
        t.ok(any("functions were found" in line for line in copy.findings()), "found: that it sees too little")


main()
