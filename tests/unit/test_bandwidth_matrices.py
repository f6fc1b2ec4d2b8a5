"""Outputs of nvbandwidth and p2pBandwidthLatencyTest."""

import json

import pytest
from typer.testing import CliRunner

from fabricast.cli import app
from fabricast.errors import InputError
from fabricast.gpucentric.bandwidth_matrices import copy_bandwidth, read_bandwidths

TEXT = """nvbandwidth Version: v0.8
Device 0: NVIDIA A100

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     25.00     24.00

SUM host_to_device_memcpy_ce 49.00

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     20.00
 1     22.00       N/A

SUM device_to_device_memcpy_read_ce 42.00
"""
JSON = {"nvbandwidth": {"testcases": [
    {"name": "device_to_device_memcpy_write_ce", "status": "Passed",
     "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
     "bandwidth_matrix": [["N/A", "20.5"], ["0.00", "N/A"]]},
    {"name": "device_to_device_latency_sm", "bandwidth_description": "latency (ns)",
     "bandwidth_matrix": [["N/A", "800"], ["820", "N/A"]]},
]}}  # fmt: skip
PEER = """[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
P2P Connectivity Matrix
     D\\D     0     1
     0       1     1
     1       1     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 900.00  10.00
     1  10.10 900.00
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 901.00  13.00
     1  12.00 902.00
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   1.33  13.10
     1  11.59   1.30

   CPU     0      1
     0   2.53   7.94
     1   7.94   2.45
"""


def test_matrices_as_programs_print_them(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text(TEXT)
    table = read_bandwidths(path)
    assert len(table) == 4
    assert copy_bandwidth(table) == 21e9
    path.write_text(json.dumps(JSON))
    table = read_bandwidths(path)
    assert copy_bandwidth(table) == 20.5e9
    assert table[table["unit"] == "s"]["value"].tolist() == pytest.approx([800e-9, 820e-9])
    path.write_text(PEER)
    table = read_bandwidths(path)
    assert copy_bandwidth(table) == 12.5e9
    latency = table[table["unit"] == "s"]
    assert latency["value"].tolist() == pytest.approx([1.33e-6, 13.1e-6, 11.59e-6, 1.3e-6])
    assert not table["test"].str.contains("Connectivity").any()


@pytest.mark.parametrize("text", ["", "hello", "{", "[]", '{"nvbandwidth": 3}', '{"testcases": [{"bandwidth_matrix": [["1"]]}]}',
                                  "Running x.\nmemcpy\n", TEXT.replace("20.00", "many").replace("25.00", "x"),
                                  '{"testcases": [{"name": "a", "bandwidth_matrix": [["x"]]}]}'])  # fmt: skip
def test_bad_matrices_are_refused(tmp_path, text):
    path = tmp_path / "out.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=r"out\.txt"):
        read_bandwidths(path)


def test_command_prints_the_bandwidth_for_the_models(tmp_path):
    path, target = tmp_path / "out.txt", tmp_path / "table.csv"
    path.write_text(PEER)
    result = CliRunner().invoke(app, ["bandwidth", str(path), "-o", str(target)])
    assert "--bandwidth-gib 11.6415" in result.output
    assert len(target.read_text().splitlines()) == 13
    path.write_text(TEXT.split("Running device")[0])
    assert "no copies between GPUs" in CliRunner().invoke(app, ["bandwidth", str(path)]).output
