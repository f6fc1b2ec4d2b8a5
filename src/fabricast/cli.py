"""The command line: ``fabricast``."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from fabricast import __version__
from fabricast.errors import InputError
from fabricast.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from fabricast.pcie.tree import PcieTree
    from fabricast.percs.network import TwoLevelNetwork

__all__ = ["app", "main"]

app = typer.Typer(
    name="fabricast",
    help="Forecast communication on dense accelerator servers and the networks behind them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
topology_app = typer.Typer(help="List, draw and import topologies.", no_args_is_help=True)
app.add_typer(topology_app, name="topology")
breakdown_app = typer.Typer(help="Times of a small message from traces and timers.", no_args_is_help=True)
app.add_typer(breakdown_app, name="breakdown")
network_app = typer.Typer(help="Link loads and packet level of two-level direct networks.", no_args_is_help=True)
app.add_typer(network_app, name="network")

_TOPOLOGY = typer.Argument(help="Built-in name, .yaml file, hwloc .xml or NCCL .xml file.", show_default=False)
_SIZE = typer.Option(help="Size in MiB where the file has no size_bytes.")
_OUTPUT = typer.Option("--output", "-o", help="Write .parquet or .csv instead of printing CSV.")
_GRAPHS = typer.Argument(help="CSV with columns graph,source,target[,size_bytes,start_s].", show_default=False)
_BANDWIDTH = typer.Option(
    help="Bandwidth of one copy alone in GiB/s; by default that of the machine: calibrated, published, or the payload "
    "share of its links.",
    show_default=False,
)
_TAU = typer.Option(
    help="Performance reduction for crossing the root complex; by default that of the machine, else 0.",
    show_default=False,
)
_CROSSING_COST = typer.Option(
    help="Time per byte behind the root complex, relative, used by back_pressure; by default that of the machine, "
    "else 1.",
    show_default=False,
)
_PARAMETERS = typer.Option(
    "--parameters", help="Parameters of this machine, as 'calibrate -o' writes them.", show_default=False
)
_PCIE_ONLY = typer.Option(
    "--pcie-only", help="Let copies between GPUs that NVLink, NVSwitch or xGMI joins take the PCIe tree all the same."
)
_DISPLAY = typer.Option("--include-display", help="Count NVIDIA and AMD graphics cards (class 0300) too.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fabricast {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: fabricast predict storm8 graphs.csv --model round_robin_upstream -o elapsed.parquet")
def predict(
    topology: Annotated[str, _TOPOLOGY],
    graphs: Annotated[Path, _GRAPHS],
    model: Annotated[str, typer.Option(help="Model; 'fabricast models' lists them.")] = "congestion_factor",
    parameters: Annotated[Path | None, _PARAMETERS] = None,
    bandwidth_gib: Annotated[float | None, _BANDWIDTH] = None,
    tau: Annotated[float | None, _TAU] = None,
    crossing_cost: Annotated[float | None, _CROSSING_COST] = None,
    size_mib: Annotated[float, _SIZE] = 300.0,
    output: Annotated[Path | None, _OUTPUT] = None,
    pcie_only: Annotated[bool, _PCIE_ONLY] = False,
    include_display: Annotated[bool, _DISPLAY] = False,
) -> None:
    """Predict when each communication of each congestion graph ends."""
    from fabricast.pcie.prediction import predict_file

    _check_model_parameters(bandwidth_gib, tau, crossing_cost)
    _check_size("--size-mib", size_mib, MIB)
    _check_output(output, ".csv", ".parquet", inputs=(graphs, parameters, topology))
    notes = predict_file(
        topology,
        graphs,
        model,
        bandwidth_bytes_per_s=None if bandwidth_gib is None else bandwidth_gib * GIB,
        tau=tau,
        crossing_cost=crossing_cost,
        parameters_file=parameters,
        size_bytes=size_mib * MIB,
        output=output,
        pcie_only=pcie_only,
        include_display=include_display,
    )
    for note in notes:
        typer.echo(f"fabricast: note: {note}", err=True)


def _check_output(
    output: Path | None, *endings: str, option: str = "--output", inputs: Iterable[Path | str | None] = ()
) -> None:
    """Refuse, before long work, a file that could not be written after it, or that is read itself."""
    if output is None:
        return
    for path in inputs:
        if path is not None and output.resolve() == Path(path).resolve():
            raise InputError(f"{option} is '{output}', which is read too, expected another name")
    if output.suffix.lower() not in endings:
        raise InputError(f"{option} is '{output}', expected a name that ends in {' or '.join(endings)}")
    if output.is_dir():
        raise InputError(f"{option} is '{output}', a folder, expected the name of a file")


def _check_model_parameters(bandwidth_gib: float | None, tau: float | None, crossing_cost: float | None) -> None:
    if bandwidth_gib is not None:
        _check_range("--bandwidth-gib", bandwidth_gib, 1e-3, 9e3)
    if tau is not None and not 0 <= tau < 1:
        raise InputError(f"--tau is {tau:g}, expected 0 or more and less than 1")
    if crossing_cost is not None and not 1 <= crossing_cost < 100:
        raise InputError(f"--crossing-cost is {crossing_cost:g}, expected at least 1 and less than 100")


def _check_size(option: str, value: float, unit_bytes: float) -> None:
    from fabricast.pcie.graphs import LARGEST_BYTES, SMALLEST_BYTES

    _check_range(option, value, SMALLEST_BYTES / unit_bytes, LARGEST_BYTES / unit_bytes)


def _check_range(option: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{option} is {value:g}, expected {low:.4g} to {high:.4g}")


def _check_name(option: str, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise InputError(f"{option} is '{name}', expected letters, digits, '.', '-' and '_'")


def _check_threads(threads: int) -> None:
    _check_range("--threads", threads, 1, 4096)


def _check_seed(seed: int) -> None:
    _check_range("--seed", seed, 0, 2**63 - 1)


@app.command(
    epilog="Examples: fabricast simulate storm8 graphs.csv --hardware split_256_128 -o simulated.csv | "
    "fabricast simulate storm8 graphs.csv --trace halo --trace-output trace.parquet"
)
def simulate(
    topology: Annotated[str, _TOPOLOGY],
    graphs: Annotated[Path, _GRAPHS],
    hardware: Annotated[str, typer.Option(help="no_split, split_256_128, split_128_64 or split_256_64.")] = "no_split",
    payload_bytes: Annotated[int | None, typer.Option(help="Largest payload of a packet: 128, 256 or 512.")] = None,
    split_bytes: Annotated[int | None, typer.Option(help="Payload of pieces behind the root complex; 0: none.")] = None,
    piece_cost_ns: Annotated[float, typer.Option(help="Extra time of the root complex for each piece.")] = 0.0,
    parameters: Annotated[Path | None, _PARAMETERS] = None,
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
    pcie_only: Annotated[bool, _PCIE_ONLY] = False,
    include_display: Annotated[bool, _DISPLAY] = False,
    size_mib: Annotated[float, _SIZE] = 300.0,
    threads: Annotated[int, typer.Option(help="Threads to use.")] = 1,
    trace: Annotated[str | None, typer.Option(help="Trace this graph instead of simulating all.")] = None,
    transmissions: Annotated[int, typer.Option(help="Transmissions to trace.")] = 2000,
    trace_output: Annotated[Path, typer.Option(help="Parquet of the trace; a .png is drawn beside it.")] = Path(
        "trace.parquet"
    ),
    output: Annotated[Path | None, _OUTPUT] = None,
) -> None:
    """Simulate each congestion graph packet by packet, independently of the models."""
    from dataclasses import replace

    from fabricast.pcie.packets import HARDWARE
    from fabricast.pcie.simulation import simulate_file, trace_file

    _check_size("--size-mib", size_mib, MIB)
    _check_output(output, ".csv", ".parquet", inputs=(graphs, parameters, topology))
    _check_threads(threads)
    if hardware not in HARDWARE:
        raise InputError(f"--hardware is '{hardware}', expected one of {', '.join(HARDWARE)}")
    preset = HARDWARE[hardware]
    chosen = replace(
        preset,
        payload_bytes=preset.payload_bytes if payload_bytes is None else payload_bytes,
        split_bytes=preset.split_bytes if split_bytes is None else (split_bytes or None),
        piece_cost_ns=piece_cost_ns,
        buffering=buffering,  # type: ignore[arg-type]  # checked by the class
        switching=switching,  # type: ignore[arg-type]
        hop_latency_ns=hop_latency_ns,
        header_credits=header_credits,
        data_credits=data_credits,
        link_layer_packets=link_layer_packets,
    )
    common = {
        "size_bytes": size_mib * MIB, "generation": generation, "width": width, "parameters_file": parameters,
        "pcie_only": pcie_only, "include_display": include_display,
    }  # fmt: skip
    if trace is not None:
        if output is not None:
            raise InputError("--output and --trace exclude each other; --trace-output names the trace")
        _check_output(trace_output, ".parquet", option="--trace-output")
        for line in trace_file(
            topology, graphs, chosen, graph=trace, transmissions=transmissions, output=trace_output,
            **common,  # type: ignore[arg-type]
        ):  # fmt: skip
            typer.echo(line)
        return
    notes = simulate_file(topology, graphs, chosen, output=output, threads=threads, **common)  # type: ignore[arg-type]
    for note in notes:
        typer.echo(f"fabricast: note: {note}", err=True)


@app.command(epilog="Example: fabricast calibrate machine.xml probes.csv -o machine.parameters.csv")
def calibrate(
    topology: Annotated[str, _TOPOLOGY],
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
    pcie_only: Annotated[bool, _PCIE_ONLY] = False,
    include_display: Annotated[bool, _DISPLAY] = False,
) -> None:
    """Estimate bandwidth, crossing cost and tau from probes of a machine, with 95 % intervals."""
    from fabricast.pcie.calibration import PARAMETER_UNITS
    from fabricast.pcie.simulation import calibrate_file

    _check_output(output, ".csv", inputs=(probes, topology))
    _check_seed(seed)
    found = calibrate_file(
        topology, probes, seed=seed, output=output, pcie_only=pcie_only, include_display=include_display
    )
    estimates = {entry.name: entry for entry in found}
    for name, unit in PARAMETER_UNITS.items():
        entry = estimates.get(name)
        if entry is None:
            typer.echo(f"{name:14} not told by these probes")
        else:
            scale, shown = (1e9, "GB/s") if unit == "bytes/s" else (1.0, "")
            interval = f"{entry.ci_low / scale:.6g} to {entry.ci_high / scale:.6g}, {entry.probes} runs"
            known = interval if entry.probes > 1 else "1 run of its probe, no interval of its own"
            typer.echo(f"{name:14} {entry.value / scale:.6g} {shown} ({known})")


@app.command(
    epilog="Examples: fabricast schedule storm8 --halo 2x2x2 --top 3 | "
    "fabricast schedule machine.xml --communications pattern.csv -o best.json"
)
def schedule(
    topology: Annotated[str, _TOPOLOGY],
    halo: Annotated[str | None, typer.Option(help="Halo exchange of a process grid such as 4x2 or 2x2x2.")] = None,
    communications: Annotated[
        Path | None, typer.Option(help="CSV with columns source,target[,size_bytes], in naive order.")
    ] = None,
    mode: Annotated[str, typer.Option(help="synchronised or asynchronous.")] = "asynchronous",
    model: Annotated[str, typer.Option(help="Model; 'fabricast models' lists them.")] = "congestion_factor",
    parameters: Annotated[Path | None, _PARAMETERS] = None,
    bandwidth_gib: Annotated[float | None, _BANDWIDTH] = None,
    tau: Annotated[float | None, _TAU] = None,
    crossing_cost: Annotated[float | None, _CROSSING_COST] = None,
    latency_us: Annotated[float, typer.Option(help="Pause before each send in microseconds.")] = 0.0,
    size_kib: Annotated[float, typer.Option(help="Size in KiB where none is given.")] = 256.0,
    top: Annotated[int, typer.Option(help="How many of the fastest to print.")] = 10,
    threads: Annotated[int, typer.Option(help="Threads to use.")] = 1,
    pcie_only: Annotated[bool, _PCIE_ONLY] = False,
    include_display: Annotated[bool, _DISPLAY] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write rank to ordered targets as .csv or .json.")
    ] = None,
) -> None:
    """Find the fastest order of communications: all schedules, or a search with a proved bound."""
    from fabricast.pcie.schedule_files import schedule_lines, schedule_pattern, write_schedules

    _check_model_parameters(bandwidth_gib, tau, crossing_cost)
    _check_size("--size-kib", size_kib, 1024.0)
    _check_range("--latency-us", latency_us, 0, 1e9)
    _check_range("--top", top, 1, 100_000)
    _check_threads(threads)
    _check_output(output, ".csv", ".json", inputs=(communications, parameters, topology))
    tree, _, found, notes = schedule_pattern(
        topology,
        halo=halo,
        communications=communications,
        mode=mode,  # type: ignore[arg-type]  # checked there
        model=model,
        bandwidth_bytes_per_s=None if bandwidth_gib is None else bandwidth_gib * GIB,
        tau=tau,
        crossing_cost=crossing_cost,
        parameters_file=parameters,
        pcie_only=pcie_only,
        include_display=include_display,
        latency_s=latency_us * 1e-6,
        size_bytes=size_kib * 1024,
        top=top,
        threads=threads,
    )
    for line in schedule_lines(tree, found):
        typer.echo(line)
    if output is not None:
        write_schedules(tree, found, output)
    for note in notes:
        typer.echo(f"fabricast: note: {note}", err=True)


@app.command(
    epilog="Examples: fabricast whatif thunderx2 --reduce pio_copy=84% --metric injection | "
    "fabricast whatif mine.yaml --reduce integrated_nic=50% --reduce hlp=20% --metric latency"
)
def whatif(
    system: Annotated[str, typer.Argument(help="Published system (thunderx2) or .yaml file.", show_default=False)],
    reduce: Annotated[
        list[str] | None, typer.Option(help="Component or group and how much of it goes, such as pio_copy=84%.")
    ] = None,
    metric: Annotated[str, typer.Option(help="injection, injection_llp, latency or latency_llp.")] = "latency",
    remove: Annotated[
        str | None,
        typer.Option(help="Ask the other way: which reduction of each part removes this share, such as 25%."),
    ] = None,
) -> None:
    """Say what a faster part of the message path would bring."""
    from fabricast.breakdown.whatif_text import whatif_lines

    for line in whatif_lines(system, reduce or [], metric, remove):
        typer.echo(line)


@breakdown_app.command(
    "derive",
    epilog="Example: fabricast breakdown derive --timers timers.csv --trace trace.csv --name mine -o mine.yaml",
)
def derive_breakdown(
    timers: Annotated[
        Path,
        typer.Option(
            help="CSV with columns run_id,region,iter,raw_ns,overhead_ns; regions mpi_isend, uct_post, md_setup, "
            "md_barrier, dbc_barrier, pio_copy, uct_progress, send_progress, receive_progress."
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the system.")],
    trace: Annotated[
        Path | None,
        typer.Option(
            help="CSV of a PCIe analyser (run_id,seq,t_ns,direction,tlp_type,payload_b,seq_num,acked_seq,role); "
            "without it I/O and network stay one lump."
        ),
    ] = None,
    posts_per_completion: Annotated[int, typer.Option(help="Posts that one signalled completion covers.")] = 64,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the system as .yaml.")] = None,
) -> None:
    """Derive every component from CPU timers and a PCIe trace."""
    from fabricast.breakdown.ingestion import derive_lines

    _check_output(output, ".yaml", ".yml")
    _check_range("--posts-per-completion", posts_per_completion, 1, 1_000_000)
    _check_name("--name", name)
    for line in derive_lines(timers, trace, name, posts_per_completion, output):
        typer.echo(line)


@app.command(epilog="Examples: fabricast fit mine.csv --model refined | fabricast fit osu_mbw_mr.out --model maxrate")
def fit(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV with columns processes,size_bytes,time_s (more in config/README.md), or what nodecomm, "
            "BenchPress, osu_latency, osu_bw, osu_mbw_mr, osu_multi_lat, IMB-MPI1 or netgauge printed.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option(help="postal, maxrate, refined, refined_latency or overload.")] = "refined",
    processes: Annotated[int | None, typer.Option(help="Pairs, where an output does not name them.")] = None,
    smallest_bytes: Annotated[float, typer.Option(help="Leave smaller messages out.")] = 0.0,
    draws: Annotated[int, typer.Option(help="Bootstrap draws behind the intervals.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of starts and bootstrap.")] = 20161113,
) -> None:
    """Fit a max-rate model: parameters with intervals, errors, a LogGOPS line, SimGrid's factors."""
    from fabricast.maxrate.fit_text import fit_lines

    _check_range("--draws", draws, 20, 100_000)
    _check_processes(processes)
    _check_range("--smallest-bytes", smallest_bytes, 0, 1e15)
    _check_seed(seed)
    for line in fit_lines(file, model, processes=processes, smallest_bytes=smallest_bytes, draws=draws, seed=seed):
        typer.echo(line)


