#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Where attached devices are: BARs in a crowded window, equal numbers in one IOMMU group, groups that change, and
address spaces that a lender's IOMMU cannot have.

    host a (node 1) ------ ab (128 MiB) ------ host b (node 2): three devices with a BAR of 32 MiB, one with 64 MiB;
                                               two edu below a switch without ACS; one edu alone
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from attached import first_register, pci, vfio_pci, where  # noqa: E402  pylint: disable=wrong-import-position
from cluster import BUILD, Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position

EDU_IDENT = "0x010000ed"


def all_free(f, addresses):
    for address in addresses:
        f.wait_state("a", address, "free")


def crowded(t, f, a):
    """The lender finds no place for a BAR that is a multiple of its size, but one that is not."""
    lent = {port: f.lend("b", port) for port in ("one", "two", "three", "large")}
    for port in ("one", "two", "three"):
        f.dlend("a", f"attach {lent[port]}", timeout=120)
    f.dlend("a", f"detach {lent['one']} {lent['two']}", timeout=120)
    f.dlend("a", f"attach {lent['large']}", timeout=120)
    device = f"/sys/bus/pci/devices/{pci(lent['large'])}"
    start, end, _ = (int(word, 16) for word in a.run(f"sed -n 3p {device}/resource").out.split())
    t.equal(end + 1 - start, 64 << 20, "a BAR of 64 MiB has a place")
    t.ok(start % (64 << 20), "which is no multiple of its size", hex(start))
    t.equal(a.run(f"echo 1 >{device}/enable", check=False).status, 0, "its driver can enable it")
    out = a.run(f"busybox devmem {start + (48 << 20):#x} 32 0x12345678; busybox devmem {start + (48 << 20):#x} 32").out.strip()
    t.equal(out, "0x12345678", "and reaches its memory")
    f.dlend("a", f"detach {lent['large']} {lent['three']}", timeout=120)
    all_free(f, lent.values())


def same_number(t, f, a, b):
    """Both are 00.0 of their buses on the lender; they have one lease, and so one bus.  Return: their addresses."""
    bdfs = sorted(b.run("for d in /sys/bus/pci/devices/*; do [ $(cat $d/vendor)$(cat $d/device) = 0x12340x11e8 ] && basename $d; done; :").out.split())
    bdfs.remove(b.bdf("alone"))
    t.equal([bdf[-4:] for bdf in bdfs], ["00.0", "00.0"], "two functions have one number on two buses")
    f.dlend("b", f"lend --group {bdfs[0]}", timeout=120)
    lent = [f"d0002:{bdf[5:]}" for bdf in bdfs]
    all_free(f, lent)
    f.dlend("a", f"attach {lent[0]}", timeout=120)
    found = [where(a, address) for address in lent]
    t.ok(len(set(found)) == 2 and "no" not in found, "attached, both are there", str(found))
    for device in found:
        t.equal(first_register(a, device), EDU_IDENT, f"{device}: its registers are reached")
    f.dlend("a", f"detach {lent[1]}", timeout=120)
    all_free(f, lent)
    t.passed("and both are back")
    return lent


def told_one_by_one(t, f, a, lent):
    """The lender offers a group while somebody wants each of its functions as soon as it is free."""
    for turn in range(3):
        f.dlend("b", f"reclaim 0000{lent[0][5:]}", timeout=120)     # and with it the group
        a.wait_for(" && ".join(f"[ ! -e /sys/bus/dlend/devices/{address} ]" for address in lent), 60)
        script = ("until at=$(cat {0}/attached) && [ $at != no ]; do echo 1 >{0}/attached; "
                  "[ $((n += 1)) -lt 100000 ] || break; done 2>/dev/null; cat {0}/attached {0}/attach_error")
        jobs = [a.spawn(script.format(f"/sys/bus/dlend/devices/{address}")) for address in lent]
        f.dlend("b", f"lend --group 0000{lent[0][5:]}", timeout=120)
        out = [job.wait(300, check=False).out.split() for job in jobs]
        if [words[0][:4] for words in out] != [pci(address)[:4] for address in lent]:
            break
        f.dlend("a", f"detach {lent[turn % 2]}", timeout=120)
        all_free(f, lent)
    else:
        t.passed("told of one by one, they are attached together")
        return
    t.ok(False, "told of one by one, they are attached together", f"turn {turn}: {out}")


