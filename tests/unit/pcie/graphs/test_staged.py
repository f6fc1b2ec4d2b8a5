"""Copies staged through host memory."""

import statistics
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.core.warnings import WarningCode
from fabricast.pcie.graphs.staged import chunk_overhead_s
from fabricast.pcie.topology.regular import regular_tree
from tests.unit.diagnosis.test_diagnose import peer_test
from tests.unit.pcie.topology.test_listings import groups, matrix


@pytest.fixture(scope="module")
def tree():
    return replace(regular_tree("flat4x2", (2, 4)), link_bytes_per_s=31.508e9)


def elapsed(tree, copies, **known):
    return fc.predict(tree, copies, **known)["elapsed_s"].tolist()


SIZE = 2**28


def test_an_isolated_staged_copy_is_as_fast_as_on_public_machines(tree):
    (direct,) = elapsed(tree, [(0, 4)], size=SIZE)
    staged = fc.predict(tree, [(0, 4)], size=SIZE, transport="staged").iloc[0]
    assert direct < staged["elapsed_s"] < 2 * direct
    assert staged["earliest_s"] <= staged["elapsed_s"] < staged["latest_s"]
    assert staged["slowdown"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("link", "model", "one_way", "both_ways"),
    [("gen4x16", "RTX 4090", 20.9, 31), ("gen3x16", "V100", 12.2, 16.6), ("gen4x16", "RTX 3090", 11.3, 16.3)],
)
def test_staged_pairs_have_the_rates_of_public_machines(tmp_path, link, model, one_way, both_ways):
    (tmp_path / "topo.txt").write_text(matrix(groups((4, "PHB")), numa=[0] * 4))
    for copies, rate in (([(0, 1)], one_way), ([(0, 1), (1, 0)], both_ways)):
        table = fc.predict(tmp_path / "topo.txt", copies, gpu=model, link=link, transport="staged", size="1 GB")
        assert len(copies) / table["elapsed_s"].max() == pytest.approx(rate, rel=0.05)
        assert (table["latest_s"] > table["elapsed_s"]).all()


@pytest.mark.parametrize(("rate", "staged"), [(26e9, 22.3e9), (55.6e9, 43.2e9), (12.2e9, 10.9e9)])
def test_public_copies_through_host_memory(rate, staged):
    """RTX 4090 with copies of 25 to 27 GB/s, RTX 5090, A100 with PCIe 3.0: the first and last are not in the table."""
    machine = regular_tree("flat4x2", (2, 4))
    (time_s,) = elapsed(machine, [(0, 4)], size=1e9, bandwidth=rate, transport="staged")
    assert 1e9 / time_s == pytest.approx(staged, rel=0.06)


def test_the_time_for_chunks_is_that_of_pairs_with_fast_direct_copies():
    rows = pd.read_csv(published() / "pcie_staged_copies.csv", comment="#")
    of_machine = rows[rows["machine"] == "turin9575-5090"]
    differences = [
        1 / one - 1 / other
        for one, other in zip(of_machine["staged_gb_per_s"], of_machine["direct_gb_per_s"], strict=True)
    ]
    assert chunk_overhead_s() * 1e9 == pytest.approx(statistics.median(differences))
    assert (rows.loc[rows["machine"] == "sm02", "staged_gb_per_s"] > rows["direct_gb_per_s"].dropna().min()).all()


def test_staged_pairs_below_one_switch_share_its_uplink(tree):
    # Public pairs without peer access: 11.2 GB/s below one bridge, 19.4 GB/s across two.
    copies = [(0, 1), (2, 3)]
    direct, staged = elapsed(tree, copies, size=SIZE), elapsed(tree, copies, size=SIZE, transport="staged")
    assert min(staged) > 2 * max(direct)
    across = elapsed(tree, [(0, 4), (5, 1)], size=SIZE, transport="staged")
    assert max(across) < 0.65 * max(staged)


def test_copies_that_limit_a_staged_copy(tree):
    """Removing the first of limited_by shortens the copy, and no other removal shortens it more."""
    copies = [(0, 1), (2, 1), (3, 4), (5, 6)]
    table = fc.predict(tree, copies, size=SIZE, transport="staged")
    assert (table["slowdown"] > 1.01).any()
    for number, row in table.iterrows():
        others = [copy for copy in copies if copy != copies[number]]
        without = {
            f"{one[0]}>{one[1]}": fc.predict(
                tree, [copy for copy in copies if copy != one], transport="staged", size=SIZE
            )
            for one in others
        }
        times = {
            name: rows.loc[(rows["source"] == row["source"]) & (rows["target"] == row["target"]), "elapsed_s"].item()
            for name, rows in without.items()
        }
        if row["slowdown"] > 1 + 1e-6:
            first = row["limited_by"].split()[0]
            assert row["elapsed_without_s"] == pytest.approx(times[first], rel=1e-9)
            assert times[first] == pytest.approx(min(times.values()), rel=1e-9)
        else:
            assert row["limited_by"] == ""


