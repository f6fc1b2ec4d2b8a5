"""Hosts whose states the files name, or one file for each: devices that one of them lacks, and values that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from fabricast.core.facts import Content, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.weights import ACCESS

_MOST_NAMES = 4
#: States that the hosts of a cluster should have alike, and the fewest files that show what is usual.
_STATES = (
    Quantity.GPU_ADDRESS,
    Quantity.GPU_MODEL,
    Quantity.NVLINKS,
    Quantity.PORT,
    Quantity.PORT_RATE,
    Quantity.GID,
    Quantity.OF_HOST,
)
_FEWEST_FILES = 3
_Value = TypeVar("_Value", bound=Hashable)
_Key = TypeVar("_Key")
_LOST_GPU = "read 'dmesg' of this host (Xid, fallen off the bus) and 'lspci', then reset or replace the GPU"
_LOST_CARD = "read 'dmesg' and 'lspci' of this host: is the card there, does its driver (mlx5_core) start"


class _Host(NamedTuple):
    """Host in a file: another file may list the same host at another time."""

    host: str
    path: str


def with_hosts_of_files(facts: Facts) -> Facts:
    """Return facts; files of one program that name no host, at least three, are one host each, by the file's name.

    The models of their GPUs are the same.
    """
    alike: dict[tuple[str, frozenset[str]], set[str]] = {}
    for file in facts.files:
        if not any(block.host for block in file.blocks):
            # Machines with other GPUs have other ports and numbers.
            models = frozenset(str(fact.value) for block in file.blocks for fact in block.of(Quantity.GPU_MODEL))
            for program in {fact.program for block in file.blocks for fact in block.of(*_STATES)}:
                alike.setdefault((program, models), set()).add(file.path)
    several = {path for paths in alike.values() if len(paths) >= _FEWEST_FILES for path in paths}
    names = _short_names(sorted(several))
    return Facts(
        tuple(
            replace(
                file,
                blocks=tuple(
                    replace(block, facts=tuple(replace(fact, host=names[file.path]) for fact in block.facts))
                    for block in file.blocks
                ),
            )
            if file.path in several
            else file
            for file in facts.files
        )
    )


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the shortest part of each path that differs from those of the others: name, folder, or all of it."""
    parts = [Path(path) for path in paths]
    stems, folders = [path.name.split(".")[0] for path in parts], [path.parent.name for path in parts]
    for names in (stems, [path.name for path in parts], folders):
        if all(names) and len(set(names)) == len(names):
            return dict(zip(paths, names, strict=True))
    return {path: path for path in paths}


def missing_devices(facts: Facts) -> Iterator[Finding]:
    """Yield hosts that list fewer GPUs, or lack ports, than most hosts in output of the same program."""
    for gpus in _by_program_and_host(facts, Quantity.GPU_ADDRESS, Quantity.GPU_MODEL, Quantity.NVLINKS):
        counts = {one: len(names) for one, names in gpus.items()}
        usual, most = _usual(counts, size=int)
        for one, count in counts.items():
            if count < usual:
                gpu = "GPU" if count == 1 else "GPUs"
                text = f"{one.host} lists {count} {gpu}; {_others(counts, one, most)} {usual}"
                origin = _first_place(facts, one)
                yield Finding("host_differs_gpus", text, _LOST_GPU, ACCESS + 0.1, origin=origin, host=one.host)
    # A port that is disabled serves no job.
    unused = {fact.subject[0] for fact in facts.of(Quantity.CARD_STATE) if fact.subject and "Disabled" in fact.value}
    for ports in _by_program_and_host(facts, Quantity.PORT):
        usual_names, most = _usual({one: frozenset(names) for one, names in ports.items()}, size=len)
        for one, names in ports.items():
            lacking = sorted(usual_names - names - unused)
            if lacking and names < usual_names:
                text = f"{one.host} lacks {listed(lacking, _MOST_NAMES)}, which {_others(ports, one, most)} "
                text += "has" if most == 1 or most >= len(ports) - 1 else "have"
                origin = _first_place(facts, one)
                device = listed(lacking, _MOST_NAMES)
                yield Finding(
                    "host_differs_cards", text, _LOST_CARD, ACCESS + 0.1, origin=origin, host=one.host, device=device
                )


def different_values(facts: Facts) -> Iterator[str]:
    """Yield values that some hosts of a text have otherwise than most: versions of drivers and firmware."""
    values: dict[str, dict[str, str]] = {}
    for fact in facts.of(Quantity.OF_HOST):
        if fact.host:
            name, value = fact.value
            values.setdefault(name, {}).setdefault(fact.host, value)
    merged: dict[str, list[str]] = {}
    for name, hosts in values.items():
        usual, most = _usual(hosts)
        different = {host: value for host, value in hosts.items() if value != usual}
        if different:
            shown = listed([f"{value} on {host}" for host, value in different.items()], _MOST_NAMES)
            merged.setdefault(f"{shown}, {usual} on {most} other host{'s' if most > 1 else ''}", []).append(name)
    for words, names in merged.items():
        yield f"{listed(names, _MOST_NAMES)} differs between hosts: {words}"


def _by_program_and_host(facts: Facts, *quantities: Quantity) -> list[dict[_Host, set[str]]]:
    """Return the subjects of each host, by program; those of a single host are left out."""
    found: dict[str, dict[_Host, set[str]]] = {}
    for block in facts.blocks_of(Content.GPUS, Content.STATES):
        for fact in block.of(*quantities):
            if fact.host and fact.subject:
                host = _Host(fact.host, fact.place.path)
                found.setdefault(fact.program, {}).setdefault(host, set()).add(fact.subject[0])
    return [hosts for hosts in found.values() if len(hosts) > 1]


def _usual(of_hosts: Mapping[_Key, _Value], size: Callable[[_Value], int] = lambda _: 0) -> tuple[_Value, int]:
    """Return the value of most hosts, and their number; the largest of equally frequent values."""
    counts = Counter(of_hosts.values())
    usual = max(counts, key=lambda value: (counts[value], size(value)))
    return usual, counts[usual]


def _others(hosts: Mapping[_Host, object], one: _Host, count: int) -> str:
    """Return the hosts with the usual value in words."""
    if count > 1:
        return f"each of {count} other hosts"
    return next(other.host for other in hosts if other != one)


def _first_place(facts: Facts, one: _Host) -> str:
    """Return the first line of a host."""
    same = (fact for block in facts.blocks for fact in block.facts)
    return next((str(fact.place) for fact in same if (fact.host, fact.place.path) == one), "")
