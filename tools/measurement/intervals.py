# SPDX-License-Identifier: GPL-2.0-only
"""Means of repeated runs, and how far they can be trusted.

The interval of a mean is Student's: mean +- t * s / sqrt(n), with n - 1 degrees of freedom.  It holds for runs that do
not depend on each other; that their values are normally distributed matters less, the more runs there are.
A ratio is the geometric mean of the ratios of the runs that were made in one round.  Its interval is that of the mean
of their logarithms.
"""
import math
import statistics

LEVELS = (95, 99)       # per cent


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
