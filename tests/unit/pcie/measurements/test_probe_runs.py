"""Measurement of probes on GPUs, tested with a fake CUDA driver."""

import os
import subprocess
import sys

import pandas as pd
import pytest

import fabricast as fc
from fabricast.api.probes import probes_to_file
from fabricast.core.errors import InputError
from fabricast.pcie.measurements.probe_runs import COPY_COLUMNS
from fabricast.pcie.measurements.probes import proposed_probes
from fabricast.results.tables import read_table
from tests.conftest import REPOSITORY
from tests.machines import read_copies
from tests.running import SMOKE, copy_project, keep_one_public_machine, snakemake


def machine_xml(gpus, below_a_switch=4):
    """Return hwloc XML of one socket with GPUs at the addresses of the fake driver."""

    def bridge(bus, children):
        return (
            f'<object type="Bridge" bridge_type="1-1" pci_busid="{bus}" pci_type="0604 [8086:2030]" '
            f'pci_link_speed="15.75">\n{children}</object>\n'
        )

    switches = ""
    for first in range(0, gpus, below_a_switch):
        ports = "".join(
            bridge(
                f"0000:2{number}:00.0",
                f'<object type="PCIDev" pci_busid="0000:0{number}:00.0" pci_type="0302 [10de:1db8]" '
                'pci_link_speed="15.75"/>\n',
            )
            for number in range(first, min(first + below_a_switch, gpus))
        )
        switches += bridge(f"0000:3{first}:00.0", bridge(f"0000:4{first}:00.0", ports))
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n'
        f'<object type="Machine">\n<object type="Package">\n<object type="Bridge" bridge_type="0-1" depth="0">\n{switches}'
        "</object>\n</object>\n</object></topology>\n"
    )


