#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend bench, on two hosts that are directories (bench_fakes.py), and its arithmetic.

    node 1, a, this host: the borrower ------ link ------ node 2, b: the lender, with an NVMe disk 0000:03:00.0
"""
import ast
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
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster"), str(HERE.parent.parent / "tools")]
sys.dont_write_bytecode = True
os.environ.update(WORLD="", SIDE="a")
import bench_fakes  # noqa: E402  pylint: disable=wrong-import-position
import measurement.bar  # noqa: E402  pylint: disable=wrong-import-position
import measurement.command  # noqa: E402  pylint: disable=wrong-import-position
import remote.hosts  # noqa: E402  pylint: disable=wrong-import-position
import remote.signals  # noqa: E402  pylint: disable=wrong-import-position
from fake import DLEND, TOP  # noqa: E402  pylint: disable=wrong-import-position
from measurement.disk import READS, WRITES, fio_words, parse_fio  # noqa: E402  pylint: disable=wrong-import-position
from measurement.plot import draw  # noqa: E402  pylint: disable=wrong-import-position
from measurement.rounds import interrupts_taken, messages_sent  # noqa: E402  pylint: disable=wrong-import-position
from measurement.times import in_units, mean_of, numbers_of, ratio_of, student_t  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap, heed_ctrl_c  # noqa: E402  pylint: disable=wrong-import-position

remote.hosts.subprocess = bench_fakes.Local
measurement.bar.PROGRAM = measurement.bar.BarBench.program = str(DLEND.with_name("bartimes"))
BDF, SERIAL = bench_fakes.BDF, bench_fakes.SERIAL
SSH = r"""#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ ! -e "$WORLD/gone" ] || { echo "no route" >&2; exit 255; }
SIDE=$2 exec sh -c "$(printf %s "$3" | sed "s|$WORLD/[ab]\>|$WORLD/$2|g")"
"""
# Times in ms, as ping from iputils has them
PING = """#!/bin/sh
[ ! -e "$WORLD/silent" ] || exit 1
[ ! -e "$WORLD/odd-ping" ] || { cat "$WORLD/odd-ping"; exit; }
echo "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."
for time in 0.045 0.102 1.25 12.5; do echo "64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=$time ms"; done
"""
INTERRUPTS = "CPU0 CPU1\n 24: 5 7 PCI-MSIX-{} 0-edge {}\n 25: 100 0 IR-PCI ndev_vec_isr\n 26: 3 0 IR-PCI dlend-lender:03:00.0\nNMI: 0 0"


class World:
    """Two hosts, and the disk with its own driver on b."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="dlend-bench-"))
        bench_fakes.WORLD = str(self.path)
        (self.path / "bin").mkdir()
        for program in ("dlend", "fio"):
            (self.path / "bin" / program).symlink_to(HERE / "bench_fakes.py")
        self.program("ssh", SSH)
        self.program("wipefs", '#!/bin/sh\ncat "$WORLD/signatures" 2>/dev/null || :\n')
        for node, host in enumerate("ab", 1):
            for name, text in (("sys/module/dlend_core/parameters/node_id", node), ("sys/class/dlend_link/l/peer_node", 3 - node),
                               ("sys/class/dlend_link/l/state", "up"), ("proc/cpuinfo", "flags : fpu vme"),
                               ("sys/kernel/debug/dlend/links/0000:05:00.0", "msg_hello: sent 4 got 5"),
                               ("proc/interrupts", INTERRUPTS.format(BDF, "nvme5q1" if host == "a" else "nvme0q1"))):
                bench_fakes.put(host, name, text)
        bench_fakes.with_driver("b", BDF, "nvme", "nvme0")
        os.environ.update(WORLD=str(self.path))     # for programs that are not within this process
        self.env = {**os.environ, "PATH": f"{self.path}/bin:{os.environ['PATH']}", "SIDE": "a",
                    "DLEND_PROGRAMS": str(TOP / "tools"), "PYTHONDONTWRITEBYTECODE": "1"}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.path)

    def program(self, name, text):
        path = self.path / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def command(self, words):
        return [TOP / "tools/bench", "--root", self.path / "a", *words]

    def run(self, *words):
        """Within this process, but for the commands that are not fake."""
        out, err, before = io.StringIO(), io.StringIO(), os.environ["PATH"]
        handlers = [(number, signal.getsignal(number)) for number in remote.signals.SIGNALS]
        os.environ["PATH"] = self.env["PATH"]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = measurement.command.main(["--root", str(self.path / "a"), *words])
        finally:
            os.environ["PATH"] = before
            for number, handler in handlers:
                signal.signal(number, handler)
        return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    def run_program(self, command):
        """The same with processes."""
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=self.env, check=False)

    def begin(self, *words):
        """In a process group of its own."""
        # pylint: disable-next=consider-using-with,subprocess-popen-preexec-fn
        return subprocess.Popen(self.command(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env,
                                start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))

    def touch(self, name, text=""):
        (self.path / name).write_text(text)

    def calls(self):
        path = self.path / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def home(self):
        """The device is where it was, and nothing is attached."""
        own = "" if bench_fakes.there("board") else "igb" if bench_fakes.there("card") else "nvme"
        return (bench_fakes.driver(), sorted(p.name for p in (self.path / "a/sys/bus/pci/devices").glob("*"))) == (own, [])


