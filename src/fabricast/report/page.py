"""The report: one self-contained page that is read without a network."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pandas as pd

from fabricast.inputs.files import write_text
from fabricast.report.claim_rows import claim_sections
from fabricast.report.explorers import explorer_script, maxrate_explorer, network_explorer
from fabricast.results.tables import open_run

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
    def anchor(self) -> str:
        """Name of the picture within the page: study.figure."""
        return self.path.stem

    @property
    def address(self) -> str:
        """The picture as a data address."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.path.read_bytes()).decode("ascii")


#: Key tables of a study: title, query; a table without rows is not shown.
_KEY_TABLES = {
    "pcie": {
        "Copies measured together, by machine and class of graphs": """
            SELECT CASE WHEN own THEN machine || ' (yours)' ELSE machine END AS machine, graph_class AS class,
            count(*) FILTER (judged) AS judged,
            printf('%.1f %%', 100 * median(abs(relative_error)) FILTER (judged)) AS median_error,
            printf('%.0f %%', 100 * avg(CAST(abs(relative_error) <= 0.15 AS INTEGER)) FILTER (judged)) AS within_15,
            printf('%.1f %%', 100 * max(abs(relative_error)) FILTER (judged)) AS worst,
            printf('%.1f %%', 100 * median(abs(sharing_bytes_per_s / measured_bytes_per_s - 1)) FILTER (judged))
              AS median_sharing_alone,
            string_agg(DISTINCT remark, '; ' ORDER BY remark) FILTER (NOT judged AND remark <> 'calibration')
              AS set_aside
            FROM measured_copy GROUP BY own, measured_copy.machine, graph_class ORDER BY own DESC, 1, 2""",
        "Your machine, graph by graph": """
            SELECT machine, graph, communications, program,
            printf('%.4g', measured_bytes_per_s / 1e9) AS measured_gb_per_s,
            printf('%.4g', forecast_bytes_per_s / 1e9) AS forecast_gb_per_s,
            printf('%+.1f %%', 100 * relative_error) AS error, remark FROM measured_copy WHERE own
            ORDER BY judged DESC, abs(relative_error) DESC, machine, graph LIMIT 50""",
    },
    "breakdown": {
        "Totals": """SELECT system, metric, round(model_ns, 2) AS model_ns, observed_ns,
                     printf('%+.2f %%', 100 * relative_error) AS error FROM breakdown_total ORDER BY ALL""",
    },
    "maxrate": {
        "The model that predicts unseen numbers of processes best, by data set": """
            SELECT dataset, model, cells, printf('%.1f %%', 100 * median_error) AS median_error,
            printf('%.1f %%', 100 * p90_error) AS p90_error,
            printf('%.1f %%', 100 * unseen_median_error) AS unseen_median_error, breakpoints AS breakpoints_bytes
            FROM maxrate_fit WHERE chosen ORDER BY dataset""",
        "Rates of the refined model, one way, messages of 8 KiB and more (a round trip has half of them)": """
            SELECT dataset, c.convention AS measured_times,
            CASE WHEN list_contains(identifiable, 'r_n') THEN printf('%.3g', ways * r_n / 1e9) ELSE 'not determined' END
              AS node_gb_per_s_one_way,
            CASE WHEN list_contains(identifiable, 'r_b') THEN printf('%.3g', ways * r_b / 1e9) ELSE 'not determined' END
              AS first_gb_per_s_one_way,
            CASE WHEN list_contains(identifiable, 'r_i') THEN printf('%.3g', ways * r_i / 1e9) ELSE 'not determined' END
              AS next_gb_per_s_one_way
            FROM maxrate_fit JOIN (SELECT dataset, any_value(convention) AS convention,
              CASE any_value(convention) WHEN 'round_trip' THEN 2 ELSE 1 END AS ways
              FROM maxrate_measurement GROUP BY dataset) AS c USING (dataset)
            WHERE model = 'refined' AND protocol = 'large' ORDER BY dataset""",
    },
    "gpucentric": {
        "Statements and how firmly they hold": """
            SELECT statement, text, slides, decided_by, passed,
            printf('%.0f %%', 100 * share_of_draws) AS share_of_draws FROM gpucentric_statement ORDER BY statement""",
        "Sizes at which the fastest method changes": """
            SELECT system, size_bytes::BIGINT AS size_bytes, fastest_below, fastest_above FROM gpucentric_crossover
            ORDER BY ALL""",
        "What the selector chooses on measured paths": """
            SELECT system, model, count(*) FILTER (correct) AS correct, count(*) AS sizes,
            printf('%.1f %%', 100 * max(regret)) AS largest_regret FROM gpucentric_path GROUP BY ALL ORDER BY ALL""",
    },
    "percs": {
        "Time of the busiest link in ms, mean over seeds": """
            PIVOT (SELECT workload, routing, mapping, printf('%.3g', 1000 * avg(bottleneck_s)) AS t FROM network_case
                   WHERE gateway = 'mod' AND multiplicity = 1 AND placement = 'whole' AND wrap AND NOT turned
                   GROUP BY ALL)
            ON mapping USING first(t) GROUP BY workload, routing ORDER BY workload, routing""",
        "Mappings found by search": """
            SELECT workload, routing, start AS starts_from, printf('%.3g', 1e3 * start_s) AS start_ms,
            printf('%.3g', 1e3 * bottleneck_s) AS found_ms, bottleneck_class AS class,
            printf('%.3g', 1e3 * packets_s) AS packet_level_ms, printf('%.3g', 1e3 * floor_s) AS even_loads_ms,
            proposals FROM network_search ORDER BY workload, routing""",
    },
}
_QUERIES = {
    "studies": "SELECT * FROM study ORDER BY study",
    "claims": "SELECT * FROM claim ORDER BY study, claim",
    "readings": "SELECT * FROM claim_reading ORDER BY claim, is_default DESC, reading",
    "baselines": "SELECT * FROM claim_baseline ORDER BY claim, baseline",
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


def _explorers(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the explorers of studies as JSON that may stand in a script element."""
    found = {}
    measurement = connection.sql("SELECT * FROM maxrate_measurement").df()
    if len(measurement):
        prediction = connection.sql("SELECT * FROM prediction WHERE study = 'maxrate'").df()
        found["maxrate"] = maxrate_explorer(measurement, prediction)
    case = connection.sql("SELECT * FROM network_case").df()
    if len(case):
        found["percs"] = network_explorer(case, connection.sql("SELECT * FROM network_link_histogram").df())
    # A name such as </script> must not end the element.
    return {study: json.dumps(chart).replace("<", "\\u003c") for study, chart in found.items()}


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
    with open_run(database) as connection:
        tables: dict[str, Any] = {name: _records(connection.sql(query).df()) for name, query in _QUERIES.items()}
        key_tables = {
            study: {title: _records(connection.sql(query).df()) for title, query in queries.items()}
            for study, queries in _KEY_TABLES.items()
        }
        explorers = _explorers(connection)
    tables |= claim_sections(tables["claims"], tables["readings"], tables["baselines"])
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fabricast.report", "."), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["number"] = _number
    text = environment.get_template("report.html.jinja").render(
        pictures=pictures, key_tables=key_tables, explorers=explorers,
        explorer_script=explorer_script() if explorers else "", **tables,
    )  # fmt: skip
    write_text(path, text)


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.astype(object).to_dict("records")]


def _plain(value: object) -> object:
    if isinstance(value, list | tuple) or type(value).__name__ == "ndarray":
        return ", ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in value)  # type: ignore[attr-defined]
    return None if value is None or value != value else value


def _number(value: object, digits: int = 4) -> str:
    """Format a number for reading; what is missing is a dash."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{float(str(value)):.{digits}g}"
