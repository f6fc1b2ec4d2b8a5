"""Forecasts of collective operations on NVLink nodes and clusters: worked examples, exact properties, public data."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.collectives.clusters.cluster import NETWORKS, node_of, with_cards
from fabricast.collectives.clusters.constants import fitted_constants, known_constants
from fabricast.collectives.clusters.errors import ClusterError, at_sizes, recorded_cluster_errors
from fabricast.collectives.clusters.evidence import cluster_errors, public_cases
from fabricast.collectives.clusters.forecast import forecast_cluster
from fabricast.collectives.clusters.model import Calibration, ClusterModel, refusal_of
from fabricast.collectives.clusters.times import ClusterTimes
from fabricast.collectives.expected import coverage
from fabricast.collectives.reference import NETWORKS as PUBLIC_NETWORKS
from fabricast.collectives.reference import class_errors, reference_of
from fabricast.core.errors import InputError, PeerLinkError
from fabricast.core.resources import published
from fabricast.core.warnings import WarningCode
from fabricast.inputs.gpus import is_known_gpu
from fabricast.nccl.costs import Algorithm, Operation, Protocol, bus_factor
from fabricast.nccl.settings import NcclSettings
from fabricast.nccl.system import PathType
from fabricast.pcie.topology.builtin import node_names
from tests.nccl_tests_logs import nccl_tests

MIB, GIB = 2.0**20, 2.0**30
HGX, MESH, GRACE = node_of("hgx_h100"), node_of("h100x4"), node_of("gh200x4")
#: Constants of the worked examples of the specification.
SPECIFIED = {
    **known_constants(),
    "start": 4.36e-6,
    "simple_start": 20.6e-6,
    "launch": 4.36e-6,
    "launch_channel": 0.035e-6,
    "nvlink_ll": 0.72e-6,
    "nvlink_ll_old": 1.77e-6,
    "nvlink_ll128": 3.06e-6,
    "nvlink_simple": 3.57e-6,
    "verbs_ll": 4.48e-6,
    "verbs_ll128": 6.38e-6,
    "verbs_simple": 31.5e-6,
    "slingshot_ll": 6.54e-6,
    "slingshot_simple": 23.2e-6,
    "slingshot_message": 4.56e-6,
    "hidden_ratio": 4.36,
    "switch_share": 0.775,
    "mesh_share": 0.761,
    "verbs_share": 0.977,
    "slingshot_share": 0.872,
    "ll_share_one": 1.2,
    "ll_share": 0.79,
    "fill": 0.66,
    "tree_ll128_share": 0.84,
    "nvls_share": 0.753,
    "nvls_chunk": 5.55e-6,
    "nvls_tree_share": 0.905,
    "pair_share": 0.69,
    "card_pair_share": 0.9,
    "network_channel": 13.3,
    "nvlink_channel": 21.1,
}
ALL_REDUCE = Operation.ALL_REDUCE


def time_us(node, nodes, operation, algorithm, protocol, size, known=SPECIFIED):
    times = ClusterTimes(replace(node, nodes=nodes), operation, known)
    return float(times.times((algorithm, protocol), np.array([float(size)]))[0]) * 1e6


@pytest.mark.parametrize(
    ("node", "nodes", "operation", "algorithm", "protocol", "size", "expected"),
    [
        (HGX, 1, ALL_REDUCE, Algorithm.RING, Protocol.LL, 8, 14.41),
        (HGX, 1, ALL_REDUCE, Algorithm.RING, Protocol.LL, MIB, 25.25),
        (HGX, 1, ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, GIB, 5578.2),
        (HGX, 1, Operation.ALL_GATHER, Algorithm.RING, Protocol.SIMPLE, 256 * MIB, 719.5),
        (HGX, 1, ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE, 256 * MIB, 1122.7),
        (MESH, 2, ALL_REDUCE, Algorithm.TREE, Protocol.LL, 8, 17.63),
        (MESH, 2, Operation.ALL_GATHER, Algorithm.RING, Protocol.LL128, MIB, 42.4),
        (MESH, 2, ALL_REDUCE, Algorithm.TREE, Protocol.LL128, 16 * MIB, 315.7),
        (MESH, 2, ALL_REDUCE, Algorithm.TREE, Protocol.SIMPLE, 4 * GIB, 44136.6),
        (replace(MESH, process_gpus=4), 1, ALL_REDUCE, Algorithm.RING, Protocol.LL, 8, 17.43),
        (GRACE, 8, ALL_REDUCE, Algorithm.TREE, Protocol.LL, 8, 47.9),
        (GRACE, 2, ALL_REDUCE, Algorithm.RING, Protocol.LL, 256 << 10, 260.0),
        (GRACE, 8, ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, 4 * GIB, 95505),
        (HGX, 10, ALL_REDUCE, Algorithm.NVLS_TREE, Protocol.SIMPLE, 256 * MIB, 1968.7),
        (HGX, 10, ALL_REDUCE, Algorithm.RING, Protocol.SIMPLE, 4 * GIB, 24667),
        (HGX, 2, Operation.ALLTOALL, Algorithm.DIRECT, Protocol.SIMPLE, GIB, 11984),
        (HGX, 2, Operation.SENDRECV, Algorithm.DIRECT, Protocol.SIMPLE, GIB, 22031),
    ],
)
def test_times_are_those_of_the_worked_examples(node, nodes, operation, algorithm, protocol, size, expected):
    assert time_us(node, nodes, operation, algorithm, protocol, size) == pytest.approx(expected, rel=4e-3)


def test_large_rings_reach_the_rate_of_links_or_cards():
    for nodes in (1, 2, 16):
        times = ClusterTimes(replace(HGX, nodes=nodes), ALL_REDUCE, SPECIFIED)
        # Whole chunks: 64 loops.
        channels = 24 if nodes == 1 else 16
        size = np.array([64.0 * 8 * nodes * channels * 2 * MIB])
        bus = bus_factor(ALL_REDUCE, 8 * nodes) * size / times.times((Algorithm.RING, Protocol.SIMPLE), size)
        expected = min(times.nvlink_bytes_per_s, times.cards_bytes_per_s)
        assert float(bus[0]) == pytest.approx(expected, rel=1e-2)


def test_nvls_and_trees_on_two_nodes_exceed_the_links_on_the_bus():
    size = np.array([512 * GIB])
    one = ClusterTimes(HGX, ALL_REDUCE, SPECIFIED)
    bus = bus_factor(ALL_REDUCE, 8) * size / one.times((Algorithm.NVLS, Protocol.SIMPLE), size)
    chunk = 16 * 8 * 128 * 1024
    rate = 0.753 * 450e9 * 8 / 9
    expected = 2 * 7 / 8 / (1 / rate + 5.55e-6 / chunk)
    assert float(bus[0]) == pytest.approx(expected, rel=2e-3)
    two = ClusterTimes(replace(MESH, nodes=2), ALL_REDUCE, SPECIFIED)
    bus = bus_factor(ALL_REDUCE, 8) * size / two.times((Algorithm.TREE, Protocol.SIMPLE), size)
    expected = min(two.nvlink_bytes_per_s / 2, two.cards_bytes_per_s) * 2 * 7 / 8
    assert float(bus[0]) == pytest.approx(expected, rel=2e-3)
    assert expected > MESH.cards * MESH.card_gbit_s / 8 * 1e9, "more than the cards transfer"


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("protocol", [Protocol.LL, Protocol.SIMPLE])
def test_all_reduce_is_two_all_gathers(nodes, protocol):
    start = SPECIFIED["start"] + (SPECIFIED["simple_start"] if protocol is Protocol.SIMPLE else 0)
    whole, half = (
        time_us(HGX, nodes, operation, Algorithm.RING, protocol, GIB) * 1e-6 - start
        for operation in (ALL_REDUCE, Operation.ALL_GATHER)
    )
    assert whole == pytest.approx(2 * half, rel=1e-9)


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.TREE])
@pytest.mark.parametrize("protocol", list(Protocol))
def test_times_fall_neither_with_nodes_nor_with_the_size(algorithm, protocol):
    counts = [2, 4, 8, 16, 32]
    for size in (8.0, MIB, GIB):
        of_nodes = [time_us(HGX, count, ALL_REDUCE, algorithm, protocol, size) for count in counts]
        assert np.all(np.diff(of_nodes) > -1e-9)
    # From the size on that uses all channels.
    sizes = 2.0 ** np.arange(24, 34)
    of_size = [time_us(HGX, 4, ALL_REDUCE, algorithm, protocol, size) for size in sizes]
    assert np.all(np.diff(of_size) > 0)


def test_fast_cards_make_nodes_as_fast_as_one():
    fast = replace(HGX, cards=8, card_gbit_s=1600.0)
    model = ClusterTimes(replace(fast, nodes=2), ALL_REDUCE, SPECIFIED)
    assert model.cards_bytes_per_s < 8 * fast.pcie_bytes_per_s + 1, "the PCIe link of a card is its limit"
    assert model.cards_bytes_per_s > model.nvlink_bytes_per_s


@pytest.mark.parametrize("name", ["hgx_a100", "hgx_h100", "gh200x4"])
@pytest.mark.parametrize("nodes", [1, 4])
def test_calibration_on_a_forecast_changes_nothing(name, nodes):
    model = ClusterModel(replace(node_of(name), nodes=nodes), ALL_REDUCE)
    size = np.array([8.0, 16, 32, 1024, 64 * MIB, GIB])
    time_s = model.chosen_s(model.choices(size), size)
    tuned, factors = model.calibrated(size, time_s)
    assert factors == pytest.approx(Calibration(1.0, 1.0), rel=1e-6)
    assert tuned.known == pytest.approx(dict(known_constants()), rel=1e-6)


def test_calibration_finds_the_factors_of_a_slower_machine():
    model = ClusterModel(replace(HGX, nodes=4), ALL_REDUCE)
    slow = ClusterModel(model.cluster, ALL_REDUCE, Calibration(1.8, 0.7).known(known_constants()))
    size = np.array([8.0, 16, 32, 1024, 64 * MIB, 8 * GIB])
    _, factors = model.calibrated(size, slow.chosen_s(model.choices(size), size))
    assert factors == pytest.approx(Calibration(1.8, 0.7), rel=0.02)
    with pytest.raises(InputError, match="a latency .* times that of public machines"):
        model.calibrated(size, 20 * slow.chosen_s(model.choices(size), size))
    with pytest.raises(InputError, match="no row up to 64 KiB or from 64 MiB on"):
        model.calibrated(np.array([MIB]), np.array([1e-3]))


def test_one_row_calibrates_one_factor():
    model = ClusterModel(replace(HGX, nodes=2), ALL_REDUCE)
    size = np.array([GIB])
    _, factors = model.calibrated(size, 1.2 * model.chosen_s(model.choices(size), size))
    assert factors.latency == 1.0
    assert factors.rate == pytest.approx(1 / 1.2, rel=0.02)


def test_the_limit_is_what_acts_on_the_time():
    model = ClusterModel(replace(MESH, nodes=2), ALL_REDUCE)
    size = np.array([8.0, 8 * GIB])
    limits, shares = model.limits(model.choices(size), size)
    assert limits == ["latency of the network", "network cards"]
    assert np.all((shares > 0.3) & (shares < 1.01))
    narrow = ClusterModel(replace(MESH, nodes=2, oversubscription=4.0), ALL_REDUCE)
    assert narrow.limits(narrow.choices(size), size)[0][1] == "oversubscribed network"
    assert narrow.chosen_s(model.choices(size), size)[1] > 3 * model.chosen_s(model.choices(size), size)[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"gpu": "MI300X", "fabric": "xGMI"}, "RCCL"),
        ({"fabric": "cube mesh"}, "unequal direct links"),
        ({"nodes": 2, "network": "Ethernet"}, "TCP sockets"),
        ({"nodes": 2, "network": "EFA"}, ""),
        ({"nodes": 2, "has_gpudirect": False}, "without GPUDirect"),
        ({"settings": NcclSettings(version=(2, 17, 1))}, "before 2.18"),
    ],
)
def test_what_is_not_emulated_is_named(changes, words):
    refusal = refusal_of(replace(HGX, **changes))
    assert words in refusal
    assert bool(words) == bool(refusal)


def test_built_in_nodes_are_complete():
    for name in node_names():
        node = node_of(name)
        assert is_known_gpu(node.gpu)
        assert node.nvlink_bytes_per_s > 0 or node.fabric == "xGMI"
        assert node.network in NETWORKS
        assert node.checked() is node
    assert set(NETWORKS) == set(PUBLIC_NETWORKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node": "hgx_h1000"}, "hgx_h100"),
        ({"nodes": 0}, "expected 2 to 100,000 GPUs"),
        ({"nodes": 10**20}, "expected"),
        ({"node": "hgx_h1000"}, "hgx_h100"),
        ({"network": "EFA"}, "there is one node"),
        ({"nic": "8x400"}, "there is one node"),
        ({"oversubscription": 2.0}, "there is one"),
        ({"nodes": 2, "oversubscription": float("nan")}, "expected 1 to 100"),
        ({"gpus_per_process": 3}, "expected a divisor of the 8 GPUs"),
        ({"log": "missing.log"}, "missing.log"),
        ({"env": {"NCCL_NVLS_ENABLE": "foo"}}, "NCCL_NVLS_ENABLE"),
        ({"env": {"NCCL_P2P_DISABLE": "1"}}, "disables copies over NVLink"),
        ({"node": "gb200_nvl72", "nodes": 18, "gpus": 4}, "is one node: specify nodes 1"),
        ({"nodes": 2, "nic": "1x100", "network": "Ethernet"}, "TCP sockets limit NCCL there"),
        ({"nodes": 2, "nic": "8"}, "such as 8x400"),
        ({"nodes": 2, "nic": "8x4000"}, "Gbit/s .not GB/s."),
        ({"nodes": 2, "nic": "16x1700"}, "has cards of 1700"),
        ({"node": "gb200_nvl72", "gpus": 73}, "expected 1 to 72"),
        ({"nodes": 2, "oversubscription": 0.5}, "expected 1 to 100"),
        ({"nodes": 2, "network": "pigeon"}, "InfiniBand or RoCE"),
        ({"env": {"NCCL_ALGO": "NVLS"}, "operation": "broadcast"}, "permits no algorithm"),
        ({"node": "mi355x", "nodes": 2, "operation": "sendrecv"}, "no public machine"),
        ({"sizes": ["1 GiB", "1 MiB"]}, "increasing"),
    ],
)
def test_bad_descriptions_have_one_line(arguments, message):
    with pytest.raises(InputError, match=message) as error:
        fc.cluster_collective(**{"node": "hgx_h100", **arguments})
    assert "\n" not in str(error.value)


def test_nodes_without_public_measurements_have_those_of_the_same_links():
    found, public = (
        fc.cluster_collective(node, "alltoall", sizes=["8 GiB", "16 GiB"]) for node in ("mi350x", "mi355x")
    )
    assert found.table["time_us"].tolist() == public.table["time_us"].tolist()
    texts = ["; ".join(str(one) for one in forecast.table.attrs["warnings"]) for forecast in (found, public)]
    assert "with the same links (8 x MI355X)" in texts[0] and "of this class" in texts[1]


def test_one_node_has_the_median_of_several_public_machines():
    sizes = ["64 KiB", "16 MiB", "1 GiB"]
    found = fc.cluster_collective("hgx_a100", sizes=sizes).table
    public = reference_of("A100", 8, 1, "all_reduce", [2.0**16, 2.0**24, 2.0**30], shares_process=False).table
    assert (public["machines"][1:] > 1).all()
    assert found["time_us"].tolist()[1:] == pytest.approx(public["median_us"].tolist()[1:])
    assert found["time_us"][0] != pytest.approx(public["median_us"][0])
    # They are within the range, and the gains of other choices stay those of the model.
    assert (found["earliest_us"] <= public["shortest_us"]).all() and (found["latest_us"] >= public["longest_us"]).all()
    assert found["time_us"].tolist() == pytest.approx((found["best_time_us"] * found["gain"]).tolist())
    (error, *_) = [one for one in found.attrs["warnings"] if one.startswith("expected error")]
    assert "2 sizes are medians of public machines of this class, each left out: " in error
    for row in class_errors().itertuples():
        assert (f"{100 * row.median:.2g} % {at_sizes(row.band)} ({row.machines} machines)" in error) == (
            row.band != "64 to 256 MiB"
        )


@pytest.mark.parametrize(
    "other",
    [
        {"env": {"NCCL_ALGO": "Ring"}},
        {"nvls": False},
        {"gpus_per_process": 8},
        {"env": {"NCCL_MAX_NCHANNELS": "4"}},
        {"gpus": 4},
    ],
)
def test_other_settings_than_those_of_public_machines_are_those_of_the_model(other):
    usual, found = (fc.cluster_collective("hgx_h100", sizes=["1 GiB"], **extra) for extra in ({}, other))
    public = fc.reference("H100", sizes=["1 GiB"]).table["median_us"].tolist()
    assert usual.table["time_us"].tolist() == pytest.approx(public)
    assert found.table["time_us"].tolist() != pytest.approx(public)
    assert not any("medians of public" in one for one in found.table.attrs["warnings"])
    if "env" in other:
        assert "public_us" not in found.table


def test_stored_errors_of_medians_are_those_of_nodes_left_out():
    stored = pd.read_csv(published() / "collectives" / "class_errors.csv", comment="#")
    pd.testing.assert_frame_equal(stored, class_errors(), check_exact=False, rtol=1e-3)


def test_superchips_reach_several_cards_over_c2c():
    # Public: 96 GB/s on two GH200 with four cards of 200 Gbit/s each (an issue of NCCL); PCIe permits 53 GB/s.
    arguments = {"gpus": 1, "nodes": 2, "nic": "4x200", "sizes": ["2 GiB"]}
    (rate,) = fc.cluster_collective("gh200x4", network="InfiniBand", **arguments).table["bus_gb_per_s"]
    assert rate == pytest.approx(96, rel=0.05)
    found = fc.cluster_collective("hgx_h100", network="InfiniBand", **arguments).table
    assert found["limit"].tolist() == ["PCIe links of the GPUs"]
    texts = {
        nic: fc.cluster_collective("gh200x4", nodes=2, nic=nic, sizes=["2 GiB"]).table.attrs["warnings"]
        for nic in ("4x200", None)
    }
    assert any("Slingshot is assumed" in one for one in texts["4x200"])
    assert not any("is assumed" in one for one in texts[None])


def test_a_stated_single_node_uses_no_network():
    # A loop over numbers of nodes has the same options for one.
    one = fc.cluster_collective("hgx_h100", nodes=1, nic="8x400", network="RoCE", sizes=["1 MiB"])
    pd.testing.assert_frame_equal(one.table, fc.cluster_collective("hgx_h100", sizes=["1 MiB"]).table)


def test_a_forecast_has_ranges_errors_and_public_machines():
    forecast = fc.cluster_collective("hgx_h200", sizes=["8 B", "8 GiB"])
    table = forecast.table
    assert (table["earliest_us"] <= table["time_us"]).all()
    assert (table["time_us"] <= table["latest_us"]).all()
    assert table["algorithm"].tolist() == ["ring", "nvls"]
    assert table["public_machines"].iloc[-1] >= 3
    assert 450 < table["bus_gb_per_s"].iloc[-1] < 500
    codes = [one.code for one in forecast.warnings]
    assert WarningCode.EXPECTED_ERROR in codes
    assert any("above the 450 GB/s of the NVLinks" in one.text for one in forecast.warnings)
    without = fc.cluster_collective("hgx_h200", sizes=["8 GiB"], env={"NCCL_NVLS_ENABLE": "0"}).table
    assert without["algorithm"].tolist() == ["ring"]
    # The public ring of an H200 reaches 367 GB/s.
    assert 320 < without["bus_gb_per_s"][0] < 380


def test_small_sends_have_no_forecast_without_measured_rows():
    forecast = fc.cluster_collective("hgx_h100", "alltoall", sizes=["64 KiB", "1 GiB"])
    assert forecast.table["time_us"].isna().tolist() == [True, False]
    assert any("below 1 MiB has no forecast" in one.text for one in forecast.warnings)
    shown = CliRunner().invoke(
        app, ["collective", "--node", "hgx_h100", "--operation", "alltoall", "--sizes", "64KiB", "--format", "table"]
    )
    assert shown.exit_code == 0, shown.output
    assert "nan" not in shown.output


def test_large_domains_and_processor_attached_cards_are_named():
    large = fc.cluster_collective("gb200_nvl72", sizes=["8 GiB"])
    (text,) = [one.text for one in large.warnings if "up to 8 GPUs in one NVLink domain" in one.text]
    assert "cw-gb200 of this class: 1.26 times the forecast" in text
    assert large.table["latest_us"][0] == pytest.approx(large.table["public_us"][0])


def test_times_little_above_the_largest_public_size_grow_with_the_size():
    found = fc.reference("H200", sizes=["16 GiB", "20 GiB"]).table["median_us"]
    assert found[1] / found[0] == pytest.approx(20 / 16)


def test_public_machines_without_limits_do_not_widen_the_range_of_others():
    usual, limited = (
        fc.cluster_collective("hgx_h100", sizes=["8 GiB"], env=settings).table
        for settings in ({}, {"NCCL_NVLS_ENABLE": "0"})
    )
    assert limited["earliest_us"][0] > usual["public_us"][0] * 1.1
    with pytest.raises(fc.InputError, match="public machines have no limits of algorithms, protocols and channels"):
        fc.cluster_collective("mi300x", sizes=["8 GiB"], env={"NCCL_PROTO": "Simple"})


def test_small_sizes_and_other_operations_are_no_medians():
    for operation, size in (("all_reduce", "1 MiB"), ("all_gather", "1 GiB")):
        found = fc.cluster_collective("hgx_h100", operation, sizes=[size])
        assert not any("medians of public" in one or "is the median" in one for one in found.table.attrs["warnings"])
    far = replace(HGX, nodes=2, attach=PathType.PHB)
    assert any("meet at a processor" in one.text for one in forecast_cluster(far, ALL_REDUCE, [1e9]).warnings)


def test_machines_that_are_not_emulated_are_interpolated():
    forecast = fc.cluster_collective("mi300x", sizes=["8 B", "4 GiB"])
    assert forecast.source.startswith("interpolation between")
    assert "algorithm" not in forecast.table
    public = forecast.table["public_us"]
    np.testing.assert_allclose(forecast.table["time_us"], public, rtol=0.25)
    two = fc.cluster_collective("mi300x", nodes=2, sizes=["1 GiB"])
    assert two.source == "interpolation between 2 public machines of this class"
    (text,) = [one.text for one in two.warnings if one.code is WarningCode.EXPECTED_ERROR]
    assert re.search(r"interpolation.*\d+ % from 1 MiB", text)


def test_a_log_is_compared_and_with_sizes_calibrates(tmp_path):
    sizes = [8, 16, 32, 1 << 20, 64 << 20, 1 << 30]
    plain = fc.cluster_collective("hgx_h100", nodes=4, sizes=sizes).table["time_us"]
    log = nccl_tests(tmp_path / "all_reduce.log", list(zip(sizes, 1.25 * plain, strict=True)))
    compared = fc.cluster_collective("hgx_h100", log=log)
    assert compared.cluster.nodes == 4, "the log lists four hosts"
    assert compared.table["measured_over_forecast"].tolist() == pytest.approx([1.25] * 6, rel=0.02)
    tuned = fc.cluster_collective("hgx_h100", nodes=4, log=log, sizes=sizes)
    assert tuned.table["time_us"].tolist() == pytest.approx((1.25 * plain).tolist(), rel=0.03)
    assert tuned.calibration.latency == pytest.approx(1.25, rel=0.02)
    other = fc.cluster_collective("hgx_h100", "all_gather", nodes=4, log=log, sizes=["1 GiB"])
    uncalibrated = fc.cluster_collective("hgx_h100", "all_gather", nodes=4, sizes=["1 GiB"])
    assert other.table["time_us"][0] > 1.15 * uncalibrated.table["time_us"][0]
    fewer = fc.cluster_collective("hgx_h100", nodes=2, log=log)
    assert fewer.calibration == tuned.calibration
    assert fewer.table["size_bytes"].tolist() == sizes
    with pytest.raises(InputError, match="is of 4 nodes, expected one node"):
        fc.cluster_collective("hgx_h100", nodes=1, log=log)
    more = fc.cluster_collective("hgx_h100", nodes=16, log=log, sizes=["1 GiB"])
    assert more.calibration == tuned.calibration
    with pytest.raises(InputError, match="is of 4 nodes, expected one node"):
        fc.cluster_collective("hgx_h100", nodes=1, log=log, sizes=["1 GiB"])


def test_a_builtin_node_needs_no_option():
    options = ["--nodes", "4", "--nic", "8x200", "--sizes", "8B 1GiB"]
    named, plain = (
        CliRunner().invoke(app, ["collective", *node, *options]) for node in (["--node", "hgx_h100"], ["hgx_h100"])
    )
    assert named.exit_code == plain.exit_code == 0
    assert named.stdout == plain.stdout


def test_the_command_prints_a_cluster(tmp_path):
    arguments = ["collective", "--node", "hgx_h100", "--nodes", "4", "--nic", "8x200", "--sizes", "8B 1GiB"]
    table = CliRunner().invoke(app, [*arguments, "--format", "table"])
    assert table.exit_code == 0, table.output
    assert (
        "4 nodes of 8 x H100 SXM5 (NVSwitch, 450 GB/s in each direction), 8 x 200 Gbit/s InfiniBand or RoCE"
        in table.output
    )
    assert "network cards" in table.output
    document = json.loads(CliRunner().invoke(app, [*arguments, "--format", "json"]).stdout)
    expected = fc.cluster_collective("hgx_h100", nodes=4, nic="8x200", sizes=["8 B", "1 GiB"])
    assert [row["time_us"] for row in document["sizes"]] == pytest.approx(expected.table["time_us"].tolist())
    path = tmp_path / "times.csv"
    assert CliRunner().invoke(app, [*arguments, "-o", str(path)]).exit_code == 0
    assert len(pd.read_csv(path)) == 2
    missing = CliRunner().invoke(app, ["collective"])
    assert missing.exit_code != 0


def test_a_topology_with_nvlink_is_forecast(tmp_path):
    matrix = tmp_path / "topo.txt"
    header = "\t" + "\t".join(f"GPU{i}" for i in range(8)) + "\tCPU Affinity\tNUMA Affinity"
    rows = [f"GPU{i}\t" + "\t".join(" X " if i == j else "NV18" for j in range(8)) + "\t0-55\t0" for i in range(8)]
    matrix.write_text("\n".join([header, *rows]) + "\n")
    forecast = fc.cluster_collective(str(matrix), gpu="H100 SXM5", sizes=["8 GiB"])
    built_in = fc.cluster_collective("hgx_h100", sizes=["8 GiB"])
    assert forecast.cluster.fabric == "NVSwitch"
    assert forecast.table["time_us"][0] == pytest.approx(built_in.table["time_us"][0])
    shown = CliRunner().invoke(
        app, ["collective", str(matrix), "--gpu", "H100 SXM5", "--sizes", "8GiB", "--format", "table"]
    )
    assert shown.exit_code == 0, shown.output
    assert "nvls simple" in shown.output


def test_logs_become_rows_of_public_machines(tmp_path):
    one, two = (
        nccl_tests(tmp_path / f"{name}.log", [(1 << 20, 200.0 * factor), (1 << 30, 9e3 * factor)])
        for name, factor in (("one", 1.0), ("two", 1.5))
    )
    output = tmp_path / "rows.csv"
    result = CliRunner().invoke(app, ["collect", str(one), str(two), "--machine", "mine", "-o", str(output)])
    assert result.exit_code == 0, result.output
    rows, public = pd.read_csv(output), pd.read_csv(published() / "collectives" / "cluster_times.csv", comment="#")
    assert list(rows.columns) == list(public.columns)
    assert rows["median_us"].tolist() == [250.0, 11250.0]
    assert rows[["nodes", "ranks", "rows"]].drop_duplicates().to_numpy().tolist() == [[4, 32, 2]]
    empty = tmp_path / "empty.log"
    empty.write_text("nothing\n")
    refused = CliRunner().invoke(app, ["collect", str(empty), "--machine", "mine", "-o", str(output)])
    assert isinstance(refused.exception, InputError)


def test_public_cases_have_forecasts_within_a_factor():
    cases = public_cases()
    assert len({case.machine for case in cases}) >= 15
    ratios = np.concatenate([case.forecast_s() / case.measured_s for case in cases])
    assert np.isfinite(ratios).all()
    assert np.median(np.abs(ratios - 1)) < 0.1


def test_recorded_errors_are_of_the_public_rows():
    stored = {(row["machine_class"], row["operations"], row["size_class"]): row for row in recorded_cluster_errors()}
    found = cluster_errors({case.computer: known_constants() for case in public_cases()})
    assert {tuple(key) for key in found[["machine_class", "operations", "size_class"]].to_numpy()} == set(stored)
    for row in found.itertuples():
        recorded = stored[row.machine_class, row.operations, row.size_class]
        assert (int(recorded["machines"]), int(recorded["rows"])) == (row.machines, row.rows)
        # The baseline has no constants: it is exactly the same.
        if recorded["nccl"]:
            assert recorded.number("nccl") == pytest.approx(row.nccl, abs=2e-3)


def test_constants_are_within_their_bounds():
    for name, one in fitted_constants().items():
        assert one.low * 0.999 <= one.value <= one.high * 1.001, name
        assert one.least <= one.value * 1.001, name
        assert one.value * 0.999 <= one.most, name


def test_coverage_is_that_of_the_other_machines():
    machines = pd.Series(["a", "a", "b", "b"])
    assert coverage(machines, pd.Series([1.0, 3.0, 2.0, 4.0])) == 0.5
    assert np.isnan(coverage(pd.Series(["a"]), pd.Series([1.0])))


def test_cards_are_words():
    assert with_cards(HGX, "4x200").cards == 4
    path = published() / "nodes.csv"
    assert path.is_file()


def test_a_stated_rate_is_judged_before_cards_are_merged():
    (rate,) = fc.cluster_collective("hgx_h100", nodes=2, nic="16x1200", sizes=["1 GiB"]).table["bus_gb_per_s"]
    (usual,) = fc.cluster_collective("hgx_h100", nodes=2, nic="8x400", sizes=["1 GiB"]).table["bus_gb_per_s"]
    assert rate >= usual


def test_settings_and_logs_change_the_network():
    sockets = {"NCCL_IB_DISABLE": "1"}
    with pytest.raises(InputError, match="TCP sockets"):
        fc.cluster_collective("hgx_h100", nodes=4, env=sockets)
    staged = fc.cluster_collective("hgx_h100", nodes=4, gpudirect=False)
    assert staged.is_bound_only and "without GPUDirect" in staged.warnings[0].text
    fewer = fc.cluster_collective("hgx_a100", nodes=2, gpus=4, nic="4x200").cluster
    assert (fewer.gpus, fewer.cards) == (4, 4), "cards of the user are used as stated"


def test_over_efa_the_choice_is_that_of_nccl_without_its_plugin():
    forecast = fc.cluster_collective("hgx_h200", nodes=16, nic="16x200", network="EFA", sizes=["8 B", "8 GiB"])
    assert any("a tuner plugin of AWS chooses" in one.text for one in forecast.warnings)
    verbs = fc.cluster_collective("hgx_h200", nodes=16, nic="16x200", network="InfiniBand", sizes=["8 B", "8 GiB"])
    assert forecast.table["time_us"][0] > 2 * verbs.table["time_us"][0]


def test_a_log_of_other_gpus_is_refused(tmp_path):
    log = nccl_tests(tmp_path / "all_reduce.log", [(8, 25.0), (1 << 30, 5e3)], ranks=8, hosts=1)
    with pytest.raises(InputError, match="is of NVIDIA H100 80GB HBM3, expected A100-SXM4"):
        fc.cluster_collective("hgx_a100", log=log)


def test_a_choice_that_calibration_cannot_explain_is_named(tmp_path):
    sizes = [8, 16, 32, 1 << 30]
    fast = fc.cluster_collective("hgx_a100", nodes=2, sizes=sizes).table["time_us"].to_numpy() * [1, 1, 1, 0.5]
    log = nccl_tests(tmp_path / "all_reduce.log", list(zip(sizes, fast, strict=True)), ranks=16, hosts=2)
    log.write_text(log.read_text().replace("H100 80GB HBM3", "A100-SXM4-40GB"))
    forecast = fc.cluster_collective("hgx_a100", nodes=2, log=log, sizes=sizes)
    errors = [one.text for one in forecast.warnings if one.code is WarningCode.EXPECTED_ERROR]
    assert len(errors) == 1 and "which is its error here" in errors[0]


@pytest.mark.parametrize(
    "options",
    [["--ranks", "0 1"], ["--transport", "p2p"], ["--gpu", "A100"], ["--write-graph", "graph.xml"], ["--cpu", "amd"]],
)
def test_options_without_effect_are_refused(options):
    result = CliRunner().invoke(app, ["collective", "--node", "hgx_h100", *options])
    assert "has no effect on built-in nodes" in str(result.exception)


@pytest.mark.parametrize("options", [["--network", "EFA"], ["--nic", "1x100"], ["--oversubscription", "2"]])
def test_options_of_nodes_are_refused_on_pcie_machines(options):
    result = CliRunner().invoke(app, ["collective", "storm8", *options])
    assert "has no effect on one node whose GPUs only PCIe connects" in str(result.exception)


def test_the_number_of_gpus_is_one_that_the_machine_has():
    result = CliRunner().invoke(app, ["collective", "storm8", "--gpus", "9"])
    assert "is 9, expected 2 to 8 of storm8" in str(result.exception)


@pytest.mark.parametrize("gpu", ["L40S", "A100-SXM4", "MI300X"])
def test_links_that_a_gpu_does_not_have_are_refused(tmp_path, gpu):
    matrix = tmp_path / "topo.txt"
    header = "\t" + "\t".join(f"GPU{i}" for i in range(4)) + "\tCPU Affinity\tNUMA Affinity"
    rows = [f"GPU{i}\t" + "\t".join(" X " if i == j else "NV18" for j in range(4)) + "\t0-55\t0" for i in range(4)]
    matrix.write_text("\n".join([header, *rows]) + "\n")
    with pytest.raises(InputError):
        fc.cluster_collective(str(matrix), gpu=gpu)


CLUSTER = "cluster: pool\nnode: hgx_h100\nnodes: 4\nnic: 8x400\nnetwork: InfiniBand\n"


def written(path, text):
    path.write_text(text)
    return str(path)


def test_a_file_describes_a_cluster_and_options_precede_it(tmp_path):
    path = written(tmp_path / "pool.yaml", CLUSTER)
    by_words = fc.cluster_collective("hgx_h100", nodes=4, nic="8x400", network="InfiniBand", sizes=["8 B", "1 GiB"])
    by_file = fc.cluster_collective(path, sizes=["8 B", "1 GiB"])
    pd.testing.assert_frame_equal(by_file.table, by_words.table)
    assert fc.cluster_collective(path, nodes=2, sizes=["8 B"]).cluster.nodes == 2
    result = CliRunner().invoke(app, ["collective", path, "--sizes", "1GiB", "--format", "json"])
    assert json.loads(result.stdout)["cluster"] == by_file.words


def test_the_node_of_a_cluster_may_be_a_file_beside_it(tmp_path):
    matrix = "\n".join(
        ["\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity"]
        + [
            f"GPU{one}\t" + "\t".join("X" if one == other else "NV6" for other in range(4)) + "\tPIX\t0-31\t0"
            for one in range(4)
        ]
        + ["NIC0\tPIX\tPIX\tPIX\tPIX\tX"]
    )
    (tmp_path / "topo.txt").write_text(matrix + "\n")
    path = written(tmp_path / "pool.yaml", "cluster: p\nnode: topo.txt\nnodes: 2\nnic: 1x200\ngpu: H100 SXM5\n")
    found = fc.cluster_collective(path, sizes=["1 GiB"])
    assert (found.cluster.fabric, found.cluster.gpus, found.cluster.links) == ("mesh", 4, 18)
    assert found.table["limit"].tolist() == ["network cards (1 for 4 GPUs)"]


def test_unequal_nodes_are_as_slow_as_the_slowest(tmp_path):
    nodes = "nodes:\n  - {node: hgx_h100, count: 3, nic: 8x400}\n  - {node: hgx_a100, count: 1, nic: 8x200}\n"
    path = written(tmp_path / "pool.yaml", f"cluster: pool\nnetwork: InfiniBand\n{nodes}")
    found = fc.cluster_collective(path, sizes=["1 GiB"])
    slow = fc.cluster_collective("hgx_a100", nodes=4, nic="8x200", network="InfiniBand", sizes=["1 GiB"])
    assert found.table["time_us"].tolist() == slow.table["time_us"].tolist()
    assert found.table["node"].tolist() == ["hgx_a100"]
    assert "3 nodes of 8 x H100" in found.words and "8 x A100" in found.words
    assert "earliest_us" not in found.table
    assert any("unequal" in str(one) for one in found.warnings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster: a\nnodes: 2\n", "pool.yaml: .*node"),
        ("cluster: a\nnode: hgx_h100\nnodes: 0\n", "pool.yaml:3: .*greater"),
        ("cluster: a\nnode: hgx_h100\nnodes: []\n", "pool.yaml:3"),
        ("cluster: a\nnode: hgx_h100\nnodes:\n  - node: hgx_a100\n", "pool.yaml:2: .*node"),
        ("cluster: a\nnodes:\n  - {node: hgx_h100, count: -1}\n", "pool.yaml:3"),
        ("cluster: a\nnode: hgx_h1000\nnodes: 2\n", "hgx_h100"),
        ("cluster: a\nnode: no.xml\nnodes: 2\n", "no.xml"),
        ("cluster: a\nnode: hgx_h100\nnodes: 2\ncards: 8\n", "pool.yaml:4: .*cards"),
        ("cluster: a\nnode: hgx_h100\nnodes: 2\noversubscription: .nan\n", "pool.yaml:4"),
        ("cluster: a\nnodes:\n  - {node: hgx_h100}\n  - {node: h100x4}\nnic: 4x400\n", "4 and 8 GPUs"),
    ],
)
def test_bad_files_of_clusters_have_one_line(tmp_path, text, message):
    path = written(tmp_path / "pool.yaml", text)
    with pytest.raises(InputError, match=message) as error:
        fc.cluster_collective(path, sizes=["1 GiB"])
    assert "\n" not in str(error.value)


def test_a_log_alone_names_the_node(tmp_path):
    log = nccl_tests(tmp_path / "all_reduce.log", [(8, 40.0), (2**30, 6500.0)])
    result = CliRunner().invoke(app, ["collective", str(log), "--format", "json"])
    found = json.loads(result.stdout)
    assert found["cluster"].startswith("4 nodes of 8 x H100")
    assert [row["measured_us"] for row in found["sizes"]] == [40.0, 6500.0]
    assert any("hgx_h100 is assumed" in one["text"] for one in found["warnings"])
    unknown = nccl_tests(tmp_path / "odd.log", [(8, 40.0)], ranks=24, hosts=4)
    # Six of the GPUs of each node are in use, which no built-in node of several hosts has.
    assert "no built-in node" in str(CliRunner().invoke(app, ["collective", str(unknown)]).exception)


def test_above_64_nodes_a_range_is_printed_in_place_of_a_number():
    words = ["--node", "hgx_h100", "--nodes", "128", "--nic", "8x400", "--sizes", "8 1GiB", "--format", "table"]
    lines = CliRunner().invoke(app, ["collective", *words]).stdout.splitlines()
    assert "range us" in lines[1] and " us " not in lines[1].replace("range us", "")
    table = fc.cluster_collective("hgx_h100", nodes=128, nic="8x400", sizes=["1 GiB"]).table
    assert table["latest_us"].iloc[0] > 2 * table["earliest_us"].iloc[0]


def test_cards_that_their_pcie_link_limits_are_named():
    model = ClusterModel(replace(HGX, nodes=2, cards=8, card_gbit_s=800.0), Operation.ALLTOALL)
    limits, _ = model.limits(model.pairs, np.array([64.0 * GIB]))
    assert limits == ["PCIe link of the network cards"]


@pytest.mark.parametrize(("nodes", "is_tie"), [(24, True), (4, False)])
def test_nearly_equal_estimates_of_two_choices_are_a_note(nodes, is_tie):
    found = fc.cluster_collective("hgx_h100", nodes=nodes, nic="8x400", sizes=["8 GiB"])
    notes = [str(one) for one in found.warnings if "NCCL's estimates of two choices differ by" in str(one)]
    assert bool(notes) == is_tie
    if is_tie:
        rates = re.findall(r"([\d.]+) GB/s with (\w+)", notes[0])
        assert {name for _, name in rates} == {"ring", "nvlstree"} and rates[0][0] != rates[1][0]
        assert float(rates[0][0]) == pytest.approx(found.table["bus_gb_per_s"].iloc[-1], rel=0.01)


def test_rows_that_calibrate_are_not_compared_with_their_forecast(tmp_path):
    log = nccl_tests(tmp_path / "all_reduce.log", [(8, 40.0), (1 << 30, 11e3)])
    of_log = fc.cluster_collective(None, log=str(log))
    assert of_log.table["measured_over_forecast"].iloc[-1] > 1.5
    chosen = fc.cluster_collective(None, log=str(log), sizes=["1 GiB"]).table
    assert chosen["measured_us"].tolist() == [11e3] and "measured_over_forecast" not in chosen
    printed = CliRunner().invoke(app, ["collective", "--log", str(log), "--sizes", "1GiB", "--format", "table"]).output
    assert "its rows calibrate this forecast" in printed


def test_cards_are_those_of_ibstat(tmp_path):
    log = nccl_tests(tmp_path / "all_reduce.log", [(8, 40.0), (1 << 30, 11e3)])
    card = (
        "CA 'mlx5_{}'\n    CA type: MT4129\n    Port 1:\n        State: Active\n        Physical state: LinkUp\n"
        "        Rate: 200\n        Link layer: InfiniBand\n"
    )
    (tmp_path / "ibstat.txt").write_text("".join(map(card.format, range(8))))
    of_files = fc.cluster_collective(str(tmp_path / "ibstat.txt"), log=str(log))
    assert (of_files.cluster.cards, of_files.cluster.card_gbit_s) == (8, 200.0)


def test_unknown_cards_of_several_nodes_are_asked_for(tmp_path):
    names = "\t".join(f"GPU{one}" for one in range(8))
    rows = "\n".join(
        f"GPU{one}\t" + "\t".join(" X " if one == other else "NV18" for other in range(8)) + "\t0-63\t0"
        for one in range(8)
    )
    (tmp_path / "topo.txt").write_text(f"\t{names}\tCPU Affinity\tNUMA Affinity\n{rows}\n")
    with pytest.raises(InputError, match="no file has the rate of the network cards of the 4 nodes"):
        fc.cluster_collective(str(tmp_path / "topo.txt"), gpu="H100", nodes=4)


BRIDGED = """\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tPHB\tPHB\t0-23\t0
GPU1\tNV4\t X \tPHB\tPHB\t0-23\t0
GPU2\tPHB\tPHB\t X \tNV4\t0-23\t0
GPU3\tPHB\tPHB\tNV4\t X \t0-23\t0
"""


def test_rings_over_several_bridges_are_limited_by_pcie(tmp_path):
    path = tmp_path / "topo.txt"
    path.write_text(BRIDGED)
    plain = tmp_path / "plain.txt"
    plain.write_text(BRIDGED.replace("NV4", "PHB"))
    with_bridges, without = (fc.collective(one, gpu="RTX 3090", sizes=["64 MiB"]) for one in (path, plain))
    times = [forecast.table["time_us"].iloc[0] for forecast in (with_bridges, without)]
    assert times[0] <= times[1] * (1 + 1e-9)
    assert {str(hop.transport) for hop in with_bridges.step.hops} == {"P2P", "SHM"}
    texts = [str(one) for one in with_bridges.warnings]
    assert any("also pass PCIe" in one for one in texts)
    assert any("over PCIe and bridges is unknown" in one for one in texts)
    # Settings that keep NCCL from direct copies are also of bridges.
    for words in ({"env": {"NCCL_P2P_DISABLE": "1"}}, {"env": {"NCCL_P2P_LEVEL": "LOC"}}, {"transport": "shm"}):
        staged = fc.collective(path, gpu="RTX 3090", sizes=["64 MiB"], **words)
        assert {str(hop.transport) for hop in staged.step.hops} == {"SHM"}
    with pytest.raises(PeerLinkError, match="connected by NVLink"):
        fc.collective(path, gpu="RTX 3090", sizes=["64 MiB"], ranks=[0, 1])


def test_the_command_forecasts_bridges_and_a_number_of_gpus(tmp_path):
    path = tmp_path / "topo.txt"
    path.write_text(BRIDGED)
    command = ["collective", path, "--gpu", "RTX 3090", "--sizes", "64MiB", "--format", "json"]

    def document(*options):
        result = CliRunner().invoke(app, [*map(str, command), *options])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    four, three, pair = document(), document("--gpus", "3"), document("--gpus", "2")
    rates = [one["sizes"][0]["bus_gb_per_s"] for one in (four, three, pair)]
    assert rates[2] > 2 * rates[1] and rates[2] > 2 * rates[0]


def test_pairs_of_many_ranks_have_fewer_channels():
    """NCCL halves the channels of a peer over the network while ranks times channels exceed four times all channels."""
    old = NcclSettings(version=(2, 28, 7))
    times = [
        forecast_cluster(replace(with_cards(HGX, "8x400"), nodes=nodes, settings=old), Operation.SENDRECV, [GIB]).table[
            "time_us"
        ][0]
        for nodes in (2, 8, 10)
    ]
    assert times[0] == pytest.approx(times[1]) and times[2] / times[0] == pytest.approx(2, rel=0.01)


def test_error_of_few_machines_is_none_of_others():
    known = ClusterError("from 1 MiB", 1, 0.012, 0.005, 0.9, 1.1, 1.0)
    assert known.words(is_calibrated=False) == "1.2 % from 1 MiB (of one machine, which says little about others)"
    assert replace(known, machines=3).words(is_calibrated=False) == "1.2 % from 1 MiB (3 machines)"


@pytest.mark.parametrize(("node", "nic", "gpus", "cards"), [
    ("hgx_h100", "8x400", 4, 4), ("hgx_h100", "16x200", 2, 2), ("hgx_h100", "4x400", 4, 4), ("gh200x4", "4x200", 1, 4),
])  # fmt: skip
def test_some_gpus_of_a_node_use_the_cards_next_to_them(node, nic, gpus, cards):
    forecast = fc.cluster_collective(node, "all_reduce", nodes=2, nic=nic, gpus=gpus, sizes=["1 GiB"])
    assert forecast.cluster.cards == cards
