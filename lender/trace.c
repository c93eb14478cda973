// SPDX-License-Identifier: GPL-2.0
/*
 * The lender's tracepoints are made here and nowhere else.
 */
#include <linux/module.h>

#define CREATE_TRACE_POINTS
#include "lender/trace.h"
