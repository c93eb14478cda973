# SPDX-License-Identifier: GPL-2.0-only
"""The command line of dlend bench."""
import argparse
import ipaddress
import re
import sys
from pathlib import Path

from remote.command_line import Parser, host_name, run_program
from remote.hosts import Host, Settings, host_by_ssh
from remote.messages import Failure, print_json, print_line

from .bar import BarBench
from .card import CardBench
from .disk import DiskBench
from .report import as_json, as_lines, distribution, rates_by_size
from .peers import PeerBench
from .plot import draw
from .rounds import Bench, is_virtual

BDF = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.I)
RUNS, IOS = (2, 1000), (1, 10_000_000)      # the least and the most


def pci_address(text):
    found = BDF.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError("that is no PCI address")
    return f"{found[1] or '0000'}:{found[2]:0>2}:{found[3]:0>2}.{found[4]}".lower()


def between(least, most):
    def number(text):
        if not text.isascii() or not text.isdecimal() or not least <= int(text[:10]) <= most:
            raise argparse.ArgumentTypeError(f"it is a number from {least} to {most}")
        return int(text)
    return number


def word(text):
    if not 0 < len(text) < 256 or not text.isprintable():
        raise argparse.ArgumentTypeError("it has to be 1 to 255 printable characters")
    return text


def parse_arguments(argv):
    p = Parser("bench", "Measure a device of LENDER: on LENDER itself, and attached to BORROWER, or to this host.")
    p.add_argument("--device", metavar="BDF", type=pci_address, help="the NVMe disk or other device, by its address on LENDER")
    p.add_argument("--p2p", metavar=("DISK", "MEMORY"), nargs=2, type=pci_address, help="instead: an NVMe disk of this host reads into the memory "
                   "buffer of another device of this host, directly and through RAM; their addresses here")
    p.add_argument("--bar", metavar="N", type=between(0, 5), help="read this BAR, instead of a disk; reading it must have no side effects")
    p.add_argument("--ping", metavar="ADDRESS", type=ipaddress.IPv4Address, help="send packets to this address, by a network card, instead")
    p.add_argument("--address", metavar="ADDRESS/BITS", type=ipaddress.IPv4Interface, help="with --ping: the card's own address meanwhile")
    p.add_argument("--runs", metavar="N", type=between(*RUNS), default=10, help="number of runs on each host (10)")
    p.add_argument("--ios", metavar="N", type=between(*IOS), default=0, help="number of transfers of each job of a run (for a disk: 1000 large "
                   "and 10000 small ones)")
    p.add_argument("--write", metavar="ID", type=word, help="write, too: to the disk with this serial number, which must be "
                   "empty, or to the BAR of the device with this VENDOR:DEVICE, the values that were read from it")
    p.add_argument("--plot", metavar="FILE", type=word, help="draw the distribution of latencies (SVG)")
    p.add_argument("hosts", metavar="HOST", nargs="*", type=host_name, help="[BORROWER] LENDER, as ssh knows them")
    args = p.parse_args(argv)
    if args.p2p and (args.device or args.hosts or args.ping or args.bar is not None or len(set(args.p2p)) < 2):
        p.error("--p2p DISK MEMORY: two devices of this host, without --device, --bar, --ping and HOST")
    if not args.p2p and (not args.device or not 1 <= len(args.hosts) <= 2):
        p.error("--device BDF and one or two hosts are needed, or --p2p DISK MEMORY")
    if bool(args.ping) != bool(args.address) or (args.ping and (args.write or args.bar is not None)):
        p.error("--ping and --address belong together, without --bar and --write")
    if args.ping and args.ping not in args.address.network:
        p.error(f"--ping {args.ping} is not in the network of --address {args.address}")
    if args.plot and (Path(args.plot).is_dir() or not Path(args.plot).absolute().parent.is_dir()):
        p.error(f"--plot {args.plot}: that is no name of a file")
    return args


def subject_of(args):
    if args.ping:
        return CardBench(str(args.address), str(args.ping))
    return DiskBench(args.write) if args.bar is None else BarBench(args.bar, args.write)


def bench_of(args):
    settings = Settings(Path(args.root), args.json)
    here = Host(settings, "this host")
    if args.p2p:
        return PeerBench(here, *args.p2p, args.write, args.runs, args.ios)
    hosts = [host_by_ssh(settings, name) for name in args.hosts]
    return Bench(hosts[-1], hosts[0] if len(hosts) == 2 else here, args.device, subject_of(args), args.runs, args.ios)


def measure(args):
    bench = bench_of(args)
    bench.perform()
    virtual = any(is_virtual(host) for host in bench.hosts())
    if not args.json:
        print_line("\n".join(as_lines(bench, virtual)), sys.stdout)
    if args.plot:
        write_plot(args.plot, bench, virtual)
    if args.json:
        print_json(as_json(bench, virtual))


def write_plot(name, bench, virtual):
    """If that fails, the numbers are told all the same."""
    jobs = {job.title(): {place: distribution(runs) for place, runs in places.items()} for job, places in bench.results.items()}
    try:
        Path(name).write_text(draw(jobs, rates_by_size(bench.results), not virtual), encoding="utf-8")
    except OSError as error:
        failure = Failure(f"{name} cannot be written", error.strerror)
        failure.details = as_json(bench, virtual)
        raise failure from None


def main(argv):
    """Do what the command line says.  Return the exit status."""
    return run_program("bench", argv, parse_arguments, measure)
