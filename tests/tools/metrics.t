#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend metrics on a fake host: each number, and that Prometheus can read them all.

    node 1 with links to nodes 2 and 3 and to itself; two lent devices; offers of nodes 1, 2 and 3, of which
    two have mediated devices here, one is attached, and one could not be

expose.py checks the format; it is shown to find each mistake.  promtool does so too where there is one, which
the build tree does not have.
"""
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from expose import parse  # noqa: E402  pylint: disable=wrong-import-position
from fake import LENDER, TOP, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

U1, U2, U3 = (f"{n}1111111-0000-4000-8000-00000000000{n}" for n in "123")
NTB, OTHER = "0000:05:00.0", "0000:06:00.0"
OWN, WORSE = "0000:03:00.0", "0000:04:00.0"
LENT, USED, BROKEN, ATTACHED, REFUSED = "d0001:03:00.0", "d0002:3b:00.0", "d0002:3c:00.0", "d0003:01:00.0", "d0003:02:00.0"

# As the modules print them
LINK = """msg_OFFER: sent 3 received 4
msg_P2P_MAP: sent 0 received 12
dropped_bad: 1
dropped_late: 2
dropped_session: 3
dropped_no_user: 4
dropped_refused: 5
call_timeouts: 6
ring_full_waits: 7
sessions: 8
irq_fired: 9000000000
irq_delivered: 10
doorbell_polls: 11
irq_scans: 12
irq_overruns: 13
irq_bad: 14
aperture_base: ff00000000
coherent: 1
quarantined_bytes: 8192
p2p_bytes: 4096
p2p_limit_bytes: 536870912
mappings: 3
mapped_bytes: 2147483648
pages_4k: 1
"""
LEASE = "state held\nholder 2\nepoch 7\nusers 1\nfencing 0\nfailed 0\nlent 1\ndirty 1\nbroken 0\n"
IRQS = "mode msix\nvectors 9\nvector 0 irq 50 fired 3\nvector 1 irq 51 fired 4\nmasked 0\ntotal 1007\n"
DMA = "attached: 1\ncoherent: 1\nclaims: 1\nmirrors: 0\nmappings: 2\nmapped_bytes: 1048576\nfaults: 2\nlast_fault: dead000\n"
STATS = """bar0_faults_4k 2
dead_faults 3
gate_waits 4
gate_wait_longest_us 1500042
trapped_reads 5
trapped_writes 6
trapped_timeouts 7
messages 8
pinned_bytes 9
state running
borrows 10
returns 11
resets 12
builds 13
build_retries 14
"""
MDEV_IRQS = "mode msix\nlive msix\nfired 21\nsignalled 22\nstray 23\nerrors 24\nrequests 1\nvector0 21\n"
NATIVE = "attached: yes\nmessages: 31\nvectors: 5\ndma: driver\nsegments: 1\nsegment_bytes: 4194304\nmapped_bytes: 65536\n"


def populate(f):
    for module in ("dlend_core", "dlend_ntb", "dlend_lender", "dlend_borrower", "dlend_mdev", "dlend_native"):
        f.put(f"module/{module}")
    debug = f.sys / "kernel/debug/dlend"
    f.files(f.put(f"class/dlend_link/{NTB}"), type="ntb", state="up", peer_node="2", version="4", session="5a5a",
            window_bytes=str(1 << 31), aperture_bytes=str(1 << 30), aperture_free_bytes=str(1 << 29),
            aperture_largest_free_bytes=str(1 << 28), slots="ctrl 1 ram 4 bar 0 irq 1 p2p 12", self_test="passed",
            heartbeat_age_ms="1040", last_error="")
    f.files(f.put(f"class/dlend_link/{OTHER}"), type="ntb", state="hello", peer_node="0", version="0", session="0",
            window_bytes="0", aperture_bytes="0", aperture_free_bytes="0", aperture_largest_free_bytes="0",
            slots="ctrl 0 ram 0 bar 0 irq 0 p2p 0", self_test="not run", heartbeat_age_ms="0", last_error="no \"peer\"")
    f.files(f.put("class/dlend_link/loop"), type="loop", state="up", peer_node="1", version="4", session="1",
            window_bytes=str(1 << 46), aperture_bytes=str(1 << 46), aperture_free_bytes=str(1 << 46),
            aperture_largest_free_bytes=str(1 << 46), slots="ctrl 1 ram 0 bar 0 irq 0 p2p 0", self_test="passed",
            heartbeat_age_ms="1", last_error="")
    f.file(NTB, LINK, debug / "links")
    f.pci(OWN, driver=LENDER)
    f.files(f.device(OWN) / "dlend", state="held", borrower="2", epoch="7")
    f.file("lease", LEASE, debug / f"lender/{OWN}")
    f.file("irqs", IRQS, debug / f"lender/{OWN}")
    f.file("dma", DMA, debug / f"lender/{OWN}")
    f.pci(WORSE, driver=LENDER, group="8")
    f.files(f.device(WORSE) / "dlend", state="quarantined", type="dlend-gpu")
    f.file("lease", LEASE.replace("broken 0", "broken 1"), debug / f"lender/{WORSE}")
    f.file("dma", "domain: none\n", debug / f"lender/{WORSE}")
    f.offer(LENT, lender="1", state="held", borrower="2", link="loop")
    f.offer(USED, state="held", borrower="1")
    f.offer(BROKEN, state="gone", link="down")
    f.offer(ATTACHED, lender="3", type="dlend-gpu", state="held", borrower="1", attached="d003:01:00.0", attach_error="")
    f.offer(REFUSED, lender="3", type="dlend-nic", attached="no", attach_error="its BARs find no place")
    for uuid, parent, state in ((U1, USED, "running"), (U2, BROKEN, "failed: its link is down")):
        dev = f.put(f"devices/dlend/{parent}/{uuid}")
        f.link(f"bus/mdev/devices/{uuid}", dev)
        f.files(dev / "dlend", state=state, epoch="12", memory=str(1 << 31), memory_sharers="2", move_to="0")
    f.link(f"bus/mdev/devices/{U3}", f.put(f"devices/vgpu/{U3}"))
    f.file("stats", STATS, debug / f"mdev/{U1}")
    f.file("irqs", MDEV_IRQS, debug / f"mdev/{U1}")
    f.file(ATTACHED, NATIVE, debug / "native")
    f.file(REFUSED, "attached: no\n", debug / "native")
    f.pci("d003:01:00.0", driver="amdgpu", group=None)


def metrics(f, words="metrics"):
    """{name: {(label, value)...: value}}; the whole output has to be right."""
    r = f.run(words)
    assert r.code == 0 and not r.err, r.err
    return parse(r.out)


def labels(**pairs):
    return tuple(sorted(pairs.items()))


def word(samples, *which):
    """The state that a set of samples is in; which: the other labels' values."""
    ones = [dict(pairs)["state"] for pairs, value in samples.items() if value == 1 and set(which) <= {v for _, v in pairs}]
    return ones[0] if len(ones) == 1 else ones


