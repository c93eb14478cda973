#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What tests/run makes of what steps print: what counts as shown, what as a hole, and what may run again."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "cluster")]
import results  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

loader = importlib.machinery.SourceFileLoader("run", str(TESTS / "run"))
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(runner)

BED = "echo '# bed fault: host a: its processor' &&"


def counted(text, status=0):
    count = runner.Count()
    for line in text.splitlines():
        count.line(line)
    return count, count.end(status, True)


def streams(t):
    count, wrong = counted("ok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no such\n1..3\n", 1)
    t.equal((count.passed, count.failed, count.skipped, wrong), (1, 1, 1, None), "passed, failed, skipped")
    t.equal(count.holes, ["c # SKIP no such"], "what is skipped is a hole")
    count, wrong = counted("1..0 # SKIP no kernel with it\n")
    t.equal((count.passed, count.failed, wrong), (0, 0, None), "a file that is skipped as a whole fails nothing")
    t.equal((count.skipped, count.holes), (1, ["all of it # SKIP no kernel with it"]), "and is a hole, with its reason")
    t.equal(counted("ok 1 - a\n1..2\n")[1], "planned 2 results, got 1", "results that are missing are a failure")
    t.equal(counted("")[1], "no test ran", "and so is a step that shows nothing")


class Runs:
    """Steps of shell text, as tests/run runs them: what it prints, and its counts."""

    def __init__(self, steps, retries=runner.RETRIES):
        left = runner.Retries(retries)
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(said):
            runner.LOGS = Path(directory)
            steps = {name: text.replace("$D", directory) for name, text in steps.items()}
            self.rows = [(name, "cluster", ["sh", "-c", text], True) for name, text in steps.items()]
            self.counts = [runner.one(row, False, left) for row in self.rows]
            self.status = runner.summary(self.rows, self.counts)
            self.logs = sorted(path.name for path in Path(directory).glob("*.log"))
        self.lines = said.getvalue().splitlines()


def reason(t):
    said = "echo 'not ok 1 - x'; echo '# got 1'; echo '# want 2'; echo 'not ok 2 - y'; echo 'ok 3 - z'; echo '# aside'; echo 1..3"
    runs = Runs({"a": said})
    t.equal(runs.lines[-3:], ["FAILED a: x (got 1)", "FAILED a: y", "1 passed, 2 failed"], "the end says why something failed")


def again(t):
    # Fails until it has run as often
    flaky = ("n=$(cat $D/{0}.n || echo 0); echo $((n + 1)) >$D/{0}.n; "
             "[ $n -lt {1} ] && {2} echo 'not ok 1 - x' || echo 'ok 1 - x'; echo 1..1")
    runs = Runs({"a": flaky.format("a", 1, BED), "b": "echo 'ok 1 - y'; echo 1..1"})
    t.equal((runs.status, runs.lines[-2:]), (0, ["1 retried", "2 passed, 0 failed"]),
            "a step that the bed failed runs again, which is counted")
    t.ok("retried: a: host a: its processor; failed then: a: x" in runs.lines, "named, with what failed", "\n".join(runs.lines))
    t.equal(runs.logs, ["a.1.log", "a.log", "b.log"], "and the first log stays")
    runs = Runs({"a": flaky.format("a", 9, BED)})
    t.equal((runs.status, runs.lines[-3:]), (1, ["FAILED a: x", "2 retried", "0 passed, 1 failed"]),
            "twice, and no more")
    runs = Runs({"a": flaky.format("a", 1, "")})
    t.equal((runs.status, len(runs.counts[0].retried)), (1, 0), "one that failed by itself does not")
    runs = Runs({name: flaky.format(name, 1, BED) for name in "abc"}, retries=2)
    t.equal((runs.status, runs.lines[-3:]), (1, ["FAILED c: x", "2 retried", "2 passed, 1 failed"]),
            "all steps together have only so many")


