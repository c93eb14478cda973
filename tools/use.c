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
	bool is = p && is_below(p, dev->dir);

	free(p);
	return is;
}

/*
 * With native multipath the disk hangs below a virtual subsystem, not below its controller.  The
 * subsystem links to its controllers.
 */
static bool is_under_subsystem_of(const char *block, const struct device *dev)
{
	char *p = real_path(block), *cut;
	bool is = false;
	struct names n;

	if (!p)
		return false;
	cut = strstr(p, "/nvme-subsystem/");
	cut = cut ? strchr(cut + strlen("/nvme-subsystem/"), '/') : NULL;
	if (cut) {
		*cut = '\0';
		n = list_dir(p);
		for (size_t i = 0; i < n.count && !is; i++) {
			char *entry = path("%s/%s", p, n.name[i]);

			is = is_under_device(entry, dev);
			free(entry);
		}
		names_free(&n);
	}
	free(p);
	return is;
}

/* A mount is found by device number, or by name: a filesystem of several disks shows a name. */
static char *find_mount_point(const char *number, const char *name)
{
	char *file = path("%s/self/mountinfo", opt.procfs);
	char *line = NULL, *where = NULL;
	size_t room = 0;
	FILE *f = fopen(file, "re");

	while (f && !where && getline(&line, &room, f) > 0) {
		char dev[32], point[TEXT_MAX], source[TEXT_MAX];
		char *rest = strstr(line, " - ");

		if (!rest || sscanf(line, "%*s %*s %31s %*s %255s", dev, point) != 2 ||
		    sscanf(rest, " - %*s %255s", source) != 1)
			continue;
		if (!strcmp(dev, number) ||
		    (!strncmp(source, "/dev/", 5) && !strcmp(source + 5, name)))
			where = strdup(point);
	}
	if (f)
		fclose(f);
	free(line);
	free(file);
	return where;
}

static bool is_swap(const char *name)
{
	char *file = path("%s/swaps", opt.procfs);
	char *line = NULL;
	bool found = false;
	size_t room = 0;
	FILE *f = fopen(file, "re");

	while (f && !found && getline(&line, &room, f) > 0) {
		line[strcspn(line, " \t\n")] = '\0';
		found = !strncmp(line, "/dev/", 5) && !strcmp(line + 5, name);
	}
	if (f)
		fclose(f);
	free(line);
	free(file);
	return found;
}

/* A btrfs of several disks shows only one of them as mounted, and none of them has holders. */
static char *find_btrfs(const char *name)
{
	char *all = path("%s/fs/btrfs", opt.sysfs), *found = NULL;
	struct names n = list_dir(all);

	for (size_t i = 0; i < n.count && !found; i++) {
		char *entry = path("%s/%s/devices/%s", all, n.name[i], name);

		if (path_exists(entry))
			found = strdup(n.name[i]);
		free(entry);
	}
	names_free(&n);
	free(all);
	return found;
}

static bool is_device_node(const char *file, const char *name)
{
	char *p = real_path(file);
	const char *node = p ? p : file;
	bool is = !strncmp(node, "/dev/", 5) && !strcmp(node + 5, name);

	free(p);
	return is;
}

/* The subsystem by which NVMe over fabrics exports a disk: nvmet does not claim what it serves. */
static char *find_nvmet_subsystem(const char *name)
{
	char *all = path("%s/kernel/config/nvmet/subsystems", opt.sysfs), *found = NULL;
	struct names n = list_dir(all);

	for (size_t i = 0; i < n.count && !found; i++) {
		char *spaces = path("%s/%s/namespaces", all, n.name[i]);
		struct names id = list_dir(spaces);

		for (size_t k = 0; k < id.count && !found; k++) {
			char *dir = path("%s/%s", spaces, id.name[k]), value[TEXT_MAX];

			if (!strcmp(read_attr(value, dir, "enable"), "1") &&
			    is_device_node(read_attr(value, dir, "device_path"), name))
				found = strdup(n.name[i]);
			free(dir);
		}
		names_free(&id);
		free(spaces);
	}
	names_free(&n);
	free(all);
	return found;
}