@app.command(epilog="Example: fabricast collect osu_k1.out osu_k2.out osu_k4.out -o mine.csv")
def collect(
    files: Annotated[list[Path], typer.Argument(help="Outputs of benchmark programs, or CSV.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write .csv.")],
    processes: Annotated[int | None, typer.Option(help="Pairs, where an output does not name them.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the data set; that of the output file if left out.", show_default=False)
    ] = None,
) -> None:
    """Collect outputs of benchmark programs as one data set in CSV, with the digest of each file."""
    from fabricast.maxrate.benchmark_output import write_measurements

    _check_output(output, ".csv", inputs=files)
    _check_processes(processes)
    if name is not None:
        _check_name("--name", name)
    table = write_measurements(files, output, processes=processes, name=name)
    for dataset, part in table.groupby("dataset", sort=True):
        counts = ", ".join(str(count) for count in sorted(set(part["processes"])))
        typer.echo(f"{output}: data set '{dataset}', {len(part)} cells, processes {counts}")


def _check_processes(processes: int | None) -> None:
    if processes is not None:
        _check_range("--processes", processes, 1, 1_000_000)


@app.command(
    epilog="Examples: fabricast select --system lassen_spectrum --size 512KiB | "
    "fabricast select --system k20_extoll --size 64 --nodes 12 --objective energy"
)
def select(
    system: Annotated[str, typer.Option(help="k20_extoll, lassen_mvapich, lassen_spectrum or summit_spectrum.")],
    size: Annotated[str, typer.Option(help="Message size such as 512KiB, 4MB or 64.")],
    nodes: Annotated[int, typer.Option(help="Nodes; each exchanges with two neighbours, or one if there are two.")] = 2,
    overlap: Annotated[float, typer.Option(help="Share of communication that could be hidden, 0 to 1.")] = 0.0,
    compute_us: Annotated[float, typer.Option(help="Computation of a step in microseconds.")] = 0.0,
    objective: Annotated[str, typer.Option(help="time, energy or edp (their product).")] = "time",
    gpus: Annotated[int, typer.Option(help="GPUs of a node that send at the same time.")] = 1,
    measured: Annotated[
        Path | None, typer.Option(help="this_gpu.parameters.csv of 'make measured', in place of assumed values.")
    ] = None,
) -> None:
    """Choose method and path of a message between GPUs, with its lead over the second."""
    from fabricast.gpucentric.parameters import read_measured
    from fabricast.gpucentric.selector import select as choose
    from fabricast.units import parse_bytes

    choice = choose(
        system, parse_bytes(size, "--size"), nodes=nodes, overlap=overlap, compute_s=compute_us * 1e-6,
        objective=objective,  # type: ignore[arg-type]  # checked there
        gpus=gpus, measured=None if measured is None else read_measured(measured),
    )  # fmt: skip
    typer.echo(f"{choice.method} ({choice.path} path): {choice.time_s * 1e6:.2f} us")
    typer.echo(f"second: {choice.second}, {choice.margin:.1%} more {objective}{'; a tie' if choice.tie else ''}")


