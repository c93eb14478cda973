#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VMM takes more of its host than it may lock: it is refused, said why, and an honest one beside it has what it needs.

    host a (node 1): a VMM of our own, a guest ------ ab ------ host b (node 2): nvme0, nvme1
"""
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position

MIB = 1 << 20
PIECE = 2 * MIB         # of greedy.c
LIMIT = 64 * MIB        # of the VMM
HELD = 3                # times that 16 MiB fit there, beside 4 MiB
PAGES = 4000            # single ones: some of what the kernel has counted may not be told yet
GROUP = "/sys/fs/cgroup/greedy"
PERCENT = "/sys/module/dlend_mdev/parameters/vm_window_percent"
READ = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c"


class Bed:
    """A disk for the greedy VMM, one for the honest, and what is free of the window at first."""

    def __init__(self, t, f):
        self.t, self.f, self.a = t, f, f.host("a")
        self.address = {name: f.lend("b", name) for name in ("nvme0", "nvme1")}
        self.uuid = {name: f.mdev("a", address, "dlend-nvme") for name, address in self.address.items()}
        self.free = f.free("a")
        legacy = self.a.run("modprobe -q iommufd; [ -c /dev/iommu ]", check=False).status
        self.hows = ["legacy"] if legacy else ["legacy", "iommufd"]
        self.link = next(name for name in self.free if ":" in name)
        self.almost_all = (self.free[self.link] - LIMIT) // PIECE

    @contextmanager
    def greedy(self, how, way, count, limit=LIMIT, before="true"):
        """It has mapped its memory, and turns the device on when go() is called."""
        as_user = f"prlimit --memlock={limit} setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock" if limit else ""
        self.a.run("rm -f /tmp/go /run/greedy")
        job = self.a.spawn(f"{before}; exec {as_user} /share/greedy {how} {way} {count} {self.uuid['nvme0']} >/run/greedy 2>&1")
        self.a.wait_for("grep -q ^mapped /run/greedy", 120)
        try:
            yield
        finally:
            job.kill(9)
            job.wait(60, check=False)
        self.f.wait_state("a", self.address["nvme0"], "free")
        self.t.equal(self.f.wait_free("a", self.free), self.free, f"{how}, {way}: in the end the window is whole")

    def go(self):
        self.a.run("touch /tmp/go")
        self.a.wait_for("grep -q '^ready\\|^had\\|^refused' /run/greedy", 240)

    def is_refused(self, what, why):
        self.f.wait_mdev("a", self.uuid["nvme0"], "failed", 60)
        state = self.f.mdev_state("a", self.uuid["nvme0"])
        self.t.ok(why in state, f"{what}: {why}", state)
        status = self.f.dlend("a", "status").out
        self.t.ok(why in status, "  and dlend status says so", status)

    def honest(self, what):
        with self.f.guest("a", "g", devices=[self.f.device(self.uuid["nvme1"])]) as g:
            self.t.equal(g.run(READ, timeout=120).out.strip(), "65536", f"{what}: an honest VM beside it works")
        self.f.wait_state("a", self.address["nvme1"], "free")

    def again(self, how):
        """One page counts at each address that the guest has it at, however VFIO counts it."""
        with self.greedy(how, "again", self.almost_all):
            self.go()
            self.is_refused(f"{how}, 2 MiB at {self.almost_all} places", f"memlock limit ({LIMIT >> 10} KiB) too low")
            self.honest(f"{how}, again")

    def holes(self, how):
        """The window keeps the place of memory that has gone while anything beside it is there."""
        with self.greedy(how, "holes", 2 * HELD):
            self.go()
            said = self.a.run("tail -n 1 /run/greedy").out.strip()
            self.t.equal(said, f"refused after {HELD}", f"{how}, 16 MiB that go but for a page")
            self.is_refused(f"{how}, holes", f"memlock limit ({LIMIT >> 10} KiB) too low")

    def of_the_window(self):
        """Who may lock what it likes has its share of the window all the same."""
        was = self.a.run(f"cat {PERCENT}; echo 10 >{PERCENT}").out.strip()
        with self.greedy("legacy", "again", self.almost_all, limit=None):
            self.go()
            size = int(self.a.run(f"cat /sys/class/dlend_link/{self.link}/aperture_bytes").out)
            self.is_refused("a tenth of the window", f"of the window's {size // MIB} MiB this VM may have {size // MIB // 10} ")
            self.a.run(f"echo {was} >{PERCENT}")
            self.honest("a tenth of the window")

    def kernel_memory(self):
        """In bytes, of the control group."""
        return int(self.a.run(f"sed -n 's/^kernel //p' {GROUP}/memory.stat").out)

    def charged(self):
        if self.a.run("grep -q 'cgroup2$' /proc/filesystems && mkdir -p /sys/fs/cgroup && { mountpoint -q /sys/fs/cgroup || "
                      "mount -t cgroup2 cgroup2 /sys/fs/cgroup; } && echo +memory >/sys/fs/cgroup/cgroup.subtree_control && "
                      f"mkdir {GROUP}", check=False).status:
            self.t.diag("this kernel counts no memory of control groups; Debian's does")
            return
        with self.greedy("legacy", "pages", PAGES, before=f"echo $$ >{GROUP}/cgroup.procs"):
            before = self.kernel_memory()
            self.go()
            self.f.wait_mdev("a", self.uuid["nvme0"], "running", 240)
            books = self.f.stats("a", self.uuid["nvme0"])["table_bytes"]
            self.t.diag(f"{books} bytes of books for {PAGES} pages")
            self.t.ok(eventually(lambda: self.kernel_memory() >= before + books, True, 20),
                      "the kernel's memory for them is charged to the control group", f"{self.kernel_memory() - before} bytes")
        self.a.wait_for(f"rmdir {GROUP}")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        shutil.copy(BUILD / "guest/greedy", c.run_dir / "share/greedy")
        f.up()
        c.host("a").wait_for("[ -c /dev/kvm ]")
        c.host("b").own_disks()
        bed = Bed(t, f)
        for how in bed.hows:
            with t.case(f"again, {how}"):
                bed.again(how)
            with t.case(f"holes, {how}"):
                bed.holes(how)
        if len(bed.hows) == 1:
            t.diag("this kernel has no iommufd; the one of make check-debug has")
        with t.case("share of the window"):
            bed.of_the_window()
        with t.case("control group"):
            bed.charged()
        for name in "ab":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
