"""Tests of the PCIe models: worked examples, exact reference implementation, invariants."""

import dataclasses
import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabricast.core.units import GIB, MIB
from fabricast.pcie.graphs.congestion_graphs import all_to_all, from_pairs, gather, scatter
from fabricast.pcie.graphs.sets import validation_set
from fabricast.pcie.models.catalogue import ABLATIONS, MODELS
from fabricast.pcie.models.evaluation import evaluate, factors, trace_phases
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.symmetry import automorphisms
from fabricast.pcie.topology.tree import PcieTree
from tests.reference_model import back_pressure_rates, congestion_factors, end_times, max_min_rates

COMPLETE = [(0, 2), (1, 4), (3, 2), (6, 4)]
BANDWIDTH = 11.6 * GIB
SIZE = 300 * MIB
T_REF_MS = 300 / 1024 / 11.6 * 1e3
READINGS = [name for name, model in MODELS.items() if model.method == "congestion_factor"]
# Values of studies/pcie.md for tau = 0.1735. The factors are the same for both interpretations of upstream sharing.
UNIT_CASES = {
    "solo local": ([(0, 1)], ["1"], [25.255927]),
    "solo crossing": ([(0, 4)], ["1"], [25.255927]),
    "scatter 3": (scatter(0, [1, 2, 4]), ["1/3"] * 3, [75.76778] * 3),
    "gather local 2": ([(0, 2), (3, 2)], ["1/2"] * 2, [50.511853] * 2),
    "gather local+cross": ([(1, 0), (4, 0)], ["1347/2000", "653/2000"], [37.49952, 50.511853]),
    "gather 7": (
        gather(0, range(1, 8)),
        ["1347/2000"] + ["879591/8000000"] * 2 + ["426409/16000000"] * 4,
        [37.49952] + [100.254967] * 2 + [176.791487] * 4,
    ),
    "scatter 7": (scatter(0, range(1, 8)), ["1/7"] * 7, [176.791487] * 7),
    "up conflict pair": ([(0, 2), (1, 3)], ["1/2"] * 2, [50.511853] * 2),
    "up conflict quad": ([(0, 4), (2, 6)], ["1/2"] * 2, [50.511853] * 2),
    "head-of-line chain": (
        [(4, 7), (1, 7), (2, 4), (6, 7)],
        ["879591/4000000", "426409/4000000", "426409/4000000", "1347/2000"],
        [62.755447, 88.780114, 88.780114, 37.49952],
    ),
    "bidirectional": ([(0, 4), (4, 0)], ["1", "1"], [25.255927] * 2),
    "ring 2D step 1": ([(0, 4), (1, 0), (2, 1), (3, 2), (4, 5), (5, 6), (6, 7), (7, 3)], ["1"] * 8, [25.255927] * 8),
}


def end_ms(tree, pairs, model="congestion_factor", tau=0.1735):
    graphs = from_pairs([pairs], size_bytes=SIZE)
    return evaluate(tree, graphs, MODELS[model], bandwidth_bytes_per_s=BANDWIDTH, tau=tau).end_s * 1e3


def test_reference_time(storm8):
    assert end_ms(storm8, [(0, 1)])[0] == pytest.approx(25.256, abs=5e-4)


def test_worked_example_matches_published_digits(storm8):
    graphs = from_pairs([COMPLETE], size_bytes=SIZE)
    first, second = trace_phases(
        storm8, graphs, 0, MODELS["congestion_factor"], bandwidth_bytes_per_s=BANDWIDTH, tau=0.2
    )
    assert first.rho == pytest.approx([0.3, 0.3, 0.7, 0.7], abs=1e-12)
    assert first.duration_s * 1e3 == pytest.approx(36.080, abs=5e-4)
    assert first.transferred_bytes[0] / MIB == pytest.approx(128.571, abs=5e-4)
    assert second.active == (0, 1)
    assert second.rho == pytest.approx([0.5, 0.5], abs=1e-12)
    assert (second.start_s + second.duration_s) * 1e3 == pytest.approx(64.944, abs=5e-4)