class BoardWorld(World):
    """Instead of a disk, a device with memory in BAR 2."""

    def __init__(self, driver_on_a=""):
        super().__init__()
        self.touch("board", driver_on_a)
        bench_fakes.with_own("b", BDF)

    def device_file(self, name):
        return self.path / f"b/sys/bus/pci/devices/{BDF}" / name


class CardWorld(World):
    """Instead of a disk, a network card; what ip does, "ip" has."""

    def __init__(self):
        super().__init__()
        self.touch("card")
        bench_fakes.with_own("b", BDF)
        self.program("udevadm", "#!/bin/sh\n")
        self.program("ip", '#!/bin/sh\necho "$*" >>"$WORLD/ip"\n[ "$1 $2" != "netns exec" ] || { shift 3; exec "$@"; }\n')
        self.program("ping", PING)

    def ip(self):
        return (self.path / "ip").read_text().splitlines()


DISK = ("--runs", "2", "--ios", "50", "--device", "3:00.0", "b")
BAR = ("--runs", "2", "--ios", "5", "--bar", "2", "--device", "3:00.0", "b")


def arithmetic(t):
    # From any printed table
    known = {(95, 1): 12.706, (95, 4): 2.776, (95, 9): 2.262, (95, 30): 2.042, (99, 1): 63.657, (99, 4): 4.604, (99, 9): 3.250,
             (99, 30): 2.750, (95, 999): 1.962, (99, 999): 2.581}
    t.equal({key: round(student_t(*key), 3) for key in known}, known, "Student's t is that of the tables")
    row = mean_of([1, 2, 3, 4, 5])
    t.equal([round(x, 4) for x in (row["mean"], *row["95"], *row["99"])], [3, 1.0368, 4.9632, -0.2556, 6.2556],
            "mean and intervals of 1 to 5")
    row = ratio_of([2, 4, 16], [1, 2, 2])
    t.equal([round(x, 3) for x in (row["mean"], *row["95"])], [3.175, 0.435, 23.185], "a ratio, by the logarithms of each round's")
    row = ratio_of([30, 60], [10, 20])
    t.equal([round(x, 9) for x in (row["mean"], *row["99"])], [3, 3, 3], "one that is always the same has no width")


def times_of_runs(t):
    numbers = numbers_of({1000: 98, 2004: 1, 3456: 1})
    t.equal([numbers[name] for name in ("ios", "latency_ns", "latency_50_ns", "latency_99_ns", "latency_99.9_ns", "bins")],
            [100, 1034.6, 1000, 2004, 3456, {1000: 98, 2000: 1, 3460: 1}], "mean, percentiles and bins of times")
    for name, times in (("none", {}), ("one that is 0", {0: 3})):
        try:
            numbers_of(times)
            t.ok(False, f"times: {name}: refused")
        except ValueError:
            t.passed(f"times: {name}: refused")
    t.equal([in_units(size) for size in (4, 1023, 1024, 16 << 10, 1 << 20)], ["4 B", "1023 B", "1 KiB", "16 KiB", "1 MiB"], "sizes for people")


def bartimes(t):
    """The program itself, on a file."""
    with tempfile.NamedTemporaryFile() as file:
        data = os.urandom(4096)
        file.write(data)
        file.flush()

        def run(*words):
            return subprocess.run([measurement.bar.PROGRAM, *words], capture_output=True, text=True, check=False)

        for way in ("read", "write"):
            for size in ("4", "4096"):
                r = run(way, file.name, size, "7", "60")
                t.ok(r.returncode == 0 and len(r.stdout.split()) == 7 and r.stdout.replace("\n", "").isdecimal(), f"bartimes {way} {size}: as many times", str(r))
        t.equal(Path(file.name).read_bytes(), data, "  what was there is there")
        with tempfile.NamedTemporaryFile() as disk:
            disk.write(3 * data)
            disk.flush()
            for place in ("direct", "ram"):
                file.seek(0)
                file.write(bytes(4096))
                file.flush()
                r = run("read", file.name, "4096", "7", "60", place, disk.name)
                t.ok(r.returncode == 0 and len(r.stdout.split()) == 7 and Path(file.name).read_bytes() == data, f"bartimes read {place}: what the disk has is there", str(r))
                r = run("write", file.name, "4096", "7", "60", place, disk.name)
                t.ok(r.returncode == 0 and len(r.stdout.split()) == 7 and Path(disk.name).read_bytes() == 3 * Path(file.name).read_bytes() != 3 * data,
                     f"bartimes write {place}: what is there, the disk has", str(r))
                disk.seek(0)
                disk.write(3 * data)
                disk.flush()
            t.equal(run("read", file.name, "4096", "1", "60", "ram", file.name).returncode, 5, "bartimes: something else has arrived: told")
            t.equal(run("read", file.name, "4096", "1", "60", "ram", f"{file.name}-").returncode, 1, "bartimes: no disk: told")
            t.equal(run("read", file.name, "4096", "1", "60", "ram", "/dev/null").returncode, 1, "bartimes: an empty disk: told")
            t.equal(run("read", file.name, "4096", "1", "60", "across", disk.name).returncode, 2, "bartimes: another way: told")
        file.seek(0)
        file.write(data)
        file.flush()
        t.equal(run("read", file.name, "4", "7", "0").stdout, "", "bartimes: no time, nothing read")
        for name, words, says in (("too large", ("read", file.name, "8192", "1", "1"), "it is smaller"),
                                  ("no file", ("read", f"{file.name}-", "4", "1", "1"), "No such file"),
                                  ("a word too few", ("read", file.name, "4", "1"), "usage:"), ("another word", ("erase", file.name, "4", "1", "1"), "usage:")):
            r = run(*words)
            t.ok(r.returncode in (1, 2) and says in r.stderr and not r.stdout, f"bartimes: {name}: told", str(r))


