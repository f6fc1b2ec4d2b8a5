"""Output of bandwidth programs as people paste it: cut, decorated, several programs in one file."""

import json
import re

import pytest

from fabricast.core.errors import InputError
from fabricast.sources.reading import facts_of_text
from tests.machines import read_copies
from tests.unit.gpucentric.test_bandwidth_matrices import JSON, PEER, TEXT
from tests.unit.pcie.measurements.test_rocm_output import ALL_TO_ALL, P2PMARK, ROCM_BANDWIDTH_TEST

P2PMARK_WRITES = """Found 3 GPUs

=== Sequential P2P bandwidth (GB/s) ===
Each transfer: 64 MB, 50 iterations

Dst->  GPU0     GPU1     GPU2
GPU 0:     -      56.10     40.20
GPU 1:   56.12       -      40.21
GPU 2:   40.22    40.23       -

=== Topology probe: staggered writes by peer distance (GB/s) ===
3 concurrent transfers per round, each GPU writing to one unique peer.
Reveals PCIe switch topology: nearby peers are fast, cross-switch peers are slow.

+1  0->1 1->2 2->0   45.00 avg   135.00 total
+2  0->2 1->0 2->1   44.00 avg   132.00 total

=== Single GPU writes to all 2 peers concurrent (GB/s) ===

GPU 0 writes to all peers: 47.00 GB/s
GPU 1 writes to all peers: 48.00 GB/s
GPU 2 writes to all peers: 40.00 GB/s

=== Ring bandwidth: each GPU writes to next neighbor (GB/s) ===
3 concurrent transfers (one per GPU), matching allreduce ring pattern.

GPU 0 -> GPU 1: 46.00 GB/s
GPU 1 -> GPU 2: 45.00 GB/s
GPU 2 -> GPU 0: 44.00 GB/s

Total ring bandwidth: 135.00 GB/s  (45.00 GB/s avg per GPU)

=== All-to-all fabric stress test (GB/s) ===
Each GPU has 2 streams, 6 total concurrent transfers [N*(N-1) worst-case].

GPU 0: 40.00 GB/s
GPU 1: 41.00 GB/s
GPU 2: 39.00 GB/s

Total all-to-all bandwidth: 120.00 GB/s  (stress test, N*(N-1) flows)

===========================================================
  PCIe LINK SCORE:           0.71

=== LATENCY MODE (128-byte remote reads, 1000 iterations) ===
"""


def rates(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return {one.name: (one.flows, pytest.approx(one.total_bytes_per_s), one.role) for one in read_copies(path)}


def test_p2pmark_that_writes_is_read(tmp_path):
    (tmp_path / "p2pmark.txt").write_text(P2PMARK_WRITES)
    together = [one for one in read_copies(tmp_path / "p2pmark.txt") if one.role != "calibration"]
    printed = {one.name: (" ".join(map(">".join, one.flows)), one.total_bytes_per_s / 1e9) for one in together}
    assert printed == {
        "staggered writes, distance 1": ("0>1 1>2 2>0", 135.0),
        "staggered writes, distance 2": ("0>2 1>0 2>1", 132.0),
        "0 writes to all": ("0>1 0>2", 47.0),
        "1 writes to all": ("1>2 1>0", 48.0),
        "2 writes to all": ("2>0 2>1", 40.0),
        "ring": ("0>1 1>2 2>0", 135.0),
        "all write to all": ("0>1 0>2 1>2 1>0 2>0 2>1", 120.0),
    }
    assert {one.program for one in together} == {"unordered_writes"}
    statistics = {one.name: one.statistic for one in together}
    assert (statistics["all write to all"], statistics["0 writes to all"]) == ("sum_of_sources", "total")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("GPU 1 -> GPU 2: 45.00 GB/s\n", "", "the ring has 2 complete rows in order, expected 3"),
        (
            "GPU 2 -> GPU 0: 44.00",
            "GPU 2 -> GPU 0: 64.00",
            "the total of the ring is 135 GB/s, but the rates sum to 155",
        ),
        ("0->2 1->0", "0->2 1->2", "round +2 of the staggered writes does not name each of 3 GPUs"),
        (
            "Total all-to-all bandwidth: 120.00",
            "Total: 120",
            "writes by all GPUs have 3 complete rows, expected 3 and a total",
        ),
    ],
)
def test_damaged_writes_of_p2pmark_are_rejected(tmp_path, old, new, message):
    assert old in P2PMARK_WRITES
    with pytest.raises(InputError, match=re.escape(message)):
        rates(tmp_path / "p2pmark.txt", P2PMARK_WRITES.replace(old, new, 1))


