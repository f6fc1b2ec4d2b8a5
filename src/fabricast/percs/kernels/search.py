"""Compiled simulated annealing of mappings by swaps, with incremental link loads."""

from __future__ import annotations

import numpy as np

from fabricast.networks.kernels.search import eighth_power
from fabricast.percs.kernels.common import mix
from fabricast.runtime.compilation import allocation_free, njit

# Columns of `links`; a fourth, unused column pads a row to half a cache line.
LOAD, SCALE, COST = range(3)
# Rows of `lanes`: group, index within the group, first link, and first link to other groups of each router.
GROUP, NUMBER, LINKS, LINKS_BETWEEN = range(4)


@allocation_free(inline="always")
def _change(links, undo, undo_index, index, amount):
    """Change the load of a link, record the old values, and return the change in cost.

    A row of `links` contains the load, inverse capacity divided by target time, and cost of a link.
    """
    # Unsigned indices avoid the check for negative indices.
    index, n = np.uint32(index), np.uint32(undo_index[0] + 1)
    undo_index[0] = n
    undo_index[n] = index
    undo[0, n] = links[index, LOAD]
    undo[1, n] = links[index, COST]
    after = links[index, LOAD] + amount
    links[index, LOAD] = after
    cost = eighth_power(after * links[index, SCALE])
    change = cost - links[index, COST]
    links[index, COST] = cost
    return change


@allocation_free(inline="always")
def _add(first, second, amount, gateway, lanes, links, undo, undo_index):
    """Add a flow on its direct route and return the change in cost."""
    if first == second:
        return 0.0
    stripes = gateway.shape[2]
    one, two = lanes[GROUP, first], lanes[GROUP, second]
    a, b = lanes[NUMBER, first], lanes[NUMBER, second]
    if one == two:
        return _change(links, undo, undo_index, lanes[LINKS, first] + b, amount)
    part = amount / stripes
    change = _change(links, undo, undo_index, lanes[LINKS_BETWEEN, first] + two, part)
    for k in range(stripes):
        owner, arrival = gateway[one, two, k], gateway[two, one, k]
        if owner != a:
            change += _change(links, undo, undo_index, lanes[LINKS, first] + owner, part)
        if arrival != b:
            other = second - b + arrival
            change += _change(links, undo, undo_index, lanes[LINKS, other] + b, part)
    return change


@njit
def put_flows(offset, other, flows, position, gateway, lanes, links, undo, undo_index):
    """Add all flows to the link loads and return the cost.

    Block x communicates with other[f] for f in offset[x]:offset[x+1]; flows[0] contains the bytes that it sends.
    """
    cost = 0.0
    for x in range(offset.size - 1):
        for f in range(offset[x], offset[x + 1]):
            undo_index[0] = 0
            cost += _add(position[x], position[other[f]], flows[0, f], gateway, lanes, links, undo, undo_index)
    undo_index[0] = 0
    return cost


@allocation_free(inline="always")
def _touch(x, without, sign, offset, other, flows, position, gateway, lanes, links, undo, undo_index):
    """Add or remove the flows of a block except those with the block `without`."""
    change = 0.0
    here = position[x]
    for f in range(offset[x], offset[x + 1]):
        y = other[f]
        if y != without:
            there = position[y]
            change += _add(here, there, sign * flows[0, f], gateway, lanes, links, undo, undo_index)
            change += _add(there, here, sign * flows[1, f], gateway, lanes, links, undo, undo_index)
    return change


@allocation_free
def _swap_cost(a, b, offset, other, flows, position, gateway, lanes, links, undo, undo_index):
    """Swap two blocks, update link loads and positions, and return the change in cost.

    Not inlined: within `anneal`, numba would add atomic reference counting to each array access.
    """
    undo_index[0] = 0
    change = _touch(a, -1, -1.0, offset, other, flows, position, gateway, lanes, links, undo, undo_index)
    change += _touch(b, a, -1.0, offset, other, flows, position, gateway, lanes, links, undo, undo_index)
    position[a], position[b] = position[b], position[a]
    change += _touch(a, -1, 1.0, offset, other, flows, position, gateway, lanes, links, undo, undo_index)
    change += _touch(b, a, 1.0, offset, other, flows, position, gateway, lanes, links, undo, undo_index)
    return change


@njit
def anneal(proposals, warm, cold, state, offset, other, flows, position, gateway, lanes, links, undo, undo_index):
    """Propose swaps while the temperature decreases from `warm` to `cold`.

    Temperatures are in units of the cost. Return the state of the random generator and the number of accepted swaps.
    """
    blocks = np.uint64(position.size)
    kept = 0
    ratio = (cold / warm) ** (1.0 / max(proposals, 1))
    temperature = warm
    for _ in range(proposals):
        state += np.uint64(0x9E3779B97F4A7C15)
        z = mix(state)
        a = np.int64(((z >> np.uint64(32)) * blocks) >> np.uint64(32))
        b = np.int64(((z & np.uint64(0xFFFFFFFF)) * blocks) >> np.uint64(32))
        temperature *= ratio
        if a == b:
            continue
        change = _swap_cost(a, b, offset, other, flows, position, gateway, lanes, links, undo, undo_index)
        accept = change <= 0.0
        if not accept:
            y = (z * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(11)
            accept = np.float64(y) / 9007199254740992.0 < np.exp(-change / temperature)
        if accept:
            kept += 1
        else:
            position[a], position[b] = position[b], position[a]
            for n in range(undo_index[0], 0, -1):
                links[undo_index[n], LOAD] = undo[0, n]
                links[undo_index[n], COST] = undo[1, n]
    return state, kept
