"""The report: one self-contained page that is read without a network."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import duckdb
import jinja2
import pandas as pd

from fabricast.files import write_text

__all__ = ["Picture", "write_report"]


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    Parameters
    ----------
    path : Path
        SVG file.
    study : str
        Study it belongs to.
    title, caption : str
        What it shows.
    """

    path: Path
    study: str
    title: str
    caption: str

    @property
    def address(self) -> str:
        """The picture as a data address."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.path.read_bytes()).decode("ascii")


_QUERIES = {
    "studies": "SELECT * FROM study ORDER BY study",
    "claims": "SELECT * FROM claim ORDER BY study, claim",
    "verdicts": "SELECT * FROM claims_by_study",
    "parameters": "SELECT * FROM parameter ORDER BY study, system, name",
    "bands": """SELECT * FROM error_by_model WHERE subset = 'all' AND kind <> 'simulated'
                ORDER BY study, kind, origin, share_within DESC, model""",
    "topologies": "SELECT * FROM topology ORDER BY topology",
    "sets": """SELECT topology, subset, family, count(*) AS graphs, sum(communications)::BIGINT AS communications
               FROM graph GROUP BY ALL ORDER BY ALL""",
    "simulated": """SELECT model, origin, subset, n, share_within, share_within_low, share_within_high, mean_absolute
                    FROM error_by_model WHERE study = 'pcie' AND kind = 'simulated'
                    AND (subset LIKE '%.validation' OR subset LIKE '%.held_out')
                    ORDER BY subset, origin, share_within DESC, model""",
    "accuracy": """SELECT subset, definition, max(value) FILTER (model = 'congestion_factor') AS slides,
                   max(value) FILTER (model = 'round_robin_upstream') AS round_robin,
                   max(value) FILTER (model = 'back_pressure') AS back_pressure
                   FROM accuracy WHERE study = 'pcie' AND origin = (SELECT max(origin) FILTER (origin LIKE '%256_128')
                   FROM accuracy) AND subset LIKE '%.validation' GROUP BY ALL ORDER BY ALL""",
    "features": """SELECT model, subset, origin, max(r2) AS r2,
                   string_agg(feature, ', ' ORDER BY importance DESC, feature) FILTER (place <= 3) AS features
                   FROM (SELECT *, row_number() OVER (PARTITION BY study, model, subset, origin
                         ORDER BY importance DESC, feature) AS place FROM error_feature WHERE study = 'pcie')
                   GROUP BY ALL ORDER BY ALL""",
    "misses": """SELECT case_id, item, quantity, kind, origin, predicted, reference, relative_error, graph_text
                 FROM comparison LEFT JOIN (SELECT graph,
                   string_agg(source || '>' || target, ' ' ORDER BY communication) AS graph_text
                   FROM communication GROUP BY graph) AS texts ON texts.graph = case_id
                 WHERE NOT within AND model = 'congestion_factor' AND kind <> 'simulated'
                 ORDER BY abs(relative_error) DESC, case_id, item LIMIT 20""",
    "worst": """SELECT case_id, item, model, origin, predicted, reference, relative_error, graph_text FROM worst_cases
                WHERE kind = 'simulated' ORDER BY abs(relative_error) DESC, case_id, item, model""",
    "run": "SELECT * FROM run",
    "digests": "SELECT * FROM table_digest WHERE rows > 0 ORDER BY table_name",
}


def write_report(database: Path, pictures: list[Picture], path: Path) -> None:
    """Write the report of a run.

    Parameters
    ----------
    database : Path
        The run's database.
    pictures : list of Picture
        Figures in the order in which they are shown.
    path : Path
        The HTML file.
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        tables = {name: _records(connection.sql(query).df()) for name, query in _QUERIES.items()}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fabricast", "."), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["number"] = _number
    text = environment.get_template("report.html.jinja").render(pictures=pictures, **tables)
    write_text(path, text)


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [
        {str(key): None if value is None or value != value else value for key, value in row.items()}
        for row in frame.astype(object).to_dict("records")
    ]


def _number(value: object, digits: int = 4) -> str:
    """Format a number for reading; what is missing is a dash."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{float(str(value)):.{digits}g}"
