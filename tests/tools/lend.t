#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend lend and reclaim on a fake host: every refusal, and what is left after a failure.

    one host, node 1: an NVMe disk 0000:03:00.0, and what each case adds
"""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import DLEND, LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap, heed_ctrl_c  # noqa: E402  pylint: disable=wrong-import-position

DISK = "0000:03:00.0"


def refused(t, f, words, code, *parts, untouched=DISK, had="nvme"):
    """The command fails with that code, says all parts, and the device stays where it was."""
    r = f.run(words)
    missing = [p for p in parts if p not in r.err]
    name = " ".join(words.split() if isinstance(words, str) else words)
    t.ok(r.code == code and not missing, f"{name}: {parts[-1]}",
         f"code {r.code}, want {code}; missing {missing}\n{r.err}")
    if untouched:
        t.ok(f.driver_of(untouched) == had and not f.writes, "  and nothing was touched", f"{f.writes}")


def syntax(t):
    with Fake() as f:
        f.pci(DISK)
        for bad in ("", "3", "03:00", "03:00.8", "03:20.0", "zz:00.0", "03:00.0x", " 03:00.0",
                    "0000:03:00.0:1", "../x", "123456789:03:00.0"):
            r = f.run(["lend", bad])
            t.ok(r.code == 2 and "is no PCI address" in r.err, f"lend {bad!r} is refused", r.err)
        refused(t, f, "lend", 2, "usage:")
        refused(t, f, "lend --as 3b 03:00.0", 2, "--as 3b", "no bus:device.function")
        for bad in ("16", "-1", "x", "", "1x"):
            refused(t, f, ["lend", "--clique", bad, "03:00.0"], 2, "--clique", "0 to 15")
        for bad in ("", "a b", "x" * 64, "a/b"):
            refused(t, f, ["lend", "--set", bad, "03:00.0"], 2, "--set", "a name has letters")
        refused(t, f, "lend --as 3b:00.0 03:00.0 04:00.0", 2, "--as names one device: several were given")
        refused(t, f, "lend --nonsense 03:00.0", 2, "nonsense")
        refused(t, f, "frobnicate", 2, "no command")
        refused(t, f, "lend 04:00.0", 3, "0000:04:00.0", "no such device")
        refused(t, f, "reclaim 04:00.0", 3, "no such device")
        refused(t, f, "reclaim 03:00.0", 3, "is not lent")
        t.ok(f.run("--help").code == 0 and "reclaim" in f.run("--help").out, "--help")
        t.ok(f.run("--version").out.startswith("dlend "), "--version")
        t.equal(f.run("").code, 2, "no command at all")


def node(t):
    with Fake(lender=False) as f:
        f.pci(DISK)
        refused(t, f, "lend 03:00.0", 6, "modprobe dlend_lender", "not loaded")
    for value in ("0", None):
        with Fake(node=value) as f:
            f.pci(DISK)
            refused(t, f, "lend 03:00.0", 6, "node_id=N", "no node id")


def unfit(t):
    with Fake() as f:
        f.pci(DISK, pclass="0x060400", driver="pcieport")
        refused(t, f, "lend 03:00.0", 5, "behind it", "bridge", had="pcieport")
    with Fake() as f:
        f.pci(DISK, pclass="0x068000", driver="ntb_hw_amd")
        refused(t, f, "lend 03:00.0", 5, "host's own wiring", had="ntb_hw_amd")
    with Fake() as f:
        f.pci(DISK, reset="")
        refused(t, f, "lend 03:00.0", 5, "no way to reset")
    with Fake() as f:
        f.behind = {DISK: "0000:00:10.0", "0000:03:00.1": "0000:00:10.0"}
        f.pci(DISK, reset="")
        f.pci("0000:03:00.1", group="8", driver=None)
        refused(t, f, "lend 03:00.0", 5, "its only reset is that of its bus", "0000:03:00.1 of another group shares")
    with Fake() as f:
        f.behind = {DISK: "0000:00:10.0", "0000:03:00.1": "0000:00:10.0"}
        f.pci(DISK)
        f.pci("0000:03:00.1", group="8", driver=None)
        t.equal(f.run("lend 03:00.0").code, 0, "beside one of another group, but with a reset of its own")
    with Fake() as f:
        f.behind = {DISK: "0000:00:10.0", "0000:03:00.1": "0000:00:10.0"}
        f.pci(DISK, reset="")
        f.pci("0000:03:00.1", reset="", driver=None)
        r = f.run("lend --group 03:00.0")
        t.equal((r.code, [line.split()[0] for line in r.out.splitlines()]), (0, [DISK, "0000:03:00.1"]),
                "both of a group that are reset together are lent")
    with Fake() as f:
        f.pci(DISK, group=None)
        refused(t, f, "lend 03:00.0", 5, "intel_iommu=on", "no IOMMU")
    with Fake() as f:
        f.pci(DISK, kind="identity")
        refused(t, f, "lend 03:00.0", 5, "iommu=pt", "pass-through")
    with Fake() as f:
        f.pci("0001:03:00.0")
        refused(t, f, "lend 0001:03:00.0", 2, "--as", "outside", untouched="0001:03:00.0")


def harmful(t):
    """What does harm is only lent if somebody says so."""
    for vendor, device in (("8086", "0b25"), ("8086", "0cfe"), ("8086", "19e2"), ("8086", "19e3"), ("8086", "37c8"), ("8086", "37c9"),
                           ("8086", "0435"), ("8086", "0443")):
        with Fake() as f:
            f.pci(DISK, pclass="0x088000", vendor=f"0x{vendor}", device=f"0x{device}")
            refused(t, f, "lend 03:00.0", 5, "--anyway", "Linux gives no guest a device of this model")
            t.ok("device-harm" in f.run("doctor 03:00.0").out, "  doctor tells it before")
            f.file("dlend.conf", f"{vendor}:{device}\n", f.root / "etc")
            t.equal((f.run("lend --all").code, f.driver_of(DISK)), (1, "nvme"), "  nor by the file")
            f.file("dlend.conf", f"{vendor}:{device} anyway\n", f.root / "etc")
            t.equal((f.run("lend --all").code, f.driver_of(DISK)), (0, LENDER), "  but if that says so")
            f.run("reclaim 03:00.0")
            t.equal((f.run("lend --anyway 03:00.0").code, f.driver_of(DISK)), (0, LENDER), "  or the command line")
    with Fake() as f:
        f.pci(DISK, vendor="0x8087", device="0x0b25")
        t.equal(f.run("lend 03:00.0").code, 0, "the same number of another vendor is no harm")


VMD, FIRST, SECOND = "0000:00:0e.0", "10000:01:00.0", "10000:02:00.0"


def behind(t):
    """Intel's VMD: its driver makes a PCI domain, whose devices do DMA by the controller's requester id."""
    with Fake() as f:
        f.behind = {FIRST: VMD, SECOND: VMD}
        f.file("lend_as", "", f.sys / "bus/pci/drivers" / LENDER)
        f.pci(VMD, driver="vmd", pclass="0x010400", vendor="0x8086", device="0x9a0b")
        for bdf in (FIRST, SECOND):
            f.pci(bdf)
        for words in (f"lend {FIRST}", f"lend --as 81:00.0 {FIRST}", f"lend --group {FIRST}", f"lend --group --anyway {FIRST}"):
            refused(t, f, words, 5, "in the firmware", f"dlend lend --anyway {VMD}", f"it is behind {VMD}", untouched=FIRST)
        for words in (f"lend {VMD}", f"lend --group {VMD}"):
            refused(t, f, words, 5, "--anyway", f"this host would lose what is behind it: {FIRST}, {SECOND}", untouched=VMD, had="vmd")
        said = f.run(f"doctor {VMD} {FIRST}").out
        t.ok(f"device-harm: {VMD}: this host would lose" in said and f"device-above: {FIRST} is behind {VMD}" in said, "doctor tells it before", said)
        f.below(f.device(FIRST), "nvme/nvme0/nvme0n1", "class/block/nvme0n1")
        f.files(f.sys / "class/block/nvme0n1", dev="259:0")
        f.file("mountinfo", "20 1 259:0 / /data rw shared:1 - ext4 /dev/nvme0n1 rw\n", f.proc / "self")
        refused(t, f, f"lend --anyway {VMD}", 4, "umount /data", "nvme0n1 is mounted", untouched=VMD, had="vmd")
        f.file("mountinfo", "", f.proc / "self")
        r = f.run(f"lend --anyway {VMD}")
        t.equal((r.code, f.driver_of(VMD), f.driver_of(FIRST)), (0, LENDER, "nvme"), "lent if that is wanted: the controller, and nothing else", )
    with Fake() as f:
        # a group in a domain of its own: the advice leads somewhere
        names = f.sys / "bus/pci/drivers" / LENDER / "lend_as"
        pair = ("0001:03:00.0", "0001:03:00.1")
        for bdf in pair:
            f.pci(bdf)
        f.file("lend_as", "", names.parent)
        refused(t, f, f"lend {pair[0]}", 5, "--group", pair[1], untouched=pair[0])
        refused(t, f, f"lend --group {pair[0]}", 2, f"echo {pair[0]} BB:DD.F >", "lend_as", untouched=pair[0])
        names.write_text(f"{pair[0]} 3b:00.0\n")
        refused(t, f, f"lend --group {pair[0]}", 2, f"echo {pair[1]} BB:DD.F >", untouched=pair[0])
        names.write_text(f"{pair[0]} 3b:00.0\n{pair[1]} 3b:00.1\n")
        r = f.run(f"lend --group {pair[0]}")
        t.equal((r.code, [f.driver_of(bdf) for bdf in pair]), (0, [LENDER, LENDER]), "each has a name: lent", r.err)


def disk(f, name="nvme0n1", number="259:0"):
    dev = f.pci(DISK)
    block = f.below(dev, f"nvme/nvme0/{name}", f"class/block/{name}")
    f.files(block, dev=number)
    (block / "holders").mkdir()
    return dev, block


def in_use(t):
    with Fake() as f:
        _, block = disk(f)
        part = block / "nvme0n1p1"
        f.files(part, dev="259:1")
        f.link("class/block/nvme0n1p1", part)
        f.file("mountinfo", "20 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"
               "21 20 259:1 / /srv/data rw - ext4 /dev/nvme0n1p1 rw\n", f.proc / "self")
        refused(t, f, "lend 03:00.0", 4, "umount /srv/data", "nvme0n1p1 is mounted on /srv/data")
    with Fake() as f:
        disk(f)
        f.file("mountinfo", "21 20 0:44 /sub /srv rw - btrfs /dev/nvme0n1 rw\n", f.proc / "self")
        refused(t, f, "lend 03:00.0", 4, "nvme0n1 is mounted on /srv")
    with Fake() as f:
        disk(f)
        f.file("swaps", "Filename\tType\n/dev/nvme0n1 partition 1 0 -2\n", f.proc)
        refused(t, f, "lend 03:00.0", 4, "swapoff", "swap")
    with Fake() as f:
        _, block = disk(f)
        (block / "holders/dm-3").mkdir()
        refused(t, f, "lend 03:00.0", 4, "part of dm-3")
    with Fake() as f:
        # native multipath: the disk hangs below the subsystem, which links to its controller
        dev = f.pci(DISK)
        control = dev / "nvme/nvme0"
        control.mkdir(parents=True)
        block = f.put("devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1")
        f.files(block, dev="259:0")
        f.link("devices/virtual/nvme-subsystem/nvme-subsys0/nvme0", control)
        f.link("class/block/nvme0n1", block)
        f.file("mountinfo", "21 20 259:0 / /srv rw - ext4 /dev/nvme0n1 rw\n", f.proc / "self")
        refused(t, f, "lend 03:00.0", 4, "mounted on /srv")


    for part in ("", "p2"):
        with Fake() as f:
            # the second disk of a btrfs, which mountinfo shows by its first
            _, block = disk(f, "nvme1n1")
            if part:
                block = block / f"nvme1n1{part}"
                f.files(block, dev="259:7")
                f.link(f"class/block/nvme1n1{part}", block)
            f.link(f"fs/btrfs/5d0e1a5c/devices/nvme1n1{part}", block)
            f.put("fs/btrfs/features")
            f.file("mountinfo", "21 20 0:44 / /srv rw - btrfs /dev/vdb rw\n", f.proc / "self")
            refused(t, f, "lend 03:00.0", 4, "btrfs device remove", f"nvme1n1{part} is part of the btrfs 5d0e1a5c")
    with Fake() as f:
        disk(f)
        space = f.put("kernel/config/nvmet/subsystems/nqn.test/namespaces/2")
        f.files(space, enable="1", device_path="/dev/nvme0n1")
        refused(t, f, "lend 03:00.0", 4, "nvmetcli", "nvmet exports its disk nvme0n1, in the subsystem nqn.test")
        f.files(space, enable="0")
        t.equal(f.run("lend 03:00.0").code, 0, "a namespace that is off is no obstacle")


def loop_device():
    """A block device of this machine that nobody uses, held as a filesystem would; None if there is none to be had."""
    for node in sorted(Path("/dev").glob("loop[0-9]*"), reverse=True):
        try:
            return node.name, os.open(node, os.O_RDONLY | os.O_EXCL)
        except OSError:
            continue
    return None


def lend_within(f, node=None):
    """Only with the real /sys the command looks into /dev: so the fake tree is all that it sees."""
    words = subprocess.run(["ldd", DLEND], capture_output=True, text=True, check=True).stdout.split()
    for file in [Path(word) for word in words if word.startswith("/")]:
        (f.root / file.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, f.root / file.relative_to("/"))
    shutil.copy(DLEND, f.root / "dlend")
    (f.root / "dev").mkdir()
    if node:
        os.mknod(f.root / "dev" / node, stat.S_IFBLK | 0o600, os.stat(f"/dev/{node}").st_rdev)
    result = subprocess.run(["chroot", f.root, "/dlend", "lend", "03:00.0"], capture_output=True, text=True, timeout=30,
                            check=False)
    f.settle()
    return result


def claimed(t):
    with t.case("a disk that somebody holds whom nothing names"):
        held = loop_device() if os.geteuid() == 0 else None
        if not held:
            t.skip("this takes root, and a loop device that can be opened")
        name, fd = held
        with Fake() as f:
            disk(f, name, "7:0")
            r = lend_within(f, name)
            os.close(fd)
            assert r.returncode == 4 and f"holds its disk {name}" in r.stderr, f"{r.returncode} {r.stderr}"
            assert f.driver_of(DISK) == "nvme" and not f.writes, f"{f.writes}"
        for node in (name, None):
            with Fake() as f:
                disk(f, name, "7:0")
                r = lend_within(f, node)
                assert r.returncode == 0 and f.driver_of(DISK) == LENDER, f"{node} is free: {r.returncode} {r.stderr}"


def in_use_otherwise(t):
    with Fake() as f:
        dev = f.pci(DISK, driver="e1000e", pclass="0x020000")
        net = f.below(dev, "net/eth1", "class/net/eth1")
        f.files(net, flags="0x1003", carrier="1")
        refused(t, f, "lend 03:00.0", 4, "ip link set eth1 down", "eth1 is up", had="e1000e")
        f.files(net, flags="0x1002")
        (net / "master").symlink_to("../../../br0")
        refused(t, f, "lend 03:00.0", 4, "belongs to br0", had="e1000e")
        (net / "master").unlink()
        t.equal(f.run("lend 03:00.0").code, 0, "an interface that is down is no obstacle")
    for where in ("net", "virtio3/net", "usb1/1-2/1-2:1.0/net"):
        with Fake() as f:
            # what sysfs shows if the interface is in a container's network namespace
            dev = f.pci(DISK, driver="e1000e", pclass="0x020000")
            (dev / where).mkdir(parents=True)
            refused(t, f, "lend 03:00.0", 4, "netns 1", "in another network namespace", had="e1000e")
            (dev / where / "eth1").mkdir()
            t.equal(f.run("lend 03:00.0").code, 0, f"  {where}: one that is here, and down, is no obstacle")
    with Fake() as f:
        dev = f.pci(DISK)
        char = f.below(dev, "nvme/nvme0", "dev/char/242:0")
        f.file("uevent", "MAJOR=242\nMINOR=0\nDEVNAME=nvme0\n", char)
        f.file("comm", "smartd\n", f.proc / "4711")
        (f.proc / "4711/fd").mkdir()
        (f.proc / "4711/fd/5").symlink_to("/dev/nvme0")
        refused(t, f, "lend 03:00.0", 4, "process 4711 (smartd)", "has /dev/nvme0 open")
    with Fake() as f:
        f.pci(DISK, driver="vfio-pci")
        f.file("comm", "qemu-system-x86\n", f.proc / "99")
        (f.proc / "99/fd").mkdir()
        (f.proc / "99/fd/20").symlink_to("/dev/vfio/7")
        refused(t, f, "lend 03:00.0", 4, "process 99", "/dev/vfio/7 open", had="vfio-pci")
    with Fake() as f:
        char = f.below(f.pci(DISK), "mem/zero", "dev/char/1:5")
        f.file("uevent", "MAJOR=1\nMINOR=5\nDEVNAME=zero\n", char)
        f.file("comm", "box\n", f.proc / "12")
        (f.proc / "12/fd").mkdir()
        (f.proc / "12/fd/3").symlink_to("/dev/null")
        t.equal((f.run("lend 03:00.0").code, f.run("reclaim 03:00.0").code), (0, 0), "another file is no obstacle")
        (f.proc / "12/fd/4").symlink_to("/dev/./zero")
        f.writes.clear()
        refused(t, f, "lend 03:00.0", 4, "process 12 (box)", "has /dev/zero open")
    with Fake() as f:
        # NVIDIA's driver makes the file of a GPU without telling sysfs
        f.pci(DISK, driver="nvidia", pclass="0x030000")
        for bdf, minor in (("0000:04:00.0", 0), (DISK, 1)):
            f.file("information", f"Model: \t\t NVIDIA T4\nBus Location: \t {bdf}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
                   f.proc / "driver/nvidia/gpus" / bdf)
        f.file("comm", "python3\n", f.proc / "4712")
        (f.proc / "4712/fd").mkdir()
        for number, name in enumerate(("nvidiactl", "nvidia0")):
            (f.proc / f"4712/fd/{number}").symlink_to(f"/dev/{name}")
        t.equal((f.run("lend 03:00.0").code, f.run("reclaim 03:00.0").code), (0, 0), "another GPU's user is no obstacle")
        (f.proc / "4712/fd/7").symlink_to("/dev/nvidia1")
        f.writes.clear()
        refused(t, f, "lend 03:00.0", 4, "process 4712 (python3)", "has /dev/nvidia1 open", had="nvidia")


def lend(t):
    with Fake() as f:
        f.pci("0000:02:00.0", driver="pcieport", pclass="0x060400")
        f.pci(DISK)
        r = f.run("lend 3:00.0")
        t.equal((r.code, f.driver_of(DISK), f.override(DISK)), (0, LENDER, LENDER),
                "lend (a bridge in the group does not matter)")
        t.ok("is lent as d0001:03:00.0, type dlend-nvme" in r.out, "  and says as what", r.out)
        before = list(f.writes)
        r = f.run("--json lend 03:00.0")
        t.equal((json.loads(r.out)["lent"], f.writes), ([{"device": DISK, "address": "d0001:03:00.0", "type": "dlend-nvme"}], [*before, ("prepared", "1")]),
                "lending it again only says once more that it may be offered, and prints the same in JSON")
        r = f.run("reclaim d0001:03:00.0")
        t.equal((r.code, f.driver_of(DISK), f.override(DISK)), (0, "nvme", ""), "reclaim by the fabric's name")
        t.equal(kept_files(f), [], "  and nothing is kept of it")
        t.ok("is back, driver nvme" in r.out, "  and says who has it", r.out)
    with Fake() as f:
        f.pci(DISK, driver=None)
        t.equal((f.run("lend 03:00.0").code, f.driver_of(DISK)), (0, LENDER), "lend a device without a driver")
        r = f.run("reclaim 03:00.0")
        t.ok(r.code == 0 and "no driver has taken it" in r.out, "reclaim it", r.out + r.err)
    with Fake() as f:
        names = []
        f.pci("0001:03:00.0")
        f.fifo(f.sys / f"bus/pci/drivers/{LENDER}/lend_as", names.append)
        t.equal((f.run("lend --as 3b:00.0 0001:03:00.0").code, names), (0, ["0001:03:00.0 3b:00.0"]), "lend --as")
    with Fake() as f:
        f.pci(DISK)
        f.pci("0000:03:00.1", driver="snd", pclass="0x040300")
        cliques = lambda: [text for name, text in f.writes if name == "clique"]
        r = f.run("lend --group --clique 5 03:00.0")
        t.equal((r.code, cliques()), (0, ["5"] * 2), "lend --clique: for all that go together")
        r = f.run("lend --group --clique none 03:00.0")
        t.equal((r.code, cliques()), (0, ["5"] * 2 + ["none"] * 2), "  changed for what is lent already")
    with Fake() as f:
        for n, bdf in enumerate((DISK, "0000:03:00.1", "0000:04:00.0")):
            f.pci(bdf, group=str(7 + n // 2))
        f.pci("0000:05:00.0", group="9", reset="")
        sets = lambda: [(f.device(bdf) / "dlend/set").read_text().split("\n")[0] for bdf in (DISK, "0000:03:00.1", "0000:04:00.0")]
        r = f.run("lend --group --set pair 03:00.0 03:00.1 04:00.0")
        t.equal((r.code, r.out.count("is lent as"), sets()), (0, 3, ["pair"] * 3), "lend --set: several devices of several groups", r.err)
        r = f.run("lend --set none 04:00.0")
        t.equal((r.code, sets()), (0, ["pair", "pair", "none"]), "  changed for one that is lent already")
        r = f.run("--json lend --set pair 05:00.0 04:00.0")
        out = json.loads(r.out)
        t.equal((r.code, [e["device"] for e in out["lent"]], [e["device"] for e in out["failed"]], sets()[2]),
                (1, ["0000:04:00.0"], ["0000:05:00.0"], "pair"), "  one of several fails: the others are lent")
        f.offer("d0001:04:00.0", set="none")
        f.offer("d0002:04:00.0", set="far", state="kept", borrower="3")
        r = f.run("--json list")
        t.equal([(e["address"], e["set"], e["state"]) for e in json.loads(r.out)["offers"]][:2],
                [("d0001:04:00.0", "pair", "free"), ("d0002:04:00.0", "far", "kept")], "  list has the set: of one's own from the device")
        t.ok(re.search(r"d0002:04:00.0 .* kept +3 .*, set far$", f.run("list").out, re.M), "  for people, too", f.run("list").out)
    with Fake() as f:
        f.pci(DISK)
        refused(t, f, "lend --as 3b:00.0 03:00.0", 1, "cannot be lent as 3b:00.0")


    with Fake() as f:
        f.pci(DISK)
        f.file("lend_as", f"0000:04:00.0 06:00.0\n{DISK} 05:00.0\n", f.sys / f"bus/pci/drivers/{LENDER}")
        r = f.run("lend 03:00.0")
        names = (f.sys / f"bus/pci/drivers/{LENDER}/lend_as").read_text().splitlines()
        t.equal((r.code, names[0]), (0, f"{DISK} 03:00.0"), "a name from an earlier --as does not stay")


def kept_files(f):
    return sorted(p.name for p in f.root.glob("run/dlend/*-0*"))


def override(t):
    """The driver that the administrator had chosen for a device is chosen again after reclaim."""
    other = "0000:03:00.1"
    kept = f"driver-{DISK}"

    def set_override(f, bdf, driver):
        f.file("driver_override", f"{driver}\n", f.device(bdf))

    with Fake() as f:
        f.pci(DISK, driver="vfio-pci")
        f.pci(other, driver="snd", pclass="0x040300")
        set_override(f, DISK, "vfio-pci")
        f.home[DISK] = "nvme"
        f.driver("nvme")
        t.equal((f.run("lend --group 03:00.0").code, f.override(DISK), kept_files(f)), (0, LENDER, [kept]), "lent: it is kept")
        t.equal((f.run("lend --group 03:00.0").code, kept_files(f)), (0, [kept]), "  lending it again does not lose it")
        r = f.run("reclaim 03:00.0")
        t.equal((r.code, f.override(DISK), f.driver_of(DISK), f.override(other), f.driver_of(other)),
                (0, "vfio-pci", "vfio-pci", "", "snd"), "reclaimed: each as it was before")
        t.equal(kept_files(f), [], "  and nothing is kept any more")
        f.refuse.add(("lend_prepare", other))
        r = f.run("lend --group 03:00.0")
        f.refuse.clear()
        t.equal((r.code, f.override(DISK), f.driver_of(DISK), kept_files(f)), (1, "vfio-pci", "vfio-pci", []),
                "lending fails: as it was, and nothing is kept")
    with Fake() as f:
        # unbound by hand, as docs/sysfs.md has it: the override is what it says then, or still ours
        f.pci(DISK)
        f.file(kept, "vfio-pci\n", f.root / "run/dlend")
        f.run("lend 03:00.0")
        f.run("reclaim 03:00.0")
        t.equal((f.override(DISK), f.driver_of(DISK)), ("", "nvme"), "what was kept of an earlier lending does not come back")
        f.file(kept, "vfio-pci\n", f.root / "run/dlend")
        f.driver("vfio-pci")
        set_override(f, DISK, LENDER)
        f.run("lend 03:00.0")
        f.run("reclaim 03:00.0")
        t.equal((f.override(DISK), f.driver_of(DISK)), ("vfio-pci", "vfio-pci"), "  but does if the override is still ours")
    with Fake() as f:
        f.pci(DISK)
        f.pci(other, driver="snd", pclass="0x040300")
        set_override(f, DISK, "nvme")
        set_override(f, other, "snd")
        (f.root / "run/dlend").mkdir(parents=True)
        (f.root / f"run/dlend/driver-{other}.new").symlink_to("/dev/full")
        r = f.run("lend --group 03:00.0")
        t.ok(r.code == 1 and f"{other}: its driver_override cannot be kept for reclaim" in r.err, "a full disk is an error", r.err)
        t.equal((f.override(DISK), f.driver_of(DISK), f.override(other), f.writes, kept_files(f)), ("nvme", "nvme", "snd", [], []),
                "  and nothing was changed")


def clique_refused(t):
    """An older kernel module has offered the device by then, but not as it was asked for: that is an error."""
    want = {"device": DISK, "address": "d0001:03:00.0", "type": "dlend-nvme"}
    for what, no_clique, code, part in (("has no such file", True, 6, "dlend_lender is too old for it"),
                                        ("says no", False, 1, "No space left on device")):
        with Fake(prepares=False) as f:
            f.pci(DISK)
            f.clique = None if no_clique else "/dev/full"
            r = f.run("lend --clique 5 03:00.0")
            t.ok(r.code == code and part in r.err and "It is lent all the same" in r.err and "is lent as d0001:03:00.0" in r.out,
                 f"--clique, and the kernel {what}", f"{r.code} {r.err} {r.out}")
            r = f.run("--json lend --clique 5 03:00.0")
            out = json.loads(r.out)
            t.equal((r.code, out["lent"], out.get("error", {}).get("code")), (code, [want], code), "  in JSON, too")
            t.ok(part in out.get("error", {}).get("why", ""), "  with the reason", r.out)
            f.run("reclaim 03:00.0")
            f.file("dlend.conf", "03:00.0 clique=5\n", f.root / "etc")
            r = f.run("--json lend --all")
            out = json.loads(r.out)
            t.equal((r.code, out["lent"], [e["device"] for e in out["failed"]]), (1, [want], [DISK]), "  from the file: lent, and failed")
            t.ok(out["failed"] and part in out["failed"][0]["why"], "  with the reason", r.out)


def state(f, bdf=DISK):
    return (f.device(bdf) / "dlend/state").read_text().strip()


def unfinished(t, f):
    """The device is bound, and not offered: that is seen, and lending it again offers it."""
    entry = f.json("list")["offers"][0]
    t.equal((state(f), entry["own"], entry["state"]), ("preparing", DISK, "preparing"), "  it is not offered, and list shows it")
    page = f.json("show 03:00.0")
    t.ok("not offered yet" in page["obstacle"] and f"offer it: dlend lend {DISK}" in page["next"], "  show says what to do", str(page))


def prepare(t):
    """It is offered when all that others have to know of it is written, and not before."""
    other = "0000:03:00.1"
    with Fake() as f:
        f.pci(DISK)
        t.equal((f.run("lend 03:00.0").code, state(f)), (0, "free"), "bound, and offered then")
        t.equal([name for name, _ in f.writes], ["unbind", "lend_prepare", "prepared"], "  in this order")
    for what, words, part in (("reserved", "", "its reservation cannot be changed"), ("set", "--set pair", "cannot have the set pair"),
                              ("prepared", "", "cannot be offered")):
        with Fake() as f:
            f.pci(DISK)
            f.file(DISK, "3\n", f.root / "etc/dlend/reserved")
            f.full.add(what)
            r = f.run(f"--json lend {words} 03:00.0")
            t.ok(r.code == 1 and part in r.err and ("It is not offered yet" in r.err or what == "prepared"), f"{what} cannot be written", r.err)
            t.ok("lent" not in json.loads(r.out), "  it is not reported as lent", r.out)
            unfinished(t, f)
    with Fake() as f:
        f.pci(DISK)
        f.file(DISK, "nonsense\n", f.root / "etc/dlend/reserved")
        r = f.run("lend 03:00.0")
        t.ok(r.code == 1 and "is not understood" in r.err and state(f) == "preparing", "nor if it is not clear for whom it is reserved", r.err)
        f.run("reserve --for 3 03:00.0")
        t.equal(state(f), "preparing", "  reserved anew: as before")
        t.equal((f.run("lend 03:00.0").code, state(f)), (0, "free"), "  lent again: offered")
    with Fake() as f:
        # the command was killed after the bind
        f.pci(DISK, driver=None)
        f.bind(DISK, LENDER, "preparing")
        unfinished(t, f)
        t.equal((f.run("lend 03:00.0").code, state(f)), (0, "free"), "  lent again: offered")
        f.unbind(DISK, LENDER)
        f.bind(DISK, LENDER, "preparing")
        t.equal((f.run("reclaim 03:00.0").code, f.driver_of(DISK)), (0, None), "reclaim takes what is not offered yet")
    with Fake() as f:
        f.pci(DISK)
        f.pci(other, driver="snd", pclass="0x040300")
        t.equal((f.run("lend --group 03:00.0").code, state(f), state(f, other)), (0, "free", "free"), "all of a group are offered")
    with Fake(prepares=False) as f:
        f.pci(DISK)
        t.equal((f.run("lend 03:00.0").code, [name for name, _ in f.writes]), (0, ["unbind", "bind"]), "an older dlend_lender: bound as always")


def functions(t):
    """A physical function's driver ends its virtual ones, whoever has them."""
    with Fake() as f:
        f.pci(DISK, sriov_numvfs="2")
        refused(t, f, "lend 03:00.0", 4, "virtual functions (2)", "sriov_numvfs")
        f.file("dlend.conf", "class=0108\n", f.root / "etc")
        t.equal((f.run("lend --all").code, f.driver_of(DISK)), (1, "nvme"), "  nor by a line that matches it")
    with Fake() as f:
        f.pci(DISK, sriov_numvfs="0")
        t.equal(f.run("lend 03:00.0").code, 0, "  but one that has none now")


