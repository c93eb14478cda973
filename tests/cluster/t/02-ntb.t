#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
#
#   host a ==ntb-ab== host b
#
# The emulated NTB under the kernel's own driver and clients, which nobody here wrote: if they are
# content, so may we be.  One client is bound at a time.
import os
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import BUILD, Cluster, Skip, Tap
from host import until

DEBUG = "/sys/kernel/debug"
NO_PERF = {"intel-skx": "it reads the peer's scratchpads, and gets back what it has written there itself"}

# It wants buffers aligned to the window's size, and ntb_perf's are aligned to their own
WHOLE = os.environ.get("DLEND_NTB") == "intel-icx"


def both(a, b, module, parameters=""):
    for host in (a, b):
        host.run(f"load-modules {module} {parameters}")


def unload(a, b, module):
    for host in (a, b):
        host.run(f"rmmod {module}")


def tool(t, c, a, b):
    """Scratchpads, doorbells and the link state."""
    both(a, b, "ntb_tool")
    top = f"{DEBUG}/ntb_tool/*"
    for host in (a, b):
        # AMD's secondary side has no say in this, and no need.
        host.run(f"echo Y >$(echo {top}/link)", check=False)
    for host in (a, b):
        host.wait_for(f"grep -q Y {top}/peer0/link")
    a.run(f"cd {top} && echo 0x600d >peer0/spad3 2>/dev/null || echo 0x600d >spad3")
    t.equal(int(b.run(f"cat {top}/spad3").out, 0), 0x600d, "ntb_tool: b reads the scratchpad that a wrote")
    a.run(f"cd {top} && echo 's 0x4' >peer_db")
    b.wait_for(f"[ $(($(cat {top}/db))) = 4 ]")
    t.passed("ntb_tool: a doorbell that a rings is pending at b")
    b.run(f"cd {top} && echo 'c 0x4' >db")
    t.equal(int(b.run(f"cat {top}/db").out, 0), 0, "ntb_tool: and can be cleared")
    c.link("ab").command("down")
    for host in (a, b):
        host.wait_for(f"grep -q N {top}/peer0/link")
    c.link("ab").command("up")
    for host in (a, b):
        host.wait_for(f"grep -q Y {top}/peer0/link")
    t.passed("ntb_tool: both ends see the link go down and come up")
    unload(a, b, "ntb_tool")


def pingpong(t, c, a, b):
    """Doorbells and scratchpads in turn."""
    both(a, b, "ntb_pingpong", "delay_ms=50")
    count = f"{DEBUG}/ntb_pingpong/*/count"
    for host in (a, b):
        host.wait_for(f"[ $(cat {count}) -ge 10 ]", timeout=60)
    t.passed("ntb_pingpong: ten rounds")
    unload(a, b, "ntb_pingpong")


def ntb_perf(a, b):
    """Load it until each of the two has told the other of its window.

    It says so once, when the link comes up, and drops what comes before its own host has heard of that."""
    ready = until(f"cd {DEBUG}/ntb_perf/* && grep -q 'In buffer size' info && ! grep -q 'Out buffer xlat 0x0*\\[' info", 0.1)
    for _ in range(8):
        # Both windows cut to one size, which ntb_perf wants; and it would copy a gigabyte by default.
        both(a, b, "ntb_perf", f"max_mw_size={'0x100000' if WHOLE else '0x10000'} chunk_order=12 total_order=16")
        told = [host.run(f"timeout 10 sh -c {shlex.quote(ready)}", check=False).status == 0 for host in (a, b)]
        if all(told):
            return
        unload(a, b, "ntb_perf")
    raise RuntimeError(f"ntb_perf: in eight starts the hosts did not hear of each other's windows: {told}")


def perf(t, c, a, b):
    """Data through a window, in one direction and then the other."""
    if c.link("ab").family in NO_PERF:
        t.skip(NO_PERF[c.link("ab").family])
    ntb_perf(a, b)
    for host in (a, b):
        top = f"{DEBUG}/ntb_perf/*"
        host.run(f"cd {top} && echo 0 >run")
        text = host.run(f"cat {top}/run").out
        t.ok("copied 65536 bytes" in text, f"ntb_perf: {host.name} writes 64 KiB to the other", text)
    unload(a, b, "ntb_perf")


with Tap() as t:
    if not (BUILD / "ntbsim" / "ntbsim").exists():
        raise Skip("no build/ntbsim/ntbsim: tests/cluster/root/inbuild make -C tests/ntbsim")
    with Cluster("ntb-hosts.toml" if WHOLE else "two-hosts.toml", tap=t) as c:
        a, b = c.host("a"), c.host("b")
        for host in (a, b):
            host.load_modules(*host.ntb_modules)
            t.equal(host.run("ls /sys/bus/ntb/devices").out.strip(), host.bdf("ntb-ab"),
                    f"host {host.name}: {host.ntb_modules[0]} drives the NTB")
        for part in (tool, pingpong, perf):
            with t.case(f"{part.__name__}: to the end"):
                part(t, c, a, b)
        t.equal(c.complaints(), [], "no kernel complains")
