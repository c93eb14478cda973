# SPDX-License-Identifier: GPL-2.0-only
"""The distribution of latencies as SVG: for each job, the share of I/Os that took no longer than so many microseconds."""
import math
from html import escape

WIDTH, HEIGHT = 640, 260            # of a panel
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 50
COLOURS = {"local": "#1f77b4", "attached": "#d62728"}


def steps_of(distribution):
    """[(ns, share of I/Os that took no longer)]"""
    total, so_far, steps = sum(distribution.values()), 0, []
    for ns, count in sorted(distribution.items()):
        so_far += count
        steps.append((max(ns, 1), so_far / total))
    return steps


def decades(distributions):
    """The powers of ten between which all of it lies."""
    every = [max(ns, 1) for distribution in distributions for ns in distribution]
    low = math.floor(math.log10(min(every)))
    return low, max(math.ceil(math.log10(max(every))), low + 1)


def panel(job, y, distributions, labels):
    """One job.  y: of its top; distributions: by place; labels: whether the axis has times"""
    low, high = decades(distributions.values())
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    bottom = y + HEIGHT - BOTTOM

    def at(ns, share):
        return f"{LEFT + across * (math.log10(ns) - low) / (high - low):.1f},{bottom - down * share:.1f}"

    parts = [f'<text x="{LEFT}" y="{y + 24}" font-weight="bold">{escape(job)}</text>']
    for power in range(low, high + 1):
        x = at(10 ** power, 0).partition(",")[0]
        parts.append(f'<path d="M{x},{bottom}V{bottom - down}" stroke="#ddd"/>')
        if labels:
            parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{10.0 ** (power - 3):g}</text>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        height = bottom - down * share
        parts.append(f'<path d="M{LEFT},{height:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    axis = "latency, us" if labels else "latency (times mean nothing here)"
    parts.append(f'<text x="{LEFT + across / 2:.0f}" y="{bottom + 38}" text-anchor="middle">{axis}</text>')
    for place, distribution in distributions.items():
        steps = steps_of(distribution)
        path = f"M{at(steps[0][0], 0)}" + "".join(f"H{at(ns, 0).partition(',')[0]}V{at(ns, share).partition(',')[2]}"
                                                  for ns, share in steps)
        parts.append(f'<path d="{path}" fill="none" stroke="{COLOURS[place]}" stroke-width="2"/>')
    for n, place in enumerate(distributions):
        parts.append(f'<text x="{WIDTH - RIGHT - 160 + 80 * n}" y="{y + 24}" fill="{COLOURS[place]}">{place}</text>')
    return parts


def draw(jobs, labels):
    """The whole picture.  jobs: {name: {place: {ns: count}}}"""
    parts = [part for n, (job, distributions) in enumerate(jobs.items())
             for part in panel(job, n * HEIGHT, distributions, labels)]
    height = HEIGHT * len(jobs)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")
