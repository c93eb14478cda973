# SPDX-License-Identifier: GPL-2.0-only
"""Libvirt's domains on hosts with systemd, and the guests in them.

    vm = Domain("vm1", mdevs=[uuid])
    vm.define(a)
    vm.start(a)                      # virsh start, and wait for the guest's agent
    vm.run("lspci")
    vm.virsh("attach-device vm1 /tmp/x.xml --live")
    vm.destroy()

Knows virsh and the agent, nothing of lending but how a <hostdev> of an mdev is written.
"""
from host import GUEST_KERNEL, guest_part, until
from topology import GUEST_LEAN
from wire import Gone

# By I/O ports, not memory, for the reason that Guest has for its own (host.py).
XML = """<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <vcpu>{smp}</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{top}/vmlinux</kernel>
    <initrd>{top}/{name}.cpio</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 {lean} dlend.name={name} dlend.session={name} \
dlend.modules={modules}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='host-passthrough'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type='usb' model='none'/>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='virtio-serial' index='0'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/>
    </controller>
    <serial type='file'><source path='/var/log/libvirt/qemu/{name}.console'/></serial>
    <channel type='unix'><target type='virtio' name='agent'/></channel>
    <memballoon model='none'/>
    {devices}
  </devices>
  <qemu:commandline>
    <qemu:arg value='-global'/><qemu:arg value='virtio-serial-pci.disable-modern=on'/>{words}
  </qemu:commandline>
</domain>
"""
TOP = "/var/lib/libvirt/images"
POWER = ("event=$(sed -n '/Power Button/,/Handlers/s/.*\\(event[0-9]*\\).*/\\1/p' /proc/bus/input/devices); "
         "dd if=/dev/input/$event of=/dev/null bs=24 count=1 && sync && poweroff -f")


def hostdev(uuid, more=""):
    """A mediated device, as a domain has it or attach-device takes it."""
    return ("<hostdev mode='subsystem' type='mdev' model='vfio-pci'>"
            f"<source><address uuid='{uuid}'/></source>{more}</hostdev>")