def test_nvbandwidth_without_its_announcements_is_read(tmp_path):
    path = tmp_path / "nv.txt"
    expected = rates(path, TEXT)
    assert list(expected) == [
        "host_to_device_memcpy_ce 0 0",
        "host_to_device_memcpy_ce 0 1",
        "device_to_device_memcpy_read_ce 0 1",
        "device_to_device_memcpy_read_ce 1 0",
    ]
    cut = TEXT.replace("Running device_to_device_memcpy_read_ce.", "...")
    shortened = TEXT.replace("Running device_to_device_memcpy_read_ce.", "Running device_to_device_mem")
    warned = TEXT.replace("\n 1     22", "\nWARNING: clocks changed\n[W] slow link\n 1     22")
    verbose = TEXT.replace("\nSUM dev", "\nMIN device_to_device_memcpy_read_ce 20.00\nSUM dev")
    # Version 0.10 prints no empty line above the sum, and a coefficient below it.
    newest = re.sub(r"\n\n(SUM (\S+) .*\n)", r"\n\1COEFFICIENT_OF_VARIATION \2 0.01\n", TEXT)
    assert newest.count("COEFFICIENT") == 2
    for text in (cut, shortened, warned, verbose, newest):
        assert rates(path, text) == expected, text
    with pytest.raises(InputError, match="txt:5: .* a matrix has no test: 'Running' above and 'SUM' below are missing"):
        rates(path, re.sub("Running .*|SUM .*", "", TEXT) + "Running late.\nend\n")
    with pytest.raises(InputError, match="the matrix of 'device_to_device_memcpy_read_ce' has 1 rows, expected 2"):
        rates(path, warned.replace(" 1     22.00       N/A\n", ""))


@pytest.mark.parametrize("text", [TEXT, PEER, P2PMARK, P2PMARK_WRITES, ALL_TO_ALL, ROCM_BANDWIDTH_TEST])
def test_decoration_of_lines_changes_nothing(tmp_path, text):
    path = tmp_path / "out.txt"
    expected = rates(path, text)
    assert expected
    prefixed = "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines())
    timed = "".join(f"2026-01-02T03:04:05.678Z {line}\n" for line in text.splitlines())
    coloured = "".join(f"\x1b[1;32m{line}\x1b[0m\n" for line in text.splitlines())
    for other in (
        prefixed,
        timed,
        coloured,
        text.replace("\n", "\r\n"),
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
    ):
        assert rates(path, other) == expected, other
    assert rates(path, b"caf\xe9 log\n" + text.encode()) == expected


def test_json_between_other_lines_is_read(tmp_path):
    path = tmp_path / "nv.json"
    text = json.dumps(JSON, indent=2)
    expected = rates(path, text)
    assert rates(path, f"WARNING: driver {{old}}\n{text}\nslurmstepd: done\n") == expected
    broken = f"first line\n{text}\n".replace('"status":', '"status"')
    line = broken[: broken.index('"status"')].count("\n") + 1
    with pytest.raises(InputError, match=rf"nv.json:{line}: is not JSON: "):
        rates(path, broken)


def test_a_file_of_several_programs_has_the_copies_of_each(tmp_path):
    path = tmp_path / "all.log"
    parts = (TEXT, PEER, P2PMARK)
    expected = [one for text in parts for one in rates(path, text).values()]
    joined = "\n".join(f"=== benchmark {number} ===\n{text}" for number, text in enumerate(parts))
    programs = [block.program for block in facts_of_text(joined).blocks]
    assert programs == ["p2pmark", "nvbandwidth 0.8", "p2pBandwidthLatencyTest"]
    together = list(rates(path, joined).values())
    assert len(together) == len(expected)
    assert all(one in expected for one in together)


def test_unknown_output_is_compared_with_known_programs(tmp_path):
    with pytest.raises(InputError, match=r"no known program, .*; line 2 resembles nvbandwidth, which prints"):
        rates(tmp_path / "x.txt", "hello\nmemory copy CE GPU(row) -> GPU(column) bandwidth GB/s\n")


def test_output_that_ends_within_a_number_is_refused(tmp_path):
    cut = PEER[: PEER.rindex(".") + 1]
    assert cut[-2].isdigit()
    with pytest.raises(InputError, match=r"x.txt:\d+: ends within a number, expected the complete output"):
        rates(tmp_path / "x.txt", cut)
