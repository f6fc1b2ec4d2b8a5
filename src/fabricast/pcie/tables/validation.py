"""Validation of the models against the packet-level simulator."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.error_statistics import (
    COMMON_TOLERANCES,
    draw_cases,
    error_histogram,
    error_statistics,
    share_intervals,
)
from fabricast.core.seeds import random_generator
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.features import describe_graphs, explain_errors
from fabricast.pcie.graphs.symmetry import canonical_forms
from fabricast.pcie.models.catalogue import VALIDATED
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.pcie.tables.predictions import predicted_s
from fabricast.pcie.topology.tree import PcieTree

#: Hardware setting whose errors are explained by graph features.
_EXPLAINED = "packets.split_256_128"
#: Seed and size of the sample of validation graphs that the author inspected while writing the back-pressure rule.
_SEEN_SEED, _SEEN_GRAPHS = 7, 1500


@dataclass(frozen=True)
class ValidationTables:
    """Table rows of the validation."""

    #: Rows as in schema.sql.
    comparison: pd.DataFrame
    error_band: pd.DataFrame
    accuracy: pd.DataFrame
    error_histogram: pd.DataFrame
    error_feature: pd.DataFrame


def _design_half(tree: PcieTree, graphs: CongestionGraphs, subset: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return a mask of the graphs that may have been used to design a model.

    Shapes: subset (graphs,); result (graphs,).
    """
    forms = [sorted(set(graphs.pairs(graph))) for graph in range(len(graphs))]
    if len(tree.endpoint_names) <= 8:
        forms = canonical_forms(tree, forms)
    hashes = [hashlib.blake2b(repr(form).encode(), digest_size=1).digest()[0] for form in forms]
    design: NDArray[np.bool_] = np.array(hashes) % 2 == 0
    validation = np.flatnonzero(subset == "validation")
    if tree.name == "storm8" and validation.size == 22259:
        seen = np.random.default_rng(_SEEN_SEED).choice(validation.size, _SEEN_GRAPHS, replace=False)
        design[validation[seen]] = True
    return design


def _subsets(
    set_name: str, graph: pd.DataFrame, graphs: CongestionGraphs, crossing: NDArray[np.bool_], design: NDArray[np.bool_]
) -> dict[str, NDArray[np.intp]]:
    """Return the indices of the communications in each subset of the error statistics."""
    of = graphs.graph_of_communication
    kind = graph["subset"].to_numpy(dtype=object)
    masks = {f"{set_name}.all": np.ones(of.size, dtype=np.bool_)}
    for name in sorted(set(kind)):
        inside = (kind == name)[of]
        stem = f"{set_name}.{name}"
        masks[stem] = inside
        for family in sorted(set(graph["family"][kind == name])):
            masks[f"{stem}.family.{family}"] = inside & (graph["family"].to_numpy(dtype=object) == family)[of]
        count = graph["communications"].to_numpy()
        for number in sorted(set(count[kind == name])):
            masks[f"{stem}.communications.{number:02d}"] = inside & (count == number)[of]
        masks[f"{stem}.crossing"] = inside & crossing
        masks[f"{stem}.local"] = inside & ~crossing
    masks[f"{set_name}.design"] = design[of]
    masks[f"{set_name}.held_out"] = ~design[of]
    return {name: np.flatnonzero(inside) for name, inside in masks.items() if inside.any()}


def validate_models(
    set_name: str,
    tree: PcieTree,
    graph: pd.DataFrame,
    communication: pd.DataFrame,
    reference: pd.DataFrame,
    parameter: pd.DataFrame,
    models: Sequence[str],
    *,
    tolerance: float,
    resamples: int,
    seed: int,
    threads: int = 1,
) -> ValidationTables:
    """Compare every model with the simulated references of one graph set.

    Hardware settings may simulate different samples of the graph set. The statistics of each setting cover only the
    graphs that were simulated with it.
    """
    every = graphs_from_rows(tree, communication)
    design = _design_half(tree, every, graph["subset"].to_numpy(dtype=object))
    # A comparison has millions of rows: categories store each text once.
    names = ("study", "case_id", "item", "quantity", "kind", "origin")
    texts = {name: pd.CategoricalDtype(pd.Index(reference[name].unique())) for name in names}
    reference = reference.astype({name: texts[name] for name in ("study", "quantity", "kind")})
    cases = reference.groupby("origin")["case_id"].nunique()
    # Feature importance is slow to compute: only the hardware setting shown in the figure is explained.
    explained = _EXPLAINED if _EXPLAINED in cases else cases.index.min()
    results = [
        _validate_alike(
            set_name,
            tree,
            graph,
            communication,
            reference[reference["origin"].isin(alike.index)],
            parameter,
            models,
            texts=texts,
            design=design,
            explained=explained,
            tolerance=tolerance,
            resamples=resamples,
            seed=seed,
            threads=threads,
        )
        for _, alike in cases.groupby(cases, sort=False)
    ]
    # Concatenate once: a first concatenation per setting would hold the rows in memory three times.
    together = zip(*(parts.values() for parts in results), strict=True)
    return ValidationTables(*(_concatenated(itertools.chain.from_iterable(of_settings)) for of_settings in together))


