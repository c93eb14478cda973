#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The lender is a host like any other: its own guest uses the disk, by the same definition as others.

    host b (node 2): nvme0, guests; no NTB driver is loaded there at first
    host a (node 1): guests ------ ab ------ host b, later
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import EVENTS, HEARTBEAT_TIMEOUT_MS, TRACING, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from verify import verified  # noqa: E402  pylint: disable=wrong-import-position

BACK = "dd if=/dev/nvme0n1 bs=64k count=8 iflag=direct 2>/dev/null | sha256sum"
BYTES = "dd if=/dev/nvme0n1 bs=64k count=1 iflag=direct 2>/dev/null | wc -c"
LOOP = "/sys/class/dlend_link/loop"


def load_without_ntb(b):
    """What Fabric.load() does, but for the NTB's driver and its client."""
    b.load_modules(f"dlend_core node_id=2 heartbeat_timeout_ms={HEARTBEAT_TIMEOUT_MS}", "dlend_mdev")
    b.run("ln -sf /share/bin/dlend /usr/local/sbin/dlend 2>/dev/null; command -v dlend >/dev/null || "
          f"cp /share/bin/dlend /usr/sbin/dlend; echo 1 >{EVENTS}/enable; "
          f"echo 16384 >{TRACING}/buffer_size_kb; echo 1 >{TRACING}/tracing_on")


def loop(t, f, b):
    t.equal(b.run("ls /sys/class/dlend_link").out.split(), [], "a host that does not lend has no link to itself")
    b.load_modules("dlend_lender")
    b.run(f"echo 1 >{EVENTS}/enable")       # those of this module, too
    b.wait_for(f"grep -qx up {LOOP}/state", 20)
    for name, value in (("type", "loop"), ("peer_node", "2"), ("self_test", "passed")):
        t.equal(b.run(f"cat {LOOP}/{name}").out.strip(), value, f"one that lends has: {name}")
    t.equal(b.run("ls /sys/class/dlend_link").out.split(), ["loop"], "which needs no NTB")
    t.ok("loop" in f.dlend("b", "links").out, "dlend links shows it")


def offered(t, f, b):
    """Lend; the offer is here, once."""
    f.dlend("b", f"lend {b.bdf('nvme0')}", timeout=120)
    address = f.address("b", "nvme0")
    f.wait_state("b", address, "free")
    lines = [line for line in f.dlend("b", "list").out.splitlines() if address in line]
    t.equal(len(lines), 1, "dlend list has the offer once", str(lines))
    entry = f.offers("b")[address]
    t.equal((entry["state"], entry["lender"], entry["type"]), ("free", 2, "dlend-nvme"), "as others see it")
    t.equal(b.run(f"cat /sys/bus/dlend/devices/{address}/link").out.strip(), "loop", "over the link to itself")
    return address


def define(t, f, b, address):
    uuid, definition = f.define("b", address, "dlend-nvme")
    f.mdev_start("b", uuid)
    t.ok(address in b.run("mdevctl list").out, "mdevctl starts it on the lender")
    return uuid, definition


def count(f, name, event):
    return sum(1 for seen, _, _ in f.trace(name) if seen == event)


def quiet_data_path(t, f, g, uuid):
    """The same promise as over an NTB: after set-up no software is in the data path."""
    before = f.stats("b", uuid)
    g.run(verified("/dev/nvme0n1"), timeout=300)
    after = f.stats("b", uuid)
    same = [k for k in before if re.search(r"_faults|trapped_|^messages$|^gate_waits$", k)]
    t.ok({"bar0_faults_4k", "messages"} <= set(same), "debugfs counts faults and messages", str(before))
    t.equal({k: after[k] - before[k] for k in same if after[k] != before[k]}, {},
            "during fio --verify: no BAR fault, no trapped access, no message")


