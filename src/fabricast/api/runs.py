"""Tables and figures of finished runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

import duckdb
import pandas as pd

from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import unknown_name
from fabricast.results import tables


@dataclass(frozen=True)
class Picture:
    """Figure of a run, displayed by notebooks."""

    path: Path  # SVG file. Files in other formats of the run are in the same folder

    def _repr_svg_(self) -> str:
        return self.path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """Finished run: access to its tables and figures.

    Parameters
    ----------
    database : Path
        DuckDB database of the run.
    figures_folder : Path
        Folder of the figures.
    """

    database: Path
    figures_folder: Path

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of all tables and views."""
        with self.connect() as connection:
            return tuple(
                row[0]
                for row in connection.execute(
                    "SELECT table_name FROM duckdb_tables() UNION "
                    "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
                ).fetchall()
            )

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the database for reading; relations are valid until the connection closes."""
        with tables.open_run(self.database) as connection:
            yield connection

    def sql(self, query: str) -> pd.DataFrame:
        """Return the result of a DuckDB SQL query."""
        with self.connect() as connection:
            rows: pd.DataFrame = connection.sql(query).df()
            return rows

    def __getitem__(self, table: str) -> pd.DataFrame:
        """Return a table or view as a data frame."""
        names = self.tables
        if table not in names:
            raise unknown_name("table", table, names)
        with self.connect() as connection:
            rows: pd.DataFrame = connection.table(table).df()
            return rows

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of all figures, such as ``pcie.slowdown``."""
        return tuple(sorted(path.stem for path in self.figures_folder.glob("*.svg")))

    def figure(self, name: str) -> Picture:
        """Return a figure by name."""
        if name not in self.figures:
            raise unknown_name("figure", name, self.figures)
        return Picture(self.figures_folder / f"{name}.svg")

    def _repr_html_(self) -> str:
        verdicts = self.sql("SELECT * FROM claims_by_evidence")
        return f"<p>run of {escape(str(self.database))}, {len(self.figures)} figures</p>{verdicts.to_html(index=False)}"


@with_checked_types
def open_run(folder: str | Path = "results") -> Run:
    """Open a finished run.

    Parameters
    ----------
    folder : str or Path, default 'results'
        Folder of the results, or database file. A folder with ``your_machine.duckdb`` only holds a run of your graph
        sets.

    Returns
    -------
    Run
        Access to tables as data frames (``run["claim"]``), queries (``run.sql(...)``), DuckDB relations
        (``with run.connect() as connection``) and figures (``run.figure("pcie.slowdown")``).

    Raises
    ------
    InputError
        If the database does not exist or was written by another version.
    """
    path = Path(folder)
    database = path
    if path.is_dir():
        databases = [path / name for name in ("fabricast.duckdb", "your_machine.duckdb")]
        database = next(filter(Path.is_file, databases), databases[0])
    with tables.open_run(database) as connection:
        row = connection.execute("SELECT config FROM run").fetchone()
    folders = json.loads(row[0]).get("pathvars", {}) if row else {}
    root = database.resolve().parent
    for _ in Path(folders.get("results", "results")).parts:
        root = root.parent
    return Run(database, root / folders.get("reports", "reports") / "figures")
