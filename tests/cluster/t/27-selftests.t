#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own selftests of VFIO, on attached devices that vfio-pci has.

    host a (node 1): vfio-pci ------ ab ------ host b (node 2): nvme0, edu, nic (e1000e)

They are built from the distribution's source package (root/mkvfio), whose version is that of the kernel under test.  By
iommufd they run on the debug kernel only, as Debian's have none.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
from attached import attach, detach, pci, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

TYPE1 = "vfio_type1v2_iommu"
RESULT = re.compile(r"^(ok|not ok) \d+ (\S+)(.*)$", re.M)
# Cases of vfio_pci_device_test: it tries MSI and MSI-X, of which most devices have one
DEVICES = {"nvme0": 4, "edu": 4, "nic": 5}
# Of vfio_dma_mapping_test, without those of other ways to map than type1, and without huge pages of 1 GiB
MAPPINGS = 10
IOMMUFD = os.environ.get("DLEND_IOMMUFD") == "1"
NO_MMIO = "an attached device's BARs cannot be mapped for DMA yet (docs/limits.md)"


def results(a, program, address):
    """{case: "ok" or "not ok"} of those that can run here, and all that it said."""
    # Counters of locked memory would end it early; nothing here is about them
    out = a.run(f"ulimit -l unlimited; cd /share/vfio; VFIO_MODE={'iommufd' if IOMMUFD else TYPE1} ./{program} {pci(address)} 2>&1",
                timeout=240, check=False).out
    found = {name: said for said, name, rest in RESULT.findall(out) if "SKIP" not in rest}
    return {name: said for name, said in found.items() if IOMMUFD or "iommufd" not in name}, out


def tested(t, a, address, name):
    vfio_pci(a, address)
    for program, least in (("vfio_pci_device_test", DEVICES[name]), ("vfio_dma_mapping_test", MAPPINGS)):
        got, out = results(a, program, address)
        t.equal([case for case, said in got.items() if said != "ok"], [], f"{name}: {program}", out)
        t.ok(len(got) >= least, f"  all of its cases ran: {len(got)}", out)
    got, out = results(a, "vfio_dma_mapping_mmio_test", address)
    t.ok(len(got) >= 6, f"{name}: vfio_dma_mapping_mmio_test: its cases ran: {len(got)}", out)
    for case, said in got.items():
        t.todo(said == "ok", f"  {case}", NO_MMIO)


def main():
    built = Path(subprocess.run((HERE / "root/mkvfio",), stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        b.own_disks()
        a.load_modules("dlend_native")
        shutil.copytree(built, c.run_dir / "share/vfio", dirs_exist_ok=True)
        a.run("echo 16 >/sys/module/dlend_native/parameters/dma_mib; echo 8 >/proc/sys/vm/nr_hugepages; modprobe vfio-pci")
        for name in DEVICES:
            address = f.lend("b", name)
            attach(t, f, address, "")
            with t.case(name):
                tested(t, a, address, name)
            detach(t, f, address)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
