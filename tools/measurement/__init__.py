# SPDX-License-Identifier: GPL-2.0-only
"""The parts of tools/bench; what it has in common with other programs is in tools/remote.

In this order; each module imports only modules that stand before it:

    intervals       means of repeated runs, and how far they can be trusted
    times           a job
    fio             jobs of fio's, and what it says of them
    counts          interrupts and messages
    disk            an NVMe disk on one host, and what is measured of it
    loan            a device is lent and attached, and given back
    rounds          runs the jobs on both hosts, in turn
    report          the numbers, for people and for programs
    plot            the distribution as SVG
    command         the command line
"""
