# SPDX-License-Identifier: GPL-2.0-only
"""An NVMe disk on one host: what sysfs shows of it, the jobs, and what fio says of them.

Reading is as in the paper (docs/measurements.md): 1024 blocks of 512 bytes, one behind the other, for bandwidth; 8 of
them, anywhere, for latency.
"""
import json
import re
from dataclasses import dataclass

from remote.messages import IN_USE, NOT_READY, USAGE, Failure

from .device import ReadyByDriver, check_own, directory_of
from .times import PERCENTILES, RUNTIME_S, Job

NVME = "0x0108"     # how the class begins
# The names that a disk's driver gives are in a directory of the controller's name.
LOOK = """cd "$1" 2>/dev/null || exit 0
echo class $(cat class); echo driver $(basename "$(readlink driver)")
cd nvme/nvme* 2>/dev/null || exit 0
echo controller ${PWD##*/}; echo serial $(cat serial); echo model $(cat model); echo disks $(ls -d nvme*n*)"""


@dataclass(frozen=True)
class Disk:
    """A PCI device of one host; names are "" while no driver has it."""
    pci_class: str
    driver: str
    controller: str     # nvme0, the word by which its interrupts begin
    serial: str
    model: str
    names: tuple        # of its disks below /dev

    @property
    def ready(self):
        return self.driver == "nvme" and bool(self.names)

    @property
    def identity(self):
        return f"the disk {self.serial}"

    @property
    def interrupts(self):
        return (f"{self.controller}q",)


def look_at(host, bdf):
    """The Disk; None if the host has no such device."""
    says = host.run_checked(["sh", "-c", LOOK, "sh", directory_of(host, bdf)])
    if not says:
        return None
    has = dict(line.partition(" ")[::2] for line in says.splitlines())
    # With several ways to a disk, what people use has a name without that of the way
    names = tuple(sorted({re.sub(r"^(nvme\d+)c\d+(n\d+)$", r"\1\2", name) for name in has.get("disks", "").split()}))
    return Disk(has["class"], has["driver"], *(has.get(name, "").strip() for name in ("controller", "serial", "model")), names)


def check_disk(host, bdf):
    """The Disk, before it is lent.  Raises a Failure if it is none, or is not the host's own."""
    disk = look_at(host, bdf)
    check_own(host, bdf, disk)
    if not disk.pci_class.startswith(NVME):
        raise Failure(f"{bdf} on {host} is no NVMe disk", f"its class is {disk.pci_class}", f"{host.prefix()}lspci -D", USAGE)
    if disk.driver != "nvme":
        raise Failure(f"{bdf} on {host} is not bound to the driver nvme", f"its driver is {disk.driver or 'none'}",
                      "It is measured with that driver on both hosts.", NOT_READY)
    if len(disk.names) != 1:
        raise Failure(f"{bdf} on {host} has {len(disk.names)} namespaces", "", "One is needed: nvme list", NOT_READY)
    return disk


def check_consent(host, bdf, disk, serial):
    """What is on a disk is lost when it is written to: people name its serial number, and it has to be empty."""
    if disk.serial != serial:
        raise Failure(f"{bdf} on {host} has another serial number", f"it is {disk.serial}",
                      "Nothing was written.  Check that this is the disk you mean.", USAGE)
    there = host.run_checked(["wipefs", "--no-act", "--noheadings", "--output", "TYPE", f"/dev/{disk.names[0]}"]).split()
    if there:
        raise Failure(f"{bdf} on {host} is not empty", f"there is {', '.join(there)} on it",
                      f"Nothing was written.  If its contents are not needed: {host.prefix()}wipefs --all /dev/{disk.names[0]}", IN_USE)


@dataclass(frozen=True)
class FioJob(Job):
    rw: str             # as fio calls it

    @property
    def direction(self):
        return self.rw.removeprefix("rand")


READS = (FioJob("sequential read", 512 << 10, 1000, "read"), FioJob("random read", 4 << 10, 10000, "randread"))
WRITES = (FioJob("sequential write", 512 << 10, 1000, "write"), FioJob("random write", 4 << 10, 10000, "randwrite"))


def fio_words(job, disk, ios, seed):
    """The command.  disk: a device file; seed: of what is random, so that both hosts do the same"""
    guard = ["--readonly"] if job.direction == "read" else []
    return ["fio", "--name=dlend", f"--filename={disk}", f"--rw={job.rw}", f"--bs={job.block}", "--direct=1",
            "--ioengine=psync", f"--io_size={ios * job.block}", f"--runtime={RUNTIME_S}", f"--randseed={seed}",
            f"--percentile_list={':'.join(PERCENTILES)}", "--output-format=json+", *guard]


def parse_fio(text, direction):
    """What fio did, in a job that reads or writes: numbers by name, and "bins": {latency in ns: how many I/Os had it}.

    Raises ValueError if there is no such thing.  fio may say something before its JSON.
    """
    try:
        job = json.loads(text[text.index("{"):])["jobs"][0]
        did = job[direction]
        if job["error"] or not did["total_ios"]:
            raise ValueError(f"error {job['error']}, {did['total_ios']} I/Os")
        latency = did["clat_ns"]
        percentile = {float(name): ns for name, ns in latency["percentile"].items()}
        return {"ios": did["total_ios"], "bytes_per_s": did["bw_bytes"], "latency_ns": latency["mean"],
                **{f"latency_{name}_ns": percentile[float(name)] for name in PERCENTILES},
                "bins": {int(ns): count for ns, count in latency["bins"].items()}}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"no {error} in it") from None


class DiskBench(ReadyByDriver):
    """What rounds.py measures, by fio."""
    program, package = "fio", "fio"
    look_at = look_at

    def __init__(self, consent):
        """consent: to write, see check_consent(); or None"""
        self.consent = consent
        self.jobs = READS + (() if consent is None else WRITES)

    def check(self, host, bdf):
        """The Disk, before it is lent."""
        disk = check_disk(host, bdf)
        if self.consent is not None:
            check_consent(host, bdf, disk, self.consent)
        return disk

    def words(self, disk, job, ios, seed):
        return fio_words(job, f"/dev/{disk.names[0]}", ios, seed)

    def parse(self, text, job):
        return parse_fio(text, job.direction)
