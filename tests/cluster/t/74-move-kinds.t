#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Guests move with devices of several kinds: disks of one set at work, of which one has 32 commands under way, a card, sound,
and USB.

    host a (node 1): the guests at first ---- ab ---- host b (node 2): nvme, vdisk, usb; igb ---- cable ---- lan: host c
           \\------ ac ------ host c (node 3): the guests later ---- bc ---- host b; sound

Other controllers of disks cannot be lent here (tests/cluster/README.md). Sound is silent as its guest moves: a virtio device
whose DMA is cut while it works loses track of its queues.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import kinds  # noqa: E402  pylint: disable=wrong-import-position
from blocks import Writers  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DIRECT, Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position
from monitor import FILE, STILL_MS, THERE_AND_BACK, Moving  # noqa: E402  pylint: disable=wrong-import-position
from nets import ping, up, virtual_functions  # noqa: E402  pylint: disable=wrong-import-position

VF_MAC = "52:54:00:d1:e1:00"
# Each vector is signalled once after a move, for what may have been lost: virtio_blk takes that of its configuration for
# news of its size, and says the size that it has.
SAID = "cat /proc/sys/kernel/random/boot_id; dmesg | grep -E '] (nvme|virtio_blk|block|blk|I/O|Buffer)' | grep -v ' new size: '"
# The disk ends so many commands a second: all of them, before the guest may leave, in the second that a lender waits.
COMMANDS, PER_S = 32, 45
# Blocks are written, read back and compared: written before the guest moved and read after that, too.
FIO = (f"fio --name=many --filename=/dev/nvme0n1 --size=8m --bs=4k --rw=randwrite --direct=1 --ioengine=libaio --iodepth={COMMANDS} "
       "--verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based --runtime=36000 --minimal >/tmp/fio.out 2>&1; "
       "echo ended >/tmp/fio.ended")
DONE = "$(awk '{ print $1 + $5 }' /sys/block/nvme0n1/stat)"
UNDER_WAY = "$(awk '{ print $1 + $2 }' /sys/block/nvme0n1/inflight)"


def throttle(b, **limits):
    b.qmp("block_set_io_throttle", id="nvme", **{"iops": 0, "iops_rd": 0, "iops_wr": 0, "bps": 0, "bps_rd": 0, "bps_wr": 0, **limits})


def silent(t, b, m):
    """A disk in the midst of a command says nothing for as long as that takes: it is not taken for one that is done."""
    m.vm.run("echo 600000 >/sys/block/nvme0n1/queue/io_timeout")
    said = m.vm.run(SAID).out
    throttle(b, bps_wr=1)       # the first write passes, the second waits for it for hours
    before = m.vm.run(f"echo {DONE}").out.strip()
    m.vm.spawn("dd if=/dev/urandom of=/dev/nvme0n1 bs=64k seek=100 count=2 oflag=direct 2>/dev/null; echo $? >/tmp/dd.ended")
    m.vm.wait_for(f"[ {UNDER_WAY} = 1 ] && [ {DONE} -gt {before} ]", 120)
    m.allow("a", "c")
    m.vm.qmp("migrate-set-parameters", **{"downtime-limit": STILL_MS})
    m.vm.qmp("migrate", uri=f"file:{FILE}")
    state = m.over(m.vm)
    t.ok("resource busy" in state.get("error-desc", ""), "a write that takes long: its disk cannot be left alone", str(state))
    log = m.f.host("a").run("dmesg | tail -n 20").out
    t.ok("still has commands to end" in log, "  the log says why", log)
    eventually(lambda: m.vm.qmp("query-status")["status"], "running", 30)
    throttle(b)
    m.vm.wait_for("[ -e /tmp/dd.ended ]", 60)
    t.equal(m.vm.run("cat /tmp/dd.ended").out, "0\n", "  the VM goes on, and so does the write")
    t.equal(m.vm.run(SAID).out, said, "  the guest's driver has not said anything")


def came(t, m, name, what):
    """Where links have direct interrupts ("on direct"), those of the NVMe disk are such."""
    if DIRECT:
        t.ok(eventually(lambda: m.f.interrupts(name, next(iter(m.devices))), "direct", 30) == "direct", f"{what}: its interrupts come directly")


def disks(t, b, m):
    writers = Writers([("vda", 0)], size=512)
    m.begin("a")
    m.vm.wait_for("[ -b /dev/vda ] && [ -b /dev/nvme0n1 ]", 60)
    silent(t, b, m)
    throttle(b, iops=PER_S)
    writers.begin(m.vm)
    m.vm.spawn(FIO)
    said = m.vm.run(SAID).out
    came(t, m, "a", "before it moves")
    for source, to in THERE_AND_BACK:
        m.vm.wait_for(f"[ {UNDER_WAY} = {COMMANDS} ]", 120)
        m.move(source, to)
        before = m.vm.run(f"echo {DONE}").out.strip()
        writers.go_on(m.vm)
        t.equal(writers.lost(m.vm), "", f"on host {to}: a program writes on, and no block was refused")
        m.vm.wait_for(f"[ -e /tmp/fio.ended ] || [ {DONE} -gt $(({before} + 4 * {COMMANDS})) ]", 120)
        t.equal(m.vm.run("cat /tmp/fio.*").out, "", f"  and so does fio, with {COMMANDS} commands at a time")
        t.equal(m.vm.run(SAID).out, said, "  the guest: same boot, and no driver has said anything")
        came(t, m, to, f"on host {to}")
    m.vm.run("killall -INT fio")
    m.vm.wait_for("[ -e /tmp/fio.ended ]", 120)
    t.ok("verify:" not in m.vm.run("cat /tmp/fio.out").out, "fio has read nothing wrong", m.vm.run("cat /tmp/fio.out").out[-500:])
    writers.check(t, m.vm)
    m.vm.shutdown()


