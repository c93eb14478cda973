#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""An attached device is lost: its driver sees a device that was unplugged, and it can be attached again.

    host a (node 1): its own nvme driver ------ ab ------ host b (node 2): nvme0
"""
import contextlib
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import node_of, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position


class Disk:
    def __init__(self, t, f, address):
        self.t, self.f, self.address, self.a = t, f, address, f.host("a")

    def attach(self):
        self.f.wait_state("a", self.address, "free", 60)
        self.f.dlend("a", f"attach {self.address}", timeout=120)
        return node_of(self.a, self.address)

    @contextlib.contextmanager
    def in_use(self, what):
        """A program reads it all the time; after the block it has ended with an error, and the device is gone."""
        node = self.attach()
        job = self.a.spawn(f"while dd if={node} of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null; do :; done")
        self.a.wait_for(f"[ $(awk '{{ print $1 }}' /sys/block/{node[5:]}/stat) -gt 100 ]", 60)
        yield node
        job.wait(120, check=False)
        self.t.passed(f"{what}: the program has an error, and nothing hangs")
        self.gone(what)

    def gone(self, what):
        self.a.wait_for(f"[ ! -e /sys/bus/pci/devices/{pci(self.address)} ]", 120)
        self.t.passed(f"{what}: the device is gone")

    def works(self, what):
        node = self.attach()
        out = self.a.run(f"dd if={node} bs=4k count=4 iflag=direct 2>/dev/null | wc -c", timeout=60).out
        self.t.equal(out.strip(), "16384", f"{what}: attached again, it works")
        self.f.dlend("a", f"detach {self.address}", timeout=120)


@contextlib.contextmanager
def short_patience(host):
    """nvme, which is at a command when its device is lost, waits for its answer: 5 s here, not 60."""
    patience = "/sys/module/nvme_core/parameters/admin_timeout"
    before = host.run(f"cat {patience}; echo 5 >{patience}").out.strip()
    yield
    host.run(f"echo {before} >{patience}")


def lose(disk, f, c, job):
    """The link is cut while a job runs, and comes back when that has ended and the device is gone."""
    c.link("ab").command("down")
    job.wait(120, check=False)
    disk.a.wait_for(f"[ ! -e /sys/bus/pci/devices/{pci(disk.address)} ]", 120)
    c.link("ab").command("up")
    f.wait_links("a", 120)


def while_it_comes(disk, f, c, turns=3):
    """The link goes while the device is being attached, sooner or later: it is attached and lost, or refused."""
    a, address = disk.a, disk.address
    for turn in range(turns):
        f.wait_state("a", address, "free", 60)
        job = a.spawn(f"dlend attach {address} 2>&1")
        if turn % 2:
            a.wait_for(f"[ -e /sys/bus/pci/devices/{pci(address)} ] || grep -qx held /sys/bus/dlend/devices/{address}/state", 30, every=0.05)
        lose(disk, f, c, job)
    disk.works("lost while it was attached")


def while_it_is_probed(disk, f, c, turns=10):
    """Its driver has begun, and is somewhere in the middle: it waits for a command, or is about to give one."""
    a, address = disk.a, disk.address
    driver = f"/sys/bus/pci/devices/{pci(address)}/driver"
    for turn in range(turns):
        f.wait_state("a", address, "free", 60)
        job = a.spawn(f"dlend attach {address} 2>&1")
        a.run(f"until [ -e {driver} ]; do :; done; sleep 0.{3 * turn:02}", timeout=60)     # pace
        lose(disk, f, c, job)
    disk.works("lost while its driver began")


def program_has(disk, more=""):
    """A program has the attached device by VFIO, until it finds /tmp/lost.  Return: its job."""
    disk.attach()
    vfio_pci(disk.a, disk.address)
    disk.a.run("rm -f /tmp/lost /tmp/lostmap")
    job = disk.a.spawn(f"exec /share/lostmap {pci(disk.address)} /tmp/lost {more} >/tmp/lostmap 2>&1")
    disk.a.wait_for("grep -qs 'has it' /tmp/lostmap", 60)
    return job


def program_goes_on(disk, job, what):
    disk.a.run("touch /tmp/lost")
    job.wait(60, check=False)
    out = disk.a.run("cat /tmp/lostmap").out
    disk.t.ok("ok mapped" in out, what, out)
    disk.gone("lost by a program")


def mapped_when_lost(disk, f, c):
    """It maps memory before it has noticed: that is no error of the program's."""
    a, address = disk.a, disk.address
    job = program_has(disk)
    c.link("ab").command("down")
    a.wait_for(f"[ $(setpci -s {pci(address)} 0.w) = ffff ]", 60)
    program_goes_on(disk, job, "lost: what is mapped then is mapped, and taken back")
    c.link("ab").command("up")
    f.wait_links("a", 120)
    disk.works("lost by a program")


def lost_beside_another(disk, f):
    """Another device joins the program's address space, which leads nowhere for the lost one; or it is there before."""
    a, address = disk.a, disk.address
    edu = f.lend("b", "edu")
    f.dlend("a", f"attach {edu}", timeout=120)
    vfio_pci(a, edu)
    for more, what in (("", "a device that comes then"), (" first", "a device beside it")):
        job = program_has(disk, pci(edu) + more)
        f.dlend("b", f"reclaim --force 0000{address[5:]}", timeout=120)
        a.wait_for(f"[ $(setpci -s {pci(address)} 0.w) = ffff ]", 60)
        program_goes_on(disk, job, f"lost: {what} reaches the program's memory, old and new")
        f.lend("b", "nvme0")
    f.dlend("a", f"detach {edu}", timeout=120)
    f.wait_state("a", edu, "free", 60)
    disk.works("lost beside another")