def node(t):
    with Fake() as f:
        populate(f)
        m = metrics(f)
        t.equal(m["dlend_node_info"], {labels(node="1", version="0.1"): 1}, "the node, and the version of the command")
        t.equal({dict(k)["module"]: v for k, v in m["dlend_module_loaded"].items()},
                {f"dlend_{n}": 1 for n in ("core", "ntb", "lender", "borrower", "mdev", "native")}, "modules that are loaded")
        t.equal(m["dlend_debugfs_readable"], {(): 1}, "debugfs can be read")
        shutil.rmtree(f.sys / "module/dlend_native")
        t.equal(metrics(f)["dlend_module_loaded"][labels(module="dlend_native")], 0, "one that is not loaded")


def links(t):
    with Fake() as f:
        populate(f)
        m = metrics(f)
        ntb, other, loop = (labels(link=n, type=k) for n, k in ((NTB, "ntb"), (OTHER, "ntb"), ("loop", "loop")))
        t.equal(m["dlend_link_up"], {ntb: 1, other: 0, loop: 1}, "links that are up")
        t.equal((word(m["dlend_link_state"], NTB), word(m["dlend_link_state"], OTHER)), ("up", "hello"), "the state of each")
        t.equal(sorted({dict(k)["state"] for k in m["dlend_link_state"]}), ["down", "hello", "test", "up"], "  of these")
        t.equal(set(m["dlend_link_info"]), {labels(link=NTB, type="ntb", peer="2", protocol="4"),
                                            labels(link=OTHER, type="ntb", peer="0", protocol="0"),
                                            labels(link="loop", type="loop", peer="1", protocol="4")}, "peers")
        t.equal(m["dlend_link_self_test_passed"], {ntb: 1, other: 0, loop: 1}, "self-tests")
        for name, value in (("window", 1 << 31), ("aperture", 1 << 30), ("aperture_free", 1 << 29), ("aperture_largest_free", 1 << 28)):
            t.equal(m[f"dlend_link_{name}_bytes"], {ntb: value, other: 0}, f"{name}: of NTBs, not of the loop")
        for name, value in (("quarantined", 8192), ("p2p", 4096), ("p2p_limit", 1 << 29)):
            t.equal(m[f"dlend_link_aperture_{name}_bytes"], {ntb: value}, f"{name}, from debugfs")
        t.equal(m["dlend_link_heartbeat_age_seconds"], {ntb: 1.04, other: 0, loop: 0.001}, "the heartbeat's age in seconds")
        for name, value in (("sessions_total", 8), ("mapped_bytes", 1 << 31), ("call_timeouts_total", 6), ("ring_full_waits_total", 7),
                            ("doorbells_rung_total", 9000000000), ("interrupts_delivered_total", 10), ("doorbell_polls_total", 11),
                            ("doorbell_scans_total", 12), ("interrupt_overruns_total", 13), ("interrupts_bad_total", 14)):
            t.equal(m[f"dlend_link_{name}"], {ntb: value}, name)
        t.equal({dict(k)["kind"]: v for k, v in m["dlend_link_slots"].items() if ntb[0] in k},
                {"ctrl": 1, "ram": 4, "bar": 0, "irq": 1, "p2p": 12}, "slots by kind")
        t.equal((m["dlend_link_messages_sent_total"], m["dlend_link_messages_received_total"]),
                tuple({(ntb[0], ("message", k), ntb[1]): v for k, v in counts.items()}
                      for counts in ({"OFFER": 3, "P2P_MAP": 0}, {"OFFER": 4, "P2P_MAP": 12})), "messages by type")
        t.equal({dict(k)["reason"]: v for k, v in m["dlend_link_messages_dropped_total"].items()},
                {"bad": 1, "late": 2, "session": 3, "no_user": 4, "refused": 5}, "messages dropped, by reason")
        f.files(f.sys / f"class/dlend_link/{NTB}", state="sideways")
        m = metrics(f)
        t.equal((word(m["dlend_link_state"], NTB), m["dlend_link_up"][ntb]), ([], 0), "a state that nobody knows is none")


