#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend watch on a fake host that changes, and with events of this machine's kernel, in a network namespace of its own.

    node 1 with a link to node 2, a lent device, offers of node 2, a mediated device
"""
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from documents import check_output  # noqa: E402  pylint: disable=wrong-import-position
from fake import DLEND, LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap, heed_ctrl_c  # noqa: E402  pylint: disable=wrong-import-position

UUID = "11111111-0000-4000-8000-000000000001"
NTB, OWN, USED = "0000:05:00.0", "0000:03:00.0", "d0002:3b:00.0"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d ")
PATIENCE_S = 20

# Sends an event to the kernel, which passes it on as its own and says whether it did; or straight to all who listen,
# as any program of root's can.
SEND = """
import socket, struct, sys
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
s.bind((0, 0))
event = sys.argv[1].replace(" ", "\\0").encode() + b"\\0"
if sys.argv[2] == "straight":
    s.sendto(event, (s.getsockname()[0], 1))
else:
    s.sendto(struct.pack("IHHII", 16 + len(event), 16, 5, 1, 0) + event, (0, 0))
    error = struct.unpack_from("IHHIIi", s.recv(4096))[-1]
    assert not error, error
"""


class Watch:
    """The command, and what it prints, line by line."""

    def __init__(self, f, *words, before=()):
        """before: what the command is run by"""
        command = [*before, DLEND, "--root", str(f.root), *([] if "watch" in words else ["watch"]), *words]
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([str(w) for w in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.select = selectors.DefaultSelector()
        self.select.register(self.process.stdout, selectors.EVENT_READ)
        self.rest = b""
        if "--json" not in words:
            assert self.process.stderr.readline().strip(), "it says that it is ready"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()

    def line(self, within=PATIENCE_S):
        """The next line, or None if none comes."""
        end = time.monotonic() + within
        while b"\n" not in self.rest:
            if not self.select.select(max(0, end - time.monotonic())):
                return None
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                return None
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\n")
        check_output(self.process.args, line.decode())
        return line.decode()

    def said(self, within=PATIENCE_S):
        """The same without the time."""
        line = self.line(within)
        return line and STAMP.sub("", line)

    def end(self):
        """What is left to be printed, and the exit status."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        check_output(self.process.args, out.decode())
        return (self.rest + out).decode(), err.decode(), self.process.returncode


def populate(f):
    f.files(f.put(f"class/dlend_link/{NTB}"), type="ntb", state="up", peer_node="2", session="5a5a", last_error="")
    f.pci(OWN, driver=LENDER)
    f.offer("d0001:03:00.0", lender="1", link="loop")
    f.offer(USED)
    mdev(f, "idle")


def mdev(f, state):
    dev = f.put(f"devices/dlend/{USED}/{UUID}")
    f.files(dev / "dlend", state=state, epoch="0", move_to="0")
    if not (f.sys / f"bus/mdev/devices/{UUID}").is_symlink():
        f.link(f"bus/mdev/devices/{UUID}", dev)


def change(f, directory, **texts):
    """All at once for who looks: each file is replaced, and none is ever empty."""
    for name, text in texts.items():
        (f.root / "new").write_text(f"{text}\n")
        (f.root / "new").rename(directory / name)


