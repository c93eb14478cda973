#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A lent device and the same one passed by vfio-pci: register by register, and what a reset means.

    host a (node 1): a program that is its own VMM ---- ab ---- host b (node 2): the same program; nvme0, nic, edu, vrng

On host a it is a mediated device, or attached and passed on by vfio-pci.

Each difference has its reason in 32-registers.reasons; one that has none fails, and so does a reason that is not
needed any more.
"""
import contextlib
import fnmatch
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import DEBUG, Fabric, eventually  # noqa: E402  pylint: disable=wrong-import-position
from forge import Forge, WINDOW_BYTES  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT  # noqa: E402  pylint: disable=wrong-import-position

REASONS = Path(__file__).with_suffix(".reasons")
PROGRAM = "/share/registers"
# What each of them has: MSI-X and FLR; a power state that forgets; INTx, MSI, and no PCI Express at all; vendor-specific
# capabilities, one of which is a window onto its registers.
DEVICES = {"nvme0": "dlend-nvme", "nic": "dlend-nic", "edu": "dlend-pci", "vrng": "dlend-pci"}


def reasons():
    """[(pattern of "DEVICE PHASE REGISTER", reason)]"""
    rows = []
    for line in REASONS.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.partition("|")
            rows.append((" ".join(pattern.split()), reason.strip()))
    return rows


def dump(host, bus, name):
    out = host.run(f"{PROGRAM} {bus} {name} dump", timeout=120).out
    return {tuple(line.split()[:2]): line.split(None, 2)[2] for line in out.splitlines()}


@contextlib.contextmanager
def by_vfio_pci(b, port):
    """Its own host's vfio-pci has the device."""
    bdf = b.bdf(port)
    device = f"/sys/bus/pci/devices/{bdf}"
    b.run(f"modprobe vfio-pci; cd {device}; [ ! -e driver ] || echo {bdf} >driver/unbind; "
          f"echo vfio-pci >driver_override; echo {bdf} >/sys/bus/pci/drivers_probe")
    yield bdf
    b.run(f"cd {device}; echo {bdf} >driver/unbind; echo >driver_override")


def attached(t, f, a, address):
    """On the other host, by the same vfio-pci."""
    f.dlend("a", f"attach {address}", timeout=120)
    vfio_pci(a, address)
    found = dump(a, "pci", pci(address))
    resets = [line for name, _, line in f.trace("b", address) if name == "dlend_reset" and " request " in line]
    t.ok(len(resets) >= 3, "attached: vfio-pci's resets, as it is opened, as it is used, and at its end, are the device's", str(resets))
    f.trace_clear("b")
    f.dlend("a", f"detach {address}", timeout=120)
    f.wait_state("a", address, "free")
    return found


def compare(t, port, local, lent, rows, used):
    """Says each difference, with its reason."""
    without = []
    for key in sorted(local.keys() | lent.keys()):
        have, want = lent.get(key, "-"), local.get(key, "-")
        if have == want:
            continue
        where = f"{port} {key[0]} {key[1]}"
        match = next((row for row in rows if fnmatch.fnmatchcase(where, row[0])), None)
        t.diag(f"{where}: vfio-pci {want}, lent {have}: {match[1] if match else 'NO REASON'}")
        if match:
            used.add(match)
        else:
            without.append(f"{where}: vfio-pci {want}, lent {have}")
    t.ok(len(local) > 20 and not without, f"{port}: each of its registers is as vfio-pci has it, or there is a reason",
         "\n".join(without))


def registers(t, f, a, b):
    rows, used = reasons(), set()
    local, mdevs = {}, {}
    for port in DEVICES:
        with by_vfio_pci(b, port) as bdf:
            local[port] = dump(b, "pci", bdf)
        compare(t, f"attached {port}", local[port], attached(t, f, a, f.lend("b", port)), rows, used)
    for port, kind in DEVICES.items():
        address = f.address("b", port)
        mdevs[port] = address, f.mdev("a", address, kind)
        compare(t, port, local[port], dump(a, "mdev", mdevs[port][1]), rows, used)
        f.wait_state("a", address, "free")
    t.equal([" ".join(row) for row in rows if row not in used], [], "no reason is without a difference")
    return mdevs


