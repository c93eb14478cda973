#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Which commands the docs have (tests/cluster/documented.py)."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cluster"))
from documented import Documented, commands, pages  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

PAGE = """Text, and `dlend inline 3b:00.0`.

    dlend lend 3b:00.0          # a remark
    U=$(uuidgen)
    mdevctl define -u $U -p d0002:3b:00.0 --type dlend-nvme
    cp /etc/$U /root/$U
    virsh undefine vm1; mdevctl stop -u $U
    qemu-system-x86_64 ... -device x
    virsh attach-device VM device.xml --live      what it does
    sed -i 's/^#options dlend_core node_id=.*/options dlend_core node_id=1/' /etc/x; true
    virsh migrate --a \\
        vm1 qemu+ssh://b/system

And with what is printed:

    # dlend list
    dlend printed 3b:00.0
"""
U, V = "5d0e1a5c-5f4b-4c8e-9a53-0d7c4b1d9c11", "00000000-0000-4000-8000-000000000000"
YES = ["dlend lend 3b:00.0", "dlend lend 0000:01:00.1", "uuidgen", f"mdevctl define -u {U} -p d0003:01:00.0 --type dlend-gpu",
       f"cp /etc/{U} /root/{U}", "virsh undefine vm3", f"mdevctl stop -u {V}", "virsh attach-device vm4 disk.xml --live",
       "sed -i 's/^#options dlend_core node_id=.*/options dlend_core node_id=77/' /etc/x; true",
       "virsh migrate --a vm2 qemu+ssh://c/system", "dlend list"]
NO = ["dlend lend", "dlend lend --reset bus 3b:00.0", "dlend lend d0002:3b:00.0", "dlend lend 3b:00.0; reboot", "dlend lend 3b:00.0\nreboot",
      "dlend inline 3b:00.0", "dlend printed 3b:00.0", f"cp /etc/{U} /root/{V}", "mdevctl define -u U -p d0003:01:00.0 --type dlend-gpu",
      f"mdevctl define -u {U} -p d0003:01:00.0 --type nvme", "virsh undefine vm1 --nvram", "virsh undefine vm1; mdevctl stop -u " + U,
      "qemu-system-x86_64 ... -device x", "virsh migrate --a vm2 qemu+ssh://c/session", "a remark", "true"]


def main():
    with Tap() as t:
        docs = Documented({"page": PAGE})
        t.equal([command for command in YES if docs.find(command) != "page"], [], "what a page has is found, with other values of the same kind")
        t.equal([command for command in NO if docs.find(command)], [], "what it has not is not")
        docs = Documented({"page": PAGE})
        docs.find("dlend list")
        t.ok("dlend list" not in docs.untyped("page") and "uuidgen" in docs.untyped("page"), "what was not typed is known")
        empty = [page for page in ("README.md", "docs/getting-started.md", "docs/libvirt.md", "docs/operations.md")
                 if not list(commands(pages()[page]))]
        t.equal(empty, [], "the pages have commands")


main()