class Domain:
    """A domain of the same XML on whichever host; `host` is where its guest was met last.

    mdevs     UUIDs, or (UUID, more XML inside <hostdev>)
    ports     how many empty PCIe root ports it has for attach-device
    modules, tools, memory, smp     as for Guest
    words     more of QEMU's command line
    """

    def __init__(self, name, mdevs=(), ports=0, memory=256, smp=1, modules=("nvme",), tools=(), words=()):
        self.name = name
        self.mdevs = [(mdev, "") if isinstance(mdev, str) else mdev for mdev in mdevs]
        self.ports = ports
        self.memory = memory
        self.smp = smp
        self.modules = modules
        self.tools = tools
        self.words = words
        self.host = None
        self.slot = None
        self.relay = None

    def xml(self):
        devices = [hostdev(uuid, more) for uuid, more in self.mdevs]
        # libvirt numbers and places them; those that nothing of the definition is in stay free.
        devices += ["<controller type='pci' model='pcie-root-port'/>"] * (self.ports + len(self.mdevs))
        return XML.format(name=self.name, memory=self.memory, smp=self.smp, top=TOP, modules=",".join(self.modules),
                          lean=GUEST_LEAN, devices="\n    ".join(devices),
                          words="".join(f"<qemu:arg value='{word}'/>" for word in self.words))

    def put(self, host):
        """What it boots from: any host that is to run it needs that."""
        parts = " ".join(map(guest_part, ("base", *self.tools)))
        host.run(f"cp {GUEST_KERNEL} {TOP}/ && cat {parts} >{TOP}/{self.name}.cpio", timeout=60)

    def define(self, host):
        self.host = host
        self.put(host)
        host.run(f"cat >/tmp/{self.name}.xml", input=self.xml())
        self.virsh(f"define /tmp/{self.name}.xml")

    def virsh(self, words, check=True, timeout=120):
        return self.host.run(f"virsh {words}", check=check, timeout=timeout)

    @property
    def label(self):
        return f"{self.host.name}/{self.name}"

    def hmp(self, line, timeout=30):
        """As Guest.hmp."""
        return self.virsh(f"qemu-monitor-command --hmp {self.name} '{line}'", timeout=timeout).out

    def state(self):
        return self.virsh(f"domstate {self.name}").out.strip()

    def start(self, host=None, wait=True, timeout=240):
        self.host = host or self.host
        self._take()
        self.virsh(f"start {self.name}", timeout=180)
        self._connect()
        if wait:
            self.wait_ready(timeout)

    def meet(self, host, timeout=240):
        """Somebody else has started it on that host."""
        self.host = host
        self._take()
        self._connect()
        self.wait_ready(timeout)

    def follow(self, host):
        """It runs on another host now, without having booted: talk to it there."""
        self.host = host
        self._take()
        with host.loop.changed:
            self.slot.agent.boots = 1
        self._connect()

    def _take(self):
        self.slot = next((s for s in self.host.slots if s.guest in (None, self) or not s.guest.running), None)
        if self.slot is None:
            raise RuntimeError(f"host {self.host.name}: more guests than guests = {len(self.host.slots)}")
        self.slot.guest = self
        self.slot.agent.name = f"domain {self.host.name}/{self.name}"
        self.slot.agent.expect(self.name)

    def _connect(self):
        """libvirt wants the guest's channel to be a socket of its own."""
        path = self.virsh(f"dumpxml {self.name} | grep -o '/run/libvirt/qemu/channel/[^\"'\"'\"']*'").out.split()[0]
        port = f"/dev/virtio-ports/g{self.slot.number}.agent"
        self.relay = self.host.spawn(f"exec socat UNIX-CONNECT:{path} OPEN:{port},rdwr")

    @property
    def running(self):
        """As far as the runner knows: its QEMU has not hung up."""
        return self.relay is not None and not self.relay.over

    def _alive(self):
        if not self.running:
            log = self.host.run(f"tail -n 15 /var/log/libvirt/qemu/{self.name}.log", check=False).out
            raise Gone(f"domain {self.name} on {self.host.name}: it has ended:\n{log}")
        return True

    def wait_ready(self, timeout=240, boots=1):
        with self.host.cluster.progress(f"domain {self.host.name}/{self.name}: ready"):
            self.host.loop.wait(f"domain {self.name}",
                                lambda: self.slot.agent.boots >= boots or not self.running, timeout)
        self._alive()

    def run(self, command, timeout=120, check=True, input=None):
        """As Host.run, in the guest (busybox sh)."""
        self._alive()
        return self.slot.agent.run(command, timeout, check, input)

    def spawn(self, command):
        self._alive()
        return self.slot.agent.spawn(command)

    def wait_for(self, command, timeout=60, every=0.5):
        """As Host.wait_for, in the guest."""
        return self.run(until(command, every), timeout)

    def heed_power_button(self):
        """The guest powers off when libvirt asks it to; with modules button and evdev, tools power."""
        self.spawn(POWER)
        self.wait_for("ls -l /proc/*/fd 2>/dev/null | grep -q /dev/input/event")

    def reboot(self, timeout=240):
        """The guest's own doing; QEMU stays."""
        boots = self.slot.agent.boots
        self.spawn("sync; reboot -f")
        self.wait_ready(timeout, boots + 1)

    def reboot_by_virsh(self, timeout=240):
        """What an administrator does: the power button, which the guest heeds, and then on again."""
        boots = self.slot.agent.boots
        self.heed_power_button()
        self.virsh(f"reboot {self.name}")
        self.wait_ready(timeout, boots + 1)

    def wait_off(self, timeout=60):
        self.host.loop.wait(f"domain {self.name}: still on", lambda: not self.running, timeout)
        self.slot.agent.abandon(f"domain {self.name}: off")
        self.host.wait_for(f"[ \"$(virsh domstate {self.name})\" = 'shut off' ]", timeout)

    def shutdown(self, timeout=90):
        """The guest's kernel powers off."""
        self.spawn("sync; poweroff -f")
        self.wait_off(timeout)

    def destroy(self, timeout=60):
        self.virsh(f"destroy {self.name}", timeout=timeout)
        self.wait_off(timeout)
