# SPDX-License-Identifier: GPL-2.0-only
"""fio, which writes a disk at random and reads it back.  Knows nothing of hosts and guests."""


def verified(disk, size="256k", offset="8m", name="verify"):
    """The command; it fails if what was read is not what was written."""
    return (f"fio --name={name} --filename={disk} --offset={offset} --size={size} --bs=4k --rw=randwrite --direct=1 "
            f"--verify=crc32c --do_verify=1 --verify_fatal=1 --ioengine=psync --minimal --output=/tmp/{name}.out")
