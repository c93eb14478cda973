// SPDX-License-Identifier: GPL-2.0-only
/*
 * fixedlink INTERFACE: 100 Mb/s, full duplex, without negotiation, as "ethtool -s" would set it.
 *
 * A link that is not negotiated is there as soon as the interface is up.
 */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct ethtool_cmd cmd = { .cmd = ETHTOOL_GSET };
	struct ifreq request = { .ifr_data = (void *)&cmd };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (argc != 2 || strlen(argv[1]) >= sizeof(request.ifr_name)) {
		fprintf(stderr, "usage: fixedlink INTERFACE\n");
		return 2;
	}
	strcpy(request.ifr_name, argv[1]);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request)) {
		perror(argv[1]);
		return 1;
	}
	cmd.cmd = ETHTOOL_SSET;
	cmd.autoneg = AUTONEG_DISABLE;
	cmd.duplex = DUPLEX_FULL;
	ethtool_cmd_speed_set(&cmd, 100);
	if (ioctl(fd, SIOCETHTOOL, &request)) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