SEVERAL = r"""#!/bin/sh
while read -r path; do
        case $path in
        *dies*) echo "ok 1 - before"; exit 3 ;;
        *bad*) echo "not ok 1 - x"; status=1 ;;
        *) echo "ok 1 - of process $$"; status=0 ;;
        esac
        echo 1..1
        echo "# several: $path: $status"
done
"""


def together(t):
    """Scenarios have one process, for their beds."""
    top, runner.TOP = runner.TOP, Path(tempfile.mkdtemp())
    several = runner.TOP / "tests/cluster/several"
    several.parent.mkdir(parents=True)
    several.write_text(SEVERAL)
    several.chmod(0o755)
    runner.LOGS = runner.TOP
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            counts = {name: runner.run(name, [f"tests/cluster/t/{name}.t"], True) for name in ("a", "bad", "b", "dies", "c")}
        said = {name: (runner.TOP / f"{name}.log").read_text() for name in counts}
        t.equal([(c.passed, c.failed) for c in counts.values()], [(1, 0), (0, 1), (1, 0), (1, 1), (1, 0)],
                "each has its own count, and one that ends them all fails alone")
        t.ok(said["a"] == said["b"] != said["c"], "one process had them, until it died", str(said))
        t.ok("several:" not in "".join(said.values()), "of which nothing is in their logs")
    finally:
        runner.Scenario.over()
        shutil.rmtree(runner.TOP)
        runner.TOP = top


def stopped(t):
    """A step that has begun others, which do not hear of it by themselves."""
    output = runner.Command(["sh", "-c", "sh -c 'echo $$; exec tail -f /dev/null' & wait; wait"])
    pid = int(next(iter(output.process.stdout)))
    t.equal(runner.descendants(output.process.pid), [pid], "what a step has begun is known")
    output.terminate()
    ended, _, _ = select.select([output.process.stdout], [], [], 10)
    t.ok(ended and output.process.stdout.read() == "", "  and ends with it: nobody has its output any more")


ENDED = """\
import os, signal
from cluster import Cluster
from tap import Tap
with Tap() as t:
    c = Cluster.__new__(Cluster)
    c.old_handlers = {}
    c._handle_signals()
    os.kill(os.getpid(), signal.SIGTERM)
"""


