#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend migrate, with every step failing in turn (world.py).  What it has of its own for devices that stay: migrate-live.t."""
import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from documents import check_output  # noqa: E402  pylint: disable=wrong-import-position
from fake import DLEND, TOP  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap, heed_ctrl_c  # noqa: E402  pylint: disable=wrong-import-position
from world import (DETACH, KEEP, NOTHING, P1, P2, U1, U2, VM_UUID, WHOLE, World, domain, is_refused,  # noqa: E402
                   migration, read_until, remote, replaced, xml)  # pylint: disable=wrong-import-position

TPM = '<tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm>'
OTHER = '<hostdev mode="subsystem" type="pci"><source><address domain="0x0" bus="0x1"/></source></hostdev>'

OTHERS = (
    (OTHER, "pci device"),
    ("<interface type='hostdev'><source><address type='pci' domain='0x0' bus='0x1' slot='0x0' function='0x0'/></source>"
     "</interface>", "network interface of type hostdev"),
    ("<disk type='nvme' device='disk'><source type='pci' managed='yes' namespace='1'><address domain='0x0' bus='0x1' "
     "slot='0x0' function='0x0'/></source></disk>", "disk that is a PCI device"),
    ("<disk type='file'><source file='/x'/><backingStore type='nvme'><source type='pci'/></backingStore></disk>",
     "disk that is a PCI device"),
    ("<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>", "vdpa device"),
    ("<disk type='vhostvdpa'><source dev='/dev/vhost-vdpa-0'/></disk>", "vdpa device"))
COMMAND_LINE = "<qemu:commandline><qemu:arg value='-device'/><qemu:arg value='{}'/></qemu:commandline>"


def cold(t):
    with World(autostart=True) as w:
        r = w.run("vm1", "b")
        t.equal((r.returncode, r.stdout[:18], w.tree("a"), w.tree("b")), (0, "vm1 runs on b now ", NOTHING, WHOLE),
                "cold: all of it is on b, nothing on a")
        t.equal(w.runs(), [("b", [U1, U2])], "  with both devices")
        t.ok(w.state()["b"]["vm1"]["autostart"], "  and starts there at boot, as it did here")
        definition = json.loads((w.path / "b/etc/mdevctl.d" / P1 / U1).read_text())
        t.equal(definition["attrs"], [{"clique": "1"}], "  definitions keep their attributes")
        t.ok("shut vm1 down" in r.stderr and "on b: start vm1" in r.stderr, "  each step is told", r.stderr)
    with World(running=False) as w:
        r = w.run("vm1", "b", "--no-start")
        t.equal((r.returncode, w.tree("b")["domains"], w.tree("b")["active"], w.tree("a")),
                (0, {"vm1": ("shut off", True)}, [], NOTHING), "--no-start")
    with World(running=False) as w:
        t.equal((w.run("vm1", "b").returncode, w.tree("b")), (0, WHOLE), "one that is off is started there")
    with World(uuids=()) as w:
        t.equal((w.run("vm1", "b").returncode, w.runs()), (0, [("b", [])]), "a VM without lent devices")
    with World(uuids=(U1,)) as w:
        (w.path / "a/etc/mdevctl.d" / P1 / U1).unlink()
        t.equal((w.run("vm1", "b").returncode, w.runs()), (0, [("b", [U1])]),
                "a device that was started, but never defined")
    with World(hook=True) as w:
        w.run("vm1", "b")
        marks = sorted(p.name for p in (w.path / "b/run/dlend").glob("hook-*"))
        t.equal(marks, [f"hook-{U1}", f"hook-{U2}"], "where libvirt's hook is on, it will stop what was started there")


def reserved(t):
    """A device that is reserved for the VM goes with it."""
    with World() as w:
        for parent, uuid in ((P1, U1), (P2, U2)):
            w.offer("b", parent, state="held", borrower="1", reserved=uuid)
        r = w.run("vm1", "b")
        t.equal((r.returncode, w.runs(), w.tree("a"), w.tree("b")), (0, [("b", [U1, U2])], NOTHING, WHOLE), "cold, its devices are reserved for it", r.stderr)
    with World() as w:
        w.run("vm1", "b", fault=f"die {next(n for n, call in enumerate(steps(()), 1) if call.startswith('b virsh start'))}")
        w.back()
        for parent, uuid in ((P1, U1), (P2, U2)):
            w.offer("b", parent, state="reserved", reserved=uuid)
        r = w.run("--finish", "vm1", side="b")
        t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), "  and to the end by --finish", r.stderr)


def live(t):
    with World() as w:
        r = w.run(*DETACH, "vm1", "b", "--json")
        says = json.loads(r.stdout)
        t.equal((r.returncode, w.tree("a"), w.tree("b"), w.runs()), (0, NOTHING, WHOLE, [("b", [U1, U2])]), "live")
        t.ok(says["owner"] == "there" and all(s["seconds"] >= 0 for s in says["steps"]) and
             all("progress" in json.loads(line) for line in r.stderr.splitlines()),
             "  with times of each step as JSON, and progress as JSON", r.stderr)
        t.ok('bus="0x06"' in w.state()["b"]["vm1"]["live"], "  devices keep their guest addresses")
        t.ok(not any("shutdown" in c or " b virsh start" in c for c in w.calls()), "  without a stop", str(w.calls()))


def named(t):
    """The VM by whatever virsh takes for it; what was asked for is moved, and its mark and note have its name."""
    start = next(n for n, call in enumerate(steps(()), 1) if call.startswith("b virsh start"))
    for word in ("5", VM_UUID):
        for options in ((), DETACH, KEEP):
            with World() as w:
                r = w.run(*options, word, "b")
                t.equal((r.returncode, w.tree("a"), w.tree("b"), "vm1" in r.stdout), (0, NOTHING, WHOLE, True),
                        f"by {word} {' '.join(options)}", r.stderr)
        with World() as w:
            r = w.run(word, "b", fault=f"refuse {start}")
            t.equal((r.returncode, w.runs(), w.tree("a"), "vm1 is running here, as before" in r.stderr),
                    (1, [("a", [U1, U2])], WHOLE, True), "  and back", r.stderr)
        with World(hook=True) as w:
            w.run(word, "b")
            marks = [path.read_text() for path in sorted((w.path / "b/run/dlend").glob("hook-*"))]
            t.equal(marks, ["vm1\n"] * 2, "  the marks for libvirt's hook have its name")
    for word in ("vm1", VM_UUID):
        with World() as w:
            w.run("5", "b", fault=f"die {start}")
            w.back()
            r = w.run("--finish", word, side="b")
            t.equal((r.returncode, w.runs(), w.tree("b")["notes"]), (0, [("b", [U1, U2])], []), f"--finish {word}",
                    r.stderr)