def test_measured_direct_copies_contradict_a_staged_forecast(tree, tmp_path):
    """A GPU with one lane in a file of direct copies, on a machine whose copies are assumed to be staged."""
    rates = [[3.9 if 6 in (one, other) else 25.9 for other in range(8)] for one in range(8)]
    (tmp_path / "p2p.txt").write_text(peer_test(rates))
    staged = replace(tree, staged_pairs=tuple((str(a), str(b)) for a in range(8) for b in range(8) if a != b))
    # The slow link limits staged copies, too.
    table = fc.predict(staged, [(0, 6)], size="64 MB", measurements=tmp_path / "p2p.txt")
    assert 64e6 / table["elapsed_s"].iloc[0] <= 3.9e9 * (1 + 1e-9)
    assert any("GPU 6 sends 3.9 GB/s" in one.text for one in table.attrs["warnings"])
    # Copies of a pair that are slow in both directions, and no others, are not explained by a link.
    rates = [[3.9 if {one, other} == {0, 6} else 25.9 for other in range(8)] for one in range(8)]
    (tmp_path / "p2p.txt").write_text(peer_test(rates))
    for copies in ([(0, 6)], [(0, 6), (6, 0)], fc.all_to_all(tree)):
        warnings = fc.predict(staged, copies, measurements=tmp_path / "p2p.txt").attrs["warnings"]
        (found,) = [one.text for one in warnings if one.code == WarningCode.MEASUREMENT_CONTRADICTED]
        assert "the measurements have 3.9 GB/s" in found
        assert any("the measurements contradict the forecast" in one.text for one in warnings)


def test_reads_of_host_memory_do_not_wait_for_each_other(tree):
    flat = replace(regular_tree("root_ports", (8,)), link_bytes_per_s=31.508e9)
    alone = elapsed(flat, [(2, 3)], transport="staged")[0]
    assert elapsed(flat, [(0, 1), (4, 1), (2, 3)], transport="staged")[2] == pytest.approx(alone)


def test_the_table_has_the_copies_of_the_graph(tree):
    table = fc.predict(tree, [(0, 1), (4, 5)], transport="staged")
    assert table[["source", "target"]].astype(str).to_numpy().tolist() == [["0", "1"], ["4", "5"]]
    assert table["transport"].tolist() == ["staged", "staged"]
    assert "H@" not in " ".join(table["source"].astype(str))


def test_other_transports_are_rejected(tree):
    with pytest.raises(InputError, match="transport"):
        fc.predict(tree, [(0, 1)], transport="pigeon")
    with pytest.raises(InputError, match="and 1 copy of this machine needs them"):
        fc.predict(tree, [(0, 1)], transport="staged", model="max_min")
    with pytest.raises(InputError, match="host memory"):
        fc.predict(tree, fc.host_copies(tree), transport="staged")


def test_the_command_shows_both_transports():
    result = CliRunner().invoke(
        app, ["predict", "crossed_virtual_switches", "--copies", "0>4 1>5", "--transport", "both", "--format", "table"]
    )
    assert result.exit_code == 0, result.output
    assert "staged ms" in result.stdout
    assert (
        "staged copies: expected error of ports_and_engines: without measurements: single staged copies"
        in result.stderr
    )


@pytest.mark.parametrize("both_ways", [26.0, 44.0])
def test_measured_staged_copies_both_ways_are_the_forecast(tree, tmp_path, both_ways):
    one_way = peer_test([[0 if one == other else 22.0 for other in range(8)] for one in range(8)])
    pairs = peer_test([[0 if one == other else both_ways for other in range(8)] for one in range(8)])
    text = one_way.replace("P2P=Enabled", "P2P=Disabled") + pairs.replace(
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes)", "Bidirectional P2P=Disabled Bandwidth"
    )
    (tmp_path / "p2p.txt").write_text(text)
    table = fc.predict(tree, [(0, 1), (1, 0)], transport="staged", measurements=tmp_path / "p2p.txt")
    assert 2 * table["size_bytes"].iloc[0] / table["elapsed_s"].max() == pytest.approx(both_ways * 1e9)
    assert np.allclose(table["latest_s"], table["elapsed_s"])
    assert WarningCode.MEASUREMENT_CONTRADICTED not in {one.code for one in table.attrs["warnings"]}
    # A GPU that sends to one and receives from another may be as slow as both ways of a pair.
    ring = fc.predict(tree, [(0, 1), (1, 2), (2, 0)], transport="staged", measurements=tmp_path / "p2p.txt")
    slowest = 2 * ring["size_bytes"] / (both_ways * 1e9)
    assert (ring["latest_s"] >= slowest * (1 - 1e-9)).all() and (ring["earliest_s"] <= ring["elapsed_s"]).all()
    # With other copies beside it, a pair is not faster.
    several = fc.predict(tree, [(0, 1), (1, 0), (2, 3), (3, 2)], transport="staged", measurements=tmp_path / "p2p.txt")
    assert (several["elapsed_s"] >= table["elapsed_s"].max() * (1 - 1e-9)).all()
