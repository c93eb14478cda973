// SPDX-License-Identifier: GPL-2.0-only
/* dlend doctor: NTBs, links, and whether what is to go through the windows fits. */
#include <string.h>

#include "doctor.h"

/* Which module in drivers/ntb/hw drives which function. */
static const struct {
	unsigned int vendor, device;
	const char *driver;
} hardware[] = {
	{ 0x1022, 0x145b, "ntb_hw_amd" }, { 0x1022, 0x148b, "ntb_hw_amd" },
	{ 0x1022, 0x14c0, "ntb_hw_amd" }, { 0x1022, 0x14c3, "ntb_hw_amd" },
	{ 0x1022, 0x155a, "ntb_hw_amd" }, { 0x1022, 0x17d4, "ntb_hw_amd" },
	{ 0x1022, 0x17d7, "ntb_hw_amd" }, { 0x1d94, 0x145b, "ntb_hw_amd" },
	{ 0x8086, 0x3725, "ntb_hw_intel" }, { 0x8086, 0x3c0d, "ntb_hw_intel" },
	{ 0x8086, 0x0e0d, "ntb_hw_intel" }, { 0x8086, 0x2f0d, "ntb_hw_intel" },
	{ 0x8086, 0x6f0d, "ntb_hw_intel" }, { 0x8086, 0x201c, "ntb_hw_intel" },
	{ 0x8086, 0x347e, "ntb_hw_intel" }, { 0x8086, 0x0db4, "ntb_hw_intel" },
	{ 0x8086, 0x7868, "ntb_hw_intel" },
};

/* Microsemi's NTB is part of the switch's management function; the class tells them apart. */
static const char *ntb_module(const char *dir)
{
	unsigned int vendor = attr_number(dir, "vendor"), device = attr_number(dir, "device");
	bool bridge = !strncmp(attr(dir, "class"), "0x0680", 6);

	for (size_t i = 0; i < ARRAY_SIZE(hardware); i++)
		if (hardware[i].vendor == vendor && hardware[i].device == device)
			return hardware[i].driver;
	if (vendor == 0x11f8 && bridge)
		return "ntb_hw_switchtec";
	if (vendor == 0x111d && bridge)
		return "ntb_hw_idt";
	return NULL;
}

/* What docs/hardware.md has of each family, by its driver. */
static const struct family {
	const char *driver;
	const char *window;	/* what makes its window larger */
	const char *peer;	/* what joins it to its peer */
	const char *refused;	/* what dlend_ntb does not take of it, after "Its log says why" */
} families[] = {
	{ "ntb_hw_intel",
	  "Set larger sizes of IMBAR and EMBAR, all the same, in the firmware of both hosts",
	  "In the firmware: its port as \"NTB to NTB\" on both hosts; Crosslink Control Override upstream on one of them, downstream on the other",
	  "" },
	{ "ntb_hw_amd",
	  "Set larger NTB BARs, the same, in the firmware of both hosts",
	  "In the firmware: its port as primary on one host, as secondary on the other; power the primary on first",
	  "" },
	{ "ntb_hw_switchtec",
	  "Configure the switch with larger direct windows, the same in both partitions",
	  "The switch needs an NTB endpoint in each of two partitions, a host at each",
	  ". Not supported is a crosslink of two switches: use two partitions of one switch" },
	{ NULL,
	  "Set a larger NTB BAR size, the same, in the firmware of both hosts",
	  "Both ends of the cable have to be NTBs",
	  "" },
};

#define NO_NTB	"Turn it on in the firmware. Intel: the port as \"NTB to NTB\"; AMD: the socket's port as NTB; Switchtec: an NTB endpoint in this host's partition. See docs/hardware.md"

static const struct family *family_of(const char *dir)
{
	const char *module = ntb_module(dir);
	const struct family *f = families;

	while (f->driver && (!module || strcmp(f->driver, module)))
		f++;
	return f;
}

/* The same for the NTB of a link. */
static const struct family *link_family(const char *link)
{
	return family_of(sys("bus/pci/devices/%s", link));
}

/* Why dlend_ntb cannot use NTBs that @module drives, or NULL if it can. */
static const char *refusal_reason(const char *module)
{
	if (module && !strcmp(module, "ntb_hw_idt"))
		return "IDT's has no scratchpads";
	return NULL;
}

#define SMALLEST_BYTES	(1024ULL << 20)	/* no guest with a desktop or a server on it is smaller */
#define CONTROL_BYTES	(64ULL << 10)	/* control area and interrupt page, generously */

