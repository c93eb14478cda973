# SPDX-License-Identifier: GPL-2.0-only
"""How the demos tell what they do: what is typed where, what comes of it, and how it ends."""
import time

from cluster import Cluster

BEGIN = time.monotonic()


class Failed(Exception):
    """The demo did not show what it is there to show."""


def say(text):
    print(f"\n[{time.monotonic() - BEGIN:4.0f} s] {text}", flush=True)


def show(who, command, result):
    print(f"  {who}# {command}", flush=True)
    for line in result.out.rstrip().splitlines():
        print(f"    {line}", flush=True)
    return result


def must(condition, text):
    if not condition:
        raise Failed(text)
    print(f"    -> {text}: yes", flush=True)


def on(host, command, shown=None, **options):
    return show(host.name, shown or command, host.run(command, **options))


def in_guest(guest, command, shown=None, **options):
    return show("guest", shown or command, guest.run(command, **options))


def main_of(topology, first, demo, last):
    """Run a demo on a cluster of its own.  first, last: what is said before and after.  Return the exit status."""
    cluster = None
    try:
        say(first)
        with Cluster(topology) as cluster:
            demo(cluster)
    except Exception as error:  # pylint: disable=broad-except
        where = cluster.run_dir if cluster else "(no cluster was started)"
        print(f"\nDEMO FAILED: {type(error).__name__}: {error}\nlogs: {where}", flush=True)
        return 1
    print(f"\nDEMO OK in {time.monotonic() - BEGIN:.0f} s: {last}", flush=True)
    return 0
