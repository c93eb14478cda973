#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend migrate --live: a VM that runs on while its devices stay.  migrate.t lets every step of it fail."""
import json
import re
import signal
import subprocess
import sys
import types
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import TOP  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position
from world import (DETACH, KEEP, NOTHING, P1, P2, U1, U2, WHOLE, World, is_refused,  # noqa: E402
                   migration, read_until, replaced, xml)  # pylint: disable=wrong-import-position
import remote.messages  # noqa: E402  pylint: disable=wrong-import-position,ungrouped-imports
import migration.probe  # noqa: E402  pylint: disable=wrong-import-position,ungrouped-imports
from migration import blackout, keeping, precopy  # noqa: E402  pylint: disable=wrong-import-position,ungrouped-imports

GIB = 1 << 30
PLAIN = re.compile(r"<qemu:override>.*</qemu:override>|<alias [^>]*>", re.S)


def of_type(w, name):
    """The first device is one of that type."""
    for host in "ab":
        w.offer(host, P1, type=name)
    w.definition("a", U1, P1, mdev_type=name)
    types = w.path / "b/sys/class/mdev_bus" / P1 / "mdev_supported_types"
    (types / "dlend-nvme").rename(types / name)


def unprepare(w, *which):
    """which: "xml", the definition, or "live", as the VM was started"""
    s = w.state()
    s["a"]["vm1"].update({name: PLAIN.sub("", s["a"]["vm1"][name]) for name in which})
    w.state(s)


def limits(w):
    """For how long the VM was allowed to stand still, one after the other, in ms."""
    return [c.split()[-1] for c in w.calls() if "setmaxdowntime" in c]


def keeps(t):
    with World(autostart=True) as w:
        r = w.run(*KEEP, "vm1", "b")
        t.equal((r.returncode, w.tree("a"), w.tree("b"), w.runs()), (0, NOTHING, WHOLE, [("b", [U1, U2])]),
                "the VM and its devices are on b, nothing on a")
        t.ok(not any("tach-device" in c or "shutdown" in c for c in w.calls()), "  no device was detached", str(w.calls()))
        t.ok(w.state()["b"]["vm1"]["autostart"], "  it starts there at boot, as it did here")
        t.ok("stood still for 0.14 s" in r.stdout, "  how long it stood still is told", r.stdout)
        t.ok("the VM will be stopped for about 1.2 s" in r.stderr and "pass 2: " in r.stderr and "MiB/s" in r.stderr and
             "nothing new comes" in r.stderr, "  and before, and what it does meanwhile", r.stderr)
        migrate = next(c for c in w.calls() if "virsh migrate --live" in c)
        t.ok(f"--comp-xbzrle-cache {2 * GIB}" in migrate, "  the VMM keeps what it has sent", migrate)
        t.equal(limits(w), ["1", "2000"], "  it may stop for a moment only, and at the end for a last pass")
    with World() as w:
        r = w.run(*KEEP, "--json", "--copy=send", "vm1", "b")
        says = json.loads(r.stdout)
        t.equal((says["owner"], says["downtime_seconds"]), ("there", 0.14), "as JSON")
        t.ok(0 < says["last_pass_bytes"] < 100 << 20, "  and what was sent since the VM might stop", str(says))
        told = [json.loads(line) for line in r.stderr.splitlines()]
        passes = [line for line in told if "pass" in line]
        t.ok(len(passes) > 2 and passes[1]["bytes_sent"] > 0 and passes[1]["bytes_per_second"] > 0,
             "  and its progress, a line each, with numbers", r.stderr)
        t.ok(any("--parallel" in c for c in w.calls()), "  --copy=send: by several connections", str(w.calls()))
    with World(uuids=()) as w:
        t.equal((w.run(*KEEP, "vm1", "b").returncode, w.runs()), (0, [("b", [])]), "a VM without lent devices")


def dry(t):
    with World() as w:
        r = w.run("--dry-run", *KEEP, "vm1", "b")
        t.ok("let d0003:01:00.0 go to b (node 2)" in r.stdout and "1.0 s to compare 1.0 GiB" in r.stdout and
             "the speed of the network is not known" in r.stdout, "--dry-run tells how long the VM will stand still, and why",
             r.stdout)
        says = json.loads(w.run("--dry-run", "--json", *KEEP, "vm1", "b").stdout)
        t.ok(says["copy"] == "compare" and 1.1 < says["blackout_seconds"] < 1.2, "  as JSON", str(says))
        t.equal((w.calls(), w.named("a", U1)), ([], "0"), "  and nothing is changed")


