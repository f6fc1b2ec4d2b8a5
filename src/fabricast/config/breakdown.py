"""Configuration of the breakdown study."""

from __future__ import annotations

from pydantic import Field

from fabricast.config.section import Section


class BreakdownConfig(Section):
    """The breakdown study (Zambre et al., ICPP 2019)."""

    systems: list[str] = Field(
        default_factory=list,
        description="Additional systems: names in config/systems, or YAML files in the same format.",
    )
    measured: bool = Field(
        False, description="Measure an MPI message on this machine and add it to tables; needs the group 'measure'."
    )
    iterations: int = Field(20_000, ge=100, le=10_000_000, description="Samples of each measured region.")
    samples: int = Field(
        20_000, ge=100, le=10_000_000, description="Monte Carlo samples of the component times within their spreads."
    )
