# SPDX-License-Identifier: GPL-2.0-only
"""The numbers as SVG: for each job the share of I/Os that took no longer than so many microseconds, and bandwidth by size."""
import math
from html import escape

WIDTH, HEIGHT = 640, 260            # of a panel
LEFT, RIGHT, TOP, BOTTOM = 60, 30, 40, 50
COLOURS = "#1f77b4", "#d62728"      # of the two places


def steps_of(distribution):
    """[(ns, share of I/Os that took no longer)]"""
    total, so_far, steps = sum(distribution.values()), 0, []
    for ns, count in sorted(distribution.items()):
        so_far += count
        steps.append((max(ns, 1), so_far / total))
    return steps


def decades(values):
    """The powers of ten between which all of them lie."""
    low = math.floor(math.log10(min(values)))
    return low, max(math.ceil(math.log10(max(values))), low + 1)


class Panel:
    """One of those that stand one below the other."""

    def __init__(self, number, powers, places):
        """powers: of ten, the first and the last one of the axis"""
        self.top, self.powers, self.places = number * HEIGHT, powers, list(places)
        self.across, self.down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        self.bottom = self.top + HEIGHT - BOTTOM

    def at(self, value, share):
        """share: of the height"""
        low, high = self.powers
        return f"{LEFT + self.across * (math.log10(value) - low) / (high - low):.1f},{self.bottom - self.down * share:.1f}"

    def frame(self, title, axis, name_of, lines):
        """name_of: what stands at a power of ten, or None; lines: [(share of the height, what stands there)]"""
        parts = [f'<text x="{LEFT}" y="{self.top + 24}" font-weight="bold">{escape(title)}</text>']
        for power in range(self.powers[0], self.powers[1] + 1):
            x = self.at(10 ** power, 0).partition(",")[0]
            parts.append(f'<path d="M{x},{self.bottom}V{self.bottom - self.down}" stroke="#ddd"/>')
            if name_of:
                parts.append(f'<text x="{x}" y="{self.bottom + 18}" text-anchor="middle">{name_of(power)}</text>')
        for share, name in lines:
            height = self.bottom - self.down * share
            parts.append(f'<path d="M{LEFT},{height:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                         f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{name}</text>')
        parts.append(f'<text x="{LEFT + self.across / 2:.0f}" y="{self.bottom + 38}" text-anchor="middle">{axis}</text>')
        for n, place in enumerate(self.places):
            parts.append(f'<text x="{WIDTH - RIGHT - 160 + 80 * n}" y="{self.top + 24}" fill="{COLOURS[n]}">{place}</text>')
        return parts

    def line(self, place, path):
        return f'<path d="{path}" fill="none" stroke="{COLOURS[self.places.index(place)]}" stroke-width="2"/>'


def distribution_panel(number, job, distributions, labels):
    """One job.  distributions: by place; labels: whether the axis has times"""
    panel = Panel(number, decades([max(ns, 1) for distribution in distributions.values() for ns in distribution]), distributions)
    parts = panel.frame(job, "latency, us" if labels else "latency (times mean nothing here)",
                        (lambda power: f"{10.0 ** (power - 3):g}") if labels else None, [(n / 4, f"{n / 4:.0%}") for n in range(5)])
    for place, distribution in distributions.items():
        steps = steps_of(distribution)
        path = f"M{panel.at(steps[0][0], 0)}" + "".join(f"H{panel.at(ns, 0).partition(',')[0]}V{panel.at(ns, share).partition(',')[2]}"
                                                        for ns, share in steps)
        parts.append(panel.line(place, path))
    return parts


def sizes_panel(number, name, places, labels):
    """Bandwidth by size.  places: {place: {bytes of a transfer: bytes a second}}; labels: whether the height has numbers"""
    panel = Panel(number, decades([size for sizes in places.values() for size in sizes]), places)
    low, high = decades([rate for sizes in places.values() for rate in sizes.values()])
    title = f"{name}, MB/s by size" if labels else f"{name}, bandwidth by size (its numbers mean nothing here)"
    parts = panel.frame(title, "bytes at a time", lambda power: 10 ** power,
                        [((power - low) / (high - low), f"{10.0 ** (power - 6):g}" if labels else "") for power in range(low, high + 1)])
    for place, sizes in places.items():
        points = [panel.at(size, (math.log10(rate) - low) / (high - low)) for size, rate in sorted(sizes.items())]
        parts.append(panel.line(place, "M" + "L".join(points)))
    return parts


def draw(jobs, rates, labels):
    """The whole picture.  jobs: {title: {place: {ns: count}}}; rates: {name: {place: {bytes of a transfer: bytes a second}}}"""
    panels = [(sizes_panel, *rate) for rate in rates.items()] + [(distribution_panel, *job) for job in jobs.items()]
    parts = [part for number, (panel, name, places) in enumerate(panels) for part in panel(number, name, places, labels)]
    height = HEIGHT * len(panels)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")
