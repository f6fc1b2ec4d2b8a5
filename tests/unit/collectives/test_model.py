"""The time model of collective operations: exact limits, symmetries, a plain reference, and measured machines."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.collectives.communicator import communicator
from fabricast.collectives.constants import constants
from fabricast.collectives.evidence.errors import LEFT_OUT, error_table, machine_errors
from fabricast.collectives.evidence.measured import is_of_nccl_tests, measured_cases, measured_machine
from fabricast.collectives.expected import PAIRS_MEASURED
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.orders import ring_orders, search_orders
from fabricast.collectives.plan import nccl_plan, with_order
from fabricast.collectives.step_rates import Hop, Transport, ring_hops, step_rate
from fabricast.collectives.times import StepTimes, operation_times
from fabricast.core.errors import InputError, PeerLinkError
from fabricast.core.resources import published
from fabricast.machine.build import machine_of_tree
from fabricast.machine.machine import Machine
from fabricast.nccl.costs import Algorithm, Operation, Protocol, bus_factor
from fabricast.nccl.search import SearchGraph
from fabricast.nccl.settings import NcclSettings, with_environment
from fabricast.nccl.system import Cpu, PathType
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.packets.programs import hardware_with_rates, tree_with_rates
from fabricast.pcie.packets.simulator import run_packets
from fabricast.pcie.topology.parts import PeerLink
from fabricast.pcie.topology.regular import regular_tree

RING_SIMPLE, RING_LL = (Algorithm.RING, Protocol.SIMPLE), (Algorithm.RING, Protocol.LL)
STEP = StepTimes(25e9, 1.3e-6)
MIB = 2.0**20


def machine_of(branching=(8,), *, name="regular", link=31.508e9, ranks=None, **settings):
    tree = replace(regular_tree(name, branching), link_bytes_per_s=link)
    chosen = NcclSettings(cpu=Cpu.AMD, capability=8.9, p2p_level=PathType.SYS)
    return communicator(machine_of_tree(tree), ranks=ranks, settings=replace(chosen, **settings))


def times(operation, algorithm, protocol, size, *, ranks=8, channels=2, step=STEP, known=None):
    size = np.atleast_1d(np.asarray(size, dtype=np.float64))
    used = np.full(size.shape, channels, dtype=np.int64)
    return operation_times(
        operation, algorithm, protocol, size, ranks=ranks, channels=used, step=step, known=known or constants()
    )


def reference_ring(operation, protocol, size, ranks, channels, step, known):
    """Return the time of a ring loop by loop and step by step, as the specification states."""
    steps = 2 * (ranks - 1) if operation is Operation.ALL_REDUCE else ranks - 1
    chunk = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 32 << 10}[protocol]
    loops = max(math.ceil(size / (ranks * channels * chunk)), 1)
    part = size / ranks / loops
    total = known.start_s
    for _ in range(loops):
        for _ in range(steps):
            if protocol is Protocol.SIMPLE:
                latency = known.simple_latency * step.latency_s
                total += part / step.bytes_per_s
                total += latency / (1 + (part / (step.bytes_per_s * latency * known.hidden_ratio)) ** 2)
            else:
                turns = max(part / (4096 * channels), 1)
                turn = max(8192 * channels / step.bytes_per_s, known.turn_latency * step.latency_s)
                latency = known.ll_step_s + known.ll_latency * step.latency_s + (turns - 1) * turn
                total += max(latency, 2 * part / step.bytes_per_s)
    return max(total, known.launch_s)


@given(
    st.sampled_from([Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER]),
    st.sampled_from([Protocol.SIMPLE, Protocol.LL]),
    st.integers(256, 1 << 24),
    st.integers(2, 16),
    st.integers(1, 8),
    st.floats(1e9, 1e11),
    st.floats(1e-7, 1e-5),
)
def test_ring_times_equal_the_reference(operation, protocol, size, ranks, channels, rate, latency):
    step = StepTimes(rate, latency)
    found = times(operation, Algorithm.RING, protocol, size, ranks=ranks, channels=channels, step=step)[0]
    assert found == pytest.approx(reference_ring(operation, protocol, size, ranks, channels, step, constants()))


@pytest.mark.parametrize("operation", list(Operation))
def test_large_sizes_reach_the_rate_of_the_step(operation):
    size, ranks = 2.0**40, 8
    time = times(operation, Algorithm.RING, Protocol.SIMPLE, size, ranks=ranks)[0]
    bus = size / time * bus_factor(operation, ranks)
    expected = STEP.bytes_per_s
    if operation is Operation.ALLTOALL:
        # The step of alltoall is the whole pattern: n copies of a rank at the rate of the slowest.
        expected *= ranks - 1
    # Simple exposes a share of its latency in every chunk of 2 MiB and channel.
    assert bus == pytest.approx(expected, rel=0.06)
    assert bus <= expected * (1 + 1e-9)


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("protocol", [Protocol.LL, Protocol.SIMPLE])
@given(st.integers(256, 1 << 28), st.integers(1, 1 << 20))
def test_times_do_not_fall_with_the_size_in_one_loop(operation, protocol, size, more):
    algorithm = Algorithm.RING
    small, large = times(operation, algorithm, protocol, [size, size + more])
    # Loops with equal chunks expose latency anew, so that only sizes of equal numbers of loops are compared exactly.
    assert large >= small * (1 - 0.12)
    if size + more <= 8 * 2 * (32 << 10):
        assert large >= small * (1 - 1e-12)


def test_all_reduce_takes_twice_the_steps_of_all_gather():
    known = replace(constants(), launch_s=0.0)
    size = 2.0 ** np.arange(8, 28)
    for protocol in (Protocol.LL, Protocol.SIMPLE):
        reduce, gather, scatter = (
            times(operation, Algorithm.RING, protocol, size, known=known) - known.start_s
            for operation in (Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER)
        )
        np.testing.assert_allclose(reduce, 2 * gather, rtol=1e-12)
        np.testing.assert_allclose(gather, scatter, rtol=1e-12)


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("protocol", [Protocol.LL, Protocol.SIMPLE])
def test_double_rates_and_half_latencies_halve_all_times(operation, protocol):
    size, known = 2.0 ** np.arange(8, 28), constants()
    half = replace(known, launch_s=known.launch_s / 2, start_s=known.start_s / 2, ll_step_s=known.ll_step_s / 2)
    slow = times(operation, Algorithm.RING, protocol, size)
    fast = times(operation, Algorithm.RING, protocol, size, step=StepTimes(50e9, 0.65e-6), known=half)
    np.testing.assert_allclose(slow, 2 * fast, rtol=1e-12)


@given(st.integers(1, 16), st.integers(16, 28))
def test_more_channels_do_not_exceed_the_rate_of_the_step(channels, power):
    size = 2.0**power
    time = times(Operation.ALL_REDUCE, Algorithm.RING, Protocol.LL, size, channels=channels)[0]
    # Half of each line of LL is flags.
    assert size / time * bus_factor(Operation.ALL_REDUCE, 8) <= STEP.bytes_per_s / 2 * (1 + 1e-9)


def test_two_gpus_use_both_directions_of_one_pair():
    machine = machine_of((2,))
    step = step_rate(machine, ring_hops(machine, (0, 1)))
    assert [(hop.source, hop.target) for hop in step.hops] == [(0, 1), (1, 0)]
    rates = machine.model.rates
    assert step.slowest_bytes_per_s == pytest.approx(rates.two_way_bytes_per_s)
    model = CollectiveModel(machine, Operation.ALL_REDUCE, nccl_plan(machine))
    assert bus_factor(Operation.ALL_REDUCE, 2) == 1
    assert model.times(RING_SIMPLE, np.array([MIB]))[0] > 0


@given(st.permutations(range(8)), st.integers(0, 7))
def test_rotations_and_reflections_of_a_ring_take_the_same_time(order, start):
    machine = machine_of((2, 2, 2), name="storm8")
    rotated = [*order[start:], *order[:start]]
    rates = [step_rate(machine, ring_hops(machine, ring)).slowest_bytes_per_s for ring in (order, rotated, order[::-1])]
    assert rates == pytest.approx([rates[0]] * 3)


@pytest.mark.slow
@given(st.lists(st.permutations(range(8)), min_size=1, max_size=6))
def test_orders_have_the_rate_of_their_own_step(orders):
    machine = machine_of((2, 4), name="flat4x2")
    found = search_orders(machine)
    for order in orders:
        step = step_rate(machine, ring_hops(machine, order))
        assert found.rate_of(order) == pytest.approx(step.slowest_bytes_per_s)


def test_all_orders_of_eight_gpus_below_two_switches_are_counted():
    found = search_orders(measured_machine("wrx90-A"))
    rates, counts = np.unique(np.round(found.bytes_per_s / found.best_bytes_per_s, 6), return_counts=True)
    # 1, 2, 3 and 4 crossings of each uplink.
    np.testing.assert_allclose(rates, [1 / 4, 1 / 3, 1 / 2, 1], atol=1e-6)
    assert counts.tolist() == [144, 1728, 2592, 576]
    assert found.best_count == 576


def test_all_orders_are_equal_without_shared_links():
    found = search_orders(machine_of((6,)))
    assert found.is_exhaustive
    assert len(found.orders) == 120
    assert found.best_count == 120


def test_many_gpus_have_the_order_of_the_tree():
    machine = machine_of((2, 6), name="twelve")
    shuffled = tuple(range(0, 12, 2)) + tuple(range(1, 12, 2))
    mixed = machine_of(
        (2, 6), name="twelve", ranks=[machine.ranks[number] for number in (0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11)]
    )
    found = search_orders(mixed)
    assert not found.is_exhaustive
    assert found.best == shuffled
    assert (
        found.best_bytes_per_s > found.rate_of(tuple(range(12))) if not math.isnan(found.rate_of(range(12))) else True
    )


def test_ring_orders_start_with_rank_0_and_are_distinct():
    orders, exhaustive = ring_orders(7)
    assert exhaustive
    assert (orders[:, 0] == 0).all()
    assert len(np.unique(orders, axis=0)) == 720


def test_a_hop_through_host_memory_is_not_faster_than_its_copies():
    machine = measured_machine("autodl-2080ti")
    step = step_rate(machine, ring_hops(machine, (0, 1)))
    assert {hop.transport for hop in step.hops} == {Transport.SHM}
    # Both GPUs share one uplink: each direction carries two copies.
    alone = step_rate(machine, [Hop(0, 1, Transport.SHM)]).slowest_bytes_per_s
    assert step.slowest_bytes_per_s == pytest.approx(alone / 2, rel=0.1)


def test_channels_of_different_orders_share_the_data():
    machine = machine_of((4,))
    rings = SearchGraph(((0, 1, 2, 3), (0, 3, 2, 1)), 12.0, PathType.PHB, same_channels=False)
    model = CollectiveModel(machine, Operation.ALL_REDUCE, nccl_plan(machine, rings=rings))
    # Both directions of each link carry half of the data of two rings: together the rate of one ring.
    one = CollectiveModel(machine, Operation.ALL_REDUCE, with_order(nccl_plan(machine), (0, 1, 2, 3)))
    assert model.step_times(Algorithm.RING).bytes_per_s == pytest.approx(one.step_times(Algorithm.RING).bytes_per_s)


def test_nvlink_is_refused():
    tree = machine_of((4,)).tree
    linked = replace(tree, peer_links=(PeerLink("NVLink", ("0", "1", "2"), 1e11),))
    with pytest.raises(PeerLinkError, match="connected only by PCIe"):
        communicator(machine_of_tree(linked))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"NCCL_P2P_LEVEL": "FAR"}, "NCCL_P2P_LEVEL"),
        ({"NCCL_PROTO": "fast"}, "NCCL_PROTO"),
        ({"NCCL_MIN_NCHANNELS": "0"}, "expected 1 to 32"),
        ({"NCCL_MIN_NCHANNELS": "8", "NCCL_MAX_NCHANNELS": "4"}, "ordered pair"),
        ({"NCCL_BUFFSIZE": "1"}, "64 KiB"),
        ({"PATH": "x"}, "variables of NCCL"),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS"}, "one of them"),
    ],
)
def test_invalid_variables_are_rejected(environment, message):
    with pytest.raises(InputError, match=message):
        with_environment(NcclSettings(), environment)


def test_other_variables_are_listed():
    assert with_environment(NcclSettings(), {"NCCL_IB_DISABLE": "1"}).ignored == ("NCCL_IB_DISABLE",)
    misspelt = {"NCCL_ALGOO": "Ring", "NCCL_PROTOCOL": "LL", "NCCL_MIN_CHANNELS": "4", "NCCL_MIN_P2P_NCHANNELS": "4"}
    assert with_environment(NcclSettings(), misspelt).ignored == (
        "NCCL_ALGOO (did you mean NCCL_ALGO?)",
        "NCCL_PROTOCOL (did you mean NCCL_PROTO?)",
        "NCCL_MIN_CHANNELS (did you mean NCCL_MIN_NCHANNELS?)",
        "NCCL_MIN_P2P_NCHANNELS",
    )
    assert with_environment(NcclSettings(), {"NCCL_PROTO": "^LL128"}).protocols == {Protocol.LL, Protocol.SIMPLE}


def test_the_published_errors_are_those_of_the_constants():
    stored = pd.read_csv(published() / "collectives" / "errors.csv", comment="#")
    columns = {"fabricast": "forecast_s", "NCCL's estimate": "nccl_s", "alpha-beta with the pair rate": "alpha_beta_s"}
    computed = error_table(machine_errors(), columns)
    keys = ["transport", "size_class", "forecast"]
    both = computed.merge(stored, on=keys, suffixes=("", "_stored"))
    assert len(both) == len(computed) == 18
    for name in ("rows", "machines", "median", "within_band", "worst"):
        np.testing.assert_allclose(both[name], both[f"{name}_stored"], rtol=2e-3, atol=2e-4)


def test_the_published_errors_by_state_are_of_the_same_rows():
    states = pd.read_csv(published() / "collectives" / "state_errors.csv", comment="#")
    stored = pd.read_csv(published() / "collectives" / "errors.csv", comment="#")
    left_out = stored[stored["forecast"] == LEFT_OUT]
    measured = states[states["state"] == PAIRS_MEASURED]
    both = measured.merge(left_out, on=["transport", "size_class"], suffixes=("", "_stored"))
    assert len(both) == len(measured) == 6
    for name in ("rows", "machines", "median", "within_band", "worst"):
        np.testing.assert_allclose(both[name], both[f"{name}_stored"], rtol=2e-3, atol=2e-4)
    assert (states["shortest"] < states["longest"]).all()
    assert states["coverage"].between(0, 1).all()


def test_rows_of_other_programs_are_no_errors_of_nccl_tests():
    programs = pd.read_csv(published() / "collectives" / "machines.csv", comment="#").set_index("system")["timed_by"]
    assert {"SGLang", "torch.distributed"} <= set(programs)
    of_nccl_tests = {system for system in programs.index if is_of_nccl_tests(system)}
    assert {programs[system] for system in of_nccl_tests} == {"nccl-tests", "not said"}
    counted = error_table(machine_errors(), {"fabricast": "forecast_s"})["machines"].max()
    assert counted <= len(of_nccl_tests)


def test_forecasts_are_better_than_the_baselines_in_each_class():
    stored = pd.read_csv(published() / "collectives" / "errors.csv", comment="#").set_index(["transport", "size_class"])
    for _, part in stored.groupby(level=[0, 1]):
        median = part.set_index("forecast")["median"]
        left_out = median["fabricast, machine left out of the fit"]
        assert left_out < median["NCCL's estimate"]
        assert left_out < median["alpha-beta with the pair rate"]


def test_constants_have_an_interval_that_contains_them():
    rows = pd.read_csv(published() / "collectives" / "constants.csv", comment="#")
    assert (rows["ci_low"] <= rows["value"]).all()
    assert (rows["value"] <= rows["ci_high"]).all()


def test_every_measured_row_has_a_forecast():
    for case in measured_cases():
        forecast = case.forecast_s()
        assert np.isfinite(forecast).all()
        assert (forecast > 0).all()
        assert (np.abs(np.log(forecast / case.measured_s)) < np.log(6)).all(), case.system


@pytest.mark.parametrize(
    ("system", "pattern"),
    [
        *((system, "alltoall") for system in ("pptest", "wrx90-A", "sm02", "autodl-2080ti", "asus4")),
        # The simulator has one rate of links; the neighbours of sm02 have several.
        *((system, "ring") for system in ("pptest", "wrx90-A", "autodl-2080ti", "asus4")),
    ],
)
def test_the_copies_of_a_step_take_the_time_of_the_packet_simulator(system, pattern, monkeypatch):
    """A step of all_gather, reduce_scatter and sendrecv is a ring; rates of single measured pairs are left out."""
    # Without copies between sockets: the capacity of the link between them is unknown, and the two assume different ones.
    monkeypatch.setattr(Machine, "both_ways_bytes_per_s", {})
    machine = measured_machine(system)
    # Values of the cached property, which another test may have filled.
    machine = replace(machine, machine=replace(machine.machine))
    ranks = range(len(machine.ranks))
    pairs = (
        list(itertools.permutations(ranks, 2)) if pattern == "alltoall" else [(r, (r + 1) % len(ranks)) for r in ranks]
    )
    hops = [Hop(source, target, Transport.P2P) for source, target in pairs]
    numbers = [machine.tree.endpoint_number[name] for name in machine.ranks]
    graph = from_pairs([[(numbers[hop.source], numbers[hop.target]) for hop in hops]], size_bytes=16 * MIB)
    rates = machine.model.rates
    simulated = run_packets(tree_with_rates(machine.tree, rates), graph, hardware_with_rates(rates)).simulation
    rate = 16 * MIB / simulated.end_s.max()
    assert min(step_rate(machine, hops).bytes_per_s) == pytest.approx(rate, rel=0.01)
