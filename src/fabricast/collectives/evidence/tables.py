"""Result tables of the study of collective operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from fabricast.collectives.clusters.evidence import cluster_times
from fabricast.collectives.communicator import Communicator
from fabricast.collectives.evidence.errors import LEFT_OUT, case_times, error_table, one_row_per_size, recorded_errors
from fabricast.collectives.evidence.measured import MeasuredCase, gpu_of, measured_cases, measured_machine
from fabricast.collectives.expected import size_class
from fabricast.collectives.forecast import CollectiveForecast
from fabricast.collectives.plan import Plan, nccl_plan
from fabricast.core.resources import published
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.pair_rates import pair_rows, raw_bytes_per_s

_FORECASTS = {"fabricast": "forecast_s", "nccl_estimate": "nccl_s", "alpha_beta": "alpha_beta_s"}
_STUDY = "collectives"


@dataclass(frozen=True)
class CollectiveTables:
    """Result tables of the study."""

    collective_machine: pd.DataFrame
    collective_time: pd.DataFrame
    collective_error: pd.DataFrame
    #: Rows as defined in schema.sql.
    cluster_time: pd.DataFrame
    cluster_error: pd.DataFrame
    pair_rate: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame


def collective_tables(user_supplied: Sequence[tuple[str, CollectiveForecast]] = ()) -> CollectiveTables:
    """Return the tables of the measured machines and of machines of the user.

    >>> tables = collective_tables()
    >>> sorted(tables.collective_time["transport"].unique().tolist())
    ['P2P', 'SHM']
    """
    times = pd.concat([_case_rows(case) for case in measured_cases()], ignore_index=True)
    machines = [
        _machine_row(case.system, gpu_of(case.system), group, nccl_plan(group), user_supplied=False)
        for case in measured_cases()
        for group in [measured_machine(case.system)]
    ]
    errors = pd.concat([error_table(times, _FORECASTS), _left_out_errors()], ignore_index=True)
    for name, forecast in user_supplied:
        times = pd.concat([times, _own_rows(name, forecast)], ignore_index=True)
        models = ", ".join(dict.fromkeys(forecast.communicator.machine.models.values())) or "unknown"
        machines.append(_machine_row(name, models, forecast.communicator, forecast.plan, user_supplied=True))
    predictions = [
        times[["system", "operation", "size_bytes", column]].rename(columns={column: "value"}).assign(model=model)
        for model, column in _FORECASTS.items()
    ]
    prediction = pd.concat(predictions, ignore_index=True).dropna(subset=["value"])
    reference = times[["system", "operation", "size_bytes", "measured_s", "source"]].rename(
        columns={"measured_s": "value", "source": "origin"}
    )
    reference = reference.assign(kind="measured", spread=None, low=None, high=None, tag="measured")
    return CollectiveTables(
        pd.DataFrame(machines).drop_duplicates("system"),
        times,
        errors,
        cluster_times(),
        pd.read_csv(published() / "collectives" / "cluster_model_errors.csv", comment="#"),
        _pair_rates(),
        _cases(prediction),
        _cases(reference),
        _parameters(),
    )


def _case_rows(case: MeasuredCase) -> pd.DataFrame:
    """Return the rows of one measured operation; a size that was measured twice has the mean of its times."""
    model = case.model()
    choices = model.choices(case.size_bytes)
    rows = case_times(case, model).assign(
        algorithm=[str(choice[0]) for choice in choices],
        protocol=[str(choice[1]) for choice in choices],
        limited_by=[str(limit) for limit in model.limits(choices, case.size_bytes)],
        user_supplied=False,
        source=case.source,
    )
    return one_row_per_size(rows)


def _own_rows(name: str, forecast: CollectiveForecast) -> pd.DataFrame:
    table = forecast.table
    transport = "P2P" if set(forecast.transports) == {"P2P"} else "SHM"
    nccl = table["nccl_time_us"] * 1e-6 if "nccl_time_us" in table else float("nan")
    return pd.DataFrame(
        {
            "system": name,
            "operation": str(forecast.operation),
            "transport": transport,
            "size_class": [size_class(size) for size in table["size_bytes"]],
            "size_bytes": table["size_bytes"].astype(float),
            "measured_s": table["measured_us"] * 1e-6,
            "forecast_s": table["time_us"] * 1e-6,
            "nccl_s": nccl,
            "alpha_beta_s": float("nan"),
            "algorithm": table["algorithm"],
            "protocol": table["protocol"],
            "limited_by": table["limit"],
            "user_supplied": True,
            "source": "log of the user",
        }
    )


def _machine_row(
    system: str, gpu: str, communicator: Communicator, plan: Plan, *, user_supplied: bool
) -> dict[str, object]:
    settings = communicator.settings
    return {
        "system": system,
        "topology": communicator.tree.name,
        "ranks": len(communicator.ranks),
        "gpu": gpu,
        "cpu": str(settings.cpu),
        "capability": settings.capability,
        "nccl_version": ".".join(map(str, settings.version)),
        "channels": plan.channels,
        "ring_gb_per_s": plan.rings.total_gb_per_s,
        "is_fallback": plan.rings.is_fallback,
        "pair_bytes_per_s": communicator.machine.rates.one_way_bytes_per_s,
        "knows_host_memory": communicator.knows_host_memory,
        "user_supplied": user_supplied,
    }


def _cases(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the keys of the tables prediction and reference."""
    return rows.assign(
        study=_STUDY,
        case_id=rows["system"] + "." + rows["operation"],
        item=rows["size_bytes"].map("{:.0f}".format),
        quantity="elapsed",
        unit="s",
    ).drop(columns=["system", "operation", "size_bytes"])


def _left_out_errors() -> pd.DataFrame:
    """Return the recorded errors of forecasts of machines that are left out of the fit of the constants."""
    return pd.DataFrame(
        {
            "transport": row["transport"],
            "size_class": row["size_class"],
            "forecast": "fabricast_left_out",
            **{name: int(row.number(name)) for name in ("rows", "machines")},
            **{name: row.number(name) for name in ("median", "within_band", "worst")},
        }
        for row in recorded_errors()
        if row["forecast"] == LEFT_OUT
    )


def _pair_rates() -> pd.DataFrame:
    """Return the public rates of pairs of GPUs and of host copies, without latencies."""
    return pd.DataFrame(
        {
            "machine": row["machine"],
            "gpu": row["gpu"],
            "gpus": int(row["gpus"]) if row["gpus"].isdigit() else None,
            "pcie": "" if raw_bytes_per_s(row) is None else f"{row['pcie_generation']} x{row['width']}",
            "path_class": row["path_class"],
            "kind": row["kind"],
            "rate_bytes_per_s": 1e9 * row.number("median"),
            "lowest_bytes_per_s": 1e9 * row.number("lowest"),
            "highest_bytes_per_s": 1e9 * row.number("highest"),
            "source": row["source"],
        }
        for row in pair_rows()
        if not row["kind"].startswith("latency")
    ).astype({"gpus": "Int64"})


def _parameters() -> pd.DataFrame:
    """Return the constants of the time model as parameters."""
    names = ["name", "value", "unit", "ci_low", "ci_high", "source"]
    return pd.DataFrame(
        {
            "study": _STUDY,
            "system": "nccl_kernels",
            "name": row["name"],
            "value": row.number("value"),
            "unit": row["unit"],
            "tag": "derived",
            "source": row["source"],
            "ci_low": row.number("ci_low"),
            "ci_high": row.number("ci_high"),
        }
        for row in read_csv(published() / "collectives" / "constants.csv", names)
    )
