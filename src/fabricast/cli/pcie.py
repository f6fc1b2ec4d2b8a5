"""Commands on PCIe trees: predict, simulate, calibrate, schedule, models."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabricast.cli.options import (
    BANDWIDTH,
    CROSSING_COST,
    DISPLAY,
    GRAPHS,
    OUTPUT,
    PARAMETERS,
    PCIE_ONLY,
    SIZE,
    TAU,
    THREADS,
    TOPOLOGY,
    check_model_parameters,
    check_output,
    check_range,
    check_seed,
    check_size,
    check_threads,
    print_notes,
)
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.units import GIB, MIB

if TYPE_CHECKING:
    from fabricast.api.prediction_table import Prediction
    from fabricast.api.predictions import Predictor
    from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
    from fabricast.pcie.packets.hardware import PacketHardware

__all__ = ["app"]

app = typer.Typer()


@app.command(epilog="Example: fabricast predict storm8 graphs.csv --model round_robin_upstream -o elapsed.parquet")
def predict(
    topology: Annotated[str, TOPOLOGY],
    graphs: Annotated[Path, GRAPHS],
    model: Annotated[str, typer.Option(help="Model; 'fabricast models' lists them.")] = "congestion_factor",
    parameters: Annotated[Path | None, PARAMETERS] = None,
    bandwidth_gib: Annotated[float | None, BANDWIDTH] = None,
    tau: Annotated[float | None, TAU] = None,
    crossing_cost: Annotated[float | None, CROSSING_COST] = None,
    size_mib: Annotated[float, SIZE] = 300.0,
    output: Annotated[Path | None, OUTPUT] = None,
    explain: Annotated[
        bool, typer.Option("--explain/--no-explain", help="Name what limits each communication, and who shares it.")
    ] = True,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    program: Annotated[
        str | None,
        typer.Option(
            help="For endpoint_engines, where the file has no column program: ordered_writes (PyTorch), "
            "unordered_reads (p2pmark), unordered_writes or independent.",
            show_default=False,
        ),
    ] = None,
    measurements: Annotated[
        Path | None,
        typer.Option(
            help="For endpoint_engines: copies measured on this machine, as for 'fabricast validate'; they give its "
            "rates.",
            show_default=False,
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(help="Take only measurements of this system.")] = None,
    threads: Annotated[int | None, THREADS] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Predict when each communication of each congestion graph ends."""
    from fabricast.api.predictions import Predictor
    from fabricast.cli.output import write_elapsed
    from fabricast.pcie.graphs.files import ScatteredGraphError, read_graphs
    from fabricast.pcie.topology.files import load_tree

    check_model_parameters(bandwidth_gib, tau, crossing_cost)
    check_size("--size-mib", size_mib, MIB)
    check_output(output, ".csv", ".parquet", inputs=(graphs, parameters, measurements, topology))
    threads = check_threads(threads)
    tree = load_tree(topology, include_display=include_display)
    predictor = partial(
        Predictor, tree, model=model, bandwidth=None if bandwidth_gib is None else bandwidth_gib * GIB, tau=tau,
        crossing_cost=crossing_cost, parameters=parameters, pcie_only=pcie_only, explain=explain, threads=threads,
        program=program, measurements=measurements, system=system,
    )  # fmt: skip
    if output is not None:
        with suppress(ScatteredGraphError):
            print_notes(_predict_blocks(predictor(), graphs, size_mib * MIB, output, threads))
            return
    whole = predictor()
    read = read_graphs(graphs, whole.tree, size_bytes=size_mib * MIB, programs=True)
    write_elapsed(whole.predict(read), output)
    print_notes(whole.notes())


def _predict_blocks(
    predictor: Predictor, graphs_file: Path, size_bytes: float, output: Path, threads: int
) -> list[str]:
    """Predict the graphs of a file some at a time; return what the reader should know."""
    from fabricast.cli.output import write_elapsed_parts
    from fabricast.pcie.graphs.files import graph_blocks
    from fabricast.runtime.jobs import progress_of
    from fabricast.runtime.threads import made_ahead

    found = graph_blocks(graphs_file, predictor.tree, size_bytes=size_bytes, programs=True)
    sizes: deque[int] = deque()

    def parts() -> Iterator[CongestionGraphs]:
        for graphs, size in made_ahead(found.blocks) if threads > 1 else found.blocks:
            sizes.append(size)
            yield graphs

    with progress_of(f"predicting, {found.unit}", found.total) as advance:

        def tables() -> Iterator[Prediction]:
            for table in predictor.predict_parts(parts()):
                yield table
                size = sizes.popleft()
                # Of what is read at once there is no progress to show.
                if size < found.total:
                    advance(size)

        write_elapsed_parts(tables(), output)
    return predictor.notes()


