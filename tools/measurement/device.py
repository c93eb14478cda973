# SPDX-License-Identifier: GPL-2.0-only
"""A PCI device of one host, in sysfs, whatever it is; and how it is lent, attached to another one, and given back."""
from remote.hosts import ask_dlend
from remote.messages import IN_USE, NOT_FOUND, Failure
from remote.waits import wait_until

WAIT_S = 60     # for the driver; for the offer to come, or to be free


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


class Loan:
    """begun: (host, dlend's words) that undo what was begun, the last one first"""

    def __init__(self, bench):
        self.lender, self.borrower, self.bdf, self.subject = bench.lender, bench.borrower, bench.bdf, bench.subject
        self.begun = []
        self.address = ""

    def begin(self):
        """Return the device on the borrower, and how its interrupts come."""
        self.begun.append((self.lender, ["reclaim", self.bdf]))
        self.address = ask_dlend(self.lender, "lend", self.bdf)["lent"][0]["address"]
        wait_until(self.lender.settings, f"{self.address} on {self.borrower}", WAIT_S, self.is_free,
                   lambda: Failure(f"{self.address} is not offered to {self.borrower}", f"no free offer after {WAIT_S} s",
                                   f"{self.borrower.prefix()}dlend links"))
        self.begun.append((self.borrower, ["detach", self.address]))
        device = ask_dlend(self.borrower, "attach", self.address)["attached"][0]["device"]
        found = self.subject.await_attached(self.borrower, device)
        path = self.borrower.settings.root / "sys/bus/dlend/devices" / self.address / "interrupts"
        return found, self.borrower.run_checked(["cat", str(path)]).strip()

    def is_free(self):
        offers = ask_dlend(self.borrower, "list")["offers"]
        return any(offer["address"] == self.address and offer["state"] == "free" for offer in offers)

    def end(self):
        """Give it back, as far as it has come.  Return the device on the lender."""
        while self.begun:
            host, words = self.begun[-1]
            try:
                ask_dlend(host, *words)
            except Failure as failure:
                if failure.code != NOT_FOUND:       # it was not done, or is undone
                    raise
            self.begun.pop()
        return self.subject.await_home(self.lender, self.bdf)

    def by_hand(self):
        """What people type if end() has failed."""
        return "; ".join(f"{host.prefix()}dlend {' '.join(words)}" for host, words in reversed(self.begun))
