# SPDX-License-Identifier: GPL-2.0-only
"""dlend migrate --finish: on the target, start what another host was moving there and cannot move any more.

Nothing is started that somebody else may have.  Of devices, the lender says who has them.  Of the VM, the host in the
note says whether it runs there, and lets go of it (release.py).  A host that cannot be asked may run it: then only
people can tell, and --force says that they have looked.
"""
import sys

from remote import messages, signals
from remote.hosts import Host, host_by_ssh
from remote.messages import IN_USE, NOT_FOUND, Failure
from remote.waits import wait_until

from . import mdevs
from .domain import chosen_types, host_devices, name_for_shell, start_words, undefine_by_hand
from .note import find_note, lock_vm
from .probe import find_domain_uuid, probe_host, probe_mdev, probe_names
from .release import Unproven, ask_to_release
from .steps import Step, steps_for_json


class Finish:
    """One VM, whose move to this host is finished here."""

    def __init__(self, args, here, note):
        self.args, self.here, self.note = args, here, note
        self.domain = here.known["domain"]
        self.vm, self.shell_name = self.domain["name"], name_for_shell(self.domain["name"], self.domain["uuid"])
        self.origin = note.origin if note else "the other host"
        self.uuids = list(dict(host_devices(self.domain["xml"])[0]))
        self.types = chosen_types(self.domain["xml"])
        self.steps = []

    def run(self):
        here = self.here
        here.known["mdevs"] = {uuid: probe_mdev(here, uuid) for uuid in self.uuids}
        if self.domain["state"] != "running":
            self.plan([self.make_free_mdev(uuid) for uuid in self.uuids if not self.is_to_be_chosen(uuid)])
        # Once the other host has let go of the VM, there is no way back.
        signals.ignore_signals()
        for step in self.steps:
            messages.print_progress(here.settings, step.title)
            step.perform_timed()
        if self.note:
            self.note.path.unlink(missing_ok=True)

    def plan(self, devices):
        """devices: the Mdevs of the VM"""
        here = self.here
        self.steps.append(Step(f"ask {self.origin} to let {self.vm} go", self.take_over))
        self.steps += [Step(f"start {mdev.uuid}", lambda mdev=mdev: mdevs.start_mdev(here, mdev, self.vm))
                       for mdev in devices]
        self.steps.append(Step(f"start {self.vm}", lambda: here.run_checked(start_words(self.domain["uuid"]), timeout=None)))

    def take_over(self):
        """From here on no other host can start the VM, as far as one can know."""
        try:
            if not self.note:
                raise Unproven(f"no move of {self.vm} to this host is known", "there is no note of it, which a reboot of this "
                               "host removes", "Look for it: virsh list --all", NOT_FOUND)
            ask_to_release(host_by_ssh(self.here.settings, self.note.origin), self.note, self.vm)
            self.note.release()
        except Unproven as failure:
            if self.is_released():
                return
            if not self.args.force:
                failure.todo += (f" If {self.vm} runs on no other host (one that is gone must be without power), and none "
                                 f"will start it: dlend migrate --finish --force {self.shell_name}")
                raise
            messages.print_progress(self.here.settings, f"{failure.in_one_line()}; --force: it is started all the same")

    def is_to_be_chosen(self, uuid):
        """Whether libvirt's hook chooses the device as the VM starts."""
        known = self.here.known["mdevs"][uuid]
        return uuid in self.types and not known["definitions"] and not known["active"]

    def make_free_mdev(self, uuid):
        """The Mdev of this UUID, as soon as its lent device is free for this host."""
        known = self.here.known["mdevs"][uuid]
        parents = [known["parent"]] if known["active"] else known["definitions"]
        parents = [parent for parent in parents if mdevs.ADDRESS.fullmatch(parent)]
        if len(parents) != 1:
            raise Failure(f"{uuid} is not defined here", f"{self.origin} has not come so far", f"Start {self.vm} there.",
                          NOT_FOUND)
        offer = {"state": "", "borrower": "0"}

        def is_free():
            offer.update(mdevs.read_offer(self.here, parents[0]) or {"state": ""})
            return mdevs.is_free_for(offer, uuid)

        def not_free():
            why = {"held": f"node {offer['borrower']} has it", "": "no node offers it here",
                   "gone": "the link to its lender is down"}.get(offer["state"], f"it is {offer['state']}")
            return Failure(f"{self.vm} cannot be started here: it needs {parents[0]}", why, f"If {self.origin} still runs "
                           "it, leave it there; else on the lender: dlend status, dlend reclaim", IN_USE)
        # It takes a lender a while to notice that a borrower has died.
        wait_until(self.here.settings, f"{parents[0]} to be free", self.args.wait, is_free, not_free)
        return mdevs.Mdev(uuid, parents[0], None, True)

    def is_released(self):
        """Whether the other host has let go of the VM, now or as an earlier --finish asked it."""
        return self.note is not None and self.note.is_released

    def left_there(self):
        """What people have to do on the other host, or ""."""
        words = [] if self.is_released() else [undefine_by_hand(self.domain)]
        words += [f"mdevctl undefine -u {uuid}" for uuid in self.uuids if uuid not in self.types]
        return f"On {self.origin}, when it answers: {'; '.join(words)}" if words else ""


def finish_move(settings, args):
    here, note = Host(settings, "this host"), find_note(settings, args.vm)
    uuid = find_domain_uuid(here, note.uuid if note else args.vm, probe_names(here))
    if not uuid:
        raise Failure(f"{args.vm} is not defined here", f"{note.origin if note else 'the other host'} has not come so far",
                      "Start it there.", NOT_FOUND)
    with lock_vm(settings, uuid):
        probe_host(here, uuid)
        finish = Finish(args, here, find_note(settings, uuid))
        try:
            signals.heed_signals()
            finish.run()
        except signals.Interrupted:
            raise Failure(f"finishing the move of {finish.vm} was interrupted", "a signal came; nothing was changed") from None
    todo = finish.left_there()
    if args.json:
        messages.print_json(steps_for_json(finish.steps, vm=finish.vm, owner="here", todo=todo))
    else:
        messages.print_line(f"{finish.vm} runs here. {todo}".rstrip(), sys.stdout)
