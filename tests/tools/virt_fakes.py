#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""virsh, mdevctl, ssh and dlend as programs, for two hosts a and b that are directories: what `dlend migrate` drives.

    a node 1, b node 2; devices d0003:01:00.0, d0003:02:00.0 of node 3; state in WORLD/state.json

As programs they are called by their names, which are links to this file; Local does the same without a
process for each call, for a test that makes thousands.  A device is held while a running VM has it; a VM starts
only if its mediated devices are there and nobody else holds the devices.  FAULT="KIND N" makes the Nth call
that changes something go wrong:

    refuse       it does nothing and fails
    after        it does its work and fails
    lost         as refuse, and ssh says that the connection broke; here: refuse
    lost-after   as after, likewise
    late         as lost, and a virsh start does its work later, when host a starts the VM
    gone         from there on, ssh reaches nobody
    die          host a is gone: the program that called, all VMs of a; ssh reaches it when there is no file "dead" any more
    killed       only the program that called is gone
    two          "two N M": calls N and M are refused

Where libvirt's hook is on, a start chooses the last free device for one that the metadata names by its type.  With a file "starts", a VM of a starts as soon as somebody undefines it.  With a file "old-libvirt-HOST" in WORLD, its virsh undefine knows no --keep-tpm.  With a file "hold-VERB", that command
makes "held-VERB", and waits until the first one is gone; then it makes "ended-VERB" and does its work.  With a file "stuck" in WORLD node 5 takes what is free.  An offer with a file "fixed" stays in the state
that the test gave it.
"""
import contextlib
import fcntl
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

NODES = {"a": "1", "b": "2"}
CHANGES = {"virsh": {"define", "undefine", "start", "shutdown", "autostart", "detach-device", "attach-device",
                     "migrate", "migrate-setmaxdowntime"},
           "mdevctl": {"define", "undefine", "start", "stop"}}
EXIT_LOST = 255
ABORTED = "error: operation aborted: migration out job: aborted by client"


class Refused(Exception):
    """With what the program would say."""


class Died(BaseException):
    """Host a, and whatever ran there."""


def top():
    return Path(os.environ.get("WORLD", "/nowhere"))


def make_active(host, uuid, parent):
    """A mediated device.  host: its directory"""
    device = host / "sys/devices/dlend" / parent / uuid
    (device / "dlend").mkdir(parents=True)
    (device / "dlend/move_to").write_text("0\n")
    (host / "sys/bus/mdev/devices" / uuid).symlink_to(device)
    # Another host can make one, as soon as a node is named here that may have the device: so that number counts.
    for other in host.parent.glob("?"):
        types = other / "sys/class/mdev_bus" / parent / "mdev_supported_types/dlend-nvme"
        if other != host and not types.exists():
            types.mkdir(parents=True)
            (types / "available_instances").symlink_to(device / "dlend/move_to")


def write_settings(device, text):
    """Of a definition, to the device's files, as mdevctl does."""
    (device / "prepin").write_text("bme\n")
    for setting in json.loads(text or "{}").get("attrs", []):
        for name, value in setting.items():
            (device / name).write_text(f"{value}\n")


def uuid_of(domain):
    return ElementTree.fromstring(domain["xml"]).findtext("uuid")


def uuids(xml):
    return [e.get("uuid") for e in ElementTree.fromstring(xml).findall(".//hostdev[@type='mdev']/source/address")]


def chosen(xml):
    """Those that have a type in the metadata."""
    return [e.get("uuid") for e in ElementTree.fromstring(xml).iter("{urn:dlend:devices}device")]