def lent(t):
    with Fake() as f:
        populate(f)
        m = metrics(f)
        one = labels(address=LENT, device=OWN, kind="nvme")
        two = labels(address="d0001:04:00.0", device=WORSE, kind="gpu")
        t.equal((word(m["dlend_lent_device_state"], OWN), word(m["dlend_lent_device_state"], WORSE)), ("held", "quarantined"),
                "states of lent devices")
        for name, value in (("borrower_node", {one: 2, two: 0}), ("lease_epoch", {one: 7, two: 0}), ("reset_failed", {one: 0, two: 1}),
                            ("interrupts_total", {one: 1007}), ("vectors", {one: 9}), ("mapped_bytes", {one: 1 << 20}),
                            ("dma_faults_total", {one: 2})):
            t.equal(m[f"dlend_lent_device_{name}"], value, name)
        for state in ("preparing", "incomplete", "free", "returning"):
            f.files(f.device(OWN) / "dlend", state=state)
            t.equal(word(metrics(f)["dlend_lent_device_state"], OWN), state, f"  {state}")


def used(t):
    with Fake() as f:
        populate(f)
        m = metrics(f)
        t.equal({(dict(k)["kind"], dict(k)["state"]) for k, v in m["dlend_offers"].items() if v},
                {("nvme", "held"), ("nvme", "gone"), ("gpu", "held"), ("nic", "free")}, "offers by kind and state")
        t.equal(m["dlend_offers"][labels(kind="nvme", state="held")], 2, "  how many")
        one, two = (labels(address=a, kind="nvme", uuid=u) for a, u in ((USED, U1), (BROKEN, U2)))
        t.equal((word(m["dlend_mdev_state"], U1), word(m["dlend_mdev_state"], U2)), ("running", "failed"), "states of mediated devices")
        t.ok(U3 not in str(m), "  not of other drivers' ones")
        for name, value in (("lease_epoch", 12), ("pinned_bytes", 1 << 31), ("memory_sharers", 2)):
            t.equal(m[f"dlend_mdev_{name}"], {one: value, two: value}, name)
        for name, value in (("borrows_total", 10), ("returns_total", 11), ("resets_total", 12), ("builds_total", 13),
                            ("build_retries_total", 14), ("gate_waits_total", 4), ("gate_wait_longest_seconds", 1.500042),
                            ("trapped_reads_total", 5), ("trapped_writes_total", 6), ("trapped_timeouts_total", 7),
                            ("dead_faults_total", 3), ("interrupts_total", 21), ("interrupts_signalled_total", 22),
                            ("interrupts_stray_total", 23), ("errors_signalled_total", 24)):
            t.equal(m[f"dlend_mdev_{name}"], {one: value}, name)
        own = f.sys / f"bus/mdev/devices/{U1}/dlend"
        for text, state in (("idle", "idle"), ("borrowing", "borrowing"), ("building", "building"),
                            ("running", "running"), ("failed: no memory", "failed"), ("stopped, as its VM is: may move", "stopped"),
                            ("prepared for a VM that comes, in vain: x", "prepared"), ("taken: node 3 has it", "taken")):
            f.files(own, state=text)
            t.equal(word(metrics(f)["dlend_mdev_state"], U1), state, f"  {text[:20]}")
        here, not_here = labels(address=ATTACHED, kind="gpu"), labels(address=REFUSED, kind="nic")
        t.equal(set(m["dlend_attached_device_info"]), {labels(address=ATTACHED, kind="gpu", device="d003:01:00.0", driver="amdgpu")},
                "the attached device")
        t.equal(m["dlend_attach_failed"], {here: 0, not_here: 1}, "  and the one that could not be")
        for name, value in (("vectors", 5), ("mapped_bytes", 65536), ("window_bytes", 4 << 20), ("messages_total", 31)):
            t.equal(m[f"dlend_attached_device_{name}"], {here: value}, name)


