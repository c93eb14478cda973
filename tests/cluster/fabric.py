# SPDX-License-Identifier: GPL-2.0-only
"""dlend on the hosts of a cluster: modules, links, lending, mdevs, and what the tracepoints saw.

    with Cluster("two-hosts.toml") as c:
        f = Fabric(c)                     # node ids 1, 2, ... in the order of the topology
        f.up()
        lent = f.lend("b", "nvme0")       # d0002:01:00.0
        uuid = f.mdev("a", lent, "dlend-nvme")

Knows what an administrator knows: the dlend command, mdevctl, sysfs and tracefs.
"""
import contextlib
import json
import os
import re
import shlex
import time
import uuid as uuids

from wire import PATIENCE, SLACK

TRACING = "/sys/kernel/tracing"
EVENTS = f"{TRACING}/events/dlend"
DEBUG = "/sys/kernel/debug/dlend"
# The modules' own, 2.25 s, is less than a device that reads its guest's memory keeps its host busy: README.md
HEARTBEAT_TIMEOUT_MS = 10000
LINKS_UP = "cd /sys/class/dlend_link && ls | grep -q : && ! cat */state | grep -qvx up"
DIRECT = {"direct_interrupts": 1} if os.environ.get("DLEND_DIRECT") else {}    # tests/cluster/on direct
LEVELS = ("OK", "WARN", "FAIL")     # of dlend doctor


