# SPDX-License-Identifier: GPL-2.0-only
"""Network cards at work in a machine, a host or a guest, which talks to another host over a cable.

DLEND_LONG=1: each transfer takes 60 s, not 5.
"""
import os
import re

SECONDS = 60 if os.environ.get("DLEND_LONG") else 5
# rx_errors would also count frames that QEMU's cards take, but call too short: the lender's own function that is
# not lent has them as well.
LOST = "rx_missed_errors rx_crc_errors rx_frame_errors rx_fifo_errors tx_errors tx_dropped"


def interface(machine, mac):
    """Name of the card with an address, as soon as it is there."""
    find = f"grep -l {mac} /sys/class/net/*/address"
    return machine.wait_for(find, 60).out.split("/")[4]


def up(machine, mac, address):
    """Give a card an IP address, and wait for its carrier; its name."""
    name = interface(machine, mac)
    machine.run(f"ip link set {name} up; ip addr add {address}/24 dev {name} 2>/dev/null || :")
    machine.wait_for(f"[ \"$(cat /sys/class/net/{name}/carrier)\" = 1 ]", 120)
    return name


def virtual_functions(host, port, macs):
    """One for each address, of a card that igb drives and goes on driving; ([their bus addresses], the card's own name)."""
    device = f"/sys/bus/pci/devices/{host.bdf(port)}"
    name = host.wait_for(f"ls {device}/net", 60).out.strip()
    host.run(f"echo {len(macs)} >{device}/sriov_numvfs", timeout=60)
    for number, mac in enumerate(macs):
        host.run(f"ip link set {name} vf {number} mac {mac}")
    return [host.run(f"basename $(readlink {device}/virtfn{number})").out.strip() for number in range(len(macs))], name


def ping(machine, address, count=20):
    """What is lost of so many, as ping says it; the first one, which waits for ARP, does not count."""
    machine.run(f"busybox ping -c 1 -W 10 {address} >/dev/null", check=False, timeout=60)
    out = machine.run(f"busybox ping -i 0.2 -W 30 -c {count} {address}", check=False, timeout=120).out
    found = re.search(r"(\d+)% packet loss", out)
    return found.group(0) if found else out


def lost(machine, name):
    """Counters of a card that mean a frame less: {name: count}, those that are not 0."""
    out = machine.run(f"cd /sys/class/net/{name}/statistics && grep . {LOST}").out
    counts = dict(line.split(":") for line in out.splitlines())
    return {key: value for key, value in counts.items() if value != "0"}


# The same bytes again and again until the time is over, and what all of them add up to.
SOURCE = ("[ -e /tmp/part ] || dd if=/dev/urandom of=/tmp/part bs=64k count=4 2>/dev/null; rm -f /tmp/copy; "
          "mkfifo /tmp/copy; sha256sum </tmp/copy >/tmp/sum & "
          f"end=$(($(date +%s) + {SECONDS})); "
          "{ while [ $(date +%s) -lt $end ]; do cat /tmp/part; done; } | tee /tmp/copy | ")


def send(g, c, server):
    """Guest to host; (sum sent, sum received)."""
    job = c.spawn("socat -u TCP4-LISTEN:5001,reuseaddr - | sha256sum")
    c.wait_for("grep -q ':1389 .* 0A ' /proc/net/tcp", 20)
    g.run(f"{SOURCE} busybox nc {server} 5001; wait", timeout=SECONDS + 240)
    return g.run("cat /tmp/sum").out.split()[0], job.wait(120, check=True).out.split()[0]


def receive(g, c, server):
    """Host to guest; (sum sent, sum received)."""
    job = c.spawn(f"{SOURCE} socat -u - TCP4-LISTEN:5002,reuseaddr; wait")
    c.wait_for("grep -q ':138A .* 0A ' /proc/net/tcp", 20)
    got = g.run(f"busybox nc {server} 5002 </dev/null | sha256sum", timeout=SECONDS + 240).out.split()[0]
    job.wait(120, check=True)
    return c.run("cat /tmp/sum").out.split()[0], got


def rate(g, name):
    read = f"cat /sys/class/net/{name}/statistics/tx_bytes /sys/class/net/{name}/statistics/rx_bytes"
    sent, received = (int(word) for word in g.run(read).out.split())
    return f"{sent >> 10} KiB sent, {received >> 10} KiB received in 2 times {SECONDS} s"


def use(t, g, c, name, server, what):
    t.equal(ping(g, server), "0% packet loss", f"{what}: ping another host")
    for way, transfer in (("to", send), ("from", receive)):
        sent, received = transfer(g, c, server)
        t.equal(received, sent, f"{what}: {SECONDS} s of data {way} it")
    t.equal(lost(g, name), {}, f"{what}: no frame is lost")
    t.diag(f"{what}: {rate(g, name)}")