def test_columns_of_the_worked_example(storm8):
    # Column B: upstream sharing only, without downstream conflicts. Column C: one downstream sweep.
    assert factors(storm8, [(0, 2), (1, 4)], MODELS["congestion_factor"], tau=0.2).tolist() == [0.5, 0.5]
    column_c = factors(storm8, COMPLETE, MODELS["without_head_of_line"], tau=0.2)
    assert column_c == pytest.approx([0.5, 0.3, 0.5, 0.7], abs=1e-12)
    column_d = factors(storm8, COMPLETE, MODELS["congestion_factor"], tau=0.2)
    assert column_d == pytest.approx([0.3, 0.3, 0.7, 0.7], abs=1e-12)
    assert factors(storm8, COMPLETE, MODELS["two_rounds"], tau=0.2) == pytest.approx(column_d, abs=1e-12)


def test_three_copies(storm8):
    pairs = [(0, 7), (1, 4), (6, 7)]
    assert factors(storm8, pairs, MODELS["congestion_factor"], tau=0.2) == pytest.approx([0.3, 0.3, 0.7])
    assert end_ms(storm8, pairs, tau=0.2) == pytest.approx([64.944, 64.944, 36.080], abs=5e-4)


@pytest.mark.parametrize("model", ["congestion_factor", "round_robin_upstream"])
@pytest.mark.parametrize("case", UNIT_CASES)
def test_unit_cases(storm8, case, model):
    pairs, rho, times = UNIT_CASES[case]
    assert factors(storm8, pairs, MODELS[model], tau=0.1735) == pytest.approx(
        [float(Fraction(x)) for x in rho], abs=1e-12
    )
    if model == "congestion_factor":
        assert end_ms(storm8, pairs) == pytest.approx(times, abs=1e-5)


def test_recorded_unit_cases(storm8, shared_data):
    recorded = json.loads((shared_data / "pcie" / "worked_example.json").read_text())
    for case in recorded["unit_cases_storm8_tau_0.1735"]:
        pairs = [tuple(pair) for pair in case["comms"]]
        expected = [float(Fraction(x)) for x in case["rho"]]
        assert factors(storm8, pairs, MODELS["congestion_factor"], tau=0.1735) == pytest.approx(expected, abs=1e-12)
        assert end_ms(storm8, pairs) == pytest.approx(case["finish_ms"], abs=1e-5), case["name"]


@st.composite
def trees(draw):
    """Generate small trees with unequal links, several sockets or parallel uplinks."""
    sockets = draw(st.integers(1, 2))
    vertices = [Vertex("SYS", "system", None)] if sockets == 2 else []
    parents = []
    for socket in range(sockets):
        vertices.append(Vertex(f"RC{socket}", "root_complex", "SYS" if sockets == 2 else None))
        parents.append(f"RC{socket}")
    capacity = st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0])
    for number in range(draw(st.integers(0, 4))):
        vertices.append(Vertex(f"S{number}", "switch", draw(st.sampled_from(parents)), draw(capacity)))
        parents.append(f"S{number}")
    leaves = []
    for parent in parents:
        leaves += [Vertex(f"{parent}g{i}", "endpoint", parent, draw(capacity)) for i in range(draw(st.integers(1, 3)))]
    return PcieTree("drawn", tuple(vertices + leaves))


@st.composite
def trees_and_pairs(draw, most=7):
    tree = draw(trees())
    ends = st.integers(0, len(tree.endpoint_names) - 1)
    pairs = st.tuples(ends, ends).filter(lambda pair: pair[0] != pair[1])
    return tree, draw(st.lists(pairs, min_size=1, max_size=most))


