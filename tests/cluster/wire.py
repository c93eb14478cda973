# SPDX-License-Identifier: GPL-2.0-only
"""Byte streams from the machines: one thread reads them all, callers wait on one condition.

Channel   a unix socket that QEMU serves; what arrives goes to a subclass
Agent     commands in a host or a guest (the other end is lib/agent)
Qmp       QEMU's monitor
Console   a log file, and waiting for a text to appear in it

Knows nothing of topologies or of how the other end was started.
"""
import base64
import itertools
import json
import os
import re
import selectors
import socket
import threading
import time

# What a kernel promises takes that much longer; the debug kernel takes that much more for everything.
PATIENCE = int(os.environ.get("DLEND_PATIENCE") or 1)
# And this much every wait.  One that ends well costs nothing, whereas time-outs are meant for a machine that has
# nothing else to do: another takes a minute now and then for what this one has done in a second.
SLACK = max(PATIENCE, 3)
# Of a console, when a guest fell: what its kernel said last.
LAST_LINES = 8


class Gone(Exception):
    """What was to answer has ended, was reset, or was never there."""


class TimedOut(Exception):
    """No answer in time."""


class CommandFailed(Exception):
    """A command ended with another status than 0."""

    def __init__(self, where, command, result):
        super().__init__(f"{where}: status {result.status} from: {command}\n{result.out}")
        self.result = result


class Result:
    """How a command ended: status (128 + n if signal n ended it), data (bytes), out (text)."""

    def __init__(self, status, data):
        self.status = status
        self.data = data

    @property
    def out(self):
        return self.data.decode(errors="replace")

    def __repr__(self):
        return f"<Result status={self.status} out={self.out!r}>"


class Loop(threading.Thread):
    """The reading thread.  Whatever it changes, it changes with `changed` held, then notifies."""

    def __init__(self):
        super().__init__(name="wire", daemon=True)
        self.in_vain = lambda what: None    # told of it before wait() raises TimedOut
        self.changed = threading.Condition(threading.RLock())
        self.selector = selectors.DefaultSelector()
        self.start()

    def run(self):
        while True:
            if not self.selector.get_map():
                time.sleep(0.02)
                continue
            for key, _ in self.selector.select(0.05):
                with self.changed:
                    self._serve(key.fileobj, key.data)
                    self.changed.notify_all()

    def _serve(self, sock, channel):
        if sock.fileno() < 0 or channel.sock is not sock:
            return
        try:
            data = sock.recv(65536)
        except OSError:
            data = b""
        if data:
            channel.arrived(data)
        else:
            channel.close()

    def wait(self, what, ready, timeout, must=True):
        """Until ready() is true; returns what it returned.  must: it is not in vain unless something is wrong."""
        timeout *= SLACK
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                value = ready()
                if value:
                    return value
                left = end - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(min(left, 1))
        if must:
            self.in_vain(what)
        raise TimedOut(f"{what}: nothing in {timeout} s")


class Channel:
    """One socket; subclasses say what arrived() and lost() do, both under loop.changed."""

    def __init__(self, loop, name):
        self.loop = loop
        self.name = name
        self.sock = None

    def connect(self, path, alive, timeout=30):
        """alive() raises if the server ended before it listened."""
        end = time.monotonic() + timeout * SLACK
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(str(path))
                break
            except OSError:
                sock.close()
                alive()
                if time.monotonic() > end:
                    raise TimedOut(f"{self.name}: cannot connect to {path}") from None
                time.sleep(0.05)
        with self.loop.changed:
            self.sock = sock
            self.loop.selector.register(sock, selectors.EVENT_READ, self)

    def close(self):
        with self.loop.changed:
            if self.sock:
                self.loop.selector.unregister(self.sock)
                self.sock.close()
                self.sock = None
                self.lost(f"{self.name}: connection closed")
                self.loop.changed.notify_all()

    def send(self, data):
        sock = self.sock
        if not sock:
            raise Gone(f"{self.name}: not connected")
        try:
            sock.sendall(data)
        except OSError as e:
            raise Gone(f"{self.name}: {e}") from None

    def arrived(self, data):
        raise NotImplementedError

    def lost(self, reason):
        pass


class Lines(Channel):
    """A channel of lines."""

    def __init__(self, loop, name):
        super().__init__(loop, name)
        self.rest = []

    def arrived(self, data):
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            self.rest.append(data)
            return
        for line in b"".join([*self.rest, head]).split(b"\n"):
            self.line(line)
        self.rest = [tail]

    def line(self, line):
        raise NotImplementedError


class Job:
    """A command that runs."""

    def __init__(self, agent, number, command):
        self.agent = agent
        self.number = number
        self.command = command
        self.result = None
        self.gone = None

    @property
    def over(self):
        return self.result is not None or self.gone is not None

    def wait(self, timeout=60, check=False):
        """The Result.  A command that takes too long is killed, and TimedOut tells what it said so far."""
        where = self.agent.name
        try:
            self.agent.loop.wait(where, lambda: self.over, timeout)
        except TimedOut:
            raise TimedOut(f"{where}: not done after {timeout * SLACK} s: {self.command}\n"
                           f"{self._kill_late()}") from None
        if self.gone:
            raise Gone(f"{self.gone}, while running: {self.command}")
        if check and self.result.status:
            raise CommandFailed(where, self.command, self.result)
        return self.result

    def kill(self, sig=15):
        """Send a signal to the command and to what it started."""
        if not self.over:
            self.agent.request(f"kill {self.number} {int(sig)}")

    def _kill_late(self):
        try:
            self.kill(9)
            self.agent.loop.wait(self.agent.name, lambda: self.over, 5, must=False)
            return self.result.out if self.result else ""
        except (TimedOut, Gone):
            return ""


