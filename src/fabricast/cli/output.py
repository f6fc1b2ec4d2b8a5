"""How the command line writes tables."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.inputs.files import atomic_write
from fabricast.results.tables import connect, quoted, report_full_disk

__all__ = ["write_elapsed"]


def write_elapsed(table: pd.DataFrame, output: Path | None) -> None:
    """Write elapsed times.

    Parameters
    ----------
    table : pandas.DataFrame
        As `fabricast.predict` or `fabricast.simulate` gives.
    output : Path or None
        Parquet or CSV file; None prints CSV.
    """
    if output is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    is_csv = output.suffix.lower() == ".csv"
    values: dict[str, NDArray[np.generic]] = {}
    columns = []
    for name in table.columns:
        if not isinstance(table[name].dtype, pd.CategoricalDtype):
            values[name] = table[name].to_numpy()
            columns.append(name)
            continue
        # Each text is held once, rows point to it; -1 takes the last, which is none.
        texts = np.array([*table[name].cat.categories, None], dtype=object)
        values[name] = texts[table[name].cat.codes.to_numpy()]
        # CSV would tell an empty text from none by quotes.
        columns.append(f"nullif({name}::VARCHAR, '') AS {name}" if is_csv else f"{name}::VARCHAR AS {name}")
    with atomic_write(output) as temporary, connect() as connection, report_full_disk(output):
        connection.register("elapsed", pd.DataFrame(values, copy=False))
        connection.execute(
            f"COPY (SELECT {', '.join(columns)} FROM elapsed) TO '{quoted(str(temporary))}' "
            f"(FORMAT {'csv' if is_csv else 'parquet'})"
        )
