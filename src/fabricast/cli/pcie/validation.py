"""Commands that compare forecasts with measured copies: probes, validate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import DISPLAY, check_output

if TYPE_CHECKING:
    from fabricast.pcie.measurements.probes import Probe
    from fabricast.pcie.topology.tree import PcieTree

__all__ = ["app"]

app = typer.Typer()

#: Number of measured graphs from which `validate` reports its progress.
_WITH_PROGRESS = 1000


@app.command(epilog="Example: fabricast probes machine.xml -o probes.csv")
def probes(
    topology: Annotated[str, typer.Argument(help="Built-in topology, or a .yaml, hwloc or NCCL .xml file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file for the probes.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Measure the probes on the GPUs of this machine.")] = False,
    size: Annotated[str, typer.Option(help="Size of each measured copy, such as 64MiB.")] = "256MB",
    seconds: Annotated[float, typer.Option(help="Maximum time per measured probe in seconds.")] = 5.0,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Propose or measure the copies that calibrate a machine and check its topology."""
    from fabricast.cli.options import check_range, size_of
    from fabricast.inputs.files import write_text
    from fabricast.pcie.measurements.probes import probe_csv, proposed_probes
    from fabricast.pcie.topology.files import load_tree

    check_output(output, ".csv", inputs=[topology])
    size_bytes = size_of(size)
    check_range("--size in bytes", size_bytes, 1e6, 16384e6)
    check_range("--seconds", seconds, 1e-3, 3600)
    tree = load_tree(topology, include_display=include_display)
    found = proposed_probes(tree)
    if run:
        _measure(tree, found, output, round(size_bytes), seconds)
        return
    for probe in found:
        typer.echo(f"{probe.graph}: {' '.join(f'{s}>{t}' for s, t in probe.flows)}", err=output is None)
        typer.echo(f"  {probe.purpose}", err=output is None)
    if output is None:
        typer.echo(probe_csv(found), nl=False)
    else:
        write_text(output, probe_csv(found))
        typer.echo(
            f"{len(found)} probes in {output}: fill in total_gb_per_s, then 'fabricast validate {topology} {output}'"
        )


def _measure(tree: PcieTree, found: list[Probe], output: Path | None, size_bytes: int, seconds: float) -> None:
    """Run probes on this machine and write the measured rates."""
    from fabricast.core.errors import InputError
    from fabricast.inputs.files import write_text
    from fabricast.pcie.measurements.cuda_copies import MachineGpus
    from fabricast.pcie.measurements.probe_runs import measure_probes, measured_text
    from fabricast.runtime.cuda_driver import unavailable_reason
    from fabricast.runtime.jobs import progress_of

    reason = unavailable_reason()
    if reason is not None:
        raise InputError(f"nothing measured: {reason}")
    with MachineGpus() as gpus, progress_of("probes", len(found)) as advance:
        rows, left_out = measure_probes(gpus, tree, found, size_bytes=size_bytes, seconds=seconds, progress=advance)
    text = measured_text(rows, f"{gpus.text}: {rows['graph'].nunique()} of {len(found)} probes measured")
    for line in left_out:
        typer.echo(f"left out: {line}", err=True)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(f"{rows['graph'].nunique()} of {len(found)} probes measured: {output}")


@app.command(epilog="Example: fabricast validate machine.xml measured.csv")
def validate(
    topology: Annotated[str, typer.Argument(help="Built-in topology, or a .yaml, hwloc or NCCL .xml file.")],
    measured: Annotated[
        Path,
        typer.Argument(
            help="Measured copies: CSV or Parquet, or output of nvbandwidth, p2pBandwidthLatencyTest, p2pmark, "
            "rocm_bandwidth_test or TransferBench."
        ),
    ],
    program: Annotated[
        str,
        typer.Option(
            help="Copy program of rows that do not specify one: ordered_writes (PyTorch), "
            "unordered_reads (p2pmark), unordered_writes or independent."
        ),
    ] = "independent",
    system: Annotated[str | None, typer.Option(help="Use only rows of this system.")] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Rate of an isolated copy, such as 50GB/s, if none was measured.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file for the rows.")] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Report forecast errors on measured copies; exit code 1 for contradictions, or if all graphs are excluded."""
    from rich.console import Console

    from fabricast.cli.options import rate_of
    from fabricast.cli.pcie.validation_text import validation_text
    from fabricast.pcie.graphs.programs import program_of
    from fabricast.pcie.machines.calibrate import LINK_PAYLOAD
    from fabricast.pcie.machines.validation import validate_machine
    from fabricast.pcie.measurements.files import copies_of_machine
    from fabricast.pcie.topology.files import load_tree
    from fabricast.pcie.topology.tree import single_copy_rate_of
    from fabricast.runtime.jobs import progress_of

    rate = rate_of(bandwidth)
    check_output(output, ".csv", inputs=[topology, measured])
    tree = load_tree(topology, include_display=include_display)
    copies = copies_of_machine(tree, measured, program=program_of(program).name, system=system)
    source = LINK_PAYLOAD if rate is None else "option --bandwidth"
    # A small file takes less time than a reader needs for the progress.
    total = len(copies.graphs) if len(copies.graphs) >= _WITH_PROGRESS else 0
    with progress_of("validating graphs", total) as advance:
        found = validate_machine(
            tree,
            copies.graphs,
            one_way_bytes_per_s=single_copy_rate_of(tree) if rate is None else rate,
            one_way_source=source,
            warnings=copies.warnings,
            progress=advance if total else None,
        )
    if output is not None:
        from fabricast.inputs.files import write_text

        write_text(output, found.rows.to_csv(index=False))
    Console(width=140, soft_wrap=True, highlight=False).print(validation_text(tree.name, found, copies.programs))
    for content in _other_contents(measured):
        typer.echo(f"{measured}: {content} not used here: 'fabricast diagnose' compares it, too", err=True)
    contradicts = any(warning.code.is_contradiction for warning in found.warnings)
    # A file may have single copies only, which calibrate; otherwise one graph at least must be compared.
    lacks_graphs = not found.rows["judged"].any() and (found.rows["reason_code"] != "calibration").any()
    raise typer.Exit(code=1 if contradicts or lacks_graphs else 0)


def _other_contents(path: Path) -> list[str]:
    """Return what a file of a benchmark program holds besides measured copies."""
    from fabricast.diagnosis.sources import Content, contents_of
    from fabricast.inputs.files import is_table, read_text

    return [] if is_table(path) else [one for one in contents_of(read_text(path)) if one is not Content.COPIES]
