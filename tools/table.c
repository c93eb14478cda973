// SPDX-License-Identifier: GPL-2.0-only
/* Columns as wide as what is in them, on a terminal, too; an empty cell shows as a dash. */
#include <libsmartcols.h>
#include <stdlib.h>

#include "dlend.h"

static struct libscols_table *make_table(int columns, const char *const *head)
{
	struct libscols_table *t = scols_new_table();
	bool made = t && !scols_table_set_column_separator(t, "  ") &&
		    !scols_table_enable_noencoding(t, 1);

	for (int i = 0; i < columns && made; i++)
		made = scols_table_new_column(t, head[i], 0, 0);
	if (!made)
		abort();
	return t;
}

void table_row(struct libscols_table **t, int columns, const char *const *cell)
{
	struct libscols_line *line;

	if (!*t) {
		*t = make_table(columns, cell);
		return;
	}
	line = scols_table_new_line(*t, NULL);
	for (int i = 0; i < columns; i++)
		if (scols_line_set_data(line, i, cell[i] && *cell[i] ? cell[i] : "-"))
			abort();
}

void table_print(struct libscols_table **t)
{
	if (scols_print_table(*t))
		abort();
	scols_unref_table(*t);
	*t = NULL;
}
