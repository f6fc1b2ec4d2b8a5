"""Copies in the output of p2pmark, rocm_bandwidth_test and TransferBench."""

import re

import pytest

from fabricast.core.errors import InputError
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.topology.builtin import load_tree
from tests.machines import read_copies

ROCM_BANDWIDTH_TEST = """....
          RocmBandwidthTest Version: 2.6.0

          Device: 0,  AMD EPYC 9554 64-Core Processor
          Device: 1,  AMD Instinct MI210,  GPU-06c9d21390bc2e70,  05:0.0
          Device: 2,  AMD Instinct MI210,  GPU-8b193c69a6fe8e9b,  08:0.0

          Inter-Device Access

          D/D       0         1         2

          0         1         1         1

          Unidirectional copy peak bandwidth GB/s

          D/D       0           1           2

          0         N/A         25.0        26.0

          1         27.0        540.849     14.045

          2         28.0        14.046      540.064

          Bidirectional copy peak bandwidth GB/s

          D/D       0           1           2

          0         N/A         48.0        49.0

          1         48.0        N/A         27.5

          2         49.0        27.5        N/A
"""


TRANSFER_BENCH = """TransferBench v1.62.00
Test 1:
 Executor: GPU 00 |   36.885 GB/s |    0.028 ms |      1048576 bytes | 37.857  GB/s (sum)
     Transfer 00  |   37.857 GB/s |    0.028 ms |      1048576 bytes | G0 -> G000:004 -> G1
 Aggregate (CPU)  |   30.000 GB/s |    0.040 ms |      1048576 bytes | Overhead: 0.012 ms
Test 2:
 Executor: DMA 00 |   20.000 GB/s |   10.000 ms |    200000000 bytes | 20.000  GB/s (sum)
     Transfer 00  |   20.000 GB/s |   10.000 ms |    200000000 bytes | F0 -> D000.*:001 -> F2
     Transfer 01  |   25.000 GB/s |    8.000 ms |    200000000 bytes | C1 -> D001:001 -> G02
Test 3:
     Transfer 00  |   20.000 GB/s |   10.000 ms |    200000000 bytes | G0 -> G000:004 -> N0

Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
 SRC+EXE\\DST    CPU 00       GPU 00    GPU 01
  CPU 00  ->     42.75        41.97     42.33
  GPU 00  ->     55.23      1689.85     48.46
  GPU 01  ->     55.24        48.51       N/A
Bidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
     SRC\\DST    CPU 00       GPU 00    GPU 01
  CPU 00  ->       N/A        30.00     31.00
  CPU 00 <-        N/A        41.00     42.00
  CPU 00 <->       N/A        71.00     73.00

  GPU 00  ->     41.00          N/A     40.50
  GPU 00 <-      30.00          N/A     40.25
  GPU 00 <->     71.00          N/A     80.75

  GPU 01  ->     42.00        40.25       N/A
  GPU 01 min     41.00        39.25       N/A
  GPU 01 <-      31.00        40.50       N/A
  GPU 01 <->     73.00        80.75       N/A
                           CPU->CPU  CPU->GPU  GPU->CPU  GPU->GPU
Averages (During  BiDir):       N/A     35.50     41.50     40.38
"""
#: The preset p2p as versions before 1.14 printed it.
OLD_PEER_COPIES = """Performing copies in each direction of 268435456 bytes
Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
   SRC\\DST    CPU 00    GPU 00    GPU 01
    CPU 00     42.75     41.97     42.33
    GPU 00     55.23   1689.85     48.46
    GPU 01     55.24     48.51       N/A

Bidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
   SRC\\DST    CPU 00    GPU 00    GPU 01
    CPU 00       N/A     71.00     73.00
    GPU 00     71.00       N/A     80.75
    GPU 01     73.00     80.75       N/A
"""
OLD_PEER_LIST = """SRC,DST,Direction,ReadMode,GPU-Executor,BW(GB/s),Bytes
CPU 00,GPU 00,unidirectional,Local,GFX,41.97,268435456
CPU 00,GPU 01,unidirectional,Local,GFX,42.33,268435456
GPU 00,CPU 00,unidirectional,Local,GFX,55.23,268435456
GPU 00,GPU 00,unidirectional,Local,GFX,1689.85,268435456
GPU 00,GPU 01,unidirectional,Local,GFX,48.46,268435456
GPU 01,CPU 00,unidirectional,Local,GFX,55.24,268435456
GPU 01,GPU 00,unidirectional,Local,GFX,48.51,268435456
CPU 00,GPU 00,bidirectional,Local,GFX,71.00,268435456
GPU 00,GPU 01,bidirectional,Local,GFX,80.75,268435456
GPU 01,GPU 00,bidirectional,Local,GFX,80.75,268435456
GPU 01,GPU 01,bidirectional,Local,GFX,0.00,268435456
"""
ALL_TO_ALL = """GPU-GFX All-To-All benchmark:
==========================
- Copying 67108864 bytes between all pairs of GPUs using 8 CUs (6 Transfers)

Summary: [67108864 bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)]
===========================================================================
SRC\\DST  GPU 00     GPU 01     GPU 02        STotal      Actual
GPU 00      N/A     20.000     21.000        41.000     40.000
GPU 01   22.000        N/A     23.000        45.000     44.000
GPU 02   24.000     25.000        N/A        49.000     48.000

RTotal   46.000     45.000     44.000       135.000     40.000     48.000

Average   bandwidth (GPU Timed):   22.500 GB/s
Aggregate bandwidth (GPU Timed):  135.000 GB/s
Aggregate bandwidth (CPU Timed):  120.000 GB/s
"""


