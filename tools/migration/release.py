# SPDX-License-Identifier: GPL-2.0-only
"""A host lets go of a VM, so that the target of its move can start it: the rule that keeps a VM from running twice.

    migrate --release UUID MACHINE      on the host that had the VM; `dlend migrate --finish` calls it by ssh

A host that has no definition of a VM neither runs it nor starts it.  So the definition goes first, and it goes only if
the VM is shut off and nobody moves it.
"""
import json

from remote.hosts import Host, dlend_words, reason_of
from remote.messages import IN_USE, NOT_FOUND, NOT_READY, Failure, print_json

from .domain import domain_state, undefine_domain
from .note import lock_vm
from .probe import no_such_vm, probe_host, read_file


class Unproven(Failure):
    """Nobody can tell whether another host runs the VM, or will.  `--force` is for people who know."""


def release_vm(settings, args):
    """args.vm: UUID; args.host: machine-id of the host that is meant"""
    if read_file(settings, "etc/machine-id") != args.host:
        raise Failure("this is another host", "its machine-id is not the one in the note", "", NOT_FOUND)
    here = Host(settings, "this host")
    with lock_vm(settings, args.vm):
        domain = probe_host(here, args.vm)["domain"]
        if not domain:
            raise no_such_vm(args.vm)
        take_definition(here, domain)
    print_json({"released": args.vm})


def take_definition(host, domain):
    """Undefine a VM that is shut off.  If it is not, it keeps its definition, and that is a Failure."""
    def still_there(state):
        return Failure(f"{domain['name']} is not shut off on {host}", f"it is {state}", "Leave it there, or shut it down.", IN_USE)
    if domain["state"] != "shut off":
        raise still_there(domain["state"])
    undefine_domain(host, domain)
    # Somebody may have started it just before; then it has lost its definition, and runs.
    state = domain_state(host, domain["uuid"])
    if state != "none":
        host.run_checked(["virsh", "define", "/dev/stdin"], domain["xml"])
        raise still_there(state or "perhaps running")


def ask_to_release(host, note, name):
    """Have the other host let go of the VM.  Unless it says that it has done so, raise a Failure.  name: of the VM, for people"""
    result = host.run(dlend_words(host, "migrate", "--json", "--release", note.uuid, note.machine))
    try:
        said = json.loads(result.stdout)
        error = said.get("error", {})
        if not result.returncode and said["released"] == note.uuid:
            return
        reason = f"{error['what']}{': ' if error['why'] else ''}{error['why']}"
    except (ValueError, KeyError, AttributeError, TypeError):
        raise Unproven(f"{host} cannot be asked whether it runs {name}", reason_of(result),
                       f"`ssh {host} dlend status` has to work without a password.", NOT_READY) from None
    if error["code"] == NOT_FOUND:
        raise Unproven(f"another host may run {name}", f"{host} says: {reason}", "Look for it: virsh list --all", NOT_FOUND)
    raise Failure(f"{host} does not give {name} away", reason, f"There: {error['todo']}" if error["todo"] else "", IN_USE)
