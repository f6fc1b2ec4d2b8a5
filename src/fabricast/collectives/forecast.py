"""Forecast of a collective operation: times, NCCL's choices, limits, better choices, and a measured log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.collectives.calibration import StepScale
from fabricast.collectives.communicator import Communicator
from fabricast.collectives.expected import ExpectedError, expected_error, size_class
from fabricast.collectives.model import Choice, CollectiveModel
from fabricast.collectives.orders import OrderSearch, search_orders
from fabricast.collectives.plan import Plan, nccl_plan, with_order
from fabricast.collectives.question import Prepared
from fabricast.collectives.short_tables import short_table
from fabricast.collectives.step_rates import StepRate, Transport
from fabricast.core.errors import InputError
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.nccl.costs import COST_OPERATIONS, Algorithm, Operation, Protocol, bus_factor
from fabricast.nccl.records import NcclTestsTable

#: Sizes of nccl-tests in bytes: powers of two from 256 bytes to 256 MiB.
DEFAULT_SIZES = tuple(float(1 << power) for power in range(8, 29))
#: The same up to 8 GiB, with which clusters and NVLink nodes are tested.
CLUSTER_SIZES = tuple(float(1 << power) for power in range(8, 34))
#: Gain below which another choice is not better.
LEAST_GAIN = 1.05
#: Ratio of times below which the ring is preferred to a tree.
_NEAR = 1.02


@dataclass(frozen=True, repr=False)
class CollectiveForecast:
    """Forecast of an operation on a machine.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per size: size_bytes, time_us, algorithm_gb_per_s, bus_gb_per_s, algorithm, protocol, channels, limit,
        best_algorithm, best_protocol, best_time_us, gain; nccl_time_us, NCCL's estimate, unless its search falls back;
        earliest_us and latest_us if the error is known, or rates are not; measured_us and measured_over_forecast with a
        log.
    operation : Operation
        Operation.
    communicator : Communicator
        Machine.
    plan : Plan
        Rings, trees and transports of NCCL.
    step : StepRate
        Hops of the choice at the largest size with their rates.
    bottleneck : str
        Directed link or resource that limits the step.
    shared_by : tuple of str
        Copies on that link, as ``source>target``.
    orders : OrderSearch or None
        Ring orders; None for operations without rings.
    gain_of_order : float
        Ratio of the time of NCCL's order to that of the best order at the largest size; 1 if it is the best.
    warnings : tuple of CodedWarning
        Assumptions.
    stated_sizes : frozenset of int
        Sizes in bytes whose choice a log states; the others are emulated.
    """

    table: pd.DataFrame
    operation: Operation
    communicator: Communicator
    plan: Plan
    step: StepRate
    bottleneck: str
    shared_by: tuple[str, ...]
    orders: OrderSearch | None
    gain_of_order: float
    warnings: tuple[CodedWarning, ...]
    stated_sizes: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.table.attrs["warnings"] = [str(one) for one in self.warnings]

    @property
    def transports(self) -> dict[str, list[str]]:
        """Hops of the step, as ``source>target``, by transport."""
        names = self.communicator.ranks
        hops: dict[str, list[str]] = {}
        for hop in self.step.hops:
            hops.setdefault(hop.transport.value, []).append(f"{names[hop.source]}>{names[hop.target]}")
        return hops

    def __repr__(self) -> str:
        return f"{self.operation} of {len(self.communicator.ranks)} GPUs\n{short_table(self.table)}"

    def _repr_html_(self) -> str:
        return str(self.table._repr_html_())  # type: ignore[operator]  # hidden from stubs


def forecast_operation(
    communicator: Communicator,
    operation: Operation,
    *,
    sizes: Sequence[float] = DEFAULT_SIZES,
    plan: Plan | None = None,
    log: NcclTestsTable | None = None,
    choices: Mapping[int, Choice] | None = None,
    scale: StepScale | None = None,
) -> CollectiveForecast:
    """Forecast the times of an operation."""
    plan = nccl_plan(communicator) if plan is None else plan
    scale = StepScale() if scale is None else scale
    model = CollectiveModel(communicator, operation, plan, scale.known)
    if log is not None:
        _check_log(log, operation, len(communicator.ranks))
        sizes = [row.size_bytes for row in log.rows if row.size_bytes > 0]
    size = np.array(sizes, dtype=np.float64)
    chosen = [
        (choices or {}).get(int(one), emulated)
        for one, emulated in zip(size.tolist(), model.choices(size), strict=True)
    ]
    time_s = model.chosen_times(chosen, size)
    best, best_s = _best(model, chosen, time_s, size)
    factor = bus_factor(operation, model.ranks)
    channels = [int(model.channels(choice, size[place : place + 1])[0]) for place, choice in enumerate(chosen)]
    table = pd.DataFrame(
        {
            "size_bytes": size.astype(np.int64),
            "time_us": time_s * 1e6,
            "algorithm_gb_per_s": size / time_s / 1e9,
            "bus_gb_per_s": size / time_s * factor / 1e9,
            "algorithm": [str(choice[0]) for choice in chosen],
            "protocol": [str(choice[1]) for choice in chosen],
            "channels": channels,
            "limit": [str(limit) for limit in model.limits(chosen, size)],
            "best_algorithm": [str(choice[0]) for choice in best],
            "best_protocol": [str(choice[1]) for choice in best],
            "best_time_us": best_s * 1e6,
            "gain": time_s / best_s,
        }
    )
    estimates = model.nccl_times(chosen, size)
    if estimates is not None:
        table["nccl_time_us"] = estimates * 1e6
    step = model.step(chosen[-1][0])
    bounds = _range(model, chosen, size, time_s)
    if bounds is not None:
        table["earliest_us"], table["latest_us"] = bounds[0] * 1e6, bounds[1] * 1e6
    if log is not None:
        measured_s = np.array([row.time_s for row in log.rows if row.size_bytes > 0])
        table["measured_us"], table["measured_over_forecast"] = measured_s * 1e6, measured_s / time_s
    orders, gain = None, 1.0
    if operation in COST_OPERATIONS:
        orders = search_orders(communicator, transports=plan.transports, orders=plan.orders)
        gain = _gain_of_order(model, orders, size[-1:], chosen[-1])
    slowest = model.slowest_hop(chosen[-1][0])
    return CollectiveForecast(
        table,
        operation,
        communicator,
        plan,
        step,
        step.bottlenecks[slowest],
        step.sharers[slowest],
        orders,
        gain,
        (*communicator.warnings, *_scale_warnings(scale), *_warnings(model, log), _error_note(model, chosen, size)),
        frozenset(choices or {}),
    )


def forecast_prepared(prepared: Prepared, sizes: Sequence[float] = DEFAULT_SIZES) -> CollectiveForecast:
    """Forecast an operation from the inputs of a user, with the choices that their log states."""
    return forecast_operation(
        prepared.communicator,
        prepared.operation,
        sizes=sizes,
        plan=prepared.plan,
        log=prepared.log,
        choices=prepared.choices,
        scale=prepared.scale,
    )


def _range(
    model: CollectiveModel, chosen: Sequence[Choice], size: NDArray[np.float64], time_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the shortest and longest time at each size in s; None if nothing is known about the error.

    For all_reduce, the range is that of public machines in the same state of information. Other operations were not
    measured on several machines: their range is that of the rates.
    """
    found = expected_errors(model, chosen, size)
    if found is not None:
        low = np.array([min(one.shortest, 1.0) for one in found])
        high = np.array([max(one.longest, 1.0) for one in found])
        return time_s * low, time_s * high
    step, share = model.step(chosen[-1][0]), model.communicator.machine.default_share
    # Rates that were not measured are those of public machines, with their range.
    spread = (1.0, 1.0) if share is None else (share.lowest / share.median, share.highest / share.median)
    if share is None and step.low_bytes_per_s >= step.high_bytes_per_s * (1 - 1e-9):
        return None
    return model.bounds(chosen, size, spread)


