# SPDX-License-Identifier: GPL-2.0-only
"""Which steps a move has, and in which order (docs/migration.md)."""
from . import device_steps, precopy, vm_steps


def plan_move(move):
    """Fill in move.steps."""
    move.steps = [device_steps.step_define_mdev(move, mdev) for mdev in move.mdevs
                  if not mdev.is_chosen and mdev.parent not in move.there.known["mdevs"][mdev.uuid]["definitions"]]
    move.steps += plan_live(move) if move.args.live else plan_cold(move)
    move.undoable = len(move.steps)
    move.steps += plan_tidying(move)


def plan_cold(move):
    """The VM is shut down here and started there."""
    steps = [vm_steps.step_write_note(move), vm_steps.step_define_domain(move)]
    if move.was_running:
        steps.append(vm_steps.step_shut_down(move))
    steps += [device_steps.step_stop_mdev(move, mdev) for mdev in move.mdevs]
    steps += [device_steps.step_wait_until_free(move, mdev) for mdev in move.mdevs
              if move.args.start or not mdev.is_chosen]
    if move.args.start:
        steps += [device_steps.step_start_mdev(move, mdev) for mdev in move.mdevs]
        steps.append(vm_steps.step_start_domain(move))
    return steps


def plan_live(move):
    """The VM runs on.  It is without those of its lent devices that do not stay for a while."""
    staying, going = move.staying, move.going
    # First what a lender may refuse
    steps = [precopy.step_name_target(move, mdev) for mdev in staying]
    steps += [precopy.step_wait_until_offered(move, mdev) for mdev in staying]
    steps += [device_steps.step_start_mdev(move, mdev) for mdev in staying]
    steps += [device_steps.step_detach_device(move, mdev) for mdev in going if mdev.element is not None]
    steps += [device_steps.step_stop_mdev(move, mdev) for mdev in going]
    steps += [device_steps.step_wait_until_free(move, mdev) for mdev in going]
    if staying:
        # No step brings back a VM with devices that stay: what comes later is not undone.
        return [*steps, precopy.step_migrate_keeping(move)]
    return [*steps, vm_steps.step_migrate_live(move), *plan_arrival(move)]


def plan_arrival(move):
    """The VM gets back what did not stay."""
    steps = []
    for mdev in move.going:
        steps.append(device_steps.step_start_mdev(move, mdev))
        if mdev.element is not None:
            steps.append(device_steps.step_attach_device(move, mdev))
    return steps


def plan_tidying(move):
    """The VM runs there now, or belongs there.  Nothing of it stays here."""
    steps = plan_arrival(move) if move.staying else []
    if move.here.known["domain"]["autostart"]:
        steps.append(vm_steps.step_start_at_boot(move))
    steps.append(vm_steps.step_undefine_domain(move))
    steps += [precopy.step_stop_mdev_left(move, mdev) for mdev in move.staying]
    steps += [device_steps.step_undefine_mdev(move, mdev) for mdev in move.mdevs if mdev.is_defined]
    if not move.args.live:
        steps.append(vm_steps.step_remove_note(move))
    return steps