def named_as_a_number(t):
    """It is called 3, and libvirt's id of another VM is 3, on both hosts."""
    def moved(w):
        return [[name for name, d in w.state()[host].items() if d["state"] == "running"] for host in "ab"]

    def world():
        return World(name="3", others=[("other", 3)], autostart=True)
    calls = steps(())
    start, last = (next(n for n, call in enumerate(calls, 1) if call.startswith(what))
                   for what in ("b virsh start", "a virsh undefine"))
    for options in ((), DETACH):
        with world() as w:
            r = w.run(*options, VM_UUID, "b")
            t.equal((r.returncode, moved(w)), (0, [["other"], ["other", "3"]]),
                    f"one whose name is the id of another VM {' '.join(options)}", r.stderr)
    with world() as w:
        r = w.run(VM_UUID, "b", fault=f"refuse {start}")
        t.equal((r.returncode, moved(w)), (1, [["other", "3"], ["other"]]), "  and back", r.stderr)
    with world() as w:
        r = w.run(VM_UUID, "b", fault=f"refuse {last}")
        t.ok(f"virsh undefine --keep-nvram {VM_UUID}" in r.stderr, "  by hand it has its UUID", r.stderr)
    with world() as w:
        w.run(VM_UUID, "b", fault=f"die {start}")
        r = w.run("--finish", "--force", "3", side="b")
        t.equal((r.returncode, moved(w)), (0, [[], ["other", "3"]]), "--finish 3, as the note has it", r.stderr)
        t.ok(f"--keep-nvram {VM_UUID};" in r.stdout, "  and then by its UUID", r.stdout)
    for options in ((), DETACH):
        with world() as w:
            s = w.state()
            del s["a"]["other"]
            w.state(s)
            r = w.run(*options, "3", "b")
            t.equal((r.returncode, moved(w)), (0, [[], ["other", "3"]]),
                    f"by its name, which is an id on the other host {' '.join(options)}", r.stderr)
    with world() as w:
        r = w.run("3", "b")
        t.ok(r.returncode == 4 and "has a VM other already" in r.stderr, "3 alone is the VM with that id, as for virsh",
             r.stderr)


def dry(t):
    for options in ((), DETACH, KEEP):
        with World() as w:
            before = w.tree("a"), w.tree("b")
            r = w.run("--dry-run", *options, "vm1", "b")
            t.equal((r.returncode, w.calls(), (w.tree("a"), w.tree("b"))), (0, [], before),
                    f"--dry-run {options}: no change")
            t.ok("on b: define" in r.stdout and ("migrate vm1 to b" if options else "shut vm1 down") in r.stdout,
                 "  and all steps", r.stdout)
    with World() as w:
        steps = json.loads(w.run("--dry-run", "--json", "vm1", "b").stdout)["steps"]
        t.ok(len(steps) > 8 and steps[0]["step"], "  as JSON")


def sound(t, w, r, name):
    """However it ended: one owner, and a word about what to do."""
    runs = w.runs()
    good = runs in ([("a", [U1, U2])], [("b", [U1, U2])])
    t.ok(good, f"{name}: the VM runs once, with its devices", f"{runs}\n{r.stdout}{r.stderr}")
    t.ok("Traceback" not in r.stderr and (r.returncode == 0 or r.stderr.count("\n")), "  and no surprise", r.stderr)
    return runs[0][0] if runs else None


def clean(t, w, r, name, where):
    """What is left on the host that does not have it must have been told."""
    other = "b" if where == "a" else "a"
    left = w.tree(other)
    for uuid in left["definitions"]:
        t.ok(f"mdevctl undefine -u {uuid}" in r.stderr, f"  {name}: a definition that is left is told", r.stderr)
    for uuid in left["active"]:
        t.ok(f"mdevctl stop -u {uuid}" in r.stderr or f"mdevctl start -u {uuid}" in r.stderr or
             f"start {uuid}" in r.stderr, f"  {name}: a device that is left is told", r.stderr)
    if left["domains"]:
        t.ok("virsh undefine" in r.stderr, f"  {name}: a domain that is left is told", r.stderr)


def steps(options):
    with World(autostart=True) as w:
        w.run(*options, "vm1", "b")
        return w.calls()


def every_step(t):
    for options in ((), DETACH, KEEP):
        calls = steps(options)
        for kind in ("refuse", "after", "lost", "lost-after"):
            for number, call in enumerate(calls, 1):
                with World(autostart=True) as w:
                    r = w.run(*options, "vm1", "b", fault=f"{kind} {number}")
                    name = f"{' '.join(options)} {kind} {number}: {call[:50]}"
                    where = sound(t, w, r, name)
                    t.equal(where == "a", "before" in r.stderr, "  what it says is so")
                    clean(t, w, r, name, where)


def two_faults(t):
    """What is to undo a step fails as well: nobody can put it right, but it must never run twice."""
    for options in ((), DETACH, KEEP):
        count = len(steps(options))
        for first in range(1, count + 1):
            for second in range(first + 1, first + 8):
                with World() as w:
                    r = w.run(*options, "vm1", "b", fault=f"two {first} {second}")
                    runs = w.runs()
                    ok = len(runs) <= 1 and "Traceback" not in r.stderr
                    if runs and len(runs[0][1]) < 2 or not runs:
                        ok &= r.returncode != 0 and ("by hand" in r.stderr or "virsh" in r.stderr)
                    if not ok:
                        t.ok(False, f"two faults {options} {first} {second}", f"{runs} {r.stderr}")
                        return
        t.passed(f"two faults {' '.join(options)}: never twice, and told")


def late_start(t):
    """ssh breaks as virsh starts the VM there, which goes on meanwhile."""
    for uuids in ((), (U1, U2)):
        with World(uuids=uuids) as w:
            w.run("vm1", "b")
            start = next(n for n, call in enumerate(w.calls(), 1) if call.startswith("b virsh start"))
        with World(uuids=uuids) as w:
            r = w.run("vm1", "b", fault=f"late {start}")
            t.equal((r.returncode, w.runs()), (1, [("a", list(uuids))]),
                    f"it starts there late, with {len(uuids)} devices: not before it is taken away there", r.stderr)


