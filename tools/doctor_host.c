// SPDX-License-Identifier: GPL-2.0-only
/* dlend doctor: the kernel, modules, IOMMU and memory of this host.  Knows no NTB, no devices. */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

static const char *kernel_release(void)
{
	const char *release = read_line(text("%s/sys/kernel/osrelease", opt.procfs));

	return release ? release : "";
}

/* Is @option y or m? */
static bool has_option(const char *config, const char *option)
{
	const char *at = config;
	size_t len = strlen(option);

	while ((at = strstr(at, option))) {
		if ((at == config || at[-1] == '\n') && (!strncmp(at + len, "=y", 2) ||
							 !strncmp(at + len, "=m", 2)))
			return true;
		at += len;
	}
	return false;
}

/* Where DKMS (dlend-ntb-dkms), dlend-build-ntb and the kernel itself put modules. */
static bool has_ntb_module(void)
{
	static const char *const places[] = {
		"updates/dkms", "updates/dlend-ntb", "updates", "extra", "kernel/drivers/ntb"
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct names n = list_dir(text("%s/%s/%s", opt.modules, kernel_release(),
					       places[i]));

		for (size_t k = 0; k < n.count; k++)
			if (!strncmp(n.name[k], "ntb.ko", 6))
				return true;
	}
	return false;
}

/* One of two options is enough. */
static const struct {
	const char *check, *option[2], *with, *without, *todo;
} needed[] = {
	{ "kernel-mdev", { "CONFIG_VFIO_MDEV", "CONFIG_VFIO_MDEV" },
	  "the kernel has mediated devices",
	  "the kernel has no mediated devices (CONFIG_VFIO_MDEV)",
	  "This host can lend, but not borrow: use a kernel that has them, such as Debian's" },
	{ "kernel-iommu", { "CONFIG_INTEL_IOMMU", "CONFIG_AMD_IOMMU" },
	  "the kernel drives x86 IOMMUs",
	  "the kernel drives no x86 IOMMU (CONFIG_INTEL_IOMMU, CONFIG_AMD_IOMMU)",
	  "Use a kernel that does, such as Debian's" },
	{ "kernel-vfio", { "CONFIG_VFIO_IOMMU_TYPE1", "CONFIG_IOMMUFD" }, "VMMs can use VFIO",
	  "VMMs cannot map memory for devices (CONFIG_VFIO_IOMMU_TYPE1, CONFIG_IOMMUFD)",
	  "Use a kernel that has one of them, such as Debian's" },
};

static void check_kernel_options(const char *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (has_option(config, needed[i].option[0]) ||
		    has_option(config, needed[i].option[1]))
			finding(LEVEL_OK, needed[i].check, needed[i].with, NULL);
		else
			finding(LEVEL_FAIL, needed[i].check, needed[i].without, needed[i].todo);
	if (has_option(config, "CONFIG_NTB"))
		finding(LEVEL_OK, "kernel-ntb", "the kernel has drivers for NTBs", NULL);
	else if (is_loaded("ntb") || has_ntb_module())
		finding(LEVEL_OK, "kernel-ntb",
			"the kernel is built without NTBs, but drivers/ntb was built for it",
			NULL);
	else
		finding(LEVEL_FAIL, "kernel-ntb", "the kernel is built without NTBs (CONFIG_NTB)",
			"Install dlend-ntb-dkms, which builds drivers/ntb for each kernel, or build it for this one: dlend-build-ntb");
}

/* Those on which dlend was run, the oldest first.  The modules are built for newer ones, too. */
static const struct {
	int major, minor;
} run_on[] = {
	{ 6, 12 }, { 7, 2 }
};

static void check_kernel_version(void)
{
	const char *release = kernel_release();
	char *end;
	long major = strtol(release, &end, 10), minor = *end ? strtol(end + 1, NULL, 10) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(run_on); i++) {
		if (major == run_on[i].major && minor == run_on[i].minor) {
			finding(LEVEL_OK, "kernel-version",
				text("the kernel %s is supported", release), NULL);
			return;
		}
	}
	if (major < run_on[0].major ||
	    (major == run_on[0].major && minor < run_on[0].minor))
		finding(LEVEL_FAIL, "kernel-version",
			text("kernel not supported: %s is older than 6.12", release),
			"Use Debian 13's kernel, or that of Debian 12's backports");
	else
		finding(LEVEL_WARN, "kernel-version",
			text("the kernel %s is not one that dlend is tested with (6.12, 7.2)",
			     release),
			"Try it: DKMS builds the modules for it. If they do not build or do not work, use one of these kernels");
}

void doctor_kernel(void)
{
	char *file = text("%s/config-%s", opt.boot, kernel_release());
	char *config = read_all(file);

	check_kernel_version();
	if (config)
		check_kernel_options(config);
	else
		finding(LEVEL_WARN, "kernel",
			text("how the kernel %s was configured is not known", kernel_release()),
			text("%s is not there: look for VFIO_MDEV, NTB, the IOMMU yourself", file));
}

