# SPDX-License-Identifier: GPL-2.0-only
"""RAM that is plugged into a running Linux guest, whose programs get it before any other.

The guest has maxmem=, cmdline=ONLINE, modules virtio_mem, tools "fio" and "memory", and extra=VIRTIO_MEM.
"""
from fabric import eventually

MIB = 1 << 20
ONLINE = "memhp_default_state=online_movable"
VIRTIO_MEM = ["-object", "memory-backend-ram,id=vm,size=256M",
              "-device", "virtio-mem-pci,id=vm0,memdev=vm,requested-size=0"]

# From the moment that there is more memory, which programs get first: write the disk, read it into memory, compare.
USE = """total() { while read -r name kib rest; do [ $name != MemTotal: ] || break; done </proc/meminfo; }
total; had=$kib
echo armed >/tmp/armed
while [ $kib -le $had ]; do total; done
fio --name=v --filename=/dev/nvme0n1 --rw=write --bs=64k --size=1m --numjobs=4 --thread --offset_increment=4m \
    --direct=1 --ioengine=psync --mem=mmap --verify=crc32c --minimal >/tmp/fio"""


def used_at_once(t, g, name, plug):
    g.run("rm -f /tmp/armed")
    job = g.spawn(USE)
    g.wait_for("[ -e /tmp/armed ]")
    plug()
    status = job.wait(240).status
    t.equal(status, 0, f"{name}: what the disk wrote and read in it is right", g.run("tail -5 /tmp/fio", check=False).out)


def virtio_mem(g, size, most=0):
    """So much is asked for; @most: it is enough if the guest has given back what is above that."""
    g.qmp("qom-set", path="/machine/peripheral/vm0", property="requested-size", value=size)
    until(lambda: size <= g.qmp("qom-get", path="/machine/peripheral/vm0", property="size") <= max(size, most),
          "virtio-mem gets there")


def until(done, what, seconds=120):
    if not eventually(done, True, seconds):
        raise RuntimeError(f"not within {seconds} s: {what}")


def dimm_out(g):
    g.qmp("device_del", id="d1")
    until(lambda: not g.qmp("query-memory-devices") or
          all(d["data"]["id"] != "d1" for d in g.qmp("query-memory-devices")), "the DIMM is unplugged")
    g.qmp("object-del", id="m1")


def dimm_in(g):
    g.qmp("object-add", {"qom-type": "memory-backend-ram", "id": "m1", "size": 128 * MIB})
    g.qmp("device_add", driver="pc-dimm", id="d1", memdev="m1")