_PATTERN = typer.Argument(
    help="2D-64, 4D-64, MChalf-64, ..., or bytes between ranks: a square .csv, source,target,size_bytes, or .mtx.",
    show_default=False,
)
_GROUPS = typer.Option(help="Groups (supernodes); for a built-in pattern those of its name.")
_GATEWAY = typer.Option(help="Which router holds the link to another group: mod, block or rel.")
_MULTIPLICITY = typer.Option(help="Parallel links between two groups.")
_TILES = typer.Option(help="Copies of a matrix side by side, each with ranks of its own.")
_NETWORK_FILE = typer.Option(help="YAML with keys of the network, such as routers_per_drawer and d_bytes_per_s.")


_RANKS = typer.Option(
    help="Ranks of a matrix on each node; by default the cores of a router (32 on PERCS).", show_default=False
)


def _network(
    pattern: str,
    groups: int | None,
    gateway: str,
    multiplicity: int,
    file: Path | None,
    ranks: int | None,
    tiles: int,
) -> TwoLevelNetwork:
    from fabricast.percs.network_files import load_network

    if groups is not None:
        _check_range("--groups", groups, 1, 65536)
    _check_range("--multiplicity", multiplicity, 1, 65536)
    _check_range("--tiles", tiles, 1, 100_000)
    if ranks is not None:
        _check_range("--ranks-per-node", ranks, 1, 65536)
    return load_network(
        pattern, groups=groups, gateway=gateway, multiplicity=multiplicity, file=file, ranks_per_node=ranks
    )


