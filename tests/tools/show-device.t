#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend show on a fake host: all that is known of one device, and what may be done next.

    node 1 (alpha), which lends a disk 0000:03:00.0; links to nodes 2 (beta), which offers a disk that a VM here has, and 3
"""
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, OWN, USED, FREE = "0000:03:00.0", "d0001:03:00.0", "d0002:3b:00.0", "d0003:01:00.0"
UUID, IDLE = "11111111-0000-4000-8000-00000000000a", "22222222-0000-4000-8000-000000000002"


def mdev(f, address, uuid, group, **attributes):
    dev = f.put(f"devices/dlend/{address}/{uuid}")
    f.files(dev / "dlend", **attributes)
    f.link(f"bus/mdev/devices/{uuid}", dev)
    (dev / "iommu_group").symlink_to(f.put(f"kernel/iommu_groups/{group}"))
    return dev


def populate(f):
    f.pci(DISK, driver=LENDER)
    f.offer(OWN, lender="1", link="loop", clique="auto", interrupts="none", attached="no", attach_error="")
    f.offer(USED, state="held", borrower="1", epoch="12", clique="3", interrupts="doorbell: the link does not allow it",
            bars="0 16384 64\n2 4096", attached="no", attach_error="")
    f.offer(FREE, lender="3", link="ntb1", type="dlend-gpu", clique="none", attached="no", attach_error="its BARs find no place")
    f.files(f.sys / "module/dlend_core/parameters", node_name="alpha")
    f.files(f.put("class/dlend_link/ntb0"), type="ntb", state="up", peer_node="2", peer_name="beta", window_bytes=str(1 << 30),
            aperture_bytes=str(1 << 31), aperture_free_bytes=str(1 << 29), slots="ctrl 1 ram 4 bar 0 irq 1 p2p 12",
            last_error="the peer was silent for 3 s")
    f.files(f.put("class/dlend_link/ntb1"), type="ntb", state="up", peer_node="3", peer_name="gamma", last_error="")
    f.files(f.put("class/dlend_link/loop"), type="loop", state="up", peer_node="1", peer_name="alpha", last_error="")
    mdev(f, USED, UUID, 40, state="running", epoch="12", memory="4096", move_to="0", p2p="one\ntwo\x1b")


def process(f, number, command, file):
    f.file("comm", f"{command[0]}\n", f.proc / str(number))
    f.file("cmdline", "".join(f"{word}\0" for word in command), f.proc / str(number))
    (f.proc / f"{number}/fd").mkdir()
    (f.proc / f"{number}/fd/7").symlink_to(file)


def show(f, device):
    return f.json(f"show {device}")


def borrowed(t):
    with Fake() as f:
        populate(f)
        process(f, 4711, ["qemu-system-x86", "-S", "-name", "guest=vm1,debug-threads=on"], "/dev/vfio/40")
        text = f.run(f"show {USED}").out
        for line in (f"{USED}: ", "  type: dlend-nvme", "  ids: 0x1b36:0x0010, class 0x010802", "  lender: 2 (beta)",
                     "  state: held by node 1 (alpha), lease 12", "  clique: 3", "  interrupts: doorbell: the link does not allow it",
                     "  bars:\n    0 16384 64\n    2 4096", "  link: ntb0, up", "    last error: the peer was silent for 3 s",
                     "    window: 1024M of node 2 (beta), in use here: ctrl 1 ram 4 bar 0 irq 1 p2p 12", f"  mediated device {UUID}", "    state: running",
                     "    user: process 4711 (qemu-system-x86, VM vm1) has /dev/vfio/40 open", "    memory: 4096", "    p2p:\n      one\n      two?",
                     f"next: shut VM vm1 down, then give the device back: dlend return {UUID}"):
            t.ok(f"{line}\n" in text or (line.endswith(": ") and line in text), f"it says {line!r}", text)
        found = show(f, USED)
        t.equal((found["offer"]["address"], found["link"]["name"], found["mdevs"][0]["uuid"], found["mdevs"][0]["vm"]),
                (USED, "ntb0", UUID, "vm1"), "the same in JSON")
        t.equal((found["clique"], found["attached"], found["reserved"]), ("3", None, None), "  what is not is null")
        for name in (UUID, UUID.upper()):
            t.equal(show(f, name), found, f"by the mediated device: {name}")


def idle(t):
    """No process has it open, or one that is no VMM that tells a name."""
    with Fake() as f:
        populate(f)
        text = f.run(f"show {UUID}").out
        t.ok("user:" not in text and f"next: give it to QEMU: -device vfio-pci,sysfsdev=/sys/bus/mdev/devices/{UUID}\n" in text, "no VM has it", text)
        t.ok(f"  give the device back: dlend return {UUID}\n" in text, "  two things may come next", text)
        process(f, 12, ["crosvm", "--name", "x"], "/dev/vfio/40")
        found = show(f, USED)["mdevs"][0]
        t.equal((found["vm"], found["user"]), ("", "process 12 (crosvm) has /dev/vfio/40 open"), "a process without a VM's name")
    for word, name in (("vm2", "vm2"), ("vm\x1b[2J", "vm?[2J"), ("a,,b,process=x", "a,b"), ("process=x,guest=c", "c"), ("debug-threads=on", "")):
        with Fake() as f:
            populate(f)
            process(f, 12, ["qemu", "-name", word], "/dev/vfio/40")
            t.equal(show(f, USED)["mdevs"][0]["vm"], name, f"-name {word!r}")


def free(t):
    with Fake() as f:
        populate(f)
        text = f.run(f"show {FREE}").out
        t.ok("  state: free, lease 3\n" in text and "  attach error: its BARs find no place\n" in text, "free; its last error", text)
        t.ok(text.endswith(f"next: borrow it for a VM: dlend borrow {FREE}\n  use it on this host itself: dlend attach {FREE}\n"), "what comes next", text)
        f.files(f.sys / f"bus/dlend/devices/{FREE}", state="held", borrower="2")
        found = show(f, FREE)
        t.equal((found["obstacle"], found["next"]), ("node 2 (beta) has it", ["Shut the VM down or detach it there, or take it back on its lender: dlend reclaim"]),
                "another node has it")
        f.files(f.sys / f"bus/dlend/devices/{FREE}", state="reserved")
        found = show(f, FREE)
        t.equal(found["reserved"], {"node": 2, "node_name": "beta", "mdev": "", "until": ""}, "it is reserved; until when only its lender knows")
        t.ok("  state: reserved for node 2 (beta), lease 3\n" in f.run(f"show {FREE}").out, "  in words")
        f.files(f.sys / f"bus/dlend/devices/{FREE}", borrower="0", reserved=UUID)
        found = show(f, FREE)
        t.equal((found["reserved"], found["obstacle"]), ({"node": 0, "node_name": "", "mdev": UUID, "until": ""}, f"it is reserved for the VM that has the mediated device {UUID}"),
                "reserved for a VM")
        text = f.run(f"show {FREE}").out
        t.ok("  state: reserved, lease 3\n" in text and f"  reserved: for the VM that has {UUID}\n" in text, "  in words", text)
        f.files(f.sys / f"bus/dlend/devices/{FREE}", reserved="none")
        f.files(f.sys / "bus/dlend/devices" / FREE, state="kept", borrower="2", set="pair")
        t.ok("  state: kept for node 2 (beta), lease 3\n  set: pair\n" in f.run(f"show {FREE}").out, "kept for a node that has another one of its set")
        f.files(f.sys / f"bus/dlend/devices/{FREE}", state="gone", link="down")
        found = show(f, FREE)
        t.equal((found["link"], found["obstacle"]), (None, "the link to its lender, node 3, is down"), "its link is down")


def own(t):
    with Fake() as f:
        populate(f)
        lent = f.device(DISK) / "dlend"
        found = show(f, OWN)
        t.equal((found["offer"]["own"], found["next"]), (DISK, [f"borrow it for a VM: dlend borrow {OWN}", f"give it back to its own driver: dlend reclaim {DISK}"]),
                "an own one: this host's VMs may have it, too")
        for name in (DISK, "03:00.0"):
            t.equal(show(f, name), found, f"by its address here, {name}")
        f.files(lent, state="held", borrower="3", reserved="2 7200")
        f.files(f.sys / f"bus/dlend/devices/{OWN}", state="held", borrower="3")
        found = show(f, OWN)
        until = time.mktime(time.strptime(found["reserved"]["until"], "%Y-%m-%dT%H:%M"))
        t.ok(found["reserved"]["node"] == 2 and 7000 < until - time.time() <= 7200, "one that is held, and reserved from then on", str(found["reserved"]))
        text = f.run(f"show {OWN}").out
        t.ok("  reserved: for node 2 (beta), until " in text and f"  let any node borrow it: dlend unreserve {DISK}\n" in text, "  in words", text)
    with Fake() as f:
        f.pci(DISK, driver=LENDER)
        found = show(f, DISK)
        t.equal((found["offer"]["address"], found["link"], found["obstacle"]), (OWN, None, "the module dlend_borrower is not loaded here"),
                "a host that lends, and does not borrow")


def attached(t):
    with Fake() as f:
        populate(f)
        f.pci("d003:01:00.0", group=None)
        f.files(f.sys / f"bus/dlend/devices/{FREE}", state="held", borrower="1", attached="d003:01:00.0", attach_error="")
        text = f.run(f"show {FREE}").out
        t.ok("  attached: as d003:01:00.0, driver nvme\n" in text and text.endswith(f"next: return it to its lender: dlend detach {FREE}\n"), "attached", text)
        t.equal(show(f, "d003:01:00.0"), show(f, FREE), "  by its address here")


def not_there(t):
    with Fake() as f:
        populate(f)
        f.pci("0000:04:00.0")
        for name, why in (("04:00.0", "is not lent"), ("d0009:01:00.0", "no node offers it"), (IDLE, "no such mediated device"), ("09:00.0", "no such device")):
            r = f.run(f"show {name}")
            t.ok(r.code == 3 and why in r.err, f"{name}: {why}", r.err)


with Tap() as tap:
    for part in (borrowed, idle, free, own, attached, not_there):
        tap.diag(part.__name__)
        part(tap)
