"""Copies in the output of nvbandwidth and p2pBandwidthLatencyTest, and damaged output of all programs."""

import re

import pytest

from fabricast.core.errors import InputError
from fabricast.pcie.machines.validation import validate_machine
from tests.machines import read_copies
from tests.unit.pcie.machines.measured import TREE, limits

PEER_TEST = """P2P Connectivity Matrix
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1      2
     0 900.00  50.00  48.00
     1  50.00 900.00  48.00
     2  48.00  48.00 900.00
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 900.00  98.00  95.00
     1  98.00 900.00  95.00
     2  95.00  95.00 900.00
"""


NVBANDWIDTH = """nvbandwidth Version: v0.8
Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     50.00
 1     50.00       N/A

Running host_to_all_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     40.00     41.00

"""


def test_bandwidth_matrices_calibrate_a_machine(tmp_path):
    (tmp_path / "peer.txt").write_text(PEER_TEST)
    graphs = read_copies(tmp_path / "peer.txt")
    assert len(graphs) == 12
    report = validate_machine(TREE, graphs)
    assert report.calibration.one_way_bytes_per_s == pytest.approx(48e9)
    assert report.calibration.two_way_bytes_per_s == pytest.approx(47.5e9)
    assert not report.rows["judged"].any()
    (tmp_path / "nv.txt").write_text(NVBANDWIDTH)
    (alone, other, host) = read_copies(tmp_path / "nv.txt")
    assert (alone.flows, other.flows) == ((("0", "1"),), (("1", "0"),))
    assert (host.flows, host.total_bytes_per_s) == ((("H", "0"), ("H", "1")), 81e9)
    (tmp_path / "other.txt").write_text("p2pmark 1.0")
    with pytest.raises(
        InputError,
        match="no known program, expected output of rocm_bandwidth_test, rvs, TransferBench, p2pmark, nvbandwidth, p2p",
    ):
        read_copies(tmp_path / "other.txt")


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (NVBANDWIDTH, "bandwidth (GB/s)", "bandwidth (MB/s)", "has 'MB/s', expected GB/s"),
        (NVBANDWIDTH, "bandwidth (GB/s)", "bandwidth", "has 'column', expected GB/s"),
        (NVBANDWIDTH, " 1     50.00       N/A\n", "", "has 1 rows, expected 2"),
        (NVBANDWIDTH, " 1     50.00", " 0     50.00", "row 0 is a duplicate"),
        (NVBANDWIDTH, "Running host_to_all_memcpy_ce.", "Running device_to_device_memcpy_write_ce.", "has 1 rows"),
        (PEER_TEST, "P2P=Enabled Bandwidth Matrix (GB/s)", "P2P=Enabled Bandwidth Matrix (GiB/s)", "has 'GiB/s'"),
        (
            '{"testcases": [{"name": "host_to_device_memcpy_ce", "status": "Failed", "bandwidth_matrix": [["25.0"]]}]}',
            "",
            "",
            "status 'Failed', expected Passed",
        ),
        (
            '{"testcases": [{"name": "device_to_device_memcpy_write_ce", "bandwidth_matrix": [["N/A", "25.0"], ["25"]]}]}',
            "",
            "",
            "row 1 of 'device_to_device_memcpy_write_ce' has 1 values, expected 2",
        ),
        (
            "graph,source,target,size_bytes,elapsed_s,rate_gb_per_s\na,0,1,1e9,0.02,5\n",
            "",
            "",
            "has elapsed_s and rate_gb_per_s, expected one of them",
        ),
    ],
)
def test_inconsistent_benchmark_output_is_rejected(tmp_path, text, old, new, message):
    assert old in text
    path = tmp_path / ("m.csv" if text.startswith("graph") else "m.txt")
    path.write_text(text.replace(old, new, 1) if old else text)
    with pytest.raises(InputError, match=re.escape(message)):
        read_copies(path)


@pytest.mark.parametrize("content", [b"\x00\x01", "graph".encode("utf-16"), b"PAR1 no parquet"])
def test_files_of_other_formats_are_rejected(tmp_path, content):
    for name in ("m.csv", "m.parquet"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError):
            read_copies(tmp_path / name)