static unsigned long long lent_bytes(const struct demands *demands)
{
	unsigned long long sum = 0;

	for (size_t i = 0; i < demands->devices.count; i++)
		sum += bar_bytes(sys("bus/pci/devices/%s", demands->devices.name[i]));
	return sum;
}

/*
 * What is to go through a window.
 * @reach: how much reaches what, for people
 * @where: guests are, whose memory it leads to
 * @larger: how to have more
 * @least: what has to fit in any case; @ram: of the host where guests are; 0: not known
 * @needed: such guests are to be, as far as this host knows its role
 */
struct window {
	const char *reach, *where, *larger;
	unsigned long long bytes, least, ram;
	bool needed;
};

static void check_room(const struct window *w, unsigned long long guest)
{
	if (w->least > w->bytes)
		finding(LEVEL_FAIL, "window",
			text("%s, which cannot hold the BARs of the devices to lend (%s)", w->reach,
			     size_text(w->least - CONTROL_BYTES)),
			text("%s, or lend fewer devices over this link", w->larger));
	else if (guest && guest + CONTROL_BYTES > w->bytes)
		finding(w->needed ? LEVEL_FAIL : LEVEL_WARN, "window",
			text("%s, which cannot hold a guest of %s%s", w->reach, size_text(guest),
			     w->where),
			text("%s, or give the guest less memory", w->larger));
	else if (!guest && w->bytes < SMALLEST_BYTES && w->needed)
		finding(LEVEL_FAIL, "window",
			text("%s, which is too small for a guest of today", w->reach),
			text("%s; or say what you have: dlend doctor --guest SIZE", w->larger));
	else if (!guest && w->bytes < w->ram && w->needed)
		finding(LEVEL_WARN, "window",
			text("%s, this host's RAM is %s: larger guests here cannot borrow",
			     w->reach, size_text(w->ram)),
			"Ask for your largest guest: dlend doctor --guest SIZE");
	else
		finding(LEVEL_OK, "window", w->reach, NULL);
}

/* Before the first link: a window is no larger than its BAR, and the peer's should be as large. */
static void check_bar(const char *name, const char *dir, const struct demands *demands)
{
	struct window w = {
		.where = "", .larger = family_of(dir)->window, .bytes = largest_bar(dir),
		.least = lent_bytes(demands) + CONTROL_BYTES, .needed = true
	};
	const char *link = sys("class/dlend_link/%s", name);

	w.reach = text("the largest BAR of %s is %s, and its window no larger", name,
		       size_text(w.bytes));
	/* A link that has been up once knows its sizes. */
	if (w.bytes && !attr_number(link, "aperture_bytes") && !attr_number(link, "window_bytes"))
		check_room(&w, demands->guest_bytes);
}

/* NTB functions without a driver, or of a kind that dlend has no use for. */
static size_t report_functions(const struct demands *demands)
{
	struct names n = list_dir(sys("bus/pci/devices"));
	size_t count = 0;

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i), *module = ntb_module(dir);
		const char *refused = refusal_reason(module);

		if (refused) {
			finding(LEVEL_FAIL, "ntb",
				text("%s is an NTB that dlend cannot use: %s", n.name[i], refused),
				"docs/hardware.md lists those that it can use");
			count++;
		} else if (module && !path_exists(text("%s/driver", dir))) {
			finding(LEVEL_FAIL, "ntb",
				text("%s is an NTB, and no driver has it", n.name[i]),
				text("modprobe %s; if there is none: install dlend-ntb-dkms",
				     module));
			count++;
		}
		if (module && !refused)
			check_bar(n.name[i], dir, demands);
	}
	return count;
}

/* Nothing in sysfs tells why dlend_ntb does not take one, nor whether two switches are joined. */
static void report_unused(const char *name)
{
	if (is_loaded("dlend_ntb"))
		finding(LEVEL_FAIL, "ntb",
			text("%s has a driver, but no user: dlend_ntb does not take it", name),
			text("Its log says why: dmesg | grep %s%s", name,
			     link_family(name)->refused));
	else
		finding(LEVEL_FAIL, "ntb", text("%s has a driver, but no user", name),
			"modprobe dlend_ntb");
}

