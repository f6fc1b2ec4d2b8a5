"""Tests of commands that write topologies and list claims."""

import xml.etree.ElementTree as ElementTree

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_built_in_topology_is_exported_and_read_again(tmp_path):
    path = tmp_path / "mine.yaml"
    assert run("topology", "export", "hgx_a100", "-o", path).exit_code == 0
    exported, built_in = fc.load_topology(path), fc.load_topology("hgx_a100")
    assert exported.vertices == built_in.vertices and exported.peer_links == built_in.peer_links
    assert run("topology", "export", "hgx_a100").output == path.read_text()


def test_topology_is_drawn_as_svg(tmp_path):
    path = tmp_path / "tree.svg"
    assert run("topology", "show", "storm8", "-o", path).exit_code == 0
    assert ElementTree.parse(path).getroot().tag.endswith("svg")


@pytest.mark.parametrize(("topology", "rate"), [("hgx_a100", 300e9), ("mi300x", 64e9)])
def test_published_rates_of_direct_links_are_the_default(topology, rate):
    times = fc.predict(topology, [(0, 1)], size=rate)
    assert times["elapsed_s"].tolist() == pytest.approx([1.0])
    texts = [warning.text for warning in times.attrs["warnings"]]
    assert any("rate (published)" in text for text in texts)
    assert fc.predict(topology, [(0, 1)], size=rate, pcie_only=True)["elapsed_s"].iloc[0] > 1