bool is_loaded(const char *module)
{
	return path_exists(sys("module/%s", module));
}

static void check_module(const char *name, enum level level, const char *without)
{
	if (is_loaded(name))
		finding(LEVEL_OK, "modules", text("%s is loaded", name), NULL);
	else
		finding(level, "modules", text("%s is not loaded: %s", name, without),
			level == LEVEL_OK ? NULL :
			text("modprobe %s; if there is none, see README.md on installing", name));
}

/* UEFI's own variable: four bytes of attributes, then whether signatures are asked for. */
static bool signatures_asked_for(void)
{
	unsigned char value[5] = { 0 };
	FILE *f = fopen(sys("firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"),
			"rb");
	bool asked = f && fread(value, 1, sizeof(value), f) == sizeof(value) && value[4];

	if (f)
		fclose(f);
	return asked;
}

/* By modinfo, as modules may be compressed.  If it cannot be asked, nothing is claimed. */
static bool is_signed(const char *file)
{
	const char *const words[] = { "modinfo", "-F", "signer", file, NULL };
	const char *signer = child_read(words);

	return !signer || *signer;
}

/* The drivers below @place that are not signed, each with a blank before it. */
static const char *unsigned_ntb_drivers(const char *place)
{
	struct names n = list_dir(text("%s/%s/%s", opt.modules, kernel_release(), place));
	const char *list = "", *name;

	for (size_t i = 0; i < n.count; i++) {
		name = n.name[i];
		if ((!strncmp(name, "ntb.ko", 6) || !strncmp(name, "ntb_hw_", 7) ||
		     !strncmp(name, "switchtec.ko", 12) || !strncmp(name, "dlend_ntb.ko", 12)) &&
		    !is_signed(names_path(&n, i)))
			list = text("%s %s", list, name);
	}
	return list;
}

/* DKMS signs if it has a key, dlend-build-ntb never. */
static void check_ntb_signatures(void)
{
	const char *dkms = unsigned_ntb_drivers("updates/dkms");
	const char *built = unsigned_ntb_drivers("updates/dlend-ntb");

	if (*dkms)
		finding(LEVEL_WARN, "secure-boot",
			text("on, and DKMS has not signed these drivers:%s", dkms),
			"The kernel does not load them. Install openssl, with which DKMS makes a key, and build them again: dkms remove, then dkms install");
	if (*built)
		finding(LEVEL_WARN, "secure-boot",
			text("on, and these drivers of dlend-build-ntb are not signed:%s", built),
			"The kernel does not load them. Install dlend-ntb-dkms, which signs. Or sign each, in /lib/modules/$(uname -r)/updates/dlend-ntb: ../../build/scripts/sign-file sha256 /var/lib/dkms/mok.key /var/lib/dkms/mok.pub FILE");
}

static void check_secure_boot(void)
{
	if (!signatures_asked_for())
		return;
	/* No question if they are loaded */
	if (!is_loaded("dlend_ntb"))
		check_ntb_signatures();
	if (is_loaded("dlend_core"))
		finding(LEVEL_OK, "secure-boot", "on, and dlend's modules are signed for it", NULL);
	else
		finding(LEVEL_WARN, "secure-boot",
			"on: the kernel loads only modules that are signed by a key that the firmware or you have told it",
			"DKMS signs the modules that it builds: mokutil --import /var/lib/dkms/mok.pub, then restart and confirm the key at the console");
}

void doctor_modules(void)
{
	const char *node = own_node();

	check_module("dlend_core", LEVEL_FAIL, "nothing works");
	check_module("dlend_ntb", LEVEL_FAIL, "there are no links to other hosts");
	check_module("dlend_lender", LEVEL_WARN, "this host does not lend");
	check_module("dlend_mdev", LEVEL_WARN, "this host does not borrow");
	check_module("dlend_native", LEVEL_OK,
		     "this host's own drivers use no device of others (dlend attach)");
	check_secure_boot();
	if (*node && strcmp(node, "0"))
		finding(LEVEL_OK, "node-id", text("this is node %s", node), NULL);
	else
		finding(LEVEL_FAIL, "node-id", "this host has no node id",
			"Give every host one of its own, 1 to 65535: \"options dlend_core node_id=N\" in /etc/modprobe.d/dlend.conf, and load the modules again");
}

bool module_allows(const char *module, const char *parameter)
{
	return *attr(sys("module/%s/parameters", module), parameter) == 'Y';
}

