# SPDX-License-Identifier: GPL-2.0-only
"""What libvirt tells of a migration."""


def job_info(host, uuid, *more):
    """Of the one that is under way: {name: number}; nothing if there is none."""
    info = {}
    for line in host.run(["virsh", "domjobinfo", "--rawstats", *more, "--", uuid]).stdout.splitlines():
        name, _, value = line.partition(":")
        if value.strip().isdigit():
            info[name.strip()] = int(value)
    return info


def seconds_still(host, uuid):
    """How long the VM stood still in the last one, as its QEMU has measured it; None if that is not known."""
    milliseconds = job_info(host, uuid, "--completed").get("downtime")
    return milliseconds / 1000 if milliseconds is not None else None
