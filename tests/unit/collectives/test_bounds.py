"""Bounds of operations on clusters that are neither emulated nor public."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError

GIB = float(1 << 30)


@pytest.fixture
def machine(tmp_path) -> Path:
    rows = ["\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity", "GPU0\t X \tPIX\t0-31\t0", "GPU1\tPIX\t X \t0-31\t0"]
    path = tmp_path / "topo.txt"
    path.write_text("\n".join(rows) + "\n")
    return path


def bounds(machine: Path, **options):
    return fc.cluster_collective(fc.load_machine(str(machine), gpu="L40S"), sizes=[1 << 20, GIB], **options)


def test_a_slow_card_limits_nodes_of_pcie_gpus(machine):
    """Two nodes of two GPUs: a ring of 4 ranks moves 1.5 times the data, a tree of 2 nodes moves them once."""
    found = bounds(machine, nodes=2, nic="1x100")
    last = found.table.iloc[-1]
    assert found.is_bound_only and np.isnan(last["time_us"])
    assert last["ring_earliest_us"] == pytest.approx(1.5 * GIB / 12.5e9 * 1e6)
    assert last["earliest_us"] == pytest.approx(GIB / 12.5e9 * 1e6)
    assert last["ring_most_gb_per_s"] == pytest.approx(12.5)
    assert last["limit"] == "network cards"


def test_a_ring_over_pcie_limits_nodes_with_fast_cards(machine):
    found = bounds(machine, nodes=2, nic="2x400")
    inner = fc.collective(fc.load_machine(str(machine), gpu="L40S"), "all_reduce", sizes=["8 GiB"])
    last = inner.table.iloc[-1]
    fastest = last["bus_gb_per_s"] * last["time_us"] / last["earliest_us"]
    assert found.table["ring_most_gb_per_s"].iloc[-1] == pytest.approx(fastest)
    assert set(found.table["limit"]) == {"PCIe within the node"}


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
@pytest.mark.parametrize("node", ["hgx_a100", "hgx_h100", "gh200x4"])
def test_no_forecast_of_an_emulated_cluster_is_below_its_bound(node, operation):
    """The bounds of the same cluster without GPUDirect, which no model follows."""
    options = {"nodes": 4, "nic": "4x200", "sizes": [1 << 24, 1 << 28, GIB]}
    forecast = fc.cluster_collective(node, operation, **options)
    bound = fc.cluster_collective(node, operation, gpudirect=False, **options)
    assert bound.is_bound_only and not forecast.is_bound_only
    assert (forecast.table["time_us"] >= bound.table["earliest_us"]).all()
    is_ring = forecast.table["algorithm"] == "ring"
    assert (forecast.table["time_us"] >= bound.table["ring_earliest_us"])[is_ring].all()


def test_one_gpu_of_each_node_has_a_forecast(machine):
    assert not bounds(machine, nodes=2, nic="1x100", gpus=1).is_bound_only


@pytest.mark.parametrize("operation", ["alltoall", "sendrecv"])
def test_sends_have_no_bound(machine, operation):
    with pytest.raises(InputError, match="not emulated, and no public machine"):
        bounds(machine, operation=operation, nodes=2, nic="1x100")


def test_the_command_prints_the_bounds(machine):
    words = [str(machine), "--gpu", "L40S", "--nodes", "2", "--nic", "1x100", "--sizes", "1GiB", "--format", "table"]
    result = CliRunner().invoke(app, ["collective", *words])
    assert "bus GB/s, at most" in result.stdout and "12.5 network cards" in result.stdout
    assert "no time is forecast" in result.stderr