def long_start(t):
    """A VM of hundreds of GiB: its start takes longer than any other command may."""
    def impatient(old, command, stdin, timeout):
        if timeout and "virsh start" in " ".join(command):
            return subprocess.CompletedProcess(command, 255, "", f"no end after {timeout} s")
        return old(command, stdin, timeout)
    with replaced(remote.hosts, "run_to_its_end", impatient):
        with World() as w:
            r = w.run("vm1", "b")
            t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), "the target is given the time that the start of a large VM takes", r.stderr)
        with World() as w:
            first = next(n for n, call in enumerate(steps(()), 1) if call.startswith("b virsh start"))
            r = w.run("vm1", "b", fault=f"refuse {first}")
            t.equal((r.returncode, w.runs()), (1, [("a", [U1, U2])]), "  and so is this host, if it has to start it again", r.stderr)
        with World() as w:
            w.run("vm1", "b", fault=f"die {first}")
            w.back()
            r = w.run("--finish", "vm1", side="b")
            t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), "  and --finish gives it, too", r.stderr)


def target_gone(t):
    """The other host stops answering at each step."""
    for options in ((), DETACH, KEEP):
        for number, call in enumerate(steps(options), 1):
            with World() as w:
                r = w.run(*options, "vm1", "b", fault=f"gone {number}")
                runs = w.runs()
                # Of a live migration only the last steps meet this with the VM over there
                t.ok(len(runs) <= 1 and "Traceback" not in r.stderr and (r.returncode == 0 or "virsh" in r.stderr or
                     "as before" in r.stderr or "not all was tidied up" in r.stderr),
                     f"{' '.join(options)} b gone at {number}: {call[:40]}", f"{runs} {r.stderr}")
                if not runs:
                    t.ok("not known whether" in r.stderr and "There: virsh domstate" in r.stderr,
                         "  neither side can tell: nothing is started, and both ways on are told", r.stderr)


def source_dies(t):
    """As the host is gone, people have to say that it does not run the VM.  When it is back, it says so itself."""
    calls = steps(())
    for force in ((), ("--force",)):
        finished = 0
        for number, call in enumerate(calls, 1):
            with World() as w:
                w.run("vm1", "b", fault=f"die {number}")
                before = w.runs()
                if not force:
                    r = w.run("--finish", "vm1", side="b")
                    t.ok(w.runs() == before and (r.returncode or before), f"a dies at {number}: {call[:40]}: not started", r.stderr)
                    w.back()
                r = w.run("--finish", *force, "vm1", side="b")
                if r.returncode:
                    t.ok(w.runs() == before and r.returncode == 3 and "has not come so far" in r.stderr and
                         "Start it there" in r.stderr, f"{force}: told that a has it still", f"{w.runs()} {r.stderr}")
                    t.ok("vm1" in w.state()["a"], "  which it has")
                else:
                    finished += 1
                    t.equal((w.runs(), w.tree("b")["notes"]), ([("b", [U1, U2])], []),
                            f"{force}: finished on b, when a has died at {number}", r.stderr)
                    t.ok("mdevctl undefine" in r.stdout, "  and told what to do there", r.stdout)
        t.ok(finished >= 8, "all can be finished that b knows of", str(finished))


def source_killed(t):
    """Only the program is, on a host that lives: it may run the VM, or have it shut off."""
    for number, call in enumerate(steps(()), 1):
        for force in ((), ("--force",)):
            with World() as w:
                w.run("vm1", "b", fault=f"killed {number}")
                before = w.runs()
                r = w.run("--finish", *force, "vm1", side="b")
                name = f"the program is killed at {number}: {call[:40]}; --finish {' '.join(force)}"
                if before:
                    t.ok(w.runs() == before and (r.returncode in (3, 4) or before[0][0] == "b"), f"{name}: runs where it ran",
                         f"{w.runs()} {r.stderr}")
                else:
                    t.equal((r.returncode, w.runs(), w.state()["a"]), (0, [("b", [U1, U2])], {}),
                            f"{name}: finished, and a has no definition of it", r.stderr)


def finish_json(t):
    start = next(n for n, call in enumerate(steps(()), 1) if call.startswith("b virsh start"))
    with World() as w:
        w.run("vm1", "b", fault=f"die {start}")
        w.back()
        r = w.run("--json", "--finish", "vm1", side="b")
        says = json.loads(r.stdout) if r.stdout.startswith("{") else {}
        t.equal((r.returncode, says.get("vm"), says.get("owner")), (0, "vm1", "here"), "--json --finish",
                r.stdout)
        t.equal([step["step"] for step in says.get("steps", [])],
                [f"ask {socket.gethostname()} to let vm1 go", f"start {U1}", f"start {U2}", "start vm1"], "  with its steps")
        t.ok(f"mdevctl undefine -u {U2}" in says.get("todo", "") and "virsh" not in says["todo"],
             "  and what to do on a, which has no definition of the VM any more", r.stdout)
        r = w.run("--json", "--finish", "vm1", side="b")
        t.equal((r.returncode, json.loads(r.stdout or "{}").get("steps")), (0, []), "  once more: nothing to do")


@contextlib.contextmanager
def half_moved(uuids=(U1, U2), back=True):
    """A world whose host a has died as b was to start the VM.  back: it answers again"""
    with World(uuids=uuids) as w:
        w.run("vm1", "b")
        start = next(n for n, call in enumerate(w.calls(), 1) if call.startswith("b virsh start"))
    with World(uuids=uuids) as w:
        w.run("vm1", "b", fault=f"die {start}")
        if back:
            w.back()
        yield w


def not_finished(t, w, name, code, *parts, words=("--finish",), runs=()):
    before = w.state()
    r = w.run(*words, "vm1", side="b")
    t.ok(r.returncode == code and all(part in r.stderr for part in parts) and "Traceback" not in r.stderr, name,
         f"{r.returncode} {r.stderr}")
    t.equal((w.runs(), w.state()), (list(runs), before), "  nothing is started, and nothing has changed")


