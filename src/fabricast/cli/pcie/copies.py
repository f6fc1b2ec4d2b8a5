"""Commands for PCIe trees: simulate, calibrate, schedule, models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabricast.cli.options import (
    ALL_TO_ALL,
    BANDWIDTH,
    COPIES,
    CROSSING_COST,
    DISPLAY,
    FILES,
    FILES_WITH_GRAPHS,
    FORMAT,
    GPU,
    HALO,
    LINK,
    MEASUREMENTS,
    OUTPUT,
    PARAMETERS,
    PCIE_ONLY,
    RING,
    SIZE,
    SYSTEM,
    TAU,
    THREADS,
    VERBOSE,
    check_model_parameters,
    check_output,
    check_range,
    check_seed,
    check_threads,
    print_warnings,
    rate_of,
    size_of,
)
from fabricast.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from fabricast.api.simulations import PacketHardware


app = typer.Typer()

GENERATION = typer.Option(help="PCIe generation of the links, if the topology has no link speeds.", show_default=False)
WIDTH = typer.Option(help="Lanes of the links, if the topology has no link speeds.", show_default=False)
LIMITED_BY = typer.Option("--limited-by", help="Add the copies whose removal shortens each copy, by simulation.")


@app.command(
    epilog="Examples: fabricast simulate pcie5_four_switches --copies '0>3 1>3' --limited-by | fabricast simulate "
    "storm8 graphs.csv --hardware split_256_128 -o simulated.csv | fabricast simulate storm8 graphs.csv --trace halo"
)
def simulate(
    files: Annotated[list[str], FILES_WITH_GRAPHS],
    all_to_all: Annotated[str | None, ALL_TO_ALL] = None,
    halo: Annotated[str | None, HALO] = None,
    ring: Annotated[bool, RING] = False,
    copies: Annotated[str | None, COPIES] = None,
    hardware: Annotated[
        str, typer.Option(help="Preset: no_split, split_256_128, split_128_64 or split_256_64.")
    ] = "no_split",
    payload_bytes: Annotated[int | None, typer.Option(help="Maximum packet payload in bytes: 128, 256 or 512.")] = None,
    split_bytes: Annotated[
        int | None, typer.Option(help="Payload in bytes after a split at the root complex; 0: no split.")
    ] = None,
    piece_cost_ns: Annotated[float, typer.Option(help="Additional time per packet after the split, in ns.")] = 0.0,
    parameters: Annotated[Path | None, PARAMETERS] = None,
    generation: Annotated[int | None, GENERATION] = None,
    width: Annotated[int | None, WIDTH] = None,
    buffering: Annotated[str, typer.Option(help="Buffers: fifo or virtual_output_queues.")] = "fifo",
    switching: Annotated[str, typer.Option(help="Switches: store_and_forward or cut_through.")] = "store_and_forward",
    hop_latency_ns: Annotated[float, typer.Option(help="Delay of packets and credits on each link, in ns.")] = 0.0,
    header_credits: Annotated[int, typer.Option(help="Posted-header credits per buffer.")] = 64,
    data_credits: Annotated[int, typer.Option(help="Posted-data credits (16 bytes each) per buffer.")] = 320,
    link_layer_packets: Annotated[
        bool, typer.Option("--link-layer-packets", help="Account for acknowledgements on bidirectional links.")
    ] = False,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    include_display: Annotated[bool, DISPLAY] = False,
    gpu: Annotated[str | None, GPU] = None,
    link: Annotated[str | None, LINK] = None,
    size: Annotated[str, SIZE] = "300MiB",
    limited_by: Annotated[bool, LIMITED_BY] = False,
    threads: Annotated[int | None, THREADS] = None,
    trace: Annotated[str | None, typer.Option(help="Trace this graph instead of simulating all graphs.")] = None,
    transmissions: Annotated[int, typer.Option(help="Number of transmissions to trace.")] = 2000,
    trace_output: Annotated[Path, typer.Option(help="Parquet file of the trace; a .png is drawn next to it.")] = Path(
        "trace.parquet"
    ),
    format_: Annotated[str | None, FORMAT] = None,
    output: Annotated[Path | None, OUTPUT] = None,
    verbose: Annotated[bool, VERBOSE] = False,
) -> None:
    """Simulate each congestion graph packet by packet, independently of the models."""
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.simulations import graphs_to_simulate
    from fabricast.api.simulations import simulate as simulate_times
    from fabricast.cli.output import print_elapsed, printed_format, write_elapsed
    from fabricast.cli.pcie.patterns import Patterns
    from fabricast.cli.pcie.trace import trace_file
    from fabricast.runtime.jobs import progress_of

    size_bytes = size_of(size)
    check_output(output, ".csv", ".parquet", inputs=(*files, parameters))
    shown = printed_format(format_, output)
    threads = check_threads(threads)
    chosen = _hardware(
        hardware,
        payload_bytes,
        split_bytes,
        piece_cost_ns=piece_cost_ns,
        buffering=buffering,
        switching=switching,
        hop_latency_ns=hop_latency_ns,
        header_credits=header_credits,
        data_credits=data_credits,
        link_layer_packets=link_layer_packets,
    )
    machine, graph_file = open_files(files, with_graphs=True, gpu=gpu, link=link, include_display=include_display)
    path = None if graph_file is None else Path(graph_file.path)
    patterns = Patterns(path, all_to_all, halo, ring, host_to_all=None, copies=copies)
    if trace is not None:
        if output is not None:
            raise InputError("--output and --trace are mutually exclusive; use --trace-output for the trace")
        if graph_file is None or limited_by:
            raise InputError("--trace draws one graph of a file, without --limited-by")
        check_output(trace_output, ".parquet", option="--trace-output", inputs=(*files, parameters))
        for line in trace_file(
            machine.tree,
            graph_file,
            chosen,
            graph=trace,
            transmissions=transmissions,
            output=trace_output,
            size_bytes=size_bytes,
            generation=generation,
            width=width,
            parameters_file=parameters,
            pcie_only=pcie_only,
        ):
            typer.echo(line)
        return
    if graph_file is None:
        read = patterns.graphs(machine.tree, size_bytes)
    else:
        read = graphs_to_simulate(machine.tree, graph_file, size_bytes)
    with progress_of("simulating", len(read)) as advance:
        times = simulate_times(
            machine,
            read,
            hardware=chosen,
            generation=generation,
            width=width,
            parameters=parameters,
            pcie_only=pcie_only,
            limited_by=limited_by,
            threads=threads,
            progress=advance,
        )
    if output is None:
        print_elapsed(times, shown)
    else:
        write_elapsed(times, output)
    print_warnings(times.attrs["warnings"], verbose=verbose)


def _hardware(name: str, payload_bytes: int | None, split_bytes: int | None, **changes: Any) -> PacketHardware:
    """Return a hardware preset with the changes of the options."""
    from dataclasses import replace

    from fabricast.api.simulations import HARDWARE

    if name not in HARDWARE:
        raise unknown_name("hardware", name, HARDWARE)
    preset = HARDWARE[name]
    return replace(
        preset,
        payload_bytes=preset.payload_bytes if payload_bytes is None else payload_bytes,
        split_bytes=preset.split_bytes if split_bytes is None else (split_bytes or None),
        **changes,
    )


@app.command(epilog="Example: fabricast calibrate machine.xml probes.csv -o machine.parameters.csv")
def calibrate(
    files: Annotated[list[str], FILES],
    measurements: Annotated[list[str] | None, MEASUREMENTS] = None,
    system: Annotated[str | None, SYSTEM] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 20161113,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the parameters to this .csv file, for --parameters.")
    ] = None,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Estimate bandwidth, crossing cost and tau from probes, with 95 % intervals.

    Isolated copies below a switch and across the root complex are used, and times of a local and a crossing copy to the
    same endpoint.
    """
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.machines import calibrate as estimate
    from fabricast.inputs.files import atomic_write

    inputs = [*files, *(measurements or [])]
    check_output(output, ".csv", inputs=inputs)
    check_seed(seed)
    machine, _ = open_files(inputs, include_display=include_display, system=system)
    table = estimate(machine, seed=seed, pcie_only=pcie_only)
    if output is not None:
        with atomic_write(output) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")
    for row in table.to_dict("records"):
        scale, shown = (1e9, "GB/s") if row["unit"] == "bytes/s" else (1.0, "")
        runs = table.attrs["probes"][row["name"]]
        interval = f"{row['ci_low'] / scale:.6g} to {row['ci_high'] / scale:.6g}, {runs} runs"
        interval_text = interval if runs > 1 else "1 run of its probe, no interval"
        typer.echo(f"{row['name']:14} {row['value'] / scale:.6g} {shown} ({interval_text})")
    for name in table.attrs["not_determined"]:
        typer.echo(f"{name:14} not determined by these probes")


