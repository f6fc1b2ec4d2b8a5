"""Pages that follow from the project: parameters, claims and figures of a study, tables of the database.

Figures and verdicts are those of the last default study, where there is one; without it the
pages say so.
"""

import csv
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from html import escape, unescape
from pathlib import Path

import duckdb
import yaml
from sphinx.application import Sphinx

from fabricast.breakdown.components import read_systems
from fabricast.clusters.errors import recorded_errors
from fabricast.collectives.clusters.constants import fitted_constants
from fabricast.collectives.clusters.errors import recorded_cluster_errors
from fabricast.collectives.clusters.evidence import ERROR_COLUMNS
from fabricast.collectives.evidence.errors import machine_errors
from fabricast.collectives.expected import SIZE_CLASSES, STATE_COLUMNS
from fabricast.config import Config, checked_config
from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.figures.catalogue import Entry, figures_of
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.parameters import read_parameters
from fabricast.inputs.studies import study_names
from fabricast.maxrate.models import SLIDE_PARAMETERS
from fabricast.pcie.machines.engine_model import PORTS_AND_ENGINES
from fabricast.pcie.packets.hardware import hardware_parameters
from fabricast.percs.parameters import network_parameters
from fabricast.report.stories import stories
from fabricast.results.claim_record import TARGET_RESULT, VERDICT_WORDS
from fabricast.results.claims import read_claims
from fabricast.results.tables import create_schema, open_run

REPOSITORY = Path(__file__).parents[2]
NO_RUN = "*No finished default study was found when this page was built; `make` runs it.*\n"


def _markdown_table(columns: list[str], rows: list[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)]) + "\n"


def _cell(value: object) -> str:
    text = " ".join(str("" if value is None else value).split()).replace("|", "\\|")
    return re.sub(r"(?<=\d)%", " %", text)


def _parameter_rows(study: str) -> list[tuple[object, ...]]:
    """System, name, value, unit, tag and source of every parameter of a study, from where the study reads them."""
    if study == "breakdown":
        return [
            (system.system, name, one.time_ns, "ns", one.tag, one.source)
            for system in read_systems(published() / "breakdown_components.csv")
            for name, one in system.components.items()
        ]
    if study == "maxrate":
        source = "slides, one fit for all sizes; compared with fits of public runs"
        units = {"s": "s", "r": "bytes/s", "k": "processes"}
        return [
            ("bluewaters", name, value, units[name[0]], "published", source) for name, value in SLIDE_PARAMETERS.items()
        ]
    file = {"gpucentric": "gpucentric_parameters.csv"}.get(study, "parameters.csv")
    return [
        (one.system, one.name, one.value, one.unit, one.tag, one.source)
        for one in [*read_parameters(published() / file), *hardware_parameters(), *network_parameters()]
        if one.study == study
    ]


def _parameters(study: str) -> str:
    """Return the parameters of a study with numbered sources, so that each row is one line, and the list of sources."""
    parameters = _parameter_rows(study)
    sources = list(dict.fromkeys(str(row[-1]) for row in parameters))
    rows = [
        (system, f"`{name}`", f"{value:.6g}", unit, tag, f"[{sources.index(source) + 1}]")
        for system, name, value, unit, tag, source in parameters
    ]
    table = _markdown_table(["system", "parameter", "value", "unit", "tag", "source"], rows)
    listed = "\n".join(f"{number}. {_cell(source)}" for number, source in enumerate(sources, 1))
    return f"{table}\nSources:\n\n{listed}\n"


#: Symbols of the constants in the formulas of the page on collectives.
_SYMBOLS = {
    "launch_s": "$a_0$",
    "start_s": "$a$",
    "ll_step_s": "$l_0$",
    "ll_latency": "$l_1$",
    "simple_latency": "$s$",
    "hidden_ratio": "$x$",
    "turn_latency": "$h$",
    "gen4_efficiency": "$e_4$",
    "gen5_efficiency": "$e_5$",
    "host_efficiency": "$e_h$",
    "host_one_way_efficiency": "$e_1$",
}


def _constants() -> str:
    """Constants of the time model of collective operations, with their intervals."""
    names = ["name", "value", "unit", "ci_low", "ci_high", "source"]
    rows = read_csv(published() / "collectives" / "constants.csv", names)
    cells = []
    for row in rows:
        scale, unit = (1e6, "µs") if row["unit"] == "s" else (1.0, row["unit"])
        value, low, high = (f"{scale * row.number(name):.3g}" for name in ("value", "ci_low", "ci_high"))
        cells.append((f"`{row['name']}`", _SYMBOLS[row["name"]], value, unit, low, high))
    return _markdown_table(["constant", "symbol", "value", "unit", "low", "high"], cells)