@given(tree=trees())
def test_links_on_a_route_have_ascending_numbers(tree):
    # Kernels visit links by number, and therefore those of each route in their order on the route.
    offset, link = tree.routes.offset, tree.routes.link
    assert all((np.diff(link[first:end]) > 0).all() for first, end in itertools.pairwise(offset))


TAUS = st.sampled_from([Fraction(0), Fraction(1, 5), Fraction(347, 2000), Fraction(2, 5)])


@pytest.mark.slow
@pytest.mark.parametrize("model", READINGS)
@settings(max_examples=60)
@given(case=trees_and_pairs(), tau=TAUS)
def test_kernel_equals_exact_reference(model, case, tau):
    tree, pairs = case
    options = MODELS[model].options
    exact = congestion_factors(tree, pairs, options, tau if MODELS[model].uses_tau else 0)
    found = factors(tree, pairs, MODELS[model], tau=float(tau))
    assert found == pytest.approx([float(rho) for rho in exact], abs=1e-9)


@settings(max_examples=60)
@given(case=trees_and_pairs())
def test_max_min_equals_exact_reference(case):
    tree, pairs = case
    exact = [float(rate) for rate in max_min_rates(tree, pairs)]
    assert factors(tree, pairs, MODELS["max_min"], tau=0) == pytest.approx(exact, abs=1e-9)


@settings(max_examples=60)
@given(case=trees_and_pairs(most=62), data=st.data())
def test_bit_mask_max_min_is_bitwise_identical_to_general_max_min(case, data):
    tree, pairs = case
    times = data.draw(
        st.lists(st.tuples(st.integers(1, 20), st.integers(0, 6)), min_size=len(pairs), max_size=len(pairs))
    )
    whole = from_pairs([pairs], size_bytes=1.0)
    graphs = dataclasses.replace(
        whole, size_bytes=np.array([float(size) for size, _ in times]), start_s=np.array([float(at) for _, at in times])
    )
    # With `explain`, the general implementation is used.
    few, general = (
        evaluate(tree, graphs, MODELS["max_min"], bandwidth_bytes_per_s=1.0, tau=0.0, explain=explain)
        for explain in (False, True)
    )
    assert few.end_s.tolist() == general.end_s.tolist()
    assert few.initial_rho.tolist() == general.initial_rho.tolist()
    assert few.phases.tolist() == general.phases.tolist()


@pytest.mark.parametrize("count", [61, 62, 63, 240])
def test_max_min_of_many_copies_equals_general_max_min(count):
    tree = load_tree("flat4x4")
    graphs = from_pairs([all_to_all(range(16))[:count], [(0, 1)]], size_bytes=1.0)
    few, general = (
        evaluate(tree, graphs, MODELS["max_min"], bandwidth_bytes_per_s=1.0, tau=0.0, explain=explain).end_s.tolist()
        for explain in (False, True)
    )
    assert few == general
    assert few[-1] == 1.0


@settings(max_examples=40)
@given(case=trees_and_pairs(most=5), data=st.data())
def test_event_loop_equals_exact_reference(case, data):
    tree, pairs = case
    sizes = data.draw(st.lists(st.integers(1, 20), min_size=len(pairs), max_size=len(pairs)))
    starts = data.draw(st.lists(st.integers(0, 6), min_size=len(pairs), max_size=len(pairs)))
    graphs = from_pairs([pairs], size_bytes=1.0)
    graphs.size_bytes[:] = sizes
    graphs.start_s[:] = starts
    options = MODELS["congestion_factor"].options
    exact = end_times(
        tree, pairs, sizes, starts, Fraction(2), lambda t, a: congestion_factors(t, a, options, Fraction(1, 5))
    )
    end_s = evaluate(tree, graphs, MODELS["congestion_factor"], bandwidth_bytes_per_s=2.0, tau=0.2).end_s
    assert end_s == pytest.approx([float(end) for end in exact], rel=1e-7)