def lend_function(f, b):
    """A virtual function; its card talks to host c, as the lender does by it."""
    b.run("modprobe igb", timeout=60)
    up(b, "52:54:00:d1:e0:02", "10.7.2.2")
    return f.lend_bdf("b", virtual_functions(b, "igb", [VF_MAC])[0][0])


def cards(t, c, m):
    c.host("c").run("modprobe virtio_net", timeout=60)
    up(c.host("c"), "52:54:00:d1:ec:02", "10.7.2.3")
    m.begin("a")
    up(m.vm, VF_MAC, "10.7.2.1")
    t.equal(ping(m.vm, "10.7.2.3"), "0% packet loss", "igbvf: ping another host")
    kinds.tone(t, m.vm, [kinds.VIRTIO_SOUND], c.run_dir / "b-sound.wav", "sound")
    for source, to in THERE_AND_BACK:
        m.move(source, to)
        t.equal(ping(m.vm, "10.7.2.3"), "0% packet loss", f"igbvf, on host {to}: ping another host")
        played = m.vm.run("tone 660 4", timeout=180).out
        t.ok("ran_out 0" in played, f"sound, on host {to}: it plays", played)
    t.equal(m.vm.complaints(), [], "the guest's kernel has no complaint")
    m.vm.shutdown()


MODELS = "/sys/module/dlend_lender/parameters/cut_models"


def begin_usb(a, b, m):
    """A guest whose controller has its driver, and is silent."""
    with a.provoke(*kinds.FIRMWARE, must=False), b.provoke(*kinds.FIRMWARE, must=False):
        m.begin("a")
    m.vm.run("modprobe ehci_pci", timeout=60)
    kinds.wait(m.vm, "grep -qx suspended /sys/bus/usb/devices/usb1/power/runtime_status")
    return f"echo {m.f.node['c']} cut >/sys/bus/mdev/devices/{m.uuid['a'][0]}/dlend/move_to"


def intx(t, a, b, m):
    """What it interrupts by is told to KVM, which QEMU would tell a wrong line after the move."""
    m.kept = m.kept.replace(",x-no-kvm-intx=on", "")
    names = begin_usb(a, b, m)
    b.run(f"echo 1033:0194 >{MODELS}")
    with a.provoke("the VM does not move: its guest has it interrupt by INTx", "that it is refused is what this tests"):
        t.equal(a.run(names, check=False).status, 1, "INTx by KVM: refused")
    b.run(f"echo >{MODELS}")
    m.vm.shutdown()
    m.f.mdev_stop("a", m.uuid["a"][0])


def usb(t, a, b, m):
    """A controller that nothing is plugged into.  Its model is allowed after it was refused."""
    names = begin_usb(a, b, m)
    for host, writes, ends in ((a, names, 1), (b, f"echo usb >{MODELS}", 1), (b, f"echo 1033:0194 >{MODELS}", 0), (a, names, 1)):
        t.equal(host.run(writes, check=False).status, ends, f"USB: {writes.partition(' >')[0]}: {'refused' if ends else 'taken'}")
    b.run(f"echo 1033:0194,8086:24cd >{MODELS}")
    for source, to in THERE_AND_BACK:
        m.move(source, to)
        b.qmp("device_add", driver="usb-tablet", id="tablet", bus="usb.0", port="1")
        kinds.wait(m.vm, "[ -e /sys/bus/usb/devices/1-1/idProduct ]")
        t.passed(f"USB, on host {to}: it interrupts, by INTx, as something is plugged in")
        b.qmp("device_del", id="tablet")
        kinds.wait(m.vm, "[ ! -e /sys/bus/usb/devices/1-1 ]")
        kinds.wait(m.vm, "grep -qx suspended /sys/bus/usb/devices/usb1/power/runtime_status")
    t.equal(m.vm.complaints(), [], "the guest's kernel has no complaint")
    m.vm.shutdown()


def main():
    with Tap() as t, Cluster("move-hosts.toml", tap=t) as c:
        f, b = Fabric(c), c.host("b")
        f.up(timeout=150)
        with t.case("disks"):
            b.plug_virtio_disk("vdisk", "virtio")
            lent = {f.lend("b", port, options="--set pair"): kind for port, kind in (("nvme", "dlend-nvme"), ("vdisk", "dlend-storage"))}
            with Moving(t, f, lent, memory="384M", modules=("nvme", "virtio_blk"), tools=("fio", "disk")) as m:
                disks(t, b, m)
        with t.case("cards"):
            lent = {lend_function(f, b): "dlend-nic", f.lend("b", "sound"): "dlend-audio"}
            with Moving(t, f, lent, words="cut", memory="160M", modules=("igbvf",), tools=("audio", "programs")) as m:
                cards(t, c, m)
        lent = {f.lend("b", "usb"): "dlend-usb"}
        for what, part in (("INTx", intx), ("USB", usb)):
            with t.case(what), Moving(t, f, lent, words="cut", memory="160M", modules=(), tools=("usb",)) as m:
                part(t, c.host("a"), b, m)
        t.equal(c.complaints(), [], "no kernel has a complaint")


main()
