"""The program whose output a text of unknown origin resembles most."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import islice

from fabricast.inputs.log_lines import clean_lines

__all__ = ["nearest_program"]

#: Programs that are read, with a line by which their output is recognised.
_LINES = {
    "nvidia-smi topo -m": "GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity",
    "rocm-smi --showtopo": "Link Type between two GPUs",
    "lspci -vv": "41:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)",
    "lspci -tv": "-[0000:40]-+-01.1-[41-43]----00.0-[42-43]--+-00.0",
    "p2pBandwidthLatencyTest": "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
    "nvbandwidth": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
    "rocm_bandwidth_test": "Unidirectional copy peak bandwidth GB/s",
    "TransferBench": "Aggregate bandwidth (GPU Timed): 2003.440 GB/s",
    "p2pmark": "=== Sequential P2P bandwidth (GB/s) ===",
    "nccl-tests": "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
    "NCCL_DEBUG=INFO": "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    "OSU benchmarks ('fabricast fit')": "# OSU MPI Latency Test v7.2",
    "ucx_perftest ('fabricast fit')": "| latency (usec) | bandwidth (MB/s) | message rate (msg/s) |",
    "perftest ('fabricast fit')": "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]",
    "topology.conf of Slurm ('fabricast map --hosts')": "SwitchName=s0 Nodes=node[00-15]",
}
#: Similarity below which a line is of another kind.
_LEAST = 0.55
_MOST_LINES = 300
_MOST_LETTERS = 160


def nearest_program(text: str) -> str:
    r"""Return which known program prints lines most like those of a text, for an error message.

    Parameters
    ----------
    text : str
        Text that no reader recognised.

    Returns
    -------
    str
        Line of the text, and the program whose line it resembles most; empty if no line is similar. A statement that
        the file is empty if it is.

    Examples
    --------
    >>> nearest_program("size count type redop root time algbw busbw wrong time algbw busbw\n8 2 float")[:47]
    "; line 1 resembles nccl-tests, which prints '# "
    >>> nearest_program("hello"), nearest_program(" ")
    ('', '; the file is empty')
    """
    if not text.strip():
        return "; the file is empty"
    best, found = _LEAST, ""
    lines = ((number, " ".join(line.split())[:_MOST_LETTERS]) for number, line in clean_lines(text) if line.strip())
    for number, line in islice(lines, _MOST_LINES):
        for program, expected in _LINES.items():
            matcher = SequenceMatcher(None, line, expected, autojunk=False)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
                best = matcher.ratio()
                found = f"; line {number} resembles {program}, which prints '{expected}' there"
    return found
