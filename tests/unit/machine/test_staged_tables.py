"""Tables of copies (CSV) of machines whose GPUs copy through host memory."""

import numpy as np
import pytest

import fabricast as fc
from fabricast.figures.pcie.models import draw_tree

MACHINE = """name: mine
link_bytes_per_s: 31507692307.7
staged: all
{warnings}vertices:
  - {{name: SOCKET0, kind: socket}}
  - {{name: RC0, kind: root_complex, parent: SOCKET0, capacity: 1000.0}}
  - {{name: S0, kind: switch, parent: RC0}}
  - {{name: RC1, kind: root_complex, parent: SOCKET0, capacity: 1000.0}}
  - {{name: S1, kind: switch, parent: RC1}}
  - {{name: "0", kind: endpoint, parent: S1, generation: 4, width: 16}}
  - {{name: "1", kind: endpoint, parent: S1, generation: 4, width: 16}}
  - {{name: "2", kind: endpoint, parent: S0, generation: 4, width: 16}}
  - {{name: "3", kind: endpoint, parent: S0, generation: 4, width: 16}}
"""
ASSUMED = "warnings:\n  - {code: peer_access_assumed, text: 'the driver permits no direct copies'}\n"
ROWS = (
    "graph,communications,program,total_gb_per_s\n"
    "single,0>1,torch,{single}\nboth,0>1 1>0,torch,22.9\ntwo,0>2 1>3,torch,24.0\nhost,H>0,torch,25.2\n"
)


@pytest.fixture
def machine(tmp_path):
    def load(warnings="", single=21.6):
        (tmp_path / "machine.yaml").write_text(MACHINE.format(warnings=warnings))
        (tmp_path / "copies.csv").write_text(ROWS.format(single=single))
        return fc.load_machine([tmp_path / "machine.yaml", tmp_path / "copies.csv"])

    return load


def _rate(machine, copies):
    table = fc.predict(machine, copies, size="1GiB")
    return float(table["size_bytes"].sum() / table["elapsed_s"].max() / 1e9)


@pytest.mark.parametrize("warnings", ["", ASSUMED])
def test_measured_copies_through_host_memory_are_printed_as_measured(machine, warnings):
    found = machine(warnings)
    assert found.staged_bytes_per_s == {("0", "1"): 21.6e9}
    assert found.staged_both_ways_bytes_per_s == {("0", "1"): 22.9e9}
    assert [graph.name for graph in found.graphs] == ["host"]
    assert _rate(found, "0>1") == pytest.approx(21.6, rel=0.01)
    assert _rate(found, "0>2 1>3") == pytest.approx(24.0, rel=0.01)


def test_fast_copies_show_peer_access_that_a_model_lacks(machine):
    found = machine(ASSUMED, single=26.4)
    assert not found.staged_bytes_per_s and len(found.graphs) == 4


def test_a_comparison_names_the_graphs_that_it_leaves_out(machine):
    found = fc.validate_machine(machine())
    assert any("1 graphs with copies of several pairs" in one.text for one in found.warnings)


def test_a_tree_with_sockets_is_drawn(machine):
    import matplotlib.pyplot as plt

    tree = machine().tree
    figure, axes = plt.subplots()
    draw_tree(tree, np.zeros(len(tree.link_names)), axes)
    assert {text.get_text() for text in axes.texts} == {vertex.name for vertex in tree.vertices}
    plt.close(figure)