@app.command(
    epilog="Examples: fabricast simulate storm8 graphs.csv --hardware split_256_128 -o simulated.csv | "
    "fabricast simulate storm8 graphs.csv --trace halo --trace-output trace.parquet"
)
def simulate(
    topology: Annotated[str, TOPOLOGY],
    graphs: Annotated[Path, GRAPHS],
    hardware: Annotated[str, typer.Option(help="no_split, split_256_128, split_128_64 or split_256_64.")] = "no_split",
    payload_bytes: Annotated[int | None, typer.Option(help="Largest payload of a packet: 128, 256 or 512.")] = None,
    split_bytes: Annotated[int | None, typer.Option(help="Payload of pieces behind the root complex; 0: none.")] = None,
    piece_cost_ns: Annotated[float, typer.Option(help="Extra time of the root complex for each piece.")] = 0.0,
    parameters: Annotated[Path | None, PARAMETERS] = None,
    generation: Annotated[
        int | None,
        typer.Option(help="PCIe generation of the links, where the topology records no speed.", show_default=False),
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="Lanes of the links, where the topology records no speed.", show_default=False)
    ] = None,
    buffering: Annotated[str, typer.Option(help="fifo or virtual_output_queues.")] = "fifo",
    switching: Annotated[str, typer.Option(help="store_and_forward or cut_through.")] = "store_and_forward",
    hop_latency_ns: Annotated[float, typer.Option(help="Delay on each link, of packets and credits.")] = 0.0,
    header_credits: Annotated[int, typer.Option(help="Posted-header credits of a buffer.")] = 64,
    data_credits: Annotated[int, typer.Option(help="Posted-data credits (16 bytes) of a buffer.")] = 320,
    link_layer_packets: Annotated[
        bool, typer.Option("--link-layer-packets", help="Charge acknowledgements on links loaded both ways.")
    ] = False,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    include_display: Annotated[bool, DISPLAY] = False,
    size_mib: Annotated[float, SIZE] = 300.0,
    threads: Annotated[int | None, THREADS] = None,
    trace: Annotated[str | None, typer.Option(help="Trace this graph instead of simulating all.")] = None,
    transmissions: Annotated[int, typer.Option(help="Transmissions to trace.")] = 2000,
    trace_output: Annotated[Path, typer.Option(help="Parquet of the trace; a .png is drawn beside it.")] = Path(
        "trace.parquet"
    ),
    output: Annotated[Path | None, OUTPUT] = None,
) -> None:
    """Simulate each congestion graph packet by packet, independently of the models."""
    from fabricast.api.simulations import simulate as simulate_times
    from fabricast.cli.output import write_elapsed
    from fabricast.cli.pcie_trace import trace_file
    from fabricast.pcie.graphs.files import read_graphs
    from fabricast.pcie.topology.files import load_tree
    from fabricast.runtime.jobs import progress_of

    check_size("--size-mib", size_mib, MIB)
    check_output(output, ".csv", ".parquet", inputs=(graphs, parameters, topology))
    threads = check_threads(threads)
    chosen = _hardware(
        hardware, payload_bytes, split_bytes, piece_cost_ns=piece_cost_ns, buffering=buffering, switching=switching,
        hop_latency_ns=hop_latency_ns, header_credits=header_credits, data_credits=data_credits,
        link_layer_packets=link_layer_packets,
    )  # fmt: skip
    if trace is not None:
        if output is not None:
            raise InputError("--output and --trace exclude each other; --trace-output names the trace")
        check_output(trace_output, ".parquet", option="--trace-output")
        for line in trace_file(
            topology, graphs, chosen, graph=trace, transmissions=transmissions, output=trace_output,
            size_bytes=size_mib * MIB, generation=generation, width=width, parameters_file=parameters,
            pcie_only=pcie_only, include_display=include_display,
        ):  # fmt: skip
            typer.echo(line)
        return
    tree = load_tree(topology, include_display=include_display)
    read = read_graphs(graphs, tree, size_bytes=size_mib * MIB, programs=True)
    with progress_of("simulating", len(read)) as advance:
        times = simulate_times(
            tree, read, hardware=chosen, generation=generation, width=width, parameters=parameters,
            pcie_only=pcie_only, threads=threads, progress=advance,
        )  # fmt: skip
    write_elapsed(times, output)
    print_notes(times.attrs["notes"])


