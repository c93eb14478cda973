#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Both lent disks are pulled out of the lender's slots at once, under I/O, and another disk is put into one of the slots.

    host a (node 1): guest ------ ab ------ host b (node 2): nvme0, nvme1 in slots

The disk's model is the same, and so are its ids and BARs: only the serial number tells that it is a stranger.
"""
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from blocks import Writers, disk_of  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

PORTS = ("nvme0", "nvme1")
FIRST, SIZE = 16384, 512
SERIALS = "cat /sys/class/nvme/*/serial 2>/dev/null"
STRANGER = "SOMEBODY-ELSES"


def image(b):
    return hashlib.sha256(b.disk_file("other").read_bytes()).hexdigest()


def missing(path, last):
    """Of the numbered blocks up to this one, those that are not in a disk's image as they were written."""
    with open(path, "rb") as disk:
        return [n for n in range(1, last + 1) if disk.seek((FIRST + n) * SIZE) and disk.read(8) != b"%08d" % n]


def pulled(t, f, a, b, addresses, uuids, g):
    writers = Writers([(disk_of(g, f"DLEND-NVME-{n}"), FIRST) for n in range(2)], size=SIZE)
    writers.begin(g)
    writers.go_on(g)
    for port in PORTS:
        b.qmp("device_del", id=port)
    for port in PORTS:
        b.wait_event("DEVICE_DELETED", 120, lambda data, port=port: data.get("device") == port)
    for address, uuid in zip(addresses, uuids):
        a.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ] || grep -q '^failed' /sys/bus/mdev/devices/{uuid}/dlend/state", 90)
        t.diag("the mediated device: " + f.mdev_state("a", uuid))
    g.wait_for("[ -s /tmp/lost ]", 200)
    t.passed("the guest goes on, and its programs learn that a disk is gone")
    for port, last in zip(PORTS, writers.last(g)):
        t.equal(missing(b.disk_file(port), last), [], f"{port}: each of {last} blocks that it said it has is there")


def exchanged(t, f, a, b, address, uuid, g):
    before = image(b)
    b.qmp("device_add", driver="nvme", id="nvme0", bus="port-nvme0", serial=STRANGER, drive="other", dbcs=False)
    b.wait_for(f"ls -d /sys/bus/pci/devices/{b.port('nvme0').bdf}/*:00.0", 60)
    b.own_disks()
    f.dlend("b", f"lend {b.bdf('nvme0')}", timeout=120)
    t.equal(f.address("b", "nvme0"), address, "another disk has the address of the one that was pulled")
    a.wait_for(f"dmesg | grep -q 'another device under this address.*{STRANGER}, was .*DLEND-NVME-0'", 60)
    t.passed("its borrower says so")
    lease = f.lender_state(address)
    g.run("for n in 1 2 3; do dd if=/dev/zero of=/dev/nvme0n1 bs=64k count=4 oflag=direct 2>/dev/null; done; "
          "echo 1 >/sys/bus/pci/rescan; for d in /sys/bus/pci/devices/*; do grep -qx 0x010802 $d/class && echo 1 >$d/reset; done",
          check=False, timeout=240)
    g.kill()
    # A VM whose device is refused is stopped.
    with f.guest("a", "again", wait=False, memory="160M", devices=[f.device(uuid)]) as again:
        f.wait_mdev("a", uuid, "failed")
        t.ok("does not lend it any more" in f.mdev_state("a", uuid), "the VM does not get it when it is started anew", f.mdev_state("a", uuid))
        again.kill()
    t.equal(f.lender_state(address), lease, "its lender was not even asked")
    t.equal(image(b), before, "and nothing was written to it")


def meant(t, f, a, address, uuid):
    """An administrator takes it for the VM after all; or does not."""
    f.mdev_stop("a", uuid)
    f.wait_state("a", address, "free")
    t.equal(a.run(f"cat /sys/bus/dlend/devices/{address}/identity").out.strip(), STRANGER, "the offer says which disk it is")
    uuid = f.mdev("a", address, "dlend-nvme")
    a.run(f"echo DLEND-NVME-0 >/sys/bus/mdev/devices/{uuid}/identity")
    with f.guest("a", "pinned", wait=False, memory="160M", devices=[f.device(uuid)]) as g:
        f.wait_mdev("a", uuid, "failed")
        said = f.mdev_state("a", uuid)
        t.ok("another device" in said and STRANGER in said, "a mediated device that means the old one refuses it, and says why", said)
        g.kill()
    a.run(f"echo {STRANGER} >/sys/bus/mdev/devices/{uuid}/identity")
    with f.guest("a", "new", memory="160M", devices=[f.device(uuid)]) as g:
        g.wait_for("[ -b /dev/nvme0n1 ]", 90)
        t.equal(g.run(SERIALS).out.split(), [STRANGER], "one that means the new one gets it")
        g.shutdown()
    f.wait_state("a", address, "free")


def main():
    with Tap() as t, Cluster("slots.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        addresses = [f.lend("b", port) for port in PORTS]
        uuids = [f.mdev("a", address, "dlend-nvme") for address in addresses]
        b.expect("pcieport|nvme|DMAR: .*[Ff]ault", "disks are pulled out under I/O", must=False)
        with f.guest("a", "g", memory="192M", devices=[f.device(uuid, f",id=lent{n}") for n, uuid in enumerate(uuids)]) as g:
            g.wait_for("[ -b /dev/nvme1n1 ]", 90)
            with t.case("both are pulled: to the end"):
                pulled(t, f, a, b, addresses, uuids, g)
            with t.case("another disk in the slot: to the end"):
                exchanged(t, f, a, b, addresses[0], uuids[0], g)
        with t.case("which one is meant: to the end"):
            meant(t, f, a, addresses[0], uuids[0])
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