def claim(t):
    """At boot udev asks it of each device: what is to be lent is kept from all that would begin to use it."""
    sound, card = "0000:03:00.1", "0000:05:00.0"
    with Fake() as f:
        dev, _ = disk(f)
        for bdf, group in ((sound, "7"), (card, "9")):
            f.pci(bdf, driver=None, pclass="0x020000", group=group, device="0x0020")
        (f.root / "etc").mkdir()

        def claimed(conf, bdf=DISK):
            (f.root / "etc/dlend.conf").write_text(conf)
            r = f.run(["claim", bdf])
            was = f.override(bdf)
            f.file("driver_override", "(null)\n", f.device(bdf))
            return r.code, was

        t.equal(claimed("03:00.0\n"), (0, "dlend-claimed"), "claim: by its address")
        t.equal((claimed("1b36:0010\n"), claimed("class=0108\n")), ((0, "dlend-claimed"),) * 2, "  by its ids and its class")
        t.equal(claimed("03:00.0 group\n", sound), (0, "dlend-claimed"), "  with its group")
        t.equal((claimed("03:00.0\n", sound), claimed("03:00.0 group\n", card)), ((3, "(null)"),) * 2, "  not what is not listed")
        t.equal(claimed("nonsense\n"), (2, "(null)"), "  nor anything if the file has a mistake")
        f.file("driver_override", "vfio-pci\n", dev)
        t.equal(claimed("03:00.0\n"), (0, "vfio-pci"), "  nor what an administrator has given to another driver")
        f.file("mountinfo", "20 1 259:0 / /data rw shared:1 - ext4 /dev/nvme0n1 rw\n", f.proc / "self")
        t.equal(claimed("03:00.0\n"), (4, "(null)"), "  nor what is in use")
        f.file("mountinfo", "", f.proc / "self")
        t.ok(not f.writes and f.driver_of(DISK) == "nvme", "  and it takes nothing from a driver")
        f.run(["claim", DISK])
        r = f.run("lend --group 03:00.0")
        t.equal((r.code, f.driver_of(DISK), kept_files(f)), (0, LENDER, []), "lent then, and nothing is kept of the claim", r.err)
        t.equal((f.run("reclaim 03:00.0").code, f.driver_of(DISK), f.override(DISK)), (0, "nvme", ""), "  reclaimed: its own driver has it")
    with Fake() as f:
        f.pci(card, driver="e1000e", pclass="0x020000")
        f.unbind(card, "e1000e")
        f.file("driver_override", "dlend-claimed\n", f.device(card))
        t.equal((f.run("reclaim 05:00.0").code, f.driver_of(card), f.override(card)), (0, "e1000e", ""), "one that was claimed and not lent is given back")


