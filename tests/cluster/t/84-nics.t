#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Lent network cards, whole and virtual functions, that talk to another host over their own cables.

    host a (node 1): guest ---- ab ---- host b (node 2): nic ---- cable ---- lan1: host c (node 3)
                                                         igb ---- cable ---- lan2:
                                        host b ---- bc ---- host c: guest

DLEND_LONG=1: each transfer takes 60 s, not 5.
"""
import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from nets import interface, lost, ping, up, use, virtual_functions  # noqa: E402  pylint: disable=wrong-import-position

# e1000e's IntMode, what /proc/interrupts calls it, and what dlend does.
MODES = ((2, "PCI-MSIX-", "msix"), (1, "PCI-MSI-", "msi"), (0, "IO-APIC", "intx"))
VF_MAC = ("52:54:00:d1:e1:00", "52:54:00:d1:e1:01")


# A whole card

@contextlib.contextmanager
def noise(c):
    """Frames to everybody, all the time."""
    sent = f"/sys/class/net/{interface(c, '52:54:00:d1:ec:01')}/statistics/tx_packets"
    before = c.run(f"cat {sent}").out.strip()
    job = c.spawn("exec busybox ping -q -i 0.02 10.7.1.255")
    try:
        c.wait_for(f"[ $(cat {sent}) -gt $(({before} + 10)) ]", 30)
        yield
    finally:
        job.kill()


def one_mode(t, f, c, uuid, g, number, line, mode):
    g.run(f"rmmod e1000e 2>/dev/null; modprobe e1000e IntMode={number}", timeout=90)
    if mode == "msi":
        g.run(f"fixedlink {interface(g, '52:54:00:d1:e0:01')}")
    # Its driver tries an MSI when the card is brought up, within 0.1 s, and QEMU's card does not send the one that
    # it asks for.  Any will do: that of a frame, if the link need not be negotiated first.
    with noise(c) if mode == "msi" else contextlib.nullcontext():
        name = up(g, "52:54:00:d1:e0:01", "10.7.1.1")
    t.ok(line in g.run(f"grep {name} /proc/interrupts").out, f"e1000e: the driver uses {mode}")
    use(t, g, c, name, "10.7.1.3", f"e1000e, {mode}")
    irqs = f.irqs("a", uuid)
    t.ok(irqs["live"] == mode and irqs["signalled"], f"e1000e: and so does the lender, {mode}", str(irqs))


def card(t, f, c):
    address = f.lend("b", "nic")
    t.equal(f.offers("a")[address]["type"], "dlend-nic", "e1000e: its type")
    uuid = f.mdev("a", address, "dlend-nic")
    up(c, "52:54:00:d1:ec:01", "10.7.1.3")
    with f.guest("a", "card", modules=(), memory="160M", devices=[f.device(uuid)], tools=("programs",)) as g:
        for number, line, mode in MODES:
            with t.case(f"e1000e with {mode}: to the end"):
                one_mode(t, f, c, uuid, g, number, line, mode)
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
    f.wait_state("a", address, "free")
    f.mdev_stop("a", uuid)


def capabilities(g, name):
    """Ids of those in the first 256 bytes of a card's configuration space."""
    config = bytes.fromhex("".join(g.run(f"xxd -p -l 256 /sys/class/net/{name}/device/config").out.split()))
    ids, at = set(), config[0x34]
    while at:
        ids.add(config[at])
        at = config[at + 1]
    return ids


def without_messages(t, f, b, c):
    """A host whose administrator, or a bridge of which, forbids message signalled interrupts: the guest sees none."""
    bdf = b.bdf("nic")
    f.dlend("b", f"reclaim {bdf}", timeout=90)
    b.run(f"echo 0 >/sys/bus/pci/devices/{bdf}/msi_bus")
    address = f.lend_bdf("b", bdf)
    uuid = f.mdev("a", address, "dlend-nic")
    with f.guest("a", "lines", modules=("e1000e",), memory="160M", devices=[f.device(uuid)]) as g:
        name = up(g, "52:54:00:d1:e0:01", "10.7.1.1")
        t.equal(ping(g, "10.7.1.3"), "0% packet loss", "e1000e, of a host without MSI: ping another host")
        irqs = f.irqs("a", uuid)
        t.ok(irqs["live"] == "intx" and irqs["signalled"], "it interrupts by INTx", str(irqs))
        t.equal(capabilities(g, name), {0x01, 0x10}, "and shows power management and PCIe, neither MSI nor MSI-X")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
    f.wait_state("a", address, "free")
    b.run(f"echo 1 >/sys/bus/pci/devices/{bdf}/msi_bus")


# Virtual functions

def make_functions(t, b):
    """Two, with addresses; the lender's own driver keeps the card.  Their bus addresses, and the card's name."""
    b.run("modprobe igb", timeout=60)
    up(b, "52:54:00:d1:e0:02", "10.7.2.2")
    functions, name = virtual_functions(b, "igb", VF_MAC)
    for function in functions:
        t.equal(b.run(f"setpci -s {function} VENDOR_ID DEVICE_ID").out.split(), ["ffff", "ffff"],
                f"{function}: a VF that does not say in its registers what it is")
    return functions, name


