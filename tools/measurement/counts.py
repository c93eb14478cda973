# SPDX-License-Identifier: GPL-2.0-only
"""Interrupts and messages: what a host's kernel has counted so far."""
import re

# Interrupts for lent devices: their names in /proc/interrupts
ARRIVING = ("dlend-direct", "ndev_vec_isr", "ntb_doorbell")     # on the borrower: a device's own messages, or the NTB's doorbell
LENDER = ("dlend-lender",)                                      # on the lender, which passes them on by the doorbell


def interrupts_taken(text, names):
    """How many a host's processors have taken, of those with one of these in their name.  text: of /proc/interrupts"""
    lines = [line.split() for line in text.splitlines() if any(name in line for name in names)]
    taken = 0
    for words in lines:
        for word in words[1:]:
            if not word.isdecimal():
                break
            taken += int(word)
    return taken


def messages_sent(text):
    """How many a host has sent over its links; heartbeats are none.  text: of its links' files in debugfs"""
    return sum(int(count) for count in re.findall(r"^msg_\w+: sent (\d+)", text, re.M))


def read_interrupts(host, names):
    """{what: how many a host has taken}.  names: {what: names of interrupts}"""
    text = host.run_checked(["cat", str(host.settings.root / "proc/interrupts")])
    return {what: interrupts_taken(text, words) for what, words in names.items()}


def read_messages(host):
    """How many a host has sent; None without debugfs."""
    links = host.run(["sh", "-c", 'cat "$1"/*:*', "sh", str(host.settings.root / "sys/kernel/debug/dlend/links")])
    return None if links.returncode else messages_sent(links.stdout)
