"""Commands for the studies: their figures, and the claims of a finished run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer()

#: Width of tables that are not printed to a terminal, in characters.
_PIPE_WIDTH = 150
#: Width of a terminal from which claims are a table.
_TABLE_WIDTH = 120


@app.command(epilog="Example: fabricast claims --strict")
def claims(
    of_study: Annotated[
        str | None, typer.Argument(metavar="STUDY", help="Print only claims of this study.", show_default=False)
    ] = None,
    database: Annotated[Path, typer.Option(help="Database of a finished run.")] = Path("results/fabricast.duckdb"),
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a claim of the baseline has lost its verdict.")
    ] = False,
    study: Annotated[str | None, typer.Option(help="The same as an option.", show_default=False)] = None,
    verdict: Annotated[
        str | None, typer.Option(help="Print only claims with this verdict, such as 'model differs'.")
    ] = None,
    claim: Annotated[
        str | None, typer.Option(help="Print only claims whose name contains this text.", show_default=False)
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Print only claims whose value or verdict differs from this database of another run.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="Format: table or csv.")] = "table",
    record: Annotated[bool, typer.Option("--record", help="Record the verdicts of this run as the baseline.")] = False,
) -> None:
    """Print the claims of a finished run, and their verdicts by type of evidence."""
    from fabricast.core.errors import unknown_name
    from fabricast.core.resources import published
    from fabricast.results.claim_record import (
        changed_claims,
        changes_text,
        claim_rows,
        claim_text,
        lost_claims,
        read_baseline,
        write_baseline,
    )

    if format_ not in ("table", "csv"):
        raise unknown_name("--format", format_, ("table", "csv"))
    study = study or of_study
    baseline = published() / "claims_baseline.csv"
    is_terminal = sys.stdout.isatty()
    console = Console(width=None if is_terminal else _PIPE_WIDTH, highlight=False)
    if against is not None:
        changed = changed_claims(database, against, study=study)
        if format_ == "csv":
            changed.to_csv(sys.stdout, index=False, lineterminator="\n")
        else:
            console.print(changes_text(changed))
    elif format_ == "csv":
        rows = claim_rows(database, study=study, verdict=verdict, name=claim)
        rows.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        is_narrow = console.width < _TABLE_WIDTH
        options = {"study": study, "verdict": verdict, "name": claim}
        console.print(claim_text(database, **options, folds_names=is_terminal, is_narrow=is_narrow))
    if record:
        typer.echo(f"{write_baseline(database, baseline)} claims that hold were recorded in {baseline}")
    if strict:
        lost = lost_claims(database, read_baseline(baseline))
        for name, before, now in lost:
            typer.echo(f"fabricast: lost: {name} was {before} and now is {now}", err=True)
        if lost:
            raise typer.Exit(1)


@app.command(epilog="Example: fabricast figures --study percs")
def figures(
    study: Annotated[str | None, typer.Option(help="List only figures of this study.", show_default=False)] = None,
    captions: Annotated[bool, typer.Option("--captions", help="Print the caption of each figure, too.")] = False,
) -> None:
    """List the figures of the studies, each with the command that draws it."""
    from fabricast.cli.options import print_wrapped
    from fabricast.core.errors import unknown_name
    from fabricast.figures.catalogue import entries_of, studies_with_figures

    names = studies_with_figures()
    if study is not None and study not in names:
        raise unknown_name("--study", study, names)
    # The rules that draw them are in a clone of the repository, not in an installed package.
    if not Path("Snakefile").is_file():
        typer.echo("# in a clone of the repository, after 'make':")
    for name in names if study is None else [study]:
        for entry in entries_of(name):
            typer.echo(f"snakemake reports/figures/{name}.{entry.name}.svg  # {entry.title}")
            if captions:
                print_wrapped(f"   {entry.caption}")
    typer.echo("run these commands in a clone; figure_formats of the configuration adds .pdf and .png", err=True)