def finish_asks(t):
    """Two hosts must never run it: the other one is asked, and lets it go first."""
    forced = ("--finish", "--force")
    with half_moved(back=False) as w:
        not_finished(t, w, "--finish, and a cannot be asked", 6, "cannot be asked whether it runs vm1", "no route",
                     "dlend migrate --finish --force vm1", "without power")
        r = w.run(*forced, "vm1", side="b")
        t.equal((r.returncode, w.runs(), w.tree("b")["notes"]), (0, [("b", [U1, U2])], []), "  --force goes on", r.stderr)
        t.ok("virsh undefine --keep-nvram vm1" in r.stdout, "  and says what to do when a is back", r.stdout)
    with half_moved() as w:
        r = w.run("--finish", "vm1", side="b")
        t.equal((r.returncode, w.runs(), w.state()["a"]), (0, [("b", [U1, U2])], {}),
                "a is back: it is asked, and its definition goes", r.stderr)
    for state in ("running", "paused"):
        with half_moved(uuids=()) as w:
            s = w.state()
            s["a"]["vm1"].update(state=state, live=s["a"]["vm1"]["xml"])
            w.state(s)
            runs = [("a", [])] if state == "running" else []
            for words in (("--finish",), forced):
                not_finished(t, w, f"a is back, and has it {state}: {words}", 4, "does not give vm1 away", f"it is {state}",
                             words=words, runs=runs)
    with half_moved() as w, open(w.path / f"a/run/dlend/migrate-{VM_UUID}.lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for words in (("--finish",), forced):
            not_finished(t, w, f"a still moves it: {words}", 4, "being moved already", words=words)
    with half_moved() as w, open(w.path / f"b/run/dlend/migrate-{VM_UUID}.lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        not_finished(t, w, "two administrators", 4, "being moved already", words=forced)
    with half_moved() as w:
        s = w.state()
        del s["a"]["vm1"]
        w.state(s)
        not_finished(t, w, "a does not have it any more: it may have gone to a third host", 3, "another host may run vm1",
                     "--force")
        t.equal((w.run(*forced, "vm1", side="b").returncode, w.runs()), (0, [("b", [U1, U2])]), "  --force goes on")
    with half_moved() as w:
        w.put("a", "etc/machine-id", f"{'c' * 32}\n")
        not_finished(t, w, "another host answers to the name", 3, "this is another host", "--force")
    with half_moved(uuids=()) as w:
        (w.path / "starts").touch()
        r = w.run("--finish", "vm1", side="b")
        t.equal((r.returncode, w.runs(), w.state()["a"]["vm1"]["persistent"]), (4, [("a", [])], True),
                "it starts on a just as its definition goes: it keeps that, and runs there", r.stderr)
    for uuids in ((U1, U2), ()):
        with half_moved(uuids) as w:
            (w.path / f"b/run/dlend/moving-{VM_UUID}").unlink()
            not_finished(t, w, "no note", 3, "no move of vm1 to this host is known", "--force")
            t.equal((w.run(*forced, "vm1", side="b").returncode, w.runs()), (0, [("b", list(uuids))]), "  --force goes on")


def finish_again(t):
    """A --finish that fails half way, or is interrupted, can be called once more."""
    for kind in ("refuse", "after"):
        for number in range(1, 5):
            with half_moved() as w:
                shutil.rmtree(w.path / "b/sys/bus/mdev/devices")
                (w.path / "b/sys/bus/mdev/devices").mkdir()
                for uuid in (U1, U2):
                    shutil.rmtree(next((w.path / "b/sys/devices/dlend").glob(f"*/{uuid}")))
                first = w.run("--finish", "vm1", side="b", fault=f"{kind} {len(w.calls()) + number}")
                runs = w.runs()
                r = w.run("--finish", "vm1", side="b")
                t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), f"{kind} {number} in --finish, and then once more",
                        f"{runs} {first.stderr} {r.stderr}")
                t.ok("Traceback" not in first.stderr + r.stderr, "  without a surprise", first.stderr + r.stderr)

    def interrupted_there(_old, *_):
        signal.raise_signal(signal.SIGINT)
    with half_moved() as w:
        with replaced(migration.mdevs, "read_offer", interrupted_there):
            not_finished(t, w, "Ctrl-C while it waits for a device", 1, "was interrupted", "nothing was changed")
        t.equal(w.run("--finish", "vm1", side="b").returncode, 0, "  and then once more")
    with World() as w:
        w.run("vm1", "b")
        w.put("b", f"run/dlend/moving-{VM_UUID}", "vm1\na\nreleased\n")
        r = w.run("vm1", "a", side="b")
        t.equal((r.returncode, w.runs(), w.tree("b")["notes"]), (0, [("a", [U1, U2])], []),
                "an old note does not outlive that the VM leaves", r.stderr)


def finish_refused(t):
    """The lender's word counts."""
    with half_moved() as w:
        r = subprocess.run([DLEND, "--root", w.path / "b", "status"], capture_output=True, text=True, check=False)
        t.ok(f"vm1 was to move here from {socket.gethostname()};" in r.stdout and
             "dlend migrate --finish vm1" in r.stdout,
             "dlend status on b tells of the move, and what to do", r.stdout)
        r = subprocess.run([DLEND, "--root", w.path / "b", "--json", "status"], capture_output=True, text=True,
                           check=False)
        check_output(r.args, r.stdout)
        t.equal(json.loads(r.stdout)["moves"][0]["vm"], "vm1", "  as JSON, too")
        w.offer("b", P2, state="held", borrower="5", fixed=1)
        for words in (("--finish",), ("--finish", "--force")):
            not_finished(t, w, f"{words} does not take what somebody has", 4, "node 5 has it", "reclaim", words=words)
        w.offer("b", P2, state="gone", link="down", fixed=1)
        not_finished(t, w, "  nor what it cannot reach", 4, "link to its lender is down")
    with World() as w:
        not_finished(t, w, "--finish without a move", 3, "not defined here", runs=[("a", [U1, U2])])
        r = w.run("--force", "vm1", "b")
        t.equal((r.returncode, w.calls()), (2, []), "--force goes with --finish only", r.stderr)


def pooled(t):
    """A network of libvirt's has a device for an interface on each host."""
    mac = '<mac address="52:54:00:00:00:01"/>'
    with World(more=f"<interface type='network'>{mac}<source network='pool'/></interface>") as w:
        s = w.state()
        s["a"]["vm1"]["live"] = s["a"]["vm1"]["live"].replace("interface type='network'", "interface type='hostdev'")
        w.state(s)
        r = w.run("vm1", "b")
        t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), "a device that a network lends is no obstacle",
                r.stderr)


