# SPDX-License-Identifier: GPL-2.0-only
"""Runs the jobs on both hosts, in turn.

In each round the device is lent, the borrower does all jobs, the device is given back, and the lender does all jobs.  So
what changes with time meets both alike, and no round depends on how the device was lent for another one.

The subject says which jobs these are, which command does one, and what has to be there for it: DiskBench and the like.
"""
import re
from dataclasses import dataclass, field

from remote import signals
from remote.hosts import LOST, cannot_be_asked, reason_of
from remote.messages import NOT_READY, Failure, print_progress

from .device import Loan

PLACES = ("local", "attached")
# Interrupts for lent devices: their names in /proc/interrupts
ARRIVING = ("dlend-direct", "ndev_vec_isr", "ntb_doorbell")     # on the borrower: a device's own messages, or the NTB's doorbell
LENDER = ("dlend-lender",)                                      # on the lender, which passes them on by the doorbell


@dataclass
class Bench:
    """What is measured, and what came out."""
    lender: object              # hosts
    borrower: object
    bdf: str                    # of the device, on its lender
    subject: object
    runs: int
    ios: int = 0                # of each job; 0: as many as the job says
    device: object = None       # on the lender
    interrupts: str = ""        # how they come to the borrower
    results: dict = field(default_factory=dict)     # {Job: {place: [numbers of each run]}}

    def hosts(self):
        return self.lender, self.borrower

    def perform(self):
        run_bench(self)

    def title(self):
        return f"{self.device.model} {self.bdf} of {self.lender}, attached to {self.borrower}; {self.runs} runs, interrupts: {self.interrupts}"

    def head(self):
        return {"lender": str(self.lender), "borrower": str(self.borrower), "device": self.bdf, "model": self.device.model,
                "interrupts": self.interrupts}


def is_virtual(host):
    """Whether the host is a virtual machine: then its times are those of an emulation, maybe."""
    return not host.run(["grep", "-q", "^flags.* hypervisor", str(host.settings.root / "proc/cpuinfo")]).returncode


def check_program(host, program, package):
    result = host.run(["sh", "-c", 'command -v "$1"', "sh", program])
    if result.returncode == LOST:
        raise cannot_be_asked(host, result)
    if result.returncode:
        raise Failure(f"there is no {program} on {host}", "", f"{host.prefix()}apt install {package}", NOT_READY)


def node_of(host):
    result = host.run(["cat", str(host.settings.root / "sys/module/dlend_core/parameters/node_id")])
    if result.returncode:
        raise Failure(f"dlend's modules are not loaded on {host}", "", f"{host.prefix()}dlend doctor", NOT_READY)
    return result.stdout.strip()


def check_link(lender, borrower):
    """There has to be a link that is up.  All of it is read from sysfs."""
    node = node_of(lender)
    if node_of(borrower) == node:
        raise Failure(f"{lender} and {borrower} are one host", f"both are node {node}", "Name two.", NOT_READY)
    links = str(borrower.settings.root / "sys/class/dlend_link")
    script = 'cd "$1" && for l in *; do [ "$(cat $l/peer_node) $(cat $l/state)" != "$2 up" ] || exit 0; done; exit 1'
    if borrower.run(["sh", "-c", script, "sh", links, node]).returncode:
        raise Failure(f"no link from {borrower} to {lender}, node {node}, is up", "", f"{borrower.prefix()}dlend links", NOT_READY)


def check_all(bench):
    """Nothing is changed before all of this is so."""
    for host in (bench.borrower, bench.lender):
        check_program(host, bench.subject.program, bench.subject.package)
    check_link(bench.lender, bench.borrower)
    bench.device = bench.subject.check(bench.lender, bench.bdf)


def interrupts_taken(text, names):
    """How many a host's processors have taken, of those with one of these in their name.  text: of /proc/interrupts"""
    lines = [line.split() for line in text.splitlines() if any(name in line for name in names)]
    taken = 0
    for words in lines:
        for word in words[1:]:
            if not word.isdecimal():
                break
            taken += int(word)
    return taken


