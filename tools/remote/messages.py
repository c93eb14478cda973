# SPDX-License-Identifier: GPL-2.0-only
"""What the program prints, and the exceptions that carry a message for people."""
import json
import os
import sys

OK, FAILED, USAGE, NOT_FOUND, IN_USE, NOT_READY = 0, 1, 2, 3, 4, 6      # as in tools/dlend.h


class Failure(Exception):
    """Something cannot be done.

    what: what happened; why: the reason; todo: what people can do about it; code: the exit status
    """

    def __init__(self, what, why="", todo="", code=FAILED):
        super().__init__(what)
        self.what, self.why, self.todo, self.code = what, why, todo, code
        self.details = {}       # what --json tells besides

    def in_one_line(self):
        return f"{self.what}{': ' if self.why else ''}{self.why}"


def print_line(text, stream):
    """Print a line.  If nobody reads it any more, the program goes on: what it has begun must be ended or undone."""
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # The buffer still has the text.  Python would try to write it again, at the latest at exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def print_json(value):
    print_line(json.dumps(value, indent=2), sys.stdout)


def print_progress(settings, text, **measures):
    """Tell what happens now, on standard error.  measures: numbers, which programs get besides (--json)"""
    print_line(json.dumps({"progress": text.strip(), **measures}) if settings.json else f"dlend: {text}", sys.stderr)
