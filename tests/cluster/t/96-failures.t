#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Allocations that fail, one after the other, wherever our modules make them: nothing hangs, nothing is lost or
leaks, whoever asked is told, and what comes after works.

    host a (node 1): a program that is its own VMM ---- ab ---- host b (node 2): edu

It takes a kernel that can be told to (failslab, fail_page_alloc, /proc/self/fail-nth): make check-debug has one.
DLEND_LONG=1: each allocation, where otherwise some are left out of what workers do, and of attaching.

96-failures.t WHAT...: these only, of borrow, link, mdev, attach, lend, ntb.
"""
import os
import re
import shutil
import sys
import uuid as uuids
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from host import until  # noqa: E402  pylint: disable=wrong-import-position

LONG = os.environ.get("DLEND_LONG") == "1"
# Which allocation of a worker's fails: about the n-th, as the kernel counts from wherever it was
STEPS = range(1, 81) if LONG else (1, 2, 3, 5, 8, 13, 21, 34, 55)
MOST = 400          # of one task: no operation allocates as often
SWEEP_S = 1800      # all of them
ATTRIBUTES = ("failslab", "fail_page_alloc")
TIMES = " ".join(f"/sys/kernel/debug/{attribute}/times" for attribute in ATTRIBUTES)
MARK = "dlend-test: allocation"
# Of the log since the mark: what was said about the failure, without its stack; and whether one of our functions is in that stack, as
# another module may lie between ours, which prepare() cannot tell.
SINCE = f'dmesg | sed "1,/{MARK} %s$/d"'
SAID = SINCE + r' | grep -vE "\[dlend_[a-z]+\]$" | grep -cE "dlend.*(-12|ENOMEM|memory)" || :'
OURS = SINCE + r' | grep -v "  ? " | grep -cE "\[dlend_[a-z]+\]$" || :'
# One allocation of the command's own task fails in each turn, the first, the second, ..., until it has no more
SWEEP = """
for n in $(seq 1 {stride} {most}); do
    {before}
    echo "{mark} {sweep}.$n" >/dev/kmsg
    for f in {times}; do echo 1 >$f; done
    out=$( (echo $n >/proc/self/fail-nth; {command}) 2>&1); status=$?
    hit=0; for f in {times}; do [ $(cat $f) != 0 ] || hit=1; done
    {after}
    said=$({said}); ours=$({ours})
    echo "turn $n hit $hit status $status said $said ours $ours" $out
    [ $hit = 1 ] || break