def _concatenated(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    some = list(frames)
    return pd.concat(some, ignore_index=True) if some else pd.DataFrame()


def _validate_alike(
    set_name: str,
    tree: PcieTree,
    graph: pd.DataFrame,
    communication: pd.DataFrame,
    reference: pd.DataFrame,
    parameter: pd.DataFrame,
    models: Sequence[str],
    *,
    texts: dict[str, pd.CategoricalDtype],
    design: NDArray[np.bool_],
    explained: str,
    tolerance: float,
    resamples: int,
    seed: int,
    threads: int,
) -> dict[str, list[pd.DataFrame]]:
    """Compare every model with references of settings that simulate the same graphs.

    Returns the frames of each table, by table.
    """
    chosen = graph["graph"].isin(set(reference["case_id"]))
    design = design[chosen.to_numpy()]
    graph = graph[chosen].reset_index(drop=True)
    communication = communication[communication["graph"].isin(graph["graph"])].reset_index(drop=True)
    key = pd.MultiIndex.from_arrays([communication["graph"], communication["communication"].astype(str)])
    graphs = graphs_from_rows(tree, communication)
    pair = graphs.source * tree.routes.endpoints + graphs.target
    subsets = _subsets(set_name, graph, graphs, tree.routes.crossing[pair], design)
    case = graphs.graph_of_communication
    generator = random_generator(seed, f"pcie.validation.{set_name}")
    features = describe_graphs(tree, graphs, generator=random_generator(seed, f"pcie.features.{set_name}"))
    counts = draw_cases(len(graphs), resamples, generator)
    tolerances = sorted({tolerance, *COMMON_TOLERANCES})
    parts: dict[str, list[pd.DataFrame]] = {
        "comparison": [],
        "band": [],
        "accuracy": [],
        "histogram": [],
        "feature": [],
    }
    errors: list[_Errors] = []
    # Each copy is kept for the models that explain the study, and for functions of the user.
    compared = [*VALIDATED, *(name for name in models if ":" in name)]
    for origin, rows in reference.groupby("origin", sort=True):
        values = parameter[parameter["system"] == f"{tree.name}.{origin}"].set_index("name")["value"]
        keywords = {"tau": values.get("tau", 0.0), "crossing_cost": values.get("crossing_cost", 1.0)}
        rows = rows.set_index(["case_id", "item"], drop=False).loc[key]
        identifiers = rows[list(texts)].reset_index(drop=True).astype(texts)
        simulated = rows["value"].to_numpy(dtype=np.float64)
        for name in models:
            predicted = predicted_s(
                tree, graphs, name, bandwidth_bytes_per_s=values["bandwidth"], threads=threads, **keywords
            )
            common = {"study": "pcie", "model": name, "kind": "simulated", "origin": str(origin)}
            errors.append(_errors(predicted, rows, common, subsets, tolerances))
            error = errors[-1].error
            parts["accuracy"].append(_accuracy(error, graphs, simulated, predicted, subsets).assign(**common))
            parts["histogram"].append(_histogram(error, subsets).assign(**common))
            if name in VALIDATED and origin == explained:
                learnt = explain_errors(features, error)
                parts["feature"].append(learnt.assign(subset=f"{set_name}.all", **common))
            if name in compared:
                parts["comparison"].append(
                    identifiers.assign(
                        model=pd.Series(name, index=identifiers.index, dtype=pd.CategoricalDtype(compared)),
                        predicted=predicted,
                        reference=simulated,
                        reference_low=rows["low"].to_numpy(),
                        reference_high=rows["high"].to_numpy(),
                        relative_error=error,
                        tolerance=tolerance,
                        within=np.abs(error) <= tolerance,
                    )
                )
    parts["band"].append(_bands(errors, case, subsets, counts, tolerances))
    return parts


@dataclass(frozen=True)
class _Errors:
    """Errors of one model against one hardware setting.

    `least` and `most` are shares of communications by subset and tolerance: those within the tolerance in every phase
    and in any phase of the arbiters.
    """

    error: NDArray[np.float64]
    least: list[list[float]]
    most: list[list[float]]
    common: dict[str, str]


def _errors(
    predicted: NDArray[np.float64],
    rows: pd.DataFrame,
    common: dict[str, str],
    subsets: dict[str, NDArray[np.intp]],
    tolerances: list[float],
) -> _Errors:
    simulated, first, last = (rows[name].to_numpy(dtype=np.float64) for name in ("value", "low", "high"))
    over_phases = (predicted / last - 1.0, predicted / first - 1.0)
    absolute = np.abs(over_phases)
    nearest, farthest = np.where(over_phases[0] * over_phases[1] < 0, 0.0, absolute.min(axis=0)), absolute.max(axis=0)
    # Keep the shares, not the errors of millions of rows, until all models are evaluated.
    least, most = (
        [_shares_within(bound[inside], tolerances) for inside in subsets.values()] for bound in (farthest, nearest)
    )
    return _Errors(predicted / simulated - 1.0, least, most, common)


def _shares_within(absolute: NDArray[np.float64], tolerances: list[float]) -> list[float]:
    return [float(np.count_nonzero(absolute <= limit) / absolute.size) for limit in tolerances]


def _bands(
    found: list[_Errors],
    case: NDArray[np.int64],
    subsets: dict[str, NDArray[np.intp]],
    counts: NDArray[np.uint8],
    tolerances: list[float],
) -> pd.DataFrame:
    """Return the shares within each tolerance with bootstrap intervals.

    There is one row per model, hardware setting, subset and tolerance.
    """
    rows: list[list[dict[str, Any]]] = [[] for _ in found]
    for subset, (name, inside) in enumerate(subsets.items()):
        # All models are resampled at once, restricted to the graphs of the subset.
        graph_index, numbers = pd.factorize(case[inside])
        sizes = np.bincount(graph_index)
        # Counts are whole numbers, so products in single precision are exact.
        hits = np.empty((numbers.size, len(found) * len(tolerances)), dtype=np.float32)
        for position, errors in enumerate(found):
            error = errors.error[inside]
            absolute, statistics = np.abs(error), error_statistics(error)
            for number, limit in enumerate(tolerances):
                within = absolute <= limit
                hits[:, position * len(tolerances) + number] = np.bincount(graph_index[within], minlength=numbers.size)
                rows[position].append(
                    {
                        "subset": name,
                        "tolerance": limit,
                        "share_within": float(np.count_nonzero(within) / inside.size),
                        "share_within_least": errors.least[subset][number],
                        "share_within_most": errors.most[subset][number],
                        **statistics,
                    }
                )
        low, high = share_intervals(hits, sizes[:, np.newaxis].astype(np.float32), counts, numbers)
        for position, model_rows in enumerate(rows):
            for number, row in enumerate(model_rows[-len(tolerances) :], position * len(tolerances)):
                row |= {"share_within_low": low[number], "share_within_high": high[number]}
    return pd.concat(
        [pd.DataFrame(model_rows).assign(**errors.common) for model_rows, errors in zip(rows, found, strict=True)],
        ignore_index=True,
    )


def _accuracy(
    error: NDArray[np.float64],
    graphs: CongestionGraphs,
    simulated: NDArray[np.float64],
    predicted: NDArray[np.float64],
    subsets: dict[str, NDArray[np.intp]],
) -> pd.DataFrame:
    """Return candidate definitions of the accuracy in the abstract, for each whole set."""
    case = graphs.graph_of_communication
    rows = []
    for name, inside in subsets.items():
        if name.count(".") != 1:
            continue
        graph_index, numbers = pd.factorize(case[inside])
        absolute = np.abs(error[inside])
        per_graph = np.bincount(graph_index, weights=absolute) / np.bincount(graph_index)
        last = [np.zeros(numbers.size), np.zeros(numbers.size)]
        for worst, values in zip(last, (simulated[inside], predicted[inside]), strict=True):
            np.maximum.at(worst, graph_index, values)
        spread = np.sum((simulated[inside] - simulated[inside].mean()) ** 2)
        residual = np.sum((predicted[inside] - simulated[inside]) ** 2)
        definitions = {
            "one minus mean error of communications": 1 - absolute.mean(),
            "one minus median error of communications": 1 - np.median(absolute),
            "one minus mean error of graphs": 1 - per_graph.mean(),
            "one minus median error of graphs": 1 - np.median(per_graph),
            "one minus mean error of the last end": 1 - np.mean(np.abs(last[1] / last[0] - 1)),
            "share of graphs with mean error below 3 %": (per_graph < 0.03).mean(),
            "share of graphs with mean error below 15 %": (per_graph < 0.15).mean(),
        }
        if spread > 0:
            definitions["coefficient of determination"] = 1 - residual / spread
        rows += [{"subset": name, "definition": key, "value": float(value)} for key, value in definitions.items()]
    return pd.DataFrame(rows)


def _histogram(error: NDArray[np.float64], subsets: dict[str, NDArray[np.intp]]) -> pd.DataFrame:
    frames = [
        error_histogram(error[inside]).assign(subset=name) for name, inside in subsets.items() if name.count(".") == 1
    ]
    return pd.concat(frames, ignore_index=True)
