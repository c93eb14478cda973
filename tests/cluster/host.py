# SPDX-License-Identifier: GPL-2.0-only
"""A whole host, and the KVM guests inside it.

Host    a QEMU process on this machine; commands go to its agent
Guest   a QEMU process inside a host; its agent, monitor and console are virtio-serial ports of the
        host, given to the guest's QEMU as they are, so that they reach the runner with no relay

Knows nothing of NTB and of test results.
"""
import contextlib
import itertools
import os
import re
import shlex
import textwrap
import time

from documents import check_output
from klog import SCAN, STOOD_STILL, Account, complaints, leaks
from topology import GUEST_LEAN, channels, disk_path, disks, qemu_args, qemu_binary
from wire import SLACK, Agent, CommandFailed, Console, Gone, Qmp, QmpError, TimedOut


# SeaBIOS puts a BAR of GiBs at the end of the addresses that the processor names, and what it puts behind it is past that end.
# KVM takes nothing past the end of the host's.
FEWER_ADDRESSES = ",host-phys-bits-limit=40"


def until(command, every=0.5):
    """Shell text that ends when a command does so with status 0."""
    return f"until ( {command}\n); do sleep {every}; done"


# Programs, mediated devices, what is lent, modules, what drivers were told to take, and what was said and traced.
TIDY = r"""set -e
for p in /proc/[0-9]*; do
        case $(readlink $p/exe) in
        /share/*) kill -9 ${p##*/} || : ;;
        esac
done
for m in /sys/bus/mdev/devices/*; do
        [ ! -e "$m" ] || echo 1 >"$m/remove"
done
rm -rf /etc/mdevctl.d/* /etc/dlend*
for d in /sys/bus/pci/drivers/dlend-lender/*:*; do
        [ ! -e "$d" ] || echo "${d##*/}" >/sys/bus/pci/drivers/dlend-lender/unbind
done
for m in dlend_native dlend_mdev dlend_borrower dlend_lender dlend_ntb ntb_pingpong ntb_perf ntb_tool ntb_hw_amd ntb_hw_intel ntb_hw_switchtec switchtec dlend_core ntb; do
        ! grep -q "^$m " /proc/modules || rmmod $m
done
! grep -E '^(dlend|ntb)_' /proc/modules
for d in /sys/bus/pci/devices/*; do
        [ "$(cat $d/driver_override)" != "(null)" ] || continue
        echo >$d/driver_override
        [ ! -e $d/driver ] || echo ${d##*/} >$d/driver/unbind
        echo ${d##*/} >/sys/bus/pci/drivers_probe
done
cd /sys/kernel/tracing
echo 0 >events/enable
echo >kprobe_events
echo >trace
rm -rf /run/dlend/guest
find /tmp -mindepth 1 -maxdepth 1 ! -name agent -exec rm -rf {} +
dmesg -C"""


# What a host that does not get on can say of itself: where its threads are, memory, our own state
STATE = r"""head -n 5 /proc/meminfo; cat /proc/interrupts /proc/softirqs /proc/buddyinfo /proc/timer_list
for t in /proc/[0-9]*/task/*; do
        echo "$t $(cat $t/comm) $(sed 's/.*) //' $t/stat | cut -d ' ' -f 1,12,13)"; cat $t/syscall $t/stack
done
for f in /sys/kernel/debug/dlend/*/*/* /sys/kernel/debug/dlend/*/* /sys/kernel/debug/kvm/*; do
        [ ! -f $f ] || { echo "$f:"; timeout 5 cat $f; }
done
tail -n 200 /sys/kernel/tracing/trace; dmesg | tail -n 40"""


class Slot:
    """One guest's worth of virtio-serial ports of a host."""

    def __init__(self, loop, host, number):
        self.number = number
        self.guest = None
        self.console = Console(loop, f"{host} g{number} console")
        self.agent = Agent(loop, f"{host} g{number}", self.console)
        self.qmp = Qmp(loop, f"{host} g{number} qmp")

    def channels(self):
        return {f"g{self.number}.agent": self.agent, f"g{self.number}.qmp": self.qmp,
                f"g{self.number}.console": self.console}


