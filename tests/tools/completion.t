#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Completion of the command in bash, zsh and fish, each of them for real, on a fake host.

    a bridge, a disk 0000:03:00.0 that is lent; offers of node 2 and, attached here, of node 3; a mediated device; VMs
"""
import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fake import DLEND, TOP  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

DISK, OFFER, USED = "0000:03:00.0", "d0002:3b:00.0", "d0003:01:00.0"
UUID = "11111111-0000-4000-8000-000000000001"
PATIENCE_S = 60
PLACE = "/usr/lib/dlend/complete"
OPTION = re.compile(r"^  (?:-h, )?(--[-a-z0-9]+)", re.M)
VALUE = re.compile(r"^  (--[-a-z0-9]+) [A-Z{]", re.M)

# What ^G tells: the line as TAB has left it; beside it, what was offered.
ZSH = """PS1=; fpath=({0} $fpath); autoload -Uz compinit; compinit -u -D; setopt noautolist nobeep
compadd() {{ local -a hits; builtin compadd -O hits "$@"; print -rl -- $hits >>{0}/hits; builtin compadd "$@" }}
told() {{ print -r -- "$BUFFER" >{0}/new; mv {0}/new {0}/line; BUFFER= }}
zle -N told; bindkey '^G' told; : >{0}/line
"""


class Host:
    """A folder with /sys, the programs that are called, and what is installed for the shells."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="dlend-complete-"))
        self.made = self.path / "made"
        self.vms = ["a b", "bob's", "vm1", "*", f"x$(touch {self.made})y"]
        for name, text in (("pci/devices/0000:00:01.0/class", "0x060400"), (f"pci/devices/{DISK}/class", "0x010802"),
                           ("pci/drivers/dlend-lender/bind", ""), (f"pci/drivers/dlend-lender/{DISK}/x", ""),
                           (f"dlend/devices/{OFFER}/attached", "no"), (f"dlend/devices/{OFFER}/type", "dlend-nvme"), ("../class/dlend_link/a/peer_name", "beta"),
                           ("../class/dlend_link/b/peer_name", ""), ("../class/dlend_link/c/peer_name", "beta"), (f"dlend/devices/{USED}/attached", USED.replace("d0", "d")),
                           (f"mdev/devices/{UUID}/dlend/state", "idle"), ("mdev/devices/22222222/name", "another's")):
            self.file(f"sys/bus/{name}", f"{text}\n")
        self.file(".ssh/known_hosts", "far ssh-ed25519 AAAA\n")
        self.file("vms", "\n".join([*self.vms, "", ""]))
        self.file("bin/virsh", f"#!/bin/sh\ncat {self.path}/vms\n").chmod(0o755)
        (self.path / "bin/dlend").symlink_to(Path(DLEND).resolve())
        self.program = self.installed("complete", "complete")
        self.program.chmod(0o755)
        self.env = {**os.environ, "PATH": f"{self.path}/bin:{os.environ['PATH']}", "HOME": str(self.path), "TERM": "dumb",
                    "ZDOTDIR": str(self.path), "DLEND_PROGRAMS": str(TOP / "tools")}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.path)

    def file(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def installed(self, name, to):
        """A file of dist, changed to look here."""
        text = (TOP / "dist" / name).read_text()
        return self.file(to, text.replace(PLACE, str(self.path / "complete")).replace("/sys/", f"{self.path}/sys/"))

    def run(self, *words):
        result = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=self.env, timeout=PATIENCE_S, check=False)
        assert not result.stderr, result.stderr
        return result.stdout

    def offered(self, *words):
        """[(word, what it is)]"""
        return [(line + "\t").split("\t")[:2] for line in self.run(self.program, "dlend", *words).splitlines() if line]

    def names(self, *words):
        return [word for word, _ in self.offered(*words) if not word.startswith("--")]

    # What a shell makes of it, after the words and a beginning

    def bash(self, *words):
        script = (f"source {self.installed('dlend.bash-completion', 'bash')}; COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); _dlend; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        return self.run("bash", "--norc", "-c", script, "bash", "dlend", *words).split("\n")[:-1]

    def fish(self, line):
        file = self.installed("dlend.fish", "fish")
        return self.run("fish", "-N", "-c", f"source {file}; complete -C $argv", line).splitlines()

    @contextlib.contextmanager
    def zsh(self):
        """A function: (the line after TAB, [what was offered])"""
        self.installed("dlend.zsh-completion", "_dlend")
        pid, terminal = pty.fork()
        if not pid:
            os.execvpe("zsh", ["zsh", "-f", "-i"], self.env)
        told, hits = self.path / "line", self.path / "hits"

        def answer(typed):
            for file in (told, hits):
                file.unlink(missing_ok=True)
            os.write(terminal, typed.encode())
            end = time.monotonic() + PATIENCE_S
            while not told.exists() and time.monotonic() < end:
                if select.select([terminal], [], [], 0.05)[0]:
                    os.read(terminal, 65536)
            return told.read_text().rstrip(), hits.read_text().split("\n")[:-1] if hits.exists() else []
        try:
            answer(f"source {self.file('setup', ZSH.format(self.path))}\n")
            yield lambda line: answer(f"{line}\t\a")
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)


