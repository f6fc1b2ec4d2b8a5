"""Output of `fabricast collective` for nodes: comparison with a log, and settings that are faster."""

from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
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