def bar_read(t):
    with BoardWorld("bochs") as w:
        r = w.run("--json", *BAR)
        says = json.loads(r.stdout or "{}")
        t.ok(r.returncode == 0 and w.home(), "a BAR is measured, and the device is back", r.stderr)
        t.equal(w.calls(), 2 * [f"b lend {BDF}", "a list", "a attach d0002:03:00.0", "a detach d0002:03:00.0", f"b reclaim {BDF}"], "  in turn on both hosts")
        t.equal([(job["job"], job["block_bytes"]) for job in says["jobs"]], [("read", 4 << 2 * n) for n in range(4)], "  by size, as large as it is")
        t.equal((says["model"], sorted(says["jobs"][0]["summary"]), sum(says["jobs"][0]["attached"]["distribution_ns"].values())),
                ("BAR 2 (256 B) of 1af4:1110", ["bytes_per_s", "latency_50_ns", "latency_99.9_ns", "latency_99_ns", "latency_ns"], 10),
                "  with the same numbers as a disk")
        t.equal(says["jobs"][0]["attached"]["per_io"], {"interrupts": 0, "link_interrupts": 0, "lender_interrupts": 0, "messages": 0}, "  and counts")
        t.equal((w.path / "a/sys/bus/pci/drivers/bochs/unbind").read_text(), bench_fakes.ATTACHED + "\n", "  on the borrower its driver has let go")
        t.equal(w.device_file("enable").read_text(), "0\n", "  and the device is disabled again")
    with BoardWorld() as w:
        r = w.run("--plot", str(w.path / "plot.svg"), "--write", "1af4:1110", *BAR)
        t.ok(r.returncode == 0 and "read, 4 B at a time, 5 a run" in r.stdout and "write, 256 B at a time, 5 a run" in r.stdout,
             "--write with the device's numbers: it writes", r.stdout + r.stderr)
        t.ok("BAR 2 (256 B) of 1af4:1110 0000:03:00.0 of b, attached to this host" in r.stdout, "  and says what", r.stdout)
        t.equal(len({e.text for e in ElementTree.parse(w.path / "plot.svg").iter() if e.get("font-weight")}), 10, "  a panel for each size, and one for all of them")


def bar_refused(t):
    cases = (("no such BAR", lambda w: None, ("--bar", "0"), 2, ("has no BAR 0 in memory", f"on b: lspci -vs {BDF}")),
             ("one of I/O ports", lambda w: None, ("--bar", "1"), 2, ("has no BAR 1 in memory",)),
             ("no such device", lambda w: None, ("--device", "04:0.0"), 3, ("b has no device 0000:04:00.0",)),
             ("lent already", lambda w: bench_fakes.with_driver("b", BDF, "dlend-lender"), (), 4, ("is lent already",)),
             ("with a driver", lambda w: w.device_file("driver").symlink_to("/nowhere/bochs"), (), 6,
              ("has a driver: it is bochs", "echo none >driver_override && echo 0000:03:00.0 >driver/unbind")),
             ("writing to another one", lambda w: None, ("--write", "1234:1111"), 2, ("is another device: it is 1af4:1110", "Nothing was written")))
    for name, begin, words, code, parts in cases:
        with BoardWorld() as w:
            begin(w)
            r = w.run(*BAR, *words)
            t.ok(r.returncode == code and all(part in r.stderr for part in parts), f"a BAR, refused: {name}", f"{r.returncode} {r.stderr}")
            t.equal(w.calls(), [], "  nothing was done")
    with BoardWorld() as w:
        def attach():
            said = bench_fakes.attach()
            (w.path / f"a/sys/bus/pci/devices/{bench_fakes.ATTACHED}/resource2").unlink()
            return said

        bench_fakes.VERBS["attach"] = (attach, "a")
        r = w.run(*BAR)
        bench_fakes.VERBS["attach"] = (bench_fakes.attach, "a")
        t.ok(r.returncode == 1 and "bartimes failed on this host: resource2: No such file" in r.stderr and w.home(),
             "it fails: told, and the device is back", r.stderr)


PINGS = ("--runs", "2", "--ios", "4", "--ping", "192.0.2.1", "--address", "192.0.2.2/24", "--device", "3:00.0", "b")


MEMORY = "d002:04:00.0"
PEERS = ("--runs", "2", "--ios", "3", "--p2p", "3:00.0", MEMORY)


