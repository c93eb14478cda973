/* SPDX-License-Identifier: GPL-2.0 */
/* The control socket: commands of the tests, see README.md. */
#ifndef NTBSIM_CONTROL_H
#define NTBSIM_CONTROL_H

#include "ntb.h"

/* Return: 0 or -errno. @links is the list that the commands act on. */
int control_open(const char *path, struct ntb_link *links);
void control_close(void);

/* The client: send one command, copy the answer to stdout.  Return: exit status. */
int control_command(const char *path, const char *command);

#endif
