"""Sort order of table rows by primary key."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

_MOST_KEYS = 2**62


def key_order(frame: pd.DataFrame, table: str, key_types: Mapping[str, str]) -> NDArray[np.int64]:
    """Return the row positions that sort a table by its primary key.

    Shapes: result (rows,).

    >>> rows = pd.DataFrame({"name": ["b", "a", "b"], "number": [10, 2, 9]})
    >>> key_order(rows, "some", {"name": "VARCHAR", "number": "BIGINT"}).tolist()
    [1, 2, 0]
    """
    number, keys = np.zeros(len(frame), dtype=np.int64), 1
    for column, kind in key_types.items():
        # The insertion of the rows reports missing key columns.
        if column not in frame:
            continue
        rank, different = _rank(frame[column], is_text=kind.startswith(("VARCHAR", "ENUM")))
        if keys * different > _MOST_KEYS:
            distinct, number = np.unique(number, return_inverse=True)
            keys = distinct.size
        number, keys = number * different + rank, keys * different
    order = np.argsort(number, kind="stable")
    ordered = number[order]
    duplicates = np.flatnonzero(ordered[1:] == ordered[:-1])
    if duplicates.size:
        row = frame.iloc[[order[duplicates[0]]]]
        (key,) = row[[column for column in key_types if column in frame]].itertuples(index=False, name=None)
        raise duckdb.ConstraintException(f"table {table}: duplicate key {key}")
    return order


def _rank(values: pd.Series, *, is_text: bool) -> tuple[NDArray[np.int64], int]:
    """Return the rank of each value among the distinct values, and the number of ranks."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        codes, different = values.cat.codes.to_numpy(), values.cat.categories
    else:
        codes, different = pd.factorize(values)
    rank, ordered = pd.factorize(different.map(str) if is_text else different, sort=True)
    # Missing values have the code -1 and are sorted last; the insertion of the rows rejects them.
    return np.append(rank, len(ordered))[codes], len(ordered) + 1
