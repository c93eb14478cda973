# SPDX-License-Identifier: GPL-2.0-only
"""Which files and disks of its host a VM uses, and whether two hosts mean the same by them.

A definition names them by paths.  On another host the same path may lead to something else, and a VM that starts there
writes to it.
"""
import os
import stat

from .domain import parse_domain

# File systems that several hosts have at the same time: there a file has the same number on all of them.
SHARED = {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "gfs2", "gpfs", "lustre", "nfs", "nfs4", "ocfs2",
          "orangefs", "smb3", "virtiofs"}
MISSING, NOT_SHOWN = "it is not there", "nothing shows that it is the same one there"
# What a VM only reads may be a copy.
READ_ONLY = ("firmware", "kernel", "read-only disk")


def files_of(xml, brings_state):
    """{path: what it is to the VM}.  brings_state: QEMU itself brings the VM's variables, as it does for one that runs on"""
    domain = parse_domain(xml)
    found = {}
    for kind, where in (("kernel", "kernel"), ("kernel", "initrd"), ("kernel", "dtb"), ("firmware", "loader"), ("UEFI variables", "nvram")):
        if kind != "UEFI variables" or not brings_state:
            found.update({element.text: kind for element in domain.findall(f"./os/{where}")})
    if not brings_state:
        found.update({element.get("file"): "UEFI variables" for element in domain.findall("./os/nvram/source")})
    for disk in domain.findall("./devices/disk"):
        kind = "disk" if disk.find("./readonly") is None and disk.get("device") != "cdrom" else "read-only disk"
        for source in disk.iter("source"):
            # Below a backing chain all is read only; a copy of it has to be the same, though, so it counts as a disk.
            found.update({source.get(name): kind for name in ("file", "dev", "dir")})
    found.update({element.get("dir"): "directory" for element in domain.findall("./devices/filesystem/source")})
    found.update({element.text: "memory" for element in domain.findall("./devices/memory/source/path")})
    return {path: kind for path, kind in found.items() if path and path.startswith("/")}


def volumes_of(xml):
    """Disks that are volumes of a pool of libvirt's, which each host has by itself."""
    return [f"{source.get('pool')}/{source.get('volume')}" for source in parse_domain(xml).findall("./devices/disk[@type='volume']/source")]


def file_system(settings, device):
    """The type of the file system with that device number; "" if this host does not know."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = (settings.root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    words = next((line.split() for line in lines if line.split()[2] == number), None)
    return words[words.index("-") + 1] if words else ""


def name_of_disk(settings, device):
    """What a block device calls itself, on whatever host; "" if it does not."""
    own = (settings.root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    part = ""
    if (own / "partition").exists():
        part, own = f" part {(own / 'partition').read_text(encoding='ascii').strip()}", own.parent
    for name in ("wwid", "device/wwid", "dm/uuid"):
        try:
            text = (own / name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if text:
            return text + part
    return ""


def look_at(settings, path):
    """What this host has there: None, or {"same": what is equal only where the same is meant, "size": bytes of a file}."""
    try:
        found = os.stat(settings.root / path.lstrip("/"))
    except OSError:
        return None
    if stat.S_ISBLK(found.st_mode):
        return {"same": name_of_disk(settings, found.st_rdev), "size": None}
    kind = file_system(settings, found.st_dev)
    return {"same": f"{kind} {found.st_ino}" if kind in SHARED else "", "size": found.st_size if stat.S_ISREG(found.st_mode) else None}


def why_not_same(here, there, kind):
    """Why the other host may mean something else; "" if it means the same.  here, there: as look_at() has them"""
    if there is None:
        return MISSING
    if here is None or here["same"] and here["same"] == there["same"]:
        return ""
    if kind in READ_ONLY:
        return "" if here["size"] == there["size"] else "it has another size there"
    if here["same"] and there["same"]:
        return "it is another one there"
    return NOT_SHOWN
