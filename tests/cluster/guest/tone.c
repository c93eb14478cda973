// SPDX-License-Identifier: GPL-2.0-only
/*
 * tone HERTZ SECONDS: a sine on the first sound card, by the kernel's own interface.
 *
 * 16 kHz stereo, as a lent card reads its samples across the emulated link; in small periods, each
 * of which is an interrupt.  Says how often the card ran out of samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <sound/asound.h>

#define RATE		16000
#define CHANNELS	2
#define PERIOD		2048
#define PERIODS		8

static void any(struct snd_pcm_hw_params *p)
{
	memset(p, 0, sizeof(*p));
	for (int i = 0; i <= SNDRV_PCM_HW_PARAM_LAST_MASK - SNDRV_PCM_HW_PARAM_FIRST_MASK; i++)
		memset(p->masks[i].bits, 0xff, sizeof(p->masks[i].bits));
	for (int i = 0; i <= SNDRV_PCM_HW_PARAM_LAST_INTERVAL -
			SNDRV_PCM_HW_PARAM_FIRST_INTERVAL; i++)
		p->intervals[i].max = UINT32_MAX;
	p->rmask = UINT32_MAX;
	p->info = UINT32_MAX;
}

static void choose(struct snd_pcm_hw_params *p, int param, unsigned int bit)
{
	struct snd_mask *mask = &p->masks[param - SNDRV_PCM_HW_PARAM_FIRST_MASK];

	memset(mask->bits, 0, sizeof(mask->bits));
	mask->bits[bit / 32] = 1u << bit % 32;
}

static void set(struct snd_pcm_hw_params *p, int param, unsigned int value)
{
	struct snd_interval *interval = &p->intervals[param - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL];

	interval->min = value;
	interval->max = value;
	interval->integer = 1;
}

static void must(int ret, const char *what)
{
	if (ret >= 0)
		return;
	perror(what);
	exit(1);
}

static void configure(int fd)
{
	struct snd_pcm_hw_params hw;
	struct snd_pcm_sw_params sw = {
		.period_step = 1,
		.avail_min = PERIOD,
		.start_threshold = PERIOD * PERIODS,
		.stop_threshold = PERIOD * PERIODS,
	};

	any(&hw);
	choose(&hw, SNDRV_PCM_HW_PARAM_ACCESS, SNDRV_PCM_ACCESS_RW_INTERLEAVED);
	choose(&hw, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
	choose(&hw, SNDRV_PCM_HW_PARAM_SUBFORMAT, SNDRV_PCM_SUBFORMAT_STD);
	set(&hw, SNDRV_PCM_HW_PARAM_CHANNELS, CHANNELS);
	set(&hw, SNDRV_PCM_HW_PARAM_RATE, RATE);
	set(&hw, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, PERIOD);
	set(&hw, SNDRV_PCM_HW_PARAM_PERIODS, PERIODS);
	must(ioctl(fd, SNDRV_PCM_IOCTL_HW_PARAMS, &hw), "hardware parameters");
	must(ioctl(fd, SNDRV_PCM_IOCTL_SW_PARAMS, &sw), "software parameters");
	must(ioctl(fd, SNDRV_PCM_IOCTL_PREPARE), "prepare");
}

/* Return: how often the card had run out of samples. */
static unsigned int write_period(int fd, int16_t *samples)
{
	struct snd_xferi x = { .buf = samples, .frames = PERIOD };

	if (!ioctl(fd, SNDRV_PCM_IOCTL_WRITEI_FRAMES, &x))
		return 0;
	if (errno != EPIPE)
		must(-1, "write");
	must(ioctl(fd, SNDRV_PCM_IOCTL_PREPARE), "prepare again");
	must(ioctl(fd, SNDRV_PCM_IOCTL_WRITEI_FRAMES, &x), "write again");
	return 1;
}

int main(int argc, char **argv)
{
	int16_t samples[PERIOD * CHANNELS];
	unsigned int ran_out = 0;
	double hertz;
	int fd, total;

	if (argc != 3) {
		fprintf(stderr, "usage: tone HERTZ SECONDS\n");
		return 2;
	}
	hertz = atof(argv[1]);
	total = atoi(argv[2]) * RATE / PERIOD;
	/* Less than fills the buffer would never start it. */
	if (total < PERIODS)
		total = PERIODS;
	fd = open("/dev/snd/pcmC0D0p", O_WRONLY);
	must(fd, "/dev/snd/pcmC0D0p");
	configure(fd);
	for (int n = 0; n < total; n++) {
		for (int i = 0; i < PERIOD; i++) {
			double t = (double)(n * PERIOD + i) / RATE;

			samples[CHANNELS * i] = lrint(20000 * sin(2 * M_PI * hertz * t));
			samples[CHANNELS * i + 1] = samples[CHANNELS * i];
		}
		ran_out += write_period(fd, samples);
	}
	must(ioctl(fd, SNDRV_PCM_IOCTL_DRAIN), "drain");
	printf("periods %d\nran_out %u\n", total, ran_out);
	return 0;
}
