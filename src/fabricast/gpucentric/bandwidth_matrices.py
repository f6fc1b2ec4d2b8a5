"""Rates between GPUs by class of path, from the matrices of bandwidth programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

__all__ = ["RateClass", "copy_classes"]

#: Sorted rates further apart than this share belong to different ways.
_SAME_WAY = 0.10


@dataclass(frozen=True)
class RateClass:
    """One-way copies between GPUs that are about equally fast, or take ways of one kind.

    Parameters
    ----------
    name : str
        Kind of way, or ``rate 1``, ``rate 2``, ... from fast to slow where the file alone tells.
    pairs : tuple of (str, str)
        Numbers of source and target.
    low, median, high : float
        Rates in bytes/s.
    reference : float
        Median of the rates as they would be on links of capacity 1.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    low: float
    median: float
    high: float
    reference: float


def copy_classes(
    table: pd.DataFrame,
    way: Callable[[str, str], str | None] | None = None,
    narrowest: Callable[[str, str], float] | None = None,
) -> list[RateClass]:
    """Return the rates of one-way copies by copy engines between different GPUs, by class.

    Parameters
    ----------
    table : pandas.DataFrame
        As `read_bandwidths` gives.
    way : callable, optional
        Kind of way between two GPUs by number, such as PIX or NVLink; None for pairs that are
        not of the machine. Without it classes are told apart by gaps between rates.
    narrowest : callable, optional
        Capacity of the narrowest link between two GPUs of the machine; 1 if left out.

    Returns
    -------
    list of RateClass
        From fast to slow; empty if no such copies were measured.
    """
    nvbandwidth = table["test"].str.match(r"device_to_device_memcpy_(read|write)_ce$")
    peer = table["test"].str.match(r"Unidirectional P2P=Enabled Bandwidth")
    rows = table[(nvbandwidth | peer) & (table["row"] != table["column"]) & (table["unit"] == "bytes/s")]
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