def _collective_errors() -> str:
    """Errors of all_reduce by machine and class of sizes."""
    times = machine_errors()
    times = times[times["operation"] == "all_reduce"]
    rows = []
    for (system, transport), part in times.groupby(["system", "transport"], sort=True):
        cells: list[object] = [system, transport]
        for size_class in SIZE_CLASSES:
            error = (part["forecast_s"] / part["measured_s"] - 1)[part["size_class"] == size_class].abs()
            cells.append(f"{error.median():.1%} of {len(error)}" if len(error) else "")
        rows.append(tuple(cells))
    return _markdown_table(["machine", "transport", *SIZE_CLASSES], rows)


def _cluster_copy_errors() -> str:
    """Errors of copies between nodes by pattern."""
    rows = [
        (
            row["pattern"],
            row["machines"],
            row["rows"],
            f"{row.number('median'):.1%}",
            f"{row.number('worst'):.0%}",
            row["fitted"],
        )
        for row in recorded_errors()
    ]
    return _markdown_table(["pattern", "machines", "times", "median", "worst", "fitted on the same machine"], rows)


def _state_errors() -> str:
    """Errors of all_reduce by what is known about the machine, with the range and its coverage."""
    names = ("median", "within_band", "coverage")
    cells = [
        (
            *(row[name] for name in STATE_COLUMNS[:5]),
            *(f"{row.number(name):.0%}" for name in names),
            f"{row.number('shortest'):.2f} to {row.number('longest'):.2f}",
        )
        for row in read_csv(published() / "collectives" / "state_errors.csv", STATE_COLUMNS)
    ]
    words = ["known", "transport", "sizes", "machines", "times", "median", "within 15 %", "in the range", "range"]
    return _markdown_table(words, cells)


def _cluster_errors() -> str:
    """Errors on NVLink nodes and clusters, each machine left out, beside NCCL's estimate and alpha-beta."""
    cells = [
        (
            *(row[name] for name in ERROR_COLUMNS[:5]),
            *(f"{row.number(name):.0%}" if row[name] else "" for name in ("median", "within_band", "coverage")),
            f"{row.number('shortest'):.2f} to {row.number('longest'):.2f}",
            *(f"{row.number(name):.0%}" if row[name] else "" for name in ERROR_COLUMNS[-4:]),
        )
        for row in recorded_cluster_errors()
    ]
    words = [
        "machines of",
        "operations",
        "sizes",
        "machines",
        "times",
        "median",
        "within 15 %",
        "in the range",
        "range",
    ]
    more = ["with two rows", "NCCL's estimate", "with two rows", "alpha-beta"]
    return _markdown_table([*words, *more], cells)


#: Constants of collective operations that the forecast of copies over nodes uses, too (fabricast.clusters.build).
_COPY_CONSTANTS = ("verbs_share", "slingshot_share", "card_pair_share")


def _copy_constants() -> str:
    """Return the constants of the forecast of copies over nodes."""
    fitted = [fitted_constants()[name] for name in _COPY_CONSTANTS]
    cells = [(one.meaning, *(f"{value:.3g}" for value in (one.value, one.least, one.most))) for one in fitted]
    return _markdown_table(["constant", "value", "low", "high"], cells)


def _cluster_constants() -> str:
    """Constants of the time model over NVLink and between nodes."""
    cells = []
    for name, one in fitted_constants().items():
        scale, unit = (1e6, "µs") if one.unit == "s" else (1.0, one.unit)
        cells.append((f"`{name}`", one.meaning, *(f"{scale * v:.3g}" for v in (one.value, one.least, one.most)), unit))
    return _markdown_table(["constant", "meaning", "value", "low", "high", "unit"], cells)


def _nodes() -> str:
    """Nodes that are built in."""
    names = ["name", "gpu", "gpus", "fabric", "links", "cards", "card_gbit_s", "attach", "network", "source"]
    rows = read_csv(published() / "nodes.csv", [*names, "per_switch", "cpu"])
    return _markdown_table(names, [(f"`{row['name']}`", *(row[name] for name in names[1:])) for row in rows])


