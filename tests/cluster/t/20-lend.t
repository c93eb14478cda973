#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What may be lent, what may not, and what the administrator is told.

    host a (node 1) ------ ab ------ host b (node 2): nvme0, nvme1, a pair in one group, a bridge with an edu
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position


EDU = "0000:00:10.0"      # in the guest


def refused(t, host, words, *wanted, name):
    r = host.run(f"dlend {words} 2>&1", check=False, timeout=90)
    t.ok(r.status != 0 and all(w in r.out for w in wanted), name, f"status {r.status}: {r.out}")


def bad_input(t, b):
    refused(t, b, "lend 0000:7f:1f.7", "0000:7f:1f.7", name="a device that does not exist")
    refused(t, b, "lend nonsense", "nonsense", name="not an address")
    refused(t, b, f"lend {b.bdf('bridge')}", "bridge", name="a bridge")
    disk = b.run(f"ls /sys/bus/pci/devices/{b.bdf('nvme1')}/nvme/*/ | grep -o 'nvme[0-9]*n1' | head -n 1").out.strip()
    b.run(f"mkfs.ext4 -q /dev/{disk} && mount /dev/{disk} /mnt")
    refused(t, b, f"lend {b.bdf('nvme1')}", "mount", name="a mounted disk")
    t.ok(b.run("touch /mnt/still-there && cat /sys/class/nvme/*/state").out.count("live") >= 1,
         "which stays as it was")
    b.run("umount /mnt")
    refused(t, b, f"lend {b.bdf('pair')}", "group", name="half of an IOMMU group")
    root = b.port("nvme1").bdf
    refused(t, b, f"lend {root}", "bridge", name="a root port")


def raw_bind(t, b):
    """Without the command: plain sysfs refuses the same."""
    bdf = b.bdf("bridge")
    b.run(f"cd /sys/bus/pci/devices/{bdf} && echo dlend-lender >driver_override && "
          f"{{ [ ! -e driver ] || echo {bdf} >driver/unbind; }}")
    r = b.run(f"echo {bdf} >/sys/bus/pci/drivers/dlend-lender/bind", check=False)
    t.ok(r.status != 0, "the driver itself refuses a bridge", r.out)
    b.run(f"echo >/sys/bus/pci/devices/{bdf}/driver_override; echo {bdf} >/sys/bus/pci/drivers_probe", check=False)


def lend_and_list(t, f, a, b):
    address = f.lend("b", "nvme0")
    for name in ("a", "b"):
        entry = f.offers(name).get(address, {})
        t.equal((entry.get("type"), entry.get("state"), entry.get("lender")), ("dlend-nvme", "free", 2),
                f"dlend list on {name}")
    t.ok("dlend-nvme" in a.run("mdevctl types").out, "mdevctl types shows the type")
    parent = f"/sys/class/mdev_bus/{address}/mdev_supported_types/dlend-nvme"
    t.equal(a.run(f"cat {parent}/available_instances").out.strip(), "1", "one is available")
    t.equal(a.run(f"cat {parent}/name").out, "dlend NVMe disk\n", "the type's name is that of any NVMe disk of any node")
    ids = ":".join(a.run(f"cat /sys/bus/dlend/devices/{address}/{name}").out.strip()[2:] for name in ("vendor", "device"))
    said = a.run(f"cat {parent}/description").out
    t.ok(f"device {ids} of node 2" in said, "its description has ids and lender", said)
    t.ok(address in f.dlend("b", f"lend {b.bdf('nvme0')}").out, "lending it again changes nothing")
    r = a.run(f"mdevctl start -u 00000000-1111-2222-3333-444444444444 -p {address} --type dlend-gpu", check=False)
    t.ok(r.status != 0, "a type that is not there", r.out)
    r = a.run("mdevctl start -u 00000000-1111-2222-3333-444444444444 -p d0009:01:00.0 --type dlend-nvme", check=False)
    t.ok(r.status != 0, "a parent that is not there", r.out)
    f.dlend("b", f"reclaim {b.bdf('nvme0')}", timeout=90)
    t.ok("/nvme" in b.run(f"readlink /sys/bus/pci/devices/{b.bdf('nvme0')}/driver").out,
         "reclaimed: its own driver has it again")
    a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ]", 20)
    t.passed("and the offer is gone from a")


