"""User tables in Parquet, as columns; rows for messages about the first bad value."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fabricast.core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


@dataclass(frozen=True)
class ParquetRow:
    """A row of a Parquet file, with the same interface as a CSV row."""

    path: Path  # File
    line: int  # Row number, counted from 1
    values: Mapping[str, object]  # Value by column name

    def __contains__(self, column: str) -> bool:
        """Return whether the file has a column."""
        return column in self.values

    def __getitem__(self, column: str) -> str:
        """Return a value as text; empty if it is missing."""
        value = self.values[column]
        return "" if value is None or value != value else str(value).strip()

    def get(self, column: str, default: str = "") -> str:
        """Return the text of a column, or a default if the file lacks the column."""
        return self[column] if column in self.values else default

    def number(self, column: str, *, default: float | None = None) -> float:
        """Return the finite number in a column; the default if it is missing or empty."""
        if default is not None and not self.get(column):
            return default
        try:
            value = float(self[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(f"{column} is '{self[column]}', expected a number")
        return value

    def error(self, message: str) -> InputError:
        """Return the error that rejects this row, with file and row number."""
        return InputError(f"row {self.line}: {message}", path=self.path)


def read_parquet(
    path: Path | str,
    texts: Iterable[str] = (),
    numbers: Iterable[str] = (),
    other_texts: Iterable[str] = (),
    *,
    required_numbers: Iterable[str] = (),
    most_rows: int | None = None,
) -> pd.DataFrame:
    """Read a Parquet file."""
    texts, other_texts, required = list(texts), list(other_texts), list(required_numbers)
    with _opened(path) as file:
        rows = file.metadata.num_rows
        if most_rows is not None and rows > most_rows:
            raise InputError(f"contains {rows:,} rows, expected at most {most_rows:,}", path=path)
        if not (texts or required):
            nested = next((field for field in file.schema_arrow if _is_nested(field.type)), None)
            if nested is not None:
                raise InputError(
                    f"column '{nested.name}' is of type {nested.type}, expected texts or numbers", path=path
                )
            with _naming(path):
                whole: pd.DataFrame = file.read().to_pandas(types_mapper=None)
            return whole
        columns = _Columns(path, file.schema_arrow, texts, [*required, *numbers], other_texts, required)
        with _naming(path):
            table = file.read(columns=columns.names)
        return columns.frame(table)


def parquet_table(
    path: Path | str, is_wanted: Callable[[list[str]], bool], most_rows: int
) -> tuple[list[str], pd.DataFrame | None]:
    """Return the names of the columns, and the table if it is wanted by these names."""
    with _opened(path) as file:
        names = list(file.schema_arrow.names)
        if not is_wanted(names):
            return names, None
        rows = file.metadata.num_rows
        if rows > most_rows:
            raise InputError(f"contains {rows:,} rows, expected at most {most_rows:,}", path=path)
        nested = next((field for field in file.schema_arrow if _is_nested(field.type)), None)
        if nested is not None:
            raise InputError(f"column '{nested.name}' is of type {nested.type}, expected texts or numbers", path=path)
        with _naming(path):
            whole: pd.DataFrame = file.read().to_pandas(types_mapper=None)
        return names, whole


def parquet_row_count(path: Path | str) -> int:
    """Return the number of rows of a Parquet file."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def parquet_blocks(
    path: Path | str, texts: Sequence[str], numbers: Sequence[str], other_texts: Sequence[str], block_rows: int
) -> tuple[int, Iterator[pd.DataFrame]]:
    """Read a Parquet file in blocks of rows."""
    file = _open(path)
    columns = _Columns(path, file.schema_arrow, list(texts), list(numbers), list(other_texts))

    def blocks() -> Iterator[pd.DataFrame]:
        first = 0
        with file:
            batches = file.iter_batches(batch_size=block_rows, columns=columns.names)
            while True:
                with _naming(path):
                    batch = next(batches, None)
                if batch is None:
                    return
                table = columns.frame(batch)
                yield table.set_index(pd.RangeIndex(first, first + len(table)))
                first += len(table)

    return file.metadata.num_rows, blocks()


def _open(path: Path | str) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    _check_is_file(path)
    with _naming(path):
        return pq.ParquetFile(path)


@contextmanager
def _opened(path: Path | str) -> Iterator[pq.ParquetFile]:
    with _open(path) as file:
        yield file