#: The copy 0>4 crosses the root complex and has the factor 0 at tau = 2/5.
CROSSING_STOPS = PcieTree(
    "drawn",
    (
        Vertex("RC0", "root_complex", None),
        *(Vertex(f"S{number}", "switch", "RC0") for number in range(2)),
        *(Vertex(f"{parent}g{n}", "endpoint", parent) for n, parent in enumerate(("RC0", "S0", "S1", "S1", "S1"))),
    ),
)


@settings(max_examples=80)
@given(case=trees_and_pairs(most=12), tau=TAUS)
@example(case=(load_tree("storm8"), [(4, 7), (1, 7), (2, 4), (6, 7)]), tau=Fraction(1, 5))
@example(case=(CROSSING_STOPS, [(0, 4), (2, 4), (3, 4)]), tau=Fraction(2, 5))
def test_factors_are_feasible(case, tau):
    tree, pairs = case
    rho = factors(tree, pairs, MODELS["congestion_factor"], tau=float(tau))
    assert (rho >= 0).all()
    # A copy that crosses the root complex stops if tau exceeds the share of its group.
    exact = congestion_factors(tree, pairs, MODELS["congestion_factor"].options, tau)
    assert (rho > 0).tolist() == [factor > 0 for factor in exact]
    routes = tree.routes
    load = np.zeros(routes.capacity.size)
    for (source, target), rate in zip(pairs, rho, strict=True):
        pair = source * routes.endpoints + target
        load[routes.link[routes.offset[pair] : routes.offset[pair + 1]]] += rate
    assert (load <= routes.capacity + 1e-9).all()


@pytest.mark.parametrize("name", ["storm8", "flat4x2", "boards4", "dgx1", "paired_virtual_switches"])
def test_symmetric_relabelling_permutes_factors(name):
    tree = load_tree(name)
    rng = np.random.default_rng(7)
    possible = all_to_all(range(8))
    for _ in range(40):
        pairs = [possible[i] for i in rng.choice(56, size=6, replace=False)]
        image = automorphisms(tree)[rng.integers(len(automorphisms(tree)))]
        moved = [(int(image[s]), int(image[t])) for s, t in pairs]
        one, other = (factors(tree, a, MODELS["congestion_factor"], tau=0.1735) for a in (pairs, moved))
        assert one == pytest.approx(other, abs=1e-12)


def test_order_of_copies_does_not_matter(storm8):
    rng = np.random.default_rng(3)
    pairs = all_to_all(range(5))
    expected = dict(zip(pairs, factors(storm8, pairs, MODELS["congestion_factor"], tau=0.1735), strict=True))
    for _ in range(5):
        shuffled = [pairs[i] for i in rng.permutation(len(pairs))]
        found = factors(storm8, shuffled, MODELS["congestion_factor"], tau=0.1735)
        assert found == pytest.approx([expected[pair] for pair in shuffled], abs=1e-12)


@pytest.mark.parametrize("name", ["storm8", "flat4x2", "cascade8", "direct8"])
@pytest.mark.parametrize("pattern", [scatter, gather])
@pytest.mark.parametrize("others", range(1, 8))
def test_scatter_and_gather_take_k_times_the_isolated_time(name, pattern, others):
    ends = end_ms(load_tree(name), pattern(0, range(1, others + 1)))
    assert ends.max() == pytest.approx(others * T_REF_MS, rel=1e-9)


BACK_PRESSURE = MODELS["back_pressure"]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["storm8", "flat4x2", "boards4", "dgx1", "direct8"]),
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1]),
        min_size=1,
        max_size=9,
        unique=True,
    ),
    st.sampled_from([0.0, 0.1, 0.1735, 0.3]),
    st.sampled_from([1.0, 1.086, 1.25]),
)
def test_back_pressure_equals_reference_and_respects_capacities(topology, pairs, tau, cost):
    tree = load_tree(topology)
    payload = (1 - 2 * tau) / (1 + 2 * tau * cost)
    found = factors(tree, pairs, BACK_PRESSURE, tau=tau, crossing_cost=cost)
    assert found == pytest.approx(back_pressure_rates(tree, pairs, payload, cost), rel=1e-7)
    load = np.zeros(len(tree.link_names))
    for (source, target), rho in zip(pairs, found, strict=True):
        load[tree.route(tree.endpoint_names[source], tree.endpoint_names[target])] += rho
    assert (found > 0).all()
    assert (load <= tree.routes.capacity + 1e-6).all()