def expected_errors(
    model: CollectiveModel, chosen: Sequence[Choice], size: NDArray[np.float64]
) -> list[ExpectedError] | None:
    """Return the error of public machines at each size; None for operations and transports without such machines."""
    if model.operation is not Operation.ALL_REDUCE:
        return None
    hops = model.step(chosen[-1][0]).hops
    transport = Transport.P2P if all(hop.transport is Transport.P2P for hop in hops) else Transport.SHM
    is_measured = _has_pairs(model)
    found = [
        expected_error(is_measured=is_measured, transport=transport.value, size_bytes=one) for one in size.tolist()
    ]
    errors = [one for one in found if one is not None]
    return errors if len(errors) == len(found) else None


def _unknown_host_text(model: CollectiveModel) -> str:
    """Return what the times of hops through host memory follow, and what else to measure."""
    if model.communicator.machine.staged_bytes_per_s:
        return (
            "the rate of host memory under several copies at once was not measured: times follow the measured pairs; "
            "measure copies of host memory ('fabricast probes machine.yaml --run') or one all_reduce of 64 MiB"
        )
    return (
        "copies pass through host memory, whose rates were not measured: times are those of public hosts; "
        "measure copies of host memory ('fabricast probes machine.yaml --run'), pairs without peer access "
        "(p2pBandwidthLatencyTest), or one all_reduce of 64 MiB"
    )


