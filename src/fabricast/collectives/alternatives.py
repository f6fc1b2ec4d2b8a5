"""Effect of settings of NCCL and of another ring order on a forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.collectives.forecast import CollectiveForecast
from fabricast.collectives.machine import CollectiveMachine
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.plan import Plan, nccl_plan, with_order
from fabricast.nccl.costs import Algorithm, Operation, Protocol
from fabricast.nccl.search import search_rings
from fabricast.nccl.system import PathType

__all__ = ["best_order_plan", "setting_gains", "times_with"]


def times_with(forecast: CollectiveForecast, machine: CollectiveMachine) -> NDArray[np.float64]:
    """Return the times at the sizes of a forecast with other settings of the machine, in s."""
    size = forecast.table["size_bytes"].to_numpy(dtype=np.float64)
    model = CollectiveModel(machine, forecast.operation, nccl_plan(machine))
    return model.chosen_times(model.choices(size), size)


def setting_gains(forecast: CollectiveForecast) -> pd.DataFrame:
    """Return the forecast effect of settings of NCCL."""
    settings = forecast.machine.settings
    size = forecast.table["size_bytes"].to_numpy(dtype=np.float64)
    time_s = forecast.table["time_us"].to_numpy() * 1e-6
    small = np.flatnonzero(size <= 2.0**19)
    places = {"gain_small": int(np.median(small)) if small.size else None, "gain_large": size.size - 1}
    changes: dict[str, dict[str, object]] = {
        "NCCL_P2P_LEVEL=SYS": {"p2p_level": PathType.SYS},
        "NCCL_P2P_DISABLE=1": {"has_peer_access": False},
        "NCCL_PROTO=LL": {"protocols": frozenset({Protocol.LL})},
        "NCCL_PROTO=Simple": {"protocols": frozenset({Protocol.SIMPLE})},
        "NCCL_ALGO=Ring": {"algorithms": frozenset({Algorithm.RING})},
        "NCCL_ALGO=Tree": {"algorithms": frozenset({Algorithm.TREE})},
        "NCCL_MIN_NCHANNELS=8": {"least_channels": 8},
        "NCCL_BUFFSIZE=1048576": {"buffer_size": 1 << 20},
        "NCCL_BUFFSIZE=8388608": {"buffer_size": 8 << 20},
    }
    rows = []
    for name, change in changes.items():
        if forecast.operation is not Operation.ALL_REDUCE and "NCCL_ALGO" in name:
            continue
        machine = replace(forecast.machine, settings=replace(settings, **change))  # type: ignore[arg-type]
        times = times_with(forecast, machine)
        gains = {
            column: float("nan") if place is None else float(time_s[place] / times[place])
            for column, place in places.items()
        }
        rows.append({"setting": name, **gains})
    return pd.DataFrame(rows)


def best_order_plan(forecast: CollectiveForecast) -> Plan:
    """Return NCCL's plan with the best ring order, and the speed of its search if no ring fits."""
    plan = forecast.plan
    order = forecast.orders.best if forecast.orders is not None else plan.orders[0]
    if plan.rings.is_fallback:
        # A file must state a speed at which NCCL's cost table ranks the protocols rightly.
        speed = search_rings(replace(forecast.machine.nccl, capability=8.0))
        if not speed.is_fallback:
            plan = replace(plan, rings=speed, trees=speed)
    return with_order(plan, order)
