# SPDX-License-Identifier: GPL-2.0-only
"""Whole hosts joined by emulated NTB links.  README.md says how a test looks.

    from cluster import Cluster, Tap
    with Cluster("two-hosts.toml") as c:
        print(c.host("a").run("uname -r").out)

Everything that is started ends with the `with` block, whatever ends it; should the runner itself be
killed, the kernel kills its children.  One cluster at a time runs on a machine.

Environment:
  DLEND_CACHE     trees, images (default ~/.cache/dlend)
  DLEND_RUN_DIR   where run directories go (default DLEND_CACHE/runs)
  DLEND_BUILD     what `make` left (default build/ of the project): modules/RELEASE, bin, guest, ntbsim
  DLEND_KERNEL    hosts boot this kernel (see root/mkimage) instead of Debian's
  DLEND_ACCEL     tcg (default) or kvm
  DLEND_PATIENCE  what hosts promise takes that many times longer, and every wait at least (default 1)
  DLEND_IOMMUFD   1: guests use iommufd where the host's kernel has it (see Guest)
"""
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fat
from cpio import Cpio
from host import Guest, Host
from tap import Skip, Tap
from topology import BadTopology, Topology, disks, tree_program
from wire import SLACK, CommandFailed, Gone, Job, Loop, QmpError, Result, TimedOut

__all__ = ["BadTopology", "Cluster", "CommandFailed", "Gone", "Guest", "Host", "Job", "LINUX_DISK", "NotBuilt",
           "QmpError", "Result", "Skip", "Tap", "TimedOut", "guest_image", "rom_image", "uefi_disk", "word_sum"]

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("DLEND_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dlend")
# A processor met the breakpoint of a code patch that the other had taken out already.
HOST_FAULT = "Oops: int3"
BUILD = Path(os.environ.get("DLEND_BUILD") or HERE.parent.parent / "build")
RUNS_KEPT = 6
LINUX_DISK = 48 << 20   # guest/Makefile makes it
FAILED = "failed"   # a file in a run's directory, if the run did


class NotBuilt(Exception):
    """Something that `make` should have left is not there."""


class Link:
    """An NTB link, as its emulator sees it."""

    DATA = 2 << 20      # in a window, beyond the link's own memory, which processors write
    LATE_MS = 400

    def __init__(self, cluster, spec):
        self.cluster = cluster
        self.name = spec.name
        self.a = spec.a
        self.b = spec.b
        self.family = spec.family

    def command(self, text, timeout=10):
        """A command about this link, without its name: "down", "up", "silent b on", "peek a 2 0 16"; its answer."""
        verb, _, rest = text.partition(" ")
        words = ["link", self.name, verb] if verb in ("up", "down") else [verb, self.name, rest]
        return self.cluster.ntbsim(" ".join(words).strip(), timeout)

    @contextlib.contextmanager
    def late(self, side, what):
        """In the block, what a side's devices write comes late: "data", or "interrupts" that come directly.  They take
        another way than what its processors write, which does not wait for them; a read through the link pushes them."""
        self.command(f"window {side} late {self.LATE_MS} {hex(self.DATA) if what == 'data' else what}")
        yield
        self.command(f"window {side} normal")

    def came_late(self, side):
        """How many writes of a side have, until now."""
        return self._count(side, "late")

    @contextlib.contextmanager
    def slow(self, side, ms):
        """In the block, a side's processors wait so long for what they read through the window."""
        self.command(f"window {side} slow {ms}")
        yield
        self.command(f"window {side} normal")

    def came_slowly(self, side):
        """How many of these reads there were, until now."""
        return self._count(side, "slow")

    def _count(self, side, what):
        return json.loads(self.cluster.ntbsim("status"))["links"][self.name][side][what]


