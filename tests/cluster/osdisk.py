# SPDX-License-Identifier: GPL-2.0-only
"""A guest whose operating system came from a disk (Cluster.linux_disk), not from QEMU."""

SYSLINUX = 3    # Documentation/arch/x86/boot.rst, type_of_loader; QEMU's own would be 0xb


def booted_from_disk(t, g):
    t.equal(int(g.run("cat /proc/sys/kernel/bootloader_type").out) >> 4, SYSLINUX, "the kernel knows who loaded it")
    t.ok("BOOT_IMAGE=vmlinuz" in g.run("cat /proc/cmdline").out.split(), "which was told to by a file on that disk")
    t.equal(g.run("ls /sys/block | grep -v ^ram").out.split(), ["nvme0n1"], "and the guest has no other disk")
