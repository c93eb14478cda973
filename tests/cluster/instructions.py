# SPDX-License-Identifier: GPL-2.0-only
"""How many instructions an emulated host executes in the modules that lending uses (plugin/instructions.c, for QEMU)."""
import mmap
import re
import time

from cluster import BUILD

PLUGIN = BUILD / "plugin/instructions.so"
MODULES, SHIFT = 0xffffffffa0000000, 4      # as instructions.c has them
OURS = r"\[(dlend_\w+|ntb|ntb_hw_\w+)\]"
# Code that runs so many times as often with work as without it is there for the work.
TIMES = 4


def count_instructions(c, name):
    """Before the cluster starts: have a host's instructions counted."""
    c.topology.hosts[name].first += ["-plugin", f"{PLUGIN},out={name}.instructions"]


def code_of(symbols):
    """Counters, from and to, of these modules' code. symbols: /proc/kallsyms, of a host where they have been loaded"""
    ends = {}
    for address, module in re.findall(rf"^(\w+) [tTwW] \S+\s+{OURS}$", symbols, re.M):
        counter = (int(address, 16) - MODULES) >> SHIFT
        first, last = ends.get(module, (counter, counter))
        ends[module] = min(first, counter), max(last, counter)
    # The last function ends with its page, or before that.
    return [(first, (last | 0xff) + 1) for first, last in ends.values()]


class Instructions:
    """Of one host, which count_instructions() has been told of."""

    def __init__(self, c, host):
        with open(c.run_dir / f"{host.name}.instructions", "rb") as file:
            self.counters = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("Q")
        self.code = code_of(host.run("cat /proc/kallsyms").out)
        self.before = self.counts()

    def counts(self):
        return [count for first, end in self.code for count in self.counters[first:end]]

    def since(self):
        """How often each piece of code has been executed, in instructions, since it was asked last."""
        now, before = self.counts(), self.before
        self.before = now
        return [new - old for new, old in zip(now, before)]

    def for_work(self, worked, seconds):
        """Instructions for the work alone: a host looks after its links all the time.

        worked: since(), for the time of the work; seconds: how long that was, so long the host is left alone now
        """
        self.since()
        time.sleep(seconds)
        return sum(count - idle for count, idle in zip(worked, self.since()) if count > TIMES * idle)