def refused(t):
    """Before anything is changed."""
    def check(w, *told, words=(*KEEP, "vm1", "b"), code=4):
        is_refused(t, w, *told, words=words, code=code)

    with World() as w:
        unprepare(w, "live")
        check(w, "started without what QEMU needs", P1, "--prepare vm1", "--detach")
    for name in ("gpu", "accel"):
        with World() as w:
            of_type(w, f"dlend-{name}")
            check(w, f"{name}: never quiet", P1, "never becomes quiet", "--detach")
            check(w, "  not with --cut either", "never becomes quiet", words=(*KEEP, "--cut", "vm1", "b"))
    for name in ("nic", "audio", "usb"):
        with World() as w:
            of_type(w, f"dlend-{name}")
            check(w, f"{name}: something would be lost", "--cut", "--detach",
                  *(["has tested and allowed this model", "cut_models"] if name == "usb" else []))
    with World() as w:
        (w.path / "a/sys/bus/mdev/devices" / U2 / "dlend/move_to").unlink()
        check(w, "modules that do not know how", P2, "Update dlend on this host", code=6)
    with World() as w:
        s = w.state()
        s["a"]["vm1"]["live"] = xml(U1)
        w.state(s)
        w.leases("free", "0")
        check(w, "the running VM does not have one that its definition has", U2, "detach-device")
    for words in (("--cut", "vm1", "b"), (*DETACH, "--cut", "vm1", "b"), ("--copy=send", "vm1", "b"), ("--prepare", "vm1", "b")):
        with World() as w:
            check(w, f"{' '.join(words)}", words=words, code=2)


def cut(t):
    with World() as w:
        of_type(w, "dlend-nic")
        said = []

        def write(old, host, uuid, words):
            said.append((uuid, words))
            return old(host, uuid, words)
        with replaced(migration.mdevs, "write_target", write):
            r = w.run(*KEEP, "--cut", "vm1", "b")
        t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), "--cut", r.stderr)
        t.equal(said, [(U1, "2 cut"), (U2, "2")], "  only what does not become quiet is cut")


def mixed(t):
    """A device that cannot stay is detached, if somebody asks for it; the other one stays."""
    words = (*KEEP, "--detach", "vm1", "b")

    def world():
        w = World(autostart=True)
        of_type(w, "dlend-gpu")
        return w

    with world() as w:
        r = w.run(*words)
        t.equal((r.returncode, w.tree("a"), w.tree("b"), w.runs()), (0, NOTHING, WHOLE, [("b", [U1, U2])]), "--detach", r.stderr)
        calls = w.calls()
        t.equal([c.split()[:3] for c in calls if "tach-device" in c],
                [["a", "virsh", "detach-device"], ["b", "virsh", "attach-device"]], "  one device goes, and comes back there")
        t.ok('bus="0x05"' in w.state()["b"]["vm1"]["live"], "  at the same guest address")
    for kind in ("refuse", "after", "lost", "lost-after"):
        for number, call in enumerate(calls, 1):
            with world() as w:
                r = w.run(*words, fault=f"{kind} {number}")
                runs = w.runs()
                t.ok(len(runs) == 1 and U2 in runs[0][1] and "Traceback" not in r.stderr, f"{kind} {number}: {call[:50]}: the VM "
                     "runs once, with what stays", f"{runs} {r.stderr}")
                t.ok(U1 in runs[0][1] or "attach-device" in r.stderr, "  and with the other, or people are told", r.stderr)
    with World() as w:
        unprepare(w, "live")
        r = w.run(*words)
        t.equal((r.returncode, w.runs()), (0, [("b", [U1, U2])]), "a VM that was not prepared: all of its devices", r.stderr)
        t.ok(not any("--compressed" in c for c in w.calls()), "  then its memory is copied as that of any VM")


