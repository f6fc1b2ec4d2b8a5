"""Results of the GPU-centric study as table rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.seeds import random_generator
from fabricast.gpucentric.methods import METHODS, Values, energy_j, halo_messages, message_time_s, step_time_s
from fabricast.gpucentric.parameters import draw_values, read_all, read_values
from fabricast.gpucentric.path_fits import two_parameter_fit
from fabricast.gpucentric.selector import (
    CHOICES,
    MODELLED_SYSTEM,
    OBJECTIVES,
    crossovers,
    path_models,
    read_paths,
    select,
)
from fabricast.gpucentric.statements import ALL_BYTES, STATEMENTS
from fabricast.gpucentric.workloads import control_rows, workload_rows
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.parameters import parameter_table

_OVERLAPS = tuple(np.round(np.linspace(0, 1, 5), 2).tolist())
_NODES = (2, 4, 8, 12, 16)
#: Computation time of a step in s in the tables of predictions and choices: a small time step of a GPU application.
COMPUTE_S = 1e-3
_FEASIBLE_STEPS = 61


@dataclass(frozen=True)
class GpuCentricTables:
    """Rows that the study adds to the results tables."""

    gpucentric_prediction: pd.DataFrame
    gpucentric_choice: pd.DataFrame
    gpucentric_statement: pd.DataFrame
    gpucentric_observation: pd.DataFrame
    gpucentric_crossover: pd.DataFrame
    gpucentric_feasible: pd.DataFrame
    gpucentric_path: pd.DataFrame
    gpucentric_control: pd.DataFrame
    #: Rows as in schema.sql.
    gpucentric_workload: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame


def gpucentric_tables(observations: Path | str, *, draws: int, seed: int) -> GpuCentricTables:
    """Evaluate methods, statements, selector and measured paths."""
    paths = read_paths()
    path_rows, prediction, reference = _measured_paths(paths)
    value = read_values(MODELLED_SYSTEM)
    drawn = draw_values(MODELLED_SYSTEM, draws, random_generator(seed, "gpucentric.statements"))
    statements = _statements(value, drawn, draws)
    return GpuCentricTables(
        _predictions(),
        _choices(paths),
        statements,
        _observations(observations, statements),
        _crossovers(paths),
        _feasible(),
        path_rows,
        control_rows(value, drawn),
        workload_rows(value),
        prediction,
        reference,
        parameter_table(list(read_all())),
    )


def _predictions() -> pd.DataFrame:
    value = read_values(MODELLED_SYSTEM)
    parts = []
    for name in METHODS:
        message = message_time_s(name, value, ALL_BYTES)
        for nodes in _NODES:
            communication = message * halo_messages(nodes)
            for overlap in _OVERLAPS:
                total = step_time_s(name, value, communication, COMPUTE_S, overlap)
                energy = energy_j(name, value, total, communication, COMPUTE_S)
                parts.append(
                    pd.DataFrame(
                        {
                            "system": MODELLED_SYSTEM,
                            "method": name,
                            "size_bytes": ALL_BYTES,
                            "nodes": nodes,
                            "overlap": overlap,
                            "time_s": total,
                            "energy_j": energy,
                            "power_w": energy / total,
                        }
                    )
                )
    return pd.concat(parts, ignore_index=True)


def _choices(paths: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for system in (MODELLED_SYSTEM, *dict.fromkeys(paths["system"])):
        modelled = system == MODELLED_SYSTEM
        sizes = ALL_BYTES if modelled else np.unique(paths["size_bytes"][paths["system"] == system])
        for objective in OBJECTIVES if modelled else ("time",):
            for size in sizes.tolist():
                for nodes in _NODES:
                    for overlap in _OVERLAPS:
                        choice = select(
                            system,
                            size,
                            nodes=nodes,
                            overlap=overlap,
                            compute_s=COMPUTE_S,
                            objective=objective,  # type: ignore[arg-type]
                        )
                        rows.append(
                            {
                                "system": system,
                                "size_bytes": size,
                                "nodes": nodes,
                                "overlap": overlap,
                                "objective": objective,
                                "method": choice.method,
                                "path": choice.path,
                                "margin": choice.margin,
                                "tie": choice.tie,
                            }
                        )
    return pd.DataFrame(rows)


def _statements(default: Values, drawn: Values, draws: int) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for entry in STATEMENTS:
        holds = np.atleast_1d(entry.holds(drawn))
        passed = bool(np.all(entry.holds(default)))
        rows.append(
            {
                "statement": entry.name,
                "text": entry.text,
                "slides": entry.slides,
                "decided_by": entry.decided_by,
                "passed": passed,
                "observed": float(passed) if entry.observe is None else entry.observe(default),
                "share_of_draws": float(holds.mean()),
                "draws": draws if holds.size > 1 else 1,
            }
        )
    return pd.DataFrame(rows)


def _observations(path: Path | str, statements: pd.DataFrame) -> pd.DataFrame:
    passed = dict(zip(statements["statement"], statements["passed"], strict=True))
    columns = ("observation", "slide", "text", "tag", "marks", "workloads", "confidence", "statement")
    rows = []
    for row in read_csv(path, columns):
        # Observations of low confidence, with only the number of marks known, cannot be checked.
        firm = row["confidence"] in ("", "high", "medium")
        verdicts = [passed[name] for name in row["statement"].split()] if firm else []
        rows.append({**row.fields, "passed": all(verdicts) if verdicts else None})
    return pd.DataFrame(rows)


def _curves(paths: pd.DataFrame, system: str) -> dict[str, Callable[[float], float]]:
    if system == MODELLED_SYSTEM:
        value = read_values(system)
        return {name: (lambda n, name=name: float(message_time_s(name, value, n))) for name in CHOICES}  # type: ignore[misc]
    models = path_models(paths[paths["system"] == system])
    return {name: (lambda n, model=model: float(model(n))) for name, model in models.items()}  # type: ignore[misc]


def _crossovers(paths: pd.DataFrame) -> pd.DataFrame:
    parts = []
    for system in (MODELLED_SYSTEM, *dict.fromkeys(paths["system"])):
        curves = _curves(paths, system)
        high = ALL_BYTES[-1] if system == MODELLED_SYSTEM else float(paths["size_bytes"].max())
        parts.append(crossovers(curves, 8.0, high).assign(system=system))
        if system == MODELLED_SYSTEM:
            parts += [
                crossovers({name: curves[name] for name in pair}, 8.0, high).assign(
                    system=f"{system}: {pair[0]} or {pair[1]}"
                )
                for pair in (("ggas", "mpi"), ("rma", "mpi"), ("ggas", "rma"))
            ]
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def _feasible() -> pd.DataFrame:
    """Evaluate the statements G04 and G06 on a grid of the two unpublished rates."""
    store, peer = (
        a.ravel() for a in np.meshgrid(np.geomspace(1e8, 4e9, _FEASIBLE_STEPS), np.geomspace(1e8, 4e9, _FEASIBLE_STEPS))
    )
    value: dict[str, Any] = dict(read_values(MODELLED_SYSTEM))
    value |= {"store_rate": store[:, None], "peer_rate_large": peer[:, None]}
    value["peer_rate_small"] = np.maximum(peer[:, None], value["peer_rate_small"])

    holds = {entry.name: entry.holds for entry in STATEMENTS}
    return pd.DataFrame(
        {
            "store_rate": store,
            "peer_rate_large": peer,
            "small_holds": holds["G04"](value),
            "large_holds": holds["G06"](value),
        }
    )


def _two_parameters(size: NDArray[np.float64], time: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times of the two-parameter fit at the fitted sizes."""
    start_up, per_byte = two_parameter_fit(size, time)
    return start_up + per_byte * size


