"""Outputs of nvbandwidth and p2pBandwidthLatencyTest."""

import json

import pytest
from typer.testing import CliRunner

from fabricast.api.bandwidths import bandwidths, isolated_copies
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.gpucentric.bandwidth_matrices import copy_classes
from tests.unit.pcie.measurements.test_rocm_output import ROCM_BANDWIDTH_TEST, TRANSFER_BENCH

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
JSON = {
    "nvbandwidth": {
        "testcases": [
            {
                "name": "device_to_device_memcpy_write_ce",
                "status": "Passed",
                "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["N/A", "20.5"], ["0.00", "N/A"]],
            },
            {
                "name": "device_to_device_latency_sm",
                "bandwidth_description": "latency (ns)",
                "bandwidth_matrix": [["N/A", "800"], ["820", "N/A"]],
            },
        ]
    }
}
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


def read_bandwidths(path):
    return bandwidths(path)


def classes(found):
    return copy_classes(isolated_copies(found))


def test_printed_matrices_are_parsed(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text(TEXT)
    found = read_bandwidths(path)
    assert len(found.table) == 4
    assert [(one.median, len(one.pairs)) for one in classes(found)] == [(21e9, 2)]
    path.write_text(json.dumps(JSON))
    found = read_bandwidths(path)
    table = found.table
    assert [one.median for one in classes(found)] == [20.5e9]
    assert table[table["unit"] == "s"]["value"].tolist() == pytest.approx([800e-9, 820e-9])
    path.write_text(PEER)
    found = read_bandwidths(path)
    table = found.table
    assert [one.median for one in classes(found)] == [12.5e9]
    latency = table[table["unit"] == "s"]
    assert latency["value"].tolist() == pytest.approx([1.33e-6, 13.1e-6, 11.59e-6, 1.3e-6])
    assert not table["test"].str.contains("Connectivity").any()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "{",
        "[]",
        '{"nvbandwidth": 3}',
        '{"testcases": [{"bandwidth_matrix": [["1"]]}]}',
        "Running x.\nmemcpy\n",
        TEXT.replace("20.00", "many").replace("25.00", "x"),
        '{"testcases": [{"name": "a", "bandwidth_matrix": [["x"]]}]}',
    ],
)
def test_invalid_matrices_are_rejected(tmp_path, text):
    path = tmp_path / "out.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=r"out\.txt"):
        read_bandwidths(path)


def test_command_prints_the_bandwidth_for_the_models(tmp_path):
    path, target = tmp_path / "out.txt", tmp_path / "table.csv"
    path.write_text(PEER)
    result = CliRunner().invoke(app, ["bandwidth", str(path), "-o", str(target)])
    assert "if these copies use PCIe: --bandwidth 11.6415GiB/s" in result.output
    assert len(target.read_text().splitlines()) == 13
    path.write_text(TEXT.split("Running device")[0])
    assert "no single direct copies between GPUs" in CliRunner().invoke(app, ["bandwidth", str(path)]).output


@pytest.mark.parametrize(
    ("text", "program"), [(ROCM_BANDWIDTH_TEST, "rocm_bandwidth_test 2.6.0"), (TRANSFER_BENCH, "TransferBench 1.62.00")]
)
def test_output_of_all_bandwidth_programs_is_summarised(tmp_path, text, program):
    path, target = tmp_path / "out.txt", tmp_path / "table.csv"
    path.write_text(text)
    output = printed(path, "-o", str(target))
    assert f"output of {program}" in output and "isolated copies: " in output and "rate 1: median " in output
    assert target.read_text().startswith("program,test,row,column,value,unit\n")


def matrix(rates):
    """Return output of p2pBandwidthLatencyTest for rates in GB/s by (source, target)."""
    count = max(max(pair) for pair in rates) + 1
    lines = [
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]",
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
        "   D\\D " + " ".join(f"{i:8}" for i in range(count)),
    ]
    lines += [f"{s:6} " + " ".join(f"{rates.get((s, t), 900.0):8.2f}" for t in range(count)) for s in range(count)]
    return "\n".join(lines) + "\n"


