"""Networks of switches: ports and cables that are slower or fewer than the others, as ibnetdiscover states them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.core.facts import Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.weights import LINK
from fabricast.networks.descriptions import switch_network
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
            network = switch_network(path)
        except InputError as error:
            damaged.append(str(error))
            continue
        for cause, text in (*_slow_ports(network), *_slow_cables(network), *_missing_cables(network)):
            found.append(Finding(cause, text, _REMEDY, LINK, origin=path))
    return found, damaged


def _usual(values: NDArray[np.float64]) -> float | None:
    """Return the value of most entries; None if no value is that frequent."""
    value, count = Counter(values.tolist()).most_common(1)[0]
    return float(value) if count > _USUAL * values.size else None


def _gbit_s(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8 / 1e9:.3g} Gbit/s"


def _slow_ports(network: SwitchNetwork) -> Iterator[tuple[str, str]]:
    links = network.neighbour.size
    rate = network.capacity[links::2]
    usual = _usual(rate)
    if usual is None:
        return
    slow = np.flatnonzero(rate < usual)
    for one in np.unique(rate[slow]):
        names = [network.link_name(links + 2 * int(port)) for port in slow if rate[port] == one]
        text = f"{listed(names, _MOST_NAMES)}: {_gbit_s(float(one))}, most ports of hosts {_gbit_s(usual)}"
        yield "slow_network_port", text


def _slow_cables(network: SwitchNetwork) -> Iterator[tuple[str, str]]:
    rate = network.capacity[: network.neighbour.size]
    usual = _usual(rate) if rate.size else None
    if usual is None:
        return
    source = np.repeat(np.arange(len(network.switches)), np.diff(network.begin))
    slow = [int(link) for link in np.flatnonzero(rate < usual) if source[link] < network.neighbour[link]]
    for one in sorted({float(rate[link]) for link in slow}):
        names = [network.link_name(link).replace(" to ", " - ") for link in slow if rate[link] == one]
        yield (
            "slow_network_cable",
            f"{listed(names, _MOST_NAMES)}: {_gbit_s(one)}, most cables between switches {_gbit_s(usual)}",
        )


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


def _missing_cables(network: SwitchNetwork) -> Iterator[tuple[str, str]]:
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
        yield (
            "missing_network_cable",
            f"{listed(fewer, _MOST_NAMES)}: fewer cables than most pairs of switches have ({usual:g})",
        )
