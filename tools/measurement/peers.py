# SPDX-License-Identifier: GPL-2.0-only
"""Two devices of this host, borrowed ones or its own: an NVMe disk, and a device with memory that the kernel gives to others
(p2pmem), such as an NVMe disk with a controller memory buffer.

The disk reads into that memory, as the paper's figure 12 has it: directly, or into RAM, from where a processor copies.
bartimes.c does both, and looks at what has arrived.
"""
from collections import Counter
from dataclasses import dataclass, field

from remote.hosts import reason_of
from remote.messages import IN_USE, NOT_FOUND, NOT_READY, USAGE, Failure, print_progress

from .bar import BarBench
from .device import directory_of
from .disk import check_consent, check_disk
from .rounds import check_program, read_interrupts, read_messages, run_words
from .times import RUNTIME_S, Job, numbers_of

PLACES = ("ram", "direct")
PAGE = 4096
SIZES = [PAGE << 2 * n for n in range(5)]       # of a transfer: 4 KiB to 1 MiB
LOOK = """cd "$1" 2>/dev/null || exit 0
echo driver $(basename "$(readlink driver)"); echo kernel $(grep -cw pci_p2pdma_add_resource "$2")
cd p2pmem 2>/dev/null || exit 0
echo size $(cat size); echo free $(cat available); [ ! -e allocate ] || echo programs 1"""


@dataclass(frozen=True)
class PeerJob(Job):
    way: str        # "read" or "write"


def check_memory(host, bdf):
    """How many bytes are free.  Raises a Failure if programs get none."""
    says = host.run_checked(["sh", "-c", LOOK, "sh", directory_of(host, bdf), str(host.settings.root / "proc/kallsyms")])
    has = dict(line.partition(" ")[::2] for line in says.splitlines())
    if not has:
        raise Failure(f"{host} has no device {bdf}", "", "lspci -D", NOT_FOUND)
    if has["kernel"] == "0":
        raise Failure("this host's kernel knows no memory of devices", "it was built without CONFIG_PCI_P2PDMA",
                      "Boot one that has it: grep P2PDMA /boot/config-*", NOT_READY)
    if "size" not in has:
        raise Failure(f"{bdf} has no memory for other devices", f"its driver, {has['driver'] or 'none'}, gives none to the kernel (p2pmem)",
                      "Of NVMe disks, those with a controller memory buffer (CMB) have some, with the kernel's driver: nvme show-regs -H", USAGE)
    if "programs" not in has:
        raise Failure(f"programs get no memory of {bdf}", "this kernel has no p2pmem/allocate", "Boot Linux 6.2 or newer.", NOT_READY)
    if int(has["free"]) < PAGE:
        raise Failure(f"all memory of {bdf} is in use", f"{has['free']} of {has['size']} bytes are free",
                      "Its own driver may have it, for its queues, or another program.", IN_USE)
    return int(has["free"])


@dataclass
class PeerBench:
    """What is measured, and what came out."""
    host: object
    disk: str           # addresses
    memory: str
    consent: str        # to write: the disk's serial number; or None
    runs: int
    ios: int = 0
    device: object = None       # the Disk
    results: dict = field(default_factory=dict)

    @property
    def program(self):
        return BarBench.program

    def hosts(self):
        return (self.host,)

    def title(self):
        return f"{self.device.model} {self.disk}, and the memory of {self.memory}; {self.runs} runs"

    def head(self):
        return {"disk": self.disk, "memory": self.memory, "model": self.device.model}

    def words(self, job, place, ios):
        return [self.program, job.way, f"{directory_of(self.host, self.memory)}/p2pmem/allocate", str(job.block), str(ios), str(RUNTIME_S), place,
                str(self.host.settings.root / "dev" / self.device.names[0])]

    def parse(self, text, job):
        numbers = numbers_of(Counter(map(int, text.split())))
        return {**numbers, "bytes_per_s": job.block * 1e9 / numbers["latency_ns"]}

    def count(self):
        return {**read_interrupts(self.host, {"interrupts": self.device.interrupts}), "messages": read_messages(self.host)}

    def check(self):
        """The jobs, if all is there, and the first transfer arrives."""
        check_program(self.host, self.program, "dlend")
        self.device = check_disk(self.host, self.disk)
        if self.consent is not None:
            check_consent(self.host, self.disk, self.device, self.consent)
        free = check_memory(self.host, self.memory)
        ways = ("read",) if self.consent is None else ("read", "write")
        jobs = [PeerJob(way, block, min(10000, max(100, (1 << 28) // block)), way) for way in ways for block in SIZES if block <= free]
        for job in jobs[::len(jobs) // len(ways)]:
            self.check_way(job)
        return jobs

    def check_way(self, job):
        result = self.host.run(self.words(job, "direct", 0))
        if not result.returncode:
            return
        raise {3: Failure(f"{self.disk} is in use", "it is mounted, or belongs to something that is", f"lsblk /dev/{self.device.names[0]}", IN_USE),
               4: Failure(f"{self.disk} does not reach the memory of {self.memory}", f"the kernel allows no such transfer: {reason_of(result)}",
                          "dlend topology, and dlend show of both, say why; of this host's own devices, the kernel decides."),
               5: Failure(f"{self.disk} does not reach the memory of {self.memory}", "the transfer ended without an error, and has not arrived",
                          "A root complex between them does not pass it on: was p2p_allowed set where that is not so?")
               }.get(result.returncode, Failure(f"{self.program} failed on {self.host}", reason_of(result)))

    def perform(self):
        jobs = self.check()
        for number in range(1, self.runs + 1):
            for job in jobs:
                for place in PLACES:
                    print_progress(self.host.settings, f"run {number} of {self.runs}, {place}: {job.title()}")
                    numbers = run_words(self.host, self, job, self.words(job, place, self.ios or job.ios), self.count)
                    self.results.setdefault(job, {name: [] for name in PLACES})[place].append(numbers)