def words(t):
    """What all shells offer: the command's own --help says it."""
    with Host() as h:
        verbs = sorted(set(re.findall(r"^  ([a-z][-a-z]+) ", h.run("dlend", "--help"), re.M)))
        t.equal(h.names(), verbs, "each verb")
        t.ok(["list", "show every offer of every node"] in h.offered(), "  and what it does")
        for verb in ["", *verbs]:
            found = dict(h.offered(*verb.split()))
            help_text = h.run("dlend", *verb.split(), "--help")
            options = set(OPTION.findall(help_text))
            t.ok({"--help", "--json"} <= options <= set(found), f"dlend {verb}: each option", f"{options} {found}")
            t.equal([option for option in VALUE.findall(help_text) if "--help" in dict(h.offered(*verb.split(), option))], [],
                    "  nothing else follows one that takes a value")
        t.equal(dict(h.offered("migrate"))["--copy"], "{compare,send}", "an option and its values, if its help says no more")
        for typed, want in (("lend", [DISK]), ("doctor", [DISK]), ("reclaim", [DISK]), ("attach", [OFFER, USED]), ("detach", [USED]),
                            ("reserve --for", ["beta"]), ("borrow", [OFFER, USED, "dlend-nvme"]), ("return", [UUID]), ("show", [OFFER, USED, DISK, UUID]), ("stats", ["a", "b", "c", OFFER, USED, UUID]),
                            ("topology", ["memory", OFFER, USED]), ("libvirt-xml", ["-", UUID]), ("migrate", [*h.vms, "@hosts"]),
                            ("list", []), ("lend --mode", ["root-port", "switch-port", "bridge"]), ("migrate --copy", ["compare", "send"]),
                            ("cdi --output", ["@files"]), ("--root", ["@directories"]), ("libvirt-xml --domain", h.vms), ("topology --vm", h.vms), ("bench --p2p", [DISK]), ("libvirt-xml --any", ["dlend-nvme"]),
                            ("watch --count", []), ("--json --root / detach --force", [USED]), ("nonsense", verbs)):
            t.equal(h.names(*typed.split()), want, f"dlend {typed}")
        t.ok({"none", "auto", "15"} <= set(h.names("lend", "--clique")), "dlend lend --clique")
        for folder in ("pci", "dlend", "mdev"):
            shutil.rmtree(h.path / "sys/bus" / folder)
        t.equal([h.names(verb) for verb in ("lend", "reclaim", "attach", "detach")], [[]] * 4, "a host without any of that")


def in_bash(t):
    with Host() as h:
        quoted = ["a\\ b", "bob\\'s", "vm1", "\\*", f"x\\$\\(touch\\ {h.made}\\)y"]
        t.equal(h.bash("libvirt-xml", "--domain", ""), quoted, "bash quotes names of domains")
        for typed, want in (("a", quoted[:1]), ("a\\ ", quoted[:1]), ("bob", quoted[1:2]), ("x", quoted[4:]),
                            ("x$(", quoted[4:]), ("*", quoted[3:4]), ("none", [""])):
            t.equal(h.bash("migrate", typed), want, f"  {typed!r}")
        h.file("vms", f"{h.vms[4]}\n\n")
        t.equal(h.bash("libvirt-xml", "--domain", "x"), quoted[4:], "  one alone")
        t.ok(not h.made.exists(), "  and runs nothing of what is in them")
        t.equal((h.bash("li"), h.bash("lend", "--cl"), h.bash("attach", "d0002")), (["libvirt-xml", "links", "list"], ["--clique"], [OFFER]),
                "commands, options, devices")
        t.equal(h.bash("cdi", "--output", f"{h.path}/vm"), [f"{h.path}/vms"], "files")


def in_fish(t):
    with Host() as h:
        t.equal([line.split("\t")[0] for line in h.fish("dlend li")], ["libvirt-xml", "links", "list"], "fish: commands")
        t.ok("list\tshow every offer of every node" in h.fish("dlend li"), "  and what they do")
        t.equal(sorted(h.fish("dlend libvirt-xml --domain ")), sorted(h.vms), "  names of domains")
        t.ok({*h.vms, "far"} <= set(h.fish("dlend migrate ")), "  and of hosts", str(h.fish("dlend migrate ")))
        t.equal([line.split("\t")[0] for typed in ("lend --cl", "attach d0002", "lend --mode s", f"cdi --output {h.path}/vm")
                 for line in h.fish(f"dlend {typed}")], ["--clique", OFFER, "switch-port", f"{h.path}/vms"], "  options, devices, values, files")
        t.ok(not h.made.exists(), "  and runs nothing of what is in names")


def in_zsh(t):
    with Host() as h, h.zsh() as typed:
        t.equal(typed("dlend li"), ("dlend li", ["libvirt-xml", "links", "list"]), "zsh: commands")
        for line, want in (("dlend lend --cl", "--clique"), ("dlend attach d0002", OFFER), ("dlend lend --mode s", "switch-port"),
                           (f"dlend cdi --output {h.path}/vm", f"{h.path}/vms"), ("dlend libvirt-xml --domain b", "bob\\'s"),
                           ("dlend libvirt-xml --domain x", f"x\\$\\(touch\\ {h.made}\\)y")):
            t.equal(typed(line)[0], f"{line.rpartition(' ')[0]} {want}", f"  {line}")
        offered = typed("dlend migrate ")[1]
        t.ok({*h.vms, "far", "--live"} <= set(offered), "  names of domains and hosts, and options", str(offered))
        t.ok(not h.made.exists(), "  and runs nothing of what is in names")


with Tap() as tap:
    for part in (words, in_bash, in_fish, in_zsh):
        tap.diag(part.__name__)
        part(tap)
