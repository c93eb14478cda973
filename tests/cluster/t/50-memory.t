#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Guest memory: firmware that remaps, high memory, DIMMs that come later, and a VM that never freezes.

    host a (node 1): guests of every layout ------ ab ------ host b (node 2): nvme0
"""
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import TRACING, Fabric, numbers  # noqa: E402  pylint: disable=wrong-import-position

MIB = 1 << 20


def ram(guest):
    """What the guest's kernel was told by its firmware: bytes of usable RAM."""
    total = 0
    for line in guest.run("cd /sys/firmware/memmap && for d in *; do echo $(cat $d/start $d/end $d/type); done",
                          timeout=60).out.splitlines():
        start, end, kind = line.split(" ", 2)
        if kind == "System RAM":
            total += int(end, 16) + 1 - int(start, 16)
    return total


def seabios(t, f, a, b, address, uuid, machine):
    """SeaBIOS drives the disk itself, then unmaps and remaps low RAM under Bus Master Enable."""
    with f.guest("a", f"bios-{machine}", machine=machine, devices=[f.device(uuid, ",id=lent")]) as g:
        pages = f.domain(address)
        t.ok(pages["mapped_bytes"] >= ram(g) - 2 * MIB, f"{machine}: after boot all RAM is mapped at the lender",
             f"of {ram(g)}: {pages}")
        t.ok(pages["pages_2m"] >= 100, f"{machine}: mostly with 2 MiB pages", str(pages))
        here = a.run("cat /sys/kernel/debug/dlend/links/*:*").out
        t.ok(numbers(here)["pages_2m"] >= 100, f"{machine}: and so does the borrower's aperture", here[:600])
        sums = g.run("dd if=/dev/urandom of=/tmp/x bs=64k count=4 2>/dev/null; dd if=/tmp/x of=/dev/nvme0n1 bs=64k "
                     "oflag=direct 2>/dev/null; sha256sum </tmp/x", timeout=240).out
        t.equal(g.run("dd if=/dev/nvme0n1 bs=64k count=4 iflag=direct 2>/dev/null | sha256sum", timeout=240).out, sums,
                f"{machine}: data through them are right")
        g.shutdown()
    f.wait_state("a", address, "free")


def dimm(t, f, a, b, address, uuid):
    """A DIMM that is plugged in while the device runs: told by the VM's memory slots (52-hotplug), not by a scan."""
    setting = "/sys/module/dlend_mdev/parameters/rescan_s"
    scan = a.run(f"cat {setting}; echo 0 >{setting}").out.strip()
    with f.guest("a", "dimm", memory="256M", maxmem="1G", devices=[f.device(uuid, ",id=lent")]) as g:
        before = f.domain(address)["mapped_bytes"]
        g.qmp("object-add", {"qom-type": "memory-backend-ram", "id": "m1", "size": 128 * MIB})
        g.qmp("device_add", driver="pc-dimm", id="d1", memdev="m1")
        b.wait_for(f"[ $(cat {f.lender_of(address)[1]}/dma | "
                   f"sed -n 's/^mapped_bytes: //p') -ge {before + 128 * MIB} ]", 60)
        t.passed("a hot-plugged DIMM is mapped, and nobody asked for it")
        t.equal(g.run("dd if=/dev/nvme0n1 bs=64k count=2 iflag=direct 2>/dev/null | wc -c", timeout=120).out.strip(),
                str(2 * 65536), "and the disk still works")
    a.run(f"echo {scan} >{setting}")
    f.wait_state("a", address, "free")


