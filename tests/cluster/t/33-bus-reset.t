#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Functions that have no reset of their own: they are lent together, and reset together, by their bus.

    host a (node 1): guests ------ ab ------ host b (node 2): pair (two of one kind), card (display and sound)

What the device itself is at tells whether it was reset: virtio's device status is 0 only then, and 0xf while a driver uses it.
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import kinds  # noqa: E402  pylint: disable=wrong-import-position
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

SLOTS = (0x10, 0x11)
DRIVEN, RESET = "0x0f", "0x00"
STATUS = 0x14       # of virtio's registers


def status(b, port, n):
    """Of a function of virtio's, as its own host sees it, which has left BARs where they were."""
    start = b.run(f"sed -n 5p /sys/bus/pci/devices/{b.bdf(port, n)}/resource").out.split()[0]
    return b.hmp(f"xp /1bx {int(start, 16) + STATUS:#x}").split()[-1]


def resets(f, address):
    """[why] of each reset of a function that was done since the trace was cleared."""
    lines = "\n".join(line for _, _, line in f.trace("b", f"dlend_reset: {address} "))
    return re.findall(rf"{address} (\w+) us=\d+ status=0$", lines, re.M)


def function(slot):
    return f"0000:00:{slot:02x}.0"


def bind(b, bdf):
    b.run(f"cd /sys/bus/pci/devices/{bdf} && {{ [ ! -e driver ] || echo {bdf} >driver/unbind; }}; "
          f"echo dlend-lender >driver_override && echo {bdf} >/sys/bus/pci/drivers_probe")


def lent(t, f, b):
    """Both or none.  Returns their addresses."""
    addresses = [f.address("b", "pair", n) for n in range(2)]
    first, second = (b.bdf("pair", n) for n in range(2))
    methods = [b.run(f"cat /sys/bus/pci/devices/{bdf}/reset_method 2>/dev/null", check=False).out.strip() for bdf in (first, second)]
    t.equal(methods, ["bus", ""], "they have no reset of their own (the first was alone on its bus when the kernel found it)")
    text, level = f.doctor("b", first)[1]["device-reset"]
    t.ok(level == "WARN" and second in text, "doctor says what it is reset with", f"{level} {text}")
    b.run(f"[ ! -e /sys/bus/pci/devices/{second}/driver ] || echo {second} >/sys/bus/pci/devices/{second}/driver/unbind")
    bind(b, first)
    t.equal(f.lender_state(addresses[0])[0], "incomplete", "one alone is not lent")
    t.equal(resets(f, addresses[0]), [], "  and nothing is reset")
    t.ok(f"offered as {addresses[0]} when all that is reset with it is bound" in b.run("dmesg").out, "  as the log says")
    f.dlend("b", f"lend --group {first}", timeout=120)
    for address in addresses:
        f.wait_state("a", address, "free")
        t.equal(resets(f, address), ["return"], f"{address}: lent when both are there, and reset once")
    return addresses


def random(g, n):
    """From one of them, through its driver: never the same, as it writes into the guest's memory."""
    read = (f"echo virtio_rng.{n} >/sys/class/misc/hw_random/rng_current; "
            "dd if=/dev/hwrng bs=64 count=1 iflag=fullblock 2>/dev/null | sha256sum")
    return g.run(read, timeout=120).out != g.run(read, timeout=120).out


def of_guest(f, uuids):
    return {"tools": ("rng",), "modules": ("virtio-rng",), "memory": "96M", "ports": 2, "port_options": ",x-speed=5",
            "devices": [f.device(uuid, f",id=fn{n},bus=hp{n}") for n, uuid in enumerate(uuids)]}


def rng_at(g):
    """Where the guest has both, by its own numbers."""
    return g.run("for d in /sys/bus/pci/drivers/virtio-pci/0*; do [ \"$(cat $d/device)\" = 0x1044 ] && "
                 "basename $d; done; :").out.split()


def one_reset(t, f, b, g, addresses):
    """The guest resets one, whose driver has let it go; the other is at work."""
    g.wait_for("[ $(ls -d /sys/bus/pci/devices/*/virtio*/driver 2>/dev/null | wc -l) -ge 2 ]")
    t.equal([status(b, "pair", n) for n in range(2)], [DRIVEN] * 2, "both are driven")
    t.ok(random(g, 0) and random(g, 1), "  and give random numbers")
    first, second = rng_at(g)
    f.trace_clear("b")
    g.run(f"echo {first} >/sys/bus/pci/drivers/virtio-pci/unbind; echo 1 >/sys/bus/pci/devices/{first}/reset", timeout=60)
    said = [resets(f, address) for address in addresses]
    t.ok(sorted(said) == [[], ["emulate"]], "a reset of one, by its guest: not on the device, as the other is in use", str(said))
    t.equal(DRIVEN in (status(b, "pair", 0), status(b, "pair", 1)), True, "  which stays as it is")
    t.ok(g.run(f"echo {first} >/sys/bus/pci/drivers/virtio-pci/bind; ls -d /sys/bus/pci/devices/{first}/virtio*", timeout=60).out,
         "  and the driver takes the first one again")
    t.ok(random(g, 0), "  both work: one")
    g.run(f"ls /sys/bus/pci/devices/{second}/virtio*/driver")


def all_reset(t, f, b, g, addresses):
    """The VMM resets all of the machine: both, one after the other."""
    f.trace_clear("b")
    boots = g.slot.agent.boots
    g.qmp("system_reset")
    g.wait_ready(boots=boots + 1)
    said = [resets(f, address) for address in addresses]
    t.ok(all("request" in one for one in said), "a machine's reset resets both, on the device", str(said))
    g.wait_for("[ -c /dev/hwrng ]")
    t.ok(random(g, 0) and random(g, 1), "  and both work again")
    t.equal([status(b, "pair", n) for n in range(2)], [DRIVEN] * 2, "  driven")