def use(t, f, b, address, uuid):
    free = f.free("b")
    f.trace_clear("b")
    with f.guest("b", "own", memory="384M", devices=[f.device(uuid, ",id=lent")], tools=("tools", "fio")) as g:
        t.ok("DLEND-NVME-0" in g.run("cat /sys/class/nvme/nvme0/serial").out, "the lender's own guest finds the disk")
        t.equal(f.lender_state(address)[:2], ("held", "2"), "the lender says that it has it itself")
        t.ok(g.run("grep -c 'PCI-MSIX-.*nvme' /proc/interrupts", check=False).out.strip() != "0" and
             f.irqs("b", uuid)["live"] == "msix", "with MSI-X interrupts", g.run("cat /proc/interrupts").out)
        mapped = f.domain(address)
        t.ok(mapped["mirrors"] > 0 and mapped["mapped_bytes"] >= 256 << 20,
             "the device's domain mirrors the guest's memory", str(mapped))
        sums = g.run("dd if=/dev/urandom of=/tmp/data bs=64k count=8 2>/dev/null && "
                     "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null && sync && "
                     "sha256sum </tmp/data", timeout=240).out
        t.equal(g.run(BACK, timeout=240).out, sums, "what was written is read back")
        t.ok(count(f, "b", "dlend_irq_deliver") > 0, "interrupts came by the same way as over an NTB")
        quiet_data_path(t, f, g, uuid)
        epoch = f.lender_state(address)[2]
        g.reboot(timeout=240)
        t.equal(g.run(BACK, timeout=240).out, sums, "the data are there after a guest reboot")
        t.equal(f.lender_state(address), ("held", "2", epoch), "over which the lease stayed")
        g.shutdown()
    f.wait_state("b", address, "free")
    t.equal(f.lender_state(address)[0], "free", "guest off: the device is free")
    t.equal(f.wait_free("b", free), free, "and so is every slot")
    return sums


def killed(t, f, address, uuid):
    with f.guest("b", "killed", devices=[f.device(uuid)]) as g:
        t.equal(g.run(BYTES, timeout=120).out.strip(), "65536", "borrowed again")
        g.spawn("dd if=/dev/nvme0n1 of=/dev/null bs=64k iflag=direct")
        g.kill(9)
    f.wait_state("b", address, "free")
    t.equal(f.lender_state(address)[0], "free", "SIGKILL of QEMU in the middle of I/O returns the device")
    t.equal(f.domain(address)["mapped_bytes"], 0, "and nothing of the guest is mapped any more")


def taken(t, f, b, address, uuid):
    """By force, from the host's own guest: it is out of reach before the device is reset."""
    with f.guest("b", "robbed", devices=[f.device(uuid)]) as g:
        t.equal(g.run(BYTES, timeout=120).out.strip(), "65536", "a guest uses the disk")
        f.trace_clear("b")
        b.run(f"echo force >/sys/bus/pci/devices/0000{address[5:]}/dlend/reclaim", timeout=60)
        steps = [line for name, _, line in f.trace("b") if name in ("dlend_fence", "dlend_bar_zap")]
        order = [next((i for i, line in enumerate(steps) if what in line), None)
                 for what in ("dma_blocked", "dlend_bar_zap", "bars_unmapped", " reset ")]
        t.ok(None not in order and order == sorted(order),
             "no DMA, then no BAR in the guest, then the reset", "\n".join(steps))
        t.equal(f.lender_state(address)[0], "free", "it is free again")
        f.wait_mdev("b", uuid, "failed")
        t.ok(g.qmp("query-status")["running"], "the guest that lost it goes on")
        g.kill()
    f.wait_state("b", address, "free")


