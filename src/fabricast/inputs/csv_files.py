"""Row-by-row reader of CSV files, with an error message for each invalid column or field."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.files import read_text

#: Maximum number of rows: each row is a Python object, so larger tables need another format.
MOST_ROWS = 3_000_000


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row of a CSV file."""

    path: Path  # Path of the file
    line: int  # Line of the row in the file, counted from 1
    columns: dict[str, int]  # Position of each column that the file has; one dictionary is shared by all rows
    texts: tuple[str, ...]  # Text of each column, without surrounding blanks

    def __getitem__(self, column: str) -> str:
        """Return the text of a column."""
        return self.texts[self.columns[column]]

    def __contains__(self, column: str) -> bool:
        """Return whether the file has a column."""
        return column in self.columns

    @property
    def fields(self) -> dict[str, str]:
        """Text of the row by column."""
        return dict(zip(self.columns, self.texts, strict=True))

    def get(self, column: str, default: str = "") -> str:
        """Return the text of a column, or a default if the file does not have the column."""
        return self[column] if column in self.columns else default

    def error(self, message: str) -> InputError:
        """Return an error about this row, with file and line."""
        return InputError(message, path=self.path, line=self.line)

    def number(self, column: str, *, default: float | None = None) -> float:
        """Return the finite number in a column."""
        text = self.get(column)
        if not text and default is not None:
            return default
        try:
            # Python accepts underscores in numbers (1_000), spreadsheets do not.
            value = math.nan if "_" in text else float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(f"{column} is '{text}', expected a finite number")
        return value


def read_csv(
    path: Path | str,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    text: str | None = None,
    lines_before: int = 0,
) -> list[CsvRow]:
    r"""Read a CSV file with a header; lines that start with ``#`` are comments.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "graphs.csv"
    >>> _ = path.write_text("graph,source,target\nhalo,0,1\n")
    >>> read_csv(path, ["graph", "source", "target"], ["size_bytes"])[0]["target"]
    '1'
    """
    path = Path(path)
    text = read_text(path, strict=True) if text is None else text
    comment = text.partition("\n")[0]
    lines = list(_lines(text, path, lines_before))
    expected = ",".join(required) + (f"[,{','.join(optional)}]" if optional else "")
    if not required:
        expected = f"some of {', '.join(optional)}"
    if not lines:
        raise InputError(f"is empty, expected the columns {expected}", path=path, line=1)
    line, names = lines[0]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"column '{name}' is a duplicate, expected {expected}", path=path, line=line)
        if name not in (*required, *optional):
            raise InputError(f"column '{name}' is unknown, expected {expected}", path=path, line=line)
    for name in required:
        if name not in names:
            raise InputError(f"column '{name}' is missing, expected {expected}", path=path, line=line)
    if len(lines) == 1:
        why = f" ({comment.lstrip('# ')})" if comment.startswith("#") else ""
        raise InputError(f"contains no rows, expected at least one{why}", path=path, line=line)
    for line, fields in lines[1:]:
        if len(fields) != len(names):
            raise InputError(f"has {len(fields)} fields, expected {len(names)}", path=path, line=line)
    columns = {name: position for position, name in enumerate(names)}
    return [CsvRow(path, line, columns, tuple(fields)) for line, fields in lines[1:]]


def _lines(content: str, path: Path, lines_before: int) -> Iterator[tuple[int, list[str]]]:
    line = 0

    def text() -> Iterator[str]:
        nonlocal line
        for number, read in enumerate(io.StringIO(content, newline=""), start=1 + lines_before):
            line = number
            if not read.startswith("#"):
                yield read

    count = 0
    try:
        for fields in csv.reader(text(), strict=True):
            if fields:
                count += 1
                if count > MOST_ROWS:
                    raise InputError(f"contains more than {MOST_ROWS:,} rows, expected fewer", path=path, line=line)
                yield line, [field.strip() for field in fields]
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", path=path, line=line) from error
