# SPDX-License-Identifier: GPL-2.0-only
"""The tree of a libvirt domain (dlend libvirt-xml), for a guest that QEMU starts without libvirt."""
import xml.etree.ElementTree as ET

DEVICES = {"pcie-root-port": "pcie-root-port", "pcie-switch-upstream-port": "x3130-upstream",
           "pcie-switch-downstream-port": "xio3130-downstream"}
FIRST_SLOT = 0x10       # of a root port that libvirt would find one for


def arguments(text):
    """-device values for elements of a libvirt domain, as libvirt would make them."""
    top, devices = ET.fromstring(f"<devices>{text}</devices>"), []
    for c in top.findall("controller"):
        index, address = c.get("index"), c.find("address")
        value = f"{DEVICES[c.get('model')]},id=pci.{index}"
        if c.get("model") != "pcie-switch-upstream-port":
            value += f",chassis={index}"
        if address is not None:
            function = int(address.get("function", "0"), 0)
            bus = int(address.get("bus"), 0)
            value += f",bus={f'pci.{bus}' if bus else 'pcie.0'},addr={address.get('slot')}{f'.{function:#x}' if function else ''}"
        devices.append(value)
    for h in top.findall("hostdev"):
        bus = int(h.find("address").get("bus"), 0)
        uuid = h.find("source/address").get("uuid")
        devices.append(f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{uuid},bus=pci.{bus}")
    return devices


def placed(text):
    """The same elements, with an address for each root port, as libvirt gives it; later ones come first."""
    top = ET.fromstring(f"<devices>{text}</devices>")
    slot = FIRST_SLOT + len(top)
    for c in top.findall("controller"):
        if c.find("address") is None:
            slot -= 1
            ET.SubElement(c, "address", type="pci", domain="0x0000", bus="0x00", slot=f"{slot:#04x}", function="0x0")
    return "".join(ET.tostring(element, encoding="unicode") for element in top)
