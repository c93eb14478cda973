// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-borrower: devices that other nodes lend, on the dlend bus.  Other modules use them
 * (dlend_mdev makes mediated devices for guests).
 */
#include <linux/module.h>
#include <dlend/cfg.h>
#include <dlend/clique.h>
#include <dlend/compat.h>
#include <dlend/p2p_clique.h>
#include <dlend/version.h>
#include "bus.h"
#include "news.h"
#include "offer_life.h"
#include "p2p.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Pure code is compiled in user space, too, and exports nothing by itself. */
DLEND_EXPORT(dlend_cfg_bar_addr);
DLEND_EXPORT(dlend_cfg_bme);
DLEND_EXPORT(dlend_cfg_init);
DLEND_EXPORT(dlend_cfg_intx_disabled);
DLEND_EXPORT(dlend_cfg_live);
DLEND_EXPORT(dlend_cfg_mastering);
DLEND_EXPORT(dlend_cfg_mse);
DLEND_EXPORT(dlend_cfg_msi);
DLEND_EXPORT(dlend_cfg_msix);
DLEND_EXPORT(dlend_cfg_msix_range);
DLEND_EXPORT(dlend_cfg_read);
DLEND_EXPORT(dlend_cfg_readrq);
DLEND_EXPORT(dlend_cfg_reset);
DLEND_EXPORT(dlend_cfg_vpd);
DLEND_EXPORT(dlend_cfg_vpd_done);
DLEND_EXPORT(dlend_cfg_write);
DLEND_EXPORT(dlend_cfg_save);
DLEND_EXPORT(dlend_cfg_load);
DLEND_EXPORT(dlend_clique_known);
DLEND_EXPORT(dlend_clique_place);
DLEND_EXPORT(dlend_clique_write);
DLEND_EXPORT(dlend_p2p_clique);
DLEND_EXPORT(dlend_p2p_claim);
DLEND_EXPORT(dlend_p2p_doubt);
DLEND_EXPORT(dlend_p2p_doubt_text);

static int __init dlend_borrower_init(void)
{
	int ret = dlend_p2p_init();

	if (ret)
		return ret;
	dlend_waits_for_no_peer(&dlend_offers_lock);
	dlend_waits_for_no_peer(&dlend_p2p_lock);
	ret = bus_register(&dlend_bus_type);
	if (ret)
		goto exit_p2p;
	ret = dlend_offer_life_init();
	if (ret)
		goto unregister_bus;
	ret = dlend_news_init();
	if (ret)
		goto exit_life;
	return 0;

exit_life:
	dlend_offer_life_exit();
unregister_bus:
	bus_unregister(&dlend_bus_type);
exit_p2p:
	dlend_p2p_exit();
	return ret;
}

/* No user is left: each user holds this module. */
static void __exit dlend_borrower_exit(void)
{
	dlend_news_exit();
	dlend_offer_life_exit();
	bus_unregister(&dlend_bus_type);
	dlend_p2p_exit();
}

module_init(dlend_borrower_init);
module_exit(dlend_borrower_exit);
MODULE_DESCRIPTION("dlend: PCIe devices that other hosts lend");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
