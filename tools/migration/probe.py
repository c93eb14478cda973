# SPDX-License-Identifier: GPL-2.0-only
"""What a host knows of a VM, its mediated devices and the lent devices.

On the other host, `dlend migrate --probe` prints that as JSON.
"""
import json
import re

from remote.hosts import cannot_be_asked, dlend_words, reason_of
from remote.messages import NOT_FOUND, NOT_READY, Failure

from .domain import parse_domain
from .files import look_at
from .mdevs import target_path


def read_file(settings, name):
    """The text of a file below the root; "" if it cannot be read."""
    try:
        return (settings.root / name).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def is_hook_on(settings):
    """Whether libvirt's hook is installed and turned on.  The last such line of dlend.conf(5) counts."""
    on = False
    for line in read_file(settings, "etc/dlend.conf").splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["set"] and len(words) == 2 and words[1].startswith("libvirt-hook="):
            on = words[1] == "libvirt-hook=on"
    return on and (settings.root / "etc/libvirt/hooks/qemu.d/dlend").exists()


def probe_offers(settings):
    """{address of each lent device that this host sees: its attributes}"""
    return {path.name: {name: read_file(settings, f"sys/bus/dlend/devices/{path.name}/{name}")
                        for name in ("state", "borrower", "lender", "link", "type")}
            for path in sorted((settings.root / "sys/bus/dlend/devices").glob("d*"))}


def probe_free_memory(settings):
    """Bytes of this host that programs could still have; 0 if that cannot be told."""
    words = re.search(r"^MemAvailable:\s+(\d+) kB", read_file(settings, "proc/meminfo"), re.M)
    return 1024 * int(words.group(1)) if words else 0


def probe_mdev(here, uuid):
    """One mediated device: whether it is active, on which parent, and its definitions."""
    root = here.settings.root
    active = (root / "sys/bus/mdev/devices" / uuid).exists()
    definitions = {}
    for path in sorted((root / "etc/mdevctl.d").glob(f"*/{uuid}")):
        try:
            definitions[path.parent.name] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            definitions[path.parent.name] = None
    parent = ""
    if active:
        parent = (root / "sys/bus/mdev/devices" / uuid).resolve().parent.name
    running = None
    if active and parent not in definitions:
        try:
            running = json.loads(here.run(["mdevctl", "list", "-u", uuid, "--dumpjson"]).stdout)
        except ValueError:
            pass
    return {"active": active, "parent": parent, "definitions": definitions, "running": running,
            "can_stay": (root / target_path(uuid)).exists()}


def probe_names(here):
    """{UUID of each VM: its name}"""
    result = here.run(["virsh", "list", "--all", "--uuid", "--name"])
    if result.returncode:
        raise Failure("libvirt does not answer", reason_of(result), "systemctl status libvirtd", NOT_READY)
    lines = [line.split(None, 1) for line in result.stdout.splitlines()]
    return {words[0]: words[1].rstrip() for words in lines if len(words) == 2}


def find_domain_uuid(here, vm, names):
    """The UUID of the VM that virsh finds; None if there is none.

    vm: an id, which the VM has only while it runs, or a UUID, or a name; names: see probe_names()
    """
    if vm in names:     # virsh domuuid takes no UUID
        return vm
    result = here.run(["virsh", "domuuid", "--", vm])
    if not result.returncode:
        return result.stdout.strip()
    if vm in names.values():
        raise Failure(f"libvirt says nothing about {vm}", reason_of(result), "systemctl status libvirtd", NOT_READY)
    return None


def no_such_vm(vm):
    """The Failure if find_domain_uuid() has found none.  vm: as people named it"""
    return Failure(f"there is no VM {vm} on this host", "", "virsh list --all", NOT_FOUND)


def probe_domain(here, uuid):
    """The VM as libvirt has it; None without a UUID."""
    if not uuid:
        return None
    info = here.run_checked(["virsh", "dominfo", "--", uuid])
    state = here.run_checked(["virsh", "domstate", "--", uuid]).strip()
    xml = here.run_checked(["virsh", "dumpxml", "--security-info", "--inactive", "--", uuid])
    live = here.run_checked(["virsh", "dumpxml", "--security-info", "--", uuid]) if state == "running" else ""
    return {"state": state, "persistent": bool(re.search(r"^Persistent:\s+yes", info, re.M)),
            "autostart": bool(re.search(r"^Autostart:\s+enable", info, re.M)),
            "saved": bool(re.search(r"^Managed save:\s+yes", info, re.M)),
            "uuid": uuid, "name": parse_domain(xml).findtext("name"), "xml": xml, "live": live}


def probe_this_host(here, vm, uuids, files=()):
    """All of it.  vm: as virsh takes it; uuids: of mediated devices; files: paths"""
    names = probe_names(here)
    return {"node": read_file(here.settings, "sys/module/dlend_core/parameters/node_id"),
            "hook": is_hook_on(here.settings), "machine": read_file(here.settings, "etc/machine-id"),
            "keeps_tpm": "--keep-tpm" in here.run(["virsh", "help", "undefine"]).stdout,
            "free": probe_free_memory(here.settings),
            "domain": probe_domain(here, find_domain_uuid(here, vm, names)), "names": names,
            "offers": probe_offers(here.settings), "mdevs": {uuid: probe_mdev(here, uuid) for uuid in uuids},
            "files": {path: look_at(here.settings, path) for path in files}}


def probe_host(host, vm, uuids=(), files=()):
    """Probe this host or the other one.  The answer is kept in host.known, and returned."""
    if not host.ssh:
        host.known = probe_this_host(host, vm, uuids, files)
        return host.known
    result = host.run(dlend_words(host, "migrate", "--probe", *(f"--file={path}" for path in files), vm, *uuids))
    try:
        host.known = json.loads(result.stdout)
    except ValueError:
        host.known = {}
    if result.returncode or not isinstance(host.known, dict) or not {"offers", "names"} <= {*host.known}:
        raise cannot_be_asked(host, result)
    return host.known


def bits_per_s(move):
    """How fast the network to the other host is: of the interface through which this host reaches the other one by ssh; 0 if that cannot be told."""
    words = move.there.run(["printenv", "SSH_CONNECTION"]).stdout.split()
    if len(words) != 4:
        return 0
    try:
        routes = json.loads(move.here.run(["ip", "-j", "route", "get", words[2]]).stdout)
        return 10**6 * max(0, int(read_file(move.settings, f"sys/class/net/{routes[0]['dev']}/speed")))
    except (ValueError, IndexError, KeyError, TypeError):
        return 0
