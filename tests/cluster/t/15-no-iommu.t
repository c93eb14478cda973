#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Hosts whose IOMMU does not translate: they refuse links and lending, and say what to do.

    host a (iommu=pt) ------ ab ------ host b (no IOMMU)
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

WHY = {"a": "translates nothing", "b": "there is none"}


def main():
    with Tap() as t, Cluster("odd-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(wait=False)
        for name in ("a", "b"):
            host = c.host(name)
            with t.case(f"host {name}"):
                host.wait_for("grep -qi iommu /sys/class/dlend_link/*:*/last_error", 30)
                t.passed(f"{name}: the link says what is missing")
                t.ok("up" not in host.run("cat /sys/class/dlend_link/*:*/state").out.split(), f"{name}: and stays down")
                r = host.run(f"dlend lend {host.bdf('nvme0')} 2>&1", check=False, timeout=60)
                t.ok(r.status != 0 and "iommu" in r.out.lower(), f"{name}: lending is refused, with the reason",
                     f"{r.status}: {r.out}")
                status, checks = f.doctor(name)
                t.ok(status == 6 and WHY[name] in checks["iommu"][0] and checks["iommu"][1] == "FAIL",
                     f"{name}: dlend doctor says which of the two", str((status, checks.get("iommu"))))
            t.equal(host.complaints(), [], f"{name}'s kernel has no complaint")


main()