@contextmanager
def _naming(path: Path | str) -> Iterator[None]:
    """Re-raise read errors as `InputError` naming the file."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [repr(error)])[0]
        raise InputError(f"is not a readable Parquet file ({reason})", path=path) from error


def _check_is_file(path: Path | str) -> None:
    if not Path(path).is_file():
        if Path(path).exists() and not Path(path).is_dir():
            raise InputError("is a pipe or device, expected a file", path=path)
        problem = errno.EISDIR if Path(path).is_dir() else errno.ENOENT
        raise InputError(f"cannot be read: {os.strerror(problem)}", path=path)


class _Columns:
    """Requested columns of a file, and their conversion to categories and float64."""

    def __init__(
        self,
        path: Path | str,
        schema: pa.Schema,
        texts: list[str],
        numbers: list[str],
        other_texts: list[str],
        required: Sequence[str] = (),
    ) -> None:
        kinds = {field.name: field.type for field in schema}
        _check_columns(path, kinds, texts, numbers, other_texts, required)
        self._path = path
        self._texts = [name for name in (*texts, *other_texts) if name in kinds]
        self.names = [*self._texts, *(name for name in numbers if name in kinds)]

    def frame(self, table: pa.Table | pa.RecordBatch) -> pd.DataFrame:
        """Convert rows to columns: texts to categories in order of first row, numbers to float64."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns: dict[str, Any] = {}
        with _naming(self._path):
            for name in self.names:
                column = table.column(name)
                if name in self._texts:
                    # As in CSV, blanks around a text do not count.
                    columns[name] = _categories(pc.utf8_trim_whitespace(pc.fill_null(column.cast(pa.string()), "")))
                else:
                    _check_numbers(column, name)
                    columns[name] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return pd.DataFrame(columns, copy=False)


def _check_numbers(column: pa.Array | pa.ChunkedArray, name: str) -> None:
    """Reject NaN, which is not a missing value: a column may have a default for missing values."""
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        raise InputError(f"column '{name}' contains NaN, expected numbers or missing values")


def _categories(column: pa.Array | pa.ChunkedArray) -> pd.Categorical:
    import pyarrow as pa

    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    different = pd.Index(encoded.dictionary.to_pylist(), dtype=object)
    return pd.Categorical.from_codes(encoded.indices.to_numpy(zero_copy_only=False), different, validate=False)


def _check_columns(
    path: Path | str,
    kinds: Mapping[str, pa.DataType],
    texts: list[str],
    numbers: list[str],
    other_texts: list[str],
    required: Sequence[str],
) -> None:
    more = [name for name in (*numbers, *other_texts) if name not in required]
    expected = ", ".join([*texts, *required, *(f"[{name}]" for name in more)])
    missing = [name for name in (*texts, *required) if name not in kinds]
    unknown = [name for name in kinds if name not in (*texts, *numbers, *other_texts)]
    if missing or unknown:
        what = f"lacks the column '{missing[0]}'" if missing else f"has the unknown column '{unknown[0]}'"
        raise InputError(f"{what}, expected {expected}", path=path)
    wrong = [name for name in numbers if name in kinds and not _is_number(kinds[name])]
    wrong += [name for name in (*texts, *other_texts) if name in kinds and _is_nested(kinds[name])]
    if wrong:
        expected = "numbers" if wrong[0] in numbers else "texts or numbers"
        raise InputError(f"column '{wrong[0]}' is of type {kinds[wrong[0]]}, expected {expected}", path=path)


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind))


def _is_nested(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind))


def parquet_row(path: Path | str, table: pd.DataFrame, number: int) -> ParquetRow:
    """Return one row of a table that `read_parquet` or `parquet_blocks` returned, counted from 0 within the table."""
    values = table.iloc[number]
    return ParquetRow(Path(path), 1 + int(table.index[number]), {str(name): values[name] for name in table.columns})


def parquet_rows(path: Path | str, table: pd.DataFrame) -> Iterator[ParquetRow]:
    """Yield the rows of a table that `read_parquet` or `parquet_blocks` returned."""
    for number, values in zip(table.index, table.astype(object).to_dict("records"), strict=True):
        yield ParquetRow(Path(path), 1 + number, {str(name): value for name, value in values.items()})
