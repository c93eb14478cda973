# SPDX-License-Identifier: GPL-2.0-only
"""A BAR of a device: how long a processor takes to read it, or to write to it.

A kernel driver would not share its BAR with programs (CONFIG_IO_STRICT_DEVMEM), and nobody could tell what it makes of such
accesses.  So on its own host the device has none, and on the other one none any more.
"""
from collections import Counter
from dataclasses import dataclass

from remote.messages import NOT_READY, USAGE, Failure

from .device import check_own, directory_of
from .times import RUNTIME_S, Job, in_units, numbers_of

PROGRAM = "/usr/lib/dlend/bartimes"
SIZES = [4 << 2 * n for n in range(10)]     # of a transfer: 4 bytes to 1 MiB
MEMORY = 0x200                              # a flag of the kernel's
LOOK = """cd "$1" 2>/dev/null || exit 0
echo $(cat vendor device) "$(sed -n "$(($2 + 1))p" resource)" $(basename "$(readlink driver)")"""
LET_GO = '[ ! -L "$1/driver" ] || echo "${1##*/}" >"$1/driver/unbind"'
RUN = 'cd "$1" && echo 1 >enable || exit; shift; "$@"; s=$?; echo 0 >enable; exit $s'


@dataclass(frozen=True)
class BarJob(Job):
    way: str        # "read" or "write"


@dataclass(frozen=True)
class Bar:
    """On one host."""
    directory: str      # of the device
    device: str         # vendor:device
    number: int
    size: int           # 0: the device has no such BAR in memory
    driver: str

    interrupts = ()     # those with these names are the device's: without a driver it has none

    @property
    def model(self):
        return f"BAR {self.number} ({in_units(self.size)}) of {self.device}"

    identity = model


def look_at(host, bdf, number):
    """The Bar; None if the host has no such device."""
    directory = directory_of(host, bdf)
    words = host.run_checked(["sh", "-c", LOOK, "sh", directory, str(number)]).split()
    if not words:
        return None
    start, end, flags = (int(word, 16) for word in words[2:5])
    size = end - start + 1 if flags & MEMORY else 0
    return Bar(directory, ":".join(word.removeprefix("0x") for word in words[:2]), number, size, "".join(words[5:]))


def jobs_of(way, size):
    """Each moves 10 MiB at most, but 10 times at least: a processor reads some MB a second."""
    return tuple(BarJob(way, block, min(10000, max(10, (10 << 20) // block)), way) for block in SIZES if block <= size)


class BarBench:
    """What rounds.py measures, by bartimes.c."""
    program, package = PROGRAM, "dlend"

    def __init__(self, number, consent):
        """consent: to write, as vendor:device; or None"""
        self.number, self.consent = number, consent
        self.jobs = ()

    def check(self, host, bdf):
        """The Bar, before the device is lent."""
        bar = self.await_home(host, bdf)
        if not bar.size:
            raise Failure(f"{bdf} on {host} has no BAR {self.number} in memory", "", f"{host.prefix()}lspci -vs {bdf}", USAGE)
        if self.consent not in (None, bar.device):
            raise Failure(f"{bdf} on {host} is another device", f"it is {bar.device}",
                          "Nothing was written.  Check that this is the device that you mean.", USAGE)
        self.jobs = jobs_of("read", bar.size) + (() if self.consent is None else jobs_of("write", bar.size))
        return bar

    def await_attached(self, host, bdf):
        host.run_checked(["sh", "-c", LET_GO, "sh", directory_of(host, bdf)])
        return look_at(host, bdf, self.number)

    def await_home(self, host, bdf):
        bar = look_at(host, bdf, self.number)
        check_own(host, bdf, bar)
        if bar.driver:
            raise Failure(f"{bdf} on {host} has a driver", f"it is {bar.driver}, and a BAR is measured without one",
                          f"{host.prefix()}cd {bar.directory} && echo none >driver_override && echo {bdf} >driver/unbind", NOT_READY)
        return bar

    def words(self, bar, job, ios, _seed):
        return ["sh", "-c", RUN, "sh", bar.directory, PROGRAM, job.way, f"resource{bar.number}", str(job.block), str(ios), str(RUNTIME_S)]

    def parse(self, text, job):
        numbers = numbers_of(Counter(map(int, text.split())))
        return {**numbers, "bytes_per_s": job.block * 1e9 / numbers["latency_ns"]}
