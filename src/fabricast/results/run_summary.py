"""What a run says at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

__all__ = ["duration_text", "summary_text", "verdict_text"]


def duration_text(seconds: float) -> str:
    """Return a time as people say it.

    Examples
    --------
    >>> duration_text(47.4), duration_text(167), duration_text(3725)
    ('47 s', '2 min 47 s', '1 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def verdict_text(claims: Path | str) -> str:
    """Return what a run says of its claims.

    Parameters
    ----------
    claims : Path or str
        Parquet file of the table claim.
    """
    # Imported here: a run that does nothing needs no database.
    from fabricast.results.claim_record import headline
    from fabricast.results.tables import read_table

    rows = read_table(claims)
    return headline(zip(rows["verdict"], rows["evidence"], rows["of_ours"].astype(bool), strict=True))


def summary_text(folders: Mapping[str, str], started: float) -> str:
    """Return how long a run took, and what it wrote of claims and report.

    Parameters
    ----------
    folders : mapping
        Folders of results and reports, where they differ from these names.
    started : float
        When the run began, in seconds since the epoch.

    Examples
    --------
    >>> summary_text({"results": "no/such/folder", "reports": "no/such/folder"}, time.time())
    'done in 0 s'
    """
    text = f"done in {duration_text(time.time() - started)}"
    claims = Path(folders.get("results", "results")) / "tables" / "claim.parquet"
    page = Path(folders.get("reports", "reports")) / "report.html"
    if claims.is_file() and claims.stat().st_mtime >= started:
        text += f"; claims: {verdict_text(claims)}"
    if page.is_file() and page.stat().st_mtime >= started:
        text += f"; report: {page}"
    return text
