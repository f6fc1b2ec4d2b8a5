"""Simulated annealing of the hosts of nodes, with link loads of static routes."""

from __future__ import annotations

import numpy as np

from fabricast.networks.kernels.routes import add_static
from fabricast.runtime.compilation import allocation_free, njit


@allocation_free(inline="always")
def _random(state):
    """Return the next number of xorshift64*, at least 0 and below 1."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@allocation_free(inline="always")
def eighth_power(x):
    """Return the eighth power: large enough that the busiest links dominate, small enough that others contribute."""
    square = x * x
    fourth = square * square
    return fourth * fourth


@njit
def cost_of(load, scale):
    """Return the sum of the eighth powers of scaled loads."""
    total = 0.0
    for link in range(load.size):
        total += eighth_power(load[link] * scale[link])
    return total


@allocation_free
def _add_node(load, sign, node, skipped, slot_host, slot_of, offset, other, sent, received, rails, host_begin, tables):
    """Add or remove the bytes of a node with all others but one."""
    here = host_begin[slot_host[slot_of[node]]]
    for place in range(offset[node], offset[node + 1]):
        if other[place] == skipped:
            continue
        there = host_begin[slot_host[slot_of[other[place]]]]
        for rail in range(rails):
            if sent[place] > 0.0:
                add_static(load, sign * sent[place] / rails, here + rail, there + rail, *tables)
            if received[place] > 0.0:
                add_static(load, sign * received[place] / rails, there + rail, here + rail, *tables)


@njit
def anneal(
    steps,
    warm,
    cold,
    state,
    load,
    scale,
    slot_host,
    slot_of,
    node_in,
    offset,
    other,
    sent,
    received,
    rails,
    host_begin,
    tables,
):
    """Propose swaps of a node with another node or an empty host; return the number of accepted ones.

    Shapes: load, scale (links,), slot_host (slots,), slot_of (nodes,), node_in (slots,) with -1 for empty hosts,
    offset (nodes + 1,), other, sent, received (neighbours,); tables as of `SwitchNetwork.tables`.
    """
    nodes, slots = slot_of.size, slot_host.size
    before = load.copy()
    now, kept = cost_of(load, scale), 0
    ratio = (cold / warm) ** (1.0 / max(steps, 1))
    temperature = warm
    for _ in range(steps):
        temperature *= ratio
        node = int(_random(state) * nodes)
        slot = int(_random(state) * slots)
        old = slot_of[node]
        if slot == old:
            continue
        partner = node_in[slot]
        for link in range(load.size):
            before[link] = load[link]
        _add_node(load, -1.0, node, -1, slot_host, slot_of, offset, other, sent, received, rails, host_begin, tables)
        if partner >= 0:
            _add_node(
                load, -1.0, partner, node, slot_host, slot_of, offset, other, sent, received, rails, host_begin, tables
            )
        slot_of[node] = slot
        if partner >= 0:
            slot_of[partner] = old
        _add_node(load, 1.0, node, -1, slot_host, slot_of, offset, other, sent, received, rails, host_begin, tables)
        if partner >= 0:
            _add_node(
                load, 1.0, partner, node, slot_host, slot_of, offset, other, sent, received, rails, host_begin, tables
            )
        after = cost_of(load, scale)
        if after <= now or _random(state) < np.exp((now - after) / temperature):
            now, kept = after, kept + 1
            node_in[slot], node_in[old] = node, partner
        else:
            slot_of[node] = old
            if partner >= 0:
                slot_of[partner] = slot
            for link in range(load.size):
                load[link] = before[link]
    return kept
