"""From measured files to a system file, for the command line."""

from __future__ import annotations

from pathlib import Path

import yaml

from fabricast.breakdown.components import COMPONENTS, OPTIONAL
from fabricast.breakdown.traces import Derived, components_from_timers, components_from_trace, read_timers, read_trace
from fabricast.core.errors import InputError
from fabricast.inputs.files import write_text

__all__ = ["derive_lines"]


def derive_lines(
    timers: Path, trace: Path | None, name: str, posts_per_completion: int, output: Path | None
) -> list[str]:
    """Derive components from files, write the system and say what was found.

    Parameters
    ----------
    timers : Path
        CPU timers.
    trace : Path or None
        PCIe trace.
    name : str
        Name of the system.
    posts_per_completion : int
        Posts that one signalled completion covers.
    output : Path or None
        System file to write; needs a trace with all runs.

    Returns
    -------
    list of str
        Lines for the user.

    Raises
    ------
    InputError
        If a file is refused, or the system file would lack components.
    """
    if posts_per_completion < 1:
        raise InputError(f"--posts-per-completion is {posts_per_completion}, expected at least 1")
    found: dict[str, Derived] = components_from_timers(read_timers(timers))
    if trace is not None:
        parts = ("md_setup", "md_barrier", "dbc_barrier", "pio_copy", "llp_post_other")
        lacking = [part for part in (*parts, "llp_prog") if part not in found]
        if lacking:
            raise InputError(f"the timers lack {', '.join(lacking)}, which the trace's ping-pong contains", path=timers)
        found |= components_from_trace(
            read_trace(trace),
            posts_per_completion=posts_per_completion,
            llp_post_ns=sum(found[part].median_ns for part in parts),
            llp_prog_ns=found["llp_prog"].median_ns,
        )
    lines = [
        f"{entry.name:20} {entry.median_ns:10.2f} ns  (5 % to 95 %: {entry.p05_ns:.2f} to {entry.p95_ns:.2f}, "
        f"{entry.samples:,} samples{', ' + entry.flag if entry.flag else ''})"
        for entry in found.values()
    ]
    if trace is None:
        lines.append("no trace: PCIe, network and memory are one lump, observed latency minus CPU")
    if output is None:
        return lines
    # What the timers of a run cannot know is 0 and says so.
    found.setdefault("injection_misc", Derived("injection_misc", 0.0, 0.0, 0.0, 0.0, 0, "not measured"))
    missing = [part for part in COMPONENTS if part not in found and part not in OPTIONAL]
    if missing:
        raise InputError(f"{output} would lack {', '.join(missing)}; measure them or leave out --output")
    negative = [part for part in COMPONENTS if part in found and found[part].median_ns < 0]
    if negative:
        raise InputError(f"{', '.join(negative)} are negative, expected times; the regions do not nest")
    document = {
        "system": name,
        "posts_per_completion": posts_per_completion,
        "components": {
            part: {
                "time_ns": round(found[part].median_ns, 4),
                "spread_ns": round(max(0.0, (found[part].p95_ns - found[part].p05_ns) / 3.29), 4),
                "tag": "assumed" if found[part].samples == 0 else "measured",
                "source": found[part].flag or f"median of {found[part].samples} samples",
            }
            for part in COMPONENTS
            if part in found
        },
    }
    write_text(output, yaml.safe_dump(document, sort_keys=False))
    lines.append(f"written: {output}")
    return lines