class Host:
    """A machine of the topology."""

    def __init__(self, cluster, spec):
        self.cluster = cluster
        self.spec = spec
        self.name = spec.name
        self.loop = cluster.loop
        self.process = None
        self.starts = itertools.count(1)
        self.agent = Agent(self.loop, f"host {self.name}")
        self._qmp = Qmp(self.loop, f"host {self.name} qmp")
        self.slots = [Slot(self.loop, self.name, n) for n in range(spec.guests)]
        self.resets = 0         # that were asked for, since start()
        self.account = Account()
        self.tokens = itertools.count(1)
        self.asked = 0          # commands
        self.found = ""         # by its last autopsy
        self.scanned = None     # how many of them when kmemleak looked last
        ntbs = cluster.topology.ntb_drivers(spec.name)
        self.ntb_modules = [module for module, _ in ntbs]
        self.ntb_driver = f"/sys/bus/pci/drivers/{ntbs[0][1]}"      # if its NTBs are all of one kind

    # Power

    def start(self):
        """Power on.  Returns at once; wait_up() waits.  Call it from the main thread."""
        if self.running:
            raise RuntimeError(f"host {self.name} runs already")
        boot = self.cluster.boot(self.spec.kernel)
        session = f"{self.name}.{next(self.starts)}"
        command = qemu_binary(boot.resolve() / "tree")
        command += qemu_args(self.spec, boot, session, self.cluster.sockets)
        self._qmp.expect(self.cluster.run_dir / f"{self.name}.events")
        self.agent.expect(session)
        self.process = self.cluster.spawn(f"{self.name}.qemu", command)
        self.resets = 0
        wires = {"qmp": self._qmp, "agent": self.agent}
        for slot in self.slots:
            wires.update(slot.channels())
        for name in ["qmp", *channels(self.spec)]:
            wires[name].connect(self.cluster.run_dir / self.cluster.sockets / f"{self.name}.{name}", self._alive)

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def _alive(self):
        if not self.running:
            log = self.cluster.run_dir / f"{self.name}.qemu.log"
            raise Gone(f"host {self.name}: QEMU ended:\n{log.read_text(errors='replace')[-2000:]}")
        return True

    def wait_up(self, timeout=None, boots=1):
        """Until the agent said hello `boots` times since start()."""
        timeout = timeout or (600 if self.spec.systemd else 240)
        def up():
            return self.agent.boots >= boots or (self._alive() and False)
        with self.cluster.progress(f"host {self.name}: up"):
            try:
                self.loop.wait(f"host {self.name}", up, timeout)
            except TimedOut:
                log = self.cluster.run_dir / f"{self.name}.console"
                tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
                raise TimedOut(f"host {self.name}: not up after {timeout * SLACK} s; console:\n{tail}") from None

    def reset(self, wait=True, timeout=None):
        """The reset button: memory and guests are gone, disks stay."""
        boots = self.agent.boots
        self.resets += 1
        self._forget(f"host {self.name}: reset")
        self.qmp("system_reset")
        if wait:
            self.wait_up(timeout, boots + 1)

    def reboot(self, command):
        """What an administrator types for it: it goes down in order."""
        boots = self.agent.boots
        self.resets += 1
        self.spawn(command)
        self._forget(f"host {self.name}: reboots")
        self.wait_up(boots=boots + 1)

    def fell(self):
        """Did it reset itself, without a word?"""
        return (self.process is not None and self.agent.boots > 1 + self.resets and
                not complaints(self._file(f"{self.name}.console")))

    def fell_by_bed(self):
        """Did it, by what the emulation is known for (README.md)?

        Only if its processors went mad, and if nothing of ours was ever loaded there: a device that writes
        where it should not looks the same.
        """
        return (self.fell() and "Triple fault" in self._file(f"{self.name}.qemu.log") and
                not re.search(r"\bdlend_", self._file(f"share/{self.name}.dmesg")))

    def kill(self, sig=9):
        """Pull the plug.  start() brings it back with its disks as they were."""
        if self.process:
            self.process.send_signal(sig)
            self.process.wait()
        self._forget(f"host {self.name}: killed")

    def _forget(self, reason):
        self.agent.abandon(reason)
        for slot in self.slots:
            slot.guest = None
            slot.agent.abandon(reason)
            slot.qmp.abandon(reason)

    # Work

    def run(self, command, timeout=60, check=True, input=None):
        """sh -c command; a Result with out, data, status.  check: another status than 0 raises CommandFailed."""
        self.asked += 1
        result = self.agent.run(command, timeout, check, input)
        check_output(command, result.out)
        return result

    def spawn(self, command, input=None):
        """The same in the background: a Job with wait(timeout, check), kill(signal), over."""
        self.asked += 1
        return self.agent.spawn(command, input)

    def wait_event(self, event, timeout=60, match=lambda data: True):
        """The next event of its QEMU's of that name whose data match."""
        return self._qmp.wait_event(event, timeout, match)

    def qmp(self, command, arguments=None, timeout=30, **more):
        """A command for the monitor of the host's own QEMU (device_add of a disk, system_reset, stop, cont)."""
        return self._qmp.execute(command, {**(arguments or {}), **more}, timeout)

    @contextlib.contextmanager
    def stands_still(self):
        """It runs no further until the end of the block."""
        self.qmp("stop")
        try:
            yield
        finally:
            self.qmp("cont")

    def hmp(self, line):
        """What people can type at that monitor, and programs have no command for (xp); what it answers."""
        return self.qmp("human-monitor-command", {"command-line": line})

    def wait_for(self, command, timeout=30, every=0.5):
        """Until a shell command ends with status 0; its Result."""
        return self.run(until(command, every), timeout)

    def own_disks(self):
        """Until the kernel's driver has all NVMe disks of the host that nobody else has, and they are disks."""
        self.run("modprobe nvme")
        self.wait_for("""for d in $(grep -l ^0x010802 /sys/bus/pci/devices/*/class); do
                d=${d%/*}
                case $(readlink $d/driver) in
                */nvme | "") ls -d $d/nvme/nvme*/nvme*n* >/dev/null 2>&1 || exit 1 ;;
                esac
        done""", 60)

    def port(self, name):
        for port in self.spec.ports:
            if port.name == name:
                return port
        raise KeyError(f"host {self.name} has no port {name}")

    def bdf(self, port, function=0):
        """Where the device behind a port of the topology sits, as 0000:01:00.0."""
        root = self.port(port).bdf
        return self.run(f"cd /sys/bus/pci/devices/{root} && echo ????:??:00.{function}").out.strip()

    def plug_virtio_disk(self, port, disk):
        """Behind an empty port.  Not as the host starts: its firmware would have driven it, and left it at work.
        Another scenario of this bed may have done so already."""
        if any(known["name"] == port for known in self.qmp("qom-list", path="/machine/peripheral")):
            return
        self.qmp("device_add", {"driver": "virtio-blk-pci", "id": port, "bus": f"port-{port}", "drive": disk,
                                "iommu_platform": True, "x-max-bounce-buffer-size": 16 << 20})
        self.wait_for(f"ls -d /sys/bus/pci/devices/{self.port(port).bdf}/*:00.0", 30)

    def disk_file(self, name):
        """The image of a disk of the topology; its host sees at once what is written into it here."""
        return self.cluster.run_dir / disk_path(self.spec, name)

    def load_modules(self, *names):
        """Load modules under test, with what they need; "name parameter=1" gives parameters."""
        for name in names:
            self.run(f"load-modules {name}", timeout=60)

    def install(self):
        """What belongs to dlend besides modules, where packages put it; for hosts with systemd."""
        # Modules are load_modules()'s: at the next boot they would come without parameters.
        self.run("cp -r --preserve=mode /share/installed/. / && rm /usr/lib/modules-load.d/dlend.conf && "
                 "udevadm control --reload && systemctl daemon-reload")

    def expect(self, pattern, why, must=True):
        """From now on a line of its kernel log that matches is no complaint, for a reason that is given.

        must    and one has to come: if none did in the end, that is a complaint
        """
        return self.account.expect(pattern, why, len(self._log()), must)

    @contextlib.contextmanager
    def provoke(self, pattern, why, must=True):
        """expect(), until the end of the block."""
        expected = self.expect(pattern, why, must)
        yield
        expected.end = len(self._log())

    def late_writes(self, link, why):
        """From now on what the borrower's VM writes to a device that was taken from it is no complaint: the IOMMU
        blocks it, and says so.  Only what comes over the link: what a lent device does by itself stays one."""
        return self.blocked(f"ntb-{link}", why, must=False)

    def blocked(self, port, why, must=True):
        """The same of the DMA of what sits in a port, and of nothing else."""
        domain, device = self.bdf(port).split(":", 1)     # kernels below 6.13 leave the domain out
        return self.expect(rf"DMAR: (DRHD: handling fault|\[DMA .*Request device \[({domain}:)?{re.escape(device)}\])", why, must)

    def begin_account(self):
        """Another scenario has the host from now on."""
        self.account = Account(len(self._log()), len(self._file(f"{self.name}.console")))

    def complaints(self, scan=True):
        """Lines in which its kernel says that something is wrong with it, from its first boot on, but for what
        was expected; and what our modules leaked, if the kernel can tell (kmemleak; takes a while, and
        cannot name them any more when they are unloaded)."""
        log = self._log()
        if scan:
            self._scan()
        if STOOD_STILL.search(log):
            self.cluster.say(f"host {self.name}: a processor stood still, as its scheduler says "
                             "(tests/cluster/README.md); not counted")
        return self.account.open(log, self._file(f"{self.name}.console"))

    def last_complaints(self):
        """At the end: those, and what was expected and never came, and a reset that nobody asked for."""
        found = self.complaints() + self.account.missed(self._log())
        if self.fell():
            found.append("it reset itself, without a word")
        return found

    def _file(self, name):
        path = self.cluster.run_dir / name
        return path.read_text(errors="replace") if path.exists() else ""

    def _log(self):
        """Its kernel log since the first boot, whatever was cleared there meanwhile."""
        name = f"share/{self.name}.dmesg"
        if self.running and self.agent.boots:
            token = f"dlend-test: {next(self.tokens)} of {id(self):x}"
            self.agent.run(f"echo '{token}' >/dev/kmsg")
            end = time.monotonic() + 30 * SLACK
            while token not in self._file(name):
                if time.monotonic() > end:
                    why = f"host {self.name}: its kernel log does not come to /share"
                    self.loop.in_vain(why)
                    raise TimedOut(why)
                time.sleep(0.05)
        return self._file(name)

    def autopsy(self, why):
        """Somebody waited for it or for a guest of it in vain: what it is at goes to HOST.autopsy, and into self.found."""
        self.found = ""
        if not self.running:
            return
        parts, answers = [f"==== {why}"], True
        with contextlib.suppress(QmpError, Gone, TimedOut):
            for line in ("info registers -a", "info lapic 0", "info lapic 1") * 3:
                parts += [f"== {line}", self.hmp(line)]
        for guest in (slot.guest for slot in self.slots if slot.guest and slot.guest.running):
            with contextlib.suppress(QmpError, CommandFailed, Gone, TimedOut):
                for line in ("info registers -a", "info lapic 0") * 3:
                    text = guest.hmp(line, timeout=10)
                    # No line begins as one of the host's does
                    parts += [f"== guest {guest.label}: {line}", textwrap.indent(text, "| ")]
        try:
            # Past run(), which counts what a test does
            parts += ["== of itself", self.agent.run(STATE, timeout=20, check=False).out]
        except (Gone, TimedOut) as e:
            answers = False
            parts += [f"it does not say: {e}"]
        self.found = "\n".join(parts)
        # Where only what is printed is kept
        where = re.findall(r"\b(RIP=\w+|HLT=\d)", self.found)
        self.cluster.say(f"autopsy of host {self.name} ({why}): {' '.join(where)}, "
                         f"{'answers' if answers else 'does not answer'}")
        with open(self.cluster.run_dir / f"{self.name}.autopsy", "a", encoding="utf-8") as f:
            f.write(self.found + "\n")
        if sleeps(self.found):
            self.cluster.say(f"bed fault: host {self.name}: a processor sleeps, and takes no interrupts (tests/cluster/README.md)")

    def begin_scan(self):
        """Ask kmemleak, unless it looked since anybody asked the host for anything; a Job, or None."""
        if self.running and self.agent.boots and self.scanned != self.asked:
            return self.spawn(SCAN)
        return None

    def end_scan(self, job):
        report = job.wait(600, check=True).out
        if report:
            with open(self.cluster.run_dir / f"{self.name}.kmemleak", "a", encoding="utf-8") as file:
                file.write(report)      # of others' leaks, too, which the kernel's log only counts
        self.account.leaked += leaks(report)
        self.scanned = self.asked

    def _scan(self):
        """All hosts at once: who asks one host soon asks the others, and a scan is mostly waiting."""
        self.cluster.scan()
        job = self.begin_scan()     # if that went wrong here
        if job:
            self.end_scan(job)

    def tidy(self):
        """As it was before anybody loaded a module of ours; raises if something does not go."""
        for slot in self.slots:
            if slot.guest and slot.guest.running:
                slot.guest.kill()
        for image, size in disks(self.spec):
            with open(self.cluster.run_dir / image, "r+b") as f:
                f.truncate(0)
                f.truncate(size)
        self.run(TIDY, timeout=120)

    def guest(self, name, **options):
        """A Guest of this host; options as for Guest.  It is not started yet."""
        return Guest(self, name, **options)


