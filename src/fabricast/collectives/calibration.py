"""Scale of the rates of steps from measurements that do not state them: staged pairs, or one large all_reduce."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from fabricast.collectives.communicator import Communicator
from fabricast.collectives.constants import Constants, constants
from fabricast.collectives.model import CollectiveModel
from fabricast.collectives.plan import Plan
from fabricast.collectives.step_rates import StepRate, Transport
from fabricast.collectives.times import StepTimes
from fabricast.core.errors import InputError
from fabricast.core.facts import Fact
from fabricast.core.number_text import size_text
from fabricast.machine.staging import StagedRates
from fabricast.nccl.costs import Operation, Protocol

#: Size in bytes from which the rate of steps determines the time of an all_reduce.
_LARGE = 64 << 20
#: Factors beyond which a measured row belongs to another machine, or to one with a fault.
_LEAST, _MOST = 0.05, 2.0


@dataclass(frozen=True)
class StepScale:
    """Factor of the rates of steps."""

    factor: float = 1.0
    origin: str = ""  # Measurement that determines it, in words; empty for none
    is_of_host: bool = False  # Whether it is that of hops through host memory, and not of direct ones

    @property
    def known(self) -> Constants:
        """Constants of the time model with the scaled efficiencies."""
        fitted = constants()
        scaled = ("host_efficiency", "host_one_way_efficiency") if self.is_of_host else ("efficiency",)
        names = [field.name for field in fields(Constants) if field.name.endswith(scaled)]
        return replace(fitted, **{name: getattr(fitted, name) * self.factor for name in names})


def is_calibration(table: Fact) -> bool:
    """Return whether a measured table has an all_reduce that determines the rate of steps."""
    rows = table.value.rows
    return table.value.operation is Operation.ALL_REDUCE and any(row.size_bytes >= _LARGE for row in rows)


def step_scale(group: Communicator, plan: Plan, measured: Fact | None) -> StepScale:
    """Return the scale from a large all_reduce, else from the staged pairs of hops through host memory."""
    if measured is not None:
        return _of_all_reduce(CollectiveModel(group, Operation.ALL_REDUCE, plan), measured)
    model = CollectiveModel(group, Operation.ALL_REDUCE, plan)
    if not _uses_host(model.step(model.choices(np.array([float(_LARGE)]))[0][0])) or group.knows_host_memory:
        return StepScale()
    relation = StagedRates(group.machine).relation_to_public
    if relation is None:
        return StepScale()
    text = "staged copies of pairs, which were measured without peer access, relate to those of public machines"
    return StepScale(relation, text, is_of_host=True)


def _uses_host(step: StepRate) -> bool:
    return any(hop.transport is Transport.SHM for hop in step.hops)


def _of_all_reduce(model: CollectiveModel, measured: Fact) -> StepScale:
    """Return the scale with which the forecast of the largest size is the measured time."""
    table, ranks = measured.value, len(model.communicator.ranks)
    if table.ranks is not None and table.ranks != ranks:
        raise InputError(
            f"has {table.ranks} ranks, expected {ranks} as in the topology; specify ranks, the GPU of each",
            path=measured.place.path,
        )
    row = max(table.rows, key=lambda row: row.size_bytes)
    size = np.array([float(row.size_bytes)])
    choice = (model.choices(size)[0][0], Protocol.SIMPLE)
    step = model.step_times(choice[0])
    whole = float(model.times(choice, size)[0])
    fixed = float(model.times(choice, size, step=StepTimes(1e18, step.latency_s))[0])
    factor = (whole - fixed) / max(row.time_s - fixed, 1e-12)
    if not _LEAST <= factor <= _MOST:
        raise InputError(
            f"has an all_reduce of {size_text(size[0])} in {row.time_s * 1e6:.4g} us, which is {1 / factor:.3g} times "
            "the forecast: it is of another machine or shows a fault; compare it with 'fabricast diagnose'",
            path=measured.place.path,
            line=measured.place.line,
        )
    return StepScale(factor, f"the measured all_reduce of {size_text(size[0])} relates to its forecast")
