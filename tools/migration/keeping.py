# SPDX-License-Identifier: GPL-2.0-only
"""What a definition needs so that lent devices stay with a VM that moves while it runs, and dlend migrate --prepare.

QEMU moves a VM with such a device only if that was said as the VM was started (enable-migration=on): by itself it
does so only for devices that tell which memory they have written.  It also has to pass INTx on by itself, not by KVM
(x-no-kvm-intx), which it tells a wrong line after a move.  libvirt has no words of its own for these, so they stand in
<qemu:override>, where a device is named by its alias.
"""
import sys

from lxml import etree

from remote import messages
from remote.hosts import Host
from remote.messages import NOT_FOUND, Failure

from .domain import QEMU, devices_of, host_devices, name_for_shell, parse_domain
from .probe import no_such_vm, probe_host

OVERRIDE, DEVICE, FRONTEND, PROPERTY = (f"{{{QEMU}}}{name}" for name in ("override", "device", "frontend", "property"))
# Each with its type and value.  Without the first, no VM moves; without the second, one with a device that uses INTx.
NEEDED = {"enable-migration": ("string", "on"), "x-no-kvm-intx": ("bool", "true")}
LEAST = ("enable-migration",)


def alias_of(element):
    alias = element.find("./alias")
    return alias.get("name") if alias is not None else None


def told(domain, element):
    """What QEMU was told, or will be, of this <hostdev>: the needed properties that have the needed values."""
    alias = alias_of(element)
    props = [prop for device in domain.findall(f"./{OVERRIDE}/{DEVICE}") if alias is not None and device.get("alias") == alias
             for prop in device.findall(f"./{FRONTEND}/{PROPERTY}")]
    return {prop.get("name") for prop in props if NEEDED.get(prop.get("name"), ("", ""))[1] == prop.get("value")}


def devices_not_kept(xml, uuids, needed=LEAST):
    """Those of these mediated devices of which QEMU is not told what is needed."""
    domain = parse_domain(xml)
    return [uuid for uuid, element in devices_of(domain)[0] if uuid in uuids and not told(domain, element).issuperset(needed)]


def keep_devices(xml, uuids):
    """The definition with all that is needed for these mediated devices."""
    domain = parse_domain(xml)
    for uuid, element in devices_of(domain)[0]:
        missing = NEEDED.keys() - told(domain, element)
        if uuid in uuids and missing:
            alias = alias_for(element, uuid)
            for name in sorted(missing):
                tell_qemu(domain, alias, name)
    return etree.tostring(domain, encoding="unicode")


def alias_for(element, uuid):
    """Its alias.  It gets one if it has none, or one that libvirt gives anew each time the VM starts."""
    if not (alias_of(element) or "").startswith("ua-"):
        for old in element.findall("./alias"):
            element.remove(old)
        etree.SubElement(element, "alias", name=f"ua-{uuid}")
    return alias_of(element)


def tell_qemu(domain, alias, name):
    override = domain.find(f"./{OVERRIDE}")
    if override is None:
        override = etree.SubElement(domain, OVERRIDE, nsmap={"qemu": QEMU})
    device = next((d for d in override.findall(f"./{DEVICE}") if d.get("alias") == alias), None)
    if device is None:
        device = etree.SubElement(override, DEVICE, alias=alias)
    frontend = device.find(f"./{FRONTEND}")
    if frontend is None:
        frontend = etree.SubElement(device, FRONTEND)
    for old in [p for p in frontend.findall(f"./{PROPERTY}") if p.get("name") == name]:
        frontend.remove(old)
    kind, value = NEEDED[name]
    etree.SubElement(frontend, PROPERTY, name=name, type=kind, value=value)


def prepare_vm(settings, args):
    """Change the definition of a VM."""
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