def messages_sent(text):
    """How many a host has sent over its links; heartbeats are none.  text: of its links' files in debugfs"""
    return sum(int(count) for count in re.findall(r"^msg_\w+: sent (\d+)", text, re.M))


def read_interrupts(host, names):
    """{what: how many a host has taken}.  names: {what: names of interrupts}"""
    text = host.run_checked(["cat", str(host.settings.root / "proc/interrupts")])
    return {what: interrupts_taken(text, words) for what, words in names.items()}


def read_messages(host):
    """How many a host has sent; None without debugfs."""
    links = host.run(["sh", "-c", 'cat "$1"/*:*', "sh", str(host.settings.root / "sys/kernel/debug/dlend/links")])
    return None if links.returncode else messages_sent(links.stdout)


def count_all(bench, place, device):
    """What was counted so far: {name: number, or None}."""
    if device.interrupts is None:
        return {}
    own = {"interrupts": device.interrupts}
    if place == "local":
        return read_interrupts(bench.lender, own)
    return {**read_interrupts(bench.borrower, {**own, "link_interrupts": ARRIVING}),
            **read_interrupts(bench.lender, {"lender_interrupts": LENDER}), "messages": read_messages(bench.borrower)}


def run_job(bench, place, job, device, seed):
    """One job on one host: its numbers, and what was counted meanwhile."""
    host = bench.borrower if place == "attached" else bench.lender
    words = bench.subject.words(device, job, bench.ios or job.ios, seed)
    return run_words(host, bench.subject, job, words, lambda: count_all(bench, place, device))


def run_words(host, subject, job, words, count):
    """The same.  words: the command; count(): what was counted so far, {name: number, or None}"""
    before, result, after = count(), host.run(words), count()
    try:
        numbers = subject.parse(result.stdout, job)
    except ValueError as error:
        why = reason_of(result) if result.returncode else f"what it says cannot be read: {error}"
        raise Failure(f"{subject.program} failed on {host}", why) from None
    return {**numbers, **{name: None if None in (now, before[name]) else now - before[name] for name, now in after.items()}}


def run_jobs(bench, place, device, seed):
    if device.identity != bench.device.identity:
        raise Failure(f"{bench.bdf} has become another device", f"it is {device.identity}")
    for job in bench.subject.jobs:
        print_progress(bench.lender.settings, f"run {seed} of {bench.runs}, {place}: {job.title()}")
        bench.results.setdefault(job, {name: [] for name in PLACES})[place].append(run_job(bench, place, job, device, seed))


def run_bench(bench):
    """All of it.  However it ends, the device is back as it was, or the Failure says what is left to do."""
    loan = Loan(bench)
    try:
        signals.heed_signals()
        check_all(bench)
        for number in range(1, bench.runs + 1):
            device, bench.interrupts = loan.begin()
            run_jobs(bench, "attached", device, number)
            run_jobs(bench, "local", loan.end(), number)
        signals.ignore_signals()
    except Exception as error:      # pylint: disable=broad-exception-caught
        signals.ignore_signals()
        failure = failure_of(error)
        if loan.begun:
            print_progress(bench.lender.settings, failure.in_one_line())
            give_back(loan)
        raise failure from None


def failure_of(error):
    if isinstance(error, Failure):
        return error
    if isinstance(error, signals.Interrupted):
        return Failure("the measurement was interrupted", "a signal came")
    return Failure("the measurement failed", f"{type(error).__name__}: {error}", "Please report that.")


def give_back(loan):
    print_progress(loan.lender.settings, f"{loan.bdf} is given back")
    try:
        loan.end()
    except Failure as error:
        by_hand = loan.by_hand()
        raise Failure(f"{loan.bdf} is not given back", error.in_one_line(), f"By hand: {by_hand}" if by_hand else error.todo,
                      error.code) from None
