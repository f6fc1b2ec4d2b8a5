"""Commands that compare forecasts with measured copies: probes, validate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import DISPLAY, FILES, GPU, LINK, MEASUREMENTS, SYSTEM, check_output

if TYPE_CHECKING:
    from fabricast.api.probes import Probe
    from fabricast.pcie.topology.tree import PcieTree


app = typer.Typer()

#: Number of measured graphs from which `validate` reports its progress.
_WITH_PROGRESS = 1000


@app.command(epilog="Example: fabricast probes machine.xml -o probes.csv")
def probes(
    files: Annotated[list[str], FILES],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file for the probes.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Measure the probes on the GPUs of this machine.")] = False,
    size: Annotated[str, typer.Option(help="Size of each measured copy, such as 64MiB.")] = "256MB",
    seconds: Annotated[float, typer.Option(help="Maximum time per measured probe in seconds.")] = 5.0,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Propose or measure the copies that calibrate a machine and check its topology."""
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.probes import probe_csv, proposed_probes
    from fabricast.cli.options import check_range, size_of
    from fabricast.inputs.files import write_text

    check_output(output, ".csv", inputs=files)
    size_bytes = size_of(size)
    check_range("--size in bytes", size_bytes, 1e6, 16384e6)
    check_range("--seconds", seconds, 1e-3, 3600)
    machine, _ = open_files(files, include_display=include_display)
    found = proposed_probes(machine.tree)
    if run:
        _measure(machine.tree, found, output, round(size_bytes), seconds)
        return
    for probe in found:
        typer.echo(f"{probe.graph}: {' '.join(f'{s}>{t}' for s, t in probe.flows)}", err=output is None)
        typer.echo(f"  {probe.purpose}", err=output is None)
    if output is None:
        typer.echo(probe_csv(found), nl=False)
    else:
        write_text(output, probe_csv(found))
        typer.echo(
            f"{len(found)} probes in {output}: fill in total_gb_per_s, then 'fabricast validate {' '.join(files)} "
            f"{output}'"
        )


def _measure(tree: PcieTree, found: list[Probe], output: Path | None, size_bytes: int, seconds: float) -> None:
    """Run probes on this machine and write the measured rates."""
    from fabricast.api.probes import MachineGpus, measure_probes, measured_text
    from fabricast.core.errors import InputError
    from fabricast.inputs.files import write_text
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
    files: Annotated[list[str], FILES],
    measurements: Annotated[list[str] | None, MEASUREMENTS] = None,
    program: Annotated[
        str,
        typer.Option(
            help="Copy program of rows that do not specify one: ordered_writes (PyTorch), "
            "unordered_reads (p2pmark), unordered_writes or independent."
        ),
    ] = "independent",
    system: Annotated[str | None, SYSTEM] = None,
    gpu: Annotated[str | None, GPU] = None,
    link: Annotated[str | None, LINK] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Rate of an isolated copy, such as 50GB/s, if none was measured.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file for the rows.")] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Report forecast errors on measured copies; exit code 1 for contradictions, or if all graphs are excluded."""
    from rich.console import Console

    from fabricast.api.machine_inputs import open_files
    from fabricast.api.machines import other_contents, validated
    from fabricast.cli.options import print_warnings, rate_of
    from fabricast.cli.pcie.validation_text import validation_text
    from fabricast.runtime.jobs import progress_of

    inputs = [*files, *(measurements or [])]
    check_output(output, ".csv", inputs=inputs)
    machine, _ = open_files(
        inputs,
        gpu=gpu,
        link=link,
        program=program,
        system=system,
        bandwidth_bytes_per_s=rate_of(bandwidth),
        include_display=include_display,
    )
    # A small file takes less time than a reader needs for the progress.
    total = len(machine.graphs) if len(machine.graphs) >= _WITH_PROGRESS else 0
    with progress_of("validating graphs", total) as advance:
        found = validated(machine, advance if total else None)
    if output is not None:
        from fabricast.inputs.files import write_text

        write_text(output, found.rows.to_csv(index=False))
    text = validation_text(machine.tree.name, found, machine.measured.programs)
    Console(width=140, soft_wrap=True, highlight=False).print(text)
    print_warnings((warning for warning in machine.tree.warnings if warning.code.is_about_files), verbose=True)
    for path, content in other_contents(machine):
        typer.echo(f"{path}: {content} not used here: 'fabricast diagnose' compares it, too", err=True)
    contradicts = any(warning.code.is_contradiction for warning in found.warnings)
    # A file may have single copies only, which calibrate; otherwise one graph at least must be compared.
    lacks_graphs = not found.rows["judged"].any() and (found.rows["reason_code"] != "calibration").any()
    raise typer.Exit(code=1 if contradicts or lacks_graphs else 0)