class PeerWorld(World):
    """On this host a disk with 2 MiB, and another device with a memory of 1 MiB for others: both are files."""

    def __init__(self):
        super().__init__()
        bench_fakes.with_driver("a", BDF, "nvme", "nvme0")
        bench_fakes.with_driver("a", MEMORY, "nvme", "nvme1")
        for name, text in (("proc/kallsyms", "0 T pci_p2pdma_add_resource\t[x]"), ("proc/interrupts", INTERRUPTS.format(BDF, "nvme0q1")),
                           (f"sys/bus/pci/devices/{MEMORY}/p2pmem/size", 2 << 20), (f"sys/bus/pci/devices/{MEMORY}/p2pmem/available", 1 << 20),
                           ("dev/nvme0n1", ""), (f"sys/bus/pci/devices/{MEMORY}/p2pmem/allocate", "")):
            bench_fakes.put("a", name, text)
        self.data = os.urandom(2 << 20)
        self.disk, self.memory = self.path / "a/dev/nvme0n1", self.path / f"a/sys/bus/pci/devices/{MEMORY}/p2pmem/allocate"
        self.disk.write_bytes(self.data)
        self.memory.write_bytes(bytes(1 << 20))


def peers(t):
    with PeerWorld() as w:
        r = w.run("--json", *PEERS)
        says = json.loads(r.stdout or "{}")
        t.equal((r.returncode, [(job["job"], job["block_bytes"]) for job in says.get("jobs", [])]), (0, [("read", 4096 << 2 * n) for n in range(5)]),
                "a disk reads into another device's memory, by size", r.stderr)
        job = says["jobs"][0]
        t.equal((says["disk"], says["memory"], says["model"], sorted(job["summary"]["latency_ns"]), sum(job["direct"]["distribution_ns"].values())),
                (BDF, MEMORY, "A Disk", ["direct", "ram", "ratio"], 6), "  directly and through RAM")
        t.equal(job["direct"]["per_io"], {"interrupts": 0, "link_interrupts": None, "lender_interrupts": None, "messages": 0}, "  with counts of this host")
        t.equal((w.memory.read_bytes(), w.disk.read_bytes() == w.data, w.calls()), (w.data[:1 << 20], True, []),
                "  what the disk has is there, and nothing was written or lent")
        t.ok("run 2 of 2, direct: read, 1 MiB at a time" in r.stderr and all("progress" in json.loads(line) for line in r.stderr.splitlines()), "  progress", r.stderr)
        bench_fakes.put("a", f"sys/bus/pci/devices/{MEMORY}/p2pmem/available", 16384)
        r = w.run("--plot", str(w.path / "plot.svg"), *PEERS)
        t.ok(r.returncode == 0 and f"A Disk {BDF}, and the memory of {MEMORY}; 2 runs" in r.stdout and "read, 16 KiB at a time, 3 a run" in r.stdout and
             "64 KiB" not in r.stdout and "passed them on" not in r.stdout, "a smaller memory; as a table", r.stdout + r.stderr)
        t.ok({"ram", "direct"} <= {e.text for e in ElementTree.parse(w.path / "plot.svg").iter()}, "  and drawn")
        r = w.run("--write", SERIAL, *PEERS)
        t.ok(r.returncode == 0 and "write, 16 KiB at a time" in r.stdout and w.disk.read_bytes()[:16384] != w.data[:16384] and
             w.disk.read_bytes()[3 * 16384:] == w.data[3 * 16384:], "--write with its serial number: it writes", r.stderr)


def peers_refused(t):
    def without(name):
        return lambda w: (w.path / "a" / name).unlink()

    def program(status):
        def begin(w):
            w.program("bartimes", f"#!/bin/sh\necho why >&2\nexit {status}\n")
            measurement.bar.BarBench.program = str(w.path / "bin/bartimes")
        return begin

    p2pmem = f"sys/bus/pci/devices/{MEMORY}/p2pmem"
    cases = (("no such memory", lambda w: shutil.rmtree(w.path / f"a/sys/bus/pci/devices/{MEMORY}"), (), 3, (f"this host has no device {MEMORY}",)),
             ("a kernel without", lambda w: bench_fakes.put("a", "proc/kallsyms", ""), (), 6, ("CONFIG_PCI_P2PDMA", "grep P2PDMA /boot/config-*")),
             ("an old kernel", without(f"{p2pmem}/allocate"), (), 6, ("no p2pmem/allocate", "6.2")),
             ("no memory", lambda w: shutil.rmtree(w.path / "a" / p2pmem), (), 2, ("its driver, nvme, gives none", "controller memory buffer")),
             ("no memory is free", lambda w: bench_fakes.put("a", f"{p2pmem}/available", 0), (), 4, ("is in use: 0 of 2097152 bytes are free",)),
             ("no such disk", lambda w: shutil.rmtree(w.path / f"a/sys/bus/pci/devices/{BDF}"), (), 3, (f"this host has no device {BDF}",)),
             ("a disk that is lent", lambda w: bench_fakes.with_driver("a", BDF, "dlend-lender"), (), 4, ("is lent already", f"  dlend reclaim {BDF}")),
             ("another driver", lambda w: bench_fakes.with_driver("a", BDF, "vfio-pci"), (), 6, ("not bound to the driver nvme",)),
             ("another serial number", lambda w: None, ("--write", "SER-2"), 2, ("another serial number", "Nothing was written")),
             ("a disk that is not empty", lambda w: w.touch("signatures", "ext4\n"), ("--write", SERIAL), 4, ("there is ext4 on it",)),
             ("a disk in use", program(3), (), 4, (f"{BDF} is in use: it is mounted", "lsblk /dev/nvme0n1")),
             ("no way", program(4), (), 1, (f"does not reach the memory of {MEMORY}: the kernel allows no such transfer: why", "dlend topology")),
             ("packets are lost", program(5), (), 1, (f"does not reach the memory of {MEMORY}: the transfer ended without an error",)),
             ("an error", program(1), (), 1, ("failed on this host: why",)),
             ("a host, too", lambda w: None, ("b",), 2, ("--p2p DISK MEMORY: two devices of this host",)),
             ("one device twice", lambda w: None, ("--p2p", "3:00.0", BDF), 2, ("two devices of this host",)),
             ("a BAR, too", lambda w: None, ("--bar", "1"), 2, ("two devices of this host",)))
    real = measurement.bar.BarBench.program
    for name, begin, words, code, parts in cases:
        with PeerWorld() as w:
            begin(w)
            r = w.run(*PEERS, *words)
            measurement.bar.BarBench.program = real
            t.ok(r.returncode == code and all(part in r.stderr for part in parts) and "Traceback" not in r.stderr, f"--p2p, refused: {name}", f"{r.returncode} {r.stderr}")
            t.ok(w.disk.read_bytes() == w.data and not any(w.memory.read_bytes() if w.memory.exists() else b""), "  nothing was read or written")
    with PeerWorld() as w:
        r = w.run("--runs", "2")
        t.ok(r.returncode == 2 and "--device BDF and one or two hosts are needed, or --p2p DISK MEMORY" in r.stderr, "nothing to measure: told", r.stderr)


