#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Debian's packages, built as docs say; lintian judges them.

    a copy of the sources -- make deb -- what is in the packages
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import TOP  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

VERSION = re.search(r'DLEND_VERSION\s+"(.*)"', (TOP / "include/dlend/version.h").read_text()).group(1)


def run(*words, cwd):
    return subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, check=False,
                          env={**os.environ, "HOME": str(cwd)})


def listed(words, cwd):
    """Files of a package, without the directories"""
    lines = run(*words, cwd=cwd).stdout.splitlines()
    return {line.split()[-1].removeprefix(".").removesuffix(".gz") for line in lines if line[:1] in "-l/"}


def lintian(t, name, *packages):
    r = run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", *packages, cwd=packages[0].parent)
    t.equal((r.returncode, r.stdout), (0, ""), f"lintian has nothing to say of {name}", r.stderr)


def debian(t, copy):
    r = run("dpkg-source", "-b", copy, cwd=copy.parent)
    t.equal(r.returncode, 0, "the source package", r.stderr)
    lintian(t, "it", *copy.parent.glob("*.dsc"))
    r = run("make", "deb", cwd=copy)
    t.equal(r.returncode, 0, "make deb", (r.stdout + r.stderr)[-3000:])
    made = copy / "build/deb"
    packages = {p.name.split("_")[0]: p for p in made.glob("*.deb")}
    t.equal(set(packages), {"dlend", "dlend-dbgsym", "dlend-dkms", "dlend-ntb-dkms"},
            "  makes the packages that debian/control has")
    lintian(t, "them", *made.glob("*.changes"))
    files = {name: listed(("dpkg-deb", "-c", path), made) for name, path in packages.items()}
    t.equal({f for f in files["dlend-ntb-dkms"] if f.startswith("/usr/src/")},
            {f"/usr/src/dlend-ntb-{VERSION}/{f}" for f in ("dkms.conf", "ntb-drivers", "Kbuild")}, "  dlend-ntb-dkms has what DKMS needs")
    control = run("dpkg-deb", "-I", packages["dlend-ntb-dkms"], cwd=made).stdout
    t.ok(re.search(r"^ Depends:.*\bdkms\b", control, re.M) and "Recommends: linux-source" in control, "  and brings DKMS and the kernel's source", control)


def main():
    with Tap() as t, tempfile.TemporaryDirectory(prefix="dlend-packages-") as folder:
        if not shutil.which("lintian"):
            Tap.skip("no lintian: the build tree has it")
        copy = Path(folder) / "dlend"
        copy.mkdir()
        subprocess.run(f"tar -c --exclude=./build --exclude=./.git . | tar -x -C {copy}", shell=True, cwd=TOP, check=True)
        debian(t, copy)


main()