@network_app.command("loads", epilog="Example: fabricast network loads 4D-64 --mapping RNM")
def network_loads(
    pattern: Annotated[str, _PATTERN],
    mapping: Annotated[str, typer.Option(help="DEF, BNM, BDM, BSM, RNM, RDM, RNMu or RDMu.")] = "DEF",
    groups: Annotated[int | None, _GROUPS] = None,
    gateway: Annotated[str, _GATEWAY] = "mod",
    multiplicity: Annotated[int, _MULTIPLICITY] = 1,
    network: Annotated[Path | None, _NETWORK_FILE] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    seed: Annotated[int, typer.Option(help="Seed of random mappings.")] = 1,
) -> None:
    """Print the loads of all links of a mapped pattern, with direct and indirect routes."""
    from fabricast.percs.network_text import loads_lines

    _check_seed(seed)
    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    for line in loads_lines(pattern, mapping, machine, seed, tiles=tiles):
        typer.echo(line)


@network_app.command("simulate", epilog="Example: fabricast network simulate 4D-64 --mapping RNM --packet 256KiB")
def network_simulate(
    pattern: Annotated[str, _PATTERN],
    mapping: Annotated[str, typer.Option(help="DEF, BNM, BDM, BSM, RNM, RDM, RNMu or RDMu.")] = "DEF",
    routing: Annotated[str, typer.Option(help="direct or indirect.")] = "direct",
    packet: Annotated[
        str | None,
        typer.Option(
            help="Size of a packet; by default 512 KiB, or less where that would pad messages.", show_default=False
        ),
    ] = None,
    window: Annotated[int, typer.Option(help="Packets in flight of each router.")] = 256,
    groups: Annotated[int | None, _GROUPS] = None,
    gateway: Annotated[str, _GATEWAY] = "mod",
    multiplicity: Annotated[int, _MULTIPLICITY] = 1,
    network: Annotated[Path | None, _NETWORK_FILE] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    seed: Annotated[int, typer.Option(help="Seed of random mappings and routes.")] = 1,
) -> None:
    """Send a mapped pattern packet by packet and compare with the busiest link."""
    from fabricast.percs.network_text import simulate_lines
    from fabricast.units import parse_bytes

    _check_seed(seed)
    _check_range("--window", window, 1, 1 << 20)
    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    lines = simulate_lines(
        pattern, mapping, machine, routing,  # type: ignore[arg-type]  # checked there
        packet_bytes=None if packet is None else parse_bytes(packet, "--packet"), window=window, seed=seed, tiles=tiles,
    )  # fmt: skip
    for line in lines:
        typer.echo(line)


