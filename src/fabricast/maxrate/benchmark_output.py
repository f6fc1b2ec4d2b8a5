"""Readers of benchmark output: nodecomm, BenchPress, OSU, IMB, netgauge, ucx_perftest, perftest.

Each program uses a different time convention. The convention is stored with each time and converted once,
when models are fitted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fabricast.core.errors import InputError
from fabricast.inputs.files import is_table, read_bytes, read_text, write_text
from fabricast.inputs.log_lines import clean_text
from fabricast.inputs.nearest_program import nearest_program
from fabricast.maxrate.measurements import LARGEST_BYTES, LONGEST_S, MOST_PROCESSES, SHORTEST_S, read_measurements
from fabricast.maxrate.readings import Reading, count_of, numbers_of
from fabricast.maxrate.transport_output import read_perftest, read_ucx_perftest

__all__ = [
    "PROGRAMS",
    "check_counts_of_table",
    "printed_by",
    "read_measurement_file",
    "read_output",
    "write_measurements",
]

_INT_BYTES = 4
_FLOAT_BYTES = 4


_Lines = Sequence[str]
#: Supported tests: two processes or several pairs; not collectives or multi-threaded tests.
_OSU_TITLES = r"# osu mpi(-\w+)? (multi |multi-pair |multiple )?(bi-directional )?(latency|bandwidth)\b"


def _nodecomm(lines: _Lines, processes: int | None) -> Iterator[Reading]:
    """Parse rows ``n t(1) ... t(k)``: n ints, full round trip, maximum over ranks."""
    path, master = "network", 0
    for number, line in enumerate(lines, start=1):
        label, _, ranks = line.partition(":")
        if label in ("master", "partner"):
            first = int(ranks.split(",")[0])
            master, path = (first, path) if label == "master" else (master, f"network+{first - master}")
        values = numbers_of(line, number)
        if values and len(values) > 1:
            for k, time in enumerate(values[1:], start=1):
                yield Reading(number, path, k, _INT_BYTES * values[0], time, "round_trip")


def _benchpress(lines: _Lines, processes: int | None) -> Iterator[Reading]:
    """Parse ``Size n t(1) ... t(k)``: n floats, half round trip, maximum over ranks."""
    path = "network"
    for number, line in enumerate(lines, start=1):
        if line.startswith("Timing"):
            path = "gpu" if "GPU" in line else "cpu"
        if line.startswith("Size "):
            values = numbers_of(line.removeprefix("Size ").replace(":", " "), number)
            for k, time in enumerate((values or [0])[1:], start=1):
                yield Reading(number, path, k, _FLOAT_BYTES * (values or [0])[0], time, "one_way")


def _osu(lines: _Lines, processes: int | None) -> Iterator[Reading]:
    """Parse OSU output: one-way latency in us, bandwidth in MB/s over a window."""
    title, pairs = "", processes
    for number, line in enumerate(lines, start=1):
        if "# OSU" in line:
            title = line.lower()
            if not re.search(_OSU_TITLES, title):
                raise InputError(
                    f"test is '{line.strip('# ')}', expected a latency or bandwidth test between two "
                    "processes or several pairs",
                    line=number,
                )
        match = re.search(r"\[ *pairs: *(\d+)", line)
        if match:
            pairs = count_of(match[1], "pairs", number)
        values = numbers_of(line, number)
        if not values or len(values) < 2:
            continue
        if "multi" in title and pairs is None:
            raise InputError("is unspecified, and the header names no pairs", line=number, argument="processes")
        k = pairs if "multi" in title and pairs else 1
        if "latency" in title:
            yield Reading(number, "osu_latency", k, values[0], values[1] * 1e-6, "one_way")
        elif "bandwidth" in title:
            if values[1] <= 0:
                raise InputError(f"bandwidth is {values[1]:g} MB/s, expected a positive number", line=number)
            both = 2 if "bi-directional" in title else 1
            path = "osu_bidirectional" if both == 2 else "osu_bandwidth"
            yield Reading(number, path, k, values[0], both * k * values[0] / (values[1] * 1e6), "windowed")


def _imb(lines: _Lines, processes: int | None) -> Iterator[Reading]:
    """Parse IMB output: one-way PingPong in us, total Uniband and Biband in MB/s."""
    benchmark, ranks = "", 2
    for number, line in enumerate(lines, start=1):
        match = re.search(r"# Benchmarking (\w+)", line)
        if match:
            benchmark, ranks = match[1].lower(), 2
        match = re.search(r"#processes = (\d+)", line)
        if match:
            ranks = count_of(match[1], "#processes", number)
        values = numbers_of(line, number)
        if not values or len(values) < 4:
            continue
        pairs = ranks // 2
        if benchmark not in ("pingpong", "uniband", "biband"):
            raise InputError(
                f"benchmark is '{benchmark}', expected PingPong, Uniband or Biband (-multi 0 Uniband of IMB-MPI1)",
                line=number,
            )
        if benchmark == "pingpong":
            yield Reading(number, "imb_pingpong", 1, values[0], values[2] * 1e-6, "one_way")
        elif benchmark in ("uniband", "biband") and values[0] > 0:
            if values[2] <= 0 or pairs < 1:
                raise InputError(
                    f"bandwidth is {values[2]:g} MB/s of {pairs} pairs, expected above 0 MB/s of 1 pair or more",
                    line=number,
                )
            directions = 2 if benchmark == "biband" else 1
            time = directions * pairs * values[0] / (values[2] * 1e6)
            yield Reading(number, f"imb_{benchmark}", pairs, values[0], time, "windowed")


def _netgauge(lines: _Lines, processes: int | None) -> Iterator[Reading]:
    """Parse netgauge's loggp pattern: PRTT(1, 0, s) is a full round trip in us."""
    for number, line in enumerate(lines, start=1):
        values = numbers_of(line, number)
        if values and len(values) >= 5:
            yield Reading(number, "netgauge", 1, values[0], values[2] * 1e-6, "round_trip")


