"""Configuration of the study of two-level direct networks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fabricast.config.section import Section

WorkloadName = Literal[
    "2D-64", "4D-64", "MChalf-64", "MCnear-64", "MCrand-64", "MCstride-64", "2D-300", "4D-300", "MChalf-300"
]
BlockedName = Literal["2D-64", "4D-64", "MChalf-64", "2D-300", "4D-300", "MChalf-300"]


class PercsConfig(Section):
    """The study of two-level direct networks (Bhatele et al., SC11)."""

    workloads: list[WorkloadName] = Field(
        default=[
            "2D-64",
            "4D-64",
            "MChalf-64",
            "MCnear-64",
            "MCrand-64",
            "MCstride-64",
            "2D-300",
            "4D-300",
            "MChalf-300",
        ],
        min_length=1,
        description="Patterns on 64 or 300 supernodes; 4D-64 is required.",
    )
    seeds: int = Field(default=30, ge=1, le=1000, description="Number of random mappings of each kind.")
    sensitivity: bool = Field(
        default=True, description="Also vary gateway rules, parallel links, open grids and placements."
    )
    simulated: list[BlockedName] = Field(
        default=["2D-64", "4D-64", "MChalf-64"], min_length=1, description="Patterns to simulate at packet level."
    )
    simulated_seeds: int = Field(
        default=2, ge=1, le=1000, description="Number of random mappings of each kind to simulate."
    )
    packet_kib: float = Field(
        default=512.0, ge=1, le=1e6, allow_inf_nan=False, description="Largest packet of the simulation in KiB."
    )
    window: int = Field(default=256, ge=1, le=1_000_000, description="Number of packets in flight per router.")
    shards: int = Field(default=1, ge=1, le=64, description="Number of jobs for link loads and the simulation.")
    searched: list[BlockedName] = Field(
        default=["4D-64"], min_length=1, description="Patterns to search a mapping for."
    )
    proposals: int = Field(
        default=2_000_000, ge=1000, le=10_000_000_000, description="Number of swaps that a search tries."
    )

    @model_validator(mode="after")
    def _evaluated(self) -> PercsConfig:
        if "4D-64" not in self.workloads:
            raise ValueError("expected '4D-64' among the workloads, which claims and figures require")
        missing = [name for name in (*self.simulated, *self.searched) if name not in self.workloads]
        if missing:
            raise ValueError(f"workloads lacks '{missing[0]}', which is simulated or searched")
        if self.simulated_seeds > self.seeds:
            raise ValueError(f"simulated_seeds is {self.simulated_seeds}, expected at most seeds = {self.seeds}")
        return self
