// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is a device in use by this host?  Lending takes it away from its driver, so whoever uses it
 * loses data: mounts, swap, volumes, network interfaces, processes with one of its files open.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlend.h"

#define IFF_UP	0x1

static bool is_under_device(const char *entry, const struct device *dev)
{
	char *p = real_path(entry);

	return p && is_below(p, dev->dir);
}

/*
 * With native multipath the disk hangs below a virtual subsystem, not below its controller.  The
 * subsystem links to its controllers.
 */
static bool is_under_subsystem_of(const char *block, const struct device *dev)
{
	char *p = real_path(block), *cut = p ? strstr(p, "/nvme-subsystem/") : NULL;
	struct names n;

	cut = cut ? strchr(cut + strlen("/nvme-subsystem/"), '/') : NULL;
	if (!cut)
		return false;
	*cut = '\0';
	n = list_dir(p);
	for (size_t i = 0; i < n.count; i++)
		if (is_under_device(names_path(&n, i), dev))
			return true;
	return false;
}

static bool is_of_device(const char *entry, const struct device *dev)
{
	return is_under_device(entry, dev) || is_under_subsystem_of(entry, dev);
}

static bool is_node(const char *file, const char *name)
{
	return !strncmp(file, "/dev/", 5) && !strcmp(file + 5, name);
}

/* A mount is found by device number, or by name: a filesystem of several disks shows a name. */
static const char *find_mount_point(const char *number, const char *name)
{
	char *rest = read_all(text("%s/self/mountinfo", opt.procfs)), *line;

	while ((line = next_line(&rest))) {
		char dev[32], point[TEXT_MAX], source[TEXT_MAX];
		char *second = strstr(line, " - ");

		if (second && sscanf(line, "%*s %*s %31s %*s %255s", dev, point) == 2 &&
		    sscanf(second, " - %*s %255s", source) == 1 &&
		    (!strcmp(dev, number) || is_node(source, name)))
			return text("%s", point);
	}
	return NULL;
}

static bool is_swap(const char *name)
{
	char *rest = read_all(text("%s/swaps", opt.procfs)), *line;

	while ((line = next_line(&rest))) {
		line[strcspn(line, " \t")] = '\0';
		if (is_node(line, name))
			return true;
	}
	return false;
}

/* A btrfs of several disks shows only one of them as mounted, and none of them has holders. */
static const char *find_btrfs(const char *name)
{
	struct names n = list_dir(sys("fs/btrfs"));

	for (size_t i = 0; i < n.count; i++)
		if (path_exists(text("%s/devices/%s", names_path(&n, i), name)))
			return n.name[i];
	return NULL;
}

/* The subsystem by which NVMe over fabrics exports a disk: nvmet does not claim what it serves. */
static const char *find_nvmet_subsystem(const char *name)
{
	struct names n = list_dir(sys("kernel/config/nvmet/subsystems"));

	for (size_t i = 0; i < n.count; i++) {
		struct names spaces = list_dir(text("%s/namespaces", names_path(&n, i)));

		for (size_t k = 0; k < spaces.count; k++) {
			const char *dir = names_path(&spaces, k), *file = attr(dir, "device_path");
			const char *node = real_path(file);

			if (attr_is(dir, "enable", "1") && is_node(node ? node : file, name))
				return n.name[i];
		}
	}
	return NULL;
}

/* Users of a disk that sysfs does not show in the directory of the disk. */
static void check_served(const char *what, const char *name)
{
	const char *by = find_btrfs(name);

	if (by)
		fail(EXIT_IN_USE, what, text("its disk %s is part of the btrfs %s", name, by),
		     "Unmount that first (findmnt -t btrfs), or take the disk out (btrfs device remove).");
	by = find_nvmet_subsystem(name);
	if (by)
		fail(EXIT_IN_USE, what,
		     text("nvmet exports its disk %s, in the subsystem %s", name, by),
		     "Take it out first: nvmetcli, or write 0 to \"enable\" of the namespace.");
}