def left_the_group(t, f, c, a, b, lent):
    """While the link is down, one of them is taken out of the lender's PCI tree."""
    stays, goes = lent
    c.link("ab").command("down")
    for address in lent:
        f.wait_state("a", address, "gone")
    b.run(f"echo 1 >/sys/bus/pci/devices/0000{goes[5:]}/remove", timeout=60)
    c.link("ab").command("up")
    f.wait_links("a", 120)
    f.wait_state("a", stays, "free")
    f.dlend("a", f"attach {stays}", timeout=120, check=False)
    t.equal([where(a, address) for address in lent], [pci(stays), "no"], "one left the group: the other is attached alone")
    f.dlend("a", f"detach {stays}", timeout=120)
    f.wait_state("a", stays, "free")
    b.run("echo 1 >/sys/bus/pci/rescan", timeout=60)
    f.dlend("b", f"lend --group 0000{goes[5:]}", timeout=120)
    all_free(f, lent)
    f.dlend("a", f"attach {goes}", timeout=120)
    t.ok("no" not in [where(a, address) for address in lent], "it is back: both are attached")
    f.dlend("a", f"detach {stays}", timeout=120)
    all_free(f, lent)


def out_of_reach(t, f, a):
    """A program moves a device to an address space that its lender's IOMMU cannot have, and goes on without."""
    if a.run("modprobe -q iommufd; [ -c /dev/iommu ]", check=False).status:
        t.skip("this kernel has no iommufd; the one of make check-debug has")
    edu = f.address("b", "alone")
    f.dlend("a", f"attach {edu}", timeout=120)
    vfio_pci(a, edu)
    done = a.run(f"/share/replace {pci(edu)} 2>&1", timeout=120, check=False)
    t.ok(done.status == 0 and "refused " in done.out and done.out.endswith("ok\n"),
         "an address space out of its lender's reach: it stays where it is", done.out)
    f.dlend("a", f"detach --force {edu}", timeout=120)
    f.wait_state("a", edu, "free")


def refused(t, f, a, b):
    """What the lender's IOMMU has no address for is refused, and the window has as much room as before."""
    edu = f.lend("b", "alone")
    f.dlend("a", f"attach {edu}", timeout=120)
    vfio_pci(a, edu)
    before = f.free("a")
    done = a.run(f"/share/sharers {pci(edu)} 2>&1", timeout=120, check=False)
    t.equal(done.out, "refused\nok\n", "addresses that its lender has not are refused, and the program goes on")
    t.equal(f.wait_free("a", before), before, "nothing of the window is lost by that")
    return edu


def silence(t, f, a, b, edu):
    """Two devices reach the memory of one program. It gives one of them back, whose lender does not answer."""
    other = f.address("b", "one")
    f.dlend("a", f"attach {other}", timeout=120)
    vfio_pci(a, other)
    a.run("rm -f /tmp/go")
    program = a.spawn(f"/share/sharers {pci(edu)} {pci(other)} >/tmp/sharers 2>&1")
    a.wait_for("grep -q ok /tmp/sharers", 60)
    with b.stands_still():
        a.run("touch /tmp/go")
        a.wait_for("grep -q closed /tmp/sharers", 60)
    program.wait(60)
    t.equal(a.run("cat /tmp/sharers").out.split(), ["refused", "ok", "closed"], "two devices of a program: one is given back")
    t.ok("another device reaches the same memory, and its lender does not say" in a.run("dmesg").out,
         "  about which its lender is silent: the other is lost, as its memory is out of reach")
    f.wait_state("a", edu, "free", 60)
    t.equal(where(a, edu), "no", "  and is gone")
    # That one cannot come back to this host's own memory either, as its lender has to be told.
    f.wait_state("a", other, "free", 60)


def main():
    with Tap() as t, Cluster("place-hosts.toml", tap=t) as c:
        for program in ("replace", "sharers"):
            shutil.copy(BUILD / "guest" / program, c.run_dir / "share" / program)
        f = Fabric(c)
        a, b = c.host("a"), c.host("b")
        # A host that stands still for a call keeps its session.
        f.up(heartbeat_timeout_ms=30000)
        a.load_modules("dlend_native")
        a.run("echo 16 >/sys/module/dlend_native/parameters/dma_mib")
        with t.case("a crowded window"):
            crowded(t, f, a)
        with t.case("equal numbers"):
            lent = same_number(t, f, a, b)
        with t.case("told one by one"):
            told_one_by_one(t, f, a, lent)
        with t.case("left the group"):
            left_the_group(t, f, c, a, b, lent)
        with t.case("refused"):
            edu = refused(t, f, a, b)
        with t.case("silence"):
            silence(t, f, a, b, edu)
        with t.case("out of reach"):
            out_of_reach(t, f, a)
        t.equal(a.complaints(), [], "host a's kernel has no complaint")
        t.equal(b.complaints(), [], "host b's kernel has no complaint")


main()
