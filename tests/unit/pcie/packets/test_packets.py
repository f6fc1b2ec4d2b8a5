"""Tests of the packet-level simulator."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.core.units import MIB
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, all_to_all, from_pairs, gather, scatter
from fabricast.pcie.graphs.sets import stress_set, validation_set
from fabricast.pcie.models.calibration import calibrate
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.hardware import HARDWARE, PacketHardware
from fabricast.pcie.packets.probes import simulate_probes
from fabricast.pcie.packets.simulator import simulate_once
from fabricast.pcie.packets.trace import trace_packets
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.tree import PcieTree
from tests import reference_packets
from tests.unit.pcie.packets.packet_cases import ARC

SIZE = 300 * MIB


def ends(tree, pairs, hardware=HARDWARE["no_split"], size=SIZE, **options):
    return simulate_once(tree, from_pairs([pairs], size_bytes=size), hardware, **options).end_s


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("topology", ["storm8", "flat4x2", "direct8", "dgx1"])
def test_isolated_copy_matches_closed_form(topology, hardware):
    tree = load_tree(topology)
    for target in (1, 7):
        expected = reference_packets.isolated_time_s(
            tree, tree.endpoint_names[0], tree.endpoint_names[target], SIZE, HARDWARE[hardware]
        )
        assert ends(tree, [(0, target)], HARDWARE[hardware])[0] == pytest.approx(expected, rel=1e-9)
    # Transmission time of all payloads and headers at the raw rate, within 0.05 %.
    wire = SIZE / HARDWARE[hardware].payload_bytes * HARDWARE[hardware].packet_bytes[0]
    local = ends(load_tree("storm8"), [(0, 1)], HARDWARE[hardware])[0]
    assert local == pytest.approx(wire / HARDWARE[hardware].raw_bytes_per_s, rel=5e-4)


@pytest.mark.parametrize("count", range(1, 8))
def test_gather_and_scatter_take_k_times_the_isolated_time(storm8, count):
    alone = ends(storm8, [(0, 1)])[0]
    others = range(1, count + 1)
    assert ends(storm8, gather(0, others)).max() == pytest.approx(count * alone, rel=5e-4)
    assert ends(storm8, scatter(0, others)).max() == pytest.approx(count * alone, rel=5e-4)


@pytest.mark.parametrize("buffering", ["fifo", "virtual_output_queues"])
@pytest.mark.parametrize("credits", [256, 1024, 4096])
def test_one_conflict_does_not_depend_on_buffers(storm8, buffering, credits):
    hardware = PacketHardware(data_credits=credits, header_credits=credits // 8, buffering=buffering)
    for pairs in ([(0, 1), (2, 1)], [(0, 4), (2, 6)], [(1, 0), (4, 0)]):
        expected = ends(storm8, pairs)
        assert ends(storm8, pairs, hardware) == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize("hardware", ["no_split", "split_256_128", "split_128_64"])
def test_packets_are_conserved_and_credits_are_not_negative(storm8, hardware):
    pairs = [pairs for _, pairs in stress_set(storm8, 60)] + [all_to_all(range(8))]
    graphs = from_pairs(pairs, size_bytes=float(3 * MIB))
    simulation = simulate_once(storm8, graphs, HARDWARE[hardware])
    assert simulation.least_credits.min() >= 0
    setting = HARDWARE[hardware]
    packets = int(np.ceil(3 * MIB / setting.payload_bytes))
    for number, graph in enumerate(pairs):
        expected = np.zeros(len(storm8.link_names), dtype=np.int64)
        for source, target in graph:
            cut = False
            for link in storm8.route(storm8.endpoint_names[source], storm8.endpoint_names[target]):
                cut = cut or storm8.link_names[link][0] == "RC"
                expected[link] += packets * (setting.pieces if cut else 1)
        assert simulation.link_packets[number].tolist() == expected.tolist()


def test_sensitivity_to_arbitration_order_is_reported(storm8):
    # In this graph of nine copies, 3>7 ends after 32.76 or 43.68 ms, depending on the order of rows.
    rows = [(7, 0), (7, 2), (3, 7), (5, 3), (5, 1), (6, 2), (6, 3), (5, 6), (5, 7)]
    others = [(7, 0), (3, 7), (5, 3), (5, 6), (5, 1), (6, 3), (6, 2), (5, 7), (7, 2)]
    once = [ends(storm8, pairs)[pairs.index((3, 7))] * 1e3 for pairs in (rows, others)]
    assert once == pytest.approx([32.76, 43.68], abs=0.01)
    for pairs in (rows, others):
        result = simulate(storm8, from_pairs([pairs], size_bytes=SIZE), HARDWARE["no_split"])
        row = pairs.index((3, 7))
        assert result.earliest_s[row] * 1e3 == pytest.approx(32.76, abs=0.01)
        assert result.latest_s[row] * 1e3 == pytest.approx(43.68, abs=0.01)
        assert result.earliest_s[row] <= result.end_s[row] <= result.latest_s[row]


def test_capacities_without_common_denominator_are_simulated(storm8):
    vertices = (
        Vertex("RC", "root_complex", None),
        *(Vertex(str(i), "endpoint", "RC", c) for i, c in enumerate((0.997, 0.991, 0.983, 0.977, 0.971, 1.0))),
    )
    tree = PcieTree("primes", vertices)
    for target in range(5):
        alone = ends(tree, [(5, target)])[0] * tree.vertex(str(target)).capacity
        assert alone == pytest.approx(ends(storm8, [(0, 1)])[0], rel=1e-5)
    with pytest.raises(InputError, match="too long to simulate"):
        simulate(tree, from_pairs([[(0, 1)] * 50], size_bytes=9e14), HARDWARE["no_split"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=7, unique=True),
    st.lists(st.integers(1, 40), min_size=7, max_size=7),
    st.lists(st.integers(0, 9), min_size=7, max_size=7),
    st.sampled_from(["no_split", "split_256_128", "split_128_64", "split_256_64"]),
    st.sampled_from(["storm8", "flat4x2", "boards4", "dgx1"]),
    st.sampled_from([(64, 320), (4, 64), (2, 16)]),
    st.sampled_from(["fifo", "virtual_output_queues"]),
)
def test_kernel_equals_reference_simulator(pairs, packets, starts, setting, topology, credits, buffering):
    tree = load_tree(topology)
    hardware = replace(HARDWARE[setting], header_credits=credits[0], data_credits=credits[1], buffering=buffering)
    whole = hardware.packet_bytes[0]
    packets, starts = packets[: len(pairs)], [start * whole for start in starts[: len(pairs)]]
    expected = reference_packets.simulate(tree, pairs, packets, hardware, starts)
    byte_s = 1 / hardware.raw_bytes_per_s
    graphs = CongestionGraphs(
        ("g",),
        ("user",),
        np.array([0, len(pairs)]),
        np.array([s for s, _ in pairs]),
        np.array([t for _, t in pairs]),
        np.array(packets, dtype=np.float64) * hardware.payload_bytes,
        np.array(starts) * byte_s,
    )
    for fast_forward in (False, True):
        found = simulate_once(tree, graphs, hardware, fast_forward=fast_forward).end_s
        assert found == pytest.approx([float(end) * byte_s for end in expected], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hardware",
    [
        HARDWARE["no_split"],
        HARDWARE["split_256_128"],
        HARDWARE["split_128_64"],
        PacketHardware(hop_latency_ns=100.0, header_credits=16),
        PacketHardware(switching="cut_through", split_bytes=128, link_layer_packets=True),
        PacketHardware(buffering="virtual_output_queues", split_bytes=64, piece_cost_ns=2.0),
    ],
)
def test_fast_forward_does_not_change_completion_times(storm8, hardware):
    sets = validation_set(storm8, 500)[::17] + stress_set(storm8, 12)
    pairs = [pairs for _, pairs in sets]
    generator = np.random.default_rng(3)
    count = sum(map(len, pairs))
    # Different sizes and start times result in several phases.
    graphs = from_pairs(pairs, size_bytes=1.0)
    graphs = replace(
        graphs,
        size_bytes=generator.integers(1, 3 * MIB, size=count).astype(np.float64),
        start_s=generator.choice([0.0, 0.0, 5e-5, 1e-4], size=count),
    )
    skipping = simulate_once(storm8, graphs, hardware, threads=2)
    brute = simulate_once(storm8, graphs, hardware, fast_forward=False)
    assert skipping.end_s.tobytes() == brute.end_s.tobytes()
    assert skipping.link_packets.tobytes() == brute.link_packets.tobytes()
    assert (skipping.skipped_ticks > 0).mean() > 0.5


@pytest.mark.slow
def test_validation_set_does_not_deadlock(storm8, flat4x2):
    # Small buffers and small copies: all graphs of the validation set and the stress set.
    hardware = PacketHardware(split_bytes=128, header_credits=2, data_credits=16)
    for tree in (storm8, flat4x2):
        pairs = [pairs for _, pairs in validation_set(tree, 22259)] + [pairs for _, pairs in stress_set(tree, 500)]
        found = simulate(tree, from_pairs(pairs, size_bytes=4096.0), hardware, threads=2)
        assert (found.end_s > 0).all()


def test_latency_and_cut_through_change_only_the_first_packet(storm8):
    store = ends(storm8, [(0, 4)], PacketHardware(hop_latency_ns=100.0), size=256.0)[0]
    through = ends(storm8, [(0, 4)], PacketHardware(hop_latency_ns=100.0, switching="cut_through"), size=256.0)[0]
    byte_s = 1 / PacketHardware().raw_bytes_per_s
    assert store == pytest.approx(6 * (280 * byte_s + 100e-9), rel=1e-3)
    assert through == pytest.approx(6 * 100e-9 + (5 * 24 + 280) * byte_s, rel=1e-3)


def test_link_layer_packets_cost_only_with_bidirectional_traffic(storm8):
    plain, charged = PacketHardware(), PacketHardware(link_layer_packets=True)
    assert ends(storm8, [(0, 1)], charged) == pytest.approx(ends(storm8, [(0, 1)], plain))
    both = [(0, 1), (1, 0)]
    assert ends(storm8, both, charged)[0] / ends(storm8, both, plain)[0] == pytest.approx(1 + 8 / 168, abs=2e-3)


def test_models_and_simulator_agree_on_isolated_rates_with_mixed_links():
    vertices = (
        Vertex("RC", "root_complex", None),
        Vertex("S", "switch", "RC", 4.0),
        Vertex("0", "endpoint", "S", 2.0),
        Vertex("1", "endpoint", "S", 2.0),
        Vertex("2", "endpoint", "S"),
        Vertex("3", "endpoint", "RC", 0.5),
    )
    tree = PcieTree("mixed", vertices)
    pairs = [[(0, 1)], [(0, 2)], [(2, 0)], [(0, 3)], [(3, 0)]]
    graphs = from_pairs(pairs, size_bytes=SIZE)
    simulated = simulate(tree, graphs, HARDWARE["no_split"]).end_s
    payload = HARDWARE["no_split"].raw_bytes_per_s * 256 / 280
    for model in MODELS.values():
        if model.name == "root_complex_ignored":
            # This interpretation ignores all ports of the root complex, including narrow ones.
            continue
        predicted = evaluate(tree, graphs, model, bandwidth_bytes_per_s=payload, tau=0.0).end_s
        assert predicted == pytest.approx(simulated, rel=1e-3), model.name


def test_faster_links_and_several_sockets():
    wide = PcieTree(
        "wide", (Vertex("RC", "root_complex", None), Vertex("a", "endpoint", "RC", 2.0), Vertex("b", "endpoint", "RC"))
    )
    assert ends(wide, [(0, 1)])[0] == pytest.approx(ends(wide, [(1, 0)])[0], rel=1e-5)
    two = regular_tree("two", (2, 2), sockets=2)
    expected = reference_packets.isolated_time_s(two, "0", "7", SIZE, HARDWARE["split_256_128"])
    assert ends(two, [(0, 7)], HARDWARE["split_256_128"])[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_results_do_not_depend_on_threads_or_neighbours(storm8):
    pairs = [pairs for _, pairs in validation_set(storm8, 2000)]
    one, two = (
        simulate(storm8, from_pairs(pairs, size_bytes=1e6), HARDWARE["split_256_128"], threads=n).end_s for n in (1, 2)
    )
    assert one.tobytes() == two.tobytes()
    alone = simulate(storm8, from_pairs(pairs[-1:], size_bytes=1e6), HARDWARE["split_256_128"]).end_s
    assert alone.tobytes() == one[-len(pairs[-1]) :].tobytes()


def test_trace_contains_each_transmission_once(storm8):
    graphs = from_pairs([[(0, 4), (1, 4)]], size_bytes=25600.0)
    traced = trace_packets(storm8, graphs, 0, HARDWARE["split_256_128"], transmissions=10_000)
    trace = traced.transmissions
    assert (trace["end_s"] > trace["start_s"]).all()
    counts = trace.groupby(["communication", "link"]).size()
    assert counts[0, "0>S1"] == 100
    assert counts[0, "RC>S3"] == 200
    for _, part in trace.groupby("link"):
        ordered = part.sort_values("number")
        assert (ordered["start_s"].to_numpy()[1:] >= ordered["end_s"].to_numpy()[:-1] - 1e-15).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"split_bytes": 256}, "split_bytes"),
        ({"generation": 9}, "generation"),
        ({"width": 3}, "width"),
        ({"data_credits": 3}, "one whole packet"),
        ({"hop_latency_ns": float("nan")}, "hop_latency_ns"),
        ({"header_credits": 0}, "header_credits"),
        ({"buffering": "lifo"}, "buffering"),
    ],
)
def test_impossible_hardware_is_rejected(change, text):
    with pytest.raises(InputError, match=text):
        PacketHardware(**change)


def test_calibration_recovers_parameters_and_reports_invalid_probes(storm8, tmp_path):
    for name, piece in (("no_split", 1.0), ("split_256_128", 0.5), ("split_128_64", 0.5)):
        times = simulate_probes(storm8, HARDWARE[name], size_bytes=SIZE)
        estimates = {estimate.name: estimate.value for estimate in calibrate(storm8, times, seed=1)}
        whole, cut = HARDWARE[name].packet_bytes
        cost = HARDWARE[name].pieces * cut / whole
        assert estimates["crossing_cost"] == pytest.approx(cost, rel=1e-4)
        assert estimates["tau"] == pytest.approx((1 - piece) / (2 * (1 + cost * piece)), abs=1e-4)
    path = tmp_path / "probes.csv"
    header = "graph,repetition,source,target,size_bytes,elapsed_s\n"
    rows = [f"alone,{i},0,1,1e9,{0.1 + 0.001 * i}" for i in range(9)]
    path.write_text(header + "\n".join(rows) + "\n")
    estimates = fc.calibrate(storm8, path, seed=1)
    only = estimates.iloc[0]
    assert (len(estimates), only["name"], estimates.attrs["probes"]) == (1, "bandwidth", {"bandwidth": 9})
    assert only["ci_low"] < only["value"] < only["ci_high"]
    for text, message in (
        (header, "contains no rows"),
        ("probe,source\n", "column 'probe'"),
        (header + "a,0,0,1,-1,2\n", "expected both above 0"),
        (header + "a,0,0,1,1\n", "has 5 fields"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            fc.calibrate(storm8, path)
    path.write_text(header + "a,0,0,1,1,1\nb,0,0,1,1,1\nb,0,2,1,1,1\nb,0,3,1,1,1\n")
    estimates = fc.calibrate(storm8, path, seed=1)
    assert (estimates["value"].tolist(), estimates.attrs["probes"]) == ([1.0], {"bandwidth": 1}), (
        "three copies: no probe"
    )


def test_every_file_of_measured_copies_calibrates_the_models(storm8, tmp_path):
    times, rates, output = tmp_path / "times.csv", tmp_path / "rates.csv", tmp_path / "nvbandwidth.txt"
    times.write_text(
        "graph,source,target,size_bytes,elapsed_s,repetition,program,role\n"
        "alone PIX,0,1,1e9,0.1,0,unordered_writes,calibration\nhost to one,H,0,1e9,0.05,0,unordered_writes,calibration\n"
        "read PIX,0,1,1e9,0.2,0,unordered_reads,test\nalone PHB,0,4,1e9,0.125,0,unordered_writes,calibration\n"
    )
    rates.write_text(
        "graph,communications,program,role,note,total_gb_per_s\nalone PIX,0>1,unordered_writes,calibration,,10\n"
        "both ways PIX,0>1 1>0,unordered_writes,calibration,,19\nalone PHB,0>4,unordered_writes,calibration,,8\n"
    )
    output.write_text(
        "Running device_to_device_memcpy_write_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "           0         1         4\n 0       N/A     10.00      8.00\n 1     10.00       N/A      8.00\n"
        " 4      8.00      8.00       N/A\n\nSUM device_to_device_memcpy_write_ce 52.00\n"
    )
    for path in (times, rates, output):
        estimates = fc.calibrate(storm8, path, seed=1)
        values = dict(zip(estimates["name"], estimates["value"], strict=True))
        assert values == pytest.approx({"bandwidth": 10e9, "crossing_cost": 1.25}), path


@pytest.mark.slow
def test_share_of_predictions_close_to_the_simulator(storm8):
    # studies/pcie.md 6.3, on a fixed sample, with a tolerance of two percentage points.
    pairs = [pairs for _, pairs in validation_set(storm8, 22259)][::37]
    graphs = from_pairs(pairs, size_bytes=float(SIZE))
    expected = {
        "no_split": {"congestion_factor": 0.913, "round_robin_upstream": 0.979, "max_min": 0.833},
        "split_256_128": {"congestion_factor": 0.907, "round_robin_upstream": 0.971, "max_min": 0.715},
    }
    for name, shares in expected.items():
        simulated = simulate(storm8, graphs, HARDWARE[name], threads=2).end_s
        times = simulate_probes(storm8, HARDWARE[name], size_bytes=SIZE)
        values = {estimate.name: estimate.value for estimate in calibrate(storm8, times, seed=1)}
        keywords = {
            "bandwidth_bytes_per_s": values["bandwidth"],
            "tau": values["tau"],
            "crossing_cost": values["crossing_cost"],
        }
        for model, share in shares.items():
            error = evaluate(storm8, graphs, MODELS[model], **keywords).end_s / simulated - 1
            assert (np.abs(error) <= 0.15).mean() == pytest.approx(share, abs=0.035), (name, model)
        error = evaluate(storm8, graphs, MODELS["back_pressure"], **keywords).end_s / simulated - 1
        assert (np.abs(error) <= 0.15).mean() >= 0.99
        assert (np.abs(error) <= 0.05).mean() >= 0.95


def test_the_penalty_does_not_depend_on_the_capacity_of_another_link(storm8):
    """The copy that ends last runs by itself, at the rate of its narrowest link."""
    vertices = tuple(replace(one, capacity=0.5) if one.name == "4" else one for one in storm8.vertices)
    for tree, last in ((storm8, 1.0), (replace(storm8, vertices=vertices), 0.5)):
        # While both run, the local copy has the rate 0.6 and the crossing one 0.4.
        local = 100 / 0.6
        crossing = local + (100 - 0.4 * local) / last
        rows = [
            ("alone_local", "0", "1", 100.0),
            ("alone_crossing", "0", "5", 100.0),
            ("conflict", "4", "1", crossing),
            ("conflict", "0", "1", local),
        ]
        table = pd.DataFrame(
            [(graph, 0, source, target, 100.0, time) for graph, source, target, time in rows],
            columns=["graph", "repetition", "source", "target", "size_bytes", "elapsed_s"],
        )
        (tau,) = [one.value for one in calibrate(tree, table, seed=1) if one.name == "tau"]
        assert tau == pytest.approx(0.1)