def on_the_way(t):
    """What is refused when something was done already: all is as it was."""
    def check(w, name, *parts, code=1):
        r = w.run(*KEEP, "vm1", "b")
        t.ok(r.returncode == code and all(p in r.stderr for p in (*parts, "as before")), name, f"{r.returncode} {r.stderr}")
        t.equal((w.tree("a"), w.tree("b"), w.runs()), (WHOLE, NOTHING, [("a", [U1, U2])]), "  all is as it was")
        t.ok(w.named("a", U1) in ("0", None), "  and no node is named any more", w.named("a", U1))

    with World() as w:
        target = w.path / "a/sys/bus/mdev/devices" / U2 / "dlend/move_to"
        target.unlink()
        target.mkdir()
        check(w, "the module refuses", P2, "cannot stay while vm1 moves", code=4)
    for said, part in (("Operation not supported", "never becomes quiet"), ("Operation not permitted", "migrate --prepare VM"),
                       ("Too many links", "IOMMU group has more"), ("No such device", "does not have it open")):
        def write(old, host, uuid, words, said=said):
            refuses = uuid == U2 and words != "0"
            return subprocess.CompletedProcess([], 2, "", f"sh: 1: {said}\n") if refuses else old(host, uuid, words)
        with World() as w, replaced(migration.mdevs, "write_target", write):
            check(w, f"it refuses: {said}", P2, part, code=4)
    with World() as w:
        (w.path / "b/sys/class/mdev_bus" / P2 / "mdev_supported_types/dlend-nvme/available_instances").unlink()
        check(w, "the lender does not offer it there", f"b may not have {P2}", "dlend links", code=6)
    for words, name in ((("migrate-setmaxdowntime",), "libvirt does not let the time be set"), (("migrate",), "of the test")):
        with World() as w:
            r = w.run(*KEEP, "vm1", "b", fault=f"refuse {number_of(words)}")
            t.ok(r.returncode == 1 and name.split()[0] in r.stderr and "as before" in r.stderr, f"{words[0]} fails", r.stderr)
            t.equal((w.tree("a"), w.tree("b")), (WHOLE, NOTHING), "  all is as it was")
            t.ok(limits(w)[-1] in ("1", "300"), "  and so is the time for which the VM may stop", str(limits(w)))
    with World() as w:
        raised = number_of(("migrate-setmaxdowntime",)) + 1
        r = w.run(*KEEP, "vm1", "b", fault=f"refuse {raised}")
        t.equal((r.returncode, w.runs(), limits(w)), (0, [("b", [U1, U2])], ["1", "2000", "2000"]),
                "raising that time fails once: it is tried again", r.stderr)


def number_of(words):
    """Of the first such call in a move in which nothing fails."""
    with World() as w:
        w.run(*KEEP, "vm1", "b")
        return next(n for n, call in enumerate(w.calls(), 1) if call.split()[2] == words[0])


def told_why(t):
    """What the kernel says of the device is part of the reason."""
    with World() as w:
        def follow(old, migration_of_it):
            # Somebody has named another node meanwhile.
            w.put("a", f"sys/devices/dlend/{P1}/{U1}/dlend/move_to", "7\n")
            return old(migration_of_it)
        with replaced(precopy.Precopy, "follow", follow):
            r = w.run(*KEEP, "vm1", "b")
        t.ok(r.returncode == 1 and "Operation not permitted" in r.stderr and
             "this host: " in r.stderr and f"{U1}: the VM does not move: of the test" in r.stderr and "as before" in r.stderr,
             "the VMM refuses: its reason, and the kernel's", r.stderr)
        t.equal((w.tree("a"), w.tree("b"), w.runs()), (WHOLE, NOTHING, [("a", [U1, U2])]), "  all is as it was")


def interrupted(t):
    with World() as w:
        with w.begin(*KEEP) as process:
            said = read_until(process.stderr, "pass 1")
            process.send_signal(signal.SIGINT)
            said += process.communicate(timeout=60)[1]
        t.ok(process.returncode == 1 and "asked to end" in said and "aborted" in said and "as before" in said,
             "Ctrl-C while memory is copied", said)
        t.equal((w.runs(), w.tree("a"), w.tree("b"), w.named("a", U1)), ([("a", [U1, U2])], WHOLE, NOTHING, "0"),
                "  all is as it was")
        t.equal(limits(w), ["1", "300"], "  and so is the time for which the VM may stop")
    with World() as w:
        with w.begin(*KEEP) as process:
            said = process.communicate(timeout=60)[1]
        t.equal((process.returncode, w.runs()), (0, [("b", [U1, U2])]), "the program, with processes", said)


