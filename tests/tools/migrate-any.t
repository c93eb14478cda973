#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend migrate of a VM whose definition asks for any device of a type (world.py): it keeps the one that was chosen.

    The VM on a has U1, which libvirt's hook has made of P1; nothing defines it.  The hook of either host would choose P2.
"""
import contextlib
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position
from world import DETACH, KEEP, NOTHING, P1, P2, U1, World, is_refused  # noqa: E402  pylint: disable=wrong-import-position

ANY = f"<metadata><d:devices xmlns:d='urn:dlend:devices'><d:device uuid='{U1}' type='dlend-nvme'/></d:devices></metadata>"
WHOLE = {"domains": {"vm1": ("running", True)}, "definitions": [], "active": [U1], "notes": []}


@contextlib.contextmanager
def world(running=True):
    with World(uuids=(U1,), running=running, hook=True) as w:
        state = w.state()
        vm = state["a"]["vm1"]
        for what in ("xml", "live"):
            vm[what] = vm[what].replace("<devices>", f"{ANY}<devices>")
        w.state(state)
        (w.path / "a/etc/mdevctl.d" / P1 / U1).unlink()
        if not running:
            device = w.path / "a/sys/bus/mdev/devices" / U1
            shutil.rmtree(device.resolve())
            device.unlink()
        yield w


def parent(w, host):
    """The device that the VM has there; None: none"""
    path = w.path / host / "sys/bus/mdev/devices" / U1
    return path.resolve().parent.name if path.exists() else None


def prepin(w):
    return (w.path / "b/sys/bus/mdev/devices" / U1 / "prepin").read_text()


def moves(t):
    for options, name in (((), "cold"), (DETACH, "live, detached"), (KEEP, "live, kept")):
        with world() as w:
            r = w.run(*options, "vm1", "b")
            t.equal((r.returncode, w.runs(), parent(w, "b")), (0, [("b", [U1])], P1), f"{name}: the VM has the same device on b", r.stderr)
            t.equal((w.tree("a"), w.tree("b")), (NOTHING, WHOLE), "  and b has no definition of it: another time, another device")
            t.equal((w.path / "b/run/dlend" / f"hook-{U1}").read_text(), "vm1\n", "  which its hook gives back in the end")
            t.ok("urn:dlend:devices" in w.state()["b"]["vm1"]["xml"], "  the type stays in the definition")
            t.equal(prepin(w), "open\n", "  it is borrowed when QEMU opens it, unless the VM brings it along, which its module knows")
    with world() as w:
        w.definition("a", U1, P1)
        w.run("vm1", "b")
        t.equal((parent(w, "b"), w.tree("b")["definitions"]), (P1, [U1]), "one that is defined on a is defined on b, as any other")


def off(t):
    with world(running=False) as w:
        r = w.run("vm1", "b")
        t.equal((r.returncode, w.tree("a"), w.tree("b"), parent(w, "b")), (0, NOTHING, WHOLE, P2),
                "one that is shut off: b chooses when it starts there", r.stderr)
    with world(running=False) as w:
        r = w.run("--no-start", "vm1", "b")
        t.equal((r.returncode, w.tree("a"), w.tree("b")), (0, NOTHING, {**NOTHING, "domains": {"vm1": ("shut off", True)}}), "  or later", r.stderr)
    with world() as w:
        w.keep_held(P1)
        r = w.run("--no-start", "vm1", "b")
        t.equal((r.returncode, w.tree("b")["active"], w.runs()), (0, [], []), "--no-start: b need not wait for the device that it had", r.stderr)
    with world(running=False) as w:
        for address in (P1, P2):
            w.offer("b", address, state="held", borrower="5", fixed=1)
        r = w.run("vm1", "b")
        t.ok(r.returncode and "no dlend-nvme can be borrowed" in r.stderr and w.tree("b") == NOTHING and "vm1" in w.state()["a"],
             "b has none: the VM stays on a", r.stderr)


def refused(t):
    for running in (True, False):
        with world(running) as w:
            w.put("b", "etc/dlend.conf", "")
            is_refused(t, w, f"the hook is off on b; running: {running}", "it asks for any dlend-nvme", "libvirt's hook is off", words=("vm1", "b"), code=6)
    with world() as w:
        w.definition("b", U1, P2)
        is_refused(t, w, "b has a definition that names another device", "another definition", words=("vm1", "b"), code=4)
    with world() as w:
        w.offer("b", P1, link="down")
        is_refused(t, w, "b does not reach the device that it has, another one does not do", P1, "is down", words=("vm1", "b"), code=6)


def every_step(t):
    for options in ((), DETACH, KEEP):
        with world() as w:
            w.run(*options, "vm1", "b")
            calls = w.calls()
        for kind in ("refuse", "after", "lost", "lost-after"):
            for number, call in enumerate(calls, 1):
                with world() as w:
                    r = w.run(*options, "vm1", "b", fault=f"{kind} {number}")
                    host = w.runs()[0][0] if w.runs() else None
                    t.ok(w.runs() == [(host, [U1])] and parent(w, host) == P1 and "Traceback" not in r.stderr,
                         f"{' '.join(options)} {kind} {number}: {call[:50]}: the VM runs once, with its device", f"{w.runs()} {r.stderr}")
                    t.equal((w.tree("a")["definitions"], w.tree("b")["definitions"]), ([], []), "  which nobody has defined")


def finish(t):
    with world() as w:
        w.run("vm1", "b")
        calls = w.calls()
    started = next(n for n, call in enumerate(calls, 1) if call.startswith("b mdevctl start"))
    for number, call in enumerate(calls, 1):
        if not call.startswith(("b mdevctl", "b virsh start", "a mdevctl")):
            continue
        with world() as w:
            w.run("vm1", "b", fault=f"die {number}")
            w.back()
            r = w.run("--finish", "vm1", side="b")
            t.equal((r.returncode, w.runs(), parent(w, "b")), (0, [("b", [U1])], P1 if number > started else P2),
                    f"a dies at {number}: {call[:40]}: finished, with the device that was started there, or any", r.stderr)
            t.ok("mdevctl undefine" not in r.stdout, "  and no word of definitions", r.stdout)
    with world() as w:
        w.run("vm1", "b", fault=f"die {started + 1}")
        w.back()
        w.offer("b", P1, state="held", borrower="1", fixed=1)
        r = w.run("--finish", "vm1", side="b")
        t.ok(r.returncode == 4 and f"it needs {P1}: node 1 has it" in r.stderr and not w.runs(), "the device that was started there is another's", r.stderr)


with Tap() as tap:
    for part in (moves, off, refused, every_step, finish):
        tap.diag(part.__name__)
        part(tap)
