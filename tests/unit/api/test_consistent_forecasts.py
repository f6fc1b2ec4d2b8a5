"""Forecasts that must agree with each other: more copies, faster links, limits of the wire, and parts of an answer."""

import itertools

import numpy as np
import pytest

import fabricast as fc
from fabricast.collectives.clusters.errors import many_nodes_range
from fabricast.core.warnings import WarningCode
from fabricast.nccl.costs import bus_factor
from tests.unit.pcie.topology.test_listings import matrix

SIZES = [2.0**power for power in range(3, 34)]


@pytest.mark.parametrize("copies", ["3>7 7>3", "3>7 7>3 7>4", "0>1 1>0 2>3 3>2"])
def test_the_time_without_a_staged_copy_is_that_of_the_others(copies):
    pairs = copies.split()
    table = fc.predict("pcie5_four_switches", copies, size="64 MiB", transport="staged")
    limited = table[table["limited_by"] != ""]
    assert len(limited)
    for row in limited.itertuples():
        removed = row.limited_by.split()[0]
        kept = [pair for pair in pairs if pair != removed]
        again = fc.predict("pcie5_four_switches", " ".join(kept), size="64 MiB", transport="staged")
        same = again[(again["source"] == row.source) & (again["target"] == row.target)]
        assert same["elapsed_s"].tolist() == pytest.approx([row.elapsed_without_s])


def test_both_directions_of_a_staged_pair_are_the_bottleneck_of_the_pair():
    table = fc.predict("pcie5_four_switches", "3>7 7>3", size="64 MiB", transport="staged")
    assert table["bottleneck"].tolist() == ["host memory, both directions of the pair"] * 2
    assert fc.predict("pcie5_four_switches", "3>7", transport="staged")["bottleneck"].tolist() == ["link RC1 > S3"]


@pytest.mark.parametrize("copy", ["0>1", "0>6"])
def test_a_faster_link_makes_no_copy_slower(copy):
    times = [fc.predict("storm8", copy, link=link)["elapsed_s"].iloc[0] for link in ("gen3x16", "gen4x16", "gen5x16")]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(times))


def test_rates_of_host_memory_do_not_change_direct_hops(tmp_path):
    """Two sockets of four GPUs: NCCL copies directly within a socket, and through host memory between them."""
    (tmp_path / "topo.txt").write_text(
        matrix([["PIX" if i // 4 == j // 4 else "SYS" for j in range(8)] for i in range(8)], numa=[0] * 4 + [1] * 4)
    )
    rates = {"Enabled": (25.5, 49.0), "Disabled": (24.0, 42.0)}
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    for access, of_access in rates.items():
        for words, rate in zip(("Unidirectional", "Bidirectional"), of_access, strict=True):
            lines += [f"{words} P2P={access} Bandwidth Matrix (GB/s)", "   D\\D" + "".join(f"{n:7}" for n in range(8))]
            lines += [
                f"{row:6}" + "".join(f"{900.0 if row == column else rate:7.2f}" for column in range(8))
                for row in range(8)
            ]
    (tmp_path / "p2p.txt").write_text("\n".join(lines) + "\n")
    machine = fc.load_machine([tmp_path / "topo.txt", tmp_path / "p2p.txt"], gpu="L40S")
    forecast = fc.collective(machine, sizes=["256 MiB"], cpu="AMD EPYC")
    assert any("SHM" in name for name in forecast.transports) and any("P2P" in name for name in forecast.transports)
    assert forecast.table["bus_gb_per_s"].iloc[0] <= forecast.step.slowest_bytes_per_s / 1e9 * (1 + 1e-6)


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
@pytest.mark.parametrize(("nodes", "nic"), [(1, None), (4, "8x400"), (64, "1x400")])
def test_no_end_of_a_range_is_faster_than_the_wire(operation, nodes, nic):
    network = {} if nic is None else {"nic": nic, "network": "InfiniBand"}
    forecast = fc.cluster_collective("hgx_h100", operation, nodes=nodes, sizes=SIZES, **network)
    if "earliest_us" not in forecast.table:
        assert operation == "broadcast" and nodes > 1
        return
    cluster = forecast.cluster
    wire = cluster.nvlink_bytes_per_s if nodes == 1 else cluster.cards * cluster.card_gbit_s * 1e9 / 8
    rings = forecast.table[forecast.table["algorithm"] == "ring"]
    rate = rings["size_bytes"] / rings["earliest_us"] * 1e6 * bus_factor(forecast.operation, cluster.ranks)
    assert len(rings) and (rate <= wire * (1 + 1e-9)).all()
    assert (forecast.table["earliest_us"] <= forecast.table["time_us"]).all()


def test_more_nodes_are_not_more_certain():
    options = {"nic": "8x400", "network": "InfiniBand", "sizes": ["8 B", "1 MiB", "1 GiB"]}
    few, many = (fc.cluster_collective("hgx_h100", nodes=nodes, **options) for nodes in (64, 65))
    for size in few.table["size_bytes"]:
        ends = [many_nodes_range(one.cluster, one.operation, size) for one in (few, many)]
        assert ends[1].shortest <= ends[0].shortest and ends[1].longest >= ends[0].longest


@pytest.mark.parametrize("operation", ["broadcast", "reduce"])
def test_broadcast_over_nodes_has_no_error_and_no_advice(operation):
    forecast = fc.cluster_collective("hgx_h100", operation, nodes=4, nic="8x200", network="InfiniBand", sizes=SIZES)
    assert (forecast.table["gain"] == 1).all() and "earliest_us" not in forecast.table
    texts = [one.text for one in forecast.warnings if one.code is WarningCode.EXPECTED_ERROR]
    assert len(texts) == 1 and "is unknown" in texts[0]
    same = forecast.table.groupby(["protocol", "channels"])["time_us"]
    assert all(np.all(np.diff(times) >= 0) for _, times in same)


def test_cards_that_no_gpu_uses_are_named():
    copies = [("node0.gpu0", "node1.gpu0")]
    for nic, is_named in (("12x200", True), ("16x200", False), ("8x400", False)):
        cluster = fc.load_cluster("hgx_h100", nodes=2, nic=nic, network="InfiniBand")
        texts = [one.text for one in fc.predict_cluster(cluster, copies).warnings]
        assert any("4 cards of a node are idle" in text for text in texts) == is_named