def card(t):
    with CardWorld() as w:
        r = w.run("--json", *PINGS)
        says = json.loads(r.stdout or "{}")
        t.ok(r.returncode == 0 and w.home(), "a network card is measured, and is back", r.stderr)
        job = says["jobs"][0]
        t.equal((says["model"], job["job"], sorted(job["summary"]), job["attached"]["distribution_ns"]),
                ("igb 52:54:00:00:00:01", "round trip", ["latency_50_ns", "latency_99.9_ns", "latency_99_ns", "latency_ns"],
                 {"45000": 2, "102000": 2, "1250000": 2, "12500000": 2}), "  its round trips, and no bandwidth")
        once = ["netns add dlend-bench", "link set {0} netns dlend-bench", "-n dlend-bench addr add 192.0.2.2/24 dev {0}",
                "-n dlend-bench link set {0} up", "netns exec dlend-bench ping -c 1 -w 30 192.0.2.1",
                "netns exec dlend-bench ping -A -c 4 -w 60 192.0.2.1", "-n dlend-bench link set {0} netns 1", "netns del dlend-bench"]
        t.equal(w.ip(), [line.format(name) for name in ("eth-a", "eth-b") * 2 for line in once], "  in a network namespace, which is gone in the end")
    with CardWorld() as w:
        r = w.run(*PINGS)
        t.ok(r.returncode == 0 and "round trip, 56 B at a time, 4 a run" in r.stdout and "3474.2" in r.stdout and "interrupts of" not in r.stdout,
             "  as a table, without counts", r.stdout + r.stderr)
    for name, words, code, parts in (("no card", ("--device", "04:0.0"), 3, ("b has no device",)),
                                     ("an address elsewhere", ("--ping", "192.0.3.1"), 2, ("is not in the network of --address 192.0.2.2/24",)),
                                     ("writing", ("--write", "x"), 2, ("belong together",)), ("a BAR, too", ("--bar", "1"), 2, ("belong together",)),
                                     ("a name", ("--ping", "b"), 2, ("--ping",)), ("a wrong address", ("--address", "192.0.2.2/33"), 2, ("--address",))):
        with CardWorld() as w:
            r = w.run(*PINGS, *words)
            t.ok(r.returncode == code and all(part in r.stderr for part in parts) and not w.calls(), f"refused: {name}", f"{r.returncode} {r.stderr}")
    with CardWorld() as w:
        bench_fakes.with_driver("b", BDF, "vfio-pci")
        r = w.run(*PINGS)
        t.ok(r.returncode == 2 and "is no network card with an interface: its class is 0x020000, its driver is vfio-pci" in r.stderr, "refused: no interface",
             r.stderr)
    for name, text, says in (("silent", "", "ping failed on this host: 192.0.2.1 does not answer"), ("odd-ping", "time=soon ms\n", "what it says cannot be read")):
        with CardWorld() as w:
            w.touch(name, text)
            r = w.run(*PINGS)
            t.ok(r.returncode == 1 and says in r.stderr and w.home(), f"{name}: told, and the card is back", r.stderr)
            t.equal(w.ip()[-2:], ["-n dlend-bench link set eth-a netns 1", "netns del dlend-bench"], "  and the namespace is gone")


