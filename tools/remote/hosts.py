# SPDX-License-Identifier: GPL-2.0-only
"""What holds for the whole run of a program; a host, and the commands that run on it."""
import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import signals
from .messages import NOT_READY, Failure

SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=10", "-o",
       "ServerAliveCountMax=3", "-o", "ControlMaster=auto", "-o", "ControlPersist=30"]
PATIENCE_S = 600        # for each command, but those that take as long as a VM is large: its start and its migration
LOST = 255              # exit status of ssh if the host does not answer


@dataclass(frozen=True)
class Settings:
    """Made once from the command line.  Paths are the same on all hosts."""
    root: Path = Path("/")      # all files are below this directory; tests have one of their own
    json: bool = False          # what is printed is for programs

    def make_run_directory(self):
        directory = self.root / "run/dlend"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"{directory} cannot be made", str(error), "Only root can do that.") from None
        return directory

    def note_path(self, uuid):
        """dlend migrate's note on the target that the VM with this UUID is to start there."""
        return self.root / f"run/dlend/moving-{uuid}"

    def mark_path(self, uuid):
        """The mark of libvirt's hook.  When a VM stops, the hook stops its marked devices (dist/libvirt-mdevs)."""
        return self.root / f"run/dlend/hook-{uuid}"


class Host:
    """A host on which commands run.

    name: for messages; ssh: the words before each command, none if this is the host that the program runs on
    """

    def __init__(self, settings, name, ssh=()):
        self.settings = settings
        self.name = name
        self.ssh = list(ssh)
        self.known = {}         # what its probe said

    def __str__(self):
        return self.name

    def prefix(self):
        """What stands before a command that people are told to type: "on b: ", or nothing for this host."""
        return f"on {self}: " if self.ssh else ""

    def run(self, words, stdin="", timeout=PATIENCE_S):
        """Run a command.  Return its CompletedProcess; the status is LOST also if the host does not answer."""
        command = [*self.ssh, shlex.join(["env", "LC_ALL=C", *words])] if self.ssh else ["env", "LC_ALL=C", *words]
        # A command that is given up here may go on over there, while what it does is undone.
        with signals.interrupted_afterwards():
            return run_to_its_end(command, stdin, timeout)

    def start(self, words):
        """Start a command on this host that takes long.  Return its Popen, with its output in pipes."""
        # pylint: disable-next=consider-using-with
        return subprocess.Popen(["env", "LC_ALL=C", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)

    def run_checked(self, words, stdin="", timeout=PATIENCE_S):
        """Run a command and return its output.  If it fails, raise a Failure."""
        result = self.run(words, stdin, timeout)
        if result.returncode:
            raise Failure(f"{shlex.join(words)} failed on {self}", reason_of(result))
        return result.stdout

    def has_file(self, name):
        """Whether the host has a file of this name below the root.  If the host does not answer, raise a Failure."""
        result = self.run(["test", "-e", str(self.settings.root / name)])
        if result.returncode not in (0, 1):
            raise Failure(f"{self} does not answer", reason_of(result), "", NOT_READY)
        return not result.returncode


def host_by_ssh(settings, name):
    """Another host."""
    control_path = f"ControlPath={settings.make_run_directory()}/ssh-%C"
    return Host(settings, name, [*SSH, "-o", control_path, "--", name])


def run_to_its_end(command, stdin, timeout):
    try:
        return subprocess.run(command, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout,
                              check=False, start_new_session=True)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, LOST, "", f"no end after {timeout} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, LOST, "", str(error))


def start_command_here(words):
    """Start a command on this host, and do not wait for its end."""
    # pylint: disable-next=consider-using-with
    subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                     start_new_session=True)


def reason_of(result):
    """Why a command failed, in one line."""
    # mdevctl may add where in its code it gave up.
    text = result.stderr.split("Stack backtrace:")[0]
    if not text.strip():
        text = "the connection broke" if result.returncode == LOST else result.stdout
    lines = [line for line in text.splitlines() if line.strip()]
    return "; ".join(line.removeprefix("error: ").strip() for line in lines[-3:]) or f"status {result.returncode}"


def cannot_be_asked(host, result):
    """The Failure if a command of dlend's own gave no answer there."""
    return Failure(f"{host} cannot be asked", reason_of(result),
                   f"`ssh {host} dlend status` has to work without a password, and the same dlend must be installed there.",
                   NOT_READY)


def dlend_words(host, *words):
    """dlend as that host has it."""
    root = ["--root", str(host.settings.root)] if host.settings.root != Path("/") else []
    return ["dlend", *root, *words]


def ask_dlend(host, *words):
    """What `dlend WORDS` answers.  If it fails, raise a Failure with dlend's own words, and where that was."""
    result = host.run(dlend_words(host, "--json", *words))
    try:
        answer = json.loads(result.stdout)
        error = answer.get("error")
    except (ValueError, AttributeError):
        raise cannot_be_asked(host, result) from None
    if error:
        raise Failure(f"{host}: {error['what']}" if host.ssh else error["what"], error["why"],
                      error["todo"] and host.prefix() + error["todo"], error["code"])
    return answer
