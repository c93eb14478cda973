# SPDX-License-Identifier: GPL-2.0-only
"""What tests of `dlend migrate` run it in: two hosts that are directories, and a VM.

    node 1 (a, here) and node 2 (b); virsh, mdevctl and ssh are virt_fakes.py, as programs by World.run_program(), within
    this process by World.run(); devices of node 3: d0003:01:00.0 and d0003:02:00.0, used by the VM "vm1"
"""
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "tools"))
sys.dont_write_bytecode = True
import migration.command  # noqa: E402  pylint: disable=wrong-import-position
import migration.mdevs  # noqa: E402  pylint: disable=wrong-import-position
import migration.precopy  # noqa: E402  pylint: disable=wrong-import-position
import migration.steps  # noqa: E402  pylint: disable=wrong-import-position
from documents import check_output  # noqa: E402  pylint: disable=wrong-import-position
import remote.hosts  # noqa: E402  pylint: disable=wrong-import-position
import remote.signals  # noqa: E402  pylint: disable=wrong-import-position
import remote.waits  # noqa: E402  pylint: disable=wrong-import-position
from fake import TOP  # noqa: E402  pylint: disable=wrong-import-position
from migration.keeping import QEMU  # noqa: E402  pylint: disable=wrong-import-position
from virt_fakes import Died, Local, make_active  # noqa: E402  pylint: disable=wrong-import-position

MIGRATE = TOP / "tools/migrate"
KEEP, DETACH = ("--live",), ("--live", "--detach-all")     # what becomes of the devices of a VM that runs on
migration.mdevs.STOP_S = 1


class Fast:
    """time, as tools/migration and tools/remote use it: a second takes a tenth of one."""

    @staticmethod
    def monotonic():
        return 10 * time.monotonic()

    @staticmethod
    def sleep(seconds):
        time.sleep(seconds / 10)


for user in (migration.command, migration.precopy, migration.steps, remote.waits):
    user.time = Fast
migration.precopy.LOOK_S = 0.1

U1, U2 = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
P1, P2 = "d0003:01:00.0", "d0003:02:00.0"
VM_UUID = "99999999-0000-4000-8000-000000000009"
HOSTDEV = """<hostdev mode="subsystem" type="mdev" model="vfio-pci"><source><address uuid="{0}"/></source>
<alias name="ua-{0}"/><address type="pci" domain="0x0000" bus="0x{1:02x}" slot="0x00" function="0x0"/></hostdev>"""
# So that QEMU moves a VM that has it
KEPT = """<qemu:device alias="ua-{}"><qemu:frontend>
<qemu:property name="enable-migration" type="string" value="on"/>
<qemu:property name="x-no-kvm-intx" type="bool" value="true"/></qemu:frontend></qemu:device>"""


def xml(*uuids, more="", uuid=VM_UUID, name="vm1"):
    devices = "".join(HOSTDEV.format(u, n) for n, u in enumerate(uuids, 5))
    kept = "".join(KEPT.format(u) for u in uuids)
    return f"<domain type='kvm' xmlns:qemu='{QEMU}'><name>{name}</name><uuid>{uuid}</uuid><memory unit='GiB'>1</memory>" \
           f"<devices>{devices}{more}</devices><qemu:override>{kept}</qemu:override></domain>"


def domain(text, running=True, number=0, **more):
    """As virt_fakes.py has it; number: libvirt's id of one that runs."""
    return {"state": "running" if running else "shut off", "xml": text, "persistent": True,
            "live": text if running else "", "id": number, **more}