def _hardware(name: str, payload_bytes: int | None, split_bytes: int | None, **changes: Any) -> PacketHardware:
    """Return a hardware setting with what the options change of it."""
    from dataclasses import replace

    from fabricast.pcie.packets.hardware import HARDWARE

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
    topology: Annotated[str, TOPOLOGY],
    probes: Annotated[
        Path,
        typer.Argument(
            help="CSV with columns probe,repeat,source,target,size_bytes,elapsed_s: one copy alone below a switch, "
            "one alone across the root complex, one local and one crossing copy to the same endpoint.",
            show_default=False,
        ),
    ],
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 20161113,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the parameters as .csv, for --parameters.")
    ] = None,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Estimate bandwidth, crossing cost and tau from probes of a machine, with 95 % intervals."""
    from fabricast.api.calibrations import calibrate as estimate
    from fabricast.inputs.files import atomic_write
    from fabricast.pcie.topology.files import load_tree

    check_output(output, ".csv", inputs=(probes, topology))
    check_seed(seed)
    tree = load_tree(topology, include_display=include_display)
    table = estimate(tree, probes, seed=seed, pcie_only=pcie_only)
    if output is not None:
        with atomic_write(output) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")
    for row in table.to_dict("records"):
        scale, shown = (1e9, "GB/s") if row["unit"] == "bytes/s" else (1.0, "")
        runs = table.attrs["probes"][row["name"]]
        interval = f"{row['ci_low'] / scale:.6g} to {row['ci_high'] / scale:.6g}, {runs} runs"
        known = interval if runs > 1 else "1 run of its probe, no interval of its own"
        typer.echo(f"{row['name']:14} {row['value'] / scale:.6g} {shown} ({known})")
    for name in table.attrs["not_determined"]:
        typer.echo(f"{name:14} not determined by these probes")


@app.command(
    epilog="Examples: fabricast schedule storm8 --halo 2x2x2 --top 3 | "
    "fabricast schedule machine.xml --communications pattern.csv -o best.json"
)
def schedule(
    topology: Annotated[str, TOPOLOGY],
    halo: Annotated[str | None, typer.Option(help="Halo exchange of a process grid such as 4x2 or 2x2x2.")] = None,
    communications: Annotated[
        Path | None, typer.Option(help="CSV with columns source,target[,size_bytes], in naive order.")
    ] = None,
    mode: Annotated[str, typer.Option(help="synchronised or asynchronous.")] = "asynchronous",
    model: Annotated[str, typer.Option(help="Model; 'fabricast models' lists them.")] = "congestion_factor",
    parameters: Annotated[Path | None, PARAMETERS] = None,
    bandwidth_gib: Annotated[float | None, BANDWIDTH] = None,
    tau: Annotated[float | None, TAU] = None,
    crossing_cost: Annotated[float | None, CROSSING_COST] = None,
    latency_us: Annotated[float, typer.Option(help="Pause before each send in microseconds.")] = 0.0,
    size_kib: Annotated[float, typer.Option(help="Size in KiB where none is given.")] = 256.0,
    top: Annotated[int, typer.Option(help="How many of the fastest to print.")] = 10,
    threads: Annotated[int | None, THREADS] = None,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    include_display: Annotated[bool, DISPLAY] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write rank to ordered targets as .csv or .json.")
    ] = None,
) -> None:
    """Find the fastest order of communications: all schedules, or a search with a proved bound."""
    from fabricast.api.schedules import EVALUATIONS, fastest_schedule
    from fabricast.cli.schedule_text import parse_grid, schedule_lines, write_schedules
    from fabricast.pcie.graphs.patterns import halo_pattern, read_pattern
    from fabricast.pcie.topology.files import load_tree
    from fabricast.runtime.jobs import progress_of

    check_model_parameters(bandwidth_gib, tau, crossing_cost)
    check_size("--size-kib", size_kib, 1024.0)
    check_range("--latency-us", latency_us, 0, 1e9)
    check_range("--top", top, 1, 100_000)
    threads = check_threads(threads)
    check_output(output, ".csv", ".json", inputs=(communications, parameters, topology))
    if (halo is None) == (communications is None):
        raise InputError("expected either --halo GRID or --communications FILE")
    tree = load_tree(topology, include_display=include_display)
    if halo is not None:
        pattern = halo_pattern(parse_grid(halo), len(tree.endpoint_names), size_bytes=size_kib * 1024)
    else:
        assert communications is not None
        pattern = read_pattern(communications, tree, size_bytes=size_kib * 1024)
    with progress_of("searching schedules", EVALUATIONS) as advance:
        found = fastest_schedule(
            tree,
            pattern,
            mode=mode,
            model=model,
            bandwidth=None if bandwidth_gib is None else bandwidth_gib * GIB,
            tau=tau,
            crossing_cost=crossing_cost,
            parameters=parameters,
            latency_s=latency_us * 1e-6,
            top=top,
            pcie_only=pcie_only,
            threads=threads,
            progress=advance,
        )
    for line in schedule_lines(tree, found.search):
        typer.echo(line)
    typer.echo(f"model {model}; copies of {size_kib:g} KiB where no size is given")
    if output is not None:
        write_schedules(tree, found.search, output)
    print_notes(found.notes)


@app.command(epilog="Example: fabricast models")
def models() -> None:
    """List the models that 'predict --model' takes."""
    from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, TITLE
    from fabricast.pcie.models.catalogue import MODELS

    for name, entry in MODELS.items():
        typer.echo(f"{name:24} {entry.title}")
    typer.echo(f"{ENDPOINT_ENGINES:24} {TITLE}")