def passes(t):
    p, looks = precopy.Passes(), []
    for number, total in ((1, 0), (1, 500), (2, 1000), (2, 1100), (3, 1200), (4, 1300), (5, 1390)):
        looks.append((p.look(number, total), p.is_enough()))
    t.equal(looks, [(True, False), (False, False), (True, False), (False, False), (True, False), (True, False), (True, True)],
            "the first passes are no measure; it is enough when one brings what the one before brought")
    t.equal(p.sent, [1000, 200, 100, 90], "  in bytes")
    p = precopy.Passes()
    total = 0
    for number in range(1, precopy.MANY_PASSES):
        p.look(number, total)
        total += 1 << (40 - 2 * number)
        if p.is_enough():
            break
    t.equal(number, precopy.MANY_PASSES - 1, "as long as each brings much less, it goes on")
    p.look(precopy.MANY_PASSES, total)
    t.ok(p.is_enough(), "  but not for ever")


def allowed(t):
    copy = {m: blackout.Copy(GIB, m, "", None) for m in ("compare", "send")}
    info = {"memory_total": 16 * GIB, "memory_remaining": 8 * GIB, "memory_bps": GIB}
    t.equal([precopy.allowed_ms(copy[m], info) for m in ("compare", "send")], [32000, 16000],
            "the VM may stop for twice as long as the last pass should take")
    t.equal([precopy.allowed_ms(copy[m], {}) for m in ("compare", "send")], [1000, 1000], "  a second at least")
    t.equal(precopy.allowed_ms(copy["send"], info, 2), 64000, "  more, if that was not enough")
    t.equal(precopy.allowed_ms(copy["send"], {"memory_remaining": 1 << 50, "memory_bps": 1}), 2_000_000,
            "  not longer than QEMU takes")


