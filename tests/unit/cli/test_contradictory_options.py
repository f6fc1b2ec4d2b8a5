"""Options that contradict each other or a file were ignored: each is one line now."""

import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from tests.unit.diagnosis.test_diagnose import nccl_tests, peer_test
from tests.unit.pcie.topology.test_listings import groups, matrix


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["collective", "storm8", "--transport", "p2p", "--env", "NCCL_P2P_DISABLE=1"],
            "is p2p, but NCCL_P2P_DISABLE is set",
        ),
        (
            ["topology", "import", "topo.txt", "--gpu", "A100", "--link", "gen5x16"],
            "is 'gen5x16', but A100 has at most gen4x16",
        ),
        (
            ["validate", "storm8", "p2p.txt", "--system", "one"],
            "is 'one', but output of p2pBandwidthLatencyTest is of one machine",
        ),
        (["simulate", "storm8"], "--halo GRID, --ring, --copies LIST"),
        (["predict", "storm8"], "--halo GRID, --ring, --host-to-all, --copies LIST"),
        (["predict", "storm8", "--ring", "--copies", "0>1"], "--ring and --copies exclude each other"),
        (["predict", "storm8", "g.csv", "--host-to-all"], "the file g.csv and --host-to-all exclude each other"),
        (["network", "loads", "4D-64", "--tiles", "5"], "is 5, but only matrices have several instances"),
    ],
)
def test_contradictory_options_are_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.csv").write_text("graph,source,target\na,0,1\n")
    (tmp_path / "ar.log").write_text(nccl_tests("all_reduce", 8, {2**20: 100.0}))
    (tmp_path / "p2p.txt").write_text(peer_test([[12.0] * 8 for _ in range(8)]))
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PIX"), (2, "NODE"))))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0 and message in str(result.exception)


def test_an_option_is_used_instead_of_the_model_in_a_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ar.log").write_text(nccl_tests("all_reduce", 8, {2**20: 100.0}))
    result = CliRunner().invoke(app, ["collective", "storm8", "--log", "ar.log", "--gpu", "V100"])
    assert result.exit_code == 0, result.output
    assert (
        "the GPU is 'V100' by option, but ar.log" in result.stderr
        and "NVIDIA L40S: the option is used" in result.stderr
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["collective", "storm8", "--log", "ar.log", "--gpu", "L40S"],
        ["topology", "import", "topo.txt", "--gpu", "A100", "--link", "gen4x8"],
    ],
)
def test_options_that_agree_with_the_files_are_accepted(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.csv").write_text("graph,source,target\na,0,1\n")
    (tmp_path / "ar.log").write_text(nccl_tests("all_reduce", 8, {2**20: 100.0}))
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PIX"), (2, "NODE"))))
    assert CliRunner().invoke(app, arguments).exit_code == 0