# What KVM on TCG's SVM does to a guest now and then; tests/run looks for the words "bed fault".
BED_FAULT = "KVM internal error. Suberror: 3"
STOPPED = "stopped by QEMU after an error of KVM's or of a device's"


GUEST_KERNEL = "/guest/vmlinux"


# A processor of a guest, as STATE shows the threads of a host, with a function of ours on its stack
WAITS_FOR_US = re.compile(r"^/proc/\S+ CPU \d+/KVM .*\n(?:(?!/proc/).*\n)*?.*\bdlend_", re.M)


IF = 0x200      # of a processor's flags: it takes interrupts


def in_firmware(autopsy):
    """Was a guest's processor in its firmware's 16-bit code each time, while nothing of ours kept it waiting?"""
    return (len(re.findall(r"^CS =f000 000f0000 ", autopsy, re.M)) >= 3 and "it does not say" not in autopsy and
            not WAITS_FOR_US.search(autopsy))


def sleeps(autopsy):
    """Was a processor of the host halted each time, with interrupts enabled, and one pending that nothing keeps from it?"""
    autopsy = autopsy.replace("\r", "")
    for n in (0, 1):
        halted = re.findall(rf"^CPU#{n}$(?:\n(?!CPU#).*)*?\nRIP=\w+ RFL=(\w+) .*HLT=(\d)", autopsy, re.M)
        pending = re.findall(rf"^dumping local APIC state for CPU {n}\b.*(?:\n(?!== ).*)*?\nIRR\s+(.*)(?:\n(?!== ).*)*?\n.*PPR (0x\w+)",
                             autopsy, re.M)
        asleep = [hlt == "1" and int(flags, 16) & IF for flags, hlt in halted]
        waits = [any(int(vector) >> 4 > int(ppr, 16) >> 4 for vector in re.findall(r"\d+", irr)) for irr, ppr in pending]
        if len(asleep) >= 3 and len(waits) >= 3 and all(asleep) and all(waits):
            return True
    return False


