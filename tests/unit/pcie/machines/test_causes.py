"""Tests of probable causes of slow copies, and of the exit codes that report them."""

import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from tests.unit.diagnosis.test_diagnose import peer_test

LINKED = "pcie5_four_switches"


def written(tmp_path, rates):
    path = tmp_path / "measured.csv"
    rows = [f"{s}>{t} alone,{s}>{t},{rate}" for (s, t), rate in rates.items()]
    path.write_text("graph,communications,total_gb_per_s\n" + "\n".join(rows) + "\n")
    return path


def pairs(rate, gpus=7):
    return {(s, t): rate(s, t) for s in range(gpus) for t in range(gpus) if s != t}


@pytest.mark.parametrize("command", [["validate"], ["topology", "check"]])
@pytest.mark.parametrize(
    ("rate", "expected", "code"),
    [
        (
            lambda s, t: 3.9 if 6 in (s, t) else 26.0,
            "GPU 6 sends 3.9 GB/s and receives 3.9 GB/s in all its single copies",
            1,
        ),
        (lambda s, t: 21.0 if (s, t) == (5, 1) else 26.0, "one direction is slower than the other: 5>1 (19%)", 1),
        (lambda s, t: 26.0, "", 0),
    ],
)
def test_causes_are_named_and_exit_with_1(tmp_path, command, rate, expected, code):
    result = CliRunner().invoke(app, [*command, "flat4x2", str(written(tmp_path, pairs(rate)))])
    assert (result.exit_code, expected in " ".join(result.output.split())) == (code, True), result.output
    assert ("slow_endpoint" in result.output) is ("GPU 6" in expected)
    assert ("slow_direction" in result.output) is ("direction" in expected)


def test_slow_copies_everywhere_suggest_staging(tmp_path):
    result = CliRunner().invoke(app, ["topology", "check", LINKED, str(written(tmp_path, pairs(lambda s, t: 20.0)))])
    assert result.exit_code == 1
    assert "35% of the 57.6" in result.output.replace("\n", " ") and "nvidia-smi topo -p2p r" in result.output


def test_graphs_that_cannot_be_compared_are_no_success(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,communications,total_gb_per_s,role\na,0>1,26,\nb,0>4 1>4,26,collapse\n")
    assert CliRunner().invoke(app, ["topology", "check", "flat4x2", str(path)]).exit_code == 0
    path.write_text("graph,communications,total_gb_per_s,role\nb,0>4 1>4,26,collapse\n")
    result = CliRunner().invoke(app, ["topology", "check", LINKED, str(path)])
    assert result.exit_code == 1 and "none of 1 graphs can be compared" in result.output


def test_validation_without_a_comparable_graph_is_no_success(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,communications,total_gb_per_s,role\na,0>1,26,\nb,0>4 1>4,26,collapse\n")
    result = CliRunner().invoke(app, ["validate", "flat4x2", str(path)])
    assert result.exit_code == 1 and "no graph is left to validate" in result.output
    assert (
        CliRunner().invoke(app, ["validate", "flat4x2", str(written(tmp_path, pairs(lambda s, t: 26)))]).exit_code == 0
    )


@pytest.mark.parametrize("command", [["validate"], ["topology", "check"]])
def test_direct_copies_that_are_slower_than_staged_ones(tmp_path, command):
    direct, staged = ([[rate] * 8 for _ in range(8)] for rate in (9.0, 18.0))
    slow = peer_test(staged).replace("P2P=Enabled Bandwidth (P2P Writes)", "P2P=Disabled Bandwidth") + peer_test(direct)
    (tmp_path / "p2p.txt").write_text(slow)
    result = CliRunner().invoke(app, [*command, LINKED, str(tmp_path / "p2p.txt")])
    text = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "direct copies of 56 of 56 pairs are slower than their copies through host memory" in text
    assert "usually because of the IOMMU or access control (ACS)" in text
    (tmp_path / "p2p.txt").write_text(slow.replace("9.00", "25.00"))
    assert "slower_than_staged" not in CliRunner().invoke(app, [*command, LINKED, str(tmp_path / "p2p.txt")]).output


def test_very_many_graphs_are_refused_with_the_limit(tmp_path):
    (tmp_path / "many.csv").write_text("graph,communications,total_gb_per_s\n" + "a,0>1 2>3,26\n" * 20_001)
    result = CliRunner().invoke(app, ["validate", "flat4x2", str(tmp_path / "many.csv")])
    assert result.exit_code != 0
    assert "the measurements have 20,001 graphs, expected at most 20,000" in str(result.exception)


@pytest.mark.slow
def test_many_graphs_report_progress(tmp_path):
    lines = [f"g{number},{number % 7}>7,26\n" for number in range(1_000)]
    (tmp_path / "many.csv").write_text("graph,communications,total_gb_per_s\n" + "".join(lines))
    result = CliRunner().invoke(app, ["validate", "flat4x2", str(tmp_path / "many.csv")])
    assert "validating graphs: 500 of 1,000" in result.stderr and "validating" not in result.stdout
    (tmp_path / "few.csv").write_text("graph,communications,total_gb_per_s\n" + "".join(lines[:20]))
    assert "validating" not in CliRunner().invoke(app, ["validate", "flat4x2", str(tmp_path / "few.csv")]).output


def test_a_slow_gpu_is_named_beside_a_slow_link(tmp_path):
    """GPU 3 has a slow link; the copies of GPU 5 are slow, too, but not alike, so that no link explains them."""
    of_gpu_5 = {0: 10.0, 1: 13.0, 2: 16.0, 4: 19.0, 6: 12.0, 7: 15.0}
    rates = pairs(lambda s, t: 3.9 if 3 in (s, t) else of_gpu_5[s + t - 5] if 5 in (s, t) else 26.0, gpus=8)
    result = CliRunner().invoke(app, ["validate", "flat4x2", str(written(tmp_path, rates))])
    text = " ".join(result.output.split())
    assert "GPU 3 sends 3.9 GB/s and receives 3.9 GB/s in all its single copies" in text
    assert "GPU 5 is in all 12 graphs that are more than 15% slower than forecast" in text