def never_freezes(t, f, a, b, address, uuid):
    """A guest with much memory borrows: the monitor answers all the time."""
    a.run(f"cd {TRACING} && echo 'p:dlend_pins vfio_pin_pages pages=%dx:x32' >>kprobe_events && "
          "echo 1 >events/kprobes/dlend_pins/enable")
    with f.guest("a", "big", wait=False, memory="768M", devices=[f.device(uuid, ",id=lent")]) as g:
        waits, begin = [], time.monotonic()
        while time.monotonic() - begin < 240 and not g.slot.agent.boots:
            t0 = time.monotonic()
            if not g.qmp("query-status")["running"]:
                raise RuntimeError(f"the guest stopped: {f.mdev_state('a', uuid)}")
            waits.append(time.monotonic() - t0)
            with a.loop.changed:
                a.loop.changed.wait(0.02)
        slow = max(waits)
        g.wait_ready(60)
        stat = f.stats("a", uuid)
        t.diag(f"longest QMP round trip {slow * 1000:.0f} ms of {len(waits)}; "
               f"pinning took {stat['pin_us'] / 1000:.0f} ms")
        t.diag(", ".join(f"{k} {stat[k]}" for k in ("pin_longest_us", "dma_unmaps", "dma_unmap_longest_us", "builds",
                                                    "build_retries", "missing_waits", "trapped_timeouts")))
        pages = [int(n, 16) for n in a.run(f"grep -o 'pages=0x.*' {TRACING}/trace | cut -d= -f2").out.split()]
        t.ok(pages and max(pages) == 64, "no call holds the container's lock for more than 64 pages, as VFIO is asked for",
             f"{len(pages)} calls, of {sorted(set(pages))} pages")
        t.ok(f.domain(address)["mapped_bytes"] >= ram(g) - 2 * MIB, "768 MiB of guest RAM are mapped")
        # Not a bound on a time: the monitor was served many times while the pins were made.
        built = [line for _, fields, line in f.trace("a", "dlend_window") if "standing" in line]
        t.ok(built and all("kworker" in line for line in built), "the windows were built by a worker", str(built[:2]))
        config = f.trace("a", "dlend_pin")
        t.ok(config and not [line for _, _, line in config if "qemu" in line or "CPU" in line.split("[")[0]],
             "no pin was made in a thread of the VMM", str(config[:2]))
        g.shutdown()
    f.wait_state("a", address, "free")
    a.run(f"cd {TRACING} && echo 0 >events/kprobes/dlend_pins/enable && echo -:dlend_pins >>kprobe_events")


def in_advance(t, f, a, address, uuid):
    """prepin: what there is before the first instruction of a guest."""
    directory, enough = f"/sys/bus/mdev/devices/{uuid}", 250 * MIB
    for word, there in (("bme", False), ("open", True)):
        a.run(f"echo {word} >{directory}/prepin")
        with f.guest("a", f"prepin-{word}", wait=False, kernel=False, devices=[f.device(uuid)], extra=["-S"]) as g:
            t.equal(g.qmp("query-status")["status"], "prelaunch", f"prepin {word}: a guest that has not begun")
            if there:
                a.wait_for(f"[ $(sed -n 's/^pinned_bytes //p' /sys/kernel/debug/dlend/mdev/{uuid}/stats) "
                           f"-ge {enough} ]", 60)
            held, pinned = f.lender_state(address)[0] == "held", f.stats("a", uuid)["pinned_bytes"]
            t.ok(held and pinned >= enough if there else not held and not pinned,
                 f"prepin {word}: {'its device is borrowed, its RAM pinned' if there else 'nothing is borrowed'}",
                 f"held: {held}, pinned: {pinned}")
        f.wait_state("a", address, "free")
    a.run(f"echo bme >{directory}/prepin")


CASES = {"q35": "SeaBIOS on q35", "pc": "SeaBIOS on pc"}


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        for machine, name in CASES.items():
            with t.case(name):
                seabios(t, f, a, b, address, uuid, machine)
        with t.case("hot-plugged DIMM"):
            dimm(t, f, a, b, address, uuid)
        with t.case("pinned in advance"):
            in_advance(t, f, a, address, uuid)
        with t.case("the VM never freezes"):
            f.trace_clear("a")
            never_freezes(t, f, a, b, address, uuid)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
