# SPDX-License-Identifier: GPL-2.0-only
"""Reads the text format of Prometheus, version 0.0.4, and refuses what is wrong with it.

    parse('# HELP a_total help\n# TYPE a_total counter\na_total{b="c"} 1\n') == {"a_total": {(("b", "c"),): 1.0}}

Stricter than Prometheus: each family has HELP, TYPE and samples, in that order, once; only counters and gauges, told
apart by "_total"; all samples of a family have the same labels; no timestamps.
"""
import re

NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\]|\\\\|\\n)+)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge)")
SAMPLE = re.compile(rf"({NAME})(?:\{{(.+)\}})? ([+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf|NaN))")
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def label_pairs(text):
    pairs, at = [], 0
    while at < len(text):
        found = LABEL.match(text, at)
        if not found or found.group(1).startswith("__"):
            raise ValueError(f"no label: {text[at:]!r}")
        pairs.append((found.group(1), re.sub(r"\\.", lambda m: ESCAPES[m.group()], found.group(2))))
        at = found.end()
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(f"a label twice: {text!r}")
    return tuple(sorted(pairs))


def sample(line, name, counter):
    """(labels, value)"""
    found = SAMPLE.fullmatch(line)
    if not found or found.group(1) != name:
        raise ValueError(f"no sample of {name}: {line!r}")
    value = float(found.group(3))
    if counter and not value >= 0:
        raise ValueError(f"a counter: {line!r}")
    return label_pairs(found.group(2) or ""), value


def family(lines):
    """(name, {labels: value}) of the lines of one family"""
    head, kind = HELP.fullmatch(lines[0]), TYPE.fullmatch(lines[1]) if len(lines) > 2 else None
    if not head or not kind or kind.group(1) != head.group(1):
        raise ValueError(f"no family: {lines[:2]}")
    name, counter = kind.groups()[0], kind.group(2) == "counter"
    if counter != name.endswith("_total"):
        raise ValueError(f"the name of a {kind.group(2)}: {name}")
    samples = {}
    for line in lines[2:]:
        pairs, value = sample(line, name, counter)
        if pairs in samples or len({tuple(n for n, _ in p) for p in (*samples, pairs)}) > 1:
            raise ValueError(f"twice, or with other labels: {line!r}")
        samples[pairs] = value
    return name, samples


def parse(text):
    """{name: {((label, value)...): value}}"""
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    families = {}
    for part in re.split(r"^(?=# HELP )", text, flags=re.M):
        if not part:
            continue
        name, samples = family(part[:-1].split("\n"))
        if name in families:
            raise ValueError(f"a family twice: {name}")
        families[name] = samples
    return families