def nothing(t):
    with Fake(lender=False, node=None) as f:
        m = metrics(f)
        t.equal(sorted(m), ["dlend_debugfs_readable", "dlend_module_loaded", "dlend_node_info"], "a host without dlend")
        t.equal(m["dlend_node_info"], {labels(node="0", version="0.1"): 1}, "  has no id")
        t.equal(set(m["dlend_module_loaded"].values()), {0}, "  and no module")
    with Fake() as f:
        shutil.rmtree(f.sys)
        t.equal(len(metrics(f)), 3, "a host without sysfs")


def debugfs(t):
    """Not mounted, not for this user, not to be read, unlike what is known."""
    def from_sysfs(f):
        shutil.rmtree(f.sys / "kernel/debug")
        return metrics(f)

    with Fake() as f:
        populate(f)
        whole = metrics(f)
        less = metrics(f, "metrics --no-debugfs")
        t.equal(less["dlend_debugfs_readable"], {(): 0}, "--no-debugfs")
        t.ok("dlend_link_up" in less and "dlend_link_sessions_total" not in less, "  leaves what only debugfs has")
        t.equal(from_sysfs(f), less, "without debugfs it is the same")
        t.ok(set(less) < set(whole), "  and all of it is there with debugfs, too")
        t.equal({k: v for k, v in whole.items() if k in less and k != "dlend_debugfs_readable"},
                {k: v for k, v in less.items() if k != "dlend_debugfs_readable"}, "  with the same numbers")
    with Fake() as f:
        populate(f)
        for path in (f.sys / "kernel/debug/dlend").rglob("*"):
            if path.is_file():
                path.unlink()
                path.mkdir()
        t.equal(set(metrics(f)), set(less), "files there that cannot be read")
    with Fake() as f:
        populate(f)
        with t.case("a user who may not read debugfs"):
            if os.geteuid() or not shutil.which("setpriv"):
                t.skip("not root")
            f.root.chmod(0o755)
            (f.sys / "kernel/debug").chmod(0o700)
            r = f.run("metrics", before='exec setpriv --reuid=65534 --clear-groups --regid=65534 "$@"')
            assert r.code == 0 and parse(r.out) == less, r.err
    for text in ("", "\n\n", "sessions\nsessions:\nsessions: -1\nsessions: x\nsessions: 1x\nmapped_bytes 1 2 3", "\0", "x" * 100000,
                 "msg_X: sent 1\nmsg_: sent 1 received 2\nmsg_a\"b: sent 1 received 1\n" + "msg_" + "Y" * 300 + ": sent 1 received 1"):
        with Fake() as f:
            populate(f)
            for path in (f.sys / "kernel/debug/dlend").rglob("*"):
                if path.is_file():
                    path.write_text(text)
            m = metrics(f)
            t.ok("dlend_link_up" in m and "dlend_link_sessions_total" not in m, f"debugfs says {text[:20]!r}", str(m))


