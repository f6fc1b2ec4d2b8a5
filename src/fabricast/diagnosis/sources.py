"""Recognition of the programs whose output a file contains."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.files import is_table, read_text
from fabricast.inputs.nearest_program import nearest_program
from fabricast.nccl.debug_log import NcclLog, is_nccl_log, read_nccl_log
from fabricast.nccl.tests_output import NcclTestsTable, is_nccl_tests_output, read_nccl_tests
from fabricast.pcie.measurements.benchmark_output import programs_in
from fabricast.pcie.topology.listings.gpu_reports import is_gpu_report
from fabricast.pcie.topology.listings.importing import describes_machine
from fabricast.pcie.topology.listings.peer_access import has_access_matrix
from fabricast.pcie.topology.xml_devices import xml_range

__all__ = ["Content", "Source", "read_sources"]


class Content(StrEnum):
    """Content of a file that a diagnosis uses."""

    TOPOLOGY = "topology"
    COPIES = "measured copies"
    COLLECTIVES = "nccl-tests"
    NCCL_LOG = "NCCL log"


@dataclass(frozen=True)
class Source:
    """File with its contents.

    Parameters
    ----------
    path : Path
        File.
    contents : tuple of Content
        Contents that were recognised.
    text : str
        Text of the file; empty for XML, YAML and tables.
    tables : tuple of NcclTestsTable
        Tables of nccl-tests.
    log : NcclLog or None
        Statements of NCCL.
    programs : tuple of str
        Programs that printed the measured copies.
    """

    path: Path
    contents: tuple[Content, ...]
    text: str = ""
    tables: tuple[NcclTestsTable, ...] = ()
    log: NcclLog | None = None
    programs: tuple[str, ...] = ()

    def __str__(self) -> str:
        programs = f" of {', '.join(self.programs)}" if self.programs else ""
        parts = [
            f"{content}{programs if content is Content.COPIES else ''}"
            for content in self.contents
            if content is not Content.COLLECTIVES
        ]
        parts += [str(table) for table in self.tables]
        return f"{self.path}: {'; '.join(parts)}"


def read_sources(paths: list[Path]) -> list[Source]:
    """Recognise the contents of files; one file may hold the output of several programs.

    Parameters
    ----------
    paths : list of Path
        Files.

    Raises
    ------
    InputError
        If a file has no known content.
    """
    return [_source(path) for path in paths]


def _source(path: Path) -> Source:
    suffix = path.suffix.lower()
    if suffix in (".xml", ".yaml", ".yml"):
        return Source(path, (Content.TOPOLOGY,))
    if is_table(path):
        return Source(path, (Content.COPIES,))
    text = read_text(path)
    contents: list[Content] = []
    if describes_machine(text) or has_access_matrix(text) or is_gpu_report(text):
        contents.append(Content.TOPOLOGY)
    if (xml := xml_range(text)) is not None:
        text = text[: xml[0]] + "\n" * text.count("\n", *xml) + text[xml[1] :]
    programs = programs_in(text)
    if programs:
        contents.append(Content.COPIES)
    tables: tuple[NcclTestsTable, ...] = ()
    log = None
    if is_nccl_tests_output(text):
        contents.append(Content.COLLECTIVES)
        tables = tuple(read_nccl_tests(text, path))
    if is_nccl_log(text):
        contents.append(Content.NCCL_LOG)
        log = read_nccl_log(text, path)
    if not contents:
        raise InputError(
            "was written by no known program, expected descriptions of the machine (hwloc or NCCL XML, "
            "nvidia-smi, lspci), measured copies (p2pBandwidthLatencyTest, nvbandwidth, p2pmark, "
            "rocm_bandwidth_test, TransferBench), nccl-tests or NCCL_DEBUG=INFO" + nearest_program(text),
            path=path,
        )
    return Source(path, tuple(contents), text, tables, log, programs)