def refused(t):
    """Nothing is changed."""
    def check(w, *told, words=("vm1", "b"), **more):
        is_refused(t, w, *told, words=words, **more)

    with World() as w:
        shutil.rmtree(w.path / "b/sys/bus/dlend/devices" / P2)
        check(w, "the other host has no link to the lender", P2, "no link", code=6)
    with World() as w:
        w.offer("b", P2, link="down", state="gone", fixed=1)
        check(w, "its link is down", P2, "link to the lender, node 3, is down", code=6)
    with World() as w:
        w.offer("b", P1, state="held", borrower="5", fixed=1)
        check(w, "a third node has the device", "node 5 has it", "reclaim", code=4)
    with World() as w:
        w.offer("b", P1, state="quarantined", fixed=1)
        check(w, "quarantined", "reset has failed", code=4)
    for other, what in OTHERS:
        with World(more=other) as w:
            check(w, "a device that is no lent one", what, "part of this host", code=4)
    with World(more="<iommu model='intel'/>") as w:
        check(w, "a virtual IOMMU", "virtual IOMMU", "<iommu>", code=4)
    with World(more="<iommu model='intel'/>", uuids=()) as w:
        t.equal(w.run("--dry-run", "vm1", "b").returncode, 0, "  of a VM without lent devices is none of our business")
    for argument, is_device in (("vfio-pci,host=0000:01:00.0", True), ('{"driver":"vfio-pci","host":"01:00.0"}', True),
                                ("vfio-pci,id=x,sysfsdev=/sys/bus/pci/devices/0000:01:00.0", True), ("virtio-rng-pci", False)):
        with World() as w:
            state = w.state()
            state["a"]["vm1"]["xml"] = xml(U1, U2).replace("<qemu:override>", COMMAND_LINE.format(argument.replace('"', "&quot;")) + "<qemu:override>")
            w.state(state)
            if is_device:
                check(w, f"a device of this host by QEMU's own words: {argument}", "<qemu:commandline>", "part of this host", code=4)
            else:
                t.equal(w.run("--dry-run", "vm1", "b").returncode, 0, "  another device of QEMU's is none of this host")
    with World() as w, open(w.path / f"a/run/dlend/migrate-{VM_UUID}.lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shutil.rmtree(w.path / "b/sys/bus/dlend/devices" / P2)
        check(w, "another move of it is under way: nothing is looked at before that is over", "being moved already",
              code=4)
    for running in (False, True):
        # Both VMs name it, and one of them has it
        with World(uuids=(U1,) if not running else (), running=running, others=[("vm2", 3)]) as w:
            s = w.state()
            s["a"]["vm2"] = domain(xml(U1, uuid=VM_UUID.replace("9", "7"), name="vm2"), number=3)
            s["a"]["vm1"]["xml"] = xml(U1)
            s["b"] = {}
            w.state(s)
            if running:
                w.definition("a", U1, P1)
                w.active("a", U1, P1)
            w.leases("held", "1")
            check(w, "another VM of this host has the device", "another VM of this host has it", code=4)
            t.equal(w.calls(), [], "  no call changed anything")
    for running in (True, False):
        with World(more=TPM, running=running) as w:
            check(w, "a TPM whose state would stay", "emulated TPM", f"/var/lib/libvirt/swtpm/{VM_UUID}",
                  "--shared-tpm", code=4)
    for options in ((), DETACH, ("--shared-tpm",)):
        with World(more='<tpm model="tpm-tis"><backend type="passthrough"/></tpm>', running=True) as w:
            check(w, "a TPM that is this host's", "passthrough", "virsh edit", words=(*options, "vm1", "b"), code=4)
    with World(more='<tpm model="tpm-tis"><backend type="external"/></tpm>', running=True) as w:
        check(w, "a TPM of somebody else's", "external", "--shared-tpm", words=(*DETACH, "vm1", "b"), code=4)
    with World() as w:
        check(w, "no such VM", "no VM vm2", words=("vm2", "b"), code=3)
    with World() as w:
        (w.path / "gone").touch()
        check(w, "the other host does not answer", "b cannot be asked", "without a password", code=6)
    with World() as w:
        w.definition("b", U1, P1, mdev_type="dlend-nic")
        check(w, "another definition there", "another definition", "mdevctl undefine", code=4)
    with World() as w:
        w.put("b", "etc/machine-id", f"{'a' * 32}\n")
        check(w, "the same host", "is this host", code=2)
    for state in ("paused", "crashed", "pmsuspended", "in shutdown"):
        with World() as w:
            s = w.state()
            s["a"]["vm1"]["state"] = state
            w.state(s)
            check(w, f"a VM that is {state}", f"it is {state}", code=4)
    with World() as w:
        s = w.state()
        s["b"]["vm1"] = {**s["a"]["vm1"], "state": "shut off", "live": "", "xml": xml(uuid=VM_UUID.replace("9", "8"))}
        w.state(s)
        check(w, "another VM of that name there", "has a VM vm1 already", "another one", code=4)
    with World() as w:
        s = w.state()
        s["a"]["vm1"]["persistent"] = False
        w.state(s)
        check(w, "a transient VM", "transient", "virsh define")
    with World(running=False) as w:
        s = w.state()
        s["a"]["vm1"]["saved"] = True
        w.state(s)
        check(w, "a VM that was saved", "managedsave-remove", code=4)
    with World(running=False) as w:
        check(w, "--live with one that is off", "Leave out --live", words=(*DETACH, "vm1", "b"))
    with World() as w:
        check(w, "a host that is an option", words=("vm1", "-oProxyCommand=x"), code=2)


class Storage(World):
    """Host b has some of host a's files: the same ones, as on storage that is shared, if the file system is of that kind."""

    def __init__(self, more, kind="nfs4", **options):
        super().__init__(more=more, **options)
        device = os.stat(self.path).st_dev
        for host in "ab":
            self.put(host, "proc/self/mountinfo", f"29 1 {os.major(device)}:{os.minor(device)} / / rw shared:1 - {kind} server:/x rw\n")

    def share(self, name):
        self.put("a", name, "of a")
        (self.path / "b" / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(self.path / "a" / name, self.path / "b" / name)


def files(t):
    """What the definition names by its path has to be the same on the target."""
    disk, cdrom = "<disk type='file' device='disk'><source file='/vm/disk'/></disk>", "<disk device='cdrom'><source file='/vm/cd'/><readonly/></disk>"
    backed = "<disk type='file'><source file='/vm/top'/><backingStore type='file'><source file='/vm/disk'/></backingStore></disk>"
    folder, memory = "<filesystem type='mount'><source dir='/vm'/></filesystem>", "<memory model='nvdimm'><source><path>/vm/disk</path></source></memory>"
    for more, kind, why in ((disk, "ext4", "nothing shows that it is the same one there"), (disk, "nfs4", ""), (disk, "xfs", "nothing shows"),
                            (backed, "ext4", "nothing shows"), (backed, "ceph", ""), (folder, "tmpfs", "nothing shows"), (folder, "virtiofs", "it is another one there"),
                            (memory, "ext4", "nothing shows"), (cdrom, "ext4", ""), (disk + cdrom, "gfs2", "")):
        with Storage(more, kind) as w:
            for name in ("disk", "top", "cd"):
                w.share(f"vm/{name}")
            r = w.run("--dry-run", "vm1", "b")
            t.ok((r.returncode == 4 and why in r.stderr and "--shared-disks" in r.stderr) if why else r.returncode == 0, f"{kind}: {more[:40]}: {why or 'the same'}", r.stderr)
            if why:
                r = w.run("--dry-run", "--shared-disks", "vm1", "b")
                t.equal(r.returncode, 0, "  with --shared-disks it moves", r.stderr)
    for name, there, why in (("disk", None, "it is not there"), ("disk", "of b", "it is another one there"), ("cd", "as a", ""), ("cd", "another", "it has another size there")):
        with Storage(disk + cdrom) as w:
            w.share("vm/disk" if name == "cd" else "vm/cd")
            w.put("a", f"vm/{name}", "of a")
            if there:
                w.put("b", f"vm/{name}", there)
            for options in ((), DETACH, KEEP):
                r = w.run("--dry-run", *options, "vm1", "b")
                t.ok((r.returncode == 4 and f"/vm/{name}: {why}" in r.stderr) if why else r.returncode == 0, f"{' '.join(options)} {name}, {there} there: {why}", r.stderr)
            r = w.run("--dry-run", "--shared-disks", "vm1", "b")
            t.equal(r.returncode, 0 if there else 4, "  --shared-disks does not help where there is nothing", r.stderr)
            r = w.run("--dry-run", *KEEP, "--extra=--copy-storage-all", "vm1", "b")
            t.equal(r.returncode, 4 if name == "cd" and why else 0, "  libvirt may copy a disk", r.stderr)
    for more in ("<disk type='volume'><source pool='default' volume='x'/></disk>",):
        with Storage(more) as w:
            r = w.run("--dry-run", "vm1", "b")
            t.ok(r.returncode == 4 and "disk default/x: nothing shows" in r.stderr, "a volume of a pool, which each host has by itself", r.stderr)
    with Storage("") as w:
        state = w.state()
        for nvram in ("<nvram template='/fw/x'>/vm/vars</nvram>", "<nvram type='file'><source file='/vm/vars'/></nvram>"):
            state["a"]["vm1"]["xml"] = xml(U1, U2).replace("<memory", f"<os><loader>/fw/code</loader>{nvram}</os><memory")
            w.state(state)
            for host in "ab":
                w.put(host, "fw/code", "the same")
                w.put(host, "vm/vars", f"of {host}")
            r = w.run("--dry-run", "vm1", "b")
            t.ok(r.returncode == 4 and "UEFI variables /vm/vars: it is another one" in r.stderr, "UEFI variables", r.stderr)
            r = w.run("--dry-run", *KEEP, "vm1", "b")
            t.equal(r.returncode, 0, "  QEMU brings those of a VM that runs on", r.stderr)
    names = migration.files.name_of_disk
    with Storage("") as w:
        for number, files_there, name in (("8:0", {"device/wwid": "naa.5000"}, "naa.5000"), ("259:0", {"wwid": "eui.1"}, "eui.1"), ("253:0", {"dm/uuid": "LVM-abc"}, "LVM-abc"), ("7:0", {}, "")):
            for file, text in {**files_there, "size": "8"}.items():
                w.put("a", f"sys/dev/block/{number}/{file}", f"{text}\n")
            settings, (major, minor) = types.SimpleNamespace(root=w.path / "a"), map(int, number.split(":"))
            t.equal(names(settings, os.makedev(major, minor)), name, f"what disk {number} calls itself: {name!r}")
        w.put("a", "sys/dev/block/8:0/sda2/partition", "2\n")
        (w.path / "a/sys/dev/block/8:2").symlink_to("8:0/sda2")
        t.equal(names(settings, os.makedev(8, 2)), "naa.5000 part 2", "  and a partition")
    same = {"same": "naa.1", "size": None}
    for here, there, why in ((same, same, ""), (same, {"same": "naa.2", "size": None}, "another one"), ({"same": "", "size": None}, {"same": "", "size": None}, "nothing shows"), (same, None, "not there")):
        t.ok(why in migration.files.why_not_same(here, there, "disk") and bool(why) == bool(migration.files.why_not_same(here, there, "disk")), f"disks {here} and {there}: {why}")


def tpm(t):
    """Its state may be the key to the guest's disk; both hosts have it in one place."""
    state = f"var/lib/libvirt/swtpm/{VM_UUID}/tpm2/tpm2-00.permall"
    calls = steps(())
    start, last = (next(n for n, call in enumerate(calls, 1) if call.startswith(what))
                   for what in ("b virsh start", "a virsh undefine"))
    for options, fault in ((("--shared-tpm",), ""), (DETACH, ""), (("--shared-tpm",), f"refuse {start}"),
                           (DETACH, "refuse 9")):
        with World(more=TPM) as w:
            w.put("a", state, "secret")
            (w.path / "b/var").symlink_to(w.path / "a/var")
            r = w.run(*options, "vm1", "b", fault=fault)
            t.equal((r.returncode, w.runs(), (w.path / "a" / state).exists()),
                    (int(bool(fault)), [("a" if fault else "b", [U1, U2])], True),
                    f"the state of a TPM is kept: {options} {fault}", r.stderr)
    with World(more=TPM, autostart=True) as w:
        r = w.run("--shared-tpm", "vm1", "b", fault=f"refuse {last}")
        t.ok("virsh undefine --keep-nvram --keep-tpm vm1" in r.stderr, "  by hand, too", r.stderr)


def old_libvirt(t):
    """Its virsh undefine may not know --keep-tpm, which matters to a VM that has a TPM."""
    start = next(n for n, call in enumerate(steps(()), 1) if call.startswith("b virsh start"))
    for host in "ab":
        for options in ((), DETACH, KEEP):
            with World() as w:
                (w.path / f"old-libvirt-{host}").touch()
                r = w.run(*options, "vm1", "b")
                t.equal((r.returncode, w.tree("a"), w.tree("b")), (0, NOTHING, WHOLE),
                        f"old libvirt on {host}, {options}: nothing is left here", r.stderr)
        with World() as w:
            (w.path / f"old-libvirt-{host}").touch()
            r = w.run("vm1", "b", fault=f"refuse {start}")
            t.equal((r.returncode, w.tree("a"), w.tree("b")), (1, WHOLE, NOTHING), "  nor there, when it comes back",
                    r.stderr)
        for options in (("--shared-tpm",), DETACH):
            with World(more=TPM) as w:
                (w.path / f"old-libvirt-{host}").touch()
                is_refused(t, w, f"old libvirt on {host}, {options}: a VM with a TPM", "would remove the state of its TPM",
                           "Update libvirt", words=(*options, "vm1", "b"), code=6)


def patience(t):
    with World() as w:
        (w.path / "deaf").touch()
        r = w.run("vm1", "b")
        t.ok(r.returncode and "did not shut down" in r.stderr and "virsh destroy" in r.stderr,
             "a guest that does not listen", r.stderr)
        t.equal((w.runs(), w.tree("b")), ([("a", [U1, U2])], NOTHING), "  runs on, and nothing is left there")
    with World() as w:
        (w.path / "keeps").touch()
        r = w.run(*DETACH, "vm1", "b")
        t.ok(r.returncode and "does not let" in r.stderr and "Unmount" in r.stderr,
             "a guest that keeps its device", r.stderr)
        t.equal((w.runs(), w.tree("b")), ([("a", [U1, U2])], NOTHING), "  keeps it")
        t.ok("may still do so" in r.stderr and "attach-device" in r.stderr, "  and may let it go later, which is told",
             r.stderr)
    with World() as w:
        (w.path / "stuck").touch()
        r = w.run("vm1", "b")
        t.ok(r.returncode == 4 and "node 5 still has it" in r.stderr and "reclaim" in r.stderr,
             "the lease stays held", r.stderr)
        t.equal((w.tree("b"), w.state()["a"]["vm1"]["state"]), (NOTHING, "shut off"), "  the VM stays where it was")
        t.ok("vm1 is shut off here" in r.stderr and all(f"mdevctl start -u {u}" in r.stderr for u in (U1, U2)) and
             "virsh start vm1" in r.stderr, "  and how to start it is told", r.stderr)


def told_why(t):
    """The words of the program that failed, not those around them."""
    with World() as w:
        # Somebody has made one of another type there meanwhile
        def start(old, host, mdev, vm):
            if not host.ssh:
                old(host, mdev, vm)
            else:
                host.run_checked(["mdevctl", "start", "-u", mdev.uuid, "-p", P1 if mdev.parent == P2 else P2])
        with replaced(migration.mdevs, "start_mdev", start):
            r = w.run("vm1", "b")
        t.ok(r.returncode and "cannot be used here: not defined; vm1 is running here, as before" in r.stderr and
             "unknown" not in r.stderr, "mdevctl's reason is told, without its backtrace", r.stderr)
    lost = subprocess.CompletedProcess([], 255, "Domain started", "")
    t.equal(remote.hosts.reason_of(lost), "the connection broke", "a connection that broke is told as such")


def again(t):
    """A definition that an earlier move has left there is no obstacle, and comes back if this one fails."""
    with World() as w:
        s = w.state()
        s["b"]["vm1"] = {"state": "shut off", "live": "", "xml": xml(), "persistent": True}
        w.state(s)
        w.definition("b", U1, P1)
        count = len(w.calls())
        r = w.run("vm1", "b", fault="refuse 8")
        t.equal((r.returncode != 0, w.tree("b")["definitions"], U1 in w.state()["b"]["vm1"]["xml"]),
                (True, [U1], False), "what was there before is there again")
        r = w.run("vm1", "b")
        t.equal((r.returncode, w.tree("b"), w.tree("a"), count), (0, WHOLE, NOTHING, 0), "and then it works")
    with World() as w:
        s = w.state()
        old = xml(more="<!-- of old -->")
        s["b"]["vm1"] = domain(old, running=False)
        w.state(s)
        (w.path / "no-attach-on-b").touch()
        r = w.run(*DETACH, "vm1", "b")
        t.equal((r.returncode != 0, w.runs(), w.state()["b"]["vm1"]["xml"].strip()),
                (True, [("a", [U1, U2])], old), "--live that comes back: the other host's definition is as it was")


def started_by_udev(t):
    """A definition with --auto: udev starts the device as it is offered there, and mdevctl finds it made already."""
    for options in ((), KEEP, DETACH):
        starts = [number for number, call in enumerate(steps(options), 1) if call.startswith("b mdevctl start")]
        t.ok(starts, "mdevctl is called")
        for number in starts:
            with World() as w:
                r = w.run(*options, "vm1", "b", fault=f"after {number}")
                t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), f"{' '.join(options)} {number}: the move goes on", r.stderr)


