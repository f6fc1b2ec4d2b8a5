"""Expected error of forecasts of all_reduce, by transport, size and what is known about the machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from fabricast.core.resources import published
from fabricast.inputs.csv_files import CsvRow, read_csv

#: Classes of sizes by their largest size in bytes.
SIZE_CLASSES = {"up to 32 KiB": 32 << 10, "64 to 512 KiB": 512 << 10, "from 1 MiB": np.inf}
#: Number of machines from which a range is the 5th to the 95th percentile: single runs are no range of others.
_MANY_MACHINES = 20
#: What is known about the machine of a forecast.
PAIRS_MEASURED, LINKS_ONLY = "pairs measured", "links only"
STATE_COLUMNS = (
    "state",
    "transport",
    "size_class",
    "machines",
    "rows",
    "median",
    "within_band",
    "worst",
    "shortest",
    "longest",
    "coverage",
)


def size_class(size_bytes: float) -> str:
    """Return the class of a size.

    >>> size_class(4096), size_class(2.0**20)
    ('up to 32 KiB', 'from 1 MiB')
    """
    return next(name for name, largest in SIZE_CLASSES.items() if size_bytes <= largest)


def ratio_range(machines: pd.Series, ratio: pd.Series) -> tuple[float, float]:
    """Return the range of ratios: of all rows of few machines, else the 5th to the 95th percentile."""
    low, high = (5, 95) if machines.nunique() >= _MANY_MACHINES else (0, 100)
    return float(np.percentile(ratio, low)), float(np.percentile(ratio, high))


def coverage(machines: pd.Series, ratio: pd.Series) -> float:
    """Return the share of the ratios of each machine within the range of the others; NaN for one machine."""
    inside: list[bool] = []
    for machine in machines.unique():
        is_own = machines == machine
        if (~is_own).any():
            low, high = ratio_range(machines[~is_own], ratio[~is_own])
            inside += ratio[is_own].between(low, high).tolist()
    return float(np.mean(inside)) if inside else float("nan")


@dataclass(frozen=True)
class ExpectedError:
    """Error of forecasts of public machines, each left out of the fit of the constants."""

    median: float  # Median of the absolute relative error
    #: Number of public machines, and of their measured times.
    machines: int
    rows: int
    #: Least and largest ratio of measured to forecast times.
    shortest: float
    longest: float
    coverage: float  # Share of the times of each machine that are within the range of the others


@cache
def _error_classes() -> dict[tuple[str, str, str], ExpectedError]:
    """Return the errors by state of information, transport and class of sizes."""
    rows = read_csv(published() / "collectives" / "state_errors.csv", STATE_COLUMNS)
    return {(row["state"], row["transport"], row["size_class"]): _error(row) for row in rows}


def _error(row: CsvRow) -> ExpectedError:
    median, shortest, longest, coverage = (row.number(name) for name in ("median", "shortest", "longest", "coverage"))
    return ExpectedError(median, int(row.number("machines")), int(row.number("rows")), shortest, longest, coverage)


def expected_error(*, is_measured: bool, transport: str, size_bytes: float) -> ExpectedError | None:
    """Return the error of forecasts of all_reduce; None if no public machine has the transport.

    >>> error = expected_error(is_measured=True, transport="P2P", size_bytes=2.0**26)
    >>> error.shortest < 1 < error.longest
    True
    """
    state = PAIRS_MEASURED if is_measured else LINKS_ONLY
    return _error_classes().get((state, transport, size_class(size_bytes)))
