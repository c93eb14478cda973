# SPDX-License-Identifier: GPL-2.0-only
"""VMs that move from host to host, with a lent disk that stays where it is (tests/cluster/guest/move.c).

The VMM is a program that drives the disk by itself, four commands at a time, and knows VFIO's migration: no guest's
kernel is needed. Its commands are under way when it stops.
"""
import contextlib
import re
import shutil

from cluster import BUILD
from fabric import Fabric

MORE = 20       # blocks that the VM writes when it goes on
LOG = "/run/move.log"


class Moves:
    """The cluster, the disk, and a mediated device of it on each host that has one."""

    def __init__(self, t, c):
        self.t, self.c, self.f = t, c, Fabric(c)
        self.disk, self.uuid, self.file, self.jobs = "", {}, 0, []
        shutil.copy(BUILD / "guest/move", c.run_dir / "share/move")

    def host(self, name):
        return self.c.host(name)

    def vdev(self, name):
        return f"/sys/bus/mdev/devices/{self.uuid[name]}"

    def begin(self, **core):
        self.f.up(timeout=150, **core)
        self.disk = self.f.lend("b", "nvme0")
        self.prepare("a")

    def prepare(self, name):
        if name not in self.uuid:
            self.uuid[name] = self.f.mdev(name, self.disk, "dlend-nvme")

    def unprepare(self, name):
        if name in self.uuid:
            self.f.mdev_stop(name, self.uuid.pop(name))

    def spawn(self, name, words):
        self.host(name).run(f"rm -f {LOG} /tmp/go /tmp/end /tmp/back")
        self.jobs.append(self.host(name).spawn(f"exec /share/move {self.uuid[name]} /share/vm{self.file} {words} >{LOG} 2>&1"))
        return self.jobs[-1]

    @staticmethod
    def kill(job):
        if not job.over:
            job.kill(9)
            job.wait(check=False)

    def kill_all(self):
        while self.jobs:
            self.kill(self.jobs.pop())

    def said(self, name):
        return self.host(name).run(f"cat {LOG}").out

    def wait_said(self, name, what, timeout=60):
        self.host(name).wait_for(f"grep -qs '^{what}' {LOG}", timeout)

    def runs(self, name):
        """A VM on that host, which writes."""
        self.file += 1
        # Another scenario on the same hosts may have left some
        self.host(name).run(f"rm -f /share/vm{self.file}.*")
        job = self.spawn(name, f"go {MORE}")
        self.wait_said(name, "runs")
        return job

    def names(self, name, node):
        """It may move to that node. The VMM copies all memory when the VM has stopped."""
        self.host(name).run(f"echo {node} all >{self.vdev(name)}/dlend/move_to")

    def expected(self, source, to, late=False):
        """The VM on `source` may move to `to`, where a VMM waits for it. late: and for begins() as well."""
        self.names(source, self.f.node[to])
        if to not in self.uuid:
            self.f.wait_available(to, self.disk)
        self.prepare(to)
        self.host(to).run("touch /tmp/late" if late else "rm -f /tmp/late")
        job = self.spawn(to, "come")
        self.wait_said(to, "waits")
        return job

    def begins(self, name):
        """The VM that has come goes on."""
        self.host(name).run("rm -f /tmp/late")

    def leaves(self, name):
        self.host(name).run("touch /tmp/go")
        self.wait_said(name, "left")

    def comes(self, source, to):
        """The VM has left, and a VMM on the other host has all of it, and waits for begins(): its job."""
        job = self.expected(source, to, late=True)
        self.leaves(source)
        self.wait_said(to, "came")
        return job

    def goes(self, source, to):
        """The VM has left, and runs on the other host: the job there."""
        job = self.expected(source, to)
        self.leaves(source)
        self.wait_said(to, "goes on")
        return job

    @contextlib.contextmanager
    def cut(self, link):
        """A link of host b's is down, and up again after the block."""
        other = link.replace("b", "")
        self.c.link(link).command("down")
        self.host(other).wait_for(f"grep -qx down /sys/bus/dlend/devices/{self.disk}/link", 60)
        try:
            yield
        finally:
            self.c.link(link).command("up")
        self.f.wait_links(other)

    def ends(self, job, name, what):
        """The program is through, and all blocks are right."""
        job.wait(120, check=False)
        self.t.ok("\nok " in self.said(name), what, self.said(name))

    def logged(self, name, words, what):
        log = self.host(name).run("dmesg | tail -n 20").out
        self.t.ok(words in log, what, log)

    def lender(self):
        return self.f.lender_state(self.disk)

    def resets(self):
        return self.f.resets(self.disk)

    def free(self, what):
        self.f.wait_state("a", self.disk, "free", 60)
        self.t.passed(f"{what}: the disk is free again")


@contextlib.contextmanager
def vm(m, name):
    """A VM; it, and who waits for it, are gone at the end, whatever became of them."""
    job = m.runs(name)
    try:
        yield job
    finally:
        m.kill_all()


def moves(m, source, to):
    """Under load, and the old VMM ends first."""
    t = m.t
    with vm(m, source) as old:
        epoch, resets = m.lender()[2], m.resets()
        here = m.comes(source, to)
        t.equal(m.lender()[:2], ("held", str(m.f.node[source])), f"{source} to {to}: until the VM runs there, it is {source}'s")
        m.host(source).run("touch /tmp/end")
        old.wait(60)
        m.begins(to)
        m.ends(here, to, f"{source} to {to}: the VM goes on, and finds every block as it was written, on whatever host")
        everywhere, there = (int(n) for n in re.search(r"^ok (\d+) here (\d+)", m.said(to), re.M).groups())
        t.ok(everywhere > there >= MORE, "some of them were written there", f"{there} of {everywhere}")
        t.ok(int(m.lender()[2]) > int(epoch), "it was another lease there")
    m.free(f"{source} to {to}")
    t.equal(m.resets(), resets + 1, "it was reset once: when its VM had gone in the end")
    m.unprepare(source)
