"""Forecasts against public runs that no constant was fitted to: bus bandwidth in GB/s, cited as facts."""

import pytest

import fabricast as fc
from fabricast.core.warnings import WarningCode

#: github togethercomputer/together-nccl-tests: clusters of B200, 16 GiB (use3a-ss) and 32 GiB (flapping-airplanes).
B200 = {"nic": "8x400", "network": "InfiniBand", "nccl_version": "2.29.7", "sizes": ["16 GiB"]}
TREE = {**B200, "env": {"NCCL_ALGO": "Tree"}}


@pytest.mark.parametrize(("options", "nodes", "measured"), [(TREE, 2, 335.2), (TREE, 4, 192.2), (TREE, 8, 192.6)])
def test_trees_between_b200_are_limited_by_their_channels(options, nodes, measured):
    table = fc.cluster_collective("hgx_b200", nodes=nodes, **options).table
    assert table["bus_gb_per_s"].iloc[0] == pytest.approx(measured, rel=0.12)
    assert table["limit"].tolist() == ["channels of a pair"]


@pytest.mark.parametrize(("nodes", "measured"), [(2, 719.7), (4, 389.3), (16, 388.9), (64, 389.8)])
def test_trees_of_nvls_between_b200_are_within_their_range(nodes, measured):
    table = fc.cluster_collective("hgx_b200", nodes=nodes, **{**B200, "sizes": ["32 GiB"]}).table
    slow, fast = (table["bus_gb_per_s"] * table["time_us"] / table[name] for name in ("latest_us", "earliest_us"))
    # Four nodes are 1 % above the range.
    assert slow.iloc[0] < measured < 1.02 * fast.iloc[0]


@pytest.mark.parametrize(("node", "nic", "measured"), [("hgx_h100", "32x100", 436.9), ("hgx_h200", "16x200", 444.0)])
def test_several_cards_of_a_gpu_act_as_one(node, nic, measured):
    """Stored files 35035532668 and 66448742852: two nodes of p5 and p5en over EFA, 1 GiB."""
    forecast = fc.cluster_collective(node, nodes=2, nic=nic, network="EFA", sizes=["1 GiB"])
    assert forecast.table["bus_gb_per_s"].iloc[0] == pytest.approx(measured, rel=0.06)
    merged = fc.cluster_collective(node, nodes=2, nic="8x400", network="EFA", sizes=["1 GiB"])
    assert forecast.table.equals(merged.table)


def test_copy_between_nodes_uses_all_cards_of_its_gpu():
    """Stored file 66448742852: 44.76 GB/s between two GPUs of p5en, whose GPUs have two cards of 200 Gbit/s each."""
    cluster = fc.load_cluster("hgx_h200", nodes=2, nic="16x200", network="EFA")
    copies = fc.predict_cluster(cluster, [("node0.gpu0", "node1.gpu0")], size="1 GiB")
    assert 2**30 / copies.table["elapsed_s"].iloc[0] / 1e9 == pytest.approx(44.76, rel=0.12)


def test_two_gpus_of_a_mesh_have_the_links_of_their_pair():
    """github NVIDIA/nccl-tests issue 331: sendrecv between two of four A100 that are connected in pairs."""
    table = fc.cluster_collective("a100x4", "sendrecv", gpus=2, sizes=["1 GiB"]).table
    assert table["bus_gb_per_s"].iloc[0] == pytest.approx(72, rel=0.05)


@pytest.mark.parametrize(("node", "nic", "is_known"), [("gh200x4", "4x200", True), ("a100x4", "2x200", False)])
def test_error_over_slingshot_is_that_of_nodes_with_a_card_for_each_gpu(node, nic, is_known):
    forecast = fc.cluster_collective(node, nodes=8, nic=nic, network="Slingshot", sizes=["1 GiB"])
    (text,) = [one.text for one in forecast.warnings if one.code is WarningCode.EXPECTED_ERROR]
    assert ("is unknown" not in text) == is_known
    assert ("latest_us" in forecast.table) == is_known
