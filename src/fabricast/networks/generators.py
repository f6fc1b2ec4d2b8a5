"""Generators of fat trees and dragonflies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from fabricast.core.errors import InputError
from fabricast.networks.network import Cable, SwitchNetwork, network_of_cables

#: Most cables of a generated network.
_MOST_CABLES = 2_000_000


def fat_tree(levels: int, ports: int, up: int, *, bytes_per_s: float, planes: int = 1) -> SwitchNetwork:
    """Return a fat tree of equal switches.

    Switches below the top have `up` ports towards the top and the rest downwards; top switches have all ports
    downwards. With ``up = ports / 2`` no permutation has to share a link; with fewer the tree is oversubscribed.
    """
    if not 1 <= levels <= 4:
        raise InputError(f"levels is {levels}, expected 1 to 4", argument="network")
    if not 2 <= ports <= 1024 or not 1 <= up < ports:
        raise InputError(f"ports is {ports} with {up} up, expected 2 to 1,024 and 1 to {ports - 1}", argument="network")
    if not 1 <= planes <= 64:
        raise InputError(f"planes is {planes}, expected 1 to 64", argument="network")
    down = [ports] if levels == 1 else [ports - up] * (levels - 1) + [ports]
    # XGFT of Ohring et al.: a switch of a level has a place among subtrees and a place among copies.
    subtrees = [1] * (levels + 1)
    for level in range(levels - 1, -1, -1):
        subtrees[level] = subtrees[level + 1] * (down[level] if level < levels else 1)
    hosts = subtrees[0]
    cables_of_levels = [subtrees[level] * up**level for level in range(1, levels)]
    _check_size(planes * (hosts + sum(cables_of_levels)))
    names: list[str] = []
    cables: list[Cable] = []
    for plane in range(planes):
        prefix = f"plane{plane}." if planes > 1 else ""
        first = [0] * (levels + 1)
        for level in range(1, levels + 1):
            first[level] = len(names)
            copies = up ** (level - 1)
            names += [f"{prefix}{_level_name(level, levels)}{number}" for number in range(subtrees[level] * copies)]
        cables += [Cable(first[1] + host // down[0], -1 - host, bytes_per_s) for host in range(hosts)]
        for level in range(1, levels):
            copies = up ** (level - 1)
            for tree, copy, port in itertools.product(range(subtrees[level]), range(copies), range(up)):
                above = tree // down[level] * copies * up + copy * up + port
                cables.append(Cable(first[level] + tree * copies + copy, first[level + 1] + above, bytes_per_s))
    words = f"fat tree of {levels} levels, {ports} ports, {up} up" if levels > 1 else f"one switch of {ports} ports"
    title = f"{words}{f', {planes} planes' if planes > 1 else ''}: {hosts:,} hosts"
    return network_of_cables(title, [f"host{number}" for number in range(hosts)], names, cables)


def _check_size(cables: int) -> None:
    if cables > _MOST_CABLES:
        raise InputError(f"has {cables:,} cables, expected at most {_MOST_CABLES:,}", argument="network")


def _level_name(level: int, levels: int) -> str:
    """Return the name of a level of switches.

    >>> _level_name(1, 2), _level_name(2, 2), _level_name(2, 3)
    ('leaf', 'spine', 'middle')
    """
    if level == 1:
        return "leaf"
    return "spine" if level == levels else "middle" if levels == 3 else f"level{level}."


def dragonfly(groups: int, routers: int, hosts: int, global_links: int, *, bytes_per_s: float) -> SwitchNetwork:
    """Return a dragonfly: routers of a group are connected to each other, and groups by global links.

    Source: Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.
    """
    for name, value, most in (("groups", groups, 4096), ("routers", routers, 1024), ("hosts", hosts, 1024)):
        if not (2 if name == "groups" else 1) <= value <= most:
            least = 2 if name == "groups" else 1
            raise InputError(f"{name} is {value}, expected {least} to {most:,}", argument="network")
    if not 1 <= global_links <= 1024 or routers * global_links < groups - 1:
        raise InputError(
            f"global_links is {global_links}: a group has {routers * global_links} of them, expected at least one to "
            f"each of the {groups - 1} other groups",
            argument="network",
        )
    _check_size(groups * routers * (hosts + (routers - 1) // 2 + global_links))
    names = [f"group{group}.router{router}" for group in range(groups) for router in range(routers)]
    cables = [
        Cable(group * routers + one, group * routers + other, bytes_per_s)
        for group in range(groups)
        for one, other in itertools.combinations(range(routers), 2)
    ]
    cables += [Cable(one, other, bytes_per_s) for one, other in _global_cables(groups, routers, global_links)]
    cables += [Cable(host // hosts, -1 - host, bytes_per_s) for host in range(groups * routers * hosts)]
    title = (
        f"dragonfly of {groups} groups with {routers} routers of {hosts} hosts and {global_links} global links: "
        f"{groups * routers * hosts:,} hosts"
    )
    return network_of_cables(title, [f"host{n}" for n in range(groups * routers * hosts)], names, cables)


def _global_cables(groups: int, routers: int, global_links: int) -> Iterator[tuple[int, int]]:
    """Yield the routers of each global link; each pair of groups has equally many."""
    between = routers * global_links // (groups - 1)
    for one, other in itertools.combinations(range(groups), 2):
        for link in range(between):
            # A group numbers its ports by the other group, so that ports of a router lead to different groups.
            near = ((other - one - 1) * between + link) // global_links
            far = ((one - other - 1) % groups * between + link) // global_links
            yield one * routers + near % routers, other * routers + far % routers