/* If the IOMMU remaps interrupts, the names of interrupt chips begin with IR (Intel and AMD). */
static void check_interrupt_remapping(void)
{
	const char *file = text("%s/interrupts", opt.procfs), *all = read_all(file);

	if (!all)
		finding(LEVEL_WARN, "interrupt-remapping",
			text("%s cannot be read", file), "Run this as root");
	else if (strstr(all, "IR-PCI") || strstr(all, "IR-IO-APIC") || strstr(all, "IR-MSI"))
		finding(LEVEL_OK, "interrupt-remapping",
			"interrupts of devices are checked by the IOMMU", NULL);
	else if (module_allows("dlend_core", "allow_unsafe_interrupts"))
		finding(LEVEL_WARN, "interrupt-remapping",
			"off, and allowed all the same (allow_unsafe_interrupts): each peer and each borrower can make this host see any interrupt",
			"Turn on interrupt remapping or x2APIC in the firmware; until then have links only to hosts that you trust with this one");
	else
		finding(LEVEL_FAIL, "interrupt-remapping",
			"off: links stay down, and no device of this host can be lent, as a peer could make this host see any interrupt",
			"Turn on interrupt remapping or x2APIC in the firmware, and do not load the NTB's driver before that; or, if you trust all peers with this host: echo Y > "
			ALLOW_UNSAFE_INTERRUPTS);
}

/* AMD's IOMMU can always enforce it; Intel's says so by a bit, which firmware may turn off. */
#define ECAP_SNOOP_CONTROL	0x80ULL

static void check_snoop_control(const struct names *units)
{
	for (size_t i = 0; i < units->count; i++) {
		const char *ecap = attr(names_path(units, i), "intel-iommu/ecap");

		if (*ecap && !(strtoull(ecap, NULL, 16) & ECAP_SNOOP_CONTROL))
			finding(LEVEL_WARN, "no-snoop",
				text("%s has no snoop control: No Snoop bypasses caches",
				     units->name[i]),
				"Turn snoop control on in the firmware, if it can be turned on; dlend turns No Snoop off in the devices that are lent");
	}
}

void doctor_iommu(void)
{
	const char *cmdline = read_all(text("%s/cmdline", opt.procfs));
	struct names units = list_dir(sys("class/iommu"));
	size_t groups = list_dir(sys("kernel/iommu_groups")).count;

	if (!units.count || !groups)
		finding(LEVEL_FAIL, "iommu", "there is none, or it is off",
			"Turn on VT-d or AMD-Vi in the firmware, and boot with intel_iommu=on (AMD's is on by default)");
	else if ((has_word(cmdline, "iommu=pt") || has_word(cmdline, "iommu.passthrough=1")) &&
		 !has_word(cmdline, "iommu=nopt"))
		finding(LEVEL_FAIL, "iommu", "it is on, but translates nothing (iommu=pt)",
			"Boot without iommu=pt and iommu.passthrough=1");
	else
		finding(LEVEL_OK, "iommu",
			text("on and translating (%zu units, %zu groups)", units.count, groups),
			NULL);
	if (has_word(cmdline, "mem_encrypt=on"))
		finding(LEVEL_WARN, "iommu-sme",
			"memory encryption (SME) is on, which Linux 6.12 also applies to windows",
			"Boot without mem_encrypt=on, or with Linux 7.2");
	check_interrupt_remapping();
	check_snoop_control(&units);
}

unsigned long long memory_total(void)
{
	const char *all = read_all(text("%s/meminfo", opt.procfs));
	const char *at = all ? strstr(all, "MemTotal:") : NULL;

	return at ? strtoull(at + strlen("MemTotal:"), NULL, 10) << 10 : 0;
}

static void check_memlock(void)
{
	const char *all = read_all(text("%s/self/limits", opt.procfs));
	const char *at = all ? strstr(all, "Max locked memory") : NULL;
	unsigned long long limit;

	if (at)
		at += strcspn(at, "0123456789u\n");
	limit = at ? strtoull(at, NULL, 10) : 0;
	if (!at)
		finding(LEVEL_WARN, "memlock",
			"the limit is not known", "See ulimit -l where VMs are started");
	else if (!strncmp(at, "unlimited", 9))
		finding(LEVEL_OK, "memlock", "no limit here", NULL);
	else if (limit && limit >= memory_total())
		finding(LEVEL_OK, "memlock",
			text("%s here, more than this host's RAM", size_text(limit)), NULL);
	else
		finding(LEVEL_WARN, "memlock",
			text("a VM started here may pin %s, but needs all of its memory pinned",
			     size_text(limit)),
			"libvirt raises the limit by itself; for QEMU by hand: ulimit -l unlimited, or LimitMEMLOCK=infinity in its unit");
}

void doctor_memory(void)
{
	const char *value = attr(sys("kernel/mm/transparent_hugepage"), "enabled");

	check_memlock();
	if (strstr(value, "[never]"))
		finding(LEVEL_WARN, "huge-pages",
			"transparent huge pages are off: guest memory is mapped in small pieces, which costs DMA speed",
			"echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, or give VMs hugetlbfs memory");
	else if (*value)
		finding(LEVEL_OK, "huge-pages",
			"guest memory can be mapped in large pieces (memory from memfd: only with shmem_enabled)",
			NULL);
}