def changes(t):
    with Fake() as f:
        populate(f)
        with Watch(f, "--interval", "0.05") as w:
            link = f.sys / f"class/dlend_link/{NTB}"
            change(f, link, last_error="no heartbeat from node 2")
            t.equal(w.said(), f'link {NTB} changed: last_error - -> "no heartbeat from node 2"', "a link's last error")
            change(f, link, state="down")
            t.equal(w.said(), f"link {NTB} changed: state up -> down", "its state")
            change(f, link, session="99", peer_node="3")
            line = w.said()
            if "peer_node" not in line or "session" not in line:    # it looked between the two
                line += w.said()
            t.ok("session 5a5a -> 99" in line and "peer_node 2 -> 3" in line, "its session and its peer", line)
            lent = f.device(OWN) / "dlend"
            change(f, lent, state="held")
            t.equal(w.said(), f"lent {OWN} changed: state free -> held", "a lent device, once: its offer here is the same")
            change(f, lent, borrower="2")
            t.equal(w.said(), f"lent {OWN} changed: borrower 0 -> 2", "  who has it")
            change(f, link, peer_name="gamma")
            t.equal(w.said(), f"link {NTB} changed: peer_name - -> gamma", "the name of a peer")
            change(f, lent, borrower="3")
            t.equal(w.said(), f"lent {OWN} changed: borrower 2 -> 3 (gamma)", "  which stands beside its number from then on")
            offer = f.sys / f"bus/dlend/devices/{USED}"
            change(f, offer, state="quarantined")
            t.equal(w.said(), f"offer {USED} changed: state free -> quarantined", "an offer of another node")
            change(f, offer, attach_error="its BARs find no place")
            t.equal(w.said(), f'offer {USED} changed: attach_error - -> "its BARs find no place"', "  that cannot be attached")
            change(f, offer, vendor="0x1234", place="x")
            change(f, f.sys / f"bus/mdev/devices/{UUID}/dlend", state="failed: its link is down")
            t.equal(w.said(), f'mdev {UUID} changed: state idle -> "failed: its link is down"', "a mediated device; nothing that cannot change")
            change(f, offer, attached="d002:3b:00.0")
            t.equal(w.said(), f"attached {USED} came: device d002:3b:00.0", "an attached device")
            f.pci("d002:3b:00.0", driver="nvme", group=None)
            t.equal(w.said(), f"attached {USED} changed: driver - -> nvme", "  gets a driver")
            change(f, offer, attached="no")
            t.equal(w.said(), f"attached {USED} went", "  is detached")
            lent.rename(f.root / "lent")        # all attributes at once
            f.unbind(OWN, LENDER)
            t.equal(w.said(), f"lent {OWN} went", "a device that is lent no more")
            f.offer("d0003:01:00.0", lender="3", type="dlend-gpu")
            line = w.said()
            t.ok(line.startswith("offer d0003:01:00.0 came: type dlend-gpu, lender 3 (gamma), state free, borrower 0, epoch 3, link ntb0"),
                 "an offer that comes", line)
            (f.sys / "bus/dlend/devices/d0003:01:00.0").unlink()
            t.equal(w.said(), "offer d0003:01:00.0 went", "  and goes")
            (f.sys / f"bus/mdev/devices/{UUID}").unlink()
            t.equal(w.said(), f"mdev {UUID} went", "a mediated device that is removed")
            link.rename(f.root / "link")
            t.equal(w.said(), f"link {NTB} went", "a link whose NTB goes")
            t.equal(w.said(0.3), None, "  and then nothing")


