# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a program, and how it ends."""
import argparse
import os
import re
import sys

from .messages import HEAD, OK, USAGE, Failure, print_json, print_line
from .signals import Interrupted

LONGEST = 1000      # characters of what a message repeats of the command line
HOST = re.compile(r"(?!-)[\w.:@%\[\]-]{1,255}", re.ASCII)      # with a user, or an address of IPv6


class Parser(argparse.ArgumentParser):
    """What the programs of all verbs take.

    A wrong command line is a failure like others.  The message has what was typed, however long that is.
    """

    def __init__(self, verb, description):
        super().__init__(prog=f"dlend {verb}", description=description)
        self.add_argument("--root", default="/", help=argparse.SUPPRESS)
        self.add_argument("--json", action="store_true", help="machine-readable output")

    def error(self, message):
        message = " ".join(message.split())
        if len(message) > LONGEST:
            message = f"{message[:LONGEST // 2]}...{message[-LONGEST // 2:]}"
        raise Failure(message, "", " ".join(self.format_usage().split()), USAGE)


def host_name(text):
    if not HOST.fullmatch(text):
        raise argparse.ArgumentTypeError("that is no name of a host")
    return text


def readable(text):
    """As a terminal can show it: what is no ASCII becomes "?", as in tools/message.c."""
    return re.sub(r"[^\n -~]", "?", text)


def print_failure(failure, as_json):
    print_line(f"dlend: {readable(failure.in_one_line())}", sys.stderr)
    if failure.todo:
        print_line(f"  {readable(failure.todo)}", sys.stderr)
    if as_json:
        error = {"code": failure.code, "what": failure.what, "why": failure.why, "todo": failure.todo}
        print_json({"error": error, **failure.details})


def run_program(verb, argv, parse_arguments, perform):
    """Do what the command line says, by perform(arguments).  Return the exit status."""
    HEAD["verb"] = verb
    try:
        args = parse_arguments(argv)
        if args.root == "/" and os.geteuid():
            raise Failure(f"{verb} needs root", "run it with sudo")
        perform(args)
    except Failure as error:
        failure = error
    except (KeyboardInterrupt, Interrupted):    # while it only looks; who changes something heeds signals by itself
        failure = Failure(f"{verb} was interrupted", "a signal came")
    else:
        return OK
    print_failure(failure, "--json" in argv)
    return failure.code
