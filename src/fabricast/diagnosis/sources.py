"""Recognition of the programs whose output a file contains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.files import is_table, read_text
from fabricast.inputs.log_lines import clean_text
from fabricast.inputs.nearest_program import resembled_program
from fabricast.nccl.debug_log import NcclLog, is_nccl_log, read_nccl_log
from fabricast.nccl.tests_output import NcclTestsTable, count_tables, is_nccl_tests_output, read_nccl_tests
from fabricast.pcie.measurements.benchmark_output import programs_in
from fabricast.pcie.topology.listings.gpu_reports import is_gpu_report
from fabricast.pcie.topology.listings.importing import describes_machine
from fabricast.pcie.topology.listings.peer_access import has_access_matrix
from fabricast.pcie.topology.xml_devices import xml_range

__all__ = ["Content", "Source", "contents_of", "contents_without", "read_sources"]


_UNKNOWN = (
    "was written by no known program, expected descriptions of the machine (hwloc or NCCL XML, nvidia-smi, lspci), "
    "measured copies (p2pBandwidthLatencyTest, nvbandwidth, p2pmark, rocm_bandwidth_test, TransferBench), nccl-tests "
    "or NCCL_DEBUG=INFO"
)


#: Maximum number of tables of nccl-tests: each takes about 0.1 s.
MOST_TABLES = 30
#: Maximum number of tables that the text of a source lists.
MOST_LISTED = 8


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
        Contents that were recognised; empty if the file is not used.
    text : str
        Text of the file, without the decoration of its lines if it has measured copies; empty for XML, YAML and tables.
    tables : tuple of NcclTestsTable
        Tables of nccl-tests, at most `MOST_TABLES`.
    more_tables : int
        Number of further tables.
    log : NcclLog or None
        Statements of NCCL.
    programs : tuple of str
        Programs that printed the measured copies.
    reader : str
        Program and command of a file without contents that another command reads.
    problem : InputError or None
        Reason why the output of a known program cannot be read.
    """

    path: Path
    contents: tuple[Content, ...]
    text: str = ""
    tables: tuple[NcclTestsTable, ...] = ()
    more_tables: int = 0
    log: NcclLog | None = None
    programs: tuple[str, ...] = ()
    reader: str = ""
    problem: InputError | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            read = f"; read: {', '.join(self.contents)}" if self.contents else ""
            place = f" (line {self.problem.line})" if self.problem.line else ""
            return f"{self.path}: cannot be used: {self.problem.reason}{place}{read}"
        if not self.contents and self.reader:
            return f"{self.path}: not used, resembles {self.reader}"
        if not self.contents:
            return f"{self.path}: not used, {'written by no known program' if self.text.strip() else 'empty'}"
        programs = f" of {', '.join(self.programs)}" if self.programs else ""
        parts = [
            f"{content}{programs if content is Content.COPIES else ''}"
            for content in self.contents
            if content is not Content.COLLECTIVES
        ]
        parts += [str(table) for table in self.tables[:MOST_LISTED]]
        more = len(self.tables[MOST_LISTED:]) + self.more_tables
        parts += [f"{more:,} more tables"] if more else []
        return f"{self.path}: {'; '.join(parts)}"


def read_sources(paths: list[Path]) -> list[Source]:
    """Recognise the contents of files; one file may hold the output of several programs.

    Files of other programs are kept without contents, so that a diagnosis can name them.
    """
    if not paths:
        raise InputError("is empty, expected at least one file", argument="files")
    sources = [source if source.contents else _unused(source) for source in map(_source, paths)]
    if not any(source.contents for source in sources):
        first = next((source for source in sources if source.problem is not None), sources[0])
        text = f"{_UNKNOWN}{resembled_program(first.text) or ''}" if first.text.strip() else "is empty"
        raise first.problem or InputError(text, path=first.path)
    return sources


def _unused(source: Source) -> Source:
    """Return a source without contents, with the command that reads it, or the reason why it is damaged."""
    nearest = resembled_program(source.text) if source.problem is None else None
    if nearest is None:
        return source
    if nearest.command:
        return replace(source, reader=f"{nearest.program}: '{nearest.command}' reads it")
    return replace(source, problem=InputError(f"{_UNKNOWN}{nearest}", path=source.path))


def _source(path: Path) -> Source:
    suffix = path.suffix.lower()
    if suffix in (".xml", ".yaml", ".yml"):
        return Source(path, (Content.TOPOLOGY,))
    if is_table(path):
        return Source(path, (Content.COPIES,))
    try:
        text = read_text(path)
    except InputError as error:
        return Source(path, (), problem=error)
    contents = contents_of(text)
    if (xml := xml_range(text)) is not None:
        text = text[: xml[0]] + "\n" * text.count("\n", *xml) + text[xml[1] :]
    tables: list[NcclTestsTable] = []
    problem: InputError | None = None
    more_tables = 0
    try:
        if Content.COLLECTIVES in contents:
            tables = read_nccl_tests(text, path, most=MOST_TABLES)
            more_tables = count_tables(text) - len(tables) if len(tables) == MOST_TABLES else 0
    except InputError as error:
        problem, contents = error, contents_without(Content.COLLECTIVES, contents)
    log = None
    try:
        log = read_nccl_log(text, path) if Content.NCCL_LOG in contents else None
    except InputError as error:
        problem, contents = error, contents_without(Content.NCCL_LOG, contents)
    programs: tuple[str, ...] = ()
    if Content.COPIES in contents:
        programs, text = programs_in(text), clean_text(text)
    return Source(path, contents, text, tuple(tables), more_tables, log, programs, problem=problem)


def contents_without(damaged: Content, contents: tuple[Content, ...]) -> tuple[Content, ...]:
    """Return the contents of a file except one that cannot be used."""
    return tuple(content for content in contents if content is not damaged)


def contents_of(text: str) -> tuple[Content, ...]:
    """Return the contents of a text that a diagnosis uses.

    >>> contents_of("RocmBandwidthTest Version: 2.6.0")
    (<Content.COPIES: 'measured copies'>,)
    """
    recognisers = {
        Content.TOPOLOGY: (describes_machine, has_access_matrix, is_gpu_report),
        Content.COPIES: (programs_in,),
        Content.COLLECTIVES: (is_nccl_tests_output,),
        Content.NCCL_LOG: (is_nccl_log,),
    }
    return tuple(content for content, tests in recognisers.items() if any(test(text) for test in tests))