def chosen(t):
    for (ram, free, speed, wanted), method, word in (
            ((GIB, 4 * GIB, 10**9, None), "compare", "sending 1.0 GiB would take 9.5 s"),
            ((GIB, 4 * GIB, 100 * 10**9, None), "send", "as fast (100 Gb/s)"),
            ((GIB, GIB, 10**9, None), "send", "has not 1.2 GiB to spare"),
            ((GIB, 4 * GIB, 0, None), "compare", "not known"),
            ((GIB, 0, 10**9, "compare"), "compare", "as you said")):
        copy = blackout.choose_copy(ram, free, speed, wanted)
        t.ok(copy.method == method and word in copy.why, f"{method}: {word}", str(copy))
    copy = blackout.choose_copy(GIB, GIB, 0)
    t.ok(copy.seconds is None and "not known" in blackout.describe_blackout(copy, 1) and
         blackout.blackout_seconds(copy, 1) is None, "where nobody knows, nobody says a number",
         blackout.describe_blackout(copy, 1))
    t.equal([blackout.cache_bytes(n) // (1 << 20) for n in (100 << 20, 128 << 20, 3 * GIB)], [128, 256, 4096],
            "the cache is a power of two above the VM's memory")


def network(t):
    """The speed of the interface by which the other host is reached."""
    class Told:
        """A host that answers so."""

        def __init__(self, *answers):
            self.answers = list(answers)

        def run(self, _words):
            return subprocess.CompletedProcess([], 0, self.answers.pop(0), "")

    route = '[{"dst":"10.0.0.2","dev":"eno1","prefsrc":"10.0.0.1"}]'
    for connection, routes, speed, bits in (("10.0.0.1 5 10.0.0.2 22", route, "10000", 10**10), ("", route, "10000", 0),
                                            ("10.0.0.1 5 10.0.0.2 22", "[]", "10000", 0),
                                            ("10.0.0.1 5 10.0.0.2 22", "no json", "10000", 0),
                                            ("10.0.0.1 5 10.0.0.2 22", route, "-1", 0), ("10.0.0.1 5 10.0.0.2 22", route, "", 0)):
        with World() as w:
            w.put("a", "sys/class/net/eno1/speed", f"{speed}\n")
            move = types.SimpleNamespace(here=Told(routes), there=Told(connection),
                                         settings=types.SimpleNamespace(root=w.path / "a"))
            t.equal(migration.probe.bits_per_s(move), bits, f"{connection[:8]!r}, {routes[:7]!r}, {speed!r}: {bits} b/s")


def kinds(t):
    """All that ntb/names.c knows, and as lender/drain.c has it."""
    table = re.findall(r'\{ 0x\w+, 0x(\w{4})\w\w, "(\w+)", "[^"]+" \}', (TOP / "ntb/names.c").read_text())
    drain = (TOP / "lender/drain.c").read_text()
    classes = dict(re.findall(r"#define (LEND_CLASS_\w+)\s+0x(\w+)\n", drain))
    kinds_of, together = {}, []
    for name, kind in re.findall(r"(?:case|==) (LEND_CLASS_\w+)|return LEND_(\w+);", drain):
        if name:
            together.append(classes[name])
        else:
            kinds_of.update(dict.fromkeys(together, kind))
            together = []
    t.ok(len(table) > 5 and len(kinds_of) == 5, "both files are understood", f"{table} {kinds_of}")
    for number, name in table:
        wanted = kinds_of.get(number) or kinds_of.get(number[:2], "NEVER")
        t.equal({"DRAINS": blackout.KEPT, "CUT": blackout.CUT, "TRIED": blackout.TRIED, "NEVER": blackout.NEVER}[wanted],
                blackout.kind_of(f"dlend-{name}"), f"{name}: as its lender sees it")
    t.equal(blackout.kind_of("dlend-pci"), None, "what has no name of its own: its lender is asked")


# What oVirt, KubeVirt, unRAID and virt-manager write: prefixes of any kind, and none
FOREIGN = ('<ns0:qos xmlns:ns0="http://ovirt.org/vm/tune/1.0"/>',
           '<ovirt-vm:vm xmlns:ovirt-vm="http://ovirt.org/vm/1.0"><ovirt-vm:clusterVersion>4.7</ovirt-vm:clusterVersion></ovirt-vm:vm>',
           '<kubevirt xmlns="http://kubevirt.io"><uid>x</uid></kubevirt>',
           '<vmtemplate xmlns="unraid" name="Debian" os="debian"/>',
           '<q:os xmlns:q="http://libvirt.org/schemas/domain/qemu/1.0"/>')


def definitions(t):
    """What --prepare writes."""
    plain = PLAIN.sub("", xml(U1, U2, more='<hostdev mode="subsystem" type="usb"><source/></hostdev>'))
    plain = plain.replace("<devices>", '<metadata><x:os xmlns:x="http://example/x" id="7"/></metadata><devices>')
    t.equal(keeping.devices_not_kept(plain, [U1, U2]), [U1, U2], "what is missing is seen")
    once = keeping.keep_devices(plain, [U1, U2])
    t.equal(keeping.devices_not_kept(once, [U1, U2]), [], "  and added")
    t.ok('xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"' in once and "<qemu:override>" in once and "<x:os " in once,
         "  by libvirt's own names; those of others stay", once)
    t.equal(keeping.keep_devices(once, [U1, U2]), once, "  once")
    named = plain.replace("<source><address uuid", '<alias name="hostdev0"/><source><address uuid', 1)
    t.ok(f'name="ua-{U1}"' in keeping.keep_devices(named, [U1]) and "hostdev0" not in keeping.keep_devices(named, [U1]),
         "an alias that libvirt gives anew each time does not do")
    mine = named.replace("hostdev0", "ua-mine")
    t.ok('alias="ua-mine"' in keeping.keep_devices(mine, [U1]), "one that somebody gave stays")
    off = once.replace('value="on"', 'value="off"')
    t.equal(keeping.devices_not_kept(off, [U1]), [U1], "one that is turned off is seen")
    t.equal(keeping.keep_devices(off, [U1]).count('value="on"'), 1, "  and turned on")
    older = re.sub(r'<qemu:property name="x-no-kvm-intx"[^>]*>', "", once)
    t.equal([keeping.devices_not_kept(older, [U1]), keeping.devices_not_kept(older, [U1], keeping.NEEDED), keeping.keep_devices(older, [U1, U2])],
            [[], [U1], once], "one of an older dlend may move, and --prepare adds what only devices with INTx need")
    other = plain.replace("</domain>", "<qemu:override><qemu:device alias='video0'><qemu:frontend><qemu:property name='a' "
                          "type='bool' value='true'/></qemu:frontend></qemu:device></qemu:override></domain>")
    both = keeping.keep_devices(other, [U1])
    t.ok(both.count("<qemu:override>") == 1 and "video0" in both, "what was overridden before stays", both)
    for others in FOREIGN:
        named = plain.replace("<metadata>", f"<metadata>{others}")
        done = keeping.keep_devices(named, [U1, U2])
        t.ok(others in done and not keeping.devices_not_kept(done, [U1, U2]), f"what others have in it stays as it was: {others[:24]}", done)
        t.equal(keeping.keep_devices(done, [U1, U2]), done, "  also when it is read once more")
    text = "<metadata><n:note xmlns:n='urn:n'><![CDATA[<!DOCTYPE html>]]></n:note></metadata>"
    t.ok(keeping.devices_not_kept(plain.replace("<devices>", f"{text}<devices>"), [U1]) == [U1], "a text that names a DOCTYPE is a text")
    for bad in ("", "<domain>", "no XML", "<!DOCTYPE d [<!ENTITY a 'b'>]><domain>&a;</domain>"):
        try:
            why = keeping.devices_not_kept(bad, [U1])
        except remote.messages.Failure as failure:
            why = failure.in_one_line()
        t.ok("the definition of the VM is not understood" in why, f"{bad[:12]!r} is no definition", why)
    for text, size in (("<memory>1048576</memory>", GIB), ("<memory unit='MiB'>256</memory>", 256 << 20), ("", 0)):
        t.equal(migration.domain.memory_bytes(f"<domain>{text}</domain>"), size, f"memory: {text}")
    t.ok(ElementTree.fromstring(once) is not None, "it is XML")


def prepares(t):
    with World() as w:
        unprepare(w, "xml", "live")
        r = w.run("--prepare", "--dry-run", "vm1")
        t.ok(r.returncode == 0 and "2 devices of vm1 would be prepared" in r.stdout and not w.calls(), "--prepare --dry-run",
             r.stdout + r.stderr)
        r = w.run("--prepare", "vm1")
        t.ok(r.returncode == 0 and "2 devices of vm1 are prepared" in r.stdout and "virsh shutdown vm1" in r.stdout,
             "--prepare: it says that the VM has to be started anew", r.stdout + r.stderr)
        t.equal(keeping.devices_not_kept(w.state()["a"]["vm1"]["xml"], [U1, U2]), [], "  the definition has it")
        s = w.state()
        s["a"]["vm1"]["xml"] = s["a"]["vm1"]["xml"].replace(f'name="ua-{U2}"', 'name="hostdev1"')
        w.state(s)
        r = w.run("--prepare", "vm1")
        t.ok("1 device of vm1 is prepared" in r.stdout, "  and again for one that was added later", r.stdout)
        r = w.run("--prepare", "--json", "vm1")
        t.equal(json.loads(r.stdout), {"verb": "migrate", "version": 1, "vm": "vm1", "prepared": [], "restart": True, "dry_run": False},
                "  as JSON; once")
        r = w.run(*KEEP, "vm1", "b")
        t.ok(r.returncode == 4 and "--prepare" in r.stderr, "  until then, it does not move", r.stderr)
    with World(uuids=()) as w:
        r = w.run("--prepare", "vm1")
        t.ok(r.returncode == 3 and "has no lent device" in r.stderr, "--prepare: a VM without lent devices", r.stderr)
        r = w.run("--prepare", "vm2")
        t.ok(r.returncode == 3 and "no VM vm2" in r.stderr, "  and no VM", r.stderr)
    with World() as w:
        r = w.run("--prepare", "vm1")
        t.ok(r.returncode == 0 and "vm1 is prepared already" in r.stdout and "virsh" not in r.stdout, "  and one that is", r.stdout)


with Tap() as tap:
    for part in (keeps, dry, refused, cut, mixed, on_the_way, told_why, interrupted, passes, allowed, chosen, network, kinds, definitions,
                 prepares):
        tap.diag(part.__name__)
        part(tap)
