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
from blocks import Writers  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position

TRIPS = 20 if os.environ.get("DLEND_LONG") == "1" else 1
# All memory that the disk can write to is sent when the guest has stopped.
DEVICE = ",id=lent,enable-migration=on,x-pre-copy-dirty-page-tracking=off"
FILE = "/share/vm.migration"
# 8 MiB of the disk for each of the programs
PLACES = [("nvme0n1", 16384 * writer) for writer in range(4)]
SAME = "cat /proc/sys/kernel/random/boot_id; dmesg | grep -c nvme; readlink -f /sys/class/nvme/nvme0/device"


class Guest:
    """The guest, on whichever host."""

    def __init__(self, t, f):
        self.t, self.f = t, f
        self.disk = f.lend("b", "nvme0")
        self.uuid = {}
        self.vm, self.same = None, ""
        self.writers = Writers(PLACES, size=512)

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
        self.writers.begin(self.vm)
        self.works_on()

    def works_on(self):
        self.writers.go_on(self.vm)
        self.t.equal(self.writers.lost(self.vm), "", "all of them write on, and no block was refused")

    def migrated(self, vm, name):
        state = eventually(lambda: vm.qmp("query-migrate").get("status") in ("completed", "failed"), True, 120)
        self.t.ok(state and vm.qmp("query-migrate")["status"] == "completed", name, str(vm.qmp("query-migrate")))

    def moves(self, source, to):
        t, f, old = self.t, self.f, self.vm
        session, resets, epoch = old.slot.agent.session, f.resets(self.disk), f.lender_state(self.disk)[2]
        f.host(source).run(f"echo {f.node[to]} all >/sys/bus/mdev/devices/{self.uuid[source]}/dlend/move_to")
        f.wait_available(to, self.disk)
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
        t.equal(f.resets(self.disk), resets, "  and was not reset")


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
        guest.writers.check(t, guest.vm)
        guest.vm.shutdown()
        f.wait_state("a", guest.disk, "free", 60)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
