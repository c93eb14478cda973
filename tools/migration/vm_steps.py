# SPDX-License-Identifier: GPL-2.0-only
"""The steps that deal with the VM as a whole.  Each function makes a Step, and does nothing else."""
import socket

from remote import signals
from remote.hosts import reason_of
from remote.messages import Failure
from remote.waits import wait_until

from .domain import domain_state, start_words, undefine_domain
from .jobs import ask_to_end, ended_job, migrate_words
from .note import note_text
from .release import take_definition
from .steps import Step, find_running_host, owner_unknown

DEFINE = ["virsh", "define", "/dev/stdin"]


def step_define_domain(move):
    there = move.there
    return Step(f"on {there}: define {move.vm}", lambda: there.run_checked(DEFINE, move.here.known["domain"]["xml"]),
                lambda: restore_definition(move), f"on {there}: {move.undefine}")


def restore_definition(move):
    """Give the target back the definition that it had before, or none."""
    before = move.there.known["domain"]
    if before:
        move.there.run_checked(DEFINE, before["xml"])
    else:
        undefine_domain(move.there, move.here.known["domain"])


def step_write_note(move):
    """If this host or program ends now, --finish on the target knows from whom it can have the VM."""
    there = move.there
    text = note_text(move.vm, socket.gethostname(), move.here.known["machine"])
    path = str(move.settings.note_path(move.uuid))
    script = 'mkdir -p "${1%/*}" && cat >"$1.new" && mv "$1.new" "$1"'
    return Step(f"on {there}: note that {move.vm} comes from here",
                lambda: there.run_checked(["sh", "-c", script, "sh", path], text),
                lambda: there.run_checked(["rm", "-f", path]), f"on {there}: rm -f {path}")


def step_remove_note(move):
    there, path = move.there, str(move.settings.note_path(move.uuid))
    return Step(f"on {there}: remove the note", lambda: there.run_checked(["rm", "-f", path]), None,
                f"on {there}: rm -f {path}")


def step_shut_down(move):
    here = move.here

    def shut_down():
        move.may_happen_yet = f"{move.vm} was asked to shut down, and may still do so"
        here.run_checked(["virsh", "shutdown", "--", move.uuid])
        wait_until(move.settings, f"{move.vm} to shut down", move.args.timeout,
                   lambda: domain_state(here, move.uuid) == "shut off",
                   lambda: Failure(f"{move.vm} did not shut down in {move.args.timeout} s",
                                   "the guest does not listen to the power button, or is slow",
                                   f"Shut it down from inside, or: virsh destroy {move.shell_name}; then move it."))

    def start_again():
        if domain_state(here, move.uuid) == "shut off":
            here.run_checked(start_words(move.uuid), timeout=None)
            move.may_happen_yet = ""
    return Step(f"shut {move.vm} down", shut_down, start_again, f"virsh start {move.shell_name}")


def step_start_domain(move):
    """There is no undo: the step fails only if the VM does not run there."""
    def start_there():
        # A signal now would leave open whether the VM runs.
        signals.ignore_signals()
        result = move.there.run(start_words(move.uuid), timeout=None)
        if result.returncode:
            check_if_started(move, result)
    return Step(f"on {move.there}: start {move.vm}", start_there)


def check_if_started(move, result):
    """virsh failed, or the way to it did.  Was the VM started all the same?  If not, it cannot be any more: a Failure."""
    states = []

    def is_told():
        states.append(domain_state(move.there, move.uuid))
        return states[-1] in ("running", "shut off", "none")
    wait_until(move.settings, f"{move.there} to say whether it runs", move.args.wait, is_told,
               lambda: owner_unknown(move, reason_of(result)))
    if states[-1] == "running":
        return
    if states[-1] == "shut off":
        try:
            take_definition(move.there, {**move.here.known["domain"], "state": "shut off"})
        except Failure as error:
            raise owner_unknown(move, error.in_one_line()) from None
    raise Failure(f"{move.vm} does not start on {move.there}", reason_of(result))


def step_migrate_live(move):
    words = migrate_words(move)

    def migrate():
        # A signal ends the migration, not virsh.  So libvirt knows on which side the VM stays.
        with signals.signals_handled_by(lambda _number, _frame: ask_to_end(move)):
            result = move.here.run(["virsh", *words, move.uri], timeout=None)
        # virsh may fail after the VM has gone.
        if find_running_host(move, result) is move.here:
            raise Failure(f"{move.vm} could not be migrated to {move.there}", reason_of(result))
        move.stood_still = ended_job(move.here, move.uuid).seconds_still

    def migrate_back():
        if find_running_host(move) is move.here:
            return
        result = move.here.run(["virsh", "-c", move.uri, *words, "qemu:///system"], timeout=None)
        if find_running_host(move, result) is move.there:
            raise Failure(f"{move.vm} could not be migrated back from {move.there}", reason_of(result))
        restore_definition(move)
    step = Step(f"migrate {move.vm} to {move.there}", migrate, migrate_back,
                f"on {move.there}: {move.undefine}")
    step.moves_running_vm = True
    return step


def step_start_at_boot(move):
    there = move.there
    return Step(f"on {there}: start {move.vm} at boot",
                lambda: there.run_checked(["virsh", "autostart", "--", move.uuid]), None,
                f"on {there}: virsh autostart {move.shell_name}")


def step_undefine_domain(move):
    return Step(f"undefine {move.vm} here", lambda: undefine_domain(move.here, move.here.known["domain"]),
                None, move.undefine)
