"""Measurements from what benchmark programs print: nodecomm, BenchPress, OSU, IMB, netgauge.

Every program has its own convention of time; it is stored beside the number and converted
once, where models are fitted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.files import is_table, read_bytes, read_text, write_text
from fabricast.maxrate.measurements import (
    LARGEST_BYTES,
    LONGEST_S,
    MOST_PROCESSES,
    SHORTEST_S,
    read_measurements,
)

__all__ = ["PROGRAMS", "printed_by", "read_measurement_file", "read_output", "write_measurements"]

_INT_BYTES = 4
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class _Reading:
    """One time of one cell, as a parser yields it; the line is for messages."""

    line: int
    path: str
    processes: int
    size_bytes: float
    time_s: float
    convention: str


_Lines = Sequence[str]
#: Tests between two processes or several pairs; collectives and threads are something else.
_OSU_TITLES = r"# osu mpi(-\w+)? (multi |multi-pair |multiple )?(bi-directional )?(latency|bandwidth)\b"
_NUMBER = r"[-+]?((\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][-+]?\d{1,3})?|nan|inf)"
#: Words of prose that programs print behind a number.
_WORDS_BEHIND_NUMBERS = frozenset({"processes", "process", "bytes", "repetitions", "usecs", "additional", "pairs"})


def _numbers(text: str, line: int) -> list[float] | None:
    """Numbers of a line of a table; None if it is something else.

    Raises
    ------
    InputError
        If it begins like a row of numbers and goes on otherwise.
    """
    words = text.split()
    if words and words[-1] == "Pass":
        # OSU with validation.
        words.pop()
    if not words or not re.fullmatch(_NUMBER, words[0]):
        return None
    for word in words:
        if not re.fullmatch(_NUMBER, word):
            if word in _WORDS_BEHIND_NUMBERS:
                return None
            raise InputError(f"holds '{word}' in a row of numbers, expected a number", line=line)
    return [float(word) for word in words]


def _count(text: str, name: str, line: int) -> int:
    """Return a number of processes that a header names."""
    count = int(text) if len(text) <= 9 else 0
    if not 1 <= count <= MOST_PROCESSES:
        raise InputError(f"{name} is {text}, expected 1 to {MOST_PROCESSES:,}", line=line)
    return count


def _nodecomm(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """Blocks of ``n t(1) ... t(k)``: n ints, time of a full round trip, largest over ranks."""
    path, master = "network", 0
    for number, line in enumerate(lines, start=1):
        label, _, ranks = line.partition(":")
        if label in ("master", "partner"):
            first = int(ranks.split(",")[0])
            master, path = (first, path) if label == "master" else (master, f"network+{first - master}")
        values = _numbers(line, number)
        if values and len(values) > 1:
            for k, time in enumerate(values[1:], start=1):
                yield _Reading(number, path, k, _INT_BYTES * values[0], time, "round_trip")


def _benchpress(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """Lines ``Size n t(1) ... t(k)``: n floats, half the round trip, largest over ranks."""
    path = "network"
    for number, line in enumerate(lines, start=1):
        if line.startswith("Timing"):
            path = "gpu" if "GPU" in line else "cpu"
        if line.startswith("Size "):
            values = _numbers(line.removeprefix("Size ").replace(":", " "), number)
            for k, time in enumerate((values or [0])[1:], start=1):
                yield _Reading(number, path, k, _FLOAT_BYTES * (values or [0])[0], time, "one_way")


def _osu(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """OSU micro-benchmarks: latency in us one way, bandwidth in MB/s of a window."""
    title, pairs = "", processes
    for number, line in enumerate(lines, start=1):
        if "# OSU" in line:
            title = line.lower()
            if not re.search(_OSU_TITLES, title):
                raise InputError(
                    f"is '{line.strip('# ')}', expected a latency or bandwidth test between two "
                    "processes or pairs of them",
                    line=number,
                )
        found = re.search(r"\[ *pairs: *(\d+)", line)
        if found:
            pairs = _count(found[1], "pairs", number)
        values = _numbers(line, number)
        if not values or len(values) < 2:
            continue
        if "multi" in title and pairs is None:
            raise InputError("the header does not name the pairs: the number of processes must be given", line=number)
        k = pairs if "multi" in title and pairs else 1
        if "latency" in title:
            yield _Reading(number, "osu_latency", k, values[0], values[1] * 1e-6, "one_way")
        elif "bandwidth" in title:
            if values[1] <= 0:
                raise InputError(f"bandwidth is {values[1]:g} MB/s, expected a positive number", line=number)
            both = 2 if "bi-directional" in title else 1
            path = "osu_bidirectional" if both == 2 else "osu_bandwidth"
            yield _Reading(number, path, k, values[0], both * k * values[0] / (values[1] * 1e6), "windowed")


def _imb(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """Intel MPI Benchmarks: PingPong in us one way, Uniband and Biband in MB/s of all pairs."""
    benchmark, ranks = "", 2
    for number, line in enumerate(lines, start=1):
        found = re.search(r"# Benchmarking (\w+)", line)
        if found:
            benchmark, ranks = found[1].lower(), 2
        found = re.search(r"#processes = (\d+)", line)
        if found:
            ranks = _count(found[1], "#processes", number)
        values = _numbers(line, number)
        if not values or len(values) < 4:
            continue
        pairs = ranks // 2
        if benchmark == "pingpong":
            yield _Reading(number, "imb_pingpong", 1, values[0], values[2] * 1e-6, "one_way")
        elif benchmark in ("uniband", "biband") and values[0] > 0:
            if values[2] <= 0 or pairs < 1:
                raise InputError(f"bandwidth is {values[2]:g} MB/s of {pairs} pairs, expected more", line=number)
            directions = 2 if benchmark == "biband" else 1
            time = directions * pairs * values[0] / (values[2] * 1e6)
            yield _Reading(number, f"imb_{benchmark}", pairs, values[0], time, "windowed")


def _netgauge(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """Netgauge's loggp pattern: PRTT(1, 0, s) in us is a full round trip."""
    for number, line in enumerate(lines, start=1):
        values = _numbers(line, number)
        if values and len(values) >= 5:
            yield _Reading(number, "netgauge", 1, values[0], values[2] * 1e-6, "round_trip")


