# SPDX-License-Identifier: GPL-2.0-only
"""A FAT16 file system with one file in it, as firmware wants to find its program on a disk.

A whole disk, without partitions.  The formats are those of Microsoft's FAT specification 1.03.
"""
import struct

SECTOR, CLUSTER = 512, 2048     # bytes
ROOT_ENTRIES = 512
FOLDER, ARCHIVE = 0x10, 0x20


def name83(name):
    stem, _, ending = name.partition(".")
    return (stem.ljust(8) + ending.ljust(3)).upper().encode("ascii")


def entry(name, kind, first, size=0):
    raw = name if isinstance(name, bytes) else name83(name)
    return struct.pack("<11sB8sHHHHI", raw, kind, bytes(8), 0, 0x21, 0x21, first, size)


def disk(size, path, data):
    """Bytes of a disk of `size` bytes that holds the file at `path`, such as "EFI/BOOT/BOOTX64.EFI"."""
    *folders, name = path.split("/")
    sectors = size // SECTOR
    table = -(-(sectors // (CLUSTER // SECTOR) + 2) * 2 // SECTOR)      # of one FAT, in sectors
    boot = struct.pack("<3s8sHBHBHHBHHHIIBBBI11s8s", b"\xeb\xfe\x90", b"DLEND", SECTOR, CLUSTER // SECTOR, 1, 2,
                       ROOT_ENTRIES, sectors if sectors < 65536 else 0, 0xf8, table, 1, 1, 0,
                       sectors if sectors >= 65536 else 0, 0x80, 0, 0x29, 1, b"DLEND      ", b"FAT16   ")
    boot = boot.ljust(510, b"\0") + b"\x55\xaa"

    # Folders have a cluster each, from the second on; the file is behind them.
    count = -(-len(data) // CLUSTER)
    chain = [0xfff8, 0xffff] + [0xffff] * len(folders)
    first = len(chain)
    chain += [first + n + 1 for n in range(count - 1)] + [0xffff]
    fat = struct.pack(f"<{len(chain)}H", *chain).ljust(table * SECTOR, b"\0")

    listing, body = [], b""
    for depth, folder in enumerate(folders):
        listing.append(entry(folder, FOLDER, 2 + depth))
    listing.append(entry(name, ARCHIVE, first, len(data)))
    for depth in range(len(folders)):
        above = 2 + depth - 1 if depth else 0
        body += (entry(b".          ", FOLDER, 2 + depth) + entry(b"..         ", FOLDER, above) +
                 listing[depth + 1]).ljust(CLUSTER, b"\0")
    image = boot + 2 * fat + listing[0].ljust(ROOT_ENTRIES * 32, b"\0") + body + data
    if len(image) > size:
        raise ValueError(f"{len(data)} bytes do not fit on a disk of {size}")
    return image.ljust(size, b"\0")