def stamps(t):
    with Fake() as f:
        populate(f)
        for zone, offset in (("UTC0", "+00:00"), ("XST-5:30", "+05:30"), ("XST8", "-08:00")):
            os.environ["TZ"] = zone
            begin = time.time()
            with Watch(f, "--initial", "--json", "--timeout", "0.1") as w:
                told = json.loads(w.line())["time"]
            del os.environ["TZ"]
            t.ok(told.endswith(offset) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", told), f"time in zone {zone}", told)
            shift = int(offset[:3]) * 3600 + int(offset[0] + offset[4:]) * 60
            seconds = time.mktime(time.strptime(told[:19] + " UTC", "%Y-%m-%dT%H:%M:%S %Z")) - time.timezone - shift
            t.ok(begin - 1 <= seconds <= time.time(), "  is now", f"{seconds} {begin}")


def as_json(t):
    with Fake() as f:
        populate(f)
        with Watch(f, "--json", "--initial", "--interval", "0.05") as w:
            there = {(x["kind"], x["name"]): x for x in (json.loads(w.line()) for _ in range(4))}
            t.equal(sorted(there), [("lent", OWN), ("link", NTB), ("mdev", UUID), ("offer", USED)], "--initial: what is there")
            t.equal({x["event"] for x in there.values()}, {"present"}, "  as such")
            t.equal(there["link", NTB]["values"], {"type": "ntb", "state": "up", "peer_node": 2, "peer_name": "", "session": "5a5a",
                                                    "last_error": ""},
                    "  with its values")
            t.equal(there["mdev", UUID]["values"]["address"], USED, "  a mediated device's is made of")
            t.equal(there["lent", OWN]["values"]["address"], "d0001:03:00.0", "  what a lent device is called elsewhere")
            change(f, f.sys / f"bus/dlend/devices/{USED}", state='q"\\')
            got = json.loads(w.line())
            got.pop("time")
            values = {**there["offer", USED]["values"], "state": 'q"\\'}
            t.equal(got, {"verb": "watch", "version": 1, "event": "changed", "kind": "offer", "name": USED, "values": values,
                          "before": {"state": "free"}},
                    "a change: all values, and what has changed of them")
            (f.sys / f"bus/dlend/devices/{USED}").unlink()
            got = json.loads(w.line())
            t.equal((got["event"], got["values"], got["before"]), ("went", values, {}), "one that goes, as it was last")
            f.offer("d0003:01:00.0", lender="3", epoch="12345678901234567890")
            got = json.loads(w.line())
            t.equal((got["event"], got["before"], got["values"]["epoch"]), ("came", {}, None), "one that comes, with a number that is none")


def ends(t):
    with Fake() as f:
        populate(f)
        with Watch(f, "--interval", "0.05", "--count", "2") as w:
            for state in ("held", "returning", "free"):
                change(f, f.device(OWN) / "dlend", state=state)
                w.line(1)
            out, err, code = w.end()
            t.equal((out, err, code), ("", "", 0), "--count 2: it ends after two")
        with Watch(f, "--count", "1", "--initial", "--interval", "0.05") as w:
            t.ok(all(" present: " in w.line() for _ in range(4)), "--initial")
            t.equal(w.said(0.3), None, "  does not count")
        begin = time.monotonic()
        with Watch(f, "--timeout", "1.5", "--interval", "100") as w:
            change(f, f.device(OWN) / "dlend", state="held")
            out, err, code = w.end()
            t.ok(1.4 < time.monotonic() - begin < PATIENCE_S, "--timeout is shorter than --interval")
            t.ok("state free -> held" in out and (err, code) == ("", 0), "  and what has changed until then is told", out + err)
        with Watch(f, "--timeout", "0.3", "--count", "5", "--interval", "0.1") as w:
            t.equal(w.end(), ("", "dlend: 0 of 5 changes came in 0.3 s\n", 1), "too few in that time: a failure")
        with Watch(f, "--timeout", "0.3", "--count", "5", "--json") as w:
            out = w.end()[0].splitlines()
            t.equal((len(out), json.loads(out[0])["error"]["code"]), (1, 1), "  in one line of JSON")
        with Watch(f) as w:
            w.process.send_signal(signal.SIGINT)
            t.equal(w.end(), ("", "", -signal.SIGINT), "Ctrl-C")
        with Watch(f, "--interval", "100") as w:
            w.process.stdout.close()
            t.equal(w.process.wait(PATIENCE_S), 0, "nobody reads any more, and it ends before there is anything to print")
            w.process.stdout = open(os.devnull, "rb")   # pylint: disable=consider-using-with
        r = f.run("watch --initial --timeout 0.2", before="exec >/dev/full")
        t.ok(r.code == 1 and "standard output" in r.err, "a full disk", r.err)
        r = f.run("watch --timeout 0.2", before="exec >&-")
        t.equal(r.code, 0, "no standard output")


def patience(t):
    """It waits, and does not spin."""
    with Fake() as f:
        populate(f)
        with Watch(f, "--timeout", "2.5") as w:
            _, status, usage = os.wait4(w.process.pid, 0)
            w.process.returncode = os.waitstatus_to_exitcode(status)
            # With pending events of this machine it may look more often, though never 20 times a second
            t.ok(usage.ru_nvcsw < 500 and usage.ru_utime + usage.ru_stime < 1.5, "it sleeps", str(usage))


def empty(t):
    with Fake(lender=False, node=None) as f:
        with Watch(f, "--interval", "0.05") as w:
            t.equal(w.said(0.3), None, "a host without dlend: nothing")
            f.offer(USED)
            t.ok(w.said().startswith(f"offer {USED} came"), "  until there is something")
    with Fake() as f:
        shutil.rmtree(f.sys)
        t.equal(f.run("watch --timeout 0.2").code, 0, "a host without sysfs")


def hostile(t):
    with Fake() as f:
        populate(f)
        dev = f.sys / f"bus/dlend/devices/{USED}"
        with Watch(f, "--json", "--initial", "--interval", "0.02") as w, Watch(f, "--interval", "0.02") as text:
            for _ in range(4):
                w.line()
            before = "free"
            for value in (b'a"b\\c', b"\x01\x1b[31m\x7f", b"\xff\xfe\x80", b"x" * 5000, b"{}", b"-"):
                (f.root / "new").write_bytes(value)
                (f.root / "new").rename(dev / "state")
                with t.case(f"a state that is {value[:12]!r}"):
                    got = json.loads(w.line())
                    assert (got["name"], got["before"]) == (USED, {"state": before}), got
                    before = got["values"]["state"]
                    line = text.line()
                    assert USED in line and line.isprintable(), line
            os.mkdir(os.fsencode(f.sys / "class/dlend_link") + b"/n\xff\x1b")
            change(f, Path(os.fsdecode(os.fsencode(f.sys / "class/dlend_link") + b"/n\xff\x1b")), state="up")
            with t.case("a name that is no text"):
                assert json.loads(w.line())["kind"] == "link"
                assert " link n?? came: state up" in text.line()
            os.unlink(dev / "state")
            with t.case("one whose attributes are gone is gone"):
                got = json.loads(w.line())
                assert (got["event"], got["values"]["state"]) == ("went", before), got


def send(pid, event, straight=False):
    """Into the namespaces of the process."""
    enter = ["nsenter", "-t", str(pid), "-n", *([] if os.geteuid() == 0 else ["-U", "--preserve-credentials"])]
    subprocess.run([*enter, sys.executable, "-c", SEND, event, "straight" if straight else "kernel"], check=True, timeout=PATIENCE_S)


def events(t):
    """The kernel's: it looks at once, long before it would by itself."""
    apart = ["unshare", "-n" if os.geteuid() == 0 else "-rn"]
    with t.case("an event of the kernel makes it look at once"):
        if not shutil.which("unshare") or subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
            t.skip("no network namespace can be made")
        with Fake() as f:
            populate(f)
            lent = f.device(OWN) / "dlend"
            with Watch(f, "--interval", "600", before=apart) as w:
                pid = w.process.pid
                change(f, lent, state="held")
                try:
                    send(pid, "change@/devices/x ACTION=change SUBSYSTEM=block")
                except subprocess.CalledProcessError:
                    if os.geteuid() == 0:
                        raise
                    t.skip("the kernel takes no events of this user")
                send(pid, "change@/devices/x ACTION=change SUBSYSTEM=dlend", straight=True)
                send(pid, "change@/devices/SUBSYSTEM=dlend XSUBSYSTEM=dlend SUBSYSTEM=dlendx")
                assert w.said(0.5) is None, "an event about something else, or of nobody knows whom"
                last = "free"
                for subsystem, state in (("dlend", "held"), ("mdev", "returning"), ("pci", "quarantined"), ("dlend_link", "free")):
                    change(f, lent, state=state)
                    send(pid, f"change@/devices/x ACTION=change SUBSYSTEM={subsystem} MDEV_STATE=registered")
                    said = w.said()
                    assert said == f"lent {OWN} changed: state {last} -> {state}", said
                    last = state


def usage(t):
    with Fake() as f:
        for words in ("watch --help", "watch -h"):
            r = f.run(words)
            t.ok(r.code == 0 and r.out.startswith("usage: dlend watch") and "--count" in r.out, words, r.err)
        for words in ("watch more", "watch --nonsense", "watch --count", "watch --count 0", "watch --count -1", "watch --count x",
                      "watch --count 1.5", "watch --count 99999999999", "watch --timeout 0", "watch --timeout -1", "watch --timeout 1x",
                      "watch --timeout nan", "watch --timeout inf", "watch --timeout 1e99", "watch --interval 0", "watch --interval x"):
            r = f.run(words)
            t.ok(r.code == 2 and r.err and not r.out, f"wrong usage: {words}", r.err)
        r = f.run("watch --json --count 0")
        t.ok(r.code == 2 and len(r.out.splitlines()) == 1 and json.loads(r.out)["error"]["todo"] == "Give one from 1 to 1000000000.",
             "  as one line of JSON", r.out)


heed_ctrl_c()
with Tap() as tap:
    for part in (changes, stamps, as_json, ends, patience, empty, hostile, events, usage):
        tap.diag(part.__name__)
        part(tap)
