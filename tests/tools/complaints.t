#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What the test bed takes for a complaint of a kernel, and the one that it knows not to be ours."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from host import MARK, complaints, leaks  # noqa: E402  pylint: disable=wrong-import-position
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


def report(warning=WARNING, caller=SCHEDULER):
    return REPORT.format(warning=warning, caller=caller)


def kernels(t):
    t.equal(complaints("[    1.0] dlend_link loop: up\n[    2.0] random: crng init done\n"), [], "talk is none")
    t.equal(complaints(f"a\n{ELSEWHERE}\nb"), [ELSEWHERE], "a warning is")
    t.equal(complaints(f"{ELSEWHERE}\n{MARK}\n"), [], "before the mark it is not")
    t.equal(complaints(f"{ELSEWHERE}\nBUG: 1", "ours"), ["BUG: 1"], "one that a scenario provokes is not")


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


with Tap() as test:
    for part in (kernels, scheduler, leaked):
        with test.case(part.__name__):
            part(test)
