# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel says against itself, and the account of it that a cluster keeps of each host.

complaints()   the lines of a kernel log in which something is wrong
leaks()        what kmemleak has to say of our modules
Account        of one host, from its first boot to the end, with what a scenario expects to see there

Knows nothing of how a log comes here.
"""
import re

# A scenario that provokes one says which, and why: Host.expect().
COMPLAINTS = re.compile(
    r"BUG:|WARNING:|Oops|Kernel panic|general protection fault|segfault at|possible recursive locking|"
    r"possible circular locking|inconsistent lock state|INFO: task .* blocked|"
    r"rcu.*(self-)?detected (expedited )?stall|KASAN|UBSAN|ODEBUG|kmemleak: \d|refcount_t|"
    r"list_(add|del) corruption|page allocation failure|"
    r"turning off the locking correctness validator|INFO: trying to register non-static key|"
    # Intel's IOMMU, AMD's (IO_PAGE_FAULT and all other events), and what the core finds in mappings
    r"DMAR: .*([Ff]ault|ERROR|VT-d detected)|Event logged \[|iommu: Detected page leak|"
    # Interrupts that nobody takes
    r"irq \d+: nobody cared|Disabling IRQ #|"
    # AER: each error, whoever recovers from it
    r"AER: (?!enabled with IRQ)|PCIe Bus Error")

# What an IOMMU blocks, Intel's or AMD's
IOMMU_FAULT = r"DMAR: .*[Ff]ault|Event logged \["


def iommu_fault_at(address):
    """A regular expression, also for grep -E: the line about an access there.

    QEMU's amd-iommu puts the address into the wrong bits of its event, so the kernel reads 0.
    """
    return f"DMAR: .*fault addr 0x{address:x} |Event logged .IO_PAGE_FAULT .*address=0x(0|{address:x}) "


# The scheduler's own, of a host whose processor stood still: README.md.  Group 1 is the line to leave out.
STOOD_STILL = re.compile(r"^(.*WARNING: .*hrtimer_forward\+.*\n)"
                         r"((?:(?!.*(?:cut here|end trace)).*\n)*?.*\]  <IRQ>\n"
                         r"(?:.*\]  \? .*\n)*.*\]  dl_(?:task|server)_timer\+)", re.M)


def complaints(log):
    """The lines of a kernel log that match COMPLAINTS."""
    return [line for line in STOOD_STILL.sub(r"\2", log).splitlines() if COMPLAINTS.search(line)]


def only_on_console(console, log):
    """A kernel that is dying says on its console what nobody in it can write down any more."""
    said = {re.sub(r"^\[ *[\d.]+\] ", "", line) for line in log.splitlines()}
    lines = (line.strip() for line in console.splitlines())
    return [line for line in lines if re.sub(r"^\[ *[\d.]+\] ", "", line) not in said]


# What kmemleak reports has been unreferenced for 5 s at least; the second scan rules out what the
# first one met while it changed hands.  "clear": each leak is told once.
SCAN = """cd /sys/kernel/debug
[ -e kmemleak ] || exit 0
for n in 1 2; do
        sleep 6
        echo scan >kmemleak || { echo "unreferenced object: kmemleak does not scan [dlend_test]"; exit 0; }
done
cat kmemleak
echo clear >kmemleak"""
OURS = re.compile(r"\[dlend_\w+\]")


def leaks(report):
    """Of what kmemleak lists: a line for every object that a module of ours is to blame for."""
    found = []
    for entry in re.split(r"^(?=unreferenced object)", report, flags=re.M):
        frames = [line.strip() for line in entry.splitlines() if OURS.search(line)]
        if frames:
            found.append(f"{entry.splitlines()[0]} {' < '.join(frames)}")
    return found


class Expected:
    """A complaint that a scenario provokes, on purpose."""

    def __init__(self, pattern, why, start, must):
        self.pattern = re.compile(pattern)
        self.why = why
        self.start = start
        self.end = None         # of the log, where it ceased
        self.must = must

    def seen(self, lines):
        return any(self.pattern.search(line) for line in lines)


class Account:
    """The complaints of one host, and what was expected of them; it forgets nothing."""

    def __init__(self, start=0, console=0):
        """It begins at this character of the log, and of the console."""
        self.start = start
        self.console = console
        self.expected = []
        self.leaked = []

    def expect(self, pattern, why, start=0, must=True):
        """From character `start` of the log on, lines that match are no complaint, for the reason given.

        must    and there is to be one: if none comes until the end, that is a complaint
        """
        if not why:
            raise ValueError("a complaint is expected for a reason")
        self.expected.append(Expected(pattern, why, start, must))
        return self.expected[-1]

    def open(self, log, console=""):
        """What nobody expected, in a log that begins with the first boot, and beside it on the console."""
        found = []
        for start, end in self._spans(log):
            known = [e.pattern for e in self.expected if e.start <= start and (e.end is None or end <= e.end)]
            found += [line for line in complaints(log[start:end]) if not any(p.search(line) for p in known)]
        dying = complaints("\n".join(only_on_console(console[self.console:], log)))
        found += [line for line in dying if not any(e.pattern.search(line) for e in self.expected)]
        return found + self.leaked

    def missed(self, log):
        """What was to come and has not."""
        return [f"expected, and not said: {e.pattern.pattern} ({e.why})" for e in self.expected
                if e.must and not e.seen(log[e.start:e.end].splitlines())]

    def _spans(self, log):
        """The log, cut where expectations begin and end."""
        marks = [mark for e in self.expected for mark in (e.start, e.end) if mark is not None]
        cuts = sorted({self.start, len(log), *(min(mark, len(log)) for mark in marks)})
        return list(zip(cuts, cuts[1:]))
