"""Tests of commands that write topologies and list claims."""

import xml.etree.ElementTree as ElementTree

import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.inputs.pair_rates import direct_link_share


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
    assert times["elapsed_s"].tolist() == pytest.approx([1 / direct_link_share(kind).median])
    assert (times["latest_s"] > times["earliest_s"]).all()
    texts = [warning.text for warning in times.attrs["warnings"]]
    # Errors of measured machines are not printed.
    links = (
        "copies over xGMI (measured on MI300X and MI350X only): median 1 %"
        if kind == "xGMI"
        else "copies over NVLink: median 6 %"
    )
    error = f"without measurements: single {links}"
    assert any(error in text for text in texts)
    assert any("direct links have the rate of the data sheet" in text for text in texts)
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


def test_nodes_with_direct_links_are_topologies_by_name(tmp_path):
    assert run("topology", "show", "hgx_h100").exit_code == 0
    assert "nic7" in run("topology", "show", "hgx_h100").output
    listed = run("topology", "list").output
    assert all(f"{name} " in listed for name in ("hgx_h100", "gb200_nvl72", "storm8"))
    exported = tmp_path / "mine.yaml"
    assert run("topology", "export", "hgx_h100", "-o", exported).exit_code == 0
    one, other = fc.predict("hgx_h100", [(0, 1), (2, 1)]), fc.predict(exported, [(0, 1), (2, 1)])
    assert one["elapsed_s"].tolist() == other["elapsed_s"].tolist()
    of_cluster = fc.predict_cluster("hgx_h100", [("node0.gpu0", "node0.gpu1"), ("node0.gpu2", "node0.gpu1")])
    assert one["elapsed_s"].tolist() == of_cluster.table["elapsed_s"].tolist()


def test_a_cluster_is_shown_with_its_nodes(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("cluster: mine\nnode: hgx_h100\nnodes: 2\nnic: 8x400\n")
    shown = run("topology", "show", path).output
    assert "2 x hgx_h100 (8 GPUs, 8 cards)" in shown and "NVSwitch connects 0 1 2 3 4 5 6 7" in shown
