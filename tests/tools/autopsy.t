#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The test bed's autopsy of a host that somebody waits for in vain: it has guests of every kind, whatever they lack."""
import contextlib
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from domain import Domain  # noqa: E402  pylint: disable=wrong-import-position
from host import Guest, Host  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position
from wire import CommandFailed  # noqa: E402  pylint: disable=wrong-import-position


class Agent:
    """Of a host: what virsh would say, or that it does not."""

    @staticmethod
    def run(command, *_, **__):
        if "virsh" in command and "broken" in command:
            raise CommandFailed("host a", command, SimpleNamespace(status=1, out="error: no such domain", data=b""))
        return SimpleNamespace(out="RIP=1 of a domain" if "virsh" in command else "of itself", status=0)


def host(directory):
    """One that runs, with nothing behind it."""
    h = Host.__new__(Host)
    h.name, h.found, h.asked, h.slots, h.agent = "a", "", 0, [], Agent()
    h.cluster = SimpleNamespace(run_dir=Path(directory), say=lambda text: None)
    h.process = SimpleNamespace(poll=lambda: None)
    h.hmp = lambda line: f"RIP=2 {line}"
    return h


def domain(h, name):
    d = Domain(name)
    d.host, d.relay = h, SimpleNamespace(over=False)
    return d


def guest(h, name):
    """Of our own QEMU."""
    g = Guest.__new__(Guest)
    g.host, g.name, g.label, g.iommufd, g.stopped = h, name, f"a/{name}", False, False
    g.job = SimpleNamespace(over=False, gone=None)
    g.slot = SimpleNamespace(qmp=SimpleNamespace(execute=lambda *_: "RIP=3 of a guest"))
    return g


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as directory:
        h = host(directory)
        h.slots = [SimpleNamespace(guest=who) for who in (domain(h, "broken"), domain(h, "vm"), guest(h, "g"), None)]
        with contextlib.suppress(AttributeError):
            h.autopsy("a reason")
        for text, what in (("== guest a/vm: info registers", "libvirt's domain is in it"), ("| RIP=1", "  with what virsh says of it"),
                           ("== guest a/g: info registers", "a guest of our own QEMU, too"), ("| RIP=3", "  with what its monitor says"),
                           ("of itself", "and the host itself, though virsh refuses one of them")):
            t.ok(text in h.found, what, h.found)
        t.ok("of itself" in (Path(directory) / "a.autopsy").read_text(encoding="utf-8"), "it is in a file")


main()