def test_rocm_output_is_read(tmp_path):
    (tmp_path / "rocm.txt").write_text(ROCM_BANDWIDTH_TEST)
    rates = {one.flows: (one.total_bytes_per_s, one.role) for one in read_copies(tmp_path / "rocm.txt")}
    # Device numbers include processors, GPU numbers do not. Mirrored bidirectional cells are the same copy.
    one_way = {("H", "0"): 25, ("H", "1"): 26, ("0", "H"): 27, ("1", "H"): 28, ("0", "1"): 14.045, ("1", "0"): 14.046}
    two_ways = {(("H", "0"), ("0", "H")): 48, (("H", "1"), ("1", "H")): 49, (("0", "1"), ("1", "0")): 27.5}
    assert rates == {(pair,): (pytest.approx(rate * 1e9), "calibration") for pair, rate in one_way.items()} | {
        pairs: (pytest.approx(rate * 1e9), "calibration") for pairs, rate in two_ways.items()
    }
    for text in (TRANSFER_BENCH, TRANSFER_BENCH.replace("|", "│")):
        (tmp_path / "transfers.log").write_text(text)
        first, second, *matrix = read_copies(tmp_path / "transfers.log")
        # The printed time has three decimals, too few for this transfer, so the printed rate is used.
        assert (first.flows, first.total_bytes_per_s, first.role) == ((("0", "1"),), 37.857e9, "calibration")
        # All bytes divided by the last completion time, not the sum of rates.
        assert (second.flows, second.role) == ((("0", "2"), ("NUMA1", "2")), "")
        assert second.total_bytes_per_s == pytest.approx(40e9)
        assert {one.flows: one.total_bytes_per_s / 1e9 for one in matrix if len(one.flows) == 2} == {
            (("0", "1"), ("1", "0")): pytest.approx(80.75),
            (("1", "0"), ("0", "1")): pytest.approx(80.75),
        }
        assert {one.flows[0]: one.total_bytes_per_s / 1e9 for one in matrix if len(one.flows) == 1} == pytest.approx(
            {
                ("NUMA0", "0"): 41.97,
                ("NUMA0", "1"): 42.33,
                ("0", "NUMA0"): 55.23,
                ("0", "1"): 48.46,
                ("1", "NUMA0"): 55.24,
                ("1", "0"): 48.51,
            }
        )


def peer_rates(path, text):
    path.write_text(text)
    graphs = read_copies(path)
    assert {one.role for one in graphs} == {"calibration"}
    return {one.flows[0] if len(one.flows) == 1 else one.flows: one.total_bytes_per_s / 1e9 for one in graphs}


def test_each_form_of_peer_copies_has_the_same_rates(tmp_path):
    now = TRANSFER_BENCH[TRANSFER_BENCH.index("Unidirectional") :]
    expected = peer_rates(tmp_path / "now.txt", now)
    assert len(expected) == 8
    commas = re.sub(r"(?<=\S)(?= {3,}\S)", ",", now)
    reads = now.replace("SRC+EXE\\DST", "SRC\\EXE+DST")
    borders = OLD_PEER_COPIES.replace("SRC\\DST    ", "SRC\\DST │  ")
    first = OLD_PEER_COPIES.replace("SRC\\DST", "    D/D")
    for form in (
        reads,
        commas,
        OLD_PEER_COPIES,
        borders,
        first,
        OLD_PEER_LIST,
        OLD_PEER_LIST.replace("GPU-Executor,", "").replace("GFX,", ""),
    ):
        assert peer_rates(tmp_path / "form.txt", form) == expected, form


