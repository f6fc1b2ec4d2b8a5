"""Effect of settings of NCCL and of another ring order on a forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.communicator import Communicator
from fabricast.collectives.forecast import CollectiveForecast
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.plan import Plan, nccl_plan, with_order
from fabricast.nccl.search import search_rings


def times_with(forecast: CollectiveForecast, communicator: Communicator) -> NDArray[np.float64]:
    """Return the times at the sizes of a forecast with other settings of the machine, in s."""
    size = forecast.table["size_bytes"].to_numpy(dtype=np.float64)
    model = CollectiveModel(communicator, forecast.operation, nccl_plan(communicator))
    return model.chosen_times(model.choices(size), size)


def best_order_plan(forecast: CollectiveForecast) -> Plan:
    """Return NCCL's plan with the best ring order, and the speed of its search if no ring fits."""
    plan = forecast.plan
    order = forecast.orders.best if forecast.orders is not None else plan.orders[0]
    if plan.rings.is_fallback:
        # A file must state a speed at which NCCL's cost table ranks the protocols rightly.
        speed = search_rings(replace(forecast.communicator.nccl, capability=8.0))
        if not speed.is_fallback:
            plan = replace(plan, rings=speed, trees=speed)
    return with_order(plan, order)
