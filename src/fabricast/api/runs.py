"""A finished run: its tables, and its figures by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

import duckdb
import pandas as pd

from fabricast.core.errors import unknown_name
from fabricast.results import tables

__all__ = ["Picture", "Run", "open_run"]


@dataclass(frozen=True)
class Picture:
    """A figure of a run; it shows itself in a notebook.

    Parameters
    ----------
    path : Path
        The SVG file; PDF and PNG lie beside it.
    """

    path: Path

    def _repr_svg_(self) -> str:
        return self.path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """A finished run.

    Parameters
    ----------
    database : Path
        Its database.
    figures_folder : Path
        Where its figures lie.
    """

    database: Path
    figures_folder: Path

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of all tables and views."""
        with self.connect() as connection:
            return tuple(row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables() UNION "
                         "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall())  # fmt: skip

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the database for reading; relations live as long as the connection."""
        with tables.open_run(self.database) as connection:
            yield connection

    def sql(self, query: str) -> pd.DataFrame:
        """Return what a query of DuckDB's SQL finds."""
        with self.connect() as connection:
            found: pd.DataFrame = connection.sql(query).df()
            return found

    def __getitem__(self, table: str) -> pd.DataFrame:
        """Return a table or view as a data frame."""
        known = self.tables
        if table not in known:
            raise unknown_name("table", table, known)
        with self.connect() as connection:
            found: pd.DataFrame = connection.table(table).df()
            return found

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of all figures, such as ``pcie.slowdown``."""
        return tuple(sorted(path.stem for path in self.figures_folder.glob("*.svg")))

    def figure(self, name: str) -> Picture:
        """Return a figure by its name."""
        if name not in self.figures:
            raise unknown_name("figure", name, self.figures)
        return Picture(self.figures_folder / f"{name}.svg")

    def _repr_html_(self) -> str:
        verdicts = self.sql("SELECT * FROM claims_by_evidence")
        return f"<p>run of {escape(str(self.database))}, {len(self.figures)} figures</p>{verdicts.to_html(index=False)}"


def open_run(folder: str | Path = "results") -> Run:
    """Open a finished run.

    Parameters
    ----------
    folder : str or Path, default 'results'
        Folder of its results, or its database.

    Returns
    -------
    Run
        Tables as data frames (``run["claim"]``), queries (``run.sql(...)``), DuckDB relations
        (``with run.connect() as connection``) and figures (``run.figure("pcie.slowdown")``).

    Raises
    ------
    InputError
        If there is no database, or it is of another version.
    """
    path = Path(folder)
    database = path / "fabricast.duckdb" if path.is_dir() else path
    with tables.open_run(database) as connection:
        row = connection.execute("SELECT config FROM run").fetchone()
    folders = json.loads(row[0]).get("pathvars", {}) if row else {}
    root = database.resolve().parent
    for _ in Path(folders.get("results", "results")).parts:
        root = root.parent
    return Run(database, root / folders.get("reports", "reports") / "figures")
