"""Networks of switches: ports and cables that are slower or fewer than the others, as ibnetdiscover states them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.core.facts import Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.weights import LINK
from fabricast.networks.descriptions import ListedCable, listed_cables, switch_network
from fabricast.networks.network import SwitchNetwork

_PROGRAM = "ibnetdiscover"
_MOST_NAMES = 8
#: Share of alike ports or pairs of switches that counts as usual.
_USUAL = 0.5
#: Share of the leaves that have a cable to a switch from which a missing one is a fault.
_MOST_LEAVES = 0.7
_REMEDY = "check cable, transceiver and port ('iblinkinfo', 'ibqueryerrors'); reseat or replace the cable"


def fabric_findings(facts: Facts) -> tuple[list[Finding], list[str]]:
    """Return slow ports of hosts, slow cables and pairs of switches with fewer cables, and why files cannot be used."""
    found: list[Finding] = []
    damaged: list[str] = []
    for fact in facts.of(Quantity.FILE):
        if fact.program != _PROGRAM:
            continue
        path = fact.value[0]
        try:
            network, cables = switch_network(path), listed_cables(path)
        except InputError as error:
            damaged.append(str(error))
            continue
        found += [*_slow_cables(cables, path), *_missing_cables(network, path)]
    return found, damaged


def _usual(values: NDArray[np.float64]) -> float | None:
    """Return the value of most entries; None if no value is that frequent."""
    value, count = Counter(values.tolist()).most_common(1)[0]
    return float(value) if count > _USUAL * values.size else None


def _gbit_s(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8 / 1e9:.3g} Gbit/s"


def _slow_cables(cables: Sequence[ListedCable], path: str) -> Iterator[Finding]:
    """Yield ports of hosts, and cables between switches, that are slower than most of their kind."""
    between = [one for one in cables if one.first.kind == one.second.kind == "S"]
    hosts = [one for one in cables if one.first.kind != one.second.kind]
    for cause, same, usual_words in (
        ("slow_network_port", hosts, "most ports of hosts"),
        ("slow_network_cable", between, "most cables between switches"),
    ):
        usual = _usual(np.array([one.bytes_per_s for one in same])) if same else None
        slow = [one for one in same if usual is not None and one.bytes_per_s < usual]
        for rate in sorted({one.bytes_per_s for one in slow}):
            alike = [one for one in slow if one.bytes_per_s == rate]
            words = listed([one.words for one in alike], _MOST_NAMES)
            text = f"{words}: {_gbit_s(rate)}, {usual_words} {_gbit_s(usual or 0.0)}"
            hosts_of = {one.first.host or one.second.host for one in alike}
            host = hosts_of.pop() if len(hosts_of) == 1 else ""
            device = alike[0].words if len(alike) == 1 else ""
            yield Finding(cause, text, _REMEDY, LINK, origin=f"{path}:{alike[0].line}", host=host, device=device)


def _unconnected(network: SwitchNetwork, pairs: Counter[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of a leaf and a switch above it without a cable, if most leaves have one to that switch."""
    leaves = set(network.leaves.tolist())
    of_leaf = {leaf: {sum(pair) - leaf for pair in pairs if leaf in pair} - leaves for leaf in leaves}
    above = Counter(switch for switches in of_leaf.values() for switch in switches)
    usual = [switch for switch, count in above.items() if count > _MOST_LEAVES * len(leaves)]
    return [
        (min(leaf, switch), max(leaf, switch))
        for leaf in sorted(leaves)
        for switch in usual
        if switch not in of_leaf[leaf]
    ]


def _missing_cables(network: SwitchNetwork, path: str) -> Iterator[Finding]:
    """Yield pairs of switches with fewer parallel cables than most pairs, also without any."""
    source = np.repeat(np.arange(len(network.switches)), np.diff(network.begin))
    pairs = Counter((int(one), int(other)) for one, other in zip(source, network.neighbour, strict=True) if one < other)
    pairs.update(dict.fromkeys(_unconnected(network, pairs), 0))
    usual = _usual(np.array(list(pairs.values()), dtype=np.float64)) if pairs else None
    if usual is None:
        return
    fewer = [
        f"{network.switches[one]} - {network.switches[other]} ({count})"
        for (one, other), count in pairs.items()
        if count < usual
    ]
    if fewer:
        text = f"{listed(fewer, _MOST_NAMES)}: fewer cables than most pairs of switches have ({usual:g})"
        yield Finding("missing_network_cable", text, _REMEDY, LINK, origin=path)
