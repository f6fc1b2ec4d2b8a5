"""Output of `fabricast collective` for nodes: comparison with a log, and settings that are faster."""

from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.collectives.clusters.errors import cluster_error
from tests.nccl_tests_logs import nccl_tests

CLUSTER = ["collective", "--node", "hgx_h100", "--nodes", "4", "--nic", "8x400", "--format", "table"]


def lines_of(*words):
    result = CliRunner().invoke(app, [*CLUSTER, *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_a_log_has_a_verdict(tmp_path):
    sizes = [2**20, 2**26, 2**28, 2**30]
    forecast = fc.cluster_collective("hgx_h100", nodes=4, nic="8x400", sizes=sizes, nccl_version="2.29.7").table
    expected, latest = forecast["time_us"].tolist(), forecast["latest_us"].tolist()
    fast = nccl_tests(tmp_path / "run.log", list(zip(sizes, expected, strict=True)))
    shown = lines_of("--log", fast, "--nccl-version", "2.29.7")
    assert "log: all 4 sizes with a range are within it or faster" in shown
    assert "log: sizes from 64 MiB last 1.00 times as long as the forecast (median)" in shown
    late = nccl_tests(tmp_path / "late.log", list(zip(sizes, [*expected[:3], 2 * latest[3]], strict=True)))
    assert (
        "log: 1 of 4 sizes last longer than their range, most of all 1 GiB (2.00 times its longest time)"
        in lines_of("--log", late, "--nccl-version", "2.29.7")
    )


def test_settings_that_are_faster_are_printed_with_their_sizes():
    table = fc.cluster_collective(
        "hgx_h100", nodes=4, nic="8x400", sizes=["2 MiB", "8 MiB", "256 MiB"], nccl_version="2.21"
    ).table
    shown = [
        line for line in lines_of("--sizes", "2MiB 8MiB 256MiB", "--nccl-version", "2.21") if line.startswith("try for")
    ]
    assert len(shown) == len(table[table["gain"] > 1].groupby(["best_algorithm", "best_protocol"])) > 0
    first = table[table["gain"] > 1].iloc[0]
    assert f"NCCL_PROTO={first['best_protocol'].upper()}" in shown[0]


def test_nodes_that_differ_in_their_cards_are_told_apart(tmp_path):
    (tmp_path / "mixed.yaml").write_text(
        "cluster: mixed\nnodes:\n  - {node: hgx_h100, count: 3, nic: 8x400}\n  - {node: hgx_h100, count: 1, nic: 4x400}\n"
    )
    found = fc.cluster_collective(tmp_path / "mixed.yaml", sizes=["1 GiB"])
    assert found.table["node"].tolist() == ["hgx_h100 with 4x400"]
    assert found.words.startswith("3 nodes of 8 x H100") and "; 1 node of 8 x H100" in found.words
    assert found.words.endswith("4 x 400 Gbit/s InfiniBand or RoCE")


def test_settings_are_not_proposed_where_the_measured_time_is_shorter(tmp_path):
    command = ["collective", "--node", "hgx_h100", "--nodes", "4", "--nic", "8x400", "--format", "table"]
    shown = CliRunner().invoke(app, [*command, "--sizes", "8MiB 1GiB"]).output
    assert "try for 8 MiB: NCCL_ALGO=Tree" in shown and "these variables act on all sizes of a job" in shown
    log = nccl_tests(tmp_path / "run.log", [(8 << 20, 60.0), (1 << 30, 6056.0)])
    compared = CliRunner().invoke(app, [*command, "--log", str(log)]).output
    assert "try for" not in compared and "act on all sizes" not in compared


def test_an_operation_among_the_files_is_an_option():
    result = CliRunner().invoke(app, ["collective", "all_gather"])
    assert str(result.exception) == "'all_gather' is an operation, expected a file: --operation all_gather"


def test_ports_of_ibstat_are_the_cards_of_a_built_in_node(tmp_path):
    ports = "".join(
        f"CA 'mlx5_{card}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
        "\t\tPhysical state: LinkUp\n\t\tRate: 200\n\t\tLink layer: InfiniBand\n"
        for card in range(8)
    )
    (tmp_path / "ibstat.txt").write_text(ports)
    command = ["collective", "--node", "hgx_h100", "--nodes", "4", "--sizes", "1GiB", "--format", "table"]
    shown = CliRunner().invoke(app, [*command, str(tmp_path / "ibstat.txt")]).output
    assert "8 x 200 Gbit/s" in shown
    topology = tmp_path / "machine.yaml"
    topology.write_text(CliRunner().invoke(app, ["topology", "export", "h100x4"]).output)
    refused = CliRunner().invoke(app, [*command, str(topology)])
    assert str(refused.exception) == f"node is described twice: hgx_h100 and {topology}"


def test_the_limit_of_rings_over_several_nodes_is_that_of_their_channels():
    forecast = fc.cluster_collective("hgx_h100", nodes=4, sizes=["1 GiB"], env={"NCCL_ALGO": "Ring"})
    assert forecast.table["limit"].tolist() == ["channels over NVLink"]
    one = fc.cluster_collective("hgx_h100", sizes=["1 GiB"], env={"NCCL_ALGO": "Ring"})
    assert one.table["limit"].tolist() == ["NVLink"]


def test_no_setting_is_proposed_whose_gain_is_below_the_usual_error():
    forecast = fc.cluster_collective("hgx_h100", nodes=16, operation="all_gather")
    errors = [cluster_error(forecast.cluster, forecast.operation, size) for size in forecast.table["size_bytes"]]
    gains = forecast.table["gain"]
    assert all(gain == 1 or gain > 1 + error.median for gain, error in zip(gains, errors, strict=True))
    assert (gains > 1).any()


def test_a_far_slower_log_gets_no_settings_but_a_pointer(tmp_path):
    sizes = [2**20, 2**26, 2**29]
    forecast = fc.cluster_collective("hgx_h100", nodes=4, nic="8x400", sizes=sizes, nccl_version="2.29.7").table
    assert (forecast["gain"] > 1).any()
    late = nccl_tests(
        tmp_path / "late.log", [(size, 2 * time) for size, time in zip(sizes, forecast["time_us"], strict=True)]
    )
    shown = "\n".join(lines_of("--log", late, "--nccl-version", "2.29.7"))
    assert "'fabricast diagnose' with this log looks for the cause" in shown and "try for" not in shown


def test_a_contradiction_is_printed_in_full_and_a_slow_calibration_names_no_link(tmp_path):
    sizes = [2**13, 2**16, 2**20, 2**26, 2**30, 2**33]
    forecast = fc.cluster_collective("hgx_h100", nodes=4, nic="8x400", sizes=sizes, nccl_version="2.29.7").table
    slow = nccl_tests(
        tmp_path / "slow.log", [(size, 1.8 * time) for size, time in zip(sizes, forecast["time_us"], strict=True)]
    )
    result = CliRunner().invoke(app, [*CLUSTER, "--log", str(slow), "--sizes", "8GiB"])
    assert "measured rate" in result.stdout and "channels over NVLink" not in result.stdout
    assert (
        "times the rates of public machines, and the forecast is that of such a slow machine: the limits"
        in result.stderr
    )


def test_the_largest_sizes_have_a_narrower_range():
    table = fc.cluster_collective("hgx_h100", nodes=4, nic="8x400", sizes=["64 MiB", "8 GiB"]).table
    spread = (table["latest_us"] / table["time_us"]).tolist()
    assert spread[1] < 1.5 < spread[0]


def port(number, rate, state):
    lines = [f"CA 'mlx5_{number}'", "\tCA type: MT4129", "\tNumber of ports: 1", "\tPort 1:", f"\t\tState: {state}"]
    return "\n".join([*lines, f"\t\tRate: {rate}", "\t\tLink layer: InfiniBand", ""])


def test_ports_that_are_slow_or_down_are_named(tmp_path):
    good = [port(number, 400, "Active") for number in range(8)]
    for name, ports in (("good", good), ("bad", [*good[:6], port(6, 200, "Active"), port(7, 10, "Down")])):
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(ports))
        words = ["collective", "--node", "hgx_h100", "--nodes", "4", "--sizes", "1GiB", str(path)]
        result = CliRunner().invoke(app, words)
        assert ("6 of 8 ports of a host are active with 400 Gbit/s" in result.stderr) == (name == "bad")
        assert ("--nic 8x400 states a node" in result.stderr) == (name == "bad")
