# SPDX-License-Identifier: GPL-2.0-only
"""dlend migrate --finish: on the target, start what a host that has died was moving there.

Nothing is started that somebody else may have: what the lender says counts.  A note says that the other host has
let go of the VM.  Without a note only a device can tell, which the other host had to give back.
"""
import sys

from . import mdevs, messages
from .domain import UUID, host_devices, name_for_shell, undefine_by_hand
from .hosts import Host
from .messages import IN_USE, NOT_FOUND, Failure
from .probe import probe_host, probe_mdev
from .steps import Step, steps_for_json
from .waits import wait_until


def find_note(settings, vm):
    """The note that this VM is to start here: (path, host, UUID); (None, "the other host", "") if there is none.

    vm: its name, as `dlend status` tells it, or its UUID
    """
    for path in sorted((settings.root / "run/dlend").glob("moving-*")):
        uuid = path.name.removeprefix("moving-")
        name, host = [*path.read_text(encoding="utf-8", errors="replace").splitlines(), "", "?"][:2]
        if UUID.fullmatch(uuid) and vm in (name, uuid):
            return path, host, uuid
    return None, "the other host", ""


def finish_move(settings, args):
    _, origin, noted = find_note(settings, args.vm)
    here = Host(settings, "this host")
    domain = probe_host(here, noted or args.vm)["domain"]
    if not domain:
        raise Failure(f"{args.vm} is not defined here", f"{origin} has not come so far", "Start it there.", NOT_FOUND)
    note, origin, _ = find_note(settings, domain["uuid"])
    shell_name = name_for_shell(domain["name"], domain["uuid"])
    uuids = list(dict(host_devices(domain["xml"])[0]))
    here.known["mdevs"] = {uuid: probe_mdev(here, uuid) for uuid in uuids}
    steps = []
    if domain["state"] != "running":
        if not note and not uuids:
            raise Failure(f"no move of {domain['name']} to this host is known",
                          "there is no note of it, and it has no lent device",
                          f"If it runs nowhere else: virsh start {shell_name}", NOT_FOUND)
        steps = plan_finish(here, domain, [make_free_mdev(args, here, uuid, origin) for uuid in uuids])
    for step in steps:
        messages.print_progress(settings, step.title)
        step.perform_timed()
    if note:
        note.unlink(missing_ok=True)
    rest = "; ".join([undefine_by_hand(domain), *(f"mdevctl undefine -u {uuid}" for uuid in uuids)])
    todo = f"When {origin} is back, there: {rest}"
    if args.json:
        messages.print_json(steps_for_json(steps, vm=domain["name"], owner="here", todo=todo))
    else:
        messages.print_line(f"{domain['name']} runs here. {todo}", sys.stdout)


def plan_finish(here, domain, devices):
    """The steps.  devices: the Mdevs of the VM"""
    steps = [Step(f"start {mdev.uuid}", lambda mdev=mdev: mdevs.start_mdev(here, mdev, domain["name"]))
             for mdev in devices]
    steps.append(Step(f"start {domain['name']}", lambda: here.run_checked(["virsh", "start", "--", domain["uuid"]])))
    return steps


def make_free_mdev(args, here, uuid, origin):
    """The Mdev of this UUID, as soon as its lent device is free for this host.  origin: for people, the other host"""
    vm = here.known["domain"]["name"]
    parents = [parent for parent in here.known["mdevs"][uuid]["definitions"] if mdevs.ADDRESS.fullmatch(parent)]
    if len(parents) != 1:
        raise Failure(f"{uuid} is not defined here", f"{origin} has not come so far", f"Start {vm} there.",
                      NOT_FOUND)
    offer = {"state": "", "borrower": "0"}

    def is_free():
        offer.update(mdevs.read_offer(here, parents[0]) or {"state": ""})
        return offer["state"] == "free"

    def not_free():
        why = {"held": f"node {offer['borrower']} has it", "": "nobody offers it here",
               "gone": "the link to its lender is down"}.get(offer["state"], f"it is {offer['state']}")
        return Failure(f"{vm} cannot be started here: it needs {parents[0]}", why,
                       f"If {origin} still runs it, leave it there; else on the lender: dlend status, dlend reclaim",
                       IN_USE)
    # It takes a lender a while to notice that a borrower has died.
    wait_until(here.settings, f"{parents[0]} to be free", args.wait, is_free, not_free)
    return mdevs.Mdev(uuid, parents[0], None, True)
