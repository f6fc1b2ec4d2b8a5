"""How the command line writes tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from fabricast.inputs.files import atomic_write
from fabricast.results.tables import connect

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
    elif output.suffix.lower() == ".csv":
        with atomic_write(output) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")
    else:
        text = ("graph", "source", "target", "bottleneck", "shared_with")
        with atomic_write(output) as temporary, connect() as connection:
            relation = connection.from_df(pd.DataFrame(table))
            columns = [f"{name}::VARCHAR AS {name}" if name in text else name for name in relation.columns]
            relation.project(", ".join(columns)).write_parquet(str(temporary))
