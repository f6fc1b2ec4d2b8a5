"""Tables of the report with readable headers, names and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import duckdb
import pandas as pd

from fabricast.breakdown.components import COMPONENTS, METRICS, SYSTEM_TITLES
from fabricast.core.number_text import number_text, with_minus
from fabricast.gpucentric.methods import METHODS
from fabricast.maxrate.datasets import DATASET_TITLES
from fabricast.maxrate.models import MODEL_TITLES
from fabricast.pcie.models.catalogue import MODELS
from fabricast.report.stories import study_name

_UNITS = {
    "_gb_per_s": "GB/s",
    "_bytes_per_s": "bytes/s",
    "_bytes": "bytes",
    "_ms": "ms",
    "_ns": "ns",
    "_us": "µs",
    "_s": "s",
}
#: Factors of units: a cell of a number with its unit is aligned and sorted as a number.
_SCALES = {"%": 1.0, "×": 1.0, "GB/s": 1.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
_QUANTITY = re.compile(rf"([+-]?\d[\d,]*(?:\.\d+)?)(?: ?({'|'.join(_SCALES)}))?")
_SYMBOLS = {"gb": "GB", "r2": "R²", "digest": "DuckDB version: content digest"}
#: Names with dots or underscores, after which lines of a narrow column may break.
_NAME = re.compile(r"[A-Za-z][\w.]*[._]\w+")
#: Readable names of the models of all studies.
READABLE_MODELS = (
    MODEL_TITLES
    | {name: model.title for name, model in MODELS.items()}
    | {
        "ports_and_engines": "ports, engines and program",
        "endpoint_engines": "engines and program",
        "packets_with_engines": "engines and program, packet level",
        "sharing_on_the_tree": "sharing on the tree",
        "packets": "packets and headers",
        "breakdown": "sums of components",
    }
)
_METHODS = {name: method.title for name, method in METHODS.items()}
#: Readable texts of identifiers, by column.
_TITLES = {
    "component": {name: f"{kind.title} ({name})" for name, kind in COMPONENTS.items()},
    "dataset": DATASET_TITLES,
    "metric": METRICS,
    "model": READABLE_MODELS,
    "origin": DATASET_TITLES,
    "system": SYSTEM_TITLES,
    "fastest_below": _METHODS,
    "fastest_above": _METHODS,
    "measured_times": {"round_trip": "round trip", "one_way": "one way"},
}
_COMMUNICATIONS = ("communications", "copies")


@dataclass(frozen=True)
class Cell:
    """Table cell: text, sort value, kind (number or name) and items of a list of copies."""

    text: str
    value: float | None = None
    is_number: bool = False
    is_name: bool = False
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """Table of the report."""

    title: str
    head: tuple[tuple[str, bool], ...]  # Header of each column, and whether the column is numeric
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]  # CSS class and cells of each row


def _header_text(column: str) -> str:
    """Return the readable header of a column with its unit.

    >>> _header_text("measured_gb_per_s"), _header_text("observed_ns"), _header_text("set_aside")
    ('measured (GB/s)', 'observed (ns)', 'set aside')
    """
    for suffix, unit in _UNITS.items():
        if column.endswith(suffix):
            return f"{column.removesuffix(suffix).replace('_', ' ')} ({unit})"
    # A non-breaking space keeps a number and its percent sign on one line.
    return _SYMBOLS.get(column, column.replace("_", " ").replace(" %", "\u00a0%"))


def _cell(column: str, value: object) -> Cell:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        # Lists are sorted by their first number.
        first = float(value[0]) if value and isinstance(value[0], int | float) else None
        return Cell(
            ", ".join(number_text(item) if isinstance(item, int | float) else str(item) for item in value), first
        )
    if value is None or value != value:
        return Cell("–")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int | float):
        return Cell(with_minus(number_text(value)), float(value), True)
    text = study_name(str(value)) if column == "study" else _TITLES.get(column, {}).get(str(value), str(value))
    quantity = _QUANTITY.fullmatch(text)
    if quantity:
        return Cell(with_minus(text), float(quantity[1].replace(",", "")) * _SCALES.get(quantity[2], 1.0), True)
    parts = tuple(text.split()) if column in _COMMUNICATIONS else ()
    return Cell(text, is_name=_NAME.fullmatch(text) is not None, parts=parts)


def sheet_of(connection: duckdb.DuckDBPyConnection, title: str, query: str) -> Sheet:
    """Return the rows of a query as a table of the report."""
    frame: pd.DataFrame = connection.sql(query).df()
    names = [str(name) for name in frame.columns if name != "row_class"]
    classes = frame["row_class"].astype(str) if "row_class" in frame else [""] * len(frame)
    rows = tuple(
        (str(kind), tuple(_cell(name, row[name]) for name in names))
        for kind, row in zip(classes, frame.astype(object).to_dict("records"), strict=True)
    )
    # A numeric column contains only numbers and missing values.
    numbers = [
        any(cells[column].is_number for _, cells in rows)
        and all(cells[column].is_number or cells[column].text == "–" for _, cells in rows)
        for column in range(len(names))
    ]
    rows = tuple(
        (kind, tuple(replace(cell, is_number=number) for cell, number in zip(cells, numbers, strict=True)))
        for kind, cells in rows
    )
    return Sheet(title, tuple(zip(map(_header_text, names), numbers, strict=True)), rows)
