# SPDX-License-Identifier: GPL-2.0-only
"""The steps that deal with one device of the VM.  Each function makes a Step, and does nothing else."""
import copy
import json

from lxml import etree

from remote.hosts import reason_of
from remote.messages import Failure
from remote.waits import wait_until

from . import mdevs
from .domain import is_mdev_attached
from .steps import Step


def step_define_mdev(move, mdev):
    there = move.there
    words = ["mdevctl", "define", "-u", mdev.uuid, "-p", mdev.parent, "--jsonfile", "/dev/stdin"]
    return Step(f"on {there}: define {mdev.uuid} on {mdev.parent}",
                lambda: there.run_checked(words, json.dumps(mdev.definition)),
                lambda: mdevs.undefine_mdev(there, mdev),
                f"on {there}: mdevctl undefine -u {mdev.uuid} -p {mdev.parent}")


def step_stop_mdev(move, mdev):
    here = move.here

    def start_again():
        if mdev.was_active and not mdevs.is_mdev_active(here, mdev.uuid):
            mdevs.wait_until_free(here, mdev, move.args.wait)
            mdevs.start_mdev(here, mdev, move.vm)
    return Step(f"stop {mdev.uuid}", lambda: mdevs.stop_mdev(here, mdev), start_again,
                f"mdevctl start -u {mdev.uuid} -p {mdev.parent}")


def step_wait_until_free(move, mdev):
    return Step(f"wait until {move.there} can have {mdev.parent}",
                lambda: mdevs.wait_until_free(move.there, mdev, move.args.wait))


def step_start_mdev(move, mdev):
    there = move.there
    # A mediated device that was active there before stays so.
    undo = None if there.known["mdevs"][mdev.uuid]["active"] else lambda: mdevs.stop_mdev(there, mdev)
    return Step(f"on {there}: start {mdev.uuid}", lambda: mdevs.start_mdev(there, mdev, move.vm), undo,
                f"on {there}: mdevctl stop -u {mdev.uuid}")


def step_undefine_mdev(move, mdev):
    return Step(f"undefine {mdev.uuid} here", lambda: mdevs.undefine_mdev(move.here, mdev), None,
                f"mdevctl undefine -u {mdev.uuid} -p {mdev.parent}")


def step_detach_device(move, mdev):
    xml = element_text(mdev)

    def attach_again():
        was_gone = is_mdev_attached(move.here, move.uuid, mdev.uuid) is False
        attach_device(move, move.here, mdev, xml)
        if was_gone:
            move.may_happen_yet = ""
    return Step(f"detach {mdev.uuid} from {move.vm}", lambda: detach_device(move, move.here, mdev, xml), attach_again,
                attach_by_hand(move, xml))


def step_attach_device(move, mdev):
    xml = element_text(mdev)

    def detach_again():
        if is_mdev_attached(move.there, move.uuid, mdev.uuid):
            detach_device(move, move.there, mdev, xml)
    return Step(f"on {move.there}: attach {mdev.uuid} to {move.vm}",
                lambda: attach_device(move, move.there, mdev, xml), detach_again,
                f"on {move.there}: {attach_by_hand(move, xml)}")


def element_text(mdev):
    element = copy.deepcopy(mdev.element)
    etree.cleanup_namespaces(element)
    return etree.tostring(element, encoding="unicode", with_tail=False)


def attach_by_hand(move, xml):
    return f"virsh attach-device {move.shell_name} FILE --live, with in FILE: {' '.join(xml.split())}"


def attach_device(move, host, mdev, xml):
    """Attach the device to the VM that runs on the host, unless the VM has it."""
    if is_mdev_attached(host, move.uuid, mdev.uuid):
        return
    result = host.run(["virsh", "attach-device", move.uuid, "/dev/stdin", "--live"], xml)
    if result.returncode and not is_mdev_attached(host, move.uuid, mdev.uuid):
        raise Failure(f"{mdev.uuid} cannot be attached to {move.vm} on {host}", reason_of(result))


def detach_device(move, host, mdev, xml):
    """Detach the device.  libvirt asks the guest.  When the guest has let go, the XML of the VM shows it."""
    result = host.run(["virsh", "detach-device", move.uuid, "/dev/stdin", "--live"], xml)
    # virsh may say that the time is over, and the guest may let go a moment later.
    was_asked = not result.returncode or "time" in reason_of(result)
    if was_asked:
        # Nobody can take back what the guest was asked for.
        move.may_happen_yet = (f"the guest was asked to release {mdev.uuid}, and may still do so: "
                               "virsh attach-device gives it back then")
    wait_until(move.settings, f"{move.vm} to let {mdev.uuid} go", move.args.timeout if was_asked else 0,
               lambda: is_mdev_attached(host, move.uuid, mdev.uuid) is False,
               lambda: Failure(f"{move.vm} does not let {mdev.uuid} go", reason_of(result) if result.returncode else
                               "its driver is busy, or its port cannot unplug",
                               "Unmount what is on it and try again, or move the VM without --live."))
    move.may_happen_yet = ""
