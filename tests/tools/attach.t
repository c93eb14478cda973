#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend attach and detach on a fake host: every refusal, what is noted for the next boot, what status shows.

    one host, node 1, that sees an offer of node 2: d0002:03:00.0.  That a write attaches it is the kernel's: 24-attach
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import TOP, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

OFFER = "d0002:03:00.0"
PCI = "d002:03:00.0"
UUID = "11111111-0000-4000-8000-000000000001"


def refused(t, f, words, code, *parts):
    r = f.run(words)
    missing = [p for p in parts if p not in r.err]
    t.ok(r.code == code and not missing, f"{words}: {parts[-1]}", f"code {r.code}, want {code}; missing {missing}\n{r.err}")


def record(f):
    return f.root / "etc/dlend/attach" / OFFER


def syntax(t):
    with Fake() as f:
        for verb in ("attach", "detach"):
            for bad in ("", "3", "03:00.0", "0000:03:00.0", "d0002:3", "../x", "d0002:03:20.0"):
                r = f.run([verb, bad])
                t.ok(r.code == 2 and "is no address of an offer" in r.err, f"{verb} {bad!r} is refused", r.err)
            refused(t, f, verb, 2, f"usage: dlend {verb}")
            refused(t, f, f"{verb} --nonsense {OFFER}", 2, "nonsense", f"usage: dlend {verb}")
        refused(t, f, f"attach --force {OFFER}", 2, "usage: dlend attach")


def not_now(t):
    with Fake() as f:
        refused(t, f, f"attach {OFFER}", 3, "is not there", "no node offers it", "dlend list")
        refused(t, f, f"detach {OFFER}", 3, "is not attached here", "dlend status")
        dev = f.offer(OFFER)
        refused(t, f, f"attach {OFFER}", 6, "dlend_native is not loaded", "modprobe dlend_native")
        f.files(dev, attached="no", attach_error="")
        f.files(dev, link="down")
        refused(t, f, f"attach {OFFER}", 6, "the link to its lender, node 2, is down", "dlend links")
        f.files(dev, link="ntb0", state="held", borrower="3")
        refused(t, f, f"attach {OFFER}", 4, "is in use", "node 3 has it")
        f.files(dev, state="free", borrower="0")
        f.files(dev / UUID / "dlend", state="active")
        refused(t, f, f"attach {OFFER}", 4, f"as mediated device {UUID} (active)", f"mdevctl stop -u {UUID}")


def kernel_says_no(t):
    with Fake() as f:
        dev = f.offer(OFFER, attached="no", attach_error="the window of node 2 has no 512 MiB more for its memory")
        os.remove(dev / "attached")
        os.symlink("/dev/full", dev / "attached")
        r = f.run(f"attach {OFFER}")
        t.ok(r.code == 1 and "has no 512 MiB more for its memory" in r.err, "the kernel's reason is told", r.err)
        r = f.run(f"--json attach {OFFER}")
        t.ok(json.loads(r.out)["error"]["why"].startswith("the window"), "  also as JSON", r.out)


def attached(f):
    """It is attached, and a disk."""
    f.offer(OFFER, attached=PCI, attach_error="")
    return f.pci(PCI)


def there_already(t):
    with Fake() as f:
        attached(f)
        r = f.run(f"attach {OFFER}")
        t.equal((r.code, r.out), (0, f"{OFFER} is attached as {PCI}, driver nvme\n"), "attached already: no error")
        entry = json.loads(f.run(f"--json attach {OFFER}").out)["attached"]
        t.equal(entry, [{"address": OFFER, "device": PCI, "driver": "nvme"}], "  the same as JSON")
        out = json.loads(f.run("--json status").out)
        t.equal(out["attached"], [{"address": OFFER, "device": PCI, "driver": "nvme"}], "status has it")
        t.ok(f"{OFFER} is attached as {PCI}, driver nvme" in f.run("status").out, "  in words, too")
        refused(t, f, f"lend --as 05:00.0 {PCI}", 5, "is another node's", f"dlend detach {OFFER}")
        f.pci("0000:07:00.0", group="8")
        f.file("dlend.conf", "class=0108\n1b36:0010\n", f.root / "etc")
        r = f.run("--json lend --all")
        out = json.loads(r.out)
        t.equal((r.code, [e["device"] for e in out["lent"]], out["failed"]), (0, ["0000:07:00.0"], []), "a line that means a kind of devices does not mean this one")


