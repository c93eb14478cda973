# SPDX-License-Identifier: GPL-2.0-only
"""The XML of a libvirt domain, and what it says about the devices of the VM."""
import re
import shlex

from lxml import etree

from remote.hosts import reason_of
from remote.messages import Failure

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
XML_BYTES = 16 << 20    # no domain of libvirt's is longer
QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
CHOSEN = "./metadata/{urn:dlend:devices}devices/{urn:dlend:devices}device"      # as libvirt's hook reads it


def parse_domain(xml):
    """The <domain>.  Name spaces keep their prefixes, whatever other programs have chosen."""
    why = "this is no domain of libvirt's"
    if len(xml) <= XML_BYTES:
        try:
            domain = etree.fromstring(xml.encode(), etree.XMLParser(resolve_entities=False, no_network=True))
        except etree.XMLSyntaxError as error:
            why = str(error)
        else:
            if not domain.getroottree().docinfo.doctype:
                return domain
    raise Failure("the definition of the VM is not understood", why)


def host_devices(xml, pooled=()):
    """devices_of() of a domain's XML."""
    return devices_of(parse_domain(xml), pooled)


def devices_of(domain, pooled=()):
    """Which devices of its host a VM uses.

    pooled: MAC addresses of interfaces to which a network of libvirt's gives a device, whatever host they are on.
    Return ([(uuid, element) of each mediated device], [a word about each other device of the host]).
    """
    mediated, others = [], []
    for element in domain.findall("./devices/hostdev"):
        address = element.find("./source/address")
        uuid = (address.get("uuid") or "").lower() if address is not None else ""
        if element.get("type") == "mdev" and UUID.fullmatch(uuid):
            mediated.append((uuid, element))
        else:
            others.append(f"{element.get('type')} device")
    # libvirt can give a host's device to a VM by other elements, too.  Another host has another device there.
    others += ["network interface of type hostdev" for element in domain.findall("./devices/interface[@type='hostdev']")
               if mac_of(element) not in pooled]
    others += ["vdpa device"] * len(domain.xpath("./devices/interface[@type='vdpa'] | ./devices/disk[@type='vhostvdpa']"))
    others += ["vfio-pci device of <qemu:commandline>" for value in domain.xpath("./q:commandline/q:arg/@value", namespaces={"q": QEMU})
               if re.search(r"vfio-pci.*\b(host|sysfsdev)\b", value)]
    others += ["disk that is a PCI device"] * len(domain.findall("./devices/disk//source[@type='pci']"))
    return mediated, others


def chosen_types(xml):
    """{UUID: type} of the devices that libvirt's hook chooses when the VM starts, where they are not defined."""
    domain = parse_domain(xml)
    types = {(element.get("uuid") or "").lower(): element.get("type") for element in domain.findall(CHOSEN)}
    return {uuid: types[uuid] for uuid, _ in devices_of(domain)[0] if uuid in types}


def memory_bytes(xml):
    """Of the VM, in bytes."""
    units = {"b": 1, "bytes": 1, "KB": 10**3, "k": 1 << 10, "KiB": 1 << 10, "MB": 10**6, "M": 1 << 20, "MiB": 1 << 20,
             "GB": 10**9, "G": 1 << 30, "GiB": 1 << 30, "TB": 10**12, "T": 1 << 40, "TiB": 1 << 40}
    memory = parse_domain(xml).find("./memory")
    return int(memory.text) * units[memory.get("unit", "KiB")] if memory is not None else 0


def mac_of(interface):
    address = interface.find("./mac")
    return address.get("address") if address is not None else None


def pooled_macs(xml):
    """The MAC addresses of interfaces that are connected to a network of libvirt's.

    xml: the definition.  The XML of the running VM shows the device that the network gave it as the VM's own.
    """
    return {mac_of(element) for element in parse_domain(xml).findall("./devices/interface[@type='network']")} - {None}


def name_for_shell(name, uuid):
    """What people type for the VM.  virsh takes a number for an id, so a name that is a number does not do."""
    return uuid if re.match(r"-|\s*\+?\d+$", name) else shlex.quote(name)


def tpm_kinds(xml):
    """Of the TPMs that the VM has: "emulator" and the like."""
    return {backend.get("type") for backend in parse_domain(xml).findall("./devices/tpm/backend")}


def has_iommu(xml):
    """Whether the VM has a virtual IOMMU."""
    return parse_domain(xml).find("./devices/iommu") is not None


def undefine_words(xml):
    """The files that a definition names stay: they may be on shared storage, or of use later."""
    # An older libvirt does not know --keep-tpm.  It matters only to a VM that has such a TPM (checks.py).
    return ["virsh", "undefine", "--keep-nvram", *(["--keep-tpm"] if "emulator" in tpm_kinds(xml) else [])]


def undefine_by_hand(domain):
    """What people type.  domain: as probe_domain() has it"""
    return f"{' '.join(undefine_words(domain['xml']))} {name_for_shell(domain['name'], domain['uuid'])}"


def is_mdev_attached(host, vm_uuid, uuid):
    """Whether the VM has the mediated device now; None if that cannot be told."""
    result = host.run(["virsh", "dumpxml", "--", vm_uuid])
    try:
        return uuid in dict(host_devices(result.stdout)[0])
    except Failure:
        return None


def domain_state(host, uuid):
    """The state of a VM: "running", "shut off", ...; "none" if the host has no such VM; None if it cannot tell."""
    result = host.run(["virsh", "domstate", "--", uuid])
    if not result.returncode:
        return result.stdout.strip()
    listed = host.run(["virsh", "list", "--all", "--uuid"])
    return "none" if not listed.returncode and uuid not in listed.stdout.split() else None


def start_words(uuid):
    """The command that starts a VM.  It may take minutes, while memory is cleared and pinned: it needs timeout=None."""
    return ["virsh", "start", "--", uuid]


def undefine_domain(host, domain):
    """domain: as probe_domain() has it, of this host or another one"""
    result = host.run([*undefine_words(domain["xml"]), "--", domain["uuid"]])
    if result.returncode and domain_state(host, domain["uuid"]) != "none":
        raise Failure(f"{domain['name']} cannot be undefined on {host}", reason_of(result))
