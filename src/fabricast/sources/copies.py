"""Measured copies as facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from fabricast.core.errors import InputError
from fabricast.core.facts import Fact, Kind, Quantity
from fabricast.pcie.measurements.measured_graph import CALIBRATION, FASTEST_BYTES_PER_S, MeasuredGraph
from fabricast.sources.text import Text

_IN_NUMBER = re.compile(r"\d\.\s*\Z")


def rate_facts(text: Text, program: str, graphs: Iterable[MeasuredGraph]) -> Iterator[Fact]:
    """Yield the rates of measured copies; single copies and bidirectional pairs have the role ``calibration``."""
    for graph in graphs:
        if not 0 < graph.total_bytes_per_s <= FASTEST_BYTES_PER_S:
            rate = graph.total_bytes_per_s / 1e9
            raise InputError(
                f"{graph.name}: {rate:.4g} GB/s, expected a rate above 0 and below 10 TB/s", line=graph.line or None
            )
        role = CALIBRATION if _is_calibration(graph) else graph.role
        yield text.fact(
            Quantity.RATE, replace(graph, role=role), graph.line, program, unit="bytes/s", kind=Kind.MEASURED
        )


def _is_calibration(graph: MeasuredGraph) -> bool:
    """Return whether the copies are a single copy or a bidirectional pair."""
    flows = graph.flows
    return len(flows) == 1 or (len(flows) == 2 and flows[0] == flows[1][::-1])


def check_end(text: Text) -> None:
    """Raise an error if a text ends within a number."""
    if _IN_NUMBER.search(text.clean) is not None:
        raise text.error("ends within a number, expected the complete output", text.clean.rstrip().count("\n") + 1)
