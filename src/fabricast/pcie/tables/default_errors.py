"""Errors of the default rates of machines without measurements, with each public computer left out in turn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fabricast.core.units import PROTOCOL_EFFICIENCY
from fabricast.inputs.csv_files import CsvRow
from fabricast.inputs.pair_rates import (
    BOTH_WAYS,
    HOST_KINDS,
    ONE_WAY,
    SWITCHED,
    PublicShare,
    direct_link_share,
    host_link_bytes_per_s,
    host_link_share,
    is_old_geforce,
    link_class,
    link_kind,
    nominal_bytes_per_s,
    pair_rows,
    pcie_share,
    raw_bytes_per_s,
    staged_share,
)
from fabricast.pcie.machines.calibrate import DUPLEX_COST

#: Error up to which a forecast counts as good.
_BAND = 0.15


def default_errors() -> pd.DataFrame:
    """Return the error of default rates by class of copies."""
    rows: dict[str, list[tuple[str, float, float, bool]]] = {}
    for row in pair_rows():
        for name, share, rate, plain in _cases(row):
            measured = row.number("median") * 1e9
            is_inside = share.lowest * rate <= measured <= share.highest * rate
            error, plain_error = abs(share.median * rate / measured - 1), abs(plain / measured - 1)
            rows.setdefault(name, []).append((row["host"], error, plain_error, is_inside))
    return pd.DataFrame(
        {
            "copy_class": name,
            "machines": len({host for host, *_ in found}),
            "figures": len(found),
            "median": np.median([error for _, error, _, _ in found]),
            "third_quartile": np.percentile([error for _, error, _, _ in found], 75),
            "within_band": np.mean([error <= _BAND for _, error, _, _ in found]),
            "worst": max(error for _, error, _, _ in found),
            "inside": np.mean([inside for *_, inside in found]),
            "link_median": np.median([plain for _, _, plain, _ in found]),
        }
        for name, found in rows.items()
    ).round(4)


def _cases(row: CsvRow) -> Iterator[tuple[str, PublicShare, float, float]]:
    """Yield class, share on the other machines, rate of the link, and rate by the payload share of the link."""
    kind, host, raw, nominal = row["kind"], row["host"], raw_bytes_per_s(row), nominal_bytes_per_s(row)
    generation = int(row["pcie_generation"]) if row["pcie_generation"].isdigit() else None
    path = row["path_class"]
    if kind in HOST_KINDS and (rate := host_link_bytes_per_s(row)) is not None:
        yield "copies over NVLink-C2C", host_link_share(without=host), rate, rate
    elif kind in HOST_KINDS and raw is not None:
        yield "host copies", pcie_share(generation, without=host), raw, raw * PROTOCOL_EFFICIENCY
    elif kind.endswith("_staged") and raw is not None:
        way = BOTH_WAYS if kind == "both_ways_staged" else ONE_WAY
        name = "staged copies, both ways" if way == BOTH_WAYS else "staged copies"
        share = staged_share(
            generation,
            way,
            below_switch=path in SWITCHED,
            old_geforce=is_old_geforce(row["gpu"]),
            gpus=int(row["gpus"]),
            without=host,
        )
        plain = raw * PROTOCOL_EFFICIENCY * (2 if way == BOTH_WAYS else 1)
        yield name, share, raw, plain
    elif kind.endswith("_p2p") and path.startswith(("NV", "xGMI")):
        way = BOTH_WAYS if kind == "both_ways_p2p" else ONE_WAY
        share = direct_link_share(link_kind(row), without=host)
        if nominal is not None and share.machines:
            factor = 2.0 if way == BOTH_WAYS else 1.0
            links = link_class(link_kind(row))
            name = f"{links}, both ways" if way == BOTH_WAYS else links
            yield name, share.scaled(factor), nominal, nominal * factor
    elif kind.endswith("_p2p") and raw is not None:
        share = pcie_share(generation, without=host)
        if kind == "both_ways_p2p":
            factor = 2 / (1 + DUPLEX_COST)
            both = pcie_share(generation, direction=BOTH_WAYS, without=host)._replace(median=share.median * factor)
            yield "direct copies, both ways", both, raw, raw * PROTOCOL_EFFICIENCY * factor
        else:
            yield "direct copies", share, raw, raw * PROTOCOL_EFFICIENCY
