# SPDX-License-Identifier: GPL-2.0-only
"""The parts of tools/bench; what it has in common with other programs is in tools/remote.

In this order; each module imports only modules that stand before it:

    intervals       means of repeated runs, and how far they can be trusted
    times           a job, and how long its transfers took
    fio             jobs of fio's, and what it says of them
    counts          interrupts and messages
    device          a PCI device on one host
    disk            an NVMe disk, and what is measured of it
    bar             the same of a BAR
    card            the same of a network card
    loan            a device is lent and attached, and given back
    rounds          runs the jobs on both hosts, in turn
    report          the numbers, for people and for programs
    plot            the distribution as SVG
    command         the command line
"""
