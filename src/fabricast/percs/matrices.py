"""Bytes between ranks, from the users' matrices and lists."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.csv_columns import csv_columns
from fabricast.inputs.csv_files import CsvRow, read_csv
from fabricast.inputs.files import read_bytes, read_text
from fabricast.inputs.parquet_files import ParquetRow, parquet_rows, read_parquet
from fabricast.percs.workloads import LARGEST_TASKS

__all__ = ["read_matrix"]

_PAIRS = ("source", "target", "size_bytes")
#: Ranks of a dense matrix; larger ones are given as pairs.
_LARGEST_MATRIX = 8192
_LARGEST_PAIRS = 20_000_000
#: More bytes between two ranks are a typing error.
_LARGEST_BYTES = 1e18


def read_matrix(path: Path | str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Read bytes between ranks from a square CSV matrix, a CSV or Parquet list, or MatrixMarket.

    Parameters
    ----------
    path : Path or str
        ``.mtx``; or one row of numbers a rank, with commas or blanks; or CSV with the header
        ``source,target,size_bytes``, or ``.parquet`` with these columns.

    Returns
    -------
    (ndarray of int64, ndarray of int64, ndarray of float64, int)
        Source, target and bytes of every pair that communicates, and the number of ranks.

    Raises
    ------
    InputError
        If the file is not as expected.
    """
    path = Path(path)
    if path.suffix.lower() == ".mtx":
        return _read_matrix_market(path)
    if path.suffix.lower() == ".parquet":
        table = read_parquet(path, required_numbers=_PAIRS, most_rows=_LARGEST_PAIRS)
        return _of_pairs(path, table, lambda: parquet_rows(path, table))
    text = read_text(path, strict=True)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and "source" in lines[0]:
        return _of_pairs(path, csv_columns(text, _PAIRS, numbers=_PAIRS), lambda: read_csv(path, _PAIRS, text=text))
    # CommBench prints rows of numbers with blanks between, others commas.
    separator = "," if lines and "," in lines[0] else None
    widths = sorted({len(line.split(separator)) for line in lines[:_LARGEST_MATRIX]})
    if len(lines) > _LARGEST_MATRIX or widths != [len(lines)]:
        raise InputError(
            f"has {len(lines):,} rows of {', '.join(map(str, widths[:3]))} numbers, expected a square matrix of at "
            f"most {_LARGEST_MATRIX:,} ranks, or the header source,target,size_bytes",
            path=path,
        )
    if any("_" in line for line in lines):
        raise InputError("is no matrix of numbers: holds '_'", path=path)
    try:
        dense = np.array([line.split(separator) for line in lines], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"is no matrix of numbers: {error}", path=path) from error
    source, target = np.nonzero(dense)
    return _communication(source.astype(np.int64), target.astype(np.int64), dense[source, target], len(dense), path)


def _of_pairs(
    path: Path, table: pd.DataFrame | None, rows: Callable[[], Iterable[CsvRow | ParquetRow]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Return what is sent, from columns; row by row only to read what is unusual, or to name the first wrong row."""
    pairs = None if table is None else table[list(_PAIRS)].to_numpy(dtype=np.float64)
    if pairs is None or not len(pairs) or _wrong(pairs).any():
        listed = list(rows())
        if not listed:
            raise InputError("holds no rows, expected at least one", path=path)
        pairs = np.array([[row.number(name) for name in _PAIRS] for row in listed])
        wrong = _wrong(pairs)
        if wrong.any():
            raise listed[int(np.argmax(wrong))].error(
                f"expected ranks that are whole numbers from 0 to {LARGEST_TASKS - 1:,}, and 0 to {_LARGEST_BYTES:g} "
                "bytes"
            )
    source, target = pairs[:, :2].astype(np.int64).T
    return _communication(source, target, pairs[:, 2], int(pairs[:, :2].max()) + 1, path)


def _wrong(pairs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows are no pair of ranks and bytes."""
    ends, size = pairs[:, :2], pairs[:, 2]
    whole = (ends >= 0) & (ends == np.round(ends)) & (ends < LARGEST_TASKS)
    wrong: NDArray[np.bool_] = ~(whole.all(axis=1) & (size >= 0) & (size <= _LARGEST_BYTES))
    return wrong


def _read_matrix_market(
    path: Path,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    # Here, as every start of Snakemake would wait for it.
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
        raise InputError(f"is no MatrixMarket file: {error or type(error).__name__}", path=path) from error
    source, target = (ends.astype(np.int64) for ends in matrix.coords)
    return _communication(source, target, size, int(rows), path)


def _communication(
    source: NDArray[np.int64], target: NDArray[np.int64], size: NDArray[np.float64], ranks: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    """Return what is sent between different ranks, once it is checked."""
    if not ((size >= 0) & (size <= _LARGEST_BYTES)).all():
        raise InputError(f"holds bytes that are negative, missing or beyond {_LARGEST_BYTES:g}", path=path)
    return _without_self(source, target, size, ranks, path)


def _without_self(
    source: NDArray[np.int64], target: NDArray[np.int64], size: NDArray[np.float64], ranks: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:
    keep = (source != target) & (size > 0)
    if not keep.any():
        raise InputError("holds no communication between different ranks", path=path)
    return source[keep], target[keep], size[keep], ranks
