# SPDX-License-Identifier: GPL-2.0-only
"""What a definition needs so that lent devices stay with a VM that moves while it runs.

QEMU moves a VM with such a device only if that was said as the VM was started (enable-migration=on): by itself it
does so only for devices that tell which memory they have written.  libvirt has no word of its own for it, so it stands
in <qemu:override>, where a device is named by its alias.
"""
import re
import xml.etree.ElementTree as ElementTree

from .domain import devices_of, parse_domain

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
    return [uuid for uuid, element in devices_of(domain)[0] if uuid in uuids and not is_kept(domain, element)]


def keep_devices(xml, uuids):
    """The definition with all that is needed for these mediated devices."""
    # Names as they were: ElementTree would call them ns0, ns1...
    for prefix, uri in re.findall(r"""xmlns:([A-Za-z][\w.-]*)=["']([^"']+)["']""", xml):
        ElementTree.register_namespace(prefix, uri)
    ElementTree.register_namespace("qemu", QEMU)
    domain = parse_domain(xml)
    for uuid, element in devices_of(domain)[0]:
        if uuid in uuids and not is_kept(domain, element):
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