#: Two GPUs below different switches and one next to the first, as printed by nvbandwidth 0.8.
NVBANDWIDTH_08 = """nvbandwidth Version: v0.8

Running host_to_device_bidirectional_memcpy_ce.
memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)
           0         1         2
 0     40.00     40.00     41.00

SUM host_to_device_bidirectional_memcpy_ce 121.00
COEFFICIENT_OF_VARIATION host_to_device_bidirectional_memcpy_ce 0.01

Running device_to_host_bidirectional_memcpy_ce.
memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)
           0         1         2
 0     30.00     30.00     31.00

SUM device_to_host_bidirectional_memcpy_ce 91.00

Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2
 0       N/A     50.00     50.00
 1     50.00       N/A     50.00
 2     50.00     50.00       N/A

SUM device_to_device_memcpy_write_ce 300.00

Running device_to_device_bidirectional_memcpy_read_ce.
memcpy CE GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)
           0         1         2
 0       N/A     48.00     48.00
 1     48.00       N/A     48.00
 2     48.00     48.00       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_read1 288.00

memcpy CE GPU(row) <-> GPU(column) Read2 bandwidth (GB/s)
           0         1         2
 0       N/A     49.00     49.00
 1     49.00       N/A     49.00
 2     49.00     49.00       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_read2 294.00

memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1         2
 0       N/A     97.00     97.00
 1     97.00       N/A     97.00
 2     97.00     97.00       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_total 582.00

Running all_to_host_bidirectional_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2
 0     20.00     20.00     20.00

SUM all_to_host_bidirectional_memcpy_ce 60.00

Running host_to_all_bidirectional_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2
 0     25.00     25.00     25.00

SUM host_to_all_bidirectional_memcpy_ce 75.00

Running all_to_one_write_ce.
memcpy CE All Gpus -> GPU(column) total bandwidth (GB/s)
           0         1         2
 0     50.00     50.00     50.00

SUM all_to_one_write_ce 150.00

Running one_to_all_read_ce.
memcpy CE GPU(column) <- All GPUs total bandwidth (GB/s)
           0         1         2
 0     50.00     50.00     50.00

SUM one_to_all_read_ce 150.00

Running device_to_device_latency_sm.
Device to Device Latency SM GPU(row) <-> GPU(column) (ns)
           0         1         2
 0       N/A    800.00    800.00
 1    800.00       N/A    800.00
 2    800.00    800.00       N/A

SUM device_to_device_latency_sm 4800.00
"""


def test_copy_engine_tests_of_nvbandwidth_are_read(tmp_path):
    path = tmp_path / "nv.txt"
    path.write_text(NVBANDWIDTH_08)
    graphs = {graph.name: graph for graph in read_copies(path)}
    alone = [graph for graph in graphs.values() if len(graph.flows) == 1]
    assert len(alone) == 6 and {graph.total_bytes_per_s for graph in alone} == {50e9}
    opposite = [graph for graph in graphs.values() if graph.name.startswith("device_to_device_bidirectional")]
    # The matrix of totals is read, once per pair and direction; the two matrices of single copies are redundant.
    assert len(opposite) == 6 and {graph.total_bytes_per_s for graph in opposite} == {97e9}
    both = graphs["host_to_device_bidirectional_memcpy_ce and back 2"]
    assert both.flows == (("H", "2"), ("2", "H")) and both.total_bytes_per_s == pytest.approx(72e9)
    every = graphs["host_to_all_bidirectional_memcpy_ce and back"]
    assert (
        len(every.flows) == 6 and every.total_bytes_per_s == pytest.approx(135e9) and every.statistic == "sum_of_copies"
    )
    into = graphs["all_to_one_write_ce 0"]
    assert into.flows == (("1", "0"), ("2", "0")) and (into.program, into.role) == ("unordered_writes", "")
    out = graphs["one_to_all_read_ce 1"]
    assert out.flows == (("1", "0"), ("1", "2")) and out.program == "unordered_reads"
    report = validate_machine(TREE, list(graphs.values()))
    assert report.calibration.two_way_bytes_per_s == 48.5e9
    assert limits(report)["host_both_ways"] == pytest.approx(70e9)
    assert report.calibration.values["memory_both_ways"] == pytest.approx(135e9)
    judged = report.rows[report.rows["judged"]]
    assert len(judged) == 6 and (judged["relative_error"].abs() < 0.01).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "SUM all_to_one_write_ce 150.00",
            "SUM all_to_one_write_ce 151.00",
            "the sum of 'all_to_one_write_ce' is 151, but its values add up to 150.00",
        ),
        ("SUM device_to_device_memcpy_write_ce 300.00\n", "", "truncated"),
        ("SUM device_to_device_latency_sm 4800.00\n", "Running x.\n", "the output ends in test 'x'"),
    ],
)
def test_truncated_or_inconsistent_nvbandwidth_output_is_rejected(tmp_path, old, new, message):
    path = tmp_path / "nv.txt"
    path.write_text(NVBANDWIDTH_08.replace(old, new))
    with pytest.raises(InputError, match=re.escape(message)):
        read_copies(path)


def test_json_sums_are_compared_with_values(tmp_path):
    path = tmp_path / "nv.json"
    case = '{"name": "all_to_host_memcpy_ce", "bandwidth_matrix": [["40.00", "41.00"]], "sum": %s}'
    path.write_text('{"nvbandwidth": {"testcases": [' + case % "81.0" + "]}}")
    assert read_copies(path)[0].total_bytes_per_s == 81e9
    path.write_text('{"nvbandwidth": {"testcases": [' + case % "90.0" + "]}}")
    with pytest.raises(InputError, match="is 90, but its values add up to 81.00"):
        read_copies(path)
