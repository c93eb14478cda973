# SPDX-License-Identifier: GPL-2.0-only
"""What is checked before anything is changed.  Each check raises a Failure if the VM cannot be moved."""
from remote.messages import IN_USE, NOT_FOUND, NOT_READY, USAGE, Failure

from .blackout import CUT, NEVER, TRIED, choose_copy, kind_of
from .domain import chosen_types, has_iommu, host_devices, memory_bytes, name_for_shell, pooled_macs, tpm_kinds
from .files import MISSING, NOT_SHOWN, files_of, look_at, volumes_of, why_not_same
from .keeping import devices_not_kept
from .mdevs import ADDRESS, Mdev
from .probe import bits_per_s, no_such_vm, probe_host, probe_mdev

TPM_STATE = "/var/lib/libvirt/swtpm"


def examine_both_hosts(move, vm):
    """Ask both hosts, check what they say, and fill in the move.  vm: as virsh takes it"""
    domain = probe_host(move.here, vm)["domain"]
    if domain:
        move.vm, move.uuid = domain["name"], domain["uuid"]
        move.shell_name = name_for_shell(move.vm, move.uuid)
    check_vm(move, domain)
    attached = find_lent_devices(move, domain["live"], pooled_macs(domain["xml"])) if move.was_running else {}
    known = {uuid: probe_mdev(move.here, uuid) for uuid in {**find_lent_devices(move, domain["xml"]), **attached}}
    if known and has_iommu(domain["xml"]):
        raise Failure(f"{move.vm} cannot be moved", "it has a virtual IOMMU, and lent devices cannot be used behind one",
                      f"Take <iommu> out of its definition: virsh edit {move.shell_name}", IN_USE)
    types = {uuid: kind for uuid, kind in chosen_types(domain["xml"]).items() if not known[uuid]["definitions"]}
    move.here.known["mdevs"] = known
    # For a VM that does not run, the target chooses.
    uuids = [uuid for uuid in known if uuid not in types or known[uuid]["active"]]
    files = files_of(domain["xml"], move.args.live)
    probe_host(move.there, move.uuid, uuids, files)
    check_target(move)
    check_files(move, files, volumes_of(domain["xml"]))
    check_hook(move, types)
    if "emulator" in tpm_kinds(domain["xml"]):
        check_tpm_is_kept(move)
    move.mdevs = [make_mdev(move, uuid) for uuid in uuids]
    for mdev in move.mdevs:
        mdev.is_chosen = mdev.uuid in types
        mdev.element = attached.get(mdev.uuid)
        check_offer(move, mdev)
    if move.args.live and not move.args.detach_all:
        choose_what_stays(move, domain["live"])


def find_lent_devices(move, xml, pooled=()):
    """{uuid: element} of the VM's mediated devices.  It must have no other device of this host."""
    mediated, others = host_devices(xml, pooled)
    if others:
        raise Failure(f"{move.vm} cannot be moved", f"it has a {others[0]} that is part of this host",
                      "virsh detach-device --config takes it out of the definition.", IN_USE)
    return dict(mediated)


def check_vm(move, domain):
    """Whether there is such a VM, and whether its state allows a move."""
    what, name = f"{move.vm} cannot be moved", move.shell_name
    if not domain:
        raise no_such_vm(move.vm)
    if not domain["persistent"]:
        raise Failure(what, "it is transient: it has no definition to move",
                      f"virsh dumpxml {name} >vm.xml; virsh define vm.xml")
    move.was_running = domain["state"] == "running"
    if not move.was_running and domain["state"] != "shut off":
        raise Failure(what, f"it is {domain['state']}", f"Let it run (virsh resume {name}), or shut it down.", IN_USE)
    if domain["saved"]:
        raise Failure(what, "its state is saved on this host (virsh managedsave)",
                      f"virsh start {name}, then try again; or virsh managedsave-remove {name}", IN_USE)
    if move.args.live and not move.was_running:
        raise Failure(f"{move.vm} cannot be moved live", "it is shut off", "Leave out --live.")
    check_tpm(move, domain)


