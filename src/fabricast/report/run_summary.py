"""Summary that a run prints at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

#: File of each kind of measurement, relative to the folder of results.
_MEASURED = {
    "MPI message": "breakdown/measured.timers.csv",
    "pairs of processes": "maxrate/this_machine.csv",
    "GPU": "gpucentric/this_gpu.csv",
    "copies between GPUs": "pcie/this_machine.copies.csv",
    "all_reduce": "collectives/this_machine.log",
}
#: Pages of a run, relative to the folder of reports, and the databases behind them.
_DATABASES = {"report.html": "fabricast.duckdb", "your_machine.html": "your_machine.duckdb"}


def _duration_text(seconds: float) -> str:
    """Format a duration in s, min and h.

    >>> _duration_text(47.4), _duration_text(167), _duration_text(3725)
    ('47 s', '2 min 47 s', '1 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _verdict_text(tables: Path) -> str:
    """Return how many statements hold in a run by the kind of evidence, and how many targets are met."""
    # Imported here, because a run without new results needs no database.
    from fabricast.results.claim_record import is_tested, result_counts, targets_text
    from fabricast.results.tables import read_table

    rows, targets = (read_table(tables / f"{name}.parquet") for name in ("claim", "target"))
    results = targets[["met", "discriminates"]].astype(object).where(targets[["met", "discriminates"]].notna(), None)
    results_of_claims = list(zip(rows["verdict"], rows["evidence"], strict=True))
    counts = result_counts(results_of_claims)
    tested = sum(is_tested(*result) for result in results_of_claims)
    of_targets = targets_text(results.itertuples(index=False, name=None))
    return (
        f"of {tested} tested published statements, {counts['independent data']} hold in independent data and "
        f"{counts['in sample']} in data of a fit; {of_targets}"
    )


def measured_lines(folders: Mapping[str, str], started: float) -> list[str]:
    r"""Return one line per measurement of this run, or the reason why it is missing.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "pcie").mkdir()
    >>> copies = folder / "pcie" / "this_machine.copies.csv"
    >>> _ = copies.write_text("# nothing measured: no CUDA driver was found\ngraph\n")
    >>> measured_lines({"results": str(folder)}, 0.0)
    ['copies between GPUs: nothing measured: no CUDA driver was found']
    """
    summaries = []
    for what, name in _MEASURED.items():
        path = Path(folders.get("results", "results")) / name
        if path.is_file() and path.stat().st_mtime >= started:
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = sum(not line.startswith("#") for line in lines) - 1
            note = lines[0].lstrip("# ") if lines and lines[0].startswith("#") else ""
            if not note.startswith("nothing measured"):
                count = f"{rows} rows in {path}" if path.suffix == ".csv" else str(path)
                note = ", ".join(filter(None, [note, count]))
            summaries.append(f"{what}: {note}")
    return summaries


def answer_lines(folders: Mapping[str, str], started: float) -> list[str]:
    """Return one line per study with the answer of a run; empty without a new report.

    >>> answer_lines({"results": "no/such/folder", "reports": "no/such/folder"}, 0.0)
    []
    """
    name = _new_page(folders, started)
    if name is None:
        return []
    database = Path(folders.get("results", "results")) / _DATABASES[name]
    # Imported here, because a run without new results needs no database.
    from fabricast.report.stories import answers_text
    from fabricast.results.tables import open_run

    with open_run(database) as connection:
        return answers_text(connection)


def summary_text(folders: Mapping[str, str], started: float) -> str:
    """Return the duration of a run, how many statements hold, and the path of its report.

    >>> summary_text({"results": "no/such/folder", "reports": "no/such/folder"}, time.time())
    'done in 0 s'
    """
    text = f"done in {_duration_text(time.time() - started)}"
    claims = Path(folders.get("results", "results")) / "tables" / "claim.parquet"
    page = _new_page(folders, started)
    if claims.is_file() and claims.stat().st_mtime >= started:
        text += f"; {_verdict_text(claims.parent)}"
    if page is not None:
        text += f"; report: {Path(folders.get('reports', 'reports')) / page}"
    return text


def _new_page(folders: Mapping[str, str], started: float) -> str | None:
    """Return the name of the page that this run wrote, if any."""
    reports = Path(folders.get("reports", "reports"))
    written = (
        name for name in _DATABASES if (reports / name).is_file() and (reports / name).stat().st_mtime >= started
    )
    return next(written, None)