def test_summary_of_concurrent_copies_is_one_graph(tmp_path):
    path = tmp_path / "a2a.txt"
    path.write_text(ALL_TO_ALL)
    (graph,) = read_copies(path)
    assert (graph.name, graph.statistic, graph.role) == ("all to all", "sum_of_copies", "")
    assert graph.total_bytes_per_s == pytest.approx(135e9)
    assert graph.flows == (("0", "1"), ("0", "2"), ("1", "0"), ("1", "2"), ("2", "0"), ("2", "1"))
    # With OUTPUT_TO_CSV=1, and without the lines of a link that is not direct.
    path.write_text(re.sub(r" {2,}", ",", ALL_TO_ALL))
    assert read_copies(path)[0].total_bytes_per_s == pytest.approx(135e9)
    path.write_text(ALL_TO_ALL.replace(" 21.000        41.000", "    N/A        20.000"))
    assert read_copies(path)[0].total_bytes_per_s == pytest.approx(114e9)
    # Local copies use no link.
    path.write_text(
        ALL_TO_ALL.replace("N/A     20.000     21.000        41.000", "500.000 20.000     21.000       541.000")
    )
    assert read_copies(path)[0].total_bytes_per_s == pytest.approx(135e9)
    # The test above the summary has bytes and times of the same copies.
    rows = [
        f"     Transfer {number:02}  |   20.000 GB/s |   10.000 ms |    200000000 bytes | G{one} -> G00{one}:008 -> G{other}"
        for number, (one, other) in enumerate(graph.flows)
    ]
    path.write_text("Test 1:\n" + "\n".join(rows) + "\n" + ALL_TO_ALL)
    (test,) = read_copies(path)
    assert (test.name, test.total_bytes_per_s) == ("Test 1", pytest.approx(120e9))