def check_tpm(move, domain):
    """The TPM may hold the key to the guest's disk.  Without its state the guest may never start again."""
    what = f"{move.vm} cannot be moved"
    kinds = tpm_kinds(domain["xml"])
    if "passthrough" in kinds:
        raise Failure(what, "its TPM is this host's own (passthrough)", "Give it an emulated one, after whatever the "
                      f"guest has sealed with it: virsh edit {move.shell_name}", IN_USE)
    if "external" in kinds and not move.args.shared_tpm:
        raise Failure(what, "another program runs its TPM on this host (external)",
                      f"If the same TPM answers at the same path on {move.there}: --shared-tpm", IN_USE)
    if "emulator" in kinds and not move.args.live and not move.args.shared_tpm:
        raise Failure(what, "it has an emulated TPM, whose state only --live brings along",
                      f"If {move.there} has {TPM_STATE}/{domain['uuid']} from shared storage: --shared-tpm. "
                      "Else shut the VM down, copy that directory there, and then --shared-tpm.", IN_USE)


def check_tpm_is_kept(move):
    """Each host may have to undefine the VM: after the move, or if that fails."""
    for host in (move.here, move.there):
        if not host.known.get("keeps_tpm"):
            raise Failure(f"{move.vm} cannot be moved", f"libvirt of {host} would remove the state of its TPM as it undefines "
                          "it", "Update libvirt there, to 8.9 at least (virsh undefine --keep-tpm).", NOT_READY)


def check_target(move):
    """Whether the target is another host, and has no other VM of that name, and does not run this one."""
    here, there = move.here.known, move.there.known
    if there["machine"] and there["machine"] == here["machine"] or there["node"] and there["node"] == here["node"]:
        raise Failure(f"{move.there} is this host", f"both are node {there['node'] or 'unknown'}", "", USAGE)
    what = f"{move.there} has a VM {move.vm} already"
    same = there["domain"]
    if same and same["state"] != "shut off":
        raise Failure(what, f"it is {same['state']}", f"Look at it there: virsh dominfo {move.shell_name}", IN_USE)
    others = [uuid for uuid, name in there["names"].items() if name == move.vm and uuid != move.uuid]
    if others:
        raise Failure(what, "it is another one", f"Look at it there: virsh dominfo {others[0]}", IN_USE)


def check_files(move, files, volumes):
    """A VM that starts on what only has the same name would write to it.  files, volumes: see files_of(), volumes_of()"""
    found = [(kind, path, why_not_same(look_at(move.settings, path), move.there.known["files"][path], kind)) for path, kind in files.items()]
    found += [("disk", volume, NOT_SHOWN) for volume in volumes]
    copied = any(option.startswith("--copy-storage") for option in move.args.extra)
    for kind, path, why in found:
        if not why or kind == "disk" and copied or move.args.shared_disks and why != MISSING:
            continue
        raise Failure(f"{move.vm} cannot be moved", f"{move.there} may not have its {kind} {path}: {why}",
                      "Put it on storage that both hosts share. If HOST has the same disk or file at the same path, or you have copied it "
                      "there while the VM was shut off: --shared-disks", IN_USE)


def check_hook(move, types):
    """types: {UUID: type} of the devices that libvirt's hook chooses"""
    if types and not move.there.known["hook"]:
        raise Failure(f"{move.vm} cannot be moved", f"it asks for any {min(types.values())}, and {move.there} cannot "
                      "choose one: libvirt's hook is off there", "There: set libvirt-hook=on in /etc/dlend.conf", NOT_READY)


def make_mdev(move, uuid):
    """The Mdev of this UUID, from what both hosts know of it."""
    known = move.here.known["mdevs"][uuid]
    parents = [known["parent"]] if known["active"] else sorted(known["definitions"])
    parents = [parent for parent in parents if ADDRESS.fullmatch(parent)]
    if len(parents) != 1:
        why = "several devices have a definition with that UUID" if parents else \
            "mdevctl has no definition of it on a lent device"
        raise Failure(f"{move.vm} uses {uuid}, which cannot be moved", why, "mdevctl list -d", NOT_FOUND)
    definition = known["definitions"].get(parents[0]) or known["running"]
    if not definition:
        raise Failure(f"the definition of {uuid} cannot be read", "", f"mdevctl list -d -u {uuid} --dumpjson")
    mdev = Mdev(uuid, parents[0], definition, parents[0] in known["definitions"])
    mdev.was_active = known["active"]
    check_mdev_of_target(move, mdev)
    return mdev