def window_at_home(b):
    """What virtio's window shows on the device's own host."""
    with by_vfio_pci(b, "vrng") as bdf:
        return seen("window", b.run(f"{PROGRAM} pci {bdf} window", timeout=60).out)


def seen(what, out):
    return dict(re.findall(rf"^{what} (\w+) (\S+)$", out, re.M))


def asked(a, kind):
    """Messages of a kind that host a has sent."""
    return sum(map(int, re.findall(rf"^msg_{kind}: sent (\d+)", a.run(f"cat {DEBUG}/links/*:*").out, re.M)))


def window(t, f, a, home, address, uuid):
    """A vendor-specific capability of virtio's leads to the device's registers: by now, not as they were once."""
    t.equal((home["before"], home["wrote"], home["features0"]), ("00000000", "1", home["bar"]),
            "vfio-pci: virtio's window in configuration space leads to the device's registers")
    t.ok(home["features1"] != home["features0"], "  and shows what they hold now", str(home))
    before = asked(a, "CFG_READ"), asked(a, "CFG_WRITE")
    t.equal(seen("window", a.run(f"{PROGRAM} mdev {uuid} window", timeout=60).out), home, "lent: the same")
    after = asked(a, "CFG_READ"), asked(a, "CFG_WRITE")
    t.ok(after[0] > before[0] and after[1] > before[1], "  by messages", f"{before} {after}")
    f.wait_state("a", address, "free")
    before = asked(a, "CFG_READ")
    out = a.run(f"{PROGRAM} mdev {uuid} listed", timeout=60).out
    t.ok(int(out.split()[1]) > 100, "each register of the specification's, ten times", out)
    t.equal(asked(a, "CFG_READ"), before, "  no message: this host answers")
    f.wait_state("a", address, "free")


def slow(t, f, a, b, address, uuid):
    """The lender does not answer: a read of what only the device knows ends all the same, and a write is not lost."""
    a.run("rm -f /tmp/go /tmp/slow")
    job = a.spawn(f"{PROGRAM} mdev {uuid} slow >/tmp/slow")
    a.wait_for("grep -q ready /tmp/slow", 30)
    with b.stands_still():
        a.run("touch /tmp/go")
        a.wait_for("grep -q wrote /tmp/slow", 30)
    a.run("rm /tmp/go")
    job.wait(60)
    found = seen("slow", a.run("cat /tmp/slow").out)
    t.diag(str(found))
    t.equal((found["before"], found["value"]), ("40", "0"),
            "a register that only the device knows; while its lender is silent, as it was after the reset")
    t.ok(float(found["took"]) < 1000, "  within a bounded time, in ms", found["took"])
    t.ok(float(found["again"]) < 50, "  and the next read does not wait, in ms", found["again"])
    t.ok(float(found["wrote"]) < 500, "  nor a write much longer, in ms", found["wrote"])
    t.equal(found["after"], "44", "  which is done when the lender is back")
    f.wait_state("a", address, "free")


def reset_order(t, f):
    """While it is reset a device decodes no addresses: nobody's access may be on its way to it."""
    address = f.address("b", "nvme0")
    steps = [line for name, _, line in f.trace("b", address)
             if name in ("dlend_bus_master", "dlend_lend_window", "dlend_reset")]
    at = next(i for i, line in enumerate(steps) if "dlend_reset" in line and " request " in line)
    before, after = "\n".join(steps[:at]), "\n".join(steps[at + 1:])
    t.ok(re.search(r"bar unmap(?!.*bar map)", before, re.S), "before a reset for the guest, BARs are out of reach", before)
    t.ok("bar map" in after.split("dlend_reset")[0], "after it they are back", after)


