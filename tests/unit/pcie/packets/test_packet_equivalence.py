"""Packet simulation of equivalent graphs and of shortened routes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricast.core.units import MIB
from fabricast.pcie.graphs.congestion_graphs import all_to_all, from_pairs, joined
from fabricast.pcie.graphs.sets import stress_set
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.equivalent_runs import compare_runs, share_of_runs, simulate_ends
from fabricast.pcie.packets.hardware import HARDWARE, PacketHardware
from fabricast.pcie.packets.simulator import simulate_once
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.parts import Vertex
from fabricast.pcie.topology.symmetry import automorphism_count, automorphisms
from fabricast.pcie.topology.tree import PcieTree
from tests.unit.pcie.packets.packet_cases import ARC


@settings(max_examples=25, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=12),
    st.lists(st.integers(1, 3), min_size=12, max_size=12),
    st.sampled_from(["storm8", "flat4x2"]),
    st.sampled_from(["no_split", "split_256_128"]),
    st.randoms(use_true_random=False),
)
def test_completion_times_do_not_depend_on_rows_or_endpoint_names(pairs, sizes, topology, hardware, chance):
    tree = load_tree(topology)
    image = automorphisms(tree)[chance.randrange(automorphism_count(tree))]
    order = list(range(len(pairs)))
    chance.shuffle(order)
    sizes = [size * 1e6 for size in sizes[: len(pairs)]]
    moved = [(int(image[pairs[i][0]]), int(image[pairs[i][1]])) for i in order]
    one = replace(from_pairs([pairs], size_bytes=1.0), size_bytes=np.array(sizes))
    other = replace(from_pairs([moved], size_bytes=1.0), size_bytes=np.array([sizes[i] for i in order]))
    expected, found = (simulate(tree, graphs, HARDWARE[hardware]) for graphs in (one, other))
    for name in ("end_s", "earliest_s", "latest_s"):
        assert getattr(found, name).tolist() == getattr(expected, name)[order].tolist()


@pytest.mark.slow
def test_components_and_phases_agree_with_whole_graphs(storm8):
    # Completion times are within the range of whole graphs simulated in many phases.
    pairs = [pairs for _, pairs in stress_set(storm8, 30)]
    pooled = simulate(storm8, from_pairs(pairs, size_bytes=float(3 * MIB)), HARDWARE["split_256_128"])
    whole = np.stack(
        [
            simulate_once(
                storm8, from_pairs(pairs, size_bytes=float(3 * MIB)), HARDWARE["split_256_128"], phase=phase
            ).end_s
            for phase in range(12)
        ]
    )
    packet_s = 400 / HARDWARE["split_256_128"].raw_bytes_per_s
    assert (pooled.end_s >= whole.min(axis=0) - 20 * packet_s).mean() > 0.97
    assert (pooled.end_s <= whole.max(axis=0) + 20 * packet_s).mean() > 0.97


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=14),
    st.lists(st.sampled_from([1, 2, 90, 150, 150]), min_size=14, max_size=14),
    st.lists(st.sampled_from([0, 0, 0, 0, 0, 30]), min_size=14, max_size=14),
    st.sampled_from(
        [
            *HARDWARE.values(),
            PacketHardware(split_bytes=64, piece_cost_ns=2.0, buffering="virtual_output_queues"),
            PacketHardware(payload_bytes=512, split_bytes=128, data_credits=32 * 8, header_credits=9),
        ]
    ),
    st.lists(st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.5]), min_size=12, max_size=12),
    st.integers(0, 8),
)
def test_shortened_routes_do_not_change_completion_times(pairs, packets, starts, hardware, capacities, phase):
    """Check bitwise identical completion times on trees with any link widths."""
    parents = ["RC", "RC", "S", "S", "S", "T", "T", "U", "U", "RC", "U", "RC"]
    names = ["S", "T", "U", *map(str, range(7)), "V", "7"]
    parents = dict(zip(names, parents, strict=True)) | {"U": "S", "V": "T", "6": "V", "7": "RC"}
    widths = sorted(zip(names, capacities, strict=True), key=lambda one: one[0].isdigit())
    below = [Vertex(name, "endpoint" if name.isdigit() else "switch", parents[name], width) for name, width in widths]
    vertices = (Vertex("RC", "root_complex", None), *below)
    graphs = replace(
        from_pairs([pairs], size_bytes=1.0),
        size_bytes=np.array(packets[: len(pairs)], dtype=np.float64) * hardware.payload_bytes,
        start_s=np.array(starts[: len(pairs)]) * 1e-7,
    )
    for tree in (load_tree("storm8"), PcieTree("mixed", vertices)):
        whole = simulate_once(tree, graphs, hardware, phase=phase)
        assert simulate_ends(tree, graphs, hardware, phase=phase).tobytes() == whole.end_s.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ARC, min_size=1, max_size=8),
    st.lists(st.sampled_from([0, 0, 0, 30, 31]), min_size=8, max_size=8),
    st.sampled_from(
        [
            *HARDWARE.values(),
            PacketHardware(split_bytes=64, buffering="virtual_output_queues", hop_latency_ns=20.0),
            PacketHardware(split_bytes=128, link_layer_packets=True),
        ]
    ),
    st.lists(st.tuples(st.permutations(range(8)), st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=6),
)
def test_equivalent_runs_have_equal_completion_times(pairs, starts, hardware, copies):
    """Compare with single runs for shuffled rows, symmetric endpoints and phases."""
    tree = load_tree("storm8")
    every, phases = [], []
    for order, exchanged, phase in copies:
        rows = [row for row in order if row < len(pairs)]
        # Exclusive or with a number below 8 is a symmetry of the binary tree.
        changed = [(pairs[row][0] ^ exchanged, pairs[row][1] ^ exchanged) for row in rows]
        every.append(
            replace(from_pairs([changed], size_bytes=40e3), start_s=np.array([starts[row] * 1e-7 for row in rows]))
        )
        phases.append(phase)
    together = simulate_ends(tree, joined(every), hardware, phase=np.array(phases))
    single = [simulate_once(tree, one, hardware, phase=phase).end_s for one, phase in zip(every, phases, strict=True)]
    assert together.tobytes() == np.concatenate(single).tobytes()


def test_symmetric_graphs_are_equivalent_runs(storm8):
    """Check that only symmetric endpoints and common time shifts are equivalent."""
    graphs = [[(0, 1), (0, 4), (2, 5)], [(1, 0), (1, 5), (3, 4)], [(0, 1), (0, 4), (2, 5)], [(0, 1), (0, 4), (2, 5)]]
    together = from_pairs(graphs, size_bytes=1e6)
    size, start = together.size_bytes.copy(), together.start_s.copy()
    start[6:9] += 1e-3
    start[9] += 1e-3
    size[0] = 2e6
    # The first two graphs have too many copies to be compared.
    wide = from_pairs([all_to_all(range(8)) * 2, all_to_all(range(8)) * 2, [(0, 1)], [(6, 7)]], size_bytes=1e6)
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
    two = from_pairs([[(1, 0), (4, 0)]] * 9, size_bytes=1e6)
    assert set(compare_runs(storm8, two, HARDWARE["no_split"], phase=np.arange(9)).kind) == {0, 1}
