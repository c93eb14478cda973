# SPDX-License-Identifier: GPL-2.0-only
"""The steps that let devices stay where they are while their VM moves.  Each function makes a Step, and does nothing else.

Who has a device is decided by its lender (docs/migration.md).  These steps say to which node it may go, and ready a
mediated device there; all else is between the VMMs, the modules, and the lender.
"""
from remote.hosts import reason_of
from remote.messages import IN_USE, NOT_READY, Failure
from remote.waits import wait_until

from . import mdevs
from .blackout import is_cut
from .precopy import Precopy
from .steps import Step

# What the module answers, as the shell tells it (docs/ABI/sysfs-bus-mdev-dlend)
REFUSED = (("not supported", "it never becomes quiet, or the VM uses iommufd",
            "--cut moves a network or sound device, and loses what is under way; a USB controller only if the lender's "
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
        return Failure(f"{there} may not have {mdev.parent}", "its lender has not said so there",
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