def fio_says(t):
    latency = {"mean": 80.5, "percentile": {"50.000000": 70, "90.000000": 90, "99.000000": 95, "99.900000": 99, "99.990000": 100},
               "bins": {"70": 3, "100": 1}}
    job = {"error": 0, "read": {"total_ios": 4, "bw_bytes": 5000, "clat_ns": latency}, "write": {"total_ios": 0}}
    says = parse_fio("fio: this file is large\n" + json.dumps({"jobs": [job]}), "read")
    t.equal((says["ios"], says["bytes_per_s"], says["latency_ns"], says["latency_50_ns"], says["latency_99.9_ns"], says["bins"]),
            (4, 5000, 80.5, 70, 99, {70: 3, 100: 1}), "what fio says is read")
    wrong = {"nothing": "", "no JSON": "fio: no such file", "half of it": json.dumps({"jobs": [job]})[:60], "no job": '{"jobs": []}',
             "nothing done": json.dumps({"jobs": [{**job, "read": {"total_ios": 0}}]}), "an error": json.dumps({"jobs": [{**job, "error": 5}]}),
             "no latency": json.dumps({"jobs": [{**job, "read": {"total_ios": 4, "bw_bytes": 1}}]}), "a list": '{"jobs": [[]]}',
             "no percentile": json.dumps({"jobs": [{**job, "read": {**job["read"], "clat_ns": {**latency, "percentile": {}}}}]})}
    for name, text in wrong.items():
        try:
            parse_fio(text, "read")
            t.ok(False, f"{name}: refused")
        except ValueError:
            t.passed(f"{name}: refused")
    t.ok(all(("--readonly" in fio_words(job, "/dev/x", 5, 1)) == (job in READS) for job in READS + WRITES), "fio itself is told not to write")


def counted(t):
    text = "CPU0 CPU1\n 24: 5 7 IR-PCI-MSIX-0000:03:00.0 0-edge nvme0q1\n 25: 1 2 x nvme10q0\n125: 7 0 y dlend-direct\nNMI: 1 1 nvme0q0 nobody"
    t.equal([interrupts_taken(text, names) for names in (("nvme0q",), ("dlend-direct", "ndev_vec_isr"), ("none",))], [14, 7, 0],
            "interrupts by their names")
    t.equal(messages_sent("state: up\nmsg_lease: sent 3 got 9\nmsg_map: sent 4 got 0\nheartbeats: sent 9\n"), 7, "messages, without heartbeats")


def good(t):
    with World() as w:
        r = w.run("--json", *DISK)
        says = json.loads(r.stdout or "{}")
        t.ok(r.returncode == 0 and w.home(), "measured, and the disk is back", r.stderr)
        cycle = [f"b lend {BDF}", "a list", "a attach d0002:03:00.0", "a fio read /dev/nvme5n1 readonly",
                 "a fio randread /dev/nvme5n1 readonly", "a detach d0002:03:00.0", f"b reclaim {BDF}",
                 "b fio read /dev/nvme0n1 readonly", "b fio randread /dev/nvme0n1 readonly"]
        t.equal(w.calls(), 2 * cycle, "in turn on both hosts, and nothing is written")
        t.equal((says["version"], says["device"], says["model"], says["interrupts"], says["times_mean_nothing"], says["runs"]),
                (1, BDF, "A Disk", "doorbell: off", False, 2), "JSON has a version, and says what was measured")
        job = says["jobs"][1]
        row = job["summary"]["latency_ns"]
        t.equal((job["job"], row["local"]["mean"], row["attached"]["mean"], round(row["ratio"]["mean"], 4)), ("random read", 101500, 111500, 1.0985),
                "means and their ratio")
        t.ok(row["ratio"]["99"][0] < row["ratio"]["95"][0] < row["ratio"]["mean"] < row["ratio"]["95"][1] < row["ratio"]["99"][1], "with intervals")
        t.equal((job["attached"]["per_io"], job["local"]["per_io"]),
                ({"interrupts": 1, "link_interrupts": 2, "lender_interrupts": 1, "messages": 0},
                 {"interrupts": 1, "link_interrupts": None, "lender_interrupts": None, "messages": None}), "interrupts and messages for each I/O")
        t.equal(job["attached"]["distribution_ns"], {"111000": 49, "112000": 49, "999000": 1, "1008000": 1}, "the distribution, of all runs")
        t.ok(all("progress" in json.loads(line) for line in r.stderr.splitlines()), "progress is JSON, too", r.stderr)
    with World() as w:
        shutil.rmtree(w.path / "a/sys/kernel")
        r = w.run(*DISK)
        t.ok(r.returncode == 0 and "A Disk 0000:03:00.0 of b, attached to this host; 2 runs, interrupts: doorbell: off" in r.stdout and
             "latency, median, us" in r.stdout and "111.5" in r.stdout, "as a table", r.stdout + r.stderr)
        t.ok("random read, 4 KiB at a time, 50 a run" in r.stdout and "run 2 of 2, local: random read" in r.stderr, "  and what it does", r.stderr)
        t.ok([line for line in r.stdout.splitlines() if "messages" in line and line.split()[-2:] == ["-", "-"]], "  without debugfs: no messages",
             r.stdout)
    with World() as w:
        r = w.run(*DISK[:-1], "a", "b")
        t.ok(r.returncode == 0 and "of b, attached to a;" in r.stdout, "two hosts, both by ssh", r.stdout + r.stderr)
    with World() as w:
        r = w.run_program([DLEND, "--root", w.path / "a", "--json", "bench", *DISK])
        t.ok(r.returncode == 0 and json.loads(r.stdout)["version"] == 1, "dlend bench", r.stderr)


