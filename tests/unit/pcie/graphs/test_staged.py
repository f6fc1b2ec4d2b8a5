"""Copies staged through host memory."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.pcie.topology.regular import regular_tree


@pytest.fixture(scope="module")
def tree():
    return replace(regular_tree("flat4x2", (2, 4)), link_bytes_per_s=31.508e9)


def elapsed(tree, copies, **known):
    return fc.predict(tree, copies, **known)["elapsed_s"].tolist()


def test_an_isolated_staged_copy_is_as_fast_as_its_links(tree):
    (direct,), (staged,) = elapsed(tree, [(0, 4)]), elapsed(tree, [(0, 4)], transport="staged")
    assert staged == pytest.approx(direct, rel=0.05)


def test_staged_pairs_below_one_switch_share_its_uplink(tree):
    # Public pairs without peer access: 11.2 GB/s below one bridge, 19.4 GB/s across two.
    copies = [(0, 1), (2, 3)]
    direct, staged = elapsed(tree, copies), elapsed(tree, copies, transport="staged")
    assert staged == pytest.approx([2 * time for time in direct], rel=0.1)
    across = elapsed(tree, [(0, 4), (5, 1)], transport="staged")
    assert max(across) < 0.6 * max(staged)


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
    with pytest.raises(InputError, match="only"):
        fc.predict(tree, [(0, 1)], transport="staged", model="max_min")
    with pytest.raises(InputError, match="host memory"):
        fc.predict(tree, fc.host_copies(tree), transport="staged")


def test_the_command_shows_both_transports():
    result = CliRunner().invoke(
        app, ["predict", "crossed_virtual_switches", "--copies", "0>4 1>5", "--transport", "both", "--format", "table"]
    )
    assert result.exit_code == 0, result.output
    assert "staged ms" in result.stdout