class Agent(Lines):
    """Runs commands; `boots` counts how often the far end came up in this session."""

    def __init__(self, loop, name, console=None):
        super().__init__(loop, name)
        self.console = console
        self.session = None
        self.boots = 0
        self.jobs = {}
        self.numbers = itertools.count(1)

    def expect(self, session):
        """From now on only the far end that was started with this session counts."""
        with self.loop.changed:
            self.abandon(f"{self.name}: started again")
            self.session = session
            self.boots = 0

    def abandon(self, reason):
        with self.loop.changed:
            jobs, self.jobs = self.jobs, {}
            for job in jobs.values():
                job.gone = reason
            self.loop.changed.notify_all()

    def lost(self, reason):
        self.abandon(reason)

    def line(self, line):
        words = line.decode(errors="replace").split(" ")
        if words[:2] == ["hello", self.session]:
            last = self.console.text.splitlines()[-LAST_LINES:] if self.console else []
            self.abandon(" / ".join([f"{self.name}: booted again", *filter(None, map(str.strip, last))]))
            self.boots += 1
        elif words[:2] == ["done", self.session] and len(words) == 5 and words[2].isdigit():
            job = self.jobs.pop(int(words[2]), None)
            if job:
                job.result = Result(int(words[3]), base64.b64decode(words[4]))

    def request(self, text):
        self.send(f"\ndlend {self.session} {text}\n".encode())

    def spawn(self, command, input=None):
        with self.loop.changed:
            if not self.boots:
                raise Gone(f"{self.name}: not up, cannot run: {command}")
            job = Job(self, next(self.numbers), command)
            self.jobs[job.number] = job
        data = input.encode() if isinstance(input, str) else input
        text = base64.b64encode(data).decode() if data else "-"
        self.request(f"run {job.number} {base64.b64encode(command.encode()).decode()} {text}")
        return job

    def run(self, command, timeout=60, check=True, input=None):
        return self.spawn(command, input).wait(timeout, check)


class QmpError(Exception):
    """QEMU said no."""


class Qmp(Lines):
    """A monitor.  `events` keeps all events of this QEMU in order; they go into a file as well.

    broken() is called when the guest was stopped by an error of KVM's or of a device's.
    """

    def __init__(self, loop, name):
        super().__init__(loop, name)
        self.log = None
        self.expect()

    def expect(self, log=None):
        """A new QEMU is about to greet."""
        with self.loop.changed:
            self.log = log
            self.ready = False
            self.ended = None
            self.events = []
            self.answers = {}
            self.broken = lambda: None
            self.numbers = itertools.count(1)

    def abandon(self, reason):
        with self.loop.changed:
            self.ended = reason
            self.loop.changed.notify_all()

    def lost(self, reason):
        self.abandon(reason)

    def line(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            return
        if "QMP" in message:
            self.send(b'{"execute": "qmp_capabilities", "id": 0}\n')
        elif "event" in message:
            self.events.append(message)
            if message["event"] == "STOP":
                self.send(b'{"execute": "query-status", "id": "why"}\n')
            if self.log:
                with open(self.log, "a", encoding="utf-8") as f:
                    f.write(json.dumps(message) + "\n")
        elif message.get("id") == 0:
            self.ready = True
        elif message.get("id") == "why":
            if message.get("return", {}).get("status") == "internal-error":
                self.broken()
        elif "id" in message:
            self.answers[message["id"]] = message

    def _or_ended(self, ready):
        value = ready()
        if not value and self.ended:
            raise Gone(self.ended)
        return value

    def execute(self, command, arguments=None, timeout=30):
        self.loop.wait(self.name, lambda: self._or_ended(lambda: self.ready), timeout)
        number = next(self.numbers)
        request = {"execute": command, "id": number}
        if arguments:
            request["arguments"] = arguments
        self.send(json.dumps(request).encode() + b"\n")
        answer = self.loop.wait(f"{self.name}: {command}",
                                lambda: self._or_ended(lambda: self.answers.pop(number, None)), timeout)
        if "error" in answer:
            raise QmpError(f"{self.name}: {command}: {answer['error'].get('desc')}")
        return answer["return"]

    def wait_event(self, event, timeout=30, match=lambda data: True):
        """The first event of that name, from the start of this QEMU on, whose data match."""
        def find():
            return next((e for e in self.events
                         if e["event"] == event and match(e.get("data", {}))), None)
        return self.loop.wait(f"{self.name}: event {event}", lambda: self._or_ended(find), timeout)


class Console(Channel):
    """A serial console: everything goes into a file, the present boot's text stays searchable."""

    def __init__(self, loop, name):
        super().__init__(loop, name)
        self.log = None
        self.text = ""

    def expect(self, path):
        with self.loop.changed:
            self.log = path
            self.text = ""

    def arrived(self, data):
        self.text += data.decode(errors="replace")
        if self.log:
            with open(self.log, "ab") as f:
                f.write(data)

    def wait(self, pattern, timeout=60):
        """The match of a regular expression in what the console said since the start."""
        return self.loop.wait(f"{self.name}: console text {pattern!r}",
                              lambda: re.search(pattern, self.text), timeout)
