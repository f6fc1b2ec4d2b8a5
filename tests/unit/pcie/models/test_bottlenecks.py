"""Tests of bottlenecks and their causes against plain Python loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate, trace_phases
from fabricast.pcie.topology.paths import link_labels
from fabricast.pcie.topology.regular import regular_tree

TREE = regular_tree("storm8", (2, 2, 2))


def plain_bottlenecks(pairs, rho, tau, sharing):
    """Return the link at which each copy waits and the cause, -1 if none (reference).

    This is a saturated link on which the copy gets its share, or the last link that it shares with the slowest copy
    that blocks it; the link that limits that copy is the cause.
    """
    routes = [TREE.route(TREE.endpoint_names[s], TREE.endpoint_names[t]) for s, t in pairs]
    users = {link: [c for c, route in enumerate(routes) if link in route] for route in routes for link in route}
    crosses = [TREE.routes.crossing[s * 8 + t] for s, t in pairs]
    up = TREE.routes.upstream_links

    def port(c, link):
        place = routes[c].index(link)
        return routes[c][place - 1] if place else ("own", c)

    def load(link):
        return sum(rho[c] for c in users[link])

    def is_limited(c, link):
        if load(link) < 1 - 1e-6:
            return False
        if sharing == "copy":
            return rho[c] >= max(rho[other] for other in users[link]) - 1e-6
        if link < up:
            return True
        ports = {port(other, link) for other in users[link]}
        own = [other for other in users[link] if port(other, link) == port(c, link)]
        penalty = 0 if all(crosses[other] for other in users[link]) else tau * any(crosses[other] for other in own)
        return sum(rho[other] for other in own) >= 1 / len(ports) - penalty - 1e-6

    def first_of(c, links):
        best = None
        for link in links:
            more = None if best is None else (len(users[link]) - len(users[best]))
            is_end = link == routes[c][-1] and best != routes[c][0]
            if (
                best is None
                or load(link) > load(best) + 1e-6
                or (load(link) > load(best) - 1e-6 and (more > 0 or (more == 0 and is_end)))
            ):
                best = link
        return best

    def onwards(c, link):
        place = routes[c].index(link) + 1
        return routes[c][place] if place < len(routes[c]) else None

    def is_behind(c, other, link):
        return onwards(other, link) is not None and onwards(other, link) != onwards(c, link)

    direct = [first_of(c, [link for link in routes[c] if is_limited(c, link)]) for c in range(len(pairs))]
    limits = [None if link is None else (link, -1) for link in direct]
    for is_candidate in (is_behind, lambda c, other, link: True):
        while None in limits:
            found = {}
            for c in (c for c, limit in enumerate(limits) if limit is None):
                near = [
                    (rho[o], limits[o][1] if limits[o][1] >= 0 else limits[o][0], place, link)
                    for place, link in enumerate(routes[c])
                    for o in users[link]
                    if o != c and limits[o] is not None and is_candidate(c, o, link)
                ]
                if near:
                    slowest = min(rate for rate, *_ in near)
                    _, cause, _, link = min(
                        (one for one in near if one[0] < slowest + 1e-6), key=lambda one: (one[1], -one[2])
                    )
                    found[c] = (cause, -1) if cause in routes[c] else (link, cause)
            if not found:
                break
            limits = [found.get(c, limit) for c, limit in enumerate(limits)]
    return [(first_of(c, routes[c]), -1) if limit is None else limit for c, limit in enumerate(limits)]


PAIRS = st.tuples(st.integers(0, 7), st.integers(1, 7)).map(lambda pair: (pair[0], (pair[0] + pair[1]) % 8))


@given(
    st.lists(PAIRS, min_size=1, max_size=9),
    st.sampled_from([("congestion_factor", "port"), ("back_pressure", "port"), ("max_min", "copy")]),
)
def test_bottlenecks_equal_reference(pairs, model):
    name, sharing = model
    machine = {"bandwidth_bytes_per_s": 1.0, "tau": 0.1735}
    rho = evaluate(TREE, from_pairs([pairs], size_bytes=1.0), MODELS[name], **machine).initial_rho
    # With these sizes, all copies end together, so there is one phase with one bottleneck per copy.
    graphs = replace(from_pairs([pairs], size_bytes=1.0), size_bytes=rho.copy())
    found = evaluate(TREE, graphs, MODELS[name], explain=True, **machine)
    assert found.phases.tolist() == [1]
    expected = plain_bottlenecks(pairs, rho.tolist(), 0.1735, sharing)
    assert list(zip(found.bottleneck.tolist(), found.caused_by.tolist(), strict=True)) == expected


@given(
    st.lists(st.tuples(PAIRS, st.sampled_from([1.0, 2.0])), min_size=2, max_size=7),
    st.sampled_from([("congestion_factor", "port"), ("back_pressure", "port"), ("max_min", "copy")]),
)
def test_bottleneck_limits_for_the_longest_time(copies, model):
    name, sharing = model
    machine = {"bandwidth_bytes_per_s": 1.0, "tau": 0.1735}
    pairs, sizes = zip(*copies, strict=True)
    graphs = replace(from_pairs([pairs], size_bytes=1.0), size_bytes=np.array(sizes))
    held = [{} for _ in pairs]
    for phase in trace_phases(TREE, graphs, 0, MODELS[name], **machine):
        limits = plain_bottlenecks([pairs[c] for c in phase.active], phase.rho, 0.1735, sharing)
        for c, (link, _) in zip(phase.active, limits, strict=True):
            held[c][link] = held[c].get(link, 0.0) + phase.duration_s
    found = evaluate(TREE, graphs, MODELS[name], explain=True, **machine).bottleneck.tolist()
    for own, link in zip(held, found, strict=True):
        # Equal durations may differ by rounding.
        assert own[link] == pytest.approx(max(own.values()), rel=1e-9)


def test_tie_of_bottlenecks_is_resolved_by_link_number():
    # Both copies share the link into 2 at first. Then 0>2 is limited by the link of 0 for the same time.
    graphs = replace(from_pairs([[(0, 2), (1, 2)]], size_bytes=1.0), size_bytes=np.array([1.5, 0.5]))
    found = evaluate(TREE, graphs, MODELS["max_min"], explain=True, bandwidth_bytes_per_s=1.0, tau=0.0)
    assert (found.end_s.tolist(), found.phases.tolist()) == ([2.0, 1.0], [2])
    sends, receives = (link_labels(TREE).index(label) for label in ("endpoint 0 sends", "endpoint 2 receives"))
    assert sends < receives
    assert found.bottleneck.tolist() == [sends, receives]
