// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of a mediated device, which an admin makes before a VM uses it: clique, prepin, lowmem.
 *
 * They are attributes of the mdev itself, not of its folder "dlend", because mdevctl writes the
 * attributes of a definition by their names there.  Must not know what comes of them: cfg.c shows
 * the clique to the guest, borrow.c and share.c heed the others.
 */
#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include "clique.h"
#include "vdev.h"

#define LOWMEM_MIN	BIT_ULL(20)
#define LOWMEM_MAX	BIT_ULL(32)

static const char * const prepin_words[] = {
	[DLEND_PREPIN_BME] = "bme",
	[DLEND_PREPIN_OPEN] = "open",
};

/* What a guest has seen, or has been built on, cannot be changed under it. [locked] */
static int dlend_setting_busy(struct dlend_vdev *v, const char *what)
{
	if (!v->open)
		return 0;
	dev_warn(dlend_vdev_dev(v), "%s not changed: a VM has the device open; shut it down first\n",
		 what);
	return -EBUSY;
}

ssize_t dlend_clique_name(int clique, char *buf)
{
	switch (clique) {
	case DLEND_CFG_CLIQUE_NONE:
		return sysfs_emit(buf, "none\n");
	case DLEND_CLIQUE_AUTO:
		return sysfs_emit(buf, "auto\n");
	case DLEND_CLIQUE_ALWAYS:
		return sysfs_emit(buf, "always\n");
	}
	return sysfs_emit(buf, "%d\n", clique);
}

ssize_t dlend_clique_emit(struct dlend_vdev *v, char *buf)
{
	guard(mutex)(&v->lock);
	return dlend_clique_name(v->clique, buf);
}

ssize_t dlend_clique_emit_shown(struct dlend_vdev *v, char *buf)
{
	guard(mutex)(&v->lock);
	return dlend_clique_name(v->open ? v->clique_shown : v->clique, buf);
}

int dlend_clique_set(struct dlend_vdev *v, const char *buf)
{
	int clique = DLEND_CFG_CLIQUE_NONE, ret;

	if (sysfs_streq(buf, "auto")) {
		clique = DLEND_CLIQUE_AUTO;
	} else if (sysfs_streq(buf, "always")) {
		clique = DLEND_CLIQUE_ALWAYS;
	} else if (!sysfs_streq(buf, "none")) {
		ret = kstrtoint(buf, 0, &clique);
		if (ret)
			return ret;
		if (clique < 0 || clique > DLEND_CLIQUE_MAX)
			return -EINVAL;
	}
	guard(mutex)(&v->lock);
	if (clique == v->clique)
		return 0;
	ret = dlend_setting_busy(v, "clique");
	if (!ret)
		v->clique = clique;
	return ret;
}

static ssize_t clique_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return dlend_clique_emit(dev_get_drvdata(dev), buf);
}

static ssize_t clique_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	return dlend_clique_set(dev_get_drvdata(dev), buf) ?: count;
}
static DEVICE_ATTR_RW(clique);

static ssize_t prepin_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return sysfs_emit(buf, "%s\n", prepin_words[v->prepin]);
}

/* Also while a VM has it open: the next one that opens it gets what is set then. */
static ssize_t prepin_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);
	int word = sysfs_match_string(prepin_words, buf);

	if (word < 0)
		return word;
	guard(mutex)(&v->lock);
	v->prepin = word;
	return count;
}
static DEVICE_ATTR_RW(prepin);

static ssize_t lowmem_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	if (!v->lowmem)
		return sysfs_emit(buf, "auto\n");
	return sysfs_emit(buf, "%lluM\n", v->lowmem >> 20);
}

static ssize_t lowmem_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);
	unsigned long long bytes = 0;
	char *end;
	int ret;

	if (!sysfs_streq(buf, "auto")) {
		bytes = memparse(buf, &end);
		if (end == buf || !sysfs_streq(end, "") || bytes % LOWMEM_MIN)
			return -EINVAL;
		if (bytes < LOWMEM_MIN || bytes > LOWMEM_MAX)
			return -ERANGE;
	}
	guard(mutex)(&v->lock);
	if (bytes == v->lowmem)
		return count;
	ret = dlend_setting_busy(v, "lowmem");
	if (ret)
		return ret;
	v->lowmem = bytes;
	return count;
}
static DEVICE_ATTR_RW(lowmem);

static struct attribute *dlend_setting_attrs[] = {
	&dev_attr_clique.attr,
	&dev_attr_prepin.attr,
	&dev_attr_lowmem.attr,
	NULL
};

const struct attribute_group dlend_setting_group = {
	.attrs = dlend_setting_attrs,
};
