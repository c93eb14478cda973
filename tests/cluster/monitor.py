# SPDX-License-Identifier: GPL-2.0-only
"""A guest of QEMU's that moves from host to host by QEMU's monitor and a file, and keeps its lent devices.

    with Moving(t, f, {address: "dlend-nvme"}, memory="128M", modules=("nvme",)) as m:
        m.begin("a")
        m.move("a", "c")

What m.vm.spawn() began goes on in the guest when it has moved, and how it ends is not told. The VM does not run while
its memory is copied: all of it goes when it has stopped.
"""
from fabric import eventually

# All memory that a device can write to is sent when the guest has stopped.
KEPT = ",enable-migration=on,x-no-kvm-intx=on,x-pre-copy-dirty-page-tracking=off"
FILE = "/share/vm.migration"
STILL_MS = 1000000
# Memory goes through a file, which on a slow bed takes longer than a lender waits. What it does then is 72-move-faults'.
PARKED_S = 600
TRIES = 8
THERE_AND_BACK = (("a", "c"), ("c", "a"))


class Moving:
    """The guest, on whichever host.  devices: type of each, by address; words: after "NODE all", for move_to; more: for
    Host.guest()"""

    def __init__(self, t, f, devices, words="", **more):
        self.t, self.f = t, f
        self.devices, self.words, self.more = devices, words, more
        self.uuid = {}      # of the mediated devices, in the order of `devices`, by host
        self.vm = None
        self.kept = KEPT

    def __enter__(self):
        for address in self.devices:
            self.f.patience(address, PARKED_S)
        return self

    def __exit__(self, failed, *_):
        """All of its devices are free again."""
        if self.vm and self.vm.running:
            self.vm.kill()
        for address in () if failed else self.devices:
            self.f.wait_state("a", address, "free", 60)

    def on(self, name, extra=()):
        """Its QEMU on that host."""
        self.uuid[name] = [self.f.mdev(name, address, kind) for address, kind in self.devices.items()]
        devices = [self.f.device(uuid, f",id=lent{i},addr={0x10 + i:#x}{self.kept}") for i, uuid in enumerate(self.uuid[name])]
        return self.f.host(name).guest("vm", extra=extra, devices=devices, **self.more)

    def begin(self, name):
        self.vm = self.on(name)
        self.vm.start()
        self.vm.wait_ready(240)

    @staticmethod
    def over(vm):
        """What becomes of a migration."""
        eventually(lambda: vm.qmp("query-migrate").get("status") in ("completed", "failed"), True, PARKED_S)
        return vm.qmp("query-migrate")

    def migrated(self, vm, what):
        state = self.over(vm)
        self.t.ok(state.get("status") == "completed", what, str(state))

    def leave(self, vm):
        """It is written into the file.  On a slow bed a disk may do nothing for so long that it seems to be done, and is
        not: then its lender refuses, the VM runs on, and its administrator tries again."""
        for _ in range(TRIES):
            vm.qmp("migrate", uri=f"file:{FILE}")
            if "resource busy" not in self.over(vm).get("error-desc", ""):
                return
            eventually(lambda: vm.qmp("query-status")["status"], "running", 30)

    def allow(self, source, to):
        """The lenders learn where the devices may go, and the other host, that it may have them."""
        for uuid in self.uuid[source]:
            self.f.host(source).run(f"echo {self.f.node[to]} all {self.words} >/sys/bus/mdev/devices/{uuid}/dlend/move_to")
        for address in self.devices:
            self.f.wait_available(to, address)

    def move(self, source, to):
        """It runs on host `to`, and nothing of it is left on host `source`."""
        old, before = self.vm, self.states()
        self.allow(source, to)
        new = self.on(to, extra=("-incoming", "defer"))
        for uuid in self.uuid[to]:      # says nothing about a device that its VM brings along
            self.f.host(to).run(f"echo open >/sys/bus/mdev/devices/{uuid}/prepin")
        new.start()
        # On a slow bed the guest writes faster than its memory is copied: it may stand still for that.
        old.qmp("migrate-set-parameters", **{"downtime-limit": STILL_MS})
        self.leave(old)
        self.migrated(old, f"{source} to {to}: QEMU there has stopped the guest, and written its memory")
        self.t.equal([state[:2] for state in self.states()], [("held", str(self.f.node[source]))] * len(self.devices),
                     "  its devices are still where the guest was")
        session = old.slot.agent.session
        old.kill()
        for uuid in self.uuid.pop(source):
            self.f.mdev_stop(source, uuid)
        new.qmp("migrate-incoming", uri=f"file:{FILE}")
        self.migrated(new, "  QEMU here has read it")
        new.slot.agent.session, new.slot.agent.boots = session, 1
        self.vm = new
        self.taken_over(to, before)

    def taken_over(self, to, before):
        after = self.states()
        self.t.ok(all(state[:2] == ("held", str(self.f.node[to])) and state[2] > old[2] and state[3] == old[3]
                      for state, old in zip(after, before)),
                  "  its devices are here, by another lease, and were not reset", f"{before} {after}")
        said = self.f.host(to).run("dmesg | grep ': borrowed device unusable' || :").out.splitlines()
        self.t.equal([line for line in said if any(uuid in line for uuid in self.uuid[to])], [],
                     "  and nobody has asked for them before they came, though prepin is open")

    def states(self):
        """(state, borrower, epoch, how many resets) of each."""
        return [(*self.f.lender_state(address), self.f.resets(address)) for address in self.devices]
