#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What the test bed takes for a complaint of a kernel, what it forgets (nothing), and what may be expected."""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from host import sleeps  # noqa: E402  pylint: disable=wrong-import-position
from klog import IOMMU_FAULT, Account, complaints, iommu_fault_at, leaks  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

# As a host of the test bed printed it, shortened; 6.12 has the place elsewhere in the first line
WARNING = "[   83.671437] WARNING: kernel/time/hrtimer.c:1071 at hrtimer_forward+0x7b/0xc0, CPU#1: kworker/u9:1/235"
OLDER = "[   83.671437] WARNING: CPU: 1 PID: 235 at kernel/time/hrtimer.c:1056 hrtimer_forward+0x7b/0xc0"
ELSEWHERE = "[   98.600000] WARNING: kernel/fork.c:1 at ours+0x1/0x2, CPU#0: qemu/1"
REPORT = """\
[   83.670927] ------------[ cut here ]------------
{warning}
[   98.395456] CPU: 1 UID: 0 PID: 235 Comm: kworker/u9:1 Tainted: G           OE       7.2.12+deb13-amd64
[   98.556975] Workqueue: dlend state_work [dlend_core]
[   99.078346] Call Trace:
[   99.079303]  <IRQ>
{caller}
[   99.146658]  ? __pfx_dl_task_timer+0x10/0x10
[   99.146707]  __hrtimer_run_queues+0xf4/0x240
[   99.153578] ---[ end trace 0000000000000000 ]---
"""
SCHEDULER = "[   99.079736]  dl_task_timer+0x35b/0x8b0"


FAULT = ("[   70.1] DMAR: [DMA Read NO_PASID] Request device [02:00.0] fault addr 0x41000 [fault reason 0x06] "
         "PTE Read access is not set")
# As kernels word them; the last ones are those of 7.2's AMD driver, its core and its AER code
COMPLAINTS = (FAULT, "DMAR: DRHD: handling fault status reg 2", "DMAR: ERROR: DMA PTE for vPFN 0x10 already set (to 1 not 2)",
              "DMAR: VT-d detected Invalidation Time-out Error: SID 0",
              "DMAR: [INTR-REMAP] Request device [01:00.0] fault index 0x0 [fault reason 0x22] Present field in the IRTE",
              "nvme 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0001 address=0x1000 flags=0x0000]",
              "AMD-Vi: Event logged [ILLEGAL_DEV_TABLE_ENTRY device=0000:01:00.0 pasid=0x00000]",
              "irq 16: nobody cared (try booting with the \"irqpoll\" option)", "Disabling IRQ #16",
              "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [qemu-system-x86:380]",
              "rcu: INFO: rcu_preempt self-detected stall on CPU", "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",
              "ODEBUG: free active (active state 0) object: 1 object type: work_struct",
              "pcieport 0000:00:10.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
              "e1000e 0000:01:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)")
TALK = ("pcieport 0000:00:10.0: AER: enabled with IRQ 25", "DMAR: Intel(R) Virtualization Technology for Directed I/O",
        "DMAR: DRHD base: 0x000000fed90000 flags: 0x0", "AMD-Vi: Interrupt remapping enabled")


def report(warning=WARNING, caller=SCHEDULER):
    return REPORT.format(warning=warning, caller=caller)


def kernels(t):
    t.equal(complaints("[    1.0] dlend_link loop: up\n[    2.0] random: crng init done\n"), [], "talk is none")
    t.equal(complaints(f"a\n{ELSEWHERE}\nb"), [ELSEWHERE], "a warning is")
    for line in TALK:
        t.equal(complaints(line), [], f"none: {line}")
    for line in COMPLAINTS:
        t.equal(complaints(f"a\n{line}\nb"), [line], f"one: {line}")


def vendors(t):
    amd = "nvme 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0011 address=0x41000 flags=0x0020]"
    for line in (FAULT, amd):
        t.equal(complaints(line), [line], f"one: {line}")
        t.ok(re.search(IOMMU_FAULT, line) and re.search(iommu_fault_at(0x41000), line), "and one of an IOMMU, at its address")
        t.ok(not re.search(iommu_fault_at(0x4100), line), "and at no other")


