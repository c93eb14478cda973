// SPDX-License-Identifier: GPL-2.0-only
/* Columns as wide as what is in them; an empty cell shows as a dash. */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

void table_row(struct table *t, int columns, const char *const *cell)
{
	t->columns = columns;
	t->cell = reallocarray(t->cell, (t->rows + 1) * columns, sizeof(*t->cell));
	if (!t->cell)
		abort();
	for (int i = 0; i < columns; i++)
		t->cell[t->rows * columns + i] = strdup(cell[i] && *cell[i] ? cell[i] : "-");
	t->rows++;
}

static size_t column_width(const struct table *t, int column)
{
	size_t most = 0;

	for (size_t row = 0; row < t->rows; row++) {
		size_t len = strlen(t->cell[row * t->columns + column]);

		if (len > most)
			most = len;
	}
	return most;
}

void table_print(struct table *t)
{
	size_t wide[COLUMNS_MAX];

	for (int i = 0; i < t->columns; i++)
		wide[i] = column_width(t, i);
	for (size_t row = 0; row < t->rows; row++)
		for (int i = 0; i < t->columns; i++) {
			char *cell = t->cell[row * t->columns + i];

			if (i + 1 < t->columns)
				printf("%-*s  ", (int)wide[i], cell);
			else
				printf("%s\n", cell);
			free(cell);
		}
	free(t->cell);
	memset(t, 0, sizeof(*t));
}