def _has_pairs(model: CollectiveModel) -> bool:
    """Return whether copies between pairs of GPUs were measured, direct or through host memory."""
    machine = model.communicator.machine
    return machine.is_measured or bool(machine.staged_bytes_per_s)


def _error_note(model: CollectiveModel, chosen: Sequence[Choice], size: NDArray[np.float64]) -> CodedWarning:
    """Return a note about the expected error, by class of sizes."""
    found = expected_errors(model, chosen, size)
    if model.communicator.has_bridges:
        text = (
            f"the expected error of {model.operation} over PCIe and bridges is unknown: no such machine was "
            "forecast and measured; 'fabricast reference' prints the public times of similar ones"
        )
        return CodedWarning(WarningCode.EXPECTED_ERROR, text)
    if found is None:
        text = f"the expected error of {model.operation} over PCIe is unknown: too few machines are public"
        return CodedWarning(WarningCode.EXPECTED_ERROR, text)
    of_class = {size_class(one): error for one, error in zip(size.tolist(), found, strict=True)}
    medians = ", ".join(f"{100 * error.median:.2g} % {name}" for name, error in of_class.items())
    held = ", ".join(f"{100 * error.coverage:.0f}" for error in of_class.values())
    counts = sorted({error.machines for error in of_class.values()})
    known = "with" if _has_pairs(model) else "without"
    text = (
        f"expected error {known} measured pairs (medians of {' to '.join(map(str, counts))} public machines, each left "
        f"out of the fit): {medians}; the ranges contain {held} % of their times"
    )
    return CodedWarning(WarningCode.EXPECTED_ERROR, text)


def _scale_warnings(scale: StepScale) -> list[CodedWarning]:
    """Return a note about the measurement that scales the rates of steps."""
    if not scale.origin:
        return []
    text = f"the rates of copies are multiplied by {scale.factor:.3g}, because {scale.origin} in this ratio"
    return [CodedWarning(WarningCode.STEP_RATE_SCALED, text)]


