# SPDX-License-Identifier: GPL-2.0-only
"""A topology file, checked, and the QEMU arguments that it means.

    [hosts.b]
    memory = "2G"            # defaults as written here
    smp = 2
    iommu = "intel"          # "amd"; false: none; "pt": Intel's, and iommu=pt on the kernel command line
    intremap = true          # false: it does not remap interrupts
    device_iotlb = false     # true: devices with ats=on translate by themselves
    guests = 3               # how many guests may run at once
    cmdline = ""             # more for the kernel command line
    kernel = ""              # a directory as for mkimage --kernel; DLEND_KERNEL beats it
    init = ""                # "systemd": udev, libvirtd, sshd as Debian has them, and a network (README.md)
    first = []               # QEMU arguments before the ports, e.g. what their devices refer to
    args = []                # more QEMU arguments, as they are, after the ports
    disks = {stick = "4M"}   # raw images, for drive=NAME of a device; none by default

    [[hosts.b.ports]]        # a PCIe root port, and what is plugged into it
    name = "nvme0"           # Host.bdf("nvme0") finds the device again
    device = "nvme,serial=X" # or devices = [...]: the functions of one multi-function device
    disk = "64M"             # a raw image behind the first function
    root = "x-speed=5"       # more options of the root port itself
    behind = ["edu"]         # if the device is a bridge: devices on its bus

    [links.ab]               # an NTB link; its ends are the ports ntb-ab of both hosts
    a = "a"
    b = "b"
    bar2 = "64M"             # window sizes; without: ntbsim's defaults
    bar4 = "64M"
    family = "intel-icx"     # whose bridges these are; without: DLEND_NTB of the environment (also "mixed"), or "amd"

Knows nothing of processes and sockets but the names that it is given.
"""
import itertools
import os
import re
import tomllib
import uuid
from dataclasses import dataclass, field
from pathlib import Path

# Device numbers on the root bus: 1..15 the runner's own devices, then ports, then links.
FIRST_CARD = 0x6
FIRST_PORT = 0x10
LAST_PORT = 0x1e
# Bits of an address. With 40, SeaBIOS puts large BARs where QEMU has reserved what AMD's processors cannot use (1012 GiB to
# 1 TiB), and Linux gives no device a place there that comes back.
PHYS_BITS = 42


# What a host may have, as QEMU's device.  "dma-remap": addresses of vfio-user's devices, too, which NTBs are.
INTEL_IOMMU = "intel-iommu,caching-mode=on"
IOMMUS = {"intel": INTEL_IOMMU, "pt": INTEL_IOMMU, "amd": "amd-iommu,dma-remap=on"}


# By family of ntbsim's: the module to load, and the driver of the function.
AMD = ("ntb_hw_amd", "ntb_hw_amd")
INTEL = ("ntb_hw_intel", "ntb_hw_intel")
NTB_DRIVERS = {"amd": AMD, "intel-skx": INTEL, "intel-icx": INTEL, "intel-spr": INTEL,
               "switchtec": ("ntb_hw_switchtec", "switchtec")}
# What DLEND_NTB may say besides one family: a link each, in this order, and again
MIXED = {"mixed": ("intel-icx", "switchtec", "amd")}


class BadTopology(Exception):
    """The file says something that cannot be."""


@dataclass
class Port:
    name: str
    devices: list
    disk: str = ""
    behind: list = field(default_factory=list)
    root: str = ""
    slot: int = 0

    @property
    def bdf(self):
        """Of the root port itself."""
        return f"0000:00:{self.slot:02x}.0"


@dataclass
class HostSpec:
    name: str
    memory: str = "2G"
    smp: int = 2
    iommu: object = "intel"
    intremap: bool = True
    device_iotlb: bool = False
    guests: int = 3
    cmdline: str = ""
    kernel: str = ""
    init: str = ""
    first: list = field(default_factory=list)
    disks: dict = field(default_factory=dict)
    args: list = field(default_factory=list)
    ports: list = field(default_factory=list)
    address: str = field(default="", init=False)
    cables: list = field(default_factory=list, init=False)

    @property
    def systemd(self):
        return self.init == "systemd"

    @property
    def identity(self):
        """What firmware and /etc/machine-id say: libvirt tells hosts apart by it."""
        return uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.dlend.test")


