"""Reader of collective and one-sided tests of MPI: those of OSU, and of IMB also Sendrecv, Exchange and PingPing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.core.number_text import span_text
from fabricast.maxrate.measurements import LARGEST_BYTES, LONGEST_S
from fabricast.maxrate.message_times import OPERATION, MessageTime
from fabricast.sources import imb, osu
from fabricast.sources.messages import cut_row, numbers_of, wrong_rows
from fabricast.sources.text import Format, Reading, Text

_OSU = re.compile(r"^\W{0,4}(?:OSU MPI[\w-]{0,12}[ _])(.{3,60}?) (?:latency )?test\b", re.IGNORECASE)
#: Operation of a one-sided test: "OSU MPI_Get Latency Test".
_ONE_SIDED = re.compile(r"OSU MPI_(\w{2,20})\b", re.IGNORECASE)
_IMB = re.compile(r"#\s*Benchmarking\s+(\w{3,30})")
_RANKS = re.compile(r"#\s*processes\s*=\s*(\d{1,7})")
#: Launcher of a test of OSU with its options: number of processes, or of hosts and of processes on each. The options of
#: jsrun count sets of resources.
_LAUNCH = re.compile(r"\b(?:mpirun|mpiexec|mpiexec\.hydra|orterun|prterun|srun|aprun|jsrun)\b(.{0,400}?)\bosu_\w{2,30}")
_PROCESSES = re.compile(r"\s(?:-np?|--np|--ntasks)[= ]\s?(\d{1,7})\b")
_HOSTS = re.compile(r"\s(?:-N|--nodes)[= ]?\s?(\d{1,6})\b(?!-)")
_ON_EACH = re.compile(r"\s(?:--ntasks-per-node|-ppn|--ppn)[= ]\s?(\d{1,6})\b")
#: Number of the column of the mean time in us, by program; IMB prints a single time in the third of four columns.
_MEAN = {"OSU": 1, "IMB": 4}
_SINGLE, _WITH_SHORTEST = 2, 3
#: Numbers of the columns of the slowest process and of the mean; operations in which all processes do the same; the
#: ratio from which one is late, the share of sizes at which it is, and the fewest sizes.
_SLOWEST_AND_MEAN = {"OSU": (3, 1), "IMB": (3, 4)}
#: Operations whose rows have no column of sizes.
_WITHOUT_SIZE = ("barrier", "ibarrier")
_OF_EQUALS = re.compile(r"all(?:reduce|gather|toall)|to-all|reduce.scatter|barrier", re.IGNORECASE)
_LATE_PROCESS, _NEARLY_ALL, _FEWEST_ROWS = 4.0, 0.8, 4


@dataclass
class _Table:
    """Table of one test: its program, name, line, number of processes and times by size."""

    program: str
    name: str
    line: int
    ranks: int | None = None
    facts: list[Fact] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)  # Ratio of the slowest process to the mean, by size


def _title(line: str) -> tuple[str, str] | None:
    """Return program and test that a heading names; an empty name for a test between processes."""
    if (match := _OSU.search(line)) is not None and "bandwidth" not in line.lower():
        one_sided = _ONE_SIDED.search(line)
        name = match[1] if one_sided is None else one_sided[1].capitalize()
        return "OSU", "" if osu.is_between_processes(line) else name
    if (match := _IMB.search(line)) is not None:
        return "IMB", "" if match[1].lower() in imb.BETWEEN_PROCESSES else match[1]
    return None


def _processes(launch: re.Match[str]) -> int | None:
    """Return the number of processes of a command; None if it does not state it.

    >>> [_processes(_LAUNCH.search(f"{one} ./osu_alltoall")) for one in ("srun -N 16 --ntasks-per-node=128", "mpirun")]
    [2048, None]
    """
    count, hosts, on_each = (pattern.search(launch[1]) for pattern in (_PROCESSES, _HOSTS, _ON_EACH))
    if count is not None and "jsrun" not in launch[0]:
        return int(count[1])
    return int(hosts[1]) * int(on_each[1]) if hosts is not None and on_each is not None else None


def _is_report(text: Text) -> bool:
    if "OSU MPI" not in text.raw and "enchmarking" not in text.raw:
        return False
    return any(found is not None and found[1] for found in (_title(line) for line in text.clean_lines))


def _read(text: Text) -> Iterator[Reading]:
    table: _Table | None = None
    tables = list[_Table]()
    ranks: int | None = None
    for number, line in text.lines():
        if (launch := _LAUNCH.search(line)) is not None:
            ranks, table = _processes(launch), None
        elif (found := _title(line)) is not None:
            table = _Table(*found, number, ranks) if found[1] else None
            tables += [table] if table is not None else []
        elif table is not None and (match := _RANKS.search(line)) is not None:
            table.ranks = int(match[1])
        elif table is not None and (values := numbers_of(line, number)) is not None:
            fact = _fact(text, table, number, values)
            table.facts += [fact] if fact is not None else []
            table.slowest += _slowest_over_mean(table.program, values) if fact is not None else []
    cut = cut_row(text)
    for one in tables:
        problems = [text.error("the file ends within this row, which is not used", cut)] if cut is not None else []
        one.facts = [fact for fact in one.facts if fact.value.line != cut]
        words = f"{one.name} of {one.program}{f', {one.ranks} processes' if one.ranks else ''}"
        note = [] if one.facts else [text.fact(Quantity.NOTE, f"{words}: no row is printed", one.line, one.program)]
        wrong = wrong_rows(text, one.program) if one is tables[0] else []
        late = _late_process(text, one)
        yield Reading([*one.facts, *note, *wrong, *late], problems, program=one.program, line=one.line, text=words)


def _fact(text: Text, table: _Table, number: int, values: list[float]) -> Fact | None:
    """Return the time of a row; none for empty messages and for numbers that are no times."""
    is_barrier = table.name.lower() in _WITHOUT_SIZE
    values = [0.0, *values] if is_barrier else values
    column = min(_MEAN[table.program], _SINGLE if table.program == "IMB" and len(values) < 5 else len(values) - 1)
    if len(values) <= column or not (
        (is_barrier or 0.0 < values[0] <= LARGEST_BYTES) and 0.0 < values[column] * 1e-6 <= LONGEST_S
    ):
        return None
    # Average, minimum and maximum of OSU; minimum, maximum and average of IMB.
    shortest_s = values[2] * 1e-6 if len(values) > _WITH_SHORTEST else None
    seconds = values[column] * 1e-6
    time = MessageTime(number, table.name, table.ranks, values[0], seconds, OPERATION, shortest_s=shortest_s)
    return text.fact(Quantity.OPERATION_TIME, time, number, table.program, unit="s", kind=Kind.MEASURED)


def _slowest_over_mean(program: str, values: list[float]) -> list[float]:
    """Return the ratio of the slowest process to the mean of a row that has both."""
    columns = _SLOWEST_AND_MEAN[program]
    return [values[columns[0]] / values[columns[1]]] if len(values) > max(columns) and values[columns[1]] else []


def _late_process(text: Text, table: _Table) -> Iterator[Fact]:
    """Yield that one process needs far more time than the mean at nearly all sizes, though all do the same."""
    if not table.slowest or _OF_EQUALS.search(table.name) is None or len(table.slowest) < _FEWEST_ROWS:
        return
    late = [ratio for ratio in table.slowest if ratio > _LATE_PROCESS]
    if len(late) >= _NEARLY_ALL * len(table.slowest):
        ratio = span_text(f"{min(late):.2g}", f"{max(late):.2g}")
        words = (
            f"the slowest process of {table.name} needs {ratio} times the mean of all: one process is late, and the "
            "others wait for it"
        )
        yield text.fact(Quantity.CAUSE, words, table.facts[0].place.line, table.program, subject=("late_process",))


FORMAT = Format(
    "OSU and IMB collectives",
    Content.OPERATIONS,
    "osu_allreduce > osu_allreduce.out",
    "# OSU MPI Allreduce Latency Test v7.2",
    _is_report,
    _read,
    "osu_allreduce.out",
    "fabricast diagnose",
    versions="mean times of tests that are not between two processes or pairs: files are compared",
    is_per_host=True,
)
