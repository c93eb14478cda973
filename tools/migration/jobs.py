# SPDX-License-Identifier: GPL-2.0-only
"""A migration of libvirt's: its command, its end, and what libvirt tells of it."""
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


def seconds_still(host, uuid):
    """How long the VM stood still in the last one, as its QEMU has measured it; None if that is not known."""
    milliseconds = job_info(host, uuid, "--completed").get("downtime")
    return milliseconds / 1000 if milliseconds is not None else None


def bytes_since(host, uuid, sent):
    """What the last one has sent after it had sent so many bytes; None if that is not known."""
    total = job_info(host, uuid, "--completed").get("memory_processed")
    return total - sent if None not in (total, sent) else None