@app.command(
    "map", epilog="Examples: fabricast map 4D-64 | fabricast map matrix.csv --groups 4 --hosts hosts.txt -o best"
)
def map_pattern(
    pattern: Annotated[str, _PATTERN],
    groups: Annotated[int | None, _GROUPS] = None,
    gateway: Annotated[str, _GATEWAY] = "mod",
    multiplicity: Annotated[int, _MULTIPLICITY] = 1,
    network: Annotated[Path | None, _NETWORK_FILE] = None,
    tiles: Annotated[int, _TILES] = 1,
    ranks_per_node: Annotated[int | None, _RANKS] = None,
    proposals: Annotated[int, typer.Option(help="Swaps to try.")] = 4_000_000,
    hosts: Annotated[Path | None, typer.Option(help="Hosts of all routers, one a line.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write .rankfile (Open MPI) and .hosts (SLURM, arbitrary).")
    ] = None,
) -> None:
    """Search a mapping for direct routing that avoids hot-spots, and verify it packet by packet."""
    from fabricast.percs.network_text import map_lines, read_hosts

    _check_range("--proposals", proposals, 1000, 1e10)
    _check_seed(seed)
    machine = _network(pattern, groups, gateway, multiplicity, network, ranks_per_node, tiles)
    names = None if hosts is None else read_hosts(hosts)
    for line in map_lines(pattern, machine, proposals=proposals, seed=seed, hosts=names, output=output, tiles=tiles):
        typer.echo(line)


