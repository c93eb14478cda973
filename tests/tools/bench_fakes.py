#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-2.0-only
"""dlend and fio as programs, for two hosts a and b that are directories in WORLD: what `dlend bench` drives.  Local does the
same within the process that measures, for tests of which there are many.

    a node 1, "this host"; b node 2, by ssh, with a disk 0000:03:00.0; with a file "board" in WORLD, that is a device without
      a driver, and on a with the driver that the file names;
      with "card", it is a network card

With a file "fail-VERB" (or fail-fio) in WORLD, that command does nothing and fails with what is in the file; with
"hold-VERB", it makes "held-VERB" and waits until the first one is gone; with "odd-fio", fio prints what is in there.
"""
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

WORLD, SIDE = os.environ["WORLD"], os.environ["SIDE"]
BDF, ADDRESS, ATTACHED = "0000:03:00.0", "d0002:03:00.0", "d002:03:00.0"
SERIAL = "SER-1"
# Of a board: BAR 1 is one of I/O ports, and BAR 2 has 256 bytes of memory
RESOURCE = "\n".join(["0x0 0x0 0x0", "0xc000 0xc03f 0x40101", "0xf0000000 0xf00000ff 0x14220c", *["0x0 0x0 0x0"] * 10])


def path(host, name):
    return f"{WORLD}/{host}/{name}"


def put(host, name, text):
    os.makedirs(os.path.dirname(path(host, name)), exist_ok=True)
    with open(path(host, name), "w", encoding="utf-8") as file:
        file.write(f"{text}\n")


def get(name):
    with open(f"{WORLD}/{name}", encoding="utf-8") as file:
        return file.read()


def there(name):
    return os.path.exists(f"{WORLD}/{name}")


def with_driver(host, bdf, driver, controller=""):
    """The PCI device, with that driver, and what the driver makes of it."""
    device = f"sys/bus/pci/devices/{bdf}"
    shutil.rmtree(path(host, device), ignore_errors=True)
    put(host, f"{device}/class", "0x010802")
    if driver:
        drivers = f"sys/bus/pci/drivers/{driver}"
        put(host, f"{drivers}/unbind", "")
        os.symlink(path(host, drivers), path(host, f"{device}/driver"))
    if controller:
        put(host, f"{device}/nvme/{controller}/serial", "OTHER" if there(f"other-{host}") else SERIAL + "   ")
        put(host, f"{device}/nvme/{controller}/model", "A Disk")
        os.makedirs(path(host, f"{device}/nvme/{controller}/{controller}c0n1"))
    if there("card"):
        put(host, f"{device}/class", "0x020000")
        if driver == "igb":
            put(host, f"{device}/net/eth-{host}/address", "52:54:00:00:00:01")
    if there("board"):
        for file, text in (("vendor", "0x1af4"), ("device", "0x1110"), ("enable", "0"), ("resource", RESOURCE), ("resource2", "memory" * 50)):
            put(host, f"{device}/{file}", text)


def with_own(host, bdf):
    """The device as it is where nobody else has it."""
    if there("card"):
        with_driver(host, bdf, "igb")
        return "igb"
    if not there("board"):
        with_driver(host, bdf, "nvme", "nvme0" if host == "b" else "nvme5")
        return "nvme"
    name = get("board") if host == "a" else ""
    with_driver(host, bdf, name)
    return name


def driver():
    device = path("b", f"sys/bus/pci/devices/{BDF}/driver")
    return os.path.basename(os.readlink(device)) if os.path.islink(device) else ""


def fails(verb):
    """As somebody wants it."""
    if there(f"hold-{verb}"):
        open(f"{WORLD}/held-{verb}", "w", encoding="utf-8").close()
        while there(f"hold-{verb}"):
            time.sleep(0.01)
    return get(f"fail-{verb}") if there(f"fail-{verb}") else ""


def refuse(code, what):
    return json.dumps({"error": {"code": code, "what": what, "why": "", "todo": ""}})


def lend():
    with_driver("b", BDF, "dlend-lender")
    put("a", f"sys/bus/dlend/devices/{ADDRESS}/state", "free")
    return json.dumps({"lent": [{"device": BDF, "address": ADDRESS, "type": "dlend-nvme"}]})


def listed():
    offers = [{"address": ADDRESS, "state": "free"}] if driver() == "dlend-lender" and not there("far") else []
    return json.dumps({"offers": offers})