class World:
    """Both hosts."""

    def __init__(self):
        self.file = top() / "state.json"
        self.state = json.loads(self.file.read_text())

    def save(self):
        self.file.write_text(json.dumps(self.state))
        self.show_leases()

    def domains(self, host):
        return self.state[host]

    def domain(self, host, name):
        return self.domains(host)[name]

    def name(self, host, word):
        """As virsh looks for a domain: by its id, which it has while it runs, its UUID, its name."""
        domains = self.domains(host).items()
        by_id = [name for name, d in domains if d["state"] != "shut off" and str(d.get("id")) == word]
        by_uuid = [name for name, d in domains if uuid_of(d) == word]
        by_name = [name for name, _ in domains if name == word]
        found = [*by_id, *by_uuid, *by_name]
        if not found:
            raise Refused(f"error: failed to get domain '{word}'")
        return found[0]

    def new_id(self, host):
        return 1 + max((d.get("id", 0) for d in self.domains(host).values()), default=0)

    # Devices

    def parent_of(self, host, uuid):
        path = top() / host / "sys/bus/mdev/devices" / uuid
        return path.resolve().parent.name if path.exists() else None

    def holders(self):
        """{parent: host}"""
        return {self.parent_of(host, uuid): host for host in NODES for d in self.domains(host).values()
                if d["state"] == "running" for uuid in uuids(d["live"])}

    def show_leases(self):
        holders = self.holders()
        for host in NODES:
            for offer in (top() / host / "sys/bus/dlend/devices").iterdir():
                if (offer / "fixed").exists():
                    continue
                stuck = "5" if (top() / "stuck").exists() and not holders else ""
                borrower = NODES.get(holders.get(offer.name), stuck)
                free = "reserved\n" if (offer / "reserved").exists() else "free\n"
                (offer / "state").write_text("held\n" if borrower else free)
                (offer / "borrower").write_text(f"{borrower or 0}\n")

    def take(self, host, uuid):
        parent = self.parent_of(host, uuid)
        if not parent:
            raise Refused(f"error: device not found: mediated device '{uuid}' not found")
        if self.holders().get(parent, host) != host:
            raise Refused(f"error: {parent} is held by another node")

    def choose(self, host, uuid):
        """As libvirt's hook does."""
        if self.parent_of(host, uuid) or not (top() / host / "etc/libvirt/hooks/qemu.d/dlend").exists():
            return
        offers = top() / host / "sys/bus/dlend/devices"
        free = [offer.name for offer in sorted(offers.iterdir()) if (offer / "state").read_text() == "free\n"]
        if not free:
            raise Refused(f"error: Hook script execution failed: no dlend-nvme can be borrowed for {uuid}")
        make_active(top() / host, uuid, free[-1])

    # virsh

    def virsh(self, host, words, stdin):
        if words[0] == "-c":
            host = "b" if "qemu+ssh" in words[1] else "a"
            words = words[2:]
        rest = words[words.index("--") if "--" in words else 1:]
        if words[0] == "help":
            return "--keep-nvram" if (top() / f"old-libvirt-{host}").exists() else "--keep-nvram --keep-tpm"
        names = [w for w in rest if not w.startswith("-") and "://" not in w and w != "/dev/stdin"]
        name = self.name(host, names[0]) if names else ""
        return getattr(self, "virsh_" + words[0].replace("-", "_"))(host, name, words, stdin)

    def virsh_domstate(self, host, name, words, stdin):
        return self.domain(host, name)["state"]

    def virsh_list(self, host, name, words, stdin):
        columns = [how for how in ("--uuid", "--name") if how in words]
        return "\n".join(" ".join(uuid_of(d) if how == "--uuid" else f"{name:30}" for how in columns)
                         for name, d in self.domains(host).items())

    def virsh_dominfo(self, host, name, words, stdin):
        d = self.domain(host, name)
        return f"Persistent:     {'yes' if d['persistent'] else 'no'}\n" \
               f"Autostart:      {'enable' if d.get('autostart') else 'disable'}\n" \
               f"Managed save:   {'yes' if d.get('saved') else 'no'}"

    def virsh_domuuid(self, host, name, words, stdin):
        # The real one takes an id or a name.
        d = self.domain(host, name)
        if words[-1] == uuid_of(d):
            raise Refused(f"error: failed to get domain '{words[-1]}'")
        return uuid_of(d)

    def virsh_dumpxml(self, host, name, words, stdin):
        d = self.domain(host, name)
        return d["xml"] if "--inactive" in words or d["state"] != "running" else d["live"]

    def virsh_domjobabort(self, host, name, words, stdin):
        if not any((top() / name).exists() for name in ("downtime", "slow")):
            raise Refused("error: no job is active")
        (top() / "aborted").touch()

    def virsh_define(self, host, name, words, stdin):
        name = ElementTree.fromstring(stdin).findtext("name")
        self.domains(host).setdefault(name, {"state": "shut off", "live": ""}).update(xml=stdin, persistent=True)

    def virsh_undefine(self, host, name, words, stdin):
        d = self.domain(host, name)
        if "--keep-tpm" in words and (top() / f"old-libvirt-{host}").exists():
            raise Refused("error: command 'undefine' doesn't support option --keep-tpm")
        if "--keep-tpm" not in words:
            shutil.rmtree(top() / host / "var/lib/libvirt/swtpm" / uuid_of(d), ignore_errors=True)
        d["persistent"] = False
        if host == "a" and (top() / "starts").exists():
            d.update(state="running", live=d["xml"])
        if d["state"] != "running":
            del self.domains(host)[name]

    def virsh_start(self, host, name, words, stdin):
        d = self.domain(host, name)
        if d["state"] == "running":
            raise Refused("error: Domain is already active")
        if (top() / "late").exists() and name in self.domains("b"):
            self.domain("b", name).update(state="running", live=d["xml"])
        for uuid in chosen(d["xml"]):
            self.choose(host, uuid)
        for uuid in uuids(d["xml"]):
            self.take(host, uuid)
        d.update(state="running", live=d["xml"], id=self.new_id(host))

    def virsh_shutdown(self, host, name, words, stdin):
        if not (top() / "deaf").exists():
            self.domain(host, name).update(state="shut off", live="")

    def virsh_autostart(self, host, name, words, stdin):
        self.domain(host, name)["autostart"] = True

    def virsh_detach_device(self, host, name, words, stdin):
        if (top() / "keeps").exists():
            return
        d, tree = self.domain(host, name), None
        tree = ElementTree.fromstring(d["live"])
        gone = ElementTree.fromstring(stdin).find("./source/address").get("uuid")
        devices = tree.find("devices")
        for element in devices.findall("hostdev"):
            if element.find("./source/address").get("uuid") == gone:
                devices.remove(element)
        d["live"] = ElementTree.tostring(tree, encoding="unicode")

    def virsh_attach_device(self, host, name, words, stdin):
        if (top() / f"no-attach-on-{host}").exists():
            raise Refused("error: Failed to attach device")
        d = self.domain(host, name)
        element = ElementTree.fromstring(stdin)
        self.take(host, element.find("./source/address").get("uuid"))
        tree = ElementTree.fromstring(d["live"])
        tree.find("devices").append(element)
        d["live"] = ElementTree.tostring(tree, encoding="unicode")

    def virsh_migrate(self, host, name, words, stdin):
        d, to = self.domain(host, name), "b" if host == "a" else "a"
        if "--live" not in words or "--persistent" not in words or d["state"] != "running":
            raise Refused("error: this test knows live migrations only")
        for uuid in uuids(d["live"]):
            self.may_follow(uuid, d["live"], host, to)
        self.domains(to)[name] = {**d, "persistent": True, "id": self.new_id(to)}
        d.update(state="shut off", live="")

    def may_follow(self, uuid, xml, host, to):
        """A device that stays while its VM moves."""
        if f'alias="ua-{uuid}"' not in xml:
            raise Refused("error: cannot migrate a domain with <hostdev mode='subsystem' type='mdev'>")
        if self.named(self.parent_of(host, uuid), host) != NODES[to] or not self.parent_of(to, uuid):
            self.log(host, f"vfio_mdev {uuid}: the VM does not move: of the test")
            raise Refused(f"error: vfio {uuid}: Operation not permitted")

    @staticmethod
    def log(host, line):
        with open(top() / host / "dmesg", "a", encoding="utf-8") as kernel:
            kernel.write(f"[{time.monotonic():12.6f}] {line}\n")

    @staticmethod
    def named(parent, host):
        """The node that may take a device over from that host."""
        device = top() / host / "sys/devices/dlend" / parent
        named = [path.read_text().split()[0] for path in device.glob("*/dlend/move_to")]
        return named[0] if named else "0"

    def virsh_migrate_setmaxdowntime(self, host, name, words, stdin):
        (top() / "downtime").write_text(words[-1])

    def virsh_migrate_getmaxdowntime(self, host, name, words, stdin):
        return "300"

    def virsh_domjobinfo(self, host, name, words, stdin):
        """The second pass and all after it bring the same."""
        if "--completed" in words:
            told = top() / "told"
            if told.exists():       # without --keep-completed, once
                return ""
            told.touch()
            return "downtime: 140\nmemory_processed: 209715200"
        number = int((top() / "pass").read_text()) if (top() / "pass").exists() else 0
        (top() / "pass").write_text(str(number + 1))
        return f"type: 2\nmemory_iteration: {number}\nmemory_processed: {(100 + number) << 20}\nmemory_total: {1 << 30}\n" \
               f"memory_remaining: {1 << 30}\nmemory_bps: {100 << 20}"

    # The kernel

    def dmesg(self, host, words, stdin):
        path = top() / host / "dmesg"
        return path.read_text() if path.exists() else ""

    # mdevctl

    def mdevctl(self, host, words, stdin):
        option = dict(zip(words[1::2], words[2::2]))
        uuid, parent = option["-u"], option.get("-p")
        conf = top() / host / "etc/mdevctl.d"
        if words[0] == "define":
            json.loads(stdin)
            if (conf / parent / uuid).exists():
                raise Refused(f"Error: Cowardly refusing to overwrite existing config {uuid}")
            (conf / parent).mkdir(parents=True, exist_ok=True)
            (conf / parent / uuid).write_text(stdin)
        elif words[0] == "undefine":
            if not (conf / parent / uuid).exists():
                raise Refused("Error: No match found")
            (conf / parent / uuid).unlink()
        elif words[0] == "start":
            path = conf / parent / uuid
            self.mdev_start(host, uuid, parent, path.read_text() if path.exists() else stdin)
        elif words[0] == "stop":
            self.mdev_stop(host, uuid)
        elif words[0] == "list":
            return json.dumps({"mdev_type": "dlend-nvme", "start": "manual", "attrs": [{"prepin": "open"}]})
        return None

    def mdev_start(self, host, uuid, parent, defined):
        offer = top() / host / "sys/bus/dlend/devices" / parent
        state = (offer / "state").read_text().strip()
        if state == "reserved" and (offer / "reserved").read_text().strip() == uuid:
            state = "free"
        held_for_us = any(self.named(parent, other) == NODES[host] for other in NODES if other != host)
        if not defined or state != "free" and not held_for_us:
            raise Refused(f"Error: {parent} cannot be used here: {state if defined else 'not defined'}")
        make_active(top() / host, uuid, parent)
        write_settings(top() / host / "sys/bus/mdev/devices" / uuid, defined)

    def mdev_stop(self, host, uuid):
        if any(uuid in uuids(d["live"]) for d in self.domains(host).values() if d["state"] == "running"):
            raise Refused("Error: Device or resource busy")
        link = top() / host / "sys/bus/mdev/devices" / uuid
        if not link.exists():
            raise Refused(f"Error: {uuid} is not active")
        shutil.rmtree(link.resolve())
        link.unlink()


