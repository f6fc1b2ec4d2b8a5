"""Output of known programs that states nothing of use is named, with the output that is of use."""

from __future__ import annotations

import pytest

from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text

_ROCM_SMI = """\
======================= ROCm System Management Interface =======================
================================= Concise Info =================================
GPU  Temp   AvgPwr  SCLK    MCLK     Fan     Perf  PwrCap  VRAM%  GPU%
0    42.0c  38.0W   800Mhz  1200Mhz  0%      auto  290.0W   98%   100%
"""
_LATENCIES = """\
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   1.60  49152.19
     1  49152.19   1.62
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Machine (1008GB total)\n  Package L#0\n    NUMANode L#0 (P#0 504GB)\n", "'lstopo --of xml machine.xml'"),
        (_ROCM_SMI, "'rocm-smi --showtopo'"),
        (
            "selecting device 0\nwriting test, size=131072 offset=0 num_iters=10000\nwrite BW: 12466MB/s\n",
            "nvbandwidth",
        ),
        ("8192000 bytes in 0.01 seconds = 7186.67 Mbit/sec\n1000 iters in 0.01 seconds\n", "ib_write_bw"),
        ("03:00.0 VGA compatible controller: NVIDIA Corporation GA102\n", "'sudo lspci -vv'"),
        (
            "# gpu         pid  type    sm   mem\n    0       1234     C     -     -\n",
            "nvidia-smi pmon, which is not used",
        ),
    ],
)
def test_the_output_that_is_of_use_is_named(text, words):
    (file,) = facts_of_text(text).files
    assert file.is_unused
    assert words in str(file.problem)


def test_matrices_of_latencies_are_read_without_bandwidths():
    latencies = list(facts_of_text(_LATENCIES).of(Quantity.LATENCY))
    assert {fact.subject: round(fact.value, 5) for fact in latencies} == {("0", "1"): 0.04915, ("1", "0"): 0.04915}
