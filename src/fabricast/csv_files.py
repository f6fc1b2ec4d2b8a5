"""CSV files at the door: columns, fields and numbers, each refused in one line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fabricast.errors import InputError
from fabricast.files import read_text

__all__ = ["CsvRow", "read_csv"]


@dataclass(frozen=True)
class CsvRow:
    """One row of a CSV file.

    Parameters
    ----------
    path : Path
        The file.
    line : int
        Its line in the file, counted from 1.
    fields : dict of str to str
        Text by column, without surrounding blanks; columns that the file lacks are absent.
    """

    path: Path
    line: int
    fields: dict[str, str]

    def __getitem__(self, column: str) -> str:
        """Return the text of a column."""
        return self.fields[column]

    def error(self, message: str) -> InputError:
        """Return what refuses this row, with file and line."""
        return InputError(message, path=self.path, line=self.line)

    def number(self, column: str, *, default: float | None = None) -> float:
        """Return the finite number in a column.

        Parameters
        ----------
        column : str
            Name of the column.
        default : float, optional
            Value where the file lacks the column or the field is empty.

        Returns
        -------
        float
            The number.

        Raises
        ------
        InputError
            If the text is not a finite number.
        """
        text = self.fields.get(column, "")
        if not text and default is not None:
            return default
        try:
            # Python takes 1_000 for a number, a spreadsheet does not.
            value = math.nan if "_" in text else float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(f"{column} is '{text}', expected a finite number")
        return value


def read_csv(path: Path | str, required: Sequence[str], optional: Sequence[str] = ()) -> list[CsvRow]:
    r"""Read a CSV file with a header; lines that start with ``#`` are comments.

    Parameters
    ----------
    path : Path or str
        File in UTF-8.
    required, optional : sequence of str
        Columns that the file must and may have, in any order.

    Returns
    -------
    list of CsvRow
        Rows in file order, at least one.

    Raises
    ------
    InputError
        If the file cannot be read, is not CSV, or has other columns or fields.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "graphs.csv"
    >>> _ = path.write_text("graph,source,target\nhalo,0,1\n")
    >>> read_csv(path, ["graph", "source", "target"], ["size_bytes"])[0]["target"]
    '1'
    """
    path = Path(path)
    lines = list(_lines(path))
    expected = ",".join(required) + (f"[,{','.join(optional)}]" if optional else "")
    if not lines:
        raise InputError(f"is empty, expected the columns {expected}", path=path, line=1)
    line, names = lines[0]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"column '{name}' stands twice, expected {expected}", path=path, line=line)
        if name not in (*required, *optional):
            raise InputError(f"column '{name}' is unknown, expected {expected}", path=path, line=line)
    for name in required:
        if name not in names:
            raise InputError(f"column '{name}' is missing, expected {expected}", path=path, line=line)
    if len(lines) == 1:
        comment = read_text(path).partition("\n")[0]
        why = f" ({comment.lstrip('# ')})" if comment.startswith("#") else ""
        raise InputError(f"holds no rows, expected at least one{why}", path=path, line=line)
    for line, fields in lines[1:]:
        if len(fields) != len(names):
            raise InputError(f"has {len(fields)} fields, expected {len(names)}", path=path, line=line)
    return [CsvRow(path, line, dict(zip(names, fields, strict=True))) for line, fields in lines[1:]]


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    line = 0

    def text() -> Iterator[str]:
        nonlocal line
        for number, read in enumerate(stream, start=1):
            line = number
            if "\0" in read:
                raise InputError("holds a NUL byte, expected text", path=path, line=line)
            if not read.startswith("#"):
                yield read

    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            for fields in csv.reader(text(), strict=True):
                if fields:
                    yield line, [field.strip() for field in fields]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: {error.reason}", path=path) from error
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", path=path, line=line) from error