static void check_disk(const struct device *dev, const char *name)
{
	const char *dir = sys("class/block/%s", name), *what = text("%s is in use", dev->bdf);
	const char *where = find_mount_point(attr(dir, "dev"), name);
	struct names holders = list_dir(text("%s/holders", dir));

	if (where)
		fail(EXIT_IN_USE, what, text("its disk %s is mounted on %s", name, where),
		     text("Unmount it first: umount %s", where));
	check_served(what, name);
	if (is_swap(name))
		fail(EXIT_IN_USE, what, text("its disk %s is swap space", name),
		     text("Turn it off first: swapoff /dev/%s", name));
	if (holders.count)
		fail(EXIT_IN_USE, what, text("its disk %s is part of %s", name, holders.name[0]),
		     "Deactivate that volume or array first (vgchange -an, mdadm --stop, cryptsetup close).");
}

/*
 * Most users of a disk within the kernel claim it, even if nothing shows who they are.  A claim on
 * a partition claims the disk, too.  Disks without a node (paths of a multipath disk) or without a
 * medium are ignored.  O_NONBLOCK: no drive closes its tray.
 */
static void check_claim(const struct device *dev, const char *name)
{
	int fd = open(text("/dev/%s", name), O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == EBUSY)
		fail(EXIT_IN_USE, text("%s is in use", dev->bdf),
		     text("something holds its disk %s that /proc and /sys do not name", name),
		     "Look for mounts in containers (lsns -t mnt), a ZFS pool (zpool status), a filesystem's external journal, a disk that LIO exports, and end that first.");
	if (fd >= 0)
		close(fd);
}

static void check_each_disk(const struct device *dev,
			    void (*check)(const struct device *dev, const char *name))
{
	struct names n = list_dir(sys("class/block"));

	for (size_t i = 0; i < n.count; i++)
		if (is_of_device(names_path(&n, i), dev))
			check(dev, n.name[i]);
}

static void check_networks(const struct device *dev)
{
	struct names n = list_dir(sys("class/net"));
	const char *what = text("%s is in use", dev->bdf);

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i), *name = n.name[i];
		const char *master = link_name(dir, "master");

		if (!is_under_device(dir, dev))
			continue;
		if (master)
			fail(EXIT_IN_USE, what,
			     text("its network interface %s belongs to %s", name, master),
			     text("Take it out first: ip link set %s nomaster", name));
		if (attr_number(dir, "flags") & IFF_UP)
			fail(EXIT_IN_USE, what,
			     text("its network interface %s is up (%s)", name,
				  *attr(dir, "carrier") == '1' ? "with carrier" : "no carrier"),
			     text("Take it down first: ip link set %s down", name));
	}
}

static int find_empty_net(const char *dir, const struct stat *status, int type, struct FTW *at)
{
	(void)status;
	return type == FTW_D && !strcmp(dir + at->base, "net") && !list_dir(dir).count;
}

/*
 * sysfs shows only interfaces of the reader's network namespace.  The directory of those of a
 * device is there as long as it has any, in whichever namespace.
 */
static void check_other_namespaces(const struct device *dev)
{
	if (nftw(dev->dir, find_empty_net, 16, FTW_PHYS) == 1)
		fail(EXIT_IN_USE, text("%s is in use", dev->bdf),
		     "its network interface is in another network namespace",
		     "End the container that has it, or take it back: ip -n NAMESPACE link set INTERFACE netns 1 (ip netns, or lsns -t net, lists them).");
}

/* NVIDIA's driver tells sysfs nothing of the file of a GPU, but has a page for each GPU. */
static void add_nvidia_file(struct names *files, const struct device *dev)
{
	char *page = read_all(text("%s/driver/nvidia/gpus/%s/information", opt.procfs, dev->bdf));
	char *line = page ? strstr(page, "\nDevice Minor:") : NULL;
	unsigned int minor;

	if (line && sscanf(line, " Device Minor: %u", &minor) == 1)
		names_add(files, text("/dev/nvidia%u", minor));
}

/* Device files of @dev: character and block. */
static struct names device_files(const struct device *dev)
{
	static const char *const kinds[] = { "char", "block" };
	const char *group = link_name(dev->dir, "iommu_group");
	struct names files = { 0 };

