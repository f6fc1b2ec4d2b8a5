"""Host files and rank files of MPI launchers and schedulers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.files import exists, read_text, write_text
from fabricast.inputs.host_names import node_names
from fabricast.inputs.log_lines import clean_text

_SLOTS = re.compile(r"(?:slots|max_slots|max-slots|cpu)\s*=\s*(\d{1,7})")
_SWITCH = re.compile(r"^\s*SwitchName\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_MEMBERS = re.compile(r"\b(Nodes|Switches)\s*=\s*(\S+)", re.IGNORECASE)


def read_hosts(source: str | Path, *, ranks_per_node: int | None = None) -> list[str]:
    """Read the host names of all routers, in the order of the network.

    >>> read_hosts("node[08-10],login")
    ['node08', 'node09', 'node10', 'login']
    """
    if not exists(source) and re.search(r"[\[,]", str(source)):
        return list(node_names(str(source)))
    text = clean_text(read_text(source, strict=True))
    if is_slurm_topology(text):
        return _nodes_by_switch(text, Path(source))
    lines: dict[str, int] = {}
    slots: Counter[str] = Counter()
    last, has_slots = "", False
    for number, line in enumerate(text.splitlines(), start=1):
        for name, count in _hosts_of(
            line.partition("#")[0].strip().removeprefix("SLURM_JOB_NODELIST="), Path(source), number
        ):
            if name in lines and name != last:
                raise InputError(f"host '{name}' is a duplicate of line {lines[name]}", path=source, line=number)
            # A host on several lines has one slot per line, as PBS writes it.
            has_slots |= count is not None or name == last
            slots[name] += 1 if count is None else count
            lines.setdefault(name, number)
            last = name
    if not lines:
        raise InputError("contains no host name, expected one per line", path=source)
    if has_slots and ranks_per_node is not None:
        _check_slots(slots, lines, ranks_per_node, Path(source))
    return list(lines)


def _check_slots(slots: Mapping[str, int], lines: Mapping[str, int], ranks_per_node: int, path: Path) -> None:
    for name, count in slots.items():
        if count < ranks_per_node:
            raise InputError(
                f"host '{name}' has {count} slots, expected at least {ranks_per_node}: the ranks per node "
                "(ranks-per-node)",
                path=path,
                line=lines[name],
            )


def _hosts_of(line: str, path: Path, number: int) -> Iterator[tuple[str, int | None]]:
    """Yield the hosts of a line with their slots; None if the line has none."""
    if not line:
        return
    first, _, options = line.partition(" ")
    found = _SLOTS.search(options)
    if options.strip() and found is None:
        expected = "expected a name of letters, digits, '.', '-' and '_', with 'slots=N' or ':N'"
        raise InputError(f"host is '{line}', {expected}", path=path, line=number)
    slots = None if found is None else int(found[1])
    name, colon, count = first.rpartition(":")
    if colon and count.isascii() and count.isdigit() and len(count) < 8:
        first, slots = name, int(count)
    try:
        for host in node_names(first):
            yield host, slots
    except InputError as error:
        raise InputError(error.reason, path=path, line=number) from error


def is_slurm_topology(text: str) -> bool:
    """Return whether a text is a ``topology.conf`` of Slurm.

    >>> is_slurm_topology("SwitchName=s0 Nodes=n[0-3]")
    True
    """
    return _SWITCH.search(text) is not None


class SlurmSwitch(NamedTuple):
    """Switches and nodes below a switch of ``topology.conf``."""

    switches: list[str]
    nodes: list[str]


def _nodes_by_switch(text: str, path: Path) -> list[str]:
    """Return the nodes of a ``topology.conf``, switch by switch from the root."""
    return [host for switch in slurm_switches(text, path).values() for host in switch.nodes]


def slurm_switches(text: str, path: Path) -> dict[str, SlurmSwitch]:
    """Return the switches of a ``topology.conf`` by name; each follows the one above it."""
    members: dict[str, list[str]] = {}
    nodes: dict[str, list[str]] = {}
    # A list of nodes may continue on the next line.
    lines = re.sub(r"\\\s*\n", " ", re.sub(r",\s*\\\s*\n\s*", ",", text)).splitlines()
    for number, line in enumerate(lines, start=1):
        switch = _SWITCH.match(line.partition("#")[0])
        if switch is None:
            continue
        if switch[1] in members:
            raise InputError(f"switch '{switch[1]}' is a duplicate", path=path, line=number)
        members[switch[1]], nodes[switch[1]] = [], []
        for kind, names in _MEMBERS.findall(line):
            table = nodes if kind.lower() == "nodes" else members
            try:
                table[switch[1]] += node_names(names)
            except InputError as error:
                raise InputError(error.reason, path=path, line=number) from error
    # `scontrol show topology` repeats the nodes at each level; they belong to the switches without others below.
    at_leaves = {host for name, hosts_of in nodes.items() if not members[name] for host in hosts_of}
    for name in members:
        if members[name]:
            nodes[name] = [host for host in nodes[name] if host not in at_leaves]
    below = {name for names in members.values() for name in names}
    roots = [name for name in members if name not in below]
    hosts: dict[str, str] = {}
    seen: set[str] = set()
    found: dict[str, SlurmSwitch] = {}
    waiting = roots[::-1]
    while waiting:
        switch_name = waiting.pop()
        if switch_name not in members or switch_name in seen:
            reason = "unknown" if switch_name not in members else "below two switches"
            raise InputError(f"switch '{switch_name}' is {reason}, expected a tree of switches", path=path)
        seen.add(switch_name)
        found[switch_name] = SlurmSwitch(members[switch_name], nodes[switch_name])
        for host in nodes[switch_name]:
            if host in hosts:
                raise InputError(f"host '{host}' is at '{hosts[host]}' and at '{switch_name}'", path=path)
            hosts[host] = switch_name
        waiting += members[switch_name][::-1]
    if not hosts:
        raise InputError("has no nodes below a root switch, expected at least one", path=path)
    return found


def write_rank_files(router: NDArray[np.int64], ranks_per_node: int, hosts: Sequence[str], stem: Path) -> list[Path]:
    """Write a mapping as input files of MPI launchers.

    Shapes: router (ranks,).
    """
    if router.max() >= len(hosts):
        raise InputError(f"{len(hosts)} hosts are specified, expected at least {int(router.max()) + 1}")
    if np.bincount(router).max() > ranks_per_node:
        raise InputError(f"a host has more ranks than cores, expected at most {ranks_per_node}")
    slots: dict[int, int] = {}
    lines = []
    for rank, owner in enumerate(router.tolist()):
        slot = slots.get(owner, 0)
        slots[owner] = slot + 1
        lines.append(f"rank {rank}={hosts[owner]} slot={slot}\n")
    if not stem.name:
        raise InputError(f"is '{stem}', expected the first part of file names", argument="output")
    rankfile, hostfile = (stem.with_name(f"{stem.name}{ending}") for ending in (".rankfile", ".hosts"))
    write_text(rankfile, "".join(lines))
    write_text(hostfile, "".join(f"{hosts[owner]}\n" for owner in router.tolist()))
    return [rankfile, hostfile]