def attach():
    name = with_own("a", ATTACHED)
    put("a", f"sys/bus/dlend/devices/{ADDRESS}/interrupts", "doorbell: off")
    return json.dumps({"attached": [{"address": ADDRESS, "device": ATTACHED, "driver": name}]})


def detach():
    if not os.path.exists(path("a", f"sys/bus/pci/devices/{ATTACHED}")):
        return refuse(3, f"{ADDRESS} is not attached here")
    shutil.rmtree(path("a", f"sys/bus/pci/devices/{ATTACHED}"))
    return json.dumps({"detached": [ADDRESS]})


def reclaim():
    if driver() != "dlend-lender":
        return refuse(3, f"{BDF} is not lent")
    return json.dumps({"reclaimed": [{"device": BDF, "driver": with_own("b", BDF)}]})


VERBS = {"lend": (lend, "b"), "list": (listed, "a"), "attach": (attach, "a"), "detach": (detach, "a"), "reclaim": (reclaim, "b")}


def dlend(words):
    verb = words[3]
    note(words[3:])
    act, side = VERBS[verb]
    said = refuse(1, "this is the wrong host") if SIDE != side else fails(verb) or act()
    print(said)
    return json.loads(said).get("error", {}).get("code", 0) if said.startswith("{") else 1


def note(words):
    with open(f"{WORLD}/calls", "a", encoding="utf-8") as file:
        file.write(f"{SIDE} {' '.join(words)}\n")


def count(host, name, more):
    """Interrupts of this name, of two processors."""
    lines = [line.split() for line in get(f"{host}/proc/interrupts").splitlines()]
    for words in lines:
        if words[-1] == name:
            words[1] = str(int(words[1]) + more)
    put(host, "proc/interrupts", "\n".join(" ".join(words) for words in lines))


def fio(words):
    options = dict(word[2:].partition("=")[::2] for word in words)
    note(["fio", options["rw"], options["filename"], *(["readonly"] if "readonly" in options else [])])
    wrong = fails("fio")
    if wrong:
        print(wrong, file=sys.stderr)
        return 1
    ios = int(options["io_size"]) // int(options["bs"])
    count(SIDE, "nvme5q1" if SIDE == "a" else "nvme0q1", ios)
    if SIDE == "a":
        count("a", "ndev_vec_isr", 2 * ios)
        count("b", "dlend-lender:03:00.0", ios)
    if there("odd-fio"):
        print(get("odd-fio"))
        return 0
    # A tenth more through the link; each run has another time
    ns = 10000 * (11 if SIDE == "a" else 10) + 1000 * int(options["randseed"])
    did = {"total_ios": ios, "bw_bytes": 10**12 // ns, "clat_ns": {"mean": ns, "bins": {str(ns): ios - 1, str(9 * ns): 1},
           "percentile": {f"{float(p):.6f}": ns for p in options["percentile_list"].split(":")}}}
    nothing = {"total_ios": 0, "bw_bytes": 0, "clat_ns": {"mean": 0}}
    kind = "write" if "write" in options["rw"] else "read"
    print("fio: one job of many\n" + json.dumps({"jobs": [{"error": 0, "read": nothing, "write": nothing, kind: did}]}))
    return 0


PROGRAMS = {"dlend": dlend, "fio": fio}


class Local:
    """subprocess, as tools/remote/hosts.py uses it."""
    CompletedProcess = subprocess.CompletedProcess
    TimeoutExpired = subprocess.TimeoutExpired

    @staticmethod
    def run(words, **options):
        global SIDE     # pylint: disable=global-statement
        SIDE = "a"
        if words[0] == "ssh":
            SIDE, command = words[-2:]
            if there("gone"):
                return Local.CompletedProcess(words, 255, "", "no route")
            words = shlex.split(re.sub(rf"{WORLD}/[ab]\b", f"{WORLD}/{SIDE}", command))
        program, words = words[2], words[2:]        # behind env LC_ALL=C
        if program not in PROGRAMS:
            return subprocess.run(words, **options)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = PROGRAMS[program](words[1:])
        return Local.CompletedProcess(words, status, out.getvalue(), err.getvalue())


if __name__ == "__main__":
    sys.exit(PROGRAMS[os.path.basename(sys.argv[0])](sys.argv[1:]))