	add_nvidia_file(&files, dev);
	for (size_t k = 0; k < 2; k++) {
		struct names n = list_dir(sys("dev/%s", kinds[k]));

		for (size_t i = 0; i < n.count; i++) {
			char *rest = is_of_device(names_path(&n, i), dev) ?
				     read_all(text("%s/uevent", names_path(&n, i))) : NULL, *line;

			while ((line = next_line(&rest)))
				if (!strncmp(line, "DEVNAME=", 8))
					names_add(&files, text("/dev/%s", line + 8));
		}
	}
	if (group)
		names_add(&files, text("/dev/vfio/%s", group));
	return files;
}

/*
 * A container may have the node by another name.  Only what is in a /dev is looked at: a file of a
 * server that does not answer would have us wait.
 */
static bool is_same_node(const char *entry, const char *target, const char *file)
{
	struct stat open_file, node;

	if (!strcmp(target, file))
		return true;
	return !strncmp(target, "/dev/", 5) && !stat(entry, &open_file) && !stat(file, &node) &&
	       (open_file.st_mode & S_IFMT) == (node.st_mode & S_IFMT) &&
	       (S_ISCHR(node.st_mode) || S_ISBLK(node.st_mode)) &&
	       open_file.st_rdev == node.st_rdev;
}

/* Which of @files has process @pid open? */
static const char *find_open_file(const char *pid, const struct names *files)
{
	struct names fds = list_dir(text("%s/%s/fd", opt.procfs, pid));
	char target[TEXT_MAX];

	for (size_t i = 0; i < fds.count; i++) {
		const char *entry = names_path(&fds, i);
		ssize_t got = readlink(entry, target, sizeof(target) - 1);

		target[got < 0 ? 0 : got] = '\0';
		for (size_t k = 0; k < files->count; k++)
			if (is_same_node(entry, target, files->name[k]))
				return files->name[k];
	}
	return NULL;
}

/* Ends the first part of a list of QEMU's, in which two commas are one.  Return: the rest */
static char *cut_part(char *list)
{
	char *to = list;

	for (; *list; list++) {
		if (*list == ',' && *++list != ',') {
			*to = '\0';
			return list;
		}
		*to++ = *list;
	}
	*to = '\0';
	return NULL;
}

/* What QEMU got as -name: "vm1", or "debug-threads=on,guest=vm1".  Return: "" if there is none */
static const char *guest_name(char *list)
{
	char *rest = cut_part(list);

	if (!strchr(list, '='))
		return list;
	while (rest && strncmp(list, "guest=", 6)) {
		list = rest;
		rest = cut_part(list);
	}
	return strncmp(list, "guest=", 6) ? "" : list + 6;
}

/* Of the VM that process @dir runs */
static const char *vm_name(const char *dir)
{
	FILE *f = fopen(text("%s/cmdline", dir), "re");
	const char *name = "";
	char *word = NULL;
	bool is_name = false;
	size_t room = 0;

	while (f && !*name && getdelim(&word, &room, '\0', f) > 0) {
		if (is_name)
			name = ascii(text("%s", guest_name(word)));
		is_name = !strcmp(word, "-name");
	}
	if (f)
		fclose(f);
	free(word);
	return name;
}

static const char *process_text(const char *pid, const char *file, const char **vm)
{
	const char *dir = text("%s/%s", opt.procfs, pid), *name = vm_name(dir);

	if (vm)
		*vm = name;
	return text("process %s (%s%s%s) has %s open", pid, attr(dir, "comm"),
		    *name ? ", VM " : "", name, file);
}

const char *find_user(const struct names *files, const char **vm)
{
	struct names pids = list_dir(opt.procfs);

	for (size_t i = 0; files->count && i < pids.count; i++) {
		const char *pid = pids.name[i];
		const size_t mark = memory_mark();
		const char *file = isdigit((unsigned char)*pid) ? find_open_file(pid, files) : NULL;

		if (file)
			return process_text(pid, file, vm);
		memory_drop(mark);
	}
	return NULL;
}

void check_use(const struct device *dev)
{
	const char *user;
	struct names files;

	check_each_disk(dev, check_disk);
	check_networks(dev);
	check_other_namespaces(dev);
	files = device_files(dev);
	user = find_user(&files, NULL);
	if (user)
		fail(EXIT_IN_USE, text("%s is in use", dev->bdf), user, "Stop that program first.");
	/* Last, because it cannot say who uses the disk.  Nodes in /dev belong to the real /sys. */
	if (!opt.fake)
		check_each_disk(dev, check_claim);
}
