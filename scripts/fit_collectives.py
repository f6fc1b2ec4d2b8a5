"""Fit the constants of the time model of collective operations on measured machines.

Writes config/published/collectives/constants.csv, whose intervals are the range over fits that leave one machine out,
errors.csv with the errors of forecasts of all_reduce, and state_errors.csv with those by what is known about a machine.
"""

from __future__ import annotations

import csv
import dataclasses
import sys
from functools import partial

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from fabricast.collectives.constants import Constants, constants, from_values
from fabricast.collectives.evidence.errors import LEFT_OUT, error_table, machine_errors, state_errors
from fabricast.collectives.evidence.measured import MeasuredCase, measured_cases, measured_machine
from fabricast.collectives.expected import SIZE_CLASSES
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.plan import nccl_plan
from fabricast.collectives.step_rates import Transport
from fabricast.core.resources import published
from fabricast.nccl.costs import Operation

#: Start values: the specification's trial.
START = {
    "launch_s": 9.9e-6,
    "start_s": 3.3e-6,
    "ll_step_s": 1.05e-6,
    "ll_latency": 1.25,
    "simple_latency": 6.1,
    "hidden_ratio": 7.2,
    "turn_latency": 0.92,
    "gen4_efficiency": 0.95,
    "gen5_efficiency": 0.83,
    "host_efficiency": 0.6,
    "host_one_way_efficiency": 0.9,
}
UNITS = {name: "s" if name.endswith("_s") else "1" for name in START}
#: Rows that are not used: another timer measures short operations (wrx90-A), and assumed latencies or
#: transports decide short operations of asus8. Operations without a model of their own kernels (alltoall) are not used
#: either.
SMALL_EXCLUDED = ("wrx90-A", "asus8")
#: Rows within another program are not used at all.
EXCLUDED = ("asus4_sglang",)
LARGE = "from 1 MiB"


#: Constants of machines whose hops pass through host memory; the others are fitted on direct copies alone, because the
#: rates of host memory of most machines are unknown.
OF_HOST_MEMORY = ("launch_s", "host_efficiency", "host_one_way_efficiency")


class Data:
    """Cases of the fit with the models of their machines, and NCCL's choice at each size."""

    def __init__(self) -> None:
        self.cases: list[tuple[MeasuredCase, CollectiveModel, list, bool]] = []
        for case in measured_cases():
            if case.operation is not Operation.ALLTOALL and case.system not in EXCLUDED:
                machine = measured_machine(case.system)
                model = CollectiveModel(machine, case.operation, nccl_plan(machine), from_values(START))
                choices = model.choices(case.size_bytes)
                is_direct = all(hop.transport is Transport.P2P for hop in model.step(choices[-1][0]).hops)
                self.cases.append((case, model, choices, is_direct))

    def loss(self, known: Constants, *, direct: bool, without: str = "") -> float:
        """Return the mean of |log(forecast / measured)|, each machine and size class with equal weight."""
        parts: dict[tuple[str, str], list[float]] = {}
        for case, model, choices, is_direct in self.cases:
            if model.communicator.tree.name == without or is_direct != direct:
                continue
            model.known = known
            errors = np.abs(np.log(model.chosen_times(choices, case.size_bytes) / case.measured_s))
            for name in SIZE_CLASSES:
                is_class = case.of_class(name)
                if is_class.any() and (name == LARGE or case.system not in SMALL_EXCLUDED):
                    parts.setdefault((case.system, name), []).append(float(errors[is_class].mean()))
        return float(np.mean([np.mean(values) for values in parts.values()]))


def _loss(
    data: Data, fixed: dict[str, float], names: list[str], direct: bool, without: str, logarithms: np.ndarray
) -> float:
    known = from_values({**fixed, **dict(zip(names, np.exp(logarithms), strict=True))})
    return data.loss(known, direct=direct, without=without)


def fit(data: Data, start: dict[str, float], without: str = "") -> tuple[dict[str, float], list[float]]:
    """Return the constants with the least loss: first those of direct copies, then those of host memory."""
    values, losses = dict(start), []
    for direct in (True, False):
        names = [name for name in start if (name in OF_HOST_MEMORY) != direct]

        loss = partial(_loss, data, dict(values), names, direct, without)
        best = None
        for seed in range(1 if without else 3):
            shift = 0.0 if seed == 0 else np.random.default_rng(seed).normal(0, 0.1, len(names))
            options = {"maxfev": 4000, "adaptive": True, "xatol": 1e-4, "fatol": 1e-6}
            origin = np.log([values[name] for name in names]) + shift
            found = minimize(loss, origin, method="Nelder-Mead", options=options)
            if best is None or found.fun < best.fun:
                best = found
        values |= dict(zip(names, np.exp(best.x).tolist(), strict=True))
        losses.append(float(best.fun))
    return values, losses


def main() -> None:
    """Fit, leave each machine out once, and write the table."""
    data = Data()
    values, loss = fit(data, START)
    print("loss", loss, {name: float(f"{value:.4g}") for name, value in values.items()}, file=sys.stderr)
    trees = sorted({model.communicator.tree.name for _, model, _, _ in data.cases})
    others = {}
    for tree in trees:
        others[tree], loss = fit(data, values, tree)
        print(f"without {tree}: loss", loss, file=sys.stderr)
    path = published() / "collectives" / "constants.csv"
    with path.open("w", newline="") as file:
        file.write(
            "# Written by scripts/fit_collectives.py: fit to measurements.csv; intervals leave one machine out.\n"
        )
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "value", "unit", "ci_low", "ci_high", "source"])
        for field in dataclasses.fields(Constants):
            name = field.name
            every = [values[name], *(found[name] for found in others.values())]
            cells = [f"{number:.4g}" for number in (values[name], min(every), max(every))]
            writer.writerow([name, cells[0], UNITS[name], *cells[1:], "fit, config/published/collectives"])
    constants.cache_clear()
    write_errors({tree: from_values(found) for tree, found in others.items()})


def write_errors(left_out: dict[str, Constants]) -> None:
    """Write the errors of all_reduce, with constants of all machines and with the machine left out."""
    baselines = {"NCCL's estimate": "nccl_s", "alpha-beta with the pair rate": "alpha_beta_s"}
    table = pd.concat(
        [
            error_table(machine_errors(), {"fabricast": "forecast_s", **baselines}),
            error_table(machine_errors(left_out), {LEFT_OUT: "forecast_s"}),
        ]
    ).sort_values(["transport", "size_class"], kind="stable")
    path = published() / "collectives" / "errors.csv"
    rows = table.round({"median": 4, "within_band": 4, "worst": 4}).to_csv(index=False, lineterminator="\n")
    path.write_text(
        f"# Written by scripts/fit_collectives.py: errors of forecasts of all_reduce on measured machines.\n{rows}"
    )
    print(table.to_string(index=False), file=sys.stderr)
    states = state_errors(left_out).to_csv(index=False, lineterminator="\n")
    head = (
        "# Written by scripts/fit_collectives.py: errors of all_reduce by what is known about the machine, left out.\n"
    )
    (published() / "collectives" / "state_errors.csv").write_text(head + states)


if __name__ == "__main__":
    main()
