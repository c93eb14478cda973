#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The packages, built as docs say: Debian's, which lintian judges, and those for distributions that use RPM.

    a copy of the sources -- make deb, make rpm -- what is in the packages
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
    """Returns the names of the files in each package."""
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
    return files


def rpm(t, copy, debs):
    spec = (copy / "dist/dlend.spec").read_text()
    t.equal(re.search(r"^Version: *(.*)", spec, re.M).group(1), VERSION, "the spec has the version of the packages")
    # Debian's packages have other names than those that the spec asks for
    r = run("make", "rpm", "RPMFLAGS=--nodeps", cwd=copy)
    t.equal(r.returncode, 0, "make rpm", (r.stdout + r.stderr)[-3000:])
    packages = {p.name.rsplit("-", 2)[0]: p for p in copy.glob("build/rpm/RPMS/*/*.rpm")}
    t.equal(set(packages), {"dlend", "dlend-dkms"}, "  makes two packages")
    for name, path in packages.items():
        files = {f.removesuffix(".gz") for f in run("rpm", "-qlp", path, cwd=copy).stdout.splitlines()}
        theirs = {f for f in debs[name] if f"/usr/share/doc/{name}/c" not in f and "/etc/systemd/system/" not in f}
        t.equal(theirs - files, set(), f"  {name} has all files that Debian's has")
        r = run("rpm", "-qcp", path, cwd=copy)
        t.equal(set(r.stdout.split()), {f for f in theirs if f.startswith("/etc/")}, "  and the same are configuration")
    install_rpm(t, copy, packages.values())


def install_rpm(t, copy, packages):
    """Into an empty folder.  What they run as they are installed is left out: DKMS is not there."""
    root = copy.parent / "installed"
    root.mkdir()
    words = ("rpm", "--root", root, "--noscripts", "--nodeps")
    r = run(*words, "-i", *packages, cwd=copy)
    t.equal(r.returncode, 0, "rpm installs them", r.stderr)
    t.equal(run(*words, "-Va", cwd=copy).stdout, "", "  each file is as it was built")
    t.equal(run(root / "usr/sbin/dlend", "--version", cwd=copy).stdout.split()[1], VERSION, "  dlend runs")
    (root / "etc/dlend.conf").write_text("# mine\n")
    r = run(*words, "-e", "dlend", "dlend-dkms", cwd=copy)
    left = {str(f.relative_to(root)) for f in root.rglob("*dlend*") if not f.is_dir()}
    t.equal((r.returncode, left), (0, {"etc/dlend.conf.rpmsave"}), "rpm removes them, and keeps what was changed", r.stderr)


def main():
    with Tap() as t, tempfile.TemporaryDirectory(prefix="dlend-packages-") as folder:
        if not shutil.which("rpmbuild") or not shutil.which("lintian"):
            Tap.skip("no rpmbuild, no lintian: the build tree has them")
        copy = Path(folder) / "dlend"
        copy.mkdir()
        subprocess.run(f"tar -c --exclude=./build --exclude=./.git . | tar -x -C {copy}", shell=True, cwd=TOP, check=True)
        debs = debian(t, copy)
        rpm(t, copy, debs)


main()