/* Users of a disk that sysfs does not show in the directory of the disk. */
static void check_served(const char *what, const char *name)
{
	char *by = find_btrfs(name);

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
	char *dir = path("%s/class/block/%s", opt.sysfs, name);
	char number[TEXT_MAX], *where, *holders;
	const char *what = text("%s is in use", dev->bdf);
	struct names n;

	where = find_mount_point(read_attr(number, dir, "dev"), name);
	if (where)
		fail(EXIT_IN_USE, what, text("its disk %s is mounted on %s", name, where),
		     text("Unmount it first: umount %s", where));
	check_served(what, name);
	if (is_swap(name))
		fail(EXIT_IN_USE, what, text("its disk %s is swap space", name),
		     text("Turn it off first: swapoff /dev/%s", name));
	holders = path("%s/holders", dir);
	n = list_dir(holders);
	if (n.count)
		fail(EXIT_IN_USE, what, text("its disk %s is part of %s", name, n.name[0]),
		     "Deactivate that volume or array first (vgchange -an, mdadm --stop, cryptsetup close).");
	names_free(&n);
	free(holders);
	free(dir);
}

/*
 * Most users of a disk within the kernel claim it, even if nothing shows who they are.  A claim on
 * a partition claims the disk, too.  Disks without a node (paths of a multipath disk) or without a
 * medium are ignored.  O_NONBLOCK: no drive closes its tray.
 */
static void check_claim(const struct device *dev, const char *name)
{
	char *node = path("/dev/%s", name);
	int fd = open(node, O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == EBUSY)
		fail(EXIT_IN_USE, text("%s is in use", dev->bdf),
		     text("something holds its disk %s that /proc and /sys do not name", name),
		     "Look for mounts in containers (lsns -t mnt), a ZFS pool (zpool status), a filesystem's external journal, a disk that LIO exports, and end that first.");
	if (fd >= 0)
		close(fd);
	free(node);
}

static void check_each_disk(const struct device *dev,
			    void (*check)(const struct device *dev, const char *name))
{
	char *class = path("%s/class/block", opt.sysfs);
	struct names n = list_dir(class);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", class, n.name[i]);

		if (is_under_device(dir, dev) || is_under_subsystem_of(dir, dev))
			check(dev, n.name[i]);
		free(dir);
	}
	names_free(&n);
	free(class);
}

static void check_networks(const struct device *dev)
{
	char *class = path("%s/class/net", opt.sysfs);
	struct names n = list_dir(class);
	char flags[TEXT_MAX], carrier[TEXT_MAX];

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", class, n.name[i]);
		char *link = path("%s/master", dir);
		char *master = link_name(link);

		if (is_under_device(dir, dev)) {
			const char *what = text("%s is in use", dev->bdf);
			bool has_carrier = *read_attr(carrier, dir, "carrier") == '1';

			if (master)
				fail(EXIT_IN_USE, what,
				     text("its network interface %s belongs to %s", n.name[i],
					  master),
				     text("Take it out first: ip link set %s nomaster", n.name[i]));
			if (strtoul(read_attr(flags, dir, "flags"), NULL, 16) & IFF_UP)
				fail(EXIT_IN_USE, what,
				     text("its network interface %s is up (%s)", n.name[i],
					  has_carrier ? "with carrier" : "no carrier"),
				     text("Take it down first: ip link set %s down", n.name[i]));
		}
		free(master);
		free(link);
		free(dir);
	}
	names_free(&n);
	free(class);
}

static int find_empty_net(const char *dir, const struct stat *status, int type, struct FTW *at)
{
	struct names n;
	bool empty;

	(void)status;
	if (type != FTW_D || strcmp(dir + at->base, "net"))
		return 0;
	n = list_dir(dir);
	empty = !n.count;
	names_free(&n);
	return empty;
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
	char *page = path("%s/driver/nvidia/gpus/%s/information", opt.procfs, dev->bdf);
	char *all = read_all(page), *line = all ? strstr(all, "\nDevice Minor:") : NULL;
	unsigned int minor;

	if (line && sscanf(line, " Device Minor: %u", &minor) == 1)
		names_add(files, text("/dev/nvidia%u", minor));
	free(all);
	free(page);
}

