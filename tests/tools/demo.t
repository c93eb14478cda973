#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The front page's picture: its commands are those that tests/demo/run runs, and it is as tests/demo/picture makes it."""
import contextlib
import importlib.machinery
import importlib.util
import io
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from unittest.mock import MagicMock

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "demo"), str(TESTS / "cluster")]
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

PICTURE = TESTS.parent / "docs/demo.svg"
LARGEST = 60 << 10
OK = "\nDEMO OK in 1 s: said by the test\n"


def program(name):
    loader = importlib.machinery.SourceFileLoader(name, str(TESTS / "demo" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def machine(name, ran):
    """A host or a guest that says nothing, and notes what it is to run."""
    fake = MagicMock()
    fake.name = name

    def run(command, **_):
        ran.append((name, command))
        return MagicMock(out="")
    fake.run = run
    return fake


def played():
    """(what the demo prints on hosts where all goes well, what they were really told to run)"""
    run, ran = program("run"), []
    a, b = machine("a", ran), machine("b", ran)
    a.guest.return_value = machine("guest", ran)
    b.bdf.return_value = "0000:01:00.0"
    fabric = MagicMock()
    fabric.address.return_value = "d0002:01:00.0"
    run.Fabric = lambda cluster: fabric
    run.must = lambda condition, text: None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        run.demo(MagicMock(host={"a": a, "b": b}.get))
    return said.getvalue() + OK, ran


def commands(steps):
    return [(step.who, step.command) for step in steps]


def fails(picture, text):
    try:
        picture.chosen(picture.recorded(text))
    except picture.NotRecorded as e:
        return str(e)
    return ""


def main():
    with Tap() as t:
        picture = program("picture")
        text = PICTURE.read_text(encoding="utf-8")
        shown = picture.shown_by(text)
        said, ran = played()
        t.equal(commands(shown), commands(picture.chosen(picture.recorded(said))),
                "the picture's commands are those of tests/demo/run (if not: make picture)")
        t.equal([command for command in commands(shown) if command not in ran], [], "and are run as they are shown")
        t.equal([step.say for step in shown], [step.say for step in picture.chosen(picture.recorded(said))],
                "it says what the demo says")
        t.equal(picture.svg(shown), text, "the picture is as tests/demo/picture makes it of what it shows")
        t.ok(all(step.output for step in shown if step.command.startswith("dlend")), "each dlend command has its output there")
        t.ok(len(text.encode()) < LARGEST, "it is small", str(len(text)))
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        t.ok(tags <= {"svg", "title", "style", "rect", "text"}, "it is text, and nothing is embedded", str(tags))
        t.equal(re.findall(r"href|url\(|@import|@font-face", text), [], "nor fetched")
        t.ok("](docs/demo.svg)" in (TESTS.parent / "README.md").read_text(encoding="utf-8").partition("\n## ")[0],
             "the front page shows it before its first heading")
        t.equal(fails(picture, said.replace(OK, "\nDEMO FAILED: x\n")), "no line says DEMO OK", "no picture is made of a demo that failed")
        t.equal(fails(picture, said.replace("a# mdevctl start", "a# true")), "no such command: a mdevctl start",
                "nor of one without a command of it")


main()