@app.command(epilog="Example: nvbandwidth -j > nvbandwidth.json && fabricast bandwidth nvbandwidth.json")
def bandwidth(
    file: Annotated[
        Path,
        typer.Argument(help="What nvbandwidth (text or -j) or p2pBandwidthLatencyTest printed.", show_default=False),
    ],
    topology: Annotated[
        str | None,
        typer.Option(help="Topology of the machine, which tells the way of each copy.", show_default=False),
    ] = None,
    include_display: Annotated[bool, _DISPLAY] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write all matrices as .csv.")] = None,
) -> None:
    """Read bandwidths between GPUs and host, and what they tell the PCIe models."""
    from fabricast.files import write_text
    from fabricast.gpucentric.bandwidth_matrices import read_bandwidths
    from fabricast.pcie.topology_files import load_tree

    _check_output(output, ".csv", inputs=(file, topology))
    tree = None if topology is None else load_tree(topology, include_display=include_display)
    table = read_bandwidths(file)
    for (test, unit), part in table.groupby(["test", "unit"], sort=False):
        scale, shown = (1e-9, "GB/s") if unit == "bytes/s" else (1e6, "us")
        low, middle, high = (part["value"].quantile([0, 0.5, 1]) * scale).tolist()
        typer.echo(f"{test}: {len(part)} values, {low:.4g} to {high:.4g}, median {middle:.4g} {shown}")
    for line in _copy_lines(table, tree):
        typer.echo(line)
    if output is not None:
        write_text(output, table.to_csv(index=False, lineterminator="\n"))


