# SPDX-License-Identifier: GPL-2.0-only
"""Devices that host a uses itself: dlend attach."""
import json
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tools"))
from measurement.rounds import messages_sent  # noqa: E402  pylint: disable=wrong-import-position


def pci(address):
    """The PCI address on its borrower of an attached offer of a node with a number below 4096."""
    node, rest = address.split(":", 1)
    return f"d{int(node[1:], 16):03x}:{rest}"


def bound(host, bdf, driver):
    """Until that driver of the host's own has it."""
    host.wait_for(f'[ "$(basename $(readlink /sys/bus/pci/devices/{bdf}/driver))" = {driver} ]', 60)


def node_of(host, address):
    """The device file of an NVMe disk that is attached, as soon as it is there."""
    node = f"/dev/$(cd /sys/bus/pci/devices/{pci(address)}/nvme/nvme*/ && ls -d nvme*n1)"
    host.wait_for(f"[ -b {node} ]", 60)
    return host.run(f"echo {node}").out.strip()


def where(host, address):
    """The PCI device that it is on a host, or "no"."""
    return host.run(f"cat /sys/bus/dlend/devices/{address}/attached").out.strip()


def first_register(host, device):
    """What the first 32 bits of a PCI device's first BAR read as, with no driver."""
    host.run(f"echo 1 >/sys/bus/pci/devices/{device}/enable")
    return host.run(f"busybox devmem $(sed -n '1s/ .*//p' /sys/bus/pci/devices/{device}/resource) 32").out.strip().lower()


def take(f, address):
    f.dlend("a", f"attach {address}", timeout=120)


def give(f, address):
    """Whoever uses it."""
    f.dlend("a", f"detach --force {address}", timeout=120)
    f.wait_state("a", address, "free")


def attach(t, f, address, driver):
    out = json.loads(f.dlend("a", f"attach --json {address}", timeout=120).out)["attached"]
    t.equal([(e["address"], e["device"]) for e in out], [(address, pci(address))], "attached, under nearly the offer's name")
    if driver:
        bound(f.host("a"), pci(address), driver)
        t.passed(f"the distribution's own {driver} has it")
    t.equal(f.lender_state(address)[:2], ("held", "1"), "its lender says so")


def detach(t, f, address):
    f.dlend("a", f"detach {address}", timeout=120)
    t.ok(f.host("a").run(f"[ -e /sys/bus/pci/devices/{pci(address)} ]", check=False).status, "detached: it is gone")
    f.wait_state("a", address, "free")
    t.equal(f.lender_state(address)[0], "free", "its lender has it back")


def vfio_pci(host, address):
    """The kernel's own vfio-pci gets it."""
    address = pci(address)
    device = f"/sys/bus/pci/devices/{address}"
    host.run(f"modprobe vfio-pci; cd {device}; [ ! -e driver ] || echo {address} >driver/unbind; "
             f"echo vfio-pci >driver_override; echo {address} >/sys/bus/pci/drivers_probe; "
             '[ "$(basename $(readlink driver))" = vfio-pci ]')


def messages(host):
    """Messages that a host has sent over its links; heartbeats are none."""
    return messages_sent(host.run("cat /sys/kernel/debug/dlend/links/*:*").out)


# What an attached device shows otherwise than at home, and why
OTHERWISE = {
    r"^(IOMMU group|Interrupt|Region \d|Address|Masking|NUMA node)\b": "where it is, and its interrupts, are this host's",
    r"^Physical Slot": "slots are the lender's",
    r"^(Control: I/O|attribute resource\d$)": "I/O ports are not lent, and errors of the bus (SERR) are reported on the lender",
    r"ExtTag[+-] PhantFunc": "the kernel turns extended tags on if no bridge on the way forbids it; on the lender one may",
    r"EETLPPrefix": "no NTB passes prefixes of transactions",
    r"^(AF(Cap|Ctrl|Status):|Capabilities: \[40\] PCI Advanced Features$)": "a device without a reset of its own has one, which its lender does",
    r"^Status: Cap[+-] 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-$":
        "and that is its first capability, maybe",
    r"^(ARI(Cap|Ctl):|Capabilities: \[\w+ v1\] Alternative Routing-ID Interpretation)": "which functions are next to it is the lender's",
    r"^attribute (remove|rescan|sriov_vf_msix_count)$": "of a virtual function; here it is one by itself",
    r"^Status: D0 NoSoftRst[+-] ": "power states are this host's, and a device loses nothing in them",
    r"^Latency: ": "a timer of conventional PCI, which is not on the way: what this host's kernel writes there stays there",
}


def portrait(host, bdf):
    """What sysfs and lspci show of a device, a line each, without where it is and what it has done."""
    names = host.run(f"cd /sys/bus/pci/devices/{bdf} && find . -maxdepth 1 -type f -o -maxdepth 1 -name 'msi_irqs'").out.split()
    text = host.run(f"lspci -vv -s {bdf}").out
    lines = [" ".join(line.split()) for line in text.splitlines()[1:]]
    return {f"attribute {name[2:]}" for name in names} | {line for line in lines if line}


def as_at_home(t, name, home, here):
    """Nothing but what OTHERWISE explains is other than on the device's own host."""
    unknown = sorted(line for line in home ^ here if not any(re.search(pattern, line) for pattern in OTHERWISE))
    t.equal([("- " if line in home else "+ ") + line for line in unknown], [],
            f"{name}: sysfs and lspci show what they show on its own host")
