"""HTML report of a run: one self-contained page without external resources."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pandas as pd

from fabricast.core.number_text import number_text, with_minus
from fabricast.inputs.files import write_text
from fabricast.report.claim_rows import claim_sections, study_verdicts
from fabricast.report.explorers import explorer_script, maxrate_explorer, network_explorer
from fabricast.report.javascript_kernels import kernel_script
from fabricast.report.key_tables import ASSUMED, BY_GPU, DIGESTS, ERRORS, KEY_TABLES, PARAMETERS, SIMULATED, YOURS
from fabricast.report.pcie_explorer import pcie_explorer
from fabricast.report.sheets import READABLE_MODELS, Sheet, sheet_of
from fabricast.report.stories import answers_of, machine_answers, stories, study_name
from fabricast.results.claim_record import CONSISTENT, is_tested, result_counts
from fabricast.results.claims import EVIDENCE
from fabricast.results.tables import open_run

#: Study name of the figures of a user's graph sets.
YOUR_MACHINE = "your_machine"
#: Name of the overview figure of a study, which is excluded from its gallery.
_CARD = "card"
#: Number of figures of a study that are visible by default: the first in its full size, the others as previews.
_FIRST_PICTURES = 3
#: The same for studies without publication, so that the papers stay in front.
_FIRST_PICTURES_OF_OURS = 1
#: Width in points above which a figure spans both columns of a gallery.
_COLUMN_PT = 300
#: Results of statements that hold, and where they do.
_HELD = {
    "independent data": "in independent data",
    "in sample": "in data of a fit",
    "our simulator": "in our simulator",
    "our tolerance": "within our tolerance",
}
_QUERIES = {
    "claims": "SELECT * FROM claim ORDER BY study, claim",
    "targets": "SELECT * FROM target ORDER BY study, target",
    "readings": "SELECT * FROM claim_reading ORDER BY claim, is_default DESC, reading",
    "baselines": "SELECT * FROM claim_baseline ORDER BY claim, baseline",
    "run": "SELECT * FROM run",
}


def _held(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return how many statements hold, by evidence."""
    counts = result_counts((claim["verdict"], claim["evidence"]) for claim in claims)
    return ", ".join(f"{counts[result]} {words}" for result, words in _HELD.items() if counts[result]) or "none"


@dataclass(frozen=True)
class Picture:
    """A figure of the report."""

    path: Path  # SVG file
    study: str  # Name of its study
    #: Title and caption.
    title: str
    caption: str

    @property
    def anchor(self) -> str:
        """Anchor of the figure within the page: study.figure."""
        return self.path.stem

    @property
    def packed(self) -> str:
        """Compressed SVG file as base64 text."""
        return base64.b64encode(zlib.compress(self.path.read_bytes(), 9)).decode("ascii")

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in points; 300 x 300 if the file does not specify them."""
        with self.path.open("rb") as file:
            head = file.read(4000)
        sides = [re.search(rb"<svg[^>]*?\s" + name + rb'="([0-9.]+)pt"', head) for name in (b"width", b"height")]
        width, height = (round(float(side[1])) if side else 300 for side in sides)
        return width, height

    @property
    def is_wide(self) -> bool:
        """Whether the figure needs two columns."""
        return self.size[0] > _COLUMN_PT


def _explorers(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the explorers of studies as JSON that is safe inside a script element."""
    charts = {}
    measurement = connection.sql("SELECT * FROM maxrate_measurement").df()
    if len(measurement):
        prediction = connection.sql("SELECT * FROM prediction WHERE study = 'maxrate'").df()
        charts["maxrate"] = maxrate_explorer(measurement, prediction)
    case = connection.sql("SELECT * FROM network_case").df()
    if len(case):
        charts["percs"] = network_explorer(case, connection.sql("SELECT * FROM network_link_histogram").df())
    return {study: _json(chart) for study, chart in charts.items()}


def _json(value: object) -> str:
    # A name such as </script> must not end the script element.
    return json.dumps(value).replace("<", "\\u003c")