def kept_by_a_program(disk, f, ntb):
    """It does not give the device back when the NTB loses its driver, which waits for it, but not for ever."""
    a = disk.a
    job = program_has(disk)
    a.run(f"echo {ntb} >{a.ntb_driver}/unbind", timeout=120)
    disk.t.ok(a.run(f"[ -e /sys/bus/pci/devices/{pci(disk.address)} ] && pgrep -x lostmap", check=False).status == 0,
              "a program keeps it: the NTB goes without it")
    a.run(f"echo {ntb} >{a.ntb_driver}/bind", timeout=60)
    f.wait_links("a", 120)
    program_goes_on(disk, job, "a program keeps it: what it maps then is mapped, and taken back")
    disk.works("kept by a program")


def while_it_goes(disk, f, c, turns=3):
    a, address = disk.a, disk.address
    for _ in range(turns):
        disk.attach()
        job = a.spawn(f"dlend detach --force {address} 2>&1")
        lose(disk, f, c, job)
    disk.works("lost while it was detached")


def while_it_resets(disk, f, c):
    """A function-level reset after the other, by sysfs, as vfio-pci makes them."""
    a, address = disk.a, disk.address
    disk.attach()
    device = f"/sys/bus/pci/devices/{pci(address)}"
    a.run(f"echo {pci(address)} >{device}/driver/unbind; echo 1 >{device}/reset", timeout=60)
    job = a.spawn(f"n=0; while echo 1 >{device}/reset; do n=$((n + 1)); echo $n >/tmp/resets; done 2>/dev/null; echo done $n")
    a.wait_for("[ $(cat /tmp/resets) -gt 3 ]", 60)
    c.link("ab").command("down")
    out = job.wait(120, check=False).out
    disk.t.ok(out.startswith("done "), "lost during a reset: the reset ends with an error", out)
    a.wait_for(f"[ ! -e {device} ]", 120)
    c.link("ab").command("up")
    f.wait_links("a", 120)
    disk.works("lost during a reset")


def lender_stops(disk, f, b):
    """It stands still until the other side gives it up."""
    with contextlib.ExitStack() as after:
        with disk.in_use("lender stopped"):
            after.enter_context(b.stands_still())
        disk.a.wait_for("! ls /sys/bus/platform/devices | grep -q dlend-root", 30)
        disk.t.passed("lender stopped: nothing is left")
    f.wait_links("a", 120)
    disk.works("lender stopped")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        shutil.copy(BUILD / "guest/lostmap", c.run_dir / "share/lostmap")
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        a.run("modprobe nvme")
        a.load_modules("dlend_native")
        address = f.lend("b", "nvme0")
        disk = Disk(t, f, address)
        device = "the device goes on until its lender has stopped it"
        driver = "the driver goes on until it has noticed: its lender's IOMMU stops it"
        with t.case("the link is cut"), a.provoke(IOMMU_FAULT, device, must=False), \
                b.provoke(IOMMU_FAULT, driver, must=False):
            with disk.in_use("link cut"):
                c.link("ab").command("down")
            c.link("ab").command("up")
            f.wait_links("a", 120)
            disk.works("link cut")
        with t.case("taken back"), b.provoke(IOMMU_FAULT, driver, must=False):
            with disk.in_use("reclaim --force"):
                f.dlend("b", f"reclaim --force 0000{address[5:]}", timeout=120)
            f.lend("b", "nvme0")
            disk.works("reclaim --force")
        with t.case("the module is unloaded"):
            disk.attach()
            t.ok(a.run("rmmod dlend_native", check=False).status, "the module stays while a device is attached")
            f.dlend("a", f"detach {address}", timeout=120)
            a.run("rmmod dlend_native", timeout=120)
            f.wait_state("a", address, "free")
            t.ok("attached" not in a.run(f"ls /sys/bus/dlend/devices/{address}").out, "unloaded, it leaves nothing behind")
            a.load_modules("dlend_native")
            disk.works("unloaded and loaded")
        with t.case("the NTB loses its driver"), a.provoke(IOMMU_FAULT, device, must=False), \
                b.provoke(IOMMU_FAULT, driver, must=False):
            with disk.in_use("unbind"):
                ntb = a.bdf("ntb-ab")
                a.run(f"echo {ntb} >{a.ntb_driver}/unbind", timeout=120)
            a.run(f"echo {ntb} >{a.ntb_driver}/bind", timeout=60)
            f.wait_links("a", 120)
            disk.works("unbind")
        nvme = "nvme reads a size from a device that is gone, and does not check it"
        with t.case("while it comes"), a.provoke(r"UBSAN: shift-out-of-bounds in .*drivers/nvme", nvme, must=False), \
                a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False), short_patience(a):
            while_it_comes(disk, f, c)
        with t.case("while it is probed"), a.provoke(r"UBSAN: shift-out-of-bounds in .*drivers/nvme", nvme, must=False), \
                a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False), short_patience(a):
            while_it_is_probed(disk, f, c)
        with t.case("lost by a program"), a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False):
            mapped_when_lost(disk, f, c)
        with t.case("lost beside another"), a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False):
            lost_beside_another(disk, f)
        with t.case("while it goes"), a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False):
            while_it_goes(disk, f, c)
        with t.case("while it resets"), a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False):
            while_it_resets(disk, f, c)
        with t.case("the lender stops"), a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False):
            lender_stops(disk, f, b)
        t.equal(a.run("dmesg | grep 'nonexistent resource'", check=False).out, "", "drivers found what they had, and gave it back")
        with t.case("kept by a program"), a.provoke(IOMMU_FAULT, device, must=False), b.provoke(IOMMU_FAULT, driver, must=False):
            kept_by_a_program(disk, f, ntb)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