#: Programs by the text that tells their output, with the parser; the first that fits is taken.
PROGRAMS: dict[str, tuple[str, Callable[[_Lines, int | None], Iterator[_Reading]]]] = {
    "netgauge": ("PRTT(1,0,s)", _netgauge),
    "OSU": ("# OSU", _osu),
    "IMB": ("# Benchmarking ", _imb),
    "BenchPress": ("Ping", _benchpress),
    "nodecomm": ("Pingpong for", _nodecomm),
}
_SIZE_LINE = re.compile(r"^Size \d+:?\s", re.MULTILINE)


def printed_by(program: str, text: str) -> bool:
    """Tell whether a program printed a text."""
    return PROGRAMS[program][0] in text and (program != "BenchPress" or _SIZE_LINE.search(text) is not None)


def read_output(path: Path | str, *, processes: int | None = None) -> pd.DataFrame:
    """Read the output of a benchmark program; which one, the text tells.

    Parameters
    ----------
    path : Path or str
        What nodecomm, BenchPress, osu_latency, osu_bw, osu_mbw_mr, osu_multi_lat, IMB-MPI1
        PingPong, Uniband or Biband, or netgauge's loggp printed.
    processes : int, optional
        Pairs, where the output does not name them.

    Returns
    -------
    pandas.DataFrame
        Columns program, job, path, processes, size_bytes, time_s, convention; one row a
        reading, empty messages left out.

    Raises
    ------
    InputError
        If the file is of no known program or holds a reading that cannot be.
    """
    path = Path(path)
    text = read_text(path)
    program = next((name for name in PROGRAMS if printed_by(name, text)), None)
    if program is None:
        raise InputError(f"is no output of {', '.join(PROGRAMS)} and no CSV that fabricast knows", path=path)
    parse = PROGRAMS[program][1]
    job = re.search(r"Job Id:\s*(\S+)", text)
    rows = []
    try:
        for reading in parse(text.splitlines(), processes):
            if reading.size_bytes == 0:
                continue
            if not (0 < reading.size_bytes <= LARGEST_BYTES and SHORTEST_S <= reading.time_s <= LONGEST_S):
                raise InputError(
                    f"size {reading.size_bytes:g} with time {reading.time_s:g} s, expected positive numbers up to "
                    f"{LARGEST_BYTES:g} bytes and from {SHORTEST_S:g} to {LONGEST_S:g} s",
                    line=reading.line,
                )
            if not 1 <= reading.processes <= MOST_PROCESSES:
                raise InputError(f"{reading.processes} processes, expected 1 to {MOST_PROCESSES:,}", line=reading.line)
            rows.append((program, job[1] if job else path.name, *list(vars(reading).values())[1:]))
    except (InputError, ValueError) as error:
        line, reason = getattr(error, "line", None), getattr(error, "reason", error)
        raise InputError(f"is not as {program} prints it: {reason}", path=path, line=line) from error
    if not rows:
        raise InputError(f"holds no measurements of {program}, expected at least one", path=path)
    return pd.DataFrame(
        rows, columns=["program", "job", "path", "processes", "size_bytes", "time_s", "convention"]
    )  # fmt: skip


