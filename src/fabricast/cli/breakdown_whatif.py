"""Text output of the what-if analysis, for the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabricast.api.breakdown import load_system
from fabricast.breakdown.components import GROUPS, METRICS, form
from fabricast.breakdown.whatif import reduce_components, required_reduction, share_of
from fabricast.core.errors import InputError, unknown_name

__all__ = ["whatif_lines"]


#: Share with or without a percent sign; Python also accepts underscores in numbers.
_SHARE = re.compile(r"([-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][-+]?[0-9]{1,3})?)(%?)")


def _share(text: str, option: str) -> float:
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{option} is '{text}', expected a share such as 25% or 0.25")
    return float(match[1]) / (100 if match[2] else 1)


def whatif_lines(system: str, reductions: Sequence[str], metric: str, remove: str | None) -> list[str]:
    """Return the result of a what-if analysis as text."""
    machine = load_system(system)
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    parsed: dict[str, float] = {}
    for text in reductions:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--reduce is '{text}', expected a component and a share such as pio_copy=84%")
        if name in parsed:
            raise InputError(f"--reduce contains '{name}' twice, expected once")
        parsed[name] = _share(value, "--reduce")
    lines = []
    outcome = reduce_components(machine, metric, parsed)
    lines.append(f"{METRICS[metric]} of {machine.system}: {outcome.before_ns:.2f} ns")
    if parsed:
        lines.append(
            f"after the reductions: {outcome.after_ns:.2f} ns, {outcome.share_removed:.2%} removed, "
            f"{outcome.speedup_ratio:.4f} times as fast"
        )
    weights = form(metric, machine.posts_per_completion)
    if remove is not None:
        share = _share(remove, "--remove")
        for name, members in GROUPS.items():
            if any(member in weights for member in members) and share_of(machine, metric, name) > 0:
                needed = required_reduction(machine, metric, name, share)
                shown = "not possible, its share is too small" if needed is None else f"reduction by {needed:.2%}"
                lines.append(f"  {name:20} {shown}")
    elif not parsed:
        lines.append("shares of the total (upper bounds of what a reduction can remove):")
        for name, members in GROUPS.items():
            if any(member in weights for member in members):
                lines.append(f"  {name:20} {share_of(machine, metric, name):.2%}")
    assumed = [name for name in weights if name in machine.components and machine.components[name].tag == "assumed"]
    if assumed:
        lines.append(f"assumed component times: {', '.join(assumed)}")
    return lines