def virtual(t):
    with World() as w:
        bench_fakes.put("b", "proc/cpuinfo", "flags : fpu hypervisor vme")
        r = w.run(*DISK)
        t.ok(r.returncode == 0 and "times mean nothing" in r.stdout and "111.5" not in r.stdout and "1.099" in r.stdout,
             "a host that is a virtual machine: ratios and counts only", r.stdout)
        t.equal(json.loads(w.run("--json", *DISK).stdout)["times_mean_nothing"], True, "  as JSON, too")


def writes(t):
    with World() as w:
        r = w.run("--write", SERIAL, *DISK)
        t.equal((r.returncode, [call for call in w.calls() if "write" in call][:2], w.home()),
                (0, ["a fio write /dev/nvme5n1", "a fio randwrite /dev/nvme5n1"], True), "--write with the disk's serial number: it writes")
        t.ok("random write" in r.stdout, "  and tells that", r.stdout)


def error(code, what, todo=""):
    return json.dumps({"error": {"code": code, "what": what, "why": "of the test", "todo": todo}})


def refused(t):
    def link(w):
        bench_fakes.put("a", "sys/class/dlend_link/l/state", "down")

    def named(host, name, text):
        return lambda w: bench_fakes.put(host, name, text)

    def driver(name, *more):
        return lambda w: bench_fakes.with_driver("b", BDF, name, *more)

    def namespaces(w):
        (w.path / f"b/sys/bus/pci/devices/{BDF}/nvme/nvme0/nvme0n2").mkdir()

    def no_fio(w):
        w.env["PATH"] = str(w.path / "less")        # this machine may have one
        (w.path / "less").mkdir()
        (w.path / "less/sh").symlink_to(shutil.which("sh"))

    cases = (
        ("the lender cannot be reached", lambda w: w.touch("gone"), (), 6, ("b cannot be asked: no route", "without a password")),
        ("no fio there", no_fio, (), 6, ("there is no fio on this host", "apt install fio")),
        ("dlend is not loaded there", lambda w: shutil.rmtree(w.path / "b/sys/module"), (), 6, ("dlend's modules are not loaded on b", "on b: dlend doctor")),
        ("one host twice", named("b", "sys/module/dlend_core/parameters/node_id", 1), (), 6, ("are one host", "both are node 1")),
        ("no link", link, (), 6, ("no link from this host to b, node 2, is up", "dlend links")),
        ("no such device", lambda w: None, ("--device", "04:0.0"), 3, ("b has no device 0000:04:00.0", "on b: lspci")),
        ("no NVMe disk", named("b", f"sys/bus/pci/devices/{BDF}/class", "0x020000"), (), 2, ("is no NVMe disk", "0x020000")),
        ("lent already", driver("dlend-lender"), (), 4, ("is lent already", f"on b: dlend reclaim {BDF}")),
        ("with vfio-pci", driver("vfio-pci"), (), 6, ("not bound to the driver nvme", "its driver is vfio-pci")),
        ("with no driver", driver(""), (), 6, ("its driver is none",)),
        ("two namespaces", namespaces, (), 6, ("has 2 namespaces",)),
        ("another serial number", lambda w: None, ("--write", "SER-2"), 2, ("another serial number", f"it is {SERIAL}", "Nothing was written")),
        ("not empty", lambda w: w.touch("signatures", "ext4\n"), ("--write", SERIAL), 4, ("is not empty", "there is ext4 on it", "wipefs --all")),
    )
    for name, begin, words, code, parts in cases:
        with World() as w:
            begin(w)
            r = w.run(*DISK, *words)
            t.ok(r.returncode == code and all(part in r.stderr for part in parts) and "Traceback" not in r.stderr, f"refused: {name}",
                 f"{r.returncode} {r.stderr}")
            t.equal(w.calls(), [], "  nothing was done")


def fails(t):
    """In the middle; the disk is back, or what to do is said."""
    for verb, code, parts, text in (("lend", 4, ("b: it is mounted: of the test", "on b: umount /x"), error(4, "it is mounted", "umount /x")),
                                    ("attach", 6, ("it does not fit: of the test",), error(6, "it does not fit")),
                                    ("attach", 6, ("this host cannot be asked",), "what?"),
                                    ("fio", 1, ("fio failed on this host", "no such luck"), "no such luck")):
        with World() as w:
            w.touch(f"fail-{verb}", text)
            r = w.run(*DISK)
            t.ok(r.returncode == code and all(part in r.stderr for part in parts), f"{verb} fails: told", f"{r.returncode} {r.stderr}")
            t.ok(w.home(), "  and the disk is back", str(w.calls()))
    for host in "ab":
        with World() as w:
            w.touch(f"other-{host}")
            r = w.run("--write", SERIAL, *DISK)
            t.ok(r.returncode == 1 and "has become another device: it is the disk OTHER" in r.stderr and w.home(), "another disk: told", r.stderr)
            t.ok(not any("fio" in call for call in w.calls() if call.startswith(host)), "  and not touched", str(w.calls()))
    for what in ("nonsense", "{}", '{"jobs": [{"error": 5, "read": {"total_ios": 1}}]}'):
        with World() as w:
            w.touch("odd-fio", what)
            r = w.run(*DISK)
            t.ok(r.returncode == 1 and "cannot be read" in r.stderr and w.home(), f"fio says {what}: told, and the disk is back", r.stderr)
    for verb, by_hand in (("detach", "dlend detach d0002:03:00.0; on b: dlend reclaim 0000:03:00.0"), ("reclaim", "on b: dlend reclaim 0000:03:00.0")):
        with World() as w:
            w.touch(f"fail-{verb}", error(4, "somebody uses it"))
            r = w.run("--json", *DISK)
            says = json.loads(r.stdout)["error"]
            t.ok(r.returncode == 4 and says["what"] == f"{BDF} is not given back" and "somebody uses it" in says["why"] and
                 says["todo"] == f"By hand: {by_hand}", f"{verb} fails: what to do by hand is told", r.stdout)
    with World() as w:
        w.touch("hold-fio")
        with w.begin(*DISK) as process:
            wait_for(w.path / "held-fio")
            w.touch("gone")
            (w.path / "hold-fio").unlink()
            rest = process.communicate(timeout=60)[0]
        t.ok(process.returncode == 6 and "b cannot be asked: no route" in rest and "By hand: on b: dlend reclaim" in rest,
             "the lender is gone: what to do by hand is told", rest)