def fabricast(driver, folder, *arguments, **environment):
    """Run a command in a process that loads the fake driver."""
    variables = os.environ | {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": str(REPOSITORY / "src")} | environment
    command = [sys.executable, "-m", "fabricast.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=3600)


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [2, 8])
def test_probes_are_measured_and_the_machine_is_validated(fake_driver, tmp_path, gpus):
    (tmp_path / "machine.xml").write_text(machine_xml(gpus))
    tree = fc.load_topology(str(tmp_path / "machine.xml"))
    arguments = ("--run", "--size", "1MB", "--seconds", "0.01", "-o", "measured.csv")
    result = fabricast(fake_driver, tmp_path, "probes", "machine.xml", *arguments, FAKE_GPUS=str(gpus))
    assert result.returncode == 0, result.stderr
    probes = {probe.graph: probe for probe in proposed_probes(tree)}
    assert result.stdout == f"{len(probes)} of {len(probes)} probes measured: measured.csv\n"
    text = (tmp_path / "measured.csv").read_text()
    assert text.startswith(f"# {gpus} x Fake GPU: {len(probes)} of {len(probes)} probes measured\n")
    graphs = read_copies(tmp_path / "measured.csv")
    assert {graph.name: (graph.flows, graph.role) for graph in graphs} == {
        name: (probe.flows, probe.role) for name, probe in probes.items()
    }
    assert all(graph.repetitions >= 5 and graph.program == probes[graph.name].program for graph in graphs)
    copies = pd.read_csv(tmp_path / "measured.csv", comment="#").groupby("graph")["size_bytes"].max()
    assert copies["small all-to-all below a switch" if gpus == 8 else "alone PIX"] == 4e6 * (1 / 16 if gpus == 8 else 1)
    if gpus == 8:
        assert {"one uplink to two switches", "all-to-all below a switch"} & probes.keys()
    again = fabricast(fake_driver, tmp_path, "validate", "machine.xml", "measured.csv", FAKE_GPUS=str(gpus))
    assert again.returncode in (0, 1, 2), again.stderr
    assert "Traceback" not in again.stderr


def test_copies_of_one_engine_wait_for_each_other(fake_driver, tmp_path):
    # The fake driver runs the copies of each stream before those of the next, as the copy engine of an H100 does.
    program = (
        "from fabricast.pcie.measurements.cuda_copies import MachineGpus\n"
        "with MachineGpus() as gpus:\n"
        "    print(*gpus.together([(None, 0)] * 6, 2**20))\n"
        "    small, again, large = (gpus.memory(0, 'test', size) for size in (16, 8, 64))\n"
        "    print(small == again, small == large, gpus.memory(0, 'test', 32) == large)\n"
    )
    environment = os.environ | {"LD_LIBRARY_PATH": str(fake_driver), "FAKE_GPUS": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    times, buffers = done.stdout.splitlines()
    assert (numbers := [float(word) for word in times.split()]) == sorted(set(numbers)) and len(numbers) == 6
    assert buffers == "True False True"


@pytest.mark.slow
def test_pairs_without_peer_access_are_skipped_and_reported(fake_driver, tmp_path):
    (tmp_path / "machine.xml").write_text(machine_xml(2))
    arguments = ("probes", "machine.xml", "--run", "--size", "1MB", "--seconds", "0.01")
    result = fabricast(fake_driver, tmp_path, *arguments, FAKE_GPUS="2", FAKE_NO_PEER="1")
    assert result.returncode == 0, result.stderr
    assert "left out: alone PIX: GPU 0 cannot reach memory of GPU 1 without the host" in result.stderr
    assert "host to one" in result.stdout
    assert "alone PIX" not in result.stdout


@pytest.mark.slow
def test_topology_of_another_machine_is_rejected(fake_driver, tmp_path):
    arguments = ("probes", "storm8", "--run", "-o", "measured.csv")
    result = fabricast(fake_driver, tmp_path, *arguments, FAKE_GPUS="2")
    assert result.returncode == 2
    assert "no endpoint of storm8 has the PCI address of a GPU here (0000:00:00.0, 0000:01:00.0)" in result.stderr
    assert not (tmp_path / "measured.csv").exists()


def test_existing_files_are_kept_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr("fabricast.api.probes.unavailable_reason", lambda: "no CUDA driver was found")
    topology, copies = tmp_path / "this_machine.xml", tmp_path / "copies.csv"
    text = probes_to_file(topology, copies, size_bytes=10**6, seconds=0.01)
    assert text == "nothing measured: no CUDA driver was found"
    assert list(pd.read_csv(copies, comment="#").columns) == list(COPY_COLUMNS)
    with pytest.raises(InputError, match="contains no rows.*nothing measured: no CUDA driver was found"):
        read_copies(copies)
    copies.write_text("kept")
    assert probes_to_file(topology, copies, size_bytes=10**6, seconds=0.01) == text
    assert copies.read_text() == "kept"


@pytest.mark.slow
def test_workflow_includes_this_machine_and_user_files(fake_driver, tmp_path, monkeypatch):
    """Probes of this machine and copies of another are enabled by configuration."""
    exporter = tmp_path / "bin" / "lstopo-no-graphics"
    exporter.parent.mkdir()
    (tmp_path / "this.xml").write_text(machine_xml(8))
    exporter.write_text(f"#!/bin/sh\ncat {tmp_path / 'this.xml'}\n")
    exporter.chmod(0o755)
    folder = copy_project(tmp_path)
    (folder / "server.xml").write_text(machine_xml(8))
    keep_one_public_machine(folder)
    (folder / "copies.csv").write_text(
        "graph,communications,program,total_gb_per_s\nalone,0>4,independent,12.0\nboth ways,0>4 4>0,independent,24.0\n"
        "one uplink,0>4 1>5,independent,12.5\n"
    )
    (folder / "own.yaml").write_text(
        "pcie:\n"
        "  measured: true\n"
        "  probe_run: {size_bytes: 1000000, seconds: 0.01}\n"
        "  graph_sets:\n"
        "    server: {topology: server.xml, measurements: copies.csv}\n"
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_driver))
    monkeypatch.setenv("PATH", f"{exporter.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GPUS", "0")
    code, output = snakemake(folder, "results/pcie/this_machine.copies.csv", *SMOKE, "own.yaml", "--cores", "2")
    assert code == 0, output
    assert "fabricast: copies between GPUs: nothing measured: the CUDA driver sees no GPU" in output
    # GPUs are available now, so the job that measured nothing runs again.
    monkeypatch.setenv("FAKE_GPUS", "8")
    target = "results/pcie/copies.measured_copy.parquet"
    code, output = snakemake(folder, target, *SMOKE, "own.yaml", "--cores", "2")
    assert code == 0, output
    rows = read_table(folder / target)
    probes = proposed_probes(fc.load_topology(str(tmp_path / "this.xml")))
    assert (rows["machine"] == "this_machine").sum() == len(probes)
    server = rows[(rows["machine"] == "server") & rows["judged"]].set_index("graph")
    assert server.index.tolist() == ["one uplink"]
    assert server.loc["one uplink", "forecast_bytes_per_s"] == pytest.approx(12e9), "two copies share one uplink"
    assert server.loc["one uplink", "relative_error"] == pytest.approx(12.0 / 12.5 - 1)
    assert server["user_supplied"].all()
