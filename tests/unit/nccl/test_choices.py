"""NCCL's graph search, cost table, choices and transport rule, against printed values and the specification."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.core.errors import InputError
from fabricast.nccl.costs import COST_OPERATIONS, Algorithm, Operation, Protocol, bus_factor, cost_table
from fabricast.nccl.schedule import channels_in_use, ring_chunks
from fabricast.nccl.search import SearchGraph, search_rings, search_trees
from fabricast.nccl.system import Cpu, NcclSystem, PathType, link_gb_per_s, parse_version

KIB = 1024
FOUR, EIGHT = ((),) * 4, ((),) * 8
GEN3, GEN4, GEN5 = 12.0, 24.0, 48.0
TWO_SWITCHES = ((0,),) * 4 + ((1,),) * 4
PAIRS_BELOW_SWITCHES = ((0,),) * 2 + ((1,),) * 2


def direct(parents, rate, numa, cpu, capability, **settings):
    """Return a machine without switches whose GPUs copy directly."""
    return NcclSystem(
        parents, (), (rate,) * len(parents), (), numa, cpu, capability, **{"p2p_level": PathType.SYS, **settings}
    )


MACHINES = {
    "pptest": direct(FOUR, GEN4, (0,) * 4, Cpu.AMD, 8.9),
    "intel one root": direct(FOUR, GEN4, (0,) * 4, Cpu.INTEL_SKYLAKE, 8.9),
    "chlc": direct(EIGHT, GEN4, (3, 2, 1, 0, 7, 6, 5, 4), Cpu.AMD, 8.9),
    "turin": direct(EIGHT, GEN5, (0,) * 4 + (1,) * 4, Cpu.AMD, 12.0),
    "sm02": NcclSystem(FOUR, (), (GEN3,) * 4, (), (0, 0, 1, 1), Cpu.INTEL_SKYLAKE, 8.0),
    "wrx90": NcclSystem(
        TWO_SWITCHES, (-1, -1), (GEN5,) * 8, (GEN5,) * 2, (0,) * 8, Cpu.AMD, 12.0, p2p_level=PathType.SYS
    ),
    "issue 307": NcclSystem(
        TWO_SWITCHES,
        (-1, -1),
        (GEN4,) * 8,
        (GEN4,) * 2,
        (0,) * 4 + (1,) * 4,
        Cpu.INTEL_SKYLAKE,
        8.9,
        has_peer_access=False,
    ),
    "sample log": NcclSystem(PAIRS_BELOW_SWITCHES, (-1, -1), (GEN4,) * 4, (GEN4,) * 2, (0, 0, 1, 1), Cpu.AMD, 8.9),
    "autodl": NcclSystem(((0,),) * 2, (-1,), (GEN3,) * 2, (GEN3,), (0, 0), Cpu.UNKNOWN, 7.5, has_peer_access=False),
    "asus4": NcclSystem(PAIRS_BELOW_SWITCHES, (-1, -1), (GEN5,) * 4, (GEN5,) * 2, (0,) * 4, Cpu.AMD, 12.0),
    "asus8": NcclSystem(
        tuple((switch,) for switch in (0, 0, 1, 1, 2, 2, 3, 3)),
        (-1,) * 4,
        (GEN5,) * 8,
        (GEN5,) * 4,
        (0,) * 4 + (1,) * 4,
        Cpu.AMD,
        12.0,
    ),
}


@pytest.mark.parametrize(
    ("name", "channels", "speed", "kind"),
    [
        # nccl-tests issue 307 prints "nChannels 1, bw 5.000000/5.000000, type SYS".
        ("issue 307", 1, 5.0, PathType.SYS),
        # The sample log prints "nChannels 1, bw 15.000000/15.000000, type SYS".
        ("sample log", 1, 15.0, PathType.SYS),
        ("wrx90", 2, 24.0, PathType.PHB),
        ("intel one root", 1, 20.0, PathType.PHB),
        ("chlc", 1, 15.0, PathType.SYS),
        ("sm02", 1, 10.0, PathType.SYS),
        ("asus4", 2, 24.0, PathType.PHB),
        ("turin", 1, 0.1, PathType.SYS),
        ("asus8", 1, 0.1, PathType.SYS),
    ],
)
def test_the_search_finds_the_channels_of_nccl(name, channels, speed, kind):
    rings = search_rings(MACHINES[name])
    assert (rings.channels, rings.gb_per_s, rings.type) == (channels, speed, kind)
    assert rings.is_fallback == (speed == 0.1)
    assert all(sorted(order) == list(range(MACHINES[name].gpus)) for order in rings.orders)


def test_trees_have_as_many_channels_as_rings():
    for system in MACHINES.values():
        assert search_trees(system).channels == search_rings(system).channels


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Operation.BROADCAST, {"ring/ll": (7.6, 7.5), "ring/ll128": (16.5, 0.0), "ring/simple": (14.1, 15.0)}),
        (Operation.REDUCE, {"ring/ll": (7.6, 7.5), "ring/ll128": (16.5, 0.0), "ring/simple": (14.1, 15.0)}),
        (Operation.ALL_GATHER, {"ring/ll": (9.6, 10.0), "ring/ll128": (21.5, 0.0), "ring/simple": (25.5, 20.0)}),
        (Operation.REDUCE_SCATTER, {"ring/ll": (9.6, 10.0), "ring/ll128": (21.5, 0.0), "ring/simple": (25.5, 20.0)}),
        (
            Operation.ALL_REDUCE,
            {
                "tree/ll": (12.8, 1.8),
                "tree/ll128": (25.4, 0.0),
                "tree/simple": (32.4, 6.9),
                "ring/ll": (12.6, 5.0),
                "ring/ll128": (29.0, 0.0),
                "ring/simple": (42.6, 10.0),
            },
        ),
    ],
)
def test_the_cost_table_equals_that_of_nccl_to_the_printed_digit(operation, expected):
    # tests/data/collectives/nccl_debug_info.log has the table that NCCL 2.30.7 prints for this machine.
    table = cost_table(MACHINES["sample log"], operation)
    printed = {
        "/".join(pair): (round(cost.latency_us, 1), round(cost.gb_per_s, 1)) for pair, cost in table.costs.items()
    }
    assert printed == expected


@pytest.mark.parametrize(
    ("name", "first_simple"),
    [
        ("turin", 4 * KIB),
        ("asus8", 4 * KIB),
        ("sm02", 256 * KIB),
        ("pptest", 512 * KIB),
        ("autodl", 128 * KIB),
        ("asus4", 1024 * KIB),
        ("chlc", 1024 * KIB),
    ],
)
def test_the_protocol_changes_at_the_sizes_of_measured_kinks(name, first_simple):
    sizes = 2.0 ** np.arange(8, 28)
    choices = cost_table(MACHINES[name], Operation.ALL_REDUCE).choices(
        sizes, [(algorithm, protocol) for algorithm in Algorithm for protocol in (Protocol.LL, Protocol.SIMPLE)]
    )
    assert {choice[0] for choice in choices} == {Algorithm.RING}
    assert sizes[next(place for place, choice in enumerate(choices) if choice[1] is Protocol.SIMPLE)] == first_simple


def test_direct_copies_follow_the_rule_of_the_version():
    system = replace(MACHINES["sample log"], version=(2, 30, 7))
    assert [system.path(0, target).p2p for target in (1, 2)] == [True, False]
    assert system.path(0, 2).type is PathType.SYS
    old = replace(system, version=(2, 22, 3))
    assert old.path(0, 2).p2p, "AMD before 2.23: up to SYS"
    assert not replace(old, cpu=Cpu.INTEL_SKYLAKE).path(0, 2).p2p, "Intel before 2.23: up to PXB"
    two = direct(((),) * 2, GEN4, (0, 1), Cpu.AMD, 8.9, p2p_level=None)
    assert two.path(0, 1).p2p, "AMD with two GPUs: up to SYS"
    assert not replace(two, has_peer_access=False).path(0, 1).p2p
    assert not replace(two, p2p_level=PathType.LOC).path(0, 1).p2p


def test_links_between_sockets_depend_on_processor_and_version():
    assert Cpu.AMD.link_gb_per_s((2, 19, 3)) == 16
    assert Cpu.AMD.link_gb_per_s((2, 18, 0)) == 5000
    assert Cpu.INTEL_SAPPHIRE_RAPIDS.link_gb_per_s((2, 25, 1)) == 10
    assert Cpu.INTEL_SAPPHIRE_RAPIDS.link_gb_per_s((2, 26, 2)) == 22


@pytest.mark.parametrize(("raw", "expected"), [(63.015e9, 48.0), (31.508e9, 24.0), (15.754e9, 12.0), (7.877e9, 6.0)])
def test_link_rates_are_those_of_nccl(raw, expected):
    assert link_gb_per_s(raw) == expected


@pytest.mark.parametrize("text", ["2", "2.x", "1.9.1", "3.0.0", "2.1234.5", ""])
def test_other_versions_are_rejected(text):
    with pytest.raises(InputError, match="expected"):
        parse_version(text)


def test_more_than_16_gpus_are_rejected():
    with pytest.raises(InputError, match="expected 2 to 16"):
        direct(((),) * 17, GEN4, (0,) * 17, Cpu.AMD, 8.9)


def reference_channels(operation, algorithm, protocol, size, *, ranks, channels, ring):
    """Return the channels in use by counting down, as the specification states."""
    threads = {Protocol.LL: 512, Protocol.LL128: 640, Protocol.SIMPLE: 512}[protocol]
    if algorithm is Algorithm.RING and protocol is Protocol.SIMPLE and ring <= 12:
        threads = 256
    threshold = {Protocol.LL: 8, Protocol.LL128: 8, Protocol.SIMPLE: 64}[protocol]
    if algorithm is Algorithm.RING and protocol is Protocol.LL:
        threshold *= ranks
    count = channels
    while count >= 2 and size < count * threads * threshold:
        count -= 1
    return count


@given(
    st.sampled_from([Operation.ALL_REDUCE, Operation.ALL_GATHER]),
    st.sampled_from([Protocol.LL, Protocol.SIMPLE]),
    st.integers(1, 1 << 26),
    st.integers(2, 16),
    st.integers(1, 32),
    st.sampled_from([10.0, 48.0]),
)
def test_channels_in_use_equal_the_reference(operation, protocol, size, ranks, channels, ring):
    found = channels_in_use(
        operation, Algorithm.RING, protocol, np.array([float(size)]), ranks=ranks, channels=channels, ring_gb_per_s=ring
    )[0]
    most = reference_channels(operation, Algorithm.RING, protocol, size, ranks=ranks, channels=channels, ring=ring)
    # A channel gets at least 32 KiB of traffic, which counts four times for LL.
    per_byte = (2 if operation is Operation.ALL_REDUCE else ranks) * (4 if protocol is Protocol.LL else 1)
    count = size if operation is Operation.ALL_REDUCE else size / ranks
    assert 1 <= found <= most
    assert found == most or found <= count * per_byte / (32 * KIB) + 1 + 16 * per_byte / (32 * KIB)


@given(st.integers(1, 1 << 30), st.integers(2, 16), st.integers(1, 8))
def test_loops_move_all_bytes(size, ranks, channels):
    chunks = ring_chunks(Operation.ALL_REDUCE, Protocol.SIMPLE, np.array([float(size)]), np.array([channels]), ranks)
    assert chunks.steps == 2 * (ranks - 1)
    assert chunks.loops[0] * chunks.bytes[0] * ranks == pytest.approx(size)
    assert chunks.bytes[0] <= channels * (2 << 20) * (1 + 1e-12)


def test_bus_factors_are_those_of_nccl_tests():
    assert [bus_factor(operation, 8) for operation in Operation] == [1.75, 0.875, 0.875, 1.0, 1.0, 0.875, 1.0]


def test_a_slower_table_never_wins():
    sizes = 2.0 ** np.arange(8, 30)
    for operation in COST_OPERATIONS:
        table = cost_table(MACHINES["wrx90"], operation)
        best = np.min([table.time_us(*pair, sizes) for pair in table.costs], axis=0)
        for place, choice in enumerate(table.choices(sizes)):
            assert table.time_us(*choice, sizes[place : place + 1])[0] == best[place]


def test_ll128_is_used_only_if_the_user_names_it():
    off, on = (cost_table(MACHINES["wrx90"], Operation.ALL_REDUCE, ll128=named) for named in (False, True))
    assert off.costs[Algorithm.RING, Protocol.LL128].gb_per_s == 0
    assert np.isinf(off.time_us(Algorithm.RING, Protocol.LL128, np.array([1024.0]))).all()
    assert on.costs[Algorithm.RING, Protocol.LL128].gb_per_s == pytest.approx(min(0.92 * 48, 2 * 40) * 8 / 14)


def test_channels_in_use_are_twice_those_of_the_search():
    graph = SearchGraph(((0, 1),), 12.0, PathType.PHB)
    assert graph.total_gb_per_s == 12.0