#: Text that identifies the output of each program, and its parser; the first match is used.
PROGRAMS: dict[str, tuple[str, Callable[[_Lines, int | None], Iterator[Reading]]]] = {
    "netgauge": ("PRTT(1,0,s)", _netgauge),
    "OSU": ("# OSU", _osu),
    "IMB": ("# Benchmarking ", _imb),
    "BenchPress": ("Ping", _benchpress),
    "nodecomm": ("Pingpong for", _nodecomm),
    "ucx_perftest": ("message rate (msg/s)", read_ucx_perftest),
    "perftest": ("#iterations", read_perftest),
}
#: Line at which the output of a program begins, in a file with the output of several programs.
_HEADINGS = {
    "netgauge": re.compile(r"PRTT\(1,0,s\)"),
    "OSU": re.compile(r"# OSU"),
    "IMB": re.compile(r"# Benchmarking "),
    "BenchPress": re.compile(r"^Timing\b"),
    "nodecomm": re.compile(r"Pingpong for"),
    "ucx_perftest": re.compile(r"message rate \(msg/s\)|\bucx_perftest\b"),
    "perftest": re.compile(r"#iterations|\b(?:RDMA_\w+|Send|Atomic\S*) .*(?:BW|Latency) Test|\bib_\w+_(?:lat|bw)\b"),
}
_SIZE_LINE = re.compile(r"^Size \d+:?\s", re.MULTILINE)


def printed_by(program: str, text: str) -> bool:
    """Return whether a text is output of a program."""
    return PROGRAMS[program][0] in text and (program != "BenchPress" or _SIZE_LINE.search(text) is not None)


def read_output(path: Path | str, *, processes: int | None = None, node_pairs: int = 1) -> pd.DataFrame:
    """Read the output of benchmark programs, which are detected from the text; a file may contain several."""
    path = Path(path)
    text = clean_text(read_text(path))
    programs = [name for name in PROGRAMS if printed_by(name, text)]
    if not programs:
        raise InputError(
            f"is neither output of {', '.join(PROGRAMS)} nor a supported CSV file{nearest_program(text)}", path=path
        )
    job = re.search(r"Job Id:\s*(\S+)", text)
    name = job[1] if job else path.name
    lines = _lines_by_program(text.splitlines(), programs)
    rows = [
        (program, name, *list(vars(reading).values())[1:])
        for program in programs
        for reading in _checked(program, lines[program], processes, node_pairs, path)
    ]
    return pd.DataFrame(rows, columns=["program", "job", "path", "processes", "size_bytes", "time_s", "convention"])


