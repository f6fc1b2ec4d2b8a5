"""Commands that forecast NCCL's collective operations and name causes of lost time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabricast.cli.options import (
    DISPLAY,
    FILES,
    LINK,
    MEASUREMENTS,
    NETWORK,
    NIC,
    OVERSUBSCRIPTION,
    SYSTEM,
    VERBOSE,
    check_output,
    of_several_nodes,
    print_warnings,
    print_wrapped,
    refuse_options,
)

if TYPE_CHECKING:
    import pandas as pd

    from fabricast.api.clusters import ClusterForecast
    from fabricast.collectives.forecast import CollectiveForecast
    from fabricast.core.facts import Facts
    from fabricast.core.findings import Finding
    from fabricast.diagnosis.bundle import Diagnosis
    from fabricast.machine.machine import Machine


app = typer.Typer()

OPERATION = typer.Option(
    help="all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall or sendrecv; by default that of the log, "
    "otherwise all_reduce.",
    show_default=False,
)
LOG = typer.Option(
    "--log", help="Log of nccl-tests, with or without lines of NCCL_DEBUG=INFO, to compare; may be repeated."
)
SIZES = typer.Option(
    "--sizes",
    "--size",
    help="Sizes such as '64KiB 1MiB' or 1MiB:1GiB; by default 256 B to 256 MiB, of clusters to 8 GiB.",
    show_default=False,
)
GRADIENTS = typer.Option(
    help="Bytes of the gradients of a training step, such as 14GB: its time in buckets of --sizes, by default 25MiB.",
    show_default=False,
)
RANKS = typer.Option(help="GPU of each rank, such as '0 1 2 3'; by default all.", show_default=False)
CPU = typer.Option(help="Processor, such as 'AMD EPYC' or intel_skylake.", show_default=False)
GPU = typer.Option(help="GPU, such as 'RTX 4090'; by default that of the log.", show_default=False)
NUMA = typer.Option(help="NUMA node of each rank, such as '0 0 1 1', or one number for all.", show_default=False)
VERSION = typer.Option("--nccl-version", help="Version of NCCL; by default that of the log.", show_default=False)
TRANSPORT = typer.Option(help="p2p or shm for all hops; by default NCCL's rule.", show_default=False)
ENV = typer.Option(help="Variable of NCCL such as NCCL_P2P_LEVEL=SYS; may be repeated.", show_default=False)
GRAPH = typer.Option("--nccl-graph", help="Rings as in NCCL_GRAPH_FILE.", show_default=False)
TABLE = typer.Option(help="Number of the table in the log, from 1.", show_default=False)
NODE = typer.Option(help="Node that is built in, such as hgx_h100 or gh200x4, in place of files.", show_default=False)
NODES = of_several_nodes(help="Number of equal nodes; by default that of the log, otherwise 1.")
GPUS = of_several_nodes(help="GPUs of each node that are used, the first ones; by default all.")
GPUDIRECT = of_several_nodes(help="Whether cards use GPUDirect RDMA; by default as a log states.")
PROCESS = typer.Option(
    "--gpus-per-process", help="GPUs of each process (-g of nccl-tests); by default 1.", show_default=False
)
OUTPUT = typer.Option("--output", "-o", help="Write the table to this .csv or .parquet file.", show_default=False)
FORMAT = typer.Option(
    "--format", help="Format of printed results: table (on a terminal), csv (on a pipe) or json.", show_default=False
)
_FORMATS_OF_DIAGNOSES = ("text", "json", "csv")
WRITE_TUNER = typer.Option(help="Write the best choices for NCCL's example tuner plugin.", show_default=False)
WRITE_GRAPH = typer.Option(help="Write the best ring order for NCCL_GRAPH_FILE.", show_default=False)


@app.command(
    epilog="Examples: fabricast collective machine.yaml p2p.txt --gpu 'RTX 4090' --log all_reduce.log; "
    "fabricast collective --node hgx_h100 --nodes 4 --nic 8x400 --network InfiniBand"
)
def collective(
    files: Annotated[list[str] | None, FILES] = None,
    measurements: Annotated[list[str] | None, MEASUREMENTS] = None,
    node: Annotated[str | None, NODE] = None,
    nodes: Annotated[int | None, NODES] = None,
    nic: Annotated[str | None, NIC] = None,
    network: Annotated[str | None, NETWORK] = None,
    oversubscription: Annotated[float | None, OVERSUBSCRIPTION] = None,
    gpus: Annotated[int | None, GPUS] = None,
    gpus_per_process: Annotated[int | None, PROCESS] = None,
    gpudirect: Annotated[bool | None, GPUDIRECT] = None,
    operation: Annotated[str | None, OPERATION] = None,
    log: Annotated[list[str] | None, LOG] = None,
    sizes: Annotated[str | None, SIZES] = None,
    gradients: Annotated[str | None, GRADIENTS] = None,
    ranks: Annotated[str | None, RANKS] = None,
    cpu: Annotated[str | None, CPU] = None,
    gpu: Annotated[str | None, GPU] = None,
    numa: Annotated[str | None, NUMA] = None,
    nccl_version: Annotated[str | None, VERSION] = None,
    transport: Annotated[str | None, TRANSPORT] = None,
    env: Annotated[list[str] | None, ENV] = None,
    nccl_graph: Annotated[Path | None, GRAPH] = None,
    table: Annotated[int | None, TABLE] = None,
    system: Annotated[str | None, SYSTEM] = None,
    link: Annotated[str | None, LINK] = None,
    output: Annotated[Path | None, OUTPUT] = None,
    format_: Annotated[str | None, FORMAT] = None,
    write_tuner: Annotated[Path | None, WRITE_TUNER] = None,
    write_graph: Annotated[Path | None, WRITE_GRAPH] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    verbose: Annotated[bool, VERBOSE] = False,
) -> None:
    """Forecast NCCL's collective operations on PCIe machines, NVLink nodes and clusters, and what limits them."""
    from fabricast.api.cluster_copies import starts_with_node
    from fabricast.api.clusters import open_nodes
    from fabricast.api.collectives import collective as forecast_collective
    from fabricast.api.collectives import diagnose_collective, graph_file_text, rings_pass_pcie, tuner_file_text
    from fabricast.cli.output import printed_format, write_elapsed
    from fabricast.collectives.gradients import BUCKET
    from fabricast.core.errors import InputError
    from fabricast.core.facts import Facts
    from fabricast.core.quantities import listed_sizes, to_bytes
    from fabricast.inputs.files import atomic_write

    gradient_bytes = None if gradients is None else to_bytes(gradients, "--gradients")
    sizes = sizes if gradient_bytes is None else sizes or BUCKET
    if gradient_bytes is not None and len(listed_sizes(sizes or "")) != 1:
        raise InputError(f"is '{sizes}', expected the size of one bucket with --gradients", argument="sizes")
    every = [*(files or []), *(measurements or []), *(log or [])]
    _check_no_operation(files or [])
    inputs = (*every, nccl_graph)
    check_output(output, ".csv", ".parquet", inputs=inputs)
    check_output(write_tuner, ".csv", ".conf", option="--write-tuner", inputs=inputs, outputs=[output])
    check_output(write_graph, ".xml", option="--write-graph", inputs=inputs)
    shown = printed_format(format_, output)
    on_nodes = {
        "operation": operation,
        "nodes": nodes,
        "nic": nic,
        "network": network,
        "oversubscription": oversubscription,
        "gpus": gpus,
        "gpus_per_process": gpus_per_process,
        "gpudirect": gpudirect,
        "sizes": sizes,
        "nccl_version": nccl_version,
        "env": _environment(env or []),
        "table": table,
    }
    of_pcie: dict[str, object] = {
        "--ranks": ranks,
        "--numa": numa,
        "--transport": transport,
        "--nccl-graph": nccl_graph,
        "--write-tuner": write_tuner,
        "--write-graph": write_graph,
    }
    if node is None and starts_with_node(every):
        node, *every = every
    if node is not None:
        refuse_options({**of_pcie, "--gpu": gpu, "--cpu": cpu, "--link": link, "--system": system}, "built-in nodes")
        _print_cluster(node, every, on_nodes, output, shown, verbose, gradient_bytes)
        return
    if not every:
        raise InputError("expected files of a machine, or --node with the name of a node that is built in")
    machine = open_nodes(
        every,
        gpu=gpu,
        cpu=cpu,
        link=link,
        system=system,
        include_display=include_display,
        network_cards=bool(nodes or nic),
    )
    if isinstance(machine, Facts):
        of_files = {"--cpu": cpu, "--link": link, "--system": system, "--include-display": include_display or None}
        refuse_options({**of_pcie, **of_files}, "a cluster")
        _print_cluster(machine, [], {**on_nodes, "gpu": gpu}, output, shown, verbose, gradient_bytes)
        return
    if ranks is not None and gpus is not None:
        raise InputError("is specified with --gpus, expected one of them", argument="ranks")
    names = machine.tree.accelerator_names
    chosen = None if ranks is None else ranks.replace(",", " ").split()
    if chosen is None and gpus is not None:
        chosen = list(names[:gpus])
    is_cluster = (nodes or 1) > 1
    is_over_pcie = rings_pass_pcie(machine.tree, [name for name in chosen or names if name in names])
    if is_cluster or (machine.tree.peer_links and (nodes or nic or not is_over_pcie)):
        refuse_options(of_pcie, "a cluster" if is_cluster else "GPUs with direct links; --gpus N uses the first N")
        _print_cluster(machine, [], on_nodes, output, shown, verbose, gradient_bytes)
        return
    of_nodes: dict[str, object] = {"--nodes": nodes, "--nic": nic, "--network": network}
    of_nodes["--oversubscription"], of_nodes["--gpus-per-process"] = oversubscription, gpus_per_process
    of_nodes["--gpudirect" if gpudirect else "--no-gpudirect"] = gpudirect
    refuse_options(of_nodes, "one node whose GPUs only PCIe connects; add --nodes")
    if gpus is not None and not 2 <= gpus <= len(names):
        raise InputError(f"is {gpus}, expected 2 to {len(names)} of {machine.tree.name}", argument="gpus")
    forecast = forecast_collective(
        machine,
        operation,
        sizes=sizes,
        ranks=chosen,
        numa=_integers(numa),
        nccl_version=nccl_version,
        transport=transport,
        env=_environment(env or []),
        graph_file=nccl_graph,
        table=table,
    )
    findings = diagnose_collective(forecast)
    texts = {}
    if write_tuner is not None:
        texts[write_tuner] = tuner_file_text(forecast)
    if write_graph is not None:
        texts[write_graph] = graph_file_text(forecast)
    with ExitStack() as written:
        # No file appears if another one cannot be written.
        for path, text in texts.items():
            written.enter_context(atomic_write(path)).write_text(text, encoding="utf-8", newline="\n")
        if output is not None:
            write_elapsed(forecast.table, output)
    if output is None:
        typer.echo(_shown_text(forecast, findings, shown), nl=False)
    _print_step(forecast, gradient_bytes, shown)
    print_warnings(forecast.warnings, verbose=verbose)


