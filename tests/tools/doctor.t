#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend doctor: a host where all is well, and the same host with one thing wrong at a time.

    node 1: an NTB with a 4 GiB window and its link up, an NVMe disk 0000:03:00.0 to be lent
"""
import json
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import LENDER, Fake  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, NTB = "0000:03:00.0", "0000:01:00.0"
RELEASE = "7.2.12-test"
CONFIG = ("CONFIG_VFIO_MDEV=m\nCONFIG_INTEL_IOMMU=y\nCONFIG_VFIO_IOMMU_TYPE1=m\nCONFIG_NTB=m\n"
          "# CONFIG_IOMMUFD is not set\n")
LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n" \
         "Max locked memory         {0:<20} {0:<20} bytes\n"
BAR = "0x00000000fe000000 0x00000000fe003fff 0x0000000000140204\n"
NONE = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"


class Host(Fake):
    """All is well."""

    def __init__(self):
        super().__init__()
        self.config(CONFIG)
        self.file("osrelease", RELEASE + "\n", self.proc / "sys/kernel")
        self.file("cmdline", "root=/dev/vda intel_iommu=on quiet\n", self.proc)
        self.file("interrupts", " 24:  0 0 IR-PCI-MSI-0000:03:00.0 0-edge nvme0q0\n", self.proc)
        self.file("meminfo", "MemTotal:        2097152 kB\nMemFree: 1 kB\n", self.proc)
        self.file("limits", LIMITS.format("unlimited"), self.proc / "self")
        for name in ("dlend_ntb", "dlend_lender", "dlend_mdev", "ntb"):
            self.put(f"module/{name}")
        self.put("class/iommu/dmar0")
        self.files(self.put("kernel/mm/transparent_hugepage"), enabled="[always] madvise never")
        self.pci(NTB, driver="ntb_hw_amd", pclass="0x068000", group="1", vendor="0x1022", device="0x148b")
        self.pci(DISK, group="3")
        self.file("resource", BAR + 5 * NONE, self.device(DISK))
        self.file("reserved_regions", "0x00000000fee00000 0x00000000feefffff msi\n",
                  self.sys / "kernel/iommu_groups/3")
        self.ntb(NTB, "dlend_ntb")
        self.link_up()
        self.file("dlend.conf", "03:00.0\n", self.root / "etc")

    def config(self, text):
        self.file(f"config-{RELEASE}", text, self.root / "boot")

    def ntb(self, name, driver):
        dev = self.put(f"bus/ntb/devices/{name}")
        if (dev / "driver").is_symlink():
            (dev / "driver").unlink()
        if driver:
            (dev / "driver").symlink_to(f"../../drivers/{driver}")

    def link_up(self, **attributes):
        self.files(self.put(f"class/dlend_link/{NTB}"), **{"state": "up", "peer_node": "2", "window_bytes": str(4 << 30),
                                                           "aperture_bytes": str(4 << 30), "last_error": "",
                                                           **attributes})

    def doctor(self, words=""):
        r = self.run(f"--json doctor {words}")
        return r.code, json.loads(r.out)["checks"]


def expect(t, f, level, check, part, words=""):
    """Exactly that finding is there beyond OKs, with a remedy, and the exit code says so."""
    code, checks = f.doctor(words)
    bad = [c for c in checks if c["level"] != "OK"]
    here = [c for c in bad if (c["level"], c["check"]) == (level, check) and part in c["what"] and len(c["fix"]) > 8]
    t.ok(here and len(bad) == len(here) and code == (6 if level == "FAIL" else 0), f"{level} {check}: {part}",
         f"code {code}: {bad}")


def well(t):
    with Host() as f:
        code, checks = f.doctor("--strict")
        t.equal((code, [c for c in checks if c["level"] != "OK" or c["fix"]]), (0, []), "nothing to mend")
        names = {c["check"] for c in checks}
        t.ok({"kernel-mdev", "kernel-iommu", "kernel-vfio", "kernel-ntb", "modules", "node-id", "iommu", "memlock",
              "interrupt-remapping", "huge-pages", "ntb", "ntb-iommu", "link", "window", "device-iommu", "device-group",
              "device-reset",
              "device-reach"} <= names, "every check says that it was made", f"{names}")
        r = f.run("doctor")
        t.ok(r.code == 0 and r.out.splitlines()[-1].endswith(" OK, 0 WARN, 0 FAIL"), "as text", r.out)
        t.ok(all(line.startswith("OK    ") for line in r.out.splitlines()[:-1]), "  a line each")
        t.equal(f.writes, [], "it changes nothing")


def kernel(t):
    for option, check in (("CONFIG_VFIO_MDEV", "kernel-mdev"), ("CONFIG_INTEL_IOMMU", "kernel-iommu"),
                          ("CONFIG_VFIO_IOMMU_TYPE1", "kernel-vfio")):
        with Host() as f:
            f.config(CONFIG.replace(f"{option}=", f"# {option} was "))
            expect(t, f, "FAIL", check, option)
    with Host() as f:
        f.config(CONFIG.replace("CONFIG_NTB=m", "# CONFIG_NTB is not set"))
        t.equal([c["level"] for c in f.doctor()[1] if c["check"] == "kernel-ntb"], ["OK"], "CONFIG_NTB unset, drivers/ntb loaded")
        (f.sys / "module/ntb").rmdir()
        expect(t, f, "FAIL", "kernel-ntb", "CONFIG_NTB")
        f.file("ntb.ko", "", f.root / f"lib/modules/{RELEASE}/updates/dlend-ntb")
        t.equal(f.doctor("--strict")[0], 0, "  or built for this kernel")
    with Host() as f:
        os.unlink(f.root / f"boot/config-{RELEASE}")
        expect(t, f, "WARN", "kernel", RELEASE)
    for release, level, part in (("6.1.0-49-amd64", "FAIL", "kernel not supported: 6.1.0-49-amd64 is older than 6.12"),
                                 ("5.10.0-1-amd64", "FAIL", "kernel not supported: 5.10.0-1-amd64 is older than 6.12"),
                                 ("6.17.3+deb13-amd64", "WARN", "6.17.3+deb13-amd64 is not one that dlend is tested with (6.12, 7.2)"),
                                 ("6.120.1", "WARN", "6.120.1 is not one that dlend is tested with"),
                                 ("8.0.1-amd64", "WARN", "8.0.1-amd64 is not one that dlend is tested with")):
        with Host() as f:
            f.file("osrelease", release + "\n", f.proc / "sys/kernel")
            f.file(f"config-{release}", CONFIG, f.root / "boot")
            expect(t, f, level, "kernel-version", part)
    for release in ("6.12.57+deb13-amd64", "7.2-rc1"):
        with Host() as f:
            f.file("osrelease", release + "\n", f.proc / "sys/kernel")
            f.file(f"config-{release}", CONFIG, f.root / "boot")
            t.equal(f.doctor("--strict")[0], 0, f"{release} is supported")


def modules(t):
    for name, level in (("dlend_ntb", "FAIL"), ("dlend_lender", "WARN"), ("dlend_mdev", "WARN")):
        with Host() as f:
            (f.sys / "module" / name).rmdir()
            expect(t, f, level, "modules", f"{name} is not loaded")
    with Host() as f:
        t.equal([c["level"] for c in f.doctor()[1] if c["check"] == "modules" and "dlend_native" in c["what"]], ["OK"],
                "dlend_native is not loaded: not everybody needs it")
        t.ok(not [c for c in f.doctor()[1] if c["check"] == "secure-boot"], "no Secure Boot: nothing to say of it")
        variable = f.put("firmware/efi/efivars") / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
        variable.write_bytes(bytes([6, 0, 0, 0, 0]))
        t.ok(not [c for c in f.doctor()[1] if c["check"] == "secure-boot"], "Secure Boot is off: nor then")
        variable.write_bytes(bytes([6, 0, 0, 0, 1]))
        t.equal([c["level"] for c in f.doctor()[1] if c["check"] == "secure-boot"], ["OK"], "on, and the modules are loaded")
        shutil.rmtree(f.sys / "module/dlend_core")
        found = [c for c in f.doctor()[1] if c["check"] == "secure-boot"]
        t.ok(len(found) == 1 and found[0]["level"] == "WARN" and "mokutil --import" in found[0]["fix"], "on, and they are not", str(found))
    with Host() as f:
        f.files(f.sys / "module/dlend_core/parameters", node_id="0")
        expect(t, f, "FAIL", "node-id", "no node id")
        shutil.rmtree(f.sys / "module/dlend_core")
        bad = {(c["level"], c["check"]) for c in f.doctor()[1] if c["level"] != "OK"}
        t.equal(bad, {("FAIL", "modules"), ("FAIL", "node-id")}, "no dlend_core")


def signatures(t):
    """Secure Boot is on: are the drivers of links signed, whoever built them?"""
    with Host() as f:
        (f.put("firmware/efi/efivars") / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(bytes([6, 0, 0, 0, 1]))
        f.file("modinfo", '#!/bin/sh\nif grep -q broken "$3"; then exit 1; fi\n[ "$1 $2" = "-F signer" ] && sed -n "s/signed by //p" "$3"\n', f.root / "fakebin")
        (f.root / "fakebin/modinfo").chmod(0o755)
        updates = f.root / f"lib/modules/{RELEASE}/updates"

        def found():
            path = os.environ["PATH"]
            os.environ["PATH"] = f"{f.root / 'fakebin'}:{path}"
            checks = f.doctor()[1]
            os.environ["PATH"] = path
            return [(c["what"], c["fix"]) for c in checks if c["check"] == "secure-boot" and c["level"] == "WARN"]

        for name, text in (("ntb.ko.xz", "signed by DKMS"), ("ntb_hw_amd.ko.xz", ""), ("dlend_ntb.ko.xz", ""), ("switchtec.ko", ""), ("zfs.ko", "")):
            f.file(name, text + "\n", updates / "dkms")
        t.equal(found(), [], "they are loaded: nobody asks for signatures that were not needed")
        (f.sys / "module/dlend_ntb").rmdir()
        t.equal([what for what, _ in found()], ["on, and DKMS has not signed these drivers: dlend_ntb.ko.xz ntb_hw_amd.ko.xz switchtec.ko"],
                "not loaded: those that DKMS has not signed")
        t.ok("openssl" in found()[0][1], "  and what is missing for it")
        for name in ("ntb_hw_amd.ko.xz", "dlend_ntb.ko.xz", "switchtec.ko"):
            f.file(name, "signed by DKMS\n", updates / "dkms")
        t.equal(found(), [], "  signed")
        f.file("switchtec.ko", "broken\n", updates / "dkms")
        t.equal(found(), [], "  one that modinfo cannot read: nothing is claimed")
        for name, text in (("ntb.ko", "signed by me"), ("ntb_hw_amd.ko", ""), ("Module.symvers", "")):
            f.file(name, text + "\n", updates / "dlend-ntb")
        (what, fix), = found()
        t.ok(what == "on, and these drivers of dlend-build-ntb are not signed: ntb_hw_amd.ko" and "dlend-ntb-dkms" in fix and
             "sign-file sha256 /var/lib/dkms/mok.key /var/lib/dkms/mok.pub" in fix, "those of dlend-build-ntb, too, and how to sign them", f"{what}: {fix}")
        (f.sys / "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(bytes([6, 0, 0, 0, 0]))
        t.equal(found(), [], "  not signed, and Secure Boot is off")


def iommu(t):
    with Host() as f:
        (f.sys / "class/iommu/dmar0").rmdir()
        expect(t, f, "FAIL", "iommu", "off")
    for word in ("iommu=pt", "iommu.passthrough=1"):
        with Host() as f:
            f.file("cmdline", f"quiet {word}\n", f.proc)
            expect(t, f, "FAIL", "iommu", "translates nothing")
    with Host() as f:
        f.file("cmdline", "mem_encrypt=on\n", f.proc)
        expect(t, f, "WARN", "iommu-sme", "SME")
    with Host() as f:
        f.file("interrupts", " 24:  0 0 PCI-MSI-0000:03:00.0 0-edge nvme0q0\n", f.proc)
        expect(t, f, "FAIL", "interrupt-remapping", "off: links stay down, and no device of this host can be lent")
        f.file("allow_unsafe_interrupts", "Y\n", f.sys / "module/dlend_core/parameters")
        expect(t, f, "WARN", "interrupt-remapping", "off, and allowed all the same")
        os.unlink(f.proc / "interrupts")
        expect(t, f, "WARN", "interrupt-remapping", "cannot be read")


def memory(t):
    with Host() as f:
        f.file("limits", LIMITS.format("8388608"), f.proc / "self")
        expect(t, f, "WARN", "memlock", "8 MiB")
        f.file("limits", LIMITS.format(str(3 << 30)), f.proc / "self")
        t.equal(f.doctor("--strict")[0], 0, "a limit above all RAM")
        os.unlink(f.proc / "self/limits")
        expect(t, f, "WARN", "memlock", "not known")
    with Host() as f:
        f.files(f.sys / "kernel/mm/transparent_hugepage", enabled="always madvise [never]")
        expect(t, f, "WARN", "huge-pages", "off")


def ntb(t):
    with Host() as f:
        f.ntb(NTB, "ntb_transport")
        expect(t, f, "FAIL", "ntb", "used by ntb_transport")
        f.ntb(NTB, None)
        expect(t, f, "FAIL", "ntb", "no user")
    with Host() as f:
        shutil.rmtree(f.sys / "bus/ntb")
        expect(t, f, "FAIL", "ntb", "no NTB that Linux knows")
        os.unlink(f.device(NTB) / "driver")
        os.unlink(f.sys / "bus/pci/devices" / NTB)
        f.pci("0000:1d:00.0", driver="x", pclass="0x068000", vendor="0x111d", device="0x808c")
        expect(t, f, "FAIL", "ntb", "an NTB that dlend cannot use: IDT's has no scratchpads")
        os.unlink(f.sys / "bus/pci/devices/0000:1d:00.0")
        for vendor, device, module in (("0x1022", "0x148b", "ntb_hw_amd"), ("0x8086", "0x347e", "ntb_hw_intel"),
                                       ("0x11f8", "0x8561", "ntb_hw_switchtec")):
            bare = f.pci(f"0000:{vendor[-2:]}:00.0", driver=None, pclass="0x068000", vendor=vendor, device=device)
            expect(t, f, "FAIL", "ntb", "no driver has it")
            t.ok(any(module in c["fix"] for c in f.doctor()[1]), f"  modprobe {module}")
            os.unlink(f.sys / "bus/pci/devices" / bare.name)
    with Host() as f:
        f.files(f.sys / "kernel/iommu_groups/1", type="identity")
        expect(t, f, "FAIL", "ntb-iommu", "does not translate for")
        os.unlink(f.device(NTB) / "iommu_group")
        expect(t, f, "FAIL", "ntb-iommu", "in no IOMMU group")
    with Host() as f:
        f.pci("0000:00:01.0", group="1", pclass="0x060400", driver="pcieport")
        t.equal(f.doctor("--strict")[0], 0, "a port in the NTB's group is no obstacle")
        f.pci("0000:01:00.1", group="1", driver="ahci")
        expect(t, f, "FAIL", "ntb-group", "shares its IOMMU group with 0000:01:00.1, which ahci uses")


def families(t):
    """What some bridges need."""
    with Host() as f:
        f.files(f.device(NTB), vendor="0x8086", device="0x2f0d")
        expect(t, f, "FAIL", "ntb-errata", "dlend_ntb refuses it")
        f.file("allow_unsafe", "Y\n", f.sys / "module/dlend_ntb/parameters")
        expect(t, f, "WARN", "ntb-errata", "is allowed all the same")
        f.files(f.device(NTB), device="0x347e")
        t.equal(f.doctor("--strict")[0], 0, "later Xeons have not that fault")
    with Host() as f:
        f.files(f.device(NTB), vendor="0x11f8", device="0x8561")
        f.file("resource", BAR + NONE + "0x4000000000 0x407fffffff 0x14220c\n" + 3 * NONE, f.device(NTB))
        f.file("max_mw_size", f"{2 << 20}\n", f.sys / "module/ntb_hw_switchtec/parameters")
        expect(t, f, "FAIL", "ntb-window", "shows 2 MiB only of the window of 0000:01:00.0, 2 GiB")
        t.ok(any("max_mw_size=2147483648" in c["fix"] for c in f.doctor()[1]), "  and what to write where")
        f.file("max_mw_size", f"{2 << 30}\n", f.sys / "module/ntb_hw_switchtec/parameters")
        t.equal(f.doctor("--strict")[0], 0, "Switchtec's, all of the window")
        link = f.sys / f"class/dlend_link/{NTB}"
        f.files(link, requester_ids_free="3")
        told = [c["what"] for c in f.doctor("--strict")[1] if c["check"] == "requesters"]
        t.ok(len(told) == 1 and "room for 3 more requester ids" in told[0], "its table of requesters has room", str(told))
        f.files(link, requester_ids_free="0")
        expect(t, f, "FAIL", "requesters", "1 devices are to be lent, and the switch of 0000:01:00.0 has room for 0")
        f.unbind(DISK, "nvme")
        f.driver(LENDER)
        f.bind(DISK, LENDER)
        expect(t, f, "WARN", "requesters", "has room for 0 more requester ids")


def fixes(f, check, words=""):
    """What to do about each finding of a check."""
    return [c["fix"] for c in f.doctor(words)[1] if c["check"] == check and c["level"] != "OK"]


# Family: ids of its NTB, what to set if its window is too small, what to look at if no peer answers
SETTINGS = {"Intel": (("0x8086", "0x347e"), "IMBAR and EMBAR", "Crosslink Control Override"),
            "AMD": (("0x1022", "0x148b"), "NTB BARs", "primary"),
            "Switchtec": (("0x11f8", "0x8561"), "direct windows", "each of two partitions")}


def first_link(t):
    """What can be seen before a link was up for the first time."""
    half, whole = "0x4000000000 0x401fffffff 0x14220c\n", "0x4000000000 0x403fffffff 0x14220c\n"
    with Host() as f:
        f.file("resource", BAR + NONE + half + 3 * NONE, f.device(NTB))
        t.equal(f.doctor("--strict")[0], 0, "a link that was up says itself how large its window is")
        f.link_up(window_bytes="0", aperture_bytes="0")
        expect(t, f, "FAIL", "window", f"the largest BAR of {NTB} is 512 MiB, and its window no larger, which is too small for a guest of today")
        t.equal(f.doctor("--strict --guest 256M")[0], 0, "  but one that is small enough")
        expect(t, f, "FAIL", "window", "which cannot hold a guest of 1 GiB", "--guest 1G")
        shutil.rmtree(f.sys / "class/dlend_link")
        expect(t, f, "FAIL", "window", "too small for a guest of today")
        f.file("resource", whole + 5 * NONE, f.device(DISK))
        expect(t, f, "FAIL", "window", "which cannot hold the BARs of the devices to lend (1 GiB)", "--guest 256M")
        f.file("resource", BAR + 5 * NONE, f.device(DISK))
        f.file("resource", BAR + NONE + whole + 3 * NONE, f.device(NTB))
        t.equal(f.doctor("--strict")[0], 0, "1 GiB is enough to begin with")
        f.ntb(NTB, None)
        os.unlink(f.device(NTB) / "driver")
        shutil.rmtree(f.sys / "bus/ntb")
        f.file("resource", BAR + NONE + half + 3 * NONE, f.device(NTB))
        what = [c["what"] for c in f.doctor()[1] if c["check"] == "window"]
        t.ok(len(what) == 1 and "512 MiB" in what[0], "an NTB without a driver has a BAR, too", str(what))
    for family, ((vendor, device), window, peer) in SETTINGS.items():
        with Host() as f:
            f.files(f.device(NTB), vendor=vendor, device=device)
            f.file("resource", BAR + NONE + half + 3 * NONE, f.device(NTB))
            f.link_up(state="hello", window_bytes="0", aperture_bytes="0")
            t.ok(any(window in fix for fix in fixes(f, "window")), f"{family}: which setting makes the window larger", str(fixes(f, "window")))
            t.ok(any(peer in fix for fix in fixes(f, "link")), "  and what to look at if there is no peer", str(fixes(f, "link")))
            f.link_up(aperture_bytes=1 << 29)
            t.ok(any(window in fix for fix in fixes(f, "window")), "  the same once the link is up", str(fixes(f, "window")))
            shutil.rmtree(f.sys / "bus/ntb")
            os.unlink(f.sys / "bus/pci/devices" / NTB)
            t.ok(any(family in fix for fix in fixes(f, "ntb")), "  and what to turn on if there is no NTB", str(fixes(f, "ntb")))


def refused(t):
    """An NTB that dlend_ntb, which is loaded, does not take."""
    with Host() as f:
        f.ntb(NTB, None)
        expect(t, f, "FAIL", "ntb", "no user")
        t.ok("dmesg" in fixes(f, "ntb")[0] and "modprobe" not in fixes(f, "ntb")[0], "its log says why", str(fixes(f, "ntb")))
        t.ok("crosslink" not in fixes(f, "ntb")[0], "  AMD's has no crosslinks")
        f.files(f.device(NTB), vendor="0x11f8", device="0x8561")
        expect(t, f, "FAIL", "ntb", "no user")
        t.ok("a crosslink of two switches" in fixes(f, "ntb")[0], "  Switchtec's has, and they are named", str(fixes(f, "ntb")))
        (f.sys / "module/dlend_ntb").rmdir()
        t.equal(fixes(f, "ntb"), ["modprobe dlend_ntb"], "if dlend_ntb is not loaded, that is what to do")


def no_snoop(t):
    """Requests that bypass caches."""
    with Host() as f:
        f.files(f.sys / "class/iommu/dmar0/intel-iommu", ecap="f020df")
        f.files(f.put("class/iommu/ivhd0/amd-iommu"), cap="0")
        t.equal(f.doctor("--strict")[0], 0, "an IOMMU with snoop control")
        f.files(f.put("class/iommu/dmar1/intel-iommu"), ecap="f0205f")
        expect(t, f, "WARN", "no-snoop", "dmar1 has no snoop control")
    with Host() as f:
        pf = f.pci("0000:03:00.1", group="5")
        (f.device(DISK) / "config").write_bytes(capabilities(256, False, True))
        t.equal(f.doctor("--strict")[0], 0, "a device that asks for it: dlend turns that off")
        (f.device(DISK) / "config").write_bytes(capabilities(256, False))
        (f.device(DISK) / "physfn").symlink_to(os.path.relpath(pf, f.device(DISK)))
        (pf / "config").write_bytes(capabilities(256, False))
        t.equal(f.doctor("--strict")[0], 0, "a virtual function whose physical one does not ask")
        (pf / "config").write_bytes(capabilities(256, False, True))
        expect(t, f, "WARN", "no-snoop", f"{DISK} may bypass caches (No Snoop), as its physical function 0000:03:00.1 may")
        t.ok("setpci -s 0000:03:00.1 CAP_EXP+8.w=0:800" in fixes(f, "no-snoop")[0], "  with the command", str(fixes(f, "no-snoop")))


def capabilities(payload, ats, no_snoop=False):
    """Configuration space of a function that sends so many bytes at once, with ATS, with No Snoop allowed (True or False)."""
    space = bytearray(4096)
    space[0x06] = 0x10                                      # there is a list of capabilities
    space[0x34] = 0x40
    space[0x40:0x42] = 0x10, 0                              # PCI Express
    space[0x48] = (payload // 128).bit_length() - 1 << 5    # Device Control
    space[0x49] = 0x08 if no_snoop else 0
    space[0x100:0x104] = (0x0f | 1 << 16).to_bytes(4, "little")
    space[0x107] = 0x80 if ats else 0
    return bytes(space)


def reach(t):
    """From a device to the NTB."""
    def move(f, bdf, bridge):
        """To below another host bridge."""
        where = f.sys / "devices" / bridge / bdf
        where.parent.mkdir(exist_ok=True)
        shutil.move(f.device(bdf), where)
        (f.sys / f"bus/pci/devices/{bdf}").unlink()
        f.link(f"bus/pci/devices/{bdf}", where)
        return where

    with Host() as f:
        (f.device(DISK) / "config").write_bytes(capabilities(256, False))
        (f.device(NTB) / "config").write_bytes(capabilities(256, False))
        t.equal(f.doctor("--strict")[0], 0, "packets of one size")
        (f.device(DISK) / "config").write_bytes(capabilities(512, False))
        expect(t, f, "WARN", "device-payload", "sends up to 512 bytes in a packet, and the NTB 0000:01:00.0 takes 256")
        (f.device(DISK) / "config").write_bytes(capabilities(128, True))
        expect(t, f, "FAIL", "device-ats", "translates addresses by itself (ATS), and is not lent")
        f.file("allow_ats", "Y\n", f.sys / "module/dlend_lender/parameters")
        expect(t, f, "WARN", "device-ats", "translates addresses by itself (ATS); allow_ats trusts it")
        (f.device(DISK) / "config").write_bytes(capabilities(512, True)[:64])
        t.equal(f.doctor("--strict")[0], 0, "not root: of what cannot be read nothing is said")
    with Host() as f:
        where = move(f, DISK, "pci0000:80")
        expect(t, f, "WARN", "device-reach", "below host bridge 0000:80, the NTB 0000:01:00.0 below 0000:00")
        f.files(where, numa_node="1")
        f.files(f.device(NTB), numa_node="0")
        expect(t, f, "WARN", "device-reach", "is at NUMA node 1, the NTB 0000:01:00.0 at node 0")
        f.files(f.device(NTB), numa_node="1")
        expect(t, f, "WARN", "device-reach", "below host bridge")
        f.files(where / "dlend", root="0000:80 1 256 2")
        f.files(f.sys / "class/dlend_link" / NTB, root="0000:00 1 256 3")
        expect(t, f, "WARN", "device-reach", "below host bridge")
        f.files(f.sys / "class/dlend_link" / NTB, root="0000:00 1 256 2")
        t.equal(f.doctor("--strict")[0], 0, "  unless the kernel, or the administrator, allows the way between them")
    with Host() as f:
        f.link_up()
        f.offer("d0002:3b:00.0", root="0000:00 0 256 1")
        f.file("ntb_roots", "2 1 0000:00 0 256 1\n", f.sys / "bus/dlend")
        t.equal(f.doctor("--strict")[0], 0, "a device of a peer, below the host bridge of its NTB")
        f.file("ntb_roots", "2 1 0000:40 0 128 1\n", f.sys / "bus/dlend")
        expect(t, f, "WARN", "device-payload", "d0002:3b:00.0 sends up to 256 bytes in a packet, and its node's NTB takes 128")
        f.file("ntb_roots", "2 1 0000:40 0 256 0\n", f.sys / "bus/dlend")
        expect(t, f, "WARN", "device-reach", "d0002:3b:00.0 is below host bridge 0000:00 of node 2, its NTB to here below 0000:40")
        f.file("ntb_roots", "2 1 0000:40 0 256 1\n", f.sys / "bus/dlend")
        f.files(f.sys / "class/dlend_link" / NTB, root="0000:00 0 128 1")
        expect(t, f, "WARN", "link-payload", "node 2 sends up to 256 bytes in a packet over link 0000:01:00.0, and this end takes 128")


def links(t):
    with Host() as f:
        f.link_up(state="hello", last_error="peer speaks version 9")
        expect(t, f, "WARN", "link", "peer speaks version 9")
        f.link_up(state="down")
        expect(t, f, "WARN", "link", f"{NTB} is down: it has heard of no peer yet")
    with Host() as f:
        f.link_up(direct_interrupts="off")
        why = "this host has too few vectors"
        f.offer("d0002:3b:00.0", interrupts=f"doorbell: {why}", link=NTB)
        f.offer("d0002:3c:00.0", interrupts="none", link=NTB)
        f.offer("d0003:3b:00.0", interrupts=f"doorbell: {why}", link="0000:02:00.0")
        t.equal(f.doctor("--strict")[0], 0, "a device has the doorbell, and its link is to have no direct interrupts")
        f.link_up(direct_interrupts="on")
        expect(t, f, "WARN", "interrupts", f"those of d0002:3b:00.0 come through its lender's doorbell: {why}")
        f.files(f.put("devices/dlend/d0002:3b:00.0"), interrupts="direct")
        code, checks = f.doctor("--strict")
        said = [c["what"] for c in checks if c["check"] == "interrupts"]
        t.equal((code, said), (0, ["those of d0002:3b:00.0 come directly"]), "  unless they come directly")
    with Host() as f:
        for size in ("x", "", "-1", "0", "5X", "1.5G"):
            t.equal(f.run(["doctor", "--guest", size]).code, 2, f"--guest {size!r}")


def windows(t):
    """What comes in (aperture_bytes): BARs that are lent, guests here.  What goes out (window_bytes): guests there."""
    gib = 1 << 30
    large = "0x4000000000 0x407fffffff 0x14220c\n" + 5 * NONE
    here, there = "(aperture_bytes), which cannot hold", "(window_bytes), which cannot hold"
    with Host() as f:
        f.link_up(aperture_bytes=gib)
        expect(t, f, "WARN", "window", "1 GiB here through 0000:01:00.0 (aperture_bytes), this host's RAM is 2 GiB")
        f.link_up(aperture_bytes=gib // 2)
        expect(t, f, "FAIL", "window", "512 MiB here through 0000:01:00.0 (aperture_bytes), which is too small for a guest of today")
        t.equal(f.doctor("--strict --guest 256M")[0], 0, "a small guest does")
        f.link_up(aperture_bytes=gib)
        t.equal(f.doctor("--strict --guest 512M")[0], 0, "a guest that fits both ways")
        expect(t, f, "FAIL", "window", f"{here} a guest of 1 GiB on this host", "--guest 1G")
        f.file("resource", large, f.device(DISK))
        expect(t, f, "FAIL", "window", f"{here} the BARs of the devices to lend (2 GiB)", "--guest 512M")
    with Host() as f:
        f.link_up(window_bytes=gib)
        f.file("resource", large, f.device(DISK))
        t.equal(f.doctor("--strict")[0], 0, "a small window_bytes says nothing of BARs, nor of guests here")
        expect(t, f, "FAIL", "window", f"{there} a guest of 1 GiB there", "--guest 1G")
        f.link_up(window_bytes=gib // 2)
        f.file("resource", BAR + 5 * NONE, f.device(DISK))
        expect(t, f, "FAIL", "window", "512 MiB of the peer through 0000:01:00.0 (window_bytes), which is too small for a guest of today")
        t.equal(f.doctor("--strict --guest 256M")[0], 0, "a small guest does")
        f.link_up(window_bytes=gib, aperture_bytes=gib)
        f.file("resource", BAR + 5 * NONE, f.device(DISK))
        bad = [c["what"] for c in f.doctor("--guest 1G")[1] if c["level"] == "FAIL"]
        t.ok(len(bad) == 2 and here in bad[0] and there in bad[1], "too small both ways: both are said", f"{bad}")


def roles(t):
    """What does not fit is a failure where this host does it, and a warning where it may do so some time."""
    def levels(f, words):
        return [c["level"] for c in f.doctor(words)[1] if c["check"] == "window"]

    small, tiny = str(1 << 30), str(1 << 29)
    with Host() as f:
        (f.sys / "module/dlend_mdev").rmdir()
        f.link_up(aperture_bytes=small)
        t.equal((levels(f, ""), levels(f, "--guest 1G")), (["OK", "OK"], ["WARN", "OK"]), "it lends: a guest here")
        f.link_up(window_bytes=small)
        t.equal(levels(f, "--guest 1G"), ["OK", "FAIL"], "  a guest there")
        f.link_up(window_bytes=tiny)
        t.equal(levels(f, ""), ["OK", "FAIL"], "  any guest there")
        f.link_up(aperture_bytes=tiny)
        t.equal(levels(f, ""), ["OK", "OK"], "  a guest here is none of its business")
    with Host() as f:
        (f.sys / "module/dlend_lender").rmdir()
        f.link_up(window_bytes=small)
        t.equal(levels(f, "--guest 1G"), ["OK", "FAIL"], "what stands in dlend.conf will be lent")
        f.file("dlend.conf", "", f.root / "etc")
        t.equal(levels(f, "--guest 1G"), ["OK", "WARN"], "it borrows: a guest there")
        f.link_up(window_bytes=tiny)
        t.equal(levels(f, ""), ["OK", "OK"], "  by a small window a guest here reaches BARs")
        f.link_up(aperture_bytes=small)
        t.equal(levels(f, "--guest 1G"), ["FAIL", "OK"], "  a guest here")
        (f.sys / "module/dlend_mdev").rmdir()
        f.link_up(aperture_bytes=small, window_bytes=small)
        t.equal(levels(f, "--guest 1G"), ["FAIL", "FAIL"], "nothing is known: both")


def shared_reset(t):
    """A function without a reset of its own, and what is on its bus."""
    with Host() as f:
        def says():
            return [(c["level"], c["what"]) for c in f.doctor("05:00.0")[1] if c["check"] == "device-reset"]
        f.behind = {"0000:05:00.0": "0000:00:10.0", "0000:05:00.1": "0000:00:10.0"}
        f.pci("0000:05:00.0", group="9", reset="", driver=None)
        t.ok(says()[0][0] == "FAIL" and "cannot be reset" in says()[0][1], "no reset, and alone on its bus", str(says()))
        f.pci("0000:05:00.1", group="9", reset="", pclass="0x040300", driver=None)
        t.equal(says(), [("WARN", "0000:05:00.0 has no reset of its own: it is reset with 0000:05:00.1, by their bus")],
                "beside another of its group")
        f.files(f.device("0000:05:00.0"), reset_method="bus")
        t.ok("it is reset with 0000:05:00.1" in says()[0][1], "  also if the kernel lists its bus: it was alone when it was found",
             str(says()))
        f.files(f.device("0000:05:00.0"), reset_method="pm bus")
        t.ok("only: pm bus" in says()[0][1], "  not if it has another one", str(says()))
        f.files(f.device("0000:05:00.0"), reset_method="")
        (f.sys / "kernel/iommu_groups/9/devices/0000:05:00.1").unlink()
        t.ok(says()[0][0] == "FAIL" and "which 0000:05:00.1 of another group shares" in says()[0][1], "beside another one",
             str(says()))


def devices(t):
    with Host() as f:
        f.files(f.device(DISK), reset_method="")
        expect(t, f, "FAIL", "device-reset", "cannot be reset")
        f.files(f.device(DISK), reset_method="bus")
        expect(t, f, "WARN", "device-reset", "only: bus")
        f.files(f.device(DISK), reset_method="pm")
        expect(t, f, "WARN", "device-reset", "only: pm")
        t.equal(f.doctor("--strict")[0], 6, "--strict minds a warning")
    with Host() as f:
        f.pci("0000:03:00.1", group="3", pclass="0x040300", driver=None)
        expect(t, f, "WARN", "device-group", "0000:03:00.1")
    with Host() as f:
        f.files(f.sys / "kernel/iommu_groups/3", type="identity")
        expect(t, f, "FAIL", "device-iommu", "identity")
        os.unlink(f.device(DISK) / "iommu_group")
        expect(t, f, "FAIL", "device-iommu", "in no IOMMU group")
    with Host() as f:
        where = f.sys / "kernel/iommu_groups/3"
        f.file("reserved_regions", "0x00000000000e0000 0x00000000000fffff direct-relaxable\n", where)
        t.equal(f.doctor("--strict")[0], 0, "memory that firmware gives up is no obstacle")
        f.file("reserved_regions", "0x00000000000e0000 0x00000000000fffff direct\n", where)
        expect(t, f, "FAIL", "device-rmrr", "RMRR")
        f.file("reserved_regions", "0x000000fd00000000 0x000000ffffffffff reserved\n", where)
        t.equal(f.doctor("--strict")[0], 0, "what AMD's IOMMU keeps on every host is no obstacle")
        f.file("reserved_regions", "0x0000000020000000 0x0000000020ffffff reserved\n", where)
        expect(t, f, "WARN", "device-reserved", "0x20000000-0x20ffffff")
    with Host() as f:
        f.files(f.device(DISK), sriov_numvfs="2")
        expect(t, f, "FAIL", "device-sriov", "2 virtual functions")
    with Host() as f:
        f.files(f.device(DISK), **{"class": "0x060400"})
        code, checks = f.doctor("03:00.0")
        t.ok(code == 6 and any(c["check"] == "device-kind" and c["level"] == "FAIL" for c in checks), "FAIL device-kind: a bridge")
    with Host() as f:
        for line, level, part in (("0xc000 0xc01f 0x40101\n", "WARN", "I/O ports"),
                                  ("0x0 0xffff 0x14020c\n", "FAIL", "no place"),
                                  ("0xfe000100 0xfe0001ff 0x40200\n", "WARN", "shares its page")):
            f.file("resource", line + BAR + 4 * NONE, f.device(DISK))
            expect(t, f, level, "device-bars", part)
        f.file("resource", "0xfe001000 0xfe0010ff 0x40200\n" + 5 * NONE, f.device(DISK))
        t.equal(f.doctor("--strict")[0], 0, "a small BAR with a page of its own")
    with Host() as f:
        expect(t, f, "FAIL", "device", "not there", "09:00.0")
        f.pci("0001:03:00.0", group="9")
        expect(t, f, "WARN", "device-domain", "domain 0", "0001:03:00.0")
        t.equal(f.run("doctor xx").code, 2, "a device that is no address")
    with Host() as f:
        f.file("dlend.conf", "nonsense\n", f.root / "etc")
        expect(t, f, "FAIL", "config", "line 1")
        os.unlink(f.root / "etc/dlend.conf")
        t.equal(f.doctor("--strict")[0], 0, "no dlend.conf, nothing lent: no device is looked at")
        f.run("lend 03:00.0")
        t.ok(any(DISK in c["what"] for c in f.doctor()[1]), "  one that is lent is")


def desert(t):
    with Fake(node=None, lender=False) as f:
        shutil.rmtree(f.sys)
        shutil.rmtree(f.proc)
        r = f.run("doctor")
        t.ok(r.code == 6 and "FAIL" in r.out and "0 FAIL" not in r.out, "nothing there at all", r.out + r.err)


with Tap() as tap:
    for part in (well, kernel, modules, signatures, iommu, memory, ntb, families, first_link, refused, no_snoop, reach, links, windows, roles, devices, shared_reset, desert):
        tap.diag(part.__name__)
        part(tap)
