"""Derivation of a system file from measurements, for the command line."""

from __future__ import annotations

from pathlib import Path

import yaml

from fabricast.breakdown.components import COMPONENTS, OPTIONAL
from fabricast.breakdown.traces import Derived, components_from_timers, components_from_trace, read_timers, read_trace
from fabricast.core.errors import InputError
from fabricast.inputs.files import write_text


def derive_lines(
    timers: Path, trace: Path | None, name: str, posts_per_completion: int, output: Path | None
) -> list[str]:
    """Derive component times from measurements and write a system file."""
    if posts_per_completion < 1:
        raise InputError(f"--posts-per-completion is {posts_per_completion}, expected at least 1")
    components: dict[str, Derived] = components_from_timers(read_timers(timers))
    if trace is not None:
        parts = ("md_setup", "md_barrier", "dbc_barrier", "pio_copy", "llp_post_other")
        lacking = [part for part in (*parts, "llp_prog") if part not in components]
        if lacking:
            raise InputError(
                f"timers lack {', '.join(lacking)}, which are required to evaluate the ping-pong of the trace",
                path=timers,
            )
        components |= components_from_trace(
            read_trace(trace),
            posts_per_completion=posts_per_completion,
            llp_post_ns=sum(components[part].median_ns for part in parts),
            llp_prog_ns=components["llp_prog"].median_ns,
        )
    lines = [_line(entry) for entry in components.values()]
    if trace is None:
        lines.append("no trace: PCIe, network and memory times are one sum (observed latency minus CPU time)")
    if output is None:
        return lines
    # Timers cannot always determine injection_misc: it is then 0 and tagged as assumed.
    components.setdefault("injection_misc", Derived("injection_misc", 0.0, 0.0, 0.0, 0.0, 0, "not measured"))
    missing = [part for part in COMPONENTS if part not in components and part not in OPTIONAL]
    if missing:
        raise InputError(f"{output} would be incomplete without {', '.join(missing)}; measure these or omit --output")
    negative = [part for part in COMPONENTS if part in components and components[part].median_ns < 0]
    if negative:
        raise InputError(
            f"times of {', '.join(negative)} are negative, expected 0 or more; check that the timed regions are nested"
        )
    document = {
        "system": name,
        "posts_per_completion": posts_per_completion,
        "components": {
            part: {
                "time_ns": round(components[part].median_ns, 4),
                "spread_ns": round(max(0.0, (components[part].p95_ns - components[part].p05_ns) / 3.29), 4),
                "tag": "assumed" if components[part].samples == 0 else "measured",
                "source": components[part].flag or f"median of {components[part].samples} samples",
            }
            for part in COMPONENTS
            if part in components
        },
    }
    write_text(output, yaml.safe_dump(document, sort_keys=False))
    lines.append(f"written: {output}")
    return lines


def _line(entry: Derived) -> str:
    """Return a component with its spread, which a difference of two regions does not have."""
    is_difference = entry.flag == "difference"
    spread = "" if is_difference else f"5 % to 95 %: {entry.p05_ns:.2f} to {entry.p95_ns:.2f}, "
    flag = f", {'difference of regions' if is_difference else entry.flag}" if entry.flag else ""
    return f"{entry.name:20} {entry.median_ns:10.2f} ns  ({spread}{entry.samples:,} samples{flag})"
