# SPDX-License-Identifier: GPL-2.0-only
"""Borrowed devices of one guest that reach each other: who, where, by which way, and what the links count.

    b = Peers(t, c, f, "a", {"edu": ("b", "dlend-pci", 0x10), "far": ("c", "dlend-gpu", 0x12)})
    with f.guest("a", "p2p", devices=b.devices(), tools=("programs",), ...) as b.g:
        b.enable()

edu does the DMA (guest/p2p.c), or an NVMe controller (guest/prp.c).
"""
import json
import re
import time

from klog import iommu_fault_at
from wire import SLACK

PAGE = 4096
ACCESSES = PAGE // 8        # at most 8 bytes each, on the emulated NTB
QUIET = ACCESSES // 2       # heartbeats and registers are fewer


def enable(guest, *devices):
    """BARs where the firmware put them, and DMA: what a driver does first.  devices: their addresses in the guest"""
    guest.run("for d in " + " ".join(devices) + "; do echo 1 >/sys/bus/pci/devices/$d/enable; done")
    for device in devices:
        guest.run(f"p2p on {device}", timeout=120)


def bar_address(guest, device, number):
    lines = guest.run(f"cat /sys/bus/pci/devices/{device}/resource").out.splitlines()
    return int(lines[number].split()[0], 16)


class Peers:
    """{name: (lender, type, slot in the guest)}, lent, and made into mediated devices of a host."""

    def __init__(self, t, c, f, host, devices):
        self.t, self.c, self.f, self.name = t, c, f, host
        self.host = c.host(host)
        self.where = {name: lender for name, (lender, _, _) in devices.items()}
        self.slot = {name: slot for name, (_, _, slot) in devices.items()}
        self.address = {name: f.lend(lender, name, wait=(host,)) for name, (lender, _, _) in devices.items()}
        self.uuid = {name: f.mdev(host, self.address[name], kind) for name, (_, kind, _) in devices.items()}
        self.g = None

    def blocked(self, name, at, why):
        """From now on the IOMMU of a host is to block accesses to the page at that address, and to say so."""
        self.c.host(name).expect(iommu_fault_at(at), why)
        if self.c.host(name).spec.iommu != "amd":
            self.c.host(name).expect("DMAR: DRHD: handling fault status reg", why)

    def clique(self, value):
        for uuid in self.uuid.values():
            self.host.run(f"echo {value} >/sys/bus/mdev/devices/{uuid}/clique")

    def devices(self):
        return [self.f.device(self.uuid[name], f",id={name},addr={self.slot[name]:#x}") for name in self.uuid]

    def bdf(self, name):
        return f"0000:00:{self.slot[name]:02x}.0"

    def enable(self):
        enable(self.g, *map(self.bdf, self.uuid))

    def p2p(self, *words, check=True, tool="p2p"):
        return self.g.run(f"{tool} " + " ".join(str(w) if isinstance(w, str) else hex(w) for w in words),
                          timeout=120, check=check).out.strip()

    def bar(self, name, number=0):
        return bar_address(self.g, self.bdf(name), number)

    def reach(self, name):
        """{(target, bar): (address, way, state)} of dlend/p2p."""
        out = self.host.run(f"cat /sys/bus/mdev/devices/{self.uuid[name]}/dlend/p2p").out
        names = {address: n for n, address in self.address.items()}
        found = re.findall(r"^(\S+) bar(\d) (\S+) \S+ (\S+) (.+)$", out, re.M)
        return {(names[a], int(bar)): (int(at, 16), way, state) for a, bar, at, way, state in found}

    def wait_way(self, source, target, way, at, bar=0, timeout=120):
        self.host.wait_for(f"grep -q '^{self.address[target]} bar{bar} {at:#x} .* {way}' "
                           f"/sys/bus/mdev/devices/{self.uuid[source]}/dlend/p2p", timeout)

    def wait_mapped(self, *names, timeout=60):
        """Until these (default all) reach everything."""
        for name in names or self.uuid:
            self.host.wait_for(f"! grep -q none /sys/bus/mdev/devices/{self.uuid[name]}/dlend/p2p", timeout)

    def counts(self):
        """Accesses that each side has made through its windows: {("ab", "b"): n}."""
        links = json.loads(self.c.ntbsim("status"))["links"]
        return {(link, side): links[link][side]["reads"] + links[link][side]["writes"]
                for link in links for side in "ab"}

    def counted(self, *words, tool="p2p"):
        before = self.counts()
        self.p2p(*words, tool=tool)
        after = self.counts()
        return {key: after[key] - before[key] for key in after}

    def counted_read(self, name, at, busy):
        """edu's read.  Nobody looks at its registers while windows are busy with it: emulated hosts that read from
        each other through one NTB at the same time stop both (tests/ntbsim/README.md)."""
        before = self.counts()
        self.p2p("start", self.bdf(name), at)
        end = time.monotonic() + 60 * SLACK
        while any(self.counts()[key] - before[key] < ACCESSES for key in busy) and time.monotonic() < end:
            time.sleep(0.5)
        time.sleep(0.5)     # for the last reply
        self.p2p("wait", self.bdf(name), 0)
        after = self.counts()
        return {key: after[key] - before[key] for key in after}

    def windows_used(self, got, busy, what):
        """Exactly these windows carried a page; on the others there is next to nothing."""
        carried = {key for key, n in got.items() if n >= ACCESSES}
        quiet = {key for key, n in got.items() if n < QUIET}
        self.t.ok(carried == busy and quiet == got.keys() - busy, what, str(got))
