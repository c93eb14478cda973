# SPDX-License-Identifier: GPL-2.0-only
"""The state of a move."""
from remote.hosts import Host, host_by_ssh

from .blackout import is_cut
from .domain import undefine_by_hand


class Move:
    """What is moved, from which host to which, by which steps, and how far that has come."""

    def __init__(self, settings, args):
        self.settings = settings
        self.args = args
        self.vm = args.vm           # for people: its name, as soon as that is known
        self.uuid = ""              # for virsh
        self.shell_name = args.vm   # for commands that people are told to type
        self.here = Host(settings, "this host")
        self.there = host_by_ssh(settings, args.host)
        self.uri = args.uri or f"qemu+ssh://{args.host}/system"
        self.mdevs = []
        self.was_running = False    # the VM, as the move began
        self.copy = None            # how memory is copied, a Copy; None if no device stays
        self.stood_still = None     # seconds, as libvirt has measured it
        self.last_bytes = None      # sent since the VM was allowed to stop
        self.steps = []
        self.undoable = 0           # so many of the first steps are undone if one of them fails
        self.begun = 0              # so many steps have begun
        self.owner = "here"         # who has the VM: "here", "there" or "unknown"
        self.to_do_by_hand = []     # for what could not be undone or tidied up
        self.may_happen_yet = ""    # what the guest was asked for and may still do

    @property
    def undefine(self):
        """What people type to undefine the VM, on either host."""
        return undefine_by_hand(self.here.known["domain"])

    @property
    def staying(self):
        """The devices that stay as they are."""
        return [mdev for mdev in self.mdevs if mdev.stays]

    @property
    def drains(self):
        """How many of those have commands to end."""
        return sum(not is_cut(mdev.type_name) for mdev in self.staying)

    @property
    def going(self):
        """What is detached here and attached there, if the VM runs on."""
        return [mdev for mdev in self.mdevs if not mdev.stays]
