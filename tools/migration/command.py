# SPDX-License-Identifier: GPL-2.0-only
"""The command line of dlend migrate."""
import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

from remote.command_line import Parser, host_name, run_program
from remote.hosts import Host, Settings
from remote.messages import Failure, print_json, print_line, print_progress

from .blackout import blackout_seconds, describe_blackout
from .checks import examine_both_hosts
from .domain import UUID
from .finish import finish_move
from .keeping import prepare_vm
from .move import Move
from .note import lock_vm
from .plan import plan_move
from .probe import find_domain_uuid, probe_names, probe_this_host
from .release import release_vm
from .runner import run_move
from .steps import steps_for_json


def vm_name(text):
    """As libvirt has it; a UUID or an id here, too."""
    if not 0 < len(text) < 256 or "/" in text or not text.isprintable():
        raise argparse.ArgumentTypeError("that is no name of a VM")
    return text


def parse_arguments(argv):
    p = Parser("migrate", "Move a VM and its lent devices to another host.")
    p.add_argument("--live", action="store_true", help="move it while it runs; its devices stay as they are")
    p.add_argument("--detach", action="store_true", help="with --live: detach devices that cannot stay, and attach them on HOST")
    p.add_argument("--detach-all", action="store_true", help="with --live: detach all devices, and attach them on HOST")
    p.add_argument("--cut", action="store_true", help="with --live: move network and sound devices, too, which lose transfers "
                   "of that moment, and USB controllers that their lender allows")
    p.add_argument("--copy", choices=("compare", "send"), help="with --live: how to copy memory that devices write to")
    p.add_argument("--dry-run", action="store_true", help="check everything and print the steps, but change nothing")
    p.add_argument("--no-start", dest="start", action="store_false", help="do not start it on HOST")
    p.add_argument("--timeout", type=int, default=180, metavar="S", help="time for the guest to shut down, or to let a device go (180)")
    p.add_argument("--wait", type=int, default=60, metavar="S", help="time for a device to become free (60)")
    p.add_argument("--uri", help="the libvirt of HOST, if it is not qemu+ssh://HOST/system")
    p.add_argument("--extra", action="append", default=[], metavar="OPTION", help="with --live: give this option to virsh migrate; may be repeated")
    p.add_argument("--shared-tpm", action="store_true", help="HOST has the state of the VM's TPM already")
    p.add_argument("--shared-disks", action="store_true", help="HOST has the same disks and files at the same paths")
    p.add_argument("--prepare", action="store_true", help="change the definition of VM so that its devices can stay")
    p.add_argument("--finish", action="store_true", help="on HOST: start a VM that another host was moving here "
                   "when it died")
    p.add_argument("--force", action="store_true", help="with --finish: go on if the other host cannot be asked; only if you know "
                   "that no host runs VM")
    p.add_argument("--release", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--file", action="append", default=[], help=argparse.SUPPRESS)
    p.add_argument("vm", metavar="VM", type=vm_name)
    p.add_argument("more", nargs="*", metavar="HOST", type=host_name)
    args = p.parse_args(argv)
    wanted = 0 if args.finish or args.prepare else 1
    args.host = args.more[0] if args.more else ""
    if not args.probe and len(args.more) != wanted:
        p.error("VM and HOST are needed" if wanted else "--finish and --prepare take a VM only")
    if args.force and not args.finish:
        p.error("--force goes with --finish")
    if args.live and not args.start:
        p.error("--live and --no-start exclude each other")
    if (args.detach or args.detach_all or args.cut or args.copy) and not args.live:
        p.error("--detach, --detach-all, --cut and --copy go with --live")
    if args.detach_all and (args.cut or args.copy):
        p.error("--detach-all goes with neither --cut nor --copy: no device stays")
    return args


def migrate_vm(settings, args):
    move = Move(settings, args)
    # What the program sees holds as long as nobody else moves the VM, and an id only while the VM runs.
    uuid = find_domain_uuid(move.here, args.vm, probe_names(move.here))
    with lock_vm(settings, uuid) if uuid and not args.dry_run else contextlib.nullcontext():
        examine_both_hosts(move, uuid or args.vm)
        plan_move(move)
        if args.dry_run:
            print_plan(move)
        else:
            # It belongs to this host: no older move to here is to be finished any more.
            settings.note_path(move.uuid).unlink(missing_ok=True)
            carry_out(move)


def print_plan(move):
    if move.args.json:
        blackout = {"blackout_seconds": blackout_seconds(move.copy, move.drains), "copy": move.copy.method} if move.copy else {}
        print_json(steps_for_json(move.steps, vm=move.vm, host=move.args.host, dry_run=True, **blackout))
        return
    print_line("\n".join(step.title for step in move.steps), sys.stdout)
    if move.copy:
        print_line(describe_copy(move), sys.stdout)


def describe_copy(move):
    return f"{describe_blackout(move.copy, move.drains)} (--copy {move.copy.method}: {move.copy.why})"


def carry_out(move):
    """Run the move, and tell how it ended."""
    args, begin = move.args, time.monotonic()
    if move.copy:
        print_progress(move.settings, describe_copy(move))
    try:
        run_move(move)
        if move.to_do_by_hand:
            raise Failure(f"{move.vm} was moved to {move.there}, but not all was tidied up", "",
                          "; ".join(move.to_do_by_hand))
    except Failure as error:
        error.details = steps_for_json(move.steps, vm=move.vm, owner=move.owner)
        raise
    seconds = time.monotonic() - begin
    if args.json:
        stood = {"downtime_seconds": move.stood_still, "last_pass_bytes": move.last_bytes} if args.live else {}
        print_json(steps_for_json(move.steps, vm=move.vm, owner="there", host=args.host, seconds=round(seconds, 3),
                                  **stood))
    else:
        state = "runs on" if args.start else "belongs to"
        stood = f", of which it stood still for {move.stood_still:.2f} s" if move.stood_still is not None else ""
        print_line(f"{move.vm} {state} {move.there} now ({seconds:.0f} s{stood})", sys.stdout)


def print_probe(settings, args):
    uuids = [word for word in args.more if UUID.fullmatch(word)]
    print_line(json.dumps(probe_this_host(Host(settings, "this host"), args.vm, uuids, args.file)), sys.stdout)


def perform(args):
    settings = Settings(Path(args.root), args.json)
    if args.probe:
        print_probe(settings, args)
    elif args.prepare:
        prepare_vm(settings, args)
    elif args.release:
        release_vm(settings, args)
    elif args.finish:
        finish_move(settings, args)
    else:
        migrate_vm(settings, args)


def main(argv):
    """Do what the command line says.  Return the exit status."""
    return run_program("migrate", argv, parse_arguments, perform)
