# SPDX-License-Identifier: GPL-2.0-only
"""dlend migrate --prepare: changes the definition of a VM so that its lent devices can stay while it moves."""
import sys

from remote import messages
from remote.hosts import Host
from remote.messages import NOT_FOUND, Failure

from .domain import host_devices, name_for_shell
from .keeping import NEEDED, devices_not_kept, keep_devices
from .probe import no_such_vm, probe_host


def prepare_vm(settings, args):
    here = Host(settings, "this host")
    domain = probe_host(here, args.vm)["domain"]
    if not domain:
        raise no_such_vm(args.vm)
    name = name_for_shell(domain["name"], domain["uuid"])
    uuids = list(dict(host_devices(domain["xml"])[0]))
    if not uuids:
        raise Failure(f"{domain['name']} has no lent device", "its definition names no mediated device",
                      "dlend libvirt-xml prints what a definition needs.", NOT_FOUND)
    missing = devices_not_kept(domain["xml"], uuids, NEEDED)
    if missing and not args.dry_run:
        here.run_checked(["virsh", "define", "/dev/stdin"], keep_devices(domain["xml"], missing))
    restart = domain["state"] != "shut off" and bool(devices_not_kept(domain["live"] or domain["xml"], uuids, NEEDED))
    if args.json:
        messages.print_json({"vm": domain["name"], "prepared": missing, "restart": restart, "dry_run": args.dry_run})
        return
    devices, done = ("1 device", "is") if len(missing) == 1 else (f"{len(missing)} devices", "are")
    said = f"{devices} of {domain['name']} {'would be' if args.dry_run else done} prepared" if missing else \
        f"{domain['name']} is prepared already"
    if restart:
        said += f"; it takes effect when the VM is started next: virsh shutdown {name}, then virsh start {name}"
    messages.print_line(said, sys.stdout)
