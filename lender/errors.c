// SPDX-License-Identifier: GPL-2.0
/*
 * What the PCI core tells of errors and resets of lent functions (struct pci_error_handlers), and
 * what that means for a lease.
 *
 * Knows nothing of borrowers.
 */
#include <linux/pci.h>

#include "lender/errors.h"
#include "lender/fence.h"
#include "lender/lease.h"
#include "lender/reset.h"

/*
 * Does AER say that this function itself has an error?  True also where that is not known: firmware
 * that handles errors has cleared AER's registers already.
 */
static bool lend_error_is_own(struct pci_dev *pdev)
{
	u16 at = pci_find_ext_capability(pdev, PCI_EXT_CAP_ID_ERR);
	u32 status, mask;
	u16 devsta;

	/* Not known: firmware has cleared it, or a bridge reports for a device without PCIe. */
	if (!pci_find_host_bridge(pdev->bus)->native_aer || !pci_is_pcie(pdev))
		return true;
	if (!at) {
		pcie_capability_read_word(pdev, PCI_EXP_DEVSTA, &devsta);
		return devsta & (PCI_EXP_DEVSTA_NFED | PCI_EXP_DEVSTA_FED);
	}
	pci_read_config_dword(pdev, at + PCI_ERR_UNCOR_STATUS, &status);
	pci_read_config_dword(pdev, at + PCI_ERR_UNCOR_MASK, &mask);
	return status & ~mask;
}

/* Is a bit of COMMAND set? */
static bool lend_error_command(struct lend_fn *fn, u16 bit)
{
	u16 command;

	pci_read_config_word(fn->pdev, PCI_COMMAND, &command);
	return command & bit;
}

/*
 * The PCI core tells every function below a port of an error of any of them.  If the link to them
 * works (the state is not "frozen"), and this function answers, has no error of its own and was
 * not reset, its lease can go on.
 */
static bool lend_error_unharmed(struct lend_fn *fn)
{
	/* A virtual function has no such bit of its own: it is its physical function's. */
	if (!lend_error_command(fn, PCI_COMMAND_MEMORY) && !fn->pdev->is_virtfn)
		return false;
	return !READ_ONCE(fn->error_until) && !lend_reset_answers(fn) &&
	       !lend_error_is_own(fn->pdev);
}

static pci_ers_result_t lend_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (state == pci_channel_io_frozen || !lend_error_unharmed(fn))
		lend_lease_error(fn);
	if (state == pci_channel_io_perm_failure) {
		/* One neighbour without a driver causes this state, too: our own reset decides. */
		lend_lease_error_over(fn);
		return PCI_ERS_RESULT_DISCONNECT;
	}
	/* Our own reset follows.  If the function can be reached, its neighbours need none. */
	return state == pci_channel_io_normal ? PCI_ERS_RESULT_CAN_RECOVER :
						PCI_ERS_RESULT_NEED_RESET;
}

/*
 * A reset of all that is below a port clears Memory Space Enable.  For a virtual function look at
 * Bus Master Enable: the driver of its physical function may have brought back everything else by
 * now.  If that bit was clear before the error, this assumes that there was a reset.
 */
static bool lend_error_not_reset(struct lend_fn *fn)
{
	return lend_error_command(fn, fn->pdev->is_virtfn ? PCI_COMMAND_MASTER :
							    PCI_COMMAND_MEMORY);
}

static pci_ers_result_t lend_error_slot_reset(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	/* A neighbour's driver wanted a reset; some kernels only say so, and make none. */
	if (lend_error_not_reset(fn) && lend_error_unharmed(fn))
		return PCI_ERS_RESULT_RECOVERED;
	/* A neighbour's driver wanted a reset, which was made: this function lost its state. */
	if (!READ_ONCE(fn->error_until))
		lend_lease_error(fn);
	/* The group's own reset follows, and decides whether the device is lent again. */
	pci_load_saved_state(pdev, fn->saved);
	pci_restore_state(pdev);
	pci_clear_master(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static void lend_error_resume(struct pci_dev *pdev)
{
	lend_lease_error_over(pci_get_drvdata(pdev));
}

/* The reset in probe() comes before there is driver data. */
static void lend_error_reset_prepare(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (fn)
		lend_fence_reset_begins(fn);
}

static void lend_error_reset_done(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (fn)
		lend_fence_reset_over(fn);
}

const struct pci_error_handlers lend_error_handlers = {
	.error_detected = lend_error_detected,
	.slot_reset = lend_error_slot_reset,
	.resume = lend_error_resume,
	.reset_prepare = lend_error_reset_prepare,
	.reset_done = lend_error_reset_done,
};
