// SPDX-License-Identifier: GPL-2.0
/*
 * dlend_core: the module.  Its parameters are in the files that use them.
 */
#include <linux/module.h>
#include <dlend/caps.h>
#include <dlend/compat.h>
#include <dlend/kind.h>
#include <dlend/names.h>
#include <dlend/version.h>
#include "debugfs.h"
#include "link.h"
#include "link_life.h"
#include "loop.h"
#include "pm.h"
#include "required.h"

#define CREATE_TRACE_POINTS
#include <ntb/trace.h>

/* The pure parts are exported here: their own files know nothing of modules. */
DLEND_EXPORT(dlend_addr_name);
DLEND_EXPORT(dlend_cap_at);
DLEND_EXPORT(dlend_cap_bytes);
DLEND_EXPORT(dlend_cap_header_rules);
DLEND_EXPORT(dlend_cap_owned);
DLEND_EXPORT(dlend_caps_disown);
DLEND_EXPORT(dlend_caps_find);
DLEND_EXPORT(dlend_caps_next);
DLEND_EXPORT(dlend_caps_own);
DLEND_EXPORT(dlend_caps_room);
DLEND_EXPORT(dlend_kind);
DLEND_EXPORT(dlend_kind_title);
DLEND_EXPORT(dlend_offer_state_name);
DLEND_EXPORT(dlend_irq_mode_name);
DLEND_EXPORT(dlend_name_read);
DLEND_EXPORT(dlend_msg_check);
DLEND_EXPORT(dlend_msg_init);
DLEND_EXPORT(dlend_msg_type_name);

static int __init dlend_core_init(void)
{
	int err = dlend_link_queues_create();

	if (err)
		return err;
	err = class_register(&dlend_link_class);
	if (err)
		goto free_queues;
	dlend_debugfs_init();
	err = dlend_pm_init();
	if (err)
		goto free_debugfs;
	if (!dlend_node_id())
		pr_warn("dlend: no node id, links stay down: set dlend_core.node_id to 1..65535, different on every node\n");
	return 0;

free_debugfs:
	dlend_debugfs_exit();
	class_unregister(&dlend_link_class);
free_queues:
	dlend_link_queues_destroy();
	return err;
}

static void __exit dlend_core_exit(void)
{
	dlend_loop_exit();
	dlend_pm_exit();
	dlend_debugfs_exit();
	class_unregister(&dlend_link_class);
	dlend_link_queues_destroy();
	dlend_required_forget();
}

module_init(dlend_core_init);
module_exit(dlend_core_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
MODULE_DESCRIPTION("dlend: links between hosts and their apertures");
