"""Performance models of PCIe, GPU, MPI and network communication.

The functions of this module return topologies, congestion graphs and data frames of predictions.

>>> import fabricast as fc
>>> tree = fc.load_topology("storm8")
>>> times = fc.predict(tree, fc.halo_exchange(tree, (4, 2), size="300 MiB"))
>>> times["bottleneck"].value_counts().idxmax()
'link S0 > RC'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fabricast.api.breakdown import WhatIf, what_if
    from fabricast.api.calibrations import calibrate
    from fabricast.api.gpucentric import select_method
    from fabricast.api.graphs import (
        all_to_all,
        collective,
        graph,
        halo_exchange,
        host_copies,
        load_topology,
        network_card_copies,
        read_graphs,
    )
    from fabricast.api.machines import validate_machine
    from fabricast.api.maxrate import fit_max_rate
    from fabricast.api.percs import link_loads
    from fabricast.api.prediction_table import Prediction
    from fabricast.api.predictions import predict
    from fabricast.api.runs import Run, open_run
    from fabricast.api.schedules import FastestSchedule, fastest_schedule
    from fabricast.core.errors import InputError

__version__ = "0.1.0"
#: Module of each public name. Modules are imported when their names are first used.
_HOME = {
    "FastestSchedule": "api.schedules",
    "InputError": "core.errors",
    "Prediction": "api.prediction_table",
    "Run": "api.runs",
    "WhatIf": "api.breakdown",
    "all_to_all": "api.graphs",
    "calibrate": "api.calibrations",
    "collective": "api.graphs",
    "fastest_schedule": "api.schedules",
    "fit_max_rate": "api.maxrate",
    "graph": "api.graphs",
    "halo_exchange": "api.graphs",
    "host_copies": "api.graphs",
    "link_loads": "api.percs",
    "load_topology": "api.graphs",
    "network_card_copies": "api.graphs",
    "open_run": "api.runs",
    "predict": "api.predictions",
    "read_graphs": "api.graphs",
    "select_method": "api.gpucentric",
    "simulate": "api.simulations",
    "validate_machine": "api.machines",
    "what_if": "api.breakdown",
}
__all__ = [
    "FastestSchedule",
    "InputError",
    "Prediction",
    "Run",
    "WhatIf",
    "__version__",
    "all_to_all",
    "calibrate",
    "collective",
    "fastest_schedule",
    "fit_max_rate",
    "graph",
    "halo_exchange",
    "host_copies",
    "link_loads",
    "load_topology",
    "network_card_copies",
    "open_run",
    "predict",
    "read_graphs",
    "select_method",
    "simulate",
    "validate_machine",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    from fabricast.core.errors import near_names

    raise AttributeError(f"module '{__name__}' has no '{name}'{near_names(name, _HOME)}")


def __dir__() -> list[str]:
    return sorted(__all__)
