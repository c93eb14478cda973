# SPDX-License-Identifier: GPL-2.0-only
"""Moves a VM whose devices stay as they are: copies its memory, and says when it is time to stop it; and the steps for that.

Who has a device is decided by its lender (docs/migration.md).  These steps say to which node it may go, and ready a
mediated device there; all else is between the VMMs, the modules, and the lender.

libvirt moves the VM, and copies its memory in passes while it runs.  By itself it would never end: all memory that a
device can write to counts as changed in each pass (blackout.py).  So the VM may stand still for a moment only, at
first; when a pass brings nothing new any more, it may stand still for as long as the last pass takes.
"""
import math
import subprocess
import time

from remote import messages, signals
from remote.hosts import reason_of
from remote.messages import IN_USE, NOT_READY, Failure
from remote.waits import TELL_S, wait_until

from . import mdevs
from .blackout import COMPARE_BYTES_PER_S, MIB, cache_bytes, in_words, is_cut
from .jobs import abort_job, ask_to_end, ended_job, job_info, migrate_words
from .steps import Step, find_running_host

LOOK_S = 1
FIRST_MS, MOST_MS = 1, 2_000_000    # allowed time without the VM: while it is copied; what QEMU takes at most
PASSES, MANY_PASSES = 3, 12         # before that, a pass is no measure; after that, the VM writes faster than is copied
STEADY = 0.8                        # a pass that brings this share of what the one before brought
SLACK = 2                           # of the time that the last pass should take
CONNECTIONS = 4