@dataclass
class Cable:
    """One end of what joins two hosts with systemd: a network card, its address and the other end's."""
    mac: str
    address: str
    peer: str
    local: str      # sockets, in the directory that the runner names
    remote: str


@dataclass
class LinkSpec:
    name: str
    a: str
    b: str
    bar2: str = ""
    bar4: str = ""
    family: str = ""


def _table(kind, where, values):
    try:
        return kind(**values)
    except TypeError as e:
        raise BadTopology(f"{where}: {str(e).replace('__init__() ', '')}") from None


def _port(where, values):
    values = dict(values)
    if "device" in values:
        values["devices"] = [values.pop("device")]
    return _table(Port, where, values)


class Topology:
    """hosts and links by name."""

    def __init__(self, path):
        self.path = Path(path)
        with open(self.path, "rb") as f:
            data = tomllib.load(f)
        self.hosts = {}
        for name, values in data.get("hosts", {}).items():
            where = f"{self.path.name}: host {name}"
            host = _table(HostSpec, where, {**values, "name": name})
            host.ports = [_port(where, p) for p in host.ports]
            if host.iommu not in IOMMUS and host.iommu is not False:
                raise BadTopology(f"{where}: iommu = {host.iommu!r}; there are {', '.join(IOMMUS)} and false")
            if host.init not in ("", "systemd"):
                raise BadTopology(f"{where}: init = {host.init!r}; there is \"systemd\" besides the bed's own")
            if host.disks.keys() & {port.name for port in host.ports}:
                raise BadTopology(f"{where}: a disk and a port have the same name")
            # The first host of each topology is the one that borrows, if one of them only does
            if self.hosts and host.iommu == "intel" and host.intremap:
                host.iommu = os.environ.get("DLEND_LENDER_IOMMU") or host.iommu
            self.hosts[name] = host
        # Where no guest runs: tests/cluster/README.md
        if os.environ.get("DLEND_IOMMU"):
            for host in self.hosts.values():
                if host.iommu == "intel" and host.intremap:
                    host.iommu = os.environ["DLEND_IOMMU"]
        self.links = {name: _table(LinkSpec, f"{self.path.name}: link {name}", {**values, "name": name})
                      for name, values in data.get("links", {}).items()}
        wanted = os.environ.get("DLEND_NTB") or "amd"
        families = itertools.cycle(MIXED.get(wanted, (wanted,)))
        for link in self.links.values():
            link.family = link.family or next(families)
            if not {link.a, link.b} <= self.hosts.keys() or link.a == link.b:
                raise BadTopology(f"{self.path.name}: link {link.name} joins {link.a} and {link.b}")
            if link.family not in NTB_DRIVERS:
                raise BadTopology(f"{self.path.name}: link {link.name} is of family {link.family}; there are {', '.join(NTB_DRIVERS)}")

        self._join()

    def _join(self):
        """A cable between every two hosts with systemd."""
        members = [host for host in self.hosts.values() if host.systemd]
        for host in members:
            host.address = f"10.9.0.{members.index(host) + 1}"
        for a, b in itertools.combinations(members, 2):
            for near, far in ((a, b), (b, a)):
                mac = f"52:54:00:d9:{members.index(near) + 1:02x}:{members.index(far) + 1:02x}"
                near.cables.append(Cable(mac, near.address, far.address, f"net.{near.name}.{far.name}",
                                         f"net.{far.name}.{near.name}"))

    def drop_links(self):
        self.links = {}

    def ends(self, host):
        """(link, "a" or "b") of every link that ends at host."""
        for link in self.links.values():
            if link.a == host:
                yield link, "a"
            elif link.b == host:
                yield link, "b"

    def ntb_drivers(self, host):
        """[(module, driver)] of its NTBs; of a host without one, what another has."""
        return sorted({NTB_DRIVERS[link.family] for link, _ in self.ends(host)}) or [AMD]

    def place(self, socket_of):
        """Give every host its link ports and every port its slot; socket_of(link, end) names the sockets."""
        for host in self.hosts.values():
            for link, end in self.ends(host.name):
                host.ports.append(Port(f"ntb-{link.name}", [ntb_device(socket_of(link, end))]))
            for slot, port in enumerate(host.ports, FIRST_PORT):
                if slot > LAST_PORT:
                    raise BadTopology(f"{self.path.name}: host {host.name} has more ports than fit")
                port.slot = slot