def command(t):
    """With processes: the program, and the dlend command."""
    for options in ((), DETACH, KEEP):
        with World() as w:
            r = w.run_program(*options, "vm1", "b")
            t.equal((r.returncode, w.tree("a"), w.tree("b"), w.runs()), (0, NOTHING, WHOLE, [("b", [U1, U2])]),
                    f"the program {' '.join(options)}", r.stderr)
    with World() as w:
        r = w.run_program("vm1", "b", program=[DLEND, "--root", w.path / "a", "migrate"])
        t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), "dlend migrate", r.stderr)
    with World() as w:
        dlend = [DLEND, "--json", "--root", w.path / "a", "migrate"]
        r = w.run_program("--dry-run", *DETACH, "vm1", "b", program=dlend)
        t.ok(r.returncode == 0 and json.loads(r.stdout)["dry_run"], "dlend --json migrate", r.stderr)
        w.env["DLEND_PROGRAMS"] = "/nowhere"
        r = w.run_program("vm1", "b", program=[DLEND, "--root", w.path / "a", "migrate"])
        t.ok(r.returncode == 1 and "/nowhere/migrate cannot be run" in r.stderr, "  which is not installed", r.stderr)


def interrupted(t):
    """Ctrl-C while the guest shuts down, and in the middle of a live migration."""
    for options, name, what in (((), "deaf", "shut vm1 down"), (DETACH, "slow", "migrate vm1 to b")):
        with World() as w:
            (w.path / name).touch()
            with w.begin(*options) as process:
                said = ""
                while what not in said:
                    said = process.stderr.readline()
                w.wait_call("shutdown" if not options else "migrate")
                os.killpg(process.pid, signal.SIGINT)
                rest = process.communicate(timeout=60)[1]
            word = "aborted" if options else "interrupted"
            t.ok(process.returncode == 1 and word in rest and "as before" in rest,
                 f"interrupted: {what}", rest)
            t.equal((w.runs(), w.tree("a"), w.tree("b")), ([("a", [U1, U2])], WHOLE, NOTHING), "  all is as it was",
                    rest)
            t.equal("may still do so" in rest, not options, "  but for a request that stands")


