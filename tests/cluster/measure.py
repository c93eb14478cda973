# SPDX-License-Identifier: GPL-2.0-only
"""What came out of a device: the tone in a sound file, the picture on a screen.

Knows nothing of hosts and guests.
"""
import array
import math
import sys
from pathlib import Path


class Bad(Exception):
    """Not a file that this can read."""


def sound(path):
    """(rate, samples of the left channel) of a WAV file with 16 bits a sample, whole or still being written."""
    data = Path(path).read_bytes()
    if data[:4] != b"RIFF" or data[8:16] != b"WAVEfmt ":
        raise Bad(f"{path} is not a sound file")
    channels, rate = int.from_bytes(data[22:24], "little"), int.from_bytes(data[24:28], "little")
    if int.from_bytes(data[34:36], "little") != 16:
        raise Bad(f"{path} has no 16-bit samples")
    body = data[44:]
    samples = array.array("h", body[:len(body) // (2 * channels) * 2 * channels])
    if sys.byteorder == "big":
        samples.byteswap()
    return rate, samples[::channels]


def share(samples, rate, hertz):
    """How much of the samples' power is at a frequency: 0 to 1 (Goertzel)."""
    total = sum(s * s for s in samples)
    if not total:
        return 0.0
    factor = 2 * math.cos(2 * math.pi * hertz / rate)
    one = two = 0.0
    for s in samples:
        one, two = s + factor * one - two, one
    return (one * one + two * two - factor * one * two) / (total * len(samples) / 2)


def tone(path, hertz, seconds=0.25):
    """Of the best stretch of a sound file: the share of its power at a frequency, and how many stretches
    have nine tenths of theirs there.  Stretches that are silent do not count."""
    rate, samples = sound(path)
    step = int(rate * seconds)
    shares = [share(samples[at:at + step], rate, hertz) for at in range(0, len(samples) - step + 1, step)]
    return max(shares, default=0.0), sum(s > 0.9 for s in shares)


class Picture:
    """A PPM file."""

    def __init__(self, path):
        words = Path(path).read_bytes().split(maxsplit=4)[:4]
        if words[0] != b"P6" or words[3] != b"255":
            raise Bad(f"{path} is not a picture")
        self.width, self.height = int(words[1]), int(words[2])
        self.data = Path(path).read_bytes()[-3 * self.width * self.height:]

    def pixel(self, x, y):
        at = 3 * (y * self.width + x)
        return tuple(self.data[at:at + 3])

    def differs(self, colour):
        """The first pixel (x, y, is, should be) that is not colour(x, y), or None."""
        for y in range(self.height):
            for x in range(self.width):
                if self.pixel(x, y) != colour(x, y):
                    return x, y, self.pixel(x, y), colour(x, y)
        return None

    def svg(self):
        """The same as rectangles, for a document; meant for pictures that have few."""
        runs = {}
        for y in range(self.height):
            x = 0
            while x < self.width:
                start, colour = x, self.pixel(x, y)
                while x < self.width and self.pixel(x, y) == colour:
                    x += 1
                spans = runs.setdefault((start, x, colour), [])
                if spans and spans[-1][1] == y - 1:
                    spans[-1] = (spans[-1][0], y)
                else:
                    spans.append((y, y))
        rows = [f'<rect x="{x}" y="{first}" width="{end - x}" height="{last - first + 1}" '
                f'fill="#{red:02x}{green:02x}{blue:02x}"/>'
                for (x, end, (red, green, blue)), spans in runs.items() for first, last in spans]
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                'shape-rendering="crispEdges">\n' + "\n".join(rows) + "\n</svg>\n")
