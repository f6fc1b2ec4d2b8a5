"""Configuration of the GPU-centric study."""

from __future__ import annotations

from pydantic import Field, field_validator

from fabricast.config.section import Section


class GpuRunConfig(Section):
    """Measurement of a GPU."""

    sizes: list[int] = Field(
        default_factory=lambda: [4**i for i in range(1, 15)], min_length=2, description="Copy sizes in bytes."
    )
    bursts: int = Field(
        default=3, ge=1, le=10_000, description="Repetitions of every measurement, spread over the run."
    )
    seconds: float = Field(
        default=0.02, gt=0, le=10, allow_inf_nan=False, description="Duration of each burst in seconds."
    )
    power_seconds: float = Field(
        default=1.0,
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="Duration of each power measurement in seconds; 0 skips power measurements.",
    )
    ordinal: int = Field(default=0, ge=0, le=1024, description="Number of the GPU among the visible GPUs.")

    @field_validator("sizes")
    @classmethod
    def _sizes_in_range(cls, sizes: list[int]) -> list[int]:
        if min(sizes) < 1 or max(sizes) > 2**32:
            raise ValueError("expected sizes of 1 byte to 4 GiB")
        if len(set(sizes)) < 2:
            raise ValueError("expected two different sizes, which a start-up time and a rate require")
        return sorted(set(sizes))


class GpuCentricConfig(Section):
    """The GPU-centric study (Froening, GTC 2016)."""

    draws: int = Field(
        default=2000,
        ge=100,
        le=1_000_000,
        description="Samples of the assumed parameters for the robustness of each statement.",
    )
    measured: bool = Field(
        default=False, description="Measure a GPU of this machine and add it to tables; needs the group 'cuda'."
    )
    gpu_run: GpuRunConfig = Field(default_factory=GpuRunConfig, description="Settings of the GPU measurement.")