def account(t):
    log = f"{FAULT}\nquiet\n{FAULT}\n"
    own = Account()
    t.equal(own.open(log), [FAULT, FAULT], "what nobody expects is told, each time")
    own.expect("fault addr 0x41", "edu is told to", log.index("quiet"))
    t.equal(own.open(log), [FAULT], "what is expected counts from then on, and what came before stays")
    t.equal(own.open(log + ELSEWHERE), [FAULT, ELSEWHERE], "and excuses nothing else")
    t.equal(own.missed(log), [], "it came")
    t.equal(own.missed(log[:log.index("quiet")] + "quiet\n"), ["expected, and not said: fault addr 0x41 (edu is told to)"],
            "what was to come and has not is told, too, whatever came before")
    own.expect("nobody cared", "only now and then", must=False)
    t.equal(own.missed(log), [], "but for what may come")
    own.expect("MORE", "for a while", 0, must=False).end = len("MORE Oops\n")
    t.equal(own.open("MORE Oops\nMORE Oops\n"), ["MORE Oops"], "one that ends excuses nothing that comes later")
    own.leaked.append("unreferenced object")
    t.ok("unreferenced object" in own.open(log), "and so is what leaked")
    try:
        own.expect("Oops", "")
        t.ok(False, "an expectation without a reason is refused")
    except ValueError:
        t.passed("an expectation without a reason is refused")


def console(t):
    panic = "[    9.000000] Kernel panic - not syncing: stack is corrupted"
    t.equal(Account().open(f"[    1.0] up\n{ELSEWHERE}\n", f"{ELSEWHERE}\r\n{panic}\r\n"), [ELSEWHERE, panic],
            "what a dying kernel says on its console only is told, what it says on both once")


def scheduler(t):
    t.equal(complaints(report()), [], "the scheduler's timer after a processor stood still is not")
    t.equal(complaints(report(OLDER)), [], "nor is it on 6.12")
    t.equal(complaints(report(caller=f"[   99.1]  ? guess+0x1/0x2\n{SCHEDULER}")), [],
            "nor with a guess above the caller")
    t.equal(complaints(report() + ELSEWHERE), [ELSEWHERE], "what comes after it is one")
    t.equal(complaints(f"{ELSEWHERE}\n{report()}"), [ELSEWHERE], "and what came before")
    t.equal(complaints(report(f"{WARNING}\n{ELSEWHERE}")), [ELSEWHERE],
            "and what another processor says meanwhile")
    for caller in ("dl_link_timer+0x35b/0x8b0 [dlend_core]", "tick_nohz_handler+0x1/0x2"):
        t.equal(complaints(report(caller=f"[   99.079736]  {caller}")), [WARNING], f"the same from {caller} is one")
    t.equal(complaints(report(caller="[   99.1]  other+0x1/0x2") + report()), [WARNING],
            "one from elsewhere is not taken for the scheduler's that follows")
    t.equal(complaints(report(WARNING.replace("hrtimer_forward", "hrtimer_start"))),
            [WARNING.replace("hrtimer_forward", "hrtimer_start")], "another warning below the same caller is one")


def leaked(t):
    ours = "unreferenced object 0x1 (size 8):\n  backtrace:\n    kmalloc+0x1\n    dl_x+0x1 [dlend_core]\n"
    other = "unreferenced object 0x2 (size 8):\n  backtrace:\n    acpi_x+0x1\n"
    t.equal(leaks(other), [], "a leak of somebody else's is not ours")
    t.equal(leaks(other + ours), ["unreferenced object 0x1 (size 8): dl_x+0x1 [dlend_core]"],
            "one with a module of ours is")


STATE = """== info registers -a\r
CPU#0\r
RAX=0000000000000000 RBX=0000000000000000\r
RIP=ffffffffb417bf5f RFL={flags} [----AP-] CPL=0 II=0 A20=1 SMM=0 HLT={halted}\r
== info lapic 0
dumping local APIC state for CPU 0 \r
\r
ISR\t (none)\r
IRR\t {irr}\r
\r
APR 0x00 TPR 0x10 DFR 0x0f LDR 0x00 PPR {ppr}\r
"""


def asleep(t):
    """A halted processor with an interrupt pending, as 44-errors met one, and those that are nearly so."""
    def dump(**values):
        return STATE.format(**{"flags": "00000216", "halted": 1, "irr": "236 251 ", "ppr": "0x10", **values})

    t.ok(sleeps(3 * dump()), "halted, with an interrupt that nothing keeps from it, three times in a row")
    for what, other in (("runs", {"halted": 0}), ("has interrupts off", {"flags": "00000016"}), ("has none pending", {"irr": "(none)"}),
                        ("serves one of that priority", {"ppr": "0xf0"})):
        t.ok(not sleeps(2 * dump() + dump(**other)), f"but not if it {what} in one of them")
    t.ok(not sleeps(2 * dump()), "nor if it was looked at only twice")


with Tap() as test:
    for part in (kernels, vendors, scheduler, account, console, leaked, asleep):
        with test.case(part.__name__):
            part(test)
