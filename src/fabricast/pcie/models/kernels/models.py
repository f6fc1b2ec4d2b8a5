"""Compiled kernel of the models: the rates of each phase, and the event loop around them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.pcie.models.kernels.back_pressure import back_pressure
from fabricast.pcie.models.kernels.bottlenecks import BY_COPY, BY_INPUT_PORT, longest_held, note_bottlenecks
from fabricast.pcie.models.kernels.congestion import congestion_factors
from fabricast.pcie.models.kernels.max_min import max_min
from fabricast.pcie.models.kernels.working_memory import (
    ACTIVE,
    BUSY_DOWN,
    BUSY_UP,
    CAPACITY,
    CROSSING,
    DEMAND_UP,
    FRESH,
    IN_PIECES,
    INPUT,
    LONGEST,
    MEMBER,
    NARROW,
    NEXT,
    PAIR,
    PLACE,
    REMAINING,
    RHO,
    ROOT_COMPLEX_IGNORED,
    STATE,
    USERS,
)
from fabricast.runtime.compilation import allocation_free, njit

__all__ = [
    "BACK_PRESSURE",
    "BUSIEST_LINK",
    "CONGESTION_FACTOR",
    "MAX_MIN",
    "NO_CONTENTION",
    "Graphs",
    "Network",
    "Results",
    "Rule",
    "evaluate_graphs",
    "find_users",
]

# Methods, and the positions of the switches in the option vector.
CONGESTION_FACTOR, NO_CONTENTION, BUSIEST_LINK, MAX_MIN, BACK_PRESSURE = range(5)
# Values of STATE.
WAITING, RUNNING, DONE = range(3)


class Graphs(NamedTuple):
    """Congestion graphs: where each begins, and source, target, size, start and predecessor of communications."""

    offset: Any
    source: Any
    target: Any
    size_bytes: Any
    start_s: Any
    after: Any


class Network(NamedTuple):
    """Routes of all pairs of endpoints, and links: the first `upstream_links` of them lead to the root complex."""

    endpoints: Any
    route_offset: Any
    route_link: Any
    crossing_pair: Any
    capacity: Any
    leaves_root_complex: Any
    behind_root_complex: Any
    upstream_links: Any


class Rule(NamedTuple):
    """What gives the rates of a phase, and the parameters of the machine."""

    method: Any
    options: Any
    tau: Any
    piece_payload: Any
    piece_cost: Any
    bandwidth_bytes_per_s: Any
    latency_s: Any
    first_phase_only: Any


class Results(NamedTuple):
    """What `evaluate_graphs` fills."""

    end_s: Any
    initial_rho: Any
    phases: Any
    bottleneck: Any


@allocation_free
def _link_shares(active_count, route_offset, route_link, values, marks, shared):
    """Smallest capacity on the route, divided by its users if `shared`."""
    for a in range(active_count):
        c = marks[ACTIVE, a]
        rho = np.inf
        for hop in range(route_offset[marks[PAIR, c]], route_offset[marks[PAIR, c] + 1]):
            link = route_link[hop]
            sharing = marks[USERS, link] if shared else 1
            rho = min(rho, values[CAPACITY, link] / sharing)
        values[RHO, c] = rho


@allocation_free
def find_users(active_count, network, onwards, users, values, marks):
    """List who uses each link, by which input port and, if `onwards`, where it goes next; and the busy links.

    Returns how many of these lead to the root complex, and how many away from it.
    """
    route_offset, route_link = network.route_offset, network.route_link
    link_count = network.capacity.size
    for link in range(link_count):
        marks[USERS, link] = 0
        marks[NARROW, link] = 0
    for a in range(active_count):
        c = np.uint32(marks[ACTIVE, a])
        previous = -1
        place = -1
        in_pieces = 0
        first, end = route_offset[marks[PAIR, c]], route_offset[marks[PAIR, c] + 1]
        demand = values[CAPACITY, np.uint32(route_link[first])]
        values[DEMAND_UP, c] = demand
        for hop in range(first, end):
            link = np.uint32(route_link[hop])
            k = np.uint32(marks[USERS, link])
            users[MEMBER, link, k] = c
            users[INPUT, link, k] = previous
            marks[USERS, link] = k + 1
            # Who sends alone through a link slower than its own is held back there.
            marks[NARROW, link] |= 1 if values[CAPACITY, link] < demand else 0
            if onwards:
                if network.behind_root_complex[link]:
                    in_pieces = 1
                users[PLACE, link, k] = place
                users[NEXT, link, k] = -1
                users[IN_PIECES, link, k] = in_pieces
                if previous >= 0:
                    users[NEXT, previous, place] = link
                place = k
            previous = link
    up = 0
    down = 0
    for link in range(network.upstream_links):
        marks[BUSY_UP, up] = link
        up += 1 if marks[USERS, link] + marks[NARROW, link] > 1 else 0
    for link in range(network.upstream_links, link_count):
        marks[BUSY_DOWN, down] = link
        down += 1 if marks[USERS, link] + marks[NARROW, link] > 1 else 0
    return up, down


@allocation_free
def _rates(active_count, network, rule, users, values, marks, flows):
    """Fill RHO with the rates of a phase, relative to the bandwidth of one communication alone."""
    up, down = find_users(active_count, network, rule.method == BACK_PRESSURE, users, values, marks)
    if rule.method == CONGESTION_FACTOR:
        congestion_factors(active_count, up, down, users, values, marks, rule.tau, rule.options)
    elif rule.method == BACK_PRESSURE:
        links = network.capacity.size
        back_pressure(active_count, links, rule.piece_payload, rule.piece_cost, users, values, marks, flows)
    elif rule.method == MAX_MIN:
        max_min(active_count, network.capacity.size, users, values, marks)
    else:
        shared = rule.method == BUSIEST_LINK
        _link_shares(active_count, network.route_offset, network.route_link, values, marks, shared)


@allocation_free
def _prepare(first, count, graphs, network, values, marks):
    """Take the communications of one graph; return when the first of them starts."""
    now = np.inf
    for c in range(count):
        pair = graphs.source[first + c] * network.endpoints + graphs.target[first + c]
        marks[PAIR, c] = pair
        marks[CROSSING, c] = network.crossing_pair[pair]
        marks[STATE, c] = WAITING
        values[REMAINING, c] = graphs.size_bytes[first + c]
        now = min(now, graphs.start_s[first + c])
    return now


@allocation_free
def _activate(first, count, now, graphs, rule, end_s, marks):
    """Start the communications whose time has come; return how many run and when the next one starts."""
    active_count = 0
    next_start = np.inf
    for c in range(count):
        if marks[STATE, c] == WAITING:
            begin = graphs.start_s[first + c]
            before = graphs.after[first + c]
            if before >= 0:
                begin = end_s[first + before] + rule.latency_s if marks[STATE, before] == DONE else np.inf
            if begin <= now:
                marks[STATE, c] = RUNNING
                marks[FRESH, c] = 1
            else:
                next_start = min(next_start, begin)
        if marks[STATE, c] == RUNNING:
            marks[ACTIVE, active_count] = c
            active_count += 1
    return active_count, next_start


@allocation_free
def _shortest_step(first, active_count, until_start, rule, initial_rho, values, marks):
    """Return how long the rates of a phase last; note the factors of those that have just started."""
    step = until_start
    for a in range(active_count):
        c = np.uint32(marks[ACTIVE, a])
        rho = values[RHO, c]
        if marks[FRESH, c]:
            marks[FRESH, c] = 0
            initial_rho[first + c] = rho
        if rho > 0.0:
            step = min(step, values[REMAINING, c] / (rule.bandwidth_bytes_per_s * rho))
    return step


@allocation_free
def _advance(first, active_count, now, step, graphs, rule, end_s, values, marks):
    """Move what the phase moves until time `now`; return how many communications end."""
    ended = 0
    for a in range(active_count):
        c = np.uint32(marks[ACTIVE, a])
        values[REMAINING, c] -= rule.bandwidth_bytes_per_s * values[RHO, c] * step
        if values[REMAINING, c] <= 1e-9 * graphs.size_bytes[first + c]:
            end_s[first + c] = now
            marks[STATE, c] = DONE
            ended += 1
    return ended


@allocation_free
def _never_end(first, count, state, end_s, initial_rho, marks):
    """Let the communications in a state never end; return how many."""
    ended = 0
    for c in range(count):
        if marks[STATE, c] == state:
            end_s[first + c] = np.inf
            if state == WAITING:
                initial_rho[first + c] = 0.0
            marks[STATE, c] = DONE
            ended += 1
    return ended


@njit
def evaluate_graphs(first_graph, last_graph, graphs, network, rule, results):
    """Evaluate consecutive graphs; fills their part of the arrays of `results`.

    The event loop recomputes the factors whenever a communication starts or ends. A
    communication with a predecessor `after` in its graph (-1: none) starts `latency_s` later.
    Graphs are independent and the lock is released, so threads may each take a range.
    `bottleneck` may be empty: it is then left out.
    """
    end_s, initial_rho = results.end_s, results.initial_rho
    widest = network.capacity.size
    for graph in range(first_graph, last_graph):
        widest = max(widest, graphs.offset[graph + 1] - graphs.offset[graph])
    link_count = network.capacity.size
    explained = results.bottleneck.size > 0
    sharing = 0
    if rule.method == CONGESTION_FACTOR or rule.method == BACK_PRESSURE:
        sharing = BY_INPUT_PORT
    elif rule.method == MAX_MIN:
        sharing = BY_COPY
    values = np.empty((13, widest), dtype=np.float64)
    marks = np.empty((21, widest), dtype=np.int64)
    users = np.empty((6, link_count, widest), dtype=np.int64)
    flows = np.empty((4 if rule.method == BACK_PRESSURE else 0, link_count, widest), dtype=np.float64)
    held_s = np.zeros((widest if explained else 0, link_count), dtype=np.float64)
    for link in range(link_count):
        values[CAPACITY, link] = network.capacity[link]
        ignored = rule.method == CONGESTION_FACTOR and rule.options[ROOT_COMPLEX_IGNORED] != 0
        if ignored and network.leaves_root_complex[link]:
            values[CAPACITY, link] = np.inf
    # Any link: the first that limits a communication takes its place.
    for c in range(widest if explained else 0):
        marks[LONGEST, c] = 0
    for graph in range(first_graph, last_graph):
        first = graphs.offset[graph]
        count = graphs.offset[graph + 1] - first
        now = _prepare(first, count, graphs, network, values, marks)
        unfinished = count
        phase = 0
        while unfinished > 0:
            active_count, next_start = _activate(first, count, now, graphs, rule, end_s, marks)
            if active_count == 0 and next_start == np.inf:
                # What is left waits for a communication that never ends.
                unfinished -= _never_end(first, count, WAITING, end_s, initial_rho, marks)
                continue
            if active_count == 0:
                now = next_start
                continue
            _rates(active_count, network, rule, users, values, marks, flows)
            step = _shortest_step(first, active_count, next_start - now, rule, initial_rho, values, marks)
            phase += 1
            if explained:
                lasting = step if step < np.inf else 1.0
                note_bottlenecks(active_count, lasting, sharing, rule.tau, network, users, values, marks, held_s)
            if rule.first_phase_only:
                break
            if step == np.inf:
                # Only literal readings can starve a communication for ever.
                unfinished -= _never_end(first, count, RUNNING, end_s, initial_rho, marks)
                continue
            now = next_start if step == next_start - now else now + step
            unfinished -= _advance(first, active_count, now, step, graphs, rule, end_s, values, marks)
        results.phases[graph] = phase
        if explained:
            longest_held(first, count, held_s, results.bottleneck, marks)