def ntb_device(path):
    """vfio-user-pci takes its socket only as JSON; the bus is filled in by port_args."""
    return {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": str(path)}}


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    if text[-1:].upper() in units:
        return int(text[:-1]) << units[text[-1].upper()]
    return int(text)


def disk_path(host, name):
    """Image of one of a host's disks, or of a port's."""
    return f"{host.name}-{name}.disk"


def disks(host):
    """(image, bytes) of all disks of a host."""
    for port in host.ports:
        if port.disk:
            yield disk_path(host, port.name), size(port.disk)
    for name, text in host.disks.items():
        yield disk_path(host, name), size(text)


def drive_args(host, identity, name):
    return ["-drive", f"if=none,id={identity},format=raw,cache=unsafe,file={disk_path(host, name)}"]


# What maps the memory that it reads and writes, which is not RAM to this host when it is another's
MAPS = re.compile(r"(nvme|virtio-[\w-]+|usb-ehci|e1000e|igb)(,(?!.*x-max-bounce-buffer-size=)|$)")
BOUNCE = "16M"


def tamed(device):
    """QEMU's devices with what hardware has, too (README.md).

    An NVMe without shadow doorbells: it takes for a tail what it reads there over a link that was lost, all ones,
    and a queue with that tail never ends.  Room for copies of what a device maps, of which QEMU makes 4 KiB: other
    devices fail then, and an NVMe waits, but a reset of its host waits for that command for ever.
    """
    if re.match(r"nvme(,(?!.*\bdbcs=)|$)", device):
        device += ",dbcs=off"
    return device + f",x-max-bounce-buffer-size={BOUNCE}" if MAPS.match(device) else device


def port_args(host, port):
    """QEMU arguments for a root port and its devices."""
    import json  # only links need it
    bus = f"port-{port.name}"
    args = ["-device", f"pcie-root-port,id={bus},bus=pcie.0,addr={port.slot:#x},chassis={port.slot}" +
            (f",{port.root}" if port.root else "")]
    if port.disk:
        args += drive_args(host, f"disk-{port.name}", port.name)
    for number, device in enumerate(port.devices):
        if isinstance(device, dict):
            args += ["-device", json.dumps({**device, "bus": bus})]
            continue
        device = tamed(device) + f",id={port.name}{'' if number == 0 else f'.{number}'},bus={bus},addr=0.{number}"
        if number == 0 and len(port.devices) > 1:
            device += ",multifunction=on"
        if number == 0 and port.disk:
            device += f",drive=disk-{port.name}"
        args += ["-device", device]
    for number, device in enumerate(port.behind):
        args += ["-device", f"{device},bus={port.name},addr={number + 1}"]
    return args


def tree_program(tree, program):
    """A program of the tree as this machine can run it: no chroot, no installation."""
    return [str(tree / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(tree / "usr/lib/x86_64-linux-gnu"),
            str(tree / program)]


def qemu_binary(tree):
    """The tree's QEMU."""
    return [*tree_program(tree, "usr/bin/qemu-system-x86_64"),
            "-L", str(tree / "usr/share/qemu"), "-L", str(tree / "usr/share/seabios"),
            "-L", str(tree / "usr/lib/ipxe/qemu")]


def accelerator():
    if os.environ.get("DLEND_ACCEL", "tcg") == "kvm":
        return ["-accel", "kvm", "-cpu", f"host,host-phys-bits=on,host-phys-bits-limit={PHYS_BITS}"]
    return ["-accel", "tcg,thread=multi,tb-size=1024", "-cpu", f"max,phys-bits={PHYS_BITS}"]


# What costs an emulated kernel much of its boot and shows nothing here
LEAN = "mitigations=off cryptomgr.notests"
# The same for a guest: on a q35, 8,192 reads by ports of configuration space where no bus is
GUEST_LEAN = f"no_timer_check pci=lastbus=0 8250.nr_uarts=1 ipv6.disable=1 apparmor=0 audit=0 {LEAN}"


def kernel_line(host, session):
    words = [f"root=/dev/vda console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable {LEAN}",
             f"dlend.name={host.name} dlend.session={session}"]
    if host.iommu:
        # The second is for the kernel of check-debug; others do not know it
        words.append("intel_iommu=on iommu.debug_pagealloc=1")
    if host.iommu == "pt":
        words.append("iommu=pt")
    if host.systemd:
        # Names of cards stay as host-systemd met them
        words.append("dlend.init=systemd systemd.unit=multi-user.target net.ifnames=0")
    return " ".join(words + [host.cmdline]).strip()


def channels(host):
    """The streams between the runner and this host: names of virtio-serial ports, which are sockets outside."""
    names = ["agent"]
    for number in range(host.guests):
        names += [f"g{number}.agent", f"g{number}.qmp", f"g{number}.console"]
    return names


def qemu_args(host, boot, session, sockets):
    """Everything after the binary.  boot is mkimage's directory; paths are relative to the run directory."""
    machine = "q35,kernel-irqchip=split,memory-backend=ram"
    args = ["-name", host.name, "-nodefaults", "-no-user-config", "-display", "none",
            "-d", "cpu_reset",     # tells a triple fault; into NAME.qemu.log
            "-machine", machine, *accelerator(), "-smp", str(host.smp), "-m", host.memory,
            "-object", f"memory-backend-memfd,id=ram,size={host.memory},share=on",
            "-kernel", str(boot / "vmlinuz"), "-initrd", str(boot / "host.cpio"),
            "-append", kernel_line(host, session),
            "-chardev", f"file,id=console,path={host.name}.console,append=on", "-serial", "chardev:console",
            "-chardev", f"socket,id=qmp,path={sockets}/{host.name}.qmp,server=on,wait=off",
            "-object", "monitor-qmp,id=monitor,chardev=qmp"]
    if host.iommu:
        iotlb = ",device-iotlb=on" if host.device_iotlb else ""
        args += ["-device", f"{IOMMUS[host.iommu]},intremap={'on' if host.intremap else 'off'}{iotlb}"]
    args += ["-drive", f"if=none,id=root,format=raw,snapshot=on,file={boot / 'root.ext4'}",
             "-device", "virtio-blk-pci,drive=root,bus=pcie.0,addr=0x2,multifunction=on",
             "-drive", f"if=none,id=guest,format=raw,readonly=on,file={boot / 'guest.ext4'}",
             "-device", "virtio-blk-pci,drive=guest,serial=guest,bus=pcie.0,addr=0x2.1",
             "-fsdev", "local,id=share,path=share,security_model=none",
             "-device", "virtio-9p-pci,fsdev=share,mount_tag=share,bus=pcie.0,addr=0x3",
             "-fsdev", f"local,id=modules,path={boot / 'modules'},security_model=none,readonly=on",
             "-device", "virtio-9p-pci,fsdev=modules,mount_tag=modules,bus=pcie.0,addr=0x4",
             "-device", "virtio-serial-pci,max_ports=31,bus=pcie.0,addr=0x5"]
    for number, name in enumerate(channels(host), 1):
        args += ["-chardev", f"socket,id={name},path={sockets}/{host.name}.{name},server=on,wait=off",
                 "-device", f"virtserialport,nr={number},chardev={name},name={name}"]
    if host.systemd:
        args += ["-uuid", str(host.identity)]
    for slot, cable in enumerate(host.cables, FIRST_CARD):
        args += ["-netdev", f"dgram,id=cable-{slot},local.type=unix,local.path={sockets}/{cable.local},"
                 f"remote.type=unix,remote.path={sockets}/{cable.remote}",
                 "-device", f"virtio-net-pci,netdev=cable-{slot},mac={cable.mac},romfile=,bus=pcie.0,addr={slot:#x}"]
    for name in host.disks:
        args += drive_args(host, name, name)
    args += host.first
    for port in host.ports:
        args += port_args(host, port)
    return args + list(host.args)
