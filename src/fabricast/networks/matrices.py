"""Readers of communication matrices (bytes between ranks)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.csv_columns import csv_columns
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.inputs.files import read_bytes, read_text
from fabricast.inputs.log_lines import clean_text
from fabricast.inputs.parquet_files import ParquetRow, parquet_row, read_parquet

_PAIRS = ("source", "target", "size_bytes")
#: Largest number of ranks.
LARGEST_TASKS = 2**22
#: Largest number of ranks of a dense matrix; larger matrices must be lists of pairs.
_LARGEST_MATRIX = 8192
_LARGEST_PAIRS = 20_000_000
#: Larger values are rejected as typing errors.
_LARGEST_BYTES = 1e18
#: Row of Open MPI's monitoring: kind, rank, other rank, bytes.
_MONITORED = re.compile(r"^([EISR])\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,19}) bytes", re.MULTILINE)


def read_matrix(path: Path | str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Read bytes between ranks from CSV, Parquet or MatrixMarket."""
    path = Path(path)
    if path.is_dir() or path.suffix.lower() == ".prof":
        return _read_monitoring(path)
    if path.suffix.lower() == ".mtx":
        return _read_matrix_market(path)
    if path.suffix.lower() == ".parquet":
        table = read_parquet(path, required_numbers=_PAIRS, most_rows=_LARGEST_PAIRS)
        return _of_pairs(path, table, lambda number: parquet_row(path, table, number))
    text = read_text(path, strict=True)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and "source" in lines[0]:
        table = csv_columns(path, text, _PAIRS, numbers=_PAIRS)
        return _of_pairs(path, table, lambda number: read_csv(path, _PAIRS, text=text)[number])
    # CommBench separates numbers by blanks, other programs by commas.
    separator = "," if lines and "," in lines[0] else None
    widths = sorted({len(line.split(separator)) for line in lines[:_LARGEST_MATRIX]})
    if len(lines) > _LARGEST_MATRIX or widths != [len(lines)]:
        raise InputError(
            f"has {len(lines):,} rows of {', '.join(map(str, widths[:3]))} numbers, expected a square matrix of at "
            f"most {_LARGEST_MATRIX:,} ranks, or the header source,target,size_bytes",
            path=path,
        )
    if any("_" in line for line in lines):
        raise InputError("is not a matrix of numbers: contains '_'", path=path)
    try:
        dense = np.array([line.split(separator) for line in lines], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"is not a matrix of numbers: {error}", path=path) from error
    source, target = np.nonzero(dense)
    return _communication(source.astype(np.int64), target.astype(np.int64), dense[source, target], len(dense), path)