def reset_by_others(t, f, a, b, address, uuid):
    """The lender's admin resets a device that is lent: a lease is no reason why not."""
    a.run("rm -f /tmp/go /tmp/readrq")
    job = a.spawn(f"{PROGRAM} mdev {uuid} readrq 3 >/tmp/readrq")
    a.wait_for("grep -q ready /tmp/readrq", 30)
    f.trace_clear("b")
    b.run(f"echo 1 >/sys/bus/pci/devices/0000{address[5:]}/reset", timeout=30)
    steps = re.findall(r"dlend_lend_window: .*bar ((?:un)?map)\b", "\n".join(line for _, _, line in f.trace("b", address)))
    t.ok(steps and steps == sorted(steps, reverse=True) and steps.count("map") == steps.count("unmap"),
         "a reset through sysfs: BARs are out of reach, then back", str(steps))
    t.equal(f.lender_state(address)[:2], ("held", "1"), "  and the lease stays")
    a.run("touch /tmp/go")
    job.wait()
    f.wait_state("a", address, "free")


def turns(events):
    """What became of each BAR in the lender's window, in order: {BAR: ["map", "unmap", ...]}; and what failed."""
    found, failed = {}, []
    for name, fields, line in events:
        how = re.search(r" bar (map|unmap) ", line)
        if name == "dlend_lend_window" and how:
            found.setdefault(fields["at"], []).append(how.group(1))
            failed += [line] * (fields["status"] != "0")
    return found, failed


def resets_meet(t, f, a, b, address, uuid):
    """The holder resets the device again and again while the lender's admin does."""
    b.run("rm -f /tmp/over")
    job = b.spawn(f"until [ -e /tmp/over ]; do echo 1 >/sys/bus/pci/devices/0000{address[5:]}/reset || exit; done")
    f.trace_clear("b")
    out = a.run(f"{PROGRAM} mdev {uuid} resets 20", timeout=120).out
    f.wait_state("a", address, "free", 60)
    b.run("touch /tmp/over")
    job.wait(60, check=True)
    found, failed = turns(f.trace("b", address))
    t.equal(out.count("reset bar0"), 20, "resets of the holder's, and as many of the admin's as there is time for: each returns")
    t.ok(found and min(map(len, found.values())) > 4, "  which takes the BARs out of reach",
         str({bar: len(steps) for bar, steps in found.items()}))
    # At the end of the lease they are unmapped, whether they are out of reach at that time or not.
    t.equal({bar: steps for bar, steps in found.items() if steps[:-1] != (["map", "unmap"] * len(steps))[:len(steps) - 1]}, {},
            "  they come back when the last of those that are under way is over, once")
    t.equal(failed, [], "  and nothing of that fails")


@contextlib.contextmanager
def kprobe(host, name, what):
    """What such an event has found: a function that returns its values."""
    tracing = "/sys/kernel/tracing"
    own = f"{tracing}/instances/{name}"     # the other buffer is written, and overrun, while somebody reads it
    host.run(f"echo '{what.replace('NAME', name)}' >>{tracing}/kprobe_events && mkdir {own} && echo 1 >{own}/events/kprobes/{name}/enable")
    yield lambda: [int(n, 0) for n in re.findall(name + r": .* value=(\w+)", host.run(f"cat {own}/trace").out)]
    host.run(f"echo 0 >{own}/events/kprobes/{name}/enable && rmdir {own} && echo '-:{name}' >>{tracing}/kprobe_events")


def read_request(t, f, a, b, address, uuid):
    """QEMU's devices have no such bits: so what is seen is that the lender's kernel sets them."""
    a.run("rm -f /tmp/go /tmp/readrq")
    with kprobe(b, "dlend_test_rq", "p:NAME pcie_set_readrq value=%si:u32") as found:
        job = a.spawn(f"{PROGRAM} mdev {uuid} readrq 3 >/tmp/readrq")
        a.wait_for("grep -q ready /tmp/readrq", 30)
        t.ok(eventually(lambda: 1024 in found(), True), "the guest's Max_Read_Request_Size is set on the device", str(found()))
        a.run("touch /tmp/go")
        job.wait()
    f.wait_state("a", address, "free")