class Cluster:
    """The hosts and links of a topology file.

    topology   a path, or the name of a file beside this one
    links      False: without the NTB links that the topology has
    modules    False: without our own modules in /share: what the hosts load was installed there
    tap        a Tap that is to name the run directory if something fails
    files      {name: bytes} for the run directory, where every host's QEMU runs: romfile=NAME
    """

    keeper = None      # who hands a bed on from one scenario to the next: several
    terminated = 0     # a signal has ended a scenario, and is to end all of them: the status that says so
    sockets = "s"      # in the run directory; short, as a socket's path has 107 characters

    def __init__(self, topology, links=True, modules=True, tap=None, files=None):
        path = Path(topology)
        self.topology = Topology(path if path.exists() else HERE / path.name)
        if not links:
            self.topology.drop_links()
        self.modules = modules
        self.tap = tap
        self.files = files or {}
        self.begin = time.monotonic()
        self.children = []
        self.boots = {}
        self.hosts = {}
        self.old_handlers = {}
        self.loop = Loop()
        self.run_dir = None
        self.lock = None

    # Life

    def __enter__(self):
        self._handle_signals()
        kept = self.keeper and self.keeper.take(self)
        if kept:
            self._adopt(kept)
            return self
        self.loop.in_vain = self._autopsies
        try:
            self._lock()
            self._make_run_dir()
            self._share()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error):
        try:
            if self.tap:
                self._account(error[0])
        finally:
            bad = error[0] or (self.tap and self.tap.failed)
            if bad:
                (self.run_dir / FAILED).touch()
            if bad or not (self.keeper and self._tidy() and self.keeper.keep(self)):
                self.stop()

    def _autopsies(self, why):
        """Somebody waited in vain: what every host is at."""
        self.loop.in_vain = lambda what: None       # an autopsy waits, too
        try:
            for host in self.hosts.values():
                host.autopsy(why)
        finally:
            self.loop.in_vain = self._autopsies

    def shape(self):
        """What a bed has to be for this scenario; None: it cannot be anybody else's."""
        if not self.tap or any(spec.systemd for spec in self.topology.hosts.values()):
            return None
        return (self.topology.path, bool(self.topology.links), self.modules, tuple(sorted(self.files.items())),
                os.environ.get("DLEND_KERNEL"))

    def _adopt(self, kept):
        """The hosts of a scenario that has ended, as its _tidy() left them."""
        for name in ("topology", "run_dir", "share", "loop", "lock", "children", "boots", "links", "hosts"):
            setattr(self, name, getattr(kept, name))
        for part in (*self.hosts.values(), *self.links.values()):
            part.cluster = self
        self.loop.in_vain = self._autopsies
        for host in self.hosts.values():
            host.begin_account()
        self.say(f"run directory {self.run_dir}, of hosts that are up")
        self.tap.keep(self.run_dir)

    def _tidy(self):
        """Unload everything of ours, and undo what the scenario did to the bed.  A result of its own, as a module
        that cannot go is a failure; false if the hosts are not fit for another scenario."""
        if not self.shape() or not all(host.running for host in self.hosts.values()):
            return False
        failed = self.tap.failed
        with self.tap.case("all that was borrowed and lent goes, and the modules are unloaded"):
            for link in self.links.values():
                link.command("up")
                self.ntbsim(f"override {link.name} a off")
                self.ntbsim(f"override {link.name} b off")
                for end in "ab":
                    self.ntbsim(f"silent {link.name} {end} off")
                    self.ntbsim(f"doorbell {link.name} {end} normal")
                    self.ntbsim(f"mute {link.name} {end} 4 0 0")
            for host in self.hosts.values():
                host.tidy()
        found = [f"{h.name}: {line}" for h in self.hosts.values() for line in h.complaints(scan=False)]
        if found:
            self.tap.ok(False, "and no kernel complains of it", "\n".join(found))
        if self.tap.failed > failed:
            (self.run_dir / FAILED).touch()
        for number, handler in self.old_handlers.items():
            signal.signal(number, handler)
        return self.tap.failed == failed

    def _handle_signals(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.old_handlers[number] = signal.signal(number, self._terminated)

    def _account(self, failed):
        """What every scenario has to show, whether it remembers to or not: no kernel complains, from boot to end."""
        found = []
        for host in self.hosts.values():
            try:
                found += [f"{host.name}: {line}" for line in host.last_complaints()]
            except (Gone, TimedOut) as e:
                found.append(f"{host.name}: cannot be asked: {e}")
        if not failed:
            self.tap.equal(found, [], "no kernel complains, on any host, from boot to end")
        elif found:
            self.tap.diag("what kernels complained of until then:\n" + "\n".join(found))

    @staticmethod
    def _terminated(number, frame):
        Cluster.terminated = 128 + number
        raise SystemExit(128 + number)

    def stop(self):
        """End everything; harmless if done already."""
        for process in reversed(self.children):
            if process.poll() is None:
                process.kill()
        for process in self.children:
            process.wait()
        self.children = []
        for number, handler in self.old_handlers.items():
            signal.signal(number, handler)
        self.old_handlers = {}
        if self.run_dir:
            self._bed_faults()
            for copy in (self.sockets, "share/guest", "share/modules", "share/bin"):
                shutil.rmtree(self.run_dir / copy, ignore_errors=True)
            for disk in self.run_dir.glob("*.disk"):
                disk.unlink()
        if self.lock:
            self.lock.close()
            self.lock = None

    def _bed_faults(self):
        """Say it when the emulation itself broke a host; tests/run looks for the words "bed fault"."""
        for console in sorted(self.run_dir.glob("*.console")):
            if HOST_FAULT in console.read_text(errors="replace"):
                self.say(f"bed fault: {console.stem}: {HOST_FAULT} (tests/cluster/README.md)")
        for host in self.hosts.values():
            if host.fell_by_bed():
                self.say(f"bed fault: host {host.name} reset itself without a word (tests/cluster/README.md)")

    def _lock(self):
        path = Path(tempfile.gettempdir()) / "dlend-cluster.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o666)
        self.lock = os.fdopen(descriptor, "r+")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.say(f"waiting: process {self.lock.read().strip()} runs a cluster on this machine")
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            self.begin = time.monotonic()
        self.lock.seek(0)
        self.lock.truncate()
        self.lock.write(f"{os.getpid()}\n")
        self.lock.flush()

    def _make_run_dir(self):
        runs = Path(os.environ.get("DLEND_RUN_DIR") or CACHE / "runs")
        runs.mkdir(parents=True, exist_ok=True)
        past = sorted(p for p in runs.iterdir() if re.match(r"\d{8}-\d{6}-", p.name))
        for bad in (False, True):   # what passed does not push out what somebody has to look at
            for old in [p for p in past if (p / FAILED).exists() == bad][:1 - RUNS_KEPT]:
                if not Path("/proc", old.name.rpartition("-")[2]).exists():     # its runner is at it still
                    shutil.rmtree(old, ignore_errors=True)
        self.run_dir = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        (self.run_dir / self.sockets).mkdir(parents=True)
        for name, data in self.files.items():
            (self.run_dir / name).write_bytes(data)
        longest = self.run_dir / self.sockets / "longhost.g0.console"
        if len(str(longest)) > 100:
            raise NotBuilt(f"{self.run_dir} is too long for socket names: set DLEND_RUN_DIR to a shorter place")
        self.say(f"run directory {self.run_dir}")
        if self.tap:
            self.tap.keep(self.run_dir)

    def _share(self):
        """What the hosts see as /share: modules and programs under test, what guests boot from, room for logs."""
        self.share = self.run_dir / "share"
        self.share.mkdir()
        for directory in sorted((BUILD / "modules").glob("*")) if self.modules else ():
            copy_modules(directory, self.share / "modules" / directory.name)
        if (BUILD / "bin").is_dir():
            shutil.copytree(BUILD / "bin", self.share / "bin")
        (self.share / "guest").mkdir()
        if (BUILD / "guest").is_dir():
            self._pack_programs(sorted((BUILD / "guest").iterdir()))
        if any(spec.systemd for spec in self.topology.hosts.values()):
            self._share_installation()
        self._share_network([spec for spec in self.topology.hosts.values() if spec.systemd])

    def _share_installation(self):
        """What `make install` puts into a host, but for the modules, as far as it is built: Host.install()."""
        if (BUILD / "bin/dlend").exists():
            command = ["make", "-s", "-C", HERE.parent.parent, "install-files", "PREFIX=/usr",
                       f"DESTDIR={self.share / 'installed'}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _share_network(self, members):
        """What hosts with systemd are to each other: names, addresses, keys that all of them know."""
        if not members:
            return
        net = self.share / "net"
        net.mkdir()
        (net / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{m.address} {m.name}\n" for m in members))
        for member in members:
            (net / member.name).write_text("".join(f"{c.mac} {c.address} {c.peer}\n" for c in member.cables))
            (net / f"{member.name}.machine-id").write_text(member.identity.hex + "\n")
        for key in ("host", "root"):
            command = tree_program(self.boot("").resolve() / "tree", "usr/bin/ssh-keygen")
            subprocess.run([*command, "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", net / key], check=True)

    def _pack_programs(self, programs):
        """Our own programs for guests, as one more part of their initramfs: "programs"."""
        cpio = Cpio(self.share / "guest/programs.cpio")
        for program in programs:
            if os.access(program, os.X_OK):
                cpio.file(f"bin/{program.name}", program)
        cpio.close()

    def _start(self):
        links = self.topology.links.values()
        self.links = {link.name: Link(self, link) for link in links}
        self.topology.place(lambda link, end: self.run_dir / self.sockets / f"{link.name}.{end}")
        if self.links:
            self._start_ntbsim(links)
        self.hosts = {spec.name: Host(self, spec) for spec in self.topology.hosts.values()}
        for host in self.hosts.values():
            for image, size in disks(host.spec):
                with open(self.run_dir / image, "wb") as f:
                    f.truncate(size)
            host.start()
        for host in self.hosts.values():
            host.wait_up()

    def _start_ntbsim(self, links):
        binary = BUILD / "ntbsim" / "ntbsim"
        if not binary.exists():
            raise NotBuilt(f"no {binary}: tests/cluster/root/inbuild make -C tests/ntbsim")
        command = [str(binary), "--control", f"{self.sockets}/ntbsim"]
        # The driver of 6.12 does not know the id that ntbsim has by default.
        kernels = {os.environ.get("DLEND_KERNEL") or spec.kernel or "" for spec in self.topology.hosts.values()}
        if any("6.12" in Path(kernel).name for kernel in kernels):
            command += ["--device-id", "148b"]
        ends = []
        for link in links:
            text = f"{link.name}={self.sockets}/{link.name}.a,{self.sockets}/{link.name}.b"
            ends += [f"{link.name}.a", f"{link.name}.b"]
            for bar in ("bar2", "bar4"):
                if getattr(link, bar):
                    text += f",{bar}={getattr(link, bar)}"
            command += ["--link", f"{text},family={link.family}"]
        process = self.spawn("ntbsim", command)
        end = time.monotonic() + 10 * SLACK
        while not all((self.run_dir / self.sockets / name).exists() for name in ["ntbsim", *ends]):
            if process.poll() is not None or time.monotonic() > end:
                raise Gone("ntbsim did not start:\n" + (self.run_dir / "ntbsim.log").read_text(errors="replace"))
            time.sleep(0.02)

    def spawn(self, name, command):
        """Start a child that dies with this process; its output goes to NAME.log.

        The kernel sends the death signal when the *thread* that started the child ends: main thread only.
        """
        environment = dict(os.environ)
        environment["QEMU_MODULE_DIR"] = str(self.boot("").resolve() / "tree/usr/lib/x86_64-linux-gnu/qemu")
        with open(self.run_dir / f"{name}.log", "ab") as log:
            process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], cwd=self.run_dir,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                       start_new_session=True)
        self.children.append(process)
        return process

    def boot(self, kernel):
        """mkimage's directory for a host with that kernel ("" is the default)."""
        kernel = os.environ.get("DLEND_KERNEL") or kernel
        if kernel not in self.boots:
            command = [HERE / "root" / "mkimage"] + (["--kernel", kernel] if kernel else [])
            self.boots[kernel] = Path(subprocess.run(command, check=True, text=True,
                                                     stdout=subprocess.PIPE).stdout.strip())
        return self.boots[kernel]

    # Use

    def host(self, name):
        return self.hosts[name]

    def linux_disk(self, disk, line, parts=("base",)):
        """Make a file a disk from which firmware boots the guests' kernel and their initramfs, of these parts, with
        this command line.  What is behind the first LINUX_DISK bytes of it stays.  Returns how much there is to load."""
        with open(disk, "r+b") as file:
            file.write(guest_image("loader.img"))
        loads = [self.boot("").resolve() / f"guest/{name}" for name in ("vmlinuz", *map("{}.cpio".format, parts))]
        self._mcopy(disk, *loads, "::")
        self.linux_line(disk, line, parts)
        return sum(path.stat().st_size for path in loads)

    def linux_line(self, disk, line, parts=("base",)):
        """Another command line for a linux_disk(), whose other files stay."""
        # SERIAL: without a display nobody sees what it says
        config = (f"SERIAL 0 115200\nDEFAULT linux\nLABEL linux\nKERNEL vmlinuz\n"
                  f"INITRD {','.join(map('{}.cpio'.format, parts))}\nAPPEND {line}\n")
        self._mcopy(disk, "-", "::syslinux.cfg", input=config.encode())

    def linux_file(self, disk, name):
        """What a file of a linux_disk() holds."""
        return self._mcopy(disk, f"::{name}", "-", stdout=subprocess.PIPE).stdout

    @staticmethod
    def _mcopy(disk, *words, **options):
        tree = Path(subprocess.run([HERE / "root/mktree", "build"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip())
        return subprocess.run([*tree_program(tree, "usr/bin/mcopy"), "-o", "-i", disk, *words], check=True, **options)

    def link(self, name):
        return self.links[name]

    def ntbsim(self, command, timeout=10):
        """A command for the NTB emulator; its answer without the final "ok"."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout)
            sock.connect(str(self.run_dir / self.sockets / "ntbsim"))
            sock.sendall(command.encode() + b"\n")
            answer = b""
            while not re.search(rb"^(ok|error: .*)\n", answer, re.M):
                data = sock.recv(65536)
                if not data:
                    raise Gone(f"ntbsim hung up on: {command}")
                answer += data
        text, _, last = answer.decode().rstrip("\n").rpartition("\n")
        if last != "ok":
            raise CommandFailed("ntbsim", command, Result(1, answer))
        return text

    def wait_traffic(self, link, what, more, timeout=60):
        """Until each side of a link has done so many more of what ntbsim counts ("writes", "reg_reads")."""
        def counts():
            status = json.loads(self.ntbsim("status"))["links"][link]
            return [status[side][what] for side in "ab"]
        before = counts()
        self.loop.wait(f"{more} {what} on {link}", lambda: min(n - b for n, b in zip(counts(), before)) >= more, timeout)

    def scan(self):
        """Have all kernels look for leaks, if they can (klog.py)."""
        jobs = []
        for host in self.hosts.values():
            with contextlib.suppress(Gone, TimedOut):
                jobs.append((host, host.begin_scan()))
        for host, job in jobs:
            with contextlib.suppress(Gone, TimedOut):
                if job:
                    host.end_scan(job)

    def complaints(self):
        """What any host's kernel said against itself so far, as "host: line"."""
        return [f"{h.name}: {line}" for h in self.hosts.values() for line in h.complaints()]

    # Talk

    def say(self, text):
        print(f"# [{time.monotonic() - self.begin:4.0f} s] {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def progress(self, text):
        """Say so when it is done, if it took over two seconds."""
        begin = time.monotonic()
        yield
        if time.monotonic() - begin > 2:
            self.say(text)


def guest_image(name):
    """What tests/cluster/guest has for a guest's firmware: bytes."""
    path = BUILD / "guest" / name
    if not path.exists():
        raise NotBuilt(f"no {path}: tests/build tools")
    return path.read_bytes()


def rom_image():
    """The expansion ROM among them as firmware wants it: whole, and of sum 0."""
    image = bytearray(guest_image("rom.bin").ljust(2048, b"\0"))
    image[-1] = -sum(image) & 0xff
    return bytes(image)


def word_sum(data):
    """What disk.S and uefi.S there make of the bytes that they find: the sum of 32-bit words."""
    return sum(struct.unpack(f"<{len(data) // 4}I", data)) & 0xffffffff


def uefi_disk(size, body):
    """A disk from which UEFI firmware boots a program that says the sum of `body`, of 64 KiB."""
    image = guest_image("uefi.efi")
    return fat.disk(size, "EFI/BOOT/BOOTX64.EFI", image[:-len(body)] + body)


def copy_modules(source, target):
    """Copy *.ko of a kernel release, and write down for lib/load-modules what each needs."""
    target.mkdir(parents=True)
    needs = []
    for module in sorted(source.glob("*.ko")):
        data = module.read_bytes()
        name = module.stem.replace("-", "_")
        (target / f"{name}.ko").write_bytes(data)
        found = re.search(rb"\0depends=([^\0]*)\0", data)
        names = found.group(1).decode().replace("-", "_").split(",") if found else []
        needs.append(f"{name}:" + " ".join(n for n in names if n) + "\n")
    (target / "needs").write_text("".join(needs))
