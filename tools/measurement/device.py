# SPDX-License-Identifier: GPL-2.0-only
"""A PCI device of one host, in sysfs, whatever it is."""
from remote.messages import IN_USE, NOT_FOUND, Failure
from remote.waits import wait_until

WAIT_S = 60     # for the driver


def directory_of(host, bdf):
    return str(host.settings.root / "sys/bus/pci/devices" / bdf)


def check_own(host, bdf, device):
    """device: as it was found there, with the name of its driver; None if the host has no such one.  Raises a Failure if it
    is not the host's own."""
    if device is None:
        raise Failure(f"{host} has no device {bdf}", "", f"{host.prefix()}lspci -D", NOT_FOUND)
    if device.driver == "dlend-lender":
        raise Failure(f"{bdf} on {host} is lent already", "", f"{host.prefix()}dlend reclaim {bdf}", IN_USE)


def await_ready(host, bdf, look_at):
    """What look_at(host, bdf) finds, as soon as the driver has it ready."""
    found = []

    def is_ready():
        found[:] = [look_at(host, bdf)]
        return found[0] is not None and found[0].ready

    wait_until(host.settings, f"{bdf} on {host}", WAIT_S, is_ready,
               lambda: Failure(f"{bdf} on {host} is not ready after {WAIT_S} s", "no driver made a disk or an interface of it",
                               f"{host.prefix()}dmesg | tail"))
    return found[0]


class ReadyByDriver:
    """Part of a subject that waits for the driver on both hosts alike.  look_at(host, bdf): what is there, or None"""
    look_at = None

    def await_attached(self, host, bdf):
        return await_ready(host, bdf, type(self).look_at)

    await_home = await_attached
