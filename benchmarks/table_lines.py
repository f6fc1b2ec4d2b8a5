"""Benchmark B11: reading of large tables and prediction of large files.

The peers only read; they do not validate rows or number names. The command reads, validates, evaluates, explains and
writes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.clocks import cpu_seconds
from fabricast.maxrate.measurements import read_measurements
from fabricast.networks.matrices import read_matrix
from fabricast.pcie.graphs.files import graph_blocks
from fabricast.pcie.topology.builtin import load_tree
from fabricast.results.connections import connect

__all__ = ["table_lines"]

ROUNDS = 3
GRAPHS, MOST_COPIES = 300_000, 14
PAIRS, RANKS, CELLS = 1_000_000, 4096, 1_000_000
REPOSITORY = Path(__file__).parents[1]
#: Program that runs the command in a separate process and prints its peak memory as the last line.
COMMAND = """
import sys
from benchmarks.clocks import peak_mb
from fabricast.cli.main import app
app(["predict", "storm8", "--model", "back_pressure", *sys.argv[1:]], standalone_mode=False)
print(f"{peak_mb():.0f} MB")
"""


def write_graphs(folder: Path) -> int:
    """Write graphs of 2 to 13 copies as CSV and Parquet; return the number of copies."""
    generator = np.random.default_rng(1)
    copies = generator.integers(2, MOST_COPIES, size=GRAPHS)
    source = generator.integers(0, 8, size=copies.sum())
    target = (source + generator.integers(1, 8, size=source.size)) % 8
    names = np.repeat(np.array([f"g{number}" for number in range(GRAPHS)], dtype=object), copies)
    table = pd.DataFrame({"graph": names, "source": source.astype(str), "target": target.astype(str)})
    _write(table, folder / "graphs")
    return len(table)


def write_pairs(folder: Path) -> int:
    """Write bytes between pairs of ranks as CSV and Parquet; return the number of rows."""
    generator = np.random.default_rng(2)
    source = generator.integers(0, RANKS, size=PAIRS)
    target = (source + generator.integers(1, RANKS, size=PAIRS)) % RANKS
    size = 1024.0 * generator.integers(1, 9, size=PAIRS)
    _write(pd.DataFrame({"source": source, "target": target, "size_bytes": size}), folder / "pairs")
    return PAIRS


def write_cells(folder: Path) -> int:
    """Write message times as CSV and Parquet; return the number of rows."""
    number = np.arange(CELLS)
    table = {
        "dataset": np.array([f"d{set_of}" for set_of in number // 400], dtype=object),
        "processes": 1 + number % 20,
        "size_bytes": 2 ** (number // 20 % 20),
        "time_s": 1e-6 * (1 + number % 7),
    }
    _write(pd.DataFrame(table), folder / "cells")
    return CELLS


def _write(table: pd.DataFrame, path: Path) -> None:
    with connect() as connection:
        relation = connection.from_df(table)
        relation.write_csv(f"{path}.csv")
        relation.write_parquet(f"{path}.parquet")


def read_graphs_by_us(path: Path) -> None:
    """Read, validate and number all graphs."""
    for _ in graph_blocks(path, load_tree("storm8"), size_bytes=1.0).blocks:
        pass


def read_by_pandas(path: Path) -> None:
    """Read the columns as text."""
    pd.read_csv(path, dtype=str)


def read_by_duckdb(path: Path) -> None:
    """Read the columns into a data frame with one thread."""
    with connect() as connection:
        connection.execute("SET threads = 1")
        connection.read_parquet(str(path)).df()


def predicted(folder: Path, name: str, *options: str) -> tuple[float, str]:
    """Return wall-clock seconds and peak memory of ``fabricast predict`` on a file of graphs."""
    command = [sys.executable, "-c", COMMAND, str(folder / name), "-o", str(folder / "times.parquet"), *options]
    started = time.perf_counter()
    printed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    return time.perf_counter() - started, printed.splitlines()[-1]


def table_lines(line: Callable[..., dict[str, object]]) -> Iterator[dict[str, object]]:
    """Measure B11: reading CSV and Parquet files, and the whole command."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        read: dict[str, tuple[int, Callable[[Path], object]]] = {
            "graphs": (write_graphs(folder), read_graphs_by_us),
            "pairs": (write_pairs(folder), read_matrix),
            "cells": (write_cells(folder), read_measurements),
        }
        for name, (rows, by_us) in read.items():
            for suffix, peer, by_peer in (
                (".csv", "pandas, texts only", read_by_pandas),
                (".parquet", "DuckDB, frame only", read_by_duckdb),
            ):
                path = (folder / name).with_suffix(suffix)
                by_us(path)
                times: dict[Callable[[Path], object], list[float]] = {by_us: [], by_peer: []}
                for _ in range(ROUNDS):
                    for work, seconds_of_rounds in times.items():
                        seconds_of_rounds.append(cpu_seconds(partial(work, path)))
                what = f"read {rows / 1e6:.2f} M rows of {suffix[1:]} ({name}), 1 core"
                yield line("B11", what, times[by_us], peer, times[by_peer])
        for called in (("graphs.csv",), ("graphs.parquet",), ("graphs.csv", "--no-explain")):
            runs = [predicted(folder, *called) for _ in range(ROUNDS)]
            what = f"predict {' '.join(called)}, whole command, {runs[-1][1]}, wall"
            yield line("B11", what, [seconds for seconds, _ in runs])
