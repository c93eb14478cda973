# SPDX-License-Identifier: GPL-2.0-only
"""A migration of libvirt's: its command, its end, and what libvirt tells of it."""
from dataclasses import dataclass

from remote.hosts import start_command_here
from remote.messages import print_progress


def migrate_words(move, *options):
    """virsh's words for it, but for where to."""
    return ["migrate", "--live", "--persistent", *options, *move.args.extra, "--", move.uuid]


def abort_job(move):
    start_command_here(["virsh", "domjobabort", "--", move.uuid])


def ask_to_end(move):
    print_progress(move.settings, "  the migration is asked to end")
    abort_job(move)


def job_info(host, uuid, *more):
    """Of the one that is under way: {name: number}; nothing if there is none."""
    info = {}
    for line in host.run(["virsh", "domjobinfo", "--rawstats", *more, "--", uuid]).stdout.splitlines():
        name, _, value = line.partition(":")
        if value.strip().isdigit():
            info[name.strip()] = int(value)
    return info


@dataclass(frozen=True)
class Ended:
    """seconds_still: how long the VM stood still, as its QEMU has measured it; sent: bytes of its memory; None if not known"""
    seconds_still: float
    sent: int


def ended_job(host, uuid):
    """What libvirt tells of the last one, which it does once."""
    info = job_info(host, uuid, "--completed")
    milliseconds = info.get("downtime")
    return Ended(milliseconds / 1000 if milliseconds is not None else None, info.get("memory_processed"))
