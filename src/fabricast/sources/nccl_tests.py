"""Reader of the tables that nccl-tests and rccl-tests print."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.core.number_text import size_text
from fabricast.nccl.costs import Operation, bus_factor
from fabricast.nccl.records import NcclTestsRow, NcclTestsTable, check_bus_bandwidth
from fabricast.sources.text import Format, Reading, Text

# Pages take the "#" for a heading and leave it out.
_HEADER = re.compile(r"(?:#\s{0,80})?\bsize\s{1,80}count\s{1,80}type\b")
#: Header of mscclpp-test, whose rows have no type.
_PLAIN_HEADER = re.compile(r"(?:#\s{0,80})?\bsize\s{1,80}count\s{1,80}time\s{1,80}algbw\s{1,80}busbw\b")
_WITHOUT_TYPE = re.compile(r"^(\d{1,15}\s+\d{1,15}\s)")
_OLD_HEADER = re.compile(r"(?:#\s{0,80})?\bbytes\s{1,80}N\s{1,80}type\b")
#: Row of a table whose header is left out; a launcher may have put a label between its columns.
_ROW = re.compile(
    r"^(\d{1,15})\s{1,80}\d{1,15}\s{1,80}[a-z][a-z0-9_]{2,15}\s{1,80}(?:sum|prod|max|min|avg|all|none|mulsum)"
    r"(?:\s{1,80}-?\d{1,6}(?:\[\d{1,6}\])?)?\s{1,80}([\d.]{1,12})\s{1,80}([\d.]{1,12})\s{1,80}[\d.]{1,12}\s{1,80}\S"
)
_LABEL = re.compile(r"\[\d{1,6}\](?=\s)")
_RANK = re.compile(
    r"(?:#\s{0,9}|^[^\w\n]{0,20})\bRank\s+(\d+)(?:\s+Group\s+\d+)?\s+Pid\s+(\d+)\s+on\s+(\S.{0,80}?)\s+device\s+(\d+)\s+\[([0-9a-fA-Fx:.]+)\]\s*(.*)",
    re.MULTILINE,
)
#: Ranks before 2.0, which are those of one process.
_OLD_RANK = re.compile(r"(?:#\s{0,9})?\bRank\s{1,9}(\d+) uses device\s{1,9}(\d+)\s{1,9}\[([0-9a-fA-Fx:.]+)\]\s*(.*)")
_STARTING = re.compile(r"#\s*(?:Collective test starting|Using|Running):?\s*(\w+_perf)")
_OPERATION = re.compile(
    r"\b(all_?reduce|all_?gather|reduce_?scatter|broadcast|reduce|all_?to_?all|sendrecv)_(?:perf|test)\b"
)
#: Command of the next table.
_COMMAND = re.compile(r"_(?:perf|test)\s(?:.{0,200}\s)?-[befg]\s{0,4}\d")
_VERSION = re.compile(r"#?\s*(nccl|rccl)-tests version (\S+)(?:.*nccl-library=(\d{1,15}))?")
#: Number of tables that are read: each needs about 0.1 s of forecasts.
MOST_TABLES = 30
#: Error about more GPUs than a host has.
_TOO_MANY = re.compile(r"Invalid number of GPUs: (\d{1,6}) requested but only (\d{1,6}) were")
_WRONG_LATER = "a table after those that are compared has wrong results"
_WRONG = re.compile(r"Out of bounds values : [1-9]\d* FAILED")
_COUNT = re.compile(r"[0-9]{1,15}")
#: Size in bytes from which a table shows the rate of the links, also if it ends there.
_LARGE_ENOUGH = 1 << 26
_LARGEST = re.compile(r"\bmaxBytes (\d{1,15})")
#: Line after the last row, and that of Slurm about a run that it ended.
_AFTER_ROWS = re.compile(r"# ?(?:Out of bounds values|Avg bus bandwidth)")
_ENDED = re.compile(r"slurmstepd: error: .{0,80}CANCELLED AT \S{1,40}(?: DUE TO (.{1,60}?))? ?\*\*\*")
#: Lines that all processes of a run print once together, and lines between two of them that belong to them.
_ONCE = ("Avg bus bandwidth", "nThread ")
_BETWEEN = re.compile(r"\s*#?\s*(?:Out of bounds values.*|Using devices|Collective test concluded.*|`*)?\s*")
_THREADS = re.compile(r"#?\s*nThread\s+(\d{1,15})\s+nGpus\s+(\d{1,15})")
#: Last letters of complete rows, and parts of the data types of rows, for rows that are cut or followed by other text.
_ROW_ENDS = tuple("0123456789.A")
_WORDS_OF_LINES = ("#", " type ", "Rank ", "_perf", "_test", "tests version")
_TYPES = ("float", "int", "half", "double", "char", "f8", "fp8")
#: Data types and reductions of a row.
_WORDS = re.compile(r"[a-z][a-z0-9_]*")
#: Size, count and type, then the root, in tables of broadcast before NCCL 2.10, which have no column of the reduction.
_WITH_ROOT = re.compile(r"^(\d{1,15}\s+\d{1,15}\s+[a-z]\w{1,20})\s+(\d{1,6}\s)")
_Printed = TypeVar("_Printed")
#: Relative difference above which a printed bandwidth contradicts size and time; printed numbers have two decimals.
_ROUNDING = 0.02
#: Half of the last digit of a printed bandwidth in bytes/s, and the most ranks that bandwidths can tell.
_LAST_DIGIT, _MOST_RANKS = 0.005e9, 512
#: Words of a header without further columns.
_WORDS_OF_HEADER = 14


_CONCLUDED = "# Collective test concluded"


@dataclass
class _Heading:
    """Lines above a table."""

    operation: Operation | None = None
    program: str = "nccl-tests"
    library: tuple[int, int, int] | None = None
    gpus: dict[int, str] = field(default_factory=dict)
    bus_ids: dict[int, str] = field(default_factory=dict)
    devices: dict[int, int] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    #: Line of each host that lists a rank.
    processes: dict[int, dict[str, int]] = field(default_factory=dict)
    wrong_lines: list[int] = field(default_factory=list)
    has_table: bool = False
    gpus_of_process: int = 0
    #: Largest size in bytes that the run was to measure, and whether the lines after the last row are printed.
    largest_bytes: int = 0
    is_finished: bool = False
    concluded: Operation | None = None  # As the line after the table names it

    @property
    def is_alone(self) -> bool:
        """Whether processes of several hosts list the same rank, because they ran separately."""
        return any(len(one) > 1 for one in self.processes.values())

    @property
    def is_cut(self) -> bool:
        """Whether the first ranks of the list are missing: the text begins within it."""
        ranks = sorted(self.gpus)
        return bool(ranks) and ranks[0] > 0 and ranks == list(range(ranks[0], ranks[0] + len(ranks)))

    def check_ranks(self) -> None:
        """Raise an error if the list of ranks has gaps, or no whole number of processes."""
        ranks = sorted(self.gpus)
        if self.is_cut:
            return
        if ranks != list(range(len(ranks))):
            missing = next(rank for rank in range(len(ranks)) if rank not in self.gpus)
            raise InputError(f"lists {len(ranks)} ranks without rank {missing}, expected all ranks")
        if ranks and self.gpus_of_process and len(ranks) % self.gpus_of_process:
            raise InputError(
                f"lists {len(ranks)} ranks, expected a multiple of nThread times nGpus, {self.gpus_of_process}"
            )


def _is_output(text: Text) -> bool:
    words = (("size", _HEADER), ("bytes", _OLD_HEADER), ("Rank", _RANK))
    if any(word in text.raw and pattern.search(text.raw) is not None for word, pattern in words):
        return True
    if "Invalid number of GPUs: " in text.raw or _printed_twice(text) is not None:
        return True
    return any(_is_bare_row(line) for _, line in text.lines(_may_be_printed))


def _is_bare_row(line: str) -> bool:
    """Return whether a line is a row in microseconds, whose bandwidth is that of its size and time."""
    if (match := _ROW.match(line.lstrip())) is None:
        return False
    try:
        size, time, rate = float(match[1]), float(match[2]), float(match[3])
    except ValueError:
        return False
    return size > 0 and abs(size - rate * time * 1e3) <= 0.01 * size + 0.006 * time * 1e3


def _may_be_printed(line: str) -> bool:
    """Return whether a line can be a comment or row of nccl-tests, or names its program."""
    if line.rstrip().endswith(_ROW_ENDS) or any(word in line for word in _WORDS_OF_LINES):
        return True
    return any(name in line for name in _TYPES)


def _library_version(number: str) -> tuple[int, int, int]:
    """Return the version of a number such as 23007 or 2708."""
    value = int(number)
    if value >= 10000:
        return value // 10000, value // 100 % 100, value % 100
    return value // 1000, value // 100 % 10, value % 100


def _operation_in(text: str) -> Operation | None:
    match = _OPERATION.search(text)
    if match is None:
        return None
    name = match[1].replace("_", "")
    return next(one for one in Operation if one.replace("_", "") == name)


def _tables(text: Text) -> Iterator[NcclTestsTable | InputError | Fact]:
    """Yield the tables of a log between any other lines, the reason why one cannot be read, and causes of no table."""
    heading, header = _Heading(), 0
    rows: list[NcclTestsRow] = []
    excluded: list[tuple[int, str]] = []
    is_old = has_extra = has_root_only = is_bare = is_plain = False

    def close() -> Iterator[NcclTestsTable | InputError | Fact]:
        nonlocal rows, excluded
        if heading.is_alone:
            yield _alone(text, heading)
        elif header and (rows or excluded):
            named = heading.operation or heading.concluded or _operation_in(Path(text.path).name)
            if (unfinished := _unfinished(text, heading, rows)) is not None:
                yield unfinished
            try:
                yield _table(heading, named, rows, excluded, header)
            except InputError as error:
                yield text.error(error.reason, error.line)
        rows, excluded, heading.wrong_lines = [], [], []

    for number, printed in text.lines(_may_be_printed):
        if "NCCL INFO" in printed:
            continue
        # A table in a document may be indented.
        line = printed.strip()
        if not line[:1].isdigit():
            match = _RANK.match(line)
            if match is None and (old := _OLD_RANK.match(line)) is not None:
                rank = int(old[1])
                heading.gpus[rank], heading.bus_ids[rank] = old[4].strip(), old[3]
                heading.devices[rank] = int(old[2])
            threads, starting = _THREADS.match(line), _STARTING.match(line)
            begins = any(one is not None for one in (match, threads, starting, _VERSION.match(line)))
            if heading.has_table and (begins or _COMMAND.search(line) is not None):
                yield from close()
                heading, header = _Heading(program=heading.program, library=heading.library), 0
            heading.is_finished = heading.is_finished or _AFTER_ROWS.match(line) is not None
            if threads is not None and (largest := _LARGEST.search(line)) is not None:
                heading.largest_bytes = int(largest[1])
            if threads is not None:
                heading.gpus_of_process = int(threads[1]) * int(threads[2])
            if match is not None:
                rank = int(match[1])
                heading.gpus[rank], heading.bus_ids[rank] = match[6].strip(), match[5]
                heading.devices[rank] = int(match[4])
                heading.hosts.add(match[3])
                heading.processes.setdefault(rank, {}).setdefault(match[3], number)
            elif (version := _VERSION.match(line)) is not None:
                heading.program = f"{version[1]}-tests {version[2]}"
                heading.library = _library_version(version[3]) if version[3] else None
            elif starting is not None:
                heading.operation = _operation_in(starting[1]) or heading.operation
            elif (found := _operation_in(line)) is not None:
                if line.startswith(_CONCLUDED):
                    # The line follows a table, and a table without this line may come after it.
                    heading.concluded = found if header else None
                else:
                    heading.operation = heading.operation or found
            if any(one.match(line) for one in (_HEADER, _OLD_HEADER, _PLAIN_HEADER)):
                if heading.has_table:
                    yield from close()
                is_bare = False
                header, heading.has_table, is_old = number, True, _OLD_HEADER.match(line) is not None
                has_extra = len(line.split()) > _WORDS_OF_HEADER
                has_root_only = " root " in line and " redop " not in line
                is_plain = _PLAIN_HEADER.match(line) is not None
                continue
            if not (is_old and re.match(r"#\s+\d", line)):
                continue
        elif (not heading.has_table or is_bare) and _is_bare_row(line):
            if rows and int(line.split()[0]) <= rows[-1].size_bytes:
                yield from close()
            if not rows:
                header = number
            heading.has_table, is_bare, is_old, has_extra, has_root_only = True, True, False, False, False
        if not header or not line.strip():
            continue
        if is_plain:
            line = _WITHOUT_TYPE.sub(r"\1float none ", line)
        if has_root_only:
            line = _WITH_ROOT.sub(r"\1 none \2", line)
        row = _row(number, _LABEL.sub(" ", line.lstrip("#")), is_old, has_extra)
        if isinstance(row, NcclTestsRow) and row.wrong:
            heading.wrong_lines.append(number)
            excluded.append((number, f"has {row.wrong} wrong values"))
        elif isinstance(row, NcclTestsRow):
            rows.append(row)
        elif row:
            excluded.append((number, row))
    yield from close()


#: Row of a table to which its author added a first column.
_CHANGED_ROW = re.compile(r"\s*\S{1,40}\s+\d{3,20}\s+\d{1,20}\s+[a-z]\w{2,12}\s+[a-z]\w{2,12}(?:\s+-?[\d.]{1,20}){3}")


def _alone(text: Text, heading: _Heading) -> Fact:
    """Return the cause that processes did not find each other."""
    rank, hosts = next((rank, hosts) for rank, hosts in heading.processes.items() if len(hosts) > 1)
    words = f"rank {rank} is listed by {' and '.join(hosts)}: every process ran by itself"
    return text.fact(Quantity.CAUSE, words, list(hosts.values())[1], "nccl-tests", subject=("no_mpi",))


def _printed_twice(text: Text) -> int | None:
    """Return the line at which a second process prints the same heading or result as one before it."""
    if text.raw.count("Avg bus bandwidth") < 2 and text.raw.count("nThread ") < 2:
        return None
    last = ""
    for number, line in text.lines():
        kind = next((words for words in _ONCE if words in line), "")
        if kind and kind == last:
            return number
        # Rows, ranks and sentences end what one process prints at once.
        if kind or not _BETWEEN.fullmatch(line):
            last = kind
    return None


def _unfinished(text: Text, heading: _Heading, rows: list[NcclTestsRow]) -> Fact | None:
    """Return that a run ends before its largest size: a cause if Slurm ended it or large sizes are missing."""
    last = max((row.size_bytes for row in rows), default=0)
    # Sizes are multiples of the number of ranks.
    if heading.is_finished or not rows or 2 * last > heading.largest_bytes:
        return None
    measured = f"{size_text(last)} of {size_text(heading.largest_bytes)}"
    for number, line in text.lines(lambda line: "CANCELLED" in line):
        if number > rows[-1].line and (match := _ENDED.search(line)) is not None:
            reason = f" ({match[1].lower()})" if match[1] else ""
            words = f"Slurm ended the run{reason} after {measured}: it was slow, or hangs at larger sizes"
            return text.fact(Quantity.CAUSE, words, number, "nccl-tests", subject=("stopped between hosts",))
    words = f"the table ends after {measured}: the run was stopped or hangs there, or the file is cut"
    if last >= _LARGE_ENOUGH:
        return text.fact(Quantity.NOTE, words, rows[-1].line, "nccl-tests")
    return text.fact(Quantity.CAUSE, words, rows[-1].line, "nccl-tests", subject=("unfinished",))


def _stopped(text: Text) -> Fact:
    """Return the cause that a run printed its GPUs or the head of a table, and no row."""
    for number, line in text.lines(lambda line: "Invalid number" in line):
        if (match := _TOO_MANY.search(line)) is not None:
            words = f"the run asks for {match[1]} GPUs of a host that has {match[2]}"
            return text.fact(Quantity.CAUSE, words, number, "nccl-tests", subject=("too_few_gpus",))
    number = max(
        (number for number, line in text.lines(_may_be_printed) if _HEADER.search(line) or _RANK.search(line)),
        default=0,
    )
    words = "the output ends before its first result: the program hangs or was stopped there, or the file is cut"
    hosts = {match[3] for _, line in text.lines(_may_be_printed) if (match := _RANK.search(line)) is not None}
    cause = "stopped between hosts" if len(hosts) > 1 else "stopped"
    return text.fact(Quantity.CAUSE, words, number, "nccl-tests", subject=(cause,))


def _row(number: int, line: str, is_old: bool, has_extra: bool) -> NcclTestsRow | str | None:
    """Return a row; a text with the reason if it is excluded; None for other lines.

    rccl-tests may print further columns after the four of each half.
    """
    words = line.split()
    if len(words) < 4 or not all(map(_COUNT.fullmatch, words[:2])) or not _WORDS.fullmatch(words[2]):
        return None
    # A column of the reduction, and since 2.10 one of the root, precede the times.
    values = words[3:]
    while values and (_WORDS.fullmatch(values[0]) or values[0] == "-1"):
        values = values[1:]
    if (
        len(words) - len(values) == 4
        and values
        and len(values) % 2
        and len(values) != 3
        and _COUNT.fullmatch(values[0])
    ):
        values = values[1:]
    half = len(values) // 2
    if has_extra and half > 4 and len(values) == 2 * half:
        values = [*values[:4], *values[half : half + 4]]
    scale = 1e-3 if is_old else 1e-6
    try:
        numbers = [None if word == "N/A" else float(word) for word in values]
    except ValueError:
        return "is not a row of numbers"
    if not all(number is None or math.isfinite(number) for number in numbers):
        return "has a number that is not finite"
    if len(numbers) not in (3, 4, 8) and not (is_old and len(numbers) in (4, 8)):
        return f"has {len(numbers)} numbers, expected 4 or 8: the log is truncated"
    time, bus = numbers[0], numbers[2]
    if time is None or bus is None or not time > 0:
        return "has no time"
    in_place = numbers[4] * scale if len(numbers) == 8 and numbers[4] else None
    # The old format prints the largest error instead of the number of wrong values.
    wrong = 0 if is_old else sum(int(numbers[place] or 0) for place in (3, 7) if place < len(numbers))
    reduces = _WORDS.fullmatch(words[3]) is not None and words[3] != "none"
    is_rooted = len(words) > 4 and _COUNT.fullmatch(words[4]) is not None
    is_without_root = words[3] == "none" and words[4:5] == ["-1"]
    is_out_of_place = not is_old and len(numbers) == 8 and numbers[3] is not None and numbers[7] is None
    return NcclTestsRow(
        number,
        int(words[0]),
        time * scale,
        bus * 1e9,
        in_place,
        wrong,
        reduces and not is_rooted,
        is_without_root,
        is_out_of_place,
    )


def _table(
    heading: _Heading,
    operation: Operation | None,
    rows: list[NcclTestsRow],
    excluded: list[tuple[int, str]],
    header: int,
) -> NcclTestsTable:
    # With fewer elements than ranks, sizes are 0.
    rows = [row for row in rows if row.size_bytes > 0]
    sizes = [row.size_bytes for row in rows]
    for before, row in zip(sizes, rows[1:], strict=False):
        if row.size_bytes <= before:
            raise InputError(
                f"size is {row.size_bytes} after {before}, expected increasing sizes in one table", line=row.line
            )
    heading.check_ranks()
    ranks = len(heading.gpus) or None
    is_alone = ranks == 1 and operation is not Operation.SENDRECV
    if heading.is_cut or (is_alone and any(row.bus_bytes_per_s > 0 for row in rows)):
        # The list of ranks is cut: one rank sends nothing to others.
        last = max(heading.gpus)
        ranks, heading = None, _Heading(heading.operation, heading.program, heading.library)
        if last > 0 and operation is None:
            operation = _by_bus_factor(rows, last + 1)
    if operation is None and ranks is not None:
        operation = _by_bus_factor(rows, ranks)
    elif operation in (None, Operation.ALL_REDUCE) and ranks is None and (found := _ranks_of_all_reduce(rows)):
        # Only all_reduce has a bus bandwidth above its bandwidth.
        operation, ranks = Operation.ALL_REDUCE, found
    if operation is not None and ranks is not None:
        check_bus_bandwidth(rows, operation, ranks)
    return NcclTestsTable(
        operation,
        ranks,
        tuple(rows),
        heading.program,
        heading.library,
        tuple(_in_order(heading.gpus)),
        tuple(_in_order(heading.bus_ids)),
        tuple(_in_order(heading.devices)),
        len(heading.hosts),
        header,
        tuple(excluded),
        tuple(heading.wrong_lines),
        tuple(sorted(heading.hosts)),
    )


def _ranks_of_all_reduce(rows: list[NcclTestsRow]) -> int | None:
    """Return the number of ranks by the ratio 2 (n - 1) / n of the bandwidths of all rows; None if others fit, too."""
    fitting = list(range(3, _MOST_RANKS))
    for row in rows:
        if not (row.size_bytes and row.bus_bytes_per_s):
            continue
        rate = row.size_bytes / row.time_s
        error = _LAST_DIGIT / rate + 0.002
        ratio = row.bus_bytes_per_s / rate
        fitting = [one for one in fitting if abs(ratio - bus_factor(Operation.ALL_REDUCE, one)) <= error]
    return fitting[0] if len(fitting) == 1 else None


def _by_bus_factor(rows: list[NcclTestsRow], ranks: int) -> Operation | None:
    """Return the operation by the factor of bus bandwidths, the columns of reduction and root, and in-place checks.

    No other operation shares the factor of all_reduce, except with two ranks: those have no reduction, or a root.
    """
    large = max(rows, key=lambda row: row.size_bytes, default=None)
    if large is None or ranks < 2:
        return None
    factor = large.bus_bytes_per_s / (large.size_bytes / large.time_s)
    if large.is_out_of_place:
        options = [(Operation.ALLTOALL, large.is_without_root), (Operation.SENDRECV, large.reduces_for_all)]
    else:
        options = [
            (Operation.ALL_REDUCE, ranks > 2 or large.reduces_for_all),
            (Operation.REDUCE_SCATTER, large.reduces_for_all),
            (Operation.ALL_GATHER, large.is_without_root),
        ]
    fitting = [one for one, fits in options if fits and abs(factor / bus_factor(one, ranks) - 1) < _ROUNDING]
    return fitting[0] if len(fitting) == 1 else None


def _in_order(by_rank: dict[int, _Printed]) -> Iterable[_Printed]:
    return (by_rank[rank] for rank in sorted(by_rank))


def _read(text: Text) -> Iterator[Reading]:
    reading = Reading()
    tables = 0
    causes: dict[str, Fact] = {}
    for read in _tables(text):
        if isinstance(read, InputError):
            reading.problems.append(read)
        elif isinstance(read, Fact):
            causes.setdefault(read.value, read)
        elif tables == MOST_TABLES:
            break
        else:
            tables += 1
            reading.facts.append(text.fact(Quantity.COLLECTIVE, read, read.line, read.program, kind=Kind.MEASURED))
    if not tables and reading.problems:
        raise reading.problems[0]
    if not tables and not causes:
        changed = next((number for number, line in text.lines() if _CHANGED_ROW.match(line) is not None), None)
        if changed is not None:
            raise text.error(
                "has a column before the size, which nccl-tests does not print: remove that column", changed
            )
        causes[""] = _stopped(text)
    twice = _printed_twice(text)
    if twice is not None and not any(cause.subject == ("no_mpi",) for cause in causes.values()):
        words = "the heading or the result of the test is printed more than once: every process ran by itself"
        causes.pop("", None)
        causes[words] = text.fact(Quantity.CAUSE, words, twice, "nccl-tests", subject=("no_mpi",))
    reading.facts += causes.values()
    if tables == MOST_TABLES:
        headers = sum(len(pattern.findall(text.raw)) for pattern in (_HEADER, _OLD_HEADER))
        reading.facts.append(text.fact(Quantity.UNREAD_TABLES, headers - tables, 0, "nccl-tests"))
        wrong = _WRONG.search(text.raw)
        if wrong is not None:
            line = text.raw.count("\n", 0, wrong.start()) + 1
            reading.facts.append(text.fact(Quantity.WRONG_RESULTS, _WRONG_LATER, line, "nccl-tests"))
    yield reading


FORMAT = Format(
    "nccl-tests",
    Content.COLLECTIVES,
    "all_reduce_perf -b 8 -e 8G -f 2 -g 8 > all_reduce.log",
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
    _is_output,
    _read,
    "nccl_tests.log",
    versions="nccl-tests 2.4 to 2.19, rccl-tests: several tables in one log; wrong results are excluded and named",
)
