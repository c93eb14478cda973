#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A Linux guest of QEMU's moves from host to host while four programs write to its lent disk, which stays.

    host a (node 1): the guest at first ---- ab ---- host b (node 2): nvme0
           \\------ ac ---- host c (node 3): the guest later ---- bc ---- host b

71-move has a VMM of our own, which is faster, and 79-live has libvirt; here is QEMU alone, by its monitor and a file.
DLEND_LONG=1: 20 round trips.
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position

TRIPS = 20 if os.environ.get("DLEND_LONG") == "1" else 1
# All memory that the disk can write to is sent when the guest has stopped.
DEVICE = ",id=lent,enable-migration=on,x-pre-copy-dirty-page-tracking=off"
FILE = "/share/vm.migration"
# Each has 16384 blocks of its own: block n begins with the number n.  /tmp/last.W is the last that the disk has said it has.
WRITERS = 4
LOAD = """n=0; while :; do n=$((n+1)); printf '%08d' $n | dd of=/dev/nvme0n1 bs=512 seek=$((@ * 16384 + n)) conv=sync oflag=direct \
2>/dev/null && echo $n >/tmp/new.@ && mv /tmp/new.@ /tmp/last.@ || echo $n >>/tmp/lost; done"""
# How many blocks of a writer there are, and how many of them are not as they were written
WRONG = """last=$(cat /tmp/last.@)
dd if=/dev/nvme0n1 bs=512 skip=$((@ * 16384 + 1)) count=$last iflag=direct 2>/dev/null | tr -d '\\0' | fold -w 8 |
awk '$0 + 0 != NR || length != 8 { n++ } END { print NR, n + 0 }'"""
SAME = "cat /proc/sys/kernel/random/boot_id; dmesg | grep -c nvme; readlink -f /sys/class/nvme/nvme0/device"


class Guest:
    """The guest, on whichever host."""

    def __init__(self, t, f):
        self.t, self.f = t, f
        self.disk = f.lend("b", "nvme0")
        self.uuid = {}
        self.vm, self.same = None, ""
        self.last = [0] * WRITERS   # block of each writer, as far as it is known

    def on(self, name, extra=()):
        """Its QEMU on that host."""
        self.uuid[name] = self.f.mdev(name, self.disk, "dlend-nvme")
        return self.f.host(name).guest("vm", memory="128M", modules=("nvme",), extra=extra,
                                       devices=[self.f.device(self.uuid[name], DEVICE)])

    def begins(self):
        self.vm = self.on("a")
        self.vm.start()
        self.vm.wait_ready(240)
        self.vm.wait_for("[ -b /dev/nvme0n1 ]", 60)
        self.same = self.vm.run(SAME).out
        for writer in range(WRITERS):
            self.vm.spawn(LOAD.replace("@", str(writer)))
        self.works_on()

    def works_on(self):
        files = [f"/tmp/last.{writer}" for writer in range(WRITERS)]
        self.vm.wait_for(" && ".join(f"[ -e {file} ] && [ $(cat {file}) -gt {last + 2} ]" for file, last in zip(files, self.last)), 120)
        self.last = [int(last) for last in self.vm.run(f"cat {' '.join(files)}").out.split()]
        self.t.equal(self.vm.run("cat /tmp/lost 2>/dev/null", check=False).out, "", "all of them write on, and no block was refused")

    def blocks(self):
        for writer in range(WRITERS):
            count, wrong = map(int, self.vm.run(WRONG.replace("@", str(writer)), timeout=300).out.split())
            self.t.ok(count >= self.last[writer] and not wrong, f"writer {writer}: each of {count} blocks is as it was written",
                      f"{wrong} are wrong; {self.last[writer]} were known")

    def resets(self):
        return len(self.f.trace("b", f"dlend_reset: {self.disk} "))

    def migrated(self, vm, name):
        state = eventually(lambda: vm.qmp("query-migrate").get("status") in ("completed", "failed"), True, 120)
        self.t.ok(state and vm.qmp("query-migrate")["status"] == "completed", name, str(vm.qmp("query-migrate")))

    def moves(self, source, to):
        t, f, old = self.t, self.f, self.vm
        session, resets, epoch = old.slot.agent.session, self.resets(), f.lender_state(self.disk)[2]
        f.host(source).run(f"echo {f.node[to]} all >/sys/bus/mdev/devices/{self.uuid[source]}/dlend/move_to")
        f.host(to).wait_for(f"grep -qx 1 /sys/class/mdev_bus/{self.disk}/mdev_supported_types/*/available_instances", 60)
        new = self.on(to, extra=("-incoming", "defer"))
        new.start()
        old.qmp("migrate", uri=f"file:{FILE}")
        self.migrated(old, f"{source} to {to}: QEMU there has stopped the guest, and written its memory")
        t.equal(f.lender_state(self.disk)[:2], ("held", str(f.node[source])), "  the disk is still where the guest was")
        old.kill()
        f.mdev_stop(source, self.uuid.pop(source))
        new.qmp("migrate-incoming", uri=f"file:{FILE}")
        self.migrated(new, "  QEMU here has read it")
        new.slot.agent.session, new.slot.agent.boots = session, 1
        self.vm = new
        self.works_on()
        t.equal(self.vm.run(SAME).out, self.same, "  the guest: same boot, same device, no message of its driver")
        state = f.lender_state(self.disk)
        t.ok(state[:2] == ("held", str(f.node[to])) and int(state[2]) > int(epoch), "  the disk is here, by another lease", str(state))
        t.equal(self.resets(), resets, "  and was not reset")


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        guest = Guest(t, f)
        with t.case("a guest with a disk"):
            guest.begins()
        for trip in range(TRIPS):
            for source, to in (("a", "c"), ("c", "a")):
                with t.case(f"trip {trip + 1}: {source} to {to}"):
                    guest.moves(source, to)
        guest.blocks()
        guest.vm.shutdown()
        f.wait_state("a", guest.disk, "free", 60)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
