# SPDX-License-Identifier: GPL-2.0-only
"""Runs the steps of a move, and undoes them when one fails.

The steps that can be undone come first.  If one of them fails, it and all before it are undone, in reverse order.
After them the VM belongs to the other host.  From there the program only goes forward: what fails then is told to
people at the end.
"""
from remote import messages, signals
from remote.messages import Failure
from remote.signals import Interrupted

from .domain import domain_state
from .steps import Unknown, failure_of, find_running_host


def run_move(move):
    """Run all steps.  Raise a Failure if the VM does not belong to the other host afterwards."""
    try:
        signals.heed_signals()
        run_steps(move)
    except Interrupted as error:
        # The signal came between two steps, or just before a failure was dealt with.  No other one can come now.
        turn_back(move, error)


def run_steps(move):
    for step in move.steps:
        move.begun += 1
        try:
            messages.print_progress(move.settings, f"[{move.begun}/{len(move.steps)}] {step.title}")
            step.perform_timed()
        except Interrupted:
            raise
        except Exception as error:  # pylint: disable=broad-exception-caught
            if move.begun <= move.undoable:
                turn_back(move, failure_of(step, error))
            move.to_do_by_hand.append(step.by_hand)
        if move.begun == move.undoable:
            # From here on there is no way back, and little is left to do.
            signals.ignore_signals()
            move.owner = "there"


def turn_back(move, error):
    """Undo all that was begun, and raise a Failure that says how it ended."""
    signals.ignore_signals()
    if isinstance(error, Interrupted):
        error = Failure(f"moving {move.vm} was interrupted", "a signal came")
    if isinstance(error, Unknown):
        move.owner = "unknown"
        raise error
    messages.print_progress(move.settings, error.in_one_line())
    try:
        for step in reversed(move.steps[:move.begun]):
            undo_step(move, step)
    except Unknown:
        move.owner = "unknown"
        raise
    raise describe_end(move, error)


def undo_step(move, step):
    if step.undo is None:
        return
    messages.print_progress(move.settings, f"undo: {step.title}")
    try:
        step.undo()
    except Unknown:
        raise
    except Exception as error:      # pylint: disable=broad-exception-caught
        messages.print_progress(move.settings, failure_of(step, error).in_one_line())
        move.to_do_by_hand.append(step.by_hand)
        if step.moves_running_vm and find_running_host(move) is move.there:
            give_devices_there(move, step)


def give_devices_there(move, migration):
    """The VM cannot come back from the other host.  So it gets its devices there.  migration: the step that moved it"""
    move.owner = "there"
    move.to_do_by_hand.clear()
    for step in move.steps[move.steps.index(migration) + 1:move.undoable]:
        messages.print_progress(move.settings, f"again: {step.title}")
        try:
            step.perform()
        except Exception as error:  # pylint: disable=broad-exception-caught
            move.to_do_by_hand.append(step.by_hand)
            messages.print_progress(move.settings, failure_of(step, error).in_one_line())
    state = "with its devices" if not move.to_do_by_hand else "without all of its devices"
    raise Failure(f"{move.vm} runs on {move.there}, {state}", "it could not be brought back",
                  "; ".join([*move.to_do_by_hand, f"then here: {move.undefine}"]))


def describe_end(move, error):
    """The Failure for people, after the undoing: the error, the state of the VM, and what is left to do by hand."""
    state = domain_state(move.here, move.uuid)
    where = f"{move.vm} is {state} here{', as before' if (state == 'running') == move.was_running else ''}"
    todo = [error.todo] if error.todo else []
    if move.may_happen_yet:
        where += f"; {move.may_happen_yet}"
    if move.to_do_by_hand:
        todo.append("What could not be undone, by hand: " + "; ".join(reversed(move.to_do_by_hand)))
    return Failure(error.what, f"{error.why}{'; ' if error.why else ''}{where}", " ".join(todo), error.code)