def count(program, words, host):
    """The number of this call, if it is one that changes something."""
    verb = next((w for w in words if not w.startswith("-") and "://" not in w), "")
    if verb not in CHANGES.get(program, ()):
        return 0
    path = top() / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    path.write_text("\n".join([*lines, f"{host} {program} {' '.join(words)}"]) + "\n")
    return len(lines) + 1


def fault(number):
    """The kind of fault that call `number` meets, or ""."""
    kind, *when = (os.environ.get("FAULT") or "none").split()
    if kind == "two":
        return "refuse" if str(number) in when else ""
    if number and when and number == int(when[0]):
        return kind
    return ""


def may_switch(words):
    """Whether a migration may stop the VM.  One that copies memory waits until it is told so, a slow one without end."""
    if (top() / "aborted").exists():
        return True
    if (top() / "slow").exists():
        return False
    path = top() / "downtime"
    return "--compressed" not in words and "--parallel" not in words or path.exists() and int(path.read_text()) > 1


def copy_memory(words):
    while not may_switch(words):
        time.sleep(0.02)
    if (top() / "aborted").exists():
        sys.exit(ABORTED)


def hold(verb):
    path = top() / f"hold-{verb}"
    if path.exists():
        (top() / f"held-{verb}").touch()
        while path.exists():
            time.sleep(0.02)
        (top() / f"ended-{verb}").touch()


