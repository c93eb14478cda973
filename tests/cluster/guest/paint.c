// SPDX-License-Identifier: GPL-2.0-only
/*
 * paint DRIVER [WIDTH HEIGHT]: sets the preferred mode (or one of its own, of that size) of the
 * card that this DRM driver runs, shows 8 by 6 coloured fields on it, and says the mode.  A child
 * keeps them there until it is killed.
 * 80-devices.t knows the colours too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm/drm.h>
#include <drm/drm_mode.h>

#define ACROSS	8
#define DOWN	6
#define MODES	128

static void must(int ret, const char *what)
{
	if (ret >= 0)
		return;
	perror(what);
	exit(1);
}

static int is_driver(int fd, const char *driver)
{
	char name[32] = "";
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

	return !ioctl(fd, DRM_IOCTL_VERSION, &version) && !strcmp(name, driver);
}

static int open_card(const char *driver)
{
	for (int i = 0; i < 8; i++) {
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && is_driver(fd, driver))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	fprintf(stderr, "no card of the driver %s\n", driver);
	exit(1);
}

/* The first connector, the first CRTC: the cards that are lent have one of each. */
static void find_output(int fd, uint32_t *connector, uint32_t *crtc)
{
	uint32_t connectors[8], crtcs[8], encoders[8], fbs[8];
	struct drm_mode_card_res res = { 0 };

	must(ioctl(fd, DRM_IOCTL_MODE_GETRESOURCES, &res), "resources");
	if (!res.count_connectors || !res.count_crtcs || res.count_connectors > 8 ||
	    res.count_crtcs > 8 || res.count_encoders > 8) {
		fprintf(stderr, "%u connectors, %u CRTCs\n", res.count_connectors,
			res.count_crtcs);
		exit(1);
	}
	res.connector_id_ptr = (uintptr_t)connectors;
	res.crtc_id_ptr = (uintptr_t)crtcs;
	res.encoder_id_ptr = (uintptr_t)encoders;
	res.fb_id_ptr = (uintptr_t)fbs;
	res.count_fbs = 0;
	must(ioctl(fd, DRM_IOCTL_MODE_GETRESOURCES, &res), "resources");
	*connector = connectors[0];
	*crtc = crtcs[0];
}

static struct drm_mode_modeinfo preferred(int fd, uint32_t connector)
{
	static struct drm_mode_modeinfo modes[MODES];
	struct drm_mode_get_connector conn = { .connector_id = connector };

	/* Without room for modes the kernel looks at the output anew. */
	must(ioctl(fd, DRM_IOCTL_MODE_GETCONNECTOR, &conn), "connector");
	if (!conn.count_modes || conn.count_modes > MODES) {
		fprintf(stderr, "%u modes\n", conn.count_modes);
		exit(1);
	}
	conn.modes_ptr = (uintptr_t)modes;
	conn.count_props = 0;
	conn.count_encoders = 0;
	must(ioctl(fd, DRM_IOCTL_MODE_GETCONNECTOR, &conn), "connector");
	for (uint32_t i = 0; i < conn.count_modes && i < MODES; i++)
		if (modes[i].type & DRM_MODE_TYPE_PREFERRED)
			return modes[i];
	return modes[0];
}

/* A mode that no monitor has: emulated cards only look at the size. */
static struct drm_mode_modeinfo small(uint16_t width, uint16_t height)
{
	return (struct drm_mode_modeinfo){
		.clock = 10000,
		.hdisplay = width, .hsync_start = width + 8, .hsync_end = width + 16,
		.htotal = width + 24,
		.vdisplay = height, .vsync_start = height + 2, .vsync_end = height + 4,
		.vtotal = height + 6,
		.vrefresh = 60,
		.name = "small",
	};
}

static uint32_t colour(unsigned int x, unsigned int y)
{
	return x * 36 << 16 | y * 51 << 8 | ((x ^ y) & 1 ? 255 : 64);
}

static uint32_t draw(int fd, const struct drm_mode_modeinfo *mode)
{
	struct drm_mode_create_dumb dumb = { .width = mode->hdisplay, .height = mode->vdisplay,
					     .bpp = 32 };
	struct drm_mode_map_dumb map = { 0 };
	struct drm_mode_fb_cmd fb = { .width = mode->hdisplay, .height = mode->vdisplay,
				      .bpp = 32, .depth = 24 };
	uint8_t *pixels;

	must(ioctl(fd, DRM_IOCTL_MODE_CREATE_DUMB, &dumb), "buffer");
	map.handle = dumb.handle;
	must(ioctl(fd, DRM_IOCTL_MODE_MAP_DUMB, &map), "map");
	pixels = mmap(NULL, dumb.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, map.offset);
	must(pixels == MAP_FAILED ? -1 : 0, "mmap");
	for (uint32_t y = 0; y < dumb.height; y++)
		for (uint32_t x = 0; x < dumb.width; x++)
			((uint32_t *)(pixels + y * dumb.pitch))[x] =
				colour(x * ACROSS / dumb.width, y * DOWN / dumb.height);
	fb.handle = dumb.handle;
	fb.pitch = dumb.pitch;
	must(ioctl(fd, DRM_IOCTL_MODE_ADDFB, &fb), "framebuffer");
	return fb.fb_id;
}

int main(int argc, char **argv)
{
	struct drm_mode_crtc crtc = { .count_connectors = 1, .mode_valid = 1 };
	uint32_t connector;
	int fd;

	if (argc != 2 && argc != 4) {
		fprintf(stderr, "usage: paint DRIVER [WIDTH HEIGHT]\n");
		return 2;
	}
	fd = open_card(argv[1]);
	find_output(fd, &connector, &crtc.crtc_id);
	crtc.mode = preferred(fd, connector);
	if (argc == 4)
		crtc.mode = small(atoi(argv[2]), atoi(argv[3]));
	crtc.set_connectors_ptr = (uintptr_t)&connector;
	crtc.fb_id = draw(fd, &crtc.mode);
	must(ioctl(fd, DRM_IOCTL_MODE_SETCRTC, &crtc), "mode");
	printf("%u %u\n", crtc.mode.hdisplay, crtc.mode.vdisplay);
	fflush(stdout);
	if (fork())
		return 0;
	for (;;)
		pause();
}