def wait_for(path):
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def interrupted(t):
    with World() as w:
        w.program("wipefs", '#!/bin/sh\n: >"$WORLD/held"; until [ -e "$WORLD/go-on" ]; do sleep 0.01; done\n')
        with w.begin("--write", SERIAL, *DISK) as process:
            wait_for(w.path / "held")
            os.killpg(process.pid, signal.SIGINT)
            w.touch("go-on")
            rest = process.communicate(timeout=60)[0]
        t.ok(process.returncode == 1 and "was interrupted" in rest and not w.calls(), "Ctrl-C while all is checked: nothing was done", rest)
    for verb in ("lend", "attach", "fio", "detach", "reclaim"):
        with World() as w:
            w.touch(f"hold-{verb}")
            with w.begin(*DISK) as process:
                wait_for(w.path / f"held-{verb}")
                os.killpg(process.pid, signal.SIGINT)
                (w.path / f"hold-{verb}").unlink()
                rest = process.communicate(timeout=60)[0]
            t.ok(process.returncode == 1 and "was interrupted: a signal came" in rest and "Traceback" not in rest, f"Ctrl-C in {verb}: told", rest)
            t.ok(w.home(), "  and the disk is back", str(w.calls()))


def plotted(t):
    picture = draw({"read & more": {"local": {100: 3, 2000: 1}, "attached": {150: 4}}}, {}, True)
    root = ElementTree.fromstring(picture)
    says = ["".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")]
    t.ok({"read & more", "local", "attached", "0.1", "1", "10", "100%", "latency, us"} <= set(says), "a panel with its axes", str(says))
    t.equal(len([e for e in root.iter("{http://www.w3.org/2000/svg}path") if e.get("fill") == "none"]), 2, "  and a line for each host")
    rates = {"read": {"local": {4: 5e6, 1024: 7e7}, "attached": {4: 2e6, 1024: 3e7}}}
    root = ElementTree.fromstring(draw({}, rates, True))
    says = ["".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")]
    t.ok({"read, MB/s by size", "bytes at a time", "1", "10", "100", "10000"} <= set(says), "bandwidth by size", str(says))
    t.equal([e.get("d").count("L") for e in root.iter("{http://www.w3.org/2000/svg}path") if e.get("fill") == "none"], [1, 1], "  a line for each host")
    t.ok("MB/s" not in draw({}, rates, False), "  no numbers where these mean nothing")
    t.ok("0.1" not in draw({"read": {"local": {100: 3}, "attached": {100: 3}}}, {}, False).split("<text"), "no times where these mean nothing")
    with World() as w:
        file = w.path / "plot.svg"
        r = w.run("--plot", str(file), *DISK)
        t.ok(r.returncode == 0 and len(ElementTree.parse(file).getroot()) > 20, "--plot writes it", r.stderr)
        r = w.run("--json", "--plot", "/dev/full", *DISK)
        says = json.loads(r.stdout)
        t.ok(r.returncode == 1 and says["error"]["what"] == "/dev/full cannot be written" and says["version"] == 1, "no space: the numbers are told",
             r.stderr)
        t.ok("latency" in w.run("--plot", "/dev/full", *DISK).stdout, "  in words, too")


def layers(t):
    """No ring of modules: each imports only modules that stand before it in the list of its __init__.py."""
    for name in ("remote", "migration", "measurement"):
        folder = TOP / "tools" / name
        order = [line.split()[0] for line in (folder / "__init__.py").read_text().splitlines() if line.startswith("    ")]
        there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        t.equal(sorted(order), sorted(there), f"{name}: every module is listed")
        wrong = []
        for module in order:
            for node in ast.walk(ast.parse((folder / f"{module}.py").read_text())):
                if isinstance(node, ast.ImportFrom) and node.level:
                    names = [node.module] if node.module else [alias.name for alias in node.names]
                    wrong += [f"{module} imports {name}" for name in names if name not in order[:order.index(module)]]
        t.equal(wrong, [], "  each imports only those before it")


heed_ctrl_c()
with Tap() as tap:
    for part in (layers, arithmetic, times_of_runs, fio_says, counted, good, virtual, writes, bartimes, bar_read, bar_refused, peers, peers_refused, card, refused, fails, interrupted, plotted):
        tap.diag(part.__name__)
        part(tap)
