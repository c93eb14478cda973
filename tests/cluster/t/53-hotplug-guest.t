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
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from plug import MIB, ONLINE, VIRTIO_MEM, dimm_in, dimm_out, used_at_once, virtio_mem  # noqa: E402  pylint: disable=wrong-import-position

# What this rests on: the VMM maps memory by VFIO before it gives KVM a slot.
ORDER = """mkdir /sys/kernel/tracing/instances/order && cd /sys/kernel/tracing/instances/order &&
echo vfio_iommu_type1_ioctl kvm_arch_commit_memory_region >set_ftrace_filter && echo function >current_tracer"""


def traced(a):
    """Can calls be traced by name?  The kernel of check-debug has no function tracer."""
    return not a.run("grep -qw function /sys/kernel/tracing/available_tracers", check=False).status


def in_order(t, a, tracer):
    if not tracer:
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
    tracer = traced(a)
    with f.guest("a", "plug", memory="512M", maxmem="1G", modules=("nvme", "virtio_mem"), tools=("fio", "memory"),
                 cmdline=ONLINE, devices=[f.device(uuid, ",id=lent")], extra=VIRTIO_MEM) as g:
        for turn in (1, 2):
            if turn == 1 and tracer:
                a.run(ORDER)
            used_at_once(t, g, f"DIMM, turn {turn}", lambda: dimm_in(g))
            if turn == 1:
                in_order(t, a, tracer)
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