/* Device files of @dev: character and block. */
static struct names device_files(const struct device *dev)
{
	static const char *const kinds[] = { "char", "block" };
	struct names files = { 0 };
	char *group, *name;

	add_nvidia_file(&files, dev);
	for (size_t k = 0; k < 2; k++) {
		char *dir = path("%s/dev/%s", opt.sysfs, kinds[k]);
		struct names n = list_dir(dir);

		for (size_t i = 0; i < n.count; i++) {
			char *entry = path("%s/%s", dir, n.name[i]);
			char *uevent = path("%s/uevent", entry);
			FILE *f = is_under_device(entry, dev) || is_under_subsystem_of(entry, dev) ?
				  fopen(uevent, "re") : NULL;
			char line[TEXT_MAX];

			while (f && fgets(line, sizeof(line), f))
				if (!strncmp(line, "DEVNAME=", 8)) {
					line[strcspn(line, "\n")] = '\0';
					names_add(&files, text("/dev/%s", line + 8));
				}
			if (f)
				fclose(f);
			free(uevent);
			free(entry);
		}
		names_free(&n);
		free(dir);
	}
	group = path("%s/iommu_group", dev->dir);
	name = link_name(group);
	if (name)
		names_add(&files, text("/dev/vfio/%s", name));
	free(name);
	free(group);
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
	char *dir = path("%s/%s/fd", opt.procfs, pid);
	struct names fds = list_dir(dir);
	const char *found = NULL;
	char target[TEXT_MAX];

	for (size_t i = 0; i < fds.count && !found; i++) {
		char *entry = path("%s/%s", dir, fds.name[i]);
		ssize_t got = readlink(entry, target, sizeof(target) - 1);

		target[got < 0 ? 0 : got] = '\0';
		for (size_t k = 0; k < files->count && !found; k++)
			if (is_same_node(entry, target, files->name[k]))
				found = files->name[k];
		free(entry);
	}
	names_free(&fds);
	free(dir);
	return found;
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
		*to++ = *list < ' ' || *list > '~' ? '?' : *list;
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

/* Of the VM that process @dir runs, as text() */
static const char *vm_name(const char *dir)
{
	char *file = path("%s/cmdline", dir), *word = NULL;
	const char *name = "";
	FILE *f = fopen(file, "re");
	bool is_name = false;
	size_t room = 0;

	while (f && !*name && getdelim(&word, &room, '\0', f) > 0) {
		if (is_name)
			name = text("%s", guest_name(word));
		is_name = !strcmp(word, "-name");
	}
	if (f)
		fclose(f);
	free(word);
	free(file);
	return name;
}

static const char *process_text(const char *pid, const char *file, const char **vm)
{
	char *dir = path("%s/%s", opt.procfs, pid), comm[TEXT_MAX];
	const char *name = vm_name(dir);

	read_attr(comm, dir, "comm");
	free(dir);
	if (vm)
		*vm = name;
	return text("process %s (%s%s%s) has %s open", pid, comm, *name ? ", VM " : "", name,
		    file);
}

const char *find_user(const struct names *files, const char **vm)
{
	struct names pids = list_dir(opt.procfs);

	for (size_t i = 0; files->count && i < pids.count; i++) {
		const char *pid = pids.name[i];
		const char *file = isdigit((unsigned char)*pid) ? find_open_file(pid, files) : NULL;

		if (file)
			return process_text(pid, file, vm);
	}
	names_free(&pids);
	return NULL;
}

static void check_processes(const struct device *dev)
{
	struct names files = device_files(dev);
	const char *user = find_user(&files, NULL);

	if (user)
		fail(EXIT_IN_USE, text("%s is in use", dev->bdf), user, "Stop that program first.");
	names_free(&files);
}

void check_use(const struct device *dev)
{
	check_each_disk(dev, check_disk);
	check_networks(dev);
	check_other_namespaces(dev);
	check_processes(dev);
	/* Last, because it cannot say who uses the disk.  Nodes in /dev belong to the real /sys. */
	if (!opt.fake)
		check_each_disk(dev, check_claim);
}