def vectors(t, f, a, b, address, uuid):
    limit = f"/sys/kernel/debug/dlend/lender/0000{address[5:]}/max_vectors"
    b.run(f"echo 4 >{limit}")
    out = a.run(f"{PROGRAM} mdev {uuid} vectors 8", timeout=60).out
    b.run(f"echo 0 >{limit}")
    t.equal(re.findall(r"^vectors (\d+: -?\d+)$", out, re.M), ["8: 4", "4: 0"],
            "more vectors than the lender has: the answer is how many it has, and these work")
    t.ok("bar0 ffffffff" not in out, "the device lives on", out)
    t.ok(a.run(f"cat /sys/bus/mdev/devices/{uuid}/dlend/state").out.startswith("idle"), "  and is not failed")
    f.wait_state("a", address, "free")


def status(t, f, a, address, uuid):
    out = a.run(f"{PROGRAM} mdev {uuid} status", timeout=60).out
    t.equal(dict(re.findall(r"^status (\w+) (\d)$", out, re.M)),
            {"idle": "0", "raised": "1", "again": "1", "served": "0", "over": "0"},
            "PCI_STATUS tells of INTx as the device does")
    f.wait_state("a", address, "free")


def counting(a, uuid):
    """A program whose device has told one interrupt, and where in its host's aperture that is counted."""
    a.run("rm -f /tmp/go /tmp/irqs")
    with kprobe(a, "dlend_test_sink", "r:NAME dlend_slot_of_memory value=+0($retval):u64") as found:
        job = a.spawn(f"{PROGRAM} mdev {uuid} irqs >/tmp/irqs")
        a.wait_for("grep -q ready /tmp/irqs", 30)
        return job, found()[-1]


def sent(b):
    """Interrupts of lent devices that this lender has told its borrowers."""
    return sum(map(int, re.findall(r"^irq_fired: (\d+)", b.run("cat /sys/kernel/debug/dlend/links/*").out, re.M)))


def read_first(t, f, c, a, b, address, uuid):
    """An interrupt is written to the borrower behind a read of its memory, which comes back behind the data.

    The word that is read is made all ones, as a window that leads nowhere has it: was it read first, nothing is written.
    So is the one by which the lender tells such a window from counters that are gone.  The memory itself is all ones
    then, too, and the borrower, which looks at all counters each second, may take that for interrupts: so the lender's
    own number says what was told.
    """
    window = Forge(c, "ab", "a")
    told = "/sys/module/dlend_mdev/parameters/stop_on_loss"
    a.run(f"echo 1 >{told}")
    job, at = counting(a, uuid)
    t.equal(window.word(at), 1, "the word that counts a vector's interrupts is found")
    window.set_word(WINDOW_BYTES, -1)
    window.set_word(at, -1)
    before = sent(b)
    a.run("touch /tmp/go")
    job.wait(90, check=False)
    t.equal(a.run("cat /tmp/irqs").out.split(), ["ready", "error"], "a window that reads as all ones: the device is lost")
    t.equal(sent(b), before, "  and no interrupt was told before that was read")
    t.ok("reads through the window come back as all ones" in b.run("dmesg").out, "  as the lender says")
    f.wait_links("a", 60)
    f.wait_links("b", 60)
    f.wait_state("a", address, "free", 60)
    a.run(f"echo 0 >{told}")


def counters_gone(t, f, c, a, b, address, uuid):
    """Only the counters read as all ones, as those of a borrower that has closed them: others go on."""
    window = Forge(c, "ab", "a")
    session = "cat /sys/class/dlend_link/*:*/session"
    job, at = counting(a, uuid)
    before = b.run(session).out
    window.set_word(at, -1)
    a.run("touch /tmp/go")
    b.wait_for("dmesg | grep -q 'has taken away where interrupts of a device are counted'", 60)
    t.equal(b.run(session).out, before, "counters that read as all ones end their own interrupts, and the link stays up")
    job.kill()
    f.wait_state("a", address, "free", 60)


def stopped(t, f, a, address, uuid):
    for how, what in (("reset", "VFIO_DEVICE_RESET"), ("master", "Bus Master Enable off")):
        out = a.run(f"{PROGRAM} mdev {uuid} stop {how} /sys/bus/mdev/devices/{uuid}/dlend", timeout=120).out
        t.diag(out.strip())
        t.ok("wrote 0" in out, f"{what} while memory is being pinned: the device writes nothing when it has returned", out)
        f.wait_state("a", address, "free")