def _of_pairs(
    path: Path, table: pd.DataFrame, row_of: Callable[[int], CsvRow | ParquetRow]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Return the pairs that communicate; `row_of` returns a row of the file for the message about the first error."""
    if table.empty:
        raise InputError("contains no rows, expected at least one", path=path)
    pairs = table[list(_PAIRS)].to_numpy(dtype=np.float64)
    invalid = _wrong(pairs)
    if invalid.any():
        row = row_of(int(np.argmax(invalid)))
        for name in _PAIRS:
            row.number(name)
        raise row.error(
            f"expected ranks that are whole numbers from 0 to {LARGEST_TASKS - 1:,}, and 0 to {_LARGEST_BYTES:g} bytes"
        )
    source, target = pairs[:, :2].astype(np.int64).T
    return _communication(source, target, pairs[:, 2], int(pairs[:, :2].max()) + 1, path)


def _wrong(pairs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the rows with invalid ranks or bytes."""
    ranks, size = pairs[:, :2], pairs[:, 2]
    whole = (ranks >= 0) & (ranks == np.round(ranks)) & (ranks < LARGEST_TASKS)
    wrong: NDArray[np.bool_] = ~(whole.all(axis=1) & (size >= 0) & (size <= _LARGEST_BYTES))
    return wrong


def _read_monitoring(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Read messages that Open MPI's monitoring counted (pml_monitoring_enable_output 3).

    Messages of the application (E), of collective operations (I) and of one-sided sends (S) go to the second rank;
    one-sided receives (R) come from it. Rows of whole collective operations repeat the rows of their messages.
    """
    files = sorted(path.glob("*.prof")) if path.is_dir() else [path]
    if not files:
        raise InputError("has no .prof file, expected one per rank (pml_monitoring_enable_output is 3)", path=path)
    if path.is_dir():
        _check_ranks(files, path)
    parts = []
    for file in files:
        rows = _MONITORED.findall(clean_text(read_text(file)))
        if not rows and not path.is_dir():
            raise InputError("has no row such as 'E 0 1 1012 bytes 30 msgs sent'", path=file)
        parts += [(to, by, size) if kind == "R" else (by, to, size) for kind, by, to, size in rows]
    pairs = np.array(parts, dtype=np.float64).reshape(-1, 3)
    if not len(pairs) or _wrong(pairs).any():
        raise InputError(f"has no messages, ranks above {LARGEST_TASKS - 1:,} or too many bytes", path=path)
    ranks = max(int(pairs[:, :2].max()) + 1, len(files))
    together, place = np.unique(pairs[:, :2].astype(np.int64), axis=0, return_inverse=True)
    size = np.bincount(place.reshape(-1), weights=pairs[:, 2]).astype(np.float64)
    return _communication(together[:, 0], together[:, 1], size, ranks, path)


def _check_ranks(files: Sequence[Path], path: Path) -> None:
    """Check that each rank has a file, such as ``name.0.prof``."""
    ranks = {match[1] for file in files if (match := re.search(r"\.(\d{1,7})\.prof$", file.name))}
    missing = next((rank for rank in range(len(files)) if str(rank) not in ranks), None)
    if missing is not None:
        raise InputError(f"has {len(files)} .prof files, but none of rank {missing} (name.{missing}.prof)", path=path)


def _read_matrix_market(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    # Imported here to keep the start of Snakemake fast.
    from scipy.io import mminfo, mmread
    from scipy.sparse import coo_array

    content = read_bytes(path)
    try:
        rows, columns, entries, _, field, _ = mminfo(io.BytesIO(content))
        if rows != columns:
            raise InputError(f"has the shape {rows:,} x {columns:,}, expected as many columns as rows", path=path)
        if field in ("complex", "pattern"):
            raise InputError(f"is a {field} matrix, expected real or integer bytes", path=path)
        dense = content[:200].split(b"\n")[0].split()[2:3] == [b"array"]
        if rows > (_LARGEST_MATRIX if dense else LARGEST_TASKS) or entries > _LARGEST_PAIRS:
            raise InputError(
                f"declares {rows:,} ranks with {entries:,} entries, expected at most "
                f"{_LARGEST_MATRIX if dense else LARGEST_TASKS:,} ranks and {_LARGEST_PAIRS:,} entries",
                path=path,
            )
        matrix = coo_array(mmread(io.BytesIO(content)))
        size = matrix.data.astype(np.float64)
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError, LookupError, MemoryError) as error:
        raise InputError(f"is not a MatrixMarket file: {error or type(error).__name__}", path=path) from error
    source, target = (ends.astype(np.int64) for ends in matrix.coords)
    return _communication(source, target, size, int(rows), path)


def _communication(
    source: NDArray[np.int64], target: NDArray[np.int64], size: NDArray[np.float64], ranks: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Validate the bytes and return the pairs of different ranks."""
    if not ((size >= 0) & (size <= _LARGEST_BYTES)).all():
        raise InputError(f"contains bytes that are negative, missing or above {_LARGEST_BYTES:g}", path=path)
    return _without_self(source, target, size, ranks, path)


def _without_self(
    source: NDArray[np.int64], target: NDArray[np.int64], size: NDArray[np.float64], ranks: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    keep = (source != target) & (size > 0)
    if not keep.any():
        raise InputError("contains no messages between different ranks", path=path)
    return source[keep], target[keep], size[keep], ranks