def test_memory_of_several_processors_keeps_node_number(tmp_path):
    text = """TransferBench v1.62.00
 SRC+EXE\\DST    CPU 00    CPU 01    GPU 00
  CPU 00  ->     24.37     20.11     41.97
  CPU 01  ->     20.12     24.38     21.97
  GPU 00  ->     55.23     28.11       N/A
"""
    (tmp_path / "transfers.log").write_text(text)
    graphs = read_copies(tmp_path / "transfers.log")
    assert {one.flows[0]: round(one.total_bytes_per_s / 1e9, 2) for one in graphs} == {
        ("NUMA0", "0"): 41.97,
        ("NUMA1", "0"): 21.97,
        ("0", "NUMA0"): 55.23,
        ("0", "NUMA1"): 28.11,
    }
    with pytest.raises(InputError, match="no endpoint 'NUMA1'; memory_nodes of the topology does not list it"):
        validate_machine(load_tree("flat4x2"), graphs)
    # NUMA0 is the host memory of a machine with one node.
    first = [graph for graph in graphs if "NUMA0" in graph.flows[0]]
    assert validate_machine(load_tree("flat4x2"), first).calibration.one_way_bytes_per_s > 40e9
    with pytest.raises(InputError, match="no endpoint 'NUMA0'; memory_nodes of the topology does not list it"):
        validate_machine(load_tree("two_sockets_host"), first)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (
            TRANSFER_BENCH,
            "25.000 GB/s",
            "90.000 GB/s",
            "rate of a transfer is 90 GB/s, expected 25 GB/s from its bytes and time",
        ),
        (TRANSFER_BENCH, "25.000 GB/s", "0 GB/s", "has a rate of 0 GB/s, expected a positive rate"),
        (ROCM_BANDWIDTH_TEST, "26.0\n", "\n", "row 0 has 2 values, expected 3"),
        (ROCM_BANDWIDTH_TEST, "14.045", "14.0x5", "could not convert string to float: '14.0x5'"),
        (ROCM_BANDWIDTH_TEST, "14.045", "-14", "-14 GB/s, expected a rate above 0"),
        (TRANSFER_BENCH, "bytes | G0", "byt", "is not a complete row of a transfer"),
        (TRANSFER_BENCH, " -> G1", "", "is not a complete row of a transfer"),
        (TRANSFER_BENCH, "42.33", "", "row CPU 00 has 2 values, expected 3"),
        # Truncated between complete rows.
        (
            TRANSFER_BENCH,
            "  GPU 01  ->     55.24        48.51       N/A\n",
            "",
            "the unidirectional matrix has 2 of 3 rows: the output is cut short",
        ),
        (
            TRANSFER_BENCH,
            "     Transfer 00  |   37.857 GB/s |    0.028 ms |      1048576 bytes | G0 -> G000:004 -> G1\n",
            "",
            "'Test 1' lacks transfers of its executors: the output is cut short",
        ),
        (
            ROCM_BANDWIDTH_TEST,
            "          2         28.0        14.046      540.064\n",
            "",
            "the matrix of unidirectional copies has no row 2: the output is cut short",
        ),
        (
            ROCM_BANDWIDTH_TEST,
            "          2         49.0        27.5        N/A\n",
            "",
            "the matrix of bidirectional copies has no row 2: the output is cut short",
        ),
        ("TransferBench v1.62.00\n", "", "", "contains no copies of"),
        (
            TRANSFER_BENCH,
            "  GPU 01 <->     73.00        80.75       N/A\n",
            "",
            "the bidirectional matrix has 2 of 3 rows: the output is cut short",
        ),
        (OLD_PEER_COPIES, "80.75", "80.7x", "could not convert string to float: '80.7x'"),
        (OLD_PEER_LIST, "80.75", "-80.75", "-80.75 GB/s, expected a rate above 0"),
        (ALL_TO_ALL, "23.000", "32.000", "the total of row GPU 01 is 45, but its values differ"),
        (
            ALL_TO_ALL,
            "GPU 02   24.000     25.000        N/A        49.000     48.000\n",
            "",
            "the summary has 2 of 3 rows: the output is cut short",
        ),
        (ALL_TO_ALL, "GPU 02        STotal", "GPU 02  NIC(01 QP)   STotal", "line 7 has copies by network cards"),
        (ALL_TO_ALL, "STotal", "(Rnk) STotal", "line 7 is of several ranks, expected the GPUs of one host"),
        (
            ROCM_BANDWIDTH_TEST.replace("05:0.0", "").replace("08:0.0", "").replace("Instinct", "Card"),
            "",
            "",
            "cannot be distinguished",
        ),
    ],
)
def test_damaged_rocm_output_is_rejected(tmp_path, text, old, new, message):
    path = tmp_path / "rocm.txt"
    path.write_text(text.replace(old, new, 1) if old else text)
    with pytest.raises(InputError, match=re.escape(message)):
        read_copies(path)


P2PMARK = """Found 3 GPUs

=== Sequential P2P bandwidth (GB/s) ===
Each transfer: 64 MB, 20 iterations

Dst->  GPU0     GPU1     GPU2
GPU 0:     -      56.10     40.20
GPU 1:   56.12       -      40.21
GPU 2:   40.22    40.23       -

=== Topology probe: staggered reads by peer distance (GB/s) ===
3 concurrent transfers per round, each GPU reading from one unique peer.
Reveals PCIe switch topology: nearby peers are fast, cross-switch peers are slow.

+1  0<-1 1<-2 2<-0   45.00 avg   135.00 total
+2  0<-2 1<-0 2<-1   44.00 avg   132.00 total

=== Single reader, all 2 peers concurrent (GB/s) ===

GPU 0 reads from all peers: 47.00 GB/s
GPU 1 reads from all peers: 48.00 GB/s
GPU 2 reads from all peers: 40.00 GB/s

Effective system bandwidth (sequential): 44.90 GB/s

=== All GPUs read all peers simultaneously (GB/s) ===
Each GPU has 2 streams, 6 total concurrent transfers.

GPU 0: 40.00 GB/s
GPU 1: 41.00 GB/s
GPU 2: 39.00 GB/s

Total system bandwidth: 120.00 GB/s

===========================================================
  PCIe LINK SCORE:           0.71
"""