static void check_ntb_user(const char *name, const char *dir)
{
	const char *driver = link_name(dir, "driver");

	if (refusal_reason(ntb_module(sys("bus/pci/devices/%s", name))))
		return;		/* report_functions() has said it */
	if (driver && !strcmp(driver, "dlend_ntb"))
		finding(LEVEL_OK, "ntb", text("%s is ours", name), NULL);
	else if (driver)
		finding(LEVEL_FAIL, "ntb", text("%s is used by %s", name, driver),
			text("modprobe -r %s, keep it away, and load dlend_ntb again", driver));
	else
		report_unused(name);
}

/*
 * Xeon E5 v2 to v4: their driver says that the use of scratchpads and doorbells can lock up the
 * host (NTB_HWERR_SB01BASE_LOCKUP in ntb_hw_gen1.c).
 */
static void check_errata(const char *name, const char *dir)
{
	unsigned int device = attr_number(dir, "device");

	if (attr_number(dir, "vendor") != 0x8086 ||
	    (device != 0x0e0d && device != 0x2f0d && device != 0x6f0d))
		return;
	if (module_allows("dlend_ntb", "allow_unsafe"))
		finding(LEVEL_WARN, "ntb-errata",
			text("%s can lock up this host, and is allowed all the same", name),
			"An erratum of Xeon E5 v2 to v4: use another host for important work");
	else
		finding(LEVEL_FAIL, "ntb-errata",
			text("%s can lock up this host, so dlend_ntb refuses it", name),
			"An erratum of Xeon E5 v2 to v4: use another host, or dlend_ntb.allow_unsafe=1");
}

/* Of a window Switchtec's driver shows so much, 2 MiB if nobody has said otherwise. */
static void check_switchtec(const char *name, const char *dir)
{
	const char *module = ntb_module(dir);
	unsigned long long shown = attr_number(sys("module/ntb_hw_switchtec/parameters"),
					       "max_mw_size"), window = largest_bar(dir);

	if (module && !strcmp(module, "ntb_hw_switchtec") && shown && shown < window)
		finding(LEVEL_FAIL, "ntb-window",
			text("ntb_hw_switchtec shows %s only of the window of %s, %s",
			     size_text(shown), name, size_text(window)),
			text("In /etc/modprobe.d: options ntb_hw_switchtec max_mw_size=%llu",
			     window));
}

/* Devices of the NTB's group that a driver uses would lose their DMA. */
static void check_ntb_neighbours(const char *name, char *dir)
{
	struct names n = device_group(&(struct device){ .dir = dir });

	for (size_t i = 0; i < n.count; i++) {
		const char *driver = link_name(sys("bus/pci/devices/%s", n.name[i]), "driver");

		if (driver && strcmp(n.name[i], name))
			finding(LEVEL_FAIL, "ntb-group",
				text("%s shares its IOMMU group with %s, which %s uses", name,
				     n.name[i], driver),
				"Its link stays down: use another slot, or unbind that driver");
	}
}

/* Requests of the NTB come from the peer, so the peer reaches all that the NTB's group may. */
static void check_ntb_function(const char *name)
{
	char *dir = sys("bus/pci/devices/%s", name), *group = text("%s/iommu_group", dir);

	if (!path_exists(dir))
		return;		/* not a PCI function of that name: nothing known */
	if (!path_exists(group))
		finding(LEVEL_FAIL, "ntb-iommu",
			text("%s is in no IOMMU group: the peer would reach all memory", name),
			"Turn the IOMMU on; see the check \"iommu\"");
	else if (attr_is(group, "type", "identity"))
		finding(LEVEL_FAIL, "ntb-iommu",
			text("the IOMMU does not translate for %s: the peer would reach all memory",
			     name),
			"Boot without iommu=pt");
	else
		finding(LEVEL_OK, "ntb-iommu",
			text("accesses through %s are translated", name), NULL);
	check_ntb_neighbours(name, dir);
	check_errata(name, dir);
	check_switchtec(name, dir);
}

void doctor_ntb(const struct demands *demands)
{
	struct names n = list_dir(sys("bus/ntb/devices"));
	size_t lone = report_functions(demands);

	for (size_t i = 0; i < n.count; i++) {
		check_ntb_user(n.name[i], names_path(&n, i));
		check_ntb_function(n.name[i]);
	}
	if (!n.count && !lone)
		finding(LEVEL_FAIL, "ntb", "this host has no NTB that Linux knows",
			NO_NTB);
}

/*
 * Does this host lend, does it borrow?  If it shows no sign of either, it is still being set up and
 * counts as both.  What would not fit for the other role is only a warning, as that may come later.
 */
