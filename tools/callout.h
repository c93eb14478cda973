/* SPDX-License-Identifier: GPL-2.0-only */
/* What a definition of mdevctl's says of a device's attributes. */
#ifndef DLEND_TOOL_CALLOUT_H
#define DLEND_TOOL_CALLOUT_H

#include "dlend.h"

struct attribute {
	char name[TEXT_MAX], value[TEXT_MAX];
};

struct attributes {
	size_t count;
	struct attribute *entry;
};

/** json_attributes - add the "attrs" of @definition to @a. Return: false if it is none */
bool json_attributes(const char *definition, struct attributes *a);

#endif
