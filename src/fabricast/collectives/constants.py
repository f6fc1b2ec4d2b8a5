"""Constants of the time model of NCCL's kernels, fitted on public machines, the same for all machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from fabricast.collectives.step_rates import Transport
from fabricast.core.resources import published
from fabricast.inputs.csv_files import read_csv


@dataclass(frozen=True)
class Constants:
    """Start-up times, latencies and efficiencies of NCCL's kernels."""

    launch_s: float  # Shortest time of an operation: that of launching its kernels
    start_s: float  # Start of an operation
    ll_step_s: float  # Part of the time of a step of LL that does not depend on the latency of the pair
    ll_latency: float  # Latencies of the pair in a step of LL
    simple_latency: float  # Latencies of the pair in a step of Simple, with its synchronisation
    #: Ratio of the transfer time of a step to the latency of a step of Simple at which half of the latency is hidden.
    hidden_ratio: float
    turn_latency: float  # Latencies of the pair between two turns of a block of LL
    #: Share of the rate of copies that direct copies of NCCL's kernels reach, up to PCIe Gen4 and from Gen5 on.
    gen4_efficiency: float
    gen5_efficiency: float
    #: Share of the rate of copies through host memory, if the GPUs use both directions of their links, and one.
    host_efficiency: float
    host_one_way_efficiency: float

    def efficiency(self, *, is_gen5: bool) -> dict[tuple[Transport, bool], float]:
        """Return the share of the rate of copies by transport and use of both directions."""
        direct = self.gen5_efficiency if is_gen5 else self.gen4_efficiency
        return {
            (Transport.P2P, True): direct,
            (Transport.P2P, False): direct,
            (Transport.SHM, True): self.host_efficiency,
            (Transport.SHM, False): self.host_one_way_efficiency,
        }


def from_values(values: Mapping[str, float]) -> Constants:
    """Return constants from a mapping of their names."""
    return Constants(**{field.name: float(values[field.name]) for field in fields(Constants)})


@lru_cache(maxsize=1)
def constants() -> Constants:
    """Return the fitted constants (config/published/collectives/constants.csv)."""
    rows = read_csv(
        published() / "collectives" / "constants.csv", ["name", "value", "unit", "ci_low", "ci_high", "source"]
    )
    return from_values({row["name"]: row.number("value") for row in rows})
