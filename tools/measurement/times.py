# SPDX-License-Identifier: GPL-2.0-only
"""A job, and the numbers of a run of it: how long each of its transfers took.  Means of repeated runs, and how far they can
be trusted.

The interval of a mean is Student's: mean +- t * s / sqrt(n), with n - 1 degrees of freedom.  It holds for runs that do
not depend on each other; that their values are normally distributed matters less, the more runs there are.
A ratio is the geometric mean of the ratios of the runs that were made in one round.  Its interval is that of the mean
of their logarithms.
"""
import math
import statistics
from dataclasses import dataclass

RUNTIME_S = 60      # after which a job ends, whatever it has done
LEVELS = (95, 99)       # per cent, of an interval
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


def tail(t, degrees):
    """The probability that Student's t is above t, which is not negative."""
    # With t = sqrt(degrees) * tan(a), the density is a power of cos(a).  Simpson's rule, up to that a.
    end, steps = math.atan(t / math.sqrt(degrees)), 1000
    values = [math.cos(end * n / steps) ** (degrees - 1) for n in range(steps + 1)]
    area = (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2])) * end / steps / 3
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    return 0.5 - scale * area


def student_t(level, degrees):
    """The t between whose negative and itself a value lies with this probability, in per cent."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, degrees) > (1 - level / 100) / 2 else (low, middle)
    return (low + high) / 2


def mean_of(values):
    """{"mean": its mean, "95": [from, to], "99": [from, to]}; of two values at least"""
    mean, degrees = statistics.fmean(values), len(values) - 1
    error = statistics.stdev(values) / math.sqrt(len(values))
    return {"mean": mean, **{str(level): [mean - student_t(level, degrees) * error, mean + student_t(level, degrees) * error]
                             for level in LEVELS}}


def ratio_of(values, to):
    """The same of the ratios of values to others of the same rounds.  All are above 0."""
    logs = mean_of([math.log(value / other) for value, other in zip(values, to)])
    return {name: [math.exp(end) for end in log] if isinstance(log, list) else math.exp(log) for name, log in logs.items()}
