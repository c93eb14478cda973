#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
#
#   host a               host b: nvme0 nvme1 edu nic pair(2 functions) bridge(edu)
#     guests g1 g2
#
# The test bed itself: hosts, agents, IOMMU groups, nested guests, power.  No link is used.
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from blocks import disk_of  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, CommandFailed, Gone, Tap, TimedOut
from host import until  # noqa: E402  pylint: disable=wrong-import-position


def agents(t, a):
    r = a.run("echo out; echo err >&2; exit 3", check=False)
    t.equal((r.status, r.out), (3, "out\nerr\n"), "a command's status and output arrive")
    data = bytes(range(256)) * 400
    t.equal(a.run("cat", input=data).data, data, "100 KB of any bytes go in and out")
    # Each ends when all have begun
    jobs = [a.spawn(f">/tmp/job{n}; {until('[ $(ls /tmp/job? | wc -l) = 4 ]', 0.1)}; echo {n}")
            for n in range(4)]
    t.equal([j.wait(60).out for j in jobs], ["0\n", "1\n", "2\n", "3\n"],
            "commands run side by side, and do not wait for each other")
    try:
        a.run("echo begun; sleep 100", timeout=7)
        t.ok(False, "a slow command is ended")
    except TimedOut as e:
        t.ok("begun" in str(e) and a.run("pgrep -x sleep", check=False).status == 1, "a slow command is ended")
    try:
        a.run("echo why; false")
        t.ok(False, "a failed command raises")
    except CommandFailed as e:
        t.ok("why" in str(e), "a failed command raises, and says what it printed")


def group(host, bdf):
    return host.run(f"ls /sys/bus/pci/devices/{bdf}/iommu_group/devices").out.split()


def devices(t, b):
    for name in ("nvme0", "nvme1", "edu", "nic"):
        t.equal(group(b, b.bdf(name)), [b.bdf(name)], f"{name} has an IOMMU group of its own")
    pair = [b.bdf("pair"), b.bdf("pair", 1)]
    t.equal(group(b, pair[0]), pair, "the pair shares one")
    t.equal(len(group(b, b.bdf("bridge"))), 2, "the bridge shares one with what is behind it")
    b.run("modprobe nvme")
    b.wait_for("[ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ]")
    t.equal(sorted(b.run("cat /sys/class/nvme/*/serial").out.split()), ["DLEND-NVME-0", "DLEND-NVME-1"],
            "two disks with serial numbers")
    b.run(f"echo kept | dd of=/dev/{disk_of(b, 'DLEND-NVME-0')} conv=sync,fsync bs=512 2>/dev/null")
    b.run("modprobe -r nvme")


def guests(t, a):
    a.wait_for("[ -c /dev/kvm ]")
    g1 = a.guest("g1", tools=["tools"], ports=1)
    # One processor each, one boot at a time: README.md says what the emulation makes of more
    g2 = a.guest("g2", machine="pc", maxmem="1G")
    for g in (g1, g2):
        g.start()
        g.wait_ready()
    t.equal(g1.run("echo hello").out, "hello\n", "a q35 guest says hello")
    t.equal(g2.run("nproc").out, "1\n", "a pc guest runs beside it")
    t.ok("KVM" in g1.run("dmesg | grep Hypervisor").out, "under KVM")
    t.equal(g1.qmp("query-status")["status"], "running", "its monitor answers")
    g1.run("for p in sfdisk mkfs.ext4 lspci; do which $p || exit 1; done; mkfs.ext4 -V; lspci -n; sfdisk -v")

    blocks = "ls -d /sys/devices/system/memory/memory*"
    before = g2.run(blocks).out
    g2.qmp("object-add", {"qom-type": "memory-backend-ram", "id": "more", "size": 256 << 20})
    g2.qmp("device_add", driver="pc-dimm", id="dimm", memdev="more")
    t.ok(a.loop.wait("DIMM", lambda: g2.run(blocks).out != before, 20),
         "a DIMM can be plugged")
    g1.qmp("device_add", driver="edu", id="plugged", bus="hp0")
    g1.wait_for("grep -q 0x11e8 /sys/bus/pci/devices/*/device", 30)
    t.passed("a device can be plugged")
    g1.qmp("device_del", id="plugged")
    t.ok(g1.wait_event("DEVICE_DELETED", 60, lambda d: d.get("device") == "plugged"), "and unplugged")

    g2.reboot()
    t.equal(g2.run("echo again").out, "again\n", "a guest reboots")
    t.equal(g1.shutdown().status, 0, "a guest powers off")
    t.equal(g2.kill().status, 128 + 9, "a guest's QEMU can be killed")
    try:
        g2.run("true")
        t.ok(False, "a guest that is off says so")
    except Gone:
        t.passed("a guest that is off says so")


def power(t, b):
    boot = b.run("cat /proc/sys/kernel/random/boot_id").out
    waiting = b.spawn("sleep 1000")
    b.reset()
    t.ok(b.run("cat /proc/sys/kernel/random/boot_id").out != boot, "a host comes back from reset")
    t.ok(waiting.gone, "and what ran in it is known to be gone")
    b.kill()
    b.start()
    b.wait_up()
    b.run("modprobe nvme")
    b.wait_for("[ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ]")
    t.equal(b.run(f"head -c 4 /dev/{disk_of(b, 'DLEND-NVME-0')}").out, "kept", "a host comes back from power loss with its disks")


with Tap() as t:
    with Cluster("two-hosts.toml", links=False, tap=t) as c:
        a, b = c.host("a"), c.host("b")
        for part, host in ((agents, a), (devices, b), (guests, a), (power, b)):
            with t.case(f"{part.__name__}: to the end"):
                part(t, host)
        t.equal(c.complaints(), [], "no kernel complains")