def _copy_lines(table: pd.DataFrame, tree: PcieTree | None) -> Iterator[str]:
    """Yield the rates of copies between GPUs by class, and which of them the PCIe models can use."""
    from fabricast.gpucentric.bandwidth_matrices import copy_classes
    from fabricast.units import pcie_link_bytes_per_s

    def way(source: str, target: str) -> str | None:
        assert tree is not None
        if not {source, target} <= set(tree.endpoint_names):
            return None
        return tree.peer_link(source, target) or tree.path_class(source, target)

    def narrowest(source: str, target: str) -> float:
        assert tree is not None
        known = source != target and {source, target} <= set(tree.endpoint_names)
        return float(tree.routes.capacity[tree.route(source, target)].min()) if known else 1.0

    classes = copy_classes(table, *(() if tree is None else (way, narrowest)))
    if not classes:
        yield "no copies between GPUs: nothing for the PCIe models"
        return
    for one in classes:
        pairs = ", ".join(f"{source}>{target}" for source, target in one.pairs[:6])
        more = ", ..." if len(one.pairs) > 6 else ""
        yield (
            f"{one.name}: median {one.median / 1e9:.4g} GB/s ({one.low / 1e9:.4g} to {one.high / 1e9:.4g}), "
            f"{len(one.pairs)} pairs: {pairs}{more}"
        )
    if tree is None:
        if classes[-1].median > pcie_link_bytes_per_s(6, 16):
            yield "faster than any PCIe link: direct links between GPUs, nothing for the PCIe models"
        elif len(classes) == 1:
            yield (
                f"if these copies take PCIe: --bandwidth-gib {classes[0].median / GIB:.6g} for predict; "
                "--topology tells whether they do"
            )
        else:
            yield "which rate belongs to which way the file does not tell: give --topology"
        return
    over_pcie = [one for one in classes if one.name in ("PIX", "PXB", "PHB")]
    limit = tree.link_bytes_per_s
    if not over_pcie:
        yield "all copies take direct links or cross sockets: nothing for the PCIe models"
    elif limit is not None and over_pcie[0].reference > limit:
        yield (
            f"{over_pcie[0].name} copies are faster than their links ({limit / 1e9:.2f} GB/s): numbers of "
            "GPUs or the topology do not fit this file"
        )
    else:
        yield f"for predict on {tree.name}: --bandwidth-gib {over_pcie[0].reference / GIB:.6g} ({over_pcie[0].name})"