def whole_group(t):
    """Ctrl-C of a terminal goes to all processes of the group.  The command that runs comes to its end all the same."""
    for options, verb in (((), "define"), ((), "shutdown"), ((), "stop"), ((), "start"), (DETACH, "detach-device")):
        with World() as w:
            (w.path / f"hold-{verb}").touch()
            with w.begin(*options) as process:
                w.wait_for((w.path / f"held-{verb}").exists)
                os.killpg(process.pid, signal.SIGINT)
                (w.path / f"hold-{verb}").unlink()
                rest = process.communicate(timeout=60)[1]
            t.ok((w.path / f"ended-{verb}").exists(), f"Ctrl-C to all processes, in {verb}: it comes to its end", rest)
            t.equal((process.returncode, "was interrupted" in rest, w.runs(), w.tree("a"), w.tree("b")),
                    (1, True, [("a", [U1, U2])], WHOLE, NOTHING), "  and is undone", rest)


def while_it_looks(t):
    """Ctrl-C before anything is changed."""
    for words in ((), KEEP, ("--dry-run",)):
        with World() as w:
            (w.path / "hold-dominfo").touch()
            with w.begin(*words) as process:
                w.wait_for((w.path / "held-dominfo").exists)
                os.killpg(process.pid, signal.SIGINT)
                (w.path / "hold-dominfo").unlink()
                rest = process.communicate(timeout=60)[1]
            t.ok(process.returncode == 1 and rest.startswith("dlend: migrate was interrupted") and "Traceback" not in rest,
                 f"Ctrl-C during the checks {' '.join(words)}: one line", rest)
            t.equal((w.runs(), w.tree("a"), w.tree("b")), ([("a", [U1, U2])], WHOLE, NOTHING), "  nothing is changed")