def lend_fails(t):
    for what, message in (("lend_prepare", "dlend-lender refused it"), ("unbind", "does not let go")):
        with Fake() as f:
            f.pci(DISK)
            f.refuse.add((what, DISK))
            r = f.run("lend 03:00.0")
            f.refuse.clear()
            t.ok(r.code == 1 and message in r.err, f"{what} fails: {message}", r.err)
            t.equal((f.driver_of(DISK), f.override(DISK)), ("nvme", ""), "  and all is as before")


PATIENCE = "DLEND_PATIENCE=1; export DLEND_PATIENCE"


def hangs(t):
    """A driver that waits for whoever uses the device, and nothing shows who that is."""
    other = "0000:03:00.1"
    with Fake() as f:
        f.pci(DISK, driver="nvidia")
        f.pci(other, driver="snd", pclass="0x040300")
        f.file("driver_override", "nvidia\n", f.device(DISK))
        end = f.hang("nvidia")
        r = f.run("--json lend --group 03:00.1", before=PATIENCE)
        e = json.loads(r.out)["error"]
        t.ok(r.code == 4 and "its driver nvidia does not let go" in e["what"] and "not over after 1 s" in e["why"] and "reclaim 0000:03:00.0" in e["todo"],
             "a driver that does not let go: the command ends, and says so", f"{r.code} {r.out}")
        t.equal((f.driver_of(other), f.override(other).replace("(null)", "")), ("snd", ""), "  the other one of the group is as before")
        before = len(f.writes)
        with subprocess.Popen([DLEND, "--root", f.root, "reclaim", "03:00.0"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waits:
            told = waits.stderr.readline()
            t.ok("another dlend command works on it" in told, "  nobody touches the device meanwhile", told)
            t.equal(len(f.writes), before, "  nor anything else of its group")
            end(DISK)
            out, err = waits.communicate(timeout=30)
        f.settle()
        t.ok(waits.returncode == 0 and f"{DISK} is back, driver nvidia" in out, "  when that is over, reclaim gives it back", out + err)
        t.equal((f.override(DISK), kept_files(f)), ("nvidia", []), "  as it was before")
        f.hang("nvidia")
        with subprocess.Popen([DLEND, "--root", f.root, "lend", "--group", "03:00.0"], stderr=subprocess.PIPE, text=True) as process:
            told = process.stderr.readline() + process.stderr.readline()
            process.send_signal(signal.SIGINT)
            t.ok("waiting for its driver nvidia" in told and process.wait(30) and f.driver_of(other) == "snd", "Ctrl-C ends the wait", told)


def group(t):
    other = "0000:03:00.1"
    with Fake() as f:
        f.pci(DISK)
        f.pci(other, driver="snd", pclass="0x040300")
        refused(t, f, "lend 03:00.0", 5, "--group", other)
        refused(t, f, "lend --group --as 3b:00.0 03:00.0", 2, "several")
        f.refuse.add(("lend_prepare", other))
        r = f.run("lend --group 03:00.0")
        f.refuse.clear()
        t.equal((r.code, f.driver_of(DISK), f.driver_of(other)), (1, "nvme", "snd"),
                "the second of a group fails: both are as before")
        f.writes.clear()
        r = f.run("lend --group 03:00.0")
        t.equal((r.code, f.driver_of(DISK), f.driver_of(other)), (0, LENDER, LENDER), "lend --group")
        order = [name for name, _ in f.writes if name in ("lend_prepare", "unbind")]
        t.equal(order, ["unbind", "unbind", "lend_prepare", "lend_prepare"], "  all leave their drivers before the first is bound")
        r = f.run("reclaim 03:00.1")
        t.equal((r.code, f.driver_of(DISK), f.driver_of(other)), (0, "nvme", "snd"), "reclaim takes the whole group")


def reset(t):
    def method(dev):
        return (dev / "reset_method").read_text().splitlines()[0]

    with Fake() as f:
        dev = f.pci(DISK, reset="flr bus")
        kept = f.root / f"run/dlend/reset-{DISK}"
        (f.root / "run").mkdir()
        r = f.run("lend --reset bus 03:00.0")
        t.equal((r.code, method(dev), f.driver_of(DISK)), (0, "bus", LENDER), "lend --reset bus")
        t.equal(kept.read_text(), "flr bus\n", "  what it was is kept")
        t.equal((f.run("lend --reset pm,bus 03:00.0").code, method(dev), kept.read_text()), (0, "pm bus", "flr bus\n"),
                "  another choice for the lent device, and what it was is still that")
        t.equal((f.run("reclaim 03:00.0").code, method(dev), kept.exists()), (0, "flr bus", False), "reclaim restores it")
        f.run("lend --reset flr,bus 03:00.0")
        t.ok(not kept.exists(), "a choice that is none keeps nothing")
        t.equal((f.run("reclaim 03:00.0").code, method(dev)), (0, "flr bus"), "  and restores nothing")
        f.refuse.add(("lend_prepare", DISK))
        r = f.run("--json lend --reset pm 03:00.0")
        f.refuse.clear()
        t.equal((r.code, method(dev), kept.exists(), f.driver_of(DISK)), (1, "flr bus", False, "nvme"),
                "the driver refuses: the reset method, too, is as it was")
        t.equal((json.loads(r.out)["error"]["code"], r.err.count("refused it")), (1, 1), "  said once, and in JSON")
    with Fake() as f:
        # as after `echo >reset_method`
        dev = f.pci(DISK, reset="")
        (f.root / "run").mkdir()
        t.equal((f.run("lend --reset bus 03:00.0").code, method(dev)), (0, "bus"), "a device that could not be lent before")
        t.equal((f.run("reclaim 03:00.0").code, method(dev)), (0, ""), "  and cannot be now")
    with Fake() as f:
        dev = f.pci(DISK)
        os.unlink(dev / "reset_method")
        refused(t, f, "lend --reset bus 03:00.0", 5, "no way to reset")
        (dev / "reset_method").symlink_to("/dev/full")
        refused(t, f, "lend --reset bus 03:00.0", 5, "cannot be reset by bus", "It has: none")
    with Fake() as f:
        f.pci("0000:02:00.0", pclass="0x060400", driver="pcieport")
        refused(t, f, "lend --reset bus 02:00.0", 5, "bridge", untouched="0000:02:00.0", had="pcieport")


def full_disk(t):
    """Where the reset method is kept there is no room: when it is written, or not before the file is closed."""
    for name, before in (("is written", 'trap "" XFSZ; ulimit -f 0'), ("is closed", None)):
        with Fake() as f:
            dev = f.pci(DISK, reset="flr bus")
            kept = f.root / f"run/dlend/reset-{DISK}"
            part = Path(f"{kept}.new")
            kept.parent.mkdir(parents=True)
            if not before:
                part.symlink_to("/dev/full")
            r = f.run("--json lend --reset bus 03:00.0", before=before)
            t.equal((r.code, json.loads(r.out).get("error", {}).get("code"), "cannot be kept for reclaim" in r.err), (1, 1, True),
                    f"a full disk, seen when the file {name}: an error")
            t.equal((f.driver_of(DISK), (dev / "reset_method").read_text(), f.writes, kept.exists()), ("nvme", "flr bus\n", [], False),
                    "  and nothing was changed")
            t.equal(f.run("lend --reset bus 03:00.0").code, 0, "  now there is room")
            part.symlink_to("/dev/full")
            r = f.run("lend --reset pm 03:00.0")
            t.equal((r.code, kept.read_text()), (0, "flr bus\n"), "  what is kept already takes no more room, and stays")


def reclaim(t):
    with Fake() as f:
        dev = f.pci(DISK)
        f.run("lend 03:00.0")
        for words, wrote in (("reclaim 03:00.0", "1\n"), ("reclaim --force 03:00.0", "force\n")):
            f.run("lend 03:00.0")
            f.files(dev / "dlend", state="held", borrower="2")
            f.writes.clear()
            r = f.run(words)
            t.ok(r.code == 0 and ("reclaim", wrote) in f.writes, f"{words}, while node 2 has it", r.err)
            t.ok(("prepared", "0") in f.writes and ("prepared", "1") not in f.writes, "  nobody gets it between its return and its unbinding",
                 str(f.writes))
        f.run("lend 03:00.0")
        f.files(dev / "dlend", state="held", borrower="2")
        os.unlink(dev / "dlend/reclaim")
        refused(t, f, "reclaim 03:00.0", 1, "cannot be reclaimed", untouched=None)
        t.equal(f.driver_of(DISK), LENDER, "  and it stays lent")
        t.equal([w for w in f.writes if w[0] == "prepared"][-2:], [("prepared", "0"), ("prepared", "1")], "  and is offered as before")
    with Fake() as f:
        f.pci(DISK, driver=None)
        f.bind(DISK, LENDER, "preparing")
        f.files(f.device(DISK) / "dlend", state="preparing")
        f.refuse.add(("unbind", DISK))
        f.run("reclaim 03:00.0")
        t.ok(("prepared", "1") not in f.writes and state(f) == "preparing", "what was not offered before is not offered by a reclaim that fails", str(f.writes))


def reclaim_interrupted(t):
    """While it waits for node 2.  A terminal's signal goes to all processes of the group, another one to dlend alone."""
    for send, number in ((os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)):
        with Fake() as f:
            dev = f.pci(DISK)
            f.run("lend 03:00.0")
            f.files(dev / "dlend", state="held", borrower="2")
            os.unlink(dev / "dlend/reclaim")
            os.mkfifo(dev / "dlend/reclaim")        # nobody reads it, so its writer waits
            with subprocess.Popen([DLEND, "--root", f.root, "reclaim", "03:00.0"], stderr=subprocess.PIPE, text=True,
                                  start_new_session=True) as process:
                told = process.stderr.readline()    # it tells for whom it waits, so the writer is there
                writer = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
                group = os.getpgid(writer)
                send(process.pid, number)
                rest = process.communicate(timeout=30)[1]
            t.ok("waiting for node 2" in told and group == writer, f"{number.name}: the child has a group of its own", told)
            t.ok(process.returncode == 1 and "cannot be reclaimed: Interrupted" in rest, "  and how it ended is told", rest)
            t.equal(Path(f"/proc/{writer}").exists(), False, "  nobody writes any more")
            t.equal(f.driver_of(DISK), LENDER, "  it stays lent")


def errors_in_json(t):
    with Fake() as f:
        r = f.run("--json lend 04:00.0")
        e = json.loads(r.out)["error"]
        t.ok(r.code == e["code"] == 3 and e["what"] and e["why"] and e["todo"], "an error in JSON", r.out)
        f.file("dlend.conf", "nonsense here\n", f.root / "etc")
        r = f.run("--json lend --all")
        t.ok(r.code == json.loads(r.out)["error"]["code"] == 2, "a mistake in the file, too", r.out)


heed_ctrl_c()

with Tap() as tap:
    for part in (syntax, node, unfit, harmful, behind, in_use, claimed, in_use_otherwise, lend, prepare, override, clique_refused, functions, claim, lend_fails, hangs, group, reset, full_disk, reclaim,
                 reclaim_interrupted, errors_in_json):
        tap.diag(part.__name__)
        part(tap)