def prepared(t, f, a, b):
    """What is reserved is never free to others, not even while it is being lent."""
    bdf = b.bdf("nvme1")
    address = f.lend("b", "nvme1")
    f.dlend("b", f"reserve --for 2 {bdf}")
    f.dlend("b", f"reclaim {bdf}", timeout=90)
    a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ]", 20)
    # As far as dlend lend comes if it is killed
    b.run(f"cd /sys/bus/pci/devices/{bdf} && echo dlend-lender >driver_override && echo {bdf} >driver/unbind && "
          f"echo {bdf} >/sys/bus/pci/drivers/dlend-lender/lend_prepare", timeout=60)
    t.equal(f.offers("b")[address]["state"], "preparing", "bound by lend_prepare: its host sees that it is being prepared")
    other = f.lend("b", "nvme0")
    t.equal(sorted(f.offers("a")), [other], "the other host hears of one that is bound later, and not of this one")
    f.dlend("b", f"lend {bdf}", timeout=90)
    f.wait_state("a", address, "reserved")
    t.equal((f.offers("a")[address]["borrower"], f.offers("b")[address]["state"]), (2, "reserved"),
            "dlend lend ends what was begun: the other host sees for whom it is reserved")
    f.dlend("b", f"unreserve {bdf}")
    f.wait_state("a", address, "free")
    for one in (address, other):
        f.dlend("b", f"reclaim {one}", timeout=90)
        a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{one} ]", 20)


def behind_a_bridge(t, f, a, b):
    """A conventional device: its requests have the id of the bridge, whose group it shares."""
    bdf = b.run(f"cd /sys/bus/pci/devices/{b.bdf('bridge')} && echo ????:??:??.?").out.strip()
    address = f.lend_bdf("b", bdf)
    uuid = f.mdev("a", address, "dlend-pci")
    with f.guest("a", "g1", modules=(), memory="128M", tools=("programs",), devices=[f.device(uuid, f",addr={EDU[8:10]}")]) as g:
        out = g.run(f"echo 1 >/sys/bus/pci/devices/{EDU}/enable; edu {EDU}", timeout=120).out
        said = dict(line.split(None, 1) for line in out.splitlines())
        t.equal((said.get("ident"), said.get("dma")), ("010000ed", "ok"), "a guest has its registers, and DMA goes both ways")
        t.equal((said.get("msi"), said.get("dma_msi")), ("10", "2"), "each interrupt arrives, and once")
        g.shutdown()
    f.wait_state("a", address, "free")
    f.mdev_stop("a", uuid)
    f.dlend("b", f"reclaim {bdf}", timeout=90)
    a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ]", 20)
    t.passed("returned, reset, and taken back")


def watched(host):
    """What `dlend watch` has said by the kernel's events alone: it looks by itself once in an hour."""
    return host.run("cat /tmp/watched").out


def states(host, kind, name):
    """The states that something was in, as far as that was told."""
    return re.findall(rf" {kind} {re.escape(name)} changed: .*?state (?:\S+|\".*?\") -> (\S+|\".*?\")(?:,|$)", watched(host), re.M)


