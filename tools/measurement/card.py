# SPDX-License-Identifier: GPL-2.0-only
"""A network card: how long a packet takes to a host that answers, and back, as ping measures it.

Meanwhile the card is in a network namespace of its own.  So the host's other addresses, routes and rules have no part in it,
and the other end may be another card of the same host.
"""
import re
from collections import Counter
from dataclasses import dataclass

from remote.messages import USAGE, Failure

from .device import ReadyByDriver, check_own, directory_of
from .times import RUNTIME_S, Job, numbers_of

NETWORK = "0x0200"      # how the class begins
ANSWER_S = 30           # for a cable, and an address, to be there
# It may get another name soon
LOOK = """cd "$1" 2>/dev/null || exit 0
udevadm settle --timeout=30 2>/dev/null
echo class $(cat class); echo driver $(basename "$(readlink driver)")
for net in net/*; do [ ! -e $net ] || echo name ${net##*/}; done; echo mac $(cat net/*/address 2>/dev/null)"""
RUN = """name=$1 own=$2 peer=$3 ns=dlend-bench
ip netns add $ns || exit
trap 'ip -n $ns link set "$name" netns 1; ip netns del $ns' EXIT
ip link set "$name" netns $ns && ip -n $ns addr add "$own" dev "$name" && ip -n $ns link set "$name" up || exit
ip netns exec $ns ping -c 1 -w $6 "$peer" >/dev/null || { echo "$peer does not answer" >&2; exit 1; }
ip netns exec $ns ping -A -c "$4" -w "$5" "$peer" """


@dataclass(frozen=True)
class Card:
    """On one host; name and mac are "" while no driver has it."""
    pci_class: str
    driver: str
    name: str       # of its network interface
    mac: str

    interrupts = None       # they come and go with the interface, so nothing is counted

    @property
    def ready(self):
        return bool(self.name)

    @property
    def model(self):
        return f"{self.driver} {self.mac}"

    @property
    def identity(self):
        return f"the card {self.mac}"


def look_at(host, bdf):
    """The Card; None if the host has no such device."""
    says = host.run_checked(["sh", "-c", LOOK, "sh", directory_of(host, bdf)])
    has = dict(line.partition(" ")[::2] for line in says.splitlines())
    return Card(has["class"], has["driver"], has.get("name", ""), has["mac"]) if says else None


class CardBench(ReadyByDriver):
    """What rounds.py measures, by ping."""
    program, package = "ping", "iputils-ping"
    look_at = look_at
    jobs = (Job("round trip", 56, 1000),)

    def __init__(self, own, peer):
        """own: the card's address, with the length of its prefix; peer: of the host that answers"""
        self.own, self.peer = own, peer

    def check(self, host, bdf):
        """The Card, before it is lent."""
        card = look_at(host, bdf)
        check_own(host, bdf, card)
        if not card.pci_class.startswith(NETWORK) or not card.ready:
            raise Failure(f"{bdf} on {host} is no network card with an interface",
                          f"its class is {card.pci_class}, its driver is {card.driver or 'none'}", f"{host.prefix()}lspci -D", USAGE)
        return card

    def words(self, card, _job, ios, _seed):
        return ["sh", "-c", RUN, "sh", card.name, self.own, self.peer, str(ios), str(RUNTIME_S), str(ANSWER_S)]

    def parse(self, text, _job):
        return numbers_of(Counter(round(float(ms) * 1e6) for ms in re.findall(r" time=([\d.]+) ms$", text, re.M)))
