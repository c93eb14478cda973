# SPDX-License-Identifier: GPL-2.0-only
"""The numbers, for people and for programs."""
import statistics

from .times import mean_of, ratio_of

# Name of a run's number: (for people, by how much it is divided, decimals)
MEASURES = {"latency_ns": ("latency, mean, us", 1000, 1), "latency_50_ns": ("latency, median, us", 1000, 1),
            "latency_99_ns": ("latency, 99 %, us", 1000, 1), "latency_99.9_ns": ("latency, 99.9 %, us", 1000, 1),
            "bytes_per_s": ("bandwidth, MB/s", 1e6, 1)}
# Of each I/O
COUNTS = {"interrupts": "interrupts of the device", "link_interrupts": "  by which they came through the link",
          "lender_interrupts": "  by which the lender passed them on", "messages": "messages between the hosts"}
MEANINGLESS = "a host is a virtual machine: times mean nothing there, so only ratios and counts are printed"


def per_io(runs, count):
    """Of all runs together; None where that is not counted."""
    counted = [run.get(count) for run in runs]
    return None if None in counted else round(sum(counted) / sum(run["ios"] for run in runs), 3)


def distribution(runs):
    """{latency in ns: how many I/Os had it} of all runs together."""
    together = {}
    for run in runs:
        for ns, count in run["bins"].items():
            together[ns] = together.get(ns, 0) + count
    return dict(sorted(together.items()))


def summary(places):
    """{measure: {place: mean and intervals, "ratio": of the second place to the first one, and intervals}} of one job"""
    first, second = places
    told = [measure for measure in MEASURES if measure in places[first][0]]
    values = {place: {measure: [run[measure] for run in runs] for measure in told} for place, runs in places.items()}
    return {measure: {**{place: mean_of(values[place][measure]) for place in places},
                      "ratio": ratio_of(values[second][measure], values[first][measure])} for measure in told}


def rates_by_size(results):
    """{name of a job: {place: {bytes of a transfer: bytes a second}}} of those that were done in several sizes"""
    rates = {}
    for job, places in results.items():
        for place, runs in places.items():
            if "bytes_per_s" in runs[0]:
                rates.setdefault(job.name, {}).setdefault(place, {})[job.block] = statistics.fmean(run["bytes_per_s"] for run in runs)
    return {name: places for name, places in rates.items() if len(next(iter(places.values()))) > 1}


def as_json(bench, virtual):
    """All of it.  virtual: whether a host is a virtual machine"""
    jobs = [{"job": job.name, "block_bytes": job.block, "summary": summary(places),
             **{place: {"runs": [{name: value for name, value in run.items() if name != "bins"} for run in runs],
                        "per_io": {count: per_io(runs, count) for count in COUNTS},
                        "distribution_ns": distribution(runs)} for place, runs in places.items()}}
            for job, places in bench.results.items()]
    return {**bench.head(), "times_mean_nothing": virtual, "runs": bench.runs, "jobs": jobs}


def interval(row, level):
    return " to ".join(f"{end:.4g}" for end in row[level])


def as_lines(bench, virtual):
    """For people."""
    lines = [bench.title()]
    if virtual:
        lines.append(MEANINGLESS)
    for job, places in bench.results.items():
        first, second = places
        lines += ["", f"{job.title()}, {places[first][0]['ios']} a run",
                  f"  {'':37} {first:>10} {second:>10} {'ratio':>7}  {'95 %':18}  99 %"]
        for measure, row in summary(places).items():
            name, by, digits = MEASURES[measure]
            times = ["-", "-"] if virtual else [f"{row[place]['mean'] / by:.{digits}f}" for place in places]
            ratio = row["ratio"]
            lines.append(f"  {name:37} {times[0]:>10} {times[1]:>10} {ratio['mean']:>7.4g}  {interval(ratio, '95'):18}  "
                         f"{interval(ratio, '99')}")
        for count, name in COUNTS.items():
            both = [per_io(runs, count) for runs in places.values()]
            if any(count in runs[0] for runs in places.values()):
                lines.append(f"  {name:37} " + " ".join(f"{'-' if value is None else format(value, '.3f'):>10}" for value in both))
    return lines