def _default_settings() -> Config:
    """Return the configuration of the default study."""
    return checked_config(yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text(encoding="utf-8")))


def _paper_figures() -> str:
    """Figures of the publications with the slides of the statements that they show, their file and command."""
    settings, sources = _default_settings(), dict[str, list[str]]()
    for claim in read_claims(published() / "claims"):
        if claim.figure and not claim.of_ours:
            _, _, slide = claim.source.rpartition(", ")
            sources.setdefault(claim.figure, []).append(slide)
    cells = []
    for study in study_names(published() / "studies.csv"):
        for entry in figures_of(study, settings).values():
            name = f"{study}.{entry.name}"
            if name in sources:
                slides = ", ".join(dict.fromkeys(sources[name]))
                file = f"reports/figures/{name}.svg"
                cells.append((f"{stories()[study].short}: {entry.title}", slides, f"`{file}`", f"`snakemake {file}`"))
    return _markdown_table(["figure", "slides of its statements", "file", "command"], cells)


#: States of an item of the slides in words, in the order of the page.
ITEM_STATES = {
    "done": "reproduced or stated",
    "answered": "answered by a verdict, with a limit",
    "source": "the text of the slides, or the data at hand, lacks what a comparison needs",
    "part": "in part",
    "absent": "absent",
}


def _slide_items() -> str:
    """Every number, statement, table, figure and equation of the slides: its place in the project and its state."""
    path = REPOSITORY / "docs" / "studies" / "slide_items.csv"
    rows = read_csv(path, ["study", "slide", "kind", "item", "state", "where", "reason"])
    counts = [(text, sum(row["state"] == state for row in rows)) for state, text in ITEM_STATES.items()]
    parts = [_markdown_table(["state", "items"], [*counts, ("all", len(rows))])]
    for study in dict.fromkeys(row["study"] for row in rows):
        cells = [
            (
                row["slide"],
                f"{row['item']} ({row['kind']})",
                ITEM_STATES[row["state"]] + (f": {row['reason']}" if row["reason"] else ""),
                "<br>".join(f"`{place}`" for place in row["where"].split()),
            )
            for row in rows
            if row["study"] == study
        ]
        parts.append(f"## {stories()[study].short}\n\n" + _markdown_table(["slide", "item", "state", "where"], cells))
    return "\n".join(parts)


def _host_copies() -> str:
    """Measured rates of copies between host memory and a GPU, by size."""
    names = ["gpu", "program", "size_bytes", "copies", "median_gb_per_s", "lowest_gb_per_s", "highest_gb_per_s"]
    rows = read_csv(published() / "host_copy_rates.csv", names, ("repetitions",))
    gpus = dict.fromkeys(row["gpu"] for row in rows)
    rates: dict[tuple[float, str, str], dict[str, str]] = {}
    for row in rows:
        median, low, high = row["median_gb_per_s"], row["lowest_gb_per_s"], row["highest_gb_per_s"]
        cells = rates.setdefault((row.number("size_bytes"), row["program"], row["copies"]), {})
        median, low, high = (f"{float(rate):.3g}" for rate in (median, low, high))
        cells[row["gpu"]] = median if low == high else f"{median} ({low}–{high})"
    table = [
        (
            f"{size / 2**20:g} MiB" if size % 2**20 == 0 else f"{size / 1e6:g} MB",
            program,
            copies,
            *(rates[size, program, copies].get(gpu) for gpu in gpus),
        )
        for size, program, copies in sorted(rates)
    ]
    return _markdown_table(["size", "program", "copies", *gpus], table)


def _copy_errors() -> str:
    """Errors of the recommended model on public machines, beside fair sharing of links."""
    names = ["graph_class", "model", "graphs", "median", "within_band", "worst", "sharing_median"]
    rows = [
        (row["graph_class"], row["graphs"], *(f"{row.number(name):.1%}" for name in names[3:]))
        for row in read_csv(published() / "forecast_errors.csv", names)
        if row["model"] == PORTS_AND_ENGINES
    ]
    columns = ["class of graphs", "graphs", "median error", "within 15 %", "worst", "median with fair sharing"]
    with (REPOSITORY / "docs" / "default_claims.csv").open(encoding="utf-8", newline="") as file:
        observed = {row["claim"]: row["observed"] for row in csv.DictReader(file)}
    left_out = float(observed["pcie_copies_many_left_out_median"])
    note = f"Many copies of a GPU, machine left out of the fit: median {left_out:.1f} %."
    return f"{_markdown_table(columns, rows)}\n{note}\n"


