"""NCCL's search and cost table on NVLink nodes and clusters, against graph lines and tables of logs."""

from dataclasses import replace

import numpy as np
import pytest

from fabricast.nccl.costs import Algorithm, Operation, Protocol
from fabricast.nccl.hosts import Hosts, channels_for_use, host_costs, host_graphs
from fabricast.nccl.system import Cpu, PathType

MESH = Hosts(9.0, 4, links=18, is_switched=False, cpu=Cpu.AMD, version=(2, 22, 0))
MESHES = replace(MESH, hosts=2, cards=4, card_gb_per_s=25.0)
SWITCH = Hosts(9.0, 8, links=18, version=(2, 29, 0))
SWITCHES = replace(SWITCH, hosts=10, cards=8, card_gb_per_s=50.0)
AMPERE = Hosts(8.0, 8, links=12)


@pytest.mark.parametrize(
    ("hosts", "rings", "trees", "channels"),
    [
        (MESH, (12, 30.0, 30.0), (12, 30.0, 30.0, 1), 24),
        (MESHES, (4, 24.0, 24.0), (4, 48.0, 24.0, 3), 8),
        (SWITCH, (12, 30.0, 30.0), (12, 30.0, 30.0, 1), 24),
        (SWITCHES, (8, 48.0, 48.0), (8, 48.0, 48.0, 3), 16),
        (AMPERE, (12, 20.0, 20.0), (12, 20.0, 20.0, 1), 24),
        (
            replace(AMPERE, hosts=2, cards=8, card_gb_per_s=25.0, gpus_of_switch=2, card_path=PathType.PXB),
            (8, 24.0, 24.0),
            (8, 30.0, 24.0, 1),
            16,
        ),
        # Each ring returns to its card over a link of 6 GB/s between processors.
        (
            replace(MESHES, hosts=4, card_path=PathType.PHB, cpu=Cpu.ARM, version=(2, 23, 4)),
            (12, 6.0, 6.0),
            (12, 12.0, 6.0, 3),
            24,
        ),
    ],
)
def test_the_search_finds_the_channels_of_logs(hosts, rings, trees, channels):
    graphs = host_graphs(hosts)
    assert (graphs.rings.channels, graphs.rings.intra, graphs.rings.inter) == rings
    tree = graphs.trees
    assert (tree.channels, tree.intra, tree.inter, tree.pattern) == trees
    assert channels_for_use(hosts, Algorithm.RING) == channels


def test_nvls_has_a_head_for_each_gpu():
    one, several = host_graphs(SWITCH).nvls, host_graphs(SWITCHES).nvls
    assert (one.channels, one.intra, one.inter) == (8, 40.0, 60.0)
    assert (several.channels, several.intra, several.inter) == (8, 40.0, 48.0)
    assert channels_for_use(SWITCH, Algorithm.NVLS) == 16
    assert host_graphs(MESH).nvls is None
    assert host_graphs(replace(SWITCH, version=(2, 17, 0))).nvls is None


@pytest.mark.parametrize(
    ("hosts", "pair", "latency", "rate"),
    [
        (MESHES, (Algorithm.RING, Protocol.LL), 37.4, 12.9),
        (MESHES, (Algorithm.RING, Protocol.LL128), 50.0, 50.5),
        (MESHES, (Algorithm.RING, Protocol.SIMPLE), 124.4, 54.9),
        (MESHES, (Algorithm.TREE, Protocol.LL), 20.4, 9.6),
        (MESHES, (Algorithm.TREE, Protocol.LL128), 38.5, 62.4),
        (MESHES, (Algorithm.TREE, Protocol.SIMPLE), 224.0, 70.4),
        (SWITCH, (Algorithm.RING, Protocol.SIMPLE), 56.0, 205.7),
        (SWITCH, (Algorithm.NVLS, Protocol.SIMPLE), 25.0, 272.0),
        (SWITCHES, (Algorithm.TREE, Protocol.LL), 45.2, 8.7),
        (SWITCHES, (Algorithm.TREE, Protocol.LL128), 82.5, 98.6),
        (SWITCHES, (Algorithm.RING, Protocol.SIMPLE), 736.4, 194.4),
        (SWITCHES, (Algorithm.NVLS_TREE, Protocol.SIMPLE), 150.4, 184.3),
    ],
)
def test_the_cost_table_is_that_of_nccl(hosts, pair, latency, rate):
    cost = host_costs(hosts, Operation.ALL_REDUCE).costs[pair]
    assert round(cost.latency_us, 1) == latency
    assert round(cost.gb_per_s, 1) == rate


def test_the_choice_changes_with_the_size():
    sizes = np.array([8.0, 256 << 10, 16 << 20, 4 << 30])
    found = host_costs(SWITCHES, Operation.ALL_REDUCE).choices(sizes)
    assert found == [
        (Algorithm.TREE, Protocol.LL),
        (Algorithm.TREE, Protocol.LL128),
        (Algorithm.NVLS_TREE, Protocol.SIMPLE),
        (Algorithm.RING, Protocol.SIMPLE),
    ]
    one = host_costs(SWITCH, Operation.ALL_REDUCE).choices(np.array([1 << 20, 2 << 20], dtype=float))
    assert one == [(Algorithm.RING, Protocol.LL), (Algorithm.NVLS, Protocol.SIMPLE)]


@pytest.mark.parametrize(
    ("hosts", "is_used"),
    [
        (SWITCH, True),
        (replace(MESHES, card_path=PathType.PHB), False),
        # Over NVLink to the GPU beside the card: since 2.27 on Hopper.
        (replace(AMPERE, hosts=2, cards=8, card_gb_per_s=25.0), False),
        (replace(AMPERE, hosts=2, cards=8, card_gb_per_s=25.0, gpus_of_switch=2), True),
    ],
)
def test_ll128_depends_on_the_path_to_the_card(hosts, is_used):
    assert hosts.uses_ll128 == is_used
    rate = host_costs(hosts, Operation.ALL_REDUCE).costs[Algorithm.RING, Protocol.LL128].gb_per_s
    assert (rate > 0) == is_used


def test_all_gather_uses_nvls_on_one_host_only():
    one, several = (host_costs(hosts, Operation.ALL_GATHER).costs for hosts in (SWITCH, SWITCHES))
    assert (Algorithm.NVLS, Protocol.SIMPLE) in one
    assert not any(pair[0] in (Algorithm.NVLS, Algorithm.NVLS_TREE, Algorithm.TREE) for pair in several)
    older = host_costs(replace(SWITCH, version=(2, 18, 0)), Operation.ALL_GATHER).costs
    assert (Algorithm.NVLS, Protocol.SIMPLE) not in older


def test_the_latency_of_large_rings_over_hosts_is_slower():
    table = host_costs(SWITCHES, Operation.ALL_REDUCE)
    size = np.array([64 * 8 * 80 - 1, 64 * 8 * 80], dtype=float)
    slow = table.time_us(Algorithm.RING, Protocol.SIMPLE, size)
    assert slow[1] / slow[0] == pytest.approx(1.4, rel=1e-3)
