"""Hosts whose states one text names: devices that one of them lacks, and values that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

from fabricast.core.facts import Content, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.weights import ACCESS

_MOST_NAMES = 4
_Value = TypeVar("_Value", bound=Hashable)
_LOST_GPU = "read 'dmesg' of this host (Xid, fallen off the bus) and 'lspci', then reset or replace the GPU"
_LOST_CARD = "read 'dmesg' and 'lspci' of this host: is the card there, does its driver (mlx5_core) start"


def missing_devices(facts: Facts) -> Iterator[Finding]:
    """Yield hosts that list fewer GPUs, or lack ports, than most hosts of the same text."""
    for gpus in _by_path_and_host(facts, Quantity.GPU_ADDRESS, Quantity.GPU_MODEL, Quantity.NVLINKS):
        counts = {host: len(names) for host, names in gpus.items()}
        usual, most = _usual(counts, size=int)
        for host, count in counts.items():
            if count < usual:
                gpu = "GPU" if count == 1 else "GPUs"
                text = f"{host} lists {count} {gpu}; {_others(counts, host, most)} {usual}"
                origin = _first_place(facts, host)
                yield Finding("host_differs_gpus", text, _LOST_GPU, ACCESS + 0.1, origin=origin, host=host)
    for ports in _by_path_and_host(facts, Quantity.PORT):
        usual_names, most = _usual({host: frozenset(names) for host, names in ports.items()}, size=len)
        for host, names in ports.items():
            lacking = sorted(usual_names - names)
            if lacking and names < usual_names:
                text = f"{host} lacks {listed(lacking, _MOST_NAMES)}, which {_others(ports, host, most)} "
                text += "has" if most == 1 or most >= len(ports) - 1 else "have"
                origin = _first_place(facts, host)
                device = listed(lacking, _MOST_NAMES)
                yield Finding(
                    "host_differs_cards", text, _LOST_CARD, ACCESS + 0.1, origin=origin, host=host, device=device
                )


def different_values(facts: Facts) -> Iterator[str]:
    """Yield values that some hosts of a text have otherwise than most: versions of drivers and firmware."""
    values: dict[tuple[str, str], dict[str, str]] = {}
    for fact in facts.of(Quantity.OF_HOST):
        if fact.host:
            name, value = fact.value
            values.setdefault((fact.place.path, name), {}).setdefault(fact.host, value)
    merged: dict[str, list[str]] = {}
    for (_, name), hosts in values.items():
        usual, most = _usual(hosts)
        different = {host: value for host, value in hosts.items() if value != usual}
        if different:
            shown = listed([f"{value} on {host}" for host, value in different.items()], _MOST_NAMES)
            merged.setdefault(f"{shown}, {usual} on {most} other host{'s' if most > 1 else ''}", []).append(name)
    for words, names in merged.items():
        yield f"{listed(names, _MOST_NAMES)} differs between hosts: {words}"


def _by_path_and_host(facts: Facts, *quantities: Quantity) -> list[dict[str, set[str]]]:
    """Return the subjects of each host, by text; texts of a single host are left out."""
    found: dict[str, dict[str, set[str]]] = {}
    for block in facts.blocks_of(Content.GPUS, Content.STATES):
        for fact in block.of(*quantities):
            if fact.host and fact.subject:
                found.setdefault(fact.place.path, {}).setdefault(fact.host, set()).add(fact.subject[0])
    return [hosts for hosts in found.values() if len(hosts) > 1]


def _usual(of_hosts: Mapping[str, _Value], size: Callable[[_Value], int] = lambda _: 0) -> tuple[_Value, int]:
    """Return the value of most hosts, and their number; the largest of equally frequent values."""
    counts = Counter(of_hosts.values())
    usual = max(counts, key=lambda value: (counts[value], size(value)))
    return usual, counts[usual]


def _others(hosts: Mapping[str, object], host: str, count: int) -> str:
    """Return the hosts with the usual value in words."""
    if count > 1:
        return f"each of {count} other hosts"
    return next(name for name in hosts if name != host)


def _first_place(facts: Facts, host: str) -> str:
    """Return the first line of a host."""
    return next((str(fact.place) for block in facts.blocks for fact in block.facts if fact.host == host), "")
