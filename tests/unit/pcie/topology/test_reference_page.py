"""The page of topology files lists every key, and its examples are valid."""

import re

import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.pcie.topology.files import _MemoryEntry, _PeerEntry, _RouteEntry, _TreeFile, _VertexEntry
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "topology_yaml.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("model", [_TreeFile, _VertexEntry, _PeerEntry, _RouteEntry, _MemoryEntry])
def test_every_key_is_on_the_page(model):
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert set(model.model_fields) <= named


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_are_valid_topologies(text, tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text(text)
    tree = fc.load_topology(str(path))
    times = fc.predict(tree, [("0", "1")], size="64 MiB")
    assert times["elapsed_s"][0] > 0


def test_several_roots_name_the_vertex_above_them(tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text(EXAMPLES[1].replace(", parent: SYS", "").replace("  - {name: SYS, kind: system}\n", ""))
    with pytest.raises(InputError, match="RC0, RC1; expected exactly one, for several sockets a vertex of kind system"):
        fc.load_topology(str(path))
