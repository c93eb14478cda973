# SPDX-License-Identifier: GPL-2.0-only
"""A job, and the numbers of a run of it: how long each of its transfers took."""
from dataclasses import dataclass

RUNTIME_S = 60      # after which a job ends, whatever it has done
PERCENTILES = ("50", "90", "99", "99.9", "99.99")


@dataclass(frozen=True)
class Job:
    """One transfer after the other."""
    name: str
    block: int          # bytes of each
    ios: int            # how many in a run

    def title(self):
        return f"{self.name}, {in_units(self.block)} at a time"


def in_units(size):
    """As people write it: 4 B, 64 KiB."""
    unit = next(unit for unit in (30, 20, 10, 0) if size >> unit)
    return f"{size >> unit} {('', 'Ki', 'Mi', 'Gi')[unit // 10]}B"


def numbers_of(times):
    """Of a run: numbers by name, and "bins": {latency in ns: how many transfers had it}.

    times: {ns: how many}.  Bins have three digits of a time, as there would be too many.  Raises ValueError if there was no
    transfer, or one that took no time.
    """
    ios = sum(times.values())
    if not ios or min(times) < 1:
        raise ValueError("nothing was transferred")
    bins = {}
    for ns, count in times.items():
        digits = round(ns, min(0, 3 - len(str(ns))))
        bins[digits] = bins.get(digits, 0) + count
    return {"ios": ios, "latency_ns": sum(ns * count for ns, count in times.items()) / ios,
            **{f"latency_{name}_ns": percentile(times, float(name)) for name in PERCENTILES}, "bins": bins}


def percentile(times, per_cent):
    """The least time within which so many of all transfers were done."""
    left = sum(times.values()) * per_cent / 100
    for ns, count in sorted(times.items()):
        left -= count
        if left <= 0:
            return ns
    return max(times)