done"""


def can_fail():
    """Before any host boots."""
    config = Path(os.environ.get("DLEND_KERNEL") or "/nonexistent") / "obj/.config"
    text = config.read_text() if config.exists() else ""
    return all(f"CONFIG_{word}=y\n" in text for word in ("FAILSLAB", "FAIL_PAGE_ALLOC", "FAULT_INJECTION_STACKTRACE_FILTER"))


def settings(attributes=ATTRIBUTES, **values):
    """Shell text."""
    return "\n".join(f"echo {value} >/sys/kernel/debug/{attribute}/{key if key == 'verbose' else key.replace('_', '-')}"
                     for attribute in attributes for key, value in values.items())


def prepare(host):
    """Of its allocations, those that have a function of our modules among their callers."""
    rows = [line.split() for line in host.run("grep ^dlend_ /proc/modules").out.splitlines()]
    first = min(int(row[5], 16) for row in rows)
    last = max(int(row[5], 16) + int(row[1]) for row in rows)
    host.run("\n".join((
        settings(probability=0, times=0, space=0, verbose=2, stacktrace_depth=32, task_filter="N", ignore_gfp_wait="N",
                 require_start=hex(first), require_end=hex(last)),
        settings(("failslab",), cache_filter="N"), settings(("fail_page_alloc",), min_order=0, ignore_gfp_highmem="N"))))


class Sweep:
    """One operation, again and again, with another allocation failing each time."""

    def __init__(self, t, f, hosts):
        self.t, self.f, self.hosts = t, f, hosts
        self.turns = 0

    def judge(self, name, hits, silent):
        self.t.ok(hits > 0, f"{name}: of its allocations, {hits} failed, one at a time")
        self.t.equal(silent, [], f"{name}: and what failed for it says so")

    def each(self, name, host, command, before=":", after=":", stride=1):
        """Of a command that does all that it does in one task, as the shell's own ones do, and exec.

        stride: only one of so many, unless DLEND_LONG.
        """
        self.turns += 1
        out = host.run(SWEEP.format(most=MOST, stride=1 if LONG else stride, mark=MARK, sweep=self.turns, times=TIMES, command=command, before=before,
                                    after=after, said=SAID % f"{self.turns}.$n", ours=OURS % f"{self.turns}.$n"), timeout=SWEEP_S).out
        turns = re.findall(r"^turn (\d+) hit (\d) status (\d+) said (\d+) ours (\d+) ?(.*)$", out, re.M)
        self.t.ok(len(turns) < MOST, f"{name}: the last turn has none that could fail", out[-500:])
        self.judge(name, sum(hit == "1" for _, hit, *_ in turns),
                   [turn for turn in turns if turn[1] == "1" and turn[2] != "0" and turn[3] == "0" and turn[4] != "0" and "memory" not in turn[5]])

    def some(self, name, host, act):
        """Of what several tasks do, on @host: act() starts it, and returns its Result when all of it is over."""
        hits, silent = 0, []
        for n in STEPS:
            self.turns += 1
            mark = f"w{self.turns}"
            for other in self.hosts:
                other.run(f"echo '{MARK} {mark}' >/dev/kmsg" +
                          ("\n" + settings(interval=n, times=1, probability=100) if other is host else ""))
            try:
                result = act()
            finally:
                hit = "0" in host.run(f"cat {TIMES}\n" + settings(probability=0)).out.split()
            hits += hit
            if hit and result and result.status and "memory" not in result.out and \
                    int(host.run(OURS % mark).out) and not any(int(other.run(SAID % mark).out) for other in self.hosts):
                silent.append(f"about allocation {n}: status {result.status}: {result.out}")
        self.judge(name, hits, silent)


def borrow(s, f, a, b, address, uuid):
    """Opened, borrowed, its windows built, used, returned."""
    cycle, offer = f"/share/cycle {uuid} 1", f"/sys/bus/dlend/devices/{address}"
    returned = f"timeout 120 sh -c '{until(f'grep -qx free {offer}/state', 0.1)}'"
    s.each("a VMM's own calls", a, f"exec {cycle}", after=returned)
    for host, what in ((a, "the borrower"), (b, "the lender")):
        s.some(f"a lease from its begin to its end, at {what}", host,
               lambda: a.run(f"{cycle}; status=$?; {returned} && exit $status", timeout=240, check=False))
    s.t.equal(a.run(cycle, timeout=120).out, "ok 1\n", "after all that it is borrowed and used as ever")
    f.wait_state("a", address, "free", 60)


def link(s, c, host):
    """The cable is pulled and put back: both sides begin anew."""
    def act():
        c.link("ab").command("down")
        for other in s.hosts:
            other.wait_for("! grep -qx up /sys/class/dlend_link/*:*/state", 30, every=0.1)
        c.link("ab").command("up")
        for name in "ab":
            s.f.wait_links(name, 60)
    s.some(f"host {host.name}: the link comes up again, by itself", host, act)


def mdev(s, a, address):
    """A mediated device is made, and goes."""
    uuid = str(uuids.uuid4())
    make = f"echo {uuid} >/sys/class/mdev_bus/{address}/mdev_supported_types/dlend-pci/create"
    gone = f"[ ! -e /sys/bus/mdev/devices/{uuid} ] || echo 1 >/sys/bus/mdev/devices/{uuid}/remove"
    with a.provoke("WARNING: drivers/vfio/group.c:.* at vfio_group_release",
                   "vfio_create_group() gives back one that it could not finish with its IOMMU group still in it"):
        s.each("an mdev is made", a, make, gone, gone)
    s.each("an mdev is removed", a, f"echo 1 >/sys/bus/mdev/devices/{uuid}/remove", make, gone)


def attach(s, f, a, b, address):
    """A host's own PCI tree gets the device, and gives it back; vfio-pci has it meanwhile, for a program that uses it."""
    offer = f"/sys/bus/dlend/devices/{address}"
    on, off = f"echo 1 >{offer}/attached", f"echo 0 >{offer}/attached"
    free = f"timeout 60 sh -c '{until(f'grep -qx free {offer}/state', 0.1)}'"
    gone = f"{{ grep -qx no {offer}/attached || {off}; }}; {free}"
    with a.provoke("WARNING: drivers/pci/probe.c:.* at pci_device_add",
                   "the PCI core keeps a device that it could not add", must=False):
        s.each("a device is attached", a, f"{on} || {{ cat {offer}/attach_error; false; }}", gone, gone, stride=5)
    device, vfio = f"/sys/bus/pci/devices/{pci(address)}", "/sys/bus/pci/drivers/vfio-pci"
    f.dlend("a", f"attach {address}", timeout=120)
    vfio_pci(a, address)
    use = f"exec /share/registers pci {pci(address)} dump"
    s.each("a program has it by vfio-pci", a, f"{use} >/dev/null", f"[ -e {device}/driver ] || echo {pci(address)} >{vfio}/bind", stride=5)
    for host, what in ((a, "the host that has it"), (b, "the lender")):
        s.some(f"a program with its interrupts, at {what}", host,
               lambda: a.run(f"/share/registers pci {pci(address)} status", timeout=120, check=False))
    a.run(gone, timeout=120)
    for host, what in ((b, "the lender"), (a, "the borrower")):
        s.some(f"attached and detached, at {what}", host, lambda: a.run(f"{on}; status=$?; {gone}; exit $status", timeout=240, check=False))
    s.t.equal(f.dlend("a", f"attach {address}", timeout=120).status, 0, "after all that it is attached as ever")
    f.dlend("a", f"detach {address}", timeout=120)
    f.wait_state("a", address, "free", 60)


