"""Tests of the port model with engines: reference in plain Python, limiting cases, and public measurements."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricast.pcie.engines.batch import graph_times, new_sets
from fabricast.pcie.engines.forecast import copy_times, total_rate
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Rates, printed_rates
from fabricast.pcie.machines.engine_model import EngineModel
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.paths import reverse_links
from tests.reference_model import back_pressure_rates

TREES = {name: load_tree(name) for name in ("storm8", "flat4x2", "boards4", "crossed_virtual_switches")}
PAIRS = st.tuples(st.integers(0, 7), st.integers(1, 7)).map(lambda pair: (pair[0], (pair[0] + pair[1]) % 8))
FLOWS = st.lists(PAIRS, min_size=1, max_size=7, unique=True)
ONE_WAY = 50e9


def times(tree, flows, program, rates, size=None, sharing="ports", **options):
    size = np.full(len(flows), ONE_WAY) if size is None else size
    return copy_times(
        tree, flows, program, rates, size_bytes=size, start_s=np.zeros(len(flows)), sharing=sharing, **options
    )


@given(st.sampled_from(sorted(TREES)), FLOWS, st.sampled_from([0.0, 0.1735]), st.sampled_from([1.0, 1.2]))
def test_independent_copies_equal_the_back_pressure_model(tree_name, flows, tau, cost):
    tree, rates = TREES[tree_name], Rates(ONE_WAY, ONE_WAY, tau=tau, crossing_cost=cost)
    size = ONE_WAY * np.linspace(1, 2, len(flows))
    expected = evaluate(
        tree,
        replace(from_pairs([flows], size_bytes=1.0), size_bytes=size),
        MODELS["back_pressure"],
        bandwidth_bytes_per_s=ONE_WAY,
        tau=tau,
        crossing_cost=cost,
    )
    assert times(tree, flows, PROGRAMS["independent"], rates, size).end_s == pytest.approx(expected.end_s, rel=1e-8)


def port_rates(tree, flows, rates):
    """Return the rates of running copies in bytes/s (reference): back-pressure on links with traffic both ways."""
    names, opposite = tree.endpoint_names, reverse_links(tree)
    capacity = tree.routes.capacity.astype(float)
    load = np.zeros(capacity.size)
    for _ in range(60):
        free = capacity - rates.duplex_cost * load[opposite]
        found = back_pressure_rates(tree, flows, 1.0, 1.0, capacity=free)
        load *= 0.5
        for (source, target), rate in zip(flows, found, strict=True):
            for link in tree.route(names[source], names[target]):
                load[link] += 0.5 * rate
    return [rate * rates.one_way_bytes_per_s for rate in found]


def executed(tree, flows, program, rates):
    """Return the completion time of each copy (reference): every copy runs once, in order of issue."""
    running, ended, ends, now = {}, set(), [0.0] * len(flows), 0.0
    while len(ended) < len(flows):
        for number, (source, target) in enumerate(flows):
            if number in running or number in ended:
                continue
            engine = {"source": source, "target": target}.get(program.executor)
            column = {"source": 0, "target": 1}.get(program.executor)
            busy = engine is not None and any(flows[other][column] == engine for other in running)
            points = {"none": set(), "target": {target}, "both": {source, target}}[program.serialised]
            watched = {"none": (), "target": (1,), "both": (0, 1)}[program.serialised]
            before = [other for other in range(number) if other not in ended]
            waits = any(points & {flows[other][place] for place in watched} for other in before)
            if not busy and not waits:
                running[number] = 1.0
        order = sorted(running)
        rate = dict(zip(order, port_rates(tree, [flows[number] for number in order], rates), strict=True))
        step = min(running[number] * ONE_WAY / rate[number] for number in order)
        now += step
        for number in order:
            running[number] -= step * rate[number] / ONE_WAY
            if running[number] < 1e-7:
                del running[number]
                ended.add(number)
                ends[number] = now
    return ends


@settings(max_examples=15)
@given(
    st.sampled_from(["storm8", "flat4x2"]),
    st.lists(PAIRS, min_size=1, max_size=5, unique=True),
    st.sampled_from(["independent", "default_streams", "ordered_writes"]),
    st.sampled_from([50e9, 47e9]),
)
def test_programs_match_the_reference(tree_name, flows, program, two_way):
    tree, rates = TREES[tree_name], Rates(ONE_WAY, two_way)
    without_pause = replace(PROGRAMS[program], switch_share=0.0)
    expected = executed(tree, flows, without_pause, rates)
    assert times(tree, flows, without_pause, rates).end_s == pytest.approx(expected, rel=1e-4)


@given(st.sampled_from(sorted(TREES)), st.permutations(range(8)), st.sampled_from([50e9, 48e9]))
def test_copies_without_common_links_equal_max_min_sharing(tree_name, order, two_way):
    tree, rates, program = TREES[tree_name], Rates(ONE_WAY, two_way), PROGRAMS["independent"]
    used, flows = set(), []
    for source, target in pairwise(order):
        route = set(tree.route(str(source), str(target)))
        if not route & used:
            flows.append((source, target))
            used |= route
    fair = times(tree, flows, program, rates, sharing="max_min").end_s
    assert times(tree, flows, program, rates).end_s == pytest.approx(fair, rel=1e-6)


@given(st.sampled_from(sorted(TREES)), PAIRS, st.sampled_from(sorted(PROGRAMS)))
def test_isolated_copy_takes_its_isolated_time(tree_name, flow, program):
    rates = Rates(ONE_WAY, 48e9)
    found = times(TREES[tree_name], [flow], PROGRAMS[program], rates, explain=True)
    assert found.end_s.tolist() == pytest.approx([1.0])
    assert found.bottleneck[0].startswith("endpoint ")


@given(st.sampled_from(sorted(TREES)), FLOWS, st.sampled_from(sorted(PROGRAMS)))
def test_rates_of_known_sets_are_those_of_new_sets(tree_name, flows, program):
    tree, rates = TREES[tree_name], Rates(ONE_WAY, 48e9)
    known = times(tree, flows, PROGRAMS[program], rates, draws=3)
    new = times(tree, flows, PROGRAMS[program], rates, draws=3, explain=True)
    assert known.end_s.tolist() == new.end_s.tolist()


@given(st.sampled_from(sorted(TREES)), FLOWS, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter_to_unordered_programs(tree_name, flows, random):
    tree, rates = TREES[tree_name], Rates(ONE_WAY, 48e9)
    order = list(range(len(flows)))
    random.shuffle(order)
    for program in (PROGRAMS["unordered_writes"], PROGRAMS["unordered_reads"]):
        first = times(tree, flows, program, rates, draws=5).end_s
        other = times(tree, [flows[place] for place in order], program, rates, draws=5).end_s
        assert other.tolist() == first[order].tolist()


@pytest.mark.slow
@given(
    st.sampled_from(["storm8", "flat4x2", "boards4"]),
    st.lists(FLOWS, min_size=1, max_size=4),
    st.sampled_from(["independent", "listed_order", "default_streams"]),
    st.sampled_from([0.0, 0.1735]),
)
def test_many_graphs_equal_single_graphs(tree_name, graphs, program, tau):
    tree, rates = TREES[tree_name], Rates(ONE_WAY, 48e9, tau=tau, crossing_cost=1.1)
    sets = from_pairs(graphs, size_bytes=ONE_WAY)
    many = graph_times(tree, sets, PROGRAMS[program], rates, explain=True)
    parts = [times(tree, flows, PROGRAMS[program], rates, explain=True) for flows in graphs]
    # Rates of many graphs are computed with sorted copies, which moves the last digits.
    assert many.end_s == pytest.approx([end for part in parts for end in part.end_s.tolist()], rel=1e-12)
    assert many.bottleneck == tuple(text for part in parts for text in part.bottleneck)
    assert many.caused_by == tuple(text for part in parts for text in part.caused_by)
    plain = graph_times(tree, sets, PROGRAMS[program], rates)
    assert plain.end_s.tolist() == many.end_s.tolist() and plain.bottleneck == ()
    # Two threads that know all sets, once without their bottlenecks, find the same.
    known = [new_sets(), new_sets()]
    for explain in (False, True, True):
        again = graph_times(tree, sets, PROGRAMS[program], rates, explain=explain, sets=known)
        assert again.end_s.tolist() == many.end_s.tolist()
    assert (again.bottleneck, again.caused_by) == (many.bottleneck, many.caused_by)


def test_slow_reads_of_one_reader_overlap():
    tree = load_tree("two_sockets_direct7")
    rates = Rates(57e9, 55e9, between_roots_bytes_per_s=43e9)
    flows = [(source, 0) for source in (1, 4, 5, 6)]
    reads = total_rate(tree, flows, replace(PROGRAMS["unordered_reads"], switch_share=0.0), rates, sharing="ports")
    assert 54e9 < reads.bytes_per_s < 57.5e9
    writes = [(0, target) for target in (1, 4, 5, 6)]
    alone = total_rate(tree, writes, replace(PROGRAMS["unordered_writes"], switch_share=0.0), rates, sharing="ports")
    assert alone.bytes_per_s == pytest.approx(4 / (1 / 57e9 + 3 / 43e9), rel=0.01)


def test_ports_explain_rates_over_one_link():
    # rtx6kpro hardware/wrx90-cpayne-16gpu-4switch.md: 84.4 GB/s, since the program waits for the last listed reader.
    tree, rates = load_tree("wrx90_three_roots"), Rates(56.4e9, 54.7e9)
    flows = [(0, 8), (4, 9), (12, 10)]
    found = {
        sharing: total_rate(
            tree, flows, PROGRAMS["default_streams"], rates, sharing=sharing, statistic="last_listed"
        ).bytes_per_s
        for sharing in ("ports", "max_min")
    }
    assert found["ports"] == pytest.approx(84.4e9, rel=0.005)
    assert found["max_min"] == pytest.approx(56.4e9, rel=0.005)


def test_printed_rates_are_those_of_each_benchmark():
    pairs, ends_s = np.array([[0, 1], [2, 1], [0, 2]]), np.array([[1.0, 2.0, 4.0]])
    assert {
        name: float(printed_rates(pairs, 1.0, ends_s, name)[0])
        for name in ("total", "sum_of_copies", "sum_of_targets", "sum_of_sources", "last_listed")
    } == {"total": 0.75, "sum_of_copies": 1.75, "sum_of_targets": 1.25, "sum_of_sources": 1.0, "last_listed": 0.75}


def test_threads_may_share_a_model():
    tree = load_tree("storm8")
    rng = random.Random(5)
    pairs = [[tuple(rng.sample(range(8), 2)) for _ in range(rng.randint(2, 8))] for _ in range(400)]
    model, graphs = EngineModel(tree, Rates(12e9, 11e9, tau=0.17)), from_pairs(pairs, size_bytes=3e8)
    serial = model.times(graphs).times.end_s
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.times(graphs).times.end_s, range(12)):
            assert found.tolist() == serial.tolist()
