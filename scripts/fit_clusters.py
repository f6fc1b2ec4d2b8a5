"""Fit the constants of the time model of NCCL over NVLink and between nodes on public machines.

Writes config/published/collectives/cluster_constants.csv, whose values have the least robust relative error within the
bounds of the file, and cluster_model_errors.csv with the errors of each machine by constants that were fitted without
it. A fit lasts about a minute, all of them about six.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from scipy.optimize import least_squares

from fabricast.collectives.clusters.constants import COLUMNS, fitted_constants
from fabricast.collectives.clusters.evidence import MANY_NODES, PublicCase, cluster_errors, public_cases
from fabricast.collectives.clusters.times import ClusterTimes
from fabricast.collectives.expected import size_class
from fabricast.core.resources import published

#: Virtual machines are slow for small sizes: only sizes from this one on are fitted.
_LARGE = 1 << 20
#: Relative error from which a row counts less and less: single runs contradict all others.
_ROBUST = 0.02


def _rows(without: str) -> list[tuple[PublicCase, np.ndarray, np.ndarray]]:
    """Return the fitted sizes of each case, with the weights of its rows."""
    cases = [
        (case, (case.size_bytes >= _LARGE) | (not case.is_virtual))
        for case in public_cases()
        if case.cluster.nodes <= MANY_NODES and case.computer != without
    ]
    keys = [
        [(case.machine, case.cluster.nodes > 1, size_class(size)) for size in case.size_bytes[chosen].tolist()]
        for case, chosen in cases
    ]
    counts = Counter(key for part in keys for key in part)
    return [
        (case, chosen, np.array([counts[key] ** -0.5 for key in part]))
        for (case, chosen), part in zip(cases, keys, strict=True)
        if len(part)
    ]


def _fit(without: str = "") -> dict[str, float]:
    """Return the constants with the least error."""
    constants, rows = fitted_constants(), _rows(without)
    # A constant without bounds is no result of this fit.
    fixed = {name: one.value for name, one in constants.items() if one.low == one.high}
    names = [name for name in constants if name not in fixed]
    low, high = (np.log([getattr(constants[name], end) for name in names]) for end in ("low", "high"))
    # The middle of the bounds: what the rows do not determine stays there, also if a computer is left out.
    start = (low + high) / 2

    def errors(logarithms: np.ndarray) -> np.ndarray:
        known = fixed | dict(zip(names, np.exp(logarithms).tolist(), strict=True))
        found = []
        for case, chosen, weights in rows:
            times = ClusterTimes(case.cluster, case.operation, known)
            of_pair = {pair: times.times(pair, case.size_bytes) for pair in set(case.choices)}
            forecast = np.array([of_pair[pair][place] for place, pair in enumerate(case.choices)])
            found.append(weights * np.log(forecast / case.measured_s)[chosen])
        return np.concatenate(found)

    best = least_squares(errors, start, bounds=(low, high), loss="cauchy", f_scale=_ROBUST, max_nfev=60)
    print(f"without {without or 'none'}: cost {best.cost:.4f}", file=sys.stderr, flush=True)
    return fixed | dict(zip(names, np.exp(best.x).tolist(), strict=True))


def main() -> None:
    """Fit, leave each machine out once, and write the tables."""
    constants, folder = fitted_constants(), published() / "collectives"
    machines = sorted({case.computer for case in public_cases()})
    with ProcessPoolExecutor(2) as pool:
        values, *others = pool.map(_fit, ["", *machines])
    errors = cluster_errors(dict(zip(machines, others, strict=True)))
    head = "# Errors of forecasts of collectives over NVLink and between nodes, each machine left out of the fit.\n"
    head += "# Written by scripts/fit_clusters.py.\n"
    (folder / "cluster_model_errors.csv").write_text(head + errors.to_csv(index=False, lineterminator="\n"))
    with (folder / "cluster_constants.csv").open("w", newline="") as file:
        file.write(
            "# Constants of the time model of NCCL over NVLink and between nodes: value, and bounds of the fit.\n"
        )
        file.write("# Written by scripts/fit_clusters.py; spread: values with one machine left out.\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, old in constants.items():
            spread = [found[name] for found in (values, *others)]
            cells = [f"{number:.4g}" for number in (values[name], old.low, old.high, min(spread), max(spread))]
            writer.writerow([name, cells[0], old.unit, *cells[1:], old.meaning])
    print(errors.to_string(index=False), file=sys.stderr)


if __name__ == "__main__":
    main()
