"""Compiled order of communications that neither the order of rows nor a relabelling changes.

Colours of the vertices are refined until they stop splitting (Weisfeiler and Leman): a colour
sums up a vertex, its surroundings in the tree and what it sends and receives. Of endpoints that
stay alike one is singled out and the colours are refined again, until all differ.
"""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit

__all__ = ["number_components", "order_communications"]


@njit
def _mix(value):
    """Spread the bits of a number (splitmix64)."""
    value = (value + np.uint64(0x9E3779B97F4A7C15)) & np.uint64(0xFFFFFFFFFFFFFFFF)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit
def _classes(colour, leaf):
    """Count the different colours of endpoints."""
    count = 0
    for e in range(leaf.size):
        known = False
        for other in range(e):
            known = known or colour[leaf[e]] == colour[leaf[other]]
        if not known:
            count += 1
    return count


@njit
def _refine(first, last, source, target, key, parent, leaf, colour, sums):
    """Refine colours until endpoints stop splitting."""
    up, down = np.uint64(3), np.uint64(5)
    sends, receives = np.uint64(7), np.uint64(11)
    classes = _classes(colour, leaf)
    unchanged = 0
    for _ in range(2 * parent.size):
        for v in range(parent.size):
            sums[v] = _mix(colour[v])
        for v in range(parent.size):
            if parent[v] >= 0:
                sums[parent[v]] += _mix(colour[v] * up)
                sums[v] += _mix(colour[parent[v]] * down)
        for c in range(first, last):
            s = leaf[source[c]]
            t = leaf[target[c]]
            sums[s] += _mix(colour[t] * sends + key[c])
            sums[t] += _mix(colour[s] * receives + key[c])
        for v in range(parent.size):
            colour[v] = _mix(sums[v])
        found = _classes(colour, leaf)
        unchanged = unchanged + 1 if found == classes else 0
        classes = found
        # Colours travel along the tree: a few rounds without a split may precede one.
        if classes == leaf.size or unchanged > 6:
            break


@njit
def order_communications(graph_offset, source, target, key, parent, shape, leaf, order, alike):
    """Order the communications of every graph; fills `order` and `alike`.

    `order` lists the communications of each graph in an order that depends on the graph's
    form alone; `alike` holds one number for all that a symmetry of tree and graph exchanges.
    """
    colour = np.zeros(parent.size, dtype=np.uint64)
    sums = np.zeros(parent.size, dtype=np.uint64)
    taking_part = np.zeros(leaf.size, dtype=np.bool_)
    for graph in range(graph_offset.size - 1):
        first = graph_offset[graph]
        last = graph_offset[graph + 1]
        taking_part[:] = False
        for c in range(first, last):
            taking_part[source[c]] = True
            taking_part[target[c]] = True
        for v in range(parent.size):
            colour[v] = _mix(shape[v])
        _refine(first, last, source, target, key, parent, leaf, colour, sums)
        for c in range(first, last):
            ends = _mix(colour[leaf[source[c]]] * np.uint64(13)) + _mix(colour[leaf[target[c]]] * np.uint64(17))
            alike[c] = _mix(ends + key[c])
        while True:
            chosen = -1
            for e in range(leaf.size):
                if not taking_part[e]:
                    continue
                tied = False
                for other in range(leaf.size):
                    same = other != e and taking_part[other] and colour[leaf[other]] == colour[leaf[e]]
                    tied = tied or same
                if tied and (chosen < 0 or colour[leaf[e]] < colour[leaf[chosen]]):
                    chosen = e
            if chosen < 0:
                break
            colour[leaf[chosen]] = _mix(colour[leaf[chosen]] + np.uint64(1))
            _refine(first, last, source, target, key, parent, leaf, colour, sums)
        for c in range(first, last):
            order[c] = c
        # Insertion sort: graphs are small, and equal communications keep their order.
        for c in range(first + 1, last):
            moved = order[c]
            place = c
            while place > first:
                before = order[place - 1]
                s, t = colour[leaf[source[moved]]], colour[leaf[target[moved]]]
                bs, bt = colour[leaf[source[before]]], colour[leaf[target[before]]]
                if bs < s or (bs == s and (bt < t or (bt == t and key[before] <= key[moved]))):
                    break
                order[place] = before
                place -= 1
            order[place] = moved


@njit
def number_components(graph_offset, source, target, endpoints, route_offset, route_link, reverse, component):
    """Find the components of every graph: communications that share no link do not meet.

    `reverse` names the opposite of each link where the two hold each other back, else the link
    itself. `component` takes for each communication the first one of its component.
    """
    links = reverse.size
    owner = np.empty(links, dtype=np.int64)
    for graph in range(graph_offset.size - 1):
        first = graph_offset[graph]
        last = graph_offset[graph + 1]
        owner[:] = -1
        for c in range(first, last):
            component[c] = c
        for c in range(first, last):
            pair = source[c] * endpoints + target[c]
            for hop in range(route_offset[pair], route_offset[pair + 1]):
                for link in (route_link[hop], reverse[route_link[hop]]):
                    if owner[link] < 0:
                        owner[link] = c
                        continue
                    one = owner[link]
                    while component[one] != one:
                        one = component[one]
                    other = c
                    while component[other] != other:
                        other = component[other]
                    component[max(one, other)] = min(one, other)
        for c in range(first, last):
            one = c
            while component[one] != one:
                one = component[one]
            component[c] = one