def events(t, c, f, a, b):
    """Who watches hears of each state from the kernel, and need not look."""
    address = f.lend("b", "nvme0")
    bdf, uuid = b.bdf("nvme0"), f.mdev("a", address, "dlend-nvme")
    link = a.run("ls /sys/class/dlend_link | grep :").out.strip()
    shutil.copy(BUILD / "guest/userdisk", c.run_dir / "share/userdisk")
    jobs = [host.spawn("exec dlend watch --interval 3600 >/tmp/watched 2>/tmp/watching") for host in (a, b)]
    for host in (a, b):
        host.wait_for("grep -q until /tmp/watching")
    a.run(f"/share/userdisk {uuid} 4", timeout=120)
    a.wait_for(f"grep -q 'mdev {uuid} .*-> idle' /tmp/watched")
    b.wait_for(f"grep -q 'lent {bdf} .*-> free' /tmp/watched")
    a.wait_for(f"grep -q 'offer {address} .*-> free' /tmp/watched")
    for host, kind, name in ((b, "lent", bdf), (a, "offer", address)):
        seen = states(host, kind, name)
        t.ok(seen and seen[0] == "held" and seen[-1] == "free", f"host {host.name} hears that the device is taken, and free again",
             watched(host))
    seen = states(a, "mdev", uuid)
    t.ok("running" in seen and seen[-1] == "idle", "and that the mediated device runs, and no longer", watched(a))
    c.link("ab").command("down")
    for host in (a, b):
        host.wait_for("grep -q 'link .* -> down' /tmp/watched")
    a.wait_for(f"grep -q 'offer {address} .*-> gone' /tmp/watched")
    c.link("ab").command("up")
    a.wait_for(f"grep -q 'link {link} .* -> up' /tmp/watched && grep -q 'offer {address} .*gone -> free' /tmp/watched", 60)
    t.passed("and that the link is down, and up again, and what that means for the device")
    for job in jobs:
        job.kill()
        job.wait(check=False)
    f.mdev_stop("a", uuid)
    f.dlend("b", f"reclaim {address}", timeout=90)
    a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ]", 20)


def user_comes_and_goes(t, f, a):
    """Offers are dlend_borrower's: who makes mediated devices of them may go, and come again."""
    address = f.lend("b", "nvme0")
    types = f"/sys/class/mdev_bus/{address}/mdev_supported_types/dlend-nvme"
    a.wait_for(f"[ -e {types} ]", 20)
    uuid = f.mdev("a", address, "dlend-nvme")
    a.run("rmmod dlend_mdev", timeout=90)
    t.ok(a.run(f"[ ! -e /sys/bus/mdev/devices/{uuid} ] && [ ! -e {types} ]; echo $?").out.strip() == "0",
         "dlend_mdev unloaded: its mediated device and the parent are gone")
    t.equal(f.offers("a").get(address, {}).get("state"), "free", "the offer is still there, and free")
    for turn in range(10):
        a.load_modules("dlend_mdev")
        a.run(f"[ -e {types} ] && rmmod dlend_mdev", timeout=90)
    t.passed("loaded and unloaded ten times: each time the offer is a parent as soon as it is loaded")
    a.load_modules("dlend_mdev")
    uuid = f.mdev("a", address, "dlend-nvme")
    t.equal(f.mdev_state("a", uuid), "idle", "a mediated device can be made again")
    f.dlend("b", f"reclaim {address}", timeout=90)
    a.wait_for(f"! grep -qx held /sys/bus/dlend/devices/{address}/state 2>/dev/null", 20)
    f.mdev_stop("a", uuid)
    a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ]", 20)
    t.passed("withdrawn under a mediated device: the offer goes with it")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        b.run("modprobe e1000e")
        b.wait_for(f"ls /sys/bus/pci/devices/{b.bdf('nic')}/net/*")
        with t.case("bad input"):
            bad_input(t, b)
        with t.case("plain sysfs"):
            raw_bind(t, b)
        with t.case("lend and list"):
            lend_and_list(t, f, a, b)
        with t.case("reserved before it is offered"):
            prepared(t, f, a, b)
        with t.case("behind a bridge to conventional PCI"):
            behind_a_bridge(t, f, a, b)
        with t.case("events"):
            events(t, c, f, a, b)
        with t.case("dlend_mdev unloaded and loaded again"):
            user_comes_and_goes(t, f, a)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
