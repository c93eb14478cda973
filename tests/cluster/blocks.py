# SPDX-License-Identifier: GPL-2.0-only
"""Programs in a guest that write numbered blocks to its disks, one after the other, so that what is lost or wrong shows.

    writers = Writers([("nvme0n1", 0), ("nvme1n1", 0)], size="4k")
    writers.begin(vm)
    writers.go_on(vm)           # until each has written some more
    writers.check(t, vm)

Knows neither hosts nor lending; the guest has busybox.
"""

# Without the disk's file, dd would make an ordinary one, and that would have the block.
# Block n of a writer begins with the number n; /tmp/last.NAME is the last one that the disk has said it has.
WRITE = """n=0; while :; do n=$((n+1)); [ -b /dev/{disk} ] && printf '%08d' $n | dd of=/dev/{disk} bs={size} seek=$(({first} + n)) conv=sync \
oflag=direct 2>/dev/null && [ -b /dev/{disk} ] && echo $n >/tmp/new.{name} && mv /tmp/new.{name} /tmp/last.{name} ||
{{ echo $n >>/tmp/lost; sleep 0.2; }}; done"""
# How many there are, and how many of them are not as they were written
READ = """dd if=/dev/{disk} bs={size} skip=$(({first} + 1)) count=$(cat /tmp/last.{name}) iflag=direct 2>/dev/null |
tr -d '\\0' | fold -w 8 | awk '$0 + 0 != NR || length != 8 {{ n++ }} END {{ print NR, n + 0 }}'"""


def disk_of(machine, serial):
    """The disk's name in /dev.  Which one gets which is the kernel's choice, at every boot."""
    return machine.run(f"cd /sys/block && grep -l {serial} nvme*/device/serial").out.split("/")[0]


class Writers:
    """places: (disk, the block before the first one) of each; size: of a block, for dd"""

    def __init__(self, places, size):
        self.places = [{"name": f"{disk}.{first}", "disk": disk, "first": first, "size": size} for disk, first in places]

    def begin(self, vm):
        for place in self.places:
            vm.run(f"echo 0 >/tmp/last.{place['name']}")
            vm.spawn(WRITE.format(**place))

    def last(self, vm):
        """Number of each one's last block."""
        return [int(last) for last in vm.run("cat " + " ".join(f"/tmp/last.{place['name']}" for place in self.places)).out.split()]

    def go_on(self, vm, timeout=120):
        vm.wait_for(" && ".join(f"[ $(cat /tmp/last.{place['name']}) -gt {last + 2} ]"
                                for place, last in zip(self.places, self.last(vm))), timeout)

    @staticmethod
    def lost(vm):
        """Blocks that a disk has refused."""
        return vm.run("cat /tmp/lost 2>/dev/null", check=False).out

    def check(self, t, vm):
        for place, last in zip(self.places, self.last(vm)):
            count, wrong = map(int, vm.run(READ.format(**place), timeout=300).out.split())
            t.ok(count >= last and not wrong, f"{place['name']}: each of {count} blocks is as it was written",
                 f"{wrong} are wrong; {last} were there")