def synthetic(t, g, name):
    """What a VF's configuration space does not say by itself, and lacks."""
    device = f"/sys/class/net/{name}/device"
    t.equal(g.run(f"cat {device}/vendor {device}/device").out.split(), ["0x8086", "0x10ca"],
            "igbvf: its ids in the guest")
    t.equal(g.run(f"xxd -p -l 4 {device}/config").out.strip(), "8680ca10", "igbvf: in the registers too")
    command, pin = (g.run(f"xxd -p -s {at} -l 1 {device}/config").out.strip() for at in (4, 61))
    t.equal((int(command, 16) & 2, pin), (2, "00"), "igbvf: memory decoding can be turned on; there is no INTx")
    t.ok("flr" in g.run(f"cat {device}/reset_method").out, "igbvf: it can be reset alone")


def first_function(t, f, c, address, uuid, g):
    g.run("modprobe igbvf", timeout=90)
    name = up(g, VF_MAC[0], "10.7.2.1")
    synthetic(t, g, name)
    t.equal(f.lender_state(address)[:2], ("held", "1"), "igbvf: borrowed")
    t.equal(ping(g, "10.7.2.2"), "0% packet loss", "igbvf: ping the lender's own function")
    use(t, g, c, name, "10.7.2.3", "igbvf")
    t.equal(f.irqs("a", uuid)["live"], "msix", "igbvf: by MSI-X")
    f.trace_clear("b")
    g.run(f"d=$(readlink -f /sys/class/net/{name}/device); rmmod igbvf; echo 1 >$d/reset; modprobe igbvf", timeout=90)
    name = up(g, VF_MAC[0], "10.7.2.1")
    t.equal(ping(g, "10.7.2.3"), "0% packet loss", "igbvf: it works after an FLR")
    t.ok([event for event, _, line in f.trace("b") if event == "dlend_reset" and f"{address} request" in line],
         "igbvf: which the lender did")
    return name


def physical_reset(t, f, b, own, address, g):
    """The physical function is reset, which takes what the virtual ones had with it, and tells no driver."""
    b.run(f"echo 1 >/sys/class/net/{own}/device/reset; ip link set {own} down; ip link set {own} up", timeout=60)
    b.wait_for(f"[ \"$(cat /sys/class/net/{own}/carrier)\" = 1 ]", 60)
    t.equal(f.lender_state(address)[:2], ("held", "1"), "igb is reset: its function stays borrowed")
    g.run("rmmod igbvf; modprobe igbvf", timeout=90)
    up(g, VF_MAC[0], "10.7.2.1")
    t.equal(ping(g, "10.7.2.3", 10), "0% packet loss", "  and works again as soon as the guest's driver starts anew")
    t.ok("was reset, and this host was not told" in b.run("dmesg").out, "  the lender says what it has put back")


def second_function(t, f, address):
    """Lent to another borrower while the first is in use."""
    uuid = f.mdev("c", address, "dlend-nic")
    with f.guest("c", "other", modules=("igbvf",), memory="160M", devices=[f.device(uuid)]) as g:
        up(g, VF_MAC[1], "10.7.2.4")
        t.equal(f.lender_state(address)[:2], ("held", "3"), "igbvf: another borrower has the second")
        for server, who in (("10.7.2.3", "another host"), ("10.7.2.2", "the lender's own function"),
                            ("10.7.2.1", "the guest that has the first")):
            t.equal(ping(g, server, 10), "0% packet loss", f"igbvf, the second: ping {who}")
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    f.wait_state("c", address, "free")


def functions(t, f, b, c):
    names, own = make_functions(t, b)
    up(c, "52:54:00:d1:ec:02", "10.7.2.3")
    t.equal(ping(b, "10.7.2.3"), "0% packet loss", "igb: the lender uses its card")
    # What it sent before the cable had a carrier is dropped, and counted.
    before = lost(b, own)
    lent = [f.lend_bdf("b", name) for name in names]
    t.equal([f.offers("c")[address]["type"] for address in lent], ["dlend-nic"] * 2, "igbvf: their type")
    uuid = f.mdev("a", lent[0], "dlend-nic")
    with f.guest("a", "vf", modules=(), memory="160M", devices=[f.device(uuid)]) as g:
        name = first_function(t, f, c, lent[0], uuid, g)
        with t.case("a second VF for another borrower: to the end"):
            second_function(t, f, lent[1])
        t.equal(ping(g, "10.7.2.3"), "0% packet loss", "igbvf: the first has noticed nothing of the second")
        t.equal(lost(g, name), {}, "igbvf: and lost nothing")
        t.equal(lost(b, own), before, "igb: the lender's card lost nothing while its functions were lent")
        with t.case("a reset of the physical function: to the end"):
            physical_reset(t, f, b, own, lent[0], g)
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        g.shutdown()
    f.wait_state("a", lent[0], "free")
    t.equal(ping(b, "10.7.2.3"), "0% packet loss", "igb: the lender goes on using its card")


def main():
    with Tap() as t, Cluster("nics.toml", tap=t) as cluster:
        f = Fabric(cluster)
        a, b, c = (cluster.host(n) for n in "abc")
        f.up(timeout=150)
        c.run("modprobe virtio_net", timeout=60)
        with t.case("a whole card"):
            card(t, f, c)
        with t.case("a host without MSI"):
            without_messages(t, f, b, c)
        with t.case("virtual functions"):
            functions(t, f, b, c)
        for host in (a, b, c):
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
