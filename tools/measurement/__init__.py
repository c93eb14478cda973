# SPDX-License-Identifier: GPL-2.0-only
"""The parts of tools/bench; what it has in common with other programs is in tools/remote.

In this order; each module imports only modules that stand before it:

    times           a job, how long its transfers took, and means of repeated runs
    device          a PCI device on one host; it is lent, attached, and given back
    disk            an NVMe disk, and what is measured of it, by fio
    bar             the same of a BAR
    card            the same of a network card
    rounds          runs the jobs on both hosts, in turn, and counts interrupts and messages
    peers           a disk that reads into the memory of another device, directly and through RAM
    report          the numbers, for people and for programs
    plot            the distribution as SVG
    command         the command line
"""
