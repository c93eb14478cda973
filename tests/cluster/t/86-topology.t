#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a node knows of the fabric, and a guest that gets a tree like it.

    host a (node 1) ---- ab ---- host b (node 2): nvme0
           \\----- ac ---- host c (node 3): nvme0 ---- bc ---- host b
"""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cluster import Cluster, Tap  # noqa: E402  pylint: disable=wrong-import-position
from fabric import Fabric  # noqa: E402  pylint: disable=wrong-import-position
from tree import arguments  # noqa: E402  pylint: disable=wrong-import-position


def path(f, *ends):
    return json.loads(f.dlend("a", "topology --json --path " + " ".join(ends)).out)


def known(t, f, c, near, far):
    host = {number: c.host(name) for name, number in f.node.items()}
    data = json.loads(f.dlend("a", "topology --json").out)
    t.equal(data["nodes"], [1, 2, 3], "a knows all nodes")
    links = {(e["from"], e["to"]): e for e in data["links"]}
    t.equal(sorted(links), [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)], "and all links, that of the others too")
    t.ok(all(e["bytes"] for e in links.values()), "with what each reaches", str(links))
    t.equal((links[2, 3]["name"], links[3, 2]["name"]), (host[2].bdf("ntb-bc"), host[3].bdf("ntb-bc")),
            "at which functions they end")
    t.equal([b["address"] for b in links[2, 3]["bridges"]], [host[2].port("ntb-bc").bdf], "and where these sit")
    devices = {d["address"]: d for d in data["devices"]}
    for address in (near, far):
        port = host[devices[address]["lender"]].port("nvme0")
        t.equal([(b["address"], b["kind"]) for b in devices[address]["bridges"]], [(port.bdf, "root")],
                f"{address} sits where its host says")
    roots = [thing["root"] for thing in (*links.values(), *devices.values())]
    t.equal({(root["host_bridge"], root["p2p_domain"]) for root in roots}, {("0000:00", 1)},
            "all is below the one host bridge of its host, whose administrator allows it", str(roots))
    text = f.dlend("a", "topology").out
    t.equal(text.count("host bridge 0000:00"), 3, "each host's is shown once", text)
    t.ok(f.dlend("a", "topology --dot").out.startswith("graph"), "it can be drawn")


def ways(t, f, c, near, far):
    way = path(f, near, "memory")
    t.equal((way["hops"], way["roots"], way["bridges"], way["exact"]), (4, 2, 3, True),
            "to a's memory: two roots, two ends of an NTB")
    way = path(f, near, far)
    t.equal((way["way"], way["hops"], way["roots"]), ("over the link of the two nodes", 4, 2), "from b's to c's")
    c.link("bc").command("down")
    c.host("a").wait_for(f"dlend topology --json --path {near} {far} | grep -q 'through the borrower'", 30)
    way = path(f, near, far)
    t.equal((way["hops"], way["roots"], way["ntbs"]), (7, 3, 2), "without their link: through a")
    c.link("bc").command("up")
    f.wait_links("b")
    f.wait_links("c")
    c.host("a").wait_for(f"dlend topology --json --path {near} {far} | grep -q 'over the link'", 30)
    t.equal(path(f, near, far)["hops"], 4, "and back when it is up again")


def container(t, f, a, uuids):
    spec = json.loads(f.dlend("a", "cdi").out)
    t.equal(sorted(d["name"] for d in spec["devices"]), sorted(uuids), "dlend cdi lists the mediated devices")
    for device in spec["devices"]:
        for node in device["containerEdits"]["deviceNodes"]:
            t.equal(a.run(f"test -c {node['path']}", check=False).status, 0, f"{node['path']} is there")


def replicated(t, f, uuids):
    text = f.dlend("a", "libvirt-xml " + " ".join(uuids)).out
    with f.guest("a", "tree", devices=arguments(text), tools=("tools",)) as g:
        g.wait_for("[ $(ls -d /sys/class/nvme/nvme* | wc -l) = 2 ]")
        chains = [re.findall(r"/([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/)", line)
                  for line in g.run("for n in /sys/class/nvme/nvme*; do readlink -f $n; done").out.split()]
        t.equal([len(chain) for chain in chains], [4, 4], "root port, switch, its port, device", str(chains))
        t.equal(chains[0][:2], chains[1][:2], "both below one switch")
        t.ok(chains[0][2] != chains[1][2], "each at a port of its own")
        tree = g.run("lspci -tv").out
        t.ok(re.search(r"\[[0-9a-f]{2}-[0-9a-f]{2}\]----00\.0-\[[0-9a-f]{2}-[0-9a-f]{2}\]--\+-", tree),
             "lspci -tv shows that tree", tree)
        g.shutdown()


def main():
    with Tap() as t, Cluster("three-hosts.toml", tap=t) as c:
        f = Fabric(c)
        f.up(timeout=150)
        for name in "bc":
            c.host(name).own_disks()
        near, far = f.lend("b", "nvme0"), f.lend("c", "nvme0")
        uuids = [f.mdev("a", address, "dlend-nvme") for address in (near, far)]
        for uuid in uuids:
            c.host("a").run(f"echo 1 >/sys/bus/mdev/devices/{uuid}/clique")
        c.host("a").wait_for("cd /sys/bus/dlend && grep -q '^2 3 ' neighbours && grep -q '^3 2 ' neighbours && "
                             "grep -q '^2 3 ' ntb_places && grep -q '^3 2 ' ntb_places && "
                             "grep -q '^2 3 ' ntb_roots && grep -q '^3 2 ' ntb_roots", 30)
        with t.case("what a knows"):
            known(t, f, c, near, far)
        with t.case("ways"):
            ways(t, f, c, near, far)
        with t.case("for container runtimes"):
            container(t, f, c.host("a"), uuids)
        with t.case("the tree in a guest"):
            replicated(t, f, uuids)
        for name in "abc":
            t.equal(c.host(name).complaints(), [], f"host {name}'s kernel has no complaint")


main()