def lend(s, f, a, b, bdf, address):
    """The lender's driver is bound to the device, and lets go of it."""
    directory = f"/sys/bus/pci/devices/{bdf}"
    b.run(f"echo dlend-lender >{directory}/driver_override")
    probe, unbind = f"echo {bdf} >/sys/bus/pci/drivers_probe", f"[ ! -e {directory}/driver ] || echo {bdf} >{directory}/driver/unbind"
    # Whatever that came to, the next one does; what the first one's own task allocates may have failed as well
    again = f"{unbind}; {probe}; [ -e {directory}/driver ] || {probe}; timeout 60 sh -c '{until(f'grep -qsx free {directory}/dlend/state', 0.1)}'"
    s.each("a device is bound", b, f"{probe}; [ -e {directory}/driver ]", unbind, again)
    with b.provoke("WARNING: drivers/iommu/iommu.c:.* at __iommu_release_dma_ownership",
                   "the IOMMU core cannot tell that the default domain was not to be had: its release has no error"):
        s.each("a device is unbound", b, unbind, ":", again)

    def offered():
        b.run(again, timeout=120)
        f.wait_state("a", address, "free", 60)
    for host, what in ((b, "the lender"), (a, "the borrower")):
        s.some(f"a device is offered, at {what}", host, offered)


def ntb(s, host):
    """The NTB's client is bound to it: aperture, control area, threads."""
    driver = "/sys/bus/ntb/drivers/" + host.run("ls /sys/bus/ntb/drivers | grep dlend").out.strip()
    device = host.run("ls /sys/bus/ntb/devices").out.strip()
    unbind = f"[ ! -e {driver}/{device} ] || echo {device} >{driver}/unbind"
    s.each(f"host {host.name}: an NTB is bound", host, f"echo {device} >{driver}/bind", unbind, unbind)
    host.run(f"echo {device} >{driver}/bind")
    for name in "ab":
        s.f.wait_links(name, 60)


def chosen(what):
    return not sys.argv[1:] or what in sys.argv[1:]


def main():
    with Tap() as t:
        if not can_fail():
            t.skip("no failing allocations in this kernel: make check-debug has one that can")
        with Cluster("two-hosts.toml", tap=t) as c:
            for program in ("cycle", "registers"):
                shutil.copy(BUILD / "guest" / program, c.run_dir / "share" / program)
            f = Fabric(c)
            a, b = c.host("a"), c.host("b")
            f.up()
            a.run("modprobe -q iommufd || :")
            address, bdf = f.lend("b", "edu"), b.bdf("edu")
            uuid = f.mdev("a", address, "dlend-pci")
            a.run(f"/share/cycle {uuid} 1", timeout=120)
            f.wait_state("a", address, "free")
            a.load_modules("dlend_native")
            for host in (a, b):
                prepare(host)
            s = Sweep(t, f, (a, b))
            free, pinned = {name: f.free(name) for name in "ab"}, f.pinned("a")
            if chosen("borrow"):
                with t.case("borrow, build, use, return: to the end"):
                    borrow(s, f, a, b, address, uuid)
            if chosen("link"):
                with t.case("links: to the end"):
                    for host in (a, b):
                        link(s, c, host)
            f.mdev_stop("a", uuid)
            if chosen("attach"):
                with t.case("attach, use, detach: to the end"):
                    attach(s, f, a, b, address)
            if chosen("mdev"):
                with t.case("mediated devices: to the end"):
                    mdev(s, a, address)
            if chosen("lend"):
                with t.case("bind, offer, unbind: to the end"):
                    lend(s, f, a, b, bdf, address)
            for name, had in free.items():
                t.equal(f.wait_free(name, had), had, f"host {name}: as much of its apertures is free as before")
            t.equal(f.wait_pinned("a", pinned), pinned, "and no page is pinned that was not")
            if chosen("ntb"):
                with t.case("NTB: to the end"):
                    for host in (a, b):
                        ntb(s, host)
            t.equal(a.complaints(), [], "host a's kernel has no complaint")
            t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