@app.command(epilog="Example: fabricast models")
def models() -> None:
    """List the models that 'predict --model' takes."""
    from fabricast.pcie.models import MODELS

    for name, entry in MODELS.items():
        typer.echo(f"{name:24} {entry.title}")


@app.command(epilog="Example: fabricast claims --strict")
def claims(
    database: Annotated[Path, typer.Option(help="Database of a finished run.")] = Path("results/fabricast.duckdb"),
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a claim of the baseline is no longer reproduced.")
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="Record this run as the baseline.")] = False,
) -> None:
    """Print the claim table of a finished run."""
    from fabricast.claims import claim_table, lost_claims, read_baseline, write_baseline
    from fabricast.resources import published

    baseline = published() / "claims_baseline.csv"
    Console(width=None if sys.stdout.isatty() else 160).print(claim_table(database))
    if record:
        typer.echo(f"{write_baseline(database, baseline)} reproduced claims recorded in {baseline}")
    if strict:
        lost = lost_claims(database, read_baseline(baseline))
        for name, verdict in lost:
            typer.echo(f"fabricast: lost: {name} was reproduced and now is {verdict}", err=True)
        if lost:
            raise typer.Exit(1)


@topology_app.command("list", epilog="Example: fabricast topology list")
def list_topologies() -> None:
    """List the built-in topologies."""
    from fabricast.pcie.topology_files import builtin_names, load_tree

    for name in builtin_names():
        tree = load_tree(name)
        typer.echo(f"{name:24} {len(tree.endpoint_names):3} endpoints  [{tree.tag}] {tree.source}")


@topology_app.command(epilog="Example: fabricast topology show dgx1")
def show(
    topology: Annotated[str, _TOPOLOGY],
    include_display: Annotated[bool, _DISPLAY] = False,
) -> None:
    """Draw a topology as text, with its path classes."""
    from fabricast.pcie.topology_files import load_tree
    from fabricast.pcie.topology_text import path_matrix, tree_text

    tree = load_tree(topology, include_display=include_display)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(tree_text(tree))
    console.print(path_matrix(tree))
    for note in tree.notes:
        typer.echo(f"fabricast: note: {note}", err=True)


@topology_app.command("import", epilog="Example: lstopo machine.xml && fabricast topology import machine.xml -o m.yaml")
def import_topology(
    file: Annotated[Path, typer.Argument(help="hwloc XML or NCCL topology XML.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write YAML to this file instead of printing it.")
    ] = None,
    include_display: Annotated[bool, _DISPLAY] = False,
) -> None:
    """Turn hwloc or NCCL XML into a topology that all commands read."""
    from fabricast.pcie.topology_files import tree_yaml, write_tree
    from fabricast.pcie.xml_import import import_xml

    _check_output(output, ".yaml", ".yml", inputs=(file,))
    tree = import_xml(file, include_display=include_display)
    if output is None:
        typer.echo(tree_yaml(tree), nl=False)
    else:
        write_tree(tree, output)
    for note in tree.notes:
        typer.echo(f"fabricast: note: {note}", err=True)


#: Which option helps, by error.
_HELP = {
    "UnknownSpeedError": "; give --parameters or --bandwidth-gib (simulate: --generation and --width)",
    "PeerLinkError": "; --pcie-only lets such copies take the tree all the same",
}


def main() -> None:
    """Run the command line; bad input ends with one line and exit code 2."""
    try:
        app()
        sys.stdout.flush()
    except InputError as error:
        _end(f"{error}{_HELP.get(type(error).__name__, '')}", 2)
    except BrokenPipeError:
        # Nobody reads any more: the interpreter must not try to write what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        _end("interrupted; nothing half-written is left", 130)
    except MemoryError:
        _end("the memory of this machine does not suffice for this input", 2)
    except OSError as error:
        # Standard output on a full disk.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end(f"cannot write: {error.strerror or error}", 2)


def _end(message: str, code: int) -> NoReturn:
    typer.echo(f"fabricast: error: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
