#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend bench measures a device on its own host and attached to another one, by ssh: a disk with fio as Debian has it, and a BAR.

    host a (node 1): dlend bench, the borrower ------ ab ------ host b (node 2): nvme0; board, which has memory in BAR 2

Counts are checked, and no time.
"""
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

SERIAL = "DLEND-NVME-0"


def bench(host, words, check=True):
    return host.run(f"dlend bench {words} 2>/tmp/progress || {{ s=$?; cat /tmp/progress; exit $s; }}", check=check, timeout=600)


def refused(t, host, words, code, *parts):
    r = bench(host, words, check=False)
    t.ok(r.status == code and all(part in r.out for part in parts), f"refused: {parts[-1]}", f"{r.status}: {r.out}")


def bar(t, f, a, b):
    """Through the window, beside its own host."""
    bdf = b.bdf("board")
    says = json.loads(bench(a, f"--json --runs 2 --ios 5 --bar 2 --write 1af4:1110 --plot /tmp/bar.svg --device {bdf} b").out)
    t.equal([(job["job"], job["block_bytes"]) for job in says["jobs"]], [(way, 4 << 2 * n) for way in ("read", "write") for n in range(8)],
            "dlend bench --bar 2: reads and writes by size")
    for job in says["jobs"]:
        t.equal([sum(job[place]["distribution_ns"].values()) for place in ("local", "attached")], [10, 10],
                f"{job['job']}, {job['block_bytes']} bytes: all of both hosts")
        t.equal(job["attached"]["per_io"], {"interrupts": 0, "link_interrupts": 0, "lender_interrupts": 0, "messages": 0},
                "  and none took an interrupt or a message")
    t.ok(len(ElementTree.fromstring(a.run("cat /tmp/bar.svg").out)) > 20, "  drawn")
    t.equal([offer for offer in f.offers("a").values() if offer["state"] != "gone"], [], "and nothing is lent or attached")
    t.equal(b.run(f"cat /sys/bus/pci/devices/{bdf}/enable; ls -d /sys/bus/pci/devices/{bdf}/driver 2>/dev/null", check=False).out.split(), ["0"],
            "  and it is disabled, without a driver")


def at_home(t, f, a, b, bdf):
    """The disk is where it was, with its own driver, and nobody is told of it any more."""
    b.own_disks()
    t.equal(b.run(f"basename $(readlink /sys/bus/pci/devices/{bdf}/driver)").out.strip(), "nvme", "the disk is back with its own driver")
    a.wait_for("! ls /dev/nvme[0-9]* 2>/dev/null", 30)
    t.equal([offer for offer in f.offers("a").values() if offer["state"] != "gone"], [], "and nothing is lent or attached")


def measured(t, a, bdf):
    says = json.loads(bench(a, f"--json --runs 2 --ios 20 --plot /tmp/plot.svg --device {bdf} b").out)
    jobs = {job["job"]: job for job in says["jobs"]}
    t.equal((says["version"], says["times_mean_nothing"], sorted(jobs)), (1, True, ["random read", "sequential read"]),
            "dlend bench b, on a: it says that times of emulated hosts mean nothing")
    for name, job in jobs.items():
        t.equal([sum(job[place]["distribution_ns"].values()) for place in ("local", "attached")], [40, 40], f"{name}: all I/Os of both hosts")
        ios = job["attached"]["per_io"]
        t.equal((ios["messages"], job["local"]["per_io"]["messages"]), (0, None), "  and no message for any")
        t.ok(job["local"]["per_io"]["interrupts"] >= 1 <= ios["interrupts"], "  an interrupt at least for each, on both", str(job))
        t.ok(ios["link_interrupts"] > 0 < ios["lender_interrupts"], "  which came by the doorbell", f"{says['interrupts']}: {ios}")
        low, high = job["summary"]["latency_ns"]["ratio"]["95"]
        t.ok(0 < low < high, "  and the ratio of latencies has an interval", str(job["summary"]["latency_ns"]))
    t.ok(len(ElementTree.fromstring(a.run("cat /tmp/plot.svg").out)) > 20, "the distribution is drawn")


def written(t, b, bdf):
    """Two hosts by name, on one of them; each is reached by ssh."""
    out = bench(b, f"--write {SERIAL} --runs 2 --ios 5 --device {bdf} a b").out
    t.ok("random write" in out and "times mean nothing" in out and " attached to a; 2 runs" in out, "dlend bench a b, on b, with writing", out)
    t.diag(out)


def interrupted(t, a, bdf):
    """A signal to all processes that a terminal would send it to."""
    job = a.spawn(f"setsid -w sh -c 'echo $$ >/tmp/pid; exec dlend bench --runs 100 --ios 5 --device {bdf} b >/tmp/said 2>&1'")
    a.wait_for("grep -q attached: /tmp/said", 120)
    a.run("kill -TERM -$(cat /tmp/pid)")
    job.wait(300, check=False)
    said = a.run("cat /tmp/said").out
    t.ok("was interrupted" in said and "is given back" in said, "a signal while it is attached: it is given back", said)


def main():
    with Tap() as t, Cluster("bench-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        for host in (a, b):
            host.install()
        f.up()
        a.load_modules("dlend_native")
        for host in (a, b):     # thousands of them would be measured as well
            host.run("echo 0 >/sys/kernel/tracing/events/dlend/enable")
        b.own_disks()
        bdf = b.bdf("nvme0")
        with t.case("refused"):
            refused(t, a, f"--device {bdf} c", 6, "c cannot be asked", "without a password")
            refused(t, a, "--device 00:00.0 b", 2, "is no NVMe disk")
            refused(t, a, f"--write OTHER --device {bdf} b", 2, "another serial number", SERIAL)
            b.run("mkfs.ext4 -q -F -O ^has_journal -N 64 /dev/nvme0n1 8m && mount /dev/nvme0n1 /mnt")
            refused(t, a, f"--device {bdf} b", 4, "is mounted on /mnt")
            b.run("umount /mnt")
            refused(t, a, f"--write {SERIAL} --device {bdf} b", 4, "there is ext4 on it", "wipefs --all")
            b.run("wipefs -q --all /dev/nvme0n1")
            at_home(t, f, a, b, bdf)
        with t.case("measured"):
            measured(t, a, bdf)
            at_home(t, f, a, b, bdf)
        with t.case("with writing"):
            written(t, b, bdf)
            at_home(t, f, a, b, bdf)
        with t.case("a BAR"):
            bar(t, f, a, b)
        with t.case("interrupted"):
            interrupted(t, a, bdf)
            at_home(t, f, a, b, bdf)
        t.equal([host.complaints() for host in (a, b)], [[], []], "no kernel has a complaint")


main()
