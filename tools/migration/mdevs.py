# SPDX-License-Identifier: GPL-2.0-only
"""The mediated devices by which VMs use lent devices, on one host."""
import json
import re
import shlex

from remote.hosts import reason_of
from remote.messages import IN_USE, NOT_READY, Failure
from remote.waits import wait_until

ADDRESS = re.compile(r"d[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")    # of a lent device
STOP_S = 10             # for a mediated device that QEMU is about to close


class Mdev:
    """One mediated device of the VM.

    parent: address of the lent device; definition: as mdevctl has it; is_defined: whether it is defined here;
    is_chosen: libvirt's hook has chosen the device as the VM started, so no host defines it
    """

    def __init__(self, uuid, parent, definition, is_defined):
        self.uuid, self.parent, self.definition, self.is_defined = uuid, parent, definition, is_defined
        self.element = None     # of the running VM's XML; None if the running VM does not have the device
        self.is_chosen = False
        self.was_active = False
        self.stays = False      # as it is, while the VM moves
        self.type_name = (definition or {}).get("mdev_type", "")


def is_mdev_active(host, uuid):
    return host.has_file(f"sys/bus/mdev/devices/{uuid}")


def read_offer(host, address):
    """The offer of a lent device as a host sees it; {} if there is none.  If the host does not answer, a Failure."""
    where = host.settings.root / f"sys/bus/dlend/devices/{address}"
    result = host.run(["cat", str(where / "state"), str(where / "borrower"), str(where / "reserved")])
    if result.returncode not in (0, 1):
        raise Failure(f"{host} does not answer", reason_of(result), "", NOT_READY)
    words = result.stdout.split()
    # "reserved", for which VM, is not there if the modules are older.
    return dict(zip(("state", "borrower", "reserved"), words)) if len(words) >= 2 else {}


def is_free_for(offer, uuid):
    """Whether this mediated device can have what read_offer() has found: it may be reserved for its VM."""
    return offer.get("state") == "free" or (offer.get("state"), offer.get("reserved")) == ("reserved", uuid)


def instances_left(host, mdev):
    """How many mediated devices can be made of the lent device on that host now: 1 or 0."""
    where = f"sys/class/mdev_bus/{mdev.parent}/mdev_supported_types/{mdev.type_name}/available_instances"
    words = host.run(["cat", str(host.settings.root / where)]).stdout.split()
    return int(words[0]) if words and words[0].isdigit() else 0


def target_path(uuid):
    """Of the attribute that says to which node the device may go while its VM moves."""
    return f"sys/bus/mdev/devices/{uuid}/dlend/move_to"


def write_target(host, uuid, words):
    """Write that attribute.  Return the CompletedProcess."""
    return host.run(["sh", "-c", 'printf "%s\\n" "$2" >"$1"', "sh", str(host.settings.root / target_path(uuid)), words])


def kernel_lines(host, known):
    """What the host's kernel has said of these mediated devices.  known: the Mdevs"""
    return [line for line in host.run(["dmesg"]).stdout.splitlines() if any(mdev.uuid in line for mdev in known)]


def start_mdev(host, mdev, vm):
    """Start it, unless it is active.  vm: the VM's name, for libvirt's hook"""
    if not is_mdev_active(host, mdev.uuid):
        make_mdev(host, mdev, vm)


def make_mdev(host, mdev, vm):
    words = ["mdevctl", "start", "-u", mdev.uuid, "-p", mdev.parent]
    # One that is not defined there is started from what it was when it ran.
    is_defined = not mdev.is_chosen if host.ssh else mdev.is_defined
    stdin = "" if is_defined else json.dumps(mdev.definition)
    words += ["--jsonfile", "/dev/stdin"] if stdin else []
    result = host.run(words, stdin)
    # One that is defined with --auto is started by udev, too, as soon as its device is offered there.
    if result.returncode and not is_mdev_active(host, mdev.uuid):
        raise Failure(f"{shlex.join(words)} failed on {host}", reason_of(result))
    if host.known.get("hook"):
        script = 'mkdir -p "${1%/*}" && printf "%s\\n" "$2" >"$1"'
        host.run(["sh", "-c", script, "sh", str(host.settings.mark_path(mdev.uuid)), vm])


def stop_mdev(host, mdev):
    """Stop it.  libvirt's hook may be about to stop it, too, and QEMU may not have closed it yet: so try again."""
    results = []

    def try_to_stop():
        if not is_mdev_active(host, mdev.uuid):
            return True
        results.append(host.run(["mdevctl", "stop", "-u", mdev.uuid]))
        return not is_mdev_active(host, mdev.uuid)
    wait_until(host.settings, f"{mdev.uuid} to stop", STOP_S, try_to_stop,
               lambda: Failure(f"{mdev.uuid} cannot be stopped on {host}", reason_of(results[-1]),
                               f"mdevctl stop -u {mdev.uuid}"))
    host.run(["rm", "-f", str(host.settings.mark_path(mdev.uuid))])


def undefine_mdev(host, mdev):
    result = host.run(["mdevctl", "undefine", "-u", mdev.uuid, "-p", mdev.parent])
    if result.returncode and host.has_file(f"etc/mdevctl.d/{mdev.parent}/{mdev.uuid}"):
        raise Failure(f"{mdev.uuid} cannot be undefined on {host}", reason_of(result))


def wait_until_free(host, mdev, seconds):
    """Wait until the host sees the lent device as free.  Its lender tells the host, and resets the device before."""
    offer = {}

    def is_free():
        offer.clear()
        offer.update(read_offer(host, mdev.parent))
        return is_free_for(offer, mdev.uuid)

    def not_free():
        what = f"{mdev.parent} did not become free for {host}"
        state = offer.get("state") or "not offered any more"
        if state == "gone":
            return Failure(what, "the link to its lender is down there", f"{host.prefix()}dlend links", NOT_READY)
        why = f"node {offer['borrower']} still has it" if state == "held" else f"it is {state}"
        return Failure(what, why, "On its lender: dlend status; dlend reclaim takes it back.", IN_USE)
    wait_until(host.settings, f"{mdev.parent} to be free", seconds, is_free, not_free)
