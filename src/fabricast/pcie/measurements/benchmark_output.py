"""Output of bandwidth programs: recognition, and the copies that it contains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fabricast.core.errors import InputError
from fabricast.inputs.bandwidth_matrices import is_bandwidth_matrix, parse_bandwidths
from fabricast.inputs.files import read_text
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.measurements.nvbandwidth import copies_in_matrices
from fabricast.pcie.measurements.p2pmark import is_p2pmark_output, read_p2pmark_output
from fabricast.pcie.measurements.rocm import is_rocm_output, read_rocm_output

__all__ = ["FASTEST_BYTES_PER_S", "BenchmarkOutput", "copies_in", "read_benchmark_output"]

#: Faster rates are typing errors.
FASTEST_BYTES_PER_S = 1e13


class _Program(NamedTuple):
    """A program, or programs with a common format, whose output is read."""

    name: str
    recognises: Callable[[str], bool]
    read: Callable[[str], list[MeasuredGraph]]


_PROGRAMS = (
    _Program("rocm_bandwidth_test or TransferBench", is_rocm_output, read_rocm_output),
    _Program("p2pmark", is_p2pmark_output, read_p2pmark_output),
)
_MATRICES = "nvbandwidth or p2pBandwidthLatencyTest"


@dataclass(frozen=True)
class BenchmarkOutput:
    """Text that a bandwidth program printed.

    Parameters
    ----------
    path : Path
        File.
    text : str
        Content of the file.
    program : str
        Program, or programs with a common format, that printed it.
    """

    path: Path
    text: str
    program: str


def read_benchmark_output(path: Path | str) -> BenchmarkOutput:
    """Read the output of a bandwidth program and recognise the program.

    Parameters
    ----------
    path : Path or str
        Output of nvbandwidth (text or JSON), p2pBandwidthLatencyTest, p2pmark, rocm_bandwidth_test or TransferBench.

    Raises
    ------
    InputError
        If the file cannot be read or no program is recognised.
    """
    path = Path(path)
    text = read_text(path)
    for program in _PROGRAMS:
        if program.recognises(text):
            return BenchmarkOutput(path, text, program.name)
    if not is_bandwidth_matrix(text):
        names = ", ".join(program.name.replace(" or ", ", ") for program in _PROGRAMS)
        raise InputError(f"is not output of {names}, {_MATRICES}", path=path)
    return BenchmarkOutput(path, text, _MATRICES)


def copies_in(output: BenchmarkOutput) -> list[MeasuredGraph]:
    """Return the copies in the output of a bandwidth program.

    Single copies and bidirectional pairs have the role ``calibration``.

    Raises
    ------
    InputError
        If the output is damaged or has no copies between GPUs or of pinned host memory.
    """
    path = output.path
    program = next((program for program in _PROGRAMS if program.name == output.program), None)
    if program is None:
        graphs = copies_in_matrices(parse_bandwidths(output.text, path))
        if not graphs:
            no_peer_access = "CANNOT Access Peer" in output.text
            reason = "; no GPU of it has peer access to another (CANNOT Access Peer)" if no_peer_access else ""
            raise InputError(f"contains no copies by copy engines between GPUs or of host memory{reason}", path=path)
        return graphs
    try:
        graphs = program.read(output.text)
    except ValueError as error:
        raise InputError(f"is not valid output of {program.name}: {error}", path=path) from error
    for graph in graphs:
        if not 0 < graph.total_bytes_per_s <= FASTEST_BYTES_PER_S:
            rate = graph.total_bytes_per_s / 1e9
            raise InputError(f"{graph.name}: {rate:.4g} GB/s, expected a rate above 0 and below 10 TB/s", path=path)
    if not graphs:
        raise InputError(f"contains no copies of {program.name} between GPUs or of pinned host memory", path=path)
    return [replace(graph, role=CALIBRATION if _is_calibration(graph.flows) else "") for graph in graphs]


def _is_calibration(flows: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the copies are a single copy or a bidirectional pair."""
    return len(flows) == 1 or (len(flows) == 2 and flows[0] == flows[1][::-1])
