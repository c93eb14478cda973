#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Network cards of another host, used by a host's own drivers, that talk to a third host over their own cables.

    host a (node 1): e1000e, igbvf ---- ab ---- host b (node 2): nic ---- cable ---- lan1: host c (node 3)
                                                                 igb ---- cable ---- lan2:
                                                host b ---- bc ---- host c: guest with the other VF

DLEND_LONG=1: each transfer takes 60 s, not 5.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import as_at_home, bound, give, pci, portrait, take, vfio_pci  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from nets import interface, lost, ping, up, use, virtual_functions  # noqa: E402  pylint: disable=wrong-import-position

NIC_MAC, IGB_MAC = "52:54:00:d1:e0:01", "52:54:00:d1:e0:02"
VF_MAC = ("52:54:00:d1:e1:00", "52:54:00:d1:e1:01")


def diagnosed(host, name):
    """What the driver's own tests of the card say: registers, EEPROM, INTx, frames to itself; {test: result}, 0 if it is good."""
    out = host.run(f"ethtool -t {name} offline", check=False, timeout=180).out
    return dict(re.findall(r"^(\w[\w ]+?)\s+\(\w+\)\s+(\d+)$", out, re.M))


def elsewhere(t, f, host, mac, words):
    """Its interface is where a container has it: in a network namespace of its own, which nobody else's sysfs shows."""
    name = interface(host, mac)
    host.run(f"ip netns add box; ip link set {name} netns box; ip -n box link set {name} up")
    r = f.dlend(host.name, f"{words} 2>&1", check=False, timeout=120)
    t.ok(r.status == 4 and "another network namespace" in r.out, f"a card that a container has is in use: {words.split()[0]}", f"{r.status} {r.out}")
    host.run(f"ip -n box link set {name} netns 1; ip netns del box; ip link set {name} down")


def card(t, f, a, b, c):
    b.run("modprobe e1000e", timeout=60)
    home = portrait(b, b.bdf("nic"))
    elsewhere(t, f, b, NIC_MAC, f"lend {b.bdf('nic')}")
    name = up(b, NIC_MAC, "10.7.1.2")       # as it is when attached
    tested = diagnosed(b, name)
    b.run(f"ip link set {name} down; ip addr flush dev {name}")
    address = f.lend("b", "nic")
    up(c, "52:54:00:d1:ec:01", "10.7.1.3")
    a.run("modprobe e1000e", timeout=60)
    take(f, address)
    elsewhere(t, f, a, NIC_MAC, f"detach {address}")
    name = up(a, NIC_MAC, "10.7.1.1")
    as_at_home(t, "e1000e", home, portrait(a, pci(address)))
    t.ok("PCI-MSIX" in a.run(f"grep {name} /proc/interrupts").out, "e1000e: the driver uses MSI-X")
    use(t, a, c, name, "10.7.1.3", "e1000e")
    found = diagnosed(a, name)
    t.diag(str(found))
    # The driver waits 20 jiffies for frames to itself: on a slow host it says 13 for them, at home more often than here
    worse = [test for test, result in found.items() if result not in ("0", tested.get(test))]
    t.ok(len(found) > 3 and found.keys() == tested.keys() and not worse, "e1000e: ethtool -t finds nothing that it does not find at home",
         f"{found} {tested}")
    a.wait_for(f'[ "$(cat /sys/class/net/{name}/carrier)" = 1 ]', 120)
    vectors = a.run(f"grep {name} /proc/interrupts | cut -d: -f1").out.split()
    for vector in vectors:
        a.run(f"echo 1 >/proc/irq/{vector}/smp_affinity_list")
    before = counts(a, name)
    t.equal(ping(a, "10.7.1.3"), "0% packet loss", "e1000e: ping, with its interrupts on another CPU")
    after = counts(a, name)
    t.ok(after[1] > before[1] and after[0] == before[0], "e1000e: that is where they come", f"{before} {after}")
    a.run("echo 0 >/sys/devices/system/cpu/cpu1/online", timeout=60)
    t.equal(ping(a, "10.7.1.3"), "0% packet loss", "e1000e: ping, with that CPU off")
    a.run("echo 1 >/sys/devices/system/cpu/cpu1/online", timeout=60)
    for _ in range(5):
        a.run(f"ip link set {name} down; rmmod e1000e; modprobe e1000e", timeout=90)
        name = interface(a, NIC_MAC)
    name = up(a, NIC_MAC, "10.7.1.1")
    t.equal(ping(a, "10.7.1.3"), "0% packet loss", "e1000e: ping, after its driver was loaded again and again")
    t.equal(lost(a, name), {}, "e1000e: no frame is lost")
    give(f, address)