def check_mdev_of_target(move, mdev):
    """If the target knows the mediated device already, it must be the same there."""
    known = move.there.known["mdevs"][mdev.uuid]
    other = [parent for parent, definition in known["definitions"].items()
             if parent != mdev.parent or definition != mdev.definition]
    if other or known["active"] and known["parent"] != mdev.parent:
        raise Failure(f"{move.there} has another definition of {mdev.uuid}", f"on {(other or [known['parent']])[0]}",
                      f"There: mdevctl stop -u {mdev.uuid}; mdevctl undefine -u {mdev.uuid}", IN_USE)


def choose_what_stays(move, live):
    """Say of each device of the running VM whether it stays as it is.  Fill in what that will cost."""
    missing = devices_not_kept(live, [mdev.uuid for mdev in move.mdevs])
    for mdev in move.mdevs:
        why = why_not_to_stay(move, mdev, missing)
        if why and not move.args.detach:
            raise why
        mdev.stays = not why
    if move.staying:
        move.copy = choose_copy(memory_bytes(live), move.here.known["free"], bits_per_s(move), move.args.copy)


def why_not_to_stay(move, mdev, missing):
    """The Failure that says why a device cannot stay; None if it can.  missing: UUIDs that were not prepared"""
    what, kind = f"{move.vm} cannot be moved with {mdev.parent} ({mdev.type_name}) as it is", kind_of(mdev.type_name)
    if mdev.element is None:
        return Failure(what, f"the running VM does not have {mdev.uuid}, its definition does",
                       f"virsh detach-device {move.shell_name} FILE --config takes it out; or add --detach", IN_USE)
    if kind == NEVER:
        return Failure(what, "it never becomes quiet, and its driver does not survive a loss",
                       "Add --detach, or move it without --live.", IN_USE)
    if kind == CUT and not move.args.cut:
        return Failure(what, "it never becomes quiet", "Add --cut, if transfers of that moment may be lost (network "
                       "drivers recover from that, a sound may end); or add --detach", IN_USE)
    if kind == TRIED and not move.args.cut:
        return Failure(what, "it never becomes quiet", "Add --detach; or add --cut, if the lender's administrator has tested "
                       "and allowed this model (dlend_lender.cut_models on the lender, docs/migration.md)", IN_USE)
    if mdev.uuid in missing:
        return Failure(what, "the VM was started without what QEMU needs for that", f"dlend migrate --prepare "
                       f"{move.shell_name}, and start it anew; or add --detach", IN_USE)
    if not move.here.known["mdevs"][mdev.uuid]["can_stay"]:
        return Failure(what, "the modules of this host do not know how", "Update dlend on this host, and load its modules "
                       "again; or add --detach", NOT_READY)
    return None


def check_offer(move, mdev):
    """Whether the target can have the lent device as soon as this host has let it go."""
    what = f"{move.there} cannot have {mdev.parent}"
    offer = move.there.known["offers"].get(mdev.parent)
    if not offer:
        raise Failure(what, "its lender has no link to that host, or does not offer it any more",
                      "`dlend links` there, `dlend list` on the lender.", NOT_READY)
    if offer["link"] == "down" or offer["state"] == "gone":
        raise Failure(what, f"its link to the lender, node {offer['lender']}, is down", "`dlend links` there.",
                      NOT_READY)
    if offer["state"] == "held" and offer["borrower"] == move.here.known["node"]:
        # Several VMs may name it.  One of them has it.
        if mdev.element is None:
            raise Failure(what, f"another VM of this host has it, {move.vm} does not",
                          f"virsh list; virsh dumpxml shows which VM has {mdev.uuid}: shut that one down.", IN_USE)
    elif offer["state"] in ("held", "quarantined"):
        why = f"node {offer['borrower']} has it" if offer["state"] == "held" else "its reset has failed"
        raise Failure(what, why, "On its lender: dlend status, dlend reclaim", IN_USE)
