"""Commands for finished runs: claims."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

__all__ = ["app"]

app = typer.Typer()


@app.command(epilog="Example: fabricast claims --strict")
def claims(
    database: Annotated[Path, typer.Option(help="Database of a finished run.")] = Path("results/fabricast.duckdb"),
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a claim of the baseline has lost its verdict.")
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="Record the verdicts of this run as the baseline.")] = False,
) -> None:
    """Print the claims of a finished run, and their verdicts by type of evidence."""
    from fabricast.core.resources import published
    from fabricast.results.claim_record import claim_text, lost_claims, read_baseline, write_baseline

    baseline = published() / "claims_baseline.csv"
    Console(width=None if sys.stdout.isatty() else 400).print(claim_text(database))
    if record:
        typer.echo(f"{write_baseline(database, baseline)} claims that hold were recorded in {baseline}")
    if strict:
        lost = lost_claims(database, read_baseline(baseline))
        for name, before, now in lost:
            typer.echo(f"fabricast: lost: {name} was {before} and now is {now}", err=True)
        if lost:
            raise typer.Exit(1)
