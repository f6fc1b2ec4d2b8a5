"""Reference link loads and max-min fair rates in exact fractions."""

from collections import Counter
from fractions import Fraction
from itertools import product


def neighbours(workload, task):
    """Yield the targets of a task from the definition of the workload."""
    coordinates, remainder = [], task
    for side in reversed(workload.grid):
        coordinates.insert(0, remainder % side)
        remainder //= side
    for offset in workload.offsets:
        to = [c + o for c, o in zip(coordinates, offset, strict=True)]
        if not workload.wrap and any(not 0 <= c < side for c, side in zip(to, workload.grid, strict=True)):
            continue
        number = 0
        for c, side in zip(to, workload.grid, strict=True):
            number = number * side + c % side
        yield number


def links_along(network, first, last, way, stripes):
    """Return the links of a route through groups over the chosen parallel links."""
    size, gateway = network.group_routers, network.gateways
    (group, here), (_, b) = divmod(first, size), divmod(last, size)
    links = []
    for to, stripe in zip(way, stripes, strict=True):
        owner = int(gateway[group, to, stripe])
        if owner != here:
            links.append(("L", group, here, owner))
        links.append(("D", group, to, stripe))
        here, group = int(gateway[to, group, stripe]), to
    if here != b:
        links.append(("L", group, here, b))
    return tuple(links)


def third_groups(network, one, two):
    """Return the groups other than two groups."""
    return [k for k in range(network.groups) if k not in (one, two)]


def routes(network, first, last, routing):
    """Return the links and probability of every route between two routers."""
    one, two = first // network.group_routers, last // network.group_routers
    if one == two:
        return [(links_along(network, first, last, (), ()), Fraction(1))]
    through = [[two]] if routing == "direct" else [[k, two] for k in third_groups(network, one, two)]
    stripes = range(network.multiplicity)
    return [
        (links_along(network, first, last, way, chosen), Fraction(1, len(through) * network.multiplicity ** len(way)))
        for way in through
        for chosen in product(stripes, repeat=len(way))
    ]


def loads(workload, router, network, routing):
    """Return the expected number of messages on every link."""
    load = Counter()
    for task in range(workload.tasks):
        for target in neighbours(workload, task):
            for links, share in routes(network, int(router[task]), int(router[target]), routing):
                for link in links:
                    load[link] += share
    return load
