"""Tests of bottlenecks and their sharers against plain Python loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_arcs
from fabricast.pcie.models.bottlenecks import link_labels, sharers
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate, trace_phases
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.regular import regular_tree

TREE = regular_tree("storm8", (2, 2, 2))
COPIES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 6), st.floats(0, 2), st.floats(0.1, 3)), min_size=1, max_size=12
)  # fmt: skip


def plain(graphs, bottleneck, end_s):
    """Return the copies that share the bottleneck of each copy (reference)."""
    texts = []
    for graph in range(len(graphs)):
        rows = range(graphs.offset[graph], graphs.offset[graph + 1])
        for one in rows:
            found = []
            for other in rows:
                route = TREE.route(*(TREE.endpoint_names[e[other]] for e in (graphs.source, graphs.target)))
                together = graphs.start_s[one] < end_s[other] and graphs.start_s[other] < end_s[one]
                if other != one and together and bottleneck[one] >= 0 and bottleneck[one] in route:
                    found.append(f"{graphs.source[other]}>{graphs.target[other]}")
            texts.append(" ".join(found))
    return texts


@given(st.lists(COPIES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_sharers_equal_reference(drawn, random):
    rows = [row for graph in drawn for row in graph]
    source = np.array([s for s, *_ in rows])
    target = (source + 1 + np.array([t for _, t, *_ in rows])) % 8
    start = np.array([row[2] for row in rows])
    graphs = CongestionGraphs(
        names=tuple(map(str, range(len(drawn)))), families=("user",) * len(drawn),
        offset=np.concatenate([[0], np.cumsum([len(graph) for graph in drawn])]).astype(np.int64),
        source=source, target=target, size_bytes=np.ones(len(rows)), start_s=start,
    )  # fmt: skip
    end_s = start + np.array([row[3] for row in rows])
    bottleneck = np.array([random.randrange(-1, len(TREE.link_names)) for _ in rows])
    for number in range(len(rows)):
        if random.random() < 0.7:
            bottleneck[number] = random.choice(TREE.route(str(source[number]), str(target[number])))
    assert sharers(TREE, graphs, bottleneck, end_s).tolist() == plain(graphs, bottleneck, end_s)


def test_names_of_sharers_may_contain_any_letters(tmp_path):
    path = tmp_path / "named.yaml"
    names = ["Größe", "b", "显卡 2", "long_name_3"]
    path.write_text(
        "name: named\nvertices:\n- {name: root, kind: switch}\n"
        + "".join(f"- {{name: {name}, kind: endpoint, parent: root}}\n" for name in names),
        encoding="utf-8",
    )
    tree = load_tree(path)
    assert list(tree.endpoint_names) == names
    graphs = from_arcs([[(0, 1), (2, 1), (3, 1)], [(0, 2)]], size_bytes=1.0)
    receives = np.array([link_labels(tree).index(f"endpoint {name} receives") for name in ("b", "b", "b", "显卡 2")])
    assert sharers(tree, graphs, receives, np.ones(4)).tolist() == [
        "显卡 2>b long_name_3>b", "Größe>b long_name_3>b", "Größe>b 显卡 2>b", "",
    ]  # fmt: skip


def plain_bottlenecks(arcs, rho, tau, sharing):
    """Return the link that limits each copy (reference).

    This is a saturated link on which the copy gets its share, or the bottleneck of the copies that throttle it.
    """
    routes = [TREE.route(TREE.endpoint_names[s], TREE.endpoint_names[t]) for s, t in arcs]
    users = {link: [c for c, route in enumerate(routes) if link in route] for route in routes for link in route}
    crosses = [TREE.routes.crossing[s * 8 + t] for s, t in arcs]
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

    limits = [first_of(c, [link for link in routes[c] if is_limited(c, link)]) for c in range(len(arcs))]
    while None in limits:
        held = {}
        for c, own in enumerate(limits):
            near = [o for link in routes[c] for o in users[link] if o != c and limits[o] is not None]
            if own is None and near:
                slowest = min(rho[o] for o in near)
                held[c] = min(limits[o] for o in near if rho[o] < slowest + 1e-6)
        if not held:
            break
        limits = [held.get(c, own) for c, own in enumerate(limits)]
    return [first_of(c, routes[c]) if own is None else own for c, own in enumerate(limits)]


PAIRS = st.tuples(st.integers(0, 7), st.integers(1, 7)).map(lambda pair: (pair[0], (pair[0] + pair[1]) % 8))


@given(
    st.lists(PAIRS, min_size=1, max_size=9),
    st.sampled_from([("congestion_factor", "port"), ("back_pressure", "port"), ("max_min", "copy")]),
)
def test_bottlenecks_equal_reference(arcs, model):
    name, sharing = model
    machine = {"bandwidth_bytes_per_s": 1.0, "tau": 0.1735}
    rho = evaluate(TREE, from_arcs([arcs], size_bytes=1.0), MODELS[name], **machine).initial_rho
    # With these sizes, all copies end together, so there is one phase with one bottleneck per copy.
    graphs = replace(from_arcs([arcs], size_bytes=1.0), size_bytes=rho.copy())
    found = evaluate(TREE, graphs, MODELS[name], explain=True, **machine)
    assert found.phases.tolist() == [1]
    assert found.bottleneck.tolist() == plain_bottlenecks(arcs, rho.tolist(), 0.1735, sharing)


@given(
    st.lists(st.tuples(PAIRS, st.sampled_from([1.0, 2.0])), min_size=2, max_size=7),
    st.sampled_from([("congestion_factor", "port"), ("back_pressure", "port"), ("max_min", "copy")]),
)
def test_bottleneck_limits_for_the_longest_time(copies, model):
    name, sharing = model
    machine = {"bandwidth_bytes_per_s": 1.0, "tau": 0.1735}
    arcs, sizes = zip(*copies, strict=True)
    graphs = replace(from_arcs([arcs], size_bytes=1.0), size_bytes=np.array(sizes))
    held = [{} for _ in arcs]
    for phase in trace_phases(TREE, graphs, 0, MODELS[name], **machine):
        limits = plain_bottlenecks([arcs[c] for c in phase.active], phase.rho, 0.1735, sharing)
        for c, link in zip(phase.active, limits, strict=True):
            held[c][link] = held[c].get(link, 0.0) + phase.duration_s
    found = evaluate(TREE, graphs, MODELS[name], explain=True, **machine).bottleneck.tolist()
    for own, link in zip(held, found, strict=True):
        # Equal durations may differ by rounding.
        assert own[link] == pytest.approx(max(own.values()), rel=1e-9)


def test_tie_of_bottlenecks_is_resolved_by_link_number():
    # Both copies share the link into 2 at first. Then 0>2 is limited by the link of 0 for the same time.
    graphs = replace(from_arcs([[(0, 2), (1, 2)]], size_bytes=1.0), size_bytes=np.array([1.5, 0.5]))
    found = evaluate(TREE, graphs, MODELS["max_min"], explain=True, bandwidth_bytes_per_s=1.0, tau=0.0)
    assert (found.end_s.tolist(), found.phases.tolist()) == ([2.0, 1.0], [2])
    sends, receives = (link_labels(TREE).index(label) for label in ("endpoint 0 sends", "endpoint 2 receives"))
    assert sends < receives
    assert found.bottleneck.tolist() == [sends, receives]