#: Uses of measured rows, by the code of the reason for which they are not validated.
_USES = {
    "": "validated",
    "calibration": "calibration",
    "excluded_by_file": "excluded: the publisher doubts the row",
    "no_inter_socket_probe": "excluded: the link between sockets has no probe",
    "no_memory_probe": "excluded: host memory has no probe",
}


def _measured_rows() -> str:
    """Numbers of measured rows by use, of the last default study."""
    try:
        with open_run(REPOSITORY / "results" / "fabricast.duckdb") as connection:
            rows = connection.execute(
                "SELECT CASE WHEN judged THEN '' ELSE reason_code END AS code, count(*) FROM measured_copy "
                "WHERE NOT user_supplied GROUP BY code ORDER BY count(*) DESC, code"
            ).fetchall()
    except InputError:
        return NO_RUN
    return _markdown_table(["use", "rows"], [(_USES.get(code, code), count) for code, count in rows])


def _unprobed() -> str:
    """Ratios of measured times to the earliest time of forecasts that lack a probe."""
    names = ["limit", "machines", "graphs", "in_range", "lowest", "median", "highest"]
    rows = [
        (
            row["limit"],
            row["machines"],
            row["graphs"],
            f"{row.number('in_range'):.0%}" if row["in_range"] else "",
            *(f"{row.number(name):.2f}" for name in names[4:]),
        )
        for row in read_csv(published() / "unprobed_errors.csv", names)
    ]
    columns = ["limit without a probe", "machines", "graphs", "within the range", "lowest", "median", "highest ratio"]
    return _markdown_table(columns, rows)


def _measured_gpus() -> str:
    """Parameters that `make measured` derived on GPUs."""
    files = sorted((published() / "measured_gpus").glob("*.csv"))
    runs = [{one.name: one for one in read_parameters(path)} for path in files]
    rows = [
        (f"`{name}`", one.unit, *(f"{run[name].value:.4g}" for run in runs), one.source.rpartition(";")[0])
        for name, one in runs[0].items()
    ]
    gpus = [path.name.partition(".")[0].upper().replace("_SECOND", " (second)") for path in files]
    return _markdown_table(["parameter", "unit", *gpus, "measurement"], rows)


def _verdicts() -> dict[str, tuple[str, str]]:
    try:
        with open_run(REPOSITORY / "results" / "fabricast.duckdb") as connection:
            rows = connection.execute(
                "SELECT claim, verdict::VARCHAR, note FROM claim "
                f"UNION ALL SELECT target, {TARGET_RESULT}, note FROM target"
            ).fetchall()
    except InputError:
        return {}
    return {claim: (verdict, note) for claim, verdict, note in rows}


def _claims(study: str, verdicts: dict[str, tuple[str, str]]) -> str:
    rows = []
    for claim in read_claims(published() / "claims"):
        if claim.study == study:
            verdict, note = verdicts.get(claim.claim, ("", ""))
            word = VERDICT_WORDS.get(verdict, verdict)
            evidence = claim.evidence.replace("_", " ")
            text = "<br>".join(filter(None, [claim.statement, note or claim.note]))
            rows.append((text, word, evidence, claim.source, f"`{claim.claim}`"))
    table = _markdown_table(["statement and note", "verdict", "evidence", "source", "claim"], rows)
    return table if verdicts else f"{NO_RUN}\n{table}"


def _figures(study: str, static: Path) -> str:
    settings = _default_settings()
    parts = []
    for name, entry in figures_of(study, settings).items():
        source = REPOSITORY / "reports" / "figures" / f"{study}.{name}.svg"
        if source.is_file():
            shutil.copy(source, static / source.name)
            picture = (
                f'<img class="figure" src="../_static/figures/{source.name}" loading="lazy" '
                f'alt="{escape(entry.title)}">\n'
            )
            parts.append(f"### {entry.title}\n\n```{{raw}} html\n{picture}```\n\n{entry.caption}\n")
    labels = [f"{stories()[study].labels}\n"] if parts and stories()[study].labels else []
    return "\n".join(labels + parts) or NO_RUN


