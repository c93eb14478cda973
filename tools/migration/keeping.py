# SPDX-License-Identifier: GPL-2.0-only
"""What a definition needs so that lent devices stay with a VM that moves while it runs.

QEMU moves a VM with such a device only if that was said as the VM was started (enable-migration=on): by itself it
does so only for devices that tell which memory they have written.  libvirt has no word of its own for it, so it stands
in <qemu:override>, where a device is named by its alias.
"""
import re
import xml.etree.ElementTree as ElementTree

from .domain import host_devices, parse_domain

QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
OVERRIDE, DEVICE, FRONTEND, PROPERTY = (f"{{{QEMU}}}{name}" for name in ("override", "device", "frontend", "property"))
NAME, VALUE = "enable-migration", "on"


def alias_of(element):
    alias = element.find("./alias")
    return alias.get("name") if alias is not None else None


def is_kept(domain, element):
    """Whether QEMU was told, or will be, that the VM may move with this <hostdev>."""
    alias = alias_of(element)
    return alias is not None and any(
        device.get("alias") == alias and prop.get("name") == NAME and prop.get("value") == VALUE
        for device in domain.findall(f"./{OVERRIDE}/{DEVICE}") for prop in device.findall(f"./{FRONTEND}/{PROPERTY}"))


def devices_not_kept(xml, uuids):
    """Those of these mediated devices with which the VM of this XML may not move."""
    domain = parse_domain(xml)
    return [uuid for uuid, element in host_devices(xml)[0] if uuid in uuids and not is_kept(domain, element_of(domain, uuid))]


def element_of(domain, uuid):
    return next(element for element in domain.findall("./devices/hostdev")
                if element.find("./source/address") is not None
                and (element.find("./source/address").get("uuid") or "").lower() == uuid)


def memory_bytes(xml):
    """Of the VM, in bytes."""
    units = {"b": 1, "bytes": 1, "KB": 10**3, "k": 1 << 10, "KiB": 1 << 10, "MB": 10**6, "M": 1 << 20, "MiB": 1 << 20,
             "GB": 10**9, "G": 1 << 30, "GiB": 1 << 30, "TB": 10**12, "T": 1 << 40, "TiB": 1 << 40}
    memory = parse_domain(xml).find("./memory")
    return int(memory.text) * units[memory.get("unit", "KiB")] if memory is not None else 0


def keep_devices(xml, uuids):
    """The definition with all that is needed for these mediated devices."""
    # Names as they were: ElementTree would call them ns0, ns1...
    for prefix, uri in re.findall(r"""xmlns:([A-Za-z][\w.-]*)=["']([^"']+)["']""", xml):
        ElementTree.register_namespace(prefix, uri)
    ElementTree.register_namespace("qemu", QEMU)
    domain = parse_domain(xml)
    for uuid in uuids:
        element = element_of(domain, uuid)
        if not is_kept(domain, element):
            tell_qemu(domain, alias_for(element, uuid))
    return ElementTree.tostring(domain, encoding="unicode")


def alias_for(element, uuid):
    """Its alias.  It gets one if it has none, or one that libvirt gives anew each time the VM starts."""
    if not (alias_of(element) or "").startswith("ua-"):
        for old in element.findall("./alias"):
            element.remove(old)
        ElementTree.SubElement(element, "alias", name=f"ua-{uuid}")
    return alias_of(element)


def tell_qemu(domain, alias):
    override = domain.find(f"./{OVERRIDE}")
    if override is None:
        override = ElementTree.SubElement(domain, OVERRIDE)
    device = next((d for d in override.findall(f"./{DEVICE}") if d.get("alias") == alias), None)
    if device is None:
        device = ElementTree.SubElement(override, DEVICE, alias=alias)
    frontend = device.find(f"./{FRONTEND}")
    if frontend is None:
        frontend = ElementTree.SubElement(device, FRONTEND)
    for old in [p for p in frontend.findall(f"./{PROPERTY}") if p.get("name") == NAME]:
        frontend.remove(old)
    ElementTree.SubElement(frontend, PROPERTY, name=NAME, type="string", value=VALUE)
