"""CSV files as columns: the texts and numbers of all rows at once."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import MOST_ROWS, CsvRow, read_csv

_LEADING_COMMENTS = re.compile(r"\A(?:#[^\n]*\n)*")


def csv_columns(
    path: Path | str,
    text: str,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    numbers: Collection[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
    lines_before: int = 0,
) -> pd.DataFrame:
    r"""Return the columns of a CSV file.

    pandas parses the text; the parser of Python replaces it for comments between rows, blanks around fields and numbers
    that are empty or invalid.

    >>> text = "graph,size_bytes\na,5\nb,\n"
    >>> csv_columns("graphs.csv", text, ["graph"], ["size_bytes"], numbers=["size_bytes"])
      graph  size_bytes
    0     a         5.0
    1     b         NaN
    """
    table = _parsed_by_pandas(text, required, optional, numbers, known or {})
    if table is None:
        table = _table(read_csv(path, required, optional, text=text, lines_before=lines_before), numbers)
    return table


def _table(rows: Sequence[CsvRow], numbers: Collection[str]) -> pd.DataFrame:
    """Return rows as columns."""
    return pd.DataFrame(
        {
            name: [_number(row, name) for row in rows]
            if name in numbers
            else pd.Series([row[name] for row in rows], dtype=object)
            for name in rows[0].columns
        }
    )


def _number(row: CsvRow, name: str) -> float:
    try:
        return row.number(name, default=math.nan)
    except InputError:
        return math.inf


def _parsed_by_pandas(
    text: str,
    required: Collection[str],
    optional: Collection[str],
    numbers: Collection[str],
    known: Mapping[str, Sequence[str]],
) -> pd.DataFrame | None:
    """Return the columns; None if the text has comments between rows, or is not as pandas expects it."""
    text = _LEADING_COMMENTS.sub("", text, count=1)
    header = text.partition("\n")[0].strip().split(",")
    if len(set(header)) != len(header) or not set(required) <= set(header) <= {*required, *optional} or "#" in text:
        return None
    if text.count("\n") > MOST_ROWS:
        return None
    # Python strings are faster to create than the string type of pandas.
    kinds: dict[Hashable, Any] = {name: np.float64 if name in numbers else object for name in header}
    kinds |= {name: pd.CategoricalDtype(list(texts)) for name, texts in known.items()}
    try:
        # With low_memory, pandas reads chunks and has to merge their categories.
        table = pd.read_csv(
            io.BytesIO(text.encode()),
            dtype=kinds,
            keep_default_na=False,
            na_values={name: [""] for name in header if name in numbers},
            on_bad_lines="error",
            low_memory=False,
        )
    except (ValueError, pd.errors.ParserError):
        return None
    return table if len(table) and _is_whole(table, header, text) else None


def _is_whole(table: pd.DataFrame, header: list[str], text: str) -> bool:
    """Return whether every row has as many fields as the header."""
    # pandas uses the first fields of longer rows as index, and fills shorter rows with empty fields.
    if not isinstance(table.index, pd.RangeIndex):
        return False
    if '"' in text:
        last = table[header[-1]]
        return bool((last.notna() & (last != "")).all())
    return text.count(",") == (len(header) - 1) * (len(table) + 1)


def text_codes(column: pd.Series) -> tuple[NDArray[np.int64], list[str]]:
    """Return the category code of each row and the unique texts, without blanks around them.

    >>> text_codes(pd.Series(["a", "b", " a"]))
    (array([0, 1, 0]), ['a', 'b'])
    """
    codes, texts = numbered(column)
    if _have_blanks_around(texts):
        places, different = pd.factorize(np.array([text.strip() for text in texts], dtype=object))
        codes, texts = places[codes], list(different)
    return codes.astype(np.int64), texts


def numbered(column: pd.Series) -> tuple[NDArray[np.integer[Any]], list[str]]:
    """Return the category code of each row (-1 if missing) and the unique texts.

    >>> numbered(pd.Series(["a", None, "b", "a"]))
    (array([ 0, -1,  1,  0]), ['a', 'b'])
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.array.codes, column.cat.categories.tolist()
    codes, different = pd.factorize(column)
    return codes, list(map(str, np.asarray(different, dtype=object)))


def _have_blanks_around(texts: Sequence[str]) -> bool:
    """Return whether any text begins or ends with a blank.

    >>> _have_blanks_around(["a b", "c"]), _have_blanks_around(["a", " b"])
    (False, True)
    """
    # Texts are checked one by one only if some contain a blank, because there may be a million.
    together = "".join(texts)
    return together != "" and together.split() != [together] and any(text != text.strip() for text in texts)
