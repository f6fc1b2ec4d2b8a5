"""Event loop of the models: rates of each phase until a copy starts or ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fabricast.pcie.models.kernels.back_pressure import back_pressure
from fabricast.pcie.models.kernels.bottlenecks import (
    BY_COPY,
    BY_INPUT_PORT,
    Waits,
    add_waits,
    find_bottlenecks,
    store_bottlenecks,
)
from fabricast.pcie.models.kernels.congestion import congestion_factors
from fabricast.pcie.models.kernels.known_sets import RATES, new_known_sets, place_of_set
from fabricast.pcie.models.kernels.max_min import max_min
from fabricast.pcie.models.kernels.working_memory import ROOT_COMPLEX_IGNORED, new_memory, sort_copies
from fabricast.runtime.compilation import allocation_free, njit

# Methods of `Rule`.
CONGESTION_FACTOR, NO_CONTENTION, BUSIEST_LINK, MAX_MIN, BACK_PRESSURE = range(5)
# Values of STATE.
WAITING, RUNNING, DONE = range(3)
#: Most sets of copies whose rates are kept, and most copies of such a set: larger ones seldom occur twice.
_MOST_SETS = 16384
_MOST_COPIES = 4


class Graphs(NamedTuple):
    """Congestion graphs: offset of each graph; source, target, size, start and predecessor of each copy."""

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
    """Method and options of a model, and the parameters of the machine."""

    method: Any
    options: Any
    tau: Any
    piece_payload: Any
    piece_cost: Any
    bandwidth_bytes_per_s: Any
    latency_s: Any
    first_phase_only: Any


class Results(NamedTuple):
    """Arrays that `evaluate_graphs` fills."""

    end_s: Any
    initial_rho: Any
    phases: Any
    bottleneck: Any
    caused_by: Any


@allocation_free(forceinline=True)
def _link_shares(active_count, route_offset, route_link, memory, shared):
    """Compute the smallest capacity on each route, divided by the number of users if `shared`."""
    for a in range(active_count):
        c = memory.copies.active[a]
        rho = np.inf
        for hop in range(route_offset[memory.copies.pair[c]], route_offset[memory.copies.pair[c] + 1]):
            link = route_link[hop]
            sharing = memory.links.user_count[link] if shared else 1
            rho = min(rho, memory.links.capacity[link] / sharing)
        memory.copies.rho[c] = rho


@allocation_free(forceinline=True)
def find_users(active_count, network, onwards, memory):
    """List the users of each link with their input port and, if `onwards`, their next link."""
    route_offset, route_link = network.route_offset, network.route_link
    for link in range(network.capacity.size):
        memory.links.user_count[link] = 0
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        previous = -1
        place = -1
        in_pieces = 0
        first, end = route_offset[memory.copies.pair[c]], route_offset[memory.copies.pair[c] + 1]
        memory.copies.demand_up[c] = memory.links.capacity[np.uint32(route_link[first])]
        for hop in range(first, end):
            link = np.uint32(route_link[hop])
            k = np.uint32(memory.links.user_count[link])
            memory.users.member[link, k] = c
            memory.users.entry[link, k] = previous
            memory.links.user_count[link] = k + 1
            if onwards:
                if network.behind_root_complex[link]:
                    in_pieces = 1
                memory.users.place[link, k] = place
                memory.users.next_link[link, k] = -1
                memory.users.in_pieces[link, k] = in_pieces
                if previous >= 0:
                    memory.users.next_link[previous, place] = link
                place = k
            previous = link


@allocation_free(forceinline=True)
def _find_narrow(links, memory):
    """Mark the links that are narrower than others: they may limit a single user."""
    widest = 0.0
    for link in range(links):
        widest = max(widest, memory.links.capacity[link])
    for link in range(links):
        memory.links.narrow[link] = 1 if memory.links.capacity[link] < widest else 0


@allocation_free(forceinline=True)
def _list_busy(first, last, memory, busy):
    """List the links of a range that several copies use, and narrow ones that one uses; return their number."""
    count = 0
    for link in range(first, last):
        busy[count] = link
        count += 1 if memory.links.user_count[link] + memory.links.narrow[link] > 1 else 0
    return count


@allocation_free(forceinline=True)
def _list_limits(active_count, network, memory):
    """List the links that may limit a copy in `memory.links.full`; return their number.

    These are the busy links, and the first link of each route: others with a single user are not narrower.
    """
    count = _list_busy(0, network.capacity.size, memory, memory.links.full)
    for a in range(active_count):
        link = np.uint32(network.route_link[network.route_offset[memory.copies.pair[memory.copies.active[a]]]])
        memory.copies.is_frozen[memory.copies.active[a]] = 0
        if memory.links.user_count[link] + memory.links.narrow[link] <= 1:
            memory.links.full[count] = link
            count += 1
    return count


@allocation_free(forceinline=True)
def _rates(active_count, network, rule, memory):
    """Compute the rates of a phase, relative to the bandwidth of an isolated copy."""
    find_users(active_count, network, rule.method == BACK_PRESSURE, memory)
    if rule.method == CONGESTION_FACTOR:
        upstream = network.upstream_links
        up = _list_busy(0, upstream, memory, memory.links.busy_up)
        down = _list_busy(upstream, network.capacity.size, memory, memory.links.busy_down)
        congestion_factors(active_count, up, down, memory, rule.tau, rule.options)
    elif rule.method == BACK_PRESSURE:
        links = network.capacity.size
        back_pressure(active_count, links, rule.piece_payload, rule.piece_cost, memory)
    elif rule.method == MAX_MIN:
        max_min(
            _list_limits(active_count, network, memory),
            active_count,
            memory.copies.pair,
            network.route_offset,
            network.route_link,
            memory.links.capacity,
            memory.links.user_count,
            memory.users.member,
            memory.links.full,
            memory.links.limit,
            memory.links.group_count,
            memory.copies.is_frozen,
            memory.copies.rho,
            memory.copies.waits_at,
        )
    else:
        shared = rule.method == BUSIEST_LINK
        _link_shares(active_count, network.route_offset, network.route_link, memory, shared)


@allocation_free(forceinline=True)
def _prepare(first, count, graphs, network, memory):
    """Prepare the copies of one graph; return the start time of the first."""
    now = np.inf
    for c in range(count):
        pair = graphs.source[first + c] * network.endpoints + graphs.target[first + c]
        memory.copies.pair[c] = pair
        memory.copies.crossing[c] = network.crossing_pair[pair]
        memory.copies.state[c] = WAITING
        memory.copies.remaining[c] = graphs.size_bytes[first + c]
        now = min(now, graphs.start_s[first + c])
    return now


@allocation_free(forceinline=True)
def _activate(first, count, now, graphs, rule, end_s, memory):
    """Start the copies that are due; return the number of active copies and the next start time."""
    active_count = 0
    next_start = np.inf
    for c in range(count):
        if memory.copies.state[c] == WAITING:
            begin = graphs.start_s[first + c]
            before = graphs.after[first + c]
            if before >= 0:
                begin = end_s[first + before] + rule.latency_s if memory.copies.state[before] == DONE else np.inf
            if begin <= now:
                memory.copies.state[c] = RUNNING
                memory.copies.fresh[c] = 1
            else:
                next_start = min(next_start, begin)
        if memory.copies.state[c] == RUNNING:
            memory.copies.active[active_count] = c
            active_count += 1
    return active_count, next_start


@allocation_free(forceinline=True)
def _shortest_step(first, active_count, until_start, rule, initial_rho, memory):
    """Return the duration of a phase; record the factors of copies that have just started."""
    step = until_start
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        rho = memory.copies.rho[c]
        if memory.copies.fresh[c]:
            memory.copies.fresh[c] = 0
            initial_rho[first + c] = rho
        if rho > 0.0:
            step = min(step, memory.copies.remaining[c] / (rule.bandwidth_bytes_per_s * rho))
    return step


@allocation_free(forceinline=True)
def _advance(first, active_count, now, step, graphs, rule, end_s, memory):
    """Advance the copies to time `now`; return the number of copies that end."""
    ended = 0
    for a in range(active_count):
        c = np.uint32(memory.copies.active[a])
        memory.copies.remaining[c] -= rule.bandwidth_bytes_per_s * memory.copies.rho[c] * step
        if memory.copies.remaining[c] <= 1e-9 * graphs.size_bytes[first + c]:
            end_s[first + c] = now
            memory.copies.state[c] = DONE
            ended += 1
    return ended


@allocation_free(forceinline=True)
def _never_end(first, count, state, end_s, initial_rho, memory):
    """Mark the copies in a state as endless; return their number."""
    ended = 0
    for c in range(count):
        if memory.copies.state[c] == state:
            end_s[first + c] = np.inf
            if state == WAITING:
                initial_rho[first + c] = 0.0
            memory.copies.state[c] = DONE
            ended += 1
    return ended


@allocation_free(forceinline=True)
def _known_rates(active_count, network, rule, memory, sets):
    """Compute the rates of a phase, or fill those of an equal set of copies."""
    active = memory.copies.active
    if active_count > sets.kind.shape[1]:
        _rates(active_count, network, rule, memory)
        return
    sort_copies(active, active_count, memory.copies.pair)
    slot = place_of_set(active, active_count, memory.copies.pair, sets)
    if sets.mark[slot] == RATES:
        for place in range(active_count):
            memory.copies.rho[active[place]] = sets.rho[slot, place]
        return
    _rates(active_count, network, rule, memory)
    for place in range(active_count):
        sets.rho[slot, place] = memory.copies.rho[active[place]]
    sets.mark[slot] = RATES


@njit
def evaluate_graphs(first_graph, last_graph, graphs, network, rule, results):
    """Evaluate consecutive graphs; fills their part of the arrays of `results`.

    The event loop recomputes the factors whenever a copy starts or ends. A
    copy with a predecessor `after` in its graph (-1: none) starts `latency_s` later.
    Graphs are independent, and the interpreter lock is released: threads may evaluate different ranges.
    Empty `bottleneck` and `caused_by` are not filled.
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
    memory = new_memory(widest, link_count, link_count if rule.method == BACK_PRESSURE else 0)
    sets = new_known_sets(1 if explained else min(_MOST_SETS, 4 * (last_graph - first_graph)), _MOST_COPIES)
    waits = Waits(
        np.zeros((widest if explained else 0, link_count), dtype=np.float64),
        np.zeros((widest if explained else 0, link_count), dtype=np.float64),
        np.zeros((widest if explained else 0, link_count), dtype=np.int64),
    )
    for link in range(link_count):
        memory.links.capacity[link] = network.capacity[link]
        ignored = rule.method == CONGESTION_FACTOR and rule.options[ROOT_COMPLEX_IGNORED] != 0
        if ignored and network.leaves_root_complex[link]:
            memory.links.capacity[link] = np.inf
    _find_narrow(link_count, memory)
    # Any link: the first link that limits a copy replaces it.
    for c in range(widest if explained else 0):
        memory.copies.longest[c] = 0
    for graph in range(first_graph, last_graph):
        first = graphs.offset[graph]
        count = graphs.offset[graph + 1] - first
        now = _prepare(first, count, graphs, network, memory)
        unfinished = count
        phase = 0
        while unfinished > 0:
            active_count, next_start = _activate(first, count, now, graphs, rule, end_s, memory)
            if active_count == 0 and next_start == np.inf:
                # The remaining copies wait for a copy that never ends.
                unfinished -= _never_end(first, count, WAITING, end_s, initial_rho, memory)
                continue
            if active_count == 0:
                now = next_start
                continue
            if explained:
                # The bottlenecks need the users of each link.
                if active_count <= _MOST_COPIES:
                    sort_copies(memory.copies.active, active_count, memory.copies.pair)
                _rates(active_count, network, rule, memory)
            else:
                _known_rates(active_count, network, rule, memory, sets)
            step = _shortest_step(first, active_count, next_start - now, rule, initial_rho, memory)
            phase += 1
            if explained:
                lasting = step if step < np.inf else 1.0
                find_bottlenecks(active_count, sharing, rule.tau, network, memory)
                add_waits(active_count, lasting, memory, waits)
            if rule.first_phase_only:
                break
            if step == np.inf:
                # Only literal interpretations of the slides can starve a copy.
                unfinished -= _never_end(first, count, RUNNING, end_s, initial_rho, memory)
                continue
            now = next_start if step == next_start - now else now + step
            unfinished -= _advance(first, active_count, now, step, graphs, rule, end_s, memory)
        results.phases[graph] = phase
        if explained:
            store_bottlenecks(first, count, waits, results.bottleneck, results.caused_by, memory)
