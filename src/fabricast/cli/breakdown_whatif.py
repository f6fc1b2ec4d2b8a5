"""Text output of the what-if analysis, for the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabricast.api.breakdown import load_system
from fabricast.breakdown.components import COMPONENTS, GROUPS, METRICS, form
from fabricast.breakdown.whatif import reduce_components, required_reduction, share_of
from fabricast.core.errors import InputError, unknown_name

#: Origins of component times that are no measurements of the user, in words.
_ORIGINS = {"recalled": "quoted from the paper from memory", "assumed": "assumed"}
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
        used = [name for name, members in GROUPS.items() if any(member in weights for member in members)]
        shares = {name: share_of(machine, metric, name) for name in used}
        for is_part, title in ((True, "parts, largest first"), (False, "groups of parts, which overlap")):
            lines.append(f"{title} (the share is the most that a reduction can remove):")
            for name in sorted(
                (name for name in used if (name in COMPONENTS) == is_part), key=lambda one: -shares[one]
            ):
                words = COMPONENTS[name].title if is_part else " + ".join(one for one in GROUPS[name] if one in weights)
                lines.append(f"  {name:15} {shares[name]:7.2%} {shares[name] * outcome.before_ns:8.2f} ns  {words}")
    tags = {name: machine.components[name].tag for name in weights if name in machine.components}
    for tag, text in _ORIGINS.items():
        names = [name for name in tags if tags[name] == tag]
        if names:
            listed = "all component times" if len(names) == len(tags) else ", ".join(names)
            lines.append(f"{text}: {listed}")
    return lines
