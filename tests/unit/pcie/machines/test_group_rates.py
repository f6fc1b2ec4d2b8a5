"""Copies of host memory of GPUs with different rates: narrow links, slow sockets, and shared memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabricast as fc
from fabricast.pcie.engines.forecast import copy_times
from fabricast.pcie.engines.links import SharedLimit
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.machines.calibrate import calibrate_machine
from fabricast.pcie.machines.engine_model import EngineModel
from fabricast.pcie.machines.group_rates import IsolatedCopy, slow_links
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.paths import link_labels
from fabricast.pcie.topology.tree import PcieTree

RATES = Rates(50e9, 50e9)


def one_root(*capacities):
    """Return GPUs on ports of one root complex, with the capacity of each link."""
    gpus = [Vertex(str(n), "endpoint", "RC", capacity=capacity) for n, capacity in enumerate(capacities)]
    return with_host_memory(PcieTree("machine", (Vertex("RC", "root_complex", None), *gpus)))


def rates_of(tree, flows, limits=()):
    """Return the rate of each copy while all run, in units of 1e9 bytes/s."""
    # The copies are so long that none ends before the others by more than rounding.
    sizes = np.full(len(flows), 50e9)
    found = copy_times(
        tree,
        flows,
        PROGRAMS["independent"],
        RATES,
        size_bytes=sizes,
        start_s=np.zeros(len(flows)),
        sharing="ports",
        limits=limits,
    )
    return sizes / found.end_s / 1e9


@given(st.lists(st.sampled_from([0.0625, 0.25, 0.5, 1.0]), min_size=2, max_size=6))
def test_a_gpu_with_a_narrow_link_slows_only_its_own_copies(capacities):
    tree = one_root(*capacities)
    memory = tree.endpoint_number["H@RC"]
    into = [(memory, gpu) for gpu in range(len(capacities))]
    out_of = [(gpu, memory) for gpu in range(len(capacities))]
    for flows in (into, out_of):
        assert rates_of(tree, flows) == pytest.approx(50 * np.array(capacities), rel=1e-6)


def test_readers_of_full_memory_use_what_a_narrow_link_leaves():
    tree = one_root(0.1, 1.0, 1.0)
    memory = tree.endpoint_number["H@RC"]
    flows = [(memory, gpu) for gpu in range(3)]
    limit = SharedLimit(45e9, (0, 1, 2), name="memory", serves_separately=True)
    # The narrow link takes 5 of 45 GB/s; the copies are equally long, so that the others end first.
    assert rates_of(tree, flows, [limit]) == pytest.approx([5, 20, 20], rel=1e-6)
    # A resource with one queue is as slow as the slowest of its flows.
    queue = SharedLimit(45e9, (0, 1, 2), name="queue")
    assert rates_of(tree, flows, [queue])[1] == pytest.approx(5, rel=1e-6)


def measured(rates):
    return [
        MeasuredGraph(f"{source} to {target}", ((source, target),), rate, "independent")
        for (source, target), rate in rates.items()
    ]


def test_each_socket_keeps_its_rates_of_host_copies():
    """H2D of 44.2 and 25.4 GB/s per socket are not averaged, and other GPUs have the rate of their root complex."""
    tree = load_tree("two_sockets_direct7")
    graphs = measured({("H", "0"): 44.2e9, ("H", "1"): 44.0e9, ("H", "4"): 25.4e9, ("H", "5"): 25.6e9})
    calibration = calibrate_machine(with_host_memory(tree), graphs)
    assert calibration.group_rates == {("4", "host_in"): 25.4e9, ("5", "host_in"): 25.6e9, ("6", "host_in"): 25.5e9}
    assert calibration.values["host_in_of_slow_groups"] == 25.5e9
    assert "4 (25.4 GB/s)" in calibration.sources["host_in_of_slow_groups"]
    assert "6 (assumed 25.5 GB/s)" in calibration.sources["host_in_of_slow_groups"]
    model = EngineModel(tree, calibration)
    number = model.tree.endpoint_number
    every = [(number["H@RC0" if gpu < 4 else "H@RC1"], gpu) for gpu in range(7)]
    graph = from_pairs([every], size_bytes=1e9)
    expected = [1 / 44.1] * 4 + [1 / 25.4, 1 / 25.6, 1 / 25.5]
    assert model.times(graph).times.end_s == pytest.approx(expected, rel=1e-6)
    assert model.isolated_s(graph) == pytest.approx(expected, rel=1e-6)


def test_small_differences_between_gpus_are_noise():
    tree = load_tree("two_sockets_direct7")
    graphs = measured({("H", "0"): 44e9, ("H", "1"): 42e9, ("H", "4"): 40e9})
    calibration = calibrate_machine(with_host_memory(tree), graphs)
    assert not calibration.group_rates
    assert calibration.one_way_bytes_per_s == 42e9


def test_directions_are_kept_apart():
    tree = load_tree("two_sockets_direct7")
    graphs = measured({("H", "0"): 44e9, ("H", "4"): 43e9, ("0", "H"): 40e9, ("4", "H"): 20e9, ("0", "1"): 50e9})
    calibration = calibrate_machine(with_host_memory(tree), graphs)
    assert {key: rate for key, rate in calibration.group_rates.items() if key[0] == "4"} == {("4", "host_out"): 20e9}


def test_copies_across_one_and_two_host_bridges_keep_their_rates():
    """Pairs below one bridge and across two: 11.2 and 19.4 GB/s."""
    roots = [Vertex("SYS", "system", None), Vertex("SOC", "socket", "SYS")]
    roots += [Vertex(name, "root_complex", "SOC") for name in ("RC0", "RC1")]
    gpus = [Vertex(str(gpu), "endpoint", f"RC{gpu // 2}") for gpu in range(4)]
    tree = PcieTree("bridges", (*roots, *gpus))
    graphs = measured({("0", "1"): 11.2e9, ("0", "2"): 19.4e9, ("2", "0"): 19.4e9})
    calibration = calibrate_machine(with_host_memory(tree), graphs)
    assert calibration.group_rates == {("PHB", "crossing"): 11.2e9}
    model = EngineModel(tree, calibration)
    graph = from_pairs([[(2, 3)], [(1, 3)]], size_bytes=1e9)
    assert model.times(graph).times.end_s == pytest.approx([1 / 11.2, 1 / 19.4], rel=1e-6)
    assert model.isolated_s(graph) == pytest.approx([1 / 11.2, 1 / 19.4], rel=1e-6)


@pytest.mark.slow
@given(
    st.sampled_from(["flat4x2", "storm8", "two_sockets_direct7"]),
    st.integers(0, 6),
    st.floats(0.1, 0.84),
    st.sampled_from([("sends",), ("receives",), ("sends", "receives")]),
)
def test_a_gpu_with_a_slow_link_has_its_measured_rate(name, gpu, share, ways):
    """A forecast of any single copy is the measured rate, and copies of the other GPUs do not change."""
    tree = load_tree(name)
    rates = {
        (str(s), str(t)): 12e9 * (share if (s == gpu and "sends" in ways) or (t == gpu and "receives" in ways) else 1)
        for s in range(7)
        for t in range(7)
        if s != t
    }
    calibration = calibrate_machine(with_host_memory(tree), measured(rates))
    assert calibration.link_rates == pytest.approx({f"endpoint {gpu} {way}": 12e9 * share for way in ways})
    assert calibration.one_way_bytes_per_s == pytest.approx(12e9)
    model = EngineModel(tree, calibration)
    number = model.tree.endpoint_number
    graphs = from_pairs([[(number[s], number[t])] for s, t in rates], size_bytes=12e9)
    assert 12e9 / model.times(graphs).times.end_s == pytest.approx(list(rates.values()), rel=1e-6)
    assert 12e9 / model.isolated_s(graphs) == pytest.approx(list(rates.values()), rel=1e-6)


def test_one_slow_pair_is_no_slow_gpu():
    tree = load_tree("flat4x2")
    rates = {(str(s), str(t)): 26e9 for s in range(4) for t in range(4) if s != t} | {("0", "1"): 13e9}
    assert not calibrate_machine(with_host_memory(tree), measured(rates)).link_rates
    # A GPU that was measured with a single other GPU may have a slow route instead.
    few = {("0", "1"): 26e9, ("1", "0"): 26e9, ("2", "3"): 13e9, ("3", "2"): 26e9}
    assert not calibrate_machine(with_host_memory(tree), measured(few)).link_rates


def pair_rates(tree, capacities, usual=26e9):
    """Return the rate of each pair of 8 GPUs whose directed links have the given rates, by label."""
    labels = link_labels(tree)
    return {
        (str(s), str(t)): min(capacities.get(labels[link], usual) for link in tree.route(str(s), str(t)))
        for s in range(8)
        for t in range(8)
        if s != t
    }


@pytest.mark.parametrize(
    "faults",
    [
        {"endpoint 2 sends": 6.4e9, "endpoint 5 sends": 12.9e9, "endpoint 5 receives": 12.9e9},
        {"endpoint 1 sends": 13e9, "endpoint 1 receives": 13e9, "endpoint 6 sends": 13e9, "endpoint 6 receives": 13e9},
        {"link S1 > RC0": 12.9e9, "link RC0 > S1": 12.9e9},
        {"link S1 > RC0": 12.9e9, "endpoint 5 receives": 6e9},
        {},
    ],
)
def test_several_slow_links_do_not_hide_each_other(faults):
    tree = load_tree("pcie5_four_switches")
    rates = pair_rates(tree, faults)
    both = [
        MeasuredGraph(f"{s} and {t}", ((s, t), (t, s)), 2 * 0.95 * min(rates[s, t], rates[t, s]), "independent")
        for s, t in rates
        if s < t
    ]
    calibration = calibrate_machine(with_host_memory(tree), [*measured(rates), *both])
    assert calibration.link_rates == pytest.approx(faults)
    assert calibration.one_way_bytes_per_s == pytest.approx(26e9)
    # Slow pairs determine neither the duplex cost nor the rate of a path class.
    assert calibration.two_way_bytes_per_s == pytest.approx(0.95 * 26e9)
    model = EngineModel(tree, calibration)
    number = model.tree.endpoint_number
    graphs = from_pairs([[(number[s], number[t])] for s, t in rates], size_bytes=26e9)
    assert 26e9 / model.isolated_s(graphs) == pytest.approx(list(rates.values()), rel=1e-6)


def test_a_slow_link_is_found_only_if_a_quarter_of_the_copies_avoid_all_slow_links():
    tree = load_tree("flat4x2")
    names = tree.endpoint_names
    for count, is_found in ((3, True), (4, False)):
        faults = {f"endpoint {name} {way}": 6e9 for name in names[:count] for way in ("sends", "receives")}
        copies = [
            IsolatedCopy(1.0, 6e9 if {source, target} & set(names[:count]) else 26e9, "", source, target)
            for source in names
            for target in names
            if source != target
        ]
        assert bool(slow_links(tree, {"crossing": copies})) is is_found, count
        if is_found:
            assert slow_links(tree, {"crossing": copies}) == pytest.approx(faults)


def test_forecasts_with_a_slow_gpu_name_it_and_state_their_error(tmp_path):
    rows = "".join(f"{s}>{t},{s}>{t},{3.93 if 6 in (s, t) else 25.9}\n" for s in range(7) for t in range(7) if s != t)
    (tmp_path / "m.csv").write_text("graph,communications,total_gb_per_s\n" + rows)
    table = fc.predict("flat4x2", [(5, 6), (0, 1)], measurements=tmp_path / "m.csv")
    assert (table["size_bytes"] / table["elapsed_s"] / 1e9).tolist() == pytest.approx([3.93, 25.9], rel=1e-6)
    texts = {warning.code: warning.text for warning in table.attrs["warnings"]}
    assert "GPU 6 sends 3.93 GB/s and receives 3.93 GB/s" in texts["slow_endpoint"]
    assert "measurement_contradicted" not in texts and "unknown" not in texts["expected_error"]