def escaping(t):
    """Names of files, and what peers say."""
    with Fake() as f:
        name = 'a"b\\c\nd'
        f.files(f.put(f"class/dlend_link/{name}"), type='n"t\\b', state="up", peer_node='2"\x1b', version="\\")
        m = metrics(f)
        t.equal(list(m["dlend_link_up"]), [labels(link=name, type="ntb")], "quotes, backslashes and line ends in labels")
        t.equal(dict(list(m["dlend_link_info"])[0])["peer"], '2"?', "  control characters become ?")
        t.equal(dict(list(m["dlend_link_info"])[0])["protocol"], "\\", "  a backslash at the end")
    with Fake() as f:
        dev = f.offer(USED)
        for value in (b'a"b\\c', b"\xff\xfe\x80", b"x" * 5000, b"", b"\0\0", b"} 1\ndlend_x 1", b"free"):
            for attribute in ("state", "type", "epoch", "attached", "attach_error"):
                (dev / attribute).write_bytes(value)
            (f.put(f"class/dlend_link/{NTB}") / "window_bytes").write_bytes(value)
            with t.case(f"an attribute that is {value[:12]!r}"):
                m = metrics(f)
                assert "dlend_x" not in m and "dlend_link_window_bytes" not in m
                assert len(m.get("dlend_offers", {})) == 7
        os.mkdir(os.fsencode(f.sys / "class/dlend_link") + b"/n\xff\x7f")
        t.ok(labels(link="n??", type="ntb") in metrics(f)["dlend_link_up"], "a name that is no text")


def output(t):
    with Fake() as f:
        populate(f)
        file = f.root / "dlend.prom"
        r = f.run(["metrics", "--output", str(file)], before="umask 022")
        t.equal((r.code, r.out, r.err), (0, "", ""), "--output")
        t.equal(parse(file.read_text()), metrics(f), "  has the same in the file")
        t.equal(file.stat().st_mode & 0o777, 0o644, "  which all may read")
        t.equal([p.name for p in f.root.glob("dlend*")], ["dlend.prom"], "  and there is no other file")
        before, inode = file.read_text(), file.stat().st_ino
        r = f.run(["metrics", "--output", str(file)])
        t.ok(r.code == 0 and file.stat().st_ino != inode, "  another file takes its place: who reads the old one has it whole")
        r = f.run(["metrics", "--output", str(file)], before='trap "" XFSZ; ulimit -f 0')
        t.ok(r.code == 1 and "cannot be written: File too large" in r.err, "a full disk", r.err)
        t.equal((file.read_text(), [p.name for p in f.root.glob("dlend*")]), (before, ["dlend.prom"]), "  leaves the old file, and no other")
        r = f.run(["--json", "metrics", "--output", "/dev/full/x"])
        t.ok(r.code == 1 and json.loads(r.out)["error"]["todo"].startswith("Make its directory"), "no directory", r.err)
        r = f.run(["metrics", "--output", "/dev/null"])
        t.ok(r.code == 2 and "regular file" in r.err and Path("/dev/null").is_char_device(), "a device is not replaced", r.err)
        r = f.run("metrics", before="exec >/dev/full")
        t.ok(r.code == 1 and "standard output" in r.err, "standard output that cannot be written", r.err)


def usage(t):
    with Fake() as f:
        for words in ("metrics --help", "metrics -h"):
            r = f.run(words)
            t.ok(r.code == 0 and r.out.startswith("usage: dlend metrics") and "--output" in r.out, words, r.err)
        for words in ("metrics more", "metrics --nonsense", "metrics --output"):
            r = f.run(words)
            t.ok(r.code == 2 and r.err and not r.out, f"wrong usage: {words}", r.out)
        r = f.run("metrics --json more")
        t.equal((r.code, json.loads(r.out)["error"]["code"]), (2, 2), "errors as JSON")
        t.ok(metrics(f, "--json metrics"), "--json leaves metrics as they are")


