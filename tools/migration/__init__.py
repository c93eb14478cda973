# SPDX-License-Identifier: GPL-2.0-only
"""The parts of tools/migrate; what it has in common with other programs is in tools/remote.

In this order; each module imports only modules that stand before it:

    jobs            a migration of libvirt's: its command, its end, what libvirt tells of it
    domain          the XML of a libvirt domain
    files           files and disks of its host that a VM uses
    note            a lock on a VM, and the note on the target that it comes
    mdevs           mediated devices of one host: start, stop, undefine
    probe           what a host knows of a VM and its devices
    keeping         what that needs so that devices stay while the VM moves; `dlend migrate --prepare`
    release         a host lets go of a VM, so that another one can start it
    blackout        how long a VM stands still, and how its memory is copied
    steps           one step of a move; and which host runs the VM
    move            the state of a move: the VM, both hosts, the steps
    checks          what is checked before anything is changed
    device_steps    the steps that deal with one device
    vm_steps        the steps that deal with the VM
    precopy         moves a VM whose devices stay, and the steps for that
    plan            which steps a move has, and in which order
    runner          runs the steps; undoes them when one fails
    finish          `dlend migrate --finish`
    command         the command line
"""
