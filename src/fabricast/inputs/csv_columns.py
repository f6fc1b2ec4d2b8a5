"""Fast, vectorised CSV reader for well-formed files."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.inputs.csv_files import MOST_ROWS

__all__ = ["csv_columns", "number_column", "numbered", "text_column"]

_LEADING_COMMENTS = re.compile(r"\A(?:#[^\n]*\n)*")


def csv_columns(
    text: str, required: Collection[str], optional: Collection[str] = (), *, numbers: Collection[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame | None:  # fmt: skip
    r"""Return the columns of CSV text; None if it needs the row-by-row reader.

    Text for which the result is None may still be valid: `fabricast.inputs.csv_files.read_csv` reads it row by row, or
    rejects it with file and line.

    Parameters
    ----------
    text : str
        Content of the file; comments may precede the header.
    required, optional : collection of str
        Required and optional columns, in any order.
    numbers : collection of str
        Columns of numbers (float64); all other columns are texts without conversion.
    known : mapping of str to sequence of str, optional
        Expected texts by column. Such columns are read as categories, which is faster; other texts become missing
        values.

    Returns
    -------
    pandas.DataFrame or None
        Table with at least one row.

    Examples
    --------
    >>> csv_columns("graph,size_bytes\na,5\nb,6\n", ["graph"], ["size_bytes"], numbers=["size_bytes"])
      graph  size_bytes
    0     a         5.0
    1     b         6.0
    >>> csv_columns("graph,size_bytes\na,5,6\n", ["graph", "size_bytes"]) is None
    True
    """
    text = _LEADING_COMMENTS.sub("", text, count=1)
    header = text.partition("\n")[0].strip().split(",")
    if len(set(header)) != len(header) or not set(required) <= set(header) <= {*required, *optional} or "#" in text:
        return None
    if text.count("\n") > MOST_ROWS:
        return None
    # Python strings are faster to create than the string type of pandas.
    kinds: dict[Hashable, Any] = {name: np.float64 if name in numbers else object for name in header}
    kinds |= {name: pd.CategoricalDtype(list(texts)) for name, texts in (known or {}).items()}
    try:
        # With low_memory, pandas reads chunks and has to merge their categories.
        table = pd.read_csv(
            io.BytesIO(text.encode()), dtype=kinds, keep_default_na=False, na_values=[], on_bad_lines="error",
            low_memory=False,
        )  # fmt: skip
    except (ValueError, pd.errors.ParserError):
        return None
    return table if len(table) and _is_whole(table, header, text) else None


def _is_whole(table: pd.DataFrame, header: list[str], text: str) -> bool:
    """Return whether every row has as many fields as the header."""
    # pandas uses the first fields of longer rows as index, and fills shorter rows with empty fields.
    if not isinstance(table.index, pd.RangeIndex):
        return False
    if '"' in text:
        return bool((table[header[-1]] != "").all())
    return text.count(",") == (len(header) - 1) * (len(table) + 1)


def text_column(column: pd.Series) -> tuple[NDArray[np.int64], list[str]] | None:
    """Return the category code of each row and the unique texts.

    Parameters
    ----------
    column : pandas.Series
        Texts as for `numbered`.

    Returns
    -------
    tuple or None
        Codes and texts; None if a text is missing or has leading or trailing blanks.

    Examples
    --------
    >>> text_column(pd.Series(["a", "b", "a"]))
    (array([0, 1, 0]), ['a', 'b'])
    >>> text_column(pd.Series(["a", " b"])) is None
    True
    """
    codes, texts = numbered(column)
    if codes.min() < 0 or _have_blanks_around(texts):
        return None
    return codes.astype(np.int64), texts


def numbered(column: pd.Series) -> tuple[NDArray[np.integer[Any]], list[str]]:
    """Return the category code of each row (-1 if missing) and the unique texts.

    Parameters
    ----------
    column : pandas.Series
        Texts. For a categorical column, the result has all categories in their order, even without rows.

    Examples
    --------
    >>> numbered(pd.Series(["a", None, "b", "a"]))
    (array([ 0, -1,  1,  0]), ['a', 'b'])
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.array.codes, column.cat.categories.tolist()
    codes, different = pd.factorize(column)
    return codes, list(map(str, np.asarray(different, dtype=object)))


def _have_blanks_around(texts: Sequence[str]) -> bool:
    """Return whether any text begins or ends with a blank.

    Examples
    --------
    >>> _have_blanks_around(["a b", "c"]), _have_blanks_around(["a", " b"])
    (False, True)
    """
    # Texts are checked one by one only if some contain a blank, because there may be a million.
    together = "".join(texts)
    return together != "" and together.split() != [together] and any(text != text.strip() for text in texts)


def number_column(column: pd.Series, default: float) -> NDArray[np.float64] | None:
    """Return the numbers of a column; None if a value is not a finite number.

    Parameters
    ----------
    column : pandas.Series
        Texts or numbers. Empty texts and missing numbers are replaced by the default.
    default : float
        Number of rows without a value.

    Examples
    --------
    >>> number_column(pd.Series(["2", ""], dtype=object), 1.0)
    array([2., 1.])
    >>> number_column(pd.Series(["2", "x"], dtype=object), 1.0) is None
    True
    """
    if column.dtype == np.float64:
        numbers = column.to_numpy()
        return None if np.isinf(numbers).any() else np.where(np.isnan(numbers), default, numbers)
    texts = column.to_numpy(dtype=object)
    is_present = texts != ""
    values = np.full(texts.size, default)
    # Python accepts 1_000 as a number; a spreadsheet does not.
    if "_" in "".join(texts):
        return None
    try:
        values[is_present] = texts[is_present].astype(np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values[is_present]).all() else None