def promtool(t):
    tool = shutil.which("promtool")
    if not tool:
        return
    with Fake() as f, t.case("promtool takes it"):
        populate(f)
        subprocess.run([tool, "check", "metrics"], input=f.run("metrics").out, text=True, capture_output=True, check=True)


def names(t):
    """What the documentation, the alert rules and the dashboard say, and what there is."""
    with Fake() as f:
        populate(f)
        there = set(metrics(f))
    documented = re.findall(r"^\| `(dlend_\w+)", (TOP / "docs/monitoring.md").read_text(), re.M)
    t.equal((sorted(documented), sorted(set(documented))), (sorted(there), sorted(there)), "docs/monitoring.md lists each metric, once")
    bad = [n for n in there if re.search(r"_(ms|us|ns|kb|mb|kib|mib|gib|percent|count|ratio)(_|$)", n)]
    t.equal(bad, [], "units are seconds and bytes")
    for name in ("dlend-alerts.yml", "dlend-dashboard.json"):
        used_there = set(re.findall(r"\b(dlend_\w+)", (TOP / "dist" / name).read_text())) - {"dlend_core"}
        t.ok(used_there and used_there <= there, f"{name} uses only these", str(used_there - there))


WRONG = (("no line end", "a 1"), ("a sample without a head", "a 1\n"), ("an empty line", "# HELP a x\n# TYPE a gauge\n\na 1\n"),
         ("no TYPE", "# HELP a x\na 1\n"), ("no HELP", "# TYPE a gauge\na 1\n"), ("no sample", "# HELP a x\n# TYPE a gauge\n"),
         ("another type", "# HELP a x\n# TYPE a number\na 1\n"), ("TYPE of another", "# HELP a x\n# TYPE b gauge\na 1\n"),
         ("a counter's name", "# HELP a x\n# TYPE a counter\na 1\n"), ("a gauge's name", "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n"),
         ("a family twice", "# HELP a x\n# TYPE a gauge\na 1\n# HELP a x\n# TYPE a gauge\na 2\n"),
         ("a sample twice", '# HELP a x\n# TYPE a gauge\na{b="1",c="2"} 1\na{c="2",b="1"} 1\n'),
         ("other labels", '# HELP a x\n# TYPE a gauge\na{b="1"} 1\na{c="1"} 1\n'),
         ("a label twice", '# HELP a x\n# TYPE a gauge\na{b="1",b="2"} 1\n'), ("no value", "# HELP a x\n# TYPE a gauge\na\n"),
         ("text for a value", "# HELP a x\n# TYPE a gauge\na up\n"), ("less than nothing", "# HELP a_total x\n# TYPE a_total counter\na_total -1\n"),
         ("an open quote", '# HELP a x\n# TYPE a gauge\na{b="1} 1\n'), ("a bare quote", '# HELP a x\n# TYPE a gauge\na{b="1"2"} 1\n'),
         ("an unknown escape", '# HELP a x\n# TYPE a gauge\na{b="\\t"} 1\n'), ("a label's name", '# HELP a x\n# TYPE a gauge\na{1b="1"} 1\n'),
         ("a reserved label", '# HELP a x\n# TYPE a gauge\na{__b="1"} 1\n'), ("a name", "# HELP 1a x\n# TYPE 1a gauge\n1a 1\n"),
         ("an escape in a help text", "# HELP a x\\y\n# TYPE a gauge\na 1\n"), ("no help", "# HELP a \n# TYPE a gauge\na 1\n"))


def the_parser(t):
    """It can fail."""
    good = '# HELP a x \\\\ y\n# TYPE a gauge\na{b="\\"\\\\\\n",c=""} 1.5e3\na{c="",b="2"} +Inf\n# HELP b_total x\n# TYPE b_total counter\nb_total 3\n'
    t.equal(parse(good), {"a": {labels(b='"\\\n', c=""): 1500, labels(b="2", c=""): math.inf}, "b_total": {(): 3}}, "what is right")
    t.equal(parse(""), {}, "  nothing")
    for what, text in WRONG:
        try:
            parse(text)
            t.ok(False, f"{what} is found")
        except ValueError:
            t.passed(f"{what} is found")


with Tap() as tap:
    for part in (the_parser, node, links, lent, used, nothing, debugfs, escaping, output, usage, promtool, names):
        tap.diag(part.__name__)
        part(tap)