def write_report(
    database: Path, pictures: list[Picture], path: Path, *, graph_sets: Mapping[str, str] | None = None
) -> None:
    """Write the report of a run."""
    with open_run(database) as connection:
        tables = {name: _records(connection.sql(query).df()) for name, query in _QUERIES.items()}
        sections = claim_sections(*(tables[name] for name in ("claims", "targets", "readings", "baselines")))
        groups = {
            name: [sheet for sheet in _sheets(connection, queries) if sheet.rows]
            for name, queries in {
                "user_supplied": YOURS,
                "by_gpu": BY_GPU,
                "errors": ERRORS,
                "simulated": SIMULATED,
                "parameters": PARAMETERS,
                "digests": DIGESTS,
            }.items()
        }
        studies = [
            _study(connection, row, [picture for picture in pictures if picture.study == row["study"]], sections)
            for row in _records(connection.sql("SELECT * FROM study").df())
        ]
        explorers = _explorers(connection)
        machines = machine_answers(connection)
        trees = _json(pcie_explorer(connection, graph_sets or {}))
        (has_own_copies,) = connection.sql("SELECT count(*) > 0 FROM measured_copy WHERE user_supplied").fetchall()[0]
    order = list(stories())
    studies = sorted((study for study in studies if study["pictures"]), key=lambda study: order.index(study["study"]))
    text = (
        _environment()
        .get_template("report.html.jinja")
        .render(
            model_titles=READABLE_MODELS,
            studies=studies,
            run=tables["run"],
            has_own_copies=has_own_copies,
            machines=machines,
            your_pictures=[picture for picture in pictures if picture.study == YOUR_MACHINE],
            sizes={picture.anchor: picture.size for picture in pictures},
            packed=json.dumps({picture.anchor: picture.packed for picture in pictures}),
            explorers=explorers,
            explorer_script=_packed_text(explorer_script()) if explorers else "",
            trees=trees,
            kernels=kernel_script(),
            pcie_script=_beside("pcie_explorer.js"),
            style=_beside("report.css"),
            script=_beside("report.js"),
            **_run_words(tables["run"]),
            **groups,
            **sections,
        )
    )
    write_text(path, text)


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _packed_text(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fabricast.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number_text
    environment.filters["study_name"] = study_name
    environment.filters["units"] = _with_units
    environment.filters["capitalised"] = lambda text: str(text)[:1].upper() + str(text)[1:]
    return environment


def _with_units(text: object) -> str:
    """Join numbers and their units by non-breaking spaces."""
    text = with_minus(re.sub(r"(?<=\d )us\b", "µs", str(text)))
    return re.sub(r"(\d) (%|ms|µs|ns|s|GB/s|bytes|MB|KiB|MiB|GiB)(?![\w/])", "\\1\u00a0\\2", text)


def _sheets(connection: duckdb.DuckDBPyConnection, queries: dict[str, str]) -> list[Sheet]:
    return [sheet_of(connection, title, query) for title, query in queries.items()]


def _study(
    connection: duckdb.DuckDBPyConnection, row: dict[str, Any], pictures: list[Picture], sections: dict[str, Any]
) -> dict[str, Any]:
    """Return the data of the report section on a study."""
    story = stories()[row["study"]]
    shown = _FIRST_PICTURES if story.claim else _FIRST_PICTURES_OF_OURS
    gallery = [picture for picture in pictures if not picture.path.stem.endswith(f".{_CARD}")]
    claims = [claim for claim in sections["claims"] if claim["study"] == row["study"]]
    # Statements that independent data test come first.
    claims.sort(key=lambda claim: EVIDENCE.index(claim["evidence"]))
    assumed = sheet_of(connection, f"Assumed numbers of {story.short}", ASSUMED.format(study=row["study"]))
    return (
        row
        | study_verdicts(claims, story.short)
        | {
            "short": story.short,
            "question": story.question,
            "model": story.model,
            "terms": story.terms,
            "labels": story.labels,
            "answers": answers_of(connection, row["study"]),
            "card": next((picture for picture in pictures if picture.path.stem.endswith(f".{_CARD}")), None),
            "pictures": gallery[:shown],
            "more_pictures": gallery[shown:],
            "tables": [sheet for sheet in _sheets(connection, KEY_TABLES.get(row["study"], {})) if sheet.rows],
            "claims": len(claims),
            "is_ours": not story.claim,
            "key": next((claim for claim in claims if claim["claim"] == story.claim), None),
            "statements": sorted(
                (claim for claim in claims if claim["verdict"] != CONSISTENT),
                key=lambda claim: (claim["claim"] != story.claim, _importance(claim)),
            ),
            "first_author": _first_author(row["authors"]),
            "tested": sum(is_tested(claim["verdict"], claim["evidence"]) for claim in claims),
            "held": _held(claims),
            "consistent": [claim for claim in claims if claim["verdict"] == CONSISTENT],
            "targets": [target for target in sections["targets"] if target["study"] == row["study"]],
            "assumed": assumed if assumed.rows else None,
        }
    )


def _first_author(authors: str) -> str:
    """Return the family name of the first author, with et al. for several.

    >>> _first_author("M. Martinasso, G. Kwasniewski"), _first_author("H. Froening")
    ('Martinasso et al.', 'Froening')
    """
    first, _, others = authors.partition(",")
    return first.split()[-1] + (" et al." if others else "")


def _importance(claim: dict[str, Any]) -> tuple[bool, int]:
    """Return the place of a statement: with a value first, then by evidence, measurements first."""
    return claim["verdict"] == "not_testable", EVIDENCE.index(claim["evidence"])


def _run_words(run: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the machine of a run and short labels with its metadata."""
    if not run:
        return {"machine": "an unrecorded machine", "chips": []}
    row = run[0]
    chips = [f"run {str(row['run'])[:8]}", f"commit {str(row['git_commit'] or 'unknown')[:7]}"]
    if row.get("config_files"):
        chips.append(f"settings {str(row['config_files']).split()[0]}")
    if row.get("started") is not None:
        chips.insert(0, f"{row['started']:%d %B %Y}".lstrip("0"))
    return {"machine": f"{row['cpu']}, {row['cores']} cores", "chips": chips}


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.astype(object).to_dict("records")]


def _plain(value: object) -> object:
    return None if value is None or value != value else value