def _print_step(forecast: CollectiveForecast | ClusterForecast, gradient_bytes: float | None, shown: str) -> None:
    """Print the time of a training step: below a table, and for other formats on standard error."""
    from fabricast.collectives.gradients import step_text

    if gradient_bytes is not None:
        typer.echo(step_text(forecast.table, forecast.operation, gradient_bytes), err=shown != "table")


def _print_cluster(
    node: Machine | Facts | str,
    logs: list[str],
    options: dict[str, Any],
    output: Path | None,
    shown: str,
    verbose: bool,
    gradient_bytes: float | None,
) -> None:
    """Print or write the forecast of an operation on NVLink nodes or a cluster."""
    from fabricast.api.clusters import cluster_collective
    from fabricast.cli.output import write_elapsed

    forecast = cluster_collective(node, log=logs or None, **options)
    if output is not None:
        write_elapsed(forecast.table, output)
    elif shown == "csv":
        typer.echo(forecast.table.to_csv(index=False, lineterminator="\n"), nl=False)
    elif shown == "json":
        typer.echo(json.dumps(_cluster_document(forecast), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        typer.echo("\n".join(_cluster_lines(forecast)))
    _print_step(forecast, gradient_bytes, shown)
    print_warnings(forecast.warnings, verbose=verbose)


def _check_no_operation(files: list[str]) -> None:
    """Refuse the name of an operation among the files."""
    from fabricast.api.collectives import OPERATIONS
    from fabricast.core.errors import InputError
    from fabricast.inputs.files import exists

    for name in files:
        if name in OPERATIONS and not exists(name):
            raise InputError(f"'{name}' is an operation, expected a file: --operation {name}")


def _cluster_lines(forecast: ClusterForecast) -> list[str]:
    """Return a forecast on nodes as an aligned table, with its origin and public machines of the class."""
    import pandas as pd

    from fabricast.core.number_text import size_text

    table = forecast.table
    columns = {"size": [size_text(size) for size in table["size_bytes"]]}
    if not forecast.is_range_only:
        columns["us"] = [_time_text(time) for time in table["time_us"]]
        columns["bus GB/s"] = ["-" if rate != rate else f"{rate:.3g}" for rate in table["bus_gb_per_s"]]
    if "node" in table:
        columns["slowest nodes"] = table["node"].tolist()
    if forecast.is_bound_only:
        columns["ring us, at least"] = [_time_text(time) for time in table["ring_earliest_us"]]
        columns["bus GB/s, at most"] = [f"{rate:.3g}" for rate in table["ring_most_gb_per_s"]]
        columns["limited by"] = table["limit"].tolist()
    if "algorithm" in table:
        columns["NCCL's choice"] = [f"{row.algorithm} {row.protocol}, {row.channels} ch" for row in table.itertuples()]
        columns["limited by"] = table["limit"].tolist()
    if "measured_us" in table:
        columns["measured us"] = [_time_text(time) for time in table["measured_us"]]
    if "measured_over_forecast" in table:
        columns["measured/forecast"] = [f"{ratio:.2f}" for ratio in table["measured_over_forecast"]]
    if "latest_us" in table:
        ranges = zip(table["earliest_us"], table["latest_us"], strict=True)
        columns["range us"] = [
            "-" if low != low else f"{_time_text(low)} to {_time_text(high)}" for low, high in ranges
        ]
    if "public_us" in table and (table["public_machines"] > 0).any():
        known = zip(table["public_us"], table["public_machines"], strict=True)
        columns["public us"] = [f"{_time_text(time)} ({count})" if count else "-" for time, count in known]
    if "nccl_time_us" in table:
        columns["NCCL's estimate"] = [_time_text(time) for time in table["nccl_time_us"]]
    if "gain" in table and (table["gain"] > 1).any():
        best = zip(table["best_algorithm"], table["best_protocol"], table["gain"], strict=True)
        columns["better"] = [f"{a} {p} ({gain:.2f})" if gain > 1 else "" for a, p, gain in best]
    lines = [f"{forecast.operation}, {forecast.words}"]
    lines += pd.DataFrame(columns).to_string(index=False).split("\n")
    lines.append(forecast.source)
    lines += _measured_lines(table)
    lines += _settings_lines(table)
    if forecast.reference is not None:
        count = len(forecast.reference.machines)
        origin = "one machine" if count == 1 else f"median of {count} machines"
        lines.append(f"public: {origin} ({forecast.reference.words})")
    return lines


#: Names of algorithms in NCCL_ALGO that are no capitalised words.
_SETTINGS = {"nvls": "NVLS", "nvlstree": "NVLSTree"}
#: Size in bytes from which the rates of links and cards decide.
_LARGE = 2.0**26
#: Ratio of measured to forecast times from which a fault is more likely than a setting.
_SLOW_LOG = 1.3


def _measured_lines(table: pd.DataFrame) -> Iterator[str]:
    """Yield how the measured times of a log compare with the forecast and its range."""
    import numpy as np

    from fabricast.core.number_text import size_text

    if "measured_us" not in table:
        return
    if "measured_over_forecast" not in table:
        yield "log: its rows calibrate this forecast, and are not compared with it"
        return
    size = table["size_bytes"].to_numpy(dtype=float)
    if "latest_us" in table:
        late = (table["measured_us"] / table["latest_us"]).to_numpy(dtype=float)
        worst = int(np.nanargmax(late))
        above, known = int((late > 1).sum()), int((late == late).sum())
        if above:
            yield (
                f"log: {above} of {known} sizes last longer than their range, most of all "
                f"{size_text(size[worst])} ({late[worst]:.2f} times its longest time)"
            )
        else:
            yield f"log: all {known} sizes with a range are within it or faster"
    least = min(_LARGE, size.max())
    median = _median_ratio(table)
    yield f"log: sizes from {size_text(least)} last {median:.2f} times as long as the forecast (median)"
    if median > _SLOW_LOG:
        yield "log: a setting of NCCL rarely explains so much; 'fabricast diagnose' with this log looks for the cause"


def _median_ratio(table: pd.DataFrame) -> float:
    """Return the median ratio of the measured to the forecast time of large sizes; 1 without measured times."""
    import numpy as np

    if "measured_over_forecast" not in table:
        return 1.0
    ratio = table["measured_over_forecast"].to_numpy(dtype=float)
    size = table["size_bytes"].to_numpy(dtype=float)
    return float(np.nanmedian(ratio[size >= min(_LARGE, size.max())]))


def _settings_lines(table: pd.DataFrame) -> Iterator[str]:
    """Yield the settings of faster choices, each with its sizes."""
    from fabricast.core.number_text import size_text

    if "gain" not in table or _median_ratio(table) > _SLOW_LOG:
        return
    better = table[table["gain"] > 1]
    if "measured_us" in table:
        # A measured time that the choice would not shorten needs none.
        better = better[better["measured_us"] > better["best_time_us"]]
    for (algorithm, protocol), rows in better.groupby(["best_algorithm", "best_protocol"], sort=False):
        ends = dict.fromkeys(size_text(float(size)) for size in (rows["size_bytes"].min(), rows["size_bytes"].max()))
        name = _SETTINGS.get(str(algorithm), str(algorithm).capitalize())
        yield (
            f"try for {' to '.join(ends)}: NCCL_ALGO={name} NCCL_PROTO={str(protocol).upper()}, up to "
            f"{rows['gain'].max():.2f} times as fast in the forecast"
        )
    if len(better) and len(better) < len(table):
        yield "these variables act on all sizes of a job and may slow others down: set them for a test of these sizes"


def _cluster_document(forecast: ClusterForecast) -> dict[str, object]:
    """Return a forecast on nodes as a JSON document."""
    calibration = forecast.calibration
    return {
        "operation": str(forecast.operation),
        "cluster": forecast.words,
        "source": forecast.source,
        "sizes": json.loads(forecast.table.to_json(orient="records")),
        "calibration": None if calibration is None else calibration._asdict(),
        "public_sources": [] if forecast.reference is None else list(forecast.reference.sources),
        "warnings": [{"code": str(one.code), "text": one.text} for one in forecast.warnings],
    }


def _shown_text(forecast: CollectiveForecast, findings: list[Finding], shown: str) -> str:
    """Return a forecast with its findings as CSV, JSON or readable lines."""
    if shown == "csv":
        return forecast.table.to_csv(index=False, lineterminator="\n")
    if shown == "json":
        return json.dumps(_document(forecast, findings), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    found = ["\n".join(one.lines(number)) for number, one in enumerate(findings, start=1)]
    lines = [*_lines(forecast), *(found or ["no change would help"])]
    return "\n".join(lines) + "\n"


ALL_FILES = typer.Argument(
    help="Descriptions of the machine, measured copies, and logs of nccl-tests and NCCL, in any combination; - is "
    "standard input.",
    show_default=False,
)
MODEL = typer.Option("--gpu", help="GPU model such as 'RTX 4090', if no file names it.", show_default=False)
CARDS = typer.Option(
    "--nic",
    help="Network cards of a node of a cluster, such as 8x400 (Gbit/s); 'ibstat' states them, too.",
    show_default=False,
)
PROCESSOR = typer.Option("--cpu", help="Processor such as 'AMD EPYC'.", show_default=False)


@app.command(epilog="Example: fabricast diagnose topo.txt p2p.txt all_reduce.log nccl.log --cpu 'AMD EPYC'")
def diagnose(
    files: Annotated[list[str], ALL_FILES],
    gpu: Annotated[str | None, MODEL] = None,
    cpu: Annotated[str | None, PROCESSOR] = None,
    link: Annotated[str | None, LINK] = None,
    nic: Annotated[str | None, CARDS] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    format_: Annotated[
        str, typer.Option("--format", help="Format: text, json (everything) or csv (the causes).")
    ] = "text",
    verbose: Annotated[bool, VERBOSE] = False,
) -> None:
    """Name the causes of lost time on a machine; exit code 1 for causes and damaged files."""
    from fabricast.api.collectives import diagnose as diagnose_machine
    from fabricast.core.errors import unknown_name

    if format_ not in _FORMATS_OF_DIAGNOSES:
        raise unknown_name("--format", format_, _FORMATS_OF_DIAGNOSES)
    diagnosis = diagnose_machine(files, gpu=gpu, cpu=cpu, link=link, nic=nic, include_display=include_display)
    if format_ == "json":
        typer.echo(json.dumps(diagnosis.as_dict(), indent=1, ensure_ascii=False))
    elif format_ == "csv":
        typer.echo(diagnosis.table.to_csv(index=False, lineterminator="\n"), nl=False)
    else:
        _print_diagnosis(diagnosis, verbose=verbose)
    raise typer.Exit(code=1 if diagnosis.has_causes else 0)


def _print_diagnosis(diagnosis: Diagnosis, *, verbose: bool) -> None:
    print_wrapped(str(diagnosis.verdict))
    for remedy in diagnosis.remedies():
        print_wrapped(remedy)
    for source in diagnosis.sources:
        print_wrapped(source)
    for statement in diagnosis.statements:
        print_wrapped(f"stated: {statement}")
    for note in diagnosis.notes:
        print_wrapped(f"note: {note}")
    for lines in diagnosis.causes():
        for line in lines:
            print_wrapped(line)
    if diagnosis.omitted:
        typer.echo(f"{diagnosis.omitted} further findings cost less")
    print_warnings(diagnosis.warnings, verbose=verbose)


def _integers(text: str | None) -> list[int] | None:
    from fabricast.core.errors import InputError

    if text is None:
        return None
    words = text.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdigit() and len(word) < 4 for word in words):
        raise InputError(f"--numa is '{text}', expected numbers such as '0 0 1 1'")
    return [int(word) for word in words]


def _environment(pairs: list[str]) -> dict[str, str]:
    from fabricast.core.errors import InputError

    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise InputError(f"--env is '{pair}', expected a variable such as NCCL_P2P_LEVEL=SYS")
        if found.setdefault(name, value) != value:
            raise InputError(f"--env sets {name} to '{found[name]}' and '{value}', expected one value")
    return found


def _time_text(microseconds: float) -> str:
    """Return a time with three significant digits, without an exponent; - if it is unknown."""
    if microseconds != microseconds:
        return "-"
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.3g}"


def _lines(forecast: CollectiveForecast) -> list[str]:
    """Return the forecast as an aligned table, followed by the step that limits large sizes."""
    import pandas as pd

    from fabricast.core.number_text import size_text

    table: pd.DataFrame = forecast.table
    columns = {
        "size": [size_text(size) for size in table["size_bytes"]],
        "us": [_time_text(time) for time in table["time_us"]],
        "bus GB/s": [f"{rate:.3g}" for rate in table["bus_gb_per_s"]],
        "NCCL's choice": [f"{row.algorithm} {row.protocol}, {row.channels} ch" for row in table.itertuples()],
        "limited by": table["limit"].tolist(),
    }
    if "measured_us" in table:
        columns["measured us"] = [_time_text(time) for time in table["measured_us"]]
        columns["measured/forecast"] = [f"{ratio:.2f}" for ratio in table["measured_over_forecast"]]
    if "earliest_us" in table:
        ranges = zip(table["earliest_us"], table["latest_us"], strict=True)
        columns["range us"] = [f"{_time_text(low)} to {_time_text(high)}" for low, high in ranges]
    if (table["gain"] > 1).any():
        best = zip(table["best_algorithm"], table["best_protocol"], table["gain"], strict=True)
        columns["better"] = [f"{a} {p} ({gain:.2f})" if gain > 1 else "" for a, p, gain in best]
    lines = [*pd.DataFrame(columns).to_string(index=False).split("\n"), *_measured_lines(table)]
    names, step = forecast.communicator.ranks, forecast.step
    rate = step.slowest_bytes_per_s / 1e9
    order = " ".join(names[rank] for rank in forecast.plan.orders[0])
    rings = forecast.plan.rings
    speed = "no ring fits, fallback" if rings.is_fallback else f"{rings.channels} x {rings.gb_per_s:g} GB/s"
    lines.append(f"NCCL ({forecast.plan.source}): {speed}, {forecast.plan.channels} channels, ring {order}")
    for transport, hops in forecast.transports.items():
        lines.append(f"{transport}: {' '.join(hops[:16])}{f' and {len(hops) - 16} more' if len(hops) > 16 else ''}")
    shared = f", shared by {' '.join(forecast.shared_by[:8])}" if len(forecast.shared_by) > 1 else ""
    lines.append(f"slowest hop: {rate:.3g} GB/s of copies, limited by {forecast.bottleneck}{shared}")
    if forecast.orders is not None:
        orders, words = forecast.orders, "all" if forecast.orders.is_exhaustive else "a sample of"
        lines.append(
            f"ring orders: {words} {len(orders.orders):,} evaluated, {orders.worst_bytes_per_s / 1e9:.3g} to "
            f"{orders.best_bytes_per_s / 1e9:.3g} GB/s, {orders.best_count:,} are best; gain over NCCL's order "
            f"{forecast.gain_of_order:.2f}"
        )
    return lines


def _document(forecast: CollectiveForecast, findings: list[Finding]) -> dict[str, object]:
    """Return the forecast as a JSON document."""
    rows = json.loads(forecast.table.to_json(orient="records"))
    return {
        "operation": str(forecast.operation),
        "ranks": list(forecast.communicator.ranks),
        "sizes": rows,
        "rings": [list(order) for order in forecast.plan.orders],
        "source": forecast.plan.source,
        "transports": forecast.transports,
        "bottleneck": forecast.bottleneck,
        "shared_by": list(forecast.shared_by),
        "gain_of_order": forecast.gain_of_order,
        "best_order": None if forecast.orders is None else list(forecast.orders.best),
        "findings": [
            {
                "cause": str(one.cause),
                "text": one.text,
                "remedy": one.remedy,
                "gain": one.gain,
                "sizes": list(one.sizes or ()),
            }
            for one in findings
        ],
        "warnings": [{"code": str(one.code), "text": one.text} for one in forecast.warnings],
    }