def guest_part(name):
    """A part of guests' initramfs, as its host sees it: "programs" is ours, and new in each run."""
    return f"/share/guest/{name}.cpio" if name == "programs" else f"/guest/{name}.cpio"


# What no guest here uses, and firmware and kernel look for.  A pc has no other way to reboot than its i8042.
# Without a PIT no int 08 keeps firmware from getting anywhere (tests/cluster/README.md); Linux takes its clocks from KVM.
BARE = {"q35": "sata=off,smbus=off,hpet=off,i8042=off,pit=off", "pc": "sata=off,smbus=off,hpet=off,pit=off"}


class Guest:
    """A KVM guest.

    memory    "256M"; with maxmem="1G" there are 4 DIMM slots for device_add
    machine   "q35" or "pc"
    smp       number of processors
    devices   values for -device, e.g. "vfio-pci,sysfsdev=/sys/bus/mdev/devices/UUID,id=lent"
    ports     how many empty PCIe root ports (hp0, hp1, ...) a q35 has for hot-plug
    port_options    of theirs, e.g. ",x-speed=5", so that a guest can reset what is below
    cpu       more of its processor; FEWER_ADDRESSES for a device with a BAR of GiBs
    modules   drivers to load at boot (mkimage: GUEST_MODULES)
    tools     what to add to the initramfs: "tools" (sfdisk, mkfs.ext4, lspci), "fio", "programs" (our
              own: tests/cluster/guest), drivers: "audio", "disk", "fat", "gpu", "memory", "rng", "usb" (mkimage: GUEST_PARTS)
    cmdline   more for its kernel command line
    extra     more QEMU arguments, as they are
    prefix    shell text before QEMU, e.g. "ulimit -l 65536;"
    wrap      words before QEMU's own, e.g. ("setpriv", "--bounding-set=-ipc_lock")
    kernel    False: no kernel of ours (extra says what boots, and there is no agent); a function: firmware finds
              the bed's, as QEMU loads none; it is called before each start with the kernel's command line, and
              puts both where that is (Cluster.linux_disk), without `tools`
    kvm       False: QEMU emulates it, which takes an emulated host very long
    iommufd   True: vfio-pci devices, hot-plugged ones too, use /dev/iommu and not the legacy
              container; without: as DLEND_IOMMUFD=1 says, if the host's kernel has it
    """

    def __init__(self, host, name, memory="256M", machine="q35", smp=1, devices=(), ports=0, port_options="", maxmem=None,
                 modules=("nvme",), tools=(), cmdline="", extra=(), prefix="", wrap=(), kernel=True,
                 kvm=True, iommufd=None, cpu=""):
        self.host = host
        self.name = name
        self.memory = memory
        self.machine = machine
        self.smp = smp
        self.devices = list(devices)
        self.ports = ports
        self.port_options = port_options
        self.cpu = cpu
        self.maxmem = maxmem
        self.modules = modules
        self.tools = tools
        self.cmdline = cmdline
        self.extra = list(extra)
        self.prefix = prefix
        self.wrap = list(wrap)
        self.kernel = kernel
        self.kvm = kvm
        self.iommufd = iommufd
        self.slot = None
        self.job = None
        self.stopped = False
        self.label = f"{host.name}/{name}"

    # Power

    def start(self):
        """Start QEMU in the host.  Returns at once; wait_ready() waits for the guest's agent."""
        if self.running:
            raise RuntimeError(f"guest {self.label} runs already")
        if self.iommufd is None:
            self.iommufd = os.environ.get("DLEND_IOMMUFD") == "1" and self._has_iommufd()
        self.stopped = False
        self.slot = self._take_slot()
        session = f"{self.name}.{next(self.host.starts)}"
        for wire, what in ((self.slot.agent, ""), (self.slot.qmp, " qmp"), (self.slot.console, " console")):
            wire.name = f"guest {self.label}{what}"
        self.slot.console.expect(self.host.cluster.run_dir / f"{self.host.name}-{self.name}.console")
        self.slot.agent.expect(session)
        self.slot.qmp.expect(self.host.cluster.run_dir / f"{self.host.name}-{self.name}.events")
        self.slot.qmp.broken = self._broken
        if callable(self.kernel):
            self.kernel(self._kernel_line(session))
        self.job = self.host.spawn(self._script(session))
        self.job.guest_slot = self.slot

    def _has_iommufd(self):
        """Debian's kernels have not; the one of check-debug has it as a module."""
        return self.host.run("modprobe -q iommufd; [ -c /dev/iommu ]", check=False).status == 0

    def _take_slot(self):
        for slot in self.host.slots:
            if slot.guest is None or not slot.guest.running:
                slot.guest = self
                return slot
        raise RuntimeError(f"host {self.host.name}: more guests than guests = {len(self.host.slots)}")

    def _script(self, session):
        top = "/run/dlend/guest"
        parts = " ".join(map(guest_part, ("base", *self.tools)))
        join = f"cat {parts} >{self.name}.cpio\n" if self.tools else ""
        words = ["exec", *self.wrap, "qemu-system-x86_64", *(shlex.quote(a) for a in self._qemu_args(session))]
        return (f"mkdir -p {top}; cd {top}\n"
                f"{join}"
                f"for t in $(seq 100); do [ -c /dev/kvm ] && break; sleep 0.1; done\n"
                f"{self.prefix}\n" + " ".join(words) + "\n")

    def _kernel_line(self, session):
        return (f"console=ttyS0 quiet panic=-1 {GUEST_LEAN} dlend.name={self.name} dlend.session={session} "
                f"dlend.modules={','.join(self.modules)} {self.cmdline}".strip())

    def _qemu_args(self, session):
        ports = f"/dev/virtio-ports/g{self.slot.number}"
        memory = f"{self.memory},slots=4,maxmem={self.maxmem}" if self.maxmem else self.memory
        args = ["-name", self.name, "-nodefaults", "-no-user-config", "-display", "none",
                "-machine", f"{self.machine},{BARE[self.machine]}", *(["-accel", "kvm", "-cpu", f"host{self.cpu}"] if self.kvm else ["-accel", "tcg"]),
                "-m", memory, "-smp", str(self.smp),
                "-pidfile", f"/run/dlend/guest/{self.name}.pid",
                "-chardev", f"pipe,id=console,path={ports}.console", "-serial", "chardev:console",
                "-chardev", f"pipe,id=qmp,path={ports}.qmp", "-object", "monitor-qmp,id=monitor,chardev=qmp"]
        if self.kernel and not callable(self.kernel):
            args += ["-kernel", GUEST_KERNEL, "-append", self._kernel_line(session),
                     "-initrd", f"{self.name}.cpio" if self.tools else guest_part("base")]
        if self.kernel:
            args += [# By ports, not memory: KVM must emulate a store to a page whose mapping just went
                     # (every hot-plug), and takes the type that TCG's SVM leaves in EXITINTINFO after an
                     # exception of the guest for an event under way (tests/cluster/README.md).
                     "-device", "virtio-serial-pci,id=agents,max_ports=2,disable-modern=on",
                     "-chardev", f"pipe,id=agent,path={ports}.agent",
                     "-device", "virtserialport,bus=agents.0,nr=1,chardev=agent,name=agent"]
        for number in range(self.ports):
            args += ["-device", f"pcie-root-port,id=hp{number},chassis={number + 1}{self.port_options}"]
        if self.iommufd:
            args += ["-object", "iommufd,id=iommufd0"]
        for device in self.devices:
            if self.iommufd and device.split(",")[0] == "vfio-pci":
                device += ",iommufd=iommufd0"
            args += ["-device", device]
        return args + self.extra

    @property
    def running(self):
        return self.job is not None and not self.job.over

    def _broken(self):
        """QEMU has stopped it for good: whoever waits for it need not."""
        self.stopped = True
        self.slot.agent.abandon(f"guest {self.label}: {STOPPED}")

    def _alive(self):
        if self.job is None:
            raise Gone(f"guest {self.label}: not started")
        if self.stopped and not self.job.over:
            raise Gone(f"guest {self.label}: {STOPPED}")
        if self.job.gone:
            raise Gone(f"guest {self.label}: {self.job.gone}")
        if self.job.over:
            raise Gone(f"guest {self.label}: QEMU ended with status {self.job.result.status}:\n{self.job.result.out}")
        return True

    def wait_ready(self, timeout=300, boots=1):
        """Until the guest's agent said hello `boots` times since start()."""
        def ready():
            return self.slot.agent.boots >= boots or (self._alive() and False)
        with self.host.cluster.progress(f"guest {self.label}: ready"):
            try:
                self.host.loop.wait(f"guest {self.label}", ready, timeout)
            except TimedOut:
                if in_firmware(self.host.found):
                    self.host.cluster.say(f"bed fault: guest {self.label}: its firmware runs without end (tests/cluster/README.md)")
                raise TimedOut(f"guest {self.label}: not ready after {timeout * SLACK} s; console:\n"
                               f"{self.slot.console.text[-2000:]}") from None

    def wait_off(self, timeout=60):
        """Until its QEMU ended, however; the Result of the QEMU process."""
        with self.host.cluster.progress(f"guest {self.label}: off"):
            self.host.loop.wait(f"guest {self.label}: still on", lambda: self.job.over, timeout)
        if self.job.gone:
            raise Gone(f"guest {self.label}: {self.job.gone}")
        self.slot.agent.abandon(f"guest {self.label}: off")
        self.slot.qmp.abandon(f"guest {self.label}: off")
        if BED_FAULT in self.job.result.out:
            self.host.cluster.say(f"bed fault: guest {self.label}: {BED_FAULT} (tests/cluster/README.md)")
        return self.job.result

    def shutdown(self, wait=True, timeout=90):
        """The guest's kernel powers off."""
        self._alive()
        self.slot.agent.spawn("sync; poweroff -f")
        return self.wait_off(timeout) if wait else None

    def reboot(self, wait=True, timeout=300):
        """The guest's kernel reboots; QEMU stays."""
        self._alive()
        boots = self.slot.agent.boots
        self.slot.agent.spawn("sync; reboot -f")
        if wait:
            self.wait_ready(timeout, boots + 1)

    def kill(self, sig=9, wait=True, timeout=60):
        """A signal for the guest's QEMU."""
        self.job.kill(sig)
        return self.wait_off(timeout) if wait else None

    # Work

    def run(self, command, timeout=120, check=True, input=None):
        """As Host.run, in the guest (busybox sh)."""
        self._alive()
        return self.slot.agent.run(command, timeout, check, input)

    def spawn(self, command, input=None):
        self._alive()
        return self.slot.agent.spawn(command, input)

    def wait_for(self, command, timeout=60, every=0.5):
        """As Host.wait_for, in the guest."""
        return self.run(until(command, every), timeout)

    def qmp(self, command, arguments=None, timeout=60, **more):
        """A command for the guest's monitor, e.g. g.qmp("device_del", id="lent")."""
        self._alive()
        arguments = {**(arguments or {}), **more}
        if self.iommufd and command == "device_add" and arguments.get("driver") == "vfio-pci":
            arguments["iommufd"] = "iommufd0"
        return self.slot.qmp.execute(command, arguments, timeout)

    def hmp(self, line, timeout=60):
        """What people can type at that monitor; what it answers."""
        return self.qmp("human-monitor-command", {"command-line": line}, timeout)

    def wait_event(self, event, timeout=60, match=lambda data: True):
        """The first such event of the guest's QEMU since its start, e.g. "DEVICE_DELETED"."""
        return self.slot.qmp.wait_event(event, timeout, match)

    def wait_console(self, pattern, timeout=60):
        """A regular expression in what its console said since start()."""
        return self.slot.console.wait(pattern, timeout)

    def complaints(self):
        """Lines in which the guest's kernel says that something is wrong with it, since it booted."""
        return complaints(self.run("dmesg").out)

    def pid(self):
        """Of its QEMU, in the host."""
        return int(self.host.run(f"cat /run/dlend/guest/{self.name}.pid").out)