def two(t, f, b, address, uuid):
    """A second device of the same VM: its memory is pinned once here, too."""
    free = f.free("b")
    f.dlend("b", f"lend {b.bdf('nvme1')}", timeout=120)
    other = f.address("b", "nvme1")
    f.wait_state("b", other, "free")
    uuids_of = [uuid, f.mdev("b", other, "dlend-nvme")]
    with f.guest("b", "two", devices=[f.device(u) for u in uuids_of]) as g:
        g.wait_for("[ -b /dev/nvme1n1 ]")
        # Not where the other case has written: what it left is read on host a later.
        sums = [g.run("dd if=/dev/urandom of=/tmp/data bs=64k count=2 2>/dev/null; sha256sum </tmp/data; "
                      f"dd if=/tmp/data of=/dev/nvme{n}n1 seek=64 bs=64k oflag=direct 2>/dev/null; "
                      f"dd if=/dev/nvme{n}n1 skip=64 bs=64k count=2 iflag=direct 2>/dev/null | sha256sum",
                      timeout=120).out.split("\n")[:2] for n in (0, 1)]
        t.ok(all(wrote == read for wrote, read in sums) and sums[0] != sums[1],
             "a VM with both reads what it wrote to each", str(sums))
        st = [f.stats("b", u) for u in uuids_of]
        t.equal([s["sharers"] for s in st], [2, 2], "they share the VM's memory")
        t.ok(st[0]["pinned_bytes"] == st[1]["pinned_bytes"] == sum(s["own_bytes"] for s in st) > 0,
             "which is pinned once", str([(s["pinned_bytes"], s["own_bytes"]) for s in st]))
        maps = [f.domain(a) for a in (address, other)]
        t.ok(all(m["mirrors"] > 0 for m in maps) and maps[0]["mapped_bytes"] == maps[1]["mapped_bytes"],
             "both devices' domains mirror it", str(maps))
        g.shutdown()
    for lent in (address, other):
        f.wait_state("b", lent, "free")
    t.equal(f.wait_free("b", free), free, "guest off: every slot is free")
    f.mdev_stop("b", uuids_of[1])
    f.dlend("b", f"reclaim {b.bdf('nvme1')}", timeout=120)


def moves(t, f, b, address, uuid, definition, sums):
    """Over the NTB, with the very same definition: the other host's guest finds what ours wrote."""
    f.take_definition("a", address, uuid, definition)
    f.wait_state("a", address, "free")
    f.mdev_start("a", uuid)
    with f.guest("a", "moved", devices=[f.device(uuid)]) as g:
        t.equal(f.lender_state(address)[:2], ("held", "1"), "host a has it by the same definition")
        t.equal(g.run(BACK, timeout=240).out, sums, "its guest reads what the lender's guest has written")
        f.wait_state("b", address, "held")
        t.equal(f.offers("b")[address]["borrower"], 1, "the lender's own list says who has it")
        late = f.start_vm("b", uuid)
        t.ok(late.status == 1 and "busy" in late.out, "a VM of the lender does not start meanwhile", f"{late.status} {late.out}")
        t.equal(f.mdev_state("b", uuid), "taken: node 1 (a) has it", "  and its mediated device says why")
        t.equal(g.run(BYTES, timeout=120).out.strip(), "65536", "which host a's guest does not notice")
        g.shutdown()
    f.wait_state("b", address, "free")
    f.mdev_stop("a", uuid)


def comes_home(t, f, b, address, uuid, sums):
    with f.guest("b", "home", devices=[f.device(uuid)]) as g:
        t.equal(g.run(BACK, timeout=240).out, sums, "and back on the lender they are there, too")
        g.shutdown()
    f.wait_state("b", address, "free")
    f.mdev_stop("b", uuid)
    f.dlend("b", f"reclaim {b.bdf('nvme0')}", timeout=120)
    b.wait_for(f"[ ! -e /sys/bus/dlend/devices/{address} ]", 20)
    t.passed("reclaimed: the offer is gone here as elsewhere")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        load_without_ntb(b)
        with t.case("a link to itself"):
            loop(t, f, b)
        b.own_disks()
        address = offered(t, f, b)
        uuid, definition = define(t, f, b, address)
        sums = use(t, f, b, address, uuid)      # of what all later cases look for on the disk
        with t.case("the VMM is killed"):
            killed(t, f, address, uuid)
        with t.case("taken by force"):
            taken(t, f, b, address, uuid)
        with t.case("two devices of one VM"):
            two(t, f, b, address, uuid)
        with t.case("the same definition on another host"):
            b.load_modules(*b.ntb_modules, "dlend_ntb")
            f.load("a")
            for name in ("a", "b"):
                f.wait_links(name)
            moves(t, f, b, address, uuid, definition, sums)
        with t.case("and back"):
            comes_home(t, f, b, address, uuid, sums)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
