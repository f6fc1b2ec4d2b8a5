"""Columns of a query through Apache Arrow: a text becomes an object of Python once, not for each row that has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    import duckdb
    from arro3.core import ChunkedArray, RecordBatch

__all__ = ["columns_of", "record_batches"]


def record_batches(relation: duckdb.DuckDBPyRelation) -> Iterator[RecordBatch]:
    """Run a query and give its rows in order, some at a time; what it raises later has no type of its own.

    Parameters
    ----------
    relation : duckdb.DuckDBPyRelation
        The query.
    """
    # Imported here: a CSV file needs none.
    from arro3.core import RecordBatchReader

    yield from RecordBatchReader.from_stream(relation)


def columns_of(batches: Iterable[RecordBatch], names: Iterable[str], texts: Collection[str]) -> pd.DataFrame:
    """Return rows as columns.

    Parameters
    ----------
    batches : iterable of arro3.core.RecordBatch
        Rows without a missing value.
    names : iterable of str
        Columns, in this order.
    texts : collection of str
        Those of texts; all others are float64.

    Returns
    -------
    pandas.DataFrame
        Texts as categories, in the order in which they come first.

    Examples
    --------
    >>> import duckdb
    >>> with duckdb.connect() as connection:
    ...     query = connection.sql("FROM (VALUES ('b', 1.5), ('a', 2.0), ('b', 0.5)) AS rows(graph, start_s)")
    ...     table = columns_of(record_batches(query.project("graph, CAST(start_s AS DOUBLE) AS start_s")),
    ...                        ["graph", "start_s"], ["graph"])
    >>> table["graph"].cat.categories.tolist(), table["start_s"].tolist()
    (['b', 'a'], [1.5, 2.0, 0.5])
    """
    from arro3.core import ChunkedArray

    parts = list(batches)
    found: dict[str, Any] = {}
    for name in names:
        whole = ChunkedArray([part.column(name) for part in parts]) if parts else None
        if name in texts:
            found[name] = pd.Categorical([]) if whole is None else _categories(whole)
        else:
            found[name] = np.zeros(0) if whole is None else whole.to_numpy()
    return pd.DataFrame(found, copy=False)


def _categories(column: ChunkedArray) -> pd.Categorical:
    from arro3.core import DataType, dictionary_dictionary, dictionary_indices

    numbered = column.combine_chunks().cast(DataType.dictionary(DataType.int32(), DataType.string()))
    codes: NDArray[np.int32] = dictionary_indices(numbered).to_numpy()
    different = pd.Index(dictionary_dictionary(numbered).to_pylist(), dtype=object)
    return pd.Categorical.from_codes(codes, different, validate=False)
