#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""dlend topology on a fake host: the fabric of fabric.py as text, JSON and dot, and ways through it.

Numbers of hops are counted by hand here, by the rules of docs/paths.md.
"""
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
from fabric import NTBS, SWITCH, UUIDS, Fabric  # noqa: E402  pylint: disable=wrong-import-position
from tap import Tap  # noqa: E402  pylint: disable=wrong-import-position

A, B, C, OWN = "d0002:04:00.0", "d0002:05:00.0", "d0003:01:00.0", "d0001:08:00.0"


def path(f, *ends):
    r = f.run(["--json", "topology", "--path", *ends])
    return json.loads(r.out) if r.out else {"error": r.err}


def counts(way):
    return tuple(way[key] for key in ("hops", "roots", "switches", "bridges", "ntbs"))


def kinds(way):
    return [(step["node"], step["kind"]) for step in way["steps"]]


def picture(t):
    with Fabric() as f:
        f.populate()
        f.mdev(A, clique="3")
        f.mdev(C, clique="3")
        f.files(f.put(f"devices/dlend/{A}"), interrupts="direct")
        f.files(f.put(f"devices/dlend/{C}"), interrupts="doorbell: why")
        data = json.loads(f.run("topology --json").out)
        t.equal((data["node"], data["nodes"], data["names"]), (1, [1, 2, 3], {}), "nodes: this one, and those that its peers tell of")
        f.files(f.put(f"class/dlend_link/{NTBS[2]}"), peer_name="beta")
        t.equal(json.loads(f.run("topology --json").out)["names"], {"2": "beta"}, "  their names, if they have told")
        t.ok("\nnode 2 (beta)\n" in f.run("topology").out and 'label="node 2 (beta)";' in f.run("topology --dot").out,
             "  as text and in the picture")
        links = {(e["from"], e["to"]): e for e in data["links"]}
        t.equal(sorted(links), [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)],
                "links: own, and that of the peers; the loop is none")
        t.equal([links[pair]["bytes"] for pair in ((1, 2), (2, 1), (3, 2), (2, 3))],
                [1 << 30, 1 << 29, 1 << 28, 1 << 28], "  with what each end reaches")
        t.equal([b["address"] for b in links[2, 3]["bridges"]], ["0000:00:05.0"], "  and where a peer's end sits")
        devices = {d["address"]: d for d in data["devices"]}
        t.equal(sorted(devices), [OWN, A, B, C], "devices: offers, and what this host lends")
        t.equal([(b["address"], b["kind"], b["acs"]) for b in devices[OWN]["bridges"]],
                [("0000:00:06.0", "root", True), ("0000:07:00.0", "up", False), ("0000:07:01.0", "down", True)],
                "bridges above an own device, from sysfs and their configuration space")
        t.equal([b["address"] for b in devices[A]["bridges"]], ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"],
                "  above another's, from its offer")
        t.equal((devices[A]["mdev"], devices[A]["clique"], "clique" in devices[B]), (UUIDS[A], 3, False),
                "  the mdev of it here, and its clique")
        t.equal((devices[A]["interrupts"], devices[C]["interrupts"]), ("direct", "doorbell: why"), "  and how its interrupts come")
        t.equal(data["cliques"], [{"clique": 3, "devices": [A, C], "no_way": []}], "cliques")
        t.equal(sorted((r["from"], r["to"]) for r in data["routes"]),
                sorted([(A, C), (C, A), *((d, "memory:1") for d in (OWN, A, B, C))]),
                "routes: every device to this node's memory, borrowed ones to each other")
        text = f.run("topology").out
        t.equal(text.count("0000:01:00.0 switch"), 1, "as text: one switch is drawn once")
        t.ok(f"mdev {UUIDS[A]}, interrupts direct, clique 3" in text and f"mdev {UUIDS[C]}, interrupts by the doorbell, clique 3" in text,
             "  how interrupts come")
        t.ok("\n      d0002:04:00.0" not in text, "  devices below their port")
        t.ok("clique 3: d0002:04:00.0 d0003:01:00.0\n" in text and "WARNING" not in text, "  and the clique")
        t.ok(re.search(r"d0002:04:00.0 +d0003:01:00.0 +over the link of the two nodes +5 +2 +6 +1\n", text),
             "  and the routes", text)


def dot(t):
    with Fabric() as f:
        f.populate()
        f.mdev(A, clique="3")
        f.offer("d0002:09:00.0", type='x"];evil', place=SWITCH.format(2))
        r = f.run("topology --dot")
        t.ok(r.code == 0 and r.out.startswith("graph ") and r.out.endswith("}\n"), "dot: one graph")
        t.equal(r.out.count("{"), r.out.count("}"), "  with as many ends as beginnings")
        t.ok(all(line.count('"') % 2 == 0 for line in r.out.replace('\\"', "").splitlines()), "  quotes in pairs")
        t.ok('"];evil' not in r.out, "  a peer's words stay inside them")
        t.equal(len(re.findall(r"penwidth=3", r.out)), 3, "  every link once")
        t.ok("clique 3" in r.out and "subgraph cluster_3" in r.out, "  nodes and cliques")


P2P = "{} bar0 0xc0000000 0x400000 {}\n{} bar2 0xc0400000 0x1000 {}\n"


def mapped(t):
    """What the kernel says of peer-to-peer of a running VM, beside the routes that there could be."""
    with Fabric() as f:
        f.populate()
        devices = {address: f.mdev(address, clique="3") for address in (A, B, C)}
        f.file("p2p", P2P.format(B, "same-lender mapped", B, "same-lender mapped") +
               P2P.format(C, "lender-link mapped", C, "none error -28, a window is full"), devices[A] / "dlend")
        f.file("p2p", P2P.format(A, "same-lender mapped", A, "same-lender mapped"), devices[B] / "dlend")
        f.file("p2p", P2P.format(A, "none not in use", A, "none soon"), devices[C] / "dlend")
        found = json.loads(f.run("topology --json").out)["p2p"]
        t.equal(len(found), 8, "mappings: every BAR of the others, for each device")
        t.equal([r for r in found if (r["from"], r["to"]) == (A, C)],
                [{"from": A, "to": C, "bar": 0, "address": "0xc0000000", "size": 0x400000, "way": "lender-link",
                  "mapped": True, "state": "mapped"},
                 {"from": A, "to": C, "bar": 2, "address": "0xc0400000", "size": 0x1000, "way": "none",
                  "mapped": False, "state": "error -28, a window is full"}], "  with address, size, way and state")
        text = f.run("topology").out
        t.ok(re.search(rf"{A} +{C} +2 +0xc0400000 +0x1000 +none +error -28, a window is full\n", text), "  as text", text)
        t.equal([line for line in text.splitlines() if "WARNING" in line],
                [f"  WARNING: {A} does not reach BAR 2 of {C}: error -28, a window is full; dmesg says why"], "  a clique that is not true is warned of")
        drawn = [line.strip() for line in f.run("topology --dot").out.splitlines() if "dashed" in line]
        t.equal(sorted(re.sub(r", style.*", "", line) for line in drawn),
                [f'"{A}" -- "{B}" [label="same-lender", dir=both', f'"{A}" -- "{C}" [label="lender-link", dir=forward'],
                "  drawn once for a pair, with a head at each end that is reached")
        for line in ("", "x", f"{C} bar0", f"{C} bar6 0x0 0x0 none soon", f"{C} bar00 0x0 0x0 none soon",
                     f"{C} barx 0x0 0x0 none soon", f"{C} bar0 zz 0x0 none soon", f"{C} bar0 0x0 zz none soon",
                     f"{C} bar0 0x0 0x0", "\x00\xff"):
            f.file("p2p", line + "\n", devices[A] / "dlend")
            r = f.run("topology --json")
            t.equal((r.code, [p for p in json.loads(r.out)["p2p"] if p["from"] == A]), (0, []), f"p2p {line!r}: left out")
        f.file("p2p", f"{C} bar0 0x0 0x1000 none\n", devices[A] / "dlend")
        t.equal([p["state"] for p in json.loads(f.run("topology --json").out)["p2p"] if p["from"] == A], [""],
                "p2p without a state: kept")


VOUCH = "node 2 does not allow transfers between the two devices, below different host bridges (dlend_core.p2p_allowed there)"


def sockets(t):
    """What is below which host bridge, and what keeps devices of one guest in different cliques."""
    with Fabric() as f:
        f.populate()
        f.sockets()
        devices = {address: f.mdev(address, clique=clique) for address, clique in ((A, "0"), (B, "1"), (C, "0"))}
        f.file("p2p_doubts", f"{B} {VOUCH}\n", devices[A] / "dlend")
        f.file("p2p_doubts", f"{A} {VOUCH}\n{C} {VOUCH}\n", devices[B] / "dlend")
        data = json.loads(f.run("topology --json").out)
        roots = {d["address"]: d["root"] for d in data["devices"]}
        t.equal(roots[B], {"host_bridge": "0000:40", "numa": 1, "payload": 512, "p2p_domain": 3}, "the host bridge of a device, from its offer")
        t.equal((roots[OWN]["host_bridge"], roots[C]["numa"]), ("0000:00", -1), "  of an own one, and a NUMA node that is not known")
        links = {(e["from"], e["to"]): e["root"] for e in data["links"]}
        t.equal([links[pair]["p2p_domain"] for pair in ((1, 2), (1, 3), (2, 3), (3, 1))], [2, 0, 2, 1], "  of the ends of links, own and others'")
        t.equal(data["doubts"], [{"devices": [A, B], "cliques": [0, 1], "why": VOUCH}, {"devices": [B, C], "cliques": [1, 0], "why": VOUCH}],
                "doubts: each pair once")
        text = f.run("topology").out
        t.ok("  host bridge 0000:40, NUMA node 1, peer-to-peer domain 3\n    0000:01:00.0" not in text and
             re.search(rf"\n  host bridge 0000:00, NUMA node 0, peer-to-peer domain 2\n    link 0000:05:00.0 .*"
                       rf"\n  host bridge 0000:40, NUMA node 1, peer-to-peer domain 3\n    0000:00:01.0 .*\n *{B} ", text, re.S),
             "as text: devices and links below their host bridges", text)
        t.ok("\n  host bridge 0000:80, nobody allows peer-to-peer\n    link 0000:06:00.0 to node 3" in text,
             "  a host bridge whose transfers nobody allows", text)
        t.ok(f"in different cliques:\n  {A} (0) and {B} (1): {VOUCH}\n  {B} (1) and {C} (0): {VOUCH}\n" in text,
             "  and why cliques differ", text)
        drawn = f.run("topology --dot").out
        t.equal(sorted(re.findall(r'subgraph "(cluster_\S+)"', drawn)),
                ["cluster_1_0000:00", "cluster_1_0000:80", "cluster_2_0000:00", "cluster_2_0000:40", "cluster_3_0000:00"],
                "dot: a box for every host bridge")
        t.equal((drawn.count("{"), drawn.count("style=dotted, color=red")), (drawn.count("}"), 2), "  and a line for every doubt")
        f.files(f.sys / "bus/mdev/devices" / UUIDS[B] / "dlend", clique="0")
        t.ok(f"  WARNING: {A} and {B}: {VOUCH}\n" in f.run("topology").out, "a clique that is doubted is warned of")
        for words in ("", "x", "0000:00", "0000:00 0 256", "0000:00 0 256 2 3", "100000:00 0 256 2", "0000:100 0 256 2",
                      "0000:00 0 8192 2", "0000:00 0 256 65536", "0000:00 0 256 2x", "\x00\xff"):
            f.file("root", words + "\n", f.sys / "devices/dlend" / A)
            f.file("ntb_roots", f"2 1 {words}\n", f.sys / "bus/dlend")
            f.file("p2p_doubts", words + "\n", devices[A] / "dlend")
            r = f.run("topology --json")
            found = {d["address"]: d for d in json.loads(r.out)["devices"]}[A]
            t.equal((r.code, "root" in found, f.run("topology").code, f.run("topology --dot").code), (0, False, 0, 0),
                    f"root {words!r}: left out")


def ways(t):
    with Fabric() as f:
        f.populate()
        for device in (A, B, C):
            f.mdev(device)
        way = path(f, A, "memory")
        t.equal(counts(way), (5, 2, 1, 5, 1), "a lent device to a guest here: switch, 2 roots, 2 NTB ends")
        t.equal(kinds(way), [(2, "device"), (2, "switch"), (2, "root"), (2, "ntb"), (1, "ntb"), (1, "root"),
                             (1, "memory")], "  in that order")
        t.equal(counts(path(f, OWN, "memory")), (2, 1, 1, 3, 0), "an own device to a guest here: up to the root")
        way = path(f, A, B)
        t.equal((way["way"], counts(way)), ("inside one node", (3, 1, 2, 6, 0)),
                "two devices at one switch: through the root all the same, where the IOMMU is")
        way = path(f, A, C)
        t.equal((way["way"], counts(way)), ("over the link of the two nodes", (5, 2, 1, 6, 1)),
                "devices of two lenders")
        t.equal(path(f, UUIDS[A], UUIDS[C])["hops"], 5, "devices by the UUIDs of their mdevs")
        t.equal(path(f, "8:00.0", A)["from"], OWN, "  by their address on this host")
        t.equal(counts(path(f, A, "memory:3")), (5, 2, 1, 5, 1), "a guest on another node")
        t.ok("5 hops: 2 roots" in f.run(["topology", "--path", A, C]).out, "as text")
    with Fabric() as f:
        f.populate(linked=False)
        f.mdev(A, clique="1")
        f.mdev(C, clique="1")
        way = path(f, A, C)
        t.equal((way["way"], counts(way)), ("through the borrower", (8, 3, 1, 8, 2)), "no link of the lenders")
        t.ok("no link that is up joins nodes 2 and 3" in path(f, A, "memory:3")["error"]["why"],
             "a guest on a node without a link to the lender: no way")
        f.files(f.sys / "class/dlend_link/0000:06:00.0", state="down")
        r = f.run(["topology", "--path", A, C])
        t.ok(r.code == 3 and "has no way" in r.err, "a link down: no way", r.err)
        t.ok("WARNING: d0002:04:00.0 and d0003:01:00.0 have no way" in f.run("topology").out,
             "  and a clique that claims one is warned of")
        t.equal(json.loads(f.run("--json topology").out)["cliques"][0]["no_way"], [[A, C]], "  in JSON, too")
    with Fabric() as f:
        f.populate(told=False)
        way = path(f, A, "memory")
        t.equal((way["exact"], way["hops"]), (False, 4), "where nodes do not tell: at least so many")
        t.ok("at least 4 hops" in f.run(["topology", "--path", A, "memory"]).out, "  and it says so")


def bad(t):
    with Fabric() as f:
        f.populate()
        for words, code, why in (("topology extra", 2, "usage"), ("topology --path d0002:04:00.0", 2, "usage"),
                                 ("topology --dot --json", 2, "usage"), ("topology --path x y", 2, "no address and no UUID"), ("topology --path d0002:04:00.0 d0009:04:00.0", 3, "no such device"),
                                 ("topology --path d0002:04:00.0 memory:0", 2, "1 to 65535"),
                                 ("topology --path d0002:04:00.0 memory:x", 2, "1 to 65535"),
                                 ("topology --nonsense", 2, "nonsense")):
            r = f.run(words)
            t.ok(r.code == code and why in r.err, words, f"{r.code} {r.err}")
        dev = f.sys / "devices/dlend" / A
        for words in ("0000:00:01.0", "0000:00:01.0,none", "0000:00:01.0,root,", "x,root", "0000:00:01.0,root,acs,more",
                      " ".join(["0000:00:01.0,up"] * 9), "0000:00:01.0,root,bad"):
            f.files(dev, place=words)
            known = {d["address"]: d for d in json.loads(f.run("topology --json").out)["devices"]}[A]["place_known"]
            t.equal(known, words == "0000:00:01.0,root,", f"place {words[:30]!r}")
        for words in ("", "x", "3", "0 5 5", "2 99999 5", "2 2 5", "3 2 99999999999999999999999", "-1 4", "\x00\xff",
                      "2 3 x,root", "2 3 0000:05:00.0 x", "2 3 0000:05:00.0 " + "0000:05:00.0,up " * 20):
            f.file("neighbours", words + "\n", f.sys / "bus/dlend")
            f.file("ntb_places", words + "\n", f.sys / "bus/dlend")
            with t.case(f"neighbours and their NTBs {words[:30]!r}"):
                found = json.loads(f.run("topology --json").out)
                assert set(found["nodes"]) == {1, 2, 3} and all(link["bytes"] >= 0 for link in found["links"])
                assert f.run("topology").code == 0 and f.run("topology --dot").code == 0
    with Fabric(lender=False, node=None) as f:
        t.ok("no node" in f.run("topology").out, "a host without dlend")
        t.equal(json.loads(f.run("topology --json").out)["nodes"], [], "  as JSON")
    with Fabric() as f:
        up = f.bridge("0000:07:00.0", above=f.bridge("0000:00:06.0"))
        f.above["0000:08:00.0"] = f.bridge("0000:07:01.0", above=up)
        f.pci("0000:08:00.0", driver="dlend-lender")
        kind = [b["kind"] for b in json.loads(f.run("topology --json").out)["devices"][0]["bridges"]]
        t.equal(kind, ["root", "up", "down"], "configuration space that cannot be read: kinds by order")
        (f.device("0000:00:06.0") / "config").write_bytes(b"\x40" * 4096)
        t.equal(f.run("topology").code, 0, "a capability list that ends in itself")


with Tap() as tap:
    for part in (picture, dot, mapped, sockets, ways, bad):
        tap.diag(part.__name__)
        part(tap)