def in_use(t):
    with Fake() as f:
        dev = attached(f)
        f.below(dev, "block/nvme0n1", "class/block/nvme0n1")
        f.files(f.sys / "class/block/nvme0n1", dev="259:0")
        f.file("mountinfo", "20 1 259:0 / /data rw shared:1 - ext4 /dev/nvme0n1 rw\n", f.proc / "self")
        refused(t, f, f"detach {OFFER}", 4, "is in use", "is mounted on /data", "umount /data")
        t.equal((f.sys / f"bus/dlend/devices/{OFFER}/attached").read_text(), f"{PCI}\n", "  nothing was done")
        r = f.run(f"detach --force {OFFER}")
        t.equal((r.code, r.out), (0, f"{OFFER} is detached: its lender has it back\n"), "--force does not look")
        (f.sys / f"bus/dlend/devices/{OFFER}/attached").write_text(f"{PCI}\n")
        r = f.run(f"detach --force {PCI}")
        t.equal((r.code, r.out), (0, f"{OFFER} is detached: its lender has it back\n"), "by its PCI address")


def several(t):
    """The second of two fails: what became of the first is told all the same."""
    other = "d0002:04:00.0"
    with Fake() as f:
        attached(f)
        r = f.run(f"attach {OFFER} {other}")
        t.ok(r.code == 3 and f"{OFFER} is attached as {PCI}" in r.out and f"{other} is not there" in r.err, "attach: the second is not there", r.err)
        r = f.run(f"--json attach {OFFER} {other}")
        out = json.loads(r.out)
        t.equal((r.code, [e["address"] for e in out.get("attached", [])], out["error"]["code"]), (3, [OFFER], 3), "  in JSON, too")
        r = f.run(f"--json attach {other} {OFFER}")
        out = json.loads(r.out)
        t.equal((r.code, "attached" in out, out["error"]["code"]), (3, False, 3), "  the first one fails: nothing else is done")
        r = f.run(f"--json detach --force {OFFER} {other}")
        out = json.loads(r.out)
        t.equal((r.code, out.get("detached"), out["error"]["code"]), (3, [OFFER], 3), "detach, too")


def hangs(t):
    """The kernel unbinds the device's driver here, which may wait for whoever uses it."""
    with Fake() as f:
        attached(f)
        path = f.sys / f"bus/dlend/devices/{OFFER}/attached"
        path.unlink()
        os.mkfifo(path)
        # It is full, so a writer waits; whoever reads gets 255 bytes of the first page, which stays then
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        os.write(fd, (f"{PCI}\n".encode().ljust(255) * 17)[:4096])
        try:
            while True:
                os.write(fd, b" " * 4096)
        except BlockingIOError:
            pass
        r = f.run(f"detach --force {OFFER}", before="DLEND_PATIENCE=1; export DLEND_PATIENCE")
        t.ok(r.code == 4 and "is not detached yet" in r.err and "not over after 1 s" in r.err, "detach ends, and says so", f"{r.code} {r.err}")
        os.close(fd)


def persistent(t):
    with Fake() as f:
        refused(t, f, f"attach --persistent {OFFER}", 1, "cannot be written", "Nothing was changed")
        (f.root / "etc").mkdir()
        r = f.run(f"attach --persistent {OFFER}")
        t.ok(r.code == 0 and "it will be attached when it is" in r.err and record(f).exists(), "noted, though nobody offers it",
             r.err)
        r = f.run(f"detach --persistent {OFFER}")
        t.ok(r.code == 0 and not record(f).exists(), "forgotten", r.err)
        t.equal(f.run(f"detach --persistent {OFFER}").code, 0, "forgotten again: no error")
        attached(f)
        f.run(f"attach --persistent {OFFER}")
        t.ok(record(f).exists(), "noted, of one that is there")
        r = f.run(f"detach {OFFER}")
        t.ok(r.code == 0 and "at the next boot; dlend detach --persistent" in r.err and record(f).exists(),
             "detached, but not forgotten, which is told", r.err)


def by_udev(t):
    """attach-now, as the rule calls it."""
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        for name in ("systemctl", "dlend"):
            (root / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{root}/calls\n')
            (root / name).chmod(0o755)

        def run(address, systemd):
            # The script looks for programs in the system's folders first
            text = (TOP / "dist/attach-now").read_text().replace("PATH=/usr/local/sbin", f"PATH={root}:/usr/local/sbin")
            env = {**os.environ, "DLEND_RUN_SYSTEMD": str(root if systemd else root / "no")}
            r = subprocess.run(["sh", "-c", text, "attach-now", address], env=env, capture_output=True, text=True, check=False)
            calls = (root / "calls").read_text() if (root / "calls").exists() else ""
            (root / "calls").unlink(missing_ok=True)
            return r.returncode, calls

        t.equal(run(OFFER, True), (0, f"systemctl --no-block start dlend-attach@{OFFER}.service\n"), "by systemd")
        t.equal(run(OFFER, False), (0, f"dlend attach {OFFER}\n"), "without")
        t.equal(run("../x", False), (2, ""), "what is no address is not passed on")


with Tap() as tap:
    for part in (syntax, not_now, kernel_says_no, there_already, in_use, several, hangs, persistent, by_udev):
        tap.diag(part.__name__)
        part(tap)
