"""Canonical order of copies, independent of the order of rows and of endpoint numbers.

The order follows from colour refinement (Weisfeiler and Leman) of the tree with the copies of a graph as additional
edges between endpoints:

1. Each vertex starts with a hash of its properties (`shape`). In each round, its new colour is a hash of its colour,
   the colours of its parent and children, and the sizes, start times and peers of the copies it sends and receives.
2. Rounds end when all endpoints differ, or when several rounds have not increased the number of colours.
3. Copies with equal source colour, target colour, size and start are equivalent by a symmetry (`alike`).
4. If endpoints of copies still have equal colours, one endpoint of the smallest such colour gets a new colour, and
   refinement continues, until the colours of all of them differ. Which one is chosen does not matter if the endpoints
   are equivalent by a symmetry.
5. Copies are sorted by the colours of source and target, and by size and start.
"""

from __future__ import annotations

import numpy as np

from fabricast.runtime.compilation import njit


@njit
def _mix(value):
    """Return a hash of a number (splitmix64)."""
    value = (value + np.uint64(0x9E3779B97F4A7C15)) & np.uint64(0xFFFFFFFFFFFFFFFF)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit
def _classes(colour, leaf):
    """Return the number of different endpoint colours."""
    count = 0
    for e in range(leaf.size):
        is_repeated = False
        for other in range(e):
            is_repeated = is_repeated or colour[leaf[e]] == colour[leaf[other]]
        if not is_repeated:
            count += 1
    return count


@njit
def _refine(first, last, source, target, key, parent, leaf, colour, sums):
    """Refine colours until the number of endpoint colours no longer increases."""
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
        new_classes = _classes(colour, leaf)
        unchanged = unchanged + 1 if new_classes == classes else 0
        classes = new_classes
        # Colours propagate by one vertex per round: rounds without a new colour may precede one with a new colour.
        if classes == leaf.size or unchanged > 6:
            break


@njit
def order_communications(graph_offset, source, target, key, parent, shape, leaf, order, alike):
    """Compute the canonical order and the equivalence classes of the copies of each graph.

    `order` lists the copies of each graph in canonical order. `alike` has equal numbers for copies that are equivalent
    by a symmetry of tree and graph.
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
        # Insertion sort: graphs are small, and the sort must be stable.
        for c in range(first + 1, last):
            moved = order[c]
            position = c
            while position > first:
                before = order[position - 1]
                s, t = colour[leaf[source[moved]]], colour[leaf[target[moved]]]
                bs, bt = colour[leaf[source[before]]], colour[leaf[target[before]]]
                if bs < s or (bs == s and (bt < t or (bt == t and key[before] <= key[moved]))):
                    break
                order[position] = before
                position -= 1
            order[position] = moved


@njit
def number_components(graph_offset, source, target, endpoints, route_offset, route_link, reverse, component):
    """Find the connected components of each graph: sets of copies that share links.

    `reverse` is the reverse direction of each link if traffic of the directions interferes, or otherwise the link
    itself. `component` is the first copy of the component of each copy, computed by union-find over the links.
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
                    root = owner[link]
                    while component[root] != root:
                        root = component[root]
                    other_root = c
                    while component[other_root] != other_root:
                        other_root = component[other_root]
                    component[max(root, other_root)] = min(root, other_root)
        for c in range(first, last):
            root = c
            while component[root] != root:
                root = component[root]
            component[c] = root
