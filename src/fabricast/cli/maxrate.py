"""Commands for message rates of several processes per node: fit, collect."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from fabricast.cli.options import check_name, check_output, check_processes, check_range, check_seed

app = typer.Typer()


@app.command(epilog="Examples: fabricast fit mine.csv --model refined | fabricast fit osu_mbw_mr.out --model maxrate")
def fit(
    files: Annotated[
        list[str],
        typer.Argument(
            help="CSV or Parquet with columns processes,size_bytes,time_s (see config/README.md), or output of "
            "nodecomm, BenchPress, osu_latency, osu_bw, osu_mbw_mr, osu_multi_lat, IMB-MPI1, netgauge, ucx_perftest or "
            "perftest; - is standard input.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Model: postal, maxrate, refined, refined_latency or overload; by default refined, maxrate if the "
            "data determine it better, and postal for one number of processes.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[int | None, typer.Option(help="Number of process pairs, if the output omits it.")] = None,
    node_pairs: Annotated[
        int, typer.Option(help="Number of node pairs over which the processes of a run are spread evenly.")
    ] = 1,
    smallest_bytes: Annotated[str, typer.Option(help="Ignore messages below this size, such as 4096 or 4KiB.")] = "0",
    largest_bytes: Annotated[
        str | None, typer.Option(help="Ignore messages above this size, such as 1MiB.", show_default=False)
    ] = None,
    forecast: Annotated[
        str | None,
        typer.Option(
            help="Print the time that the fit forecasts for processes and sizes, such as '16x64KiB 32x1MiB'.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Bootstrap samples for the intervals.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the starting points and the bootstrap.")] = 20161113,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the parameters to this .csv file.", show_default=False)
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="Format of printed results: text or json.")] = "text",
) -> None:
    """Fit a max-rate model; print intervals, errors, LogGOPS and SimGrid values."""
    from fabricast.cli.maxrate_fit import FitOptions, fit_lines, fit_table
    from fabricast.core.errors import InputError, unknown_name
    from fabricast.core.quantities import to_bytes
    from fabricast.inputs.files import write_text

    paths, counts = _counted(files, processes)
    check_output(output, ".csv", inputs=paths)
    if format_ not in ("text", "json"):
        raise unknown_name("--format", format_, ("text", "json"))
    check_range("--draws", draws, 20, 100_000)
    check_processes(processes)
    check_range("--node-pairs", node_pairs, 1, 1_000_000)
    smallest = 0.0 if smallest_bytes.strip() == "0" else to_bytes(smallest_bytes, "--smallest-bytes")
    largest = math.inf if largest_bytes is None else to_bytes(largest_bytes, "--largest-bytes")
    if largest_bytes is not None:
        check_range("--largest-bytes", largest, smallest, 1e15)
    check_seed(seed)
    cells = () if forecast is None else _cells_of(forecast)
    if cells and (output is not None or format_ == "json"):
        raise InputError("is printed as text only, expected neither --output nor --format json", argument="forecast")
    options = FitOptions(model, counts or processes, node_pairs, smallest, largest, draws, seed, cells)
    if output is not None or format_ == "json":
        table = fit_table(paths, options)
        if output is not None:
            write_text(output, table.to_csv(index=False, lineterminator="\n"))
        if format_ == "json":
            typer.echo(table.to_json(orient="records", indent=1))
        return
    for line in fit_lines(paths, options):
        typer.echo(line)


def _cells_of(text: str) -> tuple[tuple[int, float], ...]:
    """Return numbers of processes and sizes in bytes of a text such as ``16x64KiB 32x1MiB``."""
    from fabricast.core.errors import InputError
    from fabricast.core.quantities import to_bytes

    cells = []
    for word in text.replace(",", " ").split():
        match = re.fullmatch(r"(\d{1,7})x(\S{1,40})", word)
        if match is None:
            raise InputError(
                f"has '{word}', expected processes and size such as 16x64KiB (16 processes, 64 KiB each)",
                argument="forecast",
            )
        check_processes(int(match[1]))
        cells.append((int(match[1]), to_bytes(match[2], "--forecast")))
    return tuple(cells)


def _counted(files: list[str], processes: int | None) -> tuple[list[str], dict[str, int]]:
    """Return files without numbers of processes such as ``4=FILE``, and these numbers if there are any."""
    from fabricast.core.errors import InputError
    from fabricast.inputs.files import exists

    paths, counts = [], dict[str, int]()
    for text in files:
        match = re.fullmatch(r"([0-9]{1,7})=(.+)", text)
        is_counted = match is not None and not exists(text)
        if not is_counted and text != "-" and not exists(text):
            unit = "; a size with a blank needs quotes" if re.fullmatch("[KMGT]?i?B", text) else ""
            raise InputError(f"is no file{unit}", path=text)
        paths.append(match[2] if match is not None and is_counted else text)
        if match is not None and is_counted:
            check_processes(int(match[1]))
            counts[paths[-1]] = int(match[1])
    if counts and processes is not None:
        counts = {path: counts.get(path, processes) for path in paths}
    return paths, counts


@app.command(
    epilog="Examples: fabricast collect osu_k1.out osu_k2.out osu_k4.out -o mine.csv; "
    "fabricast collect all_reduce.log --machine my_cluster -o rows.csv"
)
def collect(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Output files of benchmark programs, or CSV; 4=FILE is of 4 process pairs, if the output omits it.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file to write.")],
    processes: Annotated[int | None, typer.Option(help="Number of process pairs, if the output omits it.")] = None,
    node_pairs: Annotated[
        int, typer.Option(help="Number of node pairs over which the processes of a run are spread evenly.")
    ] = 1,
    name: Annotated[
        str | None, typer.Option(help="Name of the data set; by default that of the output file.", show_default=False)
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            help="Machine of logs of nccl-tests: write rows as 'fabricast reference' reads them.", show_default=False
        ),
    ] = None,
    setting: Annotated[
        str, typer.Option(help="Setting of these logs in words, such as Ring.", show_default=False)
    ] = "",
) -> None:
    """Collect benchmark outputs as one data set in CSV, with a digest of each file."""
    from fabricast.core.errors import InputError

    if machine is not None:
        if processes is not None or node_pairs != 1 or name is not None:
            raise InputError("--machine excludes --processes, --node-pairs and --name, which are of MPI messages")
        _collect_collectives(files, output, machine, setting)
        return
    from fabricast.api.messages import write_measurements

    names, counts = _counted(files, processes)
    paths = [Path(name) for name in names]
    check_output(output, ".csv", inputs=paths)
    check_processes(processes)
    check_range("--node-pairs", node_pairs, 1, 1_000_000)
    if name is not None:
        check_name("--name", name)
    table = write_measurements(paths, output, processes=counts or processes, node_pairs=node_pairs, name=name)
    for dataset, part in table.groupby("dataset", sort=True):
        listed = ", ".join(str(count) for count in sorted(set(part["processes"])))
        typer.echo(f"{output}: data set '{dataset}', {len(part)} cells, processes {listed}")


def _collect_collectives(files: list[str], output: Path, machine: str, setting: str) -> None:
    """Write the times of logs of nccl-tests as rows of public machines."""
    from fabricast.api.clusters import collected_rows
    from fabricast.inputs.files import write_text

    check_output(output, ".csv", inputs=[Path(path) for path in files])
    check_name("--machine", machine)
    rows = collected_rows(files, machine, setting)
    write_text(output, rows.to_csv(index=False, lineterminator="\n"))
    typer.echo(f"{output}: {len(rows)} rows of '{machine}'")
