# SPDX-License-Identifier: GPL-2.0-only
"""A fake host with bridges above its devices, links whose peers tell of theirs, and mdevs.

    node 1 (this host) ---- 0000:05:00.0 ---- node 2: d0002:04:00.0 and d0002:05:00.0 at one switch
        \\----------------- 0000:06:00.0 ---- node 3: d0003:01:00.0 ---- node 2
    and on node 1 itself: d0001:08:00.0, behind a switch
"""
import os
import re
import struct

from fake import LENDER, TOP, Fake

UUIDS = {"d0002:04:00.0": "a0000000-0000-4000-8000-000000000001",
         "d0002:05:00.0": "a0000000-0000-4000-8000-000000000002",
         "d0003:01:00.0": "a0000000-0000-4000-8000-000000000003",
         "d0001:08:00.0": "a0000000-0000-4000-8000-000000000004"}
SWITCH = "0000:00:01.0,root,acs 0000:01:00.0,up 0000:02:{:02x}.0,down,acs"
NTBS = {2: "0000:05:00.0", 3: "0000:06:00.0"}


def bridge_config(port_type, acs):
    """Configuration space with a PCIe capability at 0x40 and ACS at 0x100."""
    config = bytearray(4096)
    config[0x06] = 0x10         # there is a list of capabilities
    config[0x34] = 0x40
    config[0x40:0x44] = struct.pack("<BBH", 0x10, 0, port_type << 4 | 2)
    if acs:
        config[0x100:0x108] = struct.pack("<IHH", 0x1000d, 0x1f, 0x1d)
    return bytes(config)


class Fabric(Fake):
    def __init__(self, **options):
        self.above = {}             # BDF: the bridges above it, from the root on
        super().__init__(**options)

    def device(self, bdf):
        return (self.sys / "devices/pci0000:00").joinpath(*self.above.get(bdf, []), bdf)

    def bridge(self, bdf, port_type=None, acs=False, above=()):
        self.above[bdf] = list(above)
        where = self.device(bdf)
        self.files(where, **{"class": "0x060400"})
        if port_type is not None:
            (where / "config").write_bytes(bridge_config(port_type, acs))
        self.link(f"bus/pci/devices/{bdf}", where)
        return [*above, bdf]

    def ntb(self, peer, port, **attributes):
        """A link to a node, its NTB behind a root port of its own."""
        bdf = NTBS[peer]
        self.above[bdf] = self.bridge(port, 4, True)
        self.pci(bdf, driver="ntb_hw_amd", pclass="0x068000", group=None)
        link = self.put(f"class/dlend_link/{bdf}")
        self.files(link, **{"type": "ntb", "state": "up", "peer_node": str(peer), "window_bytes": str(1 << 30),
                            "aperture_bytes": str(1 << 29), **attributes})
        return link

    def mdev(self, address, clique="none", group="40", cdev=None, uuid=None):
        uuid = uuid or UUIDS[address]
        dev = self.put(f"devices/dlend/{address}/{uuid}")
        self.files(dev / "dlend", state="idle", clique=clique)
        self.file("name", self.title(address) + "\n", dev / "mdev_type")
        self.link(f"bus/mdev/devices/{uuid}", dev)
        if group:
            where = self.put(f"kernel/iommu_groups/{group}")
            self.link(f"kernel/iommu_groups/{group}/devices/{uuid}", dev)
            (dev / "iommu_group").symlink_to(os.path.relpath(where, dev))
        # Every mdev has an entry here; "dev" is in it where the kernel makes a file of its own.
        (dev / "vfio-dev" / (cdev or "vfio0")).mkdir(parents=True)
        if cdev:
            self.files(dev / "vfio-dev" / cdev, dev="511:7")
        return dev

    def title(self, address):
        """The name of its mdev type, by the kernel's own table."""
        kind = (self.sys / "devices/dlend" / address / "type").read_text().strip().removeprefix("dlend-")
        return re.search(rf'"{kind}", "(.*)"', (TOP / "ntb/names.c").read_text()).group(1)

    def sockets(self):
        """Where all of populate() joins root complexes.  Node 2 has two sockets, its NTBs at the first."""
        self.files(self.sys / "class/dlend_link/0000:05:00.0", root="0000:00 0 256 2")
        self.files(self.sys / "class/dlend_link/0000:06:00.0", root="0000:80 -1 128 0")
        self.file("ntb_roots", "2 1 0000:00 0 256 2\n2 3 0000:00 0 256 2\n3 1 0000:00 -1 256 1\n3 2 0000:00 -1 256 1\n",
                  self.sys / "bus/dlend")
        for address, root in (("d0002:04:00.0", "0000:00 0 256 2"), ("d0002:05:00.0", "0000:40 1 512 3"),
                              ("d0003:01:00.0", "0000:00 -1 256 1")):
            self.files(self.sys / "devices/dlend" / address, root=root)
        self.files(self.device("0000:08:00.0") / "dlend", root="0000:00 0 256 2")

    def populate(self, told=True, linked=True):
        """told: peers say where things sit; linked: nodes 2 and 3 have a link to each other."""
        self.ntb(2, "0000:00:02.0")
        self.ntb(3, "0000:00:03.0")
        bus = self.put("bus/dlend")
        self.file("neighbours", f"1 2 {1 << 30}\n2 1 {1 << 29}\n1 3 {1 << 30}\n" +
                  (f"2 3 {1 << 28}\n3 2 {1 << 28}\n" if linked else ""), bus)
        if told:
            self.file("ntb_places", "".join(f"{a} {b} 0000:0{b + 4}:00.0 0000:00:0{a + b}.0,root,acs\n"
                                            for a, b in ((2, 1), (3, 1), (2, 3), (3, 2))), bus)
        self.files(self.put("class/dlend_link/loop"), type="loop", state="up", peer_node="1")
        up = self.bridge("0000:07:00.0", 5, above=self.bridge("0000:00:06.0", 4, True))
        self.above["0000:08:00.0"] = self.bridge("0000:07:01.0", 6, True, above=up)
        self.pci("0000:08:00.0", driver=LENDER)
        place = {"place": SWITCH.format(0)} if told else {}
        self.offer("d0002:04:00.0", state="held", borrower="1", **place)
        place = {"place": SWITCH.format(1)} if told else {}
        self.offer("d0002:05:00.0", **place)
        place = {"place": "0000:00:01.0,root"} if told else {}
        self.offer("d0003:01:00.0", lender="3", type="dlend-gpu", **place)
