"""Built-in topologies have the range of public machines, unless a publication states their rates."""

from __future__ import annotations

import pytest

import fabricast as fc


@pytest.mark.parametrize(("name", "has_range"), [("hgx_a100", True), ("dgx1_nvlink", True), ("storm8", False)])
def test_copies_of_host_memory_of_a_built_in_topology_have_a_range(name, has_range):
    (copy,) = fc.predict(name, [("H", "0")], size="300 MiB").to_dict("records")
    assert (copy["earliest_s"] < copy["elapsed_s"] < copy["latest_s"]) is has_range