def one_unplugged(t, f, b, g, addresses, uuids):
    """It stays as it is as long as the other is used, and the same VM can have it again."""
    f.trace_clear("b")
    g.qmp("device_del", id="fn0")
    g.wait_event("DEVICE_DELETED", 60, lambda data: data.get("device") == "fn0")
    t.ok(random(g, 1) or random(g, 0), "one is unplugged: the other works")
    t.equal([resets(f, address) for address in addresses], [[], []], "  and nothing is reset")
    t.equal(f.lender_state(addresses[1])[:2], ("held", "1"), "  they stay lent")
    g.qmp("device_add", driver="vfio-pci", id="fn0", sysfsdev=f"/sys/bus/mdev/devices/{uuids[0]}", bus="hp0")
    g.wait_for("[ $(ls -d /sys/bus/pci/devices/*/virtio*/driver 2>/dev/null | wc -l) -ge 2 ]", 120)
    t.equal([status(b, "pair", n) for n in range(2)], [DRIVEN] * 2, "the same VM has it again, and drives it")


def over(t, f, b, addresses, what):
    """Nobody has them: both are reset, by one reset, and offered."""
    for address in addresses:
        f.wait_state("a", address, "free")
        t.equal(resets(f, address)[-1:], ["return"], f"{what}: {address} is reset")
    t.equal([status(b, "pair", n) for n in range(2)], [RESET] * 2, "  on the device")


def used(t, f, b, addresses, uuids):
    with f.guest("a", "both", **of_guest(f, uuids)) as g:
        with t.case("a reset of one"):
            one_reset(t, f, b, g, addresses)
        with t.case("a reset of all"):
            all_reset(t, f, b, g, addresses)
        with t.case("one is unplugged"):
            one_unplugged(t, f, b, g, addresses, uuids)
        t.equal(g.complaints(), [], "the guest's kernel has no complaint")
        f.trace_clear("b")
        g.shutdown()
    over(t, f, b, addresses, "the VM is off")
    with t.case("a VM that is killed"):
        with f.guest("a", "killed", **of_guest(f, uuids)) as g:
            g.wait_for("[ -c /dev/hwrng ]")
            f.trace_clear("b")
        over(t, f, b, addresses, "killed")


def unbound(t, f, b, addresses, uuids):
    """By hand, while it is lent: it cannot be reset alone, so neither is lent until both are here again."""
    with f.guest("a", "losing", **of_guest(f, uuids)) as g:
        g.wait_for("[ -c /dev/hwrng ]")
        f.trace_clear("b")
        first = b.bdf("pair")
        b.run(f"echo {first} >/sys/bus/pci/drivers/dlend-lender/unbind", timeout=60)
        f.wait_mdev("a", uuids[0], "failed", 60)
        t.ok("is unbound without a reset" in b.run("dmesg").out, "unbound while it is lent: the log says that it is not reset")
        t.equal([resets(f, address) for address in addresses], [[], []], "  and it is not")
        t.equal(f.lender_state(addresses[1])[0], "incomplete", "  nobody can have the other")
    bind(b, first)
    over(t, f, b, addresses, "bound again")


def card(t, f, c, b):
    addresses = [f.address("b", "card", n) for n in range(2)]
    f.dlend("b", f"lend --group {b.bdf('card')}", timeout=120)
    for address in addresses:
        f.wait_state("a", address, "free")
    uuids = [f.mdev("a", address, kind) for address, kind in zip(addresses, ("dlend-gpu", "dlend-audio"))]
    options = {"modules": (), "memory": "192M", "tools": ("gpu", "audio", "programs"),
               "cmdline": "drm_kms_helper.fbdev_emulation=0 drm_client_lib.active=",
               "devices": [f.device(uuid, f",id=fn{n},addr={slot:#x}") for n, (uuid, slot) in enumerate(zip(uuids, SLOTS))]}
    for turn in ("first", "second"):
        f.trace_clear("b")
        with f.guest("a", turn, **options) as g:
            wrong = kinds.paint(t, c, g, "card", function(SLOTS[0]), "bochs", "bochs-drm", "160 120")
            t.ok(wrong is None, f"{turn} VM: the guest's picture, pixel by pixel", f"x, y, is, should be: {wrong}")
            kinds.tone(t, g, [kinds.VIRTIO_SOUND], c.run_dir / "b-sound.wav", "sound")
            t.equal(g.complaints(), [], "the guest's kernel has no complaint")
            g.shutdown()
        for address in addresses:
            f.wait_state("a", address, "free")
            t.equal(resets(f, address)[-1:], ["return"], f"{turn} VM is off: {address} is reset")
        t.equal(status(b, "card", 1), RESET, "  on the device")
    for uuid in uuids:
        f.mdev_stop("a", uuid)


def main():
    with Tap() as t, Cluster("shared-reset.toml", tap=t) as c:
        f = Fabric(c)
        b = c.host("b")
        # The sound device keeps its emulated host from running while it does DMA.
        f.up(heartbeat_timeout_ms=20000)
        with t.case("lent together"):
            addresses = lent(t, f, b)
        uuids = [f.mdev("a", address, "dlend-pci") for address in addresses]
        with t.case("used by a guest"):
            used(t, f, b, addresses, uuids)
        with t.case("unbound while lent"):
            unbound(t, f, b, addresses, uuids)
        for uuid in uuids:
            f.mdev_stop("a", uuid)
        with t.case("a display with an audio function"):
            card(t, f, c, b)


main()
