# SPDX-License-Identifier: GPL-2.0
# Sources without hardware: no device pointer, no locks of the kernel's, time as an argument.
# They are compiled three times: into the modules, into the KUnit kernel (tests/kunit) and in
# user space under ASan, UBSan and a fuzzer (tests/user).
dlend-pure := ntb/proto ntb/queue ntb/bringup ntb/irqscan ntb/caps ntb/names ntb/p2p_domains ntb/fit
dlend-pure += iommu/slots iommu/maps iommu/claims
dlend-pure += lender/lease_sm lender/cfgfilter lender/drain
dlend-pure += mdev/move_stream mdev/scan mdev/ranges mdev/pinned
dlend-pure += borrower/cfg mdev/plan mdev/outstanding
dlend-pure += borrower/p2p_plan
