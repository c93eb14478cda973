// SPDX-License-Identifier: GPL-2.0-only
/* dlend metrics: this host in numbers, for Prometheus (docs/monitoring.md). */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "../include/dlend/version.h"
#include "metrics.h"

static const char *const modules[] = { DLEND_MODULES };

static void show_node(void)
{
	char node[TEXT_MAX];
	const char *labels;

	own_node(node);
	labels = metric_label(NULL, "node", *node ? node : "0");
	metric_begin("dlend_node_info", "Id of this node, 0: none; version of the dlend command.");
	metric_sample(metric_label(labels, "version", DLEND_VERSION), "1");
	metric_begin("dlend_module_loaded", "1 if the module is loaded.");
	for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
		char *dir = path("%s/module/%s", opt.sysfs, modules[i]);

		metric_sample(metric_label(NULL, "module", modules[i]),
			      path_exists(dir) ? "1" : "0");
		free(dir);
	}
	metric_begin("dlend_debugfs_readable", "1 if the numbers of debugfs are among these.");
	metric_sample(NULL, metric_has_debugfs() ? "1" : "0");
}

static void show_metrics(void)
{
	show_node();
	metrics_links();
	metrics_lent();
	metrics_offers();
	metrics_mdevs();
	metrics_attached();
}

int cmd_metrics(int argc, char **argv)
{
	static const struct option options[] = {
		{ "no-debugfs", no_argument, NULL, 'n' },
		{ "output", required_argument, NULL, 'o' },
		{ 0 }
	};
	const char *output = NULL;
	int c;

	while ((c = verb_option(argc, argv, options)) != -1) {
		if (c == 'n')
			metric_leave_debugfs();
		output = c == 'o' ? optarg : output;
	}
	if (optind != argc)
		refuse_usage(argv[0]);
	if (output)
		check_file_name("output", output);
	if (output)
		output_begin(output, "Make its directory, or give another file.");
	show_metrics();
	if (output)
		output_end();
	else if (fflush(stdout) || ferror(stdout))
		fail(EXIT_FAIL, "standard output cannot be written", NULL, NULL);
	return EXIT_OK;
}