def nobody_listens(t):
    """Who reads what the program says goes away in the middle."""
    refuse = next(n for n, call in enumerate(steps(()), 1) if call.startswith("b virsh start"))
    for fault, where in (("", "b"), (f"refuse {refuse}", "a")):
        with World() as w:
            with w.begin(fault=fault) as process:
                read_until(process.stderr, "shut vm1 down")
                process.stderr.close()
                process.wait(timeout=60)
            t.equal((w.runs(), process.returncode), ([(where, [U1, U2])], int(where == "a")),
                    f"no reader of standard error, {fault or 'no fault'}: the VM runs on {where}")
    with World() as w:
        ours, theirs = os.pipe()
        os.close(ours)
        with w.begin(stdout=theirs) as process:
            os.close(theirs)
            said = process.communicate(timeout=60)[1]
        t.equal((w.runs(), process.returncode, "Exception" in said or "Traceback" in said),
                ([("b", [U1, U2])], 0, False), "no reader of standard output: moved, and no surprise", said)
    with World() as w:
        w.keep_held(P1)
        master, slave = pty.openpty()
        with w.begin(stderr=slave) as process, open(master, encoding="utf-8", errors="replace") as terminal:
            os.close(slave)
            read_until(terminal, "wait until b can have")
            terminal.close()
            process.send_signal(signal.SIGHUP)
            process.wait(timeout=60)
        t.equal((process.returncode, w.runs(), w.tree("b")), (1, [("a", [U1, U2])], NOTHING),
                "the terminal hangs up, which is a signal, too: all is as it was")


def nohup(t):
    with World() as w:
        w.keep_held(P1)
        with w.begin(ignore=(signal.SIGHUP,)) as process:
            said = read_until(process.stderr, "wait until b can have")
            process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            w.set_free(P1)
            said += process.communicate(timeout=60)[1]
        t.equal((process.returncode, w.runs()), (0, [("b", [U1, U2])]), "with nohup it goes on after a hangup", said)


def at_any_time(t):
    """A signal at the worst moments: between two steps, as signals are about to be held, and twice."""
    def at_step(number):
        def say(old, settings, text):
            if text.startswith(f"[{number}/"):
                signal.raise_signal(signal.SIGTERM)
            old(settings, text)
        return say

    def at_hold(count):
        def hold(old):
            count[0] -= 1
            if not count[0]:
                signal.raise_signal(signal.SIGTERM)
            old()
        return hold

    def unscathed(w, name, *options, fault=""):
        with contextlib.suppress(remote.signals.Interrupted):
            sound(t, w, w.run(*options, "vm1", "b", fault=fault), name)
            return
        t.ok(False, name, "it ended with the exception of the signal")
    for options in ((), DETACH, KEEP):
        with World() as w:
            count = len(w.run("--dry-run", *options, "vm1", "b").stdout.splitlines())
        for number in range(1, count + 1):
            with World() as w, replaced(remote.messages, "print_progress", at_step(number)):
                unscathed(w, f"{' '.join(options)} a signal between {number - 1} and {number}", *options)
        for fault in ("", "refuse 3", "refuse 5"):
            for number in range(1, 3):
                with World() as w, replaced(remote.signals, "ignore_signals", at_hold([number])):
                    unscathed(w, f"{' '.join(options)} a signal as they are to be held, {number}, {fault}", *options,
                              fault=fault)
    with World(running=False) as w, replaced(remote.signals, "ignore_signals", at_hold([1])):
        status = None
        with contextlib.suppress(remote.signals.Interrupted):
            status = w.run("--no-start", "vm1", "b").returncode
        t.equal((status, w.tree("b")), (1, NOTHING), "--no-start: one that comes last of all undoes it")


def not_thought_of(t):
    """A fault of the program itself."""
    def broken(old, host, mdev, vm):
        if host.ssh:
            raise ValueError("of the test")
        old(host, mdev, vm)
    for options in ((), DETACH, KEEP):
        with World() as w, replaced(migration.mdevs, "start_mdev", broken):
            try:
                r = w.run(*options, "vm1", "b")
            except ValueError as error:
                r = subprocess.CompletedProcess([], None, "", str(error))
            t.ok(r.returncode == 1 and "ValueError: of the test" in r.stderr and "as before" in r.stderr,
                 f"an exception that nobody thought of {' '.join(options)}: told", r.stderr)
            t.equal((w.runs(), w.tree("a"), w.tree("b")), ([("a", [U1, U2])], WHOLE, NOTHING), "  all is as it was")


heed_ctrl_c()
with Tap() as tap:
    for part in (cold, reserved, live, named, named_as_a_number, dry, pooled, refused, files, tpm, old_libvirt, patience, told_why,
                 again, started_by_udev, every_step, two_faults, late_start, long_start, target_gone, source_dies, source_killed, finish_json, finish_asks,
                 finish_again, finish_refused, interrupted, whole_group, while_it_looks, nobody_listens, nohup, at_any_time,
                 not_thought_of, command):
        tap.diag(part.__name__)
        part(tap)
