# SPDX-License-Identifier: GPL-2.0-only
"""Hosts with libvirt (virt-hosts.toml): how they come up, and what a VM that moves could leave on one."""

LEFT = "virsh -q list --all --name; [ ! -d /sys/bus/mdev ] || ls /sys/bus/mdev/devices; find /etc/mdevctl.d /run/dlend -name '*-*-*-*-*' ! -name '*.lock'"


def up(f):
    """All that is installed, and all links.  f: the Fabric"""
    hosts = f.cluster.hosts.values()
    for host in hosts:
        host.install()
    # The first call makes libvirtd ask QEMU what it can do
    calls = [host.spawn("virsh -q list --all") for host in hosts]
    f.up()
    for call in calls:
        call.wait(300, check=True)


def left(host):
    """Names of VMs, and of mediated devices, their definitions and notes of moves."""
    return host.run(LEFT).out.split()
