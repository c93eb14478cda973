/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest-physical addresses (GPA): the units in which all code about guest memory counts them.
 * Plain numbers; knows nothing of VFIO, KVM or IOMMUs.
 */
#ifndef DLEND_MDEV_GPA_H
#define DLEND_MDEV_GPA_H

#include <dlend/types.h>

#define DLEND_GUEST_PAGE	4096ULL

/* The most that is pinned together: as much as an IOMMU maps by one large page (2 MiB). */
#define DLEND_CHUNK_PAGES	512u
#define DLEND_CHUNK_BYTES	(DLEND_CHUNK_PAGES * DLEND_GUEST_PAGE)

/**
 * struct dlend_range - a range of guest-physical addresses
 * @start: first address
 * @end: first address behind the range
 */
struct dlend_range {
	u64 start, end;
};

/** dlend_gpa_end - first address behind @npages pages from @gpa on. Context: any. */
static inline u64 dlend_gpa_end(u64 gpa, u32 npages)
{
	return gpa + npages * DLEND_GUEST_PAGE;
}

/** dlend_gpa_last - last address of @npages pages from @gpa on. Context: any. */
static inline u64 dlend_gpa_last(u64 gpa, u32 npages)
{
	return dlend_gpa_end(gpa, npages) - 1;
}

#endif
