"""Output of bandwidth programs: recognition, and the copies that it contains."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.bandwidth_matrices import (
    BANDWIDTH_COLUMNS,
    is_bandwidth_matrix,
    matrix_programs,
    parse_bandwidths,
)
from fabricast.inputs.files import read_text
from fabricast.inputs.log_lines import clean_text
from fabricast.inputs.nearest_program import nearest_program
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.pcie.measurements.nvbandwidth import copies_in_matrices
from fabricast.pcie.measurements.p2pmark import is_p2pmark_output, read_p2pmark_output
from fabricast.pcie.measurements.rocm import is_rocm_output, read_rocm_output
from fabricast.pcie.measurements.transfer_bench import is_transfer_bench_output, read_transfer_bench_output
from fabricast.pcie.topology.memory import HOST

__all__ = [
    "FASTEST_BYTES_PER_S",
    "BenchmarkOutput",
    "bandwidth_table",
    "concurrent_copies",
    "copies_in",
    "isolated_copies",
    "programs_in",
    "read_benchmark_output",
]

#: Faster rates are typing errors.
FASTEST_BYTES_PER_S = 1e13
#: Test of copies that a program measured one at a time.
_ISOLATED = "isolated copies"


class _Program(NamedTuple):
    """A program, or programs with a common format, whose output is read."""

    name: str
    recognises: Callable[[str], bool]
    read: Callable[[str], list[MeasuredGraph]]


def _read_matrices(text: str) -> list[MeasuredGraph]:
    """Read the matrices of nvbandwidth and p2pBandwidthLatencyTest."""
    graphs = copies_in_matrices(parse_bandwidths(text))
    if not graphs:
        no_peer_access = "CANNOT Access Peer" in text
        reason = "; no GPU of it has peer access to another (CANNOT Access Peer)" if no_peer_access else ""
        raise InputError(f"contains no copies by copy engines between GPUs or of host memory{reason}")
    return graphs


_PROGRAMS = (
    _Program("rocm_bandwidth_test", is_rocm_output, read_rocm_output),
    _Program("TransferBench", is_transfer_bench_output, read_transfer_bench_output),
    _Program("p2pmark", is_p2pmark_output, read_p2pmark_output),
    _Program("nvbandwidth or p2pBandwidthLatencyTest", is_bandwidth_matrix, _read_matrices),
)


#: Versions in the output; p2pBandwidthLatencyTest and p2pmark print none.
_VERSIONS = {
    "nvbandwidth": re.compile(r"(?:nvbandwidth Version:|\"git_version\" ?:) ?\"?v?([\d.]{1,20})"),
    "rocm_bandwidth_test": re.compile(r"RocmBandwidthTest Version: ?([\d.]{1,20})"),
    "TransferBench": re.compile(r"TransferBench v([\d.]{1,20})"),
}


@dataclass(frozen=True)
class BenchmarkOutput:
    """Text that one or several bandwidth programs printed.

    Parameters
    ----------
    path : Path
        File.
    text : str
        Content of the file, without the decoration of its lines.
    programs : tuple of str
        Programs that printed it.
    """

    path: Path
    text: str
    programs: tuple[str, ...]


def programs_in(text: str) -> tuple[str, ...]:
    """Return the bandwidth programs whose output a text contains, with the versions that they print.

    >>> programs_in("RocmBandwidthTest Version: 2.6.0")
    ('rocm_bandwidth_test 2.6.0',)
    """
    found: list[str] = []
    for program in _PROGRAMS:
        if program.recognises(text):
            found += matrix_programs(text) if program.read is _read_matrices else (program.name,)
    return tuple(" ".join([name, *_VERSIONS[name].findall(text)[:1]]) if name in _VERSIONS else name for name in found)


def read_benchmark_output(path: Path | str) -> BenchmarkOutput:
    """Read the output of bandwidth programs and recognise the programs."""
    path = Path(path)
    text = clean_text(read_text(path))
    if re.search(r"\d\.\s*\Z", text):
        line = text.rstrip().count("\n") + 1
        raise InputError("ends within a number, expected the complete output", path=path, line=line)
    programs = programs_in(text)
    if not programs:
        *names, last = (name for program in _PROGRAMS for name in program.name.split(" or "))
        raise InputError(f"is not output of {', '.join(names)} or {last}{nearest_program(text)}", path=path)
    return BenchmarkOutput(path, text, programs)


def copies_in(output: BenchmarkOutput) -> list[MeasuredGraph]:
    """Return the copies in the output of bandwidth programs.

    Single copies and bidirectional pairs have the role ``calibration``.
    """
    graphs: list[MeasuredGraph] = []
    for program in _PROGRAMS:
        if program.recognises(output.text):
            graphs += _copies_of(program, output)
    return [replace(graph, role=CALIBRATION) if _is_calibration(graph.flows) else graph for graph in graphs]


def concurrent_copies(output: BenchmarkOutput) -> list[MeasuredGraph]:
    """Return the concurrent copies of programs without matrices, in the order of the text."""
    programs = [one for one in _PROGRAMS if one.read is not _read_matrices and one.recognises(output.text)]
    return [graph for one in programs for graph in _copies_of(one, output) if len(graph.flows) > 1]


def bandwidth_table(output: BenchmarkOutput) -> pd.DataFrame:
    """Return the printed rates and latencies of isolated copies."""
    tables = []
    for program in _PROGRAMS:
        if not program.recognises(output.text):
            continue
        if program.read is _read_matrices:
            tables.append(parse_bandwidths(output.text, output.path))
            continue
        cells = [
            (program.name, _ISOLATED, *graph.flows[0], graph.total_bytes_per_s, "bytes/s", graph.line)
            for graph in _copies_of(program, output)
            if len(graph.flows) == 1
        ]
        tables.append(pd.DataFrame(cells, columns=BANDWIDTH_COLUMNS))
    return pd.concat(tables, ignore_index=True)


def isolated_copies(table: pd.DataFrame) -> list[tuple[str, str, float]]:
    """Return source, target and rate in bytes/s of the isolated copies by copy engines between GPUs."""
    others = table[table["test"] == _ISOLATED]
    copies = [
        *((*graph.flows[0], graph.total_bytes_per_s) for graph in copies_in_matrices(table) if len(graph.flows) == 1),
        *zip(others["row"], others["column"], others["value"], strict=True),
    ]
    return [(source, target, rate) for source, target, rate in copies if HOST not in (source, target)]


def _copies_of(program: _Program, output: BenchmarkOutput) -> list[MeasuredGraph]:
    try:
        graphs = program.read(output.text)
    except InputError as error:
        raise InputError(error.reason, path=output.path, line=error.line) from error
    except ValueError as error:
        raise InputError(f"is not valid output of {program.name}: {error}", path=output.path) from error
    for graph in graphs:
        if not 0 < graph.total_bytes_per_s <= FASTEST_BYTES_PER_S:
            rate = graph.total_bytes_per_s / 1e9
            raise InputError(
                f"{graph.name}: {rate:.4g} GB/s, expected a rate above 0 and below 10 TB/s", path=output.path
            )
    if not graphs:
        raise InputError(
            f"contains no copies of {program.name} between GPUs or of pinned host memory", path=output.path
        )
    return graphs


def _is_calibration(flows: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the copies are a single copy or a bidirectional pair."""
    return len(flows) == 1 or (len(flows) == 2 and flows[0] == flows[1][::-1])