def silent(t, f, a, b, uuid):
    """The lender does not answer, though its link is up: what it might do with the device ends at this host."""
    a.run("rm -f /tmp/go; dmesg -C")
    f.trace_clear("a")
    job = a.spawn(f"{PROGRAM} mdev {uuid} silent >/tmp/silent")
    a.wait_for("grep -q ready /tmp/silent", 30)
    with b.stands_still():
        a.run("touch /tmp/go")
        a.wait_for("grep -q took /tmp/silent", 30)
    job.wait(60)
    out = a.run("cat /tmp/silent").out
    t.diag(out.strip())
    t.ok(any(fields for name, fields, line in f.trace("a", "fenced") if name == "dlend_window"),
         "VFIO_DEVICE_RESET returns all the same: no memory is in the device's reach then")
    t.ok("did not stop the device" in a.run("dmesg").out, "  which is said")
    t.ok("wrote 4096" in out, "the lender is back: the device is reset, and has the memory again", out)


def fenced(t, f, a, b, stopped, other):
    """It does not stop the device, and another one of the VM is turned on, which uses the same way to the memory."""
    hold = f"{f.lender_of(stopped[0])[1]}/hold_stop"
    b.run(f"echo 1 >{hold}")
    a.run("rm -f /tmp/go")
    job = a.spawn(f"/share/fenced {stopped[1]} {other[1]} >/tmp/fenced 2>&1")
    a.wait_for("grep -q ready /tmp/fenced", 30)
    a.run("touch /tmp/go")
    a.wait_for("grep -q mapped /tmp/fenced", 30)
    b.run(f"echo 0 >{hold}")
    a.run("rm /tmp/go")
    job.wait(60)
    t.equal(a.run("cat /tmp/fenced").out.splitlines(), ["ready", "mapped 0", "mapped again"],
            "a device that was not stopped gets no way to memory because another one needs it")


def main():
    with Tap() as t, Cluster("registers-hosts.toml", tap=t) as c:
        for name in ("registers", "fenced"):
            shutil.copy(BUILD / "guest" / name, c.run_dir / "share" / name)
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        # A lender that stands still for a while keeps its session.
        f.up(heartbeat_timeout_ms=30000)
        a.load_modules("dlend_native")
        home = window_at_home(b)
        with t.case("register by register"):
            mdevs = registers(t, f, a, b)
        with t.case("what only the device knows"):
            window(t, f, a, home, *mdevs["vrng"])
            slow(t, f, a, b, *mdevs["vrng"])
        with t.case("a reset, as the lender does it"):
            reset_order(t, f)
        with t.case("a reset through sysfs"):
            reset_by_others(t, f, a, b, *mdevs["nic"])
            with b.provoke(IOMMU_FAULT, "who has a device that the lender's admin resets does not know of it, and uses it",
                           must=False):
                resets_meet(t, f, a, b, *mdevs["nic"])
        with t.case("Max_Read_Request_Size"):
            read_request(t, f, a, b, *mdevs["nic"])
        with t.case("too few vectors"):
            vectors(t, f, a, b, *mdevs["nvme0"])
        with t.case("Interrupt Status"):
            status(t, f, a, *mdevs["edu"])
        with t.case("an interrupt, and its data"):
            read_first(t, f, c, a, b, *mdevs["edu"])
        with t.case("an interrupt, and no place to count it"):
            counters_gone(t, f, c, a, b, *mdevs["edu"])
        with t.case("DMA ends before the call returns"):
            stopped(t, f, a, *mdevs["edu"])
        with t.case("a lender that is silent"):
            silent(t, f, a, b, mdevs["edu"][1])
        with t.case("a lender that does not stop a device"):
            fenced(t, f, a, b, mdevs["edu"], mdevs["nvme0"])
        for address, uuid in mdevs.values():
            f.mdev_stop("a", uuid)


main()
