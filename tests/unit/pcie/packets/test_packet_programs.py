"""Copy programs in the packet simulator."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricast.core.errors import InputError
from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.packets.hardware import HARDWARE, PacketHardware, tick_clock
from fabricast.pcie.packets.programs import simulate_program
from fabricast.pcie.packets.simulator import CopyOrder, run_packets
from fabricast.pcie.topology.builtin import load_tree
from tests import reference_packets
from tests.unit.pcie.packets.packet_cases import ARC


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=5, unique=True),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), min_size=15, max_size=15),
    st.sampled_from(["source", "target", "none"]),
    st.sampled_from(["none", "target", "both"]),
    st.booleans(),
    st.sampled_from(["no_split", "split_256_128"]),
    st.sampled_from(["storm8", "flat4x2"]),
)
def test_engines_and_barriers_equal_reference_simulator(
    flows, repeats, drawn, executor, serialised, in_turns, setting, topology
):
    tree, hardware = load_tree(topology), HARDWARE[setting]
    flow = [number for _ in range(repeats) for number in range(len(flows))]
    pairs = [flows[number] for number in flow]
    packets, pauses = zip(*drawn[: len(pairs)], strict=True)
    engine = [{"source": s, "target": t, "none": -1}[executor] for s, t in pairs]
    barrier = [(s if serialised == "both" else -1, t if serialised != "none" else -1) for s, t in pairs]
    turns = len(flows) if in_turns else 0
    tick_s = tick_clock(tree, hardware).tick_s
    byte_s = 1 / hardware.raw_bytes_per_s
    program = reference_packets.Program(
        engine, barrier, flow, [pause * Fraction(round(tick_s / byte_s * 1000), 1000) for pause in pauses], turns
    )
    expected = reference_packets.simulate(tree, pairs, list(packets), hardware, program=program)
    graphs = replace(from_pairs([pairs], size_bytes=1.0), size_bytes=np.array(packets) * float(hardware.payload_bytes))
    order = CopyOrder(np.array(engine), np.array(barrier), np.array(flow), np.array(pauses) * tick_s, turns)
    for fast_forward in (False, True):
        found = run_packets(tree, graphs, hardware, fast_forward=fast_forward, order=order).simulation
        assert found.end_s == pytest.approx([float(end) * byte_s for end in expected], rel=1e-9)


def test_simulated_program_agrees_with_engine_model():
    """Check simulated rates against the engine model within 1 % for several patterns."""
    tree, rates = load_tree("flat4x2"), Rates(56e9, 50e9, crossing_bytes_per_s=40e9)
    patterns = (
        [(0, 1)],
        [(0, 1), (1, 0)],
        [(0, 4)],
        [(0, 1), (0, 4)],
        [(1, 0), (2, 0), (4, 0)],
        [(0, 4), (1, 5)],
        [(s, t) for s in range(4) for t in range(4) if s != t],
    )
    for program in ("independent", "ordered_writes"):
        even = replace(PROGRAMS[program], switch_share=0.0)
        for flows in patterns:
            simulated = simulate_program(tree, flows, even, rates, size_bytes=2**20)
            modelled = total_rate(tree, flows, even, rates, repeats=8)
            assert simulated.bytes_per_s == pytest.approx(modelled.bytes_per_s, rel=0.01), (program, flows)


@pytest.mark.parametrize("statistic", ["total", "sum_of_copies", "sum_of_targets", "sum_of_sources", "last_listed"])
def test_simulated_rates_are_those_that_the_benchmark_prints(statistic):
    """Copies below a switch end before those that share an uplink: the statistics differ."""
    tree, rates = load_tree("flat4x2"), Rates(56e9, 54e9)
    flows = [(gpu, (gpu + 2) % 8) for gpu in range(8)]
    program = replace(PROGRAMS["unordered_reads"], switch_share=0.0)
    simulated = simulate_program(tree, flows, program, rates, size_bytes=2**20, statistic=statistic)
    modelled = total_rate(tree, flows, program, rates, repeats=8, statistic=statistic)
    assert simulated.bytes_per_s == pytest.approx(modelled.bytes_per_s, rel=0.02)


def test_simulated_random_programs_depend_only_on_the_seed():
    tree, rates = load_tree("flat4x2"), Rates(56e9, 50e9)
    flows = [(s, t) for s in range(4) for t in range(4) if s != t]
    first, again, other = (
        simulate_program(tree, flows, PROGRAMS["unordered_reads"], rates, draws=3, seed=seed) for seed in (1, 1, 2)
    )
    assert first.flow_bytes_per_s.tolist() == again.flow_bytes_per_s.tolist() != other.flow_bytes_per_s.tolist()
    assert first.low_bytes_per_s < first.bytes_per_s < first.high_bytes_per_s
    with pytest.raises(InputError, match="expected two different endpoints"):
        simulate_program(tree, [(1, 1)], PROGRAMS["unordered_reads"], rates)
    with pytest.raises(InputError, match="expected at most 4,096"):
        simulate_program(tree, flows, PROGRAMS["unordered_reads"], rates, repeats=1000)
    with pytest.raises(InputError, match="link_layer_share is 2"):
        PacketHardware(link_layer_share=2.0)
