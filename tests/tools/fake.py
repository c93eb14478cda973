# SPDX-License-Identifier: GPL-2.0-only
"""A small sysfs and procfs in a temporary directory, and the dlend command let loose on it.

    with Fake() as f:
        f.pci("0000:03:00.0", driver="nvme")
        f.run("lend 3:00.0")

The files that a write makes something happen in (bind, lend_prepare, unbind, drivers_probe, reclaim, prepared) are FIFOs with a thread behind them, which does what the kernel would.
"""
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from documents import check_output

TOP = Path(__file__).resolve().parent.parent.parent
DLEND = os.environ.get("DLEND_TOOL") or TOP / "build/bin/dlend"
LENDER = "dlend-lender"
SYNC, STOP = b"\x16", b"\x04"


def one_by_one(text):
    """What was written: two writers at once may have written before it is read."""
    found = re.findall(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", text)
    if len(found) > 1 and "".join(found) == text:
        return found
    return [text] if text else []


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr


class Fake:
    def __init__(self, node="1", lender=True, prepares=True):
        self.root = Path(tempfile.mkdtemp(prefix="dlend-fake-"))
        self.sys = self.root / "sys"
        self.proc = self.root / "proc"
        self.refuse = set()         # (file name, BDF): the kernel does nothing on that write
        self.writes = []            # (file name, text) in order
        self.home = {}              # BDF: the driver that knows the device
        self.behind = {}        # {BDF: BDF of the port above it}
        self.clique = "taken"       # or the file that a lent device's is, or None
        self.full = set()           # attributes of a lent device that take nothing
        self.prepares = prepares    # dlend_lender knows of devices that are bound and not offered yet
        self.fifos = []
        self.put("bus/pci/devices")
        self.fifo(self.sys / "bus/pci/drivers_probe", self.probe)
        self.file("mountinfo", "20 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n", self.proc / "self")
        self.file("swaps", "Filename\tType\tSize\tUsed\tPriority\n", self.proc)
        if lender:
            self.driver(LENDER)
        if node is not None:
            self.file("node_id", node + "\n", self.sys / "module/dlend_core/parameters")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.settle(stop=True)
        for fd, thread, _ in self.fifos:
            thread.join(1)
            os.close(fd)
        shutil.rmtree(self.root)

    def settle(self, stop=False):
        """Until the threads have done what was written."""
        for fd, thread, idle in list(self.fifos):
            if thread.is_alive():
                idle.clear()
                os.write(fd, STOP if stop else SYNC)
                idle.wait(5)

    # The tree

    def put(self, name):
        path = self.sys / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @staticmethod
    def file(name, text, directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)

    def files(self, directory, **texts):
        for name, text in texts.items():
            self.file(name, f"{text}\n", directory)

    def link(self, name, target):
        path = self.sys / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))

    def fifo(self, path, act):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        # Open for both ways, so that it never closes and no writer waits
        fd = os.open(path, os.O_RDWR)
        idle = threading.Event()
        thread = threading.Thread(target=self._serve, args=(fd, path.name, act, idle), daemon=True)
        self.fifos.append((fd, thread, idle))
        thread.start()

    def _serve(self, fd, name, act, idle):
        while True:
            data = os.read(fd, 4096)
            for text in one_by_one(data.strip(SYNC + STOP).decode()):
                self.writes.append((name, text))
                if (name, text.strip()) not in self.refuse:
                    act(text.strip())
            if SYNC in data or STOP in data:
                idle.set()
            if STOP in data:
                return

    def driver(self, name):
        path = self.sys / "bus/pci/drivers" / name
        if not path.exists():
            path.mkdir(parents=True)
            self.fifo(path / "bind", lambda bdf: self.bind(bdf, name))
            self.fifo(path / "unbind", lambda bdf: self.unbind(bdf, name))
            if name == LENDER and self.prepares:
                self.fifo(path / "lend_prepare", lambda bdf: self.bind(bdf, name, "preparing"))
        return path

    def hang(self, name):
        """From now on whoever writes what takes a device from that driver waits; a function that ends this.

        Nothing that a test can make sleeps as a kernel thread does, which no signal ends.
        """
        path = self.sys / "bus/pci/drivers" / name / "unbind"
        away = path.rename(path.with_name("unbind.away"))
        os.mkfifo(path)

        def end(bdf):
            self.unbind(bdf, name)
            path.read_text()
            path.unlink()
            away.rename(path)
        return end

    def device(self, bdf):
        return self.sys / "devices/pci0000:00" / self.behind.get(bdf, "") / bdf

    def pci(self, bdf, driver="nvme", pclass="0x010802", group="7", kind="DMA", reset="flr", **more):
        """A function; its directory."""
        dev = self.device(bdf)
        self.files(dev, **{"class": pclass, "vendor": "0x1b36", "device": "0x0010", "reset_method": reset, **more})
        self.file("driver_override", "(null)\n", dev)
        self.link(f"bus/pci/devices/{bdf}", dev)
        if group:
            where = self.put(f"kernel/iommu_groups/{group}")
            self.files(where, type=kind)
            self.link(f"kernel/iommu_groups/{group}/devices/{bdf}", dev)
            (dev / "iommu_group").symlink_to(os.path.relpath(where, dev))
        if driver:
            self.driver(driver)
            self.home[bdf] = driver
            self.bind(bdf, driver)
        return dev

    def below(self, dev, sub, link):
        """A class device under a function, reachable by /sys/LINK."""
        path = dev / sub
        path.mkdir(parents=True, exist_ok=True)
        self.link(link, path)
        return path

    # What the kernel does

    def bind(self, bdf, driver, state="free"):
        dev = self.device(bdf)
        if (dev / "driver").is_symlink() or (driver != LENDER and self.group_lent(dev)):
            return
        where = self.sys / "bus/pci/drivers" / driver
        (where / bdf).symlink_to(os.path.relpath(dev, where))
        if driver == LENDER:
            self.lent(bdf, state)
        (dev / "driver").symlink_to(os.path.relpath(where, dev))

    @staticmethod
    def group_lent(dev):
        """The kernel gives no driver a device of a group whose DMA is another's."""
        members = (dev / "iommu_group/devices").glob("*") if (dev / "iommu_group").exists() else ()
        return any((member / "driver").exists() and os.readlink(member / "driver").endswith(LENDER)
                   for member in members)

    def unbind(self, bdf, driver):
        dev = self.device(bdf)
        shutil.rmtree(dev / "dlend", ignore_errors=True)
        (self.sys / "bus/pci/drivers" / driver / bdf).unlink()
        (dev / "driver").unlink()

    def probe(self, bdf):
        override = self.override(bdf)
        driver = override if override not in ("", "(null)") else self.home.get(bdf)
        if driver:
            self.bind(bdf, driver)

    def lent(self, bdf, state):
        own = self.device(bdf) / "dlend"
        self.files(own, state=state, borrower="0", epoch="0", type="dlend-nvme", group=bdf,
                   fabric_name=f"d0001:{bdf[5:]}", reserved="none", set="none")
        if self.clique == "taken":
            self.fifo(own / "clique", lambda text: None)
        elif self.clique:
            (own / "clique").symlink_to(self.clique)
        def prepared(text):
            """Nobody waits until this is done, so the device may be unbound by then."""
            with contextlib.suppress(FileNotFoundError):
                if (own / "state").read_text().strip() in ("free", "preparing"):
                    (own / "state").write_text("preparing\n" if text == "0" else "free\n")
        self.fifo(own / "reclaim", lambda text: self.files(own, state="free", borrower="0"))
        if self.prepares and "prepared" not in self.full:
            self.fifo(own / "prepared", prepared)
        for name in self.full:
            (own / name).unlink(missing_ok=True)
            (own / name).symlink_to("/dev/full")

    def offer(self, address, **attributes):
        dev = self.put(f"devices/dlend/{address}")
        self.files(dev, **{"type": "dlend-nvme", "lender": "2", "state": "free", "borrower": "0", "epoch": "3",
                           "vendor": "0x1b36", "device": "0x0010", "class": "0x010802", "link": "ntb0",
                           **attributes})
        self.link(f"bus/dlend/devices/{address}", dev)
        return dev

    # The command

    def run(self, words, timeout=30, trees=None, before=None):
        """before: what a shell does first, in the process that becomes the command"""
        words = words.split() if isinstance(words, str) else words
        command = [DLEND, *(trees or ["--root", self.root]), *words]
        if before:
            command = ["sh", "-c", before + '; exec "$@"', "sh", *command]
        result = Result(subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout,
                                       check=False))
        self.settle()
        check_output(command, result.out)
        return result

    def json(self, words):
        """What a command that succeeds prints with --json."""
        r = self.run(f"--json {words}")
        assert r.code == 0, r.err
        return json.loads(r.out)

    def driver_of(self, bdf):
        try:
            return os.path.basename(os.readlink(self.device(bdf) / "driver"))
        except FileNotFoundError:
            return None

    def override(self, bdf):
        """Nothing truncates the file, as nothing has to in sysfs: the first line counts."""
        return (self.device(bdf) / "driver_override").read_text().splitlines()[0]
