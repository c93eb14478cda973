/* SPDX-License-Identifier: GPL-2.0 */
#ifndef DLEND_VERSION_H
#define DLEND_VERSION_H

/* Of the modules and the command, as debian/changelog has it */
#define DLEND_VERSION	"0.1"

#endif
