# SPDX-License-Identifier: GPL-2.0-only
"""The jobs, and what fio says of them.

Reading is as in the paper (docs/measurements.md): 1024 blocks of 512 bytes, one behind the other, for bandwidth; 8 of
them, anywhere, for latency.
"""
import json
from dataclasses import dataclass

from .times import PERCENTILES, RUNTIME_S, Job


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