#: What figures read that is not a whole table of the database: the rows they take of one.
_ROWS = {
    "example_communication": "communication WHERE graph LIKE 'storm8.example.%'",
    "example_phase": "phase WHERE graph LIKE 'storm8.example.%'",
    "measured": "comparison WHERE study = 'pcie' AND kind = 'measured'",
    "simulated": "comparison WHERE study = 'pcie' AND kind = 'simulated'",
    "simulated_communication": "communication",
    "gpu_gpucentric_measurement": "gpucentric_measurement",
    "gpu_prediction": "prediction WHERE study = 'gpucentric'",
}


def _queries(entry: Entry) -> list[str]:
    """Return a query for each table that a figure reads: asked with a reader that only notes the names."""
    names: list[str] = []

    def note(name: str) -> None:
        names.append(name)

    # What is drawn from nothing ends in an error; which one depends on the figure.
    with suppress(Exception):
        entry.draw(note, _VALUES)
    return [f"SELECT * FROM {_ROWS.get(name, name)}" for name in dict.fromkeys(names)]


#: What figures ask of a run before they read.
_VALUES = {
    "bandwidth_bytes_per_s": 1.0,
    "reference_time_s": 1.0,
    "tolerance": 0.1,
    "simulated_set": "storm8",
    "simulated_topology": "storm8",
    "held_out": ["storm8"],
    "origin": "",
    "system": "",
    "dataset": "",
    "workloads": [],
}


def _gallery(static: Path) -> str:
    """Return all figures with their captions and the queries behind them, study by study."""
    settings = _default_settings()
    parts = []
    for study in study_names(published() / "studies.csv"):
        parts.append(f"## {stories()[study].short}\n\n{stories()[study].labels}\n")
        for name, entry in figures_of(study, settings).items():
            queries = "\n".join(_queries(entry))
            picture = ""
            if (static / f"{study}.{name}.svg").is_file():
                picture = (
                    f'```{{raw}} html\n<img class="figure" src="_static/figures/{study}.{name}.svg" loading="lazy" '
                    f'alt="{escape(entry.title)}">\n```\n\n'
                )
            parts.append(f"### {entry.title}\n\n{picture}{entry.caption}\n\n```sql\n{queries}\n```\n")
    return "\n".join(parts)


def _tables() -> str:
    with duckdb.connect() as connection:
        create_schema(connection)
        names = connection.execute(
            "SELECT table_name, coalesce(comment, '') FROM duckdb_tables() ORDER BY table_name"
        ).fetchall()
        parts = []
        for name, comment in names:
            columns = connection.execute(
                "SELECT column_name, data_type, is_nullable, coalesce(comment, '') FROM duckdb_columns() "
                "WHERE table_name = ? ORDER BY column_index",
                [name],
            ).fetchall()
            key = connection.execute(
                "SELECT constraint_column_names FROM duckdb_constraints() "
                "WHERE table_name = ? AND constraint_type = 'PRIMARY KEY'",
                [name],
            ).fetchone()
            keys = set(key[0]) if key else set()
            rows = [
                (
                    f"**{column}**" if column in keys else column,
                    kind if len(kind) < 40 else "ENUM",
                    "may be NULL" if nullable else "",
                    text,
                )
                for column, kind, nullable, text in columns
            ]
            parts.append(f"## {name}\n\n{comment}\n\n" + _markdown_table(["column", "type", "", "meaning, unit"], rows))
        views = connection.execute(
            "SELECT view_name, coalesce(comment, '') FROM duckdb_views() WHERE NOT internal ORDER BY view_name"
        ).fetchall()
    return "\n".join(parts) + "\n## Views\n\n" + _markdown_table(["view", "what it shows"], views)


#: Tables whose rows are things that rows of other tables are about.
ENTITIES = ("study", "topology", "vertex", "graph", "communication", "network_case", "schedule_summary")


def _links() -> list[tuple[str, str, str]]:
    """Tables that hold the key of an entity: (table, entity, columns of the key)."""
    with duckdb.connect() as connection:
        create_schema(connection)
        keys = dict(
            connection.execute(
                "SELECT table_name, constraint_column_names FROM duckdb_constraints() "
                "WHERE constraint_type = 'PRIMARY KEY'"
            ).fetchall()
        )
        columns: dict[str, set[str]] = {}
        for table, column in connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() JOIN duckdb_tables() USING (table_name)"
        ).fetchall():
            columns.setdefault(table, set()).add(column)
    found = []
    for table, own in sorted(columns.items()):
        found += [
            (table, entity, ", ".join(keys[entity]))
            for entity in ENTITIES
            if entity != table and set(keys[entity]) <= own
        ]
    return found