def test_p2pmark_output_is_read(tmp_path):
    (tmp_path / "p2pmark.txt").write_text(P2PMARK)
    alone, together = [], []
    for one in read_copies(tmp_path / "p2pmark.txt"):
        (alone if one.role == "calibration" else together).append(one)
    expected = {
        ("0", "1"): 56.1,
        ("0", "2"): 40.2,
        ("1", "0"): 56.12,
        ("1", "2"): 40.21,
        ("2", "0"): 40.22,
        ("2", "1"): 40.23,
    }
    assert {one.flows[0]: one.total_bytes_per_s / 1e9 for one in alone} == pytest.approx(expected)
    # The output names the reader first, and a flow starts at the GPU that holds the bytes.
    reads = {
        "staggered reads, distance 1": ("1>0 2>1 0>2", 135.0),
        "staggered reads, distance 2": ("2>0 0>1 1>2", 132.0),
        "0 reads from all": ("1>0 2>0", 47.0),
        "1 reads from all": ("2>1 0>1", 48.0),
        "2 reads from all": ("0>2 1>2", 40.0),
        "all read from all": ("1>0 2>0 2>1 0>1 0>2 1>2", 120.0),
    }
    printed_reads = {one.name: (" ".join(map(">".join, one.flows)), one.total_bytes_per_s / 1e9) for one in together}
    assert printed_reads == reads
    assert {one.program for one in together} == {"unordered_reads"}


def test_p2pmark_output_without_its_first_line_is_read(tmp_path):
    path = tmp_path / "p2pmark.txt"
    path.write_text(P2PMARK)
    complete = read_copies(path)
    path.write_text(P2PMARK.replace("Found 3 GPUs\n", "", 1))
    assert read_copies(path) == complete
    path.write_text(P2PMARK + P2PMARK)
    with pytest.raises(InputError, match="has several matrices of sequential copies, expected the output of one run"):
        read_copies(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("GPU 1:   56.12       -      40.21\n", "", "row 'GPU 1:' of the sequential copies has 0 values, expected 3"),
        ("56.12       -  ", "-  56.12", "row 'GPU 1:' of the sequential copies has 3 values"),
        (
            "+2  0<-2 1<-0 2<-1   44.00 avg   132.00 total\n",
            "",
            "staggered reads have 1 complete rounds, expected +1 to +2",
        ),
        ("2<-0   45.00", "2<-2   45.00", "round +1 of the staggered reads does not name each of 3 GPUs"),
        (
            "GPU 2 reads from all peers: 40.00 GB/s",
            "GPU 2 reads",
            "reads by a single GPU have 2 complete rows, expected 3",
        ),
        ("Total system bandwidth: 120.00 GB/s", "", "reads by all GPUs have 3 complete rows, expected 3 and a total"),
        ("GPU 2: 39.00", "GPU 2: 93.00", "the total of reads by all GPUs is 120 GB/s, but the rates sum to 174"),
        (
            "=== Sequential P2P bandwidth",
            "=== Sequential",
            "no known program, expected output of rocm_bandwidth_test, rvs, TransferBench",
        ),
        ("56.10 ", "0.00  ", "0 GB/s, expected a rate above 0"),
    ],
)
def test_damaged_p2pmark_output_is_rejected(tmp_path, old, new, message):
    path = tmp_path / "p2pmark.txt"
    assert old in P2PMARK
    path.write_text(P2PMARK.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(message)):
        read_copies(path)
    path.write_text(P2PMARK[: P2PMARK.index("40.21")])
    with pytest.raises(InputError, match="is not valid output of p2pmark: row 'GPU 1:'"):
        read_copies(path)


def test_duplicate_or_inconsistent_rocm_output_is_rejected(tmp_path):
    path = tmp_path / "rocm.txt"
    unidirectional, both = ROCM_BANDWIDTH_TEST.split("          Bidirectional copy")
    row = next(line for line in unidirectional.splitlines() if line.split()[:2] == ["1", "27.0"])
    path.write_text(ROCM_BANDWIDTH_TEST.replace(row, f"{row}\n\n{row}"))
    with pytest.raises(InputError, match="row 1 is a duplicate"):
        read_copies(path)
    cell = next(line for line in both.splitlines() if line.split()[:1] == ["2"])
    path.write_text(
        unidirectional + "          Bidirectional copy" + both.replace(cell, cell.replace(cell.split()[2], "1.5", 1))
    )
    with pytest.raises(InputError, match="bidirectional copies of .* expected one rate"):
        read_copies(path)
    transfer = next(line for line in TRANSFER_BENCH.splitlines() if re.match(r"\s*Transfer 00", line.replace("│", " ")))
    path.write_text(TRANSFER_BENCH.replace(transfer, f"{transfer}\n{transfer}", 1))
    with pytest.raises(InputError, match="transfer 00 of 'Test .*' is a duplicate"):
        read_copies(path)
