"""Rates of copies between GPUs by path class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

#: Relative gap between sorted rates that separates two rate classes.
_SAME_WAY = 0.10


@dataclass(frozen=True)
class RateClass:
    """Unidirectional copies between GPUs with the same path class or similar rates."""

    name: str  # Path class, or ``rate 1``, ``rate 2``, ... from fast to slow if the path classes are unknown
    pairs: tuple[tuple[str, str], ...]  # Numbers of source and target GPU of each copy
    #: Minimum, median and maximum rate in bytes/s.
    low: float
    median: float
    high: float
    reference: float  # Median rate in bytes/s, scaled to links of capacity 1


def copy_classes(
    copies: Sequence[tuple[str, str, float]],
    way: Callable[[str, str], str | None] | None = None,
    narrowest: Callable[[str, str], float] | None = None,
) -> list[RateClass]:
    """Group the rates of isolated copies between GPUs into classes.

    >>> [(one.name, one.median) for one in copy_classes([("0", "1", 20e9), ("1", "0", 21e9), ("0", "2", 10e9)])]
    [('rate 1', 20500000000.0), ('rate 2', 10000000000.0)]
    """
    rows = pd.DataFrame(copies, columns=["row", "column", "value"])
    rows = rows.sort_values(["value", "row", "column"], ascending=[False, True, True], ignore_index=True)
    if way is None:
        gaps = rows["value"] < rows["value"].shift() * (1 - _SAME_WAY)
        names = "rate " + (gaps.cumsum() + 1).astype(str)
    else:
        names = pd.Series([way(row, column) for row, column in zip(rows["row"], rows["column"], strict=True)])
    classes = []
    for name in dict.fromkeys(names.dropna()):
        part = rows[names == name]
        pairs = tuple(dict.fromkeys(zip(part["row"], part["column"], strict=True)))
        values = part["value"]
        scaled = (
            values if narrowest is None else values / [narrowest(*ends) for ends in part[["row", "column"]].to_numpy()]
        )
        classes.append(
            RateClass(
                str(name),
                pairs,
                float(values.min()),
                float(values.median()),
                float(values.max()),
                float(scaled.median()),
            )
        )
    return sorted(classes, key=lambda one: -one.median)
