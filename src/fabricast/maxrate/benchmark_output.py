"""Measurements from what benchmark programs print: nodecomm, BenchPress, OSU, IMB, netgauge.

Every program has its own convention of time; it is stored beside the number and converted
once, where models are fitted.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.errors import InputError
from fabricast.files import read_text, whole_file
from fabricast.maxrate.measurements import read_measurements

__all__ = ["PROGRAMS", "read_measurement_file", "read_output", "write_measurements"]

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


def _numbers(text: str) -> list[float] | None:
    """Numbers of a line of a table; None if it is something else."""
    try:
        return [float(word) for word in text.split()]
    except ValueError:
        return None


def _nodecomm(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """Blocks of ``n t(1) ... t(k)``: n ints, time of a full round trip, largest over ranks."""
    path, master = "network", 0
    for number, line in enumerate(lines, start=1):
        label, _, ranks = line.partition(":")
        if label in ("master", "partner"):
            first = int(ranks.split(",")[0])
            master, path = (first, path) if label == "master" else (master, f"network+{first - master}")
        values = _numbers(line)
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
            values = _numbers(line.removeprefix("Size ").replace(":", " "))
            for k, time in enumerate((values or [0])[1:], start=1):
                yield _Reading(number, path, k, _FLOAT_BYTES * (values or [0])[0], time, "one_way")


def _osu(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """OSU micro-benchmarks: latency in us one way, bandwidth in MB/s of a window."""
    title, pairs = "", processes
    for number, line in enumerate(lines, start=1):
        if "# OSU" in line:
            title = line.lower()
        found = re.search(r"\[ *pairs: *(\d+)", line)
        if found:
            pairs = int(found[1])
        values = _numbers(line)
        if not values or len(values) < 2:
            continue
        if "multi" in title and pairs is None:
            raise InputError("the header does not name the pairs; expected the option --processes", line=number)
        k = pairs if "multi" in title and pairs else 1
        if "latency" in title:
            yield _Reading(number, "osu_latency", k, values[0], values[1] * 1e-6, "one_way")
        elif "bandwidth" in title and values[1] > 0:
            yield _Reading(number, "osu_bandwidth", k, values[0], k * values[0] / (values[1] * 1e6), "windowed")


def _imb(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """Intel MPI Benchmarks: PingPong in us one way, Uniband and Biband in MB/s of all pairs."""
    benchmark, ranks = "", 2
    for number, line in enumerate(lines, start=1):
        found = re.search(r"# Benchmarking (\w+)", line)
        if found:
            benchmark, ranks = found[1].lower(), 2
        found = re.search(r"#processes = (\d+)", line)
        if found:
            ranks = int(found[1])
        values = _numbers(line)
        if not values or len(values) < 4:
            continue
        pairs = ranks // 2
        if benchmark == "pingpong":
            yield _Reading(number, "imb_pingpong", 1, values[0], values[2] * 1e-6, "one_way")
        elif benchmark in ("uniband", "biband") and values[2] > 0:
            directions = 2 if benchmark == "biband" else 1
            time = directions * pairs * values[0] / (values[2] * 1e6)
            yield _Reading(number, f"imb_{benchmark}", pairs, values[0], time, "windowed")


def _netgauge(lines: _Lines, processes: int | None) -> Iterator[_Reading]:
    """Netgauge's loggp pattern: PRTT(1, 0, s) in us is a full round trip."""
    for number, line in enumerate(lines, start=1):
        values = _numbers(line)
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


def _printed_by(program: str, text: str) -> bool:
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
    program = next((name for name in PROGRAMS if _printed_by(name, text)), None)
    if program is None:
        raise InputError(f"is no output of {', '.join(PROGRAMS)} and no CSV that fabricast knows", path=path)
    parse = PROGRAMS[program][1]
    job = re.search(r"Job Id:\s*(\S+)", text)
    rows = []
    try:
        for reading in parse(text.splitlines(), processes):
            if reading.size_bytes == 0:
                continue
            if not (reading.size_bytes > 0 and 0 < reading.time_s < math.inf and reading.processes >= 1):
                raise InputError(
                    f"size {reading.size_bytes:g} with time {reading.time_s:g} s, expected positive numbers",
                    line=reading.line,
                )
            rows.append((program, job[1] if job else path.name, *list(vars(reading).values())[1:]))
    except (InputError, ValueError) as error:
        raise InputError(f"is not as {program} prints it: {error}", path=path) from error
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
        File for `fabricast.maxrate.measurements.read_measurements` if it ends in ``.csv``,
        otherwise for `read_output`.
    processes : int, optional
        Pairs, where the output does not name them.

    Returns
    -------
    pandas.DataFrame
        Columns of the table maxrate_measurement; the time is the median of a cell's readings,
        the spread their range by the median, the data set one a file and path.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        return read_measurements(path)
    readings = read_output(path, processes=processes)
    groups = readings.groupby(["path", "processes", "size_bytes", "convention"], sort=True)["time_s"]
    cells = groups.agg(time_s="median", low="min", high="max", repetitions="count").reset_index()
    return cells.assign(
        dataset=path.stem + "." + cells["path"], system=path.stem, estimator="median",
        spread=(cells["high"] - cells["low"]) / cells["time_s"],
    ).drop(columns=["low", "high"])  # fmt: skip


def write_measurements(paths: Sequence[Path], output: Path, *, processes: int | None = None) -> int:
    """Collect outputs of programs in one CSV file, with the digest of each source.

    Parameters
    ----------
    paths : sequence of Path
        Outputs or CSV files.
    output : Path
        CSV file that `fabricast.maxrate.measurements.read_measurements` takes.
    processes : int, optional
        Pairs, where an output does not name them.

    Returns
    -------
    int
        Cells written.
    """
    frames = [read_measurement_file(path, processes=processes) for path in paths]
    columns = ["dataset", "system", "path", "processes", "size_bytes", "time_s", "convention", "estimator",
               "repetitions", "spread"]  # fmt: skip
    table = pd.concat(frames, ignore_index=True)[columns]
    repeated = table.duplicated(["dataset", "system", "path", "processes", "size_bytes"])
    if repeated.any():
        raise InputError(f"two files hold the data set '{table['dataset'][repeated].iloc[0]}', expected other names")
    with whole_file(output) as temporary:
        head = [f"# {path.name} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in paths]
        temporary.write_text("".join(head) + table.to_csv(index=False, lineterminator="\n"), encoding="utf-8")
    return len(table)
