"""Rates of copy programs: engines, barriers, path classes and shared limits."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricast.core.errors import InputError
from fabricast.pcie.engines.forecast import copy_times, total_rate
from fabricast.pcie.engines.links import SharedLimit
from fabricast.pcie.graphs.programs import PROGRAMS, CopyProgram, program_of
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.paths import copy_class_of, reverse_links
from fabricast.pcie.topology.regular import regular_tree
from tests.unit.pcie.machines.measured import DUPLEX, EVEN, TREE, _measured, pairs, pairs_between, two_roots

# More links than a 64-bit word has bits.
WIDE = regular_tree("wide", (4, 10))


ORDERED = CopyProgram("ordered", "", "source", "target", False, 0.0)


WITHOUT_PAUSE = replace(PROGRAMS["unordered_writes"], switch_share=0.0)
IN_TURNS = CopyProgram("turns", "", "source", "none", False, 0.0)


def held_back_by(tree, flows, rates, limits):
    """Return the resources of each flow, their capacities, and the reverse resource of each.

    Resources are links, slower path classes over ports, and shared limits.
    """
    opposite, capacity, back, found = reverse_links(tree), {}, {}, []
    ways = {
        "host_in": "host_out",
        "host_out": "host_in",
        "crossing": "crossing",
        "remote_in": "remote_out",
        "remote_out": "remote_in",
    }
    for number, (s, t) in enumerate(flows):
        names, way = (tree.endpoint_names[s], tree.endpoint_names[t]), copy_class_of(tree, s, t)
        own = list(tree.route(*names))
        for link in own[:]:
            capacity[link], back[link] = rates.one_way_bytes_per_s * tree.routes.capacity[link], int(opposite[link])
            lower, upper = (tree.vertex(name) for name in tree.link_names[link][:2])
            kinds = {lower.kind, upper.kind}
            is_port = "root_complex" in kinds and "system" not in kinds and not (lower.host_memory or upper.host_memory)
            if is_port and way in ways and rates.of_class(way):
                key = (link, way)
                capacity[key], back[key] = min(capacity[link], rates.of_class(way)), (back[link], ways[way])
                own.append(key)
        if way == "between_roots" and rates.of_class(way):
            capacity["alone", number] = rates.of_class(way)
            own.append(("alone", number))
        for place, limit in enumerate(limits):
            if number in (*limit.flows, *limit.reverse_flows) and (
                (limit.flows and limit.reverse_flows) or not limit.both
            ):
                capacity["limit", place] = limit.bytes_per_s
                own.append(("limit", place))
        found.append(own)
    return found, capacity, back


def shares(tree, flows, rates, limits=()):
    """Compute max-min fair rates in plain Python.

    The tightest link is filled first. The cost of reverse traffic is subtracted from each link until the rates converge.
    """
    routes, capacity, opposite = held_back_by(tree, flows, rates, limits)
    load, found = {}, []
    for _ in range(60):
        left = {
            link: capacity[link] - rates.duplex_cost * load.get(opposite.get(link), 0.0)
            for route in routes
            for link in route
        }
        found, open_flows = [0.0] * len(flows), set(range(len(flows)))
        while open_flows:
            users = {link: [f for f in open_flows if link in routes[f]] for link in left}
            rate, tightest = min(
                ((left[link] / len(own), link) for link, own in users.items() if own), key=lambda x: x[0]
            )
            for flow in users[tightest]:
                found[flow] = rate
                open_flows.remove(flow)
                for link in routes[flow]:
                    left[link] -= rate
        load = {}
        for flow, route in enumerate(routes):
            for link in route:
                load[link] = load.get(link, 0.0) + found[flow]
    return found


def simulated(tree, flows, program, rates, repeats):
    """Simulate a deterministic program copy by copy in plain Python."""
    done, running, now = [0] * len(flows), {}, 0.0
    last = dict.fromkeys(range(len(tree.endpoint_names)), -1)
    turn = {}
    for flow, (_, target) in enumerate(flows):
        turn.setdefault(target, flow)
    while sum(done) < repeats * len(flows):
        for engine in last:
            if program.executor == "source" and any(flows[f][0] == engine for f in running):
                continue
            for step in range(1, len(flows) + 1):
                flow = (last[engine] + step) % len(flows)
                source, target = flows[flow]
                waits = program.serialised == "target" and (
                    turn[target] != flow or any(flows[f][1] == target for f in running)
                )
                if source == engine and flow not in running and done[flow] < repeats and not waits:
                    running[flow], last[engine] = 1.0, flow
                    break
        active = sorted(running)
        rate = dict(zip(active, shares(tree, [flows[f] for f in active], rates), strict=True))
        step_s = min(running[f] * rates.one_way_bytes_per_s / rate[f] for f in active)
        now += step_s
        for flow in active:
            running[flow] -= step_s * rate[flow] / rates.one_way_bytes_per_s
            if running[flow] < 1e-9:
                del running[flow]
                done[flow] += 1
                following = [(flow + k) % len(flows) for k in range(1, len(flows) + 1)]
                own = [f for f in following if flows[f][1] == flows[flow][1] and done[f] < repeats]
                turn[flows[flow][1]] = own[0] if own else -1
    return repeats * len(flows) * rates.one_way_bytes_per_s / now


class Limit(NamedTuple):
    """Shared limit, restricted to the running flows."""

    bytes_per_s: float
    flows: tuple
    reverse_flows: tuple
    both: bool


def ends_together(tree, flows, rates, limits):
    """Compute the completion times of one-second copies that start together, in plain Python."""
    left, ends, now = dict.fromkeys(range(len(flows)), 1.0), [0.0] * len(flows), 0.0
    while left:
        active = sorted(left)
        running = [
            Limit(
                limit.bytes_per_s,
                *(tuple(active.index(f) for f in kind if f in left) for kind in (limit.flows, limit.reverse_flows)),
                bool(limit.reverse_flows),
            )
            for limit in limits
        ]
        rate = shares(tree, [flows[f] for f in active], rates, running)
        step_s = min(left[f] * rates.one_way_bytes_per_s / r for f, r in zip(active, rate, strict=True))
        now += step_s
        for flow, r in zip(active, rate, strict=True):
            left[flow] -= step_s * r / rates.one_way_bytes_per_s
            if left[flow] < 1e-9:
                del left[flow]
                ends[flow] = now
    return ends


TWO_SOCKETS = with_host_memory(load_tree("pcie5_four_switches"))


SLOWER = Rates(
    50e9,
    50e9,
    crossing_bytes_per_s=40e9,
    between_roots_bytes_per_s=30e9,
    host_in_bytes_per_s=45e9,
    host_out_bytes_per_s=35e9,
)


#: Copies between GPUs, and of the host memory of both sockets.
some_copies = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1] and min(pair) < 8),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(some_copies, st.sampled_from([SLOWER, replace(SLOWER, two_way_bytes_per_s=45e9), EVEN]), st.data())
def test_path_classes_and_shared_limits_match_plain_simulation(flows, rates, data):
    number = st.integers(0, len(flows) - 1)
    limits = []
    for _ in range(data.draw(st.integers(0, 2))):
        kinds = [tuple(sorted(data.draw(st.sets(number, min_size=least)))) for least in (1, 0)]
        other = tuple(flow for flow in kinds[1] if flow not in kinds[0])
        limits.append(SharedLimit(data.draw(st.sampled_from([20e9, 60e9, 90e9])), kinds[0], other))
    size = np.full(len(flows), rates.one_way_bytes_per_s)
    completion = copy_times(
        TWO_SOCKETS, flows, PROGRAMS["independent"], rates, limits=limits, size_bytes=size, start_s=np.zeros(len(flows))
    )
    assert completion.end_s == pytest.approx(ends_together(TWO_SOCKETS, flows, rates, limits), rel=1e-4)


def test_bidirectional_limit_applies_only_while_both_directions_run():
    both = SharedLimit(40e9, (0,), (1,))
    size, flows = np.full(2, 50e9), [(8, 0), (1, 8)]

    def ends(start_s):
        return copy_times(
            with_host_memory(TREE),
            flows,
            PROGRAMS["independent"],
            EVEN,
            limits=[both],
            size_bytes=size,
            start_s=np.array([0.0, start_s]),
        ).end_s.tolist()

    assert ends(0.0) == [2.5, 2.5]
    assert ends(10.0) == [1.0, 11.0]
    # Half a second isolated at 50 GB/s, then both at 20 GB/s until the first copy completes.
    assert ends(0.5) == pytest.approx([0.5 + 25 / 20, 1.75 + 25 / 50])


@pytest.mark.parametrize("tree", [TREE, WIDE], ids=lambda tree: tree.name)
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([EVEN, DUPLEX]), st.sampled_from([ORDERED, IN_TURNS]), st.integers(1, 3))
def test_programs_match_plain_simulation(tree, data, rates, program, repeats):
    flows = data.draw(pairs_between(len(tree.endpoint_names)))
    expected = simulated(tree, flows, program, rates, repeats)
    assert total_rate(tree, flows, program, rates, repeats=repeats).bytes_per_s == pytest.approx(expected, rel=1e-4)


def test_wide_tree_has_more_than_64_links():
    assert len(WIDE.link_names) > 64


@given(pairs, st.sampled_from([EVEN, DUPLEX]))
@settings(max_examples=40, deadline=None)
def test_single_round_without_engines_starts_with_max_min_rates(flows, rates):
    total = total_rate(TREE, flows, PROGRAMS["independent"], rates, repeats=1)
    slowest = min(shares(TREE, flows, rates))
    # The last copy completes no later than at its initial rate, and no flow exceeds a link.
    assert total.bytes_per_s >= len(flows) * slowest * (1 - 1e-6)
    assert (total.flow_bytes_per_s <= rates.one_way_bytes_per_s * (1 + 1e-9)).all()


@pytest.mark.parametrize("two_way", [54e9, 45e9, 34e9, 28e9])
def test_duplex_cost_reproduces_bidirectional_rate(two_way):
    both = total_rate(TREE, [(0, 1), (1, 0)], PROGRAMS["independent"], Rates(56e9, two_way))
    assert both.bytes_per_s == pytest.approx(2 * two_way, rel=1e-6)


def test_single_engine_yields_harmonic_mean():
    """The total of n copies in round-robin order is n over the sum of inverse rates."""
    rates = Rates(54.1e9, 54.1e9, crossing_bytes_per_s=37.7e9)
    tree = load_tree("paired_virtual_switches")
    total = total_rate(tree, [(0, 4), (0, 2)], WITHOUT_PAUSE, rates, repeats=50).bytes_per_s
    assert total == pytest.approx(2 / (1 / 54.1e9 + 1 / 37.7e9), rel=0.02)
    sharing = total_rate(tree, [(0, 4), (0, 2)], PROGRAMS["independent"], rates, repeats=50).bytes_per_s
    assert sharing > total * 1.1


def test_random_programs_depend_only_on_the_seed():
    flows = [(i, j) for i in range(4) for j in range(4) if i != j]
    first, again = (total_rate(TREE, flows, PROGRAMS["ordered_writes"], DUPLEX, seed=3) for _ in range(2))
    assert first.bytes_per_s == again.bytes_per_s
    assert first.low_bytes_per_s < first.bytes_per_s < first.high_bytes_per_s
    with pytest.raises(InputError, match="expected two different endpoints"):
        total_rate(TREE, [(1, 1)], ORDERED, EVEN)
    with pytest.raises(InputError, match="number of flows is 0"):
        total_rate(TREE, [], ORDERED, EVEN)
    with pytest.raises(InputError, match="program"):
        program_of("fortran")
    with pytest.raises(InputError, match="half"):
        Rates(50e9, 20e9)


def test_ordered_writes_into_memory_do_not_wait():
    """Streams order copies into a GPU, but not copies into host memory."""
    rows = [
        ("0>1", 26.3, "calibration"),
        ("0>H", 26.2, "calibration"),
        ("0>H 1>H 2>H 3>H", 100, "calibration"),
        ("0>H 1>H 2>H", 78, ""),
    ]
    graphs = [replace(graph, program="ordered_writes") for graph in _measured(*rows)]
    report = validate_machine(two_roots("0123", "4567"), graphs)
    assert report.rows["judged"].tolist() == [False, False, False, True]
    assert abs(report.rows["relative_error"].iloc[3]) < 0.03


def test_round_robin_copies_of_one_gpu_do_not_reach_shared_limit():
    rows = [("0>1", 26.4, "calibration"), ("H>0", 26.4, "calibration"), ("0>4 1>5 2>6 3>7", 32, "calibration")]
    fan = MeasuredGraph("fan", tuple(("0", str(n)) for n in range(4, 8)), 9.2e9, "unordered_writes")
    assert not validate_machine(two_roots("0123", "4567"), [*_measured(*rows), fan]).rows["judged"].iloc[-1]


def test_network_cards_execute_their_copies():
    """A GPU serialises its copies to GPUs, but not the reads of two network cards."""
    vertices = [*TREE.vertices]
    cards = [replace(v, network_card=v.name in ("4", "5")) for v in vertices]
    flows, size = [(0, 4), (0, 5)], np.full(2, 50e9)
    for tree, ends in ((TREE, [1, 2]), (replace(TREE, vertices=tuple(cards)), [2, 2])):
        completion = copy_times(
            tree, flows, replace(WITHOUT_PAUSE, random_turns=False), EVEN, size_bytes=size, start_s=np.zeros(2)
        )
        assert completion.end_s.tolist() == ends


def test_summed_rates_exceed_rate_until_last_completion():
    """Two of three copies share a 50 GB/s link: 100 GB/s as a sum, 75 GB/s to the end."""
    graph = replace(_measured(("0>4 1>5 2>3", 100, ""))[0], statistic="sum_of_copies")
    rows = validate_machine(
        load_tree("flat4x2"), [*_measured(("0>1", 50, "calibration"), ("0>4 1>5 2>3 ", 75, "")), graph]
    ).rows
    assert rows["relative_error"].tolist() == pytest.approx([0, 0, 0], abs=1e-3)
