"""Files for NCCL with better choices: tuner rules and ring orders."""

from __future__ import annotations

from collections.abc import Sequence

from fabricast.collectives.alternatives import best_order_plan
from fabricast.collectives.forecast import CollectiveForecast
from fabricast.core.errors import InputError
from fabricast.nccl.costs import COST_OPERATIONS
from fabricast.nccl.graph_files import graph_text
from fabricast.nccl.tuner_files import TunerRule, tuner_text

_UNDO = "test: run nccl-tests with and without this file and compare; undo: unset the variable"


def tuner_rules(forecast: CollectiveForecast) -> list[TunerRule]:
    """Return the best choice of each range of sizes, as rules of the tuner plugin."""
    if forecast.operation not in COST_OPERATIONS:
        raise InputError(f"is {forecast.operation}, for which a tuner plugin has no rules", argument="operation")
    table = forecast.table
    choices = list(zip(table["best_algorithm"], table["best_protocol"], strict=True))
    sizes = table["size_bytes"].tolist()
    rules: list[TunerRule] = []
    start = 0
    for place in range(1, len(choices) + 1):
        if place < len(choices) and choices[place] == choices[start]:
            continue
        least = 0 if start == 0 else sizes[start]
        most = (1 << 40) if place == len(choices) else sizes[place] - 1
        algorithm, protocol = choices[start]
        rules.append(
            TunerRule(forecast.operation, least, most, algorithm, protocol, ranks=len(forecast.communicator.ranks))
        )
        start = place
    return rules


def _gain_lines(forecast: CollectiveForecast) -> list[str]:
    table = forecast.table
    gain = float(table["gain"].max())
    text = f"{forecast.operation} of {len(forecast.communicator.ranks)} GPUs of {forecast.communicator.tree.name}"
    return [f"{text}: expected gain at most {gain:.2f} (forecast by fabricast, not measured)"]


def tuner_file_text(forecast: CollectiveForecast) -> str:
    """Return a file for NCCL's example tuner plugin, with a header that states machine, gain, test and undo."""
    header: Sequence[str] = [
        *_gain_lines(forecast),
        "use: NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=this file",
        _UNDO,
    ]
    return tuner_text(tuner_rules(forecast), header)


def graph_file_text(forecast: CollectiveForecast) -> str:
    """Return a graph file for NCCL with the best ring order."""
    plan = best_order_plan(forecast)
    order = " ".join(map(str, plan.orders[0]))
    gain = max(forecast.gain_of_order, float(forecast.table["gain"].max()) if forecast.plan.rings.is_fallback else 1.0)
    comment = (
        f"{forecast.operation} of {len(forecast.communicator.ranks)} GPUs of {forecast.communicator.tree.name}: ring "
        f"order {order}, expected gain at most {gain:.2f} (forecast by fabricast, not measured). Use: "
        f"NCCL_GRAPH_FILE=this file. {_UNDO}."
    )
    return graph_text(plan.rings, comment)
