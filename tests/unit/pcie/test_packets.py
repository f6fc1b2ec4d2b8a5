"""Tests of the packet-level simulator."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricast.core.errors import InputError
from fabricast.core.units import MIB
from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.engines.links import LinkRates
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, all_to_all, from_arcs, gather, joined, scatter
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.sets import stress_set, validation_set
from fabricast.pcie.models.calibration import calibrate, read_probe_times
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.equivalent_runs import compare_runs, share_of_runs, simulate_ends
from fabricast.pcie.packets.hardware import HARDWARE, PacketHardware, solo_time_s, tick_clock
from fabricast.pcie.packets.probes import simulate_probes
from fabricast.pcie.packets.programs import simulate_program
from fabricast.pcie.packets.simulator import CopyOrder, run_packets, simulate_once
from fabricast.pcie.packets.trace import trace_packets
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.symmetry import automorphism_count, automorphisms
from fabricast.pcie.topology.tree import PcieTree
from tests import reference_packets

SIZE = 300 * MIB
ARC = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda arc: arc[0] != arc[1])


def ends(tree, arcs, hardware=HARDWARE["no_split"], size=SIZE, **options):
    return simulate_once(tree, from_arcs([arcs], size_bytes=size), hardware, **options).end_s


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("topology", ["storm8", "flat4x2", "direct8", "dgx1"])
def test_isolated_copy_matches_closed_form(topology, hardware):
    tree = load_tree(topology)
    for target in (1, 7):
        expected = solo_time_s(tree, tree.endpoint_names[0], tree.endpoint_names[target], SIZE, HARDWARE[hardware])
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
    for arcs in ([(0, 1), (2, 1)], [(0, 4), (2, 6)], [(1, 0), (4, 0)]):
        expected = ends(storm8, arcs)
        assert ends(storm8, arcs, hardware) == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize("hardware", ["no_split", "split_256_128", "split_128_64"])
def test_packets_are_conserved_and_credits_are_not_negative(storm8, hardware):
    arcs = [arcs for _, arcs in stress_set(storm8, 60)] + [all_to_all(range(8))]
    graphs = from_arcs(arcs, size_bytes=float(3 * MIB))
    simulation = simulate_once(storm8, graphs, HARDWARE[hardware])
    assert simulation.least_credits.min() >= 0
    setting = HARDWARE[hardware]
    packets = int(np.ceil(3 * MIB / setting.payload_bytes))
    for number, graph in enumerate(arcs):
        expected = np.zeros(len(storm8.link_names), dtype=np.int64)
        for source, target in graph:
            cut = False
            for link in storm8.route(storm8.endpoint_names[source], storm8.endpoint_names[target]):
                cut = cut or storm8.link_names[link][0] == "RC"
                expected[link] += packets * (setting.pieces if cut else 1)
        assert simulation.link_packets[number].tolist() == expected.tolist()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=12),
    st.lists(st.integers(1, 3), min_size=12, max_size=12),
    st.sampled_from(["storm8", "flat4x2"]),
    st.sampled_from(["no_split", "split_256_128"]),
    st.randoms(use_true_random=False),
)
def test_completion_times_do_not_depend_on_rows_or_endpoint_names(arcs, sizes, topology, hardware, chance):
    tree = load_tree(topology)
    image = automorphisms(tree)[chance.randrange(automorphism_count(tree))]
    order = list(range(len(arcs)))
    chance.shuffle(order)
    sizes = [size * 1e6 for size in sizes[: len(arcs)]]
    moved = [(int(image[arcs[i][0]]), int(image[arcs[i][1]])) for i in order]
    one = replace(from_arcs([arcs], size_bytes=1.0), size_bytes=np.array(sizes))
    other = replace(from_arcs([moved], size_bytes=1.0), size_bytes=np.array([sizes[i] for i in order]))
    expected, found = (simulate(tree, graphs, HARDWARE[hardware]) for graphs in (one, other))
    for name in ("end_s", "earliest_s", "latest_s"):
        assert getattr(found, name).tolist() == getattr(expected, name)[order].tolist()


def test_sensitivity_to_arbitration_order_is_reported(storm8):
    # In this graph of nine copies, 3>7 ends after 32.76 or 43.68 ms, depending on the order of rows.
    rows = [(7, 0), (7, 2), (3, 7), (5, 3), (5, 1), (6, 2), (6, 3), (5, 6), (5, 7)]
    others = [(7, 0), (3, 7), (5, 3), (5, 6), (5, 1), (6, 3), (6, 2), (5, 7), (7, 2)]
    once = [ends(storm8, arcs)[arcs.index((3, 7))] * 1e3 for arcs in (rows, others)]
    assert once == pytest.approx([32.76, 43.68], abs=0.01)
    for arcs in (rows, others):
        result = simulate(storm8, from_arcs([arcs], size_bytes=SIZE), HARDWARE["no_split"])
        row = arcs.index((3, 7))
        assert result.earliest_s[row] * 1e3 == pytest.approx(32.76, abs=0.01)
        assert result.latest_s[row] * 1e3 == pytest.approx(43.68, abs=0.01)
        assert result.earliest_s[row] <= result.end_s[row] <= result.latest_s[row]


def test_components_and_phases_agree_with_whole_graphs(storm8):
    # Completion times are within the range of whole graphs simulated in many phases.
    arcs = [arcs for _, arcs in stress_set(storm8, 30)]
    pooled = simulate(storm8, from_arcs(arcs, size_bytes=float(3 * MIB)), HARDWARE["split_256_128"])
    whole = np.stack([
        simulate_once(storm8, from_arcs(arcs, size_bytes=float(3 * MIB)), HARDWARE["split_256_128"], phase=phase).end_s
        for phase in range(12)
    ])  # fmt: skip
    packet_s = 400 / HARDWARE["split_256_128"].raw_bytes_per_s
    assert (pooled.end_s >= whole.min(axis=0) - 20 * packet_s).mean() > 0.97
    assert (pooled.end_s <= whole.max(axis=0) + 20 * packet_s).mean() > 0.97


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
        simulate(tree, from_arcs([[(0, 1)] * 50], size_bytes=9e14), HARDWARE["no_split"])


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
def test_kernel_equals_reference_simulator(arcs, packets, starts, setting, topology, credits, buffering):
    tree = load_tree(topology)
    hardware = replace(HARDWARE[setting], header_credits=credits[0], data_credits=credits[1], buffering=buffering)
    whole = hardware.packet_bytes[0]
    packets, starts = packets[: len(arcs)], [start * whole for start in starts[: len(arcs)]]
    expected = reference_packets.simulate(tree, arcs, packets, hardware, starts)
    byte_s = 1 / hardware.raw_bytes_per_s
    graphs = CongestionGraphs(
        ("g",), ("user",), np.array([0, len(arcs)]),
        np.array([s for s, _ in arcs]), np.array([t for _, t in arcs]),
        np.array(packets, dtype=np.float64) * hardware.payload_bytes, np.array(starts) * byte_s,
    )  # fmt: skip
    for fast_forward in (False, True):
        found = simulate_once(tree, graphs, hardware, fast_forward=fast_forward).end_s
        assert found == pytest.approx([float(end) * byte_s for end in expected], rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=14),
    st.lists(st.sampled_from([1, 2, 90, 150, 150]), min_size=14, max_size=14),
    st.lists(st.sampled_from([0, 0, 0, 0, 0, 30]), min_size=14, max_size=14),
    st.sampled_from([
        *HARDWARE.values(),
        PacketHardware(split_bytes=64, piece_cost_ns=2.0, buffering="virtual_output_queues"),
        PacketHardware(payload_bytes=512, split_bytes=128, data_credits=32 * 8, header_credits=9),
    ]),
    st.lists(st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.5]), min_size=12, max_size=12),
    st.integers(0, 8),
)  # fmt: skip
def test_shortened_routes_do_not_change_completion_times(arcs, packets, starts, hardware, capacities, phase):
    """Check bitwise identical completion times on trees with any link widths."""
    parents = ["RC", "RC", "S", "S", "S", "T", "T", "U", "U", "RC", "U", "RC"]
    names = ["S", "T", "U", *map(str, range(7)), "V", "7"]
    parents = dict(zip(names, parents, strict=True)) | {"U": "S", "V": "T", "6": "V", "7": "RC"}
    widths = sorted(zip(names, capacities, strict=True), key=lambda one: one[0].isdigit())
    below = [Vertex(name, "endpoint" if name.isdigit() else "switch", parents[name], width) for name, width in widths]
    vertices = (Vertex("RC", "root_complex", None), *below)
    graphs = replace(
        from_arcs([arcs], size_bytes=1.0),
        size_bytes=np.array(packets[: len(arcs)], dtype=np.float64) * hardware.payload_bytes,
        start_s=np.array(starts[: len(arcs)]) * 1e-7,
    )
    for tree in (load_tree("storm8"), PcieTree("mixed", vertices)):
        whole = simulate_once(tree, graphs, hardware, phase=phase)
        assert simulate_ends(tree, graphs, hardware, phase=phase).tobytes() == whole.end_s.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=8),
    st.lists(st.sampled_from([0, 0, 0, 30, 31]), min_size=8, max_size=8),
    st.sampled_from([
        *HARDWARE.values(),
        PacketHardware(split_bytes=64, buffering="virtual_output_queues", hop_latency_ns=20.0),
        PacketHardware(split_bytes=128, link_layer_packets=True),
    ]),
    st.lists(st.tuples(st.permutations(range(8)), st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=6),
)  # fmt: skip
def test_equivalent_runs_have_equal_completion_times(arcs, starts, hardware, copies):
    """Compare with single runs for shuffled rows, symmetric endpoints and phases."""
    tree = load_tree("storm8")
    every, phases = [], []
    for order, exchanged, phase in copies:
        rows = [row for row in order if row < len(arcs)]
        # Exclusive or with a number below 8 is a symmetry of the binary tree.
        changed = [(arcs[row][0] ^ exchanged, arcs[row][1] ^ exchanged) for row in rows]
        every.append(
            replace(from_arcs([changed], size_bytes=40e3), start_s=np.array([starts[row] * 1e-7 for row in rows]))
        )
        phases.append(phase)
    together = simulate_ends(tree, joined(every), hardware, phase=np.array(phases))
    single = [simulate_once(tree, one, hardware, phase=phase).end_s for one, phase in zip(every, phases, strict=True)]
    assert together.tobytes() == np.concatenate(single).tobytes()


def test_symmetric_graphs_are_equivalent_runs(storm8):
    """Check that only symmetric endpoints and common time shifts are equivalent."""
    graphs = [[(0, 1), (0, 4), (2, 5)], [(1, 0), (1, 5), (3, 4)], [(0, 1), (0, 4), (2, 5)], [(0, 1), (0, 4), (2, 5)]]
    together = from_arcs(graphs, size_bytes=1e6)
    size, start = together.size_bytes.copy(), together.start_s.copy()
    start[6:9] += 1e-3
    start[9] += 1e-3
    size[0] = 2e6
    # The first two graphs have too many copies to be compared.
    wide = from_arcs([all_to_all(range(8)) * 2, all_to_all(range(8)) * 2, [(0, 1)], [(6, 7)]], size_bytes=1e6)
    for graphs, expected in (
        (replace(together, start_s=start), [0, 0, 0, 1]),
        (replace(together, size_bytes=size), [0, 1, 1, 1]),
        (wide, [0, 1, 2, 2]),
    ):
        assert compare_runs(storm8, graphs, HARDWARE["split_128_64"]).kind.tolist() == expected
        shares = [share_of_runs(storm8, graphs, HARDWARE["split_128_64"], shard=n, shards=3) for n in range(3)]
        assert sorted(np.concatenate(shares)) == list(range(4))
        assert [len({expected[number] for number in share}) for share in shares] == [
            sum(kind % 3 == n for kind in set(expected)) for n in range(3)
        ]
    # Two copies that meet at an arbiter have two possible initial positions.
    two = from_arcs([[(1, 0), (4, 0)]] * 9, size_bytes=1e6)
    assert set(compare_runs(storm8, two, HARDWARE["no_split"], phase=np.arange(9)).kind) == {0, 1}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=5, unique=True),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), min_size=15, max_size=15),
    st.sampled_from(["source", "target", "none"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["no_split", "split_256_128"]),
    st.sampled_from(["storm8", "flat4x2"]),
)
def test_engines_and_barriers_equal_reference_simulator(
    flows, repeats, drawn, executor, serialised, in_turns, setting, topology
):
    tree, hardware = load_tree(topology), HARDWARE[setting]
    flow = [number for _ in range(repeats) for number in range(len(flows))]
    arcs = [flows[number] for number in flow]
    packets, pauses = zip(*drawn[: len(arcs)], strict=True)
    engine = [{"source": s, "target": t, "none": -1}[executor] for s, t in arcs]
    barrier = [t if serialised else -1 for _, t in arcs]
    turns = len(flows) if in_turns else 0
    tick_s = tick_clock(tree, hardware).tick_s
    byte_s = 1 / hardware.raw_bytes_per_s
    program = reference_packets.Program(
        engine, barrier, flow, [pause * Fraction(round(tick_s / byte_s * 1000), 1000) for pause in pauses], turns
    )
    expected = reference_packets.simulate(tree, arcs, list(packets), hardware, program=program)
    graphs = replace(from_arcs([arcs], size_bytes=1.0), size_bytes=np.array(packets) * float(hardware.payload_bytes))
    order = CopyOrder(np.array(engine), np.array(barrier), np.array(flow), np.array(pauses) * tick_s, turns)
    for fast_forward in (False, True):
        found, _, _ = run_packets(tree, graphs, hardware, 1, fast_forward, None, 0, 0, order)
        assert found.end_s == pytest.approx([float(end) * byte_s for end in expected], rel=1e-9)


def test_simulated_program_agrees_with_engine_model():
    """Check simulated rates against the engine model within 1 % for several patterns."""
    tree, rates = load_tree("flat4x2"), LinkRates(56e9, 50e9, crossing_bytes_per_s=40e9)
    patterns = (
        [(0, 1)], [(0, 1), (1, 0)], [(0, 4)], [(0, 1), (0, 4)], [(1, 0), (2, 0), (4, 0)], [(0, 4), (1, 5)],
        [(s, t) for s in range(4) for t in range(4) if s != t],
    )  # fmt: skip
    for program in ("independent", "ordered_writes"):
        even = replace(PROGRAMS[program], switch_share=0.0)
        for flows in patterns:
            simulated = simulate_program(tree, flows, even, rates, size_bytes=2**20)
            modelled = total_rate(tree, flows, even, rates, repeats=8)
            assert simulated.bytes_per_s == pytest.approx(modelled.bytes_per_s, rel=0.01), (program, flows)


def test_simulated_random_programs_depend_only_on_the_seed():
    tree, rates = load_tree("flat4x2"), LinkRates(56e9, 50e9)
    flows = [(s, t) for s in range(4) for t in range(4) if s != t]
    first, again, other = (
        simulate_program(tree, flows, PROGRAMS["unordered_reads"], rates, draws=3, seed=seed) for seed in (1, 1, 2)
    )
    assert first.flow_bytes_per_s.tolist() == again.flow_bytes_per_s.tolist() != other.flow_bytes_per_s.tolist()
    assert first.low_bytes_per_s < first.bytes_per_s < first.high_bytes_per_s
    with pytest.raises(InputError, match="expected two different endpoints"):
        simulate_program(tree, [(1, 1)], PROGRAMS["unordered_reads"], rates)
    with pytest.raises(InputError, match="expected at most 4,096 to simulate"):
        simulate_program(tree, flows, PROGRAMS["unordered_reads"], rates, repeats=1000)
    with pytest.raises(InputError, match="link_layer_share is 2"):
        PacketHardware(link_layer_share=2.0)


@pytest.mark.parametrize("hardware", [
    HARDWARE["no_split"],
    HARDWARE["split_256_128"],
    HARDWARE["split_128_64"],
    PacketHardware(hop_latency_ns=100.0, header_credits=16),
    PacketHardware(switching="cut_through", split_bytes=128, link_layer_packets=True),
    PacketHardware(buffering="virtual_output_queues", split_bytes=64, piece_cost_ns=2.0),
])  # fmt: skip
def test_fast_forward_does_not_change_completion_times(storm8, hardware):
    sets = validation_set(storm8, 500)[::17] + stress_set(storm8, 12)
    arcs = [arcs for _, arcs in sets]
    generator = np.random.default_rng(3)
    count = sum(map(len, arcs))
    # Different sizes and start times result in several phases.
    graphs = from_arcs(arcs, size_bytes=1.0)
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


def test_validation_set_does_not_deadlock(storm8, flat4x2):
    # Small buffers and small copies: all graphs of the validation set and the stress set.
    hardware = PacketHardware(split_bytes=128, header_credits=2, data_credits=16)
    for tree in (storm8, flat4x2):
        arcs = [arcs for _, arcs in validation_set(tree, 22259)] + [arcs for _, arcs in stress_set(tree, 500)]
        found = simulate(tree, from_arcs(arcs, size_bytes=4096.0), hardware, threads=2)
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
        Vertex("RC", "root_complex", None), Vertex("S", "switch", "RC", 4.0), Vertex("0", "endpoint", "S", 2.0),
        Vertex("1", "endpoint", "S", 2.0), Vertex("2", "endpoint", "S"), Vertex("3", "endpoint", "RC", 0.5),
    )  # fmt: skip
    tree = PcieTree("mixed", vertices)
    arcs = [[(0, 1)], [(0, 2)], [(2, 0)], [(0, 3)], [(3, 0)]]
    graphs = from_arcs(arcs, size_bytes=SIZE)
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
    expected = solo_time_s(two, "0", "7", SIZE, HARDWARE["split_256_128"])
    assert ends(two, [(0, 7)], HARDWARE["split_256_128"])[0] == pytest.approx(expected, rel=1e-9)


def test_results_do_not_depend_on_threads_or_neighbours(storm8):
    arcs = [arcs for _, arcs in validation_set(storm8, 2000)]
    one, two = (
        simulate(storm8, from_arcs(arcs, size_bytes=1e6), HARDWARE["split_256_128"], threads=n).end_s for n in (1, 2)
    )
    assert one.tobytes() == two.tobytes()
    alone = simulate(storm8, from_arcs(arcs[-1:], size_bytes=1e6), HARDWARE["split_256_128"]).end_s
    assert alone.tobytes() == one[-len(arcs[-1]) :].tobytes()


def test_trace_contains_each_transmission_once(storm8):
    graphs = from_arcs([[(0, 4), (1, 4)]], size_bytes=25600.0)
    traced = trace_packets(storm8, graphs, 0, HARDWARE["split_256_128"], transmissions=10_000)
    trace = traced.transmissions
    assert (trace["end_s"] > trace["start_s"]).all()
    counts = trace.groupby(["communication", "link"]).size()
    assert counts[0, "0>S1"] == 100
    assert counts[0, "RC>S3"] == 200
    for _, part in trace.groupby("link"):
        ordered = part.sort_values("number")
        assert (ordered["start_s"].to_numpy()[1:] >= ordered["end_s"].to_numpy()[:-1] - 1e-15).all()


@pytest.mark.parametrize(("change", "text"), [
    ({"split_bytes": 256}, "split_bytes"), ({"generation": 9}, "generation"), ({"width": 3}, "width"),
    ({"data_credits": 3}, "one whole packet"), ({"hop_latency_ns": float("nan")}, "hop_latency_ns"),
    ({"header_credits": 0}, "header_credits"), ({"buffering": "lifo"}, "buffering"),
])  # fmt: skip
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
    header = "probe,repeat,source,target,size_bytes,elapsed_s\n"
    rows = [f"alone,{i},0,1,1e9,{0.1 + 0.001 * i}" for i in range(9)]
    path.write_text(header + "\n".join(rows) + "\n")
    (only,) = calibrate(storm8, read_probe_times(path), seed=1)
    assert only.name == "bandwidth"
    assert only.ci_low < only.value < only.ci_high
    assert only.probes == 9
    for text, message in (
        (header, "contains no rows"),
        ("probe,source\n", "expected probe,repeat"),
        (header + "a,0,0,1,-1,2\n", "expected positive"),
        (header + "a,0,0,1,1\n", "has 5 fields"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_probe_times(path)
    path.write_text(header + "a,0,0,1,1,1\nb,0,0,1,1,1\nb,0,2,1,1,1\nb,0,3,1,1,1\n")
    with pytest.raises(InputError, match="has 3 copies"):
        calibrate(storm8, read_probe_times(path), seed=1)


def test_share_of_predictions_close_to_the_simulator(storm8):
    # studies/pcie.md 6.3, on a fixed sample, with a tolerance of two percentage points.
    arcs = [arcs for _, arcs in validation_set(storm8, 22259)][::37]
    graphs = from_arcs(arcs, size_bytes=float(SIZE))
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