def options(copy):
    """For virsh migrate: how the memory is copied."""
    if copy.method == "send":
        return ["--parallel", "--parallel-connections", str(CONNECTIONS)]
    # What is sent says nothing about how fast pages are compared.
    return ["--compressed", "--comp-methods", "xbzrle", "--comp-xbzrle-cache", str(cache_bytes(copy.ram)),
            "--available-switchover-bandwidth", str(COMPARE_BYTES_PER_S // MIB)]


class Passes:
    """What has been sent in each pass, and so whether another one is worth its time.

    Pure: fed with what libvirt tells.
    """

    def __init__(self):
        self.number, self.total_at_begin, self.sent = 0, 0, []

    def look(self, number, total):
        """number: of the pass; total: bytes sent in all.  Whether a new pass has begun."""
        if number == self.number:
            return False
        if self.number:
            self.sent.append(total - self.total_at_begin)
        self.number, self.total_at_begin = number, total
        return True

    def is_enough(self):
        if self.number >= MANY_PASSES:
            return True
        return self.number > PASSES and len(self.sent) > 1 and self.sent[-1] >= STEADY * self.sent[-2]


def allowed_ms(copy, info, tries=0):
    """How long the VM may stand still for the last pass, from what libvirt tells of the passes before.

    tries: how often that was not enough for QEMU
    """
    if copy.method == "compare":
        seconds = info.get("memory_total", 0) / COMPARE_BYTES_PER_S
    else:
        seconds = info.get("memory_remaining", 0) / max(info.get("memory_bps", 0), MIB)
    return min(MOST_MS, max(1000, math.ceil(1000 * SLACK * seconds)) << tries)


def describe(told):
    """For people.  told: see measures()"""
    if not told["pass"]:
        return "  libvirt and the other host prepare"
    sent, left, rate = (in_words(told[name]) for name in ("bytes_sent", "bytes_left", "bytes_per_second"))
    return f"  pass {told['pass']}: {sent} sent, {left} left, {rate}/s"


def measures(info):
    """For programs: what libvirt tells, by names of ours."""
    return {"pass": info.get("memory_iteration", 0), "bytes_sent": info.get("memory_processed", 0),
            "bytes_left": info.get("memory_remaining", 0), "bytes_per_second": info.get("memory_bps", 0)}


class Precopy:
    """One migration that keeps the devices."""

    def __init__(self, move):
        self.move = move
        self.passes, self.raised, self.told, self.ending = Passes(), 0, 0.0, False
        self.usual = ""         # allowed time without the VM, before
        self.sent_before = None     # bytes, when it was allowed to stop

    def set_downtime(self, milliseconds):
        """Return whether libvirt has done it."""
        words = ["virsh", "migrate-setmaxdowntime", "--", self.move.uuid, str(milliseconds)]
        result = self.move.here.run(words)
        if result.returncode:
            messages.print_progress(self.move.settings, f"  {' '.join(words)}: {reason_of(result)}")
        return not result.returncode

    def restore(self):
        """The VM has stayed here."""
        if self.usual.isdigit():
            self.set_downtime(self.usual)

    def run(self):
        """Move the VM.  If it stays here, raise a Failure."""
        move = self.move
        self.usual = move.here.run(["virsh", "migrate-getmaxdowntime", "--", move.uuid]).stdout.strip()
        if not self.set_downtime(FIRST_MS):
            raise Failure(f"{move.vm} could not be migrated to {move.there}", "libvirt does not let "
                          "dlend set how long the VM may be stopped")
        # A signal ends the migration, not virsh.  So libvirt knows on which side the VM stays.  When that is clear,
        # signals are ignored: either the steps are undone, or there is no way back.
        with signals.signals_handled_by(lambda _number, _frame: self.end()):
            before = self.kernels_say()
            result = self.follow()
            signals.ignore_signals()
        if find_running_host(move, result) is move.here:
            said = "".join(f"; {line}" for line in self.kernels_say() if line not in before)
            raise Failure(f"{move.vm} could not be migrated to {move.there}", reason_of(result) + said)
        ended = ended_job(move.here, move.uuid)
        move.stood_still = ended.seconds_still
        if None not in (ended.sent, self.sent_before):
            move.last_bytes = ended.sent - self.sent_before

    def kernels_say(self):
        """What both hosts' kernels have said of the devices, a line each."""
        return [f"{host}: {line}" for host in (self.move.here, self.move.there)
                for line in mdevs.kernel_lines(host, self.move.mdevs)]

    def end(self):
        (abort_job if self.ending else ask_to_end)(self.move)
        self.ending = True

    def follow(self):
        """Run virsh migrate, and look after it."""
        move = self.move
        words = ["virsh", *migrate_words(move, *options(move.copy)), move.uri]
        process = move.here.start(words)
        try:
            while process.poll() is None:
                self.look()
                time.sleep(LOOK_S)
        except Exception as error:  # pylint: disable=broad-exception-caught
            # Whatever it was: where the VM is afterwards must be known.
            messages.print_progress(move.settings, f"  {type(error).__name__}: {error}")
            self.end()
        out, err = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def look(self):
        if self.ending:
            # The first time, libvirt may not have begun yet.
            self.end()
        info = job_info(self.move.here, self.move.uuid)
        if "memory_iteration" not in info:
            return
        new = self.passes.look(info["memory_iteration"], info.get("memory_processed", 0))
        if new or time.monotonic() - self.told >= TELL_S:
            self.told, told = time.monotonic(), measures(info)
            messages.print_progress(self.move.settings, describe(told), **told)
        # With nothing left, the last pass is over.
        if self.passes.is_enough() and info.get("memory_remaining") and (new or not self.raised):
            self.let_it_stop(info)

    def let_it_stop(self, info):
        milliseconds = allowed_ms(self.move.copy, info, self.raised)
        messages.print_progress(self.move.settings, "  the last pass took QEMU too long: once more" if self.raised else
                                "  nothing new comes: now the VM stops, for the last pass",
                                allowed_milliseconds=milliseconds)
        self.sent_before = info.get("memory_processed")
        self.raised += self.set_downtime(milliseconds)


# What the module answers, as the shell tells it (docs/ABI/sysfs-bus-mdev-dlend)
REFUSED = (("not supported", "it never becomes quiet, or the VM uses iommufd",
            "--cut moves a network or sound device, and loses transfers of that moment; a USB controller only if the lender's "
            "dlend_lender.cut_models has its model; else: --detach"),
           ("not permitted", "its guest has INTx, which QEMU does not pass on after a move",
            "dlend migrate --prepare VM, and start the VM anew; or: --detach"),
           ("Too many links", "its IOMMU group has more functions, which is not possible yet", "--detach"),
           ("No such device", "the VM does not have it open", "virsh dumpxml shows which devices the VM has."))


def step_name_target(move, mdev):
    node = move.there.known["node"]
    words = f"{node} cut" if move.args.cut and is_cut(mdev.type_name) else node
    return Step(f"let {mdev.parent} go to {move.there} (node {words})", lambda: name_target(move, mdev, words),
                lambda: forget_target(move, mdev), f"echo 0 >/{mdevs.target_path(mdev.uuid)}")


def name_target(move, mdev, words):
    result = mdevs.write_target(move.here, mdev.uuid, words)
    if not result.returncode:
        return
    said = reason_of(result)
    why, todo = next(((why, todo) for text, why, todo in REFUSED if text in said), (said, "dmesg says more."))
    raise Failure(f"{mdev.parent} cannot stay while {move.vm} moves", why, todo, IN_USE)


def forget_target(move, mdev):
    # It is forgotten by itself when no VM has the device open.
    if mdevs.is_mdev_active(move.here, mdev.uuid):
        mdevs.write_target(move.here, mdev.uuid, "0")


def step_wait_until_offered(move, mdev):
    there = move.there

    def is_offered():
        return mdevs.is_mdev_active(there, mdev.uuid) or mdevs.instances_left(there, mdev) > 0

    def not_offered():
        return Failure(f"{there} may not have {mdev.parent}", "its lender has not allowed it yet",
                       f"{there.prefix()}dlend list; dlend links", NOT_READY)
    return Step(f"wait until {there} may have {mdev.parent}",
                lambda: wait_until(move.settings, f"{mdev.parent} to be offered", move.args.wait, is_offered, not_offered))


def step_migrate_keeping(move):
    """If the step fails, the VM runs on here, with its devices."""
    precopy = Precopy(move)
    return Step(f"migrate {move.vm} to {move.there}, with its devices as they are", precopy.run, precopy.restore,
                f"on {move.there}: {move.undefine}")


def step_stop_mdev_left(move, mdev):
    """Nobody has it open any more."""
    return Step(f"stop {mdev.uuid} here", lambda: mdevs.stop_mdev(move.here, mdev), None, f"mdevctl stop -u {mdev.uuid}")