def _measured_paths(paths: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    rows, predictions, references = [], [], []
    for system, part in paths.groupby("system", sort=True):
        part = part.sort_values("size_bytes").reset_index(drop=True)
        size = part["size_bytes"].to_numpy(dtype=np.float64)
        staged = (part["device_to_host_s"] + part["host_s"] + part["host_to_device_s"]).to_numpy()
        measured = {"staged": staged, "direct": part["direct_s"].to_numpy()}
        modelled = {
            "two_parameters": {path: _two_parameters(size, time) for path, time in measured.items()},
            "piecewise": {path: model(size) for path, model in path_models(part).items()},
            "piecewise_unseen": {path: np.empty(size.size) for path in measured},
        }
        for left_out in range(size.size):
            rest = path_models(part.drop(index=left_out))
            for path in measured:
                modelled["piecewise_unseen"][path][left_out] = float(rest[path](size[left_out]))
        fastest = np.minimum(measured["staged"], measured["direct"])
        right = np.where(measured["staged"] < measured["direct"], "staged", "direct")
        for model, times in modelled.items():
            chosen = np.where(times["staged"] < times["direct"], "staged", "direct")
            chosen_s = np.where(chosen == "staged", measured["staged"], measured["direct"])
            rows.append(
                pd.DataFrame(
                    {
                        "system": system,
                        "model": model,
                        "size_bytes": size,
                        "staged_s": measured["staged"],
                        "direct_s": measured["direct"],
                        "modelled_staged_s": times["staged"],
                        "modelled_direct_s": times["direct"],
                        "chosen": chosen,
                        "correct": chosen == right,
                        "regret": chosen_s / fastest - 1,
                    }
                )
            )
        for path, time in measured.items():
            common = {
                "study": "gpucentric",
                "case_id": [f"{system}/{int(n)}" for n in size],
                "item": path,
                "quantity": "time",
                "unit": "s",
            }
            references.append(
                pd.DataFrame({**common, "kind": "measured", "origin": "BenchPress", "value": time, "tag": "measured"})
            )
            predictions += [
                pd.DataFrame({**common, "model": model, "value": modelled[model][path]})
                for model in ("two_parameters", "piecewise_unseen")
            ]
    return tuple(pd.concat(frames, ignore_index=True) for frames in (rows, predictions, references))  # type: ignore[return-value]