def counts(a, name):
    """Interrupts of a card by CPU."""
    rows = [line.split() for line in a.run(f"grep {name} /proc/interrupts").out.splitlines()]
    cpus = int(a.run("nproc").out)
    return [sum(int(row[1 + cpu]) for row in rows) for cpu in range(cpus)]


def functions(t, f, a, b, c):
    b.run("modprobe igb", timeout=60)
    up(b, IGB_MAC, "10.7.2.2")
    names, own = virtual_functions(b, "igb", VF_MAC)
    up(c, "52:54:00:d1:ec:02", "10.7.2.3")
    b.run("modprobe igbvf", timeout=60)
    bound(b, names[0], "igbvf")
    home = portrait(b, names[0])
    lent = [f.lend_bdf("b", name) for name in names]
    a.run("modprobe igbvf", timeout=60)
    take(f, lent[0])
    name = up(a, VF_MAC[0], "10.7.2.1")
    as_at_home(t, "igbvf", home, portrait(a, pci(lent[0])))
    t.equal(a.run(f"cat /sys/class/net/{name}/device/vendor /sys/class/net/{name}/device/device").out.split(),
            ["0x8086", "0x10ca"], "igbvf: its ids, which its registers do not have")
    uuid = f.mdev("c", lent[1], "dlend-nic")
    with f.guest("c", "other", modules=("igbvf",), memory="160M", devices=[f.device(uuid)]) as g:
        up(g, VF_MAC[1], "10.7.2.4")
        use(t, a, c, name, "10.7.2.3", "igbvf, beside one of a VM's")
        t.equal(ping(g, "10.7.2.1", 10), "0% packet loss", "igbvf: and the VM that has the other one reaches it")
        g.shutdown()
    f.wait_state("c", lent[1], "free")
    give(f, lent[0])


TESTPMD = ("dpdk-testpmd -l 0,1 --in-memory -a {0} -- --forward-mode=icmpecho --auto-start --total-num-mbufs=2048 --stats-period 1 "
           ">/tmp/testpmd 2>&1")


def bypassed(t, f, a, c):
    """DPDK's own driver has the card, by vfio-pci; its test program answers pings, and this host's kernel sees none."""
    address = f.address("b", "nic")
    take(f, address)
    vfio_pci(a, address)
    a.run("echo 64 >/proc/sys/vm/nr_hugepages")
    pmd = a.spawn(TESTPMD.format(pci(address)))
    try:
        a.wait_for("grep -q 'Port statistics' /tmp/testpmd || ! pidof dpdk-testpmd", 90)
        t.equal(ping(c, "10.7.1.9"), "0% packet loss", "DPDK: its own driver answers by the lent card")
        # It says so each second
        a.wait_for("[ $(sed -n 's/.*TX-packets: \\([0-9]*\\).*/\\1/p' /tmp/testpmd | tail -n 1) -ge 20 ]", 60)
        t.passed("DPDK: and counts what it has sent")
    finally:
        pmd.kill(2)
        pmd.wait(30, check=False)
    a.run("echo 0 >/proc/sys/vm/nr_hugepages")
    give(f, address)


def main():
    with Tap() as t, Cluster("nics.toml", tap=t) as cluster:
        f = Fabric(cluster)
        a, b, c = (cluster.host(n) for n in "abc")
        f.up(timeout=150)
        a.load_modules("dlend_native")
        c.run("modprobe virtio_net", timeout=60)
        with t.case("a whole card"):
            card(t, f, a, b, c)
        with t.case("DPDK"):
            bypassed(t, f, a, c)
        with t.case("a virtual function"):
            functions(t, f, a, b, c)
        for host in (a, b, c):
            t.equal(host.complaints(), [], f"host {host.name}'s kernel has no complaint")


main()
