"""Copies between GPUs of several nodes on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fabricast.cli.options import print_warnings
from fabricast.core.errors import InputError
from fabricast.inputs.copy_lists import pairs_of

if TYPE_CHECKING:
    from fabricast.api.cluster_copies import ClusterCopies


#: Copies that are printed, and smallest gain of another choice that is worth a line.
_MOST_LINES, _LEAST_GAIN = 10, 1.05
#: Time in s below which no limit is left.
_NOTHING_S = 1e-12


@contextmanager
def _named(argument: str, option: str) -> Iterator[None]:
    """Rename the argument of errors to the option of the user."""
    try:
        yield
    except InputError as error:
        if error.argument != argument:
            raise
        raise InputError(error.reason, path=error.path, line=error.line, argument=option) from error


def _cluster_pattern(
    pattern: str | None, all_to_all: str | None, halo: str | None, ring: bool, copies: str | None, gpus: int
) -> tuple[str | list[tuple[str, str]], str | None]:
    """Return the copies of options, and the size that one of them states."""
    from fabricast.networks.patterns import grid_of

    given = {
        "--pattern": pattern,
        "--all-to-all": all_to_all,
        "--halo": halo,
        "--ring": ring or None,
        "--copies": copies,
    }
    used = [name for name, value in given.items() if value is not None]
    if len(used) != 1:
        found = f"{' and '.join(used)} exclude each other" if used else "no copies are specified"
        raise InputError(f"{found}, expected one of {', '.join(given)}")
    if pattern is not None:
        return pattern, None
    if all_to_all is not None:
        return f"all_to_all:{gpus}", all_to_all
    if halo is not None:
        grid = grid_of(f"halo:{halo}")
        if grid is None or 0 in grid:
            raise InputError(f"is '{halo}', expected a grid such as 4x4x8", argument="halo")
        return f"halo:{halo}", None
    return (f"ring:{gpus}" if ring else pairs_of(copies or "")), None


def print_cluster_copies(
    files: list[str],
    options: dict[str, Any],
    pattern: dict[str, Any],
    *,
    size: str | None,
    routing: str,
    write_ranks: str | None,
    output: Path | None,
    shown: str,
    verbose: bool,
) -> None:
    """Print or write the times of copies in a cluster."""
    from fabricast.api.cluster_copies import load_cluster, predict_cluster
    from fabricast.cli.output import write_elapsed

    cluster = load_cluster(files, **options)
    copies, stated = _cluster_pattern(gpus=cluster.gpus, **pattern)
    if size is not None and stated is not None:
        raise InputError("cannot be combined with --all-to-all SIZE", argument="size")
    with _named("pattern", "pattern" if pattern["halo"] is None else "halo"):
        found = predict_cluster(cluster, copies, size=size or stated, routing=routing)
    with _named("stem", "write-ranks"):
        written = [] if write_ranks is None else found.write_blocks(write_ranks)
    if output is not None:
        write_elapsed(found.table, output)
        typer.echo("\n".join(_copies_lines(found)), err=True)
    elif shown == "csv":
        found.table.to_csv(sys.stdout, index=False, lineterminator="\n")
        typer.echo("\n".join(_copies_lines(found)[:2]), err=True)
    elif shown == "json":
        typer.echo(json.dumps(_document(found), indent=1, ensure_ascii=False))
    else:
        typer.echo("\n".join(_copies_lines(found)))
    for path in written:
        typer.echo(f"written: {path}", err=True)
    print_warnings(found.warnings, verbose=verbose)


def _document(found: ClusterCopies) -> dict[str, Any]:
    """Return a forecast as a JSON document."""
    records = {name: json.loads(table.to_json(orient="records")) for name, table in _tables(found).items()}
    return {
        "cluster": found.cluster.words,
        "time_s": found.time_s,
        "is_lower_bound": not found.is_simulated,
        "layer": found.layer,
        "bottleneck": found.bottleneck,
        **records,
        "warnings": [{"code": str(one.code), "text": one.text} for one in found.warnings],
    }


def _tables(found: ClusterCopies) -> dict[str, Any]:
    return {"layers": found.layers, "choices": found.choices, "copies": found.table}


def _copies_lines(found: ClusterCopies) -> list[str]:
    """Return the time of all copies, the slowest ones, what each layer costs, and choices that are faster."""
    import pandas as pd

    lines = [f"{found.pattern}; {found.cluster.words}" if found.pattern else found.cluster.words]
    bound = "" if found.is_simulated else "at least "
    count = "1 copy completes" if len(found.table) == 1 else f"{len(found.table):,} copies complete"
    lines.append(f"{count} after {bound}{_ms(found.time_s)} ms; limited by {found.layer}: {found.bottleneck}")
    if found.is_simulated:
        slowest = found.table.nlargest(_MOST_LINES, "elapsed_s")
        columns = {
            "copy": [f"{one}>{other}" for one, other in zip(slowest["source"], slowest["target"], strict=True)],
            "MiB": [f"{size / 2**20:,.4g}" for size in slowest["size_bytes"]],
            "ms": [_ms(time) for time in slowest["elapsed_s"]],
            "limited by": slowest["bottleneck"].tolist(),
        }
        lines += pd.DataFrame(columns).to_string(index=False).split("\n")
        if len(found.table) > _MOST_LINES:
            lines.append(f"the slowest {_MOST_LINES} of {len(found.table):,} copies; --output FILE writes all")

    def faster(gain: float) -> str:
        # The ratio of two lower bounds is that of their busiest links.
        return f"{gain:.2f} times as fast" if found.is_simulated else f"the busiest link is {gain:.2f} times as fast"

    layers = found.layers
    for layer, share, without_s, gain in zip(
        layers["layer"], layers["share_of_copies"], layers["time_without_s"], layers["gain"], strict=True
    ):
        words = faster(gain) if gain > _LEAST_GAIN else "no gain"
        without = (
            f"without this limit {bound}{_ms(without_s)} ms ({words})"
            if without_s > _NOTHING_S
            else "nothing else limits"
        )
        limits = f"limits {100 * share:.0f} % of the copies; " if found.is_simulated else ""
        lines.append(f"{layer}: {limits}{without}")
    choices = found.choices
    tried = list(zip(choices["choice"], choices["time_s"], choices["gain"], strict=True))
    better = [one for one in tried if one[2] > _LEAST_GAIN]
    lines += [f"better: {choice}: {bound}{_ms(time_s)} ms ({faster(gain)})" for choice, time_s, gain in better]
    if tried and not better:
        lines.append(f"tried without gain: {'; '.join(choice for choice, _, _ in tried)}")
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:,.0f}"
