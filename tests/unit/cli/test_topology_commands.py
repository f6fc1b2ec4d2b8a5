"""Tests of commands that write topologies and list claims."""

import xml.etree.ElementTree as ElementTree

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.inputs.pair_rates import assumed_link_share


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


@pytest.mark.parametrize(("topology", "rate"), [("hgx_a100", 300e9), ("mi300x", 64e9), ("dgx1_nvlink", 25e9)])
def test_published_rates_of_direct_links_are_the_default(topology, rate):
    times = fc.predict(topology, [(0, 1)], size=rate)
    (kind,) = {link.kind for link in fc.load_topology(topology).peer_links}
    assert times["elapsed_s"].tolist() == pytest.approx([1 / assumed_link_share(kind).median])
    assert (times["latest_s"] > times["earliest_s"]).all()
    texts = [warning.text for warning in times.attrs["warnings"]]
    # No public machine states the nominal rate of its xGMI links; errors of measured machines are not printed.
    error = "copies over xGMI: unknown" if kind == "xGMI" else "without measurements: single direct links: median 4 %"
    assert any(error in text for text in texts)
    assert any("NVLink, NVSwitch or xGMI is that of the data sheet" in text for text in texts)
    assert fc.predict(topology, [(0, 1)], size=rate, pcie_only=True)["elapsed_s"].iloc[0] > 1


def test_dgx1_has_six_nvlinks_per_gpu():
    tree = fc.load_topology("dgx1_nvlink")
    rates = {frozenset(link.endpoints): link.bytes_per_s for link in tree.peer_links}
    # Both GPUs in the NCCL XML of NVIDIA/nccl issue 671: 0 with 1, 2, 3 and 4; 1 with 0, 2, 3 and 5.
    for gpu, links in {"0": {"1": 1, "2": 1, "3": 2, "4": 2}, "1": {"0": 1, "2": 2, "3": 1, "5": 2}}.items():
        assert {other: rates[frozenset((gpu, other))] / 25e9 for other in links} == links
    for gpu in "01234567":
        assert sum(rate for pair, rate in rates.items() if gpu in pair) == 6 * 25e9
    # GPUs without a common link use the sockets.
    assert fc.predict(tree, [(0, 5)], size=25e9)["bottleneck"].iloc[0].startswith(("endpoint", "link"))