class World:
    """Two hosts; the VM runs on a.  others: running VMs of both, (name, id)"""

    # pylint: disable-next=too-many-arguments
    def __init__(self, uuids=(U1, U2), running=True, hook=False, autostart=False, more="", name="vm1", others=()):
        self.path = Path(tempfile.mkdtemp(prefix="dlend-migrate-"))
        self.bin = self.path / "bin"
        self.bin.mkdir()
        for program in ("virsh", "mdevctl", "ssh", "dlend", "dmesg"):
            (self.bin / program).symlink_to(HERE / "virt_fakes.py")
        for node, host in enumerate("ab", 1):
            self.host(host, node, hook)
        beside = {other: domain(xml(uuid=VM_UUID.replace("9", "7"), name=other), number=number)
                  for other, number in others}
        vm = domain(xml(*uuids, more=more, name=name), running, 5, autostart=autostart)
        self.state({"a": {**beside, name: vm}, "b": beside})
        for uuid, parent in ((U1, P1), (U2, P2)):
            if uuid in uuids:
                self.definition("a", uuid, parent)
                self.active("a", uuid, parent)
        self.leases("held" if running and uuids else "free", "1" if running and uuids else "0")
        self.env = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "WORLD": str(self.path),
                    "MIGRATE": str(MIGRATE), "DLEND_PROGRAMS": str(MIGRATE.parent), "PYTHONDONTWRITEBYTECODE": "1"}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.path)

    def host(self, host, node, hook):
        for parent in (P1, P2):
            self.offer(host, parent)
        self.put(host, "sys/module/dlend_core/parameters/node_id", f"{node}\n")
        self.put(host, "etc/machine-id", f"{host * 32}\n")
        if hook:
            self.put(host, "etc/dlend.conf", "set libvirt-hook=on\n")
            self.put(host, "etc/libvirt/hooks/qemu.d/dlend", "")
        for name in ("etc/mdevctl.d", "sys/bus/mdev/devices", "run/dlend"):
            (self.path / host / name).mkdir(parents=True)
        self.put(host, "proc/meminfo", "MemAvailable:   4194304 kB\n")

    def put(self, host, name, text):
        path = self.path / host / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def offer(self, host, parent, **more):
        usual = {"state": "free", "borrower": "0", "lender": "3", "link": "l", "type": "dlend-nvme"}
        for name, value in {**usual, **more}.items():
            self.put(host, f"sys/bus/dlend/devices/{parent}/{name}", f"{value}\n")

    def leases(self, state, borrower):
        for host in "ab":
            for parent in (P1, P2):
                self.offer(host, parent, state=state, borrower=borrower)

    def definition(self, host, uuid, parent, **more):
        self.put(host, f"etc/mdevctl.d/{parent}/{uuid}",
                 json.dumps({"mdev_type": "dlend-nvme", "start": "manual", "attrs": [{"clique": "1"}], **more}))

    def active(self, host, uuid, parent):
        make_active(self.path / host, uuid, parent)

    def state(self, value=None):
        path = self.path / "state.json"
        if value is not None:
            path.write_text(json.dumps(value))
        return json.loads(path.read_text())

    def run(self, *words, fault="", side="a"):
        """Within this process, but for the commands that are not fake."""
        words = ["--root", str(self.path / side), *self.patience(words)]
        out, err, status = io.StringIO(), io.StringIO(), 0
        local = Local(migration.command.main)
        local.side = side
        remote.hosts.subprocess = local
        handlers = [(number, signal.getsignal(number)) for number in remote.signals.SIGNALS]
        os.environ.update(WORLD=str(self.path), FAULT=fault)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = migration.command.main(words)
        except SystemExit as error:
            status = error.code
        except Died:
            status = -9
        finally:
            for number, handler in handlers:
                signal.signal(number, handler)
        check_output(["migrate", *words], out.getvalue(), err.getvalue())
        return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    def run_program(self, *words, program=()):
        """The same with processes."""
        command = program or [MIGRATE, "--root", self.path / "a"]
        result = subprocess.run([str(w) for w in [*command, *self.patience(words)]], capture_output=True, text=True,
                                timeout=60, env={**self.env, "SIDE": "a"}, check=False)
        check_output(result.args, result.stdout, result.stderr)
        return result

    def begin(self, *options, fault="", ignore=(), stdout=None, stderr=subprocess.PIPE):
        """The program, moving vm1 to b, in a process group of its own.

        ignore: signals; whatever this test was started with does not count
        """
        def signals():
            for number in remote.signals.SIGNALS:
                signal.signal(number, signal.SIG_IGN if number in ignore else signal.SIG_DFL)
        # pylint: disable-next=subprocess-popen-preexec-fn
        return subprocess.Popen([MIGRATE, "--root", self.path / "a", *options, "--timeout=20", "--wait=20", "vm1", "b"],
                                stdout=stdout, stderr=stderr, text=True, preexec_fn=signals, start_new_session=True,
                                env={**self.env, "SIDE": "a", "FAULT": fault})

    def keep_held(self, parent):
        """Host b sees the device as held by a, until set_free()."""
        self.offer("b", parent, state="held", borrower="1", fixed=1)

    def set_free(self, parent):
        self.offer("b", parent)
        (self.path / "b/sys/bus/dlend/devices" / parent / "fixed").unlink()

    @staticmethod
    def patience(words):
        return [*words] if "--probe" in words else [*words, "--timeout=1", "--wait=1"]

    def calls(self):
        path = self.path / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def wait_call(self, verb):
        self.wait_for(lambda: any(f" {verb} " in call for call in self.calls()))

    @staticmethod
    def wait_for(is_so):
        end = time.monotonic() + 60
        while not is_so() and time.monotonic() < end:
            time.sleep(0.02)

    def back(self):
        """Host a, which died."""
        (self.path / "dead").unlink(missing_ok=True)

    # What there is

    def named(self, host, uuid):
        """The node to which a device may go; None if there is no such device."""
        path = self.path / host / "sys/bus/mdev/devices" / uuid / "dlend/move_to"
        return path.read_text().split()[0] if path.exists() else None

    def runs(self):
        """[(host, [uuids that the VM has])]"""
        return [(host, [u for u in (U1, U2) if u in d["live"]]) for host, domains in self.state().items()
                for d in domains.values() if d["state"] == "running"]

    def tree(self, host):
        """Whatever of a move may be left on a host."""
        top = self.path / host
        return {"domains": {name: (d["state"], d["persistent"]) for name, d in self.state()[host].items()},
                "definitions": sorted(p.name for p in top.glob("etc/mdevctl.d/*/*")),
                "active": sorted(p.name for p in top.glob("sys/bus/mdev/devices/*")),
                "notes": [p.name for p in top.glob("run/dlend/moving-*")]}


NOTHING = {"domains": {}, "definitions": [], "active": [], "notes": []}
WHOLE = {"domains": {"vm1": ("running", True)}, "definitions": [U1, U2], "active": [U1, U2], "notes": []}


def read_until(stream, what):
    """Lines until one has that; all of them."""
    said = ""
    for line in stream:
        said += line
        if what in line:
            break
    return said


def is_refused(t, w, name, *parts, words, code=None):
    """It says all these parts, and nothing is changed.  code: exit status"""
    before = w.tree("a"), w.tree("b"), w.runs(), w.calls()
    r = w.run(*words)
    t.ok(r.returncode and all(p in r.stderr for p in parts) and "Traceback" not in r.stderr, name, f"{r.returncode} {r.stderr}")
    t.equal((w.tree("a"), w.tree("b"), w.runs(), w.calls()), before, "  nothing has changed")
    t.ok(code in (None, r.returncode), "  exit status", str(r.returncode))


@contextlib.contextmanager
def replaced(module, name, function):
    """The module's function of that name, by function(the old one, its arguments...)"""
    old = getattr(module, name)
    setattr(module, name, lambda *args: function(old, *args))
    try:
        yield
    finally:
        setattr(module, name, old)