def _best(
    model: CollectiveModel, chosen: Sequence[Choice], time_s: NDArray[np.float64], size: NDArray[np.float64]
) -> tuple[list[Choice], NDArray[np.float64]]:
    """Return the fastest permitted choice at each size; that of NCCL unless another gains more than the usual error."""
    best, best_s = list(chosen), time_s.copy()
    if model.communicator.has_bridges:
        # How far the gains are off is unknown.
        return best, best_s
    errors = expected_errors(model, chosen, size)
    least = np.array([max(LEAST_GAIN, 1 + error.median) for error in errors]) if errors else LEAST_GAIN
    for pair in sorted(model.pairs, key=lambda pair: pair[0] is Algorithm.TREE):
        if pair[1] is Protocol.LL128:
            continue
        other_s = model.times(pair, size)
        for place in np.flatnonzero((other_s * _NEAR < best_s) & (other_s * least < time_s)).tolist():
            best[place], best_s[place] = pair, other_s[place]
    return best, best_s


def _gain_of_order(model: CollectiveModel, orders: OrderSearch, size: NDArray[np.float64], choice: Choice) -> float:
    """Return how much faster the best order is than that of the plan at one size."""
    current = max((orders.rate_of(order) for order in model.plan.orders), default=orders.best_bytes_per_s)
    if current >= orders.best_bytes_per_s * 0.99 or choice[0] is not Algorithm.RING:
        return 1.0
    other = CollectiveModel(model.communicator, model.operation, with_order(model.plan, orders.best), model.known)
    # The order with the fastest slowest hop may take longer: then NCCL's order is the best that is known.
    return max(1.0, float(model.times(choice, size)[0] / other.times(choice, size)[0]))


def _check_log(log: NcclTestsTable, operation: Operation, ranks: int) -> None:
    if log.operation is not None and log.operation is not operation:
        raise InputError(f"is of {log.operation}, expected {operation}", argument="log")
    if log.hosts > 1:
        raise InputError(
            f"is of {log.hosts} hosts, expected one; 'fabricast diagnose' compares it with public clusters",
            argument="log",
        )
    if log.ranks is not None and log.ranks != ranks:
        raise InputError(
            f"has {log.ranks} ranks, expected {ranks} as in the topology; specify ranks, the GPU of each",
            argument="log",
        )
    if not log.rows:
        reason = f": line {log.excluded[0][0]}: {log.excluded[0][1]}" if log.excluded else ""
        raise InputError(f"has no valid row, expected at least one size{reason}", argument="log")


def _warnings(model: CollectiveModel, log: NcclTestsTable | None) -> list[CodedWarning]:
    """Return the assumptions of a forecast."""
    warnings = []
    settings, step = model.communicator.settings, model.step(model.choices(np.array([2.0**28]))[0][0])
    if settings.ignored:
        warnings.append(
            CodedWarning(WarningCode.SETTING_IGNORED, f"no effect on the forecast: {', '.join(settings.ignored)}")
        )
    if any(hop.transport is Transport.SHM for hop in step.hops) and not model.communicator.knows_host_memory:
        warnings.append(CodedWarning(WarningCode.HOST_RATES_UNKNOWN, _unknown_host_text(model)))
    if Protocol.LL128 in (settings.protocols or ()):
        warnings.append(
            CodedWarning(
                WarningCode.NOT_VALIDATED, "times of LL128 are not calibrated: no measurements on PCIe are public"
            )
        )
    if model.operation in (Operation.SENDRECV, Operation.REDUCE_SCATTER) or (
        model.operation is not Operation.ALL_REDUCE and model.ranks > 2
    ):
        warnings.append(
            CodedWarning(
                WarningCode.NOT_VALIDATED,
                f"{model.operation} of {model.ranks} GPUs is not validated: no measurements over PCIe are public",
            )
        )
    elif model.operation is Operation.ALLTOALL:
        text = "no constant is fitted to alltoall; the table collective_time compares it with public measurements"
        warnings.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if log is not None and log.excluded:
        line, reason = log.excluded[0]
        warnings.append(
            CodedWarning(
                WarningCode.LOG_ROWS_EXCLUDED,
                f"{len(log.excluded)} rows are excluded, for example line {line}: {reason}",
            )
        )
    return warnings