def read_measurement_file(path: Path | str, *, processes: int | None = None) -> pd.DataFrame:
    """Read measurements from CSV or from the output of a program, one row a cell.

    Parameters
    ----------
    path : Path or str
        File for `fabricast.maxrate.measurements.read_measurements` if it ends in ``.csv`` or
        ``.parquet``, otherwise for `read_output`.
    processes : int, optional
        Pairs, where the output does not name them.

    Returns
    -------
    pandas.DataFrame
        Columns of the table maxrate_measurement; the time is the median of a cell's readings,
        the spread their range by the median, the data set one a file and path.
    """
    path = Path(path)
    if is_table(path):
        return read_measurements(path)
    readings = read_output(path, processes=processes)
    groups = readings.groupby(["path", "processes", "size_bytes", "convention"], sort=True)["time_s"]
    cells = groups.agg(time_s="median", low="min", high="max", repetitions="count").reset_index()
    return cells.assign(
        dataset=path.stem + "." + cells["path"], system=path.stem, estimator="median",
        spread=(cells["high"] - cells["low"]) / cells["time_s"],
    ).drop(columns=["low", "high"])  # fmt: skip


def write_measurements(
    paths: Sequence[Path], output: Path, *, processes: int | None = None, name: str | None = None
) -> pd.DataFrame:
    """Collect outputs of programs in one CSV file, as one data set, with the digest of each source.

    Parameters
    ----------
    paths : sequence of Path
        Outputs or CSV files.
    output : Path
        CSV file that `fabricast.maxrate.measurements.read_measurements` takes.
    processes : int, optional
        Pairs, where an output does not name them.
    name : str, optional
        Name of the data set; that of the output file if left out. Ways of several kinds, such as
        network and shared memory, are told apart by a second part.

    Returns
    -------
    pandas.DataFrame
        What was written.

    Raises
    ------
    InputError
        If a file is refused, or two files give a time for the same cell.
    """
    for path in paths:
        if not path.is_file():
            raise InputError("is no file, expected files, whose digest is recorded beside the data", path=path)
    frames = [read_measurement_file(path, processes=processes).assign(file=path.name) for path in paths]
    columns = ["dataset", "system", "path", "processes", "size_bytes", "time_s", "convention", "estimator",
               "repetitions", "spread"]  # fmt: skip
    table = pd.concat(frames, ignore_index=True)
    system = name or output.stem
    # Times of one kind are one data set, whatever the number of files: a fit needs several numbers of processes.
    conventions = table.groupby("path")["convention"].transform("nunique")
    way = table["path"].where(conventions == 1, table["path"] + "." + table["convention"])
    table["dataset"] = system if way.nunique() == 1 else system + "." + way
    table["system"] = system
    key = ["dataset", "path", "processes", "size_bytes"]
    repeated = table[table.duplicated(key, keep=False)].sort_values([*key, "file"])
    if len(repeated):
        one, other = repeated.iloc[0], repeated.iloc[1]
        raise InputError(
            f"{one['file']} and {other['file']} both give {one['processes']} processes and {one['size_bytes']:g} "
            "bytes, expected one time for each: leave one out, or collect them under two names"
        )
    table = table.sort_values(["dataset", "processes", "size_bytes"], ignore_index=True)[columns]
    # A newline in a file's name must not end the comment.
    sources = [
        f"# {''.join(c if c.isprintable() else '?' for c in path.name)} "
        f"sha256 {hashlib.sha256(read_bytes(path)).hexdigest()}\n"
        for path in paths
    ]
    write_text(output, "".join(sources) + table.to_csv(index=False, lineterminator="\n"))
    return table
