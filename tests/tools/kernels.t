#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Which kernels the modules are for: what the headers of one have is asked for, not its version.

    fake headers -- include/dlend/probe -- Kbuild's flags -- include/dlend/compat.h, as the compiler's first pass leaves it
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import TOP  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

COMPAT = TOP / "include/dlend/compat.h"
PROBE = TOP / "include/dlend/probe"
DKMS = TOP / "debian/dlend-dkms.dkms"

# Each header as 6.12.95 of Debian 12's backports has it, and as 7.2.12 has it
HEADERS = {
    "module.h": ("#define MODULE_IMPORT_NS(ns)\tMODULE_INFO(import_ns, __stringify(ns))",
                 "#define MODULE_IMPORT_NS(ns)\tMODULE_INFO(import_ns, ns)"),
    "ntb.h": ("struct ntb_dev;", "static inline struct device *ntb_get_dma_dev(struct ntb_dev *ntb)\n{\n}"),
    "pfn_t.h": ("typedef struct { u64 val; } pfn_t;", None),
    "vfio.h": ("struct vfio_device_ops {\n};", "struct vfio_device_ops {\n\tint\t(*get_region_info_caps)(struct vfio_device *vdev,\n"
               "\t\t\t\t\tstruct vfio_region_info *info);\n};"),
    "irqbypass.h": ("/* a shared token (ex. eventfd_ctx) */\nint irq_bypass_register_producer(struct irq_bypass_producer *);",
                    "int irq_bypass_register_producer(struct irq_bypass_producer *producer,\n\t\t\t\t struct eventfd_ctx *eventfd, int irq);"),
    "msi.h": ("struct irq_domain;", "struct irq_domain *msi_create_parent_irq_domain(struct irq_domain_info *info);"),
    "iommu.h": ("struct iommu_domain {\n\tunsigned long pgsize_bitmap;\n};\nstruct iommu_ops {\n\tunsigned long pgsize_bitmap;\n};\n"
                "struct iommu_domain_ops {\n\tint (*attach_dev)(struct iommu_domain *domain, struct device *dev);\n"
                "\tint (*set_dev_pasid)(struct iommu_domain *domain, struct device *dev,\n\t\t\t     ioasid_t pasid, struct iommu_domain *old);\n};",
                "struct iommu_domain {\n\tunsigned long pgsize_bitmap;\n};\nstruct iommu_ops {\n\tbool x;\n};\n"
                "struct iommu_domain_ops {\n\tint (*attach_dev)(struct iommu_domain *domain, struct device *dev,\n\t\t\t  struct iommu_domain *old);\n};"),
    "generic_pt/iommu.h": (None, "struct pt_iommu;"),
}
# The feature, the header that shows it, and what compat.h makes of it: the old way, the new one
FEATURES = {
    "NS_STRINGS": ("module.h", "DLEND_EXPORT(x)", "EXPORT_SYMBOL_NS_GPL(x, DLEND)", 'EXPORT_SYMBOL_NS_GPL(x, "DLEND")'),
    "NTB_DMA_DEV": ("ntb.h", "dlend_ntb_dma_dev(n)", "(&(n)->pdev->dev)", "ntb_get_dma_dev(n)"),
    "PFN_T": ("pfn_t.h", "dlend_compat_pfn(p)", "__pfn_to_pfn_t(p, PFN_DEV)", "(p)"),
    "REGION_INFO_CAPS": ("vfio.h", "DLEND_REGION_INFO_OP(f)", "", ".get_region_info_caps = f,"),
    "PRODUCER_EVENTFD": ("irqbypass.h", None, "irq_bypass_register_producer(producer);", "irq_bypass_register_producer(producer, eventfd, irq);"),
    "MSI_PARENT_DOMAIN": ("msi.h", None, "irq_domain_create_hierarchy(", "msi_create_parent_irq_domain(&info"),
    "ATTACH_DEV_OLD": ("iommu.h", "DLEND_ATTACH_DEV_ARGS", "struct iommu_domain *domain, struct device *dev",
                       "struct iommu_domain *domain, struct device *dev, struct iommu_domain *old"),
    "OPS_PGSIZES": ("iommu.h", "DLEND_IOMMU_OPS_PGSIZE(s)", ".pgsize_bitmap = (s),", ""),
    "GENERIC_PT": ("generic_pt/iommu.h", "DLEND_TABLES_STAY", "true", "false"),
}
GONE = {"PFN_T", "OPS_PGSIZES"}      # what newer kernels no longer have
# What a later 6.12 has, 6.12.95 of Debian 12's backports has not, and no probe looks for
LATER = {"secs_to_jiffies"}


