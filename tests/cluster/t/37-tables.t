#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A borrower's memory is read for its direct interrupts, and nobody but that borrower waits for the reads.

    host a (node 1): a VM that holds "most" ------ ab ------ host b (node 2): most (2048 interrupts), nvme1

Host a asks for direct interrupts again and again, each time for as many as there can be: the lender reads 4096 words through
the window.  And it asks for all offers.  Meanwhile host b's administrator takes another device back.
"""
import re
import struct
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from forge import CREDIT, SLOTS, Forge  # noqa: E402  pylint: disable=wrong-import-position

SUBSCRIBE, IRQ_DIRECT = 17, 35      # enum dlend_msg_type
MSIX = 3                            # enum dlend_irq_mode
VECTORS = 2048
ZEROES = 32 << 20                    # a place in the VM's memory where nothing is
AT_ONCE = 6                         # requests about the device that wait
TRIES = 5


def table(f, address):
    """Where that memory is in the borrower's aperture."""
    for _, fields, line in f.trace("b", f"dlend_lend_window: {address} dma map"):
        at, offset, size = (int(fields[key], 16) for key in ("at", "offset", "size"))
        if fields["status"] == "0" and at <= ZEROES and at + size >= ZEROES + (64 << 10):
            return offset + ZEROES - at
    raise RuntimeError("the VM's memory is mapped in other pieces")


def stamps(f, event, words):
    return [float(re.search(r" (\d+\.\d+): ", line).group(1)) for name, _, line in f.trace("b", words) if name == event]


def takes(f, bdf):
    """Seconds until the driver has let the device go."""
    return float(f.host("b").run(f"a=$(cut -d' ' -f1 /proc/uptime); echo {bdf} >/sys/bus/pci/drivers/dlend-lender/unbind; "
                                 "b=$(cut -d' ' -f1 /proc/uptime); awk \"BEGIN { print $b - $a }\"", timeout=300).out)


class Asks(threading.Thread):
    """As host a would: it wants its interrupts, again and again, and all offers once more."""

    def __init__(self, host_a, address, epoch, payload):
        super().__init__(daemon=True)
        self.host_a, self.about, self.payload = host_a, (address, epoch), payload
        self.over = threading.Event()
        self.sent = 0

    def run(self):
        first = self.host_a.word(CREDIT)
        while not self.over.is_set():
            produced = self.host_a.word(0)
            for _ in range(AT_ONCE):
                self.host_a.send(IRQ_DIRECT, *self.about, self.payload)
                self.host_a.send(SUBSCRIBE, call=0)
            self.sent += AT_ONCE
            if produced - first > 40 * SLOTS:
                return
            self.over.wait(0.5)


def main():
    with Tap() as t, Cluster("direct-hosts.toml", tap=t) as c:
        f = Fabric(c)
        b = c.host("b")
        f.up(direct_interrupts=1)
        most, spare = f.lend("b", "most"), f.lend("b", "nvme1")
        bdf = f"0000{spare[5:]}"
        uuid = f.mdev("a", most, "dlend-nvme")
        quiet = []
        for _ in range(TRIES):
            quiet.append(takes(f, bdf))
            f.dlend("b", f"lend {bdf}", timeout=60)
            f.wait_state("a", spare, "free", 60)
        f.trace_clear("b")
        with f.guest("a", "hold", wait=False, kernel=False, memory="64M", devices=[f.device(uuid)]) as g:
            f.wait_mdev("a", uuid, "running", 120)
            g.qmp("stop")
            f.wait_mdev("a", uuid, "running", 60)
            epoch = f.lender_state(most)[2]
            payload = struct.pack("<IIQQ", MSIX, VECTORS, table(f, most), 0)
            f.trace_clear("b")
            with Forge(c, "ab", "b") as host_a:
                host_a.send(IRQ_DIRECT, most, epoch, payload)
                b.wait_for(f"grep -q 'dlend_irq_setup: {most} ' /sys/kernel/tracing/trace", 60)
                one = stamps(f, "dlend_irq_setup", f"dlend_irq_setup: {most} ")[0] - stamps(f, "dlend_msg_receive", f"dlend_msg_receive: .*type={IRQ_DIRECT} ")[0]
                t.diag(f"one request: {one:.2f} s for {2 * VECTORS} words; unbind of another device, quiet: {quiet}")
                attack = Asks(host_a, most, epoch, payload)
                attack.start()
                beside = []
                for _ in range(TRIES):
                    b.wait_for(f"[ $(grep -c 'dlend_msg_receive: .*type={IRQ_DIRECT} ' /sys/kernel/tracing/trace) -gt {len(beside) + 1} ]", 60)
                    beside.append(takes(f, bdf))
                    f.dlend("b", f"lend {bdf}", timeout=120)
                attack.over.set()
                attack.join()
            t.diag(f"beside {attack.sent} such requests: {beside}")
            t.ok(max(beside) < max(quiet) + one / 2, "nobody who unbinds another device waits for a borrower's memory",
                 f"quiet {max(quiet):.2f} s, beside {max(beside):.2f} s, one request {one:.2f} s")
        f.wait_links("a", 120)
        f.wait_state("a", most, "free", 120)


main()