class Fabric:
    def __init__(self, cluster, **nodes):
        self.cluster = cluster
        self.node = nodes or {name: number for number, name in enumerate(cluster.topology.hosts, 1)}

    def host(self, name):
        return self.cluster.host(name)

    # Links

    def load(self, name, **core):
        """Load everything on one host; more parameters for dlend_core by keyword, None for the module's default."""
        host = self.host(name)
        # QEMU's host bridges pass all on, but are on no kernel's list
        core = {"node_id": self.node[name], "node_name": name, "heartbeat_timeout_ms": HEARTBEAT_TIMEOUT_MS, "p2p_allowed": 1, **DIRECT, **core}
        parameters = " ".join(f"{key}={value}" for key, value in core.items() if value is not None)
        host.load_modules(f"dlend_core {parameters}", *host.ntb_modules, "dlend_ntb", "dlend_lender", "dlend_mdev")
        host.run("ln -sf /share/bin/dlend /usr/local/sbin/dlend 2>/dev/null; command -v dlend >/dev/null || "
                 "cp /share/bin/dlend /usr/sbin/dlend; "
                 f"echo 1 >{EVENTS}/enable; echo 16384 >{TRACING}/buffer_size_kb; echo 1 >{TRACING}/tracing_on")

    def up(self, *names, wait=True, timeout=90, **core):
        """Load on these hosts (default all) and wait until every link of theirs is up."""
        names = names or tuple(self.node)
        for name in names:
            self.load(name, **core)
        if wait:
            for name in names:
                self.wait_links(name, timeout)

    def wait_links(self, name, timeout=90):
        """Until all of its links are up, and there is one with an NTB (a lender has one to itself, too)."""
        self.host(name).wait_for(LINKS_UP, timeout)

    # Lending

    def dlend(self, name, words, **options):
        return self.host(name).run(f"dlend {words}", **options)

    def doctor(self, name, words=""):
        """(exit status, {check: (text, level)}) of dlend doctor; of checks that are there twice, the worst."""
        result = self.host(name).run(f"dlend --json doctor {words} 2>/dev/null", check=False, timeout=60)
        checks = {}
        for check in json.loads(result.out)["checks"]:
            old = checks.get(check["check"])
            if not old or LEVELS.index(check["level"]) > LEVELS.index(old[1]):
                checks[check["check"]] = check["what"], check["level"]
        return result.status, checks

    def offers(self, name):
        """What `dlend list` shows on a host: {address: entry}."""
        text = self.dlend(name, "list --json").out
        return {entry["address"]: entry for entry in json.loads(text)["offers"]}

    def address(self, name, port, function=0):
        """The fabric-wide name of a device."""
        bdf = self.host(name).bdf(port, function)
        return f"d{self.node[name]:04x}:{bdf[5:]}"

    def lend(self, name, port, function=0, wait=(), options=""):
        """Lend; wait until the hosts named have the offer.  Returns the fabric-wide name."""
        return self.lend_bdf(name, self.host(name).bdf(port, function), wait, options)

    def lend_bdf(self, name, bdf, wait=(), options=""):
        """The same for a function that is no port of the topology, such as a VF."""
        self.dlend(name, f"lend {options} {bdf}", timeout=120)
        address = f"d{self.node[name]:04x}:{bdf[5:]}"
        for other in wait or [n for n in self.node if n != name]:
            self.wait_state(other, address, "free")
        return address

    def wait_state(self, name, address, state, timeout=60):
        """Until a host sees the offer in a state."""
        self.host(name).wait_for(f"grep -qx {state} /sys/bus/dlend/devices/{address}/state", timeout)

    def wait_available(self, name, address, timeout=60):
        """Until a mediated device can be made of it on a host, also as the VM that has it may come there."""
        self.host(name).wait_for(f"grep -qx 1 /sys/class/mdev_bus/{address}/mdev_supported_types/*/available_instances", timeout)

    def resets(self, address):
        """How often its lender has told of a reset of it."""
        return len(self.trace(self.lender_of(address)[0].name, f"dlend_reset: {address} "))

    def lender_state(self, address):
        """(state, borrower, epoch) as the lender says."""
        host, _ = self.lender_of(address)
        bdf = "0000" + address[address.index(":"):]
        out = host.run(f"cd /sys/bus/pci/devices/{bdf}/dlend && cat state borrower epoch").out.split()
        return out[0], out[1], int(out[2])

    def patience(self, address, seconds):
        """For so long a device waits as it is from now on, if its VMM goes before another one comes."""
        self.lender_of(address)[0].run(f"echo {seconds} >/sys/module/dlend_lender/parameters/parked_s")

    # Mediated devices

    def mdev(self, name, address, kind):
        """mdevctl start; the UUID."""
        uuid = str(uuids.uuid4())
        self.host(name).run(f"mdevctl start -u {uuid} -p {address} --type {kind}")
        return uuid

    def define(self, name, address, kind):
        """mdevctl define: the UUID, and the definition as mdevctl has written it, which another host may get, too."""
        uuid = str(uuids.uuid4())
        host = self.host(name)
        host.run(f"mdevctl define -u {uuid} -p {address} --type {kind}")
        return uuid, host.run(f"cat /etc/mdevctl.d/{address}/{uuid}").out

    def take_definition(self, name, address, uuid, definition):
        """The very definition of another host."""
        self.host(name).run(f"mkdir -p /etc/mdevctl.d/{address} && cat >/etc/mdevctl.d/{address}/{uuid}",
                            input=definition.encode())

    def mdev_start(self, name, uuid):
        """What is defined."""
        self.host(name).run(f"mdevctl start -u {uuid}")

    def mdev_stop(self, name, uuid, timeout=60):
        self.host(name).run(f"mdevctl stop -u {uuid}", timeout=timeout)

    def interrupts(self, name, address):
        """How those of a device come that this host has borrowed: "direct", "doorbell: WHY", "none"."""
        return self.host(name).run(f"cat /sys/bus/dlend/devices/{address}/interrupts").out.strip()

    def mdev_state(self, name, uuid):
        return self.host(name).run(f"cat /sys/bus/mdev/devices/{uuid}/dlend/state").out.strip()

    def start_vm(self, name, uuid):
        """A VM with nothing but a device, which does not begin to run: only if QEMU refuses is its end near."""
        qemu = f"qemu-system-x86_64 -machine q35 -nodefaults -display none -S -device {self.device(uuid)}"
        return self.host(name).run(f"timeout 120 {qemu} 2>&1", check=False, timeout=150)

    def wait_mdev(self, name, uuid, state, timeout=60):
        self.host(name).wait_for(f"grep -q '^{state}' /sys/bus/mdev/devices/{uuid}/dlend/state", timeout)

    @staticmethod
    def device(uuid, more=""):
        """For Guest(devices=...)."""
        return f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{uuid}{more}"

    @contextlib.contextmanager
    def guest(self, name, label, wait=True, timeout=240, **options):
        """A guest that is started, ready, and gone after the block whatever happens in it.

        wait=False: not ready yet, or never, for a guest that shall fail or has no kernel of ours
        """
        g = self.host(name).guest(label, **options)
        g.start()
        try:
            if wait:
                g.wait_ready(timeout)
            yield g
        finally:
            if g.running:
                g.kill()

    # What debugfs and sysfs count

    def stats(self, name, uuid):
        """Numbers of an mdev, in its host: {key: int}."""
        return numbers(self.host(name).run(f"cat {DEBUG}/mdev/{uuid}/stats").out)

    def irqs(self, name, uuid):
        """Of an mdev: numbers by key, and the words "mode" (that the VMM asked for) and "live"."""
        text = self.host(name).run(f"cat {DEBUG}/mdev/{uuid}/irqs").out
        return {**numbers(text), **dict(re.findall(r"^(mode|live) (\w+)$", text, re.M))}

    def lender_of(self, address):
        """(host, directory in debugfs) of the lender of an address."""
        lender = next(n for n, number in self.node.items() if f"d{number:04x}" == address.split(":")[0])
        return self.host(lender), f"{DEBUG}/lender/0000{address[5:]}"

    def domain(self, address):
        """What the lender's IOMMU maps for a device: {"mapped_bytes": n, "pages_2m": n, ...}; if it has no lease, and
        so no domain, the lender's file says that, and not nothing: {"mapped_bytes": 0}."""
        host, directory = self.lender_of(address)
        text = host.run(f"cat {directory}/dma").out
        return {"mapped_bytes": 0} if text == "domain: none\n" else numbers(text)

    def free(self, name):
        """Free bytes of the apertures of a host: {link: bytes}."""
        out = self.host(name).run("cd /sys/class/dlend_link && grep . */aperture_free_bytes /dev/null").out
        return {line.split("/")[0]: int(line.rpartition(":")[2]) for line in out.splitlines()}

    def wait_free(self, name, want, timeout=20):
        """free(), as soon as it is `want`, or as it is in the end."""
        return eventually(lambda: self.free(name), want, timeout)

    def pinned(self, name):
        """How many pages of a host are pinned, by whomever for whatever, as its kernel counts them."""
        text = self.host(name).run("echo 1 >/proc/sys/vm/stat_refresh; cat /proc/vmstat").out
        return numbers(text)["nr_foll_pin_acquired"] - numbers(text)["nr_foll_pin_released"]

    def wait_pinned(self, name, want, timeout=20):
        """pinned(), as soon as it is `want`, or as it is in the end."""
        return eventually(lambda: self.pinned(name), want, timeout)

    # What happened

    def trace(self, name, pattern="", clear=False):
        """Tracepoint lines of dlend, newest last: [(event, {field: value}, line)]."""
        text = self.host(name).run(f"grep -E -- {shlex.quote(pattern)} {TRACING}/trace || :", timeout=120).out
        if clear:
            self.trace_clear(name)
        return [event for event in map(parse_event, text.splitlines()) if event]

    def trace_clear(self, name):
        self.host(name).run(f"echo >{TRACING}/trace")


def in_turns(host, test, turns):
    """Until a shell command ends with status 0, looked at so many times, 0.25 s of the host's own time apart.

    For promises of time: what keeps a whole host from running does not count.
    """
    host.run(f"n=0; until ( {test}\n); do [ $((n += 1)) -le {turns * PATIENCE} ] || exit 1; sleep 0.25; done", timeout=10 * turns)


def eventually(read, want, timeout=20):
    """What read() returns as soon as it is `want`, or in the end."""
    end = time.monotonic() + timeout * SLACK
    while (have := read()) != want and time.monotonic() < end:
        time.sleep(0.5)
    return have


def polled(guest):
    """Completions that a guest's NVMe driver found without an interrupt."""
    return int(guest.run("dmesg | grep -c 'completion polled'", check=False).out)


def numbers(text):
    """The lines "key: number" or "key number" of a text."""
    return {key: int(value) for key, value in re.findall(r"^\s*([\w.]+):?\s+(\d+)\s*$", text, re.M)}


def parse_event(line):
    found = re.match(r"\s*\S.*?:\s+(dlend_\w+):\s*(.*)$", line)
    if not found:
        return None
    fields = dict(re.findall(r"(\w+)=(\S+)", found.group(2)))
    return found.group(1), fields, line.strip()
