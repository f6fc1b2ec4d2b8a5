"""The format that a text of unknown origin resembles most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

from fabricast.sources.text import Format, Text

#: Messages of shells and launchers about a program that is not there; the second begins the line of some programs.
_NOT_FOUND = re.compile(
    r"^(?:(?:(?:\S{0,80}sh|srun|line \d{1,6}|\d{1,6}): ){1,3}|.{0,80}[$#] )?"
    r"([\w./+-]{1,80}): (?:command not found|not found$|No such file or directory$)"
    r"|(?:failed to run command|execv(?:p|pe)?\(\):?) ['\u2018`\"]?([\w./+-]{1,80})"
)
#: Reason why output is of no use here, with what is of use.
_NOT_USED = "is not used"
#: First words of programs whose output states nothing that is used, and the reason.
_UNUSED = {
    "lscpu": (re.compile(r"^Architecture:\s+\S+$"), _NOT_USED),
    "numactl -H": (re.compile(r"^available: \d{1,4} nodes? \("), _NOT_USED),
    "nvidia-smi pmon": (re.compile(r"^# gpu\s+pid\s+type"), _NOT_USED),
    "lsmod": (re.compile(r"^Module\s+Size\s+Used by"), _NOT_USED),
    "/proc/meminfo": (re.compile(r"^MemTotal:\s+\d+ kB"), _NOT_USED),
    "lspci": (
        re.compile(r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z][\w /]{3,60}(?: \[\w{4}\])?: "),
        "states no links: add 'sudo lspci -vv'",
    ),
    "lstopo": (
        re.compile(r"^\s{0,8}Machine (?:L#0 )?\((?:P#\d{1,4} )?(?:total )?\d{1,9}[KMGT]i?B"),
        "is read as XML only: 'lstopo --of xml machine.xml'",
    ),
    "rocm-smi": (
        re.compile(r"^(?:GPU|Device)\s.{0,60}?Temp.{1,90}\bPerf\s+PwrCap\b.{0,60}GPU%"),
        "states no links: add 'rocm-smi --showtopo' and 'sudo dmesg'",
    ),
    "rocm-smi --showtopo": (
        re.compile(r"^=+ (?:Weight|Hops) between two GPUs =+$"),
        "lacks the table of link types: pass the whole output of 'rocm-smi --showtopo'",
    ),
    "sockperf": (
        re.compile(r"^sockperf: (?:\[Total Run\]|Summary: Latency|====> avg-lat)"),
        "has latencies over TCP or UDP, which no forecast or reference here covers",
    ),
    "fio": (
        re.compile(r"^(?:fio-\d\.\d|\S{1,40}: \(g=\d{1,4}\): rw=)"),
        "measures storage: none of its rates is compared",
    ),
    "gdscheck": (
        re.compile(r"^\s{0,8}GDS release version: \d"),
        "states no fault: files on what it lists as Unsupported pass through host memory (compat mode)",
    ),
    "gdrcopy_copybw": (
        re.compile(r"^(?:writing|reading) test, size=\d{1,12} "),
        "is of loads and stores by a processor, whose reads are slow by design: nvbandwidth measures copies",
    ),
    "ibv_rc_pingpong": (
        re.compile(r"^\d{1,12} bytes in [\d.]{1,12} seconds = [\d.]{1,12} Mbit/sec"),
        "shows that the hosts connect; its rate is of one message at a time: ib_write_bw measures the bandwidth",
    ),
    "npu-smi": (re.compile(r"^\|\s?npu-smi [\d.]"), "is of NPUs, whose messages of HCCL are read"),
}
#: Similarity below which a line is of another kind.
_LEAST = 0.55
_MOST_LINES = 300
_MOST_LETTERS = 160


@dataclass(frozen=True)
class Resemblance:
    """Known format that a text resembles."""

    line: int  # Most similar line of the text
    program: str  # Program or file
    reader: str  # Command of fabricast that reads it, if few do; else empty
    expected: str  # Line that the program prints

    def __str__(self) -> str:
        command = f" ('{self.reader}')" if self.reader else ""
        return f"; line {self.line} resembles {self.program}{command}, which prints '{self.expected}' there"


def unused_output(text: Text) -> tuple[int, str, bool] | None:
    """Return line and reason of a text without output of a program, or of one that is not used; true for the latter."""
    for number, line in islice(text.lines(), _MOST_LINES):
        if (match := _NOT_FOUND.search(line)) is not None:
            return number, f"has no output of {match[1] or match[2]}, which was not found", False
        unused = next((f"{name}, which {why}" for name, (start, why) in _UNUSED.items() if start.match(line)), "")
        if unused:
            return number, f"is output of {unused}", True
    return None


#: What a text is about, by its words, and the output that shows a cause.
_TOPICS = (
    (
        re.compile(r"\bNCCL\b|\bRCCL\b|torch\.distributed|all_?reduce", re.IGNORECASE),
        "NCCL_DEBUG=INFO up to the error or hang",
    ),
    (
        re.compile(r"\bMPI\b|mpirun|\bUCX\b|libfabric|\bOFI\b|\bPMIx?\b"),
        "the first error of all processes, 'ucx_info -d'",
    ),
    (re.compile(r"InfiniBand|\bRoCE\b|\bRDMA\b|mlx[45]", re.IGNORECASE), "'ibstat', 'ibv_devinfo -v' and 'sudo dmesg'"),
    (
        re.compile(r"PCIe|\bXid\b|fallen off|IOMMU|\beGPU\b|nvidia|amdgpu|\bGPUs?\b", re.IGNORECASE),
        "'sudo dmesg', 'sudo lspci -vv' and 'nvidia-smi -q'",
    ),
)


def next_step(raw: str) -> str:
    """Return which output would show a cause, by what a text is about; empty if no word of it is known.

    >>> next_step("my GPU is slow")
    "; add 'sudo dmesg', 'sudo lspci -vv' and 'nvidia-smi -q'"
    """
    found = next((output for pattern, output in _TOPICS if pattern.search(raw) is not None), "")
    return f"; add {found}" if found else ""


def resembled_format(text: Text, formats: Sequence[Format]) -> Resemblance | None:
    """Return the format whose typical line is most like a line of a text; None if none is alike."""
    best, found = _LEAST, None
    lines = ((number, " ".join(line.split())[:_MOST_LETTERS]) for number, line in text.lines() if line.strip())
    for number, line in islice(lines, _MOST_LINES):
        for one in formats:
            matcher = SequenceMatcher(None, line, one.sample, autojunk=False)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
                best = matcher.ratio()
                found = Resemblance(number, one.program, one.reader, one.sample)
    return found
