#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""RAM that is plugged into a Linux guest, whose programs get it before any other, and use it for a lent disk at once.

    host a (node 1): a guest ------ ab ------ host b (node 2): nvme0

52-hotplug has the same with a VMM of our own, which is faster than any guest; here is who else has a part in it: QEMU,
its DIMMs and virtio-mem, the guest's kernel and its driver.  Nobody writes `rescan`.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position

MIB = 1 << 20

# From the moment that there is more memory, which programs get first: write the disk, read it into memory, compare.
USE = """total() { while read -r name kib rest; do [ $name != MemTotal: ] || break; done </proc/meminfo; }
total; had=$kib
echo armed >/tmp/armed
while [ $kib -le $had ]; do total; done
fio --name=v --filename=/dev/nvme0n1 --rw=write --bs=64k --size=1m --numjobs=4 --thread --offset_increment=4m \
    --direct=1 --ioengine=psync --mem=mmap --verify=crc32c --minimal >/tmp/fio"""


def used_at_once(t, g, name, plug):
    g.run("rm -f /tmp/armed")
    job = g.spawn(USE)
    g.wait_for("[ -e /tmp/armed ]")
    plug()
    status = job.wait(240).status
    t.equal(status, 0, f"{name}: what the disk wrote and read in it is right", g.run("tail -5 /tmp/fio", check=False).out)


def virtio_mem(g, size, most=0):
    """So much is asked for; @most: it is enough if the guest has given back what is above that."""
    g.qmp("qom-set", path="/machine/peripheral/vm0", property="requested-size", value=size)
    until(lambda: size <= g.qmp("qom-get", path="/machine/peripheral/vm0", property="size") <= max(size, most),
          "virtio-mem gets there")


def until(done, what, seconds=120):
    if not eventually(done, True, seconds):
        raise RuntimeError(f"not within {seconds} s: {what}")


def dimm_out(g):
    g.qmp("device_del", id="d1")
    until(lambda: not g.qmp("query-memory-devices") or
          all(d["data"]["id"] != "d1" for d in g.qmp("query-memory-devices")), "the DIMM is unplugged")
    g.qmp("object-del", id="m1")


def dimm_in(g):
    g.qmp("object-add", {"qom-type": "memory-backend-ram", "id": "m1", "size": 128 * MIB})
    g.qmp("device_add", driver="pc-dimm", id="d1", memdev="m1")


# What this rests on: the VMM maps memory by VFIO before it gives KVM a slot.
ORDER = """mkdir /sys/kernel/tracing/instances/order && cd /sys/kernel/tracing/instances/order &&
echo vfio_iommu_type1_ioctl kvm_arch_commit_memory_region >set_ftrace_filter && echo function >current_tracer"""


def traced(a):
    """Can calls be traced by name?  The kernel of check-debug has no function tracer."""
    return not a.run("grep -qw function /sys/kernel/tracing/available_tracers", check=False).status


def in_order(t, a):
    if not traced(a):
        with t.case("QEMU maps a DIMM by VFIO, and gives KVM a slot for it afterwards"):
            t.skip("no function tracer in this kernel: make check-long shows it")
        return
    lines = a.run("cat /sys/kernel/tracing/instances/order/trace; rmdir /sys/kernel/tracing/instances/order").out
    calls = [m.group(1) for m in re.finditer(r": (vfio_iommu_type1_ioctl|kvm_arch_commit_memory_region)\b", lines)]
    if "vfio_iommu_type1_ioctl" in calls:   # not by iommufd
        t.equal(calls[:2], ["vfio_iommu_type1_ioctl", "kvm_arch_commit_memory_region"],
                "QEMU maps a DIMM by VFIO, and gives KVM a slot for it afterwards")


def guest(t, f, a, address, uuid):
    """A Linux guest, whose programs get memory that was plugged in before any other."""
    with f.guest("a", "plug", memory="512M", maxmem="1G", modules=("nvme", "virtio_mem"), tools=("fio", "memory"),
                 cmdline="memhp_default_state=online_movable", devices=[f.device(uuid, ",id=lent")],
                 extra=["-object", "memory-backend-ram,id=vm,size=256M",
                        "-device", "virtio-mem-pci,id=vm0,memdev=vm,requested-size=0"]) as g:
        for turn in (1, 2):
            if turn == 1 and traced(a):
                a.run(ORDER)
            used_at_once(t, g, f"DIMM, turn {turn}", lambda: dimm_in(g))
            if turn == 1:
                in_order(t, a)
            dimm_out(g)
            used_at_once(t, g, f"virtio-mem, turn {turn}", lambda: virtio_mem(g, 128 * turn * MIB))
            virtio_mem(g, 0, most=64 * MIB)
        builds = f.stats("a", uuid)["builds"]
        a.run(f"echo 1 >/sys/bus/mdev/devices/{uuid}/dlend/rescan")
        a.wait_for(f"[ $(sed -n 's/^builds //p' /sys/kernel/debug/dlend/mdev/{uuid}/stats) -gt {builds} ]", 60)
        calls = f.stats("a", uuid)["last_build_calls"]
        # One for each MiB that virtio-mem could have plugged, and some for edges: none for mere space
        t.ok(calls <= 256 + 200, "a scan of everything pins in holes of memory slots only", f"{calls} calls")
        g.shutdown()
    f.wait_state("a", address, "free")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        a.run("echo 0 >/sys/module/dlend_mdev/parameters/rescan_s")    # what is found is found otherwise
        guest(t, f, a, address, uuid)
        f.mdev_stop("a", uuid)


main()