def printed(path, *arguments):
    return CliRunner().invoke(app, ["bandwidth", str(path), *arguments]).output


def test_rates_of_different_path_classes_are_not_averaged(tmp_path):
    path = tmp_path / "out.txt"
    mixed = {(s, t): 50.0 if (s < 2) == (t < 2) else 40.0 for s in range(4) for t in range(4) if s != t}
    path.write_text(matrix(mixed))
    output = printed(path)
    assert "rate 1: median 50 GB/s (50 to 50), 4 pairs: 0>1, 1>0, 2>3, 3>2" in output
    assert "rate 2: median 40 GB/s (40 to 40), 8 pairs" in output
    assert "--bandwidth" not in output
    assert "--topology" in output
    path.write_text(matrix(dict.fromkeys(mixed, 392.0)))
    assert "faster than any PCIe link" in printed(path)
    assert "--bandwidth" not in printed(path)


def test_topology_determines_the_path_class_of_each_copy(tmp_path):
    path, topology = tmp_path / "out.txt", tmp_path / "machine.yaml"
    topology.write_text(
        "name: machine\nlink_bytes_per_s: 63.0e+9\npeer_links:\n  - {kind: NVLink, endpoints: ['0', '1']}\nvertices:\n"
        "  - {name: RC, kind: root_complex}\n  - {name: S, kind: switch, parent: RC}\n"
        + "".join(f"  - {{name: '{i}', kind: endpoint, parent: {'S' if i < 3 else 'RC'}}}\n" for i in range(4))
    )
    rates = {(s, t): 55.0 for s in range(4) for t in range(4) if s != t}
    rates |= {(0, 1): 200.0, (1, 0): 200.0} | {(s, t): 48.0 for s, t in rates if 3 in (s, t)}
    path.write_text(matrix(rates))
    output = printed(path, "--topology", str(topology))
    assert "the rates of" not in output
    assert "NVLink: median 200 GB/s" in output
    assert "PIX: median 55 GB/s" in output
    assert "PHB: median 48 GB/s" in output
    assert f"--bandwidth {55e9 / 2**30:.6g}GiB/s (PIX)" in output
    path.write_text(matrix(dict.fromkeys(rates, 90.0)))
    assert "faster than their links (63.00 GB/s)" in printed(path, "--topology", str(topology))


def test_different_rates_of_one_path_class_are_named(tmp_path):
    path, topology = tmp_path / "out.txt", tmp_path / "machine.yaml"
    topology.write_text(
        "name: machine\nlink_bytes_per_s: 31.5e+9\nvertices:\n  - {name: RC, kind: root_complex}\n"
        + "".join(f"  - {{name: '{i}', kind: endpoint, parent: RC}}\n" for i in range(3))
    )
    path.write_text(matrix({(s, t): 6.0 if 2 in (s, t) else 25.0 for s in range(3) for t in range(3) if s != t}))
    assert "the rates of PHB differ: 'fabricast diagnose' names slow GPUs" in printed(path, "--topology", str(topology))


def test_concurrent_copies_are_named_as_such(tmp_path):
    """The summary of TransferBench's a2a has no single copies."""
    (tmp_path / "a2a.txt").write_text(
        "TransferBench v1.62.00\nSRC\\DST  GPU 00     GPU 01        STotal      Actual\n"
        "GPU 00      N/A     20.000        20.000     20.000\nGPU 01   21.000        N/A        21.000     21.000\n"
    )
    output = CliRunner().invoke(app, ["bandwidth", str(tmp_path / "a2a.txt")]).output
    assert "2 concurrent copies, 41 GB/s in total" in output
    assert "no single direct copies between GPUs: the file does not determine a bandwidth" in output
    table = tmp_path / "table.csv"
    result = CliRunner().invoke(app, ["bandwidth", str(tmp_path / "a2a.txt"), "-o", str(table)])
    assert "contains no matrix and no single copies" in str(result.exception) and not table.exists()