static bool host_lends(const struct demands *demands)
{
	return demands->devices.count || is_loaded("dlend_lender") || !is_loaded("dlend_mdev");
}

static bool host_borrows(const struct demands *demands)
{
	return is_loaded("dlend_mdev") || !(demands->devices.count || is_loaded("dlend_lender"));
}

/* The two directions have different sizes.  A size of 0 is not known yet. */
static void check_link_sizes(const char *name, const char *dir, const struct demands *demands)
{
	const char *larger = link_family(name)->window;
	/* Incoming: a borrower's accesses to BARs here, and a lender's DMA to guests here */
	struct window in = {
		.where = " on this host", .larger = larger, .ram = memory_total(),
		.bytes = attr_number(dir, "aperture_bytes"),
		.least = lent_bytes(demands) + CONTROL_BYTES, .needed = host_borrows(demands)
	};
	/* Outgoing: DMA of devices here to guests on the peer, which only the peer knows */
	struct window out = {
		.where = " there", .larger = larger, .bytes = attr_number(dir, "window_bytes"),
		.needed = host_lends(demands)
	};

	in.reach = text("the peer reaches %s here through %s (aperture_bytes)",
			size_text(in.bytes), name);
	out.reach = text("this host reaches %s of the peer through %s (window_bytes)",
			 size_text(out.bytes), name);
	if (in.bytes)
		check_room(&in, demands->guest_bytes);
	if (out.bytes)
		check_room(&out, demands->guest_bytes);
}

/* Such a table has one place at least for each lent device; only a Switchtec's link tells. */
static void check_requesters(const char *name, const char *dir, const struct demands *demands)
{
	unsigned long room = attr_number(dir, "requester_ids_free");
	size_t more = 0;

	if (!*attr(dir, "requester_ids_free"))
		return;
	for (size_t i = 0; i < demands->devices.count; i++)
		more += !device_lent(&(struct device){
			.dir = sys("bus/pci/devices/%s", demands->devices.name[i]) });
	if (room < more)
		finding(LEVEL_FAIL, "requesters",
			text("%zu devices are to be lent, and the switch of %s has room for %lu",
			     more, name, room),
			"Lend fewer devices over this link, or take some back: dlend reclaim");
	else
		finding(room ? LEVEL_OK : LEVEL_WARN, "requesters",
			text("the switch of %s has room for %lu more requester ids", name, room),
			"No further device can be lent over this link, until one is taken back");
}

#define IS_IT_UP "Is the other host up, with dlend_ntb loaded and a node id of its own?"
#define DOORBELL "doorbell: "

static void check_interrupts_of(const char *name, const char *dir, const char *link)
{
	const char *value = attr(dir, "interrupts");

	if (!attr_is(dir, "link", link))
		return;
	if (!strcmp(value, "direct"))
		finding(LEVEL_OK, "interrupts", text("those of %s come directly", name), NULL);
	else if (!strncmp(value, DOORBELL, strlen(DOORBELL)))
		finding(LEVEL_WARN, "interrupts",
			text("those of %s come through its lender's doorbell: %s", name,
			     value + strlen(DOORBELL)),
			text("See docs/tuning.md, or turn direct interrupts of %s off", link));
}

void doctor_links(const struct demands *demands)
{
	struct names n = list_dir(sys("class/dlend_link"));
	struct names offers = list_dir(sys("bus/dlend/devices"));

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i), *name = n.name[i], *state = attr(dir, "state");
		const char *error = attr(dir, "last_error");
		/* The link of a lender to itself has no other host and no window. */
		bool loop = attr_is(dir, "type", "loop");

		if (!strcmp(state, "up"))
			finding(LEVEL_OK, "link", text("%s is up, to node %s", name,
						       attr(dir, "peer_node")), NULL);
		else
			finding(LEVEL_WARN, "link",
				*error ? text("%s is %s (%s)", name, state, error) :
				text("%s is %s: it has heard of no peer yet", name, state),
				loop ? "Give this host a node id: dlend_core.node_id, 1 to 65535" :
				text(IS_IT_UP " %s", link_family(name)->peer));
		if (!loop)
			check_link_sizes(name, dir, demands);
		check_requesters(name, dir, demands);
		/* Devices that this host uses now */
		for (size_t k = 0; attr_is(dir, "direct_interrupts", "on") && k < offers.count; k++)
			check_interrupts_of(offers.name[k], names_path(&offers, k), name);
	}
}
