# SPDX-License-Identifier: GPL-2.0-only
"""The parts of tools/migrate; what it has in common with other programs is in tools/remote.

In this order; each module imports only modules that stand before it:

    settings        what holds for the whole move, and where it leaves its files
    locks           a lock on a VM
    jobs            a migration of libvirt's: its command, its end, what libvirt tells of it
    domain          the XML of a libvirt domain
    files           files and disks of its host that a VM uses
    note            the note on the target that a VM comes
    keeping         what that needs so that devices stay while the VM moves
    mdevs           mediated devices of one host: start, stop, undefine
    probe           what a host knows of a VM and its devices
    release         a host lets go of a VM, so that another one can start it
    blackout        how long a VM stands still, and how its memory is copied
    steps           one step of a move
    move            the state of a move: the VM, both hosts, the steps
    whereabouts     which host runs the VM
    network         how fast the network to the other host is
    checks          what is checked before anything is changed
    device_steps    the steps that deal with one device
    vm_steps        the steps that deal with the VM
    precopy         copies the memory of a VM whose devices stay
    keep_steps      the steps that let devices stay
    plan            which steps a move has, and in which order
    runner          runs the steps; undoes them when one fails
    finish          `dlend migrate --finish`
    prepare         `dlend migrate --prepare`
    command         the command line
"""