@app.command(
    epilog="Examples: fabricast schedule storm8 --halo 2x2x2 --top 3 | "
    "fabricast schedule machine.xml --communications pattern.csv -o best.json"
)
def schedule(
    files: Annotated[list[str], FILES],
    halo: Annotated[str | None, typer.Option(help="Halo exchange on a process grid such as 4x2 or 2x2x2.")] = None,
    communications: Annotated[
        Path | None, typer.Option(help="CSV with columns source,target[,size_bytes], in naive order.")
    ] = None,
    mode: Annotated[str, typer.Option(help="Steps: synchronised or asynchronous.")] = "asynchronous",
    model: Annotated[str, typer.Option(help="Name of the model, see 'fabricast models'.")] = "congestion_factor",
    parameters: Annotated[Path | None, PARAMETERS] = None,
    bandwidth: Annotated[str | None, BANDWIDTH] = None,
    tau: Annotated[float | None, TAU] = None,
    crossing_cost: Annotated[float | None, CROSSING_COST] = None,
    latency_us: Annotated[float, typer.Option(help="Delay before each send in microseconds.")] = 0.0,
    size: Annotated[str, SIZE] = "256KiB",
    top: Annotated[int, typer.Option(help="Number of fastest schedules to print.")] = 10,
    threads: Annotated[int | None, THREADS] = None,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    include_display: Annotated[bool, DISPLAY] = False,
    verbose: Annotated[bool, VERBOSE] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the ordered targets of each rank to this .csv or .json file."),
    ] = None,
) -> None:
    """Find the fastest order of copies by enumeration, or by search with a lower bound."""
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.schedules import EVALUATIONS, fastest_schedule, halo_pattern, read_pattern
    from fabricast.cli.pcie.schedule_text import parse_grid, schedule_lines, write_schedules
    from fabricast.runtime.jobs import progress_of

    check_model_parameters(tau, crossing_cost)
    size_bytes, bandwidth_bytes_per_s = size_of(size), rate_of(bandwidth)
    check_range("--latency-us", latency_us, 0, 1e9)
    check_range("--top", top, 1, 100_000)
    threads = check_threads(threads)
    check_output(output, ".csv", ".json", inputs=(communications, parameters, *files))
    if (halo is None) == (communications is None):
        raise InputError("expected either --halo GRID or --communications FILE")
    machine, _ = open_files(files, include_display=include_display)
    tree = machine.tree
    if halo is not None:
        pattern = halo_pattern(parse_grid(halo), len(tree.endpoint_names), size_bytes=size_bytes)
    else:
        assert communications is not None
        pattern = read_pattern(communications, tree, size_bytes=size_bytes)
    with progress_of("searching schedules", EVALUATIONS) as advance:
        fastest = fastest_schedule(
            machine,
            pattern,
            mode=mode,
            model=model,
            bandwidth=bandwidth_bytes_per_s,
            tau=tau,
            crossing_cost=crossing_cost,
            parameters=parameters,
            latency_s=latency_us * 1e-6,
            top=top,
            pcie_only=pcie_only,
            threads=threads,
            progress=advance,
        )
    for line in schedule_lines(tree, fastest.search):
        typer.echo(line)
    typer.echo(f"model {model}; copies without a specified size have {size}")
    if output is not None:
        write_schedules(tree, fastest.search, output)
    print_warnings(fastest.warnings, verbose=verbose)


@app.command(epilog="Example: fabricast models --all")
def models(
    all_: Annotated[bool, typer.Option("--all", help="List the readings of the SC16 paper, too.")] = False,
) -> None:
    """List the models for 'predict --model', when to use each, and its error on public measurements."""
    from fabricast.api.model_list import model_list

    for entry in model_list(every=all_):
        typer.echo(f"{', '.join(entry.names):24} {entry.title}: {entry.use}")
        for line in entry.errors:
            typer.echo(f"{'':24}   {line}")
