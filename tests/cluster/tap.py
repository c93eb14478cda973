# SPDX-License-Identifier: GPL-2.0-only
"""Test results as TAP, for prove.

    with Tap() as t:
        t.ok(2 > 1, "numbers")
        with t.case("a scenario"):        # an exception is "not ok", and the next case runs
            ...
        with t.case("another"):
            t.skip("no such device")      # says why

The plan comes last.  An exception outside a case is a bail-out.  Exit status 1 if anything failed.
Knows nothing of clusters, except that logs named with keep() are worth a line on failure.
"""
import contextlib
import signal
import sys
import traceback


def heed_ctrl_c():
    """Who is started in the background of a shell ignores Ctrl-C, and so would the programs that a test starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Skip(Exception):
    """Raised by skip()."""


def brief(error):
    """Its kind, and the first line of what it says."""
    said = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {said}"


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0
        self.in_case = False
        self.logs = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind and issubclass(kind, Skip):
            if not self.count:
                self._print(f"1..0 # SKIP {error}")
                sys.exit(0)
            raise RuntimeError("skip() outside a case, after results")
        if kind:
            if issubclass(kind, Exception):
                self.diag("".join(traceback.format_exception(kind, error, trace)))
            self._where()
            self._print(f"Bail out!  {brief(error)}")
            sys.exit(130 if issubclass(kind, KeyboardInterrupt) else 1)
        self._print(f"1..{self.count}")
        if self.failed:
            self._where()
        sys.exit(1 if self.failed else 0)

    def keep(self, path):
        """Name a place to look at if something fails."""
        self.logs.append(path)

    def ok(self, condition, name, why=""):
        """One result; why is shown when it fails.  Returns the condition."""
        self.count += 1
        if not condition:
            self.failed += 1
        self._print(f"{'ok' if condition else 'not ok'} {self.count} - {name}")
        if not condition and why:
            self.diag(why)
        return bool(condition)

    def passed(self, name):
        """What was waited for came: had it not, wait() would have raised."""
        self.ok(True, name)

    def todo(self, condition, name, why):
        """A result that is known to fail sometimes, and why; shown and counted apart, never a failure."""
        self.count += 1
        self._print(f"{'ok' if condition else 'not ok'} {self.count} - {name} # TODO {why}")

    def equal(self, got, want, name, why=""):
        return self.ok(got == want, name, f"got  {got!r}\nwant {want!r}\n{why}")

    @contextlib.contextmanager
    def case(self, name):
        """A result for what happens inside."""
        try:
            yield
        except Skip as e:
            self.count += 1
            self._print(f"ok {self.count} - {name} # SKIP {e}")
        except Exception as e:  # pylint: disable=broad-except
            self.ok(False, name, f"{brief(e)}\n{traceback.format_exc()}")
        else:
            self.ok(True, name)

    @staticmethod
    def skip(reason):
        """Inside a case: skip the rest of it.  Before any result: skip the whole file."""
        raise Skip(reason)

    def diag(self, text):
        for line in str(text).rstrip().splitlines():
            self._print(f"# {line}")

    def _where(self):
        for path in self.logs:
            self.diag(f"logs: {path}")

    @staticmethod
    def _print(line):
        print(line, flush=True)
