#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A VM with UEFI firmware, whose only disk is lent, boots from it: the firmware's own NVMe driver.

    host a (node 1): a guest that QEMU emulates, as OVMF and nested KVM do not go together
    (README.md) ---- ab ---- host b (node 2): nvme0
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap, uefi_disk, word_sum  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

FIRMWARE = "/usr/share/OVMF/OVMF_{}_4M.fd"
FLASH = "if=pflash,format=raw,unit={}"


def boots(t, f, b, address, uuid, turn):
    """Firmware loads a program from the lent disk, and that says what came with it."""
    body = os.urandom(64 << 10)
    b.disk_file("nvme0").write_bytes(uefi_disk(b.disk_file("nvme0").stat().st_size, body))
    flash = ["-drive", f"{FLASH.format(0)},readonly=on,file={FIRMWARE.format('CODE')}",
             "-drive", f"{FLASH.format(1)},snapshot=on,file={FIRMWARE.format('VARS')}"]
    with f.guest("a", f"uefi{turn}", wait=False, kernel=False, kvm=False, memory="128M", extra=flash,
                 devices=[f.device(uuid)]) as g:
        found = g.wait_console(r"DLEND UEFI ([0-9a-f]{8})", 900).group(1)
        t.equal(found, f"{word_sum(body):08x}", f"{turn}: boots from the lent disk, and reads right")
        t.equal(f.lender_state(address)[:2], ("held", "1"), "by a lease that firmware took")
        stats = f.stats("a", uuid)
        t.ok(stats["pinned_bytes"] >= 100 << 20, "which has the guest's RAM for its DMA", str(stats["pinned_bytes"]))
    f.wait_state("a", address, "free")


def main():
    with Tap() as t, Cluster("two-hosts.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "nvme0")
        uuid = f.mdev("a", address, "dlend-nvme")
        for turn in ("first", "again"):
            with t.case(turn):
                boots(t, f, b, address, uuid, turn)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
