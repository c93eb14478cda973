#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""An attached device reaches what is mapped for it at that moment, and nothing else of its borrower's memory.

    host a (node 1): vfio-pci, a program ------ ab ------ host b (node 2): edu
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import detach, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position


def unreached(t, f, a, b, address):
    """edu writes to one address all the time, whatever is mapped there at that moment."""
    at, count = 0x1000000, "$(od -An -td8 -N8 /run/insist)"
    f.dlend("a", f"attach {address}", timeout=120)
    vfio_pci(a, address)
    device = b.spawn(f"/share/insist {b.bdf('edu')} {at:#x} /run/insist 2>&1")
    program = a.spawn(f"rm -f /tmp/go; exec /share/reach {pci(address)} {at:#x} >/tmp/reach 2>&1")
    a.wait_for("grep -qx moved /tmp/reach", 90)
    so_far = int(b.run(f"echo {count}").out)
    b.wait_for(f"[ {count} -gt {so_far + 50} ]", 60)
    a.run("touch /tmp/go")
    program.wait(60, check=False)
    t.equal(a.run("cat /tmp/reach").out.split("\n"), ["reached", "moved", "untouched", ""],
            "the device writes to a page while it is mapped, and then not any more")
    device.kill(9)
    device.wait(30, check=False)
    detach(t, f, address)


def main():
    with Tap() as t, Cluster("canary.toml", tap=t) as c:
        for program in ("insist", "reach"):
            shutil.copy(BUILD / "guest" / program, c.run_dir / "share" / program)
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        a.load_modules("dlend_native")
        edu = f.lend("b", "edu")
        with t.case("what is not mapped"), a.provoke(IOMMU_FAULT, "the device writes where nothing is mapped"), \
                b.provoke(IOMMU_FAULT, "the device writes before its borrower maps anything, and after", must=False):
            unreached(t, f, a, b, edu)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
