"""The program whose output a text of unknown origin resembles most."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

from fabricast.inputs.log_lines import clean_lines

__all__ = ["Resemblance", "nearest_program", "resembled_program"]


@dataclass(frozen=True)
class Resemblance:
    """Known program whose output a text resembles.

    Parameters
    ----------
    line : int
        Most similar line of the text.
    program : str
        Program or file.
    command : str
        Command of fabricast that reads it, if few do; else empty.
    expected : str
        Line that the program prints.
    """

    line: int
    program: str
    command: str
    expected: str

    def __str__(self) -> str:
        command = f" ('{self.command}')" if self.command else ""
        return f"; line {self.line} resembles {self.program}{command}, which prints '{self.expected}' there"


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
    "OSU benchmarks": "# OSU MPI Latency Test v7.2",
    "ucx_perftest": "| latency (usec) | bandwidth (MB/s) | message rate (msg/s) |",
    "perftest": "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]",
    "perftest latency": "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec]",
    "topology.conf of Slurm": "SwitchName=s0 Nodes=node[00-15]",
}
#: Commands that read programs which no other command reads.
_COMMANDS = {
    "OSU benchmarks": "fabricast fit",
    "ucx_perftest": "fabricast fit",
    "perftest": "fabricast fit",
    "perftest latency": "fabricast breakdown compare",
    "topology.conf of Slurm": "fabricast map --hosts",
}
#: Similarity below which a line is of another kind.
_LEAST = 0.55
_MOST_LINES = 300
_MOST_LETTERS = 160


def nearest_program(text: str) -> str:
    r"""Return which known program prints lines most like those of a text, for an error message.

    >>> nearest_program("size count type redop root time algbw busbw wrong time algbw busbw\n8 2 float")[:47]
    "; line 1 resembles nccl-tests, which prints '# "
    >>> nearest_program("hello"), nearest_program(" ")
    ('', '; the file is empty')
    """
    if not text.strip():
        return "; the file is empty"
    return str(resembled_program(text) or "")


def resembled_program(text: str) -> Resemblance | None:
    r"""Return the known program that prints lines most like those of a text.

    >>> nearest = resembled_program("SwitchName=s1 Nodes=n[0-3]\n")
    >>> nearest.line, nearest.program, nearest.command
    (1, 'topology.conf of Slurm', 'fabricast map --hosts')
    """
    best, found = _LEAST, None
    lines = ((number, " ".join(line.split())[:_MOST_LETTERS]) for number, line in clean_lines(text) if line.strip())
    for number, line in islice(lines, _MOST_LINES):
        for program, expected in _LINES.items():
            matcher = SequenceMatcher(None, line, expected, autojunk=False)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
                best = matcher.ratio()
                found = Resemblance(number, program, _COMMANDS.get(program, ""), expected)
    return found
