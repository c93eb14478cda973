#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The clique capability as a guest finds it, beside the one that QEMU makes for a device of its own host;
and which devices get one number.

    host a (node 1): display for vfio-pci; guest ---- ab ---- host b (node 2): display, second and nic, lent
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

LENT, LOCAL = "0000:00:08.0", "0000:00:09.0"    # where the guest has them
NVIDIA = "x-pci-vendor-id=0x10de"


def capability(clique):
    """As in NVIDIA's document: id 09, no next one, 8 bytes, "P2P", clique << 3 | version 0."""
    return bytes([0x09, 0x00, 0x08]) + b"P2P" + bytes([clique << 3, 0])


def config(g, bdf):
    return bytes.fromhex("".join(g.run(f"xxd -p -l 256 /sys/bus/pci/devices/{bdf}/config").out.split()))


def capabilities(space):
    """[(offset, id)] in the order of the list."""
    found, at = [], space[0x34]
    while at and len(found) < 48:
        found.append((at, space[at]))
        at = space[at + 1]
    return found


def where(space):
    """Offset of the clique capability, None if there is none."""
    return next((at for at, kind in capabilities(space) if kind == 9 and space[at + 3:at + 6] == b"P2P"), None)


def setting(f, uuid, value):
    return f.host("a").run(f"echo {value} >/sys/bus/mdev/devices/{uuid}/clique", check=False).status


def settings(t, f, uuid):
    for value in (16, -1, 99999999999, "x"):
        t.ok(setting(f, uuid, value) != 0, f"clique {value} is refused")
    t.equal(setting(f, uuid, 3), 0, "clique 3 is taken")


def beside(t, f, a, uuid):
    local = f"vfio-pci,host={a.bdf('display')},addr=9,{NVIDIA},x-nv-gpudirect-clique=3"
    with f.guest("a", "both", devices=[f.device(uuid, ",addr=8"), local], modules=(), tools=("tools",)) as g:
        lent, own = config(g, LENT), config(g, LOCAL)
        t.equal(own[:2], b"\xde\x10", "QEMU's device says that it is NVIDIA's")
        at, theirs = where(lent), where(own)
        t.equal(at, 0xd4, "the lent device: at D4h")
        t.ok(theirs in (0xc8, 0xd4), "QEMU's: at the first of C8h and D4h that is free", str(theirs))
        t.equal(lent[at:at + 8], own[theirs:theirs + 8], "byte for byte the same")
        t.equal(lent[at:at + 8], capability(3), "which is what NVIDIA's document says")
        t.equal([capabilities(space)[-1][0] for space in (lent, own)], [at, theirs], "each is the last of its list")
        text = g.run(f"lspci -vv -s {LENT[5:]}").out
        t.ok("[d4] Vendor Specific Information: Len=08" in text, "lspci walks the list and finds it", text)
        t.ok(setting(f, uuid, 4) != 0, "it cannot be changed while the guest runs")
        g.reboot(timeout=240)
        t.equal(config(g, LENT)[at:at + 8], capability(3), "nor does a reboot of the guest")
        g.shutdown()


def lender_says(t, f, b, address, value):
    """dlend lend --clique, for what is lent already; here it arrives with the offer."""
    f.dlend("b", f"lend --clique {value} {b.bdf('display')}")
    f.host("a").wait_for(f"grep -qx {value} /sys/bus/dlend/devices/{address}/clique", 20)
    t.passed(f"dlend lend --clique {value}: the borrower knows")


def other_numbers(t, f, b, address, uuid):
    own = f"/sys/bus/pci/devices/{b.bdf('display')}/dlend/clique"
    t.equal(b.run(f"cat {own}").out, "auto\n", "the lender says nothing, unless it is told to")
    for value in (16, -1, 65536, "x"):
        t.ok(b.run(f"echo {value} >{own}", check=False).status != 0, f"its clique {value} is refused")
    lender_says(t, f, b, address, 5)
    for value, want in (("15", 15), ("none", None), ("auto", 5)):
        t.equal(setting(f, uuid, value), 0, f"clique {value} on the mdev, 5 on the lender")
        with f.guest("a", f"c{value}", devices=[f.device(uuid, ",addr=8")], modules=()) as g:
            space = config(g, LENT)
            at = where(space)
            t.equal(at and space[at:at + 8], None if want is None else capability(want),
                    f"  the guest sees {'none' if want is None else want}")
            g.shutdown()
    lender_says(t, f, b, address, "none")


def vouch(f, b, addresses, on):
    """Host b's administrator says so, or takes it back; until host a knows."""
    b.run(f"echo {int(on)} >/sys/module/dlend_core/parameters/p2p_allowed")
    for address in addresses:
        f.host("a").wait_for(f"{'' if on else '!'} grep -q ' 1$' /sys/bus/dlend/devices/{address}/root", 20)


def shown(f, devices, label):
    """The cliques that a guest of both devices would see, their doubts, and what dlend topology says meanwhile."""
    a = f.host("a")
    with f.guest("a", label, wait=False, kernel=False, devices=[f.device(uuid) for uuid in devices.values()], extra=["-S"]) as g:
        g.qmp("query-status")
        files = [f"/sys/bus/mdev/devices/{uuid}/dlend" for uuid in devices.values()]
        cliques = [a.run(f"cat {name}/clique").out.strip() for name in files]
        doubts = [a.run(f"cat {name}/p2p_doubts").out for name in files]
        return cliques, doubts, f.dlend("a", "topology").out, json.loads(f.dlend("a", "topology --json").out)["doubts"]