@contextlib.contextmanager
def locked():
    with open(top() / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def die(world):
    for d in world.state["a"].values():
        d.update(state="shut off", live="")
    world.save()
    (top() / "dead").touch()
    raise Died


def act(program, words, host, stdin):
    """The program: it prints, and ends by SystemExit, or Died."""
    with locked():
        number = count(program, words, host)
    if program == "virsh" and words[0] == "migrate":
        copy_memory(words)
    hold(words[0] if words else program)
    with locked():
        kind = fault(number)
        world = World()
        lost = EXIT_LOST if host == "b" and kind.startswith("lost") else 1
        if kind == "die":
            die(world)
        if kind == "killed":
            raise Died
        if kind == "gone":
            (top() / "gone").touch()
            sys.exit(EXIT_LOST)
        if kind == "late":
            (top() / "late").touch()
        if kind in ("refuse", "lost", "late"):
            sys.exit(f"error: {words[0]} refused by the test" if lost == 1 else lost)
        try:
            out = getattr(world, program)(host, words, stdin)
        except Refused as error:
            # As mdevctl does with RUST_BACKTRACE in the environment
            sys.exit(f"{error}\n\nStack backtrace:\n   0: <unknown>" if program == "mdevctl" else str(error))
        world.save()
        if out is not None:
            print(out)
        sys.exit(lost if kind else 0)


def is_reached(host):
    return not (top() / ("gone" if host == "b" else "dead")).exists()


def over_there(words, side):
    """(the other host, the command): everything of this host's that a path names is that host's over there."""
    name, command = words[words.index("--") + 1:]
    host = "b" if name == "b" else "a"      # which a note calls as the machine is called that this runs on
    return host, command.replace(f"{top()}/{side}", f"{top()}/{host}")


def ssh(words):
    host, command = over_there(words, os.environ.get("SIDE", "a"))
    if not is_reached(host):
        sys.exit(EXIT_LOST)
    result = subprocess.run(["sh", "-c", command], check=False,
                            env={**os.environ, "SIDE": host, "CALLER": str(os.getppid())})
    sys.exit(result.returncode if is_reached(host) else EXIT_LOST)


def dlend(words):
    root, rest = words[1], words[3:]
    os.execv(sys.executable, [sys.executable, os.environ["MIGRATE"], "--root", root, *rest])


def main():
    program, words = Path(sys.argv[0]).name, sys.argv[1:]
    if program in ("ssh", "dlend"):
        {"ssh": ssh, "dlend": dlend}[program](words)
    if not re.fullmatch("virsh|mdevctl|dmesg", program):
        sys.exit(f"{program} is not known here")
    try:
        act(program, words, os.environ.get("SIDE", "a"), "" if sys.stdin.isatty() else sys.stdin.read())
    except Died:
        os.kill(int(os.environ.get("CALLER") or os.getppid()), signal.SIGKILL)
        sys.exit(EXIT_LOST)


class Job:
    """A process that ends when somebody looks, and a migration when it may."""

    def __init__(self, local, words):
        self.local, self.words, self.result = local, words, None
        if words[0] != "env":       # by start_command_here(), which does not look again
            self.words = ["env", "LC_ALL=C", *words]
            self.poll()

    def poll(self):
        if self.result is None and ("migrate" not in self.words or may_switch(self.words)):
            self.result = self.local.run(self.words)
        return self.returncode

    @property
    def returncode(self):
        return self.result.returncode if self.result else None

    def communicate(self):
        return self.result.stdout, self.result.stderr


class Local:
    """subprocess, as tools/remote/hosts.py uses it, without processes for what is fake.

    run_migrate: main() of that program, from tools/migration/command.py; WORLD and FAULT are in the environment.
    """
    CompletedProcess = subprocess.CompletedProcess
    TimeoutExpired = subprocess.TimeoutExpired
    DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE

    def __init__(self, run_migrate):
        self.run_migrate = run_migrate
        self.side = "a"

    def run(self, words, input="", **_):    # pylint: disable=redefined-builtin
        if words[0] != "ssh":
            return self._command(words, input)
        host, command = over_there(words, self.side)
        if not is_reached(host):
            return self.CompletedProcess(words, EXIT_LOST, "", "no route")
        before, self.side = self.side, host
        try:
            result = self._command(shlex.split(command), input)
        finally:
            self.side = before
        if not is_reached(host):
            result.returncode = EXIT_LOST
        return result

    def Popen(self, words, **_):            # pylint: disable=invalid-name
        return Job(self, words)

    def _command(self, words, stdin):
        assert words[:2] == ["env", "LC_ALL=C"], words
        words = words[2:]
        out, err, status = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                if words[0] == "dlend":
                    status = self._probe(words[1:])
                elif words[0] in CHANGES or words[0] == "dmesg":
                    act(words[0], words[1:], self.side, stdin)
                else:
                    return subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
            except SystemExit as error:
                status = error.code if isinstance(error.code, int) else 1
                print("" if isinstance(error.code, int) else error.code, file=sys.stderr)
        return self.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    def _probe(self, words):
        return self.run_migrate([*words[3:], *words[:2]])


if __name__ == "__main__":
    main()
