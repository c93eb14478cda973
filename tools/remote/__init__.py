# SPDX-License-Identifier: GPL-2.0-only
"""What programs have in common that work on several hosts: tools/migrate and tools/bench.

In this order; each module imports only modules that stand before it:

    messages        what is printed, and the exceptions that carry a message
    signals         signals that ask a program to end
    waits           waiting for a condition
    hosts           what holds for the whole run; a host, and the commands that run on it
    command_line    the command line, and how a program ends
"""
