"""Commands for the time of small messages: whatif, breakdown derive, breakdown compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabricast.cli.options import check_name, check_output, check_range

#: Deviation of a total that the study states as its accuracy.
_WITHIN = 0.05

app = typer.Typer()
derive_app = typer.Typer(
    help="Component times of small messages: from timers and traces, and against benchmarks.", no_args_is_help=True
)
app.add_typer(derive_app, name="breakdown")


@app.command(
    epilog="Examples: fabricast whatif thunderx2 --reduce pio_copy=84% --metric injection | "
    "fabricast whatif mine.yaml --reduce integrated_nic=50% --reduce hlp=20% --metric latency"
)
def whatif(
    system: Annotated[str, typer.Argument(help="Published system (thunderx2) or .yaml file.", show_default=False)],
    reduce: Annotated[
        list[str] | None, typer.Option(help="Component or group and the fraction to remove, such as pio_copy=84%.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Total time: injection, injection_llp, latency or latency_llp.")
    ] = "latency",
    remove: Annotated[
        str | None,
        typer.Option(help="Print the reduction of each component that removes this fraction of the total, e.g. 25%."),
    ] = None,
) -> None:
    """Compute how faster components change the total time of a small message."""
    from fabricast.cli.breakdown_whatif import whatif_lines

    for line in whatif_lines(system, reduce or [], metric, remove):
        typer.echo(line)


@derive_app.command(
    "derive",
    epilog="Example: fabricast breakdown derive --timers timers.csv --trace trace.csv --name mine -o mine.yaml",
)
def derive_breakdown(
    timers: Annotated[
        Path,
        typer.Option(
            help="CSV with columns run_id,region,iter,raw_ns,overhead_ns. Regions: mpi_isend, uct_post, md_setup, "
            "md_barrier, dbc_barrier, pio_copy, uct_progress, send_progress, receive_progress."
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the system.")],
    trace: Annotated[
        Path | None,
        typer.Option(
            help="CSV of a PCIe analyser (run_id,seq,t_ns,direction,tlp_type,payload_b,seq_num,acked_seq,role). "
            "Without it, PCIe, network and memory times are reported as one sum."
        ),
    ] = None,
    posts_per_completion: Annotated[int, typer.Option(help="Number of posts per signalled completion.")] = 64,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the system to this .yaml file.")] = None,
) -> None:
    """Derive component times from CPU timers and a PCIe trace."""
    from fabricast.cli.breakdown_derivation import derive_lines

    check_output(output, ".yaml", ".yml", inputs=(timers, trace))
    check_range("--posts-per-completion", posts_per_completion, 1, 1_000_000)
    check_name("--name", name)
    for line in derive_lines(timers, trace, name, posts_per_completion, output):
        typer.echo(line)


@derive_app.command(
    "compare", epilog="Example: fabricast breakdown compare mine.yaml osu_latency.txt ib_write_lat.txt ucx.txt"
)
def compare(
    system: Annotated[str, typer.Argument(help="Published system (thunderx2) or .yaml file.", show_default=False)],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Output of osu_latency, osu_bw, osu_mbw_mr, IMB, ucx_perftest or perftest.", show_default=False
        ),
    ],
) -> None:
    """Compare the totals of a breakdown with benchmarks; exit code 1 if one deviates by more than 5 %."""
    from fabricast.api.breakdown import compare_breakdown
    from fabricast.core.number_text import size_text

    table = compare_breakdown(system, files)
    for row in table.to_dict("records"):
        low, high = row["low_ns"], row["high_ns"]
        bounds = f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"
        typer.echo(
            f"{row['file']}: {row['test']}, {size_text(row['size_bytes'])}: {row['measured_ns']:.1f} ns measured, "
            f"{bounds} ns {row['total']} of the breakdown ({row['deviation']:+.1%} of the measured time)"
        )
    within = int((table["deviation"].abs() <= _WITHIN).sum())
    typer.echo(f"{within} of {len(table)} within {_WITHIN:.0%}")
    if within < len(table):
        raise typer.Exit(1)