def _diagram() -> str:
    """Entities and the keys that join them, as SVG: what is referred to stands left."""
    links = _links()
    targets = sorted({other for _, other, _ in links})
    sources = sorted({table for table, _, _ in links})
    width, row = 760, 22
    left = {name: 30 + row * 2 * k for k, name in enumerate(targets)}
    right = {name: 30 + row * k for k, name in enumerate(sources)}
    height = max([*left.values(), *right.values()]) + 30
    lines = [
        f'<path d="M 560 {right[table]} C 420 {right[table]}, 380 {left[other]}, 240 {left[other]}" fill="none" '
        f'stroke="#0072B2" stroke-opacity="0.5"><title>{escape(f"{table} refers to {other} by {key}")}</title></path>'
        for table, other, key in links
    ]
    boxes = [
        f'<rect x="{x}" y="{y - 9}" width="180" height="18" rx="3" fill="{fill}" stroke="#777"/>'
        f'<text x="{x + 90}" y="{y + 4}" font-size="11" text-anchor="middle" fill="#111">{escape(name)}</text>'
        for place, x, fill in ((left, 60, "#d6e8f5"), (right, 560, "#f5f0e1"))
        for name, y in place.items()
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif">'
        "<title>Tables (right) and the tables whose keys they hold (left)</title>"
        f"{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _command_line() -> str:
    """Return every command with its arguments, options and example, as typer documents them."""
    command = [sys.executable, "-m", "typer", "fabricast.cli.main", "utils", "docs", "--name", "fabricast"]
    environment = os.environ | {"PYTHONPATH": str((REPOSITORY / "src").resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    # The page has a title, and Markdown needs no entities for quotes.
    return unescape(done.stdout.partition("\n")[2])


def _generate(app: Sphinx) -> None:
    generated = Path(app.srcdir) / "_generated"
    static = Path(app.srcdir) / "_static" / "figures"
    for folder in (generated, static):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    verdicts = _verdicts()
    for study in study_names(published() / "studies.csv"):
        (generated / f"{study}_parameters.md").write_text(_parameters(study), encoding="utf-8")
        (generated / f"{study}_claims.md").write_text(_claims(study, verdicts), encoding="utf-8")
        (generated / f"{study}_figures.md").write_text(_figures(study, static), encoding="utf-8")
    (generated / "collectives_constants.md").write_text(_constants(), encoding="utf-8")
    (generated / "collectives_errors.md").write_text(_collective_errors(), encoding="utf-8")
    (generated / "paper_figures.md").write_text(_paper_figures(), encoding="utf-8")
    (generated / "slide_items.md").write_text(_slide_items(), encoding="utf-8")
    (generated / "cluster_copy_errors.md").write_text(_cluster_copy_errors(), encoding="utf-8")
    (generated / "cluster_errors.md").write_text(_cluster_errors(), encoding="utf-8")
    (generated / "cluster_constants.md").write_text(_cluster_constants(), encoding="utf-8")
    (generated / "cluster_copy_constants.md").write_text(_copy_constants(), encoding="utf-8")
    (generated / "nodes.md").write_text(_nodes(), encoding="utf-8")
    (generated / "collectives_states.md").write_text(_state_errors(), encoding="utf-8")
    (generated / "pcie_host_copies.md").write_text(_host_copies(), encoding="utf-8")
    (generated / "measured_rows.md").write_text(_measured_rows(), encoding="utf-8")
    (generated / "copy_errors.md").write_text(_copy_errors(), encoding="utf-8")
    (generated / "pcie_unprobed.md").write_text(_unprobed(), encoding="utf-8")
    (generated / "gpucentric_measured.md").write_text(_measured_gpus(), encoding="utf-8")
    (generated / "gallery.md").write_text(_gallery(static), encoding="utf-8")
    (generated / "command_line.md").write_text(_command_line(), encoding="utf-8")
    (generated / "tables.md").write_text(_tables(), encoding="utf-8")
    (generated / "diagram.svg").write_text(_diagram(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Generate the pages before the first one is read."""
    app.connect("builder-inited", _generate)
    app.add_config_value("exclude_generated", True, "env")
    app.config.exclude_patterns.append("_generated/*.md")  # included by others, no pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