class Kernel:
    """Headers of one that calls itself @version: new are those in @new, else old."""

    def __init__(self, version, new=()):
        self.version = version
        self.folder = tempfile.TemporaryDirectory(prefix="dlend-kernel-")
        self.path = Path(self.folder.name)
        for name, texts in HEADERS.items():
            self.header(name, texts[name in new])
        for name in ("export.h", "slab.h", "mm.h", "irqdomain.h"):
            self.header(name, "")
        major, minor = version.split(".")[:2]
        self.header("version.h", f"#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))\n"
                    f"#define LINUX_VERSION_CODE KERNEL_VERSION({major}, {minor}, 0)\n")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.folder.cleanup()

    def header(self, name, text):
        file = self.path / "include/linux" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            file.write_text(text + "\n")

    def kbuild(self, text):
        """What make says of @text, in which Kbuild's variables are."""
        return subprocess.run(["make", "-f", "-", f"KERNELVERSION={self.version}", f"srctree={self.path}", f"src={TOP}"], cwd=TOP,
                              input=f"include Kbuild\nall: ; @echo '{text}'\n", capture_output=True, text=True, check=False)

    def features(self):
        return {flag.removeprefix("-DDLEND_HAVE_") for flag in self.kbuild("$(ccflags-y)").stdout.split() if "DLEND_HAVE" in flag}

    def seen(self, words):
        """compat.h and @words after the compiler's first pass, with single blanks."""
        flags = self.kbuild("$(ccflags-y)").stdout.split()
        source = "#include <dlend/compat.h>\n" + "".join(f"{word} @{number}\n" for number, word in enumerate(words))
        r = subprocess.run(["gcc", "-E", "-P", "-nostdinc", f"-I{self.path}/include", *flags, "-xc", "-"], input=source,
                           capture_output=True, text=True, check=True)
        return " ".join(r.stdout.split())


def bridges(t, kernel, newer, what):
    """compat.h has for @kernel the new way of the features in @newer, and the old one of the others."""
    words = [words for _, words, _, _ in FEATURES.values() if words]
    seen = kernel.seen(words)
    wrong = []
    for name, (_, word, *ways) in FEATURES.items():
        way = ways[name in newer]
        at = f"{way} @{words.index(word)}" if word else way
        if " ".join(at.split()) not in seen:
            wrong.append(f"{name}: not \"{way}\"")
    t.equal(wrong, [], what)


def features(t):
    changed = {name: {feature for feature, row in FEATURES.items() if row[0] == name} for name in HEADERS}
    with Kernel("6.12.95") as kernel:
        t.equal(kernel.features(), GONE, "headers of 6.12.95")
        bridges(t, kernel, (), "  the bridges are those for it")
    with Kernel("7.2.12", HEADERS) as kernel:
        t.equal(kernel.features(), set(FEATURES) - GONE, "headers of 7.2.12")
        bridges(t, kernel, FEATURES, "  no bridge is needed")
    for name in HEADERS:
        with Kernel("6.12.117", [name]) as kernel:
            t.equal(kernel.features(), GONE ^ changed[name], f"a 6.12 into which a distribution took the {name} of 7.2")
            bridges(t, kernel, changed[name], "  has what the header has, and no more")
    used = set(re.findall(r"\bDLEND_HAVE_(\w+)", COMPAT.read_text())) - {""}
    probed = set(re.findall(r"^has(?:_header)? (\w+)\t", PROBE.read_text(), re.M)) if PROBE.exists() else set()
    t.equal((used, probed), (set(FEATURES), set(FEATURES)), "each feature that is probed is used, and the other way round")
    t.equal(COMPAT.read_text().count("LINUX_VERSION_CODE"), 1, "one version is compared, and why is said there")
    with Kernel("7.2.12", HEADERS) as kernel:
        (kernel.path / "include/linux/msi.h").unlink()
        t.ok("msi.h" in kernel.kbuild("$(ccflags-y)").stderr, "a header that is nowhere is told")


def later(t):
    folders = subprocess.run([TOP / "tests/module-folders"], capture_output=True, text=True, check=True).stdout.split()
    files = [file for folder in (*folders, "include/dlend") for file in (TOP / folder).glob("*.[ch]")]
    found = [f"{file.relative_to(TOP)}: {word}" for file in files for word in LATER if re.search(rf"\b{word}\b", file.read_text())]
    t.equal(found, [], f"none of {len(files)} files uses what the first 6.12 had not")


def versions(t):
    """Kernels that are too old: the build, DKMS and doctor say so, and mean the same ones."""
    for version in ("6.1.158", "6.11.11", "5.10"):
        with Kernel(version) as kernel:
            r = kernel.kbuild("x")
            t.ok(r.returncode and f"dlend needs Linux 6.12 or later, and this is {version}" in r.stderr, f"make on {version} says why it does not build",
                 r.stdout + r.stderr)
    for version in ("6.12.117", "6.12", "7.2.12", "10.0"):
        with Kernel(version) as kernel:
            r = kernel.kbuild("$(obj-m)")
            t.ok(not r.returncode and "dlend_core.o" in r.stdout, f"  and builds on {version}", r.stderr)


def dkms(t):
    def asked(release):
        """What DKMS makes of it: is this kernel for us, and what is said."""
        r = subprocess.run(["bash", "-c", f'. {DKMS}; [[ $kernelver =~ $BUILD_EXCLUSIVE_KERNEL ]] && echo yes'], capture_output=True, text=True,
                           check=False, env={**os.environ, "kernelver": release, "kernel_source_dir": "/none"})
        return r.stdout.strip(), r.stderr

    for release in ("6.12.57+deb13-amd64", "6.12.0-rc1", "6.13-amd64", "6.19.1", "6.120.1", "7.0.1", "7.3.4+deb13-amd64", "10.1.0-x", "12.0.1"):
        t.equal(asked(release), ("yes", ""), f"DKMS builds for {release}, without a word")
    for release in ("6.1.0-49-amd64", "6.11.11", "6.9.1", "5.10.0", "2.6.32"):
        t.equal(asked(release), ("", f"dlend: no modules for {release}: they need Linux 6.12 or later\n"), f"  it says why not for {release}")
    t.equal(asked("")[1], "", "  and nothing where no kernel is meant")


with Tap() as tap:
    for part in (features, later, versions, dkms):
        tap.diag(part.__name__)
        part(tap)