def several(t):
    """The process that has them, with scenarios that boot nothing."""
    with tempfile.TemporaryDirectory() as directory:
        texts = {"good": "print('ok 1')", "bad": "import sys\nsys.exit(1)", "ended": ENDED, "last": "print('ok 1')"}
        for name, text in texts.items():
            Path(directory, name).write_text(text)
        command = [TESTS / "cluster/several", *(Path(directory, name) for name in texts)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        ends = [line.rpartition("/")[2] for line in done.stdout.splitlines() if line.startswith("# several")]
        t.equal((done.returncode, ends), (143, ["good: 0", "bad: 1", "ended: 1"]),
                "one that fails ends nothing but itself; a signal ends them all", done.stdout)


def late(t):
    """The second kernel is built beside the hosts, and its hosts wait for that."""
    with tempfile.TemporaryDirectory() as directory:
        ran = Path(directory, "ran")

        def order(build):
            ran.write_text("")
            rows = [(runner.LATE, "build", build, False), ("build-7.2", "build", "", False), ("kunit", "kunit", "", False),
                    ("cluster/a", "cluster", "", False), (f"{runner.OF_LATE}b", "more", "", False)]
            # As long as it is built there is a host of the first kernel
            more = {runner.LATE: f"for n in $(seq 300); do grep -q cluster/a {ran} && break; sleep 0.1; done; "}
            rows = [(name, group, ["sh", "-c", f"{more.get(name, '')}echo {name} >>{ran}; {text or ':'}"], tap)
                    for name, group, text, tap in rows]
            runner.LOGS = Path(directory)
            top, runner.topology_of = runner.topology_of, lambda row: row[0] == f"{runner.OF_LATE}b"
            with contextlib.redirect_stdout(io.StringIO()):
                counts = runner.together(rows, False)
            runner.topology_of = top
            return ran.read_text().split(), [(count.passed, count.failed) for count in counts]

        lines, counts = order("")
        t.equal(counts, [(1, 0)] * 5, "everything passes")
        t.ok(lines[0] == "build-7.2" and lines.index("cluster/a") < lines.index(runner.LATE) < lines.index(f"{runner.OF_LATE}b"),
             "the first kernel's hosts do not wait for the second one, whose hosts do", str(lines))
        lines, counts = order("exit 1")
        t.equal((counts, f"{runner.OF_LATE}b" in lines), ([(0, 1), (1, 0), (1, 0), (1, 0), (0, 1)], False),
                "it cannot be built: its hosts are not started, which is a failure, and all else runs")


NATIVE = "\nobj-m += dlend_native.o\ndlend_native-y := native/n.o\n"
TREE = {"Kbuild": "obj-m += x.o\n" + NATIVE, "native/n.c": "int n = 1;\n", "mdev/x.c": "/* says */\nint x = 1;\n", "tests/cluster/bed.py": "x = 1\n",
        "tests/cluster/t/a.t": "one\n", "tests/cluster/t/b.t": "two, with dlend_native\n"}


def resume(t):
    """What has passed on the same code is left out; what is the same code?"""
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)

        def key(scenario="a", **other):
            for name, text in {**TREE, **other}.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text)
            results.common.cache_clear()
            return results.key(f"tests/cluster/t/{scenario}.t", top)

        was = key()
        alone = key("b")
        same = {"another module": {"native/n.c": "int n = 2;\n"}, "what is built of that": {"Kbuild": "obj-m += x.o\n"}, "a comment": {"mdev/x.c": "// said\nint x =\n1; /* so */\n"}, "another scenario": {"tests/cluster/t/b.t": "new\n"}}
        other = {"a token": {"mdev/x.c": "/* says */\nint x = 2;\n"}, "a string": {"mdev/x.c": 'char *x = "/* says */";\n'},
                 "a file more": {"mdev/y.c": "\n"}, "the bed": {"tests/cluster/bed.py": "x =  1\n"},
                 "what is built": {"Kbuild": "obj-m += y.o\n"}, "the scenario": {"tests/cluster/t/a.t": "One\n"}}
        for what, change in same.items():
            t.equal(key(**change), was, f"{what} is changed: the same code")
        for what, change in other.items():
            t.ok(key(**change) != was, f"{what}: other code")
            (top / "mdev/y.c").unlink(missing_ok=True)
        t.ok(key("b", **{"native/n.c": "int n = 2;\n"}) != alone, "a module that the scenario names: other code")
        copy = top / "build/obj-7.2"
        shutil.copytree(top, copy)
        t.equal(key(**{"mdev/x.c": "int x = 2;\n"}), was, "a token that was not built since: the same code")
        (copy / "mdev/x.c").write_text("int x = 2;\n")
        t.ok(key() != was, "and then built: other code")
        shutil.rmtree(copy)
        os.environ["DLEND_KERNEL"] = "/anywhere/debug-1"
        t.ok(key() != was, "the kernel: other code")
        del os.environ["DLEND_KERNEL"]
        for name in ("DLEND_NTB", "DLEND_LENDER_IOMMU", "DLEND_DIRECT"):
            os.environ[name] = "x"
            t.ok(key() != was, f"the hosts, by {name}: not what was shown")
            del os.environ[name]
        os.environ["DLEND_CACHE"] = directory
        runner_top, results.TOP = results.TOP, top
        results.note(key(), 7, 1)
        rows = [(f"cluster/{name}", "cluster", [f"tests/cluster/t/{name}.t"], True) for name in "ab"] + [("lint", "lint", ["x"], True)]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            left, gone = runner.resumed(rows)
        results.TOP = runner_top
        t.equal(([row[0] for row in left], gone), (["cluster/b", "lint"], 1), "--resume leaves out what has passed, and nothing else")
        t.ok("not run again" in said.getvalue() and "cluster/a: 7 passed, 1 skipped" in said.getvalue(), "which is said", said.getvalue())
        results.common.cache_clear()