def test_back_pressure_matches_hand_calculation(storm8):
    # Whole local packets alternate with half crossing packets: shares 1 / (1 + w) and w / (1 + w) differ by 2 tau.
    local, crossing = factors(storm8, [(1, 0), (4, 0)], BACK_PRESSURE, tau=0.1735)
    assert local - crossing == pytest.approx(2 * 0.1735)
    assert local + crossing == pytest.approx(1.0)
    # 0>1 waits behind 0>2 and 0>4, which share the uplink of their switch with 1>2.
    assert factors(storm8, [(0, 1), (0, 2), (0, 4), (1, 2)], BACK_PRESSURE, tau=0).tolist() == pytest.approx(
        [0.25, 0.25, 0.25, 0.5]
    )
    # An isolated copy across the root complex is slower because of its smaller packets.
    assert factors(storm8, [(0, 4)], BACK_PRESSURE, tau=0.162, crossing_cost=1.25) == pytest.approx([0.8])


def test_models_agree_without_conflicts(storm8):
    for model in MODELS:
        assert factors(storm8, [(0, 1), (2, 3)], MODELS[model], tau=0.1735).tolist() == [1.0, 1.0], model


def test_models_agree_with_max_min_on_one_conflict_without_tau(storm8):
    for model in ("congestion_factor", "round_robin_upstream", "without_head_of_line"):
        rho = factors(storm8, [(0, 1), (2, 1), (4, 1)], MODELS[model], tau=0.0)
        assert rho == pytest.approx([0.5, 0.25, 0.25])


@pytest.mark.slow
def test_each_single_option_changes_results(storm8, flat4x2):
    boards4 = load_tree("boards4")
    graphs = {}
    for tree in (storm8, flat4x2, boards4):
        graphs[tree.name] = from_pairs([pairs for _, pairs in validation_set(tree, 6000)], size_bytes=SIZE)
    keywords = {"bandwidth_bytes_per_s": BANDWIDTH, "tau": 0.1735}
    for name in ABLATIONS:
        changed = 0
        for tree in (storm8, flat4x2, boards4):
            slides = evaluate(tree, graphs[tree.name], MODELS["congestion_factor"], **keywords).end_s
            other = evaluate(tree, graphs[tree.name], MODELS[name], **keywords).end_s
            changed += int((np.abs(other / slides - 1) > 1e-9).sum())
        assert changed > 0, name


def test_threads_do_not_change_results(storm8):
    graphs = from_pairs([pairs for _, pairs in validation_set(storm8, 5000)], size_bytes=SIZE)
    keywords = {"bandwidth_bytes_per_s": BANDWIDTH, "tau": 0.1735}
    one, two, three = (
        evaluate(storm8, graphs, MODELS["congestion_factor"], threads=threads, **keywords) for threads in (1, 2, 3)
    )
    assert one.end_s.tobytes() == two.end_s.tobytes() == three.end_s.tobytes()


def test_later_copy_does_not_delay_earlier_completion(storm8):
    graphs = from_pairs([[(0, 2), (1, 3)]], size_bytes=SIZE)
    graphs.start_s[1] = 1.0
    ends = evaluate(storm8, graphs, MODELS["congestion_factor"], bandwidth_bytes_per_s=BANDWIDTH, tau=0.2).end_s
    assert ends * 1e3 == pytest.approx([T_REF_MS, 1000 + T_REF_MS])