def _lines_by_program(lines: _Lines, programs: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines of each program, with empty lines instead of those of others.

    A program's lines end where the heading of another program follows.
    """
    if len(programs) == 1:
        return {programs[0]: list(lines)}
    current, parts = "", {program: [""] * len(lines) for program in programs}
    for number, line in enumerate(lines):
        current = next((program for program in programs if _HEADINGS[program].search(line)), current)
        if current:
            parts[current][number] = line
    return parts


def _checked(program: str, lines: _Lines, processes: int | None, node_pairs: int, path: Path) -> list[Reading]:
    """Return the readings of one program, without empty messages, as processes of one node pair."""
    readings = []
    try:
        for reading in PROGRAMS[program][1](lines, processes):
            if reading.size_bytes == 0:
                continue
            if not (0 < reading.size_bytes <= LARGEST_BYTES and SHORTEST_S <= reading.time_s <= LONGEST_S):
                raise InputError(
                    f"size is {reading.size_bytes:g} and time is {reading.time_s:g} s, expected positive numbers up to "
                    f"{LARGEST_BYTES:g} bytes and from {SHORTEST_S:g} to {LONGEST_S:g} s",
                    line=reading.line,
                )
            if not 1 <= reading.processes <= MOST_PROCESSES:
                raise InputError(
                    f"number of processes is {reading.processes}, expected 1 to {MOST_PROCESSES:,}", line=reading.line
                )
            _check_node_pairs(reading, node_pairs)
            readings.append(replace(reading, processes=reading.processes // node_pairs))
    except InputError as error:
        if error.argument is not None:
            raise InputError(error.reason, path=path, line=error.line, argument=error.argument) from error
        raise InputError(f"is not valid {program} output: {error.reason}", path=path, line=error.line) from error
    except ValueError as error:
        raise InputError(f"is not valid {program} output: {error}", path=path) from error
    if not readings:
        raise InputError(f"contains no measurements of {program}, expected at least one", path=path)
    return readings


def _check_node_pairs(reading: Reading, node_pairs: int) -> None:
    if reading.processes % node_pairs:
        raise InputError(
            f"is {node_pairs}, expected a divisor of the {reading.processes} pairs of processes",
            line=reading.line,
            argument="node_pairs",
        )


def check_counts_of_table(processes: int | None, node_pairs: int) -> None:
    """Refuse numbers of processes and node pairs with a table, whose column counts the processes of one node."""
    for argument, is_specified in (("processes", processes is not None), ("node_pairs", node_pairs != 1)):
        if is_specified:
            raise InputError(
                "is only for the output of benchmarks; the column processes of a table counts the processes of a node",
                argument=argument,
            )


def read_measurement_file(path: Path | str, *, processes: int | None = None, node_pairs: int = 1) -> pd.DataFrame:
    """Read measurements from CSV, Parquet or benchmark output, one row per cell."""
    path = Path(path)
    if is_table(path):
        check_counts_of_table(processes, node_pairs)
        return read_measurements(path)
    readings = read_output(path, processes=processes, node_pairs=node_pairs)
    groups = readings.groupby(["path", "processes", "size_bytes", "convention"], sort=True)["time_s"]
    cells = groups.agg(time_s="median", low="min", high="max", repetitions="count").reset_index()
    return cells.assign(
        dataset=path.stem + "." + cells["path"],
        system=path.stem,
        estimator="median",
        spread=(cells["high"] - cells["low"]) / cells["time_s"],
    ).drop(columns=["low", "high"])


def write_measurements(
    paths: Sequence[Path], output: Path, *, processes: int | None = None, node_pairs: int = 1, name: str | None = None
) -> pd.DataFrame:
    """Collect benchmark outputs in one CSV file with the digest of each source."""
    for path in paths:
        if not path.is_file():
            raise InputError("is not a file, expected a regular file to record its digest", path=path)
    frames = [
        read_measurement_file(path, processes=processes, node_pairs=node_pairs).assign(file=path.name) for path in paths
    ]
    columns = [
        "dataset",
        "system",
        "path",
        "processes",
        "size_bytes",
        "time_s",
        "convention",
        "estimator",
        "repetitions",
        "spread",
    ]
    table = pd.concat(frames, ignore_index=True)
    system = name or output.stem
    # Times of one path and convention are one data set, even from several files: a fit needs several process counts.
    conventions = table.groupby("path")["convention"].transform("nunique")
    path_class = table["path"].where(conventions == 1, table["path"] + "." + table["convention"])
    table["dataset"] = system if path_class.nunique() == 1 else system + "." + path_class
    table["system"] = system
    key = ["dataset", "path", "processes", "size_bytes"]
    repeated = table[table.duplicated(key, keep=False)].sort_values([*key, "file"])
    if len(repeated):
        first, second = repeated.iloc[0], repeated.iloc[1]
        raise InputError(
            f"{first['file']} and {second['file']} both contain {first['processes']} processes and "
            f"{first['size_bytes']:g} bytes, expected one time per cell; exclude a file or collect them under two names"
        )
    table = table.sort_values(["dataset", "processes", "size_bytes"], ignore_index=True)[columns]
    # A newline in a file name must not terminate the comment.
    sources = [
        f"# {''.join(c if c.isprintable() else '?' for c in path.name)} "
        f"sha256 {hashlib.sha256(read_bytes(path)).hexdigest()}\n"
        for path in paths
    ]
    write_text(output, "".join(sources) + table.to_csv(index=False, lineterminator="\n"))
    return table
