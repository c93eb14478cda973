# SPDX-License-Identifier: GPL-2.0-only
"""The state of a move."""
from .blackout import blackout_seconds
from .hosts import SSH, Host


class Move:
    """What is moved, from which host to which, by which steps, and how far that has come."""

    def __init__(self, settings, args):
        self.settings = settings
        self.args = args
        self.vm = args.vm           # for people: its name, as soon as that is known
        self.uuid = ""              # for virsh
        self.shell_name = args.vm   # for commands that people are told to type
        self.here = Host(settings, "this host")
        control_path = f"ControlPath={settings.make_run_directory()}/ssh-%C"
        self.there = Host(settings, args.host, [*SSH, "-o", control_path, "--", args.host])
        self.uri = args.uri or f"qemu+ssh://{args.host}/system"
        self.mdevs = []
        self.was_running = False    # the VM, as the move began
        self.copy = None            # how memory is copied, a Copy; None if no device stays
        self.ram = self.drains = 0  # bytes of the VM's memory; how many devices have commands to end
        self.stood_still = None     # seconds, as libvirt has measured it
        self.steps = []
        self.undoable = 0           # so many of the first steps are undone if one of them fails
        self.begun = 0              # so many steps have begun
        self.owner = "here"         # who has the VM: "here", "there" or "unknown"
        self.to_do_by_hand = []     # for what could not be undone or tidied up
        self.may_happen_yet = ""    # what the guest was asked for and may still do

    @property
    def blackout(self):
        """How long the VM will stand still at least, in seconds; None if nobody knows."""
        return blackout_seconds(self.copy, self.drains)