def vouched(t, f, b, devices):
    """Two devices below one root complex: whether it passes on what one sends to the other, somebody has to say."""
    a = f.host("a")
    for uuid in devices.values():
        t.equal(setting(f, uuid, "always"), 0, "a clique is computed, for any vendor's device")
    vouch(f, b, devices, False)
    domains = {a.run(f"cat /sys/bus/dlend/devices/{address}/root").out.split()[3] for address in devices}
    if domains != {"0"}:
        t.skip(f"host b's kernel allows its root complex by itself: domains {domains}")
    a.run("dmesg -C")
    first, second = devices
    why = "node 2 does not allow transfers between the two devices (dlend_core.p2p_allowed there)"
    cliques, doubts, text, data = shown(f, devices, "apart")
    t.equal(cliques, ["0", "1"], "nobody allows the way between two devices of one lender: two cliques")
    t.equal(doubts, [f"{second} {why}\n", f"{first} {why}\n"], "p2p_doubts of each says why")
    log = a.run("dmesg | grep 'clique 1, not 0'").out
    t.ok(why in log, "so does the log", log)
    t.ok("in different cliques:\n" in text and why in text and "nobody allows peer-to-peer" in text, "and dlend topology", text)
    t.equal([(sorted(d["devices"]), sorted(d["cliques"]), d["why"]) for d in data], [(sorted(devices), [0, 1], why)], "in JSON, too")
    for uuid in devices.values():
        setting(f, uuid, 7)
    a.run("dmesg -C")
    cliques, _, text, _ = shown(f, devices, "claimed")
    t.equal(cliques, ["7", "7"], "a number of an administrator's beats that")
    log = a.run("dmesg | grep 'clique 7 claims'").out
    t.ok(why in log, "with a warning in the log", log)
    t.ok(any("WARNING" in line and why in line for line in text.splitlines()), "and in dlend topology", text)
    for uuid in devices.values():
        setting(f, uuid, "always")
    vouch(f, b, devices, True)
    cliques, doubts, text, data = shown(f, devices, "joined")
    t.equal((cliques, doubts, data), (["0", "0"], ["", ""], []), "the lender's administrator allows it: one clique")
    t.ok("peer-to-peer domain 1" in text and "nobody allows" not in text, "as dlend topology shows", text)


def no_place(t, f, a):
    """A device with something of its own at C8h and at D4h works without a clique, and the log says why."""
    address = f.lend("b", "nic")
    uuid = f.mdev("a", address, "dlend-nic")
    a.run("dmesg -C")
    cliques = shown(f, {address: uuid}, "unasked")[0]
    log = a.run("dmesg | grep 'no clique'", check=False).out
    t.equal((cliques, log), (["none"], ""), "nobody asks for a clique of the network card: there is none, and no word of it")
    t.equal(setting(f, uuid, 3), 0, "clique 3 is taken")
    cliques, _, text, _ = shown(f, {address: uuid}, "placeless")
    t.equal(cliques, ["none"], "a VM has it, without a clique")
    log = a.run("dmesg | grep 'no clique'", check=False).out
    t.ok("at C8h and at D4h" in log, "  as the log says, with the reason", log)
    t.ok("clique 3" not in text, "  and dlend topology has none", text)


def refused(t, f, a):
    """QEMU makes it for NVIDIA's displays only: so the comparison above was with what is meant for those."""
    local = f"vfio-pci,host={a.bdf('display')},x-nv-gpudirect-clique=3"
    with f.guest("a", "foreign", wait=False, kernel=False, devices=[local], extra=["-S"]) as g:
        out = g.wait_off(60)
        t.ok(out.status != 0 and "GPUDirect" in out.out, "QEMU refuses it for another vendor's", out.out)


def main():
    with Tap() as t, Cluster("clique.toml", tap=t) as c:
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        f.up()
        address = f.lend("b", "display")
        uuid = f.mdev("a", address, "dlend-gpu")
        own = a.bdf("display")
        a.run(f"modprobe vfio-pci; cd /sys/bus/pci/devices/{own} && echo vfio-pci >driver_override && "
              f"{{ [ ! -e driver ] || echo {own} >driver/unbind; }} && echo {own} >/sys/bus/pci/drivers_probe")
        with t.case("what can be set"):
            settings(t, f, uuid)
        with t.case("beside QEMU's own"):
            beside(t, f, a, uuid)
        with t.case("other numbers, and none"):
            other_numbers(t, f, b, address, uuid)
        with t.case("who allows it"):
            # Its lender's setting is from the case before
            lender_says(t, f, b, address, "auto")
            second = f.lend("b", "second")
            vouched(t, f, b, {address: uuid, second: f.mdev("a", second, "dlend-gpu")})
        with t.case("no place for it"):
            no_place(t, f, a)
        with t.case("QEMU and other vendors"):
            refused(t, f, a)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