def within(t):
    """What may be left out comes last, in the order of its list, and is, when the time is over."""
    names = [runner.FIRST[-1], *runner.OPTIONAL["more"][len(runner.FIRST):][:2], "95-cycles"]
    rows = [(f"cluster/{name}", "more", ["sh", "-c", "echo ok 1; echo 1..1"], True) for name in reversed(names)]
    rows += [(f"{runner.OF_LATE}b", "more", ["on", "sh"], True), ("cluster/a", "cluster", ["sh", "-c", "echo ok 1; echo 1..1"], True)]
    top, runner.topology_of = runner.topology_of, lambda row: "" if row[0].endswith("/a") else row[0]
    ordered = [row[0] for row in runner.in_order(rows)]
    t.equal(ordered, ["cluster/a", f"cluster/{names[0]}", f"{runner.OF_LATE}b", *(f"cluster/{name}" for name in names[1:])],
            "what may be left out comes last")
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(said):
        runner.LOGS = Path(directory)
        counts = runner.together(rows, False, 0)
        status = runner.summary(rows, counts)
    runner.topology_of = top
    t.equal((status, [count.passed for count in counts]), (0, [0, 0, 0, 1, 0, 1]), "the time is over: it is left out, and nothing else")
    lines = said.getvalue().splitlines()
    t.equal([line for line in lines if line.startswith("not shown: ")],
            [f"not shown: {row[0]}: not run, as 0 minutes were over; make check ALSO=more runs it" for row in rows if row[0] not in ordered[:2]],
            "which is said, of each", said.getvalue())


def turns(t):
    """CI has the time for one of the scenarios that take long: another one for each commit."""
    commits, seen = runner.commits, []
    for number in range(len(runner.TURNS)):
        runner.commits = lambda number=number: number
        groups = {row[0].removeprefix("cluster/"): row[1] for row in runner.steps()}
        now = [name for name in runner.TURNS if groups[name] == "more"]
        seen += now
        rest = {groups[name] for name in runner.TURNS if name not in now}
        order = [row[0] for row in runner.in_order([row for row in runner.steps() if row[1] == "more"])
                 if runner.part(row) == runner.IN_TIME and len(row[2]) == 1]
        t.equal((len(now), rest == {"rest"}, order[0]), (1, True, f"cluster/{now[0]}"),
                f"{now[0]}: CI runs it before what may be left out, and make check-long the others")
    runner.commits = commits
    t.equal(seen, list(runner.TURNS), "each has its turn")


def families(t):
    """What make check-long runs on each kind of NTB, whichever has its turn in CI."""
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8")
    words = re.search(r"^check-long:.*\n.* tests/run (.*)$", makefile, re.M).group(1).split()
    commits = runner.commits
    for turn, family in enumerate(runner.FAMILIES):
        runner.commits = lambda turn=turn: turn
        ran = {row[0] for row in runner.chosen(words, [])}
        missing = [f"{each}/{name}" for each in runner.FAMILIES for name in ("02-ntb", *runner.ON_EACH) if f"{each}/{name}" not in ran]
        t.equal(missing, [], f"{family} has its turn in CI: make check-long runs everything on all of them")
    runner.commits = commits


def slowest(t):
    rows = [(f"cluster/{n}", "cluster", [], True) for n in range(7)] + [("lint", "lint", [], True)]
    counts = [runner.Count() for _ in rows]
    for n, count in enumerate(counts):
        count.seconds = 10 * n
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        runner.summary(rows, counts)
    t.ok("slowest: cluster/6 60 s, cluster/5 50 s, cluster/4 40 s, cluster/3 30 s, cluster/2 20 s\n" in said.getvalue(),
         "the slowest scenarios are named", said.getvalue())


with Tap() as test:
    for part in (streams, reason, again, together, stopped, late, several, resume, within, turns, families, slowest):
        with test.case(part.__name__):
            part(test)
